"""Requests that clients send, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from agentkit_py._core.json import MAX_DEPTH, find_non_json, is_too_deep
from agentkit_py._core.untrusted import clean
from agentkit_py.memory.users import MAX_CHARS
from agentkit_py.server.errors import invalid

M = TypeVar("M", bound=BaseModel)

_LEAST_MILLISECONDS = 10**11
"""In 1973; less is seconds, or no time at all."""


def parse(model: type[M], found: object) -> M:
    """Check a request against its model; the error names the first field that is wrong."""
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise invalid(f"{where}: {first['msg']}") from None


def check_unicode(text: str) -> str:
    """Refuse halves of surrogate pairs, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode") from None
    return text


def _ascii_digits(value: object) -> object:
    if isinstance(value, str) and not (value.isascii() and value.isdecimal() and len(value) < 10):  # noqa: PLR2004 - nine digits
        raise ValueError("expected a whole number")
    return value


def _time(value: object) -> object:
    """Refuse values that pydantic reads as seconds since 1970: small numbers, digits as text."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value):
        return value
    if type(value) is int and value >= _LEAST_MILLISECONDS:
        return value
    raise ValueError("expected a time like 2026-11-22T12:00:00Z, or milliseconds since 1970")


def _fact_length(text: str) -> str:
    if not 0 < len(text) <= MAX_CHARS:
        raise ValueError(f"expected 1 to {MAX_CHARS} characters")
    return text


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Refuse arguments that could not be stored: Python reads NaN and 1e400 from JSON."""
    if is_too_deep(arguments):
        raise ValueError(f"at most {MAX_DEPTH} levels")
    if find_non_json(arguments, "arguments") is not None:
        raise ValueError("is not plain JSON")
    return arguments


def _utc(time: datetime) -> datetime:
    """Return the time in UTC; a time without a zone is read as UTC."""
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside of the years 1 to 9999") from None


Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s/\x00-\x1f\x7f]+$"),
    AfterValidator(check_unicode),
]
"""An id that a client made: anything that a path can hold, without white space."""

Text = Annotated[str, AfterValidator(check_unicode)]
CallArguments = Annotated[dict[str, Any], AfterValidator(_plain)]
Whole = Annotated[int, BeforeValidator(_ascii_digits)]
Time = Annotated[datetime, BeforeValidator(_time), AfterValidator(_utc)]


class _Fields(BaseModel):
    """Fields as on the wire; unknown ones are ignored, since later hooks may send more."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


class ChatMessage(_Fields):
    """A message of the user."""

    id: Id | None = None
    """Its id; a message that is sent twice under the same id is answered once."""

    content: Text = Field(min_length=1)
    """The text."""

    role: Literal["user"] = "user"
    state: dict[str, Any] | None = None
    """Client state; keys that are not allowed are ignored."""

    client_timestamp: Time | None = None
    """When it was written."""

    system_prompt: None = None
    """Only the server writes system prompts."""


class ChatRequest(_Fields):
    """`POST /api/chat`. ``userId`` and ``channelKey`` are known from `auth`, and not read."""

    user_message: ChatMessage
    """The message."""

    thread_id: Id | None = None
    """The thread; a new thread by default."""

    edits: Id | None = None
    """The id of an earlier message that this message replaces: the thread is rewound to before
    it. The hook sends it in ``userMessage.state``, as ``editFromMessageId``."""

    on_busy: Literal["wait", "steer", "interrupt"] | None = None
    """Behaviour while another message of the thread is being answered: this message waits for its
    turn; it steers, i.e. reaches the next model call; or it interrupts the other answer."""

    history: list[Any] = Field(default_factory=list[Any])
    """The messages that the client shows; only their texts are read, if at all."""

    network: str | None = None
    """The network that answers; the first unless given."""

    agent: str | None = None
    """The agent that answers, where agents are served."""


class CancelRequest(_Fields):
    """`POST /api/chat/cancel`."""

    thread_id: Id
    """The thread whose runs are stopped."""


class NewThread(_Fields):
    """`POST /api/threads`."""

    title: Annotated[Text, StringConstraints(max_length=200, strip_whitespace=True)] | None = None
    """Its title; the beginning of its first message unless given."""

    thread_id: Id | None = None
    """Its id; a new id by default."""


class ForkRequest(_Fields):
    """`POST /api/threads/{threadId}/fork`."""

    thread_id: Id = ""
    """The thread."""

    before: Id | None = Field(
        None, description="The id of a message of the user; the fork has the messages before it."
    )
    title: Annotated[Text, StringConstraints(max_length=200, strip_whitespace=True)] | None = None
    """The fork's title."""


