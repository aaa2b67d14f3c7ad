"""Random networks: what a replayed run gives is what a direct one gives."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_py import Agent, Network, ToolContext, tool
from agentkit_py.errors import NonRetriableError
from agentkit_py.routing import together
from agentkit_py.testing import tool_calls

from .world import Inference, Scenario, Stage

AGENTS = ["ann", "bob", "cid"]

calls = st.tuples(
    st.sampled_from(["put", "push", "boom", "hand_over"]),
    st.sampled_from(AGENTS),
    st.integers(-5, 5),
)
turns = st.lists(st.lists(calls, max_size=3), max_size=3)
scripts = st.fixed_dictionaries(dict.fromkeys(AGENTS, turns))
routes = st.lists(
    st.one_of(
        st.sampled_from(AGENTS),
        st.just("by state"),
        st.just(("ann", "bob")),
        st.just(("bob", "cid")),
    ),
    min_size=1,
    max_size=4,
)


def network_of(plan: Mapping[str, Any]) -> Any:  # noqa: C901 - one of everything
    """Makes the network of a plan."""

    def network(stage: Stage) -> Network:
        @tool
        def put(key: str, number: int, ctx: ToolContext) -> dict[str, int]:
            """Put a number deep into the state."""
            stage.effects.happen("put")
            mine = ctx.state.data.setdefault(ctx.agent.name, {})
            mine.setdefault("numbers", {})[key] = number
            return {"data": number}

        @tool
        def push(key: str, number: int, ctx: ToolContext) -> list[int]:
            """Push a number on a list in the state."""
            stage.effects.happen("push")
            found = ctx.state.data.setdefault(ctx.agent.name, {}).setdefault("list", [])
            found.append(number)
            return list(found)

        @tool
        def boom(key: str, number: int) -> None:
            """Fail, mostly in a way the model reads of."""
            stage.effects.happen("boom")
            if number == 5:
                raise NonRetriableError("boom for good")
            raise ValueError(f"boom {number}")

        @tool
        def hand_over(key: str, number: int, ctx: ToolContext) -> str:
            """Schedule an agent."""
            assert ctx.network is not None
            if number > 3:
                ctx.network.schedule(key)
            return key

        agents = [
            Agent(
                name=name,
                system=f"{name} S",
                tools=[put, push, boom, hand_over],
                max_iter=3,
                parallel_tools=plan["parallel"] and index == 0,
            )
            for index, name in enumerate(AGENTS)
        ]

        def router(context: Any) -> Any:
            if context.call_count >= len(plan["routes"]):
                return None
            route = plan["routes"][context.call_count]
            if route == "by state":
                size = len(str(context.network.state.data))
                return AGENTS[size % len(AGENTS)]
            return together(*route) if not isinstance(route, str) else route

        return Network(name="random", agents=agents, router=router, history=stage.store, max_iter=8)

    return network


def replies_of(script: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Replies in order; after those of the script, texts."""
    return {
        name: [
            *(
                tool_calls(*((tool_, {"key": key, "number": n}) for tool_, key, n in turn))
                if turn
                else f"{name} says {index}"
                for index, turn in enumerate(turns_)
            ),
            *(f"{name} ends {index}" for index in range(40)),
        ]
        for name, turns_ in script.items()
    }


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    script=scripts,
    route=routes,
    parallel=st.booleans(),
    inference=st.sampled_from(["offload", "local"]),
    seed=st.integers(0, 1000),
    eager=st.booleans(),
)
async def test_a_random_network_gives_the_same_result_as_directly(
    script: Any, route: Any, parallel: bool, inference: Inference, seed: int, eager: bool
) -> None:
    """Results, state, thread, requests, side effects and chunks; and no step id comes twice."""
    plan = {"routes": route, "parallel": parallel}
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(network=network_of(plan), replies=replies_of(script), base=Path(folder))
        direct = await scenario.direct()
        durable = await scenario.durable(
            inference, seed=seed, discovery="eager" if eager else "joined"
        )
    assert durable.run is not None
    names = durable.run.names
    assert len(names) == len(set(names))
    if direct.error is not None:
        assert durable.error is not None
        assert direct.error.split(": ")[-1] in durable.error
        return
    for one in (direct, durable):
        one.requests.sort(key=str)
    assert durable == direct
