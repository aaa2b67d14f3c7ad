"""Showing what was read twice only once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, ToolCall, ToolResultMessage, derived, text_of
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.settings import Check, ConfiguredProcessor, names, whole
from agentkit_py.processors.shortening import head_and_tail
from agentkit_py.processors.tool_results import rewritten

REFERENCE = "[The same as the newer result of {name} with {arguments}, further down]"
OUTDATED = "[Outdated: {name} was called with {arguments} again, further down]"
_REFERENCES = ('{"data":"[The same as the newer result of ', '{"data":"[Outdated: ')
_ARGUMENTS = 80  # characters of a call's arguments in a reference


@dataclass(frozen=True)
class Deduplicate(ConfiguredProcessor):
    """Replaces results that stand in the history again, further down, by a reference to these.

    That is so for a result of the same tool that is equal, and for any result of a tool in
    ``reads`` that was called with the same arguments again: a file that was read anew. Errors
    neither replace nor are replaced. This agent's own calls of the current run, and pinned ones,
    stay.

    Args:
        reads: Tools that read something: a newer result for the same arguments replaces an older.
        min_chars: Shorter results stay, since a reference would be no shorter.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    reads: Iterable[str] = ()
    min_chars: int = 200

    settings: ClassVar[Mapping[str, Check]] = {"reads": names, "min_chars": whole(1)}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """What it replaces."""
        return "results that stand further down again"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with references in place of older equal results."""
        calls: dict[int, ToolCall] = {}
        if self.reads and any(m.type == "tool_result" for m in messages):
            calls = _calls(messages)
        held = context.held
        seen: set[Hashable] = set()
        rewrites: dict[int, Message] = {}
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if not isinstance(message, ToolResultMessage) or message.is_error:
                continue
            call = calls.get(index, message.tool)
            reference = self._reference(message, call, seen)
            if reference is not None and id(message) not in held:
                rewrites[index] = _replaced(message, reference)
        return rewritten(messages, rewrites)

    def _reference(
        self, message: ToolResultMessage, call: ToolCall, seen: set[Hashable]
    ) -> str | None:
        """What stands for ``message`` if it is there again, further down; notes that it is."""
        text = text_of(message)
        if text.startswith(_REFERENCES):
            return None
        same = (message.tool.name, text)
        template = REFERENCE if len(text) >= self.min_chars and same in seen else None
        seen.add(same)
        if call.name in self.reads:
            arguments = (call.name, dumps(call.input))
            if template is None and arguments in seen and len(text) >= self.min_chars:
                template = OUTDATED
            seen.add(arguments)
        if template is None:
            return None
        short = head_and_tail(dumps(call.input), _ARGUMENTS)
        return template.format(name=call.name, arguments=short)


def _calls(messages: Sequence[Message]) -> dict[int, ToolCall]:
    """The call of each result: only there its arguments are sure to stand."""
    found: dict[int, ToolCall] = {}
    for result, (index, place) in pair(messages).calls.items():
        message = messages[index]
        assert message.type == "tool_call"
        found[result] = message.tools[place]
    return found


def _replaced(message: ToolResultMessage, reference: str) -> Message:
    content = {"data": reference}
    if message.content == content:
        return message
    return derived(message, ("duplicate", reference), lambda: replace(message, content=content))
