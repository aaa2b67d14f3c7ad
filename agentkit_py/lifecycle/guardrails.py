"""Guardrails: checks of an agent's input, of its output, and of its tool calls."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast, overload

from agentkit_py._core.awaiting import is_async_callable
from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.processors.redaction import Redactor
from agentkit_py.state import StateT

T = TypeVar("T")

GuardrailStage: TypeAlias = Literal["input", "output", "tool_input", "tool_output"]
"""The stage of a run that a guardrail checks."""


@dataclass(frozen=True, slots=True)
class Tripwire:
    """Returned by a guardrail, it stops the run."""

    reason: str
    """Why, for logs, events and the error."""

    reply: Any = None
    """The answer in place of the error: a text, or an output of the agent's type."""

    info: JsonValue = None
    """Further facts, as JSON."""


GuardrailVerdict: TypeAlias = Tripwire | str | None
"""None: it passes. A text: the reason for the refusal; for a tool's call or result the model reads
it instead, and the run continues. A `Tripwire` stops the run."""

InputGuardrail: TypeAlias = (
    Callable[[AgentContext[StateT], str], GuardrailVerdict | Awaitable[GuardrailVerdict]]
    | Callable[[str], GuardrailVerdict | Awaitable[GuardrailVerdict]]
)
"""Gets the context and the user's text, or the text alone."""

OutputGuardrail: TypeAlias = (
    Callable[[AgentContext[StateT], Any], GuardrailVerdict | Awaitable[GuardrailVerdict]]
    | Callable[[Any], GuardrailVerdict | Awaitable[GuardrailVerdict]]
)
"""Gets the context and the output, or the output alone: an object of the agent's type, or text."""


