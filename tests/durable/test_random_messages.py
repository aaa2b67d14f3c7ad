"""Random messages to one thread, while runs are at work and workers die: each is answered once.

``MESSAGE_SEQUENCES=10000`` tries so many sequences, with ``pytest -o faulthandler_timeout=0``,
since it takes longer than a test may; the figures are at the end of pytest's output.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from os import environ
from typing import Any

import inngest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, UserMessage, tool
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import create_functions
from agentkit_py.inngest.flow import FunctionOptions
from agentkit_py.results import USER, AgentResult
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import KillAt, ReplayExecutor

SEQUENCES = int(environ.get("MESSAGE_SEQUENCES", "25"))


class Posts(MemoryHistory):
    """A store that tells in which order messages came into its inboxes."""

    def __init__(self) -> None:
        super().__init__(lease=ThreadLease(steering=True, seconds=10**6))
        self.posted: list[str | None] = []

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        await super().put_message(thread_id, message, interrupts=interrupts)
        if message.id not in self.posted:
            self.posted.append(message.id)


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing at {place}"


_CLIENT = inngest.Inngest(app_id="app", is_production=False)


class Sequence:
    """One thread with random messages."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)  # noqa: S311 - a test's choice
        self.store = Posts()
        script = [
            tool_call("look", {"place": f"place-{n}."}) if chance.random() < 0.4 else f"reply-{n}."
            for n in range(40)
        ]
        self.model = ScriptedModel(*script)
        self.on_busy: dict[str, str] = {}
        turns = chance.choice([["ann"], ["ann"], ["ann", "bob"]])
        agents = [
            Agent(name=name, system="S", model=self.model, tools=[look], max_iter=3)
            for name in turns
        ]

        def route(context: RouterContext) -> str | None:
            return (*turns, None)[context.call_count]

        network = Network(name="desk", agents=agents, router=route, history=self.store)
        options = {"desk": FunctionOptions(retries=9)}
        made = create_functions(_CLIENT, networks=[network], options=options)
        moments: Any = ("before", "inside", "after")
        kills = [
            KillAt(request=chance.randrange(1, 40), when=chance.choice(moments))
            for _ in range(chance.randrange(4))
        ]
        self.executor = ReplayExecutor(_CLIENT, made, seed=seed, kill=kills)

    def send(self) -> None:
        """Send the next message."""
        name = f"m{len(self.on_busy)}"
        self.on_busy[name] = self.chance.choice(["wait", "steer", "steer", "interrupt"])
        data = {
            "input": {"id": name, "content": f"{name}."},
            "threadId": "t",
            "onBusy": self.on_busy[name],
        }
        self.executor.receive({"name": "app/network-desk", "data": data})

    async def play(self) -> None:
        """Send all messages, at random moments, and let all runs end."""
        left = self.chance.choice([2, 2, 3, 4])
        while True:
            if left and self.chance.random() < 0.15:
                self.send()
                left -= 1
                continue
            if not await self.executor.do_next(timeouts=not left) and not left:
                break

    async def check(self) -> Counter[str]:
        """Check what the thread holds, and what the model saw; return figures."""
        runs = [run for run in self.executor.runs if run.function == "app-network-desk"]
        assert [(run.status, run.differences) for run in runs] == [("completed", [])] * len(runs)
        rows = await self.store.load("t")
        said = [row.id for row in rows if row.agent_name == USER]
        assert sorted(map(str, said)) == sorted(self.on_busy), "each is stored once"
        blocks: dict[tuple[str, ...], list[str]] = {}
        ends = Counter[str]()
        for name in map(str, said):
            record = await self.store.load_run("t", name)
            assert record is not None
            assert record.status == "completed"
            ends[record.stop_reason or ""] += 1
            blocks.setdefault(record.results, []).append(name)
        place = {row.id: index for index, row in enumerate(rows)}
        at = 0
        for results, names in blocks.items():
            places = sorted(place[one] for one in (*results, *names))
            assert places == list(range(at, at + len(places))), "runs come one after another"
            at += len(places)
            assert names[1:] == sorted(names[1:], key=self.store.posted.index), "in order"
            for name in names:
                self.check_answer(name, rows[place[name] + 1 : at])
        assert at == len(rows)
        for body in self.model.bodies:
            seen = re.findall(r"\bm\d\.", str(body))
            assert seen == [f"{name}." for name in said[: len(seen)]], "each once, in order"
        steered = len(said) - len(blocks)
        return ends + Counter(sequences=1, messages=len(said), taken=steered, runs=len(blocks))

    def check_answer(self, name: str, after: list[AgentResult]) -> None:
        """Check that the next result came from a model call that saw the message."""
        answer = next(row for row in after if row.agent_name != USER)
        found = re.search(r"(?:reply|place)-(\d+)\.", str(answer.output))
        assert found is not None
        assert f"{name}." in str(self.model.bodies[int(found[1])])


async def test_each_message_is_answered_by_one_run_and_the_thread_is_in_order(
    record_property: Callable[[str, Any], None],
) -> None:
    """However messages wait, steer and interrupt, and wherever workers die."""
    figures = Counter[str]()
    for seed in range(SEQUENCES):
        sequence = Sequence(seed)
        try:
            await sequence.play()
            figures += await sequence.check()
        except BaseException as error:
            error.add_note(f"seed {seed}: {sequence.on_busy}")
            raise
        died = [e for e in sequence.executor.journal if e.outcome.startswith("killed")]
        figures["kills"] += len(died)
    record_property("figures: random messages", dict(sorted(figures.items())))
