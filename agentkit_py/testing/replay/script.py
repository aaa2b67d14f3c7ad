"""The script of one conversation: who is due to say what, by position."""

from __future__ import annotations

from collections import deque
from typing import Any

from agentkit_py.messages import ToolCall
from agentkit_py.testing.provider import ErrorReply, Reply, error
from agentkit_py.testing.replay.recording import RecordedCall, RecordedReply, RecordedTurn


class Script:
    """Plays one recorded turn at a time: the model's replies, and the tools' answers.

    The provider's thread asks for replies and the run's for answers, but never at the same time: a
    run waits for its model.
    """

    def __init__(self) -> None:
        """Nothing is due yet."""
        self._replies: deque[RecordedReply] = deque()
        self._calls: list[RecordedCall] = []

    def begin(self, turn: RecordedTurn) -> None:
        """Go to a turn, whatever was left of the one before."""
        self._replies = deque(turn.replies)
        self._calls = []

    @property
    def upcoming(self) -> RecordedReply | None:
        """What the model says next; None where the recorded turn ends."""
        return self._replies[0] if self._replies else None

    @property
    def remaining(self) -> int:
        """How many recorded replies of this turn the model was not asked for."""
        return len(self._replies)

    def reply(self) -> Reply:
        """What the model says now."""
        if not self._replies:
            return no_reply()
        reply = self._replies.popleft()
        self._calls = list(reply.calls)
        calls = [{"id": c.id, "name": c.name, "arguments": c.written} for c in reply.calls]
        said: dict[str, Any] = {"tool_calls": calls}
        return said if reply.text is None else {"text": reply.text, **said}

    def answer(self, call: ToolCall) -> str | None:
        """What the tool answers: the first answer not yet given to such a call of this reply.

        The id alone does not tell: models repeat ids, also within a turn.
        """
        for index, recorded in enumerate(self._calls):
            if (recorded.id, recorded.name) == (call.id, call.name):
                return self._calls.pop(index).result
        raise LookupError(f"The recording has no answer for this call of {call.name}")


def no_reply() -> ErrorReply:
    """What the model says when it is asked for more than was recorded."""
    return error(500, "The recording has no further reply in this turn.")
