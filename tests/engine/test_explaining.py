"""Explaining shows what a run would send: it begins as the run does."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agentkit_py import Agent, Network, TextMessage
from agentkit_py.guardrails import Redactor
from agentkit_py.lifecycle import AgentContext
from agentkit_py.network import explain, index_thread
from agentkit_py.routing import once
from agentkit_py.stores import MemoryHistory
from agentkit_py.testing import ScriptedModel

from .runner import Runner

SECRET = Redactor({"card": r"4111[ 0-9]+"})
"""Masks numbers of cards."""

CARD = "4111 1111 1111 1111"


class Account(BaseModel):
    """The state of a run."""

    plan: str = "free"


def system(context: AgentContext[Account]) -> str:
    """Name the account's plan: the state must be an account."""
    return f"The plan is {context.state.data.plan}."


def agent_of(**options: Any) -> Agent[Any, Any]:
    """Return an agent with a typed state and masked input."""
    return Agent(
        name="desk",
        system=system,
        state_type=Account,
        model=ScriptedModel("Noted."),
        input_guardrails=[SECRET],
        **options,
    )


async def test_explain_masks_the_input_and_types_the_state_of_an_agent_as_run_does(
    runner: Runner,
) -> None:
    """The card is masked in both, and the prompt reads the typed state."""
    agent = agent_of()
    await runner.run(agent, f"My card is {CARD}")
    assert isinstance(agent.model, ScriptedModel)
    (body,) = agent.model.bodies
    report = await explain(agent, input=f"My card is {CARD}")
    texts = [one.text for one in report.sent if isinstance(one, TextMessage)]
    assert texts == [one["content"] for one in body["messages"]]
    assert CARD not in str(report.sent)
    typed = await explain(agent, input="Hi", state={"data": {"plan": "team"}})
    assert "The plan is team." in str(typed.sent)


async def test_explain_of_a_network_masks_the_input_as_run_does() -> None:
    """A network has the masks of its agents."""
    agent = agent_of()
    network = Network(name="shop", agents=[agent], router=once(agent), state_type=Account)
    report = await explain(network, "desk", input=f"My card is {CARD}")
    assert CARD not in str(report.sent)
    assert "The plan is free." in str(report.sent)


async def test_index_thread_of_an_agent_types_the_state_as_run_does(runner: Runner) -> None:
    """The prompt reads the typed state there, too."""
    store = MemoryHistory()
    agent = agent_of(history=store)
    await runner.run(agent, "Hi", thread_id="t")
    await index_thread(agent, "t")
    assert len(await store.stored_results("t")) == 2
