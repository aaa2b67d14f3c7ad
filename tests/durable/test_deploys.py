"""Other code under a run that waits: it goes on where it can, and fails loudly where it cannot."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import inngest
import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    MemoryHistory,
    Network,
    RouterContext,
    ToolContext,
    openai,
    tool,
)
from agentkit_py._core.json import as_object
from agentkit_py.inngest import AgentKitMiddleware, patched
from agentkit_py.inngest.guard import OnVersionMismatch
from agentkit_py.routing import together
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait

from .world import EVENT, INFERENCES, Inference, Script, at


@dataclass
class Shop:
    """A world in which charges are made, and a thread that says so."""

    charges: list[str] = field(default_factory=list[str])
    store: MemoryHistory = field(default_factory=MemoryHistory)
    fake: FakeProvider = field(default_factory=lambda: FakeProvider(Script(REPLIES)))

    def charge(self, key: str) -> str:
        """Charge once more."""
        self.charges.append(key)
        return f"charged {key}"

    @property
    def model(self) -> Any:
        return at(openai("gpt-4o", api_key="sk-test"), self.fake)


REPLIES = {
    "first": [tool_calls(("charge", {"key": "a"}), ("charge", {"key": "b"})), "First is done."],
    "second": [tool_call("charge", {"key": "c"}), tool_call("rest", {}), "Second is done."],
    "third": [tool_call("charge", {"key": "d"}), "Third is done."],
    "extra": [tool_call("charge", {"key": "x"}), "Extra is done."],
}

Version: TypeAlias = Callable[[Shop], Network]


def make(
    shop: Shop,
    *,
    names: Sequence[str] = ("first", "second", "third"),
    renamed: dict[str, str] | None = None,
    charge: dict[str, Any] | None = None,
    stepped: bool = False,
    approve: bool = False,
    route: str = "in turn",
    max_iter: int = 4,
    hooks: Any = None,
) -> Network:
    """One version of the network."""
    options: dict[str, Any] = {"needs_approval": True} if approve else {}

    if stepped:

        @tool(name="charge", steps=True, **options)
        async def charge_in_steps(key: str, ctx: ToolContext) -> str:
            """Charge."""

            async def work() -> str:
                return shop.charge(key)

            ctx.state.data[f"charged {key}"] = True
            return await ctx.step.run("work", work)

        pay = charge_in_steps
    else:

        @tool(name="charge", **options)
        def charge_at_once(key: str, ctx: ToolContext) -> str:
            """Charge."""
            ctx.state.data[f"charged {key}"] = True
            return shop.charge(key)

        pay = charge_at_once

    @tool(steps=True)
    async def rest(ctx: ToolContext) -> str:
        """Rest."""
        await ctx.step.sleep("rest", 1000)
        return "rested"

    agents = {
        name: Agent(
            name=(renamed or {}).get(name, name),
            system=name,
            tools=[pay, rest],
            model=shop.model,
            max_iter=max_iter,
            lifecycle=hooks or Lifecycle(),
        )
        for name in names
    }

    def router(context: RouterContext) -> Any:
        chosen = list(agents.values())
        return chosen[context.call_count] if context.call_count < len(chosen) else None

    def by_name(context: RouterContext) -> Any:
        acted = {result.agent_name for result in context.network.results}
        return next((a for a in agents.values() if a.name not in acted), None)

    def side_by_side(context: RouterContext) -> Any:
        return together(*agents.values()) if context.call_count == 0 else None

    chooses = {"in turn": router, "by name": by_name, "together": side_by_side}[route]
    return Network(name="shop", agents=list(agents.values()), router=chooses, history=shop.store)


VERSIONS: dict[str, Version] = {
    "the same": make,
    "an agent in front": lambda s: make(s, names=("extra", "first", "second", "third")),
    "an agent in front, chosen by name": lambda s: make(
        s, names=("extra", "first", "second", "third"), route="by name"
    ),
    "an agent behind": lambda s: make(s, names=("first", "second", "third", "extra")),
    "an agent less": lambda s: make(s, names=("first", "third")),
    "other order": lambda s: make(s, names=("second", "first", "third")),
    "renamed": lambda s: make(s, renamed={"first": "prima"}),
    "approval": lambda s: make(s, approve=True),
    "steps": lambda s: make(s, stepped=True),
    "steps and approval": lambda s: make(s, stepped=True, approve=True),
    "one inference": lambda s: make(s, max_iter=1),
    "together": lambda s: make(s, route="together"),
    "a hook": lambda s: make(s, hooks=Lifecycle(on_response=lambda context: None)),
}


async def run_through(
    shop: Shop,
    versions: Sequence[tuple[int, Version]],
    *,
    inference: Inference = "local",
    on_version_mismatch: OnVersionMismatch = "continue",
    seed: int = 0,
) -> Run:
    """Run a function; each version is deployed after the request that stands beside it."""
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


async def check(shop: Shop, run: Run) -> None:
    """Nothing happened twice; what is recorded is what happened, or the run says that it is not."""
    doubled = {key: n for key, n in Counter(shop.charges).items() if n > 1}
    assert doubled == {}, (run.status, run.error)
    rows = await shop.store.load("t")
    assert len({row.id for row in rows}) == len(rows)
    texts = [row.text for row in rows if row.text]
    assert len(texts) == len(set(texts))
    if run.status == "failed":
        assert run.error is not None
        message = run.error["message"]
        assert "The code has changed since the run began" in message or "waiting runs" in message
        return
    told = [m.content for row in rows for m in row.tool_calls if m.type == "tool_result"]
    made = [str(c["data"]) for c in told if isinstance(c, dict) and "data" in c]
    charged = sorted(shop.charges)
    assert sorted(word[8:] for word in made if word.startswith("charged ")) == charged
    assert run.output["charged"] == [f"charged {key}" for key in charged]


SEEDS = range(int(os.environ.get("DEPLOY_SEEDS", "2")))
"""The guide names the figures of twenty seeds."""

LENGTH = 22
"""Requests of a run of the first version, at the least."""


@pytest.mark.parametrize("after", VERSIONS)
async def test_deploys_in_the_middle_of_a_run_double_nothing(after: str) -> None:
    """One deploy, and both versions by turns; what cannot go on says what has changed."""
    said: Counter[str] = Counter()
    for seed in SEEDS:
        chance = random.Random(f"{after} {seed}")  # noqa: S311 - no secret
        for by_turns in (False, True):
            shop, numbers = Shop(), sorted(chance.sample(range(1, LENGTH), 6 if by_turns else 1))
            plan: list[tuple[int, Version]] = [(0, VERSIONS["the same"])]
            for index, number in enumerate(numbers):
                plan.append((number, VERSIONS["the same" if index % 2 else after]))
            inference = chance.choice(INFERENCES)
            run = await run_through(shop, plan, inference=inference, seed=seed)
            await check(shop, run)
            said[run.status] += 1
    assert said["failed"] == 0 or after != "the same"
    shown(f"deploys of {after!r}", said)


async def test_calls_that_are_made_are_not_asked_about_when_approval_is_added() -> None:
    """A person said no, and the model read "refused" although it was charged."""
    for number in range(1, LENGTH, 3):
        shop = Shop()
        run = await run_through(shop, deployed("the same", "approval", number))
        await check(shop, run)
        assert run.status == "completed"
        told = [m for row in await shop.store.load("t") for m in row.tool_calls]
        refused = [m for m in told if "ApprovalDenied" in str(getattr(m, "content", ""))]
        assert len(refused) == 4 - len(shop.charges)


async def test_a_tool_that_gets_steps_does_not_do_again_what_is_done() -> None:
    """Every earlier charge was made again."""
    for number in range(1, LENGTH, 3):
        shop = Shop()
        run = await run_through(shop, deployed("the same", "steps", number))
        assert (run.status, sorted(shop.charges)) == ("completed", ["a", "b", "c", "d"])


async def test_a_tool_that_loses_its_steps_fails_where_it_would_do_them_again() -> None:
    """Its steps are remembered and would be orphaned."""
    said: Counter[str] = Counter()
    for number in range(1, LENGTH, 3):
        shop = Shop()
        run = await run_through(shop, deployed("steps", "the same", number))
        assert max(Counter(shop.charges).values(), default=0) <= 1
        said[run.status] += 1
        if run.error is not None:
            assert "tool charge of first is another" in run.error["message"]
    assert set(said) == {"completed", "failed"}


async def test_agents_that_are_added_to_others_together_leave_their_steps_alone() -> None:
    """Ids do not depend on where an agent stands in a list."""
    first = await run_through(Shop(), [(0, lambda s: make(s, route="together"))])
    names = ("extra", "third", "first", "second")
    more = await run_through(Shop(), [(0, lambda s: make(s, names=names, route="together"))])
    assert set(first.names) <= set(more.names)


async def test_runs_of_another_version_may_be_made_to_fail() -> None:
    """The error lists what has changed."""
    shop = Shop()
    plan = deployed("the same", "approval", 8)
    run = await run_through(shop, plan, on_version_mismatch="fail")
    assert run.error is not None
    assert "tool charge of second is another" in run.error["message"]
    assert "on_version_mismatch" in run.error["message"]


async def test_a_run_that_goes_on_with_other_code_says_so_in_its_trace() -> None:
    """The first step that is done with it keeps what has changed."""
    run = await run_through(Shop(), deployed("the same", "approval", 8))
    [changed] = [f["changed"] for f in map(facts_of, run.memos.values()) if "changed" in f]
    assert changed == [f"tool charge of {name} is another" for name in ("first", "second", "third")]


def facts_of(memo: Any) -> dict[str, Any]:
    """What the guard keeps in a step."""
    data = as_object((as_object(memo) or {}).get("data")) or {}
    return data.get("guard", {})


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_patched_place_is_new_for_runs_that_come_there_after_the_deploy(
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

    shop = Shop()
    run = await run_through(shop, [(0, old), (number, new)], inference=inference)
    assert run.status == "completed", run.error
    assert sorted(shop.charges) in (["a", "b", "c"], ["a", "b", "c", "x"])
    assert ("agentkit.patched.extra" in run.names) == ("x" in shop.charges)


def refuse(wait: Wait) -> dict[str, Any]:
    """A person says no."""
    assert wait.expression is not None
    return {"approvalId": wait.expression.split("'")[1], "approved": False}


def shown(what: str, said: Counter[str]) -> None:
    """Print figures, which the guide names."""
    print(f"{what}: {dict(said)}")  # noqa: T201 - the figures
