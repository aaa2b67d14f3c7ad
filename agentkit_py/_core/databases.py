"""Opening a database: private files, files in use, and PostgreSQL's addresses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar


def create_private(path: Path) -> None:
    """Create an empty file with mode 0600 if there is none; an existing file keeps its mode.

    SQLite gives its other files (``-wal``, ``-shm``, ``-journal``) the same mode. Where a
    file cannot be created nothing happens: opening it says why.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return


T = TypeVar("T")

_PAUSE = 0.01
"""Seconds."""


def retried(work: Callable[[], T], is_busy: Callable[[Exception], bool], *, seconds: float) -> T:
    """Call ``work``, again for so many seconds while others use the file. Blocks.

    Processes that create a file at the same moment can be refused at once, without the usual
    waiting: SQLite does so where waiting could be a deadlock, in the change to WAL.

    Raises:
        Exception: It is none of ``is_busy``, or the time is over.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except Exception as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


def is_sqlite_busy(error: Exception) -> bool:
    """Return whether SQLite refused a call since others use the file."""
    import sqlite3

    # The low byte is the kind, the rest says more. Errors of the Python module have no code.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(error, sqlite3.OperationalError) and code in busy


def conninfo_problem(conninfo: str) -> str | None:
    """Return an error text for an address that PostgreSQL's client cannot read, else None.

    Its own error quotes the address, password and all, and its pool writes that into the log.
    The text holds nothing of the address.
    """
    import psycopg  # an extra
    from psycopg.conninfo import conninfo_to_dict  # an extra

    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return (
            "the address of the database cannot be read. Write "
            "postgresql://user:password@host/database, where special characters in a name or "
            "password are percent-encoded, or key=value pairs."
        )
    return None


def database_name(conninfo: str) -> str:
    """Return words for the database: its name and host, without secrets."""
    import psycopg  # an extra
    from psycopg.conninfo import conninfo_to_dict  # an extra

    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "The PostgreSQL database"
    host = found.get("host", "localhost")
    return f"The PostgreSQL database {found.get('dbname', '')!r} at {host}"
