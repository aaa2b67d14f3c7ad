"""Tools: functions that a model may call."""

from __future__ import annotations

import importlib
import inspect
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from string import Formatter
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
    get_origin,
    overload,
)

from typing_extensions import ParamSpec, TypeVar

from agentkit_py._core.awaiting import generator_kind, is_async_callable
from agentkit_py._core.extension_points import ExtensionPoint
from agentkit_py._core.json import JsonValue, as_object, copied
from agentkit_py._core.spellings import spelled_here
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.events.approvals import Answered, ApprovalAnswer, ApprovalRequest
from agentkit_py.history.staff import Takeover
from agentkit_py.lifecycle.guardrails import (
    NO_GUARDRAILS,
    Guardrail,
    GuardrailSpec,
    GuardrailVerdict,
)
from agentkit_py.lifecycle.network_run import AgentLike, NetworkRun
from agentkit_py.messages import ToolCall
from agentkit_py.models.base import ToolSpec
from agentkit_py.models.schema import restore_arguments
from agentkit_py.processors.redaction import Redactor
from agentkit_py.runtime.steps import ToolSteps
from agentkit_py.state import State, StateT
from agentkit_py.tools.argument_repair import Reading, repaired
from agentkit_py.tools.trait_checks import check_handler, check_traits
from agentkit_py.tools.values import Arguments, InvalidArguments

if TYPE_CHECKING:
    from pydantic import BaseModel


P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

DEFAULT_APPROVAL_TIMEOUT = timedelta(hours=4)
"""The time an approval waits for its answer, as the TypeScript package documents it."""


Approver: TypeAlias = Callable[[ApprovalRequest], "Answered | Awaitable[Answered]"]
"""Asks a person in this process, e.g. at the terminal's prompt; True approves everything."""


class CallServices(Protocol):
    """The part of the engine that the handler of a tool call may use."""

    @property
    def key(self) -> str:
        """An id of the call, the same on each attempt where attempts are remembered."""
        ...

    def next_id(self, name: str) -> str:
        """Return a name for a step that the handler did not name itself."""
        ...

    async def ask_from_tool(self, message: str, timeout: timedelta) -> ApprovalAnswer | None:
        """Ask a person."""
        ...

    async def ask_for_person(self, reason: str) -> Takeover:
        """Ask for a person who takes the conversation over."""
        ...


@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[StateT]):
    """The context of a tool's handler: the agent, the run's state, and its services."""

    agent: AgentLike
    network: NetworkRun[StateT] | None
    """The network run the agent is in; None when it runs by itself."""

    state: State[StateT]
    """The run's state; with parallel tools, this tool's own fork of it."""

    step: ToolSteps
    """Durable steps, with new names for each call; for tools with ``steps=True``."""

    call: ToolCall
    """The call as the model made it."""

    arguments: Any = None
    """The validated arguments."""

    services: CallServices = field(repr=False)

    @property
    def thread_id(self) -> str | None:
        """The thread of the run."""
        return self.state.thread_id

    @property
    def idempotency_key(self) -> str:
        """Names this call to other systems: the same if the call has to be made again.

        A durable call is made again when the process died before its result was kept. A system
        that knows the key does not repeat the work.
        """
        return self.services.key

    async def approve(
        self, message: str, *, timeout: timedelta = DEFAULT_APPROVAL_TIMEOUT
    ) -> ApprovalAnswer | None:
        """Ask a person, and wait for the answer; for tools with ``steps=True``.

        Args:
            message: What the person is asked.
            timeout: How long the question waits.

        Returns:
            The answer; None if none came in time.

        Raises:
            ConfigurationError: The tool is not made for steps, or no approver exists.
        """
        return await self.services.ask_from_tool(message, timeout)

    async def ask_for_person(self, reason: str) -> Takeover:
        """Ask for a staff member to take the conversation over; agents answer meanwhile.

        Args:
            reason: Why, as staff read it.

        Returns:
            Who is on the thread, and who asked first.

        Raises:
            ConfigurationError: The run has no store that keeps who is on a thread.
        """
        return await self.services.ask_for_person(reason)

    async def wait_for_event(
        self, event: str, *, if_exp: str | None = None, timeout: timedelta
    ) -> Any:
        """Wait for an Inngest event; for tools with ``steps=True``. None if it does not come."""
        step_id = self.services.next_id(f"wait.{event}")
        return await self.step.wait_for_event(step_id, event=event, if_exp=if_exp, timeout=timeout)

    async def receive(self, event: str, *, key: str, timeout: timedelta) -> Any:
        """Receive an event's data, also of an earlier event; for tools with ``steps=True``.

        See `ToolSteps.receive`.
        """
        step_id = self.services.next_id(f"receive.{event}")
        return await self.step.receive(step_id, event=event, key=key, timeout=timeout)


