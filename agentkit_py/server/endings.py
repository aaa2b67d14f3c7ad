"""The end of a reply, as records and the thread say it: half an answer is not a success."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from agentkit_py._engine.pausing import LOST
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.events.chunks import FAILED
from agentkit_py.events.replies import ReplyEnd, ReplyStatus
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import RunRecord
from agentkit_py.server.runs import DIED
from agentkit_py.server.turns import ShownTurn

HAS_DIED = ReplyEnd(reason="failed", error=DIED, recoverable=True)
"""The end of a run whose process has died."""


async def record_of(store: object, thread_id: str, message_id: str) -> RunRecord | None:
    """Return the record of a message's run; None: the store has none."""
    runs = abilities_of(store).runs
    if thread_id and runs is not None:
        with suppress(ThreadNotFoundError):
            return await runs.load_run(thread_id, message_id)
    return None


def end_of(run: RunRecord | None, turn: ShownTurn | None, *, runs_here: bool) -> ReplyEnd:
    """Return how the run of a message has ended, which no process works on.

    Args:
        run: Its record. A plain answer has none without a lease in the store.
        turn: The message with its reply, as the thread has it.
        runs_here: Whether runs are tasks of the server, whose ends are recorded where the thread
            does not show them.
    """
    if run is None:
        has_answer = turn is None or (bool(turn.parts) and turn.parts[-1].type == "text")
        if has_answer or not runs_here:
            return ReplyEnd(reason="completed")
        return HAS_DIED
    if run.status == "failed":
        has_died = run.stop_reason == LOST
        return HAS_DIED if has_died else ReplyEnd(reason="failed", error=FAILED)
    return ReplyEnd(reason="stopped" if run.status == "stopped" else "completed")


def waiting_for(questions: Iterable[Question]) -> ReplyStatus:
    """Return the status of a reply whose run waits for the answers to questions."""
    times: list[datetime] = [one.expires_at for one in questions if one.expires_at is not None]
    return ReplyStatus(status="waiting", until=min(times, default=None))
