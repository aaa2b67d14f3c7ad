"""What steps keep: plain JSON under our own keys, with what must not be tried again in it."""

from __future__ import annotations

import json
import logging
import re
from datetime import timedelta
from typing import Any, TypeVar, cast

import inngest

from agentkit_py._core.json import dumps, find_non_json
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    MissingDependencyError,
    MissingModelError,
    NonRetriableError,
    RetryAfterError,
    StateError,
    ThreadNotFoundError,
    ToolDefinitionError,
    passes_through,
)
from agentkit_py.runtime.port import Codec

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of one step's output at the most (inngest/pkg/consts)."""

MAX_INLINE = 256 * 1024
"""Bytes of a loaded thread that are kept in a step's output; longer ones are read again."""

NEVER_RETRIED = (ConfigurationError, StateError, ThreadNotFoundError)
"""Errors of steps that another attempt would only repeat."""

WARN_AT = 0.8
"""Share of a limit at which a warning is logged."""


def kept(value: T, codec: Codec[T] | None) -> dict[str, Any]:
    """What is remembered of ``value``: itself, or where to find it again."""
    if codec is None:
        return {"value": value}
    dumped = codec.dump(value)
    if len(dumps(dumped).encode()) > MAX_INLINE:
        return {"cursor": codec.cursor(value)}
    return {"value": dumped}


def check_output(step_id: str, output: T) -> T:
    """Refuse what Inngest would not keep, or would give back changed.

    Returns:
        The output, each half of a surrogate pair as U+FFFD: the server fails a run that holds one
        ("error transforming request with JCS: Missing surrogate").

    Raises:
        StateError: It is no JSON, or too large.
    """
    path = find_non_json(output, "output")
    if path is not None:
        raise StateError(f"Step {step_id!r} gave something that is not JSON, at {path!r}")
    text = json.dumps(output)  # as the SDK sends it: spaces, and all in ASCII
    size = len(text)
    if size > MAX_OUTPUT:
        raise StateError(
            f"Step {step_id!r} gave {size:,} bytes; Inngest keeps at most {MAX_OUTPUT:,}. Store "
            "the data yourself and return a reference."
        )
    if size > MAX_OUTPUT * WARN_AT:
        logger.warning("Step %r gave %d of at most %d bytes", step_id, size, MAX_OUTPUT)
    return _whole(output, text) if "\\ud" in text else output


def _whole(output: T, text: str) -> T:
    joined = json.dumps(json.loads(text), ensure_ascii=False)  # halves that meet are whole now
    mended = _HALF.sub("\ufffd", joined)
    return output if mended == joined else cast("T", json.loads(mended))


_HALF = re.compile("[\ud800-\udfff]")


def sdk_error(error: Exception) -> Exception:
    """``error`` as the SDK knows it where it says when to try again; else itself."""
    if isinstance(error, RetryAfterError):
        return inngest.RetryAfterError(str(error), timedelta(seconds=error.retry_after))
    return error


def is_final(error: Exception) -> bool:
    """Whether the step that raised ``error`` must not be tried again.

    The SDK remembers no `NonRetriableError` of a step: where the run goes on, as it does in a
    group, the step would run again. So such errors are recorded as the step's output.
    """
    if isinstance(error, RetryAfterError | inngest.RetryAfterError):
        return False
    return isinstance(error, NEVER_RETRIED) or passes_through(error)


def recorded(error: Exception) -> dict[str, Any]:
    """An error as a step's output."""
    name = type(error).__name__
    # Only what is ours: attributes of users' own errors may be secrets, and Inngest shows them.
    facts = vars(error) if type(error) is _KINDS.get(name) else {}
    facts = {key: fact for key, fact in facts.items() if find_non_json(fact) is None}
    return {"raised": {"name": name, "message": str(error), "facts": facts}}


def restored(record: dict[str, Any]) -> AgentKitError:
    """The error that a step recorded."""
    kind = _KINDS.get(record["name"], NonRetriableError)
    error = kind.__new__(kind, record["message"])  # constructors take facts, not the message
    vars(error).update(record.get("facts") or {})
    return error


def step_error(record: dict[str, Any]) -> inngest.StepError:
    """The SDK's error in place of one that a step recorded: the sign that it is remembered."""
    return inngest.StepError(record["message"], record["name"], None)


_KINDS: dict[str, type[AgentKitError]] = {
    kind.__name__: kind
    for kind in (
        StateError,
        ConfigurationError,
        MissingModelError,
        ToolDefinitionError,
        MissingDependencyError,
        ThreadNotFoundError,
    )
}
