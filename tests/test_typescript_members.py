"""Each member and option of TypeScript's public types is here, or its error says ours."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import (
    AgentResult,
    HistoryConfig,
    Lifecycle,
    State,
    TextMessage,
    ToolContext,
    UserMessage,
    create_agent,
    create_network,
    create_routing_agent,
    create_state,
    create_tool,
    openai,
    tool,
)
from agentkit_py._core.typescript import EXPORTS, HOSTS, import_hint
from agentkit_py.errors import AgentKitError, ConfigurationError
from agentkit_py.mcp import MCPServer
from agentkit_py.messages import TextContent, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models.capabilities import COMPATIBLE
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ScriptedModel, tool_call
from tests.typescript import NodeMissingError, folder_of
from tests.typescript_members import listed, members

MAKERS: dict[str, Callable[..., Any]] = {
    "Agent.Constructor": create_agent,
    "Agent.RoutingConstructor": create_routing_agent,
    "Network.Constructor": create_network,
    "State.Constructor": State,
    "HistoryConfig": HistoryConfig,
    "Agent.Lifecycle": Lifecycle,
    "Agent.RoutingLifecycle": Lifecycle,
    "StreamingConfig": StreamingConfig,
    "UserMessage": UserMessage,
    "TextMessage": TextMessage,
    "TextContent": TextContent,
    "ToolCallMessage": ToolCallMessage,
    "ToolResultMessage": ToolResultMessage,
    "ToolMessage": ToolCall,
    "AgentResult": AgentResult,
    "MCP.Server": MCPServer,
    "Tool": create_tool,
}
"""The functions that take the options of a type."""

ALIKE = (
    "AgentMessageChunk",  # a chunk is a dict: the same JSON
    "AgentResult.export.",  # as above
    "ToolResultPayload",  # as above
    "MCP.T",  # transports and tools of servers are read as TypeScript's objects
    "Tool.mcp.",  # there is no tool.mcp
    "Network.input",  # goes by position
    "Network.overrides",  # the options of a run
    "Agent.Lifecycle.onStart.",  # what is returned: an error says which class it is
    "HistoryConfig.createThread.threadId",  # as above: an error says that it is the id itself
)
"""The beginnings of names that no attribute or option is the counterpart of."""

OPTIONS_ALONE = (
    "Agent.Constructor",
    "Agent.RoutingConstructor",
    "Network.Constructor",
    "State.Constructor",
    "Agent.RunOptions",
    "Network.overrides",
)
"""Types of options that are not read."""


def owned(owner: str) -> list[str]:
    """Return the members of a type."""
    return [name.rpartition(".")[2] for name in listed() if name.rpartition(".")[0] == owner]


async def objects() -> dict[str, Any]:
    """Return an object of each type; contexts are those that callbacks of runs get."""
    found: dict[str, Any] = {}

    def kept(*names: str, gives: Any = None) -> Callable[[Any], Any]:
        def keep(ctx: Any) -> Any:
            found.update(dict.fromkeys(names, ctx))
            return gives

        return keep

    @tool
    def look(ctx: ToolContext) -> str:
        """Look."""
        found["Tool.Options"] = ctx
        return "seen"

    history = HistoryConfig(
        create_thread=kept("History.CreateThreadContext", gives="t1"),
        get=kept("History.Context", gives=[]),
        append_user_message=kept("HistoryConfig.appendUserMessage"),
        append_results=kept("HistoryConfig.appendResults"),
    )
    lifecycle = Lifecycle(
        enabled=kept("Agent.LifecycleArgs.Base", gives=True),
        on_start=kept("Agent.LifecycleArgs.Before"),
        on_response=kept("Agent.LifecycleArgs.Result"),
    )
    clerk = create_agent(
        name="clerk",
        system=kept("Agent.system", "Agent.Constructor.system", gives="S"),
        model=ScriptedModel(tool_call("look", {}), "Hi.", "Hi."),
        tools=[look],
        lifecycle=lifecycle,
        max_iter=2,
    )
    router = create_routing_agent(name="r", system="R", lifecycle=Lifecycle(on_route=lambda _: []))

    def route(ctx: Any) -> Any:
        found["Network.Router.Args"] = ctx
        return clerk if ctx.call_count < 1 else None

    network = create_network(name="n", agents=[clerk], router=route, history=history)
    run = await network.run("Hello")
    await network.run("Hello", state=create_state({}, thread_id="t1"))
    first = run.results[0]
    call: Any = first.output[0]
    return found | {
        "Agent": clerk,
        "RoutingAgent": router,
        "Network": network,
        "NetworkRun": run,
        "State": run.state,
        "State.kv": run.state.kv,
        "AgentResult": first,
        "ToolResultMessage": first.tool_calls[0],
        "ToolCallMessage": call,
        "ToolMessage": call.tools[0],
        "TextMessage": TextMessage("user", "Hello"),
        "TextContent": TextContent("Hello"),
        "UserMessage": UserMessage("Hello"),
        "HistoryConfig.appendUserMessage.userMessage": UserMessage("Hello"),
        "Tool": look,
        "MCP.Server": MCPServer("s", {"type": "streamable-http", "url": "https://x"}),
        "StreamingConfig": StreamingConfig(),
        "HistoryConfig": history,
        "Agent.Lifecycle": lifecycle,
        "Agent.RoutingLifecycle": lifecycle,
    }


def hinted(error: Exception) -> bool:
    """Return whether an error says what to write."""
    return re.search(r"\bwrite \S|it is \w+ here|is \w+=… here", str(error)) is not None


def refused(error: Exception, option: str) -> bool:
    """Return whether an error is about an option that there is not."""
    said = str(error)
    return ("unexpected keyword" in said or "has no option" in said) and f"'{option}'" in said


def is_read(name: str) -> bool:
    """Return whether a member is read of an object or of a callback's context."""
    return not name.startswith(ALIKE) and name.rpartition(".")[0] not in OPTIONS_ALONE


