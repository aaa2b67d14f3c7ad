"""Leaving out images and files, all or but for the newest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    Message,
    TextContent,
    TextMessage,
    derived,
)
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.settings import Check, ConfiguredProcessor, flag, whole
from agentkit_py.processors.tool_results import rewritten

IMAGE_LEFT_OUT = "[image left out]"
FILE_LEFT_OUT = "[file {name} left out]"


@dataclass(frozen=True)
class KeepImages(ConfiguredProcessor):
    """Keeps the newest images only; a line of text stands in place of each older one.

    The current message is no history: its images are sent in any case, and not counted. Pinned
    messages keep theirs, which are not counted either.

    Args:
        last: How many images stay.
        files: Whether files count and go like images.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    last: int = 1
    files: bool = False

    settings: ClassVar[Mapping[str, Check]] = {"last": whole(), "files": flag}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """How many it keeps."""
        return f"the newest {self.last} {_kinds(files=self.files)}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without older images."""
        return _pruned(messages, context.pinned, self.last, files=self.files)


@dataclass(frozen=True)
class StripImages(ConfiguredProcessor):
    """Leaves all images out; a line of text stands in place of each. For models without eyes.

    The current message is no history: its images are sent in any case. Pinned messages keep theirs.

    Args:
        files: Whether files go like images.

    Raises:
        ConfigurationError: ``files`` is not True or False.
    """

    looks_back: ClassVar[bool] = False

    files: bool = False

    settings: ClassVar[Mapping[str, Check]] = {"files": flag}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """What it leaves out."""
        return f"no {_kinds(files=self.files)}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without images."""
        return _pruned(messages, context.pinned, 0, files=self.files)


def _kinds(*, files: bool) -> str:
    return "images and files" if files else "images"


def _pruned(
    messages: Sequence[Message], pinned: frozenset[int], keep: int, *, files: bool
) -> Sequence[Message]:
    kinds = (ImageContent, FileContent) if files else (ImageContent,)
    rewrites: dict[int, Message] = {}
    left = keep
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.type != "text" or isinstance(message.content, str) or id(message) in pinned:
            continue
        count = sum(isinstance(part, kinds) for part in message.content)
        if count > left:
            rewrites[index] = _without(message, count - left, kinds)
        left = max(left - count, 0)
    return rewritten(messages, rewrites)


def _without(
    message: TextMessage, gone: int, kinds: tuple[type[ImageContent] | type[FileContent], ...]
) -> Message:
    """The message without its first ``gone`` images."""

    def make() -> Message:
        content: list[ContentPart] = []
        left = gone
        for part in message.content:
            assert not isinstance(part, str)
            if left and not isinstance(part, TextContent) and isinstance(part, kinds):
                left -= 1
                content.append(TextContent(_left_out(part)))
            else:
                content.append(part)
        return replace(message, content=tuple(content))

    return derived(message, ("images", gone, kinds), make)


def _left_out(part: ImageContent | FileContent) -> str:
    if isinstance(part, ImageContent):
        return IMAGE_LEFT_OUT
    return FILE_LEFT_OUT.format(name=part.name or part.media_type or "without a name")
