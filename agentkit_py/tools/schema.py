"""Arguments of tools: a validator from a signature, a pydantic model or a JSON Schema.

Loaded when the first tool is made: pydantic takes more time to import than all of the engine.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py.errors import MissingDependencyError, ToolDefinitionError
from agentkit_py.tools.values import Arguments, InvalidArguments


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """Arguments described by a pydantic model."""

    model: type[BaseModel]
    schema: JsonObject

    @classmethod
    def of(cls, tool: str, model: type[BaseModel]) -> ModelArguments:
        """The arguments that ``model`` describes.

        Raises:
            ToolDefinitionError: The model has no JSON Schema.
        """
        try:
            return cls(model, plain_schema(model))
        except PydanticUserError as error:
            raise ToolDefinitionError(tool, f"no JSON Schema for its arguments: {error}") from error

    def validate(self, given: JsonValue) -> BaseModel:
        """An instance of the model."""
        try:
            return self.model.model_validate(given)
        except ValidationError as error:
            raise InvalidArguments(issues_of(error)) from error


def issues_of(error: ValidationError) -> list[dict[str, JsonValue]]:
    """Return the validation errors for the model: paths and messages."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        {"path": ".".join(map(str, item["loc"])) or "(arguments)", "message": item["msg"]}
        for item in found
    ]


@dataclass(frozen=True, slots=True)
class SchemaArguments:
    """Arguments described by a JSON Schema; needs the package jsonschema."""

    schema: JsonObject
    validator: Any

    @classmethod
    def of(cls, tool: str, schema: JsonObject) -> SchemaArguments:
        """The arguments that ``schema`` describes.

        Raises:
            MissingDependencyError: jsonschema is not installed.
            ToolDefinitionError: ``schema`` is no JSON Schema.
        """
        try:
            from jsonschema import SchemaError
            from jsonschema.validators import validator_for
        except ImportError as error:
            raise MissingDependencyError(
                "jsonschema", "jsonschema", f"Tool {tool!r} with a JSON Schema"
            ) from error
        kind: Any = cast("Any", validator_for)(schema)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise ToolDefinitionError(tool, f"no JSON Schema: {error.message}") from error
        return cls(schema, kind(schema))

    def validate(self, given: JsonValue) -> JsonValue:
        """The arguments as they came, if they fit."""
        errors = sorted(self.validator.iter_errors(given), key=lambda error: list(error.path))
        if errors:
            issues = [(".".join(map(str, e.path)) or "(arguments)", str(e.message)) for e in errors]
            raise InvalidArguments([{"path": path, "message": text} for path, text in issues])
        return given


@dataclass(frozen=True, slots=True)
class AnyArguments:
    """Arguments without a description."""

    schema: None = None

    def validate(self, given: JsonValue) -> JsonValue:
        """The arguments as they came."""
        return given


def arguments_of(tool: str, parameters: object) -> Arguments:
    """The arguments that ``parameters`` describe: a pydantic model, a JSON Schema, or None."""
    if parameters is None:
        return AnyArguments()
    if isinstance(parameters, type) and issubclass(parameters, BaseModel):
        return ModelArguments.of(tool, parameters)
    if isinstance(parameters, Mapping):
        _expect_schema(tool, cast("Mapping[object, object]", parameters))
        return SchemaArguments.of(tool, cast("JsonObject", parameters))
    raise ToolDefinitionError(
        tool, f"parameters must be a pydantic model, a JSON Schema or None, got {parameters!r:.80}"
    )


_SCHEMA_KEYS = frozenset({"type", "properties", "$ref", "anyOf", "oneOf", "allOf"})
_TYPE_WORDS = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def _expect_schema(tool: str, given: Mapping[object, object]) -> None:
    """Refuse a mapping of names to types, as in ``{"a": "string"}``.

    Raises:
        ToolDefinitionError: ``given`` is such a mapping.
    """
    if given.keys() & _SCHEMA_KEYS:
        return
    types = [one for one in given.values() if isinstance(one, str | type)]
    if any(isinstance(one, type) or one in _TYPE_WORDS for one in types):
        name = next(iter(given))
        raise ToolDefinitionError(
            tool,
            f"parameters={dict(given)!r:.120} is no JSON Schema: write a pydantic model, or "
            f'{{"type": "object", "properties": {{"{name}": {{"type": "string"}}}}}}',
        )


def model_of_signature(
    tool: str, function: Callable[..., Any], skip: frozenset[str]
) -> type[BaseModel]:
    """A pydantic model with a field for each parameter but those in ``skip``.

    Raises:
        ToolDefinitionError: A parameter has no type hint, or cannot be passed by name.
    """
    hints = _hints(tool, function)
    described = _argument_docs(doc_of(function))
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in skip:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(tool, f"parameter {parameter} cannot be passed by name")
        if parameter.name not in hints:
            raise ToolDefinitionError(tool, f"parameter {parameter.name!r} needs a type hint")
        hint = hints[parameter.name]
        field = _field(parameter, hint, described.get(parameter.name))
        fields[field_name(parameter.name)] = (hint, field)
    try:
        return create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)
    except (PydanticUserError, NameError, TypeError) as error:
        raise ToolDefinitionError(tool, f"cannot use its signature: {error}") from error


