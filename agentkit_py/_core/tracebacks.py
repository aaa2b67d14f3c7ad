"""Tracebacks of errors that the library raises because of a developer's code."""

from __future__ import annotations

from types import TracebackType

_BETWEEN = frozenset(
    {"agentkit_py", "anyio", "asyncio", "concurrent", "contextlib", "functools", "threading"}
)
"""The packages between a call of the library and an error that it raises."""


def is_own_code(traceback: TracebackType | None) -> bool:
    """Return whether an error passed through code other than the library's, e.g. a user's hook."""
    while traceback is not None:
        name = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in _BETWEEN:
            return True
        traceback = traceback.tb_next
    return False
