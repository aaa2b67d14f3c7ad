"""A call of `run`, made directly, or inside an Inngest function that is replayed for each step."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar, Unpack, cast, overload

import inngest
import pytest

from agentkit_py import Agent, AgentResult, Network, NetworkRun, State
from agentkit_py._engine.instrumentation import Instrumentation
from agentkit_py.events.types import Event, ToolProgressed
from agentkit_py.inngest import AgentKitMiddleware, runtime_of
from agentkit_py.runs import MessageInput, RunOptions, StreamingConfig
from agentkit_py.runtime.port import Runtime
from agentkit_py.testing import EventLog
from agentkit_py.testing.executor import ReplayExecutor, Run

Mode: TypeAlias = Literal["direct", "inngest"]
MODES: tuple[Mode, ...] = ("direct", "inngest")
Body: TypeAlias = Callable[[inngest.Context], Awaitable[None]]
T = TypeVar("T")
E = TypeVar("E", bound=Exception)

_PATIENCE = 250
"""Seconds that a run may take, so that a test that waits for what cannot come fails by itself."""


class Runner:
    """Runs agents and networks in one of the two ways; what `run` gave or raised is the test's.

    Whatever is outside of the function stays as it is between its executions: models, stores,
    tools' side effects. So their counts say that each step was done once.

    Attributes:
        mode: Which way.
        runs: The functions' runs, in order; none where the mode is direct.
    """

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self.runs: list[Run] = []
        self._bodies: list[Body] = []
        self._again: list[Callable[[], Callable[[], None]]] = []
        self._executor: ReplayExecutor | None = None
        self._turn = asyncio.Lock()

    @overload
    async def run(
        self,
        item: Agent,
        given: MessageInput,
        **options: Unpack[RunOptions],
    ) -> AgentResult: ...

    @overload
    async def run(
        self,
        item: Network,
        given: MessageInput,
        **options: Unpack[RunOptions],
    ) -> NetworkRun: ...

    async def run(self, item: Agent | Network, given: MessageInput, **options: Any) -> Any:
        """Run it; the result, or the error, is that of the function's last execution.

        A state that is given is a new one for each execution, as it would be in a function that
        makes it, and so are the events of an `EventLog`: each execution makes all of them again.
        Other observers get what a user's observer gets.
        """
        assert not {"runtime", "ctx"} & options.keys(), "the runner chooses the runtime"
        if self.mode == "direct":
            return await item.run(given, **options)
        outcome = _Outcome()
        restores = [keep() for keep in self._again]
        restores += [_keeper(value)() for value in options.values()]
        deduplicated = _DeduplicatedChunks()

        async def body(ctx: inngest.Context) -> None:
            for restore in restores:
                restore()
            with outcome:
                execution = _with_all_events(deduplicated.options(ctx, options))
                outcome.value = await item.run(given, **execution)

        await self._execute(body)
        return outcome.get(self.runs[-1])

    def again(self, kept: list[T]) -> list[T]:
        """A list that routers, hooks, prompts or processors write to, or take from.

        They are called again by each execution of a function (see docs/guides/steps.md, "What
        runs again"); this list is what the last execution made of it.
        """
        self._again.append(_keeper(kept))
        return kept

    @contextmanager
    def raises(self, kind: type[E], match: str | None = None) -> Generator[None]:
        """The block raises an error that arose inside a step.

        What reaches the code around a durable run is the SDK's `StepError`, which has the name and
        the words of the error.
        """
        if self.mode == "direct":
            with pytest.raises(kind, match=match):
                yield
            return
        with pytest.raises(inngest.StepError, match=match) as caught:
            yield
        assert caught.value.name == kind.__name__

    def is_same(self, found: Exception, raised: Exception) -> bool:
        """Return whether a tool's error was raised itself, or as its step remembers it."""
        if self.mode == "direct":
            return found is raised
        return (type(found), str(found)) == (type(raised), str(raised))

    async def _execute(self, body: Body) -> None:
        self._bodies.append(body)
        number = len(self._bodies) - 1
        # One after another: an executor's time is one queue.
        async with self._turn:
            if self._executor is None:
                self._executor = _executor(self._bodies)
            async with asyncio.timeout(_PATIENCE):
                run = await self._executor.run(_EVENT, {"number": number})
        assert run.differences == []
        self.runs.append(run)


class _Outcome:
    """The end of the last execution of a function."""

    value: Any = None
    error: Exception | None = None

    def __enter__(self) -> None:
        self.error = None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        # A new step leaves the function by an error that is no `Exception`.
        self.error = error if isinstance(error, Exception) else None

    def get(self, run: Run) -> Any:
        """Return the run's value, or raise its error, unwrapped where Inngest wrapped ours."""
        if self.error is None:
            assert run.status == "completed", run.error
            return self.value
        assert run.status == "failed"
        cause = self.error.__cause__
        if isinstance(self.error, inngest.NonRetriableError) and isinstance(cause, Exception):
            name = type(cause).__name__
            said = f"{cause}" if name == "NonRetriableError" else f"{name}: {cause}"
            assert str(self.error) == said
            raise cause
        if isinstance(self.error, inngest.RetryAfterError) and isinstance(cause, Exception):
            assert str(self.error) == str(cause)
            raise cause
        raise self.error


class _DeduplicatedChunks:
    """Chunks as a consumer takes them: each id once."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def options(self, ctx: inngest.Context, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options for one execution."""
        found = dict(options)
        if isinstance(found.get("state"), Mapping):
            found["state"] = copy.deepcopy(found["state"])
        streaming = found.get("streaming")
        if isinstance(streaming, StreamingConfig):
            found["streaming"] = replace(streaming, publish=self._through(ctx, streaming.publish))
        return found

    def _through(self, ctx: inngest.Context, publish: Any) -> Any:
        async def once(chunk: dict[str, Any]) -> None:
            if chunk["id"] not in self._ids:
                self._ids.add(chunk["id"])
                await publish(chunk)

        runtime = runtime_of(ctx)
        runtime.publish_with(once)
        return runtime.publish


class _EachEvent(Instrumentation):
    """Records each event of an execution, those of earlier executions too."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def of_run(self, _: Runtime) -> Instrumentation:
        return self

    def carrier(self) -> dict[str, str]:
        return {}

    async def event(self, event: Event) -> None:
        self._log(event)

    async def progress(self, event: ToolProgressed) -> None:
        self._log(event)


def _with_all_events(options: dict[str, Any]) -> dict[str, Any]:
    log = options.get("observer")
    if not isinstance(log, EventLog):
        return options
    return {**options, "observer": None, "tracing": _EachEvent(log)}


def _keeper(value: object) -> Callable[[], Callable[[], None]]:
    """Says how a value is now, as a function that puts it back to that."""
    if isinstance(value, EventLog):
        value = value.events
    if isinstance(value, State):
        return lambda: _kept_state(cast("State[Any]", value))
    if isinstance(value, list):
        return lambda: _kept_list(cast("list[Any]", value))
    return lambda: lambda: None


def _kept_list(value: list[Any]) -> Callable[[], None]:
    before = list(value)

    def restore() -> None:
        value[:] = before

    return restore


def _kept_state(state: State[Any]) -> Callable[[], None]:
    before, data = state.clone(), state.data

    def restore() -> None:
        fresh = before.clone()
        _put_back(data, fresh.data)
        vars(state).update({**vars(fresh), "data": data})

    return restore


def _put_back(data: Any, fresh: Any) -> None:
    if hasattr(data, "__setstate__"):  # pydantic's models
        data.__setstate__(fresh.__getstate__())
        return
    fields, found = _fields(data), _fields(fresh)
    fields.clear()
    fields.update(found)


def _fields(data: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", data if isinstance(data, dict) else vars(data))


_EVENT = "engine/test"
_clients: list[inngest.Inngest] = []
"""The one client of all tests: to make one takes longer than a test."""


def _executor(bodies: list[Body]) -> ReplayExecutor:
    if not _clients:
        middleware = AgentKitMiddleware.configured(inference="local")
        _clients.append(
            inngest.Inngest(app_id="engine", is_production=False, middleware=[middleware])
        )
    (client,) = _clients
    trigger = inngest.TriggerEvent(event=_EVENT)

    @client.create_function(fn_id="body", trigger=trigger, retries=0)
    async def function(ctx: inngest.Context) -> None:
        await bodies[int(str(ctx.event.data["number"]))](ctx)

    return ReplayExecutor(client, [function], check=True)
