"""Agents: a system prompt, tools and a model, and the loop that runs them."""

from __future__ import annotations

import dataclasses
import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.agent_run import AgentRun, run_agent
from agentkit_py._engine.as_tool import Nested, NestedCall, names_of
from agentkit_py._engine.checking import check_agent
from agentkit_py._engine.knowledge_base import (
    FilterPrecedence,
    KnowledgeBase,
    KnowledgeFilters,
    KnowledgeSearch,
    search_of,
)
from agentkit_py._engine.lifecycle import NO_HOOKS
from agentkit_py._engine.options import new_scope
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.rights import AllowedTools, allowed_now, check_allowed
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.stream import watched
from agentkit_py._engine.sync import run_to_end
from agentkit_py._engine.tool_source import ToolSource, check_sources, in_step, may_have, opened
from agentkit_py.errors import ConfigurationError, MissingModelError
from agentkit_py.events.types import Observer
from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle import AgentContext, Lifecycle, ResultContext
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model, ToolChoice, ToolSpec
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Processor, Tokenizer
from agentkit_py.processors.tokenizers import CustomTokenizer, as_tokenizer, default_tokenizer
from agentkit_py.results import AgentResult
from agentkit_py.runs import RunOptions, RunStream
from agentkit_py.tools import AsToolOptions, Tool, ToolLike, as_tool

System: TypeAlias = (
    str | Callable[[], str | Awaitable[str]] | Callable[[AgentContext], str | Awaitable[str]]
)
"""A system prompt, or a function that gives one at every inference, with or without context."""


class AgentOptions(RunOptions, total=False):
    """Options of an agent's run."""

    max_iter: int | None
    """Another number of inferences than the agent's."""


