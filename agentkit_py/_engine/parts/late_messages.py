"""Late messages: those that the user sends during a run."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_py._engine.guarding import Guards, TurnStopped
from agentkit_py._engine.parts.base import Part
from agentkit_py._engine.transcript import INTERRUPTED
from agentkit_py.history.staff import TAKEN_OVER


@dataclass(slots=True)
class LateMessages(Part):
    """Adds late messages before each inference; ends the turn where a person has taken over."""

    guards: Guards | None

    async def before_call(self, number: int) -> str | None:
        """Add the messages that have come; return why the turn ends.

        Raises:
            TurnStopped: A guardrail tripped. The messages before that message have reached no
                model; they are left to the runs that wait with them.
        """
        run, thread, taken = self.run, self.run.thread, list[str]()
        if thread.lease is None:  # no message is left to the run
            return TAKEN_OVER if thread.is_taken_over else None
        messages = await run.take_messages(f"{self.turn.path}.{number}.inbox")
        if messages is None:
            return INTERRUPTED
        for message in messages:
            late = await run.add_late(message)
            taken.append(late.message.id or "")
            if self.guards is not None and not thread.is_taken_over:
                try:
                    await self.guards.check_late()
                except TurnStopped:
                    thread.heard.append(taken[-1])
                    raise
        thread.heard.extend(taken)
        return TAKEN_OVER if thread.is_taken_over else None
