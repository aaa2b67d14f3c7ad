"""Hooks of an agent's lifecycle: `on_response` and `on_finish`."""

from __future__ import annotations

from dataclasses import replace

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.definition import digest_of_messages
from agentkit_py._engine.option_checks import RESULT, expect
from agentkit_py._engine.parts.base import Inference, Part
from agentkit_py.lifecycle.hooks import ResultContext
from agentkit_py.messages import calls_of
from agentkit_py.results import AgentResult


class Hooks(Part):
    """Calls `on_response` after each reply, and `on_finish` with the last result."""

    @property
    def replaces_replies(self) -> bool:
        """True with an `on_response`."""
        return self.turn.agent.lifecycle.on_response is not None

    async def replied(self, inference: Inference) -> None:
        """Replace a reply by the result that `on_response` returns."""
        hook = self.turn.agent.lifecycle.on_response
        if hook is not None:
            returned = await resolve(hook(self._context(inference.result)))
            result = self._checked("on_response", returned) or inference.result
            self._decide(f"{inference.path}.on_response", result)
            inference.replace_result(_without_cut(result, inference))

    async def finish(self, result: AgentResult) -> AgentResult:
        """Return the last result as `on_finish` leaves it."""
        hook = self.turn.agent.lifecycle.on_finish
        if hook is None:
            return result
        with self.run.runtime.within(f"{self.turn.path}.finish"):
            returned = await resolve(hook(self._context(result)))
        last = self._checked("on_finish", returned) or result
        if last.id != result.id:  # so that a later failure does not save both
            self.run.memory.open_replies.pop(result.id or "", None)
        self._decide(f"{self.turn.path}.on_finish", last)
        return last

    def _checked(self, hook: str, returned: AgentResult | None) -> AgentResult | None:
        where = f"Agent {self.turn.agent.name!r}"
        expect(where, f"the result of {hook}", returned, AgentResult, RESULT)
        return returned

    def _decide(self, key: str, result: AgentResult) -> None:
        self.run.runtime.decide(
            key,
            lambda: digest_of_messages(result.output, result.tool_calls),
            f"{key.rpartition('.')[2]} of {self.turn.agent.name!r} returned a result with digest",
        )

    def _context(self, result: AgentResult) -> ResultContext:
        run, agent = self.run, self.turn.agent.agent
        return ResultContext(agent=agent, network=run.network, state=run.state, result=result)


def _without_cut(result: AgentResult, inference: Inference) -> AgentResult:
    """Return a hook's result; where all calls are the hook's own, they were not cut off."""
    calls = calls_of(result.output)
    if result.cut is None or not calls or any(call in inference.calls for call in calls):
        return result
    return replace(result, finish=None)
