"""Keys that functions give, in runs: no step of a durable run remembers one."""

from __future__ import annotations

from agentkit_py import Agent, tool
from agentkit_py.lifecycle import AgentContext
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


def _key(context: AgentContext) -> str:
    return f"secret-of-{context.agent.name}"


async def test_key_of_a_function_is_sent_and_remembered_nowhere(runner: Runner) -> None:
    """The function is called inside the step, so that only the request holds the key."""
    model = ScriptedModel(
        tool_call("look_up", {"order": "7"}),
        "Done.",
        api_key=_key,
    )
    result = await runner.run(Agent(name="a", system="", tools=[look_up], model=model), "Hi")
    assert result.text == "Done."
    sent = {request.headers["authorization"] for request in model.requests}
    assert sent == {"Bearer secret-of-a"}
    for run in runner.runs:
        assert "secret-of" not in repr(run)
        assert "secret-of" not in repr(run.steps)
