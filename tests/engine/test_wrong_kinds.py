"""Values of the wrong kind are refused where they are given, by the name they were given under."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from agentkit_py import (
    Agent,
    HistoryConfig,
    Lifecycle,
    MemoryHistory,
    Network,
    State,
    ToolCallFilter,
    tool,
)
from agentkit_py.errors import ConfigurationError
from agentkit_py.testing import ScriptedModel

from .runner import Runner


@tool
def look() -> str:
    """Look."""
    return "seen"


def agent(**given: Any) -> Agent:
    """An agent with one thing wrong."""
    options: dict[str, Any] = {"name": "a", "system": "s", **given}
    return Agent(**options)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model", "gpt-4o"),
        ("history", "x.db"),
        ("history", MemoryHistory),
        ("lifecycle", {}),
        ("tools", look),
        ("tools", "look"),
        ("processors", ToolCallFilter()),
        ("max_iter", "3"),
        ("max_iter", -1),
        ("system", 5),
        ("system", None),
        ("history_mode", "typescirpt"),
        ("description", 5),
        ("assistant", 5),
        ("lifecycle", Lifecycle(on_start=cast("Any", 5))),
    ],
)
def test_an_agent_names_the_option_that_is_wrong(option: str, value: Any) -> None:
    """The error comes at construction, not in the first run."""
    named = "on_start" if isinstance(value, Lifecycle) else option
    with pytest.raises(ConfigurationError, match=rf"Agent 'a'.*{named}"):
        agent(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("agents", ["a"]),
        ("agents", agent()),
        ("default_model", "gpt-4o"),
        ("default_state", {"a": 1}),
        ("history", "x.db"),
        ("processors", ToolCallFilter()),
        ("max_iter", "3"),
        ("history_mode", "typescirpt"),
        ("prefix", "none"),
    ],
)
def test_a_network_names_the_option_that_is_wrong(option: str, value: Any) -> None:
    """The error comes at construction, not in the first run."""
    given: dict[str, Any] = {"name": "n", "agents": [agent()], option: value}
    with pytest.raises(ConfigurationError, match=rf"Network 'n'.*{option}"):
        Network(**given)


def as_in_typescript(network: Any, call_count: Any) -> None:
    """Take what TypeScript destructures."""


@pytest.mark.parametrize("hook", ["enabled", "on_start", "on_response", "on_finish", "on_route"])
def test_a_function_with_several_parameters_is_refused_with_a_hint_at_the_context(
    hook: str,
) -> None:
    """The error names the attributes to use, where the function is given."""
    told = r"gets a single argument: write \(ctx\), and use ctx.network, ctx.call_count;"
    given: Any = as_in_typescript
    with pytest.raises(ConfigurationError, match=rf"Agent 'a': {hook} {told}"):
        agent(lifecycle=Lifecycle(**{hook: given}))
    with pytest.raises(ConfigurationError, match=rf"Agent 'a': system {told}"):
        agent(system=given)
    with pytest.raises(ConfigurationError, match=rf"Network 'n': router {told}"):
        Network(name="n", agents=[agent()], router=given)
    with pytest.raises(ConfigurationError, match=rf"Agent 'a': history's get {told}"):
        agent(history=HistoryConfig(get=given))
    given = lambda: None  # noqa: E731 - it stands for a user's
    with pytest.raises(
        ConfigurationError, match=r"router gets a single argument: write \(ctx\); it"
    ):
        Network(name="n", agents=[agent()], router=given)


def test_a_function_may_have_parameters_of_its_own_behind_the_context() -> None:
    """A default is the function's, and a prompt may take nothing."""

    def own(ctx: Any, own: str = "s") -> Any:
        return own if ctx else None

    agent(system=lambda: "s", lifecycle=Lifecycle(enabled=own))
    for router in (own, partial(own, own="a")):
        Network(name="n", agents=[agent(system=own)], router=router)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("model", "gpt"),
        ("thread_id", 5),
        ("limits", {}),
        ("streaming", True),
        ("observer", 5),
        ("approver", "yes"),
        ("budget", 5),
        ("tracing", True),
        ("max_iter", "3"),
        ("router", str),
    ],
)
async def test_a_run_names_the_option_that_is_wrong(
    runner: Runner, option: str, value: Any
) -> None:
    """The error comes before anything runs."""
    with pytest.raises(ConfigurationError, match=rf"run\(\).*{option}"):
        await runner.run(agent(model=ScriptedModel()), "hi", **{option: value})


@pytest.mark.parametrize("plain", [{"a": 1}, {"dta": {"a": 1}}])
def test_a_plain_state_with_other_keys_warns(
    plain: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Values that are not kept are named, with what to write instead."""
    assert State.from_dict(plain).data == {}
    assert f"'{next(iter(plain))}' is not kept" in caplog.text


def test_a_plain_state_may_carry_more_than_its_data() -> None:
    """TypeScript's plain states have fields of their own."""
    assert State.from_dict({"data": {"a": 1}, "other": 2}).data == {"a": 1}


async def test_a_store_of_an_agent_in_a_network_is_reported_as_unused(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """Only its processors count there; the network's own store is used."""
    own = MemoryHistory()
    script = ScriptedModel("Hi.")
    clerk = Agent(name="clerk", system="S", model=script, history=own)
    desk = Network(
        name=f"desk of {runner.mode}",
        agents=[clerk],
        router=lambda ctx: None if ctx.call_count else clerk,
    )
    await runner.run(replace(desk), "Hi", thread_id="t")
    said = [one.getMessage() for one in caplog.records if "is not used" in one.getMessage()]
    assert len(said) == 1
    assert "its store is not used, only its processors are" in said[0]
    assert await own.list_threads() == []
