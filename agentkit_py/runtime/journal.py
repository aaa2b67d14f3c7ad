"""JournalRuntime: a run in this process that may pause for a person and resume in another process.

It records the output of each step. Where the run needs an answer that is not there yet, its code
ends with `RunPaused`, and the journal is stored. To resume, the code runs again from the top with
the journal, as a durable function does: completed steps are not repeated.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from agentkit_py._core.json import JsonObject, JsonValue, find_non_json
from agentkit_py.errors import AgentKitError, ConfigurationError, ModelError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.models.base import Model
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable, Runtime, computed_id
from agentkit_py.runtime.recorded import (
    DeltaLog,
    model_error_from_json,
    model_error_to_json,
    to_output,
)
from agentkit_py.runtime.replay import Decision, ReplayGuard
from agentkit_py.runtime.scope import unique, within
from agentkit_py.runtime.steps import ServerRequest

T = TypeVar("T")


class RunPaused(BaseException):
    """Ends the code of a run that waits for a person, until there is an answer."""

    def __init__(self, runtime: JournalRuntime, asked: Sequence[str]) -> None:
        """Hold the run's runtime, and the ids of its questions in the order of the calls."""
        super().__init__("the run waits for a person")
        self._runtime = runtime
        self.asked: Sequence[str] = asked

    def journal(self) -> JsonObject:
        """Return the run's record so far.

        Raises:
            ConfigurationError: A value in it is not JSON.
        """
        return self._runtime.to_dict(self.asked)


_GROUP = "group/"
"""The place of steps that run at the same time: a new step may come before a remembered step."""

_inside: ContextVar[bool] = ContextVar("agentkit_inside_journal_step", default=False)
"""True inside a step's handler: nothing is recorded there, since it is part of that step."""


class Journal:
    """The record of a run: outputs of its steps, times and decisions.

    A resumed run is compared with it: it is a `ReplayMemory`.

    Args:
        stored: The result of `to_dict` when the run paused; None: the run begins.
    """

    advice = (
        "The code, or the data that it decides by, has changed since the run paused: code that "
        "runs again must do and decide as it did."
    )
    changed: Sequence[Sequence[str]] = ()

    def __init__(self, stored: Mapping[str, Any] | None) -> None:
        known: Mapping[str, Any] = stored or {}
        self.seed: str = known.get("seed") or str(uuid.uuid4())
        self.steps: Mapping[str, Any] = known.get("steps") or {}
        """Outputs of steps from before the pause."""

        self.places: Mapping[str, str] = dict.fromkeys(self.steps, "")
        self.times: Mapping[str, float] = known.get("times") or {}
        """Times from before the pause."""

        decided: Mapping[str, JsonValue] = known.get("decided") or {}
        self.decided: Mapping[str, Decision] = {
            key: Decision(value, "before the run paused") for key, value in decided.items()
        }
        self.answers: dict[str, Any] = dict(known.get("answers") or {})
        """Answers that the run has received, by question; None: the question expired."""

        self.new_steps: dict[str, Any] = {}
        self.new_times: dict[str, float] = {}
        self._left = set(self.steps)

    def left(self, asked: Iterable[str], /) -> int:
        """Return the number of completed steps that were not requested again."""
        if self._left:
            self._left.difference_update(asked)
        return len(self._left)

    def to_dict(self, decided: Mapping[str, JsonValue], asked: Iterable[str]) -> JsonObject:
        """Return all as JSON.

        Args:
            decided: Decisions since the run began or went on.
            asked: Its questions, in order.
        """
        before = {key: decision.value for key, decision in self.decided.items()}
        return {
            "seed": self.seed,
            "steps": {**self.steps, **self.new_steps},
            "times": {**self.times, **self.new_times},
            "decided": {**before, **decided},
            "answers": self.answers,
            "asked": list(dict.fromkeys(asked)),
        }


