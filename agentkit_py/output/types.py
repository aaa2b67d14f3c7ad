"""Output types: the declared outputs of an agent, and their resolved form in a run.

Loading this module loads no pydantic; `agentkit_py.output.schema` does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

from typing_extensions import TypeVar, is_typeddict

from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.models.base import Model, ToolSpec
from agentkit_py.models.fallback import FallbackModel
from agentkit_py.results import OutputT
from agentkit_py.state import StateT
from agentkit_py.tools.definition import Tool

T = TypeVar("T")

OutputWay: TypeAlias = Literal["native", "tool", "prompted"]
"""A way of asking a model for an output; see `NativeOutput`, `ToolOutput`, `PromptedOutput`."""

EndStrategy: TypeAlias = Literal["early", "exhaustive"]
"""``"early"``: other tools called with a valid output are not run; ``"exhaustive"``: they are."""

OutputValidator: TypeAlias = (
    Callable[[AgentContext[StateT], OutputT], "OutputT | Awaitable[OutputT]"]
    | Callable[[OutputT], "OutputT | Awaitable[OutputT]"]
)
"""Checks an output, or changes it; see `Agent.output_validator`."""

FINAL_RESULT = "final_result"
"""The name of the tool, or schema, of an output."""


@dataclass(frozen=True)
class _OutputMode(Generic[T]):
    """The types of an output with the way in which the model is asked for it."""

    type: (
        type[T]
        | Callable[..., Awaitable[T]]
        | Callable[..., T]
        | Sequence[type[T] | Callable[..., Awaitable[T]] | Callable[..., T]]
    )
    """A type or function, or a list of them."""

    name: str | None = None
    """The name of the tool or schema; None: ``final_result``, in lists with the type's name."""

    description: str | None = None
    """The description for the model; None: the docstring."""


class ToolOutput(_OutputMode[T]):
    """An output that the model gives by calling a tool, which every model can that has tools."""


class NativeOutput(_OutputMode[T]):
    """An output that the provider makes the model write as JSON of its schema."""


class PromptedOutput(_OutputMode[T]):
    """An output that the system prompt asks for, as JSON; for models that can do nothing else."""


OutputItem: TypeAlias = type[T] | Callable[..., Awaitable[T]] | Callable[..., T] | ToolOutput[T]
"""A type, a function of the model's output, or a `ToolOutput` of either."""

OutputType: TypeAlias = (
    OutputItem[T]
    | NativeOutput[T]
    | PromptedOutput[T]
    | Sequence[Callable[..., T | Awaitable[T]] | ToolOutput[T]]
)
"""Anything that an agent's ``output_type`` may be."""
# Items of a list are callables, as types are too: mypy, which joins them instead of making a union,
# finds no T of `type[T] | Callable[…]`, and would refuse the list.


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One of the types that an output may have."""

    tool: Tool
    """The tool by which the model gives it; its arguments are validated against the type."""

    adapter: Any
    """The pydantic ``TypeAdapter`` of the output."""

    function: Callable[..., Any] | None = None
    """Called with the validated arguments; gives the output."""

    context: str | None = None
    """The function's parameter that gets the context."""

    wrapped: bool = False
    """True if the type is not an object, and so is wrapped as the member ``response``."""

    @property
    def spec(self) -> ToolSpec:
        """The name and schema that the model sees."""
        return self.tool.spec


@dataclass(frozen=True, slots=True, eq=False)
class OutputSpec:
    """An agent's output, resolved when its run begins."""

    agent: str
    members: tuple[Member, ...]
    """Its types, but for plain text."""

    whole: Member | None
    """The union schema of all types; None if several include functions or plain text."""

    text: Member | None
    """The member for plain text, if that is an output."""

    way: OutputWay | None
    """None: the best that the model can do."""

    validators: tuple[Callable[..., Any], ...]
    retries: int
    end_strategy: EndStrategy

    def plan(self, model: Model, *, has_tools: bool, prefill: bool) -> OutputPlan:
        """Return how a model is asked for the output.

        Args:
            model: Who is asked.
            has_tools: True if the agent has tools, its own or the provider's.
            prefill: True if the agent begins the answers.

        Raises:
            ConfigurationError: The model cannot be asked in the way that was chosen.
        """
        if not self.members:
            return OutputPlan(self, "text")
        way = self.way
        # All models of a fallback must be able to.
        models: Sequence[Model] = model.models if isinstance(model, FallbackModel) else (model,)
        asked = False
        try:
            asked = self.whole is not None and all(
                one.adapter.output_format(one, self.whole.spec) is not None for one in models
            )
        except ToolDefinitionError as error:  # e.g. recursion, which Gemini takes in tools neither
            if way in ("native", "tool"):
                raise ConfigurationError(
                    f"Agent {self.agent!r}: {model.provider} model {model.model!r} cannot be asked "
                    f"for this output by its schema ({error}); use PromptedOutput(…)"
                ) from error
            way = "prompted"
        if way == "native" and not asked:
            raise ConfigurationError(
                f"Agent {self.agent!r}: {model.provider} model {model.model!r} cannot be asked for "
                "this output by its schema; use ToolOutput(…) or PromptedOutput(…)"
            )
        if way is None:
            fits = all(
                one.takes.structured_output and (one.takes.structured_with_tools or not has_tools)
                for one in models
            )
            way = "native" if asked and fits and not prefill else "tool"
        if way != "tool" and self.whole is None:
            raise ConfigurationError(
                f"Agent {self.agent!r}: functions and str among several outputs need ToolOutput(…)"
            )
        return OutputPlan(self, way)


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The way in which a model is asked for an output."""

    spec: OutputSpec
    way: Literal["native", "tool", "prompted", "text"]

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by which the model answers."""
        members = self.spec.members if self.way == "tool" else ()
        return {member.tool.name: member.tool for member in members}

    @property
    def format(self) -> ToolSpec | None:
        """The schema that the provider enforces."""
        whole = self.spec.whole
        return whole.spec if whole is not None and self.way == "native" else None

    @property
    def is_forced(self) -> bool:
        """True if the model must call a tool: plain text is not an output."""
        return self.way == "tool" and self.spec.text is None

    @property
    def in_text(self) -> Member | None:
        """The type that the reply's text is read as; None: text is not an output."""
        return self.spec.whole if self.way in ("native", "prompted") else self.spec.text

    @property
    def instructions(self) -> str:
        """The part of the system prompt on the output."""
        whole = self.spec.whole
        if whole is None or self.way != "prompted":
            return ""
        from agentkit_py._core.json import dumps  # noqa: PLC0415 - for this way only

        return _PROMPT.format(schema=dumps(whole.spec.parameters))


