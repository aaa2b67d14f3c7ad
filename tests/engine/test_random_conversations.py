"""Random conversations: messages that come twice or at once, cancelled runs, people who are asked.

``CONVERSATIONS=1000`` tries so many; a failure names the seed that shows it again.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from os import environ
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, ToolContext, UserMessage, tool
from agentkit_py.errors import BadRequestError
from agentkit_py.events import ApprovalAnswer
from agentkit_py.history.leases import ThreadLease
from agentkit_py.models import anthropic, gemini, openai
from agentkit_py.processors import MessageWindow, RecentToolCalls
from agentkit_py.routing import handoffs
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, error

CONVERSATIONS = int(environ.get("CONVERSATIONS", "30"))
MODELS = [
    openai("gpt-5.1", api_key="k"),
    anthropic("claude-sonnet-5", api_key="k"),
    gemini("gemini-3-pro", api_key="k"),
]
MARKED = re.compile(r"[A-Z]\d{4}z")
"""Texts of users, models and tools, each once in the whole conversation."""

pytestmark = pytest.mark.direct_only(
    "a function does not pause; random messages to functions: tests/durable/test_random_messages.py"
)


def offered(body: Any) -> list[str]:
    """Return the names of the tools of a request, whichever its format is."""
    tools = [one.get("functionDeclarations", [one]) for one in body.get("tools", ())]
    return [one.get("function", one)["name"] for declared in tools for one in declared]


@dataclass
class World:
    """A thread, whoever speaks in it, and what was done."""

    choose: random.Random
    path: Path
    store: SqliteHistory = field(init=False)
    network: Network = field(init=False)
    fakes: list[FakeProvider] = field(default_factory=list[FakeProvider])
    runtime: DirectRuntime = field(init=False)
    said: list[str] = field(default_factory=list[str])
    effects: Counter[str] = field(default_factory=Counter[str])
    calls_left: int = 0
    cancels_at: int = 0
    task: asyncio.Task[Any] | None = None
    fails: bool = False
    twice: list[str] = field(default_factory=list[str])
    """Marks that stood in one request more than once."""

    count: int = 0

    def __post_init__(self) -> None:
        choose = self.choose
        self.model = choose.choice(MODELS)
        self.steers, self.parallel = choose.random() < 0.5, choose.random() < 0.3
        self.size, self.hands_over = choose.randint(1, 3), choose.random() < 0.5
        self.offers = [choose.sample(range(3), choose.randint(1, 3)) for _ in range(self.size)]
        self.processors: list[Any] = choose.choice([[], [RecentToolCalls(2)], [MessageWindow(12)]])
        self.begin()

    def mark(self, kind: str) -> str:
        """Return a text that nothing else has in it."""
        self.count += 1
        return f"{kind}{self.count:04d}z"

    def begin(self) -> None:
        """Begin in a new process: nothing is left but the file."""
        fake = FakeProvider(self.reply)
        self.fakes.append(fake)
        self.runtime = DirectRuntime(transport=fake.transport)
        self.store = SqliteHistory(self.path, lease=ThreadLease(steering=self.steers))
        tools = self.tools()
        agents = [
            Agent(
                name=f"a{number}",
                system=f"You are a{number}.",
                tools=[tools[index] for index in offer],
                parallel_tools=self.parallel,
                processors=self.processors,
            )
            for number, offer in enumerate(self.offers)
        ]
        names = [agent.name for agent in agents]

        def in_turn(context: RouterContext) -> str | None:
            return names[context.call_count] if context.call_count < len(names) else None

        router: Any = in_turn
        if self.hands_over and len(agents) > 1:
            for agent in agents:
                agent.handoffs = [other for other in agents if other is not agent]
            router = handoffs(agents[0], stay=True)
        self.network = Network(
            name="n",
            agents=agents,
            router=router,
            default_model=self.model,
            history=self.store,
            max_iter=6,
        )

    def tools(self) -> list[Any]:
        """Tools that look, that ask first, and that ask in the middle of their steps."""

        @tool
        def look(order: str, amount: int) -> str:
            """Look at an order."""
            self.effects[order] += 1
            return f"L{order[1:]}"

        @tool(needs_approval=lambda ctx: ctx.arguments.amount > 150)
        def refund(order: str, amount: int) -> str:
            """Pay money back."""
            self.effects[order] += 1
            return f"R{order[1:]}"

        @tool(steps=True)
        async def book(order: str, amount: int, ctx: ToolContext) -> str:
            """Book in steps."""

            async def hold() -> int:
                self.effects[order] += 1
                return 7

            await ctx.step.run("hold", hold)
            if amount > 200:
                await ctx.approve("Really?")
            return f"B{order[1:]}"

        return [look, refund, book]

    async def reply(self, request: Any) -> Any:
        """Answer like a model, at random; check what it was shown."""
        shown = Counter(MARKED.findall(json.dumps(request.body)))
        self.twice += [mark for mark, times in shown.items() if times > 1]
        self.cancels_at -= 1
        if self.cancels_at == 0 and self.task is not None:
            self.task.cancel()
            await asyncio.Event().wait()
        if self.fails:
            self.fails = False
            return error(400, "not today")
        self.calls_left -= 1
        names = offered(request.body) if self.calls_left > 0 else []
        calls: list[Any] = []
        for name in self.choose.choices(names, k=self.choose.choice([0, 1, 1, 2])) if names else ():
            hands_over = name not in ("look", "refund", "book")
            given = {"order": self.mark("O"), "amount": self.choose.randint(1, 300)}
            calls.append({"name": name, "arguments": {} if hands_over else given})
            if hands_over:
                break
        return {"text": "" if calls else self.mark("T"), "tool_calls": calls}

    async def say(self, thread: str | None, message: UserMessage, **options: Any) -> Any:
        """Run the network; a refused request is asked once more, as the user's page does."""
        self.calls_left = self.choose.randint(1, 6)
        options |= {"thread_id": thread, "runtime": self.runtime}
        try:
            return await self.network.run(message, **options)
        except BadRequestError:
            return await self.network.run(message, **options)

    async def cut(self, thread: str, message: UserMessage) -> None:
        """Run the network, and cancel it while it waits for its model."""
        self.cancels_at, self.calls_left = self.choose.randint(1, 4), 6
        options: Any = {"thread_id": thread, "runtime": self.runtime}
        self.task = asyncio.ensure_future(self.network.run(message, **options))
        await asyncio.wait([self.task])
        assert self.task.cancelled() or self.task.exception() is None
        self.task, self.cancels_at = None, 0

    async def decide(self, thread: str) -> Any:
        """Answer all questions, each maybe in another process; return the last run."""
        run: Any = None
        while open_ := await self.network.pending(thread):
            if self.choose.random() < 0.5:
                await self.restart()
            some = self.choose.sample(open_, self.choose.randint(1, len(open_)))
            answers: Any = {
                one.id: self.choose.choice([True, False, ApprovalAnswer(approved=True)])
                for one in some
                if one.run_id == some[0].run_id
            }
            run = await self.network.resume(thread, answers, runtime=self.runtime)
        return run

    async def restart(self) -> None:
        """End the process."""
        await self.store.close()
        self.begin()

    @property
    def requests(self) -> int:
        """Number of requests so far."""
        return sum(len(fake.requests) for fake in self.fakes)


