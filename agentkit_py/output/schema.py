"""Output schemas: from an ``output_type`` to its members, each with a schema and a validator."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard, Union, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError, from_json

from agentkit_py._core.json import JsonObject, JsonValue, as_object, dumps, strict_loads
from agentkit_py._core.validation import TOOL_NAME
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.messages import Delta, TextDelta, ToolCallDelta
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.schema import resolved, restore_arguments
from agentkit_py.output.types import (
    FINAL_RESULT,
    EndStrategy,
    Member,
    NativeOutput,
    OutputPlan,
    OutputSpec,
    OutputWay,
    PromptedOutput,
    ToolOutput,
)
from agentkit_py.results import NO_VALUE
from agentkit_py.tools.definition import Tool, context_parameter
from agentkit_py.tools.schema import (
    issues_of,
    model_of_signature,
    plain_schema,
    plain_schema_of,
)
from agentkit_py.tools.values import InvalidArguments

RESPONSE = "response"
"""The member that holds an output which is not an object."""


@dataclass(frozen=True, slots=True)
class TypeArguments:
    """The validator of an output's JSON; JSON, so that strict models take dates and sets."""

    adapter: TypeAdapter[Any]
    schema: JsonObject
    wrapped: bool = False

    def validate(self, given: JsonValue) -> Any:
        """The object.

        Raises:
            InvalidArguments: It does not fit.
        """
        try:
            value = self.adapter.validate_json(dumps(given))
        except ValidationError as error:
            raise InvalidArguments(issues_of(error)) from error
        except (ValueError, RecursionError) as error:  # e.g. half of a surrogate pair
            text = f"it is no JSON that can be read: {error}"
            raise InvalidArguments([{"path": "(answer)", "message": text}]) from error
        return value.response if self.wrapped else value


def output_spec(
    agent: str,
    given: object,
    validators: Sequence[Callable[..., Any]],
    retries: int,
    end_strategy: EndStrategy,
) -> OutputSpec:
    """Resolve an agent's ``output_type``.

    Raises:
        ConfigurationError: It is neither a type with a JSON Schema nor a function.
    """
    way: OutputWay | None = None
    name: str | None = None
    description: str | None = None
    for marker, meant in _WAYS:
        if isinstance(given, marker):
            way, name, description = meant, given.name, given.description
            given = cast("object", given.type)
    try:
        items = [one for item in _listed(given) for one in _parted(item)]
        kinds = [item for item in items if item is not str]
        alone = len(kinds) == 1
        members = tuple(_member(kind, name, description, alone=alone) for kind in kinds)
        _refuse_twice(members)
        whole = members[0] if alone else None
        if len(kinds) > 1 and all(map(_is_type, kinds)):
            union = Union[tuple(kinds)]  # noqa: UP007 - made of a list
            whole = _of_type(union, name or FINAL_RESULT, description)
    except (PydanticUserError, SchemaError, ToolDefinitionError, NameError, TypeError) as error:
        raise ConfigurationError(
            f"Agent {agent!r}: output_type={given!r:.80} cannot be used: {first_line(error)}"
        ) from error
    text = Member(_NO_TOOL, TypeAdapter(str)) if len(kinds) < len(items) else None
    if text is not None:
        whole = None
    return OutputSpec(agent, members, whole, text, way, tuple(validators), retries, end_strategy)


def fixed_type(given: object) -> object:
    """Return an ``output_type`` whose lists are tuples, which cannot change later."""
    if isinstance(given, ToolOutput | NativeOutput | PromptedOutput):
        marker = cast("_Marker", given)
        return replace(marker, type=cast("Any", fixed_type(marker.type)))
    return tuple(cast("list[Any]", given)) if isinstance(given, list) else given


_Marker: TypeAlias = ToolOutput[Any] | NativeOutput[Any] | PromptedOutput[Any]
_WAYS: tuple[tuple[type[_Marker], OutputWay], ...] = (
    (ToolOutput, "tool"),
    (NativeOutput, "native"),
    (PromptedOutput, "prompted"),
)


def _never(arguments: Any, context: Any, /) -> None:
    """Stand for the handler of an output's tool, which the agent loop answers itself."""


