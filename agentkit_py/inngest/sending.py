"""Events: an API's messages to functions, and signals between runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, cast
from uuid import uuid4

import inngest

from agentkit_py._core.json import JsonObject, as_object
from agentkit_py._core.validation import slugify
from agentkit_py._engine.instrumentation import carried_trace
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import APPROVAL_EVENT, Answered
from agentkit_py.events.replies import reply_id
from agentkit_py.history.abilities import abilities_of, mail_of
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.delivery import deliver
from agentkit_py.history.mail import box_of
from agentkit_py.history.questions import (
    Question,
    record_answer,
    stop_question,
)
from agentkit_py.history.stopping import stop_run
from agentkit_py.inngest.realtime import (
    Publish,
    StoreChannel,
    publisher,
    stop,
    subscription_token,
)
from agentkit_py.inngest.steps import refuse_rounded, to_exact
from agentkit_py.network import Network, Target
from agentkit_py.runtime.direct import shared_runtime
from agentkit_py.stores.base import HistoryStore

Client: TypeAlias = inngest.Inngest
"""The SDK's client, for packages that do not import the SDK themselves."""

CANCEL_EVENT = "agentkit/run.cancelled"
"""Name of the event that stops the runs of a user in a thread."""


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
        """Keep the client, as ``client``."""
        self.client = client

    @property
    def api_origin(self) -> str:
        """Address of the Inngest server, with its realtime server."""
        return self.client.api_origin

    async def start(self, item: Target, event_id: str, data: Mapping[str, Any]) -> None:
        """Begin a run; the same ``event_id`` again begins nothing.

        Raises:
            Exception: The event could not be sent; the SDK exports no name for its error.
        """
        kind = "network" if isinstance(item, Network) else "agent"
        name = f"{self.client.app_id}/{kind}-{slugify(item.name)}"
        whole = {**carried_trace(), **data}
        if "state" in data:
            whole["state"] = to_exact(data["state"], floats=False)
        await self.client.send(inngest.Event(name=name, data=whole, id=event_id))

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
        await self.client.send(event)

    async def cancel(
        self,
        user_id: str,
        thread_id: str,
        publish: Publish | None = None,
        *,
        answers: str | None = None,
    ) -> None:
        """Stop the user's runs in a thread, and publish so: a stopped function cannot.

        Args:
            user_id: The user.
            thread_id: The thread.
            publish: Sends a chunk; unless given, to Inngest's realtime.
            answers: The id of the user's last message, if any: the end is that of its
                reply, as nothing is known of a run here.

        Raises:
            Exception: The event could not be sent; the SDK exports no name for its error.
        """
        data: dict[str, Any] = {"userId": user_id, "threadId": thread_id}
        stop(user_id, thread_id)
        await self.client.send(inngest.Event(name=CANCEL_EVENT, data=data))
        publish = publish or publisher(self.client, user_id)
        key = uuid4()
        message_id = str(key) if answers is None else reply_id(answers)
        said = {**data, "scope": "network", "messageId": message_id}
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
        return await subscription_token(self.client, user_id)


async def answer_question(
    client: inngest.Inngest,
    store: HistoryConfig | None,
    question_id: str,
    answer: Answered,
    *,
    by: str | None = None,
) -> Question:
    """Answer a question that an Inngest function waits with; the function then resumes.

    The row in the store decides: it closes first, so that of several answers the first counts, and
    stays closed if the event cannot be sent. The answer is sent again by the next answer to the
    question, the same or another, and by `send_answers`, until the run has it. Check who may answer
    before the call.

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
        NotPendingError: The question does not exist, or is not open any more; the error names who
            was first.
        ConfigurationError: The store keeps no questions, or no Inngest function asked this
            question.
        Exception: The event could not be sent; the SDK exports no name for its error.
    """
    questions = abilities_of(store).questions
    if questions is None:
        raise ConfigurationError(
            "answer_question: give it the store of the thread, which must keep questions, such as "
            f"SqliteHistory, not {store!r:.80}"
        )
    asked = await questions.load_question(question_id)
    if asked is not None and asked.execution is None:
        raise ConfigurationError(
            f"answer_question: no Inngest function asked question {question_id!r}; resume its "
            f"run by network.resume({asked.thread_id!r}, {{{question_id!r}: …}}, by=…)"
        )
    return await record_answer(questions, question_id, answer, by, tell=Sender(client).answer)


async def send_answers(client: inngest.Inngest, store: HistoryConfig | None) -> int:
    """Send the answers again that Inngest functions do not have yet; return their number.

    An answer is stored before its event is sent, so a process that dies between the two leaves a
    run that waits. Call this now and then, such as from a function with a `TriggerCron`; servers of
    `create_app` do. The same event twice answers once.

    Args:
        client: The SDK's client, of any app of the environment.
        store: The store of the threads.

    Raises:
        ConfigurationError: The store keeps no questions.
        Exception: An event could not be sent; the SDK exports no name for its error.
    """
    questions = abilities_of(store).questions
    if questions is None:
        raise ConfigurationError(
            f"send_answers: give it a store that keeps questions, such as SqliteHistory, not "
            f"{store!r:.80}"
        )
    sender, now = Sender(client), datetime.now(UTC)
    sent = 0
    for question in await questions.list_questions(status="undelivered", limit=None):
        is_over = question.expires_at is not None and question.expires_at <= now
        if question.execution is not None and not is_over:  # then the run looks at the row itself
            await sender.answer(question)
            sent += 1
    return sent


logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

SIGNAL_EVENT = "agentkit/signal"
"""Name of the event that wakes a run in line for a thread, ``{key}`` in its data."""

ENDED = ("inngest/function.cancelled", "inngest/function.failed")
"""The server's events for runs that ended without ending themselves."""


async def send_signal(client: inngest.Inngest, key: str) -> None:
    """Wake the run that waits for ``key``; an unreachable run asks again by itself."""
    await shared_runtime().signal(key)
    try:
        event = inngest.Event(name=SIGNAL_EVENT, data={"key": key})
        await client.send(event, skip_middleware=True)
    except Exception:
        logger.warning("The next run on a thread could not be woken", exc_info=True)


def mailbox_function(
    client: inngest.Inngest, store: HistoryStore, events: Mapping[str, str]
) -> inngest.Function[Any]:
    """Make the function that keeps events until tools receive them with ``ctx.receive(…)``.

    An event that comes before a run waits for it is lost to ``ctx.wait_for_event(…)``; kept in the
    store it is found. Each is kept once, by its id, for 30 days.

    Example:
        ::

            mailbox_function(client, store, {"shop/paid": "order"})
            # in a tool: await ctx.receive("shop/paid", key=order, timeout=timedelta(days=3))

    Args:
        client: The SDK's client.
        store: The store of the runs' threads.
        events: Names of events, with the field of their data that is the key.

    Raises:
        ConfigurationError: The store keeps no mail, or no events are given.
    """
    mail_of(store)
    if not events:
        raise ConfigurationError("mailbox_function: name the events to keep.")

    async def keep(ctx: inngest.Context) -> None:
        # No steps: all of this may be done again.
        for event in ctx.events:
            content = cast("JsonObject", event.data)
            key = content.get(events[event.name])
            if key is None:
                problem = f"Event {event.name!r} has no data.{events[event.name]}: no run gets it."
                raise inngest.NonRetriableError(problem)
            try:
                refuse_rounded(content, f"data of event {event.name!r}")
            except ConfigurationError as error:
                raise inngest.NonRetriableError(str(error)) from error
            await deliver(store, event.name, str(key), content, mail_id=event.id)
            await send_signal(client, box_of(event.name, str(key)))

    return client.create_function(
        fn_id="agentkit-mailbox",
        name="Keep events until runs receive them",
        trigger=[inngest.TriggerEvent(event=name) for name in events],
        retries=20,
    )(keep)


def stop_function(
    client: inngest.Inngest,
    stores: Sequence[HistoryStore],
    functions: Iterable[inngest.Function[Any]] = (),
    *,
    streams: bool = False,
) -> inngest.Function[Any]:
    """Make the function that frees the threads of runs that were cancelled or have failed.

    `create_functions` makes such a function for its networks and agents. Serve another for
    functions of your own that run networks with stores. However a run is stopped (by the API, an
    event, the dashboard, a time-out), the work of its tools is added to its thread, and the next
    message is answered.

    Args:
        client: The SDK's client.
        stores: The stores of the threads.
        functions: The functions to watch; all of the environment by default.
        streams: Say in the stores that the streams of these runs have ended, where their chunks go
            through the stores.

    Raises:
        ConfigurationError: A store can have no leases.
    """
    for store in stores:
        if abilities_of(store).runs is None:
            raise ConfigurationError(f"stop_function: {store!r:.80} keeps no leases")
    expression = " || ".join(f"event.data.function_id == '{one.id}'" for one in functions) or None

    async def stop(ctx: inngest.Context) -> int:
        # No steps: each is a trip to the server, and all of this may be done again.
        run_id = str(ctx.event.data.get("run_id", ""))
        signal = partial(send_signal, client)
        for store in stores:
            await stop_questions(store, run_id, _thread_of(ctx.event.data))
        freed = sum([await stop_run(cast("Any", store), run_id, signal) for store in stores])
        channels = [StoreChannel.of(store) for store in stores] if streams else []
        for channel in channels:
            if channel is not None:
                await channel.end(run_id)
        return freed

    return client.create_function(
        fn_id="agentkit-stop",
        name="Free the threads of stopped runs",
        trigger=[inngest.TriggerEvent(event=name, expression=expression) for name in ENDED],
        retries=20,
    )(stop)


def _thread_of(ended: Mapping[str, Any]) -> str | None:
    """Return the thread that the event of a stopped run named; None: its run began a thread."""
    begun = as_object(ended.get("event")) or {}
    thread_id = (as_object(begun.get("data")) or {}).get("threadId")
    return thread_id if isinstance(thread_id, str) else None


async def stop_questions(store: object, run_id: str | None, thread_id: str | None) -> None:
    """Close the open questions of functions' runs that were stopped.

    Args:
        store: The store of the questions.
        run_id: The run of the function; None: all of the thread's.
        thread_id: The thread; None: it is not known, so all open questions are looked at.
    """
    questions = abilities_of(store).questions
    if questions is None:
        return
    for asked in await questions.list_questions(thread_id=thread_id, limit=None):
        if asked.execution is not None and run_id in (None, asked.execution):
            await stop_question(questions, asked.id)
