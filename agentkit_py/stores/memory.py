"""MemoryHistory: threads that live as long as the process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from uuid import uuid4

from agentkit_py._core.json import JsonObject
from agentkit_py.codec import user_message_from_dict, user_message_to_dict
from agentkit_py.errors import (
    HistoryError,
    MessageNotFoundError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import Question, QuestionFilter
from agentkit_py.history.runs import (
    CLAIM_SECONDS,
    LINE_SECONDS,
    RunRecord,
    Unfinished,
    execution_of,
)
from agentkit_py.history.staff import Takeover, TakeoverStatus
from agentkit_py.history.users import Fact, Refused, Spending
from agentkit_py.messages import UserMessage
from agentkit_py.processors.base import Extent, Processors, Summary
from agentkit_py.results import USER, AgentResult
from agentkit_py.search.vectors import MemoryIndex, Vector, nearest
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.rows import (
    Row,
    StoredResult,
    ThreadInfo,
    at_most,
    decode_metadata,
    decode_row,
    decode_run,
    encode_json,
    encode_metadata,
    encode_run,
    encode_takeover,
    first_title,
    first_title_of,
    new_rows,
    now,
)
from agentkit_py.stores.thread_data import ThreadData


@dataclass(slots=True, eq=False)
class _Branch:
    """Results from a position on; those before it are the parent's."""

    key: str
    """The key of its runs, summaries and vectors."""

    parent: _Branch | None = None
    start: int = 0
    rows: list[Row] = field(default_factory=list[Row])
    places: dict[str, int] = field(default_factory=dict[str, int])
    """Positions of rows by their ids."""

    extents: list[Extent] = field(default_factory=lambda: [Extent()])
    """The size of the thread before each row, and after the last."""

    @property
    def end(self) -> int:
        return self.start + len(self.rows)

    def chain(self) -> Iterator[_Branch]:
        """Yield the branch, its parent, and so on."""
        branch: _Branch | None = self
        while branch is not None:
            yield branch
            branch = branch.parent

    def pieces(self) -> Iterator[tuple[_Branch, int]]:
        """Yield the branch and its parents, each with the position up to which it counts."""
        end = self.end
        for branch in self.chain():
            yield branch, end
            end = min(end, branch.start)

    def row(self, position: int) -> tuple[Row, Extent]:
        """Return a row, and the size of the thread before it."""
        branch = next(one for one in self.chain() if one.start <= position)
        return branch.rows[position - branch.start], branch.extents[position - branch.start]

    def between(self, first: int, end: int) -> list[tuple[Row, Extent]]:
        """Return rows with the size of the thread before each."""
        found: list[tuple[Row, Extent]] = []
        for branch in self.chain():
            begin = max(first, branch.start)
            if begin < end:
                part = slice(begin - branch.start, end - branch.start)
                found[:0] = zip(branch.rows[part], branch.extents[part], strict=False)
            end = min(end, branch.start)
        return found

    def place(self, message_id: str) -> int | None:
        """Return the position of the row with an id."""
        for branch, end in self.pieces():
            found = branch.places.get(message_id)
            if found is not None and found < end:
                return found
        return None

    def before(self, position: int) -> Extent:
        """Return the size of the thread before a position."""
        return self.extents[-1] if position == self.end else self.row(position)[1]

    def cut(self, end: int) -> None:
        """Remove the rows from a position on."""
        del self.rows[end - self.start :], self.extents[end - self.start + 1 :]
        self.places = {one: place for one, place in self.places.items() if place < end}


@dataclass(slots=True)
class _Thread:
    info: ThreadInfo
    metadata: str
    branch: _Branch


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


@dataclass(frozen=True, slots=True)
class _Run:
    json: str
    place: int
    """The number of results that the thread had when it was saved."""

    state: bool
    """True if the record has a state."""


