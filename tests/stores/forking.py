"""A model of threads that are forked and rewound: every fork is a naive copy of everything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random

import pytest

from agentkit_py.errors import HistoryError, MessageNotFoundError, ThreadNotFoundError
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.messages import TextMessage
from agentkit_py.processors.base import Summary, SummaryStore
from agentkit_py.results import USER, AgentResult
from agentkit_py.search.vectors import VectorIndex
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.rows import first_title_of

WORDS = ["parcel", "refund", "invoice", "delivery", "voucher"]
USERS = ["ann", "bob", "cy"]
KEYS = ["short", "long"]
TIME = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Copy:
    """A thread of the model."""

    id: str
    user: str
    title: str = ""
    results: list[AgentResult] = field(default_factory=list[AgentResult])
    runs: list[tuple[RunRecord, int]] = field(default_factory=list["tuple[RunRecord, int]"])
    summaries: dict[str, Summary] = field(default_factory=dict[str, Summary])
    origin: tuple[str, int] | None = None
    begin: int = 0
    """Position at which it was forked or rewound."""

    vectors: set[str] = field(default_factory=set[str])
    """Those that were added since it was forked or rewound."""

    def asked(self) -> list[int]:
        """Return the positions of the user's messages."""
        return [n for n, one in enumerate(self.results) if one.agent_name == USER]

    def ended(self, end: int) -> list[tuple[RunRecord, int]]:
        """Return the runs that had ended at a position."""
        return [(run, at) for run, at in self.runs if run.state is not None and at <= end]

    def covered(self, end: int) -> dict[str, Summary]:
        """Return the summaries of messages before a position alone."""
        count = messages(self.results[:end])
        return {key: one for key, one in self.summaries.items() if place(one) <= count}

    def run(self, run_id: str | None) -> RunRecord | None:
        """Return a run, or the newest with a state."""
        found = [
            run
            for run, _ in self.runs
            if (run.state is not None if run_id is None else run.id == run_id)
        ]
        return found[-1] if found else None


def messages(results: list[AgentResult]) -> int:
    """Return the number of messages of some results."""
    return sum(len(one.messages) for one in results)


def place(summary: Summary) -> int:
    """Return how many messages a summary stands for."""
    return summary.covered if summary.place is None else summary.place