@dataclass(eq=False, kw_only=True)
class Agent:
    """An agent: who it is, what it can do, and what it may see.

    An agent is configuration: it holds nothing of a run, and may run in many at the same time.
    """

    name: str
    """Unique within a network; routers and histories call the agent by it."""

    system: System
    """The system prompt, or a function of the context that gives it."""

    description: str = ""
    """What the agent is for, as routing agents read it."""

    assistant: str = ""
    """The beginning of each answer (prefill)."""

    tools: Sequence[ToolLike] = ()
    """What it can call: tools, or bare functions."""

    mcp_servers: Sequence[ToolSource] = ()
    """Servers whose tools it can call, too; see `agentkit_py.mcp.MCPServer`."""

    knowledge: KnowledgeBase | None = None
    """Documents that it can search, e.g. `agentkit_py.knowledge.Knowledge`."""

    search_knowledge: bool = True
    """Whether it has the tool ``search_knowledge_base`` for that; one of that name in ``tools``
    takes its place."""

    knowledge_filters: KnowledgeFilters | None = None
    """What each search is confined to: filters, or functions of the state that give them."""

    enable_agentic_knowledge_filters: bool = False
    """Whether the model may narrow its searches with filters of its own."""

    filter_precedence: FilterPrecedence = "both"
    """``"user"``: where there are ``knowledge_filters``, the model's own are ignored."""

    tool_choice: ToolChoice = "auto"
    lifecycle: Lifecycle = NO_HOOKS
    model: Model | Callable[[AgentContext], Model | Awaitable[Model]] | None = None
    """A model, or a function of the context that chooses one at each turn (for pictures, for code,
    a cheap one); None: the model of the run or of the network."""

    allowed_tools: AllowedTools | None = None
    """Which of its tools are offered and may be called: names, or a function of the context that
    gives them before each inference; None: all."""

    history: HistoryConfig | None = None
    """Where its threads are kept when it runs by itself; its processors apply in networks too."""

    processors: Sequence[Processor] = ()
    """What changes the history before this agent's model sees it; after the network's."""

    max_iter: int = 0
    """Inferences in one turn at the most, each with the tools it asks for; 0 and 1 mean one."""

    stream_before_response: bool = False
    """Stream replies before `on_response` has seen them; otherwise such an agent's text waits."""

    parallel_tools: bool = False
    """Run the calls of one reply at the same time, each on its own fork of the state."""

    history_mode: HistoryMode = "chronological"
    """When it runs by itself; networks have their own."""

    token_counter: CustomTokenizer | None = None
    """How reports and limits count tokens; None: tiktoken's o200k_base, or an estimate."""

    tool_map: dict[str, Tool] = field(init=False, repr=False)
    """Its own tools by name; what servers have is known in a run only."""

    knowledge_search: KnowledgeSearch | None = field(init=False, repr=False)
    specs: tuple[ToolSpec, ...] = field(init=False, repr=False)
    chain: tuple[HistoryProcessor, ...] = field(init=False, repr=False)
    tokenizer: Tokenizer = field(init=False, repr=False)
    _open: list[AsyncExitStack] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what was given, and prepare what would otherwise be done for each message."""
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"An agent's name must be a non-empty string, got {self.name!r}"
            )
        check_agent(self)
        self.tool_map = _by_name(self.name, [as_tool(given) for given in self.tools])
        self.knowledge_search = search_of(self)
        if self.knowledge_search is not None:
            search = self.knowledge_search.tool
            self.tool_map.setdefault(search.name, search)
        check_sources(self.name, self.mcp_servers)
        self._open = []
        self._check_choice()
        check_allowed(self.name, self.allowed_tools, self.tool_map, self.mcp_servers)
        self.specs = tuple(tool.spec for tool in self.tool_map.values())
        self.chain = tuple(as_processor(processor) for processor in self.processors)
        self.tokenizer = (
            _DEFAULT if self.token_counter is None else as_tokenizer(self.token_counter)
        )

    def _check_choice(self) -> None:
        choice = self.tool_choice
        if choice not in ("auto", "any") and not self.may_have(choice):
            raise ConfigurationError(
                f"Agent {self.name!r}: tool_choice={self.tool_choice!r} names no tool of it "
                f"(auto, any, or one of {sorted(self.tool_map)})"
            )

    def may_have(self, tool: str) -> bool:
        """Whether it has a tool of this name, or one of its servers may have it."""
        return tool in self.tool_map or may_have(self.mcp_servers, tool)

    async def __aenter__(self) -> Self:
        """Connect its servers; without ``async with`` they connect when they are first needed.

        Raises:
            ToolSourceError: A server that is needed cannot be reached.
        """
        self._open.append(await opened(self.mcp_servers))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect its servers."""
        await self._open.pop().aclose()

    def with_model(self, model: Model) -> Agent:
        """The same agent with another model; everything else is kept."""
        return dataclasses.replace(self, model=model)

    def as_tool(self, **options: Unpack[AsToolOptions]) -> Tool:
        """This agent as a tool of others: each call is a run of its own.

        It has its own state and thread, sees nothing but the task, and gives back
        ``{ok, result, context_id, loops}``. It may use none of its tools unless they are given.
        Its model calls count for the limits of the run it is called in.

        Args:
            options: See `AsToolOptions`.

        Raises:
            ConfigurationError: An option is not known, or a tool that is allowed is not there.
        """
        rights = options.get("allowed_tools", ())
        allowed = self.allowed_tools
        if rights != "own":
            allowed = names_of(self.name, rights, self.tool_map, self.mcp_servers)
        agent = dataclasses.replace(self, allowed_tools=allowed)

        async def run(scope: RunScope, call: NestedCall) -> tuple[str, str | None]:
            await scope.open([agent])
            how = AgentRun(
                scope.prefix,
                model=call.model,
                default_model=call.default_model,
                max_iter=call.max_iter,
                parent_run_id=call.parent_run_id,
            )
            result = await run_agent(scope, agent, how)
            return result.text, result.stop_reason

        return Nested(
            name=self.name,
            description=self.description,
            run=run,
            history=self.history,
            mode=self.history_mode,
        ).tool(options)

    async def run(
        self,
        input: str | UserMessage,  # noqa: A002 - TypeScript's name
        **options: Unpack[AgentOptions],
    ) -> AgentResult:
        """Run the agent by itself.

        Args:
            input: What the user says.
            options: See `AgentOptions`.

        Returns:
            The result of the last inference; all results are in the state.

        Raises:
            MissingModelError: There is no model.
            ModelError: A model call failed for good.
            HistoryError: The thread could not be loaded or saved.
        """
        return await self._run(input, options, tokens=False)

    def run_sync(
        self,
        input: str | UserMessage,  # noqa: A002 - TypeScript's name
        **options: Unpack[AgentOptions],
    ) -> AgentResult:
        """`run` for scripts without an event loop.

        Raises:
            ConfigurationError: An event loop is running here; await `run` instead.
        """
        return run_to_end(lambda: self._run(input, options, tokens=False))

    def stream(
        self,
        input: str | UserMessage,  # noqa: A002 - TypeScript's name
        **options: Unpack[AgentOptions],
    ) -> RunStream[AgentResult]:
        """`run` as an async iterator over its events, replies piece by piece among them."""

        def begin(observer: Observer) -> Awaitable[AgentResult]:
            seen = watched(options.get("observer"), observer)
            return self._run(input, {**options, "observer": seen}, tokens=True)

        return RunStream(begin)

    async def _run(
        self, given: str | UserMessage, options: AgentOptions, *, tokens: bool
    ) -> AgentResult:
        scope = new_scope(
            self.name, given, options, history=self.history, mode=self.history_mode, tokens=tokens
        )
        how = AgentRun(scope.prefix, options.get("model"), max_iter=options.get("max_iter"))
        if how.model is None and self.model is None:
            raise MissingModelError(self.name)  # before a thread is made for nothing
        await scope.open([self])
        if scope.thread.outcome is not None:
            return scope.earlier_result()
        try:
            result = await run_agent(scope, self, how)
            if scope.thread.config is not None:
                await scope.thread.end(stop_reason=result.stop_reason)
            return result
        except CancelledError as error:
            await scope.settle(error)
            raise
        except Exception as error:
            await scope.settle(error)
            scope.raise_outward(error)
            raise

    async def is_enabled(self, scope: RunScope) -> bool:
        """Whether its lifecycle lets it run now."""
        hook = self.lifecycle.enabled
        return hook is None or bool(await resolve(hook(self._context(scope))))

    async def tools_now(
        self, scope: RunScope, step_id: str = "explain.tools"
    ) -> Mapping[str, Tool]:
        """The tools, by name, that are offered and may be called now.

        Args:
            scope: The run.
            step_id: The step in which its servers are asked what they have.

        Raises:
            ToolSourceError: A server that is needed cannot be reached.
        """
        tools: Mapping[str, Tool] = self.tool_map
        if self.mcp_servers:
            ask = partial(in_step, scope.runtime, step_id, scope.changes)
            tools = await scope.sources.tools(self.mcp_servers, self.tool_map, ask)
        if self.allowed_tools is None:
            return tools
        return await allowed_now(self, tools, self._context(scope))

    async def model_now(self, scope: RunScope) -> Model | None:
        """The model that it has for this turn.

        Raises:
            ConfigurationError: A function gave something that is no model.
        """
        if self.model is None or isinstance(self.model, Model):
            return self.model
        chosen = await resolve(self.model(self._context(scope)))
        if not isinstance(chosen, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"Agent {self.name!r}: its model function returned {chosen!r:.80}, no Model"
            )
        return chosen

    async def system_prompt(self, scope: RunScope) -> str:
        """The system prompt for the next inference."""
        system = self.system
        if isinstance(system, str):
            return system
        arguments = (self._context(scope),) if _takes_context(system) else ()
        return await resolve(system(*arguments))

    def _context(self, scope: RunScope) -> AgentContext:
        return AgentContext(agent=self, network=scope.network, state=scope.state)


