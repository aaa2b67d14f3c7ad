"""Tools that a provider defines and the program runs: one loop each, direct and durable."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, State, ToolCallFilter, openai
from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.messages import (
    ImageContent,
    OpaqueMessage,
    TextMessage,
    ToolCallDelta,
    ToolCallMessage,
)
from agentkit_py.models import Model, ModelRequest, anthropic, gemini, openai_responses
from agentkit_py.models.conversations import read_conversation
from agentkit_py.testing import tool_call
from agentkit_py.testing.provider import FakeProvider
from agentkit_py.tools import provider_tool

from .runner import Runner

PNG = "iVBORw0KGgo="
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /[0-9+]+/"}


def claude(fake: FakeProvider) -> Model:
    """A model of Claude's at the stand-in."""
    return anthropic("claude-opus-5", api_key="k", base_url=fake.base_url("anthropic"))


def older_claude(fake: FakeProvider) -> Model:
    """A model of the time of the first versions of these tools."""
    return anthropic("claude-sonnet-4-5", api_key="k", base_url=fake.base_url("anthropic"))


def gpt(fake: FakeProvider) -> Model:
    """A model of OpenAI's at the stand-in."""
    return openai_responses("gpt-5", api_key="k", base_url=fake.base_url("openai_responses"))


def chat(fake: FakeProvider) -> Model:
    """A model that is asked by chat completions."""
    return openai("gpt-4.1", api_key="k", base_url=fake.base_url("openai"))


@dataclass(frozen=True)
class Case:
    """A tool, how it is called, what its handler gives, and what the model reads."""

    make: Any
    definition: str | dict[str, Any]
    name: str
    arguments: dict[str, Any]
    value: Any
    answer: dict[str, Any]
    heard: Any = None


def result(content: Any, **more: Any) -> dict[str, Any]:
    """Claude's form of a result."""
    return {"type": "tool_result", "content": content, **more}


