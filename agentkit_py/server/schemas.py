"""Requests that clients send, checked; responses, as the useAgent hook reads them; and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from agentkit_py._core.json import MAX_DEPTH, find_non_json, is_too_deep
from agentkit_py._core.untrusted import clean
from agentkit_py.memory.users import MAX_CHARS

M = TypeVar("M", bound=BaseModel)

_LEAST_MILLISECONDS = 10**11
"""In 1973; less is seconds, or no time at all."""


class ApiError(Exception):
    """Ends a request with ``{"error": {"message", "code"}}``; the useAgent hook shows the message.

    Attributes:
        status: The HTTP status.
        code: A word for programs.
        message: A sentence for people; it holds no facts that the caller may not know.
        headers: Headers of the response.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers: dict[str, str] = dict(headers or {})

    def body(self) -> ErrorResponse:
        """Return the response's JSON."""
        return {"error": {"message": self.message, "code": self.code}}


def unauthorized() -> ApiError:
    """Return the error for a request without a known user."""
    return ApiError(401, "unauthorized", "Please sign in.")


def not_found(what: str = "thread") -> ApiError:
    """Return the error for something that is missing or of another user, without saying which."""
    return ApiError(404, f"{what}_not_found", f"There is no such {what}.")


def no_streams() -> ApiError:
    """Return the error for a stream of runs whose chunks do not pass through this server."""
    words = (
        "The agents run as Inngest functions, whose replies do not pass through this server: "
        "send with /api/chat, and listen with the token of /api/realtime/token, or let them pass "
        'through the store (realtime="store").'
    )
    return ApiError(501, "no_streams", words)


def invalid(message: str) -> ApiError:
    """Return the error for a request that cannot be understood."""
    return ApiError(400, "invalid_request", message)


def too_many(message: str, code: str = "too_many_runs") -> ApiError:
    """Return the error for a limit per user."""
    return ApiError(429, code, message, {"Retry-After": "5"})


def internal() -> ApiError:
    """Return the error for a failure that only the log explains."""
    return ApiError(500, "internal_error", "Something went wrong on the server.")


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
    """The note: colleagues and agents read it, the user does not."""

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


class ErrorFacts(TypedDict):
    """The reason why a request was refused."""

    message: str
    """A sentence for people."""

    code: str
    """A word for programs."""


class ErrorResponse(TypedDict):
    """A request that was refused."""

    error: ErrorFacts


class ChatResponse(TypedDict):
    """The message was accepted; the reply comes by the stream."""

    success: bool
    threadId: str
    messageId: str


class Done(TypedDict):
    """The request was carried out."""

    success: bool


class Cancelled(TypedDict):
    """The runs of the thread are being stopped."""

    success: bool
    cancelled: int
    """Number of runs; with Inngest it is not known, and always 1."""


class FactItem(TypedDict):
    """A fact that is remembered of the user."""

    id: str
    text: str
    createdAt: str
    agent: str | None
    """The agent that alone knows it; null: all do."""

    threadId: str | None
    """The thread that it came from; it is deleted with it."""

    messageId: str | None
    replaces: str | None
    replacedBy: str | None
    """The fact that took its place; null: it holds."""


class Facts(TypedDict):
    """Facts that are remembered of the user, newest first."""

    facts: list[FactItem]


class Forgotten(TypedDict):
    """Facts were deleted for good."""

    success: bool
    forgotten: int


class ThreadSummary(TypedDict):
    """A thread without its messages."""

    id: str
    title: str
    messageCount: int
    lastMessageAt: str
    createdAt: str
    updatedAt: str
    forkedFrom: str | None


class ThreadPage(TypedDict):
    """Threads, last changed first."""

    threads: list[ThreadSummary]
    hasMore: bool
    total: int
    nextCursorTimestamp: str | None
    nextCursorId: str | None


class FoundMessage(TypedDict):
    """The first message of a thread that a search found."""

    thread: ThreadSummary
    position: int
    text: str


class FoundMessages(TypedDict):
    """Threads that a search found, last changed first."""

    matches: list[FoundMessage]
    hasMore: bool


class NewThreadResponse(TypedDict):
    """The thread that was created."""

    threadId: str
    title: str
    userId: str
    createdAt: str


class ForkItem(TypedDict):
    """A thread that was forked from another."""

    threadId: str
    title: str
    position: int
    """The position in the other before which the fork has its messages."""

    createdAt: str


class Forks(TypedDict):
    """Forks of a thread that are still there, the oldest first."""

    forks: list[ForkItem]
    hasMore: bool


class StaffWriter(TypedDict):
    """The staff member who wrote a message."""

    name: str
    to: Literal["user", "agents"]
    """``"agents"``: a note, which the user does not get."""


class StaffOnThread(TypedDict):
    """The staff on a thread."""

    state: Literal["none", "asked", "taken"]
    """``"asked"``: agents answer until a person joins; ``"taken"``: the people answer."""

    names: list[str]


class StoredMessage(TypedDict):
    """A message of the user, or the result of an agent's model call."""

    message_id: str
    position: int
    """Counts from 0 in the thread."""

    type: Literal["user", "agent"]
    createdAt: str
    content: NotRequired[str]
    """The text of a user's message."""

    clientState: NotRequired[dict[str, Any]]
    """The client state of a user's message."""

    staff: NotRequired[StaffWriter]
    """A person wrote it, no agent."""

    agentName: NotRequired[str]
    data: NotRequired[dict[str, Any]]
    """An agent's ``output`` and ``toolCalls``, as messages of the TypeScript package."""


