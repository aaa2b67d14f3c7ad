"""Handoffs: tools by which an agent hands the conversation over, and the history to go along."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeAlias, cast

from typing_extensions import TypeVar

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import as_object, dumps
from agentkit_py._core.validation import TOOL_NAME, slugify
from agentkit_py._engine.option_checks import expect_count, expect_text, expect_type_form
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.lifecycle.network_run import AgentLike, HandedOver, HandoffHistory
from agentkit_py.messages import Message, TextMessage, ToolResultMessage
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext
from agentkit_py.results import AgentResult
from agentkit_py.tools.definition import Tool, ToolContext, create_tool

T = TypeVar("T", default=None)

LOOP = "handoff_loop"
"""The stop reason of a run whose agents hand over in circles."""


@dataclass(frozen=True, eq=False)
class Handoff(Generic[T]):
    """A tool by which an agent gives the conversation to another.

    The call ends the agent's turn, and the network continues with the other agent.
    """

    agent: AgentLike[Any] | str
    """The next agent, which joins the network, or the name of an agent that is in it."""

    input_type: type[T] | None = None
    """The type of the model's input to the handoff: the fields of an object are the tool's
    arguments, anything else is its argument ``input``; None: no input."""

    when: Callable[[AgentContext[Any]], bool | Awaitable[bool]] | None = None
    """Returns whether the model may hand over now; None: always."""

    on_handoff: Callable[[ToolContext[Any]], Any] | Callable[[ToolContext[Any], T], Any] | None = (
        None
    )
    """Called with the context, and with the input where there is an `input_type`, in a step: once
    in a durable run."""

    history: HandoffHistory = "whole"
    """The part of the history that the next agent sees; the report of its calls shows it."""

    name: str | None = None
    """The name of the tool; None: ``transfer_to_`` and the agent's name."""

    description: str | None = None
    """The tool's description; None: made of the agent's description."""

    max_repeats: int = 2
    """The most times that it may happen in a run; once more ends it with ``"handoff_loop"``."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ConfigurationError: It cannot be used.
        """
        agent, history = cast("object", self.agent), cast("object", self.history)
        if not isinstance(agent, str | AgentLike):
            raise ConfigurationError(
                f"A handoff names its target: an agent, or an agent's name; got {agent!r:.80}"
            )
        where, words = f"Handoff to {self.target!r}", ("whole", "summary", "brief")
        if not isinstance(history, HistoryProcessor) and history not in words:
            raise ConfigurationError(
                f"{where}: history must be 'whole', 'summary', 'brief' or a processor, got "
                f"{history!r:.80}"
            )
        expect_count(where, "max_repeats", self.max_repeats)
        expect_type_form(where, "input_type", self.input_type)
        expect_text(where, "name", self.name)
        expect_text(where, "description", self.description)
        if self.on_handoff is not None:
            given = ("ctx",) if self.input_type is None else ("ctx", "given")
            try:
                inspect.signature(self.on_handoff).bind(*given)
            except TypeError as error:
                kind = "no input_type" if self.input_type is None else "an input_type"
                raise ConfigurationError(
                    f"{where}: with {kind}, write def on_handoff({', '.join(given)}); {error}"
                ) from error

    @property
    def target(self) -> str:
        """The name of the next agent."""
        return self.agent if isinstance(self.agent, str) else self.agent.name

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return self.name or f"transfer_to_{slugify(self.target).replace('-', '_')}"[:64]

    @cached_property
    def gives_fields(self) -> bool:
        """True if the input is an object, whose fields are the tool's arguments."""
        return self.input_type is not None and _is_object(self.input_type)

    def tool(self) -> Tool:
        """Return the tool.

        Raises:
            ConfigurationError: Its name or type cannot be used.
        """
        if not TOOL_NAME.fullmatch(self.tool_name):
            raise ConfigurationError(f"The name of a handoff cannot be {self.tool_name!r}")
        purpose = "" if isinstance(self.agent, str) else self.agent.description
        said = f"Hand the conversation over to {self.target}, who continues it. {purpose}"
        return create_tool(
            name=self.tool_name,
            description=self.description or said.strip(),
            parameters=self._arguments(),
            handler=self._hand_over,
        )

    async def _hand_over(self, given: Any, ctx: ToolContext[Any]) -> str:
        if self.on_handoff is not None:
            call: Callable[..., Any] = self.on_handoff
            said = given.root if self.gives_fields else getattr(given, "input", None)
            await resolve(call(ctx) if self.input_type is None else call(ctx, said))
        return f"{self.target} continues."

    def _arguments(self) -> Any:
        """Return the model of the tool's arguments."""
        from pydantic import ConfigDict, RootModel, create_model  # noqa: PLC0415 - slow to load
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - slow to load

        name, kind = self.tool_name, self.input_type
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        if kind is None:
            return create_model(name, __config__=config)
        try:
            if self.gives_fields:
                return RootModel[kind]
            made = create_model(name, __config__=config, input=(kind, ...))
            made.model_json_schema()
        except PydanticUserError as error:
            raise ConfigurationError(
                f"Handoff {name!r}: input_type={kind!r:.80} has no JSON Schema; write a pydantic "
                "model, a dataclass or a TypedDict"
            ) from error
        return made


