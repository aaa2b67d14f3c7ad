"""Names, arguments and schemas of a server's tools, as models get them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import jsonschema.exceptions
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from agentkit_py._core.json import JsonObject, JsonValue, as_object
from agentkit_py._core.naming import TOOL_NAME
from agentkit_py._engine.arguments import InvalidArguments
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.schema import anthropic_form, gemini_form, gemini_schema, openai_form

_MAX_NAME = 64
_UNUSABLE = re.compile(r"[^a-zA-Z0-9_-]")


def offered_name(server: str, tool: str, taken: Collection[str]) -> str:
    """Return the name that models get: ``{server}-{tool}``, if providers accept it and it is free.

    Otherwise characters that they refuse become ``_``, and a name that is too long or taken ends
    with hex digits that depend only on the two names.
    """
    wanted = f"{server}-{tool}"
    name = _UNUSABLE.sub("_", wanted)
    if not TOOL_NAME.fullmatch(name[:1]):
        name = f"_{name}"
    number = 0
    candidate = name
    while len(candidate) > _MAX_NAME or candidate in taken:
        seed = f"{wanted}/{number}" if number else wanted
        mark = hashlib.sha256(seed.encode()).hexdigest()[:8]
        candidate = f"{name[: _MAX_NAME - 9]}_{mark}"
        number += 1
    return candidate


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """Arguments described by a server's JSON Schema.

    References are followed inside the schema only; nothing is fetched.
    """

    schema: JsonObject
    validator: Any

    @classmethod
    def of(cls, tool: str, schema: JsonObject) -> ServerArguments:
        """Return the arguments that ``schema`` describes.

        Raises:
            ToolDefinitionError: It is no JSON Schema.
        """
        kind: Any = cast("Any", validator_for)(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.exceptions.SchemaError as error:
            raise ToolDefinitionError(tool, f"no JSON Schema: {error.message:.200}") from error
        registry: Registry[Any] = EMPTY_REGISTRY
        return cls(schema, kind(schema, registry=registry))

    def validate(self, given: JsonValue) -> JsonValue:
        """Return the arguments unchanged, if they fit the schema.

        Raises:
            InvalidArguments: They do not.
        """
        try:
            errors = list(self.validator.iter_errors(given))
        except (Unresolvable, RecursionError):
            return given  # the server validates, too
        if not errors:
            return given
        errors.sort(key=lambda error: list(map(str, error.path)))
        raise InvalidArguments(
            [
                {
                    "path": ".".join(map(str, error.path)) or "(arguments)",
                    "message": error.message[:500],
                }
                for error in errors[:20]
            ]
        )


def spec_of(name: str, listed: JsonObject) -> ToolSpec:
    """Return the tool's specification, with the schema that the server gave.

    Raises:
        ToolDefinitionError: OpenAI's or Anthropic's format has no form for the schema.
    """
    description: Any = listed.get("description") or ""
    schema: Any = listed["inputSchema"]
    # Strict mode would rewrite the schema, and drop what it has no word for.
    spec = ToolSpec(name, description, schema, strict=False)
    openai_form(spec)
    anthropic_form(spec)
    return spec


_MAX_DEPTH = 3
"""How often a reference is followed for Gemini, whose format has no recursive schemas."""


def fit_gemini(spec: ToolSpec) -> str | None:
    """Give the specification a form for Gemini; return what had to be simplified, or None.

    A schema that refers to itself is expanded a few levels deep, and the next level is any object.
    """
    try:
        gemini_form(spec)
    except ToolDefinitionError as error:
        schema = dict(spec.parameters or {})
        definitions = {**_object(schema.get("definitions")), **_object(schema.get("$defs"))}
        spec.forms["gemini"] = gemini_schema(_expanded(schema, definitions, schema, 0))
        return str(error).partition(": ")[2]
    return None


def _expanded(value: Any, definitions: dict[str, Any], root: Any, depth: int) -> Any:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_expanded(item, definitions, root, depth) for item in items]
    fields = as_object(value)
    if fields is None:
        return value
    reference = fields.get("$ref")
    if isinstance(reference, str):
        if depth >= _MAX_DEPTH:
            return {"type": "object"}
        target = root if reference == "#" else definitions.get(reference.rpartition("/")[2], {})
        return _expanded(target, definitions, root, depth + 1)
    return {
        key: _expanded(item, definitions, root, depth)
        for key, item in fields.items()
        if key not in ("$defs", "definitions")
    }


def _object(value: object) -> dict[str, Any]:
    return as_object(value) or {}
