"""Every order of what can happen to one message of a durable run, states recognised.

The program: a charge, a refund that a person approves, a pair of calls at the same time, and a
message that comes late. From each state every request may be the next one, the late message and the
approval may come, and as many disturbances as the depth says: the worker dies inside a request or a
call, the store fails before or after a write, the message is delivered twice, a second person
denies, an answer's event or the server's reply to it is lost, other code is deployed (new, or old
and new by turns), the run is cancelled. A state that was seen before is not tried again. Where
nothing is left to happen, thread, ledger, questions and the next message are compared.

Run:
    python -m tests.durable.small_states --depth 2
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import functools
import heapq
import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar
from unittest.mock import patch

import inngest

from agentkit_py import Agent, MemoryHistory, Network, ToolContext, openai, tool
from agentkit_py.errors import HistoryError, NotPendingError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import Question
from agentkit_py.history.stopping import OpenCall, OpenReply
from agentkit_py.history.thread import QuestionRecord
from agentkit_py.inngest import (
    FunctionOptions,
    answer_question,
    create_functions,
    send_answers,
)
from agentkit_py.models import RetryPolicy
from agentkit_py.routing import sequence
from agentkit_py.stores._sql_session import Session
from agentkit_py.testing import FakeProvider, ReceivedRequest, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run
from tests.durable.world import at

T = TypeVar("T")

_STOPPING = "agentkit_py.history.stopping"
EVENT, THREAD = "app/network-shop", "t"
EFFECTS = ("charge", "refund", "mail", "ship")
DONE = {name: f"{name} done" for name in EFFECTS}
NOT_MADE = "before this call was made"
PROGRAMS = {
    "whole": ({"clerk": ["charge", "refund"], "packer": ["mail", "ship"]}, True),
    "small": ({"clerk": ["charge", "refund"]}, False),
    "late": ({"clerk": ["charge", "refund"]}, True),
    "call": ({"clerk": ["charge"]}, False),
    "approval": ({"clerk": ["refund"]}, False),
    "pair": ({"packer": ["mail", "ship"]}, True),
    "long": ({"clerk": ["charge", "refund", "mail"]}, False),
}
"""The calls of each agent by program, and whether a message comes late."""


class Store(MemoryHistory):
    """A store whose writes may fail, and that can be put back to what it was."""

    fails: tuple[int, str] | None = None
    """Which of the writes from now on fails, and whether ``"before"`` or ``"after"`` it is made."""

    writes = 0

    async def _run(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        self.writes += write
        if write and self.fails == (self.writes, "before"):
            raise HistoryError("the database is away")
        found = await super()._run(work, write=write, repeatable=repeatable)
        if write and self.fails == (self.writes, "after"):
            raise HistoryError("the database is away")
        return found

    @property
    def _sqlite(self) -> Any:
        memory: Any = self._memory
        return memory._connection

    def taken(self) -> bytes:
        """Return all that is stored."""
        return self._sqlite.serialize()

    def put_back(self, taken: bytes) -> None:
        """Hold what `taken` returned."""
        self._sqlite.deserialize(taken)

    @functools.cached_property
    def _tables(self) -> list[str]:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        names = [name for (name,) in self._sqlite.execute(query)]
        return [name for name in names if not name.startswith(("sqlite_", "words"))]

    def rows(self) -> Iterator[str]:
        """Yield all rows as texts."""
        for name in self._tables:
            for row in self._sqlite.execute(f"SELECT * FROM {name}"):
                yield f"{name} {row}"


class Executor(ReplayExecutor):
    """Runs are named by the events that begin them, so that a state is one however it came."""

    def begin(
        self, function: str, event: dict[str, Any], invoked_by: tuple[Run, str] | None = None
    ) -> Run:
        """Begin a run of a function."""
        run = super().begin(function, event, invoked_by)
        run.id = f"run-of-{event['id']}".replace("/", ".")
        return run

    def restart(self) -> None:
        """Do nothing: functions keep nothing from one request to the next."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything that continues from here."""

    server: Any
    stored: bytes
    marks: dict[str, Any]
    left: int
    """The disturbances that may still come."""

    path: tuple[str, ...] = ()


