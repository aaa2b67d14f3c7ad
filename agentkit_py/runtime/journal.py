"""JournalRuntime: a run of this process that may pause for a person and go on in any other.

It keeps what each step of one run gave. Where the run needs an answer that nobody has given yet, it
ends with `RunPaused`, and its journal is stored. To go on, the run's code runs again from the top
with the journal, as a durable function does: steps that are done are not done again.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import anyio

from agentkit_py._core.json import JsonObject, JsonValue, find_non_json
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    ModelError,
    ReplayError,
)
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.models.base import Model
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable, Runtime, computed_id
from agentkit_py.runtime.recorded import (
    DeltaLog,
    model_error_from_json,
    model_error_to_json,
    scoped,
    to_output,
    unique,
    within,
)

T = TypeVar("T")


class RunPaused(BaseException):
    """The run waits for a person, and its code ends here until there is an answer."""

    def __init__(self, runtime: JournalRuntime, asked: Sequence[str]) -> None:
        """Keep the runtime of the run, and the ids of its questions in the order of the calls."""
        super().__init__("the run waits for a person")
        self._runtime = runtime
        self.asked: Sequence[str] = asked

    def journal(self) -> JsonObject:
        """Return what the run did so far.

        Raises:
            ConfigurationError: Something of it is not JSON.
        """
        return self._runtime.to_dict(self.asked)


_inside: ContextVar[bool] = ContextVar("agentkit_inside_journal_step", default=False)
"""True in the handler of a step, of which what it does is a part, and where nothing is kept."""


class JournalRuntime:
    """The runtime of one run that may pause.

    Args:
        local: What calls models and waits.
        journal: What the run's steps gave before it paused; None: it begins.
        answers: Answers to its questions, by id; None: the question has expired.
    """

    durable = False
    pauses = True
    execution: str | None = None
    attempt = 0

    def __init__(
        self,
        local: Runtime,
        journal: Mapping[str, Any] | None = None,
        answers: Mapping[str, ApprovalAnswer | None] | None = None,
    ) -> None:
        known: Mapping[str, Any] = journal or {}
        self._local = local
        self._seed: str = known.get("seed") or str(uuid.uuid4())
        self._past: dict[str, Any] = dict(known.get("steps") or {})
        self._left = set(self._past)
        self._steps: dict[str, Any] = dict(self._past)
        self._past_times: Mapping[str, float] = known.get("times") or {}
        self._times: dict[str, float] = {}
        self._past_decisions: Mapping[str, Any] = known.get("decided") or {}
        self._decided: dict[str, JsonValue] = dict(self._past_decisions)
        self._given: dict[str, Any] = dict(known.get("answers") or {})
        self._asked: list[str] = []
        self._answers = dict(answers or {})
        self._claims = Counter[str]()
        self._groups = 0
        self._problem: str | None = None
        self._tools = _JournalSteps(self, local)
        self.steps_taken: int = 0
        self.replaying: bool = journal is not None
        """True until the run comes to what it did not do before it paused."""

    def to_dict(self, asked: Sequence[str] = ()) -> JsonObject:
        """Return the journal as JSON, with those questions first that were ``asked`` in this order.

        Raises:
            ConfigurationError: Something of the run is not JSON, so that it cannot go on elsewhere.
        """
        if self._problem is not None:
            raise ConfigurationError(
                f"The run needs a person and cannot be kept until there is an answer: "
                f"{self._problem}. Pass approver=… to run(), or make it JSON."
            )
        return {
            "seed": self._seed,
            "steps": self._steps,
            "times": {**self._past_times, **self._times},
            "decided": self._decided,
            "answers": self._given,
            "asked": list(dict.fromkeys([*asked, *self._asked])),
        }

    @property
    def step(self) -> _JournalSteps:
        """The steps that users' tools and hooks may use."""
        return self._tools

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> JournalRuntime:
        """Return itself for a run that is a part of this one; a new one for one that goes on."""
        return self if journal is None else JournalRuntime(self._local, journal, answers)

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Give steps and runs that begin inside the block ids that start with ``step_id``."""
        return within(step_id)

    def claim(self, name: str) -> str:
        """Return ``name``, ``name:2``, …: no two nested runs share step ids."""
        return unique(name, self._claims)

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Do nothing: steps and decisions are compared."""

    def decide(self, key: str, value: Callable[[], JsonValue], what: str) -> None:
        """Keep a decision; where the run decided otherwise before it paused, it must not go on."""
        made = value()
        if key in self._past_decisions and self._past_decisions[key] != made:
            raise ReplayError(
                f"{what} {made!r:.200}, but {self._past_decisions[key]!r:.200} before the run "
                "paused. Code that runs again must decide as it did."
            )
        self._decided[key] = made

    def recorded(self, key: str) -> JsonValue:
        """Return what was decided before the run paused."""
        return self._past_decisions.get(key)

    def remembers(self, step_id: str) -> bool:
        """Return whether a step was done before the run paused."""
        if step_id.endswith("."):
            return any(name.startswith(step_id) for name in self._past)
        return step_id in self._past

    def may_remember(self, step_id: str) -> bool:
        """Return False: a run that goes on opens its thread again."""
        return False

    @contextmanager
    def each_time(self) -> Generator[None]:
        """Keep nothing of what the block does: a run that goes on does it again."""
        token = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(token)

    def new_id(self, key: str) -> str:
        """Return a UUID computed from the run's seed and ``key``."""
        return computed_id(f"journal:{self._seed}/{key}")

    def now(self, key: str) -> datetime:
        """Return the time at which ``key`` first happened."""
        current = self._local.now(key)
        if key in self._times or _inside.get():
            return current
        known = self._past_times.get(key)
        found = current if known is None else datetime.fromtimestamp(known, current.tzinfo)
        self._times[key] = found.timestamp()
        return found

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Ask the model, or return what it answered before the run paused."""
        log = DeltaLog(on_delta) if on_delta is not None else None

        async def ask() -> dict[str, Any]:
            try:
                body = await self._local.infer(step_id, model, make_body, log)
            except ModelError as error:
                failed.append(error)
                return {"failed": model_error_to_json(error), "deltas": log.rows if log else []}
            return {"reply": body, "deltas": log.rows if log else []}

        failed: list[ModelError] = []
        is_known = step_id in self._past
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
        """Run a callback once, and keep its result with what it changed."""
        if _inside.get():
            return await contained(handler)
        if step_id not in self._past:
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
        """Run a callback; where its changes cannot be kept, the run can still go on here."""
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

    async def kept(self, step_id: str, handler: Callable[[], Awaitable[Any]]) -> Any:
        """Return what a step gave before the run paused, or what it gives now, and keep that."""
        if _inside.get():
            return await contained(handler)
        self.steps_taken += 1
        if step_id in self._past:
            self._left.discard(step_id)
            return self._past[step_id]
        self._check_left(step_id)
        self.replaying = False
        token = _inside.set(True)
        try:
            output = await contained(handler)
        finally:
            _inside.reset(token)
        where = find_non_json(output, f"the output of step {step_id!r}")
        if where is not None:
            self._problem = f"{where} is not JSON"
        self._steps[step_id] = output
        return output

    def _check_left(self, step_id: str) -> None:
        """Refuse a new step while some that were done were not asked for again.

        Raises:
            ReplayError: There are some: the code is another than when the run paused.
        """
        if self._left and not self._groups:
            names = ", ".join(sorted(self._left)[:3])
            raise ReplayError(
                f"The run came to the new step {step_id!r} without {names}, which it did before it "
                "paused: the code or the data it decides by has changed."
            )

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all until each has ended or waits for a person; if one waits, so does the run."""

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

    async def with_checks(
        self, call: Callable[[], Awaitable[T]], checks: Sequence[Callable[[], Awaitable[Any]]]
    ) -> list[Any]:
        """Run all at the same time; a check that finds something cancels the call."""
        return await ended_by(self.parallel, call, checks)

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Pass the chunk on, if anybody listens."""
        await self._local.publish(chunk)

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:  # noqa: FBT001 - the port
        """Do nothing: what is published here is published at once."""
        return self._local.published_by_next_step(follows)

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        """Return the answer if there is one, or end the run's code here.

        Raises:
            RunPaused: There is none yet.
        """
        if opening is None:
            return await self._local.ask(step_id, request)
        if request.id in self._given:
            given = self._given[request.id]
            return None if given is None else ApprovalAnswer.from_dict(given)
        if request.id not in self._answers:
            self._asked.append(request.id)
            raise RunPaused(self, [request.id])
        self.replaying = False
        answer = self._answers[request.id]
        self._given[request.id] = None if answer is None else answer.to_dict()
        return answer

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Wait in this process."""
        await self._local.try_again(seconds, error)

    async def wait_for_signal(
        self, step_id: str, key: str, enter: Callable[[], Awaitable[bool]], seconds: float
    ) -> bool:
        """Wait, or return what the wait gave before the run paused."""
        wait = partial(self._local.wait_for_signal, step_id, key, enter, seconds)
        return await self.kept(f"{step_id}.signal", wait)

    async def signal(self, key: str) -> None:
        """Wake runs in this process."""
        await self._local.signal(key)

    def is_final(self, error: BaseException) -> bool:
        """Return True: nobody runs it again after an error."""
        return self._local.is_final(error)

    def repeats(self, error: Exception) -> bool:
        """Return False: errors end the run."""
        return self._local.repeats(error)

    def to_caller_error(self, error: Exception) -> Exception:
        """Return the error."""
        return error