@dataclass
class World:
    """A store and its model, and random things to do with both."""

    store: HistoryStore
    random: Random
    threads: dict[str, Copy] = field(default_factory=dict[str, Copy])
    number: int = 0
    done: dict[str, int] = field(default_factory=dict[str, int])

    def name(self, what: str) -> str:
        """Return a new id."""
        self.number += 1
        return f"{what}{self.number}"

    def any(self) -> Copy | None:
        """Return one of the threads."""
        return self.random.choice(list(self.threads.values())) if self.threads else None

    def changed(self, thread: Copy) -> None:
        """Make a thread the one that was changed last."""
        self.threads[thread.id] = self.threads.pop(thread.id)

    async def step(self) -> None:
        """Do something, and compare what it gives."""
        chances = {
            self.create: 2 if len(self.threads) < 12 else 0,
            self.append: 14,
            self.repeat: 2,
            self.fork: 5 if len(self.threads) < 25 else 0,
            self.rewind: 4,
            self.delete: 2,
            self.delete_user: 0.3,
            self.save_run: 6,
            self.look_for_run: 4,
            self.summarize: 4,
            self.look_for_summary: 4,
            self.embed: 3,
            self.read: 8,
            self.search: 3,
            self.list: 3,
            self.go_wrong: 1,
        }
        work = self.random.choices([*chances], [*chances.values()])[0]
        self.done[work.__name__] = self.done.get(work.__name__, 0) + 1
        await work()

    # Changes.

    async def create(self) -> None:
        """Create a thread; now and then one whose id was there before."""
        name = self.random.choice([self.name("t"), f"t{self.random.randrange(1, 30)}"])
        thread = Copy(name, self.random.choice(USERS))
        await self.store.add_thread(name, user_id=thread.user)
        self.threads.setdefault(name, thread)

    async def append(self) -> None:
        """Append turns of a user and replies."""
        thread = self.any()
        if thread is None:
            return
        new: list[AgentResult] = []
        for _ in range(self.random.randrange(1, 4)):
            text = " ".join(self.random.choices(WORDS, k=2)) + f" {self.name('w')}"
            name = self.name("m") if self.random.random() < 0.9 else None
            if self.random.random() < 0.5:
                new.append(AgentResult.from_user(text, id=name))
            else:
                said = TextMessage("assistant", text)
                new.append(AgentResult("desk", [said] * self.random.randrange(1, 3), id=name))
        await self.save(thread, new)

    async def save(self, thread: Copy, new: list[AgentResult]) -> None:
        """Append results in both."""
        await self.store.append(thread.id, new)
        known = {one.id for one in thread.results}
        added = [one for one in new if one.id is None or one.id not in known]
        if not added:
            return
        asked = next((one for one in added if one.agent_name == USER), None)
        if not thread.title and not thread.asked() and asked is not None:
            thread.title = first_title_of(asked)
        thread.results = [*thread.results, *added]
        self.changed(thread)

    async def repeat(self) -> None:
        """Append what some thread has, or had, once more."""
        thread, other = self.any(), self.any()
        if thread is None or other is None:
            return
        found = [one for one in other.results if one.id is not None]
        if found:
            some = self.random.choice(found)
            await self.save(thread, [some, AgentResult.from_user("again", id=self.name("m"))])

    def point(self, thread: Copy) -> tuple[str | int | None, int]:
        """Return a message to fork or rewind at, and its position."""
        asked = thread.asked()
        if not asked or self.random.random() < 0.2:
            return (None, len(thread.results))
        position = self.random.choice([asked[0], asked[-1], self.random.choice(asked)])
        name = thread.results[position].id
        return (position if name is None or self.random.random() < 0.3 else name), position

    async def fork(self) -> None:
        """Fork a thread."""
        thread = self.any()
        if thread is None:
            return
        at, position = self.point(thread)
        title = self.random.choice([None, None, "A fork"])
        name, gone = self.name("f"), f"t{self.random.randrange(1, 30)}"
        if gone not in self.threads and self.random.random() < 0.2:
            name = gone  # of a thread that was deleted, perhaps
        for _ in range(self.random.choice([1, 2])):  # a second time changes nothing
            assert await self.store.fork(thread.id, at, fork_id=name, title=title) == name
        self.threads[name] = Copy(
            name,
            thread.user,
            thread.title if title is None else title,
            thread.results[:position],
            thread.ended(position),
            thread.covered(position),
            (thread.id, position),
            position,
        )

    async def rewind(self) -> None:
        """Rewind a thread."""
        thread = self.any()
        if thread is None:
            return
        at, position = self.point(thread)
        first = thread.results[:1]
        await self.store.rewind(thread.id, position if at is None else at)
        if not position and first and first[0].agent_name == USER:
            thread.title = "" if thread.title == first_title_of(first[0]) else thread.title
        thread.summaries = thread.covered(position)
        thread.runs = thread.ended(position)
        thread.results = thread.results[:position]
        thread.vectors, thread.begin = set(), position
        self.changed(thread)

    def forget(self, thread: Copy) -> None:
        """Remove a thread from the model."""
        del self.threads[thread.id]
        for other in self.threads.values():
            if other.origin is not None and other.origin[0] == thread.id:
                other.origin = None

    async def delete(self) -> None:
        """Delete a thread."""
        thread = self.any()
        if thread is not None:
            assert await self.store.delete_thread(thread.id)
            self.forget(thread)

    async def delete_user(self) -> None:
        """Delete a user."""
        user = self.random.choice(USERS)
        theirs = [one for one in self.threads.values() if one.user == user]
        assert await self.store.delete_user(user) == len(theirs)
        for thread in theirs:
            self.forget(thread)

    # Data of threads.

    async def save_run(self) -> None:
        """Save a run, a new one or one that was paused."""
        thread = self.any()
        if thread is None or not thread.results:
            return
        assert isinstance(self.store, RunStore)
        last, n = thread.results[-1], len(thread.results)
        others = [one for one in self.threads.values() if one is not thread]
        shared = any(one.results[n - 1 : n] and one.results[n - 1] is last for one in others)
        if shared or n <= thread.begin:
            return  # a run ends with results of its own, which no fork has yet
        ended = {run.id for run, _ in thread.runs if run.state is not None}
        names = [one.id for one in thread.results if one.id is not None and one.id not in ended]
        name = self.random.choice(names) if names else self.name("r")
        state = self.random.choice([None, {"n": self.number}])
        status = "paused" if state is None else "completed"
        run = RunRecord(id=name, status=status, state=state, results=())
        await self.store.save_run(thread.id, run)
        saved = (run, len(thread.results))
        known = [n for n, (one, _) in enumerate(thread.runs) if one.id == name]
        if known:
            thread.runs[known[0]] = saved
        else:
            thread.runs.append(saved)

    async def look_for_run(self) -> None:
        """Load runs."""
        thread = self.any()
        if thread is None:
            return
        assert isinstance(self.store, RunStore)
        names = [None, *(run.id for run, _ in thread.runs), "no run"]
        name = self.random.choice(names)
        assert await self.store.load_run(thread.id, name) == thread.run(name), (thread.id, name)

    async def summarize(self) -> None:
        """Save a summary."""
        thread = self.any()
        if thread is None or not thread.results:
            return
        assert isinstance(self.store, SummaryStore)
        key = self.random.choice(KEYS)
        before = thread.summaries.get(key)
        least = 0 if before is None else place(before)
        most = messages(thread.results)
        end = self.random.randrange(max(1, least), max(1, least, most) + 1)
        made = Summary(
            text=self.name("summary "),
            covered=end,
            anchor="00",
            tokens=1,
            original_tokens=2,
            created_at=TIME,
            place=end,
        )
        if self.random.random() < 0.3:
            made = replace(made, place=None)
        assert await self.store.lock_summary(thread.id, key, "me", 60)
        assert await self.store.save_summary(thread.id, key, made, "me")
        thread.summaries[key] = made

    async def look_for_summary(self) -> None:
        """Load a summary: the thread's, or a later one of what it shares."""
        thread = self.any()
        if thread is None:
            return
        assert isinstance(self.store, SummaryStore)
        key = self.random.choice(KEYS)
        found = await self.store.load_summary(thread.id, key)
        if key in thread.summaries:
            assert found == thread.summaries[key], thread.id
        elif found is not None:
            assert place(found) <= messages(thread.results), thread.id

    async def embed(self) -> None:
        """Add vectors and find them."""
        thread = self.any()
        if thread is None:
            return
        assert isinstance(self.store, VectorIndex)
        names = [self.name("v") for _ in range(2)]
        await self.store.add_vectors(thread.id, "k", {one: [1.0, 0.0] for one in names})
        thread.vectors.update(names)
        assert not await self.store.missing_vectors(thread.id, "k", sorted(thread.vectors))
        found = await self.store.nearest_vectors(thread.id, "k", [1.0, 0.0], thread.vectors, 3)
        assert len(found) == min(3, len(thread.vectors))

    # Reading.

    async def read(self) -> None:
        """Read a thread, whole or in pages."""
        thread = self.any()
        if thread is None:
            return
        count = len(thread.results)
        assert await self.store.load(thread.id) == thread.results
        assert await self.store.count_results(thread.id) == count
        limit = self.random.randrange(1, 6)
        found, page = await self.store.newest(thread.id, limit)
        assert (found, [one.result for one in page]) == (count, thread.results[-limit:])
        before = self.random.randrange(count + 2)
        page = await self.store.page(thread.id, before, limit)
        first = max(0, before - limit)
        assert [one.result for one in page] == thread.results[first:before]
        for number, one in enumerate(page, first):
            assert one.position == number
            assert one.before is not None
            assert one.before.messages == messages(thread.results[:number])
        last = await self.store.last_user_message(thread.id)
        assert (None if last is None else last.position) == max(thread.asked(), default=None)

    async def search(self) -> None:
        """Search."""
        user = self.random.choice([None, *USERS])
        word = self.random.choice([*WORDS, f"w{self.random.randrange(1, self.number + 2)}"])
        limit = self.random.choice([1, 3, 100])
        found = await self.store.search(word, user_id=user, limit=limit)
        expected: list[tuple[str, int]] = []
        for thread in reversed(self.threads.values()):
            if user not in (None, thread.user):
                continue
            texts = [[m.text for m in one.messages if m.type == "text"] for one in thread.results]
            places = [n for n, some in enumerate(texts) if any(has(word, text) for text in some)]
            expected += [(thread.id, places[0])] if places else []
        assert [(one.thread_id, one.position) for one in found] == expected[:limit], word
        assert all(has(word, one.text) for one in found)

    async def list(self) -> None:
        """List threads, and count."""
        user = self.random.choice([None, *USERS])
        theirs = [t for t in reversed(self.threads.values()) if user in (None, t.user)]
        found = await self.store.list_threads(None, user)
        assert [
            (
                one.id,
                one.user_id,
                one.title,
                one.result_count,
                one.message_count,
                None if one.forked_from is None else (one.forked_from, one.forked_at),
            )
            for one in found
        ] == [
            (t.id, t.user, t.title, len(t.results), messages(t.results), t.origin) for t in theirs
        ]
        page, total = await self.store.thread_page(3, user_id=user)
        assert ([one.id for one in page], total) == ([t.id for t in theirs[:3]], len(theirs))
        stats = await self.store.stats(user)
        assert (stats.threads, stats.results, stats.messages) == (
            len(theirs),
            sum(len(t.results) for t in theirs),
            sum(messages(t.results) for t in theirs),
        )

    async def go_wrong(self) -> None:
        """Ask for what is not there."""
        with pytest.raises(ThreadNotFoundError):
            await self.store.fork("nowhere")
        thread = self.any()
        if thread is None:
            return
        with pytest.raises(MessageNotFoundError):
            await self.store.fork(thread.id, "no message")
        with pytest.raises(MessageNotFoundError):
            await self.store.rewind(thread.id, len(thread.results) + 1)
        replies = set(range(len(thread.results))).difference(thread.asked())
        if replies:
            with pytest.raises(MessageNotFoundError):
                await self.store.fork(thread.id, min(replies))
        with pytest.raises(HistoryError, match="already"):
            await self.store.fork(thread.id, fork_id=thread.id)


def has(word: str, text: str) -> bool:
    """Return whether one of a text's words begins so."""
    return any(one.startswith(word) for one in text.split())


async def walk(store: HistoryStore, seed: object, steps: int) -> World:
    """Do random things with a store and with naive copies; they stay equal."""
    world = World(store, Random(str(seed)))  # noqa: S311 - a walk that can be repeated
    for number in range(steps):
        try:
            await world.step()
        except BaseException as error:
            error.add_note(f"seed {seed!r}, step {number}")
            raise
    return world


async def delete_all(world: World) -> None:
    """Delete every user."""
    for user in USERS:
        await world.store.delete_user(user)
