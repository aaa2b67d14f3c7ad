"""Checks of the state that a run is given: values that would be lost are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_py._core.validation import meant
from agentkit_py._engine.instrumentation import logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.state import State, field_names


def warn_of_no_store(name: str, state: State[Any]) -> None:
    """Log that nothing of a thread is loaded or saved."""
    logger.warning(
        "run(thread_id=%r) of %r: without a store the thread is neither loaded "
        "nor saved. Give %r a history=…, e.g. SqliteHistory('threads.db'), or keep the "
        "state and pass it again: run(…, state=state).",
        *(state.thread_id, name, name),
    )


def kind_of(default: State[Any]) -> type[Any] | None:
    """Return the type of a default state's data, for a plain state; None: a dict."""
    data: object = default.data
    return None if isinstance(data, dict) else type(data)


_WHOLE_STATE = frozenset({"data", "messages", "_messages", "results", "_results", "threadId"})


def refuse_unwrapped(name: str, state_type: type[Any], given: Mapping[str, Any]) -> None:
    """Refuse fields of a typed state that are not wrapped as its data.

    Raises:
        ConfigurationError: There are some, which would be lost.
    """
    unwrapped = [key for key in given if key not in {*_WHOLE_STATE, "notLoaded"}]
    if unwrapped:
        kind, key = state_type.__name__, unwrapped[0]
        raise ConfigurationError(
            f"run() of {name!r}: state={{{key!r}: …}} is not a state. Write "
            f"state=State({kind}({key}=…)), or state={{'data': {{{key!r}: …}}}}"
        )


def refuse_unknown(name: str, state_type: Any, data: Mapping[str, Any]) -> None:
    """Refuse keys that a typed state has no field for.

    Raises:
        ConfigurationError: The state has such a value.
    """
    names = field_names(state_type)
    unknown = [key for key in data if names is not None and key not in names]
    if names is not None and unknown:
        raise ConfigurationError(
            f"run() of {name!r}: its state has {unknown[0]!r}, which {state_type.__name__} "
            f"(state_type) does not have: {meant(unknown[0], sorted(names))}"
        )