@dataclass
class Marks:
    """What has happened, as far as the explorer decides it."""

    effects: Counter[str] = field(default_factory=Counter[str])
    """Executions by tool and key."""

    excused: Counter[str] = field(default_factory=Counter[str])
    """Executions whose worker died before the server heard of them."""

    late: bool = False
    approved: tuple[str, ...] = ()
    denied: bool = False
    twice: bool = False
    cancelled: bool = False
    versions: str = "old"
    turn: int = 0
    crossed: bool = False
    """Whether other code was deployed under the first run."""


@dataclass(frozen=True, slots=True)
class Move:
    """Something that can happen now."""

    name: str
    act: Callable[[], Awaitable[None]]
    costs: int = 0


class World:
    """One thread, the functions of two versions, and what happens to them."""

    executor_type: type[Executor] = Executor

    def __init__(self, program: str, *, leased: bool) -> None:
        calls, self.has_late = PROGRAMS[program]
        self.calls: Mapping[str, list[str]] = calls
        self.marks = Marks()
        self.store = Store(lease=ThreadLease(seconds=100_000) if leased else None)
        self.fake = FakeProvider(self.reply, strict=False)
        self.client = inngest.Inngest(app_id="app", is_production=False)
        self.executor = self.executor_type(
            self.client, partial(self.functions, "old"), transport=self.fake.transport, seed=None
        )
        self.workers = {"old": self.executor.worker}
        executor: Any = self.executor
        executor._make = partial(self.functions, "new")
        ReplayExecutor.restart(self.executor)
        self.workers["new"] = self.executor.worker
        self.executor.worker = self.workers["old"]
        self.asked: list[Any] = []

    # The program.

    def functions(self, version: str) -> list[inngest.Function[Any]]:
        """Make the functions of a version."""
        options = {"shop": self.options(version)}
        network = self.network(version, history=self.store)
        return create_functions(self.client, networks=[network], options=options)

    def options(self, version: str) -> FunctionOptions:
        """Return the options of the network's function."""
        del version
        return FunctionOptions()

    def network(self, version: str, **options: Any) -> Network:
        """Make the network of a version."""
        model = openai("gpt-4o", api_key="k", retry=RetryPolicy(attempts=1))
        tools = {name: self.tool(name) for name in EFFECTS}
        agents = [
            Agent(
                name=name,
                system=f"{name} {version}",
                tools=[tools[one] for one in names],
                model=at(model, self.fake),
                max_iter=4,
                parallel_tools=name == "packer",
            )
            for name, names in self.calls.items()
        ]
        return Network(name="shop", agents=agents, router=sequence(*agents), **options)

    def tool(self, name: str) -> Any:
        """Make a tool with an effect; one of the pair is left by a cancellation of its own."""

        async def act(ctx: ToolContext) -> str:
            self.marks.effects[f"{name} {ctx.step.idempotency_key}"] += 1
            if name == "ship":
                raise asyncio.CancelledError("something of its own was cancelled")
            return DONE[name]

        return tool(name=name, description=name, needs_approval=name == "refund")(act)

    def reply(self, request: ReceivedRequest) -> Any:
        """Call what the thread does not show as settled; the late message is only noted."""
        body: Any = request.body
        messages: list[Any] = body["messages"]
        self.asked.append(body)
        said = [one["content"] for one in messages if one["role"] == "user"]
        if not said or said[-1] != "Pay.":
            return "Noted."
        agent = messages[0]["content"].split()[0]
        seen = contents(messages)
        settled = {n for n, texts in seen.items() if any(NOT_MADE not in text for text in texts)}
        wanted = [name for name in self.calls[agent] if name not in settled]
        if not wanted:
            return "Done."
        if agent == "packer":
            made = tool_calls(*[(name, dict[str, Any]()) for name in wanted])
        else:
            made = tool_call(wanted[0], {})
        for name, one in zip(wanted, made["tool_calls"], strict=False):
            one["id"] = f"{name}-{len(seen.get(name, ()))}"
        return made

    # Snapshots.

    def take(self, left: int, path: tuple[str, ...]) -> State:
        """Return everything as it is now."""
        executor = self.executor
        kept = self._copied((executor.schedule, executor.runs, executor.events))
        return State(kept, self.store.taken(), copy.deepcopy(vars(self.marks)), left, path)

    def put_back(self, state: State) -> None:
        """Be as it was."""
        executor = self.executor
        executor.schedule, executor.runs, executor.events = self._copied(state.server)
        executor.journal.clear()
        executor.published.clear()
        self.store.put_back(state.stored)
        self.marks = Marks(**copy.deepcopy(state.marks))
        self.asked.clear()

    def _copied(self, server: Any) -> Any:
        """Copy what a server holds; what it remembers of steps never changes, and is shared."""
        shared: list[Any] = [self.executor]
        for run in server[1]:
            shared += run.memos.values()
        return copy.deepcopy(server, {id(one): one for one in shared})

    def digest(self) -> bytes:
        """Return a digest of all that decides what can happen from here on."""
        return blake2b("\n".join(self.facts()).encode(), digest_size=16).digest()

    def facts(self) -> list[str]:
        """Return all that decides what can happen from here on, without times and numbers."""
        tries = [f"{name_of(one)} {one.action.args[0].attempt}" for one in self.requests]
        found = sorted(tries) + [f"wait {one}" for one in self.waits]
        for run in self.executor.runs:
            if run.status == "running":
                memos = [(run.recorded[key].name, memo) for key, memo in run.memos.items()]
                facts = [sorted(map(str, memos)), sorted(run.pending), sorted(run.waits)]
                found.append(_plain(f"{run.id} {run.discovering} {run.planning} {facts}"))
        found += sorted(map(_plain, self.store.rows()))
        marks = dict(vars(self.marks))
        effects, excused = marks.pop("effects"), marks.pop("excused")
        found += [f"{key} {effects[key] - excused[key]}" for key in sorted(effects)]
        return [*found, str(marks)]

    # What can happen.

    @property
    def queue(self) -> list[Any]:
        """All that the server has to do."""
        schedule: Any = self.executor.schedule
        return schedule._items

    @property
    def requests(self) -> list[Any]:
        """The requests that the server may send now."""
        return [one for one in sorted(self.queue) if is_request(one)]

    @property
    def waits(self) -> list[str]:
        """The waits that are not over, in the order in which their time is up."""
        found: list[str] = []
        for item in sorted(self.queue):
            if is_request(item):
                continue
            run, step, *_ = item.action.args
            if run.status == "running" and step.id in run.pending:
                found.append(f"{run.id} {step.name}")
        return found

    async def do(self, item: Any) -> None:
        """Do one thing that the server has to do, and what it does by itself after that."""
        if self.marks.versions == "both":
            self.marks.turn = 1 - self.marks.turn
        version = ("old", "new")[self.marks.turn]
        self.executor.worker = self.workers[version]
        await self.take_out(item)
        await self.follow()

    async def take_out(self, item: Any) -> None:
        """Take a thing out of the queue, and do it."""
        self.queue.remove(item)
        heapq.heapify(self.queue)
        with self.executor.connection.use():
            await item.action()

    async def follow(self) -> None:
        """Let the server do what is no request and no time-out."""
        while True:
            items = [one for one in sorted(self.queue) if not one.is_timeout]
            own = [one for one in items if not is_request(one)]
            if not own:
                return
            await self.take_out(own[0])

    async def die(self, item: Any) -> None:
        """Let the worker die once all of a request is done, and before the server hears of it."""
        before = Counter(self.marks.effects)
        self.executor.kills[:] = [KillAt(request=1, when="inside")]
        self.executor.journal.clear()
        await self.do(item)
        self.executor.kills.clear()
        self.marks.excused.update(self.marks.effects - before)

    async def die_in_act(self, item: Any) -> None:
        """Let the worker die in a call, so that nothing after its act is written."""
        self.store.writes, self.store.fails = 0, (2, "before")
        try:
            await self.die(item)
        finally:
            self.store.fails = None

    async def fail(self, item: Any, number: int, when: str) -> None:
        """Let one write of a request fail."""
        self.store.writes, self.store.fails = 0, (number, when)
        try:
            await self.do(item)
        finally:
            self.store.fails = None

    async def say(self, text: str, message_id: str, event_id: str) -> None:
        """Deliver a message."""
        data = {"input": {"content": text, "id": message_id}, "threadId": THREAD}
        with self.executor.connection.use():
            self.executor.receive({"name": EVENT, "data": data, "id": event_id})
        await self.follow()

    async def say_twice(self) -> None:
        """Deliver the first message again."""
        self.marks.twice = True
        await self.say("Pay.", "m1", "again")

    async def say_late(self) -> None:
        """Deliver another message."""
        self.marks.late = True
        await self.say("And now?", "m2", "late")

    async def answer(self, person: str, lost: str | None = None) -> None:
        """Answer the last question: Ann approves, Bob denies.

        Args:
            person: Who answers.
            lost: Whether the ``"event"`` does not come to the server, or the server's ``"reply"``
                does not come back.
        """
        approves = person == "ann"
        (*_, question) = await self.unapproved() if approves else await self.questions(None)
        self.marks.approved += (question.id,) if approves else ()
        self.marks.denied |= not approves
        broken: AbstractContextManager[Any] = nullcontext()
        if lost is not None:
            broken = patch.object(
                inngest.Inngest, "send", partial(self.lose, self.client.send, lost)
            )
        with self.executor.connection.use(), broken, suppress(NotPendingError, OSError):
            await answer_question(self.client, self.store, question.id, approves, by=person)
        await self.follow()

    @staticmethod
    async def lose(send: Callable[..., Awaitable[Any]], what: str, *given: Any, **how: Any) -> None:
        """Send an event over a network that loses something."""
        if what == "reply":
            await send(*given, **how)
        raise OSError("no network")

    async def look(self) -> None:
        """Send again the answers that were not heard."""
        with self.executor.connection.use():
            await send_answers(self.client, self.store)
        await self.follow()

    async def deploy(self, versions: str) -> None:
        """Let workers of other versions take the requests."""
        self.marks.versions, self.marks.turn = versions, int(versions == "new")
        first = self.executor.runs[0]
        self.marks.crossed |= first.status == "running" and len(first.memos) > 0

    async def cancel(self) -> None:
        """Cancel the run of the first message."""
        self.marks.cancelled = True
        with self.executor.connection.use():
            self.executor.cancel(self.executor.runs[0])
        await self.follow()

    async def questions(self, status: Any = "open") -> list[Question]:
        """Return the questions."""
        return await self.store.list_questions(thread_id=THREAD, status=status, limit=None)

    async def unapproved(self) -> list[Question]:
        """Return the open questions that Ann has not answered."""
        return [one for one in await self.questions() if one.id not in self.marks.approved]

    async def moves(self, left: int) -> list[Move]:
        """Return all that can happen now."""
        marks, found = self.marks, list[Move]()
        requests = self.requests
        found += [Move(name_of(item), partial(self.nth, n)) for n, item in enumerate(requests)]
        if self.has_late and not marks.late:
            found.append(Move("late message", self.say_late))
        if await self.unapproved():
            found.append(Move("ann approves", partial(self.answer, "ann")))
            if left:
                for what in ("event", "reply"):
                    lost = partial(self.answer, "ann", what)
                    found.append(Move(f"ann approves, {what} lost", lost, 1))
        if not found:
            found += await self.last_moves()
        if left:
            found += await self.disturbances(requests)
        return found

    async def nth(self, number: int) -> None:
        """Send one of the requests that are due."""
        self.store.writes = 0
        await self.do(self.requests[number])

    async def nth_dies(self, number: int) -> None:
        """Send one of them to a worker that dies."""
        await self.die(self.requests[number])

    async def nth_dies_in_act(self, number: int) -> None:
        """Send one of them to a worker that dies before it can write what a call did."""
        await self.die_in_act(self.requests[number])

    async def nth_fails(self, number: int, write: int, when: str) -> None:
        """Send one of them while the store fails."""
        await self.fail(self.requests[number], write, when)

    async def last_moves(self) -> list[Move]:
        """Return what happens where nothing else does: looks, and time."""
        if await self.questions("undelivered"):
            return [Move("look", self.look)]
        waiting = sorted(self.queue)
        live = [one for one in waiting if one.action.args[0].status == "running"]
        live = [one for one in live if one.action.args[1].id in one.action.args[0].pending]
        return [Move("time passes", partial(self.pass_time, live[0].number))] if live else []

    async def pass_time(self, number: int) -> None:
        """Let the next wait be over."""
        await self.do(next(one for one in self.queue if one.number == number))

    async def disturbances(self, requests: list[Any]) -> list[Move]:
        """Return what may go wrong, or come in addition."""
        marks, found = self.marks, list[Move]()
        for number, item in enumerate(requests):
            name = name_of(item)
            found.append(Move(f"{name} dies", partial(self.nth_dies, number), 1))
            found.append(Move(f"{name} dies in its call", partial(self.nth_dies_in_act, number), 1))
            for write in range(1, 4):
                for when in ("before", "after"):
                    fails = partial(self.nth_fails, number, write, when)
                    found.append(Move(f"{name}, store fails {when} write {write}", fails, 1))
        if not marks.twice and self.store.lease is not None:  # else each delivery is a message
            found.append(Move("delivered twice", self.say_twice, 1))
        if await self.questions(None) and not marks.denied:
            found.append(Move("bob denies", partial(self.answer, "bob"), 1))
        for versions in {"old", "new", "both"} - {marks.versions}:
            found.append(Move(f"deploy {versions}", partial(self.deploy, versions), 1))
        if not marks.cancelled and self.executor.runs[0].status == "running":
            found.append(Move("cancel", self.cancel, 1))
        return found

    # What has to hold.

    def check_effects(self) -> None:
        """Check that no effect happened twice, but where its worker died unheard."""
        marks = self.marks
        for key, count in marks.effects.items():
            assert count <= 1 + marks.excused[key], f"{key} happened {count} times"
        names = Counter(key.split()[0] for key in marks.effects)
        for name, count in names.items():
            assert count == 1, f"{name} happened under {count} keys"

    async def check_end(self) -> None:
        """Check thread, ledger, questions and the next message, where nothing is left to happen."""
        marks, runs = self.marks, self.executor.runs
        for run in runs:
            ended = ("completed", "cancelled") if marks.cancelled else ("completed",)
            assert run.status in ended, f"{run.id} is {run.status}: {run.error}"
        exists = await self.store.thread_exists(THREAD)
        rows = await self.store.load(THREAD) if exists else []
        users = [str(row.id) for row in rows if row.agent_name == "user"]
        assert len(set(users)) == len(users), f"messages {users}"
        stored: dict[str, list[str]] = {}
        for row in rows:
            for result in row.tool_calls:
                text = json.dumps(result.content)
                stored.setdefault(result.tool.name, []).append(text)
        self.check_known(stored, "the thread")
        self.check_made()
        await self.check_questions()
        before = len(runs)
        await self.say("What now?", "m3", "next")
        while runs[before].status == "running":
            due = self.requests or sorted(self.queue)
            assert due, "the next message is never answered"
            await self.do(due[0])
        assert runs[before].status == "completed", runs[before].error
        self.check_known(contents(self.asked[-1]["messages"]), "the next message's model")

    def check_known(self, told: Mapping[str, list[str]], where: str) -> None:
        """Check that what is told of calls is what they did."""
        happened = {key.split()[0] for key in self.marks.effects}
        for name in happened:
            texts = told.get(name, [])
            known = any(NOT_MADE not in text and "RunStopped" not in text for text in texts)
            unknown = any("not known" in text for text in texts)
            assert known or unknown, f"{name} happened, and {where} says {texts}"
            assert known or self.marks.cancelled, f"{where} does not know of {name}: {texts}"
        for name, texts in told.items():
            claimed = any(DONE[name] in text for text in texts)
            assert not claimed or name in happened, f"{where} claims {name}"

    def check_made(self) -> None:
        """Check that nothing of a run's work is lost; people decide about refunds."""
        happened = {key.split()[0] for key in self.marks.effects}
        wanted = {name for names in self.calls.values() for name in names} - {"refund"}
        lost = wanted - happened
        assert not lost or self.marks.cancelled, f"never happened: {', '.join(sorted(lost))}"

    async def check_questions(self) -> None:
        """Check that the rows say what was done."""
        asked = await self.questions(None)
        for one in asked:
            assert one.status != "open", "a question is open, and nobody waits"
        approved = [one for one in asked if one.answer is not None and one.answer.approved]
        denied = [one for one in asked if one.answer is not None and not one.answer.approved]
        paid = any(key.startswith("refund") for key in self.marks.effects)
        assert not paid or approved, "refunded, and no row says that it was approved"
        if approved and not self.marks.cancelled:
            assert paid, f"approved by {approved[0].answer}, and not refunded"
        assert not (paid and denied and not approved), "refunded, and the row says denied"


