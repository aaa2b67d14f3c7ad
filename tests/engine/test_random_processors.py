"""Random processors at all levels under random conversations: forks, rewinds, staff, questions.

``STACKS=1000`` tries so many; a failure names the seed that shows it again.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass, field
from os import environ
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, Message, Network, RouterContext, SqliteHistory, UserMessage, explain
from agentkit_py import tool as as_tool
from agentkit_py.history import StaffDesk
from agentkit_py.history.leases import ThreadLease
from agentkit_py.messages import ImageContent, TextContent, text_of
from agentkit_py.models import FallbackModel, anthropic, gemini, openai, openai_responses
from agentkit_py.models.function_model import function_model
from agentkit_py.processors import (
    Budget,
    ByAuthor,
    Chain,
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    DropUnanswered,
    HandoffView,
    KeepImages,
    MessageWindow,
    Pin,
    Recall,
    RecentToolCalls,
    RecentTurns,
    Redact,
    StripImages,
    Summarize,
    TableResults,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, HashingEmbedder, error

STACKS = int(environ.get("STACKS", "12"))
MODELS = [
    openai("gpt-5.1", api_key="k"),
    openai_responses("gpt-5.1", api_key="k"),
    anthropic("claude-sonnet-5", api_key="k"),
    gemini("gemini-3-pro", api_key="k"),
]
MARKED = re.compile(r"[A-Z]\d{4}z")
"""Texts of users (U), models (T), staff (S), notes (N) and tools (R of agent 0, Q of agent 1)."""

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)

pytestmark = pytest.mark.direct_only("staff, forks and questions are between runs, not inside one")


@dataclass
class Talk:
    """A thread, and the texts that may be read in it."""

    id: str
    marks: set[str] = field(default_factory=set[str])
    said: list[tuple[str, str, set[str]]] = field(default_factory=list[tuple[str, str, set[str]]])
    """Id and mark of each message of the user, and the marks there were before it."""


@dataclass
class World:
    """Threads of one user, whoever speaks in them, and what was seen where it must not be."""

    choose: random.Random
    path: Path
    faults: list[str] = field(default_factory=list[str])
    count: int = 0
    left: int = 0
    failed: bool = False
    asked: str = ""
    """The mark of the message that is answered now."""

    def __post_init__(self) -> None:
        choose = self.choose
        self.isolated = choose.random() < 0.5
        self.levels = [self.stack() for _ in range(5)]
        self.models = [choose.sample(MODELS, 2) for _ in range(2)]
        self.fails_over = choose.random() < 0.4
        self.turns = choose.choice([[0, 1], [0], [1, 0], [0, 1, 0]])
        self.lease = ThreadLease(steering=True) if choose.random() < 0.5 else None
        self.talk = Talk("t0")
        self.talks = [self.talk]
        self.fake = FakeProvider(self.reply)
        self.runtime = DirectRuntime(transport=self.fake.transport)
        self.begin()

    def stack(self) -> list[Any]:
        """Return some processors."""
        choose = self.choose
        summaries = function_model(self.summary)
        kinds: list[Any] = [
            Budget(choose.choice([700, 3000]), model=choose.choice([None, summaries])),
            ByAuthor(drop=["nobody"]),
            Chain([Deduplicate(), TableResults()]),
            ClearToolResults(),
            CompressToolResults(50),
            DropUnanswered(),
            HandoffView(),
            KeepImages(1),
            MessageWindow(choose.randint(3, 12)),
            Pin(lambda message: "U0001z" in text_of(message)),
            Recall(HashingEmbedder(16), 2, keep_recent=4),
            RecentToolCalls(choose.randint(0, 3)),
            RecentTurns(choose.randint(1, 3)),
            Redact(["email"]),
            StripImages(),
            Summarize(summaries, 120, 60, min_messages=1, min_new=1, summary_tokens=50),
            Threshold(choose.choice([50, 400]), then=[ToolCallFilter(persist_results=True)]),
            TokenLimiter(choose.choice([60, 300, 2000])),
            ToolCallFilter(include="own"),
            TruncateToolResults(60),
            _reversed_twice,
        ]
        return choose.sample(kinds, choose.choice([0, 0, 1, 2, 3]))

    async def summary(self, request: Any) -> str:
        """Sum up with all texts that are to be summed up."""
        return "Summary. " + " ".join(sorted(set(MARKED.findall(str(request))))[-6:])

    def mark(self, kind: str) -> str:
        """Return a text that nothing else has in it, of this thread."""
        self.count += 1
        made = f"{kind}{self.count:04d}z"
        self.talk.marks.add(made)
        return made

    def begin(self) -> None:
        """Begin in a new process."""
        at_store, at_network, *at_agents, self.at_run = self.levels
        self.store = SqliteHistory(self.path, lease=self.lease, processors=at_store)

        def look(number: int) -> Any:
            @as_tool(name=f"look{number}", needs_approval=lambda ctx: ctx.arguments.amount > 250)
            def find(amount: int) -> dict[str, Any]:
                """Look."""
                return {"found": self.mark("RQ"[number]), "to": "ada@example.com", "n": amount}

            return find

        agents = [
            Agent(
                name=f"a{number}",
                system=f"You are a{number}.",
                tools=[look(number)],
                model=FallbackModel(self.models[number], breaker=None)
                if self.fails_over
                else self.models[number][0],
                processors=at_agents[number],
            )
            for number in range(2)
        ]

        def in_turn(context: RouterContext) -> str | None:
            at = context.call_count
            return f"a{self.turns[at]}" if at < len(self.turns) else None

        self.network = Network(
            name="n",
            agents=agents,
            router=in_turn,
            history=self.store,
            processors=at_network,
            isolation="own_tools" if self.isolated else None,
        )

    async def reply(self, request: Any) -> Any:
        """Answer like a model, at random; look at what it was shown."""
        text = json.dumps(request.body)
        number = int(re.findall(r"You are a(\d)", text)[0])
        self.look_at(text, number)
        self.failed = self.fails_over and not self.failed and self.choose.random() < 0.2
        if self.failed:
            return error(503, "overloaded")
        self.left -= 1
        calls: list[Any] = []
        if self.left > 0 and f"look{number}" in text:
            amounts = [self.choose.randint(1, 300) for _ in range(self.choose.choice([0, 1, 1, 2]))]
            calls = [{"name": f"look{number}", "arguments": {"amount": one}} for one in amounts]
        said = "" if calls and self.choose.random() < 0.5 else self.mark("T")
        thought = ["Well."] if self.choose.random() < 0.5 else []
        return {"text": said, "tool_calls": calls, "reasoning": thought}

    def look_at(self, text: str, number: int) -> None:
        """Note what an agent must not read, and what it lacks."""
        shown = set(MARKED.findall(text))
        if strangers := shown - self.talk.marks:
            self.faults.append(f"a{number} read {strangers}, which are not of {self.talk.id}")
        foreign = {one for one in shown if one[0] == "QR"[number]}
        if self.isolated and foreign:
            self.faults.append(f"a{number} read {foreign} of the other's tool")
        if self.asked and self.asked not in shown:
            self.faults.append(f"a{number} did not read {self.asked}")

    async def say(self) -> None:
        """Say something, answer all questions, and send the message once more."""
        before = set(self.talk.marks)
        mark = self.asked = self.mark("U")
        content: Any = f"{mark} ada@example.com"
        if self.choose.random() < 0.3:
            content = (TextContent(mark), ImageContent(data=PIXEL, media_type="image/png"))
        message = UserMessage(content, id=f"m{self.count}")
        self.left = self.choose.randint(1, 5)
        options: Any = {"thread_id": self.talk.id, "runtime": self.runtime}
        options["processors"] = self.at_run
        run = await self.network.run(message, **options)
        self.talk.said.append((message.id or "", mark, before))
        while found := await self.network.pending(self.talk.id):
            if self.choose.random() < 0.3:
                await self.restart()
            answers: Any = {one.id: self.choose.random() < 0.7 for one in found}
            resumed: Any = {"runtime": self.runtime, "processors": self.at_run}
            run = await self.network.resume(self.talk.id, answers, **resumed)
        if run.stop_reason != "taken_over":
            await self.explained()

    async def explained(self) -> None:
        """See that what an agent would be sent is the same twice, and no secret."""
        agent = f"a{self.choose.randrange(2)}"
        sent = [
            await explain(self.network, agent, thread_id=self.talk.id, input="So?")
            for _ in range(2)
        ]
        first, second = ([_plain(one) for one in report.sent] for report in sent)
        assert first == second, "the same thread gives the same request"

    async def restart(self) -> None:
        """End the process."""
        await self.store.close()
        self.begin()

    async def fork(self) -> None:
        """Fork the thread before one of the user's messages, or at its end, and go on with that."""
        talk, place = self.talk, None
        marks, said = set(talk.marks), [*talk.said]
        if talk.said and self.choose.random() < 0.6:
            number = self.choose.randrange(len(talk.said))
            place, _, marks = talk.said[number]
            marks, said = set(marks), talk.said[:number]
        made = await self.store.fork(talk.id, place)
        self.talks.append(Talk(made, marks, [*said]))
        self.talk = self.choose.choice(self.talks)

    async def edit(self) -> None:
        """Take one of the last messages back."""
        if self.talk.said:
            number = self.choose.randrange(max(0, len(self.talk.said) - 2), len(self.talk.said))
            place, _, marks = self.talk.said[number]
            await self.store.rewind(self.talk.id, place)
            self.talk.marks, self.talk.said = set(marks), self.talk.said[:number]

    async def take_over(self) -> None:
        """Let a person write in the thread, and hand it back with a note."""
        desk = StaffDesk(self.store)
        await desk.join(self.talk.id, by="mia-secret", name="Mia")
        await desk.say(self.talk.id, f"I am Mia. {self.mark('S')}", by="mia-secret")
        if self.choose.random() < 0.5:
            await self.say()
        await desk.hand_back(self.talk.id, by="mia-secret", note=self.mark("N"))

    async def say_at_once(self) -> None:
        """Steer, or wait in line; which message is answered when is not looked at."""
        marks = [self.mark("U") for _ in range(2)]
        self.asked, self.left = "", 3
        options: Any = {"thread_id": self.talk.id, "runtime": self.runtime}
        messages = [UserMessage(one, id=f"m{one}") for one in marks]
        await asyncio.gather(*(self.network.run(one, **options) for one in messages))
        while found := await self.network.pending(self.talk.id):
            answers: Any = {one.id: True for one in found}
            await self.network.resume(self.talk.id, answers, runtime=self.runtime)


