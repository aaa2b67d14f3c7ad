"""What is assigned to a store after it was made counts from the next run on, or is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit_py import Agent, HistoryConfig, MemoryHistory, State, TextMessage
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.processors import Redact
from agentkit_py.stores import for_user, redacted
from agentkit_py.testing import ScriptedModel

STORES: dict[str, Any] = {
    "HistoryConfig": HistoryConfig,
    "MemoryHistory": MemoryHistory,
    "redacted": lambda: redacted(MemoryHistory(), ["email"]),
    "for_user": lambda: for_user(MemoryHistory(), "ada"),
}


async def sent(store: HistoryConfig) -> str:
    """What an agent with this store sends of a thread with a card's number."""
    model = ScriptedModel("ok")
    card = TextMessage("user", "card 4111 1111 1111 1111")
    agent = Agent(name="a", system="s", model=model, history=store)
    await agent.run("q", state=State[Any]({"user_id": "ada"}, messages=[card]))
    return json.dumps(model.bodies[0])


@pytest.mark.parametrize("kind", list(STORES))
async def test_assigned_processors_run_from_the_next_run_on(kind: str) -> None:
    """Those of before run no more."""
    store = STORES[kind]()
    assert "4111 1111" in await sent(store)
    store.processors = [Redact(["card"])]
    assert "4111 1111" not in await sent(store)
    store.processors = []
    assert "4111 1111" in await sent(store)


async def test_a_restricted_store_has_the_processors_that_its_store_is_given_later() -> None:
    """Unless it was given some itself, which the other then has not."""
    store = MemoryHistory()
    view = for_user(store, "ada")
    store.processors = [Redact(["card"])]
    assert view.chain is store.chain
    assert "4111 1111" not in await sent(view)
    view.processors = ()
    assert "4111 1111" in await sent(view)
    assert "4111 1111" not in await sent(store)


def test_values_that_the_constructor_refuses_cannot_be_assigned() -> None:
    """The error is the constructor's, and what was there stays."""
    store = MemoryHistory(processors=[Redact(["card"])])
    before = store.chain
    with pytest.raises(ConfigurationError, match="processors must be a list"):
        store.processors = Redact(["email"])  # type: ignore[assignment] - on purpose
    with pytest.raises(ConfigurationError, match="lease must be a ThreadLease"):
        store.lease = 60  # type: ignore[assignment] - on purpose
    with pytest.raises(ConfigurationError, match="cannot keep leases"):
        HistoryConfig().lease = ThreadLease()
    assert (store.chain, store.lease) == (before, None)