class RewindRequest(_Fields):
    """`POST /api/threads/{threadId}/rewind`."""

    thread_id: Id = ""
    """The thread."""

    before: Id = Field(description="The id of a message of the user; it goes, with all after it.")


class ForksQuery(_Fields):
    """`GET /api/threads/{threadId}/forks`."""

    thread_id: str = Field(description="The thread.")
    limit: Whole = Field(50, ge=1, le=200, description="Number of forks.")


class ApprovalRequestBody(_Fields):
    """`POST /api/approve-tool`."""

    tool_call_id: Id
    """The approval request's ``requestId``, or a call's ``partId`` or ``toolCallId``."""

    thread_id: Id
    """The thread."""

    action: Literal["approve", "deny"]
    """The decision."""

    reason: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """The reason, which the model reads with a denial; the user of the thread does not."""

    to_user: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """Words for the user of the thread; the model reads them, too."""


class CallDecision(_Fields):
    """A decision on a call of a question."""

    index: int = Field(ge=0)
    """The call, counted from 0."""

    action: Literal["approve", "deny"]
    """The decision."""

    reason: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """The reason, which the model reads with a denial; the user of the thread does not."""

    to_user: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """Words for the user of the thread; the model reads them, too."""

    arguments: CallArguments | None = None
    """Arguments in place of the model's."""


class CallAnswer(_Fields):
    """An answer to `stream_response` about a call."""

    approved: bool
    reason: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """The reason, which the model reads with a denial; the user of the thread does not."""

    to_user: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """Words for the user of the thread; the model reads them, too."""

    arguments: CallArguments | None = None
    """Arguments in place of the model's."""


class AnswerBody(_Fields):
    """`POST /api/approvals/{questionId}`."""

    question_id: Id = ""
    """The question."""

    action: Literal["approve", "deny"] | None = None
    """The decision on all calls that `calls` does not name; without it they stay open."""

    reason: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """The reason, which the model reads with a denial; the user of the thread does not."""

    to_user: Annotated[Text, StringConstraints(max_length=2000)] | None = None
    """Words for the user of the thread; the model reads them, too."""

    calls: list[CallDecision] = Field(default_factory=list[CallDecision], max_length=1000)
    """Decisions on single calls."""

    @model_validator(mode="before")
    @classmethod
    def _arguments_are_of_a_call(cls, body: Any) -> Any:
        """Refuse arguments of no call: the call would be approved with the model's own."""
        if isinstance(body, Mapping) and "arguments" in body:
            raise ValueError("arguments belong to a call: calls=[{index, action, arguments}]")
        return body  # pyright: ignore[reportUnknownVariableType] - the fields check it

    @field_validator("calls")
    @classmethod
    def _once(cls, calls: list[CallDecision]) -> list[CallDecision]:
        if len({one.index for one in calls}) < len(calls):
            raise ValueError("decides on a call twice")
        return calls


class ApprovalsQuery(_Fields):
    """`GET /api/approvals`."""

    status: Literal["open", "answered", "expired", "stopped", "all"] = Field(
        "open", description="Questions in this state; all of them with `all`."
    )
    thread_id: str | None = Field(None, description="Only those of this thread.")
    user_id: str | None = Field(None, description="Only those of this user's threads.")
    agent: str | None = Field(None, description="Only those of this agent.")
    tool: str | None = Field(None, description="Only those about this tool.")
    limit: Whole = Field(50, ge=1, le=200, description="Number of questions.")


class TakeoversQuery(_Fields):
    """`GET /api/takeovers`."""

    status: Literal["asked", "taken", "all"] = Field(
        "all", description="Threads in which staff are wanted, or that have staff."
    )
    limit: Whole = Field(50, ge=1, le=200, description="Number of threads.")


class JoinBody(_Fields):
    """`POST /api/takeovers/{threadId}/join`."""

    thread_id: Id
    """The thread."""

    name: Annotated[Text, StringConstraints(max_length=100)] | None = None
    """The name that the user and agents read; `Staff` unless given."""

    stop: bool = False
    """Stop the agents' work; otherwise a reply in progress is completed."""


class SayBody(_Fields):
    """`POST /api/takeovers/{threadId}/say`."""

    thread_id: Id
    """The thread."""

    text: Annotated[Text, StringConstraints(min_length=1, max_length=32_000)]
    """The person's words to the user."""

    message_id: Id | None = None
    """Messages of the same id are stored once."""


class HandBackBody(_Fields):
    """`POST /api/takeovers/{threadId}/hand-back`."""

    thread_id: Id
    """The thread."""

    note: Annotated[Text, StringConstraints(max_length=8000)] = ""
    """A note for agents; the user does not get it."""