_NO_TOOL = Tool("text", "", TypeArguments(TypeAdapter(str), {}), _never, is_async=False)


def _listed(given: object) -> list[Any]:
    if isinstance(given, list | tuple):
        if not given:
            raise TypeError("the list is empty")
        return list(cast("Sequence[Any]", given))
    return [given]


def _parted(item: object) -> list[Any]:
    """Return the types of a union; ``None`` stays in it, as it needs a member of its own."""
    if get_origin(item) in (Union, types.UnionType):
        parts = [part for part in get_args(item) if part is not type(None)]
        if len(parts) == len(get_args(item)) and all(map(_is_named, parts)):
            return parts
    return [item]


def _is_named(part: object) -> bool:
    """Return whether a type of a union makes a schema that is better off alone."""
    return part is str or (isinstance(part, type) and get_origin(part) is None)


def _is_type(item: object) -> bool:
    return not isinstance(item, ToolOutput) and not _is_function(item)


def _is_function(item: object) -> TypeGuard[Callable[..., Any]]:
    return inspect.isroutine(item) or (
        callable(item)
        and not isinstance(item, type)
        and get_origin(item) is None
        and type(item).__module__ not in ("typing", "types", "typing_extensions")
    )


def _refuse_twice(members: Sequence[Member]) -> None:
    names = [member.tool.name for member in members]
    for name in names:
        if names.count(name) > 1:
            raise TypeError(
                f"two of them are called {name!r}; rename either with ToolOutput(…, name=…)"
            )


def _member(item: Any, name: str | None, description: str | None, *, alone: bool) -> Member:
    _refuse_no_type(item)
    if isinstance(item, ToolOutput):
        one = cast("ToolOutput[Any]", item)
        return _member(one.type, one.name or name, one.description or description, alone=alone)
    label = name
    if label is None or not alone:
        kind = re.sub(r"[^A-Za-z0-9_-]+", "_", getattr(item, "__name__", str(item))).strip("_")
        label = label or (FINAL_RESULT if alone else f"{FINAL_RESULT}_{kind}"[:64])
    if not TOOL_NAME.fullmatch(label):
        raise TypeError(f"its name {label!r} must fit a tool: letters, digits, _ and -")
    if not _is_function(item):
        return _of_type(item, label, description)
    context = context_parameter(item)
    model = model_of_signature(label, item, frozenset({context} if context else ()))
    hint = get_type_hints(item).get("return", Any)
    tool = _tool(
        label,
        description or inspect.getdoc(item),
        TypeArguments(TypeAdapter(model), plain_schema(model)),
    )
    return Member(tool, TypeAdapter(hint), item, context)


def _refuse_no_type(item: Any) -> None:
    """Refuse common mistakes with an error that is clearer than pydantic's.

    Raises:
        TypeError: The item is not a type.
    """
    if isinstance(item, NativeOutput | PromptedOutput):
        way = type(cast("_Marker", item)).__name__
        raise TypeError(f"{way} goes around the whole list: {way}([…])")
    if isinstance(item, str):
        raise TypeError("it is the name of a type; give the type itself")
    if isinstance(item, list | tuple | dict):
        raise TypeError("give a type, a function, or a flat list of them")
    kind = cast("type[Any]", item.__class__)
    fields = hasattr(kind, "__pydantic_fields__") or hasattr(kind, "__dataclass_fields__")
    if fields and not callable(item) and kind is not ToolOutput:
        raise TypeError(f"it is an object; give its type {kind.__name__}")


def first_line(error: Exception) -> str:
    """Return pydantic's error for a type that it does not know, with advice."""
    said = str(error).partition("\n")[0]
    if "arbitrary_types_allowed" in said or "IsInstanceSchema" in said:
        said = said.partition(". Set ")[0]
        said += "; write a pydantic model, a dataclass or a TypedDict"
    return said


def _of_type(kind: Any, name: str, description: str | None) -> Member:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = plain_schema_of(adapter)
    wrapped = not _is_object(schema)
    arguments = TypeArguments(adapter, schema)
    if wrapped:
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        model = create_model(name, __config__=config, response=(kind, ...))
        arguments = TypeArguments(TypeAdapter(model), plain_schema(model), wrapped=True)
    doc = description or (_doc(kind) if isinstance(kind, type) else None)
    return Member(_tool(name, doc, arguments), adapter, wrapped=wrapped)


