"""The port between the engine and the world.

Above: the engine, which never knows which runtime it has. Below: `DirectRuntime` (httpx, remembers
nothing) and `InngestRuntime` (steps that happen once, however often the function is replayed).
The fake for tests is not a runtime but a provider (`agentkit_py.testing.FakeProvider`) or a model
(`ScriptedModel`), so that the code under test is the code that runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from agentkit_py._core.json import JsonValue
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model

T = TypeVar("T")


class StepTools(Protocol):
    """Steps for handlers, as ``ctx.step``; `inngest.Step` fits it by shape."""

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` as a step: durable runtimes remember what it returned."""
        ...

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait for ``duration`` (milliseconds, or a timedelta)."""
        ...

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come within ``timeout`` (ms or timedelta)."""
        ...

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
        ...


class Recordable(Protocol):
    """Side effects of a user's callback: changes of the state and the schedule of a run."""

    def begin(self) -> object:
        """Remember how things are before the callback, and return it for `record`."""
        ...

    def record(self, before: Any, /) -> JsonValue:
        """Return the changes since as JSON; None: there are none."""
        ...

    def replay(self, recorded: JsonValue, /) -> None:
        """Apply recorded changes again."""
        ...


class Codec(Protocol[T]):
    """Keeps the result of a callback, and restores it on a replay."""

    def dump(self, value: T, /) -> JsonValue:
        """Return the value as JSON."""
        ...

    def load(self, dumped: JsonValue, /) -> T:
        """Return the value that `dump` was given."""
        ...

    def cursor(self, value: T, /) -> JsonValue:
        """Return as little as is needed to find the value by calling the callback again."""
        ...

    def resume(self, value: T, cursor: JsonValue, /) -> T:
        """Return the callback's first result, from what it returns now."""
        ...


class DeltaSink(Protocol):
    """Gets the pieces of a reply while it arrives."""

    async def __call__(self, delta: Delta, /) -> None:
        """A piece has arrived."""
        ...

    async def skip(self, delta: Delta, count: int, /) -> None:
        """Count pieces like ``delta`` that were passed on when this call really happened."""
        ...


@runtime_checkable
class Runtime(Protocol):
    """Everything the engine asks of the world."""

    durable: bool
    """True if completed steps are remembered, and not done again."""

    @property
    def step(self) -> StepTools:
        """The steps that users' tools and hooks may use themselves."""
        ...

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Prefix the ids of steps and runs that begin in the block with ``step_id``."""
        ...

    def claim(self, name: str) -> str:
        """Return a prefix for step ids that no other run in this execution has, like ``name:2``."""
        ...

    def new_id(self, key: str) -> str:
        """Return an id for the thing called ``key``: random, or the same on each replay."""
        ...

    def now(self, key: str) -> datetime:
        """Return the time (UTC) at which ``key`` happened; a replay gives the same."""
        ...

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Send one request and return the answer's JSON; the body is made only when it is sent.

        With ``on_delta``, the reply is streamed where model and runtime can; what is returned is
        the same either way.

        Raises:
            ModelError: The call failed, and was tried as often as the model's policy says.
        """
        ...

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a user's callback once, and apply what it changed again on every replay.

        What the callback returns must be JSON where no ``codec`` is given.
        """
        ...

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all to their end; results in the order given, errors as values."""
        ...

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Send a streaming chunk to whoever listens; never fails the run."""
        ...

    async def ask(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Ask a person and wait for the answer; None if none came in time.

        Raises:
            ConfigurationError: There is no way to reach a person from here.
        """
        ...

    def is_final(self, error: BaseException) -> bool:
        """Return whether nobody will try again after ``error``."""
        ...

    def repeats(self, error: Exception) -> bool:
        """Return whether ``error`` is remembered, so that a replay repeats it without trying."""
        ...

    def to_caller_error(self, error: Exception) -> Exception:
        """``error`` as whoever called the run must get it, e.g. an SDK's own kind of error."""
        ...
