"""Streaming through Inngest realtime, as the useAgent React hook reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import inngest
from inngest.experimental import realtime

TOPIC = "agent_stream"
"""The topic on which the useAgent hook listens."""


def channel_of(user_id: str) -> str:
    """The channel of one user, as the useAgent hook names it."""
    return f"user:{user_id}"


def publisher(
    client: inngest.Inngest, user_id: str, *, topic: str = TOPIC
) -> Callable[[dict[str, Any]], Awaitable[None]]:
    """A ``publish`` for `StreamingConfig` or the middleware: chunks go to the user's channel.

    Args:
        client: Whose key is used.
        user_id: Who may listen.
        topic: The topic on the channel.
    """
    channel = channel_of(user_id)

    async def publish(chunk: dict[str, Any]) -> None:
        await realtime.publish(client, channel, topic, chunk)

    return publish


async def subscription_token(client: inngest.Inngest, user_id: str) -> dict[str, Any]:
    """A token with which a browser may listen to one user's channel, and to no other."""
    return dict(await realtime.get_subscription_token(client, channel_of(user_id), [TOPIC]))