def _doc(kind: type) -> str | None:
    """Return a class's own docstring; None if `dataclass` made it."""
    doc = kind.__dict__.get("__doc__")
    made = not isinstance(doc, str) or doc.startswith(f"{kind.__name__}(")
    return None if made else inspect.cleandoc(cast("str", doc))


def _is_object(schema: JsonObject) -> bool:
    root = resolved(schema, schema)
    unions = any(key in root for key in ("anyOf", "oneOf", "allOf"))
    return root.get("type") == "object" and bool(root.get("properties")) and not unions


def _tool(name: str, description: str | None, arguments: TypeArguments) -> Tool:
    said = description or "Give the final answer: call it when you are done."
    spec = ToolSpec(name, said, arguments.schema)
    return Tool(name, said, arguments, _never, is_async=False, spec=spec)


def read_json(member: Member, text: str) -> Any:
    """Return the object that a reply's text holds.

    Raises:
        InvalidArguments: The text holds no JSON, or an object that does not fit.
    """
    found = _json_in(text)
    if found is None:
        problem = f"it is not JSON: {text[:200]}" if text.strip() else "it is empty"
        raise InvalidArguments([{"path": "(answer)", "message": problem}])
    return member.tool.arguments.validate(restore_arguments(member.spec.parameters, found[0]))


_FENCE = "```"


def _json_in(text: str) -> tuple[JsonValue] | None:
    """Return the JSON in a text: all of it, a fenced block, or the part between outer braces."""
    fenced = text.partition(_FENCE)[2].partition("\n")[2].rpartition(_FENCE)[0]
    braced = text[text.find("{") : text.rfind("}") + 1]
    for candidate in (text, fenced, braced):
        if candidate.strip():
            try:
                return (strict_loads(candidate),)
            except (ValueError, RecursionError):
                continue
    return None


@dataclass(frozen=True, slots=True)
class Partial:
    """An output that is still being written."""

    json: JsonValue
    """Its JSON so far; texts in it may be cut."""

    value: Any
    """The object, if the JSON so far is valid for it; else `NO_VALUE`."""


class PartialOutput:
    """Reads an output while it is being written.

    The text is parsed when it has grown by an eighth, so that all parsing takes linear time.
    """

    def __init__(self, plan: OutputPlan) -> None:
        """Begin to read an output that is asked for as ``plan`` says."""
        self._plan = plan
        self._members = {member.tool.name: member for member in plan.spec.members}
        self._member: Member | None = None
        self._part = self._length = self._next = 0
        self._pieces: list[str] = []
        self._last: JsonValue = None

    def feed(self, delta: Delta) -> Partial | None:
        """Take a piece of the reply; return the output so far where it says more than before."""
        if isinstance(delta, TextDelta):
            member = self._plan.in_text
        elif isinstance(delta, ToolCallDelta) and self._plan.way == "tool":
            member = self._members.get(delta.name)
        else:
            return None
        if member is None:
            return None
        if member is not self._member or delta.index != self._part:
            self._member, self._part = member, delta.index
            self._pieces, self._length, self._next = [], 0, 0
        self._pieces.append(delta.delta)
        self._length += len(delta.delta)
        if self._length < self._next:
            return None
        text = "".join(self._pieces)
        self._pieces, self._next = [text], self._length + max(1, self._length // 8)
        return self._read(member, text)

    def _read(self, member: Member, text: str) -> Partial | None:
        if member is self._plan.spec.text:
            return Partial(text, text)
        start = text.find("{")
        try:
            found = from_json(
                text[max(start, 0) :], allow_inf_nan=False, allow_partial="trailing-strings"
            )
        except ValueError:
            return None
        shown: Any = as_object(found)
        if shown is not None and member.wrapped:
            shown = shown.get(RESPONSE)
        if shown is None or shown == self._last:
            return None
        self._last = shown
        value = NO_VALUE
        if member.function is None:
            try:
                given = restore_arguments(member.spec.parameters, found)
                value = member.tool.arguments.validate(given)
            except InvalidArguments:
                pass
        return Partial(shown, value)
