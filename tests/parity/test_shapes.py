"""Code as one writes it in TypeScript: it works, or the error says what to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from agentkit_py import (
    HistoryConfig,
    Lifecycle,
    RouterContext,
    State,
    create_agent,
    create_network,
    create_tool,
)
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.messages import TextMessage
from agentkit_py.testing import ScriptedModel

ROW: dict[str, Any] = {
    "agentName": "a",
    "output": [],
    "toolCalls": [],
    "createdAt": "2026-01-01T00:00:00Z",
}

_HISTORY: list[tuple[str, Any, str]] = [
    ("create_thread", {"threadId": "t"}, r"return the thread's id itself.*'threadId': 't'"),
    ("create_thread", 7, "return the thread's id itself.*got 7"),
    ("get", [ROW], r"AgentResult\.from_dict\(row\) reads"),
    ("get", None, r"\[\] for none, got None"),
]
_LIFECYCLE: list[tuple[str, Any, str]] = [
    ("on_start", {"prompt": [], "history": [], "stop": False}, r"Start\(prompt, history"),
    ("on_start", ([], []), r"Start\(prompt, history"),
    ("on_response", {"output": []}, "an AgentResult"),
    ("on_finish", {"output": []}, "an AgentResult"),
]


def _returning(value: Any) -> Any:
    async def callback(_context: object) -> Any:
        return value

    return callback


@pytest.mark.parametrize(
    ("hook", "value", "said"),
    _HISTORY,
)
async def test_history_hooks_with_typescript_values_are_refused_with_advice(
    hook: str, value: Any, said: str
) -> None:
    """TypeScript returns an object, and rows as the database gave them."""
    history = HistoryConfig(**{hook: _returning(value)})
    agent = create_agent(name="a", system="s", model=ScriptedModel("hi"), history=history)
    with pytest.raises(ConfigurationError, match=said):
        await agent.run("x", state=State(thread_id="t"))


@pytest.mark.parametrize(
    ("hook", "value", "said"),
    _LIFECYCLE,
)
async def test_lifecycle_hooks_with_typescript_values_are_refused_with_advice(
    hook: str, value: Any, said: str
) -> None:
    """TypeScript's hooks return plain objects."""
    cycle = Lifecycle(**{hook: _returning(value)})
    agent = create_agent(name="desk", system="s", model=ScriptedModel("hi"), lifecycle=cycle)
    with pytest.raises(ConfigurationError, match=f"Agent 'desk': the result of {hook}.*{said}"):
        await agent.run("x")


def test_handlers_of_another_signature_are_refused_when_the_tool_is_made() -> None:
    """One argument is the input; the context alone, or three arguments, cannot be meant."""

    def one(given: Any) -> Any:
        return given

    def context_only(ctx: Any) -> Any:
        return ctx

    def three(given: Any, network: Any, step: Any) -> Any:
        return given, network, step

    assert create_tool(name="t", handler=one)
    with pytest.raises(ToolDefinitionError, match=r"\(input, ctx\)"):
        create_tool(name="t", handler=context_only)
    with pytest.raises(ToolDefinitionError, match=r"steps are ctx\.step"):
        create_tool(name="t", handler=three)


async def test_a_router_runs_an_agent_on_the_networks_conversation() -> None:
    """TypeScript's `agent.run(input, { network })`: it sees all once, and adds nothing."""
    model = ScriptedModel("from the worker", "billing", "from billing")
    worker = create_agent(name="worker", system="w", model=model)
    judge = create_agent(name="judge", system="Say a name.", model=model)
    billing = create_agent(name="billing", system="b", model=model)
    seen: list[str] = []

    async def router(ctx: RouterContext) -> Any:
        if ctx.call_count == 0:
            return worker
        if ctx.call_count == 1:
            said = await judge.run(ctx.user_message, state=ctx.state.clone())
            told = (*said.prompt, *said.history)
            seen.extend(message.text for message in told if isinstance(message, TextMessage))
            chosen = said.output[0]
            assert isinstance(chosen, TextMessage)
            return {"billing": billing}[chosen.text]
        return None

    network = create_network(name="n", agents=[worker, billing], router=router)
    run = await network.run("help")
    assert seen == ["Say a name.", "help", "from the worker"]
    assert [result.agent_name for result in run.results] == ["worker", "billing"]


@dataclass
class Plan:
    """State data of a dataclass."""

    level: str = "free"
    seats: int = 1


class Typed(pydantic.BaseModel):
    """State data of a model."""

    level: str = "free"
    seats: int = 1


@pytest.mark.parametrize("data", [{"level": "free", "seats": 1}, Plan(), Typed()])
def test_kv_is_a_view_of_the_data_of_any_kind(data: Any) -> None:
    """TypeScript's set, get, has and all are those of a mapping."""
    state = State(data)
    state.kv["level"] = "gold"
    assert state.kv["level"] == state.kv.get("level") == "gold"
    assert "level" in state.kv
    assert state.kv.get("nothing") is None
    assert dict(state.kv) == {"level": "gold", "seats": 1}
    assert state.dump() == {"level": "gold", "seats": 1}


def test_kv_keeps_the_fields_of_typed_data() -> None:
    """A dict takes new keys and loses old ones; a class says what it has."""
    plain = State({"a": 1})
    plain.kv["b"] = 2
    del plain.kv["a"]
    assert plain.data == {"b": 2}
    assert len(plain.kv) == 1
    typed = State(Plan())
    with pytest.raises(KeyError, match="Plan has no field 'plan'"):
        typed.kv["plan"] = "gold"
    with pytest.raises(KeyError):
        assert typed.kv["plan"]
    with pytest.raises(TypeError, match="fixed fields"):
        del typed.kv["level"]
