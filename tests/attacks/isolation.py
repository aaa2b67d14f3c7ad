"""Random networks with secrets planted per agent and per tenant: who may not see one never does.

As a program it tries many: ``python -m tests.attacks.isolation --networks 100000 --pages 1000``.
"""

# ruff: noqa: T201, S311 - a program that prints; chances are no secrets

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import httpx
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.requests import Request

from agentkit_py import (
    Agent,
    Lifecycle,
    MemoryHistory,
    Network,
    RouterContext,
    RoutingAgent,
    Tool,
    ToolCallFilter,
    create_tool,
    explain,
)
from agentkit_py.cli.printing import message_line
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import ModelReply, ModelRequest
from agentkit_py.models.function_model import function_model
from agentkit_py.processors import (
    ByAuthor,
    ContextReport,
    HandoffView,
    MessageWindow,
    Recall,
    Summarize,
    TokenLimiter,
    TruncateToolResults,
)
from agentkit_py.server import create_app
from agentkit_py.stores import HistoryStore, for_user
from agentkit_py.testing import EventLog, HashingEmbedder
from agentkit_py.tracing import instrument, uninstrument
from tests.engine.runner import Runner

TENANTS = ("acme", "bolt")
_SECRET = re.compile(r"SECRET-\w+-\w+-\w+-\d+")
_RANDOM = re.compile("subagent-[0-9a-f]+")

EVERYBODY = "everybody"

POLICIES = ("none", "handoff", "filter", "lines", "others", "author", "own")
"""Views of tools: all, all as text, nothing, lines that name them, its own in three ways."""


def secrets_in(shown: object) -> set[str]:
    """Return the secrets in anything that has a text."""
    return set(_SECRET.findall(str(shown)))


@dataclass(slots=True)
class World:
    """One network with its tenants' threads, and what was found where it must not be."""

    seed: int
    chance: random.Random
    tenant: str = ""
    run: int = 0
    store: HistoryStore = field(default_factory=MemoryHistory)
    policies: dict[str, str] = field(default_factory=dict[str, str])
    """By agent."""

    shared: str = "none"
    """The policy that the network, or its history, adds for everybody."""

    seen: int = 0
    """Requests that were looked at."""

    requests: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    """The messages of each request, after the name of its agent."""

    leaks: list[str] = field(default_factory=list[str])

    def secret(self, owner: str, kind: str) -> str:
        """Return a secret of an agent or of the user, for this tenant and run."""
        return f"SECRET-{owner}-{self.tenant}-{kind}-{self.run}"

    def check(self, where: str, shown: object, may: Callable[[str, str, str, int], bool]) -> None:
        """Note the secrets in what is shown that may not be there.

        Args:
            where: Where it is shown.
            shown: What is shown.
            may: Whether a secret of an owner, a tenant, a kind and a run may be there.
        """
        for found in sorted(secrets_in(shown)):
            _, owner, tenant, kind, run = found.split("-")
            if not may(owner, tenant, kind, int(run)):
                self.leaks.append(f"seed {self.seed}: {found} in {where}")

    def may_see(self, agent: str) -> Callable[[str, str, str, int], bool]:
        """Return which secrets an agent may see in this run."""
        tenant, run = self.tenant, self.run
        rules = {self.policies.get(agent, "none"), self.shared}

        def may(owner: str, of: str, kind: str, when: int) -> bool:
            if kind == "prompt":
                return owner == agent
            if of != tenant:
                return False
            if kind == "user":
                return True
            if kind == "inner":
                return owner == agent
            if owner == agent and when == run:
                return True
            if rules & {"filter", "lines"}:
                return False
            return owner == agent or not rules & {"others", "author", "own"}

        return may