def contents(messages: list[Any]) -> dict[str, list[str]]:
    """Return the contents of results in a request, by the names of their tools."""
    names: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for one in messages:
        for call in one.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if one["role"] == "tool":
            found.setdefault(names[one["tool_call_id"]], []).append(one["content"])
    return found


def is_request(item: Any) -> bool:
    """Return whether something that the server has to do is a request to a worker."""
    return item.action.func.__name__ == "_send"


def name_of(item: Any) -> str:
    """Return a request in words."""
    (call,) = item.action.args
    target = call.step_name
    return f"{call.run.id}" if target is None else f"{call.run.id} {target}"


_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[T ][0-9:.+Z-]+|\b1[78]\d{8,11}(\.\d+)?|01EVENT\d+|['\"]size['\"]: \d+"
    r"|['\"](?:prompt_|total_|input|output)[tT]okens['\"]: ?\d+"
    r"|['\"]changed['\"]: \[.*?\](, )?"  # in which step other code was noticed
    r"|(?<=\.signal', )\d+|0x[0-9a-f]+|chatcmpl-\d+|at=[0-9.]+|now=[0-9.]+"
)


def _plain(text: str) -> str:
    """Return a text without times and sizes."""
    return _TIMES.sub("", text)


# Faults that were mended, put back to see that the explorer finds them.


