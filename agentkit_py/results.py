"""AgentResult: the outcome of an inference and its tool calls."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Generic, Literal, cast, get_args

from typing_extensions import TypeVar

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps
from agentkit_py._core.spellings import options_spelled_here, replaced_here, spelled_here
from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import ConfigurationError, InvalidRecordError, ModelRetry, ToolError
from agentkit_py.messages import (
    CITATIONS,
    ContentPart,
    Finish,
    FinishReason,
    MediaContent,
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
    goes_on,
)
from agentkit_py.processors.report import ContextReport


class _NoValue(Enum):
    """A kind of its own, since None may be an output; an enum, so that copies are the same."""

    NO_VALUE = "no value"


NO_VALUE: Any = _NoValue.NO_VALUE
"""The value of a result that holds no output."""

OutputT = TypeVar("OutputT", default=None)
"""The type of an agent's output; None: its results are plain `AgentResult`s."""

USER = "user"
"""Agent name of the results that hold the user's messages."""


@dataclass(frozen=True, slots=True)
class StaffAuthor:
    """The staff member who wrote an entry of a thread."""

    id: str
    """The id by which the application knows the person; users of the HTTP API do not get it."""

    name: str
    """The name that the user and agents read."""

    to: Literal["user", "agents", "staff"] = "user"
    """``"agents"``: a note that agents read, and the user does not; ``"staff"``: a note that only
    staff read, which is in no request to a model."""

    def to_dict(self) -> dict[str, str]:
        """Return the author as JSON."""
        return {"id": self.id, "name": self.name, "to": self.to}


