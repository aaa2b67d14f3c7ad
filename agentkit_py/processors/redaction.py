"""Masking personal data in text, JSON and messages.

One object does it for processors, stores, logs and traces alike, so that what is masked at one
place is masked at all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    derived,
)
from agentkit_py.models.encoding import words_for
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import rewritten
from agentkit_py.processors.settings import ConfiguredProcessor

Patterns: TypeAlias = Iterable[str | re.Pattern[str]] | Mapping[str, str | re.Pattern[str]]
"""Names of built-in patterns, regular expressions, or both by the name that the mask shows."""

MaskFunction: TypeAlias = Callable[[str], str]
"""Gets a text and returns it masked."""

_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_RUN_ENDS = r"(?=\d{1,23}+(?!\w|-(?![\d(])))"
"""Refuses digits that run into a word or a dash, before all ways of grouping them are tried."""

BUILT_IN: Mapping[str, re.Pattern[str]] = {
    # Before phone numbers, which a part of a longer number could pass for.
    "iban": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
    "card": re.compile(
        r"(?<![\w.-])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{4}|\d{4}[ -]\d{6}[ -]\d{5}|\d{13,19})(?![\w-])"
    ),
    # Takes each run of characters whole, an address or not, so that no run is read twice.
    "email": re.compile(r"[\w.+%-]++(@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]+)+)?"),
    "ssn": re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"),
    "ip": re.compile(rf"(?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?!\w|\.\d)"),
    "phone": re.compile(
        rf"(?<![\w.-])(?:\+{_RUN_ENDS}\d{{1,3}}[ .-]?(?:\(\d{{1,4}}\)[ .-]?)?{_RUN_ENDS}\d{{1,4}}"
        rf"(?:[ .-]?{_RUN_ENDS}\d{{2,4}}){{1,4}}"
        r"|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?![\w-])"
    ),
}
"""IBAN (ISO 13616), payment card (13 to 19 digits that pass the Luhn check, ISO/IEC 7812), e-mail
address, US social security number, IPv4 address, and phone number (international with +, or
North American). All take time linear in the text."""

LONGEST_MATCH = 4_000
"""Characters of the longest match of a user's expression that is sure to be found."""

_OPAQUE = frozenset({"signature", "data", "encrypted_content", "thoughtSignature", "id", "type"})
"""Fields of providers' own data that hold no words."""


class Redactor:
    """Masks what patterns find, or what a function masks.

    Args:
        patterns: Names of `BUILT_IN` patterns (``"email"``) and regular expressions; or both as a
            dict by the name that is put in their place (``{"code": "BK[0-9]+"}`` gives ``[code]``);
            or a function that gets a text and returns it masked. A bare regular expression gives
            ``[redacted]``.

    Built-in patterns take time linear in the text. Python's `re` can take the square of it or more
    for expressions of one's own, so texts of more than 8,000 characters are searched in windows:
    time grows with the text, and a match that is longer than 4,000 characters may be found in
    parts or not at all. An expression that is exponential in one window (``(a+)+$``) stays so.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    def __init__(self, patterns: Patterns | MaskFunction = tuple(BUILT_IN)) -> None:
        self.function: MaskFunction | None = None
        self.patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
        if callable(patterns) and not isinstance(patterns, Mapping):
            self.function = patterns
        else:
            self.patterns = _named_patterns(cast("Patterns", patterns))

    @property
    def names(self) -> list[str]:
        """Names of what it masks."""
        if self.function is not None:
            return [getattr(self.function, "__name__", "a function")]
        return list(dict.fromkeys(name for name, _ in self.patterns))

    def text(self, text: str) -> str:
        """Return ``text`` masked; the same string where nothing was found.

        Raises:
            ConfigurationError: The function returned no text.
        """
        if self.function is not None:
            masked = self.function(text)
            if not isinstance(masked, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"The function of a Redactor returned {masked!r:.80}.")
            return text if masked == text else masked
        for name, pattern in self.patterns:
            text = _sub(pattern, f"[{name}]", text)
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
        (signed reasoning) is dropped if the same data stands in it.
        """
        return derived(message, self, lambda: self._masked(message))

    def _masked(self, message: Message) -> Message:
        changes: dict[str, Any] = {}
        match message:
            case TextMessage() | ReasoningMessage():
                changes = {"content": self._content(message.content)}
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
        if given is call.arguments and malformed == call.malformed:
            return call
        return replace(call, arguments=given, malformed=malformed)

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


def _named_patterns(given: Patterns) -> tuple[tuple[str, re.Pattern[str]], ...]:
    if isinstance(given, str | bytes):
        raise ConfigurationError(f"Give the patterns of a Redactor as a list: [{given!r}].")
    if isinstance(given, Mapping):
        named = cast("Mapping[object, object]", given)
        found = [(str(name), _compiled(pattern)) for name, pattern in named.items()]
    else:
        found = [_named(pattern) for pattern in given]
    if not found:
        raise ConfigurationError(
            f"A Redactor needs patterns; built in are: {', '.join(sorted(BUILT_IN))}."
        )
    return tuple(found)