async def _never() -> Any:
    raise AssertionError("a step that is kept was asked for again")


class _JournalSteps:
    """``ctx.step`` of tools and hooks: what a step gave is kept; events need Inngest."""

    def __init__(self, journal: JournalRuntime, local: Runtime) -> None:
        self._journal = journal
        self._direct = local.step

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` once; what it returns must be JSON if the run pauses."""
        kept = await self._journal.kept(scoped(step_id, "."), handler)
        return copy.deepcopy(kept)  # the caller may change it

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait in this process, once."""
        await self._journal.kept(
            scoped(step_id, "."), partial(self._direct.sleep, step_id, duration)
        )

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Wait in this process."""
        await self._direct.sleep_until(step_id, until)

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Refuse: events need Inngest."""
        return await self._direct.wait_for_event(
            step_id, event=event, if_exp=if_exp, timeout=timeout
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
        """Refuse: Inngest functions need Inngest."""
        return await self._direct.invoke_by_id(
            step_id, function_id=function_id, app_id=app_id, data=data, timeout=timeout
        )

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Refuse: events need Inngest."""
        return await self._direct.send_event(step_id, events)


Parallel: TypeAlias = Callable[[Sequence[Callable[[], Awaitable[Any]]]], Awaitable[list[Any]]]
"""Runs all to their end; errors are values."""


async def ended_by(
    parallel: Parallel,
    call: Callable[[], Awaitable[Any]],
    checks: Sequence[Callable[[], Awaitable[Any]]],
) -> list[Any]:
    """Run a call and its checks at the same time; see `Runtime.with_checks`."""
    scope = anyio.CancelScope()

    async def scoped() -> Any:
        with scope:
            return await call()
        return None  # it was cancelled

    async def checked(check: Callable[[], Awaitable[Any]]) -> Any:
        try:
            found = await check()
        except Exception:
            scope.cancel()
            raise
        if found is not None:
            scope.cancel()
        return found

    return await parallel([scoped, *[partial(checked, check) for check in checks]])