PICTURE = {"type": "base64", "media_type": "image/png", "data": PNG}
TABS = {
    "type": "browser_state",
    "tabs": [{"tab_id": "1", "title": "Example", "url": "https://example.org", "active": True}],
}
RUN = {"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
WIKI = {"type": "mcp", "server_label": "my.wiki", "server_url": "https://wiki.example/mcp"}
ASKED = {"server_label": "my.wiki", "name": "search", "arguments": '{"q": "x"}'}
CASES = {
    "bash": Case(claude, "bash_20250124", "bash", {"command": "ls"}, "a.py\n", result("a.py\n")),
    "memory": Case(
        claude,
        "memory_20250818",
        "memory",
        {"command": "view", "path": "/memories"},
        "4.0K\t/memories",
        result("4.0K\t/memories"),
    ),
    "text editor": Case(
        claude,
        {"type": "text_editor_20250728", "max_characters": 1000},
        "str_replace_based_edit_tool",
        {"command": "view", "path": "a.py"},
        "1: x = 1",
        result("1: x = 1"),
    ),
    "computer of Claude": Case(
        claude,
        {"type": "computer_20251124", "display_width_px": 800, "display_height_px": 600},
        "computer",
        {"action": "screenshot"},
        [ImageContent(PNG, None, "image/png")],
        result([{"type": "image", "source": PICTURE}]),
    ),
    "computer toolset": Case(
        claude,
        "computer_toolset_20260801",
        "computer",
        {"action": "left_click", "coordinate": [1, 2]},
        [ImageContent(PNG, None, "image/png")],
        result([{"type": "image", "source": PICTURE}], toolset_name="computer"),
    ),
    "browser toolset": Case(
        claude,
        "browser_toolset_20260801",
        "browser",
        {"action": "navigate", "url": "https://example.org"},
        "Example Domain",
        result("Example Domain", toolset_name="browser"),
    ),
    "state of a browser": Case(
        claude,
        "browser_toolset_20260801",
        "browser",
        {"action": "screenshot"},
        [TABS, ImageContent(PNG, None, "image/png")],
        result([TABS, {"type": "image", "source": PICTURE}], toolset_name="browser"),
    ),
    "custom": Case(
        gpt,
        {"type": "custom", "name": "math_exp", "format": GRAMMAR},
        "math_exp",
        {"input": "4+4"},
        "8",
        {"type": "custom_tool_call_output", "output": "8"},
        heard="4+4",
    ),
    "custom in chat": Case(
        chat,
        {"type": "custom", "name": "math_exp", "format": GRAMMAR},
        "math_exp",
        {"input": "4+4"},
        "8",
        {"role": "tool", "content": "8"},
        heard="4+4",
    ),
    "shell": Case(
        gpt,
        "shell",
        "shell",
        {"commands": ["ls"], "max_output_length": 100},
        {"stdout": "a.py", "exit_code": 0},
        {"type": "shell_call_output", "output": [RUN], "max_output_length": 100},
    ),
    "apply_patch": Case(
        gpt,
        "apply_patch",
        "apply_patch",
        {"type": "update_file", "path": "a.py", "diff": "+x"},
        "Patched.",
        {"type": "apply_patch_call_output", "status": "completed", "output": "Patched."},
    ),
    "computer of OpenAI": Case(
        gpt,
        "computer",
        "computer",
        {"actions": [{"type": "click", "button": "left", "x": 1, "y": 2}]},
        [ImageContent(PNG, None, "image/png")],
        {
            "type": "computer_call_output",
            "output": {
                "type": "computer_screenshot",
                "image_url": f"data:image/png;base64,{PNG}",
            },
        },
    ),
    "MCP approval": Case(
        gpt,
        WIKI,
        "mcp_approval_my_wiki",
        ASKED,
        True,
        {"type": "mcp_approval_response", "approve": True},
    ),
}
VIEW = {"command": "view", "path": "a.py"}
SCREEN = {"display_width_px": 800, "display_height_px": 600}
CASES.update(
    {
        f"bash of {date}": replace(CASES["bash"], make=older_claude, definition=f"bash_{date}")
        for date in ("20241022", "20250124")
    }
)
CASES.update(
    {
        f"text editor of {date}": Case(
            older_claude, f"text_editor_{date}", name, VIEW, "1: x = 1", result("1: x = 1")
        )
        for date, name in (
            ("20241022", "str_replace_editor"),
            ("20250124", "str_replace_editor"),
            ("20250429", "str_replace_based_edit_tool"),
        )
    }
)
CASES.update(
    {
        f"computer of {date}": replace(
            CASES["computer of Claude"],
            make=older_claude,
            definition={"type": f"computer_{date}", **SCREEN},
        )
        for date in ("20241022", "20250124")
    }
)
cases = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def sent(fake: FakeProvider, index: int = -1) -> list[dict[str, Any]]:
    """The items, or the blocks, of a request."""
    body = fake.requests[index].body
    if "input" in body:
        return body["input"]
    found: list[dict[str, Any]] = []
    for message in body["messages"]:
        inside = isinstance(message["content"], list)
        found += message["content"] if inside else [message]
    return found


def held(answer: dict[str, Any], items: list[dict[str, Any]]) -> bool:
    """Whether one of the items says all that an answer says."""
    return any(answer.items() <= item.items() for item in items)


@cases
async def test_the_model_reads_the_result_of_the_handler(case: Case, runner: Runner) -> None:
    """The same in a direct and in a durable run; the next turn sends it again, and is accepted."""
    heard: list[Any] = []

    def handle(arguments: Any) -> Any:
        heard.append(arguments)
        return case.value

    with FakeProvider([tool_call(case.name, case.arguments), "done", "yes"]) as fake:
        tool = provider_tool(case.definition, handle)
        history = MemoryHistory()
        agent = Agent(name="a", system="s", model=case.make(fake), tools=[tool], history=history)
        state = State[Any](thread_id="t")
        await runner.run(agent, "go", state=state)
        again = Agent(name="a", system="s", model=case.make(fake), tools=[tool], history=history)
        await runner.run(again, "sure?", state=State[Any](thread_id="t"))
    assert [request.rejection for request in fake.requests] == [None] * 3
    assert heard == [case.arguments if case.heard is None else case.heard]
    assert held(case.answer, sent(fake, 1))
    assert held(case.answer, sent(fake, 2))


@cases
async def test_a_person_who_refuses_is_the_models_result(case: Case, runner: Runner) -> None:
    """The handler is not called, and the call is answered in the form of its tool."""
    heard: list[Any] = []
    with FakeProvider([tool_call(case.name, case.arguments), "done"]) as fake:
        tool = provider_tool(case.definition, heard.append, needs_approval=True)
        agent = Agent(name="a", system="s", model=case.make(fake), tools=[tool])
        await runner.run(agent, "go", approver=lambda request: False)
    assert heard == []
    assert [request.rejection for request in fake.requests] == [None, None]
    assert not held(case.answer, sent(fake))


@cases
async def test_a_streamed_call_is_the_one_that_is_run(case: Case) -> None:
    """Its pieces are JSON of its arguments, where the format has them."""
    deltas: list[ToolCallDelta] = []
    with FakeProvider([tool_call(case.name, case.arguments), "done"]) as fake:
        tool = provider_tool(case.definition, lambda: case.value)
        agent = Agent(name="a", system="s", model=case.make(fake), tools=[tool])
        async with agent.stream("go") as stream:
            async for event in stream:
                delta = getattr(event, "delta", None)
                deltas += [delta] if isinstance(delta, ToolCallDelta) else []
        assert stream.result.text == "done"
    assert [request.rejection for request in fake.requests] == [None, None]
    if deltas:
        assert deltas[0].name == case.name
        assert json.loads("".join(d.delta for d in deltas)) == case.arguments


@cases
async def test_a_failing_handler_is_an_error_that_the_model_reads(
    case: Case, runner: Runner
) -> None:
    """In whatever form its results have."""

    def fail() -> None:
        raise ValueError("the disk is full")

    with FakeProvider([tool_call(case.name, case.arguments), "done"]) as fake:
        tool = provider_tool(case.definition, fail)
        agent = Agent(name="a", system="s", model=case.make(fake), tools=[tool])
        await runner.run(agent, "go")
    assert [request.rejection for request in fake.requests] == [None, None]
    assert "the disk is full" in json.dumps(sent(fake))


@cases
def test_calls_and_results_survive_a_store(case: Case) -> None:
    """What is sent of them is the same."""
    model = case.make(FakeProvider([]))
    tool = provider_tool(case.definition, lambda: case.value)
    with FakeProvider([tool_call(case.name, case.arguments), "done"]) as fake:
        agent = Agent(name="a", system="s", model=case.make(fake), tools=[tool])
        state = State[Any]()
        agent.run_sync("go", state=state)
    first = state.results[0]
    said = [TextMessage("user", "go"), *first.output, *first.tool_calls]
    read = [message_from_dict(message_to_dict(m), where="row") for m in said]
    requests = [ModelRequest(messages=tuple(ms), tools=(tool.spec,)) for ms in (said, read)]
    bodies = [model.encode(request) for request in requests]
    assert bodies[0] == bodies[1]


async def test_a_filter_drops_a_call_with_its_result(runner: Runner) -> None:
    """By the tool's name, as any other."""
    with FakeProvider([tool_call("shell", {"commands": ["ls"]}), "done", "yes"]) as fake:
        agent = Agent(
            name="a",
            system="s",
            model=gpt(fake),
            tools=[provider_tool("shell", lambda: "a.py")],
            history=MemoryHistory(),
        )
        await runner.run(agent, "go", state=State[Any](thread_id="t"))
        other = Agent(
            name="b",
            system="s",
            model=gpt(fake),
            history=agent.history,
            processors=[ToolCallFilter(exclude=["shell"])],
        )
        await runner.run(other, "and?", state=State[Any](thread_id="t"))
    assert not any("shell" in item.get("type", "") for item in sent(fake))
    assert [request.rejection for request in fake.requests] == [None] * 3


def test_a_call_that_has_run_at_openai_stays_a_hosted_tools() -> None:
    """A shell in a container gives its output with the call, and both go back."""
    model = openai_responses("gpt-5", api_key="k")
    where = {"type": "container_reference", "container_id": "c"}
    call = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}}
    done = {"type": "shell_call_output", "id": "so_1", "call_id": "c1", "output": [RUN]}
    body = {"status": "completed", "output": [{**call, "environment": where}, done]}
    messages = model.decode(body).messages
    assert all(isinstance(message, OpaqueMessage) for message in messages)
    request = ModelRequest(messages=(TextMessage("user", "go"), *messages))
    kinds = [item["type"] for item in model.encode(request)["input"]]
    assert kinds == ["message", "shell_call", "shell_call_output"]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "custom", "name": "math_exp"},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "apply_patch"},
        {"type": "local_shell"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "computer_toolset_20260801"},
        {**WIKI, "require_approval": "always"},
    ],
)
def test_a_tool_without_a_handler_is_refused_where_it_is_configured(tool: dict[str, Any]) -> None:
    """The error says what to pass instead."""
    with pytest.raises(ConfigurationError, match="provider_tool"):
        Agent(name="a", system="s", hosted_tools=[tool])


