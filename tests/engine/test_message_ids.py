"""The id of a user's message stands for one text in its thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import Agent, AgentResult, MemoryHistory, UserMessage
from agentkit_py.errors import MessageConflictError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.processors import Redactor
from agentkit_py.processors.windowing import MessageWindow
from agentkit_py.stores import HistoryStore, for_user, redacted
from agentkit_py.testing import ScriptedModel

from .runner import Runner

LEASE = ThreadLease()
STORES: dict[str, Callable[[], HistoryStore]] = {
    "no lease": MemoryHistory,
    "lease": lambda: MemoryHistory(lease=LEASE),
    "masked": lambda: redacted(MemoryHistory(lease=LEASE), Redactor(patterns=["[0-9]{4}"])),
    "one user's": lambda: for_user(MemoryHistory(lease=LEASE), "ada"),
}


def desk(store: HistoryStore) -> tuple[Agent, ScriptedModel]:
    """Return an agent that loads no more of a thread than its last message."""
    model = ScriptedModel(*[f"Answer {number}." for number in range(20)])
    window: Any = [MessageWindow(1)]
    return Agent(name="a", system="S", model=model, history=store, processors=window), model


@pytest.mark.parametrize("kind", STORES)
async def test_another_text_under_an_answered_messages_id_is_a_conflict(
    runner: Runner, kind: str
) -> None:
    """The old answer would be taken for that of the new text."""
    agent, model = desk(STORES[kind]())
    await runner.run(agent, UserMessage("Cancel order 1234.", "m1"), thread_id="t")
    with pytest.raises(MessageConflictError) as caught:
        await runner.run(agent, UserMessage("Keep order 1234.", "m1"), thread_id="t")
    assert caught.value.message_id == "m1"
    assert len(model.bodies) == 1
    assert (await runner.run(agent, UserMessage("Thanks.", "m2"), thread_id="t")).text


@pytest.mark.parametrize("kind", ["lease", "masked", "one user's"])
async def test_an_answered_message_that_comes_again_gets_its_answer(
    runner: Runner, kind: str
) -> None:
    """Also after so many others that it is on no page that is loaded first."""
    store = STORES[kind]()
    agent, model = desk(store)
    said = UserMessage("Question 0, 1234.", "m0")
    await runner.run(agent, said, thread_id="t")
    await store.append("t", [AgentResult.from_user(f"Later {n}.") for n in range(60)])
    again = await runner.run(agent, said, thread_id="t")
    assert again.text == "Answer 0."
    with pytest.raises(MessageConflictError):
        await runner.run(agent, UserMessage("Another question.", "m0"), thread_id="t")
    assert len(model.bodies) == 1
