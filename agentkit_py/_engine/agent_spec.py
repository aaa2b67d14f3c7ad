"""AgentSpec: an agent as it is in one run, resolved when the run begins."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.knowledge import KnowledgeSearch
from agentkit_py._engine.lifecycle import AgentContext, Lifecycle
from agentkit_py._engine.network_run import AgentLike
from agentkit_py._engine.tool import Tool
from agentkit_py._engine.tool_sources import AllowedTools, ToolSource, allowed_names, may_have
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.models.base import Model, ToolChoice, ToolSpec
from agentkit_py.processors.base import HistoryProcessor, Tokenizer

System: TypeAlias = (
    str | Callable[[], str | Awaitable[str]] | Callable[[AgentContext], str | Awaitable[str]]
)
"""A system prompt, or a function that gives one at every inference, with or without context."""

ModelChoice: TypeAlias = Model | Callable[[AgentContext], Model | Awaitable[Model]] | None
"""A model, a function of the context that chooses one, or None: the run's or the network's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent in one run. What is assigned to the agent later counts from the next run on."""

    agent: AgentLike
    name: str
    system: System
    assistant: str
    lifecycle: Lifecycle
    model: ModelChoice
    tools: Mapping[str, Tool]
    """Its own tools by name; what its servers have is found out when it runs."""

    servers: Sequence[ToolSource]
    allowed_tools: AllowedTools | None
    tool_choice: ToolChoice
    knowledge: KnowledgeSearch | None
    chain: Sequence[HistoryProcessor]
    history: HistoryConfig | None
    tokenizer: Tokenizer
    max_iter: int
    parallel_tools: bool
    stream_before_response: bool

    @property
    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """Definitions of its own tools, for models and routers."""
        return tuple([tool.spec for tool in self.tools.values()])

    def may_have(self, tool: str) -> bool:
        """Return whether it has a tool of this name, or one of its servers may have it."""
        return tool in self.tools or may_have(self.servers, tool)

    async def system_prompt(self, context: AgentContext) -> str:
        """Return the system prompt of the next inference."""
        system: Any = self.system
        if isinstance(system, str):
            return system
        return await resolve(system(context) if _takes_context(system) else system())

    async def choose_model(self, context: AgentContext) -> Model | None:
        """Return the agent's own model for this turn.

        Raises:
            ConfigurationError: A function returned something that is no model.
        """
        if self.model is None or isinstance(self.model, Model):
            return self.model
        chosen = await resolve(self.model(context))
        if not isinstance(chosen, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"Agent {self.name!r}: its model function returned {chosen!r:.80}, no Model"
            )
        return chosen

    async def is_enabled(self, context: AgentContext) -> bool:
        """Return whether its lifecycle lets it run now."""
        hook = self.lifecycle.enabled
        return hook is None or bool(await resolve(hook(context)))

    async def allowed(self, tools: Mapping[str, Tool], context: AgentContext) -> Mapping[str, Tool]:
        """Return those of ``tools`` that are offered to the model now, and may be called.

        Names that are no tools of the agent are left out: a state may know of more.

        Raises:
            ConfigurationError: The function gave something that is no list of names.
        """
        rights: Any = self.allowed_tools
        if callable(rights):
            rights = await resolve(rights(context))
        if rights is None:
            return tools
        names = allowed_names(self.name, rights)
        return {name: tool for name, tool in tools.items() if name in names}


def _takes_context(function: Callable[..., Any]) -> bool:
    # An optional parameter is the function's own (`lambda name=name: …`), unless it says otherwise.
    return any(
        p.name == "context" or (p.default is p.empty and p.kind is not p.VAR_KEYWORD)
        for p in inspect.signature(function).parameters.values()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """A network in one run, resolved when the run begins."""

    name: str
    model: Model | None
    """Overrides the agents' models in this run."""

    default_model: Model | None
    max_iter: int | None
    """Agent turns at the most; 0 or None: no limit."""

    history: HistoryConfig | None
    chain: Sequence[HistoryProcessor]


@dataclass(frozen=True, slots=True)
class Turn:
    """One agent's turn in a run: what stays the same over its inferences."""

    agent: AgentSpec
    model: Model
    path: str
    """Step id prefix of this turn."""

    run_id: str
    message_id: str

    @property
    def facts(self) -> dict[str, Any]:
        """The fields that all events of the turn have."""
        return {"run_id": self.run_id, "name": self.agent.name, "message_id": self.message_id}