@options_spelled_here
@replaced_here
@spelled_here
@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result of an inference, or (with agent name ``"user"``) a user's message.

    Messages without an author get the agent's name, so that histories name the authors. The
    messages of a staff member have the person's name, and ``staff``.
    """

    agent_name: str
    output: Sequence[Message]
    """The model's messages, tool calls among them."""

    tool_calls: Sequence[ToolResultMessage] = ()
    """The results of the tools that were called (TypeScript's name)."""

    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    prompt: Sequence[Message] = field(default=(), repr=False)
    """System prompt, input and prefill of the inference."""

    history: Sequence[Message] = field(default=(), repr=False)
    """The history that the model saw."""

    reply: object = field(default=None, repr=False, kw_only=True)
    """The provider's answer as JSON."""

    id: str | None = field(default=None, kw_only=True)
    usage: Usage | None = field(default=None, kw_only=True)
    finish: Finish | None = field(default=None, kw_only=True, compare=False)
    """Why the model's reply ended, with the provider's word and details; None: not known."""

    stop_reason: str | None = field(default=None, kw_only=True, compare=False)
    """Which limit ended the agent's turn after this result, or why its last reply was cut
    (``"length"``, ``"refusal"``, …); None: it ended by itself."""

    staff: StaffAuthor | None = field(default=None, kw_only=True)
    """The staff member who wrote it; None: an agent or the user did."""

    context: ContextReport | None = field(default=None, repr=False, kw_only=True, compare=False)
    """The changes of each level of processors to the messages sent to the model."""

    value: Any = field(default=NO_VALUE, repr=False, kw_only=True, compare=False)
    """The output of the agent's turn, after its last result: an object of its ``output_type``, or
    the text. `NO_VALUE` where there is none; stores do not keep it."""

    failed_calls: Sequence[ToolResultMessage] = field(
        default=(), repr=False, kw_only=True, compare=False
    )
    """On the last result of an agent's turn: the calls of the turn whose tools raised something
    that was not meant for the model (`ToolError` and `ModelRetry` are), each with its ``error``.
    Of a durable run those that this process made; stores do not keep them."""

    thread_id: str | None = field(default=None, repr=False, kw_only=True, compare=False)
    """The thread of a result of `Agent.run`. The next run continues it by
    ``run(…, thread_id=result.thread_id)``; ``resume`` and ``pending`` take the result itself. None
    without a store, unless a thread was given, and on results that are read from a thread."""

    def __post_init__(self) -> None:
        """Normalise lists to tuples, the time to UTC, and sign the messages."""
        try:
            output = _signed(self.output, self.agent_name)
        except (AttributeError, TypeError):
            raise ConfigurationError(_not_messages(self.output)) from None
        if output is not self.output:
            object.__setattr__(self, "output", output)
        results = _signed(self.tool_calls, self.agent_name) if self.tool_calls else ()
        if results is not self.tool_calls:
            object.__setattr__(self, "tool_calls", results)
        if type(self.prompt) is not tuple:
            object.__setattr__(self, "prompt", tuple(self.prompt))
        if type(self.history) is not tuple:
            object.__setattr__(self, "history", tuple(self.history))
        if self.created_at.tzinfo is None:
            object.__setattr__(self, "created_at", self.created_at.replace(tzinfo=UTC))

    @classmethod
    def from_user(
        cls,
        content: str | Sequence[ContentPart],
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        created_at: datetime | None = None,
    ) -> AgentResult:
        """Return a user's message as an entry of a state or thread."""
        message = TextMessage("user", content if isinstance(content, str) else tuple(content))
        return cls(USER, (message,), (), created_at or datetime.now(UTC), id=id)

    @classmethod
    def from_staff(
        cls,
        author: StaffAuthor,
        text: str,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        created_at: datetime | None = None,
    ) -> AgentResult:
        """Return a staff member's message as an entry of a state or thread."""
        message = TextMessage("assistant", text)
        when = created_at or datetime.now(UTC)
        return cls(author.name, (message,), (), when, id=id, staff=author)

    @property
    def by_agent(self) -> bool:
        """True if an agent gave it; False: the user or staff wrote it."""
        return self.agent_name != USER and self.staff is None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Output and tool results, in the order of the model's input."""
        return (*self.output, *self.tool_calls)

    @property
    def text(self) -> str:
        """The assistant's text as the provider means it.

        Texts that the provider split are merged; others are joined by line breaks. A reply of
        nothing but images or other blocks is described in words, e.g. ``[image]``.
        """
        pieces: list[str] = []
        last: Message | None = None
        for message in self.output:
            if message.type == "text" and message.role == "assistant":
                if last is not None:
                    pieces.append("" if last.type == "text" and goes_on(message) else "\n")
                pieces.append(message.text)
                last = message
            elif last is not None:
                last = message
        text = "".join(pieces)
        return text if text.strip() else text or _in_words(self.output)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Reason why the model's reply ended, in a common vocabulary for all providers."""
        return None if self.finish is None else self.finish.reason

    @property
    def cut(self) -> Finish | None:
        """The end of a reply that is not whole; None: it is, or that is not known."""
        return self.finish if self.finish is not None and self.finish.is_cut else None

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The exceptions of the `failed_calls`."""
        return tuple([call.error for call in self.failed_calls if call.error is not None])

    @property
    def citations(self) -> tuple[JsonObject, ...]:
        """The sources that the reply names, in its order, as the provider gives them."""
        return tuple([one for message in self.output for one in _cited(message.provider_metadata)])

    @property
    def media(self) -> tuple[MediaContent, ...]:
        """The pictures and files that the model made, in their order."""
        made = [m.media for m in self.output if isinstance(m, OpaqueMessage)]
        return tuple(medium for found in made for medium in found)

    @property
    def raw(self) -> str | None:
        """The provider's answer as compact JSON text, None if there was none."""
        return None if self.reply is None else dumps(self.reply)

    @property
    def checksum(self) -> str:
        """BLAKE2b (128 bits, hex) of the JSON of messages and time; same content, same sum.

        The TypeScript checksum depends on the machine's time zone and drops the milliseconds, so
        it is not reproduced.
        """
        messages = [message_to_dict(message) for message in self.messages]
        text = dumps([messages, _to_iso(self.created_at)])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def on_side(self, *, past: bool) -> AgentResult:
        """Return the result with its messages marked as from before the current run, or of it."""
        if not [m for m in (*self.output, *self.tool_calls) if m.from_history is not past]:
            return self
        return replace(
            self,
            output=tuple([sided(m, past=past) for m in self.output]),
            tool_calls=tuple([sided(m, past=past) for m in self.tool_calls]),
            failed_calls=() if past else self.failed_calls,
        )

    def with_sides(self, *, past: bool) -> AgentResult:
        """Return the result with a side for messages without: that of the previous message."""
        if all(message.from_history is not None for message in self.messages):
            return self
        sides: list[bool] = []
        for message in self.messages:
            past = past if message.from_history is None else message.from_history
            sides.append(past)
        output = zip(self.output, sides, strict=False)
        calls = zip(self.tool_calls, sides[len(self.output) :], strict=True)
        return replace(
            self,
            output=tuple([sided(m, past=side) for m, side in output]),
            tool_calls=tuple([sided(m, past=side) for m, side in calls]),
        )

    def __str__(self) -> str:
        """The author, the messages, the errors of tools, and why the agent's turn ended."""
        reason = f" ({self.stop_reason})" if self.stop_reason else ""
        lines = [line for message in self.messages if (line := _line_of(message))]
        lines += [_line_of(call) for call in self.failed_calls if call not in self.tool_calls]
        return f"{self.agent_name}: " + "\n  ".join([*lines, ""]).rstrip() + reason

    def with_messages(self, output: Iterable[Message]) -> AgentResult:
        """Return a copy with another output, e.g. in an `on_response` hook."""
        return replace(self, output=tuple(output))

    def with_tool_calls(self, results: Sequence[ToolResultMessage]) -> AgentResult:
        """Return a copy with the results of the tools that were called."""
        return AgentResult(  # three times as quick as `replace`
            self.agent_name,
            self.output,
            results,
            self.created_at,
            self.prompt,
            self.history,
            reply=self.reply,
            id=self.id,
            usage=self.usage,
            finish=self.finish,
            stop_reason=self.stop_reason,
            staff=self.staff,
            context=self.context,
            value=self.value,
            failed_calls=self.failed_calls,
            thread_id=self.thread_id,
        )

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """JSON as TypeScript's ``export()`` gives it.

        Args:
            full: Also the request and the raw answer (``prompt``, ``history``, ``raw``). They
                repeat the thread in each result, so stores leave them out.
        """
        record: dict[str, Any] = {
            "agentName": self.agent_name,
            "output": [message_to_dict(message) for message in self.output],
            "toolCalls": [message_to_dict(message) for message in self.tool_calls],
            "createdAt": _to_iso(self.created_at),
        }
        if self.id is not None:
            record["id"] = self.id
        if self.staff is not None:
            record["staff"] = self.staff.to_dict()
        if self.usage is not None:
            record["usage"] = _usage_to_dict(self.usage)
        if self.finish is not None:
            record |= _finish_to_dict(self.finish)
        if full:
            record["prompt"] = [message_to_dict(message) for message in self.prompt]
            record["history"] = [message_to_dict(message) for message in self.history]
            if self.reply is not None:
                record["raw"] = self.raw
        return record

    @classmethod
    def from_dict(
        cls, record: object, *, where: str = "result", past: bool | None = None
    ) -> AgentResult:
        """The result that ``record`` (ours or TypeScript's) holds.

        Args:
            record: A result as JSON.
            where: What errors name as the place of the record.
            past: The ``from_history`` of its messages, which JSON does not have.

        Raises:
            InvalidRecordError: A field is missing or of the wrong kind.
        """
        # `isinstance` with an abstract class is slow, and each row of a thread comes here.
        if type(record) is not dict and not isinstance(record, Mapping):
            raise InvalidRecordError("expected an object", where=where, field="(whole)")
        fields: Any = record  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call
        usage = fields.get("usage")
        return cls(
            _string(fields, "agentName", where),
            _messages(fields, "output", where, past=past),
            _tool_results(fields, where, past=past) if fields.get("toolCalls") != [] else (),
            _time(fields, where),
            # What stores leave out is not looked for: each row of a thread comes here.
            _messages(fields, "prompt", where) if "prompt" in fields else (),
            _messages(fields, "history", where) if "history" in fields else (),
            reply=_raw_reply(fields) if "raw" in fields else None,
            id=None if fields.get("id") is None else _string(fields, "id", where),
            usage=None if usage is None else _usage_from_dict(usage, where),
            finish=_finish_from_dict(fields, where) if "finishReason" in fields else None,
            staff=_staff_from_dict(fields["staff"], where) if "staff" in fields else None,
        )

    export = to_dict