def _is_object(kind: Any) -> bool:
    """Return whether values of a type are objects with fields."""
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415 - slow to load
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - slow to load

    try:
        adapter = TypeAdapter[Any](kind)
    except PydanticUserError:  # a type that pydantic does not know
        adapter = TypeAdapter[Any](kind, config=ConfigDict(arbitrary_types_allowed=True))
    schema = adapter.json_schema()
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return "properties" in schema.get("$defs", {}).get(name, schema)


HandoffLike: TypeAlias = AgentLike[Any] | Handoff[Any]
"""A handoff, or the agent to hand over to."""


def handoff_facts(given: object) -> tuple[object, ...]:
    """Return a handoff with the facts that its tool is made of; they may change later."""
    agent: object = cast("Handoff[Any]", given).agent if isinstance(given, Handoff) else given
    if isinstance(agent, AgentLike):
        return cast("object", given), agent.name, agent.description
    return cast("object", given), agent


def handoff_map(
    owner: AgentLike[Any], given: Sequence[object]
) -> dict[str, tuple[Handoff[Any], Tool]]:
    """Return an agent's handoffs and their tools, by the tools' names.

    Raises:
        ConfigurationError: An item is not a handoff, or leads to the agent itself, or two have the
            same name.
    """
    agent = owner.name
    found: dict[str, tuple[Handoff[Any], Tool]] = {}
    for one in given:
        if isinstance(one, AgentLike):
            handoff = Handoff[Any](cast("AgentLike[Any]", one))
        elif isinstance(one, Handoff):
            handoff = cast("Handoff[Any]", one)
        else:
            raise ConfigurationError(
                f"Agent {agent!r}: handoffs must be agents and Handoff(…)s, got {one!r:.80}"
            )
        if handoff.agent is owner or handoff.agent == agent:
            raise ConfigurationError(
                f"Agent {agent!r} cannot hand over to itself: handoffs=[…] names other agents. "
                "Leave it out; an agent continues by itself until it has answered"
            )
        if handoff.tool_name in found:
            raise ConfigurationError(
                f"Agent {agent!r} has two handoffs called {handoff.tool_name!r}: give either a name"
            )
        found[handoff.tool_name] = (handoff, handoff.tool())
    return found


def handed_over(
    result: AgentResult, handoffs: dict[str, tuple[Handoff[Any], Tool]]
) -> tuple[Handoff[Any], HandedOver] | None:
    """Return the handoff that a result holds; None: it holds none, or it failed."""
    for message in result.tool_calls:
        found = handoffs.get(message.tool.name)
        content: Any = message.content
        if found is not None and isinstance(content, dict) and "error" not in content:
            handoff, arguments = found[0], as_object(message.tool.arguments) or {}
            said = arguments if handoff.gives_fields else arguments.get("input")
            return handoff, HandedOver(
                result.agent_name, handoff.target, said, handoff.tool_name, handoff.history
            )
    return None


