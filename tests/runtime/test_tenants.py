"""Keys of tenants: functions of a run's context, rotated and revoked in the middle of runs."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, State, tool
from agentkit_py.errors import AuthenticationError, ConfigurationError
from agentkit_py.lifecycle import AgentContext
from agentkit_py.models import FallbackModel, Model, RetryPolicy, anthropic, openai
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import EventLog, FakeProvider, ReceivedRequest, error, tool_call

RUNS = int(os.environ.get("TENANT_RUNS", "40"))


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


class Vault:
    """The keys of all tenants, and the key that each provider takes of each."""

    def __init__(self) -> None:
        self.current: dict[str, int] = {}
        self.valid: dict[str, int] = {}
        self.used: list[tuple[str, str]] = []

    def key(self, tenant: str) -> str:
        """Return the key that the vault holds."""
        return f"secret-{tenant}-{self.current.get(tenant, 0)}-end"

    async def of(self, context: AgentContext) -> str:
        """Return the key of the tenant whose run it is."""
        await asyncio.sleep(0)
        return self.key(context.state.data["tenant"])

    def reply(self, request: ReceivedRequest) -> Any:
        """Answer a tenant's question if the key is the tenant's own and valid."""
        key = request.headers.get("x-api-key") or request.headers["authorization"].split()[-1]
        asked = str(request.body)
        tenant = asked.partition("I am tenant ")[2].partition(".")[0]
        self.used.append((tenant, key))
        if key != f"secret-{tenant}-{self.valid.get(tenant, 0)}-end":
            return error(401, f"key {key} is revoked")
        called = "look_up" in asked.partition("messages")[2] and '"order"' in asked
        return "Done." if called else tool_call("look_up", {"order": "7"})


def models(vault: Vault) -> list[Model]:
    """Return a model of each kind, with the vault's keys."""
    once = RetryPolicy(attempts=1)
    one = openai("gpt-4o", api_key=vault.of, retry=once)
    other = anthropic("claude-sonnet-4-5", api_key=vault.of, retry=once)
    return [one, other, FallbackModel([one, other], breaker=None)]


async def test_no_key_crosses_in_random_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Runs of many tenants at a time, on shared agents; keys rotate and are revoked meanwhile."""
    caplog.set_level(logging.DEBUG, "agentkit_py")
    choose = random.Random(20)  # noqa: S311 - which runs are made
    vault = Vault()
    provider = FakeProvider(vault.reply)
    runtime = DirectRuntime(transport=provider.transport)
    agents = [
        Agent(name="a", system="Help.", tools=[look_up], model=model, max_iter=3)
        for model in models(vault)
    ]
    networks = [
        Network(name="n", agents=[a], router=lambda c: None if c.call_count else "a")
        for a in agents
    ]
    failed = 0

    async def run(number: int) -> None:
        nonlocal failed
        tenant = f"t{number % 17}"
        log = EventLog()
        change = choose.random()
        if change < 0.2:  # rotated: the vault knows the new key
            vault.current[tenant] = vault.valid[tenant] = vault.current.get(tenant, 0) + 1
        elif change < 0.3:  # revoked: nobody has a key that works
            vault.valid[tenant] = vault.current.get(tenant, 0) + 1
        said = f"I am tenant {tenant}."
        state: Any = State({"tenant": tenant})
        shown: str
        try:
            done = await choose.choice(networks).run(
                said, state=state, runtime=runtime, observer=log
            )
            shown = repr(done.state.to_dict()) + done.text
        except AuthenticationError as refused:
            failed += 1
            shown = f"{refused} {refused!r} {vars(refused)}"
        assert "secret-" not in shown
        assert "secret-" not in repr(log.events)

    for start in range(0, RUNS, 20):
        await asyncio.gather(*(run(n) for n in range(start, min(RUNS, start + 20))))
        assert "secret-" not in caplog.text
        caplog.clear()
        provider.requests.clear()
    assert vault.used
    assert [(tenant, key) for tenant, key in vault.used if f"-{tenant}-" not in key] == []
    assert failed < len(vault.used)


async def test_a_rotated_key_is_tried_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A 401 asks for the key again; the warning says that it was another, and shows neither."""
    keys = iter(["old-key-1234567", "new-key-1234567"])
    provider = FakeProvider(["Hello."], api_keys={"openai": "new-key-1234567"})
    model = openai("gpt-4o", api_key=lambda: next(keys))
    runtime = DirectRuntime(transport=provider.transport)
    result = await Agent(name="a", system="", model=model).run("Hi", runtime=runtime)
    assert result.text == "Hello."
    assert "asked again" in caplog.text
    assert "key-1234567" not in caplog.text


def _key_of_agent(context: AgentContext) -> str:
    return f"key-of-{context.agent.name}-123"


async def test_revoked_key_is_an_error_that_hides_it() -> None:
    """Where the function gives the same key again, nothing is sent a third time."""
    provider = FakeProvider(["Never."], api_keys={"openai": "another"})
    model = openai("gpt-4o", api_key=_key_of_agent)
    runtime = DirectRuntime(transport=provider.transport)
    with pytest.raises(AuthenticationError) as caught:
        await Agent(name="a", system="", model=model).run("Hi", runtime=runtime)
    assert "key-of" not in str(caught.value)
    assert len(provider.requests) == 1


async def test_key_function_without_its_run_is_refused() -> None:
    """A function that needs a context says so where there is none, and where it gives no text."""
    model = openai("gpt-4o", api_key=_key_of_agent)
    with pytest.raises(ConfigurationError, match="belongs to no run"):
        await model.respond("Hi")
    empty: Any = openai("gpt-4o", api_key=lambda: "")
    with pytest.raises(ConfigurationError, match="gave no text"):
        await empty.respond("Hi")


async def test_key_that_changes_in_the_middle_of_a_conversation() -> None:
    """Rotated while a tool runs, it continues with the new key; revoked, what was done stays."""
    vault = Vault()
    provider = FakeProvider(vault.reply)
    vault.valid["t"] = vault.current["t"] = 0
    ran: list[str] = []

    @tool
    def look_up(order: str) -> str:
        """Look an order up, while the tenant gets another key."""
        ran.append(order)
        vault.valid["t"] += 1
        if len(ran) == 1:
            vault.current["t"] += 1
        return order

    store = MemoryHistory()
    agent = Agent(name="a", system="Help.", tools=[look_up], model=models(vault)[0], history=store)
    runtime = DirectRuntime(transport=provider.transport)
    options: Any = {"runtime": runtime}
    state: Any = State({"tenant": "t"})
    assert (await agent.run("I am tenant t.", state=state, **options)).text == "Done."
    await store.add_thread("b")
    options["thread_id"] = "b"
    state = State({"tenant": "t"})
    with pytest.raises(AuthenticationError) as caught:
        await agent.run("I am tenant t.", state=state, **options)
    assert "secret-" not in str(caught.value)
    vault.current["t"] = vault.valid["t"]
    state = State({"tenant": "t"})
    assert (await agent.run("And now?", state=state, **options)).text == "Done."
    assert ran == ["7", "7"]  # the one before the key was refused was not made again
    assert [key[-5] for _, key in vault.used] == ["0", "1", "1", "1", "2"]
