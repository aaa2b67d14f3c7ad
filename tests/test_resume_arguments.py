"""`resume` and `pending` take a run, and refuse answers that are none."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, NetworkRun, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer
from agentkit_py.routing import once
from agentkit_py.testing import ScriptedModel, tool_call


@tool(needs_approval=True)
def refund() -> int:
    """Pay money back."""
    return 12


async def paused() -> tuple[Network[Any, Any], NetworkRun[Any, Any]]:
    """A network with a run that waits."""
    model = ScriptedModel(tool_call("refund", {}), "Paid.")
    agent = Agent(name="a", system="S", tools=[refund], model=model)
    network = Network(name="n", agents=[agent], router=once(agent), history=MemoryHistory())
    return network, await network.run("Hi")


async def test_a_run_is_taken_for_its_thread() -> None:
    """As well as the thread's id."""
    network, run = await paused()
    (question,) = await network.pending(run)
    assert (await network.pending(run.thread_id)) == [question]
    assert (await network.resume(run, {question.id: True})).text == "Paid."


async def test_an_agents_result_is_taken_for_its_thread() -> None:
    """Also where it has no output yet, since it waits."""
    model = ScriptedModel(tool_call("refund", {}), "Paid.")
    agent = Agent(name="a", system="S", tools=[refund], model=model, history=MemoryHistory())
    waiting = await agent.run("Hi")
    (question,) = await agent.pending(waiting)
    assert (await agent.resume(waiting, {question.id: True})).text == "Paid."


async def test_a_question_is_taken_for_its_id() -> None:
    """As `pending` and a run give it."""
    network, run = await paused()
    (question,) = await network.pending(run)
    with pytest.raises(ConfigurationError, match=f"two answers to question '{question.id}'"):
        await network.resume(run, both(question))
    assert (await network.resume(run, {run.pending[0]: True})).text == "Paid."


def both(question: Any) -> Any:
    """Two answers to a question."""
    return {question: True, question.id: False}


@pytest.mark.parametrize("thread", [None, "", 3, object()])
async def test_a_value_that_is_not_a_thread_is_refused(thread: Any) -> None:
    """Before the store sees it."""
    network, _ = await paused()
    with pytest.raises(ConfigurationError, match=r"such as run.thread_id, or the run itself"):
        await network.resume(thread, {})
    with pytest.raises(ConfigurationError, match=r"pending\(\) needs a thread's id"):
        await network.pending(thread)


@pytest.mark.parametrize("answers", [True, "yes", ["yes"], 1])
async def test_answers_without_questions_are_refused(answers: Any) -> None:
    """The error shows the line to write."""
    network, run = await paused()
    with pytest.raises(ConfigurationError, match=r"\{run.pending\[0\].id: True\}"):
        await network.resume(run, answers)
    assert len(await network.pending(run)) == 1


@pytest.mark.parametrize("answer", ["yes", None, 1, 0, {"approved": True}])
async def test_an_answer_that_is_none_is_refused(answer: Any) -> None:
    """The question stays open, also where another answer beside it is right."""
    network, run = await paused()
    with pytest.raises(ConfigurationError, match="must be True, False or an ApprovalAnswer"):
        await network.resume(run, {run.pending[0].id: answer})
    assert len(await network.pending(run)) == 1
    agreed = {run.pending[0].id: ApprovalAnswer(approved=True)}
    assert (await network.resume(run, agreed)).text == "Paid."
