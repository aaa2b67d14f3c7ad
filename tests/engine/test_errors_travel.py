"""Errors keep their text and facts on the way to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from agentkit_py.errors import (
    AgentKitError,
    MissingModelError,
    NestingError,
    ProcessorError,
    ProviderUnavailableError,
    RetryAfterError,
    ThreadNotFoundError,
    ToolDefinitionError,
)

ERRORS: list[AgentKitError] = [
    MissingModelError("desk"),
    NestingError("desk", depth=9, most=8),
    ProcessorError("it failed", processor="Budget", level="agent"),
    ProviderUnavailableError("overloaded", provider="openai", model="gpt-4o", status=503),
    RetryAfterError("later", 3),
    ThreadNotFoundError("t"),
    ToolDefinitionError("find", "no name"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error: AgentKitError) -> None:
    """A process pool whose worker raised it would hang or break otherwise."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
        assert again.args == error.args
