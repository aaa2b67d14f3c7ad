"""JSON for the page that cannot fail, whatever models, tools and settings hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from sse_starlette import ServerSentEvent
from starlette.responses import JSONResponse


def to_text(value: Any) -> str:
    """JSON in ASCII: halves of surrogate pairs, which UTF-8 cannot hold, are escapes like others.

    Numbers that JSON cannot hold become null.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return {key: _finite(item) for key, item in pairs.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return value


class Answer(JSONResponse):
    """JSON for the page."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_text(content).encode("ascii")


def told(value: Any, **more: Any) -> ServerSentEvent:
    """An event for the page."""
    return ServerSentEvent(to_text(value), **more)
