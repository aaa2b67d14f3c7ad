"""Tool schemas in the forms that providers take, and undoing on the way back what that changed.

The source is plain JSON Schema: pydantic's (draft 2020-12, ``$defs``) or zod's. Each form is made
once per `ToolSpec` and kept in ``spec.forms``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from agentkit_py._core.json import JsonValue, as_list, as_object
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.schema_gemini import gemini_schema
from agentkit_py.models.schema_strict import NotStrict, strict_schema
from agentkit_py.models.schema_walk import (
    Schema,
    accepts_null,
    is_free_form,
    map_subschemas,
    object_root,
    resolve,
    types_of,
)

__all__ = [
    "anthropic_form",
    "anthropic_schema",
    "drop_added_nulls",
    "gemini_form",
    "gemini_schema",
    "openai_form",
    "openai_schema",
    "undo_form",
]

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def openai_schema(schema: Schema) -> tuple[dict[str, Any], bool]:
    """The schema for OpenAI's function calling, and whether it is strict.

    Strict: every property required and the optional ones nullable, no further properties, only
    keywords that strict mode knows. A schema that cannot be said so (free-form objects, tuples,
    negations, unions at the root, …) keeps its meaning and is not strict.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas

    Raises:
        ToolDefinitionError: The arguments are no object, or a reference is broken.
    """
    try:
        strict = strict_schema(schema)
    except NotStrict:
        return plain_openai_schema(schema), False
    return {"$schema": DRAFT_7, **_draft_7(strict)}, True


def plain_openai_schema(schema: Schema) -> dict[str, Any]:
    """The schema for OpenAI's format without strict mode: its root an object, arrays with items."""
    plain = _draft_7(object_root(schema))
    return {"$schema": DRAFT_7, **plain}


def anthropic_schema(schema: Schema | None) -> dict[str, Any]:
    """The schema for Anthropic: its root an object and no union.

    Source: https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use

    Raises:
        ToolDefinitionError: The arguments are no object, or a reference is broken.
    """
    if schema is None:
        return {
            "$schema": DRAFT_2020,
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        }
    root = object_root(schema)
    root.pop("$schema", None)
    return {"$schema": DRAFT_2020, **root}


def openai_form(spec: ToolSpec, *, strict: bool = True) -> tuple[dict[str, Any] | None, bool]:
    """`openai_schema` of a tool, made once; no schema for a tool without parameters.

    Raises:
        ToolDefinitionError: See `openai_schema`.
    """
    if spec.parameters is None:
        return None, False
    parameters = spec.parameters
    if strict and spec.strict is not False:
        return _form(spec, "openai", lambda: openai_schema(parameters))
    return _form(spec, "openai.plain", lambda: plain_openai_schema(parameters)), False


def anthropic_form(spec: ToolSpec) -> dict[str, Any]:
    """`anthropic_schema` of a tool, made once."""
    return _form(spec, "anthropic", lambda: anthropic_schema(spec.parameters))


def gemini_form(spec: ToolSpec) -> dict[str, Any] | None:
    """`gemini_schema` of a tool, made once; None where Gemini wants no parameters at all."""
    if spec.parameters is None:
        return None
    parameters = spec.parameters
    return _form(spec, "gemini", lambda: gemini_schema(parameters))


def _form(spec: ToolSpec, key: str, make: Callable[[], Any]) -> Any:
    if key not in spec.forms:
        try:
            spec.forms[key] = make()
        except ToolDefinitionError as error:
            reason = str(error).removeprefix(f"Tool {error.tool!r}: ")
            raise ToolDefinitionError(spec.name, reason) from None
    return spec.forms[key]


def _draft_7(schema: Any) -> Any:
    """The schema with draft-7 ``definitions`` and items on every array (OpenAI insists)."""
    node = as_object(schema)
    if node is None:
        return schema
    changed = map_subschemas(node, _draft_7)
    changed.pop("$schema", None)
    if "$defs" in changed:
        changed["definitions"] = {**changed.pop("$defs"), **changed.get("definitions", {})}
    ref = changed.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        changed["$ref"] = "#/definitions/" + ref.removeprefix("#/$defs/")
    if "array" in types_of(changed):
        changed.setdefault("items", {})
    return changed


