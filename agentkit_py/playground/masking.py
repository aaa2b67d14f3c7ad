"""What the page gets of a network whose store masks personal data. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from agentkit_py.processors.redaction import Redactor

_WORDS = frozenset(
    {
        *("text", "input", "content", "system", "title", "answer"),
        *("error", "reason", "facts", "metadata", "toolInput"),
        *("data", "before", "after", "state"),
    }
)
"""Fields that hold what people, models and tools say; all others are names, ids and figures."""

CALL = frozenset({"request", "reply"})
"""What else holds words where a model call is told of."""


def masked(value: Any, redactor: Redactor | None, also: Collection[str] = ()) -> Any:
    """JSON for the page with its words masked; itself without a redactor.

    Args:
        value: The JSON.
        redactor: That of the store.
        also: Other fields that hold words.
    """
    if redactor is None:
        return value
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return {
            key: redactor.value(item)
            if (key in _WORDS or key in also) and not isinstance(item, int | float)
            else masked(item, redactor, also)
            for key, item in found.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item, redactor, also) for item in cast("list[Any]", value)]
    return value
