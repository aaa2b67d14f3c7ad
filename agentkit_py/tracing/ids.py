"""Ids of spans that must be the same whenever a durable run comes by them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import Tracer


def trace_id_of(execution: str) -> int:
    """The trace of an execution that was started without one."""
    return int.from_bytes(hashlib.sha256(f"trace:{execution}".encode()).digest()[:16])


def span_id_of(execution: str, key: str) -> int:
    """The span of the thing called ``key`` in an execution."""
    return int.from_bytes(hashlib.sha256(f"span:{execution}/{key}".encode()).digest()[:8])


class FixedIds:
    """An id generator of the SDK's that can be told the next ids.

    It stands before the generator of our own tracer; other tracers keep theirs.
    """

    def __init__(self, others: Any) -> None:
        """Make ids with ``others`` where none are fixed."""
        self._others = others
        self._fixed = threading.local()

    @classmethod
    def of(cls, tracer: Tracer) -> FixedIds | None:
        """The generator of ``tracer``; None where it is not one of the SDK's."""
        found: Any = getattr(tracer, "id_generator", None)
        if found is None or isinstance(found, cls):
            return found
        made = cls(found)
        setattr(tracer, "id_generator", made)  # noqa: B010 - the API's class does not have it
        return made

    @contextmanager
    def fixed(self, trace_id: int, span_id: int) -> Generator[None]:
        """Spans that this thread begins in the block have these ids."""
        self._fixed.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._fixed.ids = None

    def _now(self) -> tuple[int, int] | None:
        return getattr(self._fixed, "ids", None)

    def generate_trace_id(self) -> int:
        """The SDK asks for the id of a trace."""
        fixed = self._now()
        return self._others.generate_trace_id() if fixed is None else fixed[0]

    def generate_span_id(self) -> int:
        """The SDK asks for the id of a span."""
        fixed = self._now()
        return self._others.generate_span_id() if fixed is None else fixed[1]

    def is_trace_id_random(self) -> bool:
        """Whether ids of traces are random; ours look like it and are not."""
        asked = getattr(self._others, "is_trace_id_random", None)
        return self._now() is None and asked is not None and asked()
