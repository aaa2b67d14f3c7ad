"""Other code under a run that waits: it goes on where it can, and fails loudly where it cannot."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    RouterContext,
    ToolContext,
    openai,
    tool,
)
from agentkit_py._core.json import as_object
from agentkit_py.inngest import AgentKitMiddleware, create_functions, patched
from agentkit_py.models import Model
from agentkit_py.routing import sequence
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.replay import OnVersionMismatch
from agentkit_py.testing import FakeProvider, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait
from tests.apis import APIS

from .shops import REPLIES, VERSIONS, Shop, Version, check, make
from .world import EVENT, INFERENCES, Inference, Script, at


@dataclass
class MemoryShop:
    """A world in which charges are made, and a thread that says so."""

    charges: list[str] = field(default_factory=list[str])
    store: MemoryHistory = field(default_factory=MemoryHistory)
    fake: FakeProvider = field(default_factory=lambda: FakeProvider(Script(REPLIES)))

    def charge(self, key: str, ctx: ToolContext) -> str:
        """Charge once more."""
        del ctx
        self.charges.append(key)
        return f"charged {key}"

    def model(self, name: str) -> Model:
        """Return a model with the fake provider behind it."""
        return at(openai(name, api_key="sk-test"), self.fake)


async def run_through(
    shop: MemoryShop,
    versions: Sequence[tuple[int, Version]],
    *,
    inference: Inference = "local",
    on_version_mismatch: OnVersionMismatch = "continue",
    seed: int = 0,
) -> Run:
    """Run a function; each version is deployed after the request that is beside it."""
    middleware: Any = AgentKitMiddleware.configured(
        inference=inference,
        local=DirectRuntime(transport=shop.fake.transport),
        on_version_mismatch=on_version_mismatch,
    )
    client = inngest.Inngest(app_id="test", is_production=False, middleware=[middleware])
    waiting = [version for _, version in versions]

    def functions() -> list[inngest.Function[Any]]:
        network = waiting.pop(0)(shop)

        async def handler(ctx: inngest.Context) -> Any:
            run = await network.run("Go.", thread_id="t")
            return {"text": run.text, "charged": sorted(run.state.data)}

        trigger = inngest.TriggerEvent(event=EVENT)
        return [client.create_function(fn_id="f", trigger=trigger, retries=2)(handler)]

    executor = ReplayExecutor(
        client,
        functions,
        transport=shop.fake.transport,
        seed=seed,
        kill=[KillAt(request=number, when="after") for number, _ in versions[1:]],
    )
    return await executor.run(EVENT, {}, answer=refuse)


def deployed(before: str, after: str, at: int) -> list[tuple[int, Version]]:
    """A version, and another one after a request."""
    return [(0, VERSIONS[before]), (at, VERSIONS[after])]


async def check_run(shop: MemoryShop, run: Run) -> None:
    """Check what a run left."""
    assert run.status in ("completed", "failed")
    charged = run.output["charged"] if run.status == "completed" else ()
    error = None if run.error is None else run.error["message"]
    check(shop.charges, await shop.store.load("t"), charged, error)


SEEDS = range(int(os.environ.get("DEPLOY_SEEDS", "2")))
"""The guide names the figures of twenty seeds."""

LENGTH = 22
"""Requests of a run of the first version, at the least."""


@pytest.mark.parametrize("after", VERSIONS)
async def test_deploys_in_the_middle_of_a_run_double_nothing(after: str) -> None:
    """One deploy, and both versions by turns; what cannot continue says what has changed."""
    said: Counter[str] = Counter()
    for seed in SEEDS:
        chance = random.Random(f"{after} {seed}")  # noqa: S311 - no secret
        for by_turns in (False, True):
            shop, numbers = (
                MemoryShop(),
                sorted(chance.sample(range(1, LENGTH), 6 if by_turns else 1)),
            )
            plan: list[tuple[int, Version]] = [(0, VERSIONS["the same"])]
            for index, number in enumerate(numbers):
                plan.append((number, VERSIONS["the same" if index % 2 else after]))
            inference = chance.choice(INFERENCES)
            run = await run_through(shop, plan, inference=inference, seed=seed)
            await check_run(shop, run)
            said[run.status] += 1
    assert said["failed"] == 0 or after != "the same"
    shown(f"deploys of {after!r}", said)


async def test_calls_that_are_made_are_not_asked_about_when_approval_is_added() -> None:
    """A person said no, and the model read "refused" although it was charged."""
    for number in range(1, LENGTH, 3):
        shop = MemoryShop()
        run = await run_through(shop, deployed("the same", "approval", number))
        await check_run(shop, run)
        assert run.status == "completed"
        told = [m for row in await shop.store.load("t") for m in row.tool_calls]
        refused = [m for m in told if "ApprovalDenied" in str(getattr(m, "content", ""))]
        assert len(refused) == 4 - len(shop.charges)


async def test_a_tool_that_gets_steps_does_not_repeat_finished_work() -> None:
    """Every earlier charge was made again."""
    for number in range(1, LENGTH, 3):
        shop = MemoryShop()
        run = await run_through(shop, deployed("the same", "steps", number))
        assert (run.status, sorted(shop.charges)) == ("completed", ["a", "b", "c", "d"])


@pytest.mark.parametrize("inference", INFERENCES)
async def test_calls_that_were_made_in_turn_stay_so_when_tools_run_at_once(
    inference: Inference,
) -> None:
    """Their records were taken for changes of both at the same time."""
    for number in range(1, LENGTH, 3):
        for before, after in (("the same", "tools at once"), ("tools at once", "the same")):
            shop = MemoryShop()
            run = await run_through(shop, deployed(before, after, number), inference=inference)
            await check_run(shop, run)
            if after == "tools at once":
                assert (run.status, sorted(shop.charges)) == ("completed", ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    "after", ["a processor with steps", "a processor of the network", "a lease"]
)
async def test_processors_and_leases_belong_to_the_definition_of_a_run(after: str) -> None:
    """Their steps were taken for chance, and no other worker was tried."""
    run = await run_through(MemoryShop(), deployed("the same", after, 12))
    assert run.error is not None
    assert "VersionMismatchError" in str(run.error)


async def test_a_network_that_becomes_a_tool_does_nothing_again() -> None:
    """Its steps have other names then."""
    for number in range(1, LENGTH, 3):
        for plan in ([False, True], [True, False]):
            before, after = [wrapped if is_wrapped else make for is_wrapped in plan]
            shop = MemoryShop()
            run = await run_through(shop, [(0, before), (number, after)])
            assert max(Counter(shop.charges).values(), default=0) <= 1
            assert run.error is None or "has changed" in run.error["message"]


async def test_a_tool_that_loses_its_steps_fails_where_it_would_do_them_again() -> None:
    """Its steps are remembered and would be orphaned."""
    said: Counter[str] = Counter()
    for number in range(1, LENGTH, 3):
        shop = MemoryShop()
        run = await run_through(shop, deployed("steps", "the same", number))
        assert max(Counter(shop.charges).values(), default=0) <= 1
        said[run.status] += 1
        if run.error is not None:
            assert "tool charge of first is another" in run.error["message"]
    assert set(said) == {"completed", "failed"}


async def test_agents_that_are_added_to_others_together_leave_their_steps_alone() -> None:
    """Ids do not depend on where an agent is in a list."""
    first = await run_through(MemoryShop(), [(0, lambda s: make(s, route="together"))])
    names = ("extra", "third", "first", "second")
    more = await run_through(MemoryShop(), [(0, lambda s: make(s, names=names, route="together"))])
    assert set(first.names) <= set(more.names)


async def test_runs_of_another_version_may_be_made_to_fail() -> None:
    """The error lists what has changed."""
    shop = MemoryShop()
    plan = deployed("the same", "approval", 8)
    run = await run_through(shop, plan, on_version_mismatch="fail")
    assert run.error is not None
    assert "tool charge of second is another" in run.error["message"]
    assert "on_version_mismatch" in run.error["message"]


async def test_a_run_that_continues_with_other_code_says_so_in_its_trace() -> None:
    """The first step that is done with it keeps what has changed."""
    run = await run_through(MemoryShop(), deployed("the same", "approval", 8))
    [changed] = [f["changed"] for f in map(facts_of, run.memos.values()) if "changed" in f]
    assert changed == [f"tool charge of {name} is another" for name in ("first", "second", "third")]


def facts_of(memo: Any) -> dict[str, Any]:
    """Return the facts that the guard keeps in a step."""
    data = as_object((as_object(memo) or {}).get("data")) or {}
    return data.get("guard", {})


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_patch_is_new_for_runs_that_reach_it_after_the_deploy(
    number: int, inference: Inference
) -> None:
    """Runs that are past it go the old way; both end, and say which."""

    def old(shop: Shop) -> Network:
        return make(shop, names=("first", "second"))

    def new(shop: Shop) -> Network:
        network = make(shop, names=("first", "second"))
        extra = make(shop, names=("extra",)).agents[0]
        first, second = network.agents

        def router(context: RouterContext) -> Any:
            order = [first, *([extra] if patched("extra") else []), second]
            acted = {result.agent_name for result in context.network.results}
            return next((agent for agent in order if agent.name not in acted), None)

        network.router = router
        return network

    shop = MemoryShop()
    run = await run_through(shop, [(0, old), (number, new)], inference=inference)
    assert run.status == "completed", run.error
    assert sorted(shop.charges) in (["a", "b", "c"], ["a", "b", "c", "x"])
    assert ("agentkit.patched.extra" in run.names) == ("x" in shop.charges)


def wrapped(shop: Shop) -> Network:
    """The network as a tool of an agent."""
    return make(shop, wrapped=True)


def refuse(wait: Wait) -> dict[str, Any]:
    """A person says no."""
    assert wait.expression is not None
    return {"approvalId": wait.expression.split("'")[1], "approved": False}


def shown(what: str, said: Counter[str]) -> None:
    """Print figures, which the guide names."""
    print(f"{what}: {dict(said)}")  # noqa: T201 - the figures


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("first", INFERENCES)
async def test_a_run_continues_where_models_are_now_called_from_elsewhere(
    first: Inference, number: int
) -> None:
    """Replies that were there before are read as they are: by the server, or made here."""
    fake = FakeProvider([tool_call("charge", {"key": "a"}), "Done."])
    store, charged = MemoryHistory(), list[str]()

    @tool
    def charge(key: str) -> str:
        """Charge."""
        charged.append(key)
        return f"charged {key}"

    client = inngest.Inngest(app_id="app", is_production=False)
    waiting: list[Inference] = [first, *(one for one in INFERENCES if one != first)]

    def functions() -> list[inngest.Function[Any]]:
        agent = Agent(
            name="clerk", system="S", model=openai("gpt-4o", api_key="k"), tools=[charge],
            history=store, max_iter=3,
        )  # fmt: skip
        local = DirectRuntime(transport=fake.transport)
        return create_functions(client, agents=[agent], inference=waiting.pop(0), local=local)

    kill = KillAt(request=number, when="after")
    executor = ReplayExecutor(client, functions, transport=fake.transport, kill=kill)
    run = await executor.run("app/agent-clerk", {"input": "Go.", "threadId": "t"})
    assert (run.status, charged) == ("completed", ["a"]), run.error
    assert (run.output["text"], len(fake.requests)) == ("Done.", 2)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(("first", "then"), list(itertools.permutations(APIS, 2)))
async def test_a_run_continues_with_a_model_of_another_api(
    first: str, then: str, inference: Inference, caplog: pytest.LogCaptureFixture
) -> None:
    """What the first one said is read as what it is; its reasoning stays with it."""
    asked = [await with_another_api(first, then, inference, number) for number in (3, 5, 7)]
    assert any(len(paths) == 2 for paths in asked)
    assert "the model was exchanged since" in caplog.text


async def with_another_api(first: str, then: str, inference: Inference, number: int) -> set[str]:
    """Exchange the model when a process is killed; return the paths that were asked."""
    reasons = {"reasoning": "They want it.", **tool_call("charge", {"key": "a"})}
    fake, store, charged = FakeProvider([reasons, "Done."]), MemoryHistory(), list[str]()
    waiting = [first]

    @tool
    def charge(key: str) -> str:
        """Charge."""
        charged.append(key)
        return f"charged {key}"

    client = inngest.Inngest(app_id="app", is_production=False)

    def functions() -> list[inngest.Function[Any]]:
        model = APIS[waiting.pop() if waiting else then]
        agent = Agent(name="clerk", system="S", model=model, tools=[charge], history=store)
        local = DirectRuntime(transport=fake.transport)
        return create_functions(client, agents=[agent], inference=inference, local=local)

    kill = KillAt(request=number, when="after")
    executor = ReplayExecutor(client, functions, transport=fake.transport, kill=kill)
    run = await executor.run("app/agent-clerk", {"input": "Go.", "threadId": "t"})
    assert (run.status, charged) == ("completed", ["a"]), run.error
    assert (run.output["text"], fake.rejections) == ("Done.", [])
    return {request.path for request in fake.requests}


class RollingDeploy:
    """Workers of two settings that take turns, and a run whose every step may come to either."""

    def __init__(self, *, moves_store: bool) -> None:
        self.is_new = False
        self.paid: list[str] = []
        self.stores = {False: MemoryHistory(), True: MemoryHistory() if moves_store else None}

        @tool
        def pay() -> str:
            """Pay."""
            self.paid.append("paid")
            return "receipt"

        def reply(request: Any) -> Any:
            last = request.body["messages"][-1]
            return "Paid." if last["role"] == "tool" else tool_call("pay", {})

        self.fake = FakeProvider(reply)
        model = at(openai("gpt-4o", api_key="sk-test"), self.fake)
        agents = [
            Agent(name=name, system="S", tools=[pay], model=model, max_iter=3)
            for name in ("clerk", "chief")
        ]

        def router(context: RouterContext) -> Agent | None:
            chief = self.is_new and not moves_store
            return None if context.call_count else agents[chief]

        def functions() -> list[inngest.Function[Any]]:
            store = self.stores[self.is_new] or self.stores[False]
            network = Network(name="n", agents=agents, router=router, history=store)
            return create_functions(client, networks=[network])

        client = inngest.Inngest(app_id="app", is_production=False)
        self.executor = ReplayExecutor(client, functions, transport=self.fake.transport)

    async def run(self, at_request: int, *, by_turns: bool) -> Run:
        """Let workers with the new settings take requests from one on; return the run."""
        data = {"input": "Pay.", "threadId": "t"}
        self.executor.receive({"name": "app/network-n", "data": data})
        (run,) = self.executor.runs
        while run.status == "running":
            is_turn = not by_turns or run.requests % 2 == at_request % 2
            new = run.requests >= at_request and is_turn
            if new is not self.is_new:
                self.is_new = new
                self.executor.restart()
            assert await self.executor.do_next(timeouts=True)
        return run


@pytest.mark.parametrize("moves_store", [False, True])
async def test_a_request_that_came_to_a_worker_with_other_settings_is_tried_again(
    *, moves_store: bool
) -> None:
    """The router reads a setting, or the store is another; the old workers are still there."""
    for number in (1, 3, 4, 5, 6, 8):
        deploy = RollingDeploy(moves_store=moves_store)
        run = await deploy.run(number, by_turns=True)
        assert (run.status, deploy.paid) == ("completed", ["paid"]), (number, run.error)


@pytest.mark.parametrize("moves_store", [False, True])
async def test_a_run_that_finds_only_workers_with_other_settings_ends_and_says_why(
    *, moves_store: bool
) -> None:
    """When its attempts are used up; it does nothing again."""
    deploy = RollingDeploy(moves_store=moves_store)
    run = await deploy.run(5, by_turns=False)
    assert run.status == "failed"
    assert run.error is not None
    wanted = "no thread 't' in MemoryHistory()" if moves_store else "The router of 'n'"
    assert wanted in run.error["message"]
    assert len(deploy.paid) <= 1


@pytest.mark.parametrize("after", range(1, 7))
async def test_a_call_beyond_a_limit_stays_refused_when_the_limit_is_raised(after: int) -> None:
    """The model has read that it was not made; before it is refused the new limit counts."""
    twice = tool_calls(("act", {"key": "a"}), ("act", {"key": "b"}))
    shop = MemoryShop(fake=FakeProvider([twice, "Done.", "Done."]))

    def version(most: int) -> Version:
        def made(shop: Any) -> Network:
            @tool(max_calls=most)
            def act(key: str, ctx: ToolContext) -> str:
                """Act."""
                return shop.charge(key, ctx)

            agent = Agent(name="desk", system="S", tools=[act], model=shop.model("gpt-4o"))
            return Network(name="n", agents=[agent], router=sequence(agent), history=shop.store)

        return made

    await shop.store.add_thread("t")
    run = await run_through(shop, [(0, version(1)), (after, version(5))])

    assert run.status == "completed", run.error
    results = [one.content for one in await shop.store.messages("t") if one.type == "tool_result"]
    refused = [one for one in results if "ToolLimitError" in str(one)]
    assert len(results) == 2
    assert shop.charges == (["a"] if refused else ["a", "b"])
