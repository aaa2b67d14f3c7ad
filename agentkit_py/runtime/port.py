"""The port between the engine and the world.

Above: the engine, which never knows which runtime it has. Below: `DirectRuntime` (httpx, remembers
nothing) and `InngestRuntime` (steps that happen once, however often the function is replayed).
The fake for tests is not a runtime but a provider (`agentkit_py.testing.FakeProvider`) or a model
(`ScriptedModel`), so that the code under test is the code that runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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


_NOTHING: AbstractContextManager[None] = nullcontext()


class Runtime(ABC):
    """Everything the engine asks of the world.

    The defaults are those of a run that happens once, in this process: nothing is remembered, and
    no server and no person can be reached. A runtime writes what it does differently. It has to say
    how it asks a model, and where ids and times come from.
    """

    durable: bool = False
    """True if completed steps are remembered, and not done again."""

    pauses: bool = False
    """True if a question ends the run's code with `RunPaused` until there is an answer."""

    replaying: bool = False
    """True while a run that paused comes to nothing that it did not do before."""

    execution: str | None = None
    """The id of the execution, by which it may be stopped from outside; None: it has none."""

    attempt: int = 0
    """The number of earlier attempts at the step that runs now, where they are counted."""

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> Runtime:
        """Return the runtime of one run that may pause for a person, and go on elsewhere.

        Itself unless it pauses runs: then its code waits for the answer.

        Args:
            journal: What the run did before it paused; None: it begins.
            answers: Answers to its questions, by id; None: the question has expired.
        """
        return self

    # Names.

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Prefix the ids of steps and runs that begin in the block with ``step_id``."""
        return _NOTHING

    def claim(self, name: str) -> str:
        """Return a prefix for step ids that no other run in this execution has, like ``name:2``.

        Ids of steps that nobody remembers need not be unique: there it is the name itself.
        """
        return name

    @abstractmethod
    def new_id(self, key: str) -> str:
        """Return an id for the thing called ``key``: random, or the same on each replay."""

    @abstractmethod
    def now(self, key: str) -> datetime:
        """Return the time (UTC) at which ``key`` happened; a replay gives the same."""

    # What a replay remembers.

    @property
    def steps_taken(self) -> int:
        """Number of steps so far, the same in each replay; in parallel calls, those before them."""
        return 0

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Compare what a run is made of, by name, with what it was made of when it began.

        Raises:
            VersionMismatchError: It is another, and such runs are not to go on.
        """
        return

    def decide(self, key: str, value: Callable[[], JsonValue], what: str) -> None:
        """Note what a user's code decided; ``what`` says in words who did.

        Raises:
            ReplayError: It decided otherwise when the run came here first.
        """
        return

    def recorded(self, key: str) -> JsonValue:
        """Return what was decided when the run came here first; None if that is not known."""
        return None

    def remembers(self, step_id: str) -> bool:
        """Return whether a step is known to be done; with a dot at the end, one inside it."""
        return False

    def may_remember(self, step_id: str) -> bool:
        """Return whether a step may be done: what is done is not always known."""
        return False

    def each_time(self) -> AbstractContextManager[None]:
        """In the block nothing is kept for when a paused run goes on: it is done each time."""
        return _NOTHING

    # Steps.

    @cached_property
    def step(self) -> Steps:
        """The steps that users' tools, hooks and processors may use themselves."""
        return Steps(self)

    async def run_step(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run a sync or async handler once; return what it returned."""
        return await contained(handler)

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        """Wait for a time, or until one."""
        left = time if isinstance(time, timedelta) else time - datetime.now(UTC)
        await anyio.sleep(max(0.0, left.total_seconds()))

    async def server_step(self, step_id: str, request: ServerRequest, /) -> Any:
        """Let a server carry out what this process cannot; return what came of it.

        Raises:
            ConfigurationError: There is no server.
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
        """Send one request and return the answer's JSON; the body is made only when it is sent.

        With ``on_delta``, the reply is streamed where model and runtime can; what is returned is
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
        """Run a user's callback once, and apply what it changed again on every replay.

        What the callback returns must be JSON where no ``codec`` is given.
        """
        return await contained(handler)

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all to their end; results in the order given, errors as values."""
        return await run_together(calls)

    async def with_checks(
        self, call: Callable[[], Awaitable[T]], checks: Sequence[Callable[[], Awaitable[Any]]]
    ) -> list[Any]:
        """Run a call and its checks at the same time, errors as values.

        A check that gives something else than None, or fails, ends the call where that can be done.

        Returns:
            What the call gave (None: it was ended), and what each check gave.
        """
        return await ended_by(self.parallel, call, checks)

    # Listeners, people and other runs.

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Send a streaming chunk to whoever listens; never fails the run."""
        return

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:  # noqa: FBT001 - its one
        """Leave it to the next step to publish what the block publishes, if a step follows."""
        return _NOTHING

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        """Ask a person and wait for the answer; None if none came in time.

        Args:
            step_id: The step.
            request: The question.
            opening: Makes the question known, called once when an answer would be heard.

        Raises:
            ConfigurationError: There is no way to reach a person from here.
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
            key: What is waited for.
            enter: Called once the wait has begun, so that no signal that follows from it is missed.
                In this process it is tried now and then, since others cannot signal it.
            seconds: How long to wait.

        Returns:
            True: ``enter`` returned True. False: there was a signal. None: neither in time.
        """
        return await wait_for_signal(key, enter, seconds)

    async def signal(self, key: str) -> None:
        """Wake whoever waits for ``key``, as far as it can be reached from here; never fails."""
        send_signal(key)

    # Errors.

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Wait, as a step that failed with ``error`` is to be tried again.

        Raises:
            RetryAfterError: Whoever runs the steps tries this one again.
        """
        await anyio.sleep(seconds)

    def is_final(self, error: BaseException) -> bool:
        """Return whether nobody will try again after ``error``."""
        return True

    def repeats(self, error: Exception) -> bool:
        """Return whether ``error`` is remembered, so that a replay repeats it without trying."""
        return False

    def to_caller_error(self, error: Exception) -> Exception:
        """``error`` as whoever called the run must get it, e.g. an SDK's own kind of error."""
        return error


Send: TypeAlias = Callable[[DeltaSink | None], Awaitable[object]]
"""Sends the request and gives the answer's JSON; pieces of it go to the sink."""


class CallWatch(Protocol):
    """Sees one call of a model."""

    async def here(self, send: Send, on_delta: DeltaSink | None) -> object:
        """Call ``send``, which sends the request from this process, and return what it gives."""
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

    def when_new(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` unless the present code turns out to be a replay."""
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
