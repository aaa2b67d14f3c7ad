"""Reading a provider's answer: what all formats share. Nothing here trusts the JSON."""

from __future__ import annotations

from typing import Any

from agentkit_py._core.json import as_object
from agentkit_py.errors import ModelResponseError
from agentkit_py.messages import Message, ToolCallMessage
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import error_in_body, excerpt_of, redact


def checked_body(model: Model, body: object) -> dict[str, Any]:
    """The body if it is an object that is no error.

    Raises:
        ModelResponseError: It is not.
    """
    found = as_object(body)
    if found is not None and not found.get("error"):
        return found
    raise error_in_body(model, body) or unexpected(model, body, "the answer is no JSON object")


def unexpected(model: Model, body: object, what: str) -> ModelResponseError:
    """The error for an answer that is not what the API promises."""
    return ModelResponseError(
        what,
        provider=model.provider,
        model=model.model,
        excerpt=redact(excerpt_of(body), model, None),
    )


def calls_last(messages: list[Message]) -> tuple[Message, ...]:
    """The messages of one reply with its tool calls at the end, where results follow them.

    Text that a model writes between two calls of one reply would separate calls from results.
    """
    calls = [message for message in messages if isinstance(message, ToolCallMessage)]
    rest = [message for message in messages if not isinstance(message, ToolCallMessage)]
    return (*rest, *calls)


def count(source: object, name: str, inner: str | None = None) -> int:
    """The number under a name, or under a second name inside of that; 0 where there is none."""
    found = as_object(source)
    if found is None:
        return 0
    value: Any = found.get(name)
    return whole_number(value) if inner is None else count(value, inner)


def whole_number(value: object) -> int:
    """``value`` if it is a count; else 0."""
    return value if type(value) is int and value > 0 else 0


def text_or_empty(value: object) -> str:
    """``value`` if it is text."""
    return value if isinstance(value, str) else ""
