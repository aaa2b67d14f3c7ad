"""Steps of an Inngest function: what they are called, what they keep, and what tools get of them.

The server keeps what a step gave and sends it with each later request, so the output must be plain
JSON within the server's limits. It has our own keys, with final errors in it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
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
    is_control_error,
)
from agentkit_py.inngest.realtime import LivePublisher
from agentkit_py.messages import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from agentkit_py.runtime.port import Codec, DeltaSink

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

MAX_STEPS = 1000
"""Steps of one run at the most (inngest/pkg/consts)."""

MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of one step's output at the most (inngest/pkg/consts)."""

MAX_INLINE = 256 * 1024
"""Bytes of a loaded thread that are kept in a step's output; longer ones are read again."""

WARN_AT = 0.8
"""Share of a limit at which a warning is logged."""

NEVER_RETRIED = (ConfigurationError, StateError, ThreadNotFoundError)
"""Errors of steps that another attempt would only repeat."""

_inside: ContextVar[str | None] = ContextVar("agentkit_inside_step", default=None)
_scope: ContextVar[str] = ContextVar("agentkit_step_scope", default="")


def inside_step() -> str | None:
    """Return the name of the step whose handler runs now."""
    return _inside.get()


@contextmanager
def inside(step_id: str) -> Generator[None]:
    """Mark the block as the handler of a step."""
    token = _inside.set(step_id)
    try:
        yield
    finally:
        _inside.reset(token)


@contextmanager
def within(step_id: str) -> Generator[None]:
    """Give the steps and runs that begin in the block ids that start with ``step_id``."""
    token = _scope.set(step_id)
    try:
        yield
    finally:
        _scope.reset(token)


def scoped(name: str, separator: str) -> str:
    """Return ``name`` behind the id set by `within`, unless it has it already."""
    scope = _scope.get()
    return name if not scope or name.startswith(scope) else f"{scope}{separator}{name}"


class StepMemory:
    """The steps of one execution of a function: their names, and what is still remembered.

    Args:
        remembered: The steps that the SDK has outputs for; None: not known, since the client has no
            `AgentKitMiddleware`.
    """

    def __init__(self, remembered: inngest.StepMemos | None) -> None:
        self._remembered = remembered
        self._names: set[str] = set()
        self._failure: Exception | None = None

    @property
    def left(self) -> int:
        """Number of remembered steps that have not been asked for yet."""
        return 0 if self._remembered is None else self._remembered.size

    def enter(self, step_id: str) -> None:
        """Check a step that is about to be asked for.

        Raises:
            ConfigurationError: It is inside another step, has another's name, or is one too many.
        """
        outer = _inside.get()
        if outer is not None:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {outer!r}, and Inngest knows no steps "
                "in steps. A tool that uses ctx.step needs @tool(steps=True); hooks of a history "
                "run inside a step as they are."
            )
        if step_id in self._names:
            raise ConfigurationError(
                f"Two steps of this function are called {step_id!r}. Inngest would number them by "
                "the order in which they come, which a replay may change; name them differently."
            )
        self._names.add(step_id)
        if len(self._names) > MAX_STEPS:
            raise ConfigurationError(
                f"This function has more than {MAX_STEPS} steps, Inngest's limit for one run. Let "
                "the network end earlier (max_iter, RunLimits) and go on in another run."
            )
        if len(self._names) == int(MAX_STEPS * WARN_AT):
            logger.warning("This function has %d of %d possible steps", len(self._names), MAX_STEPS)

    def failed(self, error: Exception) -> Exception:
        """Keep and return what the step that this execution really runs raises to the SDK."""
        self._failure = error
        return error

    def raise_failure(self) -> None:
        """Raise the error of this execution's own step.

        The SDK (0.5.19) does not report a step's errors that say when to try again, or not to, but
        the function's: one that stays inside a group is lost.
        """
        if self._failure is not None:
            raise self._failure


