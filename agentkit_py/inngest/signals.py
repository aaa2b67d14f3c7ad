"""Signals between runs, and the function that hears of runs that were stopped."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import inngest

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.mail import box_of, deliver, mail_store
from agentkit_py.history.runs import RunStore
from agentkit_py.history.stopping import stop_run
from agentkit_py.inngest.exact import refuse_rounded
from agentkit_py.runtime.direct import shared_runtime
from agentkit_py.stores.base import HistoryStore

logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

SIGNAL_EVENT = "agentkit/signal"
"""Name of the event that wakes a run in line for a thread, ``{key}`` in its data."""

ENDED = ("inngest/function.cancelled", "inngest/function.failed")
"""The server's events for runs that ended without ending themselves."""


async def send_signal(client: inngest.Inngest, key: str) -> None:
    """Wake the run that waits for ``key``; one that cannot be reached asks again by itself."""
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
        ConfigurationError: The store keeps no mail, or there are no events.
    """
    mail_store(store)
    if not events:
        raise ConfigurationError("mailbox_function: name the events that are to be kept.")

    async def keep(ctx: inngest.Context) -> None:
        # No steps: all of this may be done again.
        for event in ctx.events:
            content = cast("JsonObject", event.data)
            key = content.get(events[event.name])
            if key is None:
                problem = f"Event {event.name!r} has no data.{events[event.name]}: nobody gets it."
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
) -> inngest.Function[Any]:
    """Make the function that frees the threads of runs that were cancelled or have failed.

    `create_functions` makes one for its networks and agents. Serve one for functions of your own
    that run networks whose stores have a ``lease``. However a run is stopped (by the API, an event,
    the dashboard, a time-out), what its tools had done is added to its thread, and the next message
    is answered.

    Args:
        client: The SDK's client.
        stores: The stores of the threads.
        functions: Whose runs it hears of; all of the environment if none is given.

    Raises:
        ConfigurationError: A store has no leases.
    """
    for store in stores:
        if not isinstance(store, RunStore):
            raise ConfigurationError(f"stop_function: {store!r:.80} keeps no leases")
    expression = " || ".join(f"event.data.function_id == '{one.id}'" for one in functions) or None

    async def stop(ctx: inngest.Context) -> int:
        # No steps: each is a trip to the server, and all of this may be done again.
        run_id = str(ctx.event.data.get("run_id", ""))
        signal = partial(send_signal, client)
        return sum([await stop_run(_stoppable(store), run_id, signal) for store in stores])

    return client.create_function(
        fn_id="agentkit-stop",
        name="Free the threads of stopped runs",
        trigger=[inngest.TriggerEvent(event=name, expression=expression) for name in ENDED],
        retries=20,
    )(stop)


def _stoppable(store: HistoryStore) -> Any:
    return store
