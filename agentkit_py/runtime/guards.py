"""Guards of model calls: a breaker for models that fail, limits of requests and tokens.

A guard is an object with a memory of its own: models that are given the same object share it, in
all runs and threads of the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import anyio

from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    ModelError,
    ModelNotAskedError,
    ModelStreamError,
    RateLimitError,
)
from agentkit_py.messages import Usage
from agentkit_py.models.base import GuardedCall, Model
from agentkit_py.runtime.containing import contained

T = TypeVar("T")
logger: logging.Logger = get_logger("agentkit_py.runtime")

_BYTES_PER_TOKEN = 4


async def guarded(model: Model, account: str, size: int, send: Callable[[], Awaitable[T]]) -> T:
    """Send a request of ``size`` bytes as far as the model's guards let it.

    Raises:
        AgentKitError: A guard refused it, or the call failed.
    """
    call = GuardedCall(model=model, account=account, tokens=size // _BYTES_PER_TOKEN)
    entered: list[tuple[Any, Any]] = []
    usage, failure = None, None
    try:
        for guard in model.guards:
            ticket = await guard.enter(call)
            entered.append((guard, ticket))
        answer = await send()
        usage = _usage_of(model, answer)
    except (Exception, asyncio.CancelledError) as error:
        failure = error
        raise
    finally:  # no step is inside: this is the work of a step
        with anyio.CancelScope(shield=True):
            for guard, ticket in reversed(entered):
                try:
                    await contained(partial(guard.leave, call, ticket, usage, failure))
                except Exception:  # the model has answered, and must not be asked again for it
                    logger.exception(
                        "%s could not count a call of model %r", type(guard).__name__, model.model
                    )
    return answer


def _usage_of(model: Model, answer: object) -> Usage | None:
    try:
        return model.decode(answer).usage
    except AgentKitError:
        return None  # the caller gets the error


@dataclass(slots=True)
class _Failures:
    count: int = 0
    until: float = 0.0
    reason: str = ""


class Breaker:
    """Leaves a model alone for a while that failed several times in a row.

    Time-outs, broken connections, 5xx and broken streams count for the model, 429 for the account
    that asked. After the pause a single request is sent: if it succeeds, all are again.

    Args:
        failures: Failures in a row after which the model is left alone.
        seconds: The length of the pause.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        *,
        failures: int = 3,
        seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if wrong := wrong_number(failures, whole=True, least=1):
            raise ConfigurationError(f"Breaker(failures={failures!r}): {wrong}.")
        if wrong := wrong_number(seconds, above=True):
            raise ConfigurationError(f"Breaker(seconds={seconds!r}): {wrong}.")
        self.failures = failures
        self.seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._known: dict[Hashable, _Failures] = {}

    async def enter(self, call: GuardedCall, /) -> None:
        """Let the request through, or refuse it.

        Raises:
            ModelNotAskedError: The model is left alone.
        """
        model = call.model
        now = self._clock()
        with self._lock:
            for key in _keys(call):
                known = self._known.get(key)
                if known is None or known.count < self.failures:
                    continue
                if known.until > now:
                    raise ModelNotAskedError(
                        f"it failed {known.count} times in a row ({known.reason}); the next "
                        f"request may be sent in {known.until - now:.1f} s",
                        provider=model.provider,
                        model=model.model,
                        retry_after=known.until - now,
                    )
                known.until = now + self.seconds  # this request is the probe

    async def leave(
        self, call: GuardedCall, ticket: Any, usage: Usage | None, error: BaseException | None, /
    ) -> None:
        """Count a failure in a row, or forget them."""
        del ticket, usage
        host, account = _keys(call)
        with self._lock:
            if isinstance(error, ModelNotAskedError) or (
                error is not None and not isinstance(error, ModelError)
            ):
                return
            if error is None or not (error.retriable or isinstance(error, ModelStreamError)):
                self._known.pop(host, None)
                self._known.pop(account, None)
                return
            key = account if isinstance(error, RateLimitError) else host
            known = self._known.setdefault(key, _Failures())
            known.count += 1
            known.reason = type(error).__name__
            asked = getattr(error, "retry_after", None) or 0.0
            known.until = self._clock() + max(self.seconds, asked)