def earlier_handoffs(
    messages: Sequence[Message], handoffs: Mapping[str, Mapping[str, tuple[Handoff[Any], Tool]]]
) -> dict[str, HandedOver]:
    """Return the newest handoff with an input to each agent, by the agent's name.

    Args:
        messages: A thread's messages.
        handoffs: Each agent's handoffs by the names of their tools, by the agent's name.
    """
    found: dict[str, HandedOver] = {}
    for message in messages:
        if not isinstance(message, ToolResultMessage) or message.agent is None:
            continue
        result = AgentResult(message.agent, (), (message,))
        taken = handed_over(result, dict(handoffs.get(message.agent, {})))
        if taken is not None:
            found.pop(taken[1].target, None)
            if taken[1].input is not None:
                found[taken[1].target] = taken[1]
    return found


class HandedOverView(HistoryProcessor):
    """Leaves the part of the earlier history that goes along with a handoff."""

    def __init__(self, handed: HandedOver) -> None:
        """Keep the handoff."""
        self.handed = handed
        self._text: TextMessage | None = None

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        return "handoff"

    def pinned(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the text with the input, which no processor may drop."""
        if isinstance(self.handed.history, HistoryProcessor) and self.handed.input is None:
            return ()
        return [self._said(messages)]

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return the messages since the handoff, after the history that goes along."""
        handed, end = self.handed, self._end(messages)
        before, after = messages[:end], messages[end:]
        if isinstance(handed.history, HistoryProcessor):
            left = await resolve(handed.history.process(before, context))
            given = () if handed.input is None else (self._said(messages),)
            return [*left, *given, *after]
        return [self._said(messages), *after]

    def _said(self, messages: Sequence[Message]) -> TextMessage:
        """Return the text in place of the earlier history; made once, from the full history."""
        if self._text is None:
            lines = _handover_lines(self.handed)
            if self.handed.history == "summary":
                before = messages[: self._end(messages)]
                lines += ["The conversation so far:", *_in_short(before)]
            self._text = TextMessage("user", "\n".join(lines), from_history=False)
        return self._text

    def _end(self, messages: Sequence[Message]) -> int:
        """Return the place behind the handoff; 0 if it is not there."""
        ends = [i for i, message in enumerate(messages) if _is_handoff(message, self.handed)]
        return ends[-1] + 1 if ends else 0


class HandedOverInput(HistoryProcessor):
    """Adds the input of a handoff as a text, since a filter may hide the call that holds it.

    Facts that are given to an agent on purpose reach the agent: no processor may drop the text.
    Redaction masks it like any other.
    """

    def __init__(self, handed: HandedOver, *, from_history: bool = False) -> None:
        """Make the text once, so that each request has the same message.

        Args:
            handed: The handoff.
            from_history: It was made in an earlier run of the thread.
        """
        self.handed = handed
        lines = "\n".join(_handover_lines(handed))
        self._text = TextMessage("user", lines, from_history=from_history)

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        return "handoff"

    @property
    def reason(self) -> str:
        """The addition, for reports."""
        return f"adds the input from {self.handed.source}"

    def pinned(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the text."""
        return [self._text]

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return the messages with the text behind the handoff."""
        ends = [i for i, message in enumerate(messages) if _is_handoff(message, self.handed)]
        index = ends[-1] + 1 if ends else 0
        return [*messages[:index], self._text, *messages[index:]]


def _handover_lines(handed: HandedOver) -> list[str]:
    lines = [f"{handed.source} handed this conversation over to {handed.target}."]
    if handed.input is not None:
        lines.append(f"Message of {handed.source}: {dumps(handed.input)}")
    return lines


def _is_handoff(message: Message, handed: HandedOver) -> bool:
    return (
        isinstance(message, ToolResultMessage)
        and message.tool.name == handed.tool_name
        and message.agent == handed.source
    )


_LONGEST = 500
"""The maximum length of each text in a short form."""


def _in_short(messages: Sequence[Message]) -> list[str]:
    texts = [m for m in messages if isinstance(m, TextMessage) and m.role != "system"]
    return [f"- {m.agent or m.role}: {' '.join(m.text.split())[:_LONGEST]}" for m in texts]
