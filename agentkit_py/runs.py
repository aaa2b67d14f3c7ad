"""Runs: the common base of agents and networks, and a run's options, limits and streams."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from operator import is_, itemgetter
from typing import Any, Generic, Self, TypeAlias, TypeVar, Unpack, cast

from agentkit_py._core.awaiting import run_in_thread, run_interruptibly
from agentkit_py._core.spellings import explained_run, snake_case
from agentkit_py._core.tracebacks import is_own_code
from agentkit_py._core.validation import nearly
from agentkit_py._engine.driver import RunBody, RunPlan, drive
from agentkit_py._engine.instrumentation import StreamingConfig
from agentkit_py._engine.limits import RunLimits
from agentkit_py._engine.option_checks import OnThread, checked_answers, expect_text, id_of_thread
from agentkit_py._engine.pausing import (
    PENDING,
    Beginning,
    Resumption,
    may_pause,
    resume_with,
    take_answered,
    waited_for,
)
from agentkit_py._engine.run_context import begin_run
from agentkit_py._engine.run_options import RunOptions
from agentkit_py._engine.tool_sources import ToolSource, opened
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import Answered
from agentkit_py.events.types import Event, Observer
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.questions import Question
from agentkit_py.history.stopping import STOPPED
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.messages import UserMessage
from agentkit_py.runtime.current import close_shared_runtime, is_in_durable_function
from agentkit_py.runtime.journal import RunPaused
from agentkit_py.state import State
from agentkit_py.tools.definition import Approver

__all__ = [
    "Approver",
    "MessageInput",
    "RunLimits",
    "RunOptions",
    "RunStream",
    "Runnable",
    "StreamingConfig",
]

T = TypeVar("T")

MessageInput: TypeAlias = str | UserMessage | Mapping[str, Any]
"""The input of a run: a text, a message, or a message's JSON (see `UserMessage.from_dict`)."""


class Settings:
    """Reads the settings of an agent or network, which count for its next run."""

    def __init__(self, kind: type[Any], *lists: str) -> None:
        """Prepare the reading.

        Args:
            kind: The class, a dataclass.
            lists: Fields that may hold lists, whose items may change.
        """
        self._names = [one.name for one in dataclasses.fields(kind) if one.init]
        self._fields = itemgetter(*self._names)
        self._lists: itemgetter[Any] = itemgetter(*lists)

    def of(self, target: object) -> list[object]:
        """Return the target, the values of its fields, and the items of lists in them.

        The number of its attributes is among them: where it changes, `check_names` looks at them.
        """
        fields = vars(target)
        # The target itself, because a copy is resolved for itself.
        found: list[object] = [target, len(fields), *self._fields(fields)]
        for given in self._lists(fields):
            # A tuple keeps its items, and each look at a text makes new objects of its characters.
            if type(given) is list or (
                type(given) not in (tuple, str) and isinstance(given, Sequence)
            ):
                found += cast("Sequence[object]", given)
        return found

    def check_names(self, target: object, where: str) -> None:
        """Refuse attributes that look like an option with a slip of the pen.

        Attributes that the class itself knows, and those with names unlike any option, are free.

        Raises:
            ConfigurationError: There is such an attribute; the message names both.
        """
        known = {one.name for one in dataclasses.fields(cast("Any", target))}
        for name in vars(target).keys() - known:
            meant = None if name.startswith("_") else nearly(snake_case(name), self._names)
            if meant is not None and not _is_declared(type(target), name):
                raise ConfigurationError(
                    f"{where} has no option {name!r}, so that assigning it does nothing; did you "
                    f"mean {meant!r}? An attribute of your own is declared in its class."
                )


def _is_declared(kind: type[Any], name: str) -> bool:
    return any(name in vars(k) or name in vars(k).get("__annotations__", ()) for k in kind.__mro__)


def is_same(before: list[object], now: list[object]) -> bool:
    """Return whether all settings are the same objects as before."""
    return len(before) == len(now) and all(map(is_, before, now))


