"""Replies being streamed: the text that readers have seen if a reply is stopped or breaks off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeGuard

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ModelStreamError, NonRetriableError
from agentkit_py.history.stopping import STOPPED, NoteKeeper, seconds_between_notes
from agentkit_py.messages import Delta, Finish, Message, TextDelta, TextMessage
from agentkit_py.models.replies import partial_messages
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import AgentResult

logger: logging.Logger = get_logger("agentkit_py")

BROKEN_OFF = "broken_off"
"""The word of the end of a reply whose stream failed; of others it is `STOPPED`."""


@dataclass(slots=True)
class ReplyNotes:
    """Notes of a reply of a durable run: a run that is stopped from outside cannot save it.

    About once a second the text so far is stored. A process that finds its run stopped by then adds
    the text to the thread, and ends the model call.
    """

    keeper: NoteKeeper
    id: str
    until_whole: bool
    """A whole reply may be replaced or refused, so only an unfinished reply has a note."""

    is_stopped: bool = field(default=False, init=False)
    """True once the run was stopped."""

    _begun: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _ended: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        """Announce the notes to the keeper."""
        self.keeper.will_note()

    def begin(self) -> None:
        """Start over."""
        self._begun.clear()
        self._ended.clear()

    def grew(self) -> None:
        """Report that there is text."""
        self._begun.set()

    def end(self) -> None:
        """Let `keep` return; a note that it is storing is stored before."""
        self._ended.set()
        self._begun.set()

    async def keep(self, so_far: Callable[[], AgentResult | None]) -> None:
        """Store the text now and then, also while it does not grow: so a stop is noticed."""
        await self._begun.wait()
        while not self._ended.is_set() and not self.is_stopped:
            result = so_far()
            if result is not None:
                await self.store(result, so_far)
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    seconds_between_notes(len(result.text if result else ""))
                ):
                    await self._ended.wait()

    async def store(
        self,
        result: AgentResult | None,
        so_far: Callable[[], AgentResult | None],
        *,
        is_last: bool = False,
    ) -> None:
        """Store the text, or that there is none to keep; never fails.

        Args:
            result: The reply as far as it came.
            so_far: Returns the reply as far as it has come when the run is found stopped.
            is_last: No other note follows, so that a stop of the run waits for none.
        """
        reply = None if result is None else result.to_dict()
        note = {"kind": "written", "id": self.id, "reply": reply, "isWhole": is_last}
        try:
            if await self.keeper.note({f"written/{self.id}": note}):
                return
            self.is_stopped = True
            landed = None if result is None else so_far()
            if landed is not None:
                await self.keeper.land(landed)
        except Exception:
            logger.warning("The text of a reply could not be noted", exc_info=True)


@dataclass(slots=True, kw_only=True)
class WrittenReply:
    """A reply that is streamed, as far as it came.

    Of it texts are kept. Calls are not run, and reasoning lacks its signature.
    """

    agent: str
    id: str
    report: ContextReport
    history: Sequence[Message]
    now: Callable[[], datetime]
    notes: ReplyNotes | None = None
    """Notes of a durable run; None: the process keeps them in memory."""

    _deltas: list[Delta] = field(default_factory=list[Delta], init=False)
    _broken: Sequence[Message] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start over: the text of the previous model no longer counts."""
        self._deltas.clear()
        if self.notes is not None:
            self.notes.begin()

    def add(self, delta: Delta) -> None:
        """Add a piece that readers see.

        Raises:
            NonRetriableError: The run was stopped: its text is in the thread, and no more is shown.
        """
        notes = self.notes
        if notes is not None and notes.is_stopped:
            raise NonRetriableError("The run was stopped while this reply was being written.")
        if isinstance(delta, TextDelta):
            self._deltas.append(delta)
            if notes is not None:
                notes.grew()

    def break_off(self, error: ModelStreamError) -> None:
        """Hold the text received before the stream failed, in this attempt or before it."""
        self._broken = error.messages

    @contextmanager
    def kept_in(self, open_replies: MutableMapping[str, Any]) -> Generator[None]:
        """Hold the reply among a run's open replies while the block writes it.

        It stays there if the stream fails or the run is stopped.
        """
        open_replies[self.id] = self
        try:
            yield
        except Exception as error:
            if _keeps_text(error):
                self.break_off(error)
            else:
                del open_replies[self.id]
            raise
        del open_replies[self.id]

    def so_far(self) -> AgentResult | None:
        """Return the reply as far as it came, marked as cut; None: nothing was seen."""
        return self._so_far(self.now)

    @asynccontextmanager
    async def noting(self) -> AsyncGenerator[None]:
        """Note the text that comes in the block, inside the step of the model call."""
        notes = self.notes
        assert notes is not None
        keeping = asyncio.create_task(notes.keep(self._cut_now))
        try:
            try:
                yield
            except Exception as error:
                last = self._cut_now() if _keeps_text(error) else None
                await self._end_notes(notes, keeping, last)
                raise
            whole = None if notes.until_whole else self._so_far(_utc_now, is_whole=True)
            await self._end_notes(notes, keeping, whole)
        finally:
            keeping.cancel()

    async def _end_notes(
        self, notes: ReplyNotes, keeping: asyncio.Task[None], result: AgentResult | None
    ) -> None:
        notes.end()
        await keeping
        if self._deltas and not notes.is_stopped:
            await notes.store(result, self._cut_now, is_last=True)

    def _cut_now(self) -> AgentResult | None:
        return self._so_far(_utc_now)  # the run's own time is the same in each replay

    def _so_far(self, now: Callable[[], datetime], *, is_whole: bool = False) -> AgentResult | None:
        broken = self._broken
        found = partial_messages(self._deltas) if broken is None else broken
        texts = [
            replace(message, stop_reason="stop" if is_whole else "error", agent=self.agent)
            for message in found
            if isinstance(message, TextMessage) and message.text.strip()
        ]
        if not texts:
            return None
        word = STOPPED if broken is None else BROKEN_OFF
        return AgentResult(
            self.agent,
            texts,
            (),
            now(),
            self.report.prompt,
            self.history,
            id=self.id,
            finish=None if is_whole else Finish("error", word),
            stop_reason=STOPPED,
            context=self.report,
        )


def _keeps_text(error: Exception) -> TypeGuard[ModelStreamError]:
    """Return whether the text that came before an error stays: the stream itself broke off.

    After another error, such as that of a guardrail, it does not count.
    """
    return isinstance(error, ModelStreamError)


def _utc_now() -> datetime:
    return datetime.now(UTC)
