"""Agents: a system prompt, tools and a model, and the loop that runs them."""

from __future__ import annotations

import dataclasses
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, ClassVar, ParamSpec, Unpack

from agentkit_py._engine.agent_loop import TurnOptions, run_agent, warn_of_unread_results
from agentkit_py._engine.agent_spec import AgentSpec, System
from agentkit_py._engine.checks import HISTORY, MODEL, expect, expect_count, expect_list
from agentkit_py._engine.knowledge import (
    FilterPrecedence,
    KnowledgeBase,
    KnowledgeFilters,
    KnowledgeSearch,
)
from agentkit_py._engine.lifecycle import NO_HOOKS, AgentContext, Lifecycle
from agentkit_py._engine.nested_runs import AsToolOptions, Nested, NestedCall, names_of
from agentkit_py._engine.network_run import AgentLike
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.run_context import RunContext, RunOptions, begin_run
from agentkit_py._engine.tool import Tool, ToolLike, as_tool
from agentkit_py._engine.tool_sources import (
    AllowedTools,
    ToolSource,
    check_allowed,
    check_sources,
    may_have,
)
from agentkit_py.errors import ConfigurationError, MissingModelError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model, ToolChoice, ToolSpec
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Processor, Tokenizer
from agentkit_py.processors.tokenizers import CustomTokenizer, as_tokenizer, default_tokenizer
from agentkit_py.results import AgentResult
from agentkit_py.runs import Runnable

P = ParamSpec("P")


