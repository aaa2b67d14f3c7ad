"""Delivery of events to the runs that wait for them."""

from __future__ import annotations

from agentkit_py._core.json import JsonObject
from agentkit_py.history.abilities import mail_of
from agentkit_py.history.mail import box_of


async def deliver(
    store: object, event: str, key: str, content: JsonObject, *, mail_id: str
) -> None:
    """Store an external event for the run that receives it with ``ctx.receive(event, …)``.

    Runs in this process are woken; others look again within a second. For Inngest functions there
    is `agentkit_py.inngest.mailbox_function`, which wakes them at once.

    Args:
        store: The store of the runs' threads.
        event: What it is, e.g. ``"shop/paid"``.
        key: Whom it is for, e.g. the number of an order.
        content: What is received.
        mail_id: An id: the same again changes nothing.

    Raises:
        ConfigurationError: The store keeps no mail.
        HistoryError: The content is not JSON.
    """
    from agentkit_py.runtime.direct import shared_runtime

    box = box_of(event, key)
    await mail_of(store).put_mail(box, mail_id, content)
    await shared_runtime().signal(box)