class GuardedSteps:
    """``ctx.step`` of tools and processors: the SDK's steps, named apart, with clear errors."""

    def __init__(self, step: inngest.Step, memory: StepMemory, live: LivePublisher) -> None:
        self._step = step
        self._memory = memory
        self._live = live

    async def ask(self, step_id: str, handler: Callable[[], Awaitable[T]]) -> T:
        """Ask the SDK for the step exactly as it is named."""
        self._memory.enter(step_id)

        async def call() -> T:
            await self._live.begin()
            with inside(step_id):
                return await handler()

        return await self._live.remembered(self._step.run(step_id, call))

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` once; what it returns is remembered and must be JSON."""
        named = scoped(step_id, ".")

        async def call() -> T:
            try:
                return check_output(named, await handler())
            except Exception as error:
                raised = to_sdk_error(error)
                if is_final(error):
                    raised = inngest.NonRetriableError(f"{type(error).__name__}: {error}")
                raise self._memory.failed(raised) from error

        return await self.ask(named, call)

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Sleep (milliseconds, or a timedelta) without using compute."""
        named = self._enter(step_id)
        await self._live.remembered(self._step.sleep(named, duration))

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come in time."""
        named = self._enter(step_id)
        return await self._live.remembered(
            self._step.wait_for_event(named, event=event, if_exp=if_exp, timeout=timeout)
        )

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
        named = self._enter(step_id)
        return await self._live.remembered(
            self._step.invoke_by_id(
                named, function_id=function_id, app_id=app_id, data=data, timeout=timeout
            )
        )

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Send events once."""
        named = self._enter(step_id)
        return await self._live.remembered(self._step.send_event(named, events))

    def _enter(self, step_id: str) -> str:
        named = scoped(step_id, ".")
        self._memory.enter(named)
        return named


def to_output(value: T, codec: Codec[T] | None) -> dict[str, Any]:
    """Return what a step keeps of ``value``: itself, or where to find it again."""
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
    return _without_surrogates(output, text) if "\\ud" in text else output


def _without_surrogates(output: T, text: str) -> T:
    joined = json.dumps(json.loads(text), ensure_ascii=False)  # halves that meet are whole now
    mended = _SURROGATE.sub("\ufffd", joined)
    return output if mended == joined else cast("T", json.loads(mended))


_SURROGATE = re.compile("[\ud800-\udfff]")


def to_sdk_error(error: Exception) -> Exception:
    """Return the SDK's error for one that says when to try again, and any other as it is."""
    if isinstance(error, RetryAfterError):
        return inngest.RetryAfterError(str(error), timedelta(seconds=error.retry_after))
    return error


def is_final(error: Exception) -> bool:
    """Return whether the step that raised ``error`` must not be tried again.

    The SDK remembers no `NonRetriableError` of a step: where the run goes on, as it does in a
    group, the step would run again. So such errors are recorded as the step's output.
    """
    if isinstance(error, RetryAfterError | inngest.RetryAfterError):
        return False
    return isinstance(error, NEVER_RETRIED) or is_control_error(error)


def record_error(error: Exception) -> dict[str, Any]:
    """Return an error as a step's output."""
    name = type(error).__name__
    # Only what is ours: attributes of users' own errors may be secrets, and Inngest shows them.
    facts = vars(error) if type(error) is _RECORDED.get(name) else {}
    facts = {key: fact for key, fact in facts.items() if find_non_json(fact) is None}
    return {"raised": {"name": name, "message": str(error), "facts": facts}}


def restore_error(record: dict[str, Any]) -> AgentKitError:
    """Return the error that `record_error` recorded."""
    kind = _RECORDED.get(record["name"], NonRetriableError)
    error = kind.__new__(kind, record["message"])  # constructors take facts, not the message
    vars(error).update(record.get("facts") or {})
    return error


def step_error(record: dict[str, Any]) -> inngest.StepError:
    """Return the SDK's error for a recorded one: the sign that it is remembered."""
    return inngest.StepError(record["message"], record["name"], None)


_RECORDED: dict[str, type[AgentKitError]] = {
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


class DeltaLog:
    """Passes the pieces of a streamed reply on, and counts them for replays.

    A step keeps how many pieces of which kind there were; a replay skips them.
    """

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self.rows: list[list[Any]] = []
        """``[kind, index, id, name, whether it had text, count]`` of each row of equal pieces."""

    async def __call__(self, delta: Delta, /) -> None:
        """Pass a piece on."""
        await self._sink(delta)
        identity, name = getattr(delta, "id", ""), getattr(delta, "name", "")
        head = [type(delta).__name__, delta.index, identity, name, bool(delta.delta)]
        if self.rows and self.rows[-1][:-1] == head:
            self.rows[-1][-1] += 1
        else:
            self.rows.append([*head, 1])

    async def skip(self, delta: Delta, count: int, /) -> None:
        """Count pieces that were passed on before."""
        await self._sink.skip(delta, count)

    async def replay(self, rows: list[list[Any]]) -> None:
        """Count what was passed on when the step ran."""
        for kind, index, identity, name, had_text, count in rows:
            text = "…" if had_text else ""
            if kind == "ToolCallDelta":
                delta: Delta = ToolCallDelta(index, identity, name, text)
            else:
                delta = (TextDelta if kind == "TextDelta" else ReasoningDelta)(index, text)
            await self._sink.skip(delta, count)