_PROMPT = """\
When you are done, answer with nothing but a JSON object that fits this JSON Schema, without \
Markdown around it:
{schema}"""


def type_name(kind: Any) -> str:
    """Return a type as it is written in code; of a list of types, their union."""
    if isinstance(kind, list | tuple):
        return " | ".join(type_name(one) for one in cast("Sequence[Any]", kind))
    if kind in (None, NoneType):
        return "None"
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def wrong_output(wanted: Any, value: object, agent: str | None) -> str:
    """Return an error text: the invalid value, its author, and a fix.

    Args:
        wanted: The network's ``output_type``.
        value: The output that came.
        agent: The agent that gave it; None: the network's own ``output`` did.
    """
    name = type_name(wanted)
    author = "output=" if agent is None else f"agent {agent!r}"
    came = f"{author} gave {value!r:.120}, and output_type is {name}."
    if agent is None:
        return came
    if not isinstance(value, str):
        return f"{came} Give the agent and the network the same output_type."
    types: list[Any] = [*wanted] if isinstance(wanted, list | tuple) else [wanted]
    listed = ", ".join(type_name(one) for one in [*types, str])
    return (
        f"{came} If agents may also talk, write Network[…, {name} | str](…, "
        f"output_type=[{listed}]); else give the agent handoffs=[…] or an output_type of its own"
    )


def read_dict(wanted: Any, value: object) -> tuple[object, Sequence[str]]:
    """Return a value, validated as ``wanted`` if it is a dict, and its validation errors.

    Of a list of types it is the first that fits.
    """
    kinds: list[Any] = [*wanted] if isinstance(wanted, list | tuple) else [wanted]
    given: object = value
    if not isinstance(value, dict) or any(kind is dict for kind in kinds):
        return given, ()
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - slow to load

    problems: list[str] = []
    for kind in kinds:
        try:
            return TypeAdapter(kind).validate_python(given), ()
        except ValidationError as error:
            problems += [
                f"output= gave a dict that does not fit {type_name(kind)}, "
                f"{'.'.join(map(str, one['loc'])) or '(whole)'}: {one['msg']}"
                for one in error.errors(include_url=False)
            ]
    return given, problems


def is_type(kind: object) -> bool:
    """Return whether a value is a type as annotations have them, or a list of such types."""
    if isinstance(kind, list | tuple):
        return all(map(is_type, cast("Sequence[object]", kind)))
    if kind is None or isinstance(kind, type) or get_origin(kind) is not None:
        return True
    return type(kind).__module__ in ("typing", "types", "typing_extensions")


def is_of(kind: Any, value: object) -> bool:
    """Return whether a value is of a type, or of a type in a list, as far as it can be seen.

    Unions, ``Annotated`` and the items of collections are looked into; an int is a float, as type
    checkers have it.
    """
    if isinstance(kind, list | tuple):
        return any(is_of(one, value) for one in cast("Sequence[Any]", kind))
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return is_of(parts[0], value)
    if origin in (Union, UnionType):
        return any(is_of(one, value) for one in parts)
    if origin is Literal:
        return value in parts
    if kind is None:
        return value is None
    return _is_plain(origin or kind, value) and _are_items_of(parts, value)


def _is_plain(kind: Any, value: object) -> bool:
    if is_typeddict(kind):
        return isinstance(value, dict)
    if kind is Any or not isinstance(kind, type):
        return True
    try:
        return isinstance(value, (float, int) if kind is float else kind)
    except TypeError:  # a protocol that is for type checkers alone
        return True


def _are_items_of(parts: Sequence[Any], value: object) -> bool:
    """Return whether the items of a collection are of the types in its brackets."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        kinds = parts if len(parts) == 2 else (Any, Any)  # noqa: PLR2004 - keys and values
        return all(is_of(kinds[0], key) and is_of(kinds[1], one) for key, one in pairs.items())
    if not isinstance(value, list | tuple | set | frozenset) or not parts:
        return True
    items = cast("Sequence[Any]", value)
    if len(parts) == 1 or parts[-1] is ...:
        return all(is_of(parts[0], item) for item in items)
    is_same_length = len(parts) == len(items)
    return is_same_length and all(is_of(*pair) for pair in zip(parts, items, strict=True))