@dataclass(frozen=True, eq=False)
class Guardrail(Generic[T]):
    """A guardrail with options, or with an agent that judges."""

    check: AgentLike[Any] | Callable[..., GuardrailVerdict | Awaitable[GuardrailVerdict]]
    """A function, or an agent whose input is the value to check."""

    trips: Callable[[T], GuardrailVerdict | bool] | None = None
    """Turns the agent's output (its text, if it has no ``output_type``) into a verdict, or True to
    stop the run. For agents only."""

    name: str | None = None
    """The name in errors, events and traces; None: that of the function or agent."""

    reply: Any = None
    """The answer of a run that it stops, where its verdict has no ``reply``; None: an error."""

    run_in_parallel: bool = False
    """Input guardrails: run during the agent's first model call instead of before it. A tripwire
    ends that call; an Inngest step cannot be ended, so its reply is dropped there. Tools wait."""

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Guardrail[str],
            check: AgentLike[None],
            trips: Callable[[str], GuardrailVerdict | bool],
            name: str | None = None,
            reply: Any = None,
            run_in_parallel: bool = False,  # noqa: FBT001, FBT002 - the field's place
        ) -> None: ...
        @overload
        def __init__(
            self,
            check: AgentLike[T],
            trips: Callable[[T], GuardrailVerdict | bool],
            name: str | None = None,
            reply: Any = None,
            run_in_parallel: bool = False,  # noqa: FBT001, FBT002 - the field's place
        ) -> None: ...
        @overload
        def __init__(
            self: Guardrail[Any],
            check: (
                Callable[[Any], GuardrailVerdict | Awaitable[GuardrailVerdict]]
                | Callable[[Any, Any], GuardrailVerdict | Awaitable[GuardrailVerdict]]
            ),
            trips: None = None,
            name: str | None = None,
            reply: Any = None,
            run_in_parallel: bool = False,  # noqa: FBT001, FBT002 - the field's place
        ) -> None: ...
        def __init__(self, *args: Any, **options: Any) -> None: ...

    def __post_init__(self) -> None:
        """Check that it can judge.

        Raises:
            ConfigurationError: It cannot.
        """
        is_agent = self.agent is not None
        if not is_agent and not callable(self.check):
            raise ConfigurationError(f"A guardrail is a function or an agent, got {self.check!r}")
        if is_agent != (self.trips is not None):
            raise ConfigurationError(
                f"Guardrail {self.label!r}: an agent needs trips=…, a function that returns "
                "whether its output is a violation; a function has no trips=…"
            )
        if not is_agent and not _takes_a_value(self.check):
            raise ConfigurationError(
                f"Guardrail {self.label!r} is called with (ctx, value), or (value); it takes "
                f"{inspect.signature(cast('Any', self.check))}"
            )
        if is_async_callable(self.trips):
            raise ConfigurationError(
                f"Guardrail {self.label!r}: trips=… cannot be async; to wait for "
                "something, write the guardrail as a function"
            )

    @property
    def label(self) -> str:
        """The name in errors, events and traces."""
        check: Any = self.check
        kind = "__name__" if self.agent is None else "name"
        return self.name or str(getattr(check, kind, type(check).__name__))

    @property
    def agent(self) -> AgentLike[Any] | None:
        """The agent that judges; None: a function does."""
        check: Any = self.check
        return cast("AgentLike[Any]", check) if isinstance(check, AgentLike) else None


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a stage."""

    guardrails: tuple[Guardrail[Any], ...] = ()
    redactors: tuple[Redactor, ...] = ()
    """Mask the checked value."""

    def __add__(self, other: Checks) -> Checks:
        """Return both, these first."""
        return Checks(self.guardrails + other.guardrails, self.redactors + other.redactors)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.guardrails or self.redactors)


NO_CHECKS = Checks()


def _takes_a_value(check: Any) -> bool:
    """Return whether a function can be called as guardrails are."""
    try:
        signature = inspect.signature(check)
    except (TypeError, ValueError):  # built in
        return True
    for given in ((None,), (None, None)):
        try:
            signature.bind(*given)
        except TypeError:
            continue
        return True
    return False


@dataclass(frozen=True, slots=True)
class GuardrailSpec:
    """The guardrails of an agent, network or tool, resolved when a run begins."""

    input: Checks = NO_CHECKS
    output: Checks = NO_CHECKS
    tool_input: Checks = NO_CHECKS
    tool_output: Checks = NO_CHECKS

    @classmethod
    def of(cls, where: str, given: Mapping[GuardrailStage, object]) -> GuardrailSpec:
        """Return the guardrails that an agent, network or tool was given, by stage.

        Raises:
            ConfigurationError: An item is not a guardrail, or not a guardrail for this stage.
        """
        if not any(given.values()):
            return NO_GUARDRAILS
        return cls(**{stage: _checks(where, stage, listed) for stage, listed in given.items()})

    def __add__(self, other: GuardrailSpec) -> GuardrailSpec:
        """Return both, these first."""
        if self is NO_GUARDRAILS or other is NO_GUARDRAILS:
            return other if self is NO_GUARDRAILS else self
        return GuardrailSpec(
            self.input + other.input,
            self.output + other.output,
            self.tool_input + other.tool_input,
            self.tool_output + other.tool_output,
        )

    @property
    def names(self) -> list[list[str]]:
        """The names of all, stage by stage."""
        stages = (self.input, self.output, self.tool_input, self.tool_output)
        redactors = [[name for one in stage.redactors for name in one.names] for stage in stages]
        labels = [[one.label for one in stage.guardrails] for stage in stages]
        return [[*one, *other] for one, other in zip(labels, redactors, strict=True)]


NO_GUARDRAILS = GuardrailSpec()


def _checks(where: str, stage: str, given: object) -> Checks:
    option = f"{stage}_guardrails"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigurationError(
            f"{where}: {option} must be a list, got {given!r:.80}; put it into [ ]"
        )
    guardrails, redactors = list[Guardrail[Any]](), list[Redactor]()
    for one in cast("Sequence[Any]", given):
        if isinstance(one, Redactor):
            redactors.append(one)
        elif isinstance(one, Guardrail):
            guardrails.append(cast("Guardrail[Any]", one))
        else:
            guardrails.append(Guardrail[Any](one))
    if redactors and stage == "tool_input":
        raise ConfigurationError(
            f"{where}: a Redactor cannot be in {option}: a tool would work on other arguments than "
            "the model's. Refuse the call with a function, or mask its result."
        )
    beside = [one.label for one in guardrails if one.run_in_parallel]
    if beside and stage != "input":
        raise ConfigurationError(
            f"{where}: {beside[0]!r} in {option} has run_in_parallel=True, which only input "
            "guardrails can: others need the value that they check"
        )
    return Checks(tuple(guardrails), tuple(redactors))


def input_masks(specs: Sequence[GuardrailSpec]) -> tuple[Redactor, ...]:
    """Return the redactors of a run's input, each once."""
    return tuple(dict.fromkeys(redactor for spec in specs for redactor in spec.input.redactors))