@dataclass(slots=True)
class Builder:
    """Makes the agents of a world by chance."""

    world: World
    names: list[str]

    one_name: bool
    """Whether the tools of all agents have one name, which tells nothing of their owner."""

    few_ids: bool
    """Whether the provider repeats the ids of calls."""

    def model(self) -> Any:
        """Return the model of all agents: it looks at each request, then calls a tool or ends."""
        return function_model(self._answer)

    async def _answer(self, request: ModelRequest) -> ModelReply | str:
        world, name = self.world, str(request.agent)
        world.seen += 1
        lines = (_RANDOM.sub("", message_line(m)) for m in request.messages)
        world.requests.append((name, *lines))
        world.check(f"a request of {name}", request, world.may_see(name))
        last = request.messages[-1] if request.messages else None
        is_text = last is not None and last.type == "text"
        if not (request.tools and is_text and world.chance.random() < 0.7):
            return f"{name} is done."
        spec = world.chance.choice(list(request.tools))
        needed: Any = (spec.parameters or {}).get("required", ())
        number = world.seen % 2 if self.few_ids else world.seen
        call = ToolCall(f"c{number}", spec.name, dict.fromkeys(needed, "please"))
        return ModelReply(messages=(ToolCallMessage([call]),))

    def _summariser(self, of: str) -> Any:
        """Return a model whose summaries hold all secrets of what it is given."""

        async def summarise(request: ModelRequest) -> str:
            world = self.world
            if of != EVERYBODY:  # else the requests that have the summary are looked at
                world.check(f"a summary's request of {of}", request, world.may_see(of))
            return "Summary. " + " ".join(sorted(secrets_in(request))[-5:])

        return function_model(summarise)

    def chain(self, name: str) -> list[Any]:
        """Return processors of an agent; they begin with its policy."""
        chance = self.world.chance
        policy = chance.choice(POLICIES)
        if policy == "others" and self.one_name:
            policy = "own"  # other agents' tools have no names of their own
        self.world.policies[name] = policy
        others = [self.tool_name(other) for other in (*self.names, "router") if other != name]
        made: list[Any] = {
            "none": [],
            "handoff": [HandoffView()],
            "filter": [ToolCallFilter()],
            "lines": [ToolCallFilter(persist_results=True)],
            "others": [ToolCallFilter(exclude=others)],
            "author": [ByAuthor(keep=[name])],
            "own": [ToolCallFilter(include="own")],
        }[policy]
        made += self.unfiltered(name)
        chance.shuffle(made)
        return made

    def unfiltered(self, of: str) -> list[Any]:
        """Return processors that make text, shorten or cut; of an agent or of all.

        A filter holds wherever it stands, so above and below these, at any level.
        """
        chance = self.world.chance
        summariser = self._summariser(of)
        makers: tuple[Callable[[], Any], ...] = (
            lambda: Summarize(summariser, 40, 30, min_messages=1, min_new=1, summary_tokens=20),
            lambda: Recall(HashingEmbedder(16), 2, keep_recent=8),
            lambda: TokenLimiter(500),
            lambda: TruncateToolResults(40),
            lambda: MessageWindow(30),
        )
        found = [make() for make in makers if chance.random() < 0.3]
        chance.shuffle(found)
        return found

    def tool_name(self, owner: str) -> str:
        """Return the name of an agent's tool."""
        return "look" if self.one_name else f"look_{owner}"

    def look(self, owner: str, kind: str = "tool") -> Tool:
        """Return a tool that gives a secret."""

        def handler(task: str) -> dict[str, str]:
            return {"found": self.world.secret(owner, kind), "task": task}

        return create_tool(name=self.tool_name(owner), description="Look.", handler=handler)

    def agent(self, name: str) -> Agent:
        """Return an agent with a tool, and sometimes another agent as a tool."""
        tools: list[Any] = [self.look(name)]
        if self.world.chance.random() < 0.3:
            hidden = f"inner{name}"
            inner = self._plain(hidden, tools=[self.look(hidden, "inner")])
            tools.append(inner.as_tool(allowed_tools="own"))
        return self._plain(name, tools=tools, processors=self.chain(name))

    def _plain(self, name: str, **options: Any) -> Agent:
        system = f"You are {name}. SECRET-{name}-all-prompt-0"
        return Agent(name=name, system=system, model=self.model(), max_iter=3, **options)

    def router(self) -> Any:
        """Return a router that takes agents in an order: a function, or an agent with a model."""
        chance = self.world.chance
        order = [chance.choice(self.names) for _ in range(chance.randint(1, 4))]

        def next_of(count: int) -> str | None:
            return order[count] if count < len(order) else None

        if chance.random() < 0.6:

            def route(context: RouterContext) -> str | None:
                return next_of(context.call_count)

            return route

        def on_route(context: Any) -> list[str] | None:
            name = next_of(context.network.call_count)
            return None if name is None else [name]

        return RoutingAgent(
            name="router",
            system="Route. SECRET-router-all-prompt-0",
            model=self.model(),
            processors=self.chain("router"),
            lifecycle=Lifecycle(on_route=on_route),
        )


def build(seed: int) -> tuple[World, list[Agent], Callable[[HistoryStore], Network]]:
    """Return a world, its agents, and what makes their network for a store."""
    world = World(seed, random.Random(seed))
    world.shared = world.chance.choice(("none", "none", "none", "filter", "own"))
    names = [f"agent{n}" for n in range(world.chance.randint(2, 4))]
    chance = world.chance
    builder = Builder(world, names, one_name=chance.random() < 0.5, few_ids=chance.random() < 0.5)
    agents = [builder.agent(name) for name in builder.names]
    router = builder.router()
    at_network, at_store = builder.unfiltered(EVERYBODY), builder.unfiltered(EVERYBODY)
    if world.shared == "filter":
        chance.choice((at_network, at_store)).insert(chance.randint(0, 1), ToolCallFilter())
    world.store = MemoryHistory(lazy=chance.random() < 0.5, processors=at_store)

    def network(store: HistoryStore) -> Network:
        return Network(
            name="net",
            agents=agents,
            router=router,
            history=store,
            processors=at_network,
            isolation="own_tools" if world.shared == "own" else None,
        )

    return world, agents, network