@dataclass(frozen=True)
class AgentRunResult(Generic[OutputT]):
    """The end of a run of an agent that has an ``output_type``."""

    output: OutputT
    """The output, of the agent's ``output_type``."""

    result: AgentResult
    """The last model call's result."""

    results: Sequence[AgentResult] = field(default=(), repr=False)
    """All results of the run, in order."""

    usage: Usage = field(default_factory=Usage)
    """The tokens of all model calls of the run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the run as JSON, ``{text, output, stopReason, results}``; inside Inngest, too."""
        from pydantic_core import to_jsonable_python  # noqa: PLC0415 - slow to load

        return {
            "text": self.text,
            "output": to_jsonable_python(self.output),
            "stopReason": self.stop_reason,
            "results": [result.to_dict() for result in self.results],
        }

    @property
    def text(self) -> str:
        """The output as text: itself, or its JSON."""
        return _text_of(self.output)

    @property
    def stop_reason(self) -> str | None:
        """Reason why the turn ended; None: by itself."""
        return self.result.stop_reason

    @property
    def thread_id(self) -> str | None:
        """The thread, which the next run continues; see `AgentResult.thread_id`."""
        return self.result.thread_id

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The exceptions that tools raised in the run; see `AgentResult.failed_calls`."""
        return self.result.errors

    def __str__(self) -> str:
        """The author, the output, and the errors of tools."""
        failed = [_line_of(call) for call in self.result.failed_calls]
        return "\n  ".join([f"{self.result.agent_name}: {self.text}", *failed])


def text_of_output(result: AgentResult) -> str:
    """Return the output that a result holds as text, else its text."""
    return result.text if result.value is NO_VALUE else _text_of(result.value)


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    from pydantic_core import to_json  # noqa: PLC0415 - slow to load

    return to_json(value, fallback=str).decode("utf-8", "replace")


def _objects(value: object) -> list[JsonObject]:
    """Return the objects of a JSON array; nothing where it is none."""
    found = (as_object(item) for item in as_list(value) or ())
    return [item for item in found if item is not None]


def _cited(metadata: JsonObject | None) -> list[JsonObject]:
    """Return the citations in a message's own block (Claude, Responses), or stored with it."""
    found = _objects((metadata or {}).get(CITATIONS))
    for kept in (metadata or {}).values():
        block = as_object(kept) or {}
        found += _objects(block.get("citations"))
        for part in _objects((as_object(block.get("item")) or {}).get("content")):
            found += _objects(part.get("annotations"))
    return found


