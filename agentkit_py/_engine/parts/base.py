"""Parts of an agent's turn: their methods, and the inference that they see and change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.guarding import Guards
from agentkit_py._engine.model_calls import CallModel
from agentkit_py._engine.run_context import RunContext
from agentkit_py.messages import EMPTY, ReasoningMessage, ToolCall, calls_of
from agentkit_py.models.blocks import ended, with_empty_marks
from agentkit_py.results import AgentResult, replied
from agentkit_py.tools.definition import Tool

TakeTurn: TypeAlias = Callable[[], Awaitable[AgentResult]]
"""Takes an agent's turn; returns its last result."""


@dataclass(slots=True)
class Inference:
    """One model call with its tool calls; only its methods change it."""

    path: str
    """Step id prefix."""

    number: int
    """Its place in the turn, from 0."""

    tools: Mapping[str, Tool]
    """The tools that may be called."""

    result: AgentResult
    calls: Sequence[ToolCall] = field(init=False)
    """The reply's tool calls."""

    is_paused: bool = field(init=False)
    """The provider paused the reply: another request continues it."""

    is_empty: bool = field(init=False)
    """The provider ended the reply well, and it says nothing."""

    settled: dict[int, JsonValue] = field(default_factory=dict[int, JsonValue], init=False)
    """Results of calls that are not run, by their place among the calls."""

    guards: Guards | None = field(default=None, init=False)
    """The guardrails of the calls."""

    is_last: bool = field(default=False, init=False)
    """A part has ended the turn."""

    _stop_reason: str | None = field(default=None, init=False)
    """The reason of the part that ended the turn."""

    is_repeated: bool = field(default=False, init=False)
    """The model has to reply again, without this inference being counted."""

    def __post_init__(self) -> None:
        """Find the calls."""
        self.replace_result(self._continued())

    @property
    def continues(self) -> bool:
        """True if another inference follows."""
        return not self.is_last and bool(self.calls or self.is_repeated or self.is_paused)

    @property
    def ended_by(self) -> str | None:
        """Why the turn ends with the inference; None: as the model ended it."""
        cut = self.result.cut
        return self._stop_reason or (None if cut is None else cut.reason)

    @property
    def counts(self) -> bool:
        """True if the inference counts for ``max_iter``."""
        return not (self.is_repeated or self.is_paused)

    def _continued(self) -> AgentResult:
        """Return the result; where it says nothing, as an answer or as a reply to be continued."""
        result, finish = self.result, self.result.finish
        if finish is None or EMPTY not in (finish.details or {}):
            return result
        if self.number == 0:  # before any tool's result, it may be the answer
            whole = replace(finish, reason="stop", details=None)
            return replace(result, output=ended(result.output, "stop"), finish=whole)
        nothing = replied(ReasoningMessage(""), result.agent_name)
        return replace(result, output=with_empty_marks(result.output or [nothing]))

    def replace_result(self, result: AgentResult) -> None:
        """Put another result in the place of the reply's."""
        finish = result.finish
        self.is_empty = finish is not None and EMPTY in (finish.details or {})
        self.result, self.calls = result, calls_of(result.output)
        self.is_paused = result.finish_reason == "pause" and not self.calls

    def settle(self, index: int, content: JsonValue) -> None:
        """Give a call a result without running it; the last result counts."""
        self.settled[index] = content

    def guard_calls(self, guards: Guards) -> None:
        """Let guardrails check the calls and their results."""
        self.guards = guards

    def end(self, stop_reason: str | None = None) -> None:
        """End the turn; without a reason, as if the model had ended it."""
        self.is_last, self._stop_reason = True, stop_reason

    def repeat(self) -> None:
        """Ask the model for another reply, and do not count this inference."""
        self.is_repeated = True


@dataclass(slots=True)
class Part:
    """One concern of an agent's turn. A method that a part does not override does nothing."""

    run: RunContext
    turn: Turn

    @property
    def replaces_replies(self) -> bool:
        """True if a reply may be replaced, so that its pieces are not to be seen before."""
        return False

    @property
    def hides_reasoning(self) -> bool:
        """True if users may not see the reasoning of replies."""
        return False

    def around_turn(self, take_turn: TakeTurn) -> TakeTurn:
        """Return the turn, wrapped; the wrapper of the first part is the outermost."""
        return take_turn

    async def begin(self) -> str | None:
        """Prepare the first inference; return why the turn ends without any."""

    async def before_call(self, number: int) -> str | None:
        """Prepare an inference; return why the turn ends before it.

        An inference that continues a paused reply follows it at once, without a call of this.
        """

    async def offered(self) -> Mapping[str, Tool]:
        """Return tools that are offered with the agent's, by name."""
        return {}

    def around_call(self, call_model: CallModel) -> CallModel:
        """Return the model call, wrapped; the wrapper of the first part is the outermost."""
        return call_model

    async def replied(self, inference: Inference) -> None:
        """See or replace the reply, before its tools run."""

    async def after_tools(self, inference: Inference) -> None:
        """End the turn, or let the model reply again."""

    def ends_after(self, inference: Inference) -> str | None:
        """Return why a turn ends that another inference would continue."""

    async def finish(self, result: AgentResult) -> AgentResult:
        """Return the last result of the turn."""
        return result

    async def added(self, inference: Inference, result: AgentResult) -> None:
        """See the result as it was added to the transcript; raise where the turn has failed."""


async def finished(
    parts: Sequence[Part], result: AgentResult, stop_reason: str | None
) -> AgentResult:
    """Return the last result of a turn, as its parts leave it, with its stop reason."""
    for part in parts:
        result = await part.finish(result)
    is_marked = result.stop_reason == stop_reason
    return result if is_marked else replace(result, stop_reason=stop_reason)


def empty_result(run: RunContext, turn: Turn, name: str) -> AgentResult:
    """Return a result without a model call.

    Args:
        run: The run.
        turn: The agent's turn.
        name: Names the result's id and time in the turn.
    """
    key = f"{turn.path}.{name}"
    when, new_id = run.runtime.now(key), run.runtime.new_id(key)
    return AgentResult(turn.agent.name, (), (), when, id=new_id)
