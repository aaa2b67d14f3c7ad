"""Own tool calls whole, others' as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from agentkit_py._core.json import dumps
from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
    derived,
    text_of,
)
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.groups import CallGroup
from agentkit_py.processors.pairing import Pairing, pair
from agentkit_py.processors.removal import without_calls
from agentkit_py.processors.settings import Check, ConfiguredProcessor, flag, whole
from agentkit_py.processors.shortening import head_and_tail

CALL_LINE = "[{agent} called tool {name} with {arguments}]"
RESULT_LINE = "[Result of {name}: {content}]"


@dataclass(frozen=True)
class HandoffView(ConfiguredProcessor):
    """Shows other agents' tool calls as text, so that an agent does not think they are its own.

    A model that sees calls of tools it does not have tends to call them; but what they found out is
    worth knowing. Calls whose author is not known stay as they are, as do the running agent's own.

    Args:
        results: Whether the text says what the calls gave.
        max_chars: Characters of each call's arguments and of each result, at the most.

    Raises:
        ConfigurationError: ``max_chars`` is no whole number of at least 50.
    """

    looks_back: ClassVar[bool] = False

    results: bool = True
    max_chars: int = 500

    settings: ClassVar[Mapping[str, Check]] = {"results": flag, "max_chars": whole(50)}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """What it does."""
        return "other agents' tool calls as text"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with texts in place of other agents' calls."""
        held = context.held

        def is_own(message: Message) -> bool:
            return message.agent in (None, context.agent) or id(message) in held

        if all(m.type != "tool_call" or is_own(m) for m in messages):
            return messages
        pairing = pair(messages)

        def told(group: CallGroup) -> list[Message]:
            others = (index for index in group.calls if not is_own(messages[index]))
            found = (self._told(messages, index, pairing) for index in others)
            return [text for text in found if text is not None]

        return without_calls(
            messages,
            lambda index, _: is_own(messages[index]),
            in_place_of=told,
            pairing=pairing,
        )

    def _told(
        self, messages: Sequence[Message], index: int, pairing: Pairing
    ) -> TextMessage | None:
        """The call message at ``index`` as text."""
        message = messages[index]
        if not isinstance(message, ToolCallMessage) or not message.tools:
            return None
        answers = [None if at is None else messages[at] for at in pairing.answers[index]]
        lines = self._lines(message, cast("list[ToolResultMessage | None]", answers))
        text = "\n".join(lines)
        made = derived(
            message,
            ("handoff", text),
            lambda: TextMessage(
                "assistant",
                text,
                stop_reason="stop",
                from_history=message.from_history,
                agent=message.agent,
            ),
        )
        return cast("TextMessage", made)

    def _lines(
        self, message: ToolCallMessage, answers: Sequence[ToolResultMessage | None]
    ) -> list[str]:
        lines: list[str] = []
        for call, answer in zip(message.tools, answers, strict=True):
            arguments = dumps(call.input) if call.malformed is None else call.malformed
            short = head_and_tail(arguments, self.max_chars)
            lines.append(CALL_LINE.format(agent=message.agent, name=call.name, arguments=short))
            if self.results and answer is not None:
                short = head_and_tail(text_of(answer), self.max_chars)
                lines.append(RESULT_LINE.format(name=call.name, content=short))
        return lines