class NoteBody(_Fields):
    """`POST /api/takeovers/{threadId}/note`."""

    thread_id: Id
    """The thread."""

    text: Annotated[Text, StringConstraints(min_length=1, max_length=8000)]
    """The note, which the user does not get."""

    to: Literal["staff", "agents"] = "staff"
    """The readers: ``"staff"``: colleagues alone; ``"agents"``: agents, too."""

    name: Annotated[Text, StringConstraints(max_length=100)] | None = None
    """The name of a person who has not joined; `Staff` unless given."""

    message_id: Id | None = None
    """Notes of the same id are stored once."""


class StaffThreadsQuery(_Fields):
    """`GET /api/staff/threads`."""

    words: Annotated[Text, StringConstraints(max_length=200)] | None = Field(
        None,
        description="Words of a message, the thread's id, or the user's; without them the threads "
        "that changed last.",
    )
    user_id: str | None = Field(None, description="Only threads of this user.")
    limit: Whole = Field(20, ge=1, le=100, description="Number of threads.")


class NoParams(_Fields):
    """`GET /api/agents`."""


class ExplainQuery(_Fields):
    """`GET /api/takeovers/{threadId}/explain`."""

    thread_id: str = Field(description="The thread.")
    agent: str = Field(description="The agent.")
    network: str | None = Field(None, description="Its network, if not the first.")


class FactsQuery(_Fields):
    """`GET /api/memory`."""

    replaced: bool = Field(default=False, description="Also facts that others have replaced.")


class FactPath(_Fields):
    """`DELETE /api/memory/{factId}`."""

    fact_id: Id = Field(description="The fact.")


class CorrectBody(FactPath):
    """`POST /api/memory/{factId}`."""

    text: Annotated[
        Text,
        AfterValidator(lambda text: " ".join(clean(text).split())),
        AfterValidator(_fact_length),
    ] = Field(description=f"What holds instead, of at most {MAX_CHARS} characters.")


class ForgetQuery(_Fields):
    """`DELETE /api/memory`."""

    all: Literal["true"] = Field(description="`true`, so that an empty id cannot delete all.")


class TokenRequest(_Fields):
    """`POST /api/realtime/token`. The channel is that of the user known from `auth`."""

    thread_id: Id | None = None


class ThreadsQuery(_Fields):
    """`GET /api/threads`."""

    limit: Whole = Field(20, ge=1, le=100, description="Number of threads.")
    offset: Whole = Field(0, ge=0, le=10_000, description="Number of threads to skip.")
    cursor_timestamp: Annotated[Time | None, BeforeValidator(lambda text: text or None)] = Field(
        None, description="nextCursorTimestamp of the page before."
    )
    cursor_id: str | None = Field(None, description="nextCursorId of the page before.")


class SearchQuery(_Fields):
    """`GET /api/search`."""

    words: Annotated[Text, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Words of a message, in any order; the beginning of a word is enough, and "
        "words in double quotes must be adjacent."
    )
    limit: Whole = Field(20, ge=1, le=100, description="Number of threads.")


class ThreadPath(_Fields):
    """`DELETE /api/threads/{threadId}`."""

    thread_id: str = Field(description="The thread.")


class ThreadQuery(ThreadPath):
    """`GET /api/threads/{threadId}`."""

    limit: Whole = Field(200, ge=1, le=1000, description="Number of messages, the last ones.")
    before: Whole | None = Field(
        None,
        ge=0,
        le=10**8,
        description="Only messages before this position: that of the first message of the page "
        "that has more.",
    )


class StaffThreadQuery(ThreadQuery):
    """`GET /api/takeovers/{threadId}`."""

    closed: bool = Field(default=True, description="Whether closed questions are wanted, too.")


class MatrixQuery(ThreadPath):
    """`GET /api/takeovers/{threadId}/matrix`."""

    limit: Whole = Field(100, ge=1, le=1000, description="Number of model calls, the last ones.")


class FrontEndQuery(ThreadPath):
    """`GET /api/vercel/{threadId}` and `GET /api/ag-ui/{threadId}`."""

    limit: Whole = Field(200, ge=1, le=1000, description="Rows of the thread, the last ones.")
    before: Whole | None = Field(
        None,
        ge=0,
        le=10**8,
        description="Only turns before this position: that of the page that has more.",
    )


class StreamQuery(_Fields):
    """`GET /api/stream`."""

    thread_id: str | None = Field(None, description="Only the chunks of this thread.")
    token: str | None = Field(None, description="A key of /api/realtime/token, instead of `auth`.")
    last_event_id: str | None = Field(
        None, description="Same as the header Last-Event-ID, for a first connection."
    )
