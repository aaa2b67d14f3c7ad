"""The example's store for LMDB, which keeps everything beside threads as records."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

_FILE = Path(__file__).resolve().parents[2] / "examples" / "stores" / "lmdb_store.py"

LmdbHistory: Any = runpy.run_path(str(_FILE))["LmdbHistory"]


def record_store(folder: Path, **options: Any) -> Any:
    """Return a store in a folder."""
    return LmdbHistory(folder / "records", gigabytes=1, **options)
