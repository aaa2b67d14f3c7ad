"""Processors that limit an agent's view of other agents' messages, images and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    Message,
    Messages,
    OpaqueMessage,
    TextContent,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
    content_parts,
    derived,
    part_to_json,
    text_of,
    with_media,
    without_drawn,
)
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import CallGroup, is_same, pair, rewritten, without_calls
from agentkit_py.processors.settings import ConfiguredProcessor, flag, names, optional, whole
from agentkit_py.processors.shortening import head_and_tail
from agentkit_py.processors.tool_results import RESULT_LINE, line_for


@dataclass(frozen=True, kw_only=True)
class ByAuthor(ConfiguredProcessor):
    """Keeps only the messages of some agents, or drops them.

    An agent's texts, reasoning and tool calls go, and the results of its calls. Messages of users
    and of the system, and those whose author is not known, stay; so do the running agent's own
    calls of the current run.

    Args:
        keep: Keep messages of these agents only.
        drop: Leave out messages of these agents only.

    Raises:
        ConfigurationError: Not exactly one of them is given, or it is not a list of names.
    """

    looks_back: ClassVar[bool] = False

    keep: Annotated[Iterable[str] | None, optional(names)] = None
    drop: Annotated[Iterable[str] | None, optional(names)] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.keep is None) == (self.drop is None):
            raise ConfigurationError("ByAuthor takes either keep=… or drop=….")

    @property
    def reason(self) -> str:
        """The agents it keeps or leaves out, for reports."""
        rule, agents = ("only", self.keep) if self.drop is None else ("nothing", self.drop)
        return f"{rule} of {', '.join(sorted(agents or ())) or 'no agent'}"

    @property
    def hides(self) -> bool:
        """True: nothing of these agents may be seen."""
        return True

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages of the agents that may be seen."""
        held = context.held

        def stays(message: Message) -> bool:
            author = message.agent
            if author is None or id(message) in held:
                return True
            return author in self.keep if self.keep is not None else author not in (self.drop or ())

        if all(map(stays, messages)):
            return messages
        # Results go with their calls, whatever author they name.
        left = without_calls(
            messages,
            lambda index, _: stays(messages[index]),
            keeps_orphan=lambda index: stays(messages[index]),
            held=held,
        )
        found = [m for m in left if m.type in ("tool_call", "tool_result") or stays(m)]
        return messages if is_same(messages, found) else found


CALL_LINE = "[{agent} called tool {name} with {arguments}]"


@dataclass(frozen=True)
class HandoffView(ConfiguredProcessor):
    """Shows other agents' tool calls as text, so that an agent does not think they are its own.

    A model that sees calls of tools it does not have tends to call them; but their results are
    worth knowing. Calls whose author is not known stay as they are, as do the running agent's own.

    Args:
        results: Whether the text contains the calls' results.
        max_chars: Characters of each call's arguments and of each result, at the most.

    Raises:
        ConfigurationError: ``max_chars`` is not a whole number of at least 50.
    """

    looks_back: ClassVar[bool] = False

    results: Annotated[bool, flag] = True
    max_chars: Annotated[int, whole(50)] = 500

    _reason = "other agents' tool calls as text"

    @property
    def hides(self) -> bool:
        """True if the results of other agents' calls are hidden."""
        return not self.results

    @property
    def by_agent(self) -> bool:
        """True: each agent's own calls stay."""
        return True

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with texts in place of other agents' calls."""
        held = context.held

        def is_own(message: Message) -> bool:
            return message.agent in (None, context.agent) or id(message) in held

        hosted = {
            index: self._of_hosted(message)
            for index, message in enumerate(messages)
            if isinstance(message, OpaqueMessage) and message.tool and not is_own(message)
        }
        messages = rewritten(messages, hosted)
        if all(m.type != "tool_call" or is_own(m) for m in messages):
            return messages
        pairing = pair(messages)

        def as_texts(group: CallGroup) -> list[Message]:
            found = [(i, m) for i in group.calls if not is_own(m := messages[i])]
            return [
                self._as_text(m, [None if a is None else messages[a] for a in pairing.answers[i]])
                for i, m in found
                if isinstance(m, ToolCallMessage) and m.tools
            ]

        return without_calls(
            messages,
            lambda index, _: is_own(messages[index]),
            in_place_of=as_texts,
            pairing=pairing,
        )

    def _of_hosted(self, message: OpaqueMessage) -> Message:
        """Return the activity of a hosted tool as a text of the calling agent."""
        content = head_and_tail(text_of(message), self.max_chars)
        if message.part == "result":
            text = RESULT_LINE.format(name=message.tool, content=content)
        else:
            text = CALL_LINE.format(agent=message.agent, name=message.tool, arguments=content)
        return derived(message, ("handoff", text), lambda: line_for(message, text))

    def _as_text(self, message: ToolCallMessage, answers: Sequence[Message | None]) -> Message:
        """Return calls and their results as a text of the calling agent."""
        lines: list[str] = []
        for call, answer in zip(message.tools, answers, strict=True):
            short = head_and_tail(call.written, self.max_chars)
            lines.append(CALL_LINE.format(agent=message.agent, name=call.name, arguments=short))
            if self.results and answer is not None:
                short = head_and_tail(text_of(answer), self.max_chars)
                lines.append(RESULT_LINE.format(name=call.name, content=short))
        text = "\n".join(lines)
        return derived(message, ("handoff", text), lambda: line_for(message, text))


