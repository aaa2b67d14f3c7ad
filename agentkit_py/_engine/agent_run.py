"""AgentRun: the run of an agent by itself, as a tool, or for a guardrail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from agentkit_py._engine.agent_spec import AgentSpec, ModelChoice, Turn, TurnOptions
from agentkit_py._engine.answers import with_earlier_output
from agentkit_py._engine.driver import RunBody, drive
from agentkit_py._engine.limits import MAX_STEPS
from agentkit_py._engine.pausing import PENDING
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.transcript import INTERRUPTED
from agentkit_py.errors import OutputError
from agentkit_py.history.leases import STEERED
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.staff import TAKEN_OVER
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.results import NO_VALUE, AgentResult, AgentRunResult, text_of_output

RunTurn: TypeAlias = Callable[[RunContext, AgentSpec, TurnOptions], Awaitable[AgentResult]]
"""Runs a turn of an agent: `agentkit_py._engine.agent_loop.run_agent`."""

ENDS_IN_ORDER = (PENDING, TAKEN_OVER, STEERED, INTERRUPTED, MAX_STEPS)
"""Stop reasons of runs that have not failed, though the agent has given no output: others answer,
or the run continues."""


class TurnBody(RunBody[AgentResult]):
    """A run that is a single turn of an agent."""

    kind = "agent"

    def __init__(
        self, context: RunContext, agent: AgentLike, options: TurnOptions, run_turn: RunTurn
    ) -> None:
        """Keep the agent, the options of its turn, and the function that runs it."""
        super().__init__(context)
        self.agent = agent
        self.options = options
        self._run_turn = run_turn
        self._last: AgentResult | None = None

    @property
    def agents(self) -> Sequence[AgentLike]:
        """The agent."""
        return (self.agent,)

    @property
    def spec(self) -> AgentSpec:
        """The agent as it is in this run."""
        return self.context.choices.spec_of(self.agent)

    @property
    def last(self) -> AgentResult | None:
        """The turn's last result."""
        return self._last

    def work(self) -> Awaitable[AgentResult]:
        """Run the turn."""
        return self._run_turn(self.context, self.spec, self.options)

    def end(self, outcome: AgentResult) -> str | None:
        """Take over the turn's last result."""
        self._last = outcome
        return outcome.stop_reason

    def end_without_work(self, stop_reason: str, pending: Sequence[Question] = ()) -> None:
        """Give an empty result."""
        run = self.context
        key = f"{run.prefix}/{stop_reason}"
        when, new_id = run.runtime.now(key), run.runtime.new_id(key)
        self._last = AgentResult(self.agent.name, (), (), when, id=new_id, stop_reason=stop_reason)

    def repeat(self, outcome: RunRecord) -> None:
        """Take over the earlier result; an empty result if the agent gave none."""
        if outcome.stop_reason in (TAKEN_OVER, STEERED):
            self.end_without_work(outcome.stop_reason)
        else:
            earlier = self.context.earlier_result()
            self._last = with_earlier_output(self.spec.output, earlier)

    def result(self) -> AgentResult:
        """Return the turn's last result."""
        assert self._last is not None, "the run has ended"
        return self._last

    def answer(self) -> tuple[str, str | None]:
        """Return the output as a text, and the limit that ended the turn."""
        last = TurnBody.result(self)
        return text_of_output(last), last.stop_reason


class AgentRun(TurnBody):
    """A run of an agent that a caller began, who gets its output where it has a type."""

    def end(self, outcome: AgentResult) -> str | None:
        """Take over the turn's last result.

        Raises:
            OutputError: A limit ended the turn before there was an output.
        """
        stop_reason = super().end(outcome)
        if stop_reason not in ENDS_IN_ORDER:
            self.result()
        return stop_reason

    def result(self) -> Any:
        """Return the last result, with the output where it has a type.

        Raises:
            OutputError: The output is missing.
        """
        context = self.context
        last, thread_id = super().result(), context.state.thread_id
        if last.thread_id != thread_id:
            last = replace(last, thread_id=thread_id)
        if self.spec.output is None:
            return last
        if last.value is NO_VALUE:
            reason = last.stop_reason or "earlier run"
            problems = context.memory.problems
            raise OutputError(self.agent.name, reason, result=last, problems=problems)
        results = tuple(context.transcript.results())
        return AgentRunResult(last.value, last, results, context.spending.meter.usage)


async def run_judging_agent(
    run_turn: RunTurn, default_model: ModelChoice, run: RunContext, agent: AgentLike, turn: Turn
) -> AgentResult:
    """Run an agent that a guardrail asks about the turn of another."""
    options = TurnOptions(run.prefix, default_model=default_model, parent_run_id=turn.run_id)
    body = TurnBody(run, agent, options, run_turn)
    await drive(body)
    return body.result()
