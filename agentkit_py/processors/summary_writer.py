"""Making a summary once: in steps, under a lock, and never at the cost of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentkit_py._core.json import JsonValue, as_object
from agentkit_py.errors import HistoryError, ModelError
from agentkit_py.messages import Message
from agentkit_py.models.base import Model
from agentkit_py.processors.base import Host, ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import Stretch, anchor_before, batches
from agentkit_py.processors.places import Places
from agentkit_py.processors.summaries import Summary, SummaryStore
from agentkit_py.processors.summary_text import answer_of, placed, request_of
from agentkit_py.processors.tokenizers import count_messages, count_text

_CHARS_PER_TOKEN = 2
_LEAST_CHARS = 400


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a new summary is to stand for."""

    covered: Sequence[Stretch]
    known: Summary | None
    """The summary that was loaded; it may be of other messages."""

    earlier: Summary | None
    """The same, if it is of what came before."""

    most: int
    """Tokens the summary's text may have."""

    batch: int
    """Tokens of messages that the model is shown at once."""

    @property
    def start(self) -> int:
        """Index of the first message."""
        return self.covered[0].start

    @property
    def stop(self) -> int:
        """Index after the last message."""
        return self.covered[-1].stop

    @property
    def tokens(self) -> int:
        """Tokens of the messages."""
        return round(sum(stretch.tokens for stretch in self.covered))


@dataclass(frozen=True, slots=True)
class Written:
    """What came of it."""

    summary: Summary | None
    """The newest there is, also if another run made it; None: there is none."""

    problem: str = ""
    """Why it is not what was wanted."""


class _Refused(Exception):  # noqa: N818 - no error: a model's answer that cannot be used
    """The model's answer is no summary."""


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """Loads the summary of one thread, and makes the next one."""

    model: Model
    store: SummaryStore | None
    key: str
    lock: float
    """Seconds."""

    context: ProcessorContext

    async def load(self) -> Summary | None:
        """The summary that is kept."""
        store, thread = self.store, self.context.thread_id
        if store is None or thread is None:
            return None
        host = self.context.host
        if host is None or self.context.dry:
            return await store.load_summary(thread, self.key)
        load = partial(_load, store, thread, self.key)
        return _summary(await host.once(host.step_id("summary.load"), load))

    async def write(
        self, messages: Sequence[Message], wanted: Wanted, tokenizer: Tokenizer
    ) -> Written:
        """Make the summary and keep it; whatever goes wrong is told, and raised never.

        Whoever fails keeps the lock until it ends by itself: a model that is down is not asked
        again with every turn.
        """
        host = self.context.host
        if host is None:
            return Written(wanted.known, "no model can be asked outside of a run")
        owner = host.new_id(host.step_id("summary.owner"))
        there = await self._lock(host, owner, wanted.known)
        if there.problem:
            return there
        if _is_newer(there.summary, wanted.known):
            await self._unlock(host, owner)
            return there
        facts = {"messages": wanted.stop - wanted.start, "tokens": wanted.tokens}
        await host.announce("summary", "started", {**facts, "covered": wanted.stop})
        written = await self._make(host, messages, wanted, tokenizer)
        if written.summary is not None and written.summary is not wanted.earlier:
            written = await self._save(host, written, owner)
        await self._end(host, written, wanted)
        return written

    async def _end(self, host: Host, written: Written, wanted: Wanted) -> None:
        summary = written.summary
        if written.problem or summary is None:
            await host.announce("summary", "failed", {"reason": written.problem})
            return
        await host.announce(
            "summary",
            "completed",
            {
                "covered": summary.covered,
                "tokens": summary.tokens,
                "originalTokens": summary.original_tokens,
                "messages": wanted.stop - wanted.start,
            },
        )

    async def _make(
        self, host: Host, messages: Sequence[Message], wanted: Wanted, tokenizer: Tokenizer
    ) -> Written:
        """The summary, batch by batch; what was made before a failure is kept."""
        summary = wanted.earlier
        places = Places(messages, self.context)
        # Of a long thread, what an earlier summary stands for may not even be loaded.
        offset = 0 if summary is None else summary.covered - wanted.start
        for start, stop in batches(wanted.covered, wanted.batch):
            try:
                part = messages[start:stop]
                text = await self._ask(host, part, summary, wanted, tokenizer)
            except (ModelError, _Refused) as problem:
                return Written(summary, f"no new summary: {problem}")
            covered_before = summary.original_tokens if summary is not None else 0
            summary = Summary(
                text=text,
                covered=offset + stop,
                anchor=anchor_before(messages, stop),
                tokens=round(count_text(placed(text, offset + stop), tokenizer)),
                original_tokens=covered_before + count_messages(part, tokenizer),
                created_at=host.now("summary"),
                place=_behind(places, messages[stop - 1]),
            )
        return Written(summary)

    async def _ask(
        self,
        host: Host,
        messages: Sequence[Message],
        earlier: Summary | None,
        wanted: Wanted,
        tokenizer: Tokenizer,
    ) -> str:
        request = request_of(
            messages,
            earlier.text if earlier is not None else None,
            tokens=wanted.most,
            most_chars=max(_LEAST_CHARS, wanted.batch * _CHARS_PER_TOKEN),
        )
        reply = await host.ask_model(host.step_id("summary.ask"), self.model, request)
        text = answer_of(reply.messages)
        if not text:
            raise _Refused("the model returned nothing")
        tokens = tokenizer.count(text)
        if tokens > wanted.most:
            raise _Refused(f"the model returned {tokens:g} tokens, more than {wanted.most}")
        return text

    async def _lock(self, host: Host, owner: str, known: Summary | None) -> Written:
        """What is kept, with the right to write the next one, or why not."""
        store, thread = self.store, self.context.thread_id
        if store is None or thread is None:
            return Written(known)
        take = partial(_take, store, thread, self.key, owner, self.lock)
        found = as_object(await host.once(host.step_id("summary.lock"), take)) or {}
        if "problem" in found:
            return Written(known, f"no new summary: {found['problem']}")
        summary = _summary(found.get("summary"))
        locked = bool(found.get("locked"))
        return Written(summary, "" if locked else "another run is making the summary")

    async def _save(self, host: Host, written: Written, owner: str) -> Written:
        store, thread, summary = self.store, self.context.thread_id, written.summary
        assert summary is not None
        if store is None or thread is None:
            problem = written.problem or "it is kept for this run only: there is no store"
            return replace(written, problem=problem)
        save = partial(_save, store, thread, self.key, summary, owner)
        found = as_object(await host.once(host.step_id("summary.save"), save)) or {}
        if "problem" in found:
            return replace(written, problem=f"the summary is not saved: {found['problem']}")
        return written if found.get("saved") else Written(_summary(found.get("summary")))

    async def _unlock(self, host: Host, owner: str) -> None:
        store, thread = self.store, self.context.thread_id
        if store is not None and thread is not None:
            give_back = partial(_give_back, store, thread, self.key, owner)
            await host.once(host.step_id("summary.unlock"), give_back)


