"""Instrumentation: the way to observe a run.

Observers, streams of chunks, traces, the playground's recorder and the log of contexts are
instrumentations. A run hands everything that happens to its `Monitor`, which hands it on to each of
them. An instrumentation must not raise; exceptions of users' observers and publishers are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.chunks import Chunk
from agentkit_py.events.project import Projector
from agentkit_py.events.types import (
    Event,
    HitlRequested,
    Observer,
    ReplyDelta,
    ToolProgressed,
)
from agentkit_py.messages import ToolCall
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.processors.apply import Around
from agentkit_py.processors.base import HistoryProcessor, Level
from agentkit_py.processors.report import ContextReport
from agentkit_py.runtime.port import CallWatch, Runtime, watched
from agentkit_py.state import State

logger: logging.Logger = get_logger("agentkit_py")
_context_logger: logging.Logger = get_logger("agentkit_py.context")

CallTool: TypeAlias = Callable[[], Awaitable[JsonValue]]
"""Executes a tool call; returns the model's result."""

ListTools: TypeAlias = Callable[[], Awaitable[JsonObject]]
"""Asks a server for its tools."""

Chains: TypeAlias = Sequence[tuple[Level, Sequence[HistoryProcessor]]]
"""The processors of a model call, level by level, in the order in which they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEdit:
    """Changes to try when a model call is rehearsed; None: unchanged."""

    system: str | None = None
    """Another system prompt."""

    input: str | None = None
    """Another text of the user."""

    chains: Chains | None = None
    """Other processors."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A model call as it would be sent."""

    model: Model
    report: ContextReport
    request: ModelRequest
    stop: bool = False
    """True if `on_start` would end the turn without a model call."""


