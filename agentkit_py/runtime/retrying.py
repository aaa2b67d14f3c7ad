"""Retries of model calls, by tenacity, honouring what the provider asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import tenacity

from agentkit_py.errors import ModelError, ModelHTTPError
from agentkit_py.models.base import RetryPolicy

T = TypeVar("T")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for so many seconds."""


async def with_retries(call: Callable[[], Awaitable[T]], policy: RetryPolicy, sleep: Sleep) -> T:
    """Call until it succeeds, fails for good, or `policy.attempts` are used up.

    Raises:
        ModelError: The last attempt's error, as it came.
    """
    retrying = tenacity.AsyncRetrying(
        sleep=sleep,
        stop=tenacity.stop_after_attempt(policy.attempts),
        wait=_Wait(policy),
        retry=tenacity.retry_if_exception(lambda error: _worth_it(error, policy)),
        reraise=True,
    )

    async def attempt() -> T:  # tenacity awaits what it can see to be a coroutine function
        return await call()

    return await retrying(attempt)


class _Wait(tenacity.wait.wait_base):
    """The provider's ``Retry-After``, else exponential with jitter."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._backoff = tenacity.wait_random_exponential(
            multiplier=policy.min_wait, max=policy.max_wait
        )

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, ModelHTTPError) and error.retry_after is not None:
            return error.retry_after
        return self._backoff(retry_state)


def _worth_it(error: BaseException, policy: RetryPolicy) -> bool:
    if not isinstance(error, ModelError) or not error.retriable:
        return False
    asked = error.retry_after if isinstance(error, ModelHTTPError) else None
    # Waiting longer than the user allows is worse than an error that says how long it would take.
    return asked is None or asked <= policy.max_wait
