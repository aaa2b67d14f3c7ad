"""The port between the engine and the world.

Above: the engine, which never knows which runtime it has. Below: `DirectRuntime` (httpx, remembers
nothing) and `InngestRuntime` (steps that happen once, however often the function is replayed).
The fake for tests is not a runtime but a provider (`agentkit_py.testing.FakeProvider`) or a model
(`ScriptedModel`), so that the code under test is the code that runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha1
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import NAMESPACE_URL

import anyio
from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.messages import Delta
from agentkit_py.runtime.concurrent import ended_by, run_together
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.signals import send_signal, wait_for_signal
from agentkit_py.runtime.steps import Sending, ServerRequest, Steps

if TYPE_CHECKING:
    from agentkit_py.models.base import Model

T = TypeVar("T")


Publisher: TypeAlias = Callable[[T], "Awaitable[None] | None"]
"""Sends a streaming chunk, or hands an event to an observer."""


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
        """Return the callback's first result, given its current result."""
        ...


class DeltaSink(Protocol):
    """Gets the pieces of a reply while it arrives."""

    async def __call__(self, delta: Delta, /) -> None:
        """A piece has arrived."""
        ...

    async def skip(self, delta: Delta, count: int, /) -> None:
        """Count pieces like ``delta`` that were passed on when this call really happened."""
        ...

    def noting(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which the pieces are noted, for a run that is stopped from outside.

        A runtime that runs model calls in steps enters it in the step.
        """
        ...


_NOTHING: AbstractContextManager[None] = nullcontext()


class Runtime(ABC):
    """The port between the engine and the world: model calls, steps, time, ids, people, errors.

    The defaults are for a run that happens once, in this process: they remember nothing, and reach
    no server and no person. A subclass overrides the methods that differ; `infer`, `new_id` and
    `now` have no default.
    """

    durable: bool = False
    """True if completed steps are remembered, and not done again."""

    pauses: bool = False
    """True if a question ends the run's code with `RunPaused` until there is an answer."""

    replaying: bool = False
    """True until a resumed run does something that it did not do before the pause."""

    execution: str | None = None
    """The id of the execution, by which it may be stopped from outside; None: it has none."""

    attempt: int = 0
    """The number of earlier attempts at the step that runs now, where they are counted."""

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> Runtime:
        """Return the runtime of a run that may pause for a person and resume in another process.

        By default that is this runtime: the run's code waits for the answer.

        Args:
            journal: The run's record from before the pause; None: the run begins.
            answers: Answers to the run's questions, by id; None: the question expired.
        """
        return self

    # Names.

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Prefix the ids of steps and runs that begin in the block with ``step_id``."""
        return _NOTHING

    def claim(self, name: str) -> str:
        """Return a prefix for step ids that no other run in this execution has, like ``name:2``.

        The default is the name itself: ids need not be unique where steps are not remembered.
        """
        return name

    @abstractmethod
    def new_id(self, key: str) -> str:
        """Return an id for the thing called ``key``: random, or the same on each replay."""

    @abstractmethod
    def now(self, key: str) -> datetime:
        """Return the time (UTC) at which ``key`` happened; a replay gives the same."""

    # Replays.

    @property
    def steps_taken(self) -> int:
        """Number of steps so far, the same in each replay; in parallel calls, those before them."""
        return 0

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Compare the definition of a run's parts, by name, with the definition at its beginning.

        Raises:
            VersionMismatchError: They differ, and the options say that such runs must end.
        """
        return

    def decide(self, key: str, value: Callable[[], JsonValue], what: str) -> None:
        """Record a decision of the user's code, which errors describe as ``what``.

        Raises:
            ReplayError: The first execution decided otherwise here.
        """
        return

    def recorded(self, key: str) -> JsonValue:
        """Return the decision that the first execution made here; None if it is not known."""
        return None

    def remembers(self, step_id: str) -> bool:
        """Return whether a step is known to be done; an id that ends with a dot: any step in it."""
        return False

    def may_remember(self, step_id: str) -> bool:
        """Return whether a step may be done, where that is not known for certain."""
        return False

    def each_time(self) -> AbstractContextManager[None]:
        """Record nothing inside the block: a resumed run does it again."""
        return _NOTHING

    # Steps.

    @cached_property
    def step(self) -> Steps:
        """The steps that users' tools, hooks and processors may use themselves."""
        return Steps(self)

    async def run_step(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run a sync or async handler once; return its result."""
        return await contained(handler)

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        """Wait for a duration, or until a time."""
        left = time if isinstance(time, timedelta) else time - datetime.now(UTC)
        await anyio.sleep(max(0.0, left.total_seconds()))

    async def server_step(self, step_id: str, request: ServerRequest, /) -> Any:
        """Let a server execute the request; return the outcome.

        Raises:
            ConfigurationError: The runtime has no server.
        """
        other = ", or send them with the client: await client.send(…)"
        way = f"inside one{other if isinstance(request, Sending) else ''}"
        raise ConfigurationError(f"Step {step_id!r} {request}. Run the network {way}.")

    @abstractmethod
    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Send a request and return the answer's JSON; the body is made only when it is sent.

        With ``on_delta``, the reply is streamed where model and runtime can. The return value is
        the same either way.

        Raises:
            ModelError: The call failed, and was tried as often as the model's policy says.
        """

    def account(self, model: Model) -> str:
        """Return a tag of the account that `infer` would ask for; empty: not known."""
        return ""

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a user's callback once, and apply its changes again on every replay.

        The callback's result must be JSON unless a ``codec`` is given.
        """
        return await contained(handler)

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all to their end; results in the order given, errors as values."""
        return await run_together(calls)

    async def with_checks(
        self, call: Callable[[], Awaitable[T]], checks: Sequence[Callable[[], Awaitable[Any]]]
    ) -> list[Any]:
        """Run a call and its checks at the same time, errors as values.

        A check that returns anything but None, or fails, cancels the call where that is possible.

        Returns:
            The result of the call (None: it was cancelled), then the result of each check.
        """
        return await ended_by(self.parallel, call, checks)

    # Listeners, people and other runs.

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Send a streaming chunk to the listeners; never fails the run."""
        return

    def publisher(self, send: Publisher[T], /) -> Publisher[T]:
        """Return ``send`` so that a replay does not repeat what an earlier execution has sent.

        A user's publish function gets its chunks through this, an observer its events.
        """
        return send

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:  # noqa: FBT001 - its one
        """Let the next step publish the block's chunks, if a step follows."""
        return _NOTHING

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        """Ask a person and wait for the answer; None if it did not come in time.

        Args:
            step_id: The step.
            request: The question.
            opening: Makes the question known; called once, when an answer would be received.

        Raises:
            ConfigurationError: This runtime cannot reach a person.
        """
        names = ", ".join(call.name for call in request.calls) or request.message
        raise ConfigurationError(
            f"Agent {request.agent!r} must ask a person ({names}, step {step_id!r}). Pass "
            "approver=… to run(), give it a history such as SqliteHistory, so that the run can "
            "wait for the answer, or run it inside an Inngest function."
        )

    async def wait_for_signal(
        self, step_id: str, key: str, enter: Callable[[], Awaitable[bool]], seconds: float
    ) -> bool | None:
        """Wait until `signal` is called with ``key``, or ``enter`` returns True.

        Args:
            step_id: Prefix of the steps.
            key: Names the signal.
            enter: Called after the wait has begun, so that a signal that it causes is not missed.
                By default it is called repeatedly, since other processes cannot signal this one.
            seconds: How long to wait.

        Returns:
            True: ``enter`` returned True. False: a signal came. None: neither in time.
        """
        return await wait_for_signal(key, enter, seconds)

    async def signal(self, key: str) -> None:
        """Wake the runs that wait for ``key`` and can be reached from here; never fails."""
        send_signal(key)

    # Errors.

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Wait before another attempt at a step that failed with ``error``.

        Raises:
            RetryAfterError: The server will try the step again.
        """
        await anyio.sleep(seconds)

    def is_final(self, error: BaseException) -> bool:
        """Return whether ``error`` ends the run for good, without another attempt."""
        return True

    def repeats(self, error: Exception) -> bool:
        """Return whether ``error`` is remembered, so that a replay raises it without an attempt."""
        return False

    def to_caller_error(self, error: Exception) -> Exception:
        """Return the error to raise to the run's caller, e.g. the SDK's own type of error."""
        return error


Send: TypeAlias = Callable[[DeltaSink | None], Awaitable[object]]
"""Sends the request and gives the answer's JSON; pieces of it go to the sink."""


class CallWatch(Protocol):
    """Observes a call of a model."""

    async def here(self, send: Send, on_delta: DeltaSink | None) -> object:
        """Call ``send``, which sends the request from this process, and return its result."""
        ...

    def elsewhere(self, outcome: object) -> None:
        """Take the answer or error of a request that another process sent; again on each replay."""
        ...


@runtime_checkable
class Replaying(Protocol):
    """Facts of a runtime whose code runs again and again."""

    @property
    def execution(self) -> str:
        """Id of the whole execution, the same on each replay."""
        ...

    @property
    def carried(self) -> Mapping[str, Any]:
        """The data that the execution was started with; a trace context may be in it."""
        ...

    @property
    def recorded_time(self) -> datetime:
        """The latest time that is the same on each replay."""
        ...

    @property
    def is_new(self) -> bool:
        """True if it is certain that the code runs here for the first time."""
        ...

    def when_new(self, call: Callable[[], None]) -> None:
        """Call a function unless the present code turns out to be a replay."""
        ...


def uuid_of(digits: str, version: int) -> str:
    """Return 32 hexadecimal digits as the text of a UUID; `uuid.UUID` takes four times as long."""
    variant = "89ab"[int(digits[16], 16) & 3]
    middle = f"{version}{digits[13:16]}-{variant}{digits[17:20]}"
    return f"{digits[:8]}-{digits[8:12]}-{middle}-{digits[20:]}"


def computed_id(name: str) -> str:
    """Return the UUID of a name (version 5, of URLs)."""
    digest = sha1(NAMESPACE_URL.bytes + name.encode(), usedforsecurity=False)
    return uuid_of(digest.hexdigest()[:32], 5)


_watch: ContextVar[CallWatch | None] = ContextVar("agentkit_watch", default=None)


@contextmanager
def watched(watch: CallWatch) -> Generator[None]:
    """Let ``watch`` see the next call of a model in the block."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def take_watch() -> CallWatch | None:
    """Return the watch of the next call, and remove it: the call after it has none."""
    found = _watch.get()
    if found is not None:
        _watch.set(None)
    return found