@dataclass(slots=True)
class _Data:
    """Data of a thread or a branch; there may be some of threads that are not in this store."""

    lease: _Lock = field(default_factory=_Lock)
    line: dict[str, float] = field(default_factory=dict[str, float])
    """Owners that wait for the lease, with when each counts as dead."""

    notes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """JSON of notes by owner and key."""

    runs: dict[str, _Run] = field(default_factory=dict[str, _Run])

    summaries: dict[str, Summary] = field(default_factory=dict[str, Summary])
    summary_locks: dict[str, _Lock] = field(default_factory=dict[str, _Lock])


@dataclass(slots=True)
class _Posted:
    """A message in an inbox."""

    text: str
    interrupts: bool
    taker: str | None = None


@dataclass(slots=True)
class _Mail:
    """Events from outside that no run has received."""

    json: str
    thread_id: str | None
    taker: str | None = None


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
        self._mail: dict[str, dict[str, _Mail]] = {}
        self._inboxes: dict[str, dict[str | None, _Posted]] = {}
        self._facts: list[tuple[Fact, str]] = []
        self._vectors = MemoryIndex()
        # Several event loops, each in its own thread, may share one store.
        self._lock = Lock()

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id."""
        metadata = encode_metadata(thread.metadata, thread.id)
        with self._lock:
            if thread.id not in self._threads:
                info, branch = replace(thread, metadata={}), _Branch(thread.id)
                self._threads[thread.id] = _Thread(info, metadata, branch)

    def _thread(self, thread_id: str) -> _Thread:
        found = self._threads.get(thread_id)
        if found is None:
            raise ThreadNotFoundError(thread_id)
        return found

    def _data_of(self, key: str) -> _Data:
        """Return the data of a thread or branch to change."""
        return self._data.setdefault(key, _Data())

    def _known_of(self, key: str) -> _Data:
        """Return the data of a thread or branch to read."""
        return self._data.get(key) or _Data()

    def _branch_of(self, thread_id: str) -> _Branch:
        """Return a thread's branch; a thread that is not here is its own."""
        found = self._threads.get(thread_id)
        return _Branch(thread_id) if found is None else found.branch

    async def insert_fork(
        self, thread_id: str, at: str | int | None, fork_id: str, title: str | None
    ) -> str:
        """Add a fork; it shares the rows of the thread."""
        with self._lock:
            thread = self._thread(thread_id)
            position = _place(thread_id, thread.branch, at)
            known = self._threads.get(fork_id)
            if known is not None:
                if (known.info.forked_from, known.info.forked_at) == (thread_id, position):
                    return fork_id
                raise HistoryError(
                    f"There is a thread {fork_id!r} already; give the fork another id."
                )
            time = datetime.fromisoformat(now())
            info = replace(
                thread.info,
                id=fork_id,
                title=thread.info.title if title is None else title,
                created_at=time,
                updated_at=time,
                forked_from=thread_id,
                forked_at=position,
            )
            branch = self._child(thread.branch, position, fork_id)
            self._threads[fork_id] = _Thread(info, thread.metadata, branch)
            return fork_id

    async def rewind(self, thread_id: str, at: str | int) -> None:
        """Have the thread go on in a branch that shares the rows before a message."""
        with self._lock:
            thread = self._thread(thread_id)
            asked = any(
                q.thread_id == thread_id and q.status == "open" for q in self._questions.values()
            )
            if asked or not self._known_of(thread_id).lease.is_free:
                raise ThreadBusyError(thread_id)
            position = _place(thread_id, thread.branch, at)
            title = thread.info.title
            if not position and thread.branch.end and title:
                first = AgentResult.from_dict(json.loads(thread.branch.row(0)[0].json))
                title = "" if title == first_title_of(first) else title
            thread.branch = self._child(thread.branch, position, uuid4().hex)
            changed = datetime.fromisoformat(now())
            thread.info = replace(thread.info, title=title, updated_at=changed)

    def _child(self, branch: _Branch, position: int, key: str) -> _Branch:
        """Return a branch that shares all rows before a position.

        Branches that begin later are left out, unless they have summarized what they share.
        """
        before = branch.before(position)

        def counts(one: _Branch) -> bool:
            made = self._known_of(one.key).summaries.values()
            return one.start < position or any(_covers(s) <= before.messages for s in made)

        parent = next((one for one in branch.chain() if position and counts(one)), None)
        return _Branch(key, parent, position, extents=[before])

    def _release(self, branch: _Branch) -> None:
        """Drop what no thread has any more of a branch and its parents."""
        for one in branch.chain():
            ends = [
                end
                for thread in self._threads.values()
                for other, end in thread.branch.pieces()
                if other is one
            ]
            if one.key in self._threads or (ends and max(ends) == one.end):
                continue
            if ends:
                self._pass_on(one, self._known_of(one.key).summaries)
                one.cut(max(one.start, *ends))
                runs = self._known_of(one.key).runs.items()
                kept = {key: run for key, run in runs if run.state and run.place <= one.end}
                self._data[one.key] = _Data(runs=kept)
            else:
                self._data.pop(one.key, None)
            self._vectors.forget(one.key)

    def _branches(self) -> Iterator[_Branch]:
        """Yield the branches of all threads; one that several have, several times."""
        for thread in self._threads.values():
            yield from thread.branch.chain()

    def _pass_on(self, branch: _Branch, shared: Mapping[str, Summary]) -> None:
        """Give a branch's children its summaries of what they share, before these change."""
        for child in [one for one in self._branches() if one.parent is branch]:
            own = self._data_of(child.key).summaries
            for one, summary in shared.items():
                if _covers(summary) <= child.extents[0].messages:
                    own.setdefault(one, summary)

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, without those whose id is stored already."""
        with self._lock:
            thread = self._thread(thread_id)
            branch = thread.branch
            places = {row.id: branch.place(row.id) for row in rows if row.id is not None}
            stored = {
                one: branch.row(place)[0].json for one, place in places.items() if place is not None
            }
            new = new_rows(thread_id, stored, rows)
            if not new:
                return
            title = thread.info.title
            if not title and all(
                row.agent_name != USER for row, _ in branch.between(0, branch.end)
            ):
                title = first_title(new)
            for row in new:
                if row.id is not None:
                    branch.places[row.id] = branch.end
                branch.extents.append(branch.extents[-1] + row.extent)
                branch.rows.append(row)
            changed = datetime.fromisoformat(now())
            thread.info = replace(thread.info, title=title, updated_at=changed)

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        """Return the results with their positions and metadata, oldest first."""
        with self._lock:
            thread = self._thread(thread_id)
        return _decoded(thread_id, thread, 0, thread.branch.end)

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
            return self._thread(thread_id).branch.end

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with its results and thread data; return False if there was none."""
        with self._lock:
            found = self._threads.pop(thread_id, None)
            self._facts = [one for one in self._facts if one[0].thread_id != thread_id]
            for question in [q for q in self._questions.values() if q.thread_id == thread_id]:
                del self._questions[question.id]
            self._takeovers.pop(thread_id, None)
            self._inboxes.pop(thread_id, None)
            for box in self._mail.values():
                for mail_id in [key for key, one in box.items() if one.thread_id == thread_id]:
                    del box[mail_id]
            data = self._data.pop(thread_id, None) or _Data()
            self._vectors.forget(thread_id)
            kept = next((one for one in self._branches() if one.key == thread_id), None)
            if kept is not None:
                # Others have a part in it; a new thread may get the id.
                kept.key = uuid4().hex
                self._data[kept.key] = _Data(runs=data.runs, summaries=data.summaries)
                self._release(kept)
            if found is not None:
                self._release(found.branch)
            for thread in self._threads.values():
                if thread.info.forked_from == thread_id:
                    thread.info = replace(thread.info, forked_from=None, forked_at=None)
            return found is not None

    async def thread_data(self, thread_id: str) -> ThreadData:
        """Return the thread's summaries, vectors and runs, for exports."""
        with self._lock:
            branches = [*self._branch_of(thread_id).chain()]
            keys = {one for branch in branches for one in self._known_of(branch.key).summaries}
            summaries = {key: self._summary(thread_id, key) for key in sorted(keys)}
            vectors: dict[str, dict[str, Vector]] = {}
            for branch in branches:
                for key, known in self._vectors.of_thread(branch.key).items():
                    vectors[key] = {**known, **vectors.get(key, {})}
            runs = reversed([*self._runs(thread_id)])
            return ThreadData(
                summaries={key: one for key, one in summaries.items() if one is not None},
                runs=tuple(decode_run(thread_id, one, run.json) for one, run in runs),
                vectors=vectors,
                questions=tuple(q for q in self._asked() if q.thread_id == thread_id),
                takeover=self._takeover(thread_id),
            )

    def _runs(self, thread_id: str) -> Iterator[tuple[str, _Run]]:
        """Yield the runs of a thread by id, newest first; of shared ones those that have ended."""
        branch = self._branch_of(thread_id)
        for one, end in branch.pieces():
            for run_id, run in reversed(self._known_of(one.key).runs.items()):
                if one is branch or (run.state and run.place <= end):
                    yield run_id, run

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Set the times of a thread."""
        with self._lock:
            thread = self._thread(thread_id)
            thread.info = replace(thread.info, created_at=created_at, updated_at=updated_at)

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """Return the summary; None if there is none."""
        with self._lock:
            return self._summary(thread_id, key)

    def _summary(self, thread_id: str, key: str) -> Summary | None:
        most: int | None = None
        for branch in self._branch_of(thread_id).chain():
            found = self._known_of(branch.key).summaries.get(key)
            if found is not None and (most is None or _covers(found) <= most):
                return found
            start = branch.extents[0].messages
            most = start if most is None else min(most, start)
        return None

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most."""
        with self._lock:
            locks = self._data_of(self._branch_of(thread_id).key).summary_locks
            return locks.setdefault(key, _Lock()).take(owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Replace the summary, if ``owner`` has the right to, and give the right back."""
        with self._lock:
            branch = self._branch_of(thread_id)
            data = self._known_of(branch.key)
            lock = data.summary_locks.get(key)
            if lock is None or lock.owner != owner:
                return False
            known = self._summary(thread_id, key)
            if known is not None:
                self._pass_on(branch, {key: known})
            data.summaries[key] = summary
            lock.free(owner)
            return True

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        with self._lock:
            branch = self._branch_of(thread_id)
            self._known_of(branch.key).summary_locks.get(key, _Lock()).free(owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        for branch in self._branch_of(thread_id).chain():
            ids = await self._vectors.missing_vectors(branch.key, key, ids)
        return list(ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Add vectors by id; existing ones stay as they are."""
        await self._vectors.add_vectors(self._branch_of(thread_id).key, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the nearest of ``ids`` with their similarity, best first."""
        known: dict[str, Vector] = {}
        for branch in self._branch_of(thread_id).chain():
            known = {**self._vectors.of_thread(branch.key).get(key, {}), **known}
        return nearest(vector, {one: known[one] for one in ids if one in known}, k)

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
            runs = self._known_of(self._branch_of(thread_id).key).runs
            saved = runs.get(run_id)
            if saved is None:
                return None
            known = decode_run(thread_id, run_id, saved.json)
            made = change(known)
            if made is not None:
                text = encode_run(made, thread_id)
                runs[run_id] = _Run(text, saved.place, made.state is not None)
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
        return found[: at_most(limit)]

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
        found.sort(key=lambda one: (str(one[0]), one[1]))
        return [one for *_, one in found[: at_most(limit)]]

    async def put_mail(
        self, box: str, mail_id: str, content: JsonObject, *, thread_id: str | None = None
    ) -> None:
        """Add mail to a box; one of its id that was there already stays as it is."""
        text = encode_json(content, f"Mail {mail_id!r} cannot be kept")
        with self._lock:
            self._mail.setdefault(box, {}).setdefault(mail_id, _Mail(text, thread_id))

    async def take_mail(self, box: str, taker: str) -> JsonObject | None:
        """Return the taker's mail, else the oldest that nobody took; None: there is none."""
        with self._lock:
            mail = list(self._mail.get(box, {}).values())
            found = [one for one in mail if one.taker == taker]
            for one in (found or [one for one in mail if one.taker is None])[:1]:
                one.taker = taker
                return json.loads(one.json)
            return None

    async def list_mail(self, box: str) -> list[tuple[str, JsonObject]]:
        """Return ids and contents of the mail that nobody took, the oldest first."""
        with self._lock:
            mail = self._mail.get(box, {}).items()
            return [(key, json.loads(one.json)) for key, one in mail if one.taker is None]

    async def remove_mail(self, box: str, mail_id: str | None = None) -> bool:
        """Remove mail, all of the box unless an id is given; return False if there is none."""
        with self._lock:
            if mail_id is None:
                return bool(self._mail.pop(box, None))
            return self._mail.get(box, {}).pop(mail_id, None) is not None

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        """Add a message to the thread's inbox."""
        text = encode_json(
            user_message_to_dict(message), f"The message {message.id!r} cannot be kept"
        )
        with self._lock:
            self._thread(thread_id)
            inbox = self._inboxes.setdefault(thread_id, {})
            inbox.setdefault(message.id, _Posted(text, interrupts))

    async def take_messages(
        self, thread_id: str, taker: str, *, at_work: bool = False
    ) -> list[UserMessage] | None:
        """Take all messages of the inbox that nobody took."""
        with self._lock:
            inbox = self._inboxes.get(thread_id, {}).values()
            found = [one for one in inbox if one.taker == taker]
            if not found:
                found = [one for one in inbox if one.taker is None]
                if at_work and any(one.interrupts for one in found):
                    return None
            for one in found:
                one.taker = taker
        where = f"The inbox of {thread_id!r}"
        return [user_message_from_dict(json.loads(one.text), where=where) for one in found]

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
        found = [one for one in theirs[::-1] if replaced or one.replaced_by is None]
        return found[: at_most(limit)]

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
            branch = self._thread(thread_id).branch
            saved = _Run(text, branch.end, run.state is not None)
            self._data_of(branch.key).runs[run.id] = saved

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return a run record, or the newest one that has a state; None if there is none."""
        with self._lock:
            for one, run in self._runs(thread_id):
                if one == run_id or (run_id is None and run.state):
                    return decode_run(thread_id, one, run.json)
        return None


def _decoded(thread_id: str, thread: _Thread, first: int, end: int) -> list[StoredResult]:
    # Rows are only ever added, so that no lock is needed to read them.
    rows = thread.branch.between(first, end)
    return [
        decode_row(thread_id, position, row.json, row.metadata, row.tokens, before)
        for position, (row, before) in enumerate(rows, first)
    ]


def _place(thread_id: str, branch: _Branch, at: str | int | None) -> int:
    """Return the position of a message of the user, or the end."""
    if at is None or at == branch.end:
        return branch.end
    place = branch.place(at) if isinstance(at, str) else at
    if place is None or not 0 <= place < branch.end:
        raise MessageNotFoundError(thread_id, at)
    if branch.row(place)[0].agent_name != USER:
        raise MessageNotFoundError(thread_id, at)
    return place


def _covers(summary: Summary) -> int:
    """Return how many messages of its thread a summary stands for at the most."""
    return summary.covered if summary.place is None else summary.place


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
        result_count=thread.branch.end,
        message_count=thread.branch.extents[-1].messages,
    )