def _in_words(messages: Sequence[Message]) -> str:
    """Return a reply's non-text content: media, and blocks that are not a tool's activity."""
    found: list[str] = []
    for message in messages:
        if isinstance(message, TextMessage) and not isinstance(message.content, str):
            found += [f"[{part.type}]" for part in message.content if part.type != "text"]
        elif isinstance(message, OpaqueMessage):
            found.append(str(message))
    return "\n".join(found)


def _finish_to_dict(finish: Finish) -> dict[str, Any]:
    record: dict[str, Any] = {"finishReason": finish.reason}
    if finish.word:
        record["providerReason"] = finish.word
    if finish.details:
        record["finishDetails"] = finish.details
    return record


def _finish_from_dict(fields: Mapping[str, Any], where: str) -> Finish:
    reason, details = fields["finishReason"], fields.get("finishDetails")
    if reason not in get_args(FinishReason):
        problem = f"expected one of {', '.join(get_args(FinishReason))}, got {reason!r:.80}"
        raise InvalidRecordError(problem, where=where, field="finishReason")
    if details is not None and not isinstance(details, Mapping):
        problem = f"expected an object, got {details!r:.80}"
        raise InvalidRecordError(problem, where=where, field="finishDetails")
    word = _string(fields, "providerReason", where) if "providerReason" in fields else ""
    return Finish(reason, word, cast("JsonObject | None", details))


def _staff_from_dict(given: object, where: str) -> StaffAuthor:
    fields = as_object(given) or {}
    key, name, to = [fields.get(one) for one in ("id", "name", "to")]
    if not (isinstance(key, str) and isinstance(name, str) and to in ("user", "agents", "staff")):
        problem = f"expected id, name and to ('user', 'agents' or 'staff'), got {given!r:.80}"
        raise InvalidRecordError(problem, where=where, field="staff")
    return StaffAuthor(key, name, cast("Any", to))


def _line_of(message: Message) -> str:
    """Return the text of a message as a single line."""
    match message:
        case TextMessage():
            return message.text
        case ToolCallMessage(tools=tools):
            return "; ".join(f"{call.name}({dumps(call.arguments)})" for call in tools)
        case ToolResultMessage(tool=tool, content=content, error=None):
            return f"{tool.name} → {dumps(content)[:200]}"
        case ToolResultMessage(tool=tool, content=content):
            from agentkit_py.events.for_users import reference_of  # noqa: PLC0415 - for errors only

            error = as_object((as_object(content) or {}).get("error")) or {}
            what = f"{error.get('name')}: {error.get('message')}"
            return f"{tool.name} raised {what[:200]} (reference {reference_of(content)} in the log)"
        case ReasoningMessage():
            return ""
        case OpaqueMessage():
            return str(message)


def _signed(messages: Sequence[Message], agent: str) -> tuple[Any, ...]:
    for message in messages:
        if message.agent is None and message.role not in _UNSIGNED:
            break
    else:  # nearly always, in a run
        return tuple(messages)
    signed = [
        message
        if message.agent is not None or message.role in _UNSIGNED
        else replace(message, agent=agent)
        for message in messages
    ]
    return tuple(signed)


_UNSIGNED = ("user", "system")