def _named(pattern: object) -> tuple[str, re.Pattern[str]]:
    if isinstance(pattern, str) and pattern in BUILT_IN:
        return pattern, BUILT_IN[pattern]
    return "redacted", _compiled(pattern)


def _compiled(pattern: object) -> re.Pattern[str]:
    if isinstance(pattern, re.Pattern):
        compiled = cast("re.Pattern[Any]", pattern)
        if isinstance(compiled.pattern, str):
            return compiled
    if isinstance(pattern, str) and pattern:
        if re.fullmatch(r"[a-z_]+", pattern):
            # Nobody masks a word like that: it is the name of a pattern, mistyped.
            raise ConfigurationError(
                f"There is no pattern {pattern!r}; built in are: {', '.join(sorted(BUILT_IN))}. A "
                "word can be masked with re.compile."
            )
        try:
            return re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"{pattern!r} is no regular expression: {error}.") from error
    raise ConfigurationError(f"A pattern is a name or a regular expression, not {pattern!r:.80}.")


def _sub(pattern: re.Pattern[str], mask: str, text: str) -> str:
    """Replace the matches of ``pattern`` in time linear in ``text``."""
    if pattern is BUILT_IN["email"]:
        return pattern.sub(lambda m: mask if m[1] else m[0], text) if "@" in text else text
    if pattern is BUILT_IN["card"]:
        return pattern.sub(lambda m: mask if _luhn(m[0]) else m[0], text)
    if pattern in BUILT_IN.values() or len(text) <= 2 * LONGEST_MATCH:
        return pattern.sub(lambda _: mask, text)
    pieces: list[str] = []
    done = 0
    for start, stop in _spans(pattern, text):
        pieces += (text[done:start], mask)
        done = stop
    return "".join((*pieces, text[done:])) if pieces else text


def _spans(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield starts and ends of the matches, searched in overlapping windows of the text."""
    start, extends = 0, True
    while start < len(text):
        middle, end = start + LONGEST_MATCH, start + 2 * LONGEST_MATCH
        start = middle
        for match in pattern.finditer(text, middle - LONGEST_MATCH, end):
            if match.start() >= middle:
                break
            stop = match.end()
            if stop == end < len(text) and extends:
                # Reading on succeeds as often as it likes, since what it takes is not read again.
                longer = pattern.match(text, match.start())
                extends = longer is not None and longer.end() > stop
                stop = longer.end() if longer is not None and extends else stop
            yield match.start(), stop
            start = max(middle, stop)


def _luhn(digits: str) -> bool:
    """Return whether the number has the check digit that payment cards have."""
    total = 0
    for place, digit in enumerate(reversed([int(d) for d in digits if d.isdigit()])):
        doubled = digit * 2 if place % 2 else digit
        total += doubled // 10 + doubled % 10
    return total % 10 == 0


def as_redactor(value: Redactor | Patterns | MaskFunction) -> Redactor:
    """Return ``value`` if it is a `Redactor`, else the one that it makes."""
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
    """Masks personal data in the history that a model sees; what is stored stays as it is.

    This agent's own current calls and pinned messages are masked like all others. The system prompt
    and the current question are no history: mask them where they come from, with the same
    `Redactor`.

    Args:
        patterns: A `Redactor`, or what makes one: patterns or a function; everything that is built
            in unless given. A function has to give the same for the same text: of a long thread it
            sees the newest part only.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    looks_back: ClassVar[bool] = False

    patterns: Annotated[Redactor | Patterns | MaskFunction, _checked_patterns] = tuple(BUILT_IN)
    redactor: Redactor = field(init=False)

    def __post_init__(self) -> None:
        """Check the patterns."""
        super().__post_init__()
        object.__setattr__(self, "redactor", as_redactor(self.patterns))

    @property
    def reason(self) -> str:
        """Names of what it masks, for reports."""
        return f"masks {', '.join(self.redactor.names)}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return the messages masked."""
        del context
        mask = self.redactor.message
        return rewritten(messages, {i: mask(m) for i, m in enumerate(messages)})


_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Fields of each record; all others came with ``extra=``."""

_FORMATTER = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Masks log records; it lets all of them pass.

    Masked are the message with its arguments, fields that came with ``extra=``, the text of an
    exception with its traceback, and the stack. The exception itself is taken off the record, so
    that no later handler or formatter writes it as it was.

    Put it on handlers, each of them: a filter of a logger is not asked for what loggers beneath it
    write.

    Args:
        redactor: A `Redactor`, or what makes one: patterns or a function.
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
        # Of anything else its text is what gets written.
        text = str(value)
        masked = self.redactor.text(text)
        return value if masked == text else masked
