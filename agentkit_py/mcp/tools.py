"""Names, arguments and schemas of a server's tools, as models get them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from functools import partial
from typing import Any, cast

import jsonschema.exceptions
from jsonschema import validators
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from agentkit_py._core.json import JsonObject, JsonValue, as_object
from agentkit_py._core.validation import TOOL_NAME
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.capabilities import OPENAI
from agentkit_py.models.schema import (
    anthropic_form,
    gemini_form,
    gemini_schema,
    openai_form,
    resolved,
)
from agentkit_py.tools.values import InvalidArguments

_MAX_NAME = 64
_MAX_NODES = 10_000
"""Parts of a schema once its references are expanded; references followed in a validation."""

_MAX_DEPTH = 3
"""References followed inside each other for Gemini, whose format has no recursion."""

_PATTERNS = ("pattern", "patternProperties", "unevaluatedProperties")
"""Keywords that run regular expressions of the schema."""

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
        mark = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        candidate = f"{name[: _MAX_NAME - 9]}_{mark}"
        number += 1
    return candidate


class ServerArguments:
    """Arguments described by a server's JSON Schema.

    References are followed inside the schema only; nothing is fetched. Regular expressions in it
    are left to the server: a stranger's expression could block this process.
    """

    def __init__(self, tool: str, schema: JsonObject) -> None:
        """Check the schema.

        Raises:
            ToolDefinitionError: It is no JSON Schema, or too large once references are expanded.
        """
        _check_size(tool, schema)
        kind: Any = cast("Any", validator_for)(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.exceptions.SchemaError as error:
            raise ToolDefinitionError(tool, f"no JSON Schema: {error.message:.200}") from error
        registry: Registry[Any] = EMPTY_REGISTRY
        self.schema = schema
        self._followed = 0
        self._validator: Any = self._bounded(kind)(schema, registry=registry)

    def validate(self, given: JsonValue) -> JsonValue:
        """Return the arguments unchanged, if they fit the schema.

        Raises:
            InvalidArguments: They do not.
        """
        self._followed = 0
        try:
            errors = list(self._validator.iter_errors(given))
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

    def _bounded(self, kind: Any) -> Any:
        """Return a validator class that runs no pattern and follows so many references at most."""
        check = kind.VALIDATORS.get("additionalProperties", _pass)

        def additional(validator: Any, value: Any, given: Any, schema: Any) -> Any:
            known = "patternProperties" not in schema
            return check(validator, value, given, schema) if known else ()

        rules: dict[str, Any] = dict.fromkeys(_PATTERNS, _pass)
        rules["additionalProperties"] = additional
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if name in kind.VALIDATORS:
                rules[name] = partial(self._follow, kind.VALIDATORS[name])
        untyped: Any = validators
        return untyped.extend(kind, rules)

    def _follow(self, check: Any, *given: Any) -> Any:
        self._followed += 1
        if self._followed > _MAX_NODES:
            raise RecursionError
        return check(*given)


def _pass(*_: Any) -> tuple[()]:
    return ()


def spec_of(name: str, listed: JsonObject) -> ToolSpec:
    """Return the tool's specification, with the schema that the server gave.

    Raises:
        ToolDefinitionError: OpenAI's or Anthropic's format has no form for the schema.
    """
    description: Any = listed.get("description") or ""
    schema: Any = listed["inputSchema"]
    # Strict mode would rewrite the schema, and drop keywords that it does not know.
    spec = ToolSpec(name, description, schema, strict=False)
    openai_form(spec, OPENAI)
    anthropic_form(spec)
    return spec


def fit_gemini(spec: ToolSpec) -> str | None:
    """Give the specification a form for Gemini; return its simplifications, or None.

    A schema that refers to itself is expanded a few levels deep, and the next level is any object.
    """
    schema = spec.parameters or {}
    if _size(schema, schema, {}) is not None:
        gemini_form(spec)
        return None
    depths = map(_Expansion(schema).to_depth, range(_MAX_DEPTH, -1, -1))
    spec.memo["gemini"] = gemini_schema(next(filter(None, depths), {"type": "object"}))
    return f"it refers to itself, and is expanded {_MAX_DEPTH} levels deep at most"


class _Expansion:
    """A recursive schema with its references expanded to some depth."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._nodes = 0

    def to_depth(self, depth: int) -> dict[str, Any] | None:
        """Return the schema, or None if it is too large at this depth."""
        self._nodes = 0
        made = self._expand(self._root, depth)
        return made if self._nodes <= _MAX_NODES else None

    def _expand(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            return value
        if isinstance(value, list):
            return [self._expand(item, depth) for item in cast("list[Any]", value)]
        fields = as_object(value)
        if fields is None:
            return value
        if isinstance(fields.get("$ref"), str):
            if depth == 0:
                return {"type": "object"}
            return self._expand(_target(fields, self._root), depth - 1)
        return {key: self._expand(item, depth) for key, item in _without_definitions(fields)}


def _check_size(tool: str, schema: JsonObject) -> None:
    """Refuse a schema that grows too large once its references are expanded; in linear time.

    Raises:
        ToolDefinitionError: It has too many parts, or is nested too deep.
    """
    try:
        size = _size(schema, schema, {})
    except RecursionError:
        raise ToolDefinitionError(tool, "its schema is nested too deep") from None
    if size is not None and size > _MAX_NODES:
        raise ToolDefinitionError(tool, f"its schema has more than {_MAX_NODES:,} parts")


def _size(value: Any, root: JsonObject, sizes: dict[str, int | None]) -> int | None:
    """Return the number of parts with references expanded; None if a reference is recursive."""
    fields = as_object(value)
    if isinstance(value, list):
        inner = cast("list[Any]", value)
    elif fields is None:
        return 1
    elif isinstance(reference := fields.get("$ref"), str):
        if reference not in sizes:
            sizes[reference] = None
            sizes[reference] = _size(_target(fields, root), root, sizes)
        return sizes[reference]
    else:
        inner = [item for _, item in _without_definitions(fields)]
    found = [_size(item, root, sizes) for item in inner]
    return None if None in found else 1 + sum(size or 0 for size in found)


def _target(schema: dict[str, Any], root: JsonObject) -> Any:
    """Return the target of a reference; nothing, where that is not in the schema."""
    try:
        return resolved(schema, root)
    except ToolDefinitionError:
        return {}


def _without_definitions(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(key, item) for key, item in fields.items() if key not in ("$defs", "definitions")]
