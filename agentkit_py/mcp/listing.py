"""From what a server lists to the tools of an agent: choice, names and schemas."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, cast

import jsonschema.exceptions
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._core.naming import TOOL_NAME
from agentkit_py.engine.tool_schema import InvalidArguments
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.schema import anthropic_form, gemini_form, openai_form

_MAX_NAME = 64
_UNUSABLE = re.compile(r"[^a-zA-Z0-9_-]")


def offered_name(server: str, tool: str, taken: Collection[str]) -> str:
    """What the model calls a tool: ``{server}-{tool}``, if providers take that and it is free.

    Otherwise what they refuse becomes ``_``, and a few hex digits that depend on nothing but the
    two names take the place of the end, or tell the name from the one that is taken.
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

    References are followed inside of the schema only: nobody else decides what we fetch.
    """

    schema: JsonObject
    validator: Any

    @classmethod
    def of(cls, tool: str, schema: JsonObject) -> ServerArguments:
        """The arguments that ``schema`` describes.

        Raises:
            ToolDefinitionError: It is no JSON Schema, or no provider could be told of it.
        """
        kind: Any = cast("Any", validator_for)(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.exceptions.SchemaError as error:
            raise ToolDefinitionError(tool, f"no JSON Schema: {error.message:.200}") from error
        registry: Registry[Any] = EMPTY_REGISTRY
        return cls(schema, kind(schema, registry=registry))

    def validate(self, given: JsonValue) -> JsonValue:
        """The arguments as they came, if they fit.

        Raises:
            InvalidArguments: They do not.
        """
        try:
            errors = list(self.validator.iter_errors(given))
        except (Unresolvable, RecursionError):
            return given  # a schema that only its server understands: the server validates, too
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
    """The tool as models are told of it: its schema as the server gave it.

    Raises:
        ToolDefinitionError: No provider's format has a form for the schema.
    """
    description: Any = listed.get("description") or ""
    schema: Any = listed["inputSchema"]
    # Strict mode would rewrite the schema, and drop what it has no word for.
    spec = ToolSpec(name, description, schema, strict=False)
    forms: tuple[Callable[[ToolSpec], object], ...] = (openai_form, anthropic_form, gemini_form)
    for form in forms:
        form(spec)
    return spec
