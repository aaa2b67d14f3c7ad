"""Agents: a system prompt, tools and a model, and the loop that runs them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Unpack

from agentkit_py._core.awaiting import resolve
from agentkit_py.engine.lifecycle import AgentContext, Lifecycle, ResultContext
from agentkit_py.engine.options import RunOptions, new_scope
from agentkit_py.engine.prompt import HistoryMode
from agentkit_py.engine.scope import RunScope
from agentkit_py.engine.stream import RunStream, watched
from agentkit_py.engine.sync import run_to_end
from agentkit_py.engine.tool import Tool, ToolLike, as_tool
from agentkit_py.engine.tool_calls import calls_of
from agentkit_py.engine.turn import Turn
from agentkit_py.errors import ConfigurationError, MissingModelError
from agentkit_py.events.types import Observer, RunCompleted, RunFailed, RunStarted
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.result import AgentResult
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model, ToolChoice, ToolSpec
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Processor, Tokenizer
from agentkit_py.processors.tokenizers import CustomTokenizer, as_tokenizer, default_tokenizer

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

    tool_choice: ToolChoice = "auto"
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    model: Model | None = None
    """None: the model of the run or of the network."""

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
    """The tools by name."""

    specs: tuple[ToolSpec, ...] = field(init=False, repr=False)
    chain: tuple[HistoryProcessor, ...] = field(init=False, repr=False)
    tokenizer: Tokenizer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what was given, and prepare what would otherwise be done for each message."""
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"An agent's name must be a non-empty string, got {self.name!r}"
            )
        if self.max_iter < 0:
            raise ConfigurationError(
                f"Agent {self.name!r}: max_iter must be 0 or more, got {self.max_iter}"
            )
        self.tool_map = _by_name(self.name, [as_tool(given) for given in self.tools])
        self._check_choice()
        self.specs = tuple(tool.spec for tool in self.tool_map.values())
        self.chain = tuple(as_processor(processor) for processor in self.processors)
        self.tokenizer = (
            _DEFAULT if self.token_counter is None else as_tokenizer(self.token_counter)
        )

    def _check_choice(self) -> None:
        if self.tool_choice not in ("auto", "any") and self.tool_choice not in self.tool_map:
            raise ConfigurationError(
                f"Agent {self.name!r}: tool_choice={self.tool_choice!r} names no tool of it "
                f"(auto, any, or one of {sorted(self.tool_map)})"
            )

    def with_model(self, model: Model) -> Agent:
        """The same agent with another model; everything else is kept."""
        return dataclasses.replace(self, model=model)

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
        how = AgentRun(scope.prefix, model=options.get("model"), max_iter=options.get("max_iter"))
        await scope.open()
        try:
            return await run_agent(scope, self, how)
        except Exception as error:
            await scope.settle(error)
            scope.raise_outward(error)
            raise

    async def is_enabled(self, scope: RunScope) -> bool:
        """Whether its lifecycle lets it run now."""
        hook = self.lifecycle.enabled
        return hook is None or bool(await resolve(hook(self._context(scope))))

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


@dataclass(frozen=True, slots=True)
class AgentRun:
    """How one agent is run in a scope."""

    path: str
    """Step id prefix, unique in the scope."""

    model: Model | None = None
    """Overrides the agent's."""

    default_model: Model | None = None
    """Where neither the run nor the agent has one."""

    max_iter: int | None = None
    parent_run_id: str | None = None
    keep: bool = True
    """Whether results go to the state; those of routing agents do not."""


async def run_agent(scope: RunScope, agent: Agent, how: AgentRun) -> AgentResult:
    """One agent's turn with its events; returns the last result, all are in the state."""
    model = how.model or agent.model or how.default_model
    if model is None:
        raise MissingModelError(agent.name)
    turn = Turn(
        scope=scope,
        agent=agent,
        model=model,
        run_id=scope.runtime.new_id(f"{how.path}/run"),
        message_id=scope.runtime.new_id(f"{how.path}/message"),
        path=how.path,
    )
    facts: dict[str, Any] = {
        "run_id": turn.run_id,
        "name": agent.name,
        "scope": "agent",
        "message_id": turn.message_id,
    }
    started = RunStarted(
        **facts,
        parent_run_id=how.parent_run_id,
        thread_id=scope.state.thread_id,
        user_id=scope.user_id,
        routing=not how.keep,
    )
    await scope.emitter.emit(started)
    try:
        result = await _take_turn(turn, how)
        if scope.network is None:
            await scope.thread.save_results()
    except Exception as error:
        if scope.runtime.is_final(error):
            await scope.emitter.emit(RunFailed(**facts, error=error))
        raise
    await scope.emitter.emit(RunCompleted(**facts, stop_reason=result.stop_reason))
    return result


async def _take_turn(turn: Turn, how: AgentRun) -> AgentResult:
    scope, agent = turn.scope, turn.agent
    limit = max(1, how.max_iter if how.max_iter is not None else agent.max_iter)
    reached = _limit_reached(scope, f"{turn.path}.0")
    if reached is not None:
        return await _stopped(turn, how, reached)
    last: AgentResult | None = None
    for iteration in range(limit):
        result = await turn.infer(iteration)
        if result is None:  # `on_start` stopped the turn before this inference
            break
        wants_more = bool(calls_of(result.output))
        reason = _stop_reason(scope, turn.path, iteration, limit) if wants_more else None
        if reason is not None or not wants_more:
            result = dataclasses.replace(await turn.finish(result), stop_reason=reason)
        last = result
        if how.keep:
            await scope.add(result)
        if reason is not None or not wants_more:
            return result
    return last or await _stopped(turn, how, "on_start")


async def _stopped(turn: Turn, how: AgentRun, reason: str) -> AgentResult:
    blank = turn.blank(reason)
    if how.keep and turn.scope.network is not None:
        await turn.scope.add(blank)
    return blank


def _stop_reason(scope: RunScope, path: str, iteration: int, limit: int) -> str | None:
    if iteration + 1 >= limit:
        return "max_iter"
    return _limit_reached(scope, f"{path}.{iteration}.after")


def _limit_reached(scope: RunScope, key: str) -> str | None:
    return scope.meter.reached(lambda: scope.runtime.now(f"{key}/limit"))


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
