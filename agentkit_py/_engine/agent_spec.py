"""AgentSpec: an agent as it is in a run, resolved when the run begins."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.agent_tools import AgentTools
from agentkit_py._engine.handoffs import Handoff
from agentkit_py._engine.knowledge import KnowledgeFilters
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle.guardrails import NO_GUARDRAILS, GuardrailSpec
from agentkit_py.lifecycle.hooks import AgentContext, Lifecycle, ModelChoice
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.models.base import Model
from agentkit_py.models.compatible import model_named
from agentkit_py.output.types import OutputPlan, OutputSpec
from agentkit_py.processors.base import HistoryProcessor, Tokenizer
from agentkit_py.runtime.keys import bind_keys
from agentkit_py.state import StateT
from agentkit_py.tools.definition import Tool

System: TypeAlias = (
    str
    | Callable[[], str | Awaitable[str]]
    | Callable[[AgentContext[StateT]], str | Awaitable[str]]
)
"""A system prompt, or a function that returns it at every inference, with or without context."""

_MARKDOWN = """\
<additional_information>
- Use markdown to format your answers.
</additional_information>"""


def with_instructions(
    system: System[Any] | None, instructions: str | Sequence[str], *, markdown: bool
) -> System[Any]:
    """Return a system prompt with its suffix: instructions, and the request for markdown.

    Args:
        system: The prompt, or a function that gives it; None: there is none.
        instructions: A single text is unchanged, several become a list.
        markdown: Whether answers should be in markdown.
    """
    if not (instructions or markdown):
        return system or ""
    items = [instructions] if isinstance(instructions, str) else list(instructions)
    listed = "\n".join(f"- {one}" for one in items)
    after = (
        items if len(items) == 1 else [f"<instructions>\n{listed}\n</instructions>"] * bool(items)
    )
    if markdown:
        after = [*after, _MARKDOWN]
    if not callable(system):
        return "\n\n".join(filter(None, [system, *after]))
    if not after:
        return system
    given: Any = system

    @functools.wraps(given)  # it takes the same arguments
    async def composed(*context: AgentContext) -> str:
        return "\n\n".join(filter(None, [await resolve(given(*context)), *after]))

    return composed


PrefixMode: TypeAlias = Literal["auto", "shared", "own"]
"""The sharing of requests' beginnings by a network's agents; see `Network.prefix`."""


class ReplyStreaming(NamedTuple):
    """What users see of an agent's replies before these are whole."""

    before_response: bool = False
    """Pieces are emitted although a hook or a guardrail may replace the reply."""

    keep_cut: bool = True
    """Threads keep the shown parts of replies that were stopped or broke off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """An agent in a run. Later assignments to the agent count from the next run on."""

    agent: AgentLike
    name: str
    system: System[Any]
    assistant: str
    lifecycle: Lifecycle[Any]
    model: ModelChoice
    tools: AgentTools
    chain: Sequence[HistoryProcessor]
    history: HistoryConfig | None
    tokenizer: Tokenizer
    max_iter: int
    streaming: ReplyStreaming
    """What users see of replies before these are whole."""

    output: OutputSpec | None = None
    """The type of its outputs; None: text."""

    handoffs: Mapping[str, tuple[Handoff[Any], Tool]] = field(
        default_factory=dict[str, tuple[Handoff[Any], Tool]]
    )
    """Its handoffs and their tools, by the tools' names."""

    guardrails: GuardrailSpec = NO_GUARDRAILS

    def confined_to(self, filters: KnowledgeFilters) -> AgentSpec:
        """Return the agent with more filters on its knowledge; without knowledge, as it is.

        Raises:
            ConfigurationError: A filter is none.
        """
        return replace(self, tools=self.tools.confined_to(filters))

    def plan_output(self, model: Model) -> OutputPlan | None:
        """Return how a model is asked for the output.

        Raises:
            ConfigurationError: The model cannot be asked in the way that was chosen.
        """
        if self.output is None:
            return None
        has_tools = bool(self.tools or self.handoffs)
        return self.output.plan(model, has_tools=has_tools, prefill=bool(self.assistant))

    async def system_prompt(self, context: AgentContext) -> str:
        """Return the system prompt of the next inference.

        Raises:
            ConfigurationError: The function that gives it returned something else than a text.
        """
        system: Any = self.system
        if isinstance(system, str):
            return system
        found: object = await resolve(system(context) if _takes_context(system) else system())
        if not isinstance(found, str):
            raise ConfigurationError(
                f"Agent {self.name!r}: system must return a text, got {found!r:.80}"
            )
        return found

    async def is_enabled(self, context: AgentContext) -> bool:
        """Return whether its lifecycle lets it run now."""
        hook = self.lifecycle.enabled
        return hook is None or bool(await resolve(hook(context)))


async def chosen_model(choice: ModelChoice, context: AgentContext, where: str) -> Model:
    """Return the model that was given by itself, by name or by a function.

    Keys that are functions of the context are bound to it.

    Raises:
        ConfigurationError: A function returned a value that is not a model.
    """
    found: Any = choice
    if not isinstance(found, (Model, str)):
        found = await resolve(found(context))
    if isinstance(found, str):
        found = model_named(found)
    if not isinstance(found, Model):
        raise ConfigurationError(f"{where}: its model function returned {found!r:.80}, no Model")
    return bind_keys(found, context)


def _takes_context(function: Callable[..., Any]) -> bool:
    # An optional parameter is the function's own (`lambda name=name: …`), unless it says otherwise.
    return any(
        p.name == "context" or (p.default is p.empty and p.kind is not p.VAR_KEYWORD)
        for p in inspect.signature(function).parameters.values()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """A network in a run, resolved when the run begins."""

    name: str
    model: ModelChoice
    """Overrides the agents' models in this run."""

    default_model: ModelChoice
    max_iter: int | None
    """Agent turns at the most; 0 or None: no limit."""

    history: HistoryConfig | None
    isolation: Sequence[HistoryProcessor]
    """Processors that run before those of all levels."""

    chain: Sequence[HistoryProcessor]
    output: Any = None
    """Its own output: an agent, a function, or None."""

    output_type: Any = None

    prefix: PrefixMode = "own"
    guardrails: GuardrailSpec = NO_GUARDRAILS


class Turn(NamedTuple):
    """One agent's turn in a run: the constants of its inferences."""

    agent: AgentSpec
    model: Model
    path: str
    """Step id prefix of this turn."""

    run_id: str
    message_id: str
    output: OutputPlan | None = None
    """The way in which the model is asked for the agent's output."""

    shares_prefix: bool = False
    """Its requests begin as those of the network's other agents."""

    @property
    def facts(self) -> dict[str, Any]:
        """The fields that all events of the turn have."""
        return {"run_id": self.run_id, "name": self.agent.name, "message_id": self.message_id}

    @property
    def run_facts(self) -> dict[str, Any]:
        """The fields that events of the turn as a whole have."""
        return {**self.facts, "scope": "agent"}


class TurnOptions(NamedTuple):
    """Options of an agent's turn."""

    path: str
    """Step id prefix, unique in the run."""

    model: ModelChoice = None
    """Overrides the agent's."""

    default_model: ModelChoice = None
    """The model if neither the run nor the agent has a model."""

    max_iter: int | None = None
    """Another number of inferences than the agent's."""

    parent_run_id: str | None = None
    keep: bool = True
    """Add results to the transcript; False for routing agents."""
