"""MemoryHistory: threads that live as long as the process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.facts import Fact
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import Question, QuestionFilter
from agentkit_py.history.runs import (
    CLAIM_SECONDS,
    LINE_SECONDS,
    RunRecord,
    Unfinished,
    execution_of,
)
from agentkit_py.history.spending import Refused, Spending
from agentkit_py.history.staff import Takeover, TakeoverStatus
from agentkit_py.processors.base import Extent, Processors, Summary
from agentkit_py.processors.vectors import MemoryIndex, Vector
from agentkit_py.results import USER
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.rows import (
    Row,
    StoredResult,
    ThreadInfo,
    decode_metadata,
    decode_row,
    decode_run,
    encode_json,
    encode_metadata,
    encode_run,
    encode_takeover,
    first_title,
    new_rows,
    now,
)
from agentkit_py.stores.thread_data import ThreadData


@dataclass(slots=True)
class _Thread:
    info: ThreadInfo
    metadata: str
    rows: list[Row] = field(default_factory=list[Row])
    by_id: dict[str, str] = field(default_factory=dict[str, str])
    extents: list[Extent] = field(default_factory=lambda: [Extent()])
    """The size of the thread before each row, and after the last."""


@dataclass(slots=True)
class _Lock:
    """A right that one owner at a time has, until it ends by itself."""

    owner: str | None = None
    until: float = 0.0

    def take(self, owner: str, seconds: float) -> bool:
        current = time.time()
        if self.owner not in (None, owner) and self.until > current:
            return False
        self.owner, self.until = owner, current + seconds
        return True

    def free(self, owner: str) -> None:
        if self.owner == owner:
            self.owner = None

    @property
    def is_free(self) -> bool:
        return self.owner is None or self.until <= time.time()


@dataclass(slots=True)
class _Data:
    """Thread data; there may be some of threads that are not in this store."""

    lease: _Lock = field(default_factory=_Lock)
    line: dict[str, float] = field(default_factory=dict[str, float])
    """Owners that wait for the lease, with when each counts as dead."""

    notes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """JSON of notes by owner and key."""

    runs: dict[str, str] = field(default_factory=dict[str, str])
    summaries: dict[str, Summary] = field(default_factory=dict[str, Summary])
    summary_locks: dict[str, _Lock] = field(default_factory=dict[str, _Lock])


class MemoryHistory(HistoryStore):
    """Threads in memory, for tests and scripts.

    It keeps the same JSON as `SqliteHistory`: later changes to an object do not reach what is
    stored, and what a database would refuse is refused here too.
    """

    def __init__(
        self,
        *,
        processors: Processors = (),
        lease: ThreadLease | None = None,
        lazy: bool | None = None,
    ) -> None:
        """Begin without threads.

        Args:
            processors: History processors that run before those of networks and agents.
            lease: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread; see `HistoryStore`.
        """
        super().__init__(processors=processors, lease=lease, lazy=lazy)
        self._threads: dict[str, _Thread] = {}
        self._data: dict[str, _Data] = {}
        self._stopped: set[str | None] = set()
        self._questions: dict[str, Question] = {}
        self._takeovers: dict[str, Takeover] = {}
        self._spent: dict[tuple[str, str, str], float] = {}
        self._mail: dict[str, dict[str, list[str | None]]] = {}
        self._facts: list[tuple[Fact, str]] = []
        self._vectors = MemoryIndex()
        # Several event loops, each in its own thread, may share one store.
        self._lock = Lock()

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id."""
        metadata = encode_metadata(thread.metadata, thread.id)
        with self._lock:
            if thread.id not in self._threads:
                self._threads[thread.id] = _Thread(replace(thread, metadata={}), metadata)

    def _thread(self, thread_id: str) -> _Thread:
        found = self._threads.get(thread_id)
        if found is None:
            raise ThreadNotFoundError(thread_id)
        return found

    def _data_of(self, thread_id: str) -> _Data:
        """Return a thread's data to change."""
        return self._data.setdefault(thread_id, _Data())

    def _known_of(self, thread_id: str) -> _Data:
        """Return a thread's data to read."""
        return self._data.get(thread_id) or _Data()

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, without those whose id is stored already."""
        with self._lock:
            thread = self._thread(thread_id)
            new = new_rows(thread_id, thread.by_id, rows)
            if not new:
                return
            title = thread.info.title
            if not title and all(row.agent_name != USER for row in thread.rows):
                title = first_title(new)
            thread.rows.extend(new)
            for row in new:
                thread.extents.append(thread.extents[-1] + row.extent)
            thread.by_id.update({row.id: row.json for row in new if row.id is not None})
            changed = datetime.fromisoformat(now())
            thread.info = replace(thread.info, title=title, updated_at=changed)

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        """Return the results with their positions and metadata, oldest first."""
        with self._lock:
            thread = self._thread(thread_id)
        return _decoded(thread_id, thread, 0, len(thread.rows))

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """Return the last ``limit`` results before the position ``before``, oldest first."""
        with self._lock:
            thread = self._threads.get(thread_id)
        return [] if thread is None else _decoded(thread_id, thread, max(0, before - limit), before)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """Return a thread without its results."""
        with self._lock:
            return _info(self._thread(thread_id))

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, the last changed first."""
        with self._lock:
            found = [t for t in self._threads.values() if user_id in (None, t.info.user_id)]
        # The sort is stable and then turned round: of two changed at one moment, the newer first.
        found.sort(key=lambda thread: thread.info.updated_at)
        return [_info(thread) for thread in found[::-1][:limit]]

    async def count_results(self, thread_id: str) -> int:
        """Return the number of results, user turns included."""
        with self._lock:
            return len(self._thread(thread_id).rows)

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with its results and thread data; return False if there was none."""
        with self._lock:
            self._data.pop(thread_id, None)
            self._vectors.forget(thread_id)
            self._facts = [one for one in self._facts if one[0].thread_id != thread_id]
            for question in [q for q in self._questions.values() if q.thread_id == thread_id]:
                del self._questions[question.id]
            self._takeovers.pop(thread_id, None)
            return self._threads.pop(thread_id, None) is not None

    async def thread_data(self, thread_id: str) -> ThreadData:
        """Return the thread's summaries, vectors and runs, for exports."""
        with self._lock:
            data = self._known_of(thread_id)
            return ThreadData(
                summaries=dict(data.summaries),
                runs=tuple(decode_run(thread_id, one, text) for one, text in data.runs.items()),
                vectors=self._vectors.of_thread(thread_id),
                questions=tuple(q for q in self._asked() if q.thread_id == thread_id),
                takeover=self._takeover(thread_id),
            )

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Set the times of a thread."""
        with self._lock:
            thread = self._thread(thread_id)
            thread.info = replace(thread.info, created_at=created_at, updated_at=updated_at)

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """Return the summary; None if there is none."""
        with self._lock:
            return self._known_of(thread_id).summaries.get(key)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most."""
        with self._lock:
            locks = self._data_of(thread_id).summary_locks
            return locks.setdefault(key, _Lock()).take(owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Replace the summary, if ``owner`` has the right to, and give the right back."""
        with self._lock:
            data = self._known_of(thread_id)
            lock = data.summary_locks.get(key)
            if lock is None or lock.owner != owner:
                return False
            data.summaries[key] = summary
            lock.free(owner)
            return True

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        with self._lock:
            self._known_of(thread_id).summary_locks.get(key, _Lock()).free(owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        return await self._vectors.missing_vectors(thread_id, key, ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Add vectors by id; existing ones stay as they are."""
        await self._vectors.add_vectors(thread_id, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the nearest of ``ids`` with their similarity, best first."""
        return await self._vectors.nearest_vectors(thread_id, key, vector, ids, k)

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take or prolong the thread's lease, for so many seconds from now."""
        with self._lock:
            return self._lease(thread_id, owner, seconds)

    def _lease(self, thread_id: str, owner: str, seconds: float) -> bool:
        data = self._data_of(thread_id)
        if execution_of(owner) in self._stopped:
            return False
        if data.lease.is_free and _first(data) not in (None, owner):
            return False
        if not data.lease.take(owner, seconds):
            return False
        data.line.pop(owner, None)
        return True

    async def wait_in_line(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the lease, or a place in line."""
        with self._lock:
            if self._lease(thread_id, owner, seconds):
                return True
            if execution_of(owner) not in self._stopped:
                self._data_of(thread_id).line[owner] = time.time() + LINE_SECONDS
            return False

    async def unlock_thread(self, thread_id: str, owner: str) -> str | None:
        """Give the thread's lease back, if ``owner`` has it, and pass it on."""
        with self._lock:
            data = self._known_of(thread_id)
            data.lease.free(owner)
            data.line.pop(owner, None)
            first = _first(data)
            if first is None or not data.lease.is_free:
                return None
            del data.line[first]
            data.lease.take(first, CLAIM_SECONDS)
            return first

    async def note_calls(self, thread_id: str, owner: str, notes: Mapping[str, JsonObject]) -> bool:
        """Keep notes of what ``owner`` is doing, unless it was stopped."""
        what = f"Thread {thread_id!r}: a note of a call cannot be saved"
        texts = {key: encode_json(note, what) for key, note in notes.items()}
        with self._lock:
            if execution_of(owner) in self._stopped:
                return False
            self._data_of(thread_id).notes.setdefault(owner, {}).update(texts)
            return True

    async def drop_notes(self, thread_id: str, owner: str) -> None:
        """Remove the notes of an owner."""
        with self._lock:
            self._known_of(thread_id).notes.pop(owner, None)

    async def save_question(self, question: Question) -> None:
        """Add a question; one of its id that is there already stays as it is."""
        stored = _as_stored(question)
        with self._lock:
            self._thread(question.thread_id)
            self._questions.setdefault(question.id, stored)

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        """Change a question; return it as it is then."""
        with self._lock:
            known = next((q for q in self._asked() if q.id == question_id), None)
            made = None if known is None else change(known)
            if made is not None:
                self._questions[question_id] = _as_stored(made)
            return made or known

    async def change_run(
        self, thread_id: str, run_id: str, change: Callable[[RunRecord], RunRecord | None]
    ) -> RunRecord | None:
        """Change the record of a run; return it as it is then."""
        with self._lock:
            text = self._known_of(thread_id).runs.get(run_id)
            known = None if text is None else decode_run(thread_id, run_id, text)
            made = None if known is None else change(known)
            if made is not None:
                self._data_of(thread_id).runs[run_id] = encode_run(made, thread_id)
            return made or known

    async def load_question(self, question_id: str) -> Question | None:
        """Return a question; None if there is none."""
        with self._lock:
            return next((q for q in self._asked() if q.id == question_id), None)

    async def spend(self, spendings: Sequence[Spending]) -> Refused | None:
        """Add amounts to counters of budgets, or none where one has no room."""
        with self._lock:
            found = dict(self._spent)
            for one in spendings:
                key = (one.scope, one.kind, one.period)
                used = found.get(key, 0.0)
                if one.most is not None and used + one.amount > one.most:
                    return Refused(one, used)
                found[key] = used + one.amount
            self._spent = found
        return None

    async def spent(self, scope: str) -> Mapping[tuple[str, str], float]:
        """Return the counters of a scope."""
        return {key[1:]: used for key, used in self._spent.items() if key[0] == scope}

    async def list_questions(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        status: QuestionFilter | None = "open",
        limit: int | None = 50,
    ) -> list[Question]:
        """Return questions, the oldest first."""
        current = datetime.fromisoformat(now())
        with self._lock:
            found = [
                question
                for question in self._asked()
                if thread_id in (None, question.thread_id)
                and user_id in (None, question.user_id)
                and status in (None, "due" if question.is_due(current) else question.status)
            ]
        return found[:limit]

    def _asked(self) -> Iterator[Question]:
        for question in self._questions.values():
            yield replace(question, user_id=self._threads[question.thread_id].info.user_id)

    def _takeover(self, thread_id: str) -> Takeover | None:
        found = self._takeovers.get(thread_id)
        owner = None if found is None else self._threads[thread_id].info.user_id
        return None if found is None else replace(found, user_id=owner)

    async def load_takeover(self, thread_id: str) -> Takeover | None:
        """Return who of the staff is on a thread or wanted; None: nobody."""
        with self._lock:
            return self._takeover(thread_id)

    async def change_takeover(
        self, thread_id: str, change: Callable[[Takeover], Takeover | None]
    ) -> Takeover:
        """Change who is on a thread; return it as it is then."""
        with self._lock:
            owner = self._thread(thread_id).info.user_id
            known = self._takeover(thread_id) or Takeover(thread_id=thread_id, user_id=owner)
            made = change(known)
            if made is None:
                return known
            self._takeovers.pop(thread_id, None)
            if made.status is not None:
                text = encode_takeover(made)
                self._takeovers[thread_id] = Takeover.from_dict(json.loads(text), where=thread_id)
            return replace(made, thread_id=thread_id, user_id=owner)

    async def list_takeovers(
        self,
        *,
        status: TakeoverStatus | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Takeover]:
        """Return threads that a person is on or wanted in, the oldest first."""
        with self._lock:
            known = [one for one in map(self._takeover, self._takeovers) if one is not None]
        found = [
            (one.since, one.thread_id, one)
            for one in known
            if status in (None, one.status) and user_id in (None, one.user_id)
        ]
        return [one for *_, one in sorted(found, key=lambda one: (str(one[0]), one[1]))][:limit]

    async def put_mail(self, box: str, mail_id: str, content: JsonObject) -> None:
        """Add mail to a box; one of its id that was there already stays as it is."""
        text = encode_json(content, f"Mail {mail_id!r} cannot be kept")
        with self._lock:
            self._mail.setdefault(box, {}).setdefault(mail_id, [text, None])

    async def take_mail(self, box: str, taker: str) -> JsonObject | None:
        """Return the taker's mail, else the oldest that nobody took; None: there is none."""
        with self._lock:
            mail = list(self._mail.get(box, {}).values())
            found = [one for one in mail if one[1] == taker] or [m for m in mail if m[1] is None]
            for one in found[:1]:
                one[1] = taker
                return json.loads(str(one[0]))
            return None

    async def add_fact(self, fact: Fact) -> bool:
        """Add a fact in place of the one that it replaces; return False if there is none."""
        encode_json(fact.to_dict(), f"The fact {fact.id!r} cannot be kept")
        whose = (fact.tenant, fact.user_id)
        with self._lock:
            if fact.thread_id is not None:
                self._thread(fact.thread_id)
            chains = {one.id: chain for one, chain in self._facts if _whose(one) == whose}
            chain = chains.get(fact.replaces, "") if fact.replaces is not None else fact.id
            if fact.id in chains or not chain:
                return fact.id in chains
            for place, (one, other) in enumerate(self._facts):
                if _whose(one) == whose and other == chain and one.replaced_by is None:
                    self._facts[place] = (replace(one, replaced_by=fact.id), chain)
            self._facts.append((fact, chain))
            return True

    async def list_facts(
        self, tenant: str, user_id: str, *, replaced: bool = False, limit: int | None = None
    ) -> list[Fact]:
        """Return the facts of a user, newest first."""
        with self._lock:
            theirs = [one for one, _ in self._facts if _whose(one) == (tenant, user_id)]
        return [one for one in theirs[::-1] if replaced or one.replaced_by is None][:limit]

    async def remove_facts(
        self, user_id: str, *, tenant: str | None = None, fact_id: str | None = None
    ) -> int:
        """Remove facts of a user; return how many."""
        with self._lock:
            theirs = {
                (_whose(one), chain)
                for one, chain in self._facts
                if one.user_id == user_id
                and tenant in (None, one.tenant)
                and fact_id in (None, one.id)
            }
            left = [pair for pair in self._facts if (_whose(pair[0]), pair[1]) not in theirs]
            gone = len(self._facts) - len(left)
            self._facts = left
            return gone

    async def stop_execution(self, execution: str) -> list[Unfinished]:
        """Mark an execution as stopped; return what its owners have or wait for."""
        with self._lock:
            self._stopped.add(execution)
            for question in [q for q in self._questions.values() if q.execution == execution]:
                if question.status == "open":
                    self._questions[question.id] = replace(question, status="stopped")
            return [
                Unfinished(
                    thread_id=thread_id,
                    owner=owner,
                    notes={
                        key: json.loads(text) for key, text in data.notes.get(owner, {}).items()
                    },
                )
                for thread_id, data in self._data.items()
                for owner in {data.lease.owner or "": 0, **data.line, **data.notes}
                if execution_of(owner) == execution
            ]

    async def is_stopped(self, execution: str) -> bool:
        """Return whether the execution was stopped."""
        return execution in self._stopped

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Save a run record in place of the one before."""
        text = encode_run(run, thread_id)
        with self._lock:
            self._thread(thread_id)
            self._data_of(thread_id).runs[run.id] = text

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return a run record, or the newest one that has a state; None if there is none."""
        with self._lock:
            runs = dict(self._known_of(thread_id).runs)
        if run_id is not None:
            return decode_run(thread_id, run_id, runs[run_id]) if run_id in runs else None
        found = (decode_run(thread_id, one, runs[one]) for one in reversed(runs))
        return next((run for run in found if run.state is not None), None)


def _decoded(thread_id: str, thread: _Thread, first: int, end: int) -> list[StoredResult]:
    # Rows are only ever added, so that no lock is needed to read them.
    rows = zip(thread.rows[first:end], thread.extents[first:end], strict=False)
    return [
        decode_row(thread_id, position, row.json, row.metadata, row.tokens, before)
        for position, (row, before) in enumerate(rows, first)
    ]


def _whose(fact: Fact) -> tuple[str, str]:
    return fact.tenant, fact.user_id


def _as_stored(question: Question) -> Question:
    """Return the question through JSON, as a database gives it back."""
    what = f"Thread {question.thread_id!r}: the question {question.id!r} cannot be saved"
    text = encode_json(question.to_dict(), what)
    return Question.from_dict(json.loads(text), where="question")


def _first(data: _Data) -> str | None:
    """Return the first in line that is not dead."""
    current = time.time()
    return next((owner for owner, until in data.line.items() if until > current), None)


def _info(thread: _Thread) -> ThreadInfo:
    return replace(
        thread.info,
        metadata=decode_metadata(thread.metadata, thread.info.id),
        result_count=len(thread.rows),
        message_count=thread.extents[-1].messages,
    )