def _keys(call: GuardedCall) -> tuple[Hashable, Hashable]:
    model = call.model
    return (model.base_url, model.model), (model.base_url, model.model, call.account)


shared_breaker: Breaker = Breaker()
"""The breaker of every `FallbackModel` that has none of its own."""


@dataclass(slots=True)
class _Window:
    """The requests of an account and model in the last minute, and the open requests."""

    sent: deque[tuple[float, list[int]]] = field(default_factory=deque[tuple[float, list[int]]])
    tokens: int = 0
    under_way: int = 0


class RateLimits:
    """Limits of requests and tokens per minute, and of requests at a time, kept in this process.

    A request waits until it fits, first come first served as far as waiting allows. Its tokens are
    estimated when it is sent and counted when it is answered. A request that is larger than a
    minute's tokens is sent when nothing else counts.

    Args:
        requests: Requests per minute; None: no limit.
        tokens: Tokens per minute, of requests and replies.
        concurrency: Requests that are under way at a time.
        max_wait: Seconds that a request may wait; then it is an error.
        clock: Seconds that only grow.
        sleep: How to wait.
    """

    def __init__(
        self,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        concurrency: int | None = None,
        max_wait: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        given = {"requests": requests, "tokens": tokens, "concurrency": concurrency}
        for name, value in given.items():
            wrong = wrong_number(value, whole=True, least=1)
            if value is not None and wrong:
                raise ConfigurationError(f"RateLimits({name}={value!r}): {wrong}, or None.")
        if wrong := wrong_number(max_wait):
            raise ConfigurationError(f"RateLimits(max_wait={max_wait!r}): {wrong}.")
        self.requests = requests
        self.tokens = tokens
        self.concurrency = concurrency
        self.max_wait = max_wait
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._windows: dict[Hashable, _Window] = {}

    async def enter(self, call: GuardedCall, /) -> tuple[_Window, list[int]]:
        """Wait until the request fits.

        Raises:
            ModelNotAskedError: It would wait for too long.
        """
        began, model = self._clock(), call.model
        while True:
            with self._lock:
                window = self._windows.setdefault(_keys(call)[1], _Window())
                wait = self._wait(window, call.tokens)
                if wait <= 0:
                    entry = [call.tokens]
                    window.sent.append((self._clock(), entry))
                    window.tokens += call.tokens
                    window.under_way += 1
                    return window, entry
            if self._clock() + wait - began > self.max_wait:
                raise ModelNotAskedError(
                    f"{self} allow it in {wait:.1f} s at the earliest, and max_wait is "
                    f"{self.max_wait:g} s",
                    provider=model.provider,
                    model=model.model,
                    retry_after=wait,
                )
            await self._sleep(wait)

    async def leave(
        self,
        call: GuardedCall,
        ticket: tuple[_Window, list[int]],
        usage: Usage | None,
        error: BaseException | None,
        /,
    ) -> None:
        """Count the tokens that the request really had."""
        del error
        window, entry = ticket
        used = call.tokens if usage is None else usage.total_tokens
        with self._lock:
            window.under_way -= 1
            if any(known is entry for _, known in window.sent):  # else its minute is over
                window.tokens += used - entry[0]
                entry[0] = used

    def _wait(self, window: _Window, tokens: int) -> float:
        """Return the seconds until a request may fit; 0: it does now."""
        now = self._clock()
        while window.sent and window.sent[0][0] <= now - _MINUTE:
            window.tokens -= window.sent.popleft()[1][0]
        if self.concurrency is not None and window.under_way >= self.concurrency:
            return _LOOK
        full = self.requests is not None and len(window.sent) >= self.requests
        if self.tokens is not None and window.tokens + tokens > self.tokens:
            full = full or bool(window.sent)
        return window.sent[0][0] + _MINUTE - now if full else 0.0

    def __repr__(self) -> str:
        given = {"requests": self.requests, "tokens": self.tokens, "concurrency": self.concurrency}
        shown = ", ".join(f"{name}={value}" for name, value in given.items() if value is not None)
        return f"RateLimits({shown})"


_MINUTE = 60.0
_LOOK = 0.02
"""Seconds between two looks for a request that has ended: it may be in another thread."""
