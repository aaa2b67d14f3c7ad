"""A model that calls each tool it is offered once, with arguments made up from the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.testing.provider import ReceivedRequest, Reply, tool_calls

_DEEPEST = 6
_SELECT = "select_agent"


class Explorer:
    """Replies for `FakeProvider`: first all tools of an agent in one reply, then a text.

    Args:
        agents: Names that the default routing agent may choose.
    """

    def __init__(self, agents: Sequence[str] = ()) -> None:
        self._agents = agents
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
        return tool_calls(*((name, self._arguments(name, tools[name])) for name in new))

    def _arguments(self, tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        found = sample(schema)
        return {**found, "name": self._agents[0]} if tool == _SELECT and self._agents else found


def _tools_of(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and schemas, whichever provider's request it is."""
    for given in as_list((as_object(body) or {}).get("tools")) or []:
        entry = as_object(given) or {}
        for tool in as_list(entry.get("functionDeclarations")) or [entry.get("function", entry)]:
            found: dict[str, Any] = {}
            for key in ("parameters", "input_schema", "parametersJsonSchema"):
                found = tool.get(key) or found
            yield tool["name"], found


def _is_forced(body: Any) -> bool:
    text = str((as_object(body) or {}).get("tool_choice") or body.get("toolConfig") or "auto")
    return not any(word in text.lower() for word in ("auto", "none"))


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that fit a tool's schema, as far as a schema says what fits."""
    return as_object(_value(schema, schema, 0)) or {}


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
    kinds = as_list(schema.get("type", "object")) or [schema.get("type", "object")]
    name = next((str(kind).lower() for kind in kinds if kind != "null"), "null")
    if name == "object":
        fields: dict[str, Any] = schema.get("properties") or {}
        return {key: _value(value, root, depth + 1) for key, value in fields.items()}
    if name == "array":
        one: dict[str, Any] = schema.get("items") or {}
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