async def _reversed_twice(messages: Any) -> list[Message]:
    """Make another list of the same messages."""
    return list(messages)


def _plain(message: Message) -> str:
    return json.dumps([message.type, message.role, message.agent, text_of(message)])


async def converse(world: World) -> None:
    """Do some things in an order by chance."""
    await world.say()
    for _ in range(world.choose.randint(3, 8)):
        ways = [world.say, world.say, world.fork, world.edit, world.take_over, world.restart]
        if world.lease is not None:
            ways.append(world.say_at_once)
        await world.choose.choice(ways)()
        world.talk = world.choose.choice(world.talks)
    for talk in world.talks:
        known = await world.store.thread_exists(talk.id)
        rows = await world.store.load(talk.id) if known else []
        stored = MARKED.findall(json.dumps([row.to_dict()["output"] for row in rows]))
        said = [one for one in stored if one[0] in "US"]
        assert len(said) == len(set(said)), "each is stored once"
        assert set(stored) <= talk.marks
        assert {mark for _, mark, _ in talk.said} <= set(said), "none is lost"


@pytest.mark.parametrize("seed", range(STACKS))
async def test_random_processors_hide_lose_and_break_nothing(tmp_path: Path, seed: int) -> None:
    """Whatever the stacks: requests are valid, and of this thread alone; isolation holds."""
    world = World(random.Random(seed), tmp_path / "t.db")  # noqa: S311 - no secret
    try:
        await converse(world)
    finally:
        await world.store.close()
    assert world.faults == []
    assert world.fake.rejections == []
    bodies = json.dumps([one.body for one in world.fake.requests])
    assert "mia-secret" not in bodies