def undo_form(spec: ToolSpec, schema: Schema | None, arguments: JsonValue) -> JsonValue:
    """A model's arguments for a tool without what our encoding asked of it.

    See `drop_added_nulls`, which has nothing to do for most calls: that is seen here.

    Args:
        spec: The tool; what is found out about its schema is kept with its forms.
        schema: The schema of its arguments.
        arguments: What the model passed.
    """
    if schema is None:
        return arguments
    known = spec.forms.get("free")
    if known is None or known[0] is not schema:
        known = spec.forms["free"] = (schema, _may_be_free(schema))
    if not known[1] and not _holds_null(arguments):
        return arguments
    return drop_added_nulls(schema, arguments)


def _may_be_free(node: Any) -> bool:
    """Whether an object without named properties may be anywhere in a schema."""
    if isinstance(node, list):
        return any(map(_may_be_free, cast("list[Any]", node)))
    found = as_object(node)
    if found is None:
        return False
    # What a reference's own properties make of it is not looked into.
    joined = "$ref" in found and "properties" in found
    return joined or is_free_form(found) or any(map(_may_be_free, found.values()))


def _holds_null(value: JsonValue) -> bool:
    if value is None:
        return True
    if isinstance(value, str | bool | int | float):
        return False
    items = value.values() if isinstance(value, Mapping) else value
    return any(map(_holds_null, items))


def drop_added_nulls(schema: Schema | None, arguments: JsonValue) -> JsonValue:
    """A model's arguments without what only our encoding asked of it.

    Strict mode makes optional properties nullable, so a null where the schema allows none means
    "not given" and is dropped. Gemini takes no free-form objects, so they are asked for as JSON
    text; text where the schema wants a free-form object is read. Everything else is left as it
    is, object for object.
    """
    if schema is None:
        return arguments
    return _undone(schema, schema, arguments)


def _undone(schema: Any, root: Schema, value: JsonValue) -> JsonValue:
    node = as_object(schema)
    if node is None or value is None or isinstance(value, bool | int | float):
        return value
    node = _branch(resolve(node, root), root, value)
    if isinstance(value, str):
        return _read_object(value) if is_free_form(node) else value
    if isinstance(value, Mapping):
        return _undone_object(node, root, value)
    items = node.get("items")
    changed = [_undone(items, root, item) for item in value]
    return value if all(a is b for a, b in zip(changed, value, strict=True)) else changed


def _undone_object(node: Schema, root: Schema, value: Mapping[str, JsonValue]) -> JsonValue:
    properties = as_object(node.get("properties")) or {}
    required = as_list(node.get("required")) or []
    extra = node.get("additionalProperties")
    result: dict[str, JsonValue] = {}
    for name, item in value.items():
        optional = name in properties and name not in required
        if item is None and optional and not accepts_null(properties[name], root):
            continue
        result[name] = _undone(properties.get(name, extra), root, item)
    same = len(result) == len(value) and all(result[name] is value[name] for name in result)
    return value if same else result


def _branch(node: Schema, root: Schema, value: JsonValue) -> Schema:
    """The branch of a union that ``value`` was most likely written for."""
    options = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
    if options is None:
        return node
    branches = [resolve(option, root) for option in map(as_object, options) if option is not None]
    fitting = [branch for branch in branches if _fits(branch, value)]
    if isinstance(value, str) and len(fitting) != 1:
        return {}
    return _branch(fitting[0], root, value) if fitting else {}


def _fits(branch: Schema, value: JsonValue) -> bool:
    kinds = types_of(branch)
    if isinstance(value, str):
        return is_free_form(branch) or "string" in kinds or not kinds
    if not isinstance(value, Mapping):
        return "array" in kinds or not kinds
    if kinds and "object" not in kinds:
        return False
    properties = as_object(branch.get("properties")) or {}
    required = as_list(branch.get("required")) or []
    return all(name in value for name in required) and all(
        _could_be(properties.get(name), item) for name, item in value.items()
    )


def _could_be(schema: Any, item: JsonValue) -> bool:
    node = as_object(schema)
    if node is None:
        return True
    if "const" in node:
        return bool(node["const"] == item)
    values = as_list(node.get("enum"))
    return values is None or item in values or item is None


def _read_object(text: str) -> JsonValue:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("dict[str, Any]", value) if isinstance(value, dict) else text
