"""Options of a closed set of words: a misspelt word is an error that names the choices."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import inngest
import pytest

import agentkit_py
from agentkit_py import Agent, MemoryHistory, Network, PostgresHistory, openai
from agentkit_py._core.awaiting import resolve
from agentkit_py.budgets import Budgets, UsageLimit
from agentkit_py.errors import AgentKitError
from agentkit_py.history import StaffDesk
from agentkit_py.inngest import (
    AgentKitMiddleware,
    FunctionOptions,
    InngestRuntime,
    create_functions,
)
from agentkit_py.knowledge import Knowledge, SqliteKnowledge
from agentkit_py.messages import ImageContent
from agentkit_py.processors import Budget, ToolCallFilter
from agentkit_py.routing import Handoff
from agentkit_py.server import create_app
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import HashingEmbedder, KillAt, ReplayExecutor, ScriptedModel
from agentkit_py.testing.replay import Replay

WORD: Any = "misspelt"


def agent(**options: Any) -> Agent:
    """An agent that cannot be made."""
    return Agent(name="a", system="s", model=ScriptedModel("x"), **options)


def network(**options: Any) -> Network[Any]:
    """A network that cannot be made."""
    return Network(name="n", agents=[agent()], **options)


def client() -> inngest.Inngest:
    """A client that calls no server."""
    return inngest.Inngest(app_id="app", is_production=False)


def knowledge(**options: Any) -> Knowledge:
    """Knowledge without documents."""
    return Knowledge(store=SqliteKnowledge(":memory:"), embedder=HashingEmbedder(), **options)


def context() -> Any:
    """A context that no step is taken in."""
    return types.SimpleNamespace(group=None, step=None)


MISSPELT: dict[str, Callable[[], object | Awaitable[object]]] = {
    "Agent.end_strategy": lambda: agent(output_type=int, end_strategy=WORD),
    "Agent.filter_precedence": lambda: agent(knowledge=knowledge(), filter_precedence=WORD),
    "Agent.history_mode": lambda: agent(history_mode=WORD),
    "Agent.tool_choice": lambda: agent(tool_choice=WORD),
    "AgentKitMiddleware.configured.inference": lambda: AgentKitMiddleware.configured(
        inference=WORD
    ),
    "AgentKitMiddleware.configured.on_version_mismatch": lambda: AgentKitMiddleware.configured(
        on_version_mismatch=WORD
    ),
    "Budget.method": lambda: Budget(1000, method=WORD),
    "Budgets.on_failure": lambda: Budgets(
        MemoryHistory(), {"free": UsageLimit(tokens=5, per="day")}, on_failure=WORD
    ),
    "FunctionOptions.on_version_mismatch": lambda: FunctionOptions(on_version_mismatch=WORD),
    "Handoff.history": lambda: Handoff(agent(), history=WORD),
    "ImageContent.detail": lambda: ImageContent("aa==", media_type="image/png", detail=WORD),
    "InngestRuntime.inference": lambda: InngestRuntime(context(), inference=WORD),
    "KillAt.when": lambda: KillAt(step="s", when=WORD),
    "Knowledge.mode": lambda: knowledge(mode=WORD),
    "Knowledge.add.format": lambda: knowledge().add("text", format=WORD),
    "Knowledge.add.progress": lambda: knowledge().add("text", progress=WORD),
    "Knowledge.search.mode": lambda: knowledge().search("query", mode=WORD),
    "Knowledge.search_for.precedence": lambda: knowledge().search_for(
        filters=None, agentic=True, precedence=WORD
    ),
    "Model.prompt_cache": lambda: openai("gpt-4o", prompt_cache=WORD),
    "Network.history_mode": lambda: network(history_mode=WORD),
    "Network.isolation": lambda: network(isolation=WORD),
    "Network.prefix": lambda: network(prefix=WORD),
    "PostgresHistory.layout": lambda: PostgresHistory("postgresql://localhost/x", layout=WORD),
    "Replay.provider": lambda: Replay(store=MemoryHistory(), passes=[], provider=WORD),
    "ReplayExecutor.discovery": lambda: ReplayExecutor(client(), [], discovery=WORD),
    "ScriptedModel.provider": lambda: ScriptedModel("x", provider=WORD),
    "StaffDesk.queue.status": lambda: StaffDesk(MemoryHistory()).queue(status=WORD),
    "StaffDesk.note.to": lambda: StaffDesk(MemoryHistory()).note("t", "Hi", by="mia", to=WORD),
    "ThreadLease.on_busy": lambda: ThreadLease(on_busy=WORD),
    "ToolCallFilter.include": lambda: ToolCallFilter(include=WORD),
    "UsageLimit.per": lambda: UsageLimit(tokens=5, per=WORD),
    "create_app.auth": lambda: create_app(networks=[network()], auth=WORD),
    "create_functions.inference": lambda: create_functions(
        client(), agents=[agent()], inference=WORD
    ),
    "create_functions.realtime": lambda: create_functions(
        client(), agents=[agent()], realtime=WORD
    ),
    "run.on_busy": lambda: agent(
        history=MemoryHistory(lease=ThreadLease()),
    ).run("x", on_busy=WORD),
}

MADE_BY_THE_LIBRARY = {
    "Unexamined.kind",
    "AgentKitMiddleware.inference",  # `configured` makes it
    "Capabilities.chat_tools",
    "Chunk.event",
    "ContextActivity.stage",
    "FileContent.type",
    "Finding.name",
    "Finding.severity",
    "GuardrailChecked.model_call",
    "GuardrailChecked.verdict",
    "HandedOver.history",
    "ImageContent.type",
    "Model.respond.tool_choice",  # or the name of a tool
    "ModelRequest.tool_choice",
    "Notice.kind",
    "ReceivedRequest.provider",
    "ReportEntry.level",
    "Rule.confidence",
    "Run.status",
    "RunCompleted.scope",
    "RunFailed.scope",
    "RunInterrupted.scope",
    "RunStarted.scope",
    "StaffAuthor.to",
    "StreamedPart.status",
    "TakeoverStore.list_takeovers.status",
    "TextContent.type",
    "ScriptedModel.prompt_cache",  # as of every model
    "Todo.status",  # validated by pydantic
    "TokenizerInfo.kind",
    "Tool.generator",
    "apply_processors.level",  # any name may stand in a report
    "stream_response.format",  # the HTTP API calls it
    "MatrixCell.fate",
    "MatrixRow.section",
}


@pytest.mark.parametrize("option", MISSPELT)
async def test_a_misspelt_word_is_refused_by_name(option: str) -> None:
    """Where it is given, before anything is done."""
    with pytest.raises(AgentKitError, match="misspelt"):
        await resolve(MISSPELT[option]())


def words_of(hint: Any) -> list[str]:
    """Return the words that a type allows."""
    kind = typing.get_origin(hint)
    if kind is typing.Literal:
        return [word for word in typing.get_args(hint) if isinstance(word, str)]
    if kind is typing.Annotated:
        return words_of(typing.get_args(hint)[0])
    if kind in (typing.Union, types.UnionType):
        return [word for part in typing.get_args(hint) for word in words_of(part)]
    return []


def options() -> Iterator[str]:
    """Yield the options of public classes and functions that take one of a set of words."""
    for module in pkgutil.walk_packages(agentkit_py.__path__, "agentkit_py."):
        if any(part.startswith("_") for part in module.name.split(".")[1:]):
            continue
        public = importlib.import_module(module.name)
        for name in getattr(public, "__all__", ()):
            found: Any = getattr(public, name)
            if inspect.isfunction(found):
                yield from _options_of(name, found)
            elif inspect.isclass(found) and not issubclass(found, dict):
                yield from _options_of(name, found)
                yield from _options_of_methods(name, found)


def _options_of_methods(name: str, found: Any) -> Iterator[str]:
    members = cast("dict[str, Any]", vars(found))
    for method, value in members.items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function) and not method.startswith("_"):
            yield from _options_of(f"{name}.{method}", function)


def _options_of(name: str, found: Any) -> Iterator[str]:
    for owner in (found, getattr(found, "__init__", found)):
        try:
            hints = typing.get_type_hints(owner, include_extras=True)
        except (NameError, TypeError):  # types that are imported for checkers only
            continue
        named = (key for key in hints if key != "return" and not key.startswith("_"))
        yield from (f"{name}.{key}" for key in named if words_of(hints[key]))


def test_each_option_of_a_closed_set_is_tried() -> None:
    """A new one is tried above, or only the library gives it."""
    assert set(options()) - MISSPELT.keys() - MADE_BY_THE_LIBRARY == set()