IMAGE_LEFT_OUT = "[image left out]"
FILE_LEFT_OUT = "[file {name} left out]"


@dataclass(frozen=True)
class KeepImages(ConfiguredProcessor):
    """Keeps the newest images only; a line of text replaces each older image.

    The current message is not history: its images are sent in any case, and not counted. Pinned
    messages keep theirs, which are not counted either.

    Args:
        last: How many images stay.
        files: Whether files count and go like images.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    last: Annotated[int, whole()] = 1
    files: Annotated[bool, flag] = False

    @property
    def reason(self) -> str:
        """The number it keeps, for reports."""
        return f"the newest {self.last} {_kinds(files=self.files)}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages without older images."""
        return _pruned(messages, context.pinned, self.last, files=self.files)


@dataclass(frozen=True)
class StripImages(ConfiguredProcessor):
    """Leaves all images out; a line of text replaces each. For models without vision.

    The current message is not history: its images are sent in any case. Pinned messages keep
    theirs.

    Args:
        files: Whether files go like images.

    Raises:
        ConfigurationError: ``files`` is not True or False.
    """

    looks_back: ClassVar[bool] = False

    files: Annotated[bool, flag] = False

    @property
    def reason(self) -> str:
        """The kinds it leaves out, for reports."""
        return f"no {_kinds(files=self.files)}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages without images."""
        return _pruned(messages, context.pinned, 0, files=self.files)


def _kinds(*, files: bool) -> str:
    return "images and files" if files else "images"


def _pruned(messages: Messages, pinned: frozenset[int], keep: int, *, files: bool) -> Messages:
    kinds = (ImageContent, FileContent) if files else (ImageContent,)
    rewrites: dict[int, Message] = {}
    left = keep
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if id(message) in pinned:
            continue
        count = sum(isinstance(part, kinds) for part in content_parts(message))
        if count > left:
            rewrites[index] = _without(message, count - left, kinds)
        left = max(left - count, 0)
    return rewritten(messages, rewrites)


def _without(
    message: Message, gone: int, kinds: tuple[type[ImageContent] | type[FileContent], ...]
) -> Message:
    """Return the message without its first ``gone`` images."""

    def make() -> Message:
        left = gone

        def words_for(part: ContentPart) -> str | None:
            nonlocal left
            if not left or isinstance(part, TextContent) or not isinstance(part, kinds):
                return None
            left -= 1
            return _left_out(part)

        match message:
            case ToolResultMessage():
                content = with_media(message.content, lambda m: words_for(m) or part_to_json(m))
                return replace(message, content=content)
            case OpaqueMessage():
                if message.medium is None:
                    return without_drawn(message, words_for)
                line = line_for(message, _left_out(message.medium))
                return replace(line, stop_reason=message.stop_reason)
            case _:
                words = [(part, words_for(part)) for part in content_parts(message)]
                parts = tuple(part if said is None else TextContent(said) for part, said in words)
                return replace(cast("TextMessage", message), content=parts)

    return derived(message, ("images", gone, kinds), make)


def _left_out(part: ImageContent | FileContent) -> str:
    if isinstance(part, ImageContent):
        return IMAGE_LEFT_OUT
    return FILE_LEFT_OUT.format(name=part.name or part.media_type or "without a name")
