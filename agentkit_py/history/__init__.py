"""History: how threads are created, loaded and saved, and which processors go with them."""

from agentkit_py.history.config import HistoryConfig, HistoryContext

__all__ = ["HistoryConfig", "HistoryContext"]
