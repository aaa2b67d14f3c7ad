"""Nested runs: agents and networks as tools of agents."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from agentkit_py._core.json import JsonObject
from agentkit_py._core.secrets import without_secrets
from agentkit_py._core.validation import slugify
from agentkit_py._engine.agent_spec import ModelChoice, chosen_model
from agentkit_py._engine.approvals import CallDesk
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.run_context import Nesting, RunContext, begin_run
from agentkit_py._engine.tool import Tool, ToolContext, create_tool
from agentkit_py._engine.tool_sources import ToolSource, may_have
from agentkit_py.errors import ConfigurationError, NestingError, is_control_error
from agentkit_py.history.config import HistoryConfig
from agentkit_py.processors.redaction import Redactor
from agentkit_py.state import State

if TYPE_CHECKING:
    from pydantic import BaseModel

Rights: TypeAlias = Collection[str] | Literal["own"]
"""Names of tools, or ``"own"``: all that it would have by itself."""

MAX_LOOPS = 10
"""The default limit of inferences (of a network: agent turns) of one call."""

MAX_DEPTH = 3
"""The default limit of the nesting depth of runs."""


class AsToolOptions(TypedDict, total=False):
    """Options of an agent or a network as a tool; all may be left out."""

    name: str
    """The tool's name; made of the agent's or network's unless given."""

    description: str
    """Describes to the model when to use it; the agent's or network's unless given."""

    allowed_tools: Rights
    """The tools of its own that it may use in such a run; none unless given."""

    max_iter: int
    """Inferences of one call (of a network: agent turns) at the most; 10 unless given."""

    max_depth: int
    """The limit of the nesting depth of such runs, the outermost being 0; 3 unless given."""

    state: Callable[[], State[Any]]
    """Makes the state of each call; an empty one unless given."""

    history: HistoryConfig | None
    """The store of its threads; its own history unless given."""

    model: ModelChoice
    """Another model than its own."""

    inherit: bool
    """True: processors of the run it is called in (its history's, its network's, and those given to
    it) apply in it, too, before its own; not those of the calling agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedCall:
    """Options of a nested run, from the call it answers."""

    max_iter: int
    parent_run_id: str
    model: ModelChoice
    default_model: ModelChoice
    """The calling agent's, where the nested one has none."""


RunNested: TypeAlias = Callable[[RunContext, NestedCall], Awaitable[tuple[str, str | None]]]
"""Carries a nested run out; returns its text, and the limit that ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """An agent or network as a tool."""

    name: str
    description: str
    run: RunNested
    history: HistoryConfig | None
    mode: HistoryMode
    masks: Sequence[Redactor] = ()

    def tool(self, options: AsToolOptions) -> Tool:
        """Return the tool.

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
        if not isinstance(options.get("inherit", False), bool):
            raise ConfigurationError(
                f"as_tool(inherit={options.get('inherit')!r:.80}): True or False"
            )
        return create_tool(
            name=options.get("name") or slugify(self.name).replace("-", "_"),
            description=options.get("description", self.description),
            parameters=_task_model(),
            handler=partial(_invoke, self, options),
            steps=True,
        )


@cache
def _task_model() -> type[BaseModel]:
    from pydantic import BaseModel, Field  # noqa: PLC0415 - slow to load

    class NestedTask(BaseModel):  # without a docstring: models would read it
        task: str = Field(
            description="What is to be done, with all that is needed for it: nothing else of this "
            "conversation is known there."
        )

    return NestedTask


async def _invoke(nested: Nested, options: AsToolOptions, given: Any, ctx: ToolContext) -> Any:
    desk = ctx.services
    assert isinstance(desk, CallDesk)
    parent = desk.run
    depth, most = parent.nesting.depth + 1, options.get("max_depth", MAX_DEPTH)
    if depth > most:
        raise NestingError(nested.name, depth=depth, most=most)
    run = _begin(nested, options, given.task, parent)
    run.outer_call = desk.steps.open_call
    caller, network = desk.turn.agent, parent.network_spec
    if options.get("inherit"):
        levels = parent.chains_of(caller)
        run.inherited = [(level, chain) for level, chain in levels if level != "agent"]
    shared = None if network is None else network.model or network.default_model
    call = NestedCall(
        max_iter=options.get("max_iter", MAX_LOOPS),
        parent_run_id=desk.turn.run_id,
        model=options.get("model"),
        default_model=shared
        if caller.model is None
        else await chosen_model(caller.model, parent.context_of(caller), f"Agent {caller.name!r}"),
    )
    try:
        text, limit = await nested.run(run, call)
    except CancelledError as error:
        await run.finalize(error)
        raise
    except Exception as error:
        await run.finalize(error)
        if is_control_error(error):
            raise
        desk.error = error  # logged with the call, and kept on its result
        return _answer(run, f"{type(error).__name__}: {without_secrets(str(error))}", ok=False)
    stopped = f"It was stopped: {limit}."
    return _answer(run, text if limit is None else f"{text}\n{stopped}".strip(), ok=limit is None)


def _begin(nested: Nested, options: AsToolOptions, task: str, parent: RunContext) -> RunContext:
    """Return a nested run's context: state and thread are new, limits and people the parent's."""
    make_state = options.get("state")
    state: State[Any] = State() if make_state is None else make_state()
    run = begin_run(
        nested.name,
        task,
        {"state": state, "approver": parent.approver, "runtime": parent.runtime},
        history=options.get("history", nested.history),
        mode=nested.mode,
        masks=nested.masks,
        nested_in=parent,
    )
    run.meter = parent.meter
    run.thread.outer_lease = parent.thread.lease or parent.thread.outer_lease
    run.thread.outer_thread = parent.thread
    identity = parent.runtime.new_id(f"{run.prefix}/context").replace("-", "")
    run.nesting = Nesting(
        parent.nesting.depth + 1, f"subagent-{identity[:16]}", parent.nesting.context_id
    )
    run.state.thread_id = run.state.context_id = run.nesting.context_id
    run.state.parent_context = run.nesting.parent_context
    data: Any = run.state.data
    if isinstance(data, dict):
        place = {"context_id": run.nesting.context_id, "parent_context": run.nesting.parent_context}
        cast("dict[str, Any]", data).update(place)
    return run


def _answer(run: RunContext, text: str, *, ok: bool) -> JsonObject:
    loops = run.state.result_count
    return {"ok": ok, "result": text, "context_id": run.nesting.context_id, "loops": loops}


def names_of(
    owner: str, rights: Rights, known: Collection[str], sources: Sequence[ToolSource] = ()
) -> frozenset[str]:
    """Return the names of tools that are given.

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