async def _no_claim(*_: Any) -> None:
    """Let a run that waits give up its message."""


async def _no_note(call: OpenCall) -> None:
    """Say nowhere that a call begins."""
    call.asked()


async def _failing_note(call: OpenCall, key: str, note: Mapping[str, Any], _: Any) -> None:
    """Let the step of a call fail where its end cannot be noted."""
    if call.keeper is not None:
        await call.keeper.note({key: note})


def _not_made(reply: OpenReply, index: int) -> Any:
    """Tell of each call that is not done that it was not made."""
    return reply.contents.get(index, {"error": {"name": "RunStoppedError", "message": NOT_MADE}})


async def _plain_call(call: Callable[[], Awaitable[T]]) -> T:
    """Let a tool's own cancellation pass through."""
    return await call()


def _no_reply(*_: Any) -> Any:
    """Let each request of a run fail in the same way, and change nothing."""
    raise LookupError("the model is away")


_answer_question = answer_question


async def _event_decides(record: QuestionRecord, answer: Any) -> dict[str, Any] | None:
    """Let a run act on the event's answer, whatever the row says."""
    await _close(record, answer)
    return None if answer is None else answer.to_dict()


_close = QuestionRecord.close


async def _reopened(client: Any, store: Any, question_id: str, *given: Any, **how: Any) -> Any:
    """Open a question again where its answer could not be sent."""
    try:
        return await _answer_question(client, store, question_id, *given, **how)
    except OSError:

        def opened(known: Question) -> Question:
            return replace(known, status="open", answer=None)

        await store.change_question(question_id, opened)
        raise


