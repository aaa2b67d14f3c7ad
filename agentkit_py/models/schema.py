"""Tool schemas in each provider's form, and the reverse conversion of arguments.

The source is plain JSON Schema: pydantic's (draft 2020-12, ``$defs``) or zod's. A `ToolSpec` is
converted once for each format and keeps the results in ``spec.memo``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from agentkit_py._core.json import JsonValue, as_list, as_object, dumps
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.capabilities import Host

Schema = Mapping[str, Any]

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def openai_form(spec: ToolSpec, host: Host) -> tuple[dict[str, Any] | None, bool]:
    """Return a tool's schema for a host, made once, and whether it is strict.

    A tool without parameters has no schema.

    Raises:
        ToolDefinitionError: See `openai_schema`.
    """
    if spec.parameters is None:
        return None, False
    parameters = spec.parameters
    if host.grok_schemas:
        return _form(spec, "grok", lambda: grok_schema(parameters)), False
    if host.strict_schemas and spec.strict is not False:
        return _form(spec, "openai", lambda: openai_schema(parameters))
    return _form(spec, "openai.plain", lambda: _plain_openai_schema(parameters)), False


def openai_tool(
    spec: ToolSpec, host: Host, no_parameters: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a tool's name, description and schema as OpenAI's formats have them."""
    parameters, strict = openai_form(spec, host)
    tool: dict[str, Any] = {"name": spec.name}
    if spec.description:
        tool["description"] = spec.description[: host.tool_description]
    parameters = no_parameters if parameters is None else parameters
    if parameters is not None:
        tool["parameters"] = parameters
    # Said in any case: the Responses API takes a tool for strict that does not say.
    return {**tool, "strict": strict}


def openai_output_form(spec: ToolSpec, host: Host) -> dict[str, Any] | None:
    """Return the strict schema of an answer, made once; None where it cannot be strict.

    Raises:
        ToolDefinitionError: See `openai_schema`; or it refers to itself, and the host is Grok's,
            where an answer's schema is not loosened: it is better sent whole.
    """
    parameters = spec.parameters or {}
    if host.grok_schemas and refers_to_itself(parameters):
        raise ToolDefinitionError(
            spec.name, f"its schema refers to itself; {host.provider} does not take that"
        )
    schema, strict = _form(spec, "openai", lambda: openai_schema(parameters))
    return schema if strict else None


def anthropic_form(spec: ToolSpec) -> dict[str, Any]:
    """Return `anthropic_schema` of a tool, made once."""
    return _form(spec, "anthropic", lambda: anthropic_schema(spec.parameters))


def anthropic_output_form(spec: ToolSpec) -> dict[str, Any] | None:
    """Return `anthropic_output_schema` of an answer, made once."""
    parameters = spec.parameters or {}
    return _form(spec, "anthropic.output", lambda: anthropic_output_schema(parameters))


@dataclass(frozen=True, slots=True)
class StrictTool:
    """A tool's schema for Claude's strict mode, and its share of the limits of a request."""

    schema: dict[str, Any]
    optional: int
    unions: int


MOST_STRICT_TOOLS, MOST_OPTIONAL, MOST_UNIONS = 20, 24, 16
"""The limits of a request to Claude: strict tools, and parameters of them and the answer together.

Optional and union parameters are counted on every level, each use of a definition for itself.
Source: platform.claude.com/docs/en/build-with-claude/structured-outputs, schema complexity limits,
read on 24 November 2026 in a stored copy that names Opus 5.5 and not yet Sonnet 5.5; counting on
every level: github.com/elizaOS/eliza/pull/16516. "Schema is too complex for compilation" and "The
compiled grammar is too large" come below these, too, by sizes that are published nowhere.
"""


def anthropic_strict_form(spec: ToolSpec) -> StrictTool | None:
    """Return a tool for Claude's strict mode, made once; None where it cannot be expressed."""
    parameters = spec.parameters or {"type": "object", "properties": {}}
    return _form(spec, "anthropic.strict", lambda: _strict_tool(parameters))


def _strict_tool(schema: Schema) -> StrictTool | None:
    converter = _OutputConverter(schema)
    try:
        made = converter.convert(resolved(schema, schema), ())
    except _NotStrict:
        return None
    is_object = made.get("type") == "object"
    return StrictTool(made, converter.optional, converter.unions) if is_object else None