class Runnable(Generic[T]):
    """The base of agents and networks: `run`, `run_sync`, `stream` and their servers."""

    name: str
    history: HistoryConfig | None
    _opened: list[AsyncExitStack]

    @explained_run
    async def run(
        self,
        input: MessageInput,  # noqa: A002 - TypeScript's name
        **options: Unpack[RunOptions],
    ) -> T:
        """Run to the end.

        Args:
            input: What the user says: a text, or a message; as JSON, too (`UserMessage.from_dict`).
            options: See `RunOptions`.

        Returns:
            An agent's last result, all results being in the state; or a network's run.

        Raises:
            InvalidRecordError: The input is JSON of no user message.
            MissingModelError: An agent has no model.
            ModelError: A model call failed for good.
            RoutingError: A router's result is not an agent, or no agent is enabled.
            HistoryError: The thread could not be loaded or saved.
        """
        return await self._run(_message(input), options, tokens=False)

    async def resume(
        self,
        thread: str | OnThread | None,
        answers: Mapping[str, Answered] | Mapping[Question, Answered] | None = None,
        /,
        *,
        by: str | None = None,
        **options: Unpack[RunOptions],
    ) -> T:
        """Resume a run that waits for a person, in this process or any other.

        The run's code runs again up to its question: steps that are done (model calls, tools,
        ``ctx.step``) are not done again, while prompts, routers and hooks are called again and must
        decide as they did.

        Args:
            thread: The thread of the run: its id, or the result of `run`.
            answers: An answer, True or False to each question, by its id or by the `Question`; the
                first answer counts.
                Without any, a run resumes whose questions were answered elsewhere, or have expired.
            by: The id of the person who answers, for the record. Who may answer is not checked
                here, but by servers; a person whom the tool's ``approvers`` do not name is logged.
            options: The options of `run` (see `RunOptions`), with a ``state`` of its type
                where the run was given such a state.

        Returns:
            What `run` returns; the run may wait for other answers again.

        Raises:
            NotPendingError: The question does not exist, or is not open.
            ConfigurationError: The history keeps no questions, or an answer is none.
            ReplayError: The code has changed, so that the run would not reach its question again.
        """
        thread_id = id_of_thread("resume", thread)
        given = checked_answers(answers)
        expect_text("resume()", "by", by)
        if options.get("thread_id") not in (None, thread_id):
            raise ConfigurationError(
                f"resume() continues the thread {thread_id!r}; leave thread_id="
                f"{options.get('thread_id')!r:.80} out"
            )
        taken = await resume_with(self.history, thread_id, given, by)
        return await self.go_on(taken, options)

    async def pending(self, thread: str | OnThread | None) -> list[Question]:
        """Return the open questions of a thread, the oldest first.

        Args:
            thread: The thread: its id, or the result of `run`.

        Raises:
            ConfigurationError: It is neither.
        """
        thread_id, questions = id_of_thread("pending", thread), abilities_of(self.history).questions
        if questions is None:
            return []
        return await questions.list_questions(thread_id=thread_id, limit=None)

    async def go_on(self, taken: Resumption, options: RunOptions) -> T:
        """Go on with a run that this process has taken, as servers do; see `resume`."""
        state: State[Any] | None = getattr(self, "default_state", None)
        try:
            found = await self._run(taken.message, taken.options(options, state), tokens=False)
        except asyncio.CancelledError:
            await taken.end("stopped")
            raise
        except Exception:
            await taken.end("failed")
            raise
        await taken.end("completed")
        return found

    def run_sync(
        self,
        input: MessageInput,  # noqa: A002 - TypeScript's name
        **options: Unpack[RunOptions],
    ) -> T:
        """`run` for code that is not async: scripts, notebooks, plain functions of async programs.

        Where an event loop is running, the run has its own loop in another thread. It sees the
        caller's context variables, and whatever else runs in the caller's loop waits meanwhile.

        Raises:
            ConfigurationError: This is a durable function, whose steps can only be awaited.
        """
        message = _message(input)
        try:
            return self._run_in_a_loop(message, options)
        except ConfigurationError as error:
            if is_own_code(error.__traceback__):
                raise
            # Its text has the correction; the frames in between do not help the reader.
            raise error.with_traceback(None) from error.__cause__

    def _run_in_a_loop(self, message: str | UserMessage, options: RunOptions) -> T:
        if not _loop_runs():
            return run_interruptibly(self._run_and_close(message, options))
        if is_in_durable_function() or options.get("ctx") is not None:
            raise ConfigurationError(
                "run_sync was called inside an Inngest function; await run(…) instead, so that its "
                "steps are remembered"
            )
        return run_in_thread(self._run_and_close(message, options))

    async def _run_and_close(self, given: str | UserMessage, options: RunOptions) -> T:
        # Nothing durable runs here, so closing in finally happens exactly once.
        try:
            return await self._run(given, options, tokens=False)
        finally:
            await close_shared_runtime()

    def stream(
        self,
        input: MessageInput,  # noqa: A002 - TypeScript's name
        **options: Unpack[RunOptions],
    ) -> RunStream[T]:
        """`run` as an async iterator over its events, replies piece by piece among them."""
        message = _message(input)

        def begin(observer: Observer) -> Awaitable[T]:
            both = _both(options.get("observer"), observer)
            return self._run(message, {**options, "observer": both}, tokens=True)

        return RunStream(begin)

    async def __aenter__(self) -> Self:
        """Connect its servers; without ``async with`` they connect when they are first needed.

        Raises:
            ToolSourceError: A server that is needed cannot be reached.
        """
        self._opened.append(await opened(self._servers()))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect its servers."""
        await self._opened.pop().aclose()

    def _servers(self) -> Iterable[ToolSource]:
        raise NotImplementedError

    def _agents(self) -> Iterable[AgentLike]:
        raise NotImplementedError

    def plan_run(self, options: RunOptions) -> RunPlan[T]:
        """Return how a run with these options begins, and its work."""
        raise NotImplementedError

    async def _run(self, given: str | UserMessage, options: RunOptions, *, tokens: bool) -> T:
        """Run to the end, or until the run waits for a person; see `run`."""
        if self.history is not None:
            options = may_pause(options, self.history, self._agents())
        body = begin(self, given, options, tokens=tokens)
        context = body.context
        begun = Beginning.of(context, body.kind, self.name) if context.runtime.pauses else None
        try:
            await drive(body)
            outcome = context.thread.outcome
            if outcome is None or not outcome.is_paused:
                return body.result()
            thread_id = context.state.thread_id
            questions = await waited_for(context.thread.config, thread_id, outcome)
        except RunPaused as paused:
            assert begun is not None
            questions = await begun.pause(context, paused)
        answered = await take_answered(self.history, questions)
        if answered is not None:
            return await self.go_on(answered, options)
        body.end_without_work(PENDING if questions else STOPPED, questions)
        return body.result()


def begin(
    target: Runnable[T], given: str | UserMessage, options: RunOptions, *, tokens: bool = False
) -> RunBody[T]:
    """Return a run that is about to be driven, with all that it needs.

    Raises:
        ConfigurationError: An option is not known, or input or state cannot be used.
    """
    plan = target.plan_run(options)
    return plan.body(begin_run(plan.setup, given, options, tokens=tokens))


class RunStream(Generic[T]):
    """The events of a run as they happen; iterate over it once.

    The run begins with the iteration. Use it as a context manager to have the run cancelled when
    the block is left early; without, a run without readers continues to its end.

    Example:
        ::

            async with network.stream("Where is my order?") as stream:
                async for event in stream:
                    if isinstance(event, ReplyDelta) and isinstance(event.delta, TextDelta):
                        print(event.delta.delta, end="")
            print(stream.result.thread_id)
    """

    def __init__(self, begin: Callable[[Observer], Awaitable[T]]) -> None:
        """Keep how the run is begun."""
        self._begin = begin
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[T] | None = None
        self._is_read = False

    @property
    def result(self) -> T:
        """The return value of the run.

        Raises:
            ConfigurationError: The run is not over yet.
        """
        if self._task is None or not self._task.done():
            raise ConfigurationError("The stream's run is not over yet; iterate to its end first")
        if self._task.cancelled():
            raise ConfigurationError(
                "The stream was left before its run was over; it has no result"
            )
        return self._task.result()

    def __aiter__(self) -> RunStream[T]:
        """Begin the run.

        Raises:
            ConfigurationError: All events have been read.
        """
        if self._is_read:
            raise ConfigurationError(
                "The stream's events have all been read; keep them in a list, or begin another run "
                "by stream(…). Its result is stream.result"
            )
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return self

    async def __anext__(self) -> Event:
        """Return the next event.

        Raises:
            AgentKitError: What the run failed with, after its last event.
        """
        event = await self._queue.get()
        if event is None:
            self._queue.put_nowait(None)  # so that asking again ends again
            assert self._task is not None
            self._is_read = True
            await self._task
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> RunStream[T]:
        """Return the stream itself."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Cancel the run, if it is still running, and wait until it has ended."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> T:
        # A stream is never part of a durable function, so finally happens exactly once.
        try:
            return await self._begin(self._queue.put_nowait)
        finally:
            self._queue.put_nowait(None)


def _message(given: MessageInput) -> str | UserMessage:
    """Return the input of a run, read where it is JSON."""
    return UserMessage.from_dict(given) if isinstance(given, Mapping) else given


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _both(own: Observer | None, other: Observer) -> Observer:
    """Return an observer that hands each event to both, the user's own first."""
    if own is None:
        return other

    async def both(event: Event) -> Any:
        returned = own(event)
        if returned is not None:
            await returned
        other(event)

    return both