@dataclass(frozen=True)
class Fault:
    """A fault that was mended: by what it is found, and what is put in place of what."""

    program: str
    depth: int
    kinds: tuple[str, ...]
    puts: Mapping[str, Any]
    world_of: Callable[..., World] = World


FAULTS: dict[str, Fault] = {
    "a cancelled run forgets what it did": Fault(
        "call", 1, ("cancel",), {f"{_STOPPING}.OpenCall.begin": _no_note},
    ),
    "a call under way stands as not made": Fault(
        "call", 2, ("dies in its call", "cancel"), {f"{_STOPPING}.OpenReply._content": _not_made},
    ),
    "a store that fails after the act repeats it": Fault(
        "call", 1, ("store fails",), {f"{_STOPPING}.OpenCall._note": _failing_note},
    ),
    "a question opens again whose answer was sent": Fault(
        "approval", 2, ("reply lost", "bob"), {
            f"{__name__}.answer_question": _reopened,
            "agentkit_py.history.thread.QuestionRecord.close": _event_decides,
        },
    ),
    "a run that waits gives up its message": Fault(
        "approval", 1, ("twice",),
        {"agentkit_py.history.leases.HeldLease._claim_message": _no_claim},
    ),
    "a request fails each time and leaves all as it was": Fault(
        "call", 0, (), {f"{__name__}.World.reply": _no_reply},
    ),
    "a tool's own cancellation acts again": Fault(
        "pair", 0, (), {"agentkit_py._engine.tool_calls.contained": _plain_call},
    ),
}  # fmt: skip
"""By name."""