async def converse(world: World) -> None:
    """Talk for some turns."""
    choose, thread = world.choose, None
    for turn in range(choose.randint(1, 5)):
        world.said.append(world.mark("U"))
        message = UserMessage(world.said[-1], id=f"m{turn}")
        if thread is not None and choose.random() < 0.3:
            await world.cut(thread, message)
            if choose.random() < 0.5:
                await world.restart()
        world.fails = thread is not None and choose.random() < 0.1
        run = await world.say(thread, message)
        thread = run.thread_id
        world.fails = False
        run = await world.decide(thread) or run
        asked = world.requests
        again = await world.say(thread, message)
        assert (again.text, world.requests) == (run.text, asked), "an answer that is there already"
        if choose.random() < 0.4:
            await say_at_once(world, thread, turn)
    assert thread is not None
    await check_thread(world, thread)


async def say_at_once(world: World, thread: str, turn: int) -> None:
    """Send several messages together."""
    modes = ["wait", "steer", "interrupt"] if world.steers else ["wait"]
    texts = [world.mark("U") for _ in range(world.choose.randint(2, 4))]
    world.said += texts
    messages = [UserMessage(text, id=f"m{turn}-{number}") for number, text in enumerate(texts)]
    ways = [world.choose.choice(modes) for _ in texts]
    both = zip(messages, ways, strict=True)
    await asyncio.gather(*(world.say(thread, one, on_busy=way) for one, way in both))
    await world.decide(thread)


async def check_thread(world: World, thread: str) -> None:
    """Each message is stored once and was shown to a model; nothing was done twice or refused."""
    shown = json.dumps([one.body for fake in world.fakes for one in fake.requests])
    stored = [one.content for one in await world.store.messages(thread) if one.role == "user"]
    texts = [one for one in stored if isinstance(one, str) and one in world.said]
    assert Counter(texts) == Counter(world.said)
    assert [one for one in world.said if one not in shown] == []
    assert world.twice == []
    assert {order: n for order, n in world.effects.items() if n > 1} == {}
    assert [one for fake in world.fakes for one in fake.rejections] == []


@pytest.mark.parametrize("seed", range(CONVERSATIONS))
async def test_every_message_is_answered_once_whatever_happens_meanwhile(
    tmp_path: Path, seed: int
) -> None:
    """Messages come twice or at once; runs are cancelled, refused, asked and begun elsewhere."""
    world = World(random.Random(seed), tmp_path / "t.db")  # noqa: S311 - no secret
    try:
        await converse(world)
    finally:
        await world.store.close()
