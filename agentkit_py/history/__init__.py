"""History: how threads are created, loaded and saved, and which processors go with them."""

from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.mail import InboxStore, MailStore, deliver
from agentkit_py.history.staff import StaffDesk, StaffMember, Takeover, TakeoverStore
from agentkit_py.results import StaffAuthor

__all__ = [
    "HistoryConfig",
    "HistoryContext",
    "InboxStore",
    "MailStore",
    "StaffAuthor",
    "StaffDesk",
    "StaffMember",
    "Takeover",
    "TakeoverStore",
    "deliver",
]
