"""Cutting long tool results off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.messages import Message, ToolResultMessage, derived, text_of
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.settings import Check, ConfiguredProcessor, names, whole
from agentkit_py.processors.shortening import head_only
from agentkit_py.processors.tool_results import older_results, payload, rewritten


@dataclass(frozen=True)
class TruncateToolResults(ConfiguredProcessor):
    """Cuts tool results off after ``max_chars`` characters, and says how many are missing.

    A result that is no text is cut as compact JSON, and is text then. This agent's own current
    results are cut, too: a result that is too long for the model is so from the first.

    Args:
        max_chars: Characters of one result, with what says that it was cut.
        keep_recent: How many of the newest results stay as they are.
        exclude: Tools whose results stay as they are.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    max_chars: int = 1000
    keep_recent: int = 0
    exclude: Iterable[str] = ()

    settings: ClassVar[Mapping[str, Check]] = {
        "max_chars": whole(1),
        "keep_recent": whole(),
        "exclude": names,
    }
    aliases: ClassVar[Mapping[str, str]] = {"exclude_tools": "exclude"}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """How long results may be."""
        return f"tool results over {self.max_chars} characters"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with long results cut off."""
        older = older_results(messages, context.pinned, self.keep_recent)
        rewrites = {
            index: self._shorter(cast("ToolResultMessage", messages[index])) for index in older
        }
        return rewritten(messages, rewrites)

    def _shorter(self, message: ToolResultMessage) -> Message:
        # The text with its envelope is computed once, and never shorter than what is in it.
        if len(text_of(message)) <= self.max_chars or message.tool.name in self.exclude:
            return message
        return derived(message, ("truncate", self.max_chars), lambda: self._cut(message))

    def _cut(self, message: ToolResultMessage) -> Message:
        kind, found = payload(message)
        text = found if isinstance(found, str) else dumps(found)
        if len(text) <= self.max_chars:
            return message
        content: JsonValue = head_only(text, self.max_chars)
        if not isinstance(message.content, str):
            content = {kind: content}
        return replace(message, content=content)
