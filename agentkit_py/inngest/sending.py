"""Events that an API sends to functions: messages, people's answers, and cancellations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import uuid4

import inngest

from agentkit_py._core.naming import slugify
from agentkit_py._engine.instrumentation import carried_trace
from agentkit_py.agent import Agent
from agentkit_py.events.approvals import APPROVAL_EVENT, ApprovalAnswer
from agentkit_py.inngest.realtime import publisher, stop, subscription_token
from agentkit_py.network import Network

Client: TypeAlias = inngest.Inngest
"""The SDK's client, for packages that do not import the SDK themselves."""

CANCEL_EVENT = "agentkit/run.cancelled"
"""Name of the event that stops the runs of one user in one thread."""


def cancel_by_event() -> inngest.Cancel:
    """Return the setting by which `CANCEL_EVENT` stops a function."""
    return inngest.Cancel(
        event=CANCEL_EVENT,
        if_exp=(
            "async.data.threadId == event.data.threadId && async.data.userId == event.data.userId"
        ),
    )


class Sender:
    """Sends events to functions for users of an API.

    Each event names the user that the API knows; functions take only events of their user.
    """

    def __init__(self, client: inngest.Inngest) -> None:
        """Keep the client."""
        self._client = client

    @property
    def api_origin(self) -> str:
        """Address of the Inngest server, with its realtime server."""
        return self._client.api_origin

    async def start(self, item: Agent | Network, event_id: str, data: Mapping[str, Any]) -> None:
        """Begin a run; the same ``event_id`` again begins nothing.

        Raises:
            inngest.Error: The event could not be sent.
        """
        kind = "network" if isinstance(item, Network) else "agent"
        name = f"{self._client.app_id}/{kind}-{slugify(item.name)}"
        whole = {**carried_trace(), **data}
        await self._client.send(inngest.Event(name=name, data=whole, id=event_id))

    async def answer(self, user_id: str, question_id: str, answer: ApprovalAnswer) -> None:
        """Pass a person's answer on to the run that waits for it.

        Raises:
            inngest.Error: The event could not be sent.
        """
        when = datetime.now(UTC).isoformat()
        data = {
            **answer.to_dict(),
            "approvalId": question_id,
            "answeredBy": user_id,
            "resolvedBy": user_id,
            "resolvedAt": when,
        }
        await self._client.send(inngest.Event(name=APPROVAL_EVENT, data=data))

    async def cancel(self, user_id: str, thread_id: str) -> None:
        """Stop the user's runs in a thread, and publish so: a stopped function cannot.

        Raises:
            inngest.Error: The event could not be sent.
        """
        data: dict[str, Any] = {"userId": user_id, "threadId": thread_id}
        stop(user_id, thread_id)
        await self._client.send(inngest.Event(name=CANCEL_EVENT, data=data))
        publish = publisher(self._client, user_id)
        key = uuid4()
        said = {**data, "scope": "network", "messageId": str(key)}
        for event, facts in (("run.interrupted", {"reason": "cancelled"}), ("stream.ended", {})):
            await publish(
                {
                    "event": event,
                    "data": {**said, **facts},
                    "timestamp": int(datetime.now(UTC).timestamp() * 1000),
                    # How far the run had come is not known here; the hook takes an old number at
                    # once.
                    "sequenceNumber": 0,
                    "id": f"cancel-{key}:{event}",
                }
            )

    async def token(self, user_id: str) -> dict[str, Any]:
        """Return a subscription token for the user's channel.

        Raises:
            inngest.Error: The server gave none.
        """
        return await subscription_token(self._client, user_id)