Rehearse: TypeAlias = Callable[[CallEdit], Awaitable[Rehearsal]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One model call that is about to be made."""

    run_id: str
    """The agent's run."""

    step_id: str
    """The id under which the runtime is asked for it."""

    model: Model
    request: ModelRequest
    message_id: str | None = None
    report: ContextReport | None = None
    """The context report; None: the call is a processor's own."""

    state: State[Any] | None = field(default=None, repr=False)
    chains: Chains = field(default=(), repr=False)
    again: Rehearse | None = field(default=None, repr=False)
    problem: str = ""
    """Why the call cannot be rehearsed, e.g. since its state cannot be copied."""

    async def rehearse(self, edit: CallEdit | None = None) -> Rehearsal:
        """Return the call as it would be sent with ``edit``. Nothing is sent or saved.

        Processors and `on_start` run as they would; processors that would call a model only say so
        in the report.

        Raises:
            ConfigurationError: The call cannot be rehearsed.
            ProcessorError: A processor failed.
        """
        if self.problem or self.again is None:
            problem = self.problem or "nothing of it was kept"
            raise ConfigurationError(f"This call cannot be made again: {problem}")
        return await self.again(edit or CallEdit())


class Instrumentation(Protocol):
    """Observes a run, and the runs nested in it. A subclass overrides the methods that it needs."""

    wants_tokens: bool = False
    """Ask for replies piece by piece."""

    wants_rehearsals: bool = False
    """Keep a copy of the state for each model call, so that it can be rehearsed."""

    async def event(self, event: Event) -> None:
        """Take an event, in an order that each replay repeats."""

    async def announce(self, event: HitlRequested) -> None:
        """Receive a question before its place among the events: its answer is awaited."""

    async def progress(self, event: ToolProgressed) -> None:
        """Take a report of a tool when it happens; a replay does not repeat it."""

    async def skip(self, event: ReplyDelta, count: int) -> None:
        """Count pieces of a reply that were emitted when the call really happened."""

    def at_once(self, event: Event) -> None:
        """Take an event of a run or reply when it happens, whatever runs in parallel."""

    def inside(self, run_id: str) -> AbstractContextManager[None]:
        """Return a context in which everything is part of the run ``run_id``."""
        return nullcontext()

    def model_call(self, call: ModelCall) -> CallWatch | None:
        """Receive a model call before it is made; return the observer of its request."""
        return None

    def request_sent(self, call: ModelCall) -> None:
        """Take a model call whose request is really made now: no replay comes here again."""

    def tool_call(
        self,
        step_id: str,
        call: ToolCall,
        description: str,
        handler: CallTool,
        *,
        lasting: bool,
        raised: Callable[[], Exception | None],
    ) -> CallTool:
        """Return ``handler``, watched.

        Args:
            step_id: Names the call; no other in the run has it.
            call: The call as the model made it.
            description: The tool's description.
            handler: Carries the call out.
            lasting: The call is not a step by itself: a replay makes it again.
            raised: Returns the exception of the tool's code, once the handler is done.
        """
        return handler

    def listing(self, run_id: str, server: str, ask: ListTools) -> ListTools:
        """Return the observed listing of a server's tools; it may have to connect first."""
        return ask

    def processors(self, step_id: str) -> Around | None:
        """Return the wrapper of each processor of an inference."""
        return None


class Instrument(Protocol):
    """Makes the instrumentation of each run, e.g. `agentkit_py.tracing.Tracing`."""

    def of_run(self, runtime: Runtime) -> Instrumentation:
        """Return the instrumentation of a run that begins now."""
        ...

    def carrier(self) -> dict[str, str]:
        """Return the data that links a run of another process to this run."""
        ...


_of_process: list[Instrument] = []
_of_block: ContextVar[tuple[Instrumentation, ...]] = ContextVar("agentkit_instruments", default=())


def instrument_all_runs(instrument: Instrument | None) -> None:
    """Watch all runs of this process that have no instrument of their own; None: no more."""
    _of_process[:] = [] if instrument is None else [instrument]


def carried_trace() -> dict[str, str]:
    """Return the tracing data of an event that begins a run elsewhere; empty without tracing."""
    return _of_process[0].carrier() if _of_process else {}


@contextmanager
def instrumented(instrumentation: Instrumentation) -> Generator[None]:
    """Watch all runs that begin inside the block."""
    token = _of_block.set((*_of_block.get(), instrumentation))
    try:
        yield
    finally:
        _of_block.reset(token)


Publish: TypeAlias = Callable[[dict[str, Any]], "Awaitable[None] | None"]
"""Sends a streaming chunk; its exceptions are logged and do not disturb the run."""


@options_spelled_here
@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingConfig:
    """Options of streaming a run to a front end, in the chunks of the TypeScript package."""

    publish: Publish | None = None
    """Gets each chunk, in order; None: the runtime's own way, e.g. Inngest realtime."""

    repeat: bool = False
    """When a paused run resumes, repeat its earlier chunks, for listeners that have not
    received them."""

    tokens: bool = True
    """Stream replies as the model writes them, where provider and runtime can."""

    simulate_chunking: bool = False
    """Cut texts that arrive whole into small deltas, as TypeScript's ``simulateChunking`` does."""

    extended: bool = True
    """Also send ``usage.updated`` and ``metadata.updated``, which TypeScript only declares."""

    error_texts: bool = True
    """Send the errors of tools as models read them, as TypeScript does. False, as the HTTP API and
    `create_functions` have it: users get the words that a tool has for them (`ToolError`), or that
    something failed, with a reference that the log has, too."""


class ObserverInstrumentation(Instrumentation):
    """Hands each event to a user's observer."""

    def __init__(self, observer: Observer, runtime: Runtime, *, tokens: bool) -> None:
        self.observer = observer
        self.wants_tokens = tokens
        self._runtime = runtime
        self._hand_over = runtime.publisher(self._observed)

    async def event(self, event: Event) -> None:
        if not self._runtime.replaying:
            await resolve(self._hand_over(event))

    async def _observed(self, event: Event) -> None:
        try:
            await resolve(self.observer(event))
        except Exception:
            logger.exception("An observer failed on %s; the run continues", type(event).__name__)

    async def progress(self, event: ToolProgressed) -> None:
        await self.event(event)


class ChunkPublisher(Instrumentation):
    """Publishes the chunks of each event."""

    def __init__(self, config: StreamingConfig, runtime: Runtime) -> None:
        self.wants_tokens = config.tokens
        self._runtime = runtime
        self._repeat = config.repeat
        self._publish = runtime.publish
        if config.publish is not None and config.publish != runtime.publish:
            # The runtime's own function recognises repetitions of a replay.
            self._publish = runtime.publisher(config.publish)
        self._projector = Projector(config.simulate_chunking, config.extended, config.error_texts)
        self._failed = False

    async def event(self, event: Event) -> None:
        await self._publish_all(self._projector.feed(event))

    async def progress(self, event: ToolProgressed) -> None:
        await self.event(event)

    async def announce(self, event: HitlRequested) -> None:
        await self._publish_all(self._projector.ahead(event))

    async def skip(self, event: ReplyDelta, count: int) -> None:
        for _ in range(count):
            self._projector.feed(event)

    async def _publish_all(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if self._runtime.replaying and not self._repeat:
                continue
            now = self._runtime.now("chunk")
            try:
                await resolve(self._publish(chunk.to_dict(int(now.timestamp() * 1000))))
            except Exception:
                # A single traceback shows the problem; more would hide everything else.
                if not self._failed:
                    logger.exception("A chunk could not be published; the run continues")
                self._failed = True


class ContextLog(Instrumentation):
    """Logs the figures of each model call's context at INFO."""

    def request_sent(self, call: ModelCall) -> None:
        report = call.report
        if report is None:
            return
        _context_logger.info(
            "%s: %d messages, %d tokens sent; history %d messages, %d tokens; prompt %d tokens",
            report.agent,
            len(report.sent),
            report.tokens_after,
            len(report.history),
            report.tokens_before,
            report.prompt_tokens,
        )
        for entry in report.entries:
            if entry.changed:
                _context_logger.info(
                    "%s: %s %s: messages %d -> %d, tokens %d -> %d (%s)",
                    report.agent,
                    entry.level,
                    entry.name,
                    entry.messages_before,
                    entry.messages_after,
                    entry.tokens_before,
                    entry.tokens_after,
                    entry.reason or "changed",
                )


class Monitor:
    """Forwards the events of a run to all its instrumentations."""

    def __init__(self, runtime: Runtime, instruments: Sequence[Instrumentation]) -> None:
        self.runtime = runtime
        self.instruments: tuple[Instrumentation, ...] = tuple(instruments)
        self.wants_tokens: bool = any(one.wants_tokens for one in instruments)
        self.is_active: bool = bool(self.instruments)
        """True if anything watches the run; otherwise no events need be made."""

    @classmethod
    def of_run(
        cls,
        runtime: Runtime,
        observer: Observer | None = None,
        streaming: StreamingConfig | None = None,
        tracing: Instrument | None = None,
        *,
        tokens: bool = False,
    ) -> Monitor:
        """Return the monitor of a run that begins now."""
        found: list[Instrumentation] = [*_of_block.get()]
        if observer is not None:
            found.append(ObserverInstrumentation(observer, runtime, tokens=tokens))
        if streaming is not None:
            found.append(ChunkPublisher(streaming, runtime))
        if tracing is not None or _of_process:
            found.append((tracing or _of_process[0]).of_run(runtime))
        if _context_logger.isEnabledFor(logging.INFO):  # counting tokens costs time
            found.append(ContextLog())
        return cls(runtime, found)

    def nested(self) -> Monitor:
        """Return the monitor of a nested run: it has a stream of its own, or none."""
        return Monitor(
            self.runtime,
            [one for one in self.instruments if not isinstance(one, ChunkPublisher)],
        )

    @property
    def wants_rehearsals(self) -> bool:
        """True if an instrument asks for copies of the state of model calls."""
        return any(one.wants_rehearsals for one in self.instruments)

    async def emit(self, event: Event) -> None:
        """Hand out an event in its order."""
        for one in self.instruments:
            await one.event(event)

    async def emit_now(self, event: Event) -> None:
        """Hand out an event of a run or reply, at once to those who measure time."""
        for one in self.instruments:
            one.at_once(event)
        await self.emit(event)

    async def announce(self, event: HitlRequested) -> None:
        """Hand out a question before its place among the events."""
        for one in self.instruments:
            await one.announce(event)

    async def progress(self, event: ToolProgressed) -> None:
        """Hand out a report of a tool at once, whatever runs in parallel."""
        for one in self.instruments:
            await one.progress(event)

    async def skip(self, event: ReplyDelta, count: int) -> None:
        """Count pieces of a reply that were emitted before."""
        for one in self.instruments:
            await one.skip(event, count)

    @contextmanager
    def inside(self, run_id: str) -> Generator[None]:
        """Make everything in the block part of the run ``run_id``."""
        with ExitStack() as stack:
            for one in self.instruments:
                stack.enter_context(one.inside(run_id))
            yield

    @contextmanager
    def model_call(self, call: ModelCall) -> Generator[None]:
        """Watch the model call that the block makes."""
        watches = [one.model_call(call) for one in self.instruments]
        with ExitStack() as stack:
            for watch in watches:
                if watch is not None:
                    stack.enter_context(watched(watch))
            yield

    def request_sent(self, call: ModelCall) -> None:
        """Hand out a model call whose request is made now."""
        for one in self.instruments:
            one.request_sent(call)

    def tool_call(
        self,
        step_id: str,
        call: ToolCall,
        description: str,
        handler: CallTool,
        *,
        lasting: bool,
        raised: Callable[[], Exception | None],
    ) -> CallTool:
        """Return ``handler``, watched by all; see `Instrumentation.tool_call`."""
        for one in self.instruments:
            handler = one.tool_call(
                step_id, call, description, handler, lasting=lasting, raised=raised
            )
        return handler

    def listing(self, run_id: str, server: str, ask: ListTools) -> ListTools:
        """Return the function that lists a server's tools, observed by all."""
        for one in self.instruments:
            ask = one.listing(run_id, server, ask)
        return ask

    def processors(self, step_id: str) -> Around | None:
        """Return the wrapper of each processor of an inference."""
        found = [around for one in self.instruments if (around := one.processors(step_id))]
        return found[0] if found else None