@dataclass(eq=False, kw_only=True)
class RoutingAgent(Agent):
    """An agent whose answer says which agents are next; its lifecycle needs `on_route`."""

    def __post_init__(self) -> None:
        """Check that it can route."""
        super().__post_init__()
        if self.lifecycle.on_route is None:
            raise ConfigurationError(
                f"Routing agent {self.name!r} needs lifecycle=Lifecycle(on_route=…)"
            )

    async def route(self, scope: RunScope, result: AgentResult) -> Sequence[str]:
        """Names of the agents that are next."""
        hook = self.lifecycle.on_route
        assert hook is not None
        context = ResultContext(agent=self, network=scope.network, state=scope.state, result=result)
        return await resolve(hook(context)) or ()


def _takes_context(function: Callable[..., Any]) -> bool:
    # An optional parameter is the function's own (`lambda name=name: …`), unless it says otherwise.
    return any(
        p.name == "context" or (p.default is p.empty and p.kind is not p.VAR_KEYWORD)
        for p in inspect.signature(function).parameters.values()
    )


def _by_name(agent: str, tools: Sequence[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in found:
            raise ConfigurationError(f"Agent {agent!r} has two tools called {tool.name!r}")
        found[tool.name] = tool
    return found


_DEFAULT = default_tokenizer()


create_agent = Agent
create_routing_agent = RoutingAgent