def gemini_form(spec: ToolSpec) -> dict[str, Any] | None:
    """Return `gemini_schema` of a tool, made once; None where Gemini wants no parameters at all."""
    if spec.parameters is None:
        return None
    parameters = spec.parameters
    return _form(spec, "gemini", lambda: gemini_schema(parameters))


def _form(spec: ToolSpec, key: str, make: Callable[[], Any]) -> Any:
    if key not in spec.memo:
        try:
            spec.memo[key] = make()
        except ToolDefinitionError as error:
            reason = str(error).removeprefix(f"Tool {error.tool!r}: ")
            raise ToolDefinitionError(spec.name, reason) from None
    return spec.memo[key]


# Walking JSON Schemas.

_ONE = frozenset(
    {
        "items", "additionalItems", "additionalProperties", "unevaluatedItems",
        "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else",
    }
)  # fmt: skip
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCALARS = {"string": str, "boolean": bool, "integer": int, "number": float}
_UNIONS = ("anyOf", "oneOf")
_DEEP = 50  # unions inside unions; deeper is a loop


def _map_subschemas(key: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a keyword's value with each sub-schema in it passed through ``change``.

    Names of properties and values of enums are data, never keywords.
    """
    if key in _MAPS and (named := as_object(value)) is not None:
        return {name: change(item) for name, item in named.items()}
    if key in _LISTS and (many := as_list(value)) is not None:
        return [change(item) for item in many]
    if key in _ONE and isinstance(value, dict | bool):
        return change(value)
    return value


def resolved(schema: Schema, root: Schema) -> Schema:
    """Return ``schema``, or the target of its ``$ref``, with the other keywords of the node.

    Raises:
        ToolDefinitionError: The reference points nowhere, outside, or only to itself.
    """
    followed: set[str] = set()
    while (ref := schema.get("$ref")) is not None:
        if not isinstance(ref, str) or ref in followed:
            raise ToolDefinitionError("", f"the schema's $ref {ref!r} goes in a circle")
        followed.add(ref)
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**_target(ref, root), **siblings}
    return schema


def _target(ref: str, root: Schema) -> Schema:
    found: Any = root
    path = ref.removeprefix("#").strip("/")
    for step in path.split("/") if path else ():
        key = step.replace("~1", "/").replace("~0", "~")
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    target = as_object(found)
    if target is None or not ref.startswith("#"):
        raise ToolDefinitionError("", f"the schema's $ref {ref!r} points to no schema in it")
    return target


def refers_to_itself(schema: Schema) -> bool:
    """Return whether the references of a schema form a cycle."""
    done: set[str] = set()

    def circles(node: Any, inside: tuple[str, ...]) -> bool:
        if isinstance(node, list):
            return any(circles(one, inside) for one in cast("list[Any]", node))
        fields = as_object(node) or {}
        ref = fields.get("$ref")
        if isinstance(ref, str) and ref not in done:
            if ref in inside or circles(_target(ref, schema), (*inside, ref)):
                return True
            done.add(ref)
        parts = [part for key, part in fields.items() if key not in ("$defs", "definitions")]
        return any(circles(part, inside) for part in parts)

    return circles(schema, ())


def accepts_null(schema: Any, root: Schema, depth: int = 0) -> bool:
    """Return whether null satisfies ``schema``, judging by types, enums and unions."""
    node = as_object(schema)
    if node is None:
        return schema is not False
    if depth > _DEEP:
        return False
    node = resolved(node, root)
    for union in _UNIONS:
        if (options := as_list(node.get(union))) is not None:
            return any(accepts_null(option, root, depth + 1) for option in options)
    if (parts := as_list(node.get("allOf"))) is not None:
        return all(accepts_null(part, root, depth + 1) for part in parts)
    if (values := _allowed_values(node)) is not None:
        return None in values
    kinds = types_of(node)
    return not kinds or "null" in kinds


def types_of(schema: Schema) -> list[str]:
    """Return the types a schema names itself; empty: any."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    return [item for item in as_list(kind) or [] if isinstance(item, str)]


def _allowed_values(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else as_list(schema.get("enum"))


def types_of_values(values: list[Any]) -> list[str]:
    """Return the JSON types of ``values``, each once."""
    return list(dict.fromkeys(_type_name(value) for value in values))


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    for name, kind in _SCALARS.items():
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "object"


def is_free_form(schema: Schema) -> bool:
    """Return whether the schema is an object without named properties."""
    return types_of(schema) == ["object"] and not schema.get("properties")


def object_root(schema: Schema) -> dict[str, Any]:
    """Return ``schema`` with a root that is an object without union, which all providers ask for.

    A root reference is replaced by its target. Of a root union, all properties are kept and
    those that every branch requires stay required: looser than the union, so a model's arguments
    must still be validated against the original.

    Raises:
        ToolDefinitionError: The root cannot be an object.
    """
    root = dict(resolved(schema, schema))
    branches = [
        resolved(branch, schema)
        for union in (*_UNIONS, "allOf")
        for branch in map(as_object, as_list(root.get(union)) or [])
        if branch is not None
    ]
    every = "allOf" in root
    for key in (*_UNIONS, "allOf", "not", "enum", "const", "discriminator"):
        root.pop(key, None)
    for branch in branches:
        _require_object(branch)
    _require_object(root)
    if branches:
        return _with_branches(root, branches, every=every)
    made: dict[str, Any] = {"type": "object", "properties": {}, **root}
    made["type"] = "object"
    return made


def _require_object(schema: Schema) -> None:
    kinds = types_of(schema)
    if kinds and "object" not in kinds:
        raise ToolDefinitionError(
            "", f"its arguments are of type {kinds[0]}; providers take nothing but objects"
        )


def _with_branches(root: dict[str, Any], branches: list[Schema], *, every: bool) -> dict[str, Any]:
    properties = dict(as_object(root.get("properties")) or {})
    needed = [_required(branch) for branch in branches]
    common = needed[0].union(*needed) if every else needed[0].intersection(*needed)
    for branch in branches:
        for name, schema in (as_object(branch.get("properties")) or {}).items():
            known = properties.get(name, schema)
            properties[name] = schema if known == schema else {"anyOf": [known, schema]}
    required = [name for name in properties if name in common | _required(root)]
    open_again = {key: value for key, value in root.items() if key != "additionalProperties"}
    return {**open_again, "type": "object", "properties": properties, "required": required}


def _required(schema: Schema) -> set[str]:
    return {name for name in as_list(schema.get("required")) or [] if isinstance(name, str)}


# OpenAI's strict mode.


def openai_schema(schema: Schema) -> tuple[dict[str, Any], bool]:
    """Return the schema for OpenAI's function calling, and whether it is strict.

    Strict: every property required and the optional ones nullable, no further properties, only
    keywords that strict mode knows. A schema that cannot be expressed so (free-form objects,
    tuples, negations, unions at the root, …) keeps its meaning and is not strict.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, and the
    messages with which the API refuses unlisted parts.

    Raises:
        ToolDefinitionError: The arguments are not an object, or a reference is broken.
    """
    root = resolved(schema, schema)
    if types_of(root) == ["object"] and not any(key in root for key in (*_UNIONS, "allOf")):
        try:
            strict = _StrictConverter(schema).convert(root, 0)
        except _NotStrict:
            pass
        else:
            return {"$schema": DRAFT_7, **_draft_7(strict)}, True
    return _plain_openai_schema(schema), False


def _plain_openai_schema(schema: Schema) -> dict[str, Any]:
    return {"$schema": DRAFT_7, **_draft_7(object_root(schema))}


def _draft_7(schema: Any) -> Any:
    """Return the schema with draft-7 ``definitions`` and items on every array (OpenAI insists)."""
    node = as_object(schema)
    if node is None:
        return schema
    changed = {key: _map_subschemas(key, value, _draft_7) for key, value in node.items()}
    changed.pop("$schema", None)
    if "$defs" in changed:
        changed["definitions"] = {**changed.pop("$defs"), **changed.get("definitions", {})}
    ref = changed.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        changed["$ref"] = "#/definitions/" + ref.removeprefix("#/$defs/")
    if "array" in types_of(changed):
        changed.setdefault("items", {})
    return changed


class _NotStrict(Exception):  # noqa: N818 - a signal between two functions, no error
    """The schema means something that strict mode cannot say."""


# Keywords that may be removed without changing the meaning of a schema, since arguments are
# validated again against the whole schema: strict mode refuses them, or does not mention them.
_STRICT_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
        "$ref", "$defs", "definitions", "title", "description", "pattern", "format", "multipleOf",
        "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "minItems", "maxItems",
    }
)  # fmt: skip
_INEXPRESSIBLE = frozenset(
    {
        "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
        "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
        "additionalItems",
    }
)  # fmt: skip
_STRICT_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND = re.compile(r"\(\?<?[=!]|\\[1-9]")
_SCALAR_TYPES = frozenset({"string", "number", "integer", "boolean"})
_MAX_DEPTH = 10
_MAX_PROPERTIES = 5000
_MAX_ENUM_VALUES = 1000