Condition: TypeAlias = Callable[[ToolContext], "bool | Awaitable[bool]"]
Check: TypeAlias = Callable[[ToolContext], "str | Awaitable[str | None] | None"]
ToolGuardrail: TypeAlias = (
    Callable[[ToolContext[StateT], Any], GuardrailVerdict | Awaitable[GuardrailVerdict]]
    | Callable[[Any], GuardrailVerdict | Awaitable[GuardrailVerdict]]
)
"""Gets the context and the call's arguments or its result, or the latter alone."""


@dataclass(frozen=True, slots=True)
class Approvers:
    """The people who may answer a tool's questions; the application's rule decides without them."""

    names: tuple[str, ...] = ()
    escalate_after: timedelta | None = None
    escalate_to: tuple[str, ...] = ()


NOBODY_NAMED = Approvers()


class ToolTraits(TypedDict, total=False):
    """Options of a tool."""

    title: str
    """A call in the user's words, for front ends: ``"Refund {amount} EUR for order {order}"``, with
    arguments in braces."""

    strict: bool | None
    """Ask providers that know it for strict arguments; None: where the schema allows it."""

    steps: bool
    """Let the handler use ``ctx.step`` for several durable steps, instead of being a single
    step."""

    needs_approval: bool | Condition
    """Ask a person before each call, or a function of the context that decides it."""

    check: Check | None
    """Returns an objection to a call, or None; called before a person is asked, and again right
    before the call."""

    tool_input_guardrails: Sequence[ToolGuardrail | Guardrail[Any]]
    """Checks of each call's arguments, before a person is asked and anything is done."""

    tool_output_guardrails: Sequence[ToolGuardrail | Guardrail[Any] | Redactor]
    """Checks of each result, before anybody sees it."""

    approval_timeout: timedelta
    """The time an approval waits for its answer; 4 hours unless given."""

    approvers: Sequence[str]
    """Allowed to answer: ids of users, or names that the application's rule knows, e.g. of groups;
    ``"owner"`` is the user whose thread it is. Unless given, the application's rule decides."""

    escalate_after: timedelta
    """The time after which `escalate_to` may answer as well, if it is not answered yet."""

    escalate_to: Sequence[str]

    retries: int
    """The number of times that a call which fails or takes too long is tried again before the model
    reads the error; 0 unless given. An Inngest function makes as many of them as it has ``retries``
    itself, and the rest inside the step."""

    backoff: float
    """Seconds before the first of the retries, twice as long before each further retry; 1 unless
    given."""

    timeout: float | timedelta | None
    """Seconds that an attempt may take; the run's ``tool_timeout`` holds too."""

    max_calls: int | None
    """The most calls in a run; a call beyond it is not made, and the model reads why."""

    repair_arguments: bool
    """Repair almost valid arguments where the schema allows a single reading, e.g. a list sent as
    JSON text; True unless given."""


class ReadArguments(NamedTuple):
    """Validated arguments, and their repairs."""

    value: Any
    repairs: tuple[str, ...] = ()
    """Each repair in words, e.g. ``"tags: text read as a list"``."""


