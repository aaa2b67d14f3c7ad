"""What both modes have in common: a message to answer, and what may be done with its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import HTTPConnection

from agentkit_py.events import Decision
from agentkit_py.messages import TextMessage, UserMessage
from agentkit_py.server.answers import TokenAnswer
from agentkit_py.server.config import Target

TOPIC = "agent_stream"
"""The topic on which the useAgent hook listens."""


def channel_of(user_id: str) -> str:
    """The channel of one user."""
    return f"user:{user_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A user's message, and who is to answer it."""

    user_id: str
    thread_id: str
    target: Target
    message: UserMessage
    client_state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the client set, reduced to what it may set."""

    client_history: list[TextMessage] | None = None
    """In place of the stored thread; None: that is loaded."""


class Backend(Protocol):
    """Runs jobs: here, or as Inngest functions."""

    streams: bool
    """Whether chunks pass through this process, so that they can be streamed from here."""

    def open(self) -> None:
        """Take messages, also after a `close`."""
        ...

    def check_room(self, user_id: str) -> None:
        """Refuse what could not be begun.

        Raises:
            Refusal: Too many run already.
        """
        ...

    async def start(self, job: Job) -> None:
        """Begin a run, and return at once.

        Raises:
            Refusal: Too many run already, or it could not be begun.
        """
        ...

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Stop the user's runs in a thread; how many were told to."""
        ...

    async def answer(self, user_id: str, thread_id: str, call_id: str, decision: Decision) -> bool:
        """Pass a person's word on; False if no such question waits."""
        ...

    async def token(self, request: HTTPConnection, user_id: str) -> TokenAnswer:
        """What the hook needs to listen to the user's channel."""
        ...

    def replayed(self, user_id: str, thread_id: str) -> list[str]:
        """Ids of the messages whose answers a new reader of the stream gets from their start."""
        ...

    async def close(self) -> None:
        """Let runs end, or stop them."""
        ...