class ApprovalItem(TypedDict):
    """A question that waits, or waited, for a person.

    The user whose thread it is gets neither ids of others nor words for agents: ``approvers`` is
    empty then, and each ``reason`` is the text for the user.
    """

    id: str
    threadId: str
    runId: str | None
    agent: str
    userId: str | None
    calls: list[dict[str, Any]]
    """The calls in question: ``{index, toolCallId, toolName, toolInput, partId?}``."""

    message: str
    askedAt: str
    expiresAt: str | None
    approvers: list[str]
    escalatesAt: str | None
    status: str
    answeredBy: str | None
    reason: str
    toUser: str
    """The words for the user of the thread."""

    answeredAt: str | None
    decisions: dict[str, Any]
    """Decisions on single calls, by index."""

    approved: bool | None
    """The decision on all calls that `decisions` does not name; null: none was made."""

    mayAnswer: bool
    """True if the user who asks may answer it."""


class ApprovalsPage(TypedDict):
    """Questions, the oldest first."""

    approvals: list[ApprovalItem]
    hasMore: bool


class LastReply(TypedDict):
    """The status of the reply to the last message."""

    messageId: str
    """The id of the user's message."""

    status: str
    """``"working"``, ``"waiting"`` (for a person) or ``"queued"`` while its stream is open; then
    ``"completed"``, ``"stopped"`` or ``"failed"``."""

    until: str | None
    """The time until which a person may answer; None: no limit."""

    error: str
    """The reason of a failure, in words for the user."""

    recoverable: bool
    """True if the message can be sent again."""


class ThreadResponse(TypedDict):
    """A thread and its last messages, oldest first."""

    thread: ThreadSummary
    messages: list[StoredMessage]
    hasMore: bool
    """True if the thread has messages before these."""

    running: list[str]
    """Ids of the user's messages whose replies a new reader of the stream gets from the start;
    these replies are not among the messages."""

    pending: list[ApprovalItem]
    """The open questions of the thread."""

    reply: LastReply | None
    """The status of the reply to the last of these messages that is the user's; None: there is no
    such message, or replies do not pass through the server."""

    staff: StaffOnThread


class TakeoverPerson(TypedDict):
    """A person who is on a thread."""

    id: str
    name: str
    joinedAt: str


class TakeoverItem(TypedDict):
    """A thread that a person is on, or wanted in."""

    threadId: str
    userId: str | None
    title: str
    status: str | None
    people: list[TakeoverPerson]
    reason: str
    askedBy: str | None
    askedAt: str | None
    waitingSince: str | None
    """The time of the user's first message that no person has answered."""

    mine: bool
    """True if the requesting user is on the thread."""


class TakeoversPage(TypedDict):
    """Threads, the oldest first."""

    takeovers: list[TakeoverItem]
    hasMore: bool
    userId: str
    """The user who asks."""

    isStaff: bool | None
    """Whether the user is staff; null: a rule of the application decides for each thread."""


class AgentItem(TypedDict):
    """An agent that may answer in a thread."""

    network: str | None
    agent: str
    description: str
    tools: dict[str, str]
    """The titles of its own tools, by name; ``{argument}`` is replaced by an argument."""


class AgentsPage(TypedDict):
    """The agents of the server."""

    agents: list[AgentItem]


class StaffThread(TypedDict):
    """A thread as staff see it, notes included: its last messages, oldest first."""

    thread: ThreadSummary
    takeover: TakeoverItem
    messages: list[StoredMessage]
    hasMore: bool
    pending: list[ApprovalItem]
    questions: list[ApprovalItem]
    """The thread's last questions, the oldest first, also those that are closed or that others have
    to answer: who decided, why, and with which arguments."""

    agents: list[AgentItem]
    reply: LastReply | None
    """The status of the reply to the last of these messages that is the user's."""


class StaffThreadsItem(TypedDict):
    """A thread that staff found."""

    thread: ThreadSummary
    takeover: TakeoverItem
    text: str
    """The part of a message that was found; empty: it was found by an id."""


class StaffThreads(TypedDict):
    """Threads that staff found."""

    threads: list[StaffThreadsItem]
    hasMore: bool


class MatrixJson(TypedDict):
    """What each model call of a thread saw."""

    matrix: dict[str, Any]
    """The data of the page that shows it: see `ContextMatrix.to_dict`."""


class Explained(TypedDict):
    """The messages that an agent would be sent now."""

    agent: str
    summary: str
    messages: list[dict[str, Any]]


class VercelThread(TypedDict):
    """A thread as messages of ``useChat``."""

    id: str
    messages: list[dict[str, Any]]
    staff: StaffOnThread
    hasMore: bool
    """True if the thread has turns before these."""

    position: int
    """The position of the first of these turns: ``before`` of the page before."""


class AgUiThread(TypedDict):
    """A thread as messages of ``@ag-ui/client``."""

    threadId: str
    messages: list[dict[str, Any]]
    staff: StaffOnThread
    interrupts: list[dict[str, Any]]
    """The questions that wait for an answer."""

    state: dict[str, Any]
    """The part of the state that clients may set."""

    hasMore: bool
    """True if the thread has turns before these."""

    position: int
    """The position of the first of these turns: ``before`` of the page before."""


class RealtimeServer(TypedDict):
    """The address that the realtime client connects to."""

    apiBaseUrl: str


class TokenResponse(TypedDict):
    """The right to listen, for the hook's realtime client."""

    channel: str
    topics: list[str]
    key: str
    token: str
    """Equal to ``key``."""

    app: RealtimeServer
    expires: NotRequired[int]
    """The time of expiry, in milliseconds since 1970."""