class _Invoke(Protocol):
    def __call__(self, arguments: Any, context: ToolContext, /) -> Any: ...


@spelled_here
@dataclass(frozen=True, slots=True, eq=False)
class Tool(Generic[P, R]):
    """A function that a model may call. Made with `tool` or `create_tool`.

    Type checkers know the function's parameters and its result: calling the tool, as tests
    do, is calling the function.
    """

    name: str
    description: str
    arguments: Arguments = field(repr=False)
    invoke: _Invoke = field(repr=False)
    is_async: bool = field(repr=False)
    steps: bool = False
    """True if the handler uses several durable steps instead of being a step."""

    needs_approval: bool | Condition = False
    """Ask a person before each call, or a function of the context that decides it."""

    check: Check | None = None
    """Returns an objection to a call; see `ToolTraits`."""

    approval_timeout: timedelta = DEFAULT_APPROVAL_TIMEOUT
    approvers: Approvers = NOBODY_NAMED
    """The people who may answer; see `ToolTraits`."""

    retries: int = 0
    """The number of times that a call which fails is tried again."""

    backoff: float = 1.0
    """Seconds before the first of the retries; doubled for each further retry."""

    timeout: float | None = None
    """Seconds that an attempt may take."""

    handler: Callable[P, R] | None = field(default=None, repr=False)
    """The function as it was given."""

    spec: ToolSpec = field(repr=False, default_factory=lambda: ToolSpec(""))
    guardrails: GuardrailSpec = field(repr=False, default=NO_GUARDRAILS)
    """Checks of its arguments and results."""

    title: str = ""
    """A call in the user's words; see `ToolTraits`."""

    repair_arguments: bool = True
    """Repair arguments that are nearly right; see `ToolTraits`."""

    max_calls: int | None = None
    """The most calls in a run."""

    generator: Literal["async", "sync"] | None = field(default=None, repr=False)
    """The kind of generator that the handler is: it yields its progress, and then its result."""

    def __call__(self, *args: P.args, **arguments: P.kwargs) -> R:
        """Call the function as it was given."""
        assert self.handler is not None
        return self.handler(*args, **arguments)

    def __copy__(self) -> Tool:
        """Return the tool itself: nothing in it changes."""
        return self

    def __deepcopy__(self, _: object) -> Tool:
        """Return the tool itself: nothing in it changes."""
        return self

    def __reduce__(self) -> tuple[Callable[[str, str], Tool], tuple[str, str]]:
        """Pickle the name of its function, as Python does with functions.

        Raises:
            PicklingError: That name does not lead to the tool.
        """
        place = (
            getattr(self.handler, "__module__", None) or "",
            getattr(self.handler, "__qualname__", None) or "",
        )
        with suppress(ImportError, AttributeError, ToolDefinitionError):
            found = tool_at(*place)
            if found is self or (found.handler is self.handler and found.spec == self.spec):
                return tool_at, place
        from pickle import PicklingError  # noqa: PLC0415 - for errors only

        raise PicklingError(
            f"Tool {self.name!r} cannot be pickled: its function, {'.'.join(place)}, is not found "
            "again by its name. Define the tool with @tool at the top of a module, or make the "
            "agent in the process that runs it."
        )

    @property
    def parameters(self) -> Mapping[str, JsonValue] | None:
        """JSON Schema of the arguments."""
        return self.arguments.schema

    def validate(self, call: ToolCall) -> Any:
        """The validated arguments of ``call``.

        Raises:
            InvalidArguments: They do not fit the schema.
        """
        return self.read(call).value

    def read(self, call: ToolCall, *, repair: bool = True) -> ReadArguments:
        """Return the validated arguments of ``call``, and their repairs.

        Args:
            call: The call.
            repair: Repair arguments that are nearly right, if the tool lets them be repaired.

        Raises:
            InvalidArguments: They do not fit the schema.
        """
        given, reading = self._readings(call, repair=repair)
        if reading is None:
            return ReadArguments(self.arguments.validate(given))
        notes = reading.notes
        try:
            value = self.arguments.validate(given)
        except InvalidArguments as error:
            try:
                return ReadArguments(self.arguments.validate(reading.value), notes)
            except InvalidArguments:
                raise error from None
        # The validation repairs some values itself, or has a way of its own to read them.
        try:
            is_same = bool(self.arguments.validate(reading.value) == value)
        except InvalidArguments:
            is_same = False
        return ReadArguments(value, notes if is_same else ())

    def repairs_of(self, call: ToolCall) -> tuple[str, ...]:
        """Return the repairs in the arguments of ``call``, in words."""
        if self._readings(call, repair=True)[1] is None:
            return ()
        with suppress(InvalidArguments):
            return self.read(call).repairs
        return ()

    def _readings(self, call: ToolCall, *, repair: bool) -> tuple[JsonValue, Reading | None]:
        """Return the arguments of ``call``, and their only reading; None: nothing to repair."""
        # A copy: the handler may change its input, and the message must not change.
        given = copied(call.arguments)
        # Strict schemas make optional fields nullable, so null means "not given".
        given = restore_arguments(self.arguments.schema, given)
        if not (repair and self.repair_arguments):
            return given, None
        reading = repaired(self.arguments.schema, given)
        if reading is None or not reading.notes:
            return given, None
        return given, Reading(copied(reading.value), reading.notes)


