"""JSON Schemas of pydantic models without the titles that pydantic invents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from agentkit_py._core.json import JsonObject


def plain_schema(model: type[BaseModel]) -> JsonObject:
    """The JSON Schema of what ``model`` takes.

    Pydantic makes titles of the names of fields and classes. They say nothing that is not there
    already, they are sent with each request, and those of private classes look odd to a model. The
    schemas of TypeScript's zod have none. Titles that somebody wrote stay.

    Raises:
        PydanticUserError: The model has no JSON Schema.
    """
    return model.model_json_schema(mode="validation", schema_generator=_WithoutTitles)


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out what pydantic would make of names."""

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
    """The schema without the name of its class, unless somebody configured it."""
    configured: object = getattr(cls, "model_config", None) or getattr(
        cls, "__pydantic_config__", None
    )
    wrote = isinstance(configured, Mapping) and bool(
        cast("Mapping[str, object]", configured).get("title")
    )
    if cls is not None and not wrote and made.get("title") == cls.__name__:
        made.pop("title")
    return made
