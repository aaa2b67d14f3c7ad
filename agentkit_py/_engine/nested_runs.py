"""Nested runs: agents and networks as tools of agents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit_py._core.json import JsonObject
from agentkit_py._core.secrets import without_secrets
from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.validation import slugify
from agentkit_py._engine.agent_spec import AgentSpec, ModelChoice, chosen_model
from agentkit_py._engine.approvals import CallDesk
from agentkit_py._engine.driver import RunPlan, drive
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.run_options import as_state
from agentkit_py._engine.tool_handlers import Watched
from agentkit_py._engine.tool_sources import ToolSource, may_have
from agentkit_py.errors import ConfigurationError, NestingError, is_control_error
from agentkit_py.history.config import HistoryConfig
from agentkit_py.state import State
from agentkit_py.tools.definition import Tool, ToolContext, create_tool
from agentkit_py.tools.nested import AsToolOptions, Rights

if TYPE_CHECKING:
    from pydantic import BaseModel

logger: logging.Logger = get_logger("agentkit_py")

MAX_LOOPS = 10
"""The default limit of inferences (of a network: agent turns) of a call."""

MAX_DEPTH = 3
"""The default limit of the nesting depth of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedCall:
    """Options of a nested run, from the call it answers."""

    max_iter: int
    parent_run_id: str
    model: ModelChoice
    default_model: ModelChoice
    """The calling agent's, where the nested run has none."""


PlanNested: TypeAlias = Callable[[NestedCall, HistoryConfig | None], RunPlan[Any]]
"""Returns the plan of a nested run with that store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """An agent or network as a tool."""

    name: str
    description: str
    plan: PlanNested
    history: HistoryConfig | None

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
            description="The task, with everything needed for it: the rest of this conversation "
            "is not passed on."
        )

    return NestedTask


def runs_agents(tool: Tool) -> bool:
    """Return whether a tool is an agent or a network, whose own tools are not known here."""
    handler: object = tool.handler
    return getattr(handler, "func", None) is _invoke


async def _invoke(nested: Nested, options: AsToolOptions, given: Any, ctx: ToolContext) -> Any:
    desk = ctx.services
    assert isinstance(desk, CallDesk)
    parent, caller = desk.run, desk.turn.agent
    depth, most = parent.nesting.depth + 1, options.get("max_depth", MAX_DEPTH)
    if depth > most:
        raise NestingError(nested.name, depth=depth, most=most)
    call = NestedCall(
        max_iter=options.get("max_iter", MAX_LOOPS),
        parent_run_id=desk.turn.run_id,
        model=options.get("model"),
        default_model=await _default_model(parent, caller),
    )
    plan = nested.plan(call, options.get("history", nested.history))
    inherited = parent.choices.chains_of(caller) if options.get("inherit") else ()
    run = parent.nested(
        plan.setup,
        given.task,
        _state_of(options),
        outer_call=desk.steps.open_call,
        inherited=[(level, chain) for level, chain in inherited if level != "agent"],
    )
    run.state.nest(run.nesting.context_id, run.nesting.parent_context)
    try:
        body = plan.body(run)
        await Watched("", drive(body))  # its work is not the calling tool's
    except Exception as error:
        if is_control_error(error):
            raise
        desk.note_error(error)  # logged with the call, and kept on its result
        return _answer(run, f"{type(error).__name__}: {without_secrets(str(error))}", ok=False)
    text, limit = body.answer()
    stopped = f"It was stopped: {limit}."
    return _answer(run, text if limit is None else f"{text}\n{stopped}".strip(), ok=limit is None)


async def _default_model(parent: RunContext, caller: AgentSpec) -> ModelChoice:
    """Return the model of a nested run whose agents have none: that of the agent that calls it."""
    if caller.model is not None:
        where = f"Agent {caller.name!r}"
        return await chosen_model(caller.model, parent.context_of(caller), where)
    network = parent.choices.network
    return None if network is None else network.model or network.default_model


def _state_of(options: AsToolOptions) -> State[Any]:
    make_state = options.get("state")
    return State() if make_state is None else as_state(make_state())


def _answer(run: RunContext, text: str, *, ok: bool) -> JsonObject:
    loops = run.state.result_count
    return {"ok": ok, "result": text, "context_id": run.nesting.context_id, "loops": loops}


@lru_cache(maxsize=1000)
def _say_unused_tools(owner: str) -> None:
    logger.warning(
        "%r as a tool may use none of its own tools: pass as_tool(allowed_tools=[…]) with their "
        'names, "own" for all, or [] where none is meant',
        owner,
    )


def names_of(
    owner: str, rights: Rights | None, known: Collection[str], sources: Sequence[ToolSource] = ()
) -> frozenset[str]:
    """Return the names of tools that are given; warn once of an owner that is given none.

    Raises:
        ConfigurationError: An item is not a tool there.
    """
    if isinstance(rights, str):
        raise ConfigurationError(
            f'as_tool(allowed_tools={rights!r}): pass a list of names, or "own" for all'
        )
    if rights is None:
        if known or sources:
            _say_unused_tools(owner)
        return frozenset()
    missing = sorted(set(rights) - set(known))
    unknown = [name for name in missing if not may_have(sources, name)]
    if unknown:
        raise ConfigurationError(
            f"as_tool(): {owner!r} has no tool {unknown[0]!r} to allow "
            f"({', '.join(sorted(known)) or 'it has none'})"
        )
    return frozenset(rights)
