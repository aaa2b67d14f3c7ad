"""Events that an API sends to functions: messages, people's answers, and cancellations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import uuid4

import inngest

from agentkit_py._core.validation import slugify
from agentkit_py._engine.instrumentation import carried_trace
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import APPROVAL_EVENT, Answered
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.questions import Question, QuestionStore, record_answer
from agentkit_py.inngest.exact import to_exact
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

    async def start(
        self, item: Agent[Any, Any] | Network[Any, Any], event_id: str, data: Mapping[str, Any]
    ) -> None:
        """Begin a run; the same ``event_id`` again begins nothing.

        Raises:
            Exception: The event could not be sent; the SDK exports no name for its error.
        """
        kind = "network" if isinstance(item, Network) else "agent"
        name = f"{self._client.app_id}/{kind}-{slugify(item.name)}"
        whole = {**carried_trace(), **data}
        if "state" in data:
            whole["state"] = to_exact(data["state"], floats=False)
        await self._client.send(inngest.Event(name=name, data=whole, id=event_id))

    async def answer(self, question: Question) -> None:
        """Pass a question's answer on to the run that waits for it, once.

        ``resolvedBy`` is who answered; ``answeredBy`` is the user whose run it is, since runs that
        an API began accept no other.

        Raises:
            Exception: The event could not be sent; the SDK exports no name for its error.
        """
        assert question.answer is not None
        data = {
            **question.answer.to_dict(),
            "approvalId": question.id,
            "answeredBy": question.user_id,
        }
        event = inngest.Event(name=APPROVAL_EVENT, data=data, id=f"agentkit-answer-{question.id}")
        await self._client.send(event)

    async def cancel(self, user_id: str, thread_id: str) -> None:
        """Stop the user's runs in a thread, and publish so: a stopped function cannot.

        Raises:
            Exception: The event could not be sent; the SDK exports no name for its error.
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
            Exception: The server gave none.
        """
        return await subscription_token(self._client, user_id)


async def answer_question(
    client: inngest.Inngest,
    store: HistoryConfig | None,
    question_id: str,
    answer: Answered,
    *,
    by: str | None = None,
) -> Question:
    """Answer a question that an Inngest function waits with; the function then goes on.

    The row in the store closes first, so that of several answers one counts, and opens again if the
    event cannot be sent. Whoever calls this decides who may answer.

    Example:
        ::

            for question in await network.pending(thread_id):
                await answer_question(client, network.history, question.id, True, by="mia")

    Args:
        client: The SDK's client, of any app of the environment.
        store: The store of the thread.
        question_id: The id of the question.
        answer: True, False, or an answer with a reason, decisions on single calls and changed
            arguments.
        by: The id of the person who answers.

    Returns:
        The question as it is answered.

    Raises:
        NotPendingError: There is no such question, or it is not open any more.
        ConfigurationError: The store keeps no questions, or no Inngest function asked this one.
        Exception: The event could not be sent; the SDK exports no name for its error.
    """
    if not isinstance(store, QuestionStore):
        raise ConfigurationError(
            "answer_question: give it the store of the thread, one that keeps questions such as "
            f"SqliteHistory, not {store!r:.80}"
        )
    asked = await store.load_question(question_id)
    if asked is not None and asked.execution is None:
        raise ConfigurationError(
            f"answer_question: no Inngest function asked question {question_id!r}; go on with its "
            f"run by network.resume({asked.thread_id!r}, {{{question_id!r}: …}}, by=…)"
        )
    return await record_answer(store, question_id, answer, by, tell=Sender(client).answer)
