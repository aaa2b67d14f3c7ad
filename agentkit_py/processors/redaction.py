"""Masking personal data in text, JSON and messages.

A `Redactor` serves processors, stores, logs and traces alike, so that data masked in a
place is masked in all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from agentkit_py._core.awaiting import off_loop
from agentkit_py._core.digests import settings_of
from agentkit_py._core.json import JsonValue
from agentkit_py._core.patterns import SECONDS, BoundedPattern
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
    derived,
    medium_in,
    part_to_json,
)
from agentkit_py.models.encoding import words_for
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import rewritten
from agentkit_py.processors.personal_data import BUILT_IN, Finder, Span, plain
from agentkit_py.processors.settings import ConfiguredProcessor

Patterns: TypeAlias = Iterable[str | re.Pattern[str]] | Mapping[str, str | re.Pattern[str]]
"""Names of built-in patterns, regular expressions, or both by the name that the mask shows."""

logger: logging.Logger = get_logger("agentkit_py")

MaskFunction: TypeAlias = Callable[[str], str]
"""Gets a text and returns it masked."""

_OPAQUE = frozenset(
    {"signature", "data", "encrypted_content", "encrypted_index", "thoughtSignature"}
    | {"id", "type", "tool_use_id", "call_id", "origin"}
)
"""Fields of providers' own data that hold no words."""


