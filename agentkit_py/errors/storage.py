"""What goes wrong with threads, records and documents."""

from __future__ import annotations

from agentkit_py.errors.base import AgentKitError


class HistoryError(AgentKitError):
    """A thread could not be loaded or saved."""


class ThreadNotFoundError(HistoryError):
    """There is no thread `thread_id`, or it is somebody else's."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"There is no thread {thread_id!r}.")
        self.thread_id = thread_id


class ThreadBusyError(HistoryError):
    """Another run is working on the thread `thread_id`."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"Another run is working on thread {thread_id!r}.")
        self.thread_id = thread_id


class StoreVersionError(HistoryError):
    """A newer library wrote the database: its schema version `found` is above `supported`."""

    def __init__(self, location: str, *, found: int, supported: int) -> None:
        super().__init__(
            f"{location} has schema version {found}, this library knows up to {supported}. "
            "Upgrade pyagentkit, or use another file."
        )
        self.found = found
        self.supported = supported


class InvalidRecordError(HistoryError):
    """Stored or imported JSON does not hold what it should.

    Attributes:
        where: Which record, e.g. ``"line 12"``.
        field: Path of the field, e.g. ``"messages[3].role"``.
    """

    def __init__(self, message: str, *, where: str, field: str) -> None:
        super().__init__(f"{where}, field {field}: {message}")
        self.where = where
        self.field = field


class KnowledgeError(AgentKitError):
    """Documents could not be read, stored or searched."""


class FilterError(KnowledgeError, ValueError):
    """A filter of documents cannot be used: an unknown key or operator, or an unfit value."""
