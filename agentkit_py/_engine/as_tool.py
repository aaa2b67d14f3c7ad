"""Agents and networks as tools: a run of its own per task, of which only the answer comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from agentkit_py._core.json import JsonObject
from agentkit_py._core.naming import slugify
from agentkit_py._engine.emitter import Emitter
from agentkit_py._engine.options import new_scope
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.tool import Tool, ToolContext, create_tool
from agentkit_py._engine.tool_source import ToolSource, may_have
from agentkit_py.errors import ConfigurationError, NestingError, is_control_error
from agentkit_py.history.config import HistoryConfig
from agentkit_py.models.base import Model
from agentkit_py.results import USER
from agentkit_py.state import State

if TYPE_CHECKING:
    from agentkit_py._engine.nested_task import NestedTask
    from agentkit_py.agent import Agent

Rights: TypeAlias = Collection[str] | Literal["own"]
"""Names of tools, or ``"own"``: all that it would have by itself."""

MAX_LOOPS = 10
"""Inferences (of a network: agent turns) of one call where nobody says otherwise."""

MAX_DEPTH = 3
"""How deep runs may stand in runs where nobody says otherwise."""


class AsToolOptions(TypedDict, total=False):
    """How an agent or a network works as a tool; all may be left out."""

    name: str
    """The tool's name; made of the agent's or network's unless given."""

    description: str
    """Tells the model when to use it; the agent's or network's unless given."""

    allowed_tools: Rights
    """Which of its own tools it may use in such a run: none unless given."""

    max_iter: int
    """Inferences of one call (of a network: agent turns) at the most; 10 unless given."""

    max_depth: int
    """How deep such runs may stand in each other, the outermost run being 0; 3 unless given."""

    state: Callable[[], State[Any]]
    """Makes the state of each call; an empty one unless given."""

    history: HistoryConfig | None
    """Where its threads are kept; its own history unless given."""

    model: Model
    """Another model than its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedCall:
    """What a nested run is told by the call it answers."""

    max_iter: int
    parent_run_id: str
    model: Model | None
    default_model: Model | None
    """The calling agent's, where the nested one has none."""


RunNested: TypeAlias = Callable[[RunScope, NestedCall], Awaitable[tuple[str, str | None]]]
"""Runs in a scope; gives the text, and which limit ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """An agent or network that is to be a tool."""

    name: str
    description: str
    run: RunNested
    history: HistoryConfig | None
    mode: HistoryMode

    def tool(self, options: AsToolOptions) -> Tool:
        """The tool.

        Raises:
            ConfigurationError: An option is not known or makes no sense.
        """
        unknown = sorted(options.keys() - AsToolOptions.__optional_keys__)
        if unknown:
            known = ", ".join(sorted(AsToolOptions.__optional_keys__))
            raise ConfigurationError(f"as_tool() has no option {unknown[0]!r}; it has {known}")
        for option in ("max_iter", "max_depth"):
            if options.get(option, 1) < 1:
                raise ConfigurationError(f"as_tool({option}={options.get(option)!r}): at least 1")
        from agentkit_py._engine.nested_task import NestedTask  # noqa: PLC0415 - loads pydantic

        return create_tool(
            name=options.get("name") or slugify(self.name).replace("-", "_"),
            description=options.get("description", self.description),
            parameters=NestedTask,
            handler=partial(_invoke, self, options),
            steps=True,
        )


async def _invoke(
    nested: Nested, options: AsToolOptions, given: NestedTask, ctx: ToolContext
) -> Any:
    parent = ctx.asking.scope
    most = options.get("max_depth", MAX_DEPTH)
    if parent.depth + 1 > most:
        raise NestingError(nested.name, depth=parent.depth + 1, most=most)
    scope = _scope(nested, options, given.task, ctx)
    call = NestedCall(
        max_iter=options.get("max_iter", MAX_LOOPS),
        parent_run_id=ctx.asking.turn.run_id,
        model=options.get("model"),
        default_model=await _default_model(ctx.agent, parent),
    )
    try:
        text, limit = await nested.run(scope, call)
    except Exception as error:
        if is_control_error(error):
            raise
        await scope.settle(error)
        return _answer(scope, f"{type(error).__name__}: {error}", ok=False)
    stopped = f"It was stopped: {limit}."
    return _answer(scope, text if limit is None else f"{text}\n{stopped}".strip(), ok=limit is None)


def _scope(nested: Nested, options: AsToolOptions, task: str, ctx: ToolContext) -> RunScope:
    """The nested run's own scope: state and thread are new, limits and people are the parent's."""
    parent = ctx.asking.scope
    make_state = options.get("state")
    state: State[Any] = State() if make_state is None else make_state()
    scope = new_scope(
        nested.name,
        task,
        {"state": state, "approver": parent.approver, "runtime": parent.runtime},
        history=options.get("history", nested.history),
        mode=nested.mode,
    )
    scope.meter = parent.meter
    scope.spans = parent.spans
    scope.depth = parent.depth + 1
    scope.thread.lent = parent.thread.turn or parent.thread.lent
    scope.emitter = Emitter(parent.runtime, parent.emitter.observer)
    identity = parent.runtime.new_id(f"{scope.prefix}/context")
    scope.context_id = f"subagent-{identity.replace('-', '')[:16]}"
    scope.parent_context = parent.context_id
    scope.state.thread_id = scope.context_id
    data: Any = scope.state.data
    if isinstance(data, dict):
        who = {"context_id": scope.context_id, "parent_context": scope.parent_context}
        cast("dict[str, Any]", data).update(who)
    return scope


async def _default_model(agent: Agent, parent: RunScope) -> Model | None:
    own = await agent.model_now(parent)
    run = parent.network
    return own or (None if run is None else run.model or run.network.default_model)


def _answer(scope: RunScope, text: str, *, ok: bool) -> JsonObject:
    loops = sum(result.agent_name != USER for result in scope.state.results)
    return {"ok": ok, "result": text, "context_id": scope.context_id, "loops": loops}


def names_of(
    owner: str, rights: Rights, known: Collection[str], sources: Sequence[ToolSource] = ()
) -> frozenset[str]:
    """The names of tools that are given.

    Raises:
        ConfigurationError: One is no tool there.
    """
    if isinstance(rights, str):
        raise ConfigurationError(
            f'as_tool(allowed_tools={rights!r}): pass a list of names, or "own" for all'
        )
    missing = sorted(set(rights) - set(known))
    unknown = [name for name in missing if not may_have(sources, name)]
    if unknown:
        raise ConfigurationError(
            f"as_tool(): {owner!r} has no tool {unknown[0]!r} to allow "
            f"({', '.join(sorted(known)) or 'it has none'})"
        )
    return frozenset(rights)
