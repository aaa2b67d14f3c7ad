"""Chunks as strangers may see them, and as the useAgent hook reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_py._core.json import as_object

FAILED = "Something went wrong on the server."
"""What is said of a failure whose words are not for the user."""

_HARMLESS = frozenset({"interrupted", "removed from the reply"})
"""Why parts fail, in the projector's own words."""


def without_details(
    chunk: Mapping[str, Any], words: str = FAILED, *, recoverable: bool = False
) -> dict[str, Any]:
    """The chunk with other words for why a run or a part failed.

    Errors name providers, files and hosts; whoever talks to an agent need not know them.

    Args:
        chunk: A chunk as it was published.
        words: What is said instead.
        recoverable: Whether trying again may help.
    """
    data = as_object(chunk.get("data")) or {}
    event = chunk.get("event")
    if event == "run.failed":
        return {**chunk, "data": {**data, "error": words, "recoverable": recoverable}}
    if event == "part.failed" and data.get("error") not in _HARMLESS:
        return {**chunk, "data": {**data, "error": words}}
    return dict(chunk)


def for_hook(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """The chunk of an output that names its call, under the id of that call's part.

    The hook looks for a call with the output's id, and else takes the last that is open.
    """
    data = as_object(chunk.get("data")) or {}
    call = data.get("callPartId")
    if not isinstance(call, str):
        return dict(chunk)
    return {**chunk, "data": {**data, "partId": call}}