def create_tool(
    *,
    name: str,
    handler: Callable[..., Any],
    description: str = "",
    parameters: type[BaseModel] | Mapping[str, JsonValue] | None = None,
    **traits: Unpack[ToolTraits],
) -> Tool:
    """Make a tool of a handler that gets its validated input as a single value.

    Args:
        name: What the model calls it: letters, digits, ``_`` and ``-``, at most 64.
        handler: ``handler(input, ctx)``, ``handler(input)`` or ``handler()``, sync or async. What
            it returns becomes JSON for the model; None reads as success.
        description: Describes to the model when and how to use it.
        parameters: A pydantic model (the handler gets an instance), a JSON Schema (the handler
            gets the dict; needs the extra ``jsonschema``), or None (gets the model's value).
        traits: See `ToolTraits`: ``strict``, ``steps``, ``needs_approval``, ``check``, ``retries``,
            ``timeout``, ``max_calls``, ``repair_arguments``.

    Raises:
        ToolDefinitionError: Name, parameters or handler cannot be used.
    """
    from agentkit_py.tools.schema import arguments_of  # noqa: PLC0415 - loads pydantic

    check_handler(name, handler)
    arguments = arguments_of(name, parameters)
    return _build(name, description, arguments, _by_position(name, handler), handler, traits)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **traits: Unpack[ToolTraits],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **traits: Unpack[ToolTraits],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: type hints give the schema, the docstring the description.

    A parameter annotated `ToolContext` (or called ``ctx``) gets the context and is not shown to
    the model. Descriptions of arguments come from ``Annotated[…, Field(description=…)]`` or the
    docstring, in Google's, NumPy's or Sphinx's style.

    Example:
        ::

            @tool
            def get_weather(city: str, unit: Literal["c", "f"] = "c") -> dict:
                "Get the weather for a city."

    Args:
        function: The function, when used without arguments.
        name: Another name than the function's.
        description: Another description than the docstring's first paragraph.
        traits: See `ToolTraits`: ``strict``, ``steps``, ``needs_approval``, ``check``, ``retries``,
            ``timeout``, ``max_calls``, ``repair_arguments``.

    Raises:
        ToolDefinitionError: The name or signature cannot be used.
    """

    def make(target: Callable[..., Any]) -> Tool:
        from agentkit_py.tools.schema import (  # noqa: PLC0415 - loads pydantic
            ModelArguments,
            model_of_signature,
            summary_of,
        )

        label = name or getattr(target, "__name__", type(target).__name__)
        context = context_parameter(target)
        model = model_of_signature(label, target, frozenset({context} if context else ()))
        summary = description if description is not None else summary_of(target)
        arguments = ModelArguments.of(label, model)
        return _build(label, summary, arguments, _by_name(target, context), target, traits)

    return make if function is None else make(function)


ToolLike: TypeAlias = Tool | Callable[..., Any]
"""A tool, or a function that is made a tool."""

inngest_tool_maker: ExtensionPoint[Callable[[Any], Tool]] = ExtensionPoint("inngest.tool")
"""Makes a tool of an Inngest function, which the tool invokes."""

_known: weakref.WeakKeyDictionary[Callable[..., Any], Tool] = weakref.WeakKeyDictionary()


def as_tool(given: ToolLike) -> Tool:
    """``given`` if it is a tool, else the tool made of the function (once per function).

    Raises:
        ToolDefinitionError: It is neither, or its signature cannot be used.
    """
    if isinstance(given, Tool):
        return cast("Tool", given)
    if type(given).__module__.startswith("inngest"):
        return inngest_tool_maker.get()(given)
    if not callable(given):
        raise ToolDefinitionError(f"{given!r:.60}", "a tool must be a Tool or a function")
    try:
        found = _known.get(given)
    except TypeError:  # cannot be referenced weakly
        return tool(given)
    if found is None:
        found = _known[given] = tool(given)
    return found


def tool_at(module: str, name: str) -> Tool:
    """Return the tool that a module has under a name; a plain function is made a tool.

    Raises:
        ImportError: The module does not exist.
        AttributeError: It has no such name.
        ToolDefinitionError: The object cannot be a tool.
    """
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return as_tool(found)


def _build(
    name: str,
    description: str,
    arguments: Arguments,
    invoke: _Invoke,
    handler: Callable[..., Any],
    traits: ToolTraits,
) -> Tool:
    check_traits(name, description, traits, ToolTraits.__optional_keys__)
    return Tool(
        name,
        description,
        arguments,
        invoke,
        is_async_callable(handler),
        traits.get("steps", False),
        traits.get("needs_approval", False),
        traits.get("check"),
        traits.get("approval_timeout", DEFAULT_APPROVAL_TIMEOUT),
        _approvers(name, traits),
        *_attempts(name, traits),
        handler,
        ToolSpec(name, description, arguments.schema, traits.get("strict")),
        _guardrails(name, traits),
        _title(name, traits, arguments.schema),
        traits.get("repair_arguments", True),
        traits.get("max_calls"),
        generator_kind(handler),
    )


def _title(name: str, traits: ToolTraits, schema: Mapping[str, JsonValue] | None) -> str:
    """Return the tool's title.

    Raises:
        ToolDefinitionError: The title names an unknown argument.
    """
    title: object = traits.get("title", "")
    try:
        pieces = list(Formatter().parse(title)) if isinstance(title, str) else None
    except ValueError:
        pieces = None
    if not isinstance(title, str) or pieces is None:
        raise ToolDefinitionError(name, f"title={title!r} must be a text like 'Find {{order}}'")
    known = as_object((schema or {}).get("properties"))
    for _, argument, form, conversion in pieces:
        if argument is None:
            continue
        if form or conversion or not argument.isidentifier() or argument not in (known or argument):
            told = ", ".join(known or ()) or "none"
            what = "formats" if form or conversion else "names"
            raise ToolDefinitionError(
                name, f"title={title!r} {what} {argument!r}; its arguments, which are shown as "
                f"they are, are {told}"
            )  # fmt: skip
    return title


def _guardrails(name: str, traits: ToolTraits) -> GuardrailSpec:
    """Return the tool's guardrails.

    Raises:
        ToolDefinitionError: A value is not a guardrail.
    """
    inputs = traits.get("tool_input_guardrails", ())
    outputs = traits.get("tool_output_guardrails", ())
    try:
        return GuardrailSpec.of("guardrails", {"tool_input": inputs, "tool_output": outputs})
    except ConfigurationError as error:
        raise ToolDefinitionError(name, str(error)) from error


def _approvers(name: str, traits: ToolTraits) -> Approvers:
    """Return who may answer.

    Raises:
        ToolDefinitionError: The names are a single text, or an escalation lacks names or a time.
    """
    names, further = traits.get("approvers", ()), traits.get("escalate_to", ())
    after = traits.get("escalate_after")
    if isinstance(names, str) or isinstance(further, str):
        raise ToolDefinitionError(name, "approvers and escalate_to are lists of names")
    if (after is None) != (not further):
        raise ToolDefinitionError(name, "escalate_after and escalate_to need each other")
    return Approvers(tuple(names), after, tuple(further)) if names or further else NOBODY_NAMED


def _attempts(name: str, traits: ToolTraits) -> tuple[int, float, float | None]:
    """Return retries, backoff and time-out.

    Raises:
        ToolDefinitionError: They make no sense.
    """
    retries, backoff = traits.get("retries", 0), traits.get("backoff", 1.0)
    given = traits.get("timeout")
    timeout = given.total_seconds() if isinstance(given, timedelta) else given
    if retries < 0 or backoff < 0 or (timeout is not None and timeout <= 0):
        raise ToolDefinitionError(
            name,
            f"retries={retries!r}, backoff={backoff!r}, timeout={given!r}: retries and backoff "
            "must be 0 or more, a timeout more than 0 or None",
        )
    if traits.get("steps") and traits.keys() & {"retries", "backoff", "timeout"}:
        raise ToolDefinitionError(
            name,
            "retries, backoff and timeout are for tools that run as a single step; with "
            "steps=True each ctx.step.run is retried by itself",
        )
    return retries, backoff, timeout


def _by_position(name: str, handler: Callable[..., Any]) -> _Invoke:
    parameters = inspect.signature(handler).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in parameters if p.kind in kinds]
    if sum(p.default is p.empty for p in places) > 2:  # noqa: PLR2004 - input and context
        raise ToolDefinitionError(name, "its handler must take (input, ctx); steps are ctx.step")
    takes_both = len(places) >= 2  # noqa: PLR2004 - input and context
    if takes_both or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return handler
    if len(places) == 1 and context_parameter(handler) is not None:
        raise ToolDefinitionError(name, "its handler gets the input first: write (input, ctx)")
    if len(places) == 1:
        return lambda arguments, _context, /: handler(arguments)
    if any(p.default is p.empty and p.kind is p.KEYWORD_ONLY for p in parameters):
        raise ToolDefinitionError(name, "its handler must take (input, ctx), (input) or nothing")
    return lambda _arguments, _context, /: handler()  # noqa: PLW0108 - it takes no arguments


def _by_name(function: Callable[..., Any], context_name: str | None) -> _Invoke:
    from agentkit_py.tools.schema import field_name  # noqa: PLC0415 - loads pydantic

    parameters = [name for name in inspect.signature(function).parameters if name != context_name]
    fields = {name: field_name(name) for name in parameters}

    def invoke(arguments: Any, context: ToolContext, /) -> Any:
        given = {name: getattr(arguments, field) for name, field in fields.items()}
        if context_name is not None:
            given[context_name] = context
        return function(**given)

    return invoke


_CONTEXTS = frozenset({"ToolContext", "AgentContext"})


def context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that gets the context: by its annotation, or ``ctx``."""
    for parameter in inspect.signature(function).parameters.values():
        hint = parameter.annotation
        if not isinstance(hint, str):
            hint = getattr(get_origin(hint) or hint, "__name__", "")
        name = hint.partition("[")[0].split(".")[-1].strip("'\" ")
        if name in _CONTEXTS or parameter.name == "ctx":
            return parameter.name
    return None