def _not_messages(output: object) -> str:
    """Return the error text of an output that is not a list of messages."""
    return (
        f"An AgentResult's output must be a list of messages, got {output!r:.120}. Write "
        'AgentResult.from_user("…") for a user\'s message, TextMessage("assistant", "…") for a '
        "text, and AgentResult.from_dict({…}) for a result in JSON."
    )


def replied(message: Message, agent: str) -> Message:
    """Return a message of a reply with its author, as of this run."""
    agent = message.agent or agent
    if type(message) is TextMessage and type(message.content) is str:  # nearly all, much quicker
        return TextMessage(
            message.role,
            message.content,
            stop_reason=message.stop_reason,
            from_history=False,
            agent=agent,
            provider_metadata=message.provider_metadata,
        )
    if type(message) is ToolCallMessage:
        return ToolCallMessage(
            message.tools,
            stop_reason=message.stop_reason,
            from_history=False,
            agent=agent,
            provider_metadata=message.provider_metadata,
        )
    return replace(message, agent=agent, from_history=False)


def _to_iso(time: datetime) -> str:
    utc = time.astimezone(UTC)
    precision = "milliseconds" if utc.microsecond % 1000 == 0 else "microseconds"
    return utc.isoformat(timespec=precision).replace("+00:00", "Z")


def _string(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRecordError(f"expected a string, got {value!r:.80}", where=where, field=name)
    return value


def _messages(
    fields: Mapping[str, Any], name: str, where: str, *, past: bool | None = None
) -> tuple[Message, ...]:
    value: object = fields.get(name)
    if not value and (value == [] or name not in fields):
        return ()
    if not isinstance(value, list):
        raise InvalidRecordError(f"expected a list, got {value!r:.80}", where=where, field=name)
    records: Any = value  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call
    return tuple(
        [
            message_from_dict(one, where=where, path=f"{name}[{index}]", past=past)
            for index, one in enumerate(records)
        ]
    )


def _tool_results(
    fields: Mapping[str, Any], where: str, *, past: bool | None
) -> tuple[ToolResultMessage, ...]:
    found = _messages(fields, "toolCalls", where, past=past)
    for index, message in enumerate(found):
        if message.type != "tool_result":
            problem = f"expected a tool_result, got a message of type {message.type}"
            raise InvalidRecordError(problem, where=where, field=f"toolCalls[{index}].type")
    return cast("tuple[ToolResultMessage, ...]", found)


_FIRST_YEAR, _LAST_YEAR = 1, 9999
"""Years that may be none in UTC."""


def _time(fields: Mapping[str, Any], where: str) -> datetime:
    text: Any = fields.get("createdAt")
    try:
        found = datetime.fromisoformat(text)
        if not _FIRST_YEAR < found.year < _LAST_YEAR:
            found.astimezone(UTC)
        return found
    except (TypeError, ValueError, OverflowError):
        raise InvalidRecordError(
            f"expected an ISO 8601 time, got {text!r:.80}", where=where, field="createdAt"
        ) from None


def _raw_reply(fields: Mapping[str, Any]) -> object:
    raw = fields.get("raw")
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _usage_to_dict(usage: Usage) -> dict[str, int]:
    written = usage.cache_write_tokens
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedTokens": usage.cached_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        **({"cacheWriteTokens": written} if written else {}),
    }


_USAGE = ("inputTokens", "outputTokens", "cachedTokens", "reasoningTokens", "cacheWriteTokens")


def _usage_from_dict(value: object, where: str) -> Usage:
    if type(value) is not dict and not isinstance(value, Mapping):  # quicker for nearly all
        problem = f"expected an object, got {value!r:.80}"
        raise InvalidRecordError(problem, where=where, field="usage")
    numbers = cast("Mapping[str, object]", value)
    return Usage(*[_tokens(numbers.get(name, 0), where, name) for name in _USAGE])


def _tokens(value: object, where: str, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        problem = f"expected a whole number, got {value!r:.80}"
        raise InvalidRecordError(problem, where=where, field=f"usage.{name}")
    return value


def is_unmeant(message: ToolResultMessage) -> bool:
    """Return whether a tool raised an exception that was not meant for the model."""
    return message.error is not None and not isinstance(message.error, ToolError | ModelRetry)


def sided(message: Message, *, past: bool) -> Message:
    """Return the message marked as from before the current run or of it: itself if it is so.

    An exception belongs to the run that made the call, and its traceback holds that run's objects.
    """
    if past and type(message) is ToolResultMessage and message.error is not None:
        return replace(message, from_history=True, error=None)
    return message if message.from_history is past else replace(message, from_history=past)