class JournalRuntime(Runtime):
    """The runtime of a run that may pause.

    Args:
        local: Calls models and waits.
        journal: The record from before the pause; None: the run begins.
        answers: Answers to the run's questions, by id; None: the question expired.
    """

    pauses = True

    def __init__(
        self,
        local: Runtime,
        journal: Mapping[str, Any] | None = None,
        answers: Mapping[str, ApprovalAnswer | None] | None = None,
    ) -> None:
        self._local = local
        self._journal = Journal(journal)
        self._guard = ReplayGuard(self._journal)
        self._answers = dict(answers or {})
        self._asked: list[str] = []
        self._claims = Counter[str]()
        self._groups = 0
        self._problem: str | None = None
        self.replaying: bool = journal is not None
        """True until the run does something new since the pause."""

    def to_dict(self, asked: Sequence[str] = ()) -> JsonObject:
        """Return the journal as JSON; the questions ``asked`` come first, in this order.

        Raises:
            ConfigurationError: A value of the run is not JSON, so another process could not resume.
        """
        if self._problem is not None:
            raise ConfigurationError(
                f"The run needs a person and cannot be kept until there is an answer: "
                f"{self._problem}. Pass approver=… to run(), or make it JSON."
            )
        return self._journal.to_dict(self._guard.decided, [*asked, *self._asked])

    @property
    def steps_taken(self) -> int:
        """Number of steps so far; in parallel calls, those before them."""
        return self._guard.steps_taken

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> JournalRuntime:
        """Return itself for a nested run, and a new runtime for a run that resumes."""
        return self if journal is None else JournalRuntime(self._local, journal, answers)

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Give steps and runs that begin inside the block ids that start with ``step_id``."""
        return within(step_id)

    def claim(self, name: str) -> str:
        """Return ``name``, ``name:2``, …: no two nested runs share step ids."""
        return unique(name, self._claims)

    def decide(self, key: str, value: Callable[[], JsonValue], what: str) -> None:
        """Record a decision, and compare it with the decision from before the pause."""
        self._guard.decide(key, value(), what)

    def recorded(self, key: str) -> JsonValue:
        """Return the decision from before the pause."""
        return self._guard.recorded(key)

    def remembers(self, step_id: str) -> bool:
        """Return whether a step was done before the run paused."""
        return self._guard.remembers(step_id)

    @contextmanager
    def each_time(self) -> Generator[None]:
        """Record nothing inside the block: a resumed run does it again."""
        token = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(token)

    def new_id(self, key: str) -> str:
        """Return a UUID computed from the run's seed and ``key``."""
        return computed_id(f"journal:{self._journal.seed}/{key}")

    def now(self, key: str) -> datetime:
        """Return the time at which ``key`` first happened."""
        current = self._local.now(key)
        if key in self._journal.new_times or _inside.get():
            return current
        known = self._journal.times.get(key)
        found = current if known is None else datetime.fromtimestamp(known, current.tzinfo)
        self._journal.new_times[key] = found.timestamp()
        return found

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Ask the model, or return its answer from before the pause."""
        log = DeltaLog(on_delta) if on_delta is not None else None

        async def ask() -> dict[str, Any]:
            try:
                body = await self._local.infer(step_id, model, make_body, log)
            except ModelError as error:
                failed.append(error)
                return {"failed": model_error_to_json(error), "deltas": log.rows if log else []}
            return {"reply": body, "deltas": log.rows if log else []}

        failed: list[ModelError] = []
        is_known = step_id in self._journal.steps
        found = await self.kept(step_id, ask)
        if log is not None and is_known:
            await log.replay(found["deltas"])
        if "failed" in found:
            raise failed[0] if failed else model_error_from_json(model, found["failed"])
        return found["reply"]

    def account(self, model: Model) -> str:
        """Return a tag of the account that is asked."""
        return self._local.account(model)

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a callback once, and record its result and its changes."""
        if _inside.get():
            return await contained(handler)
        if step_id not in self._journal.steps:
            values: list[T] = []
            await self.kept(step_id, partial(self._changing, handler, changes, codec, values))
            return values[0]
        found = await self.kept(step_id, _never)
        changes.replay(found["changes"])
        if "cursor" in found:
            assert codec is not None
            return codec.resume(await handler(), found["cursor"])
        return codec.load(found["value"]) if codec is not None else cast("T", found["value"])

    async def _changing(
        self,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None,
        values: list[T],
    ) -> dict[str, Any]:
        """Run a callback; if its changes cannot be recorded, the run may end but not pause."""
        before: object = None
        try:
            before = changes.begin()
        except AgentKitError as error:
            self._problem = str(error)
        values.append(await handler())
        if self._problem is not None:
            return {}
        try:
            return {**to_output(values[0], codec), "changes": changes.record(before)}
        except AgentKitError as error:
            self._problem = str(error)
            return {}

    async def kept(self, step_id: str, handler: Callable[[], Any]) -> Any:
        """Return a step's recorded output, or run the step and record its output."""
        if _inside.get():
            return await contained(handler)
        self._guard.ask(step_id, _GROUP if self._groups else "")
        if step_id in self._journal.steps:
            return self._journal.steps[step_id]
        self._guard.check_new(step_id)
        self.replaying = False
        token = _inside.set(True)
        try:
            output = await contained(handler)
        finally:
            _inside.reset(token)
        where = find_non_json(output, f"the output of step {step_id!r}")
        if where is not None:
            self._problem = f"{where} is not JSON"
        self._journal.new_steps[step_id] = output
        return output

    async def run_step(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run a handler once; its result must be JSON if the run pauses."""
        kept = await self.kept(step_id, handler)
        return copy.deepcopy(kept)  # the caller may change it

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        """Wait in this process; a duration only once."""
        wait = partial(self._local.wait, step_id, time)
        if isinstance(time, datetime):  # a resumed run does not wait for it a second time
            await wait()
        else:
            await self.kept(step_id, wait)

    async def server_step(self, step_id: str, request: ServerRequest, /) -> Any:
        """Pass the request to the runtime that calls models."""
        return await self._local.server_step(step_id, request)

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all calls until each ends or pauses; pause the run if a call paused."""

        async def outcome(call: Callable[[], Awaitable[T]]) -> T | Exception | RunPaused:
            try:
                return await contained(call)
            except RunPaused as paused:
                return paused
            except Exception as error:  # noqa: BLE001 - errors are values here
                return error

        self._groups += 1
        found = await asyncio.gather(*(outcome(call) for call in calls))
        self._groups -= 1
        paused = [one for one in found if isinstance(one, RunPaused)]
        if paused:
            raise RunPaused(self, [question for one in paused for question in one.asked])
        return cast("list[T | Exception]", list(found))

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Pass the chunk on."""
        await self._local.publish(chunk)

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:  # noqa: FBT001 - the port
        """Pass it on: a journal does not hold chunks back."""
        return self._local.published_by_next_step(follows)

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        """Return the answer, or end the run's code here.

        Raises:
            RunPaused: The question has no answer yet.
        """
        if opening is None:
            return await self._local.ask(step_id, request)
        if request.id in self._journal.answers:
            given = self._journal.answers[request.id]
            return None if given is None else ApprovalAnswer.from_dict(given)
        if request.id not in self._answers:
            self._asked.append(request.id)
            raise RunPaused(self, [request.id])
        self.replaying = False
        answer = self._answers[request.id]
        self._journal.answers[request.id] = None if answer is None else answer.to_dict()
        return answer

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Wait in this process."""
        await self._local.try_again(seconds, error)

    async def wait_for_signal(
        self, step_id: str, key: str, enter: Callable[[], Awaitable[bool]], seconds: float
    ) -> bool:
        """Wait, or return the outcome of the wait from before the pause."""
        wait = partial(self._local.wait_for_signal, step_id, key, enter, seconds)
        return await self.kept(f"{step_id}.signal", wait)

    async def signal(self, key: str) -> None:
        """Wake runs in this process."""
        await self._local.signal(key)

    def is_final(self, error: BaseException) -> bool:
        """Return whether ``error`` ends the run for good."""
        return self._local.is_final(error)

    def repeats(self, error: Exception) -> bool:
        """Return whether ``error`` is remembered."""
        return self._local.repeats(error)


async def _never() -> Any:
    raise AssertionError("a recorded step ran again")