def test_the_shell_that_openai_has_retired_is_refused_with_its_successor() -> None:
    """Its model is gone, too."""
    with pytest.raises(ConfigurationError, match=r"provider_tool\('shell', handler\)"):
        provider_tool({"type": "local_shell"}, lambda: None)


@pytest.mark.parametrize("given", ["web_search", "shell_20250101", {"type": "custom"}, {}])
def test_a_tool_that_no_program_runs_is_not_a_provider_tool(given: Any) -> None:
    """Hosted tools and unknown ones."""
    with pytest.raises((ConfigurationError, ToolDefinitionError)):
        provider_tool(given, lambda: None)


@pytest.mark.parametrize("given", ["shell", "bash_20250124"])
@pytest.mark.parametrize("model", [gemini("gemini-3-pro", api_key="k"), openai("gpt-4.1")])
def test_a_model_of_another_provider_cannot_be_given_one(given: str, model: Model) -> None:
    """The error names the tool and the model."""
    tool = provider_tool(given, lambda: None)
    request = ModelRequest(messages=(TextMessage("user", "go"),), tools=(tool.spec,))
    with pytest.raises(ConfigurationError, match=model.model):
        model.encode(request)


def test_safety_checks_are_acknowledged_by_the_acting_program() -> None:
    """They are among the call's arguments, for approvals to look at."""
    model = openai_responses("gpt-5", api_key="k")
    check = {"id": "sc_1", "code": "malicious", "message": "?"}
    act = {"action": {"type": "screenshot"}, "pending_safety_checks": [check]}
    item = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "status": "completed", **act}
    (message,) = model.decode({"status": "completed", "output": [item]}).messages
    assert isinstance(message, ToolCallMessage)
    assert message.tools[0].arguments == act


def test_a_foreign_request_with_such_calls_is_read_and_written_unchanged() -> None:
    """Each call with its result."""
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "sum", "input": "4+4"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "8"},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c2", "output": [RUN]},
        {"type": "apply_patch_call", "call_id": "c3", "operation": {"type": "delete_file"}},
        {
            "type": "apply_patch_call_output",
            "call_id": "c3",
            "status": "failed",
            "output": "No such file.",
        },
        {"type": "mcp_approval_request", "id": "mcpr_1", **ASKED},
        {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_1",
            "approve": False,
            "reason": "not now",
        },
    ]
    messages = read_conversation({"model": "gpt-5", "input": items})
    model = openai_responses("gpt-5", api_key="k")
    assert model.encode(ModelRequest(messages=messages))["input"] == items
