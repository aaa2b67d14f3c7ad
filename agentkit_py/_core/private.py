"""Files that only their owner may read."""

from __future__ import annotations

import os
from pathlib import Path


def create_private(path: Path) -> None:
    """Create an empty file with mode 0600 if there is none; one that is there keeps its mode.

    SQLite gives the files beside its own (``-wal``, ``-shm``, ``-journal``) the same mode. Where a
    file cannot be created nothing happens: whoever opens it says why.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return