def field_name(parameter: str) -> str:
    """The model's field for a parameter: the same, unless pydantic uses that name itself."""
    taken = hasattr(BaseModel, parameter) or parameter.startswith(("_", "model_"))
    return f"argument_{parameter}" if taken else parameter


def _field(parameter: inspect.Parameter, hint: object, description: str | None) -> FieldInfo:
    default = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        return default
    facts: dict[str, Any] = {}
    own = FieldInfo.from_annotation(cast("Any", hint))
    if description is not None and own.description is None:
        facts["description"] = description
    if field_name(parameter.name) != parameter.name and own.alias is None:
        facts["alias"] = parameter.name
    return cast("FieldInfo", Field(default, **facts))


def doc_of(function: Callable[..., Any]) -> str:
    """The docstring of a function, or of an object's ``__call__``."""
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    return inspect.getdoc(type(function).__call__) or inspect.getdoc(function) or ""


def _hints(tool: str, function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            tool, f"a type hint cannot be resolved: {error}. Define the type at module level."
        ) from error


_SECTION = re.compile(
    r"^[ \t]*(?:(?:(?:Keyword|Other)[ \t])?(?:Args|Arguments|Parameters|Params)[ \t]*:?"
    r"|[:@](?:param|parameter|arg|argument)\b.*)$",
    re.MULTILINE,
)
"""The first line on parameters in a docstring, in Google's, NumPy's or Sphinx's style."""


def summary_of(function: Callable[..., Any]) -> str:
    """The first paragraph of a function's docstring, without the parameters."""
    paragraph = doc_of(function).split("\n\n")[0]
    section = _SECTION.search(paragraph)
    return " ".join(paragraph[: section.start() if section else None].split())


def _argument_docs(doc: str) -> dict[str, str]:
    """Return the description of each argument in a docstring of these styles."""
    if not _SECTION.search(doc):
        return {}
    import griffe  # noqa: PLC0415 - takes time, and few docstrings need it

    kinds = (griffe.DocstringSectionParameters, griffe.DocstringSectionOtherParameters)
    quiet = {"warnings": False}
    styles = {"google": quiet, "numpy": quiet, "sphinx": quiet}
    docstring = griffe.Docstring(doc, lineno=1)
    sections = docstring.parse("auto", method="max_sections", per_style_options=styles)
    return {
        parameter.name.lstrip("*"): " ".join(parameter.description.split())
        for section in sections
        if isinstance(section, kinds)
        for parameter in section.value
        if parameter.description
    }


def plain_schema(model: type[BaseModel]) -> JsonObject:
    """The JSON Schema of the input of ``model``.

    Pydantic derives titles from the names of fields and classes. They add nothing, are sent with
    each request, and titles of private classes look odd to a model. The schemas of TypeScript's zod
    have none. Titles that were set by hand stay.

    Raises:
        PydanticUserError: The model has no JSON Schema.
    """
    return model.model_json_schema(mode="validation", schema_generator=_WithoutTitles)


def plain_schema_of(adapter: TypeAdapter[Any]) -> JsonObject:
    """Return the JSON Schema of the input of an adapter's type, as `plain_schema` does.

    Raises:
        PydanticUserError: The type has no JSON Schema.
    """
    return adapter.json_schema(mode="validation", schema_generator=_WithoutTitles)


class _WithoutTitles(GenerateJsonSchema):
    """Omits the titles that pydantic derives from names."""

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        self._enums = set[str]()
        made = super().generate(schema, mode)
        # Pydantic gives enumerations their titles at the end.
        for node in _nodes(made):
            title: object = node.get("title")
            if (
                isinstance(title, str)
                and title in self._enums
                and ("enum" in node or "const" in node)
            ):
                del node["title"]
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _untitled(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _untitled(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _untitled(super().typed_dict_schema(schema), schema.get("cls"))

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        self._enums.add(schema["cls"].__name__)
        return super().enum_schema(schema)


def _nodes(value: object) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        yield found
        for item in found.values():
            yield from _nodes(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _nodes(item)


def _untitled(made: JsonSchemaValue, cls: type[Any] | None) -> JsonSchemaValue:
    """The schema without its class name as title, unless the title was configured."""
    configured: object = getattr(cls, "model_config", None) or getattr(
        cls, "__pydantic_config__", None
    )
    wrote = isinstance(configured, Mapping) and bool(
        cast("Mapping[str, object]", configured).get("title")
    )
    if cls is not None and not wrote and made.get("title") == cls.__name__:
        made.pop("title")
    return made