@contextmanager
def planted(fault: Fault) -> Generator[None]:
    """Put a fault back."""
    with ExitStack() as stack:
        for target, wrong in fault.puts.items():
            stack.enter_context(patch(target, wrong))
        yield


@dataclass
class Found:
    """What an exploration has found."""

    states: int = 0
    moves: int = 0
    ends: int = 0
    broken: list[str] = field(default_factory=list[str])
    seconds: float = 0.0


async def explore(
    program: str,
    depth: int,
    *,
    leased: bool = True,
    kinds: tuple[str, ...] = ("",),
    most_broken: int = 1,
    shown: bool = False,
    world_of: Callable[..., World] = World,
) -> Found:
    """Try everything from the delivery of the message on; stop after so many broken paths.

    Args:
        program: The name of a program.
        depth: The number of disturbances.
        leased: Whether the store has a lease.
        kinds: What is in the names of disturbances that are tried.
        most_broken: The broken paths after which it stops.
        shown: Print how far it is.
        world_of: Makes the world of a program.
    """
    world, found, begun = world_of(program, leased=leased), Found(), time.monotonic()
    await world.say("Pay.", "m1", "first")
    seen: dict[bytes, int] = {}
    waiting = [world.take(depth, ())]
    while waiting and len(found.broken) < most_broken:
        state = waiting.pop()
        world.put_back(state)
        moves = await world.moves(state.left)
        if not any(move.costs == 0 for move in moves):
            found.ends += 1
            await _checked(world.check_end, found, state.path)
        writes: dict[str, int] = {}
        for move in moves:
            if _is_idle(move, writes) or (move.costs and not any(k in move.name for k in kinds)):
                continue
            world.put_back(state)
            found.moves += 1
            path = (*state.path, move.name)
            if not await _checked(partial(_made, world, move), found, path):
                continue
            if move.costs == 0:
                writes[move.name] = world.store.writes
            left = state.left - move.costs
            key = world.digest()
            if seen.get(key, -1) >= left:
                continue
            found.states += key not in seen
            seen[key] = left
            waiting.append(world.take(left, path))
            if shown and found.moves % 1000 < 1:
                say(f"{found.moves} moves, {found.states} states, {len(waiting)} waiting")
    found.seconds = time.monotonic() - begun
    return found


