"""Values that the checks store, and their assertions."""

from __future__ import annotations

from collections.abc import Awaitable

from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.results import AgentResult

ODD_TEXTS = (
    "\ud800",
    "a\udfffb",
    "\0",
    "a\0\x1a0",
    "\u2028",
    "e\u0301",
    "🐟" * 1000,
    "'; DROP --",
    "",
)
"""Halves of surrogate pairs, zero bytes, line separators, combining characters, SQL."""


def said(text: str, name: str | None = None) -> AgentResult:
    """Return a user's turn; its id is made of ``name``, or of the text."""
    return AgentResult.from_user(text, id=f"user {text if name is None else name}")


def reply(name: str) -> AgentResult:
    """Return an agent's result that calls a tool."""
    call = ToolCall(f"call-{name}", "lookup", {"order": name})
    return AgentResult(
        "billing",
        [TextMessage("assistant", f"looking {name} up"), ToolCallMessage((call,))],
        [ToolResultMessage(call, {"data": {"found": name}})],
        id=f"result-{name}",
    )


def same(found: object, expected: object, what: str) -> None:
    """Assert that two values are equal."""
    assert found == expected, f"{what}: expected {expected!r:.300}, found {found!r:.300}"


def holds(found: object, what: str) -> None:
    """Assert that a value is True."""
    assert found is True, f"{what}: expected True, found {found!r:.300}"


def fails(found: object, what: str) -> None:
    """Assert that a value is False."""
    assert found is False, f"{what}: expected False, found {found!r:.300}"


async def raises(kind: type[Exception], call: Awaitable[object], what: str) -> None:
    """Assert that ``call`` raises an error of this kind."""
    try:
        await call
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{what}: expected {kind.__name__}, got {error!r}") from error
    raise AssertionError(f"{what}: expected {kind.__name__}, nothing was raised")
