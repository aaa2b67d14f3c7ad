"""Responses of the API, as the useAgent hook reads them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


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
    to: Literal["user", "agents", "staff"]
    """``"agents"``: a note for agents, ``"staff"``: one for colleagues; the user gets neither."""


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
