"""The SDK's steps as users' tools get them: named apart, and with clear errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

import inngest

from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest.live import LivePublisher
from agentkit_py.inngest.outputs import WARN_AT, check_output, is_final, sdk_error
from agentkit_py.inngest.sdk import Memos

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

MAX_STEPS = 1000
"""Steps of one run at the most (inngest/pkg/consts)."""

_MANY = int(MAX_STEPS * WARN_AT)

_inside: ContextVar[str | None] = ContextVar("agentkit_inside_step", default=None)
_scope: ContextVar[str] = ContextVar("agentkit_step_scope", default="")


def inside_step() -> str | None:
    """Name of the step whose handler runs now."""
    return _inside.get()


@contextmanager
def inside(step_id: str) -> Generator[None]:
    """The step's handler runs in the block."""
    token = _inside.set(step_id)
    try:
        yield
    finally:
        _inside.reset(token)


class within:  # noqa: N801 - used like a function; a generator costs more, on a path of all replays
    """What begins in the block carries ``step_id`` in its ids."""

    __slots__ = ("_step_id", "_token")

    def __init__(self, step_id: str) -> None:
        self._step_id = step_id

    def __enter__(self) -> None:
        self._token = _scope.set(self._step_id)

    def __exit__(self, *_: object) -> None:
        _scope.reset(self._token)


def scoped(name: str, separator: str) -> str:
    """``name`` with the ids of what it happens in, unless it has them."""
    scope = _scope.get()
    return name if not scope or name.startswith(scope) else f"{scope}{separator}{name}"


class Ledger:
    """Every step of this execution: no two with one name, and not too many."""

    def __init__(self, live: LivePublisher, memos: Memos) -> None:
        """Begin an execution."""
        self._live = live
        self._memos = memos
        self._ids: set[str] = set()
        self._failure: Exception | None = None

    async def enter(self, step_id: str) -> None:
        """A step is about to be asked for.

        Raises:
            ConfigurationError: It is inside another step, has another's name, or is one too many.
        """
        self._check(step_id)
        await self._live.before_step(step_id)

    def recall(self, step_id: str) -> Any:
        """Enter a remembered step; what it gave. None: nothing was done, the SDK is to be asked.

        Raises:
            ConfigurationError: As `enter`.
        """
        found = self._memos.take(step_id)
        if found is not None:
            self._check(step_id)
            self._live.passed()
        return found

    def failed(self, outward: Exception) -> Exception:
        """The step that this execution really runs raises this, in the SDK's words."""
        self._failure = outward
        return outward

    def raise_failure(self) -> None:
        """Raise what this execution's own step did.

        The SDK (0.5.19) does not report a step's errors that say when to try again, or not to, but
        the function's: one that stays inside a group is lost.
        """
        if self._failure is not None:
            raise self._failure

    def _check(self, step_id: str) -> None:
        outer = _inside.get()
        if outer is not None:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {outer!r}, and Inngest knows no steps "
                "in steps. A tool that uses ctx.step needs @tool(steps=True); hooks of a history "
                "run inside a step as they are."
            )
        if step_id in self._ids:
            raise ConfigurationError(
                f"Two steps of this function are called {step_id!r}. Inngest would number them by "
                "the order in which they come, which a replay may change; name them differently."
            )
        self._ids.add(step_id)
        if len(self._ids) >= _MANY:
            self._check_number(len(self._ids))

    def _check_number(self, number: int) -> None:
        if number > MAX_STEPS:
            raise ConfigurationError(
                f"This function has more than {MAX_STEPS} steps, Inngest's limit for one run. Let "
                "the network end earlier (max_iter, RunLimits) and go on in another run."
            )
        if number == _MANY:
            logger.warning("This function has %d of %d possible steps", number, MAX_STEPS)


class GuardedSteps:
    """``ctx.step`` of tools and processors."""

    def __init__(self, step: inngest.Step, ledger: Ledger) -> None:
        """Wrap ``step``; ``ledger`` is told of each step and may refuse it."""
        self._step = step
        self._ledger = ledger

    async def _enter(self, step_id: str) -> str:
        named = scoped(step_id, ".")
        await self._ledger.enter(named)
        return named

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` once; what it returns is remembered and must be JSON."""
        named = scoped(step_id, ".")
        found = self._ledger.recall(named)
        if found is not None:
            return found
        await self._ledger.enter(named)

        async def call() -> T:
            with inside(named):
                try:
                    value = await handler()
                    value = check_output(named, value)
                except Exception as error:
                    outward = sdk_error(error)
                    if is_final(error):
                        outward = inngest.NonRetriableError(f"{type(error).__name__}: {error}")
                    raise self._ledger.failed(outward) from error
            return value

        return await self._step.run(named, call)

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Sleep (milliseconds, or a timedelta) without using compute."""
        await self._step.sleep(await self._enter(step_id), duration)

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come in time."""
        named = await self._enter(step_id)
        return await self._step.wait_for_event(named, event=event, if_exp=if_exp, timeout=timeout)

    async def invoke_by_id(
        self,
        step_id: str,
        *,
        function_id: str,
        app_id: str | None = None,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Call another Inngest function and wait for what it returns."""
        return await self._step.invoke_by_id(
            await self._enter(step_id),
            function_id=function_id,
            app_id=app_id,
            data=data,
            timeout=timeout,
        )

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Send events once."""
        return await self._step.send_event(await self._enter(step_id), events)
