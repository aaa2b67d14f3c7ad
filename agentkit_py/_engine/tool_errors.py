"""Errors of tools in the log, under the reference that users get."""

from __future__ import annotations

import logging

from agentkit_py._core.json import JsonValue, as_object
from agentkit_py._engine.instrumentation import logger
from agentkit_py.errors import ModelRetry, ToolError
from agentkit_py.events.for_users import reference_of


class ToolTimeout(TimeoutError):  # noqa: N818 - readers of results see a TimeoutError
    """A call took longer than its tool or its run allows."""


_LOGGED: dict[str, None] = {}
_MOST_LOGGED = 1000


def is_first(call_id: str) -> bool:
    """Return whether this process has not logged the failure of a call yet.

    Two requests of a durable run reach a tool whose steps are done: the request that plans the next
    step, and the request that runs it. Neither has recorded the failure yet.
    """
    if call_id in _LOGGED:
        return False
    _LOGGED[call_id] = None
    if len(_LOGGED) > _MOST_LOGGED:
        del _LOGGED[next(iter(_LOGGED))]
    return True


def log_failure(
    tool: str, agent: str, content: JsonValue, error: Exception | None, *, again: bool = False
) -> None:
    """Log a call that failed, once: with a traceback where the tool's code raised.

    Args:
        tool: The tool.
        agent: The agent that called it.
        content: The result as it is stored, masked: users get its reference.
        error: The exception; None: the call was made, and its result cannot be kept.
        again: The call is tried again.
    """
    failure = as_object((as_object(content) or {}).get("error")) or {}
    reference = reference_of(content)
    if isinstance(error, ToolError | ModelRetry):
        what = "Tool %r of agent %r returned an error to the model: %s (reference %s)"
        logger.info(what, tool, agent, failure.get("message"), reference)
    elif error is None or isinstance(error, ToolTimeout):
        what = "Tool %r of agent %r failed: %s (reference %s)"
        logger.warning(what, tool, agent, failure.get("message"), reference)
    else:
        level = logging.WARNING if again else logging.ERROR
        what = "Tool %r of agent %r raised an error%s (reference %s)"
        tried = ", and is retried" if again else ""
        logger.log(level, what, tool, agent, tried, reference, exc_info=error)
