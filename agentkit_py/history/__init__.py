"""History: how threads are created, loaded and saved, and which processors go with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.mail import InboxStore, MailStore
from agentkit_py.history.ratings import Rating, RatingStore
from agentkit_py.history.staff import StaffMember, Takeover, TakeoverStore
from agentkit_py.results import StaffAuthor

if TYPE_CHECKING:
    from agentkit_py.history.delivery import deliver
    from agentkit_py.history.staff_desk import StaffDesk

__all__ = [
    "HistoryConfig",
    "HistoryContext",
    "InboxStore",
    "MailStore",
    "Rating",
    "RatingStore",
    "StaffAuthor",
    "StaffDesk",
    "StaffMember",
    "Takeover",
    "TakeoverStore",
    "deliver",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.history.delivery": "deliver",
            "agentkit_py.history.staff_desk": "StaffDesk",
        },
    )


def __dir__() -> list[str]:
    return __all__
