"""What the API answers, as the useAgent hook reads it; the OpenAPI document is made of these."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class ErrorFacts(TypedDict):
    """Why a request was refused."""

    message: str
    """A sentence for people."""

    code: str
    """A word for programs."""


class ErrorAnswer(TypedDict):
    """A request that was refused."""

    error: ErrorFacts


class ChatAnswer(TypedDict):
    """The message is being answered; the answer comes by the stream."""

    success: bool
    threadId: str
    messageId: str


class Done(TypedDict):
    """It was done."""

    success: bool


class Cancelled(TypedDict):
    """The runs of the thread were told to stop."""

    success: bool
    cancelled: int
    """How many runs were stopped; as Inngest functions, it is not known whether there are any."""


class ThreadSummary(TypedDict):
    """A thread without its messages."""

    id: str
    title: str
    messageCount: int
    lastMessageAt: str
    createdAt: str
    updatedAt: str


class ThreadPage(TypedDict):
    """Threads, those changed last first."""

    threads: list[ThreadSummary]
    hasMore: bool
    total: int
    nextCursorTimestamp: str | None
    nextCursorId: str | None


class NewThreadAnswer(TypedDict):
    """The thread is there."""

    threadId: str
    title: str
    userId: str
    createdAt: str


class StoredMessage(TypedDict):
    """What the user said, or what one model call of an agent gave."""

    message_id: str
    position: int
    """Counts from 0 in the thread."""

    type: Literal["user", "agent"]
    createdAt: str
    content: NotRequired[str]
    """Of the user: what was said."""

    clientState: NotRequired[dict[str, Any]]
    """Of the user: the client state that came with it."""

    agentName: NotRequired[str]
    data: NotRequired[dict[str, Any]]
    """Of an agent: ``output`` and ``toolCalls``, as messages of the TypeScript package."""


class ThreadAnswer(TypedDict):
    """A thread and its last messages, oldest first."""

    thread: ThreadSummary
    messages: list[StoredMessage]
    hasMore: bool
    """Whether there are messages before these."""

    running: list[str]
    """Ids of the user's messages whose answers a new reader of the stream gets from the start;
    they are not among the messages."""


class RealtimeServer(TypedDict):
    """Where the realtime client connects."""

    apiBaseUrl: str


class TokenAnswer(TypedDict):
    """What the hook's realtime client needs to listen."""

    channel: str
    topics: list[str]
    key: str
    token: str
    """The same as ``key``."""

    app: RealtimeServer
    expires: NotRequired[int]
    """Milliseconds since 1970 until which one can connect with it."""