def _behind(places: Places, message: Message) -> int | None:
    """The place of what comes after ``message``."""
    number = places.number(message)
    return None if number is None else number + 1


def _is_newer(there: Summary | None, known: Summary | None) -> bool:
    """Whether another run has made a summary since ``known`` was loaded."""
    if there is None or known is None:
        return there is not None and known is None
    return (there.covered, there.anchor) != (known.covered, known.anchor)


def _summary(record: JsonValue) -> Summary | None:
    found = as_object(record)
    return None if found is None else Summary.from_dict(found)


# What happens inside steps: plain JSON goes out, and a store's failure is a result.


async def _load(store: SummaryStore, thread: str, key: str) -> JsonValue:
    found = await store.load_summary(thread, key)
    return None if found is None else found.to_dict()


async def _take(
    store: SummaryStore, thread: str, key: str, owner: str, seconds: float
) -> JsonValue:
    try:
        locked = await store.lock_summary(thread, key, owner, seconds)
        # Read under the lock: whoever had it before may just have saved.
        return {"locked": locked, "summary": await _load(store, thread, key)}
    except HistoryError as error:
        return {"problem": str(error)}


async def _save(
    store: SummaryStore, thread: str, key: str, summary: Summary, owner: str
) -> JsonValue:
    try:
        if await store.save_summary(thread, key, summary, owner):
            return {"saved": True}
        return {"saved": False, "summary": await _load(store, thread, key)}
    except HistoryError as error:
        return {"problem": str(error)}


async def _give_back(store: SummaryStore, thread: str, key: str, owner: str) -> JsonValue:
    await store.unlock_summary(thread, key, owner)
    return None