class _StrictConverter:
    """A conversion; counts the items that strict mode limits."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._properties = 0
        self._enum_values = 0

    def convert(self, schema: Any, depth: int) -> dict[str, Any]:
        node = as_object(schema)
        if node is None or depth > _MAX_DEPTH * 3 or not _INEXPRESSIBLE.isdisjoint(node):
            raise _NotStrict
        node = _one_union(node)
        if "$ref" in node:
            return self._reference(node)
        result = {key: value for key, value in node.items() if key in _STRICT_KEYWORDS}
        self._definitions(result)
        if (options := as_list(result.get("anyOf"))) is not None:
            result["anyOf"] = [self.convert(option, depth + 1) for option in options]
            if "properties" in result or not options:
                raise _NotStrict
            return result
        self._values(result)
        self._by_type(result, depth)
        return _supported(result)

    def _reference(self, node: dict[str, Any]) -> dict[str, Any]:
        resolved(node, self._root)  # a broken reference is an error here, not at the provider
        siblings = {key: node[key] for key in ("title", "description") if key in node}
        ref = {"$ref": node["$ref"]}
        # "$ref cannot have keywords": an annotated reference becomes a union with a single member.
        return {"anyOf": [ref], **siblings} if siblings else ref

    def _definitions(self, result: dict[str, Any]) -> None:
        for key in ("$defs", "definitions"):
            if (named := as_object(result.get(key))) is not None:
                result[key] = {name: self.convert(item, 1) for name, item in named.items()}

    def _values(self, result: dict[str, Any]) -> None:
        values = _allowed_values(result)
        if values is None:
            return
        self._enum_values += len(values)
        if not values or self._enum_values > _MAX_ENUM_VALUES:
            raise _NotStrict
        if "type" not in result:
            kinds = types_of_values(values)
            result["type"] = kinds[0] if len(kinds) == 1 else kinds

    def _by_type(self, result: dict[str, Any], depth: int) -> None:
        kinds = types_of(result)
        if not kinds:
            raise _NotStrict
        if "array" in kinds:
            result["items"] = self.convert(result.get("items"), depth + 1)
        if "object" in kinds:
            self._object(result, depth)

    def _object(self, result: dict[str, Any], depth: int) -> None:
        properties = as_object(result.get("properties"))
        closed = result.get("additionalProperties", properties is None) is False
        if depth >= _MAX_DEPTH or not closed:
            raise _NotStrict
        properties = properties or {}
        self._properties += len(properties)
        if self._properties > _MAX_PROPERTIES:
            raise _NotStrict
        required = as_list(result.get("required")) or []
        result["properties"] = {
            name: self._property(item, depth, optional=name not in required)
            for name, item in properties.items()
        }
        if properties or "required" in result:
            result["required"] = list(properties)
        result["additionalProperties"] = False

    def _property(self, schema: Any, depth: int, *, optional: bool) -> dict[str, Any]:
        converted = self.convert(schema, depth + 1)
        if not optional or accepts_null(schema, self._root):
            return converted
        return _nullable(converted)


def _one_union(node: dict[str, Any]) -> dict[str, Any]:
    """Write ``oneOf`` as ``anyOf``, and unwrap a single-member ``allOf``, as in old pydantic."""
    result = dict(node)
    parts = as_list(result.pop("allOf", None))
    if parts is not None:
        only = as_object(parts[0]) if len(parts) == 1 else None
        if only is None:
            raise _NotStrict
        result = {**only, **result}
    if "oneOf" in result:
        if "anyOf" in result:
            raise _NotStrict
        result["anyOf"] = result.pop("oneOf")
    return result


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = types_of(schema)
    if kinds and "const" not in schema and _SCALAR_TYPES.issuperset(kinds):
        widened = {**schema, "type": [*kinds, "null"]}
        if "enum" in schema:
            widened["enum"] = [*schema["enum"], None]
        return widened
    outside = {key: schema[key] for key in ("title", "description") if key in schema}
    inside = {key: value for key, value in schema.items() if key not in outside}
    if set(inside) == {"anyOf"}:
        return {"anyOf": [*inside["anyOf"], {"type": "null"}], **outside}
    return {"anyOf": [inside, {"type": "null"}], **outside}


def _supported(result: dict[str, Any]) -> dict[str, Any]:
    if "format" in result and result["format"] not in _STRICT_FORMATS:
        del result["format"]
    pattern = result.get("pattern")
    if pattern is not None and _LOOKAROUND.search(str(pattern)):
        del result["pattern"]
    return result


# Grok.


def grok_schema(schema: Schema) -> dict[str, Any]:
    """Return the schema for a tool of Grok, which generates strictly by each tool's schema.

    Boolean properties, ``minContains``, ``maxContains``, lists as ``items`` and empty lists of
    variants are refused, so they are written in another way or left out. A reference that goes in a
    circle becomes an open object (or anything) there, since arguments are validated against the
    whole schema.

    Source: docs.x.ai/developers/model-capabilities/text/structured-outputs (read in November 2026),
    supported types and rejected schemas: "non-circular references only", for tools as for answers.
    The behaviour for others is not documented: github.com/get-bb/bb/issues/1612 has Grok 4.6 refuse
    such a tool that Grok 4.5 took, seen through another host, so the refusal is inferred.

    Raises:
        ToolDefinitionError: The arguments are not an object, or a reference is broken.
    """
    return {"$schema": DRAFT_7, **_draft_7(_GrokConverter(object_root(schema)).convert())}


class _GrokConverter:
    """One conversion; each definition is converted once, where a reference first leads to it."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}

    def convert(self) -> dict[str, Any]:
        made: dict[str, Any] = self._of(self._root, ("#",))
        return {**made, "$defs": self._definitions} if self._definitions else made

    def _of(self, schema: Any, inside: tuple[str, ...]) -> Any:
        node = as_object(schema)
        if node is None:
            return schema
        made = {
            key: _map_subschemas(key, value, lambda part: self._of(part, inside))
            for key, value in node.items()
            if key not in _GROK_LEFT_OUT and not (key in _VARIANTS and value == [])
        }
        if isinstance(made.get("items"), list):
            made["prefixItems"] = made.pop("items")
        if (properties := as_object(made.get("properties"))) is not None:
            made["properties"] = {name: _as_object(one) for name, one in properties.items()}
        ref = made.get("$ref")
        return made if not isinstance(ref, str) else self._reference(made, ref, inside)

    def _reference(self, node: dict[str, Any], ref: str, inside: tuple[str, ...]) -> dict[str, Any]:
        if ref in inside:
            loose: dict[str, Any] = {"description": f"{ref.rpartition('/')[2]}, once more."}
            if types_of(_target(ref, self._root)) == ["object"]:
                loose |= {"type": "object", "additionalProperties": True}
            return loose
        if ref not in self._names:
            name = re.sub(r"\W", "_", ref.rpartition("/")[2])
            taken = name in self._names.values()
            self._names[ref] = f"{name}_{len(self._names)}" if taken else name
            self._definitions[self._names[ref]] = self._of(_target(ref, self._root), (*inside, ref))
        return {**node, "$ref": f"#/$defs/{self._names[ref]}"}