async def explore_with(fault: Fault, *, is_planted: bool = True) -> Found:
    """Explore as far as a fault needs to be found, with it or without."""
    with planted(fault) if is_planted else nullcontext():
        return await explore(fault.program, fault.depth, kinds=fault.kinds, world_of=fault.world_of)


def _is_idle(move: Move, writes: Mapping[str, int]) -> bool:
    """Return whether the write that is to fail is not made by the request."""
    request, comma, rest = move.name.partition(", store fails ")
    return bool(comma) and int(rest.rpartition(" ")[2]) > writes.get(request, 0)


async def _made(world: World, move: Move) -> None:
    await move.act()
    world.check_effects()


async def _checked(
    check: Callable[[], Awaitable[None]], found: Found, path: tuple[str, ...]
) -> bool:
    try:
        await check()
    except AssertionError as error:
        found.broken.append(f"{error}\n    " + "\n    ".join(path))
        return False
    return True


def _is_missed(name: str) -> bool:
    """Put a fault back; return whether it is not found."""
    found = asyncio.run(explore_with(FAULTS[name]))
    how = found.broken[0] if found.broken else "NOT FOUND"
    say(f"{name}: {found.moves} moves, {found.seconds:.0f} s: {how}")
    return not found.broken


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Explore as the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--depth", type=int, default=1, help="disturbances (1)")
    parser.add_argument("--program", default="small", choices=PROGRAMS)
    parser.add_argument(
        "--kinds", nargs="*", default=[""], help="what is in the names of disturbances (all)"
    )
    parser.add_argument("--no-lease", action="store_true", help="runs do not know of each other")
    parser.add_argument("--broken", type=int, default=5, help="stop after so many broken paths")
    parser.add_argument("--shown", action="store_true", help="print how far it is")
    parser.add_argument("--faults", action="store_true", help="put each fault back, and find it")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.faults:
        from tests.durable import small_mistakes  # noqa: PLC0415 - its worlds are made of this one

        FAULTS.update(small_mistakes.FAULTS)
        return sum(map(_is_missed, FAULTS))
    found = asyncio.run(
        explore(
            given.program, given.depth, leased=not given.no_lease, kinds=tuple(given.kinds),
            most_broken=given.broken, shown=given.shown,
        )
    )  # fmt: skip
    for one in found.broken:
        say(one)
    say(
        f"{given.program}, depth {given.depth}: {found.states} states, {found.moves} moves, "
        f"{found.ends} ends, {len(found.broken)} broken; {found.seconds:.0f} s"
    )
    return len(found.broken)


if __name__ == "__main__":
    sys.exit(bool(main()))
