"""The events of replies."""

from __future__ import annotations

from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.parts.base import Inference, Part
from agentkit_py._engine.run_context import RunContext
from agentkit_py.events.types import ModelReplied
from agentkit_py.messages import Usage
from agentkit_py.results import AgentResult


class ReplyEvents(Part):
    """Emits each reply."""

    async def replied(self, inference: Inference) -> None:
        """Emit the reply, as the parts before have left it."""
        await emit_reply(self.run, self.turn, inference.result, usage=inference.result.usage)


async def emit_reply(
    run: RunContext, turn: Turn, result: AgentResult, *, usage: Usage | None
) -> None:
    """Emit a reply.

    Args:
        run: The run.
        turn: The agent's turn.
        result: The reply.
        usage: Its tokens; None: they are counted with another reply.
    """
    if run.monitor.is_active:
        event = ModelReplied(
            **turn.facts, messages=result.output, usage=usage, finish=result.finish
        )
        await run.monitor.emit_now(event)
