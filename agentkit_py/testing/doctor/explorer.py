"""A model that calls each tool it is offered once, with arguments made up from the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from agentkit_py._core.json import as_list, as_object
from agentkit_py.testing.provider import ReceivedRequest, Reply, tool_calls

_DEEPEST = 6


class Explorer:
    """Replies for `FakeProvider`: first all tools of an agent in one reply, then a text."""

    def __init__(self) -> None:
        self._called: set[str] = set()

    def __call__(self, request: ReceivedRequest) -> Reply:
        """Call what was not called yet; where a tool must be called, one at a time."""
        tools = dict(_tools_of(request.body))
        new = [name for name in tools if name not in self._called]
        if _is_forced(request.body) and tools:
            new = new[:1] or list(tools)[-1:]
        self._called.update(new)
        if not new:
            return "That is all."
        return tool_calls(*((name, sample(tools[name])) for name in new))


def _tools_of(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and schemas, whichever provider's request it is."""
    for given in as_list((as_object(body) or {}).get("tools")) or []:
        entry = as_object(given) or {}
        for tool in as_list(entry.get("functionDeclarations")) or [entry.get("function", entry)]:
            schemas = (tool.get(k) for k in ("parameters", "input_schema", "parametersJsonSchema"))
            yield tool["name"], next((found for found in schemas if found), {})


def _is_forced(body: Any) -> bool:
    text = str((as_object(body) or {}).get("tool_choice") or body.get("toolConfig") or "auto")
    return not any(word in text.lower() for word in ("auto", "none"))


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that fit a tool's schema, as far as a schema says what fits."""
    found = _value(schema, schema, 0)
    return found if isinstance(found, dict) else {}


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        return _value(_resolved(schema["$ref"], root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        choices = [one for one in schema.get(key) or () if one.get("type") != "null"]
        if choices:
            return _value(choices[0], root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object")
    name = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
    name = str(cast("object", name)).lower()
    if name == "object":
        fields = schema.get("properties") or {}
        return {key: _value(value, root, depth + 1) for key, value in fields.items()}
    if name == "array":
        one = schema.get("items") or {}
        return [_value(one, root, depth + 1) for _ in range(schema.get("minItems", 1))]
    if name in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    if name == "string":
        return "doctor".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
    return {"boolean": False}.get(name)


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {})
    return found
