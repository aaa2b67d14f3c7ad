"""Runs that were stopped from this process, while a step of theirs goes on in it.

Inngest stops a function between two steps. A step that is asking a model goes on to its end, and
what it streams would go on, too, after the front end was told that the run is over.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from agentkit_py.inngest.live import Publish

_REMEMBERED = 1000
_stopped: OrderedDict[tuple[str, str], float] = OrderedDict()
"""When the runs of a user in a thread were stopped, those stopped last at the end."""


def stop(user_id: str, thread_id: str) -> None:
    """What runs of this user in this thread still stream from here is dropped."""
    key = (user_id, thread_id)
    _stopped[key] = time.monotonic()
    _stopped.move_to_end(key)
    if len(_stopped) > _REMEMBERED:
        _stopped.popitem(last=False)


def unless_stopped(send: Publish, user_id: str, thread_id: object) -> Publish:
    """``send`` for an execution that begins now; runs that begin after a stop are not meant."""
    if not isinstance(thread_id, str):
        return send
    began = time.monotonic()
    key = (user_id, thread_id)

    async def publish(chunk: dict[str, Any]) -> None:
        if _stopped.get(key, began) <= began:
            await send(chunk)

    return publish