_GROK_LEFT_OUT = frozenset({"$defs", "definitions", "minContains", "maxContains"})
_VARIANTS = frozenset({"enum", "anyOf", "oneOf"})


def _as_object(schema: Any) -> Any:
    if not isinstance(schema, bool):
        return schema
    return dict[str, Any]() if schema else {"not": dict[str, Any]()}


# Anthropic.


def anthropic_schema(schema: Schema | None) -> dict[str, Any]:
    """Return the schema for Anthropic: its root an object and no union.

    Source: https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use

    Raises:
        ToolDefinitionError: The arguments are not an object, or a reference is broken.
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


_SCALAR_OR_NULL = _SCALAR_TYPES | {"null"}
_OUTPUT_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "items", "enum", "const", "anyOf", "$ref", "$defs",
        "title", "description",
    }
)  # fmt: skip


def anthropic_output_schema(schema: Schema) -> dict[str, Any] | None:
    """Return the schema for Anthropic's structured outputs; None where it cannot be expressed.

    Limits of numbers, lengths and texts are left out, since answers are validated against the whole
    schema, and so is a type that is not the type of all values of an ``enum``. Refused: recursion,
    objects of free form, tuples, more than 24 optional properties or 16 unions.

    Source: platform.claude.com/docs/en/build-with-claude/structured-outputs, JSON Schema
    limitations (read on 24 November 2026); github.com/BerriAI/litellm/pull/37882 (August 2026):
    "Enum value 'low' does not match declared type '['string', 'null']'".
    """
    try:
        return _OutputConverter(schema).convert(resolved(schema, schema), ())
    except _NotStrict:
        return None


class _OutputConverter:
    """A conversion; references are followed, which finds recursion and counts the result."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self.optional = 0
        self.unions = 0

    def convert(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        node = as_object(schema)
        if node is None or not _INEXPRESSIBLE.isdisjoint(node) or len(inside) > _DEEP:
            raise _NotStrict
        ref = node.get("$ref")
        if isinstance(ref, str):
            if ref in inside:
                raise _NotStrict
            inside, node = (*inside, ref), dict(resolved(node, self._root))
        node = _one_union(node)
        result = {k: v for k, v in node.items() if k in _OUTPUT_KEYWORDS and k != "$defs"}
        kinds = self._kinds(node, result)
        if "anyOf" in result or len(kinds) > 1:
            self.unions += 1
        if "anyOf" in result:
            result["anyOf"] = [self.convert(option, inside) for option in result["anyOf"]]
        if "array" in kinds:
            result["items"] = self.convert(result.get("items"), inside)
        if "object" in kinds:
            self._object(node, result, inside)
        if self.optional > MOST_OPTIONAL or self.unions > MOST_UNIONS:
            raise _NotStrict
        return result

    def _kinds(self, node: dict[str, Any], result: dict[str, Any]) -> list[str]:
        """Return the types; they are removed where they are not the type of all values."""
        values, kinds = _allowed_values(node), types_of(node)
        if values is None:
            if not kinds and "anyOf" not in node:
                raise _NotStrict
            return kinds
        given = types_of_values(values)
        if not given or not _SCALAR_OR_NULL.issuperset(given):
            raise _NotStrict
        if kinds != given or len(given) > 1:
            result.pop("type", None)
        return types_of(result)

    def _object(
        self, node: dict[str, Any], result: dict[str, Any], inside: tuple[str, ...]
    ) -> None:
        properties = as_object(node.get("properties"))
        if node.get("additionalProperties", properties is None) is not False:
            raise _NotStrict
        properties = properties or {}
        self.optional += len(properties.keys() - _required(node))
        result["properties"] = {n: self.convert(p, inside) for n, p in properties.items()}
        result["additionalProperties"] = False


# Gemini: a part of OpenAPI 3.0.

_GEMINI_KEYWORDS = frozenset(
    {
        "type", "format", "description", "nullable", "enum", "properties", "required", "items",
        "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf",
    }
)  # fmt: skip
_GEMINI_FORMATS = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_ONLY_FOR = {"properties": "object", "required": "object", "items": "array"}
_FREE_FORM = "A JSON object, written as text."


def gemini_schema(schema: Schema) -> dict[str, Any] | None:
    """Return the schema for a Gemini function declaration; None without properties.

    References are replaced by their targets, ``const`` becomes an enum with a single value, unions
    with null become ``nullable``, and keywords unknown to Gemini are omitted. Only texts can be
    enumerated, so other values are listed in the description. Objects without named properties are
    refused by Gemini; they are asked for as JSON text (see `restore_arguments`).

    Raises:
        ToolDefinitionError: The arguments are not an object, or the schema refers to itself.
    """
    converted = _GeminiConverter(schema).convert(object_root(schema), ())
    return converted if converted.get("properties") else None


class _GeminiConverter:
    """One conversion; references are followed."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def convert(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        node = as_object(schema)
        if not node:
            return {"type": "string"}  # anything goes, and Gemini wants a type
        ref = node.get("$ref")
        if isinstance(ref, str):
            if ref in inside:
                raise ToolDefinitionError(
                    "", f"its schema refers to itself ({ref}); Gemini cannot take that"
                )
            inside = (*inside, ref)
            node = dict(resolved(node, self._root))
        node = _folded(node)
        options = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
        if options is not None:
            return self._union(node, options, inside)
        kinds = types_of(node) or _guessed_types(node)
        if len([kind for kind in kinds if kind != "null"]) > 1:
            branches = [{**node, "type": kind} for kind in kinds]
            return self._union({}, branches, inside)
        return self._single(node, kinds, inside)

    def _union(self, node: Schema, options: list[Any], inside: tuple[str, ...]) -> dict[str, Any]:
        some = [option for option in options if not _is_null(option)]
        result: dict[str, Any] = {}
        converted = [self.convert(option, inside) for option in some]
        if len(converted) == 1:
            result = converted[0]
        elif converted:
            result = {"anyOf": converted}
        else:
            result = {"type": "string"}
        if "description" in node:
            result = {**result, "description": node["description"]}
        return {**result, "nullable": True} if len(some) < len(options) else result

    def _single(
        self, node: dict[str, Any], kinds: list[str], inside: tuple[str, ...]
    ) -> dict[str, Any]:
        kind = next((kind for kind in kinds if kind != "null"), "string")
        result = {key: value for key, value in node.items() if key in _GEMINI_KEYWORDS}
        for name in _ONLY_FOR.keys() & result.keys():
            if _ONLY_FOR[name] != kind:
                del result[name]
        result["type"] = kind
        if "null" in kinds:
            result["nullable"] = True
        _enumerate(result, node)
        _bounds(result, node)
        if result.get("format") not in _GEMINI_FORMATS.get(kind, ()):
            result.pop("format", None)
        if kind == "array":
            result["items"] = self.convert(_items(node), inside)
        if kind == "object":
            return self._object(result, inside)
        return result

    def _object(self, result: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        properties = as_object(result.get("properties")) or {}
        if not properties:
            described = " ".join(filter(None, [result.get("description"), _FREE_FORM]))
            text: dict[str, Any] = {"type": "string", "description": described}
            return {**text, "nullable": True} if result.get("nullable") else text
        result["properties"] = {
            name: self.convert(item, inside) for name, item in properties.items()
        }
        required = [name for name in as_list(result.get("required")) or [] if name in properties]
        if required:
            result["required"] = required
        else:
            result.pop("required", None)
        return result


def _is_null(schema: Any) -> bool:
    node = as_object(schema)
    return node is not None and types_of(node) == ["null"]


def _folded(node: dict[str, Any]) -> dict[str, Any]:
    """Merge the parts of an ``allOf`` into the schema: Gemini has no word for it."""
    parts = as_list(node.get("allOf"))
    if parts is None:
        return node
    result: dict[str, Any] = {}
    for part in [*map(as_object, parts), {k: v for k, v in node.items() if k != "allOf"}]:
        if part is None:
            continue
        properties = {**result.get("properties", {}), **part.get("properties", {})}
        required = [*result.get("required", []), *part.get("required", [])]
        result = {**result, **part}
        if properties:
            result["properties"] = properties
        if required:
            result["required"] = list(dict.fromkeys(required))
    return result


def _guessed_types(node: Schema) -> list[str]:
    if "properties" in node:
        return ["object"]
    if "items" in node or "prefixItems" in node:
        return ["array"]
    return types_of_values(_allowed_values(node) or [])


def _enumerate(result: dict[str, Any], node: Schema) -> None:
    """Put the allowed values where Gemini takes them: texts in ``enum``, others in words."""
    values = _allowed_values(node)
    result.pop("enum", None)
    if values is None:
        return
    some = [value for value in values if value is not None]
    if len(some) < len(values):
        result["nullable"] = True
    if some and result["type"] == "string" and all(isinstance(v, str) and v for v in some):
        result["enum"] = some
    elif some:
        listed = "One of: " + ", ".join(dumps(value) for value in some) + "."
        described = result.get("description")
        result["description"] = f"{described} {listed}" if described else listed


def _bounds(result: dict[str, Any], node: Schema) -> None:
    """Write exclusive bounds of integers as inclusive ones: Gemini knows no others."""
    if result["type"] != "integer":
        return
    for exclusive, inclusive, step in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        bound = node.get(exclusive)
        if isinstance(bound, int) and not isinstance(bound, bool):
            result.setdefault(inclusive, bound + step)


def _items(node: Schema) -> Any:
    """Return the schema of an array's items; of a tuple any of its items."""
    each = as_list(node.get("prefixItems")) or as_list(node.get("items"))
    return {"anyOf": each} if each else node.get("items")


# Undoing the encoding.


def restore_arguments(schema: Schema | None, arguments: JsonValue) -> JsonValue:
    """Return a model's arguments without the additions of our encoding.

    Strict mode makes optional properties nullable, so a null where the schema allows none means
    "not given" and is dropped. Gemini takes no free-form objects, so they are asked for as JSON
    text; text where the schema wants a free-form object is read. Everything else is left as it
    is, object for object.
    """
    if schema is None or _is_settled(schema, arguments):
        return arguments
    return _restored(schema, schema, arguments)


def _is_settled(schema: Schema, arguments: JsonValue) -> bool:
    """Return whether there is nothing to restore: numbers, and texts where texts are wanted."""
    properties, given = as_object(schema.get("properties")), as_object(arguments)
    if properties is None or given is None or "anyOf" in schema or "oneOf" in schema:
        return False
    for name, item in given.items():
        if not isinstance(item, (int, float)):
            node = as_object(properties.get(name)) if isinstance(item, str) else None
            if node is None or node.get("type") != "string":
                return False
    return True


def _restored(schema: Any, root: Schema, value: JsonValue) -> JsonValue:
    node = as_object(schema)
    if node is None or value is None or isinstance(value, bool | int | float):
        return value
    node = _branch(resolved(node, root), root, value)
    if isinstance(value, str):
        return _object_in(value) if is_free_form(node) else value
    if isinstance(value, Mapping):
        return _restored_object(node, root, value)
    items = node.get("items")
    changed = [_restored(items, root, item) for item in value]
    return value if all(a is b for a, b in zip(changed, value, strict=True)) else changed


def _restored_object(node: Schema, root: Schema, value: Mapping[str, JsonValue]) -> JsonValue:
    properties = as_object(node.get("properties")) or {}
    required = as_list(node.get("required")) or []
    extra = node.get("additionalProperties")
    result: dict[str, JsonValue] = {}
    for name, item in value.items():
        optional = name in properties and name not in required
        if item is None and optional and not accepts_null(properties[name], root):
            continue
        result[name] = _restored(properties.get(name, extra), root, item)
    same = len(result) == len(value) and all(result[name] is value[name] for name in result)
    return value if same else result


def _branch(node: Schema, root: Schema, value: JsonValue, depth: int = 0) -> Schema:
    """Return the branch of a union that ``value`` was most likely written for."""
    options = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
    if options is None:
        return node
    if depth > _DEEP:
        return {}
    branches = [resolved(option, root) for option in map(as_object, options) if option is not None]
    fitting = [branch for branch in branches if _fits(branch, value)]
    if isinstance(value, str) and len(fitting) != 1:
        return {}
    return _branch(fitting[0], root, value, depth + 1) if fitting else {}


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
    values = _allowed_values(node)
    return values is None or item in values or (item is None and "const" not in node)


def _object_in(text: str) -> JsonValue:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = as_object(value)
    return text if found is None else found