class Redactor:
    """Masks the matches of patterns, or those that a function masks.

    Args:
        patterns: Names of `BUILT_IN` patterns (``"email"``) and regular expressions; or both as a
            dict by the name that is put in their place (``{"code": "BK[0-9]+"}`` gives ``[code]``);
            or a function that gets a text and returns it masked. A bare regular expression gives
            ``[redacted]``.

    What is hidden is found, too: zero-width characters in between, full-width forms, spaced and
    dotted numbers, ``ada [at] example dot com``.

    All take time linear in the text. A user's own expressions are searched in windows of texts of
    more than 8,000 characters (a match that is longer than 4,000 may be found in parts or not at
    all), and for half a second of processor time at most: a text for which that is not enough is
    masked as a whole, with a warning in the log.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    def __init__(self, patterns: Patterns | MaskFunction = tuple(BUILT_IN)) -> None:
        self._function: MaskFunction | None = None
        self._patterns = patterns
        self._searches: tuple[_PatternSearches, ...] = ()
        if callable(patterns) and not isinstance(patterns, Mapping):
            self._function = patterns
        else:
            self._searches = _searches(cast("Patterns", patterns))

    @property
    def function(self) -> MaskFunction | None:
        """The function that masks a text; None: patterns do."""
        return self._function

    @property
    def fingerprint(self) -> JsonValue:
        """What it looks for."""
        return settings_of(self._patterns)

    @property
    def names(self) -> list[str]:
        """Names of the masked data."""
        if self._function is not None:
            return [getattr(self._function, "__name__", "a function")]
        return list(dict.fromkeys(search.name for search in self._searches))

    def text(self, text: str) -> str:
        """Return ``text`` masked; the same string where nothing was found.

        Raises:
            ConfigurationError: The function returned no text.
        """
        if self._function is not None:
            masked = self._function(text)
            if not isinstance(masked, str):
                raise ConfigurationError(f"The function of a Redactor returned {masked!r:.80}.")
            return text if masked == text else masked
        seen, places = plain(text)
        for search in self._searches:
            masked = search.mask(text, seen, places)
            if masked is not text:
                text = masked
                seen, places = plain(text)
        return text

    def value(self, value: JsonValue) -> JsonValue:
        """Return JSON with each string masked, keys and long numbers too; itself if none is."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            masked = self.text(str(value))
            return value if masked == str(value) else masked
        if isinstance(value, Mapping):
            medium = medium_in(value)
            if medium is not None and len(medium.data or "") >= _BYTES:
                part = self._part(medium)
                return value if part is medium else part_to_json(part)
            return self._object(cast("Mapping[str, JsonValue]", value))
        items = [self.value(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items

    def _object(self, value: Mapping[str, JsonValue]) -> JsonValue:
        made: dict[str, JsonValue] = {}
        last_numbers: dict[str, int] = {}
        changed = False
        for key, item in value.items():
            masked_key, masked = self.text(key), self.value(item)
            changed = changed or masked_key != key or masked is not item
            name, number = masked_key, last_numbers.get(masked_key, 1)
            while name in made:
                number += 1
                name = f"{masked_key} {number}"
            last_numbers[masked_key] = number
            made[name] = masked
        return made if changed else value

    def message(self, message: Message) -> Message:
        """Return the message masked, made once per message; itself where nothing was found.

        Names of tools and agents and ids of calls stay. What a provider wants back word for word
        (signed reasoning) is dropped if it contains the same data.
        """
        return derived(message, self, lambda: self._masked(message))

    def user_message(self, given: UserMessage) -> UserMessage:
        """Return a user's message with its content masked."""
        content = given.content
        said = TextMessage("user", content if isinstance(content, str) else tuple(content))
        masked = cast("TextMessage", self.message(said))
        return given if masked is said else replace(given, content=masked.content)

    def _masked(self, message: Message) -> Message:
        changes: dict[str, Any] = {}
        match message:
            case TextMessage() | ReasoningMessage():
                changes = {"content": self._content(message.content)}
            case OpaqueMessage():
                changes = {"content": self._block(message.content)}
            case ToolCallMessage():
                tools = [self._call(call) for call in message.tools]
                same = all(a is b for a, b in zip(tools, message.tools, strict=True))
                changes = {"tools": message.tools if same else tuple(tools)}
            case ToolResultMessage():
                changes = {"content": self.value(message.content), "tool": self._call(message.tool)}
        if self._is_in(message.provider_metadata):
            changes["provider_metadata"] = None
        if all(getattr(message, name) is value for name, value in changes.items()):
            return message
        return replace(message, **changes)

    def _block(self, value: Any) -> Any:
        """Return a provider's own JSON masked where it holds words."""
        if isinstance(value, str):
            masked = self.text(value)
            return value if masked == value else masked
        if isinstance(value, Mapping):
            given = cast("Mapping[str, Any]", value)
            made = {k: v if k in _OPAQUE else self._block(v) for k, v in given.items()}
            return made if any(made[k] is not v for k, v in given.items()) else given
        if isinstance(value, list | tuple):
            items = [self._block(item) for item in cast("Sequence[Any]", value)]
            same = all(a is b for a, b in zip(items, cast("Sequence[Any]", value), strict=True))
            return cast("Any", value) if same else items
        return value

    def _content(self, content: str | Sequence[ContentPart]) -> str | Sequence[ContentPart]:
        if isinstance(content, str):
            masked = self.text(content)
            return content if masked == content else masked
        parts = [self._part(part) for part in content]
        same = all(a is b for a, b in zip(parts, content, strict=True))
        return content if same else tuple(parts)

    def _part(self, part: ContentPart) -> ContentPart:
        if isinstance(part, TextContent):
            masked = self.text(part.text)
            return part if masked == part.text else TextContent(masked)
        if isinstance(part, FileContent) and part.name is not None:
            name = self.text(part.name)
            part = part if name == part.name else replace(part, name=name)
        url = None if part.url is None else self.text(part.url)
        # A masked link leads nowhere, and a provider that cannot read it refuses the request.
        return part if url == part.url else TextContent(words_for(replace(part, url=url)))

    def _call(self, call: ToolCall) -> ToolCall:
        given = self.value(call.arguments)
        malformed = None if call.malformed is None else self.text(call.malformed)
        metadata = None if self._is_in(call.provider_metadata) else call.provider_metadata
        changes = {"arguments": given, "malformed": malformed, "provider_metadata": metadata}
        if all(getattr(call, name) is value for name, value in changes.items()):
            return call
        return replace(call, **changes)

    def _is_in(self, metadata: object) -> bool:
        """Return whether a provider's own data holds text that would be masked."""
        if isinstance(metadata, str):
            return self.text(metadata) != metadata
        if isinstance(metadata, Mapping):
            found = cast("Mapping[str, object]", metadata)
            return any(key not in _OPAQUE and self._is_in(item) for key, item in found.items())
        if isinstance(metadata, Sequence):
            return any(map(self._is_in, cast("Sequence[object]", metadata)))
        return False


_BYTES = 64
"""Characters from which base64 of an image or file is bytes, which a mask would break."""


@dataclass(slots=True)
class _PatternSearches:
    """The searches that a pattern's name means."""

    name: str
    finders: Sequence[Finder]
    own: BoundedPattern | None = None
    warned: bool = False

    def mask(self, text: str, seen: str, places: list[int] | None) -> str:
        """Return a text with each match replaced by the name; the same object if there is none.

        ``seen`` and ``places`` are the result of `plain`.
        """
        try:
            if self.own is not None and places is not None:
                # It may look for characters that `plain` changes.
                text = self._replaced(text, self.own.spans(text), None)
                seen, places = plain(text)
            for find in self.finders:
                masked = self._replaced(text, find(seen), places)
                if masked is not text:
                    text = masked
                    seen, places = plain(text)
        except TimeoutError:
            return self._given_up(text)
        return text

    def _replaced(self, text: str, spans: Iterator[Span], places: list[int] | None) -> str:
        pieces: list[str] = []
        done = 0
        for start, stop in spans:
            first, last = (start, stop) if places is None else (places[start], places[stop])
            pieces += (text[done:first], f"[{self.name}]")
            done = last
        return "".join((*pieces, text[done:])) if pieces else text

    def _given_up(self, text: str) -> str:
        if not self.warned:
            self.warned = True
            logger.warning(
                "The pattern %r takes more than %s s for a text of %d characters: such texts are "
                "masked as a whole. Write it so that it cannot match a text in many ways.",
                self.name,
                SECONDS,
                len(text),
            )
        return f"[{self.name}: too slow to search]"


def _searches(given: Patterns) -> tuple[_PatternSearches, ...]:
    if isinstance(given, str | bytes):
        raise ConfigurationError(f"Give the patterns of a Redactor as a list: [{given!r}].")
    if isinstance(given, Mapping):
        named = cast("Mapping[object, object]", given)
        found = [_own(str(name), pattern) for name, pattern in named.items()]
    else:
        found = [_search(pattern) for pattern in given]
    if not found:
        raise ConfigurationError(
            f"A Redactor needs patterns; built in are: {', '.join(sorted(BUILT_IN))}."
        )
    return tuple(found)


def _search(pattern: object) -> _PatternSearches:
    if isinstance(pattern, str) and pattern in BUILT_IN:
        return _PatternSearches(pattern, BUILT_IN[pattern])
    return _own("redacted", pattern)


def _own(name: str, pattern: object) -> _PatternSearches:
    bounded = _bounded(pattern)
    return _PatternSearches(name, [bounded.spans], bounded)


def _bounded(pattern: object) -> BoundedPattern:
    if isinstance(pattern, re.Pattern):
        compiled = cast("re.Pattern[Any]", pattern)
        if isinstance(compiled.pattern, str):
            return BoundedPattern(compiled)
    if isinstance(pattern, str) and pattern:
        if re.fullmatch(r"[a-z_]+", pattern):
            # A single word without a space is a mistyped name of a pattern.
            raise ConfigurationError(
                f"Unknown pattern {pattern!r}; built in are: {', '.join(sorted(BUILT_IN))}. "
                "Mask a word with re.compile."
            )
        try:
            return BoundedPattern(pattern)
        except re.error as error:
            problem = f"{pattern!r} is not a regular expression: {error}."
            raise ConfigurationError(problem) from error
    raise ConfigurationError(f"A pattern is a name or a regular expression, not {pattern!r:.80}.")


def as_redactor(value: Redactor | Patterns | MaskFunction) -> Redactor:
    """Return ``value`` if it is a `Redactor`, else a `Redactor` made of it."""
    return value if isinstance(value, Redactor) else Redactor(value)


def _checked_patterns(name: str, value: object) -> object:
    if isinstance(value, str):
        raise ConfigurationError(f"{name} must be a list or dict: {value!r:.80}.")
    try:
        as_redactor(cast("Redactor | Patterns | MaskFunction", value))
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from error
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Redact(ConfiguredProcessor):
    """Masks personal data in the history that a model sees; stored messages stay as they are.

    This agent's own current calls and pinned messages are masked like all others. The system prompt
    and the current question are not history: mask them at their source, with the same
    `Redactor`.

    Args:
        patterns: A `Redactor`, or its patterns or function; all built-in patterns
            unless given. A function has to give the same for the same text: of a long thread it
            sees the newest part only.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    looks_back: ClassVar[bool] = False
    masks: ClassVar[bool] = True

    patterns: Annotated[Redactor | Patterns | MaskFunction, _checked_patterns] = tuple(BUILT_IN)
    redactor: Redactor = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "redactor", as_redactor(self.patterns))

    @property
    def reason(self) -> str:
        """Names of the masked data, for reports."""
        return f"masks {', '.join(self.redactor.names)}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return the messages masked."""
        mask = self.redactor.message
        return await off_loop(
            lambda: rewritten(messages, {i: mask(m) for i, m in enumerate(messages)}),
            *map(_texts_of, messages),
        )


def _texts_of(message: Message) -> object:
    if isinstance(message, ToolCallMessage):
        return [call.malformed or call.arguments for call in message.tools]
    if isinstance(message, TextMessage) and not isinstance(message.content, str):
        return [part.text for part in message.content if isinstance(part, TextContent)]
    return message.content


_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Fields of each record; all others came with ``extra=``."""

_FORMATTER = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Masks log records; it lets all of them pass.

    Masked are the message with its arguments, fields that came with ``extra=``, the text of an
    exception with its traceback, and the stack. The exception itself is taken off the record, so
    that no later handler or formatter writes it as it was.

    Put it on each handler: a filter of a logger is not asked for the records of its child
    loggers.

    Args:
        redactor: A `Redactor`, or its patterns or function.
        name: Only records of this logger and those beneath it are masked, e.g. ``agentkit_py``;
            empty: all.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    def __init__(self, redactor: Redactor | Patterns | MaskFunction, name: str = "") -> None:
        super().__init__(name)
        self.redactor: Redactor = as_redactor(redactor)

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record; always True."""
        if super().filter(record):
            self._message(record)
            self._exception(record)
            for name, value in list(vars(record).items()):
                if name not in _OWN:
                    setattr(record, name, self._extra(value))
        return True

    def _message(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # The arguments do not fit the message. Handlers say so, and print both.
            record.msg = self.redactor.text(str(record.msg))
            given = record.args or ()
            values = given.values() if isinstance(given, Mapping) else given
            record.args = tuple(self._extra(value) for value in values)
            return
        masked = self.redactor.text(text)
        if masked != text:
            record.msg, record.args = masked, None

    def _exception(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = record.exc_text or _FORMATTER.formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = self.redactor.text(record.exc_text)
        if record.stack_info:
            record.stack_info = self.redactor.text(record.stack_info)

    def _extra(self, value: Any) -> Any:
        if value is None or isinstance(value, str | int | float):
            return self.redactor.value(value)
        if isinstance(value, Mapping):
            found = cast("Mapping[Any, Any]", value)
            made = [(self._extra(key), self._extra(item)) for key, item in found.items()]
            pairs = zip(made, found.items(), strict=True)
            return found if all(a is c and b is d for (a, b), (c, d) in pairs) else dict(made)
        if isinstance(value, list | tuple | set | frozenset):
            given = list(cast("Iterable[Any]", value))
            items = [self._extra(item) for item in given]
            same = all(a is b for a, b in zip(items, given, strict=True))
            return cast("Any", value) if same else items
        # Anything else is written as its text.
        text = str(value)
        masked = self.redactor.text(text)
        return value if masked == text else masked
