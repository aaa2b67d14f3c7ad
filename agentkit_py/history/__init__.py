"""History: how threads are created, loaded and saved, and which processors go with them."""

from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.mail import MailStore, deliver

__all__ = ["HistoryConfig", "HistoryContext", "MailStore", "deliver"]
