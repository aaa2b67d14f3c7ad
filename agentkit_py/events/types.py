"""The events of a run: observers get them, streaming chunks are made of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.messages import Delta, Finish, Message, ToolCall, ToolResultMessage, Usage

Scope: TypeAlias = Literal["network", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """The fields of all events."""

    run_id: str
    """Id of the network's or agent's run that it happened in."""

    name: str
    """Name of that network or agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Event):
    """A network or an agent begins."""

    scope: Scope
    parent_run_id: str | None = None
    message_id: str
    thread_id: str | None = None
    user_id: str | None = None
    """The state's ``user_id`` or ``userId``, if it is set."""

    routing: bool = False
    """True for a routing agent, whose answers are not part of the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(_Event):
    """The run ended as it should."""

    scope: Scope
    message_id: str
    stop_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(_Event):
    """The run failed, and will not be tried again."""

    scope: Scope
    message_id: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted(_Event):
    """The run was cancelled before its end; its finished results are kept."""

    scope: Scope
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsRouted(_Event):
    """The router chose."""

    agents: tuple[str, ...]
    """The next agents; empty: the run is done."""


class ContextFigures(Protocol):
    """The part of a `ContextReport` that this layer needs; that class is in a higher layer."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBuilt(_Event):
    """The input of a model call was put together."""

    message_id: str
    report: ContextFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextActivity(_Event):
    """A history processor does something that takes time, e.g. summarises."""

    message_id: str
    activity: str
    """Name of the activity, e.g. ``"summary"``."""

    stage: Literal["started", "completed", "failed"]
    facts: Mapping[str, Any]
    """Figures, under the names of the wire (camelCase)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyDelta(_Event):
    """A piece of the model's reply arrived; the whole follows as `ModelReplied`."""

    message_id: str
    delta: Delta


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailedOver(_Event):
    """A model failed, and the next model of a `FallbackModel` is asked.

    The pieces of the reply that were emitted (`ReplyDelta`) do not count any more.
    """

    message_id: str
    error: Exception
    model: str
    """The provider and name of the model that is asked now, e.g. ``"openai:gpt-4.1"``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDelta(_Event):
    """The output of an agent with an ``output_type`` has grown; streamed replies only."""

    message_id: str
    json: Any
    """Its JSON so far; texts in it may be cut."""

    output: Any
    """The object, where the pieces make an object already; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied(_Event):
    """The model answered; messages as the `on_response` hook left them."""

    message_id: str
    messages: Sequence[Message]
    usage: Usage | None = None
    finish: Finish | None = None
    """Why the reply ended; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(_Event):
    """A tool is about to be called."""

    message_id: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tool has come: yielded by a tool that is a generator.

    It is shown while the tool works, and no model reads it.
    """

    text: str = ""
    """What it does now, as users read it."""

    fraction: float | None = None
    """The part that is done, from 0 to 1; None: not known."""

    data: Any = None
    """Anything else for front ends, with a JSON form."""

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are set as JSON."""
        found = {"text": self.text or None, "fraction": self.fraction, "data": self.data}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgressed(_Event):
    """A tool reported its progress, between its `ToolStarted` and its `ToolFinished`.

    It comes when it happens, whatever runs in parallel, and is not remembered.
    """

    message_id: str
    call: ToolCall
    progress: Progress
    id: str
    """Names the report: the same where a replay repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(_Event):
    """A tool gave a result, or an error that the model will read."""

    message_id: str
    result: ToolResultMessage

    @property
    def error(self) -> Exception | None:
        """The exception that the tool raised; None where it raised none, or in another process."""
        return self.result.error


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailChecked(_Event):
    """A guardrail gave its verdict.

    Where it stopped the run, the pieces of the reply that were emitted (`ReplyDelta`) do not count
    any more.
    """

    message_id: str
    guardrail: str
    stage: str
    """``"input"``, ``"output"``, ``"tool_input"`` or ``"tool_output"``."""

    verdict: Literal["passed", "refused", "tripped"]
    """``"refused"``: the model reads the reason instead of a tool's result; ``"tripped"``: the run
    is stopped."""

    reason: str = ""
    tool: str | None = None
    """The tool whose call or result it is about."""

    model_call: Literal["cancelled", "discarded"] | None = None
    """The fate of the model call that ran with a guardrail that stopped the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HitlRequested(_Event):
    """A person is asked."""

    message_id: str
    request: ApprovalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class HitlResolved(_Event):
    """A person answered, or did not in time."""

    message_id: str
    request: ApprovalRequest
    answer: ApprovalAnswer | None


Event: TypeAlias = (
    RunStarted
    | RunCompleted
    | RunFailed
    | RunInterrupted
    | AgentsRouted
    | ContextBuilt
    | ContextActivity
    | ReplyDelta
    | ModelFailedOver
    | OutputDelta
    | ModelReplied
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | GuardrailChecked
    | HitlRequested
    | HitlResolved
)

Observer: TypeAlias = Callable[[Event], "Awaitable[None] | None"]
"""Gets every event of a run, in order; errors of it are logged and do not disturb the run."""