async def test_each_member_is_there_or_its_error_says_ours() -> None:
    """Of the objects, and of the contexts of callbacks."""
    found = await objects()
    silent: list[str] = []
    for name in filter(is_read, listed()):
        owner, _, member = name.rpartition(".")
        try:
            getattr(found[owner], member)
        except AttributeError as error:
            silent += [] if hinted(error) else [name]
    assert silent == []


@pytest.mark.parametrize("owner", MAKERS)
def test_each_option_is_there_or_its_error_says_ours(owner: str) -> None:
    """As it is written in TypeScript, and `stopReason` in the manner of the others."""
    options = owned(owner)
    silent: list[str] = []
    for option in [*options, *(["stopReason"] if "stop_reason" in options else [])]:
        try:
            MAKERS[owner](**{option: None})
        except (TypeError, AgentKitError) as error:
            silent += [option] if refused(error, option) and not hinted(error) else []
    assert options
    assert silent == (["export"] if owner == "AgentResult" else [])  # a method


@pytest.mark.parametrize("owner", ["Agent.RunOptions", "Network.overrides"])
async def test_each_option_of_a_run_is_there_or_its_error_says_ours(owner: str) -> None:
    """`network` and `step` among them."""
    clerk = create_agent(name="clerk", system="S", model=ScriptedModel(lambda _body: "Hi."))
    network = create_network(name="n", agents=[clerk], router=lambda _ctx: None)
    target: Any = clerk if owner.startswith("Agent") else network
    silent: list[str] = []
    for option in owned(owner):
        try:
            await target.run("Hello", **{option: None})
        except ConfigurationError as error:
            silent += [option] if refused(error, option) and not hinted(error) else []
    assert silent == []


def test_the_list_of_members_is_the_packages_own() -> None:
    """The package's declarations are read."""
    try:
        folder = folder_of("declarations", [])
    except NodeMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    there = folder / "node_modules" / "@inngest" / "agent-kit" / "dist"
    (declarations,) = there.glob("agent-*.d.ts")
    assert members(declarations.read_text(encoding="utf-8")) == listed()


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("package", ["agentkit_py", "agentkit_py.inngest", "agentkit_py.models"])
def test_an_export_under_another_name_is_an_import_error_with_ours(package: str, name: str) -> None:
    """From whichever package it is imported."""
    with pytest.raises(ImportError) as caught:
        exec(f"from {package} import {name}")  # noqa: S102 - names of our own table
    assert str(caught.value) == import_hint(name)
    assert "agentkit_py" in str(caught.value) or "there is no" in str(caught.value)


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_imported_as_what_it_is(host: str) -> None:
    """`deepseek({ model })` of `@inngest/ai`."""
    assert set(HOSTS) == set(COMPATIBLE)
    with pytest.raises(ImportError, match=rf'compatible\("{host}"'):
        exec(f"from agentkit_py.models import {host}")  # noqa: S102 - as above


def test_options_of_a_model_in_an_object_are_refused_without_their_values() -> None:
    """`openai({ model: "gpt-4o", apiKey })`: the key is in no message."""
    make: Any = openai
    with pytest.raises(ConfigurationError, match=r'\("gpt-4o", api_key=…\)') as caught:
        make({"model": "gpt-4o", "apiKey": "sk-hidden"})
    assert "sk-hidden" not in str(caught.value)