class Records(logging.Handler):
    """Keeps the texts of all log records."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.texts.append(self.format(record))


async def _run(world: World, make: Callable[[HistoryStore], Network], runner: Runner) -> None:
    """Run a network for each tenant twice, in turns."""
    for world.run in (1, 2):
        for world.tenant in TENANTS:
            events = EventLog()
            network = make(for_user(world.store, world.tenant))
            text = f"Hello. {world.secret('user', 'user')}"
            await runner.run(network, text, thread_id=f"t-{world.tenant}", observer=events)
            world.check("events", events.events, _own(world))


async def _try_durable(direct: World) -> None:
    """Run the same world as Inngest functions: the models read the same."""
    world, _, make = build(direct.seed)
    await _run(world, make, Runner("inngest"))
    direct.leaks += [f"durable: {leak}" for leak in world.leaks]
    if world.requests != direct.requests:
        pairs = zip_longest(direct.requests, world.requests)
        first = next(pair for pair in pairs if pair[0] != pair[1])
        direct.leaks.append(f"seed {world.seed}: direct and durable read {first}")


async def try_one(
    seed: int, records: Records, spans: InMemorySpanExporter, *, pages: bool, durable: bool
) -> World:
    """Run one network for each tenant twice, in turns, and look everywhere."""
    world, agents, make = build(seed)
    await _run(world, make, Runner("direct"))
    if durable:
        await _try_durable(world)
    world.run = 3
    for world.tenant in TENANTS:
        network = make(for_user(world.store, world.tenant))
        for agent in agents:
            report = await explain(network, agent.name, thread_id=f"t-{world.tenant}", input="So?")
            world.check(f"the report of {agent.name}", report.sent, world.may_see(agent.name))
            _check_figures(world, report)
        await _look_at_store(world)
        if pages:
            await _look_at_pages(world, network)
    world.check("logs", records.texts, _never)
    world.check("traces", [span.to_json() for span in spans.get_finished_spans()], _never)
    records.texts.clear()
    spans.clear()
    return world


def _check_figures(world: World, report: ContextReport) -> None:
    """Compare the results that the report counts as another agent's with their secrets."""
    counted = {id(message) for message in report.foreign}
    for message in report.sent:
        owners = {secret.split("-")[1] for secret in secrets_in(message)}
        if not isinstance(message, ToolResultMessage) or not owners:
            continue
        is_foreign = report.agent not in owners
        if is_foreign != (id(message) in counted):
            was = "not counted" if is_foreign else "counted"
            world.leaks.append(f"seed {world.seed}: {owners} {was} as foreign to {report.agent}")


def _never(_owner: str, _tenant: str, _kind: str, _run: int) -> bool:
    return False


def _own(world: World) -> Callable[[str, str, str, int], bool]:
    tenant = world.tenant
    return lambda _owner, of, kind, _run: of == tenant and kind != "prompt"


async def _look_at_store(world: World) -> None:
    mine = for_user(world.store, world.tenant)
    other = next(t for t in TENANTS if t != world.tenant)
    world.check("titles", await mine.list_threads(), _own(world))
    world.check("a search", await mine.search("SECRET"), _own(world))
    lines = [message_line(message) for message in await mine.messages(f"t-{world.tenant}")]
    world.check("a thread", lines, _own(world))
    try:
        found = await mine.messages(f"t-{other}")
    except ThreadNotFoundError:
        return
    world.check("the other's thread", [message_line(m) for m in found] or found, _own(world))


async def _look_at_pages(world: World, network: Network) -> None:
    def who(request: Request) -> str | None:
        return request.headers.get("x-user")

    app = create_app(networks=[network], auth=who, history=world.store)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    headers = {"x-user": world.tenant}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:
        for path in ("/api/threads", *(f"/api/threads/t-{tenant}" for tenant in TENANTS)):
            world.check(path, (await client.get(path)).text, _own(world))


async def try_many(
    seeds: Iterable[int], *, pages: int, durable: int = 0
) -> tuple[int, int, list[str]]:
    """Return the numbers of networks and of requests, and what was found."""
    records, spans = Records(), InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    root = logging.getLogger()
    level = root.level
    root.addHandler(records)
    root.setLevel(logging.DEBUG)
    instrument(tracer_provider=provider)
    networks, requests, leaks = 0, 0, list[str]()
    try:
        for seed in seeds:
            world = await try_one(
                seed, records, spans, pages=networks < pages, durable=networks < durable
            )
            networks, requests = networks + 1, requests + world.seen
            leaks += world.leaks
            if networks % 500 == 0:
                so_far = f"{networks} networks, {requests} requests, {len(leaks)} leaks"
                print(so_far, file=sys.stderr, flush=True)
    finally:
        uninstrument()
        root.removeHandler(records)
        root.setLevel(level)
    return networks, requests, leaks


def main() -> None:
    """Try many; exit with 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=1_000)
    parser.add_argument("--durable", type=int, default=1_000, help="how many as functions, too")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    given = parser.parse_args()
    began = time.monotonic()
    seeds = range(given.seed, given.seed + given.networks)
    networks, requests, leaks = asyncio.run(
        try_many(seeds, pages=given.pages, durable=given.durable)
    )
    print("\n".join(leaks[:50]))
    seconds = time.monotonic() - began
    print(f"{networks} networks, {requests} requests, {len(leaks)} leaks in {seconds:.0f} s")
    sys.exit(bool(leaks))


if __name__ == "__main__":
    main()