@dataclass(eq=False, kw_only=True)
class Agent(AgentLike, Runnable[AgentResult]):
    """An agent: who it is, what it can do, and what it may see.

    An agent is configuration: it holds nothing of a run, and may run in many at the same time. What
    is assigned or appended to it counts from the next run on.
    """

    name: str
    """Unique within a network; routers and histories call the agent by it."""

    system: System
    """The system prompt, or a function of the context that gives it."""

    description: str = ""
    """The agent's purpose, as routing agents read it."""

    assistant: str = ""
    """The beginning of each answer (prefill)."""

    tools: Sequence[ToolLike] = ()
    """The tools it can call; bare functions are tools, too."""

    mcp_servers: Sequence[ToolSource] = ()
    """Servers whose tools it can call, too; see `agentkit_py.mcp.MCPServer`."""

    knowledge: KnowledgeBase | None = None
    """Documents that it can search, e.g. `agentkit_py.knowledge.Knowledge`."""

    search_knowledge: bool = True
    """Add the tool ``search_knowledge_base``; a tool of that name in ``tools`` replaces it."""

    knowledge_filters: KnowledgeFilters | None = None
    """Filters of every search, or functions of the state that return them."""

    enable_agentic_knowledge_filters: bool = False
    """Let the model narrow its searches with filters of its own."""

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
    """Processors of the history sent to this agent's model; they run after the network's."""

    max_iter: int = 10
    """Inferences in one turn at the most, each with the tools it asks for; 0 and 1 mean one."""

    stream_before_response: bool = False
    """Stream replies before `on_response` has seen them; otherwise such an agent's text waits."""

    parallel_tools: bool = False
    """Run the calls of one reply at the same time, each on its own fork of the state."""

    history_mode: HistoryMode = "chronological"
    """The order of prompt and history in a run by itself; networks have their own setting."""

    token_counter: CustomTokenizer | None = None
    """Counts tokens for reports and limits; None: tiktoken's o200k_base, or an estimate."""

    _opened: list[AsyncExitStack] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what was given."""
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"An agent's name must be a non-empty string, got {self.name!r}"
            )
        self._opened = []
        self.resolve()

    @property
    def tool_map(self) -> dict[str, Tool]:
        """Its own tools by name; what its servers have is found out in a run only."""
        found: dict[str, Tool] = {}
        for tool in map(as_tool, self.tools):
            if tool.name in found:
                raise ConfigurationError(f"Agent {self.name!r} has two tools called {tool.name!r}")
            found[tool.name] = tool
        return found

    @property
    def chain(self) -> tuple[HistoryProcessor, ...]:
        """Its processors, functions among them made processors."""
        return tuple(as_processor(processor) for processor in self.processors)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Definitions of its own tools, for models and routers."""
        return self.resolve().tool_specs

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of reports and limits."""
        counter = self.token_counter
        return _DEFAULT_TOKENIZER if counter is None else as_tokenizer(counter)

    def may_have(self, tool: str) -> bool:
        """Return whether it has a tool of this name, or one of its servers may have it."""
        return tool in self.resolve().tools or may_have(self.mcp_servers, tool)

    def resolve(self) -> AgentSpec:
        """Return the agent as it is now, ready to run.

        Raises:
            ConfigurationError: It cannot run like this.
        """
        self._check_kinds()
        tools, search = self.tool_map, self._knowledge_search()
        if search is not None:
            tools.setdefault(search.tool.name, search.tool)
        check_sources(self.name, self.mcp_servers)
        check_allowed(self.name, self.allowed_tools, tools, self.mcp_servers)
        choice = self.tool_choice
        if choice not in ("auto", "any", *tools) and not may_have(self.mcp_servers, choice):
            raise ConfigurationError(
                f"Agent {self.name!r}: tool_choice={choice!r} names no tool of it "
                f"(auto, any, or one of {sorted(tools)})"
            )
        return AgentSpec(
            agent=self,
            name=self.name,
            system=self.system,
            assistant=self.assistant,
            lifecycle=self.lifecycle,
            model=self.model,
            tools=tools,
            servers=tuple(self.mcp_servers),
            allowed_tools=self.allowed_tools,
            tool_choice=choice,
            knowledge=search,
            chain=self.chain,
            history=self.history,
            tokenizer=self.tokenizer,
            max_iter=self.max_iter,
            parallel_tools=self.parallel_tools,
            stream_before_response=self.stream_before_response,
        )

    def _check_kinds(self) -> None:
        where = f"Agent {self.name!r}"
        if not isinstance(self.system, str) and not callable(self.system):
            raise ConfigurationError(
                f"{where}: system must be a text or a function that gives one, "
                f"got {self.system!r:.80}"
            )
        if not isinstance(self.model, Model) and not callable(self.model):
            expect(where, "model", self.model, Model, MODEL)
        expect(where, "history", self.history, HistoryConfig, HISTORY)
        expect(where, "lifecycle", self.lifecycle, Lifecycle, "a Lifecycle(…)")
        expect_list(where, "tools", self.tools)
        expect_list(where, "processors", self.processors)
        expect_count(where, "max_iter", self.max_iter)

    def _knowledge_search(self) -> KnowledgeSearch | None:
        filters = self.knowledge_filters
        if self.knowledge is None:
            if filters is not None or self.enable_agentic_knowledge_filters:
                raise ConfigurationError(
                    f"Agent {self.name!r} has knowledge filters, but no knowledge=… to search"
                )
            return None
        if not self.search_knowledge:
            return None
        return self.knowledge.search_for(
            filters=filters,
            agentic=self.enable_agentic_knowledge_filters,
            precedence=self.filter_precedence,
        )

    def with_model(self, model: Model) -> Agent:
        """Return the agent with another model; everything else is kept."""
        return dataclasses.replace(self, model=model)

    def as_tool(self, **options: Unpack[AsToolOptions]) -> Tool:
        """Return this agent as a tool of others: each call is a run of its own.

        It has its own state and thread, sees nothing but the task, and gives back
        ``{ok, result, context_id, loops}``. It may use none of its tools unless they are given.
        Its model calls count for the limits of the run it is called in.

        Args:
            options: See `AsToolOptions`.

        Raises:
            ConfigurationError: An option is not known, or a tool that is allowed is not there.
        """
        rights, allowed = options.get("allowed_tools", ()), None
        if rights != "own":
            allowed = names_of(self.name, rights, self.resolve().tools, self.mcp_servers)

        async def run(context: RunContext, call: NestedCall) -> tuple[str, str | None]:
            agent = self if allowed is None else dataclasses.replace(self, allowed_tools=allowed)
            await context.open([agent])
            turn = TurnOptions(
                context.prefix,
                model=call.model,
                default_model=call.default_model,
                max_iter=call.max_iter,
                parent_run_id=call.parent_run_id,
            )
            result = await run_agent(context, context.spec_of(agent), turn)
            return result.text, result.stop_reason

        return Nested(
            name=self.name,
            description=self.description,
            run=run,
            history=self.history,
            mode=self.history_mode,
        ).tool(options)

    def _servers(self) -> Iterable[ToolSource]:
        return self.mcp_servers

    async def _run(
        self, given: str | UserMessage, options: RunOptions, *, tokens: bool
    ) -> AgentResult:
        context = begin_run(
            self.name, given, options, history=self.history, mode=self.history_mode, tokens=tokens
        )
        turn = TurnOptions(context.prefix, options.get("model"), max_iter=options.get("max_iter"))
        if turn.model is None and self.model is None:
            raise MissingModelError(self.name)  # before a thread is made for nothing
        await context.open([self])
        if context.thread.outcome is not None:
            return context.earlier_result()
        try:
            result = await run_agent(context, context.spec_of(self), turn)
            if context.thread.config is not None:
                await context.thread.end(stop_reason=result.stop_reason)
        except CancelledError as error:
            await context.finalize(error)
            raise
        except Exception as error:
            await context.finalize(error)
            context.raise_to_caller(error)
            raise
        warn_of_unread_results(result)
        return result


@dataclass(eq=False, kw_only=True)
class RoutingAgent(Agent):
    """An agent whose answer says which agents are next; its lifecycle needs `on_route`."""

    is_routing: ClassVar[bool] = True

    max_iter: int = 1
    """Inferences in one turn at the most: its answer is a call of a tool, mostly."""

    def __post_init__(self) -> None:
        """Check that it can route."""
        super().__post_init__()
        if self.lifecycle.on_route is None:
            raise ConfigurationError(
                f"Routing agent {self.name!r} needs lifecycle=Lifecycle(on_route=…)"
            )


_DEFAULT_TOKENIZER = default_tokenizer()


def _takes_arguments_of(
    kind: Callable[P, Agent],
) -> Callable[[Callable[..., Agent]], Callable[P, Agent]]:
    """Return a decorator that gives a function the signature of ``kind``."""

    def decorate(function: Callable[..., Agent]) -> Callable[P, Agent]:
        update_wrapper(function, kind, assigned=(), updated=())  # for `inspect.signature`
        return function

    return decorate


@_takes_arguments_of(Agent)
def create_agent(*args: Any, **options: Any) -> Agent:
    """Make an agent as TypeScript's ``createAgent`` does: ``max_iter`` is 1 unless given."""
    options.setdefault("max_iter", 1)
    return Agent(*args, **options)


create_routing_agent = RoutingAgent
"""Make a routing agent, under TypeScript's name."""
