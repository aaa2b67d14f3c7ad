"""Options and members that are spelled as in TypeScript are errors that say what to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    Lifecycle,
    Network,
    UserMessage,
    create_agent,
    create_network,
    create_state,
    create_tool,
    openai,
)
from agentkit_py._core.spellings import OTHER_WORDS
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ScriptedModel

MAKERS: dict[str, Any] = {
    "network": create_network,
    "agent": create_agent,
    "state": create_state,
    "history": HistoryConfig,
    "lifecycle": Lifecycle,
    "streaming": StreamingConfig,
    "message": UserMessage,
}


def clerk() -> Agent[Any, Any]:
    """An agent."""
    return create_agent(name="clerk", system="S", model=ScriptedModel("Hi."))


@pytest.mark.parametrize(
    ("maker", "option", "line"),
    [
        ("network", "maxIter", "max_iter=…"),
        ("network", "defaultModel", "default_model=…"),
        ("network", "defaultRouter", "router=…"),
        ("network", "default_router", "router=…"),
        ("agent", "toolChoice", "tool_choice=…"),
        ("agent", "mcpServers", "mcp_servers=…"),
        ("state", "threadId", "thread_id=…"),
        ("history", "createThread", "create_thread=…"),
        ("lifecycle", "onStart", "on_start=…"),
        ("streaming", "simulateChunking", "simulate_chunking=…"),
        ("message", "clientTimestamp", "client_timestamp=…"),
    ],
)
def test_an_option_in_typescripts_spelling_is_an_error_with_ours(
    maker: str, option: str, line: str
) -> None:
    """Where it is written."""
    with pytest.raises(TypeError, match=option) as caught:
        MAKERS[maker](**{option: 3})
    assert line in str(caught.value)


@pytest.mark.parametrize("maker", ["network", "agent", "history"])
def test_options_in_an_object_are_an_error_that_says_by_name(maker: str) -> None:
    """`createAgent({ name: "a" })`."""
    with pytest.raises(TypeError, match="options go by name"):
        MAKERS[maker]({"name": "a"})


def test_a_state_takes_its_thread_by_name() -> None:
    """`createState({}, { threadId: "t" })`."""
    begin: Any = create_state
    with pytest.raises(TypeError, match="options go by name"):
        begin({}, {"threadId": "t"})


async def test_options_of_runs_models_and_tools_say_ours_too() -> None:
    """They are looked at elsewhere, with the same table."""
    options: Any = {"maxIter": 2}
    with pytest.raises(ConfigurationError, match="max_iter=… here"):
        await clerk().run("Hello", **options)
    options = {"network": None}
    with pytest.raises(ConfigurationError, match=r"state=ctx\.state\.clone"):
        await clerk().run("Hello", **options)
    options = {"baseUrl": "https://x"}
    with pytest.raises(ConfigurationError, match="base_url=… here"):
        openai("gpt-4o", **options)
    options = {"needsApproval": True}
    with pytest.raises(ToolDefinitionError, match="needs_approval=… here"):
        create_tool(name="t", handler=lambda: 1, **options)


READERS: dict[str, Callable[[], Any]] = {
    "threadId": create_state,
    "appendResult": create_state,
    "set": lambda: create_state().kv,
    "has": lambda: create_state().kv,
    "toolCalls": lambda: AgentResult("a", []),
    "agentName": lambda: AgentResult("a", []),
    "withModel": clerk,
    "defaultModel": lambda: Network(name="n", agents=[clerk()]),
    "clientTimestamp": lambda: UserMessage("Hello"),
    "timestamp": lambda: UserMessage("Hello"),
}
HERE = {
    "set": 'kv["plan"] = value',
    "has": '"plan" in kv',
    "timestamp": "user_message.client_timestamp",
    "threadId": "thread_id",
    "appendResult": "append_result",
    "toolCalls": "tool_calls",
    "agentName": "agent_name",
    "withModel": "with_model",
    "defaultModel": "default_model",
    "clientTimestamp": "client_timestamp",
}


@pytest.mark.parametrize("member", READERS)
def test_a_member_in_typescripts_spelling_is_an_error_with_ours(member: str) -> None:
    """An AttributeError still, so that `hasattr` and `getattr` do as they do."""
    value = READERS[member]()
    with pytest.raises(AttributeError) as caught:
        getattr(value, member)
    assert HERE[member] in str(caught.value)
    assert not hasattr(value, "nothing_of_the_kind")


def test_a_result_is_made_with_our_names_and_changed_by_a_copy() -> None:
    """`new AgentResult({ agentName })`, and `result.output = …` in a hook."""
    options: Any = {"agentName": "a", "output": [], "toolCalls": []}
    with pytest.raises(TypeError, match=r"'agentName' is agent_name=… here.*tool_calls=…"):
        AgentResult(**options)
    result: Any = AgentResult("a", [])
    with pytest.raises(AttributeError, match=r"return a copy.*replace\(…, tool_calls=…\)"):
        result.toolCalls = []


async def test_options_of_a_run_in_an_object_are_an_error_that_says_by_name() -> None:
    """`network.run(input, { state, maxIter: 2 })`."""
    run: Any = clerk().run
    with pytest.raises(TypeError, match=r"run\(…, state=…, max_iter=…\), not in an object"):
        await run("Hello", {"state": 1, "maxIter": 2})


@pytest.mark.parametrize(("member", "line"), [("threadId", "write .thread_id"), ("it", "able$")])
def test_a_member_in_brackets_is_an_error_that_names_the_attribute(member: str, line: str) -> None:
    """`ctx["network"]`."""
    state: Any = create_state()
    with pytest.raises(TypeError, match=line):
        state[member]


async def test_a_routers_slip_names_the_member_of_its_context() -> None:
    """`callCount`."""

    def route(ctx: Any) -> Any:
        return None if ctx.callCount else clerk()

    network = create_network(name="n", agents=[clerk()], router=route)
    with pytest.raises(AttributeError, match="it is call_count here"):
        await network.run("Hello")


@pytest.mark.parametrize("parameters", [{"a": "string"}, {"a": str}, {"count": "integer"}])
def test_parameters_that_are_names_and_types_are_refused(parameters: Any) -> None:
    """The model would see no parameter."""
    with pytest.raises(ToolDefinitionError, match="is no JSON Schema"):
        create_tool(name="t", parameters=parameters, handler=lambda: 1)


def test_the_porting_page_shows_the_table_of_other_words() -> None:
    """One table, for errors and readers."""
    page = (Path(__file__).parents[1] / "docs" / "porting.md").read_text(encoding="utf-8")
    for word, line in OTHER_WORDS.items():
        assert f"| `{word}` | `{line}` |" in page, (word, line)
