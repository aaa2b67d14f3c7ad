"""Recording of a run as JSON events for the page: its events, model calls, effects and waits."""

from __future__ import annotations

import json
import re
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from agentkit_py._core.json import JsonObject, dumps
from agentkit_py._core.secrets import without_secrets
from agentkit_py._core.untrusted import clean
from agentkit_py._engine.instrumentation import Instrumentation, ListTools, ModelCall
from agentkit_py.budgets import Prices
from agentkit_py.errors import EmptyReplyError
from agentkit_py.events.approvals import ApprovalAnswer
from agentkit_py.events.types import (
    AgentsRouted,
    ContextActivity,
    Event,
    GuardrailChecked,
    HitlResolved,
    ModelFailedOver,
    ModelReplied,
    ReplyDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from agentkit_py.messages import Finish, ToolCallDelta, Usage, calls_of
from agentkit_py.models.base import Model
from agentkit_py.models.blocks import end_of
from agentkit_py.models.http_errors import hide_keys
from agentkit_py.playground.levels import message_json
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.journal import JournalRuntime
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable
from agentkit_py.state import State

_TOOL_STEP = re.compile(r"(.*)\.tool\.(\d+)\.")
_SHORTER = ".shorter"
_REPEATED = frozenset(
    {
        *("replied", "activity", "routed", "state.changed", "call.started", "call.ended"),
        *("tool.began", "tool.ended", "tool.started", "tool.finished"),
        *("listing.began", "listing.ended", "taken.back"),
    }
)
"""Events that a resumed run repeats in its replay, without their effects."""

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Recorded:
    """One model call."""

    number: int
    step_id: str
    model: Model
    call: ModelCall | None = None
    """None: a processor's own, e.g. for a summary."""

    began: float = 0.0
    """Milliseconds since the run began."""

    request: str | None = None
    """The JSON that was sent."""

    reply: str | None = None
    """The JSON that came back, put together if it was streamed."""

    streamed: bool = False
    error: str | None = None
    usage: Usage | None = None
    finish: Finish | None = None
    cost: float | None = None
    open: bool = True
    state: dict[str, Any] | None = None
    """The state's data at the call; None: it is not JSON."""


@dataclass(slots=True)
class Recorder(Instrumentation):
    """Records a run: as its instrumentation, and from its `RecordingRuntime`."""

    emit: Callable[[dict[str, Any]], None]
    prices: Prices = field(default_factory=Prices)
    calls: dict[int, Recorded] = field(default_factory=dict[int, Recorded])
    state: dict[str, Any] | None = None
    """The state's data at last."""

    resumes_after: str | None = None
    """The question whose answer resumes the run: earlier events are not recorded again."""

    wants_rehearsals: bool = field(default=True, init=False)
    wants_tokens: bool = field(default=True, init=False)

    _start: float = field(default_factory=time.perf_counter)
    _steps: dict[str, Recorded] = field(default_factory=dict[str, Recorded])
    _unanswered: dict[str, deque[Recorded]] = field(default_factory=lambda: defaultdict(deque))
    _keys: dict[tuple[str, str], deque[str]] = field(default_factory=lambda: defaultdict(deque))
    _running: dict[tuple[str, str], deque[str]] = field(default_factory=lambda: defaultdict(deque))

    @property
    def now(self) -> float:
        """Milliseconds since the run began."""
        return round((time.perf_counter() - self._start) * 1000, 1)

    def record(self, kind: str, **facts: Any) -> None:
        """Emit an event of this moment."""
        if self.resumes_after is not None and kind in _REPEATED:
            return
        self.emit({"kind": kind, "at": self.now, **facts})

    # Called by the engine.

    def model_call(self, call: ModelCall) -> None:
        """Record that a model call is about to be made."""
        if call.report is None:
            return  # a processor\'s own call, which the runtime sees
        path = call.step_id.removesuffix(_SHORTER)
        known = self._steps.get(path)
        if known is None:
            known = self._begin(path, call.model)
            self._unanswered[call.run_id].append(known)
        known.call = call
        known.state = None if call.state is None else data_of(call.state)
        if known.state is not None and self.state is None:
            self.record("state", data=known.state)
            self.state = known.state
        self.record(
            "call.started",
            call=known.number,
            agent=call.report.agent,
            runId=call.run_id,
            model=known.model.model,
            provider=known.model.provider,
            report=call.report.to_dict(),
            again=call.step_id.endswith(_SHORTER),
        )

    def listing(self, run_id: str, server: str, ask: ListTools) -> ListTools:
        """Record how long a server took to connect and to list its tools."""

        async def listed() -> JsonObject:
            self.record("listing.began", runId=run_id, server=server)
            facts: dict[str, Any] = {"error": "cancelled"}
            try:
                found = await ask()
                facts = {"tools": len(cast("list[Any]", found["tools"]))}
                facts["error"] = found.get("missing")
            except Exception as error:
                facts = {"error": error_text(error)}
                raise
            finally:  # nothing durable runs here
                self.record("listing.ended", runId=run_id, server=server, **facts)
            return found

        return listed

    def _begin(self, step_id: str, model: Model) -> Recorded:
        number = len(self.calls) + 1
        found = Recorded(number=number, step_id=step_id, model=model, began=self.now)
        self.calls[number] = self._steps[step_id] = found
        return found

    # Called by the runtime.

    def request_began(self, step_id: str, model: Model) -> Recorded:
        """Record that a request is about to be sent."""
        path = step_id.removesuffix(_SHORTER)
        known = self._steps.get(path)
        if known is None:
            known = self._begin(path, model)
            self.record(
                "call.started",
                call=known.number,
                agent=None,
                step=step_id,
                model=model.model,
                provider=model.provider,
            )
        known.open, known.error = True, None
        return known

    def reply_received(self, call: Recorded, reply: object, key: str | None) -> None:
        """Record the reply."""
        call.reply = hide_keys(dumps(reply), call.model, key)
        try:
            decoded = call.model.decode(reply)
            call.usage, call.finish = decoded.usage, decoded.finish
        except EmptyReplyError as error:
            call.usage, call.finish = error.usage, end_of(error)
        except Exception:  # noqa: BLE001, S110 - the run raises its own errors itself
            pass
        call.cost = self.prices.cost(call.model.model, call.usage)
        self._ended(call)

    def request_failed(self, call: Recorded, error: Exception) -> None:
        """Record that the request failed for good."""
        call.error = error_text(error)
        self._ended(call)

    def _ended(self, call: Recorded) -> None:
        call.open = False
        self.record(
            "call.ended",
            call=call.number,
            usage=usage_json(call.usage),
            cost=call.cost,
            **finish_json(call.finish),
            error=call.error,
        )

    def effect_began(self, step_id: str) -> str | None:
        """Record that a callback begins; return the key of its tool call, if any."""
        key = self._tool_key(step_id)
        if key is not None:
            self.record("tool.began", tool=key)
        return key

    def effect_ended(self, key: str | None, step_id: str, before: Any, after: Any) -> None:
        """Record that a callback has ended, and its changes to the state."""
        if before is not None and after is not None and before != after:
            self.state = after
            self.record("state.changed", tool=key, step=step_id, before=before, after=after)
        if key is not None:
            self.record("tool.ended", tool=key)

    def _tool_key(self, step_id: str) -> str | None:
        found = _TOOL_STEP.match(step_id)
        call = self._steps.get(f"{found[1]}.infer") if found else None
        return f"{call.number}.{found[2]}" if found and call else None

    async def event(self, event: Event) -> None:
        """Record an event."""
        where = {"runId": event.run_id, "name": event.name}
        match event:
            case RunStarted():
                facts = {"parent": event.parent_run_id, "routing": event.routing}
                self.record("started", scope=event.scope, **where, **facts)
            case RunCompleted():
                self.record("completed", scope=event.scope, stopReason=event.stop_reason, **where)
            case RunFailed():
                self.record("failed", scope=event.scope, error=error_text(event.error), **where)
            case RunInterrupted():
                self.record("interrupted", scope=event.scope, **where)
            case AgentsRouted():
                self.record("routed", agents=list(event.agents), **where)
            case ContextActivity():
                facts = {"stage": event.stage, "facts": dict(event.facts)}
                self.record("activity", activity=event.activity, **where, **facts)
            case ReplyDelta(delta=delta):
                part = {"part": type(delta).__name__, "index": delta.index, "text": delta.delta}
                tool = {"tool": delta.name} if isinstance(delta, ToolCallDelta) else {}
                self.record("delta", **where, **part, **tool)
            case ModelReplied():
                self._replied(event)
            case _:
                self._other_event(event)

    def _replied(self, event: ModelReplied) -> None:
        waiting = self._unanswered[event.run_id]
        number = waiting.popleft().number if waiting else 0
        for index, call in enumerate(calls_of(event.messages)):
            self._keys[event.run_id, call.id].append(f"{number}.{index}")
        self.record(
            "replied",
            call=number,
            runId=event.run_id,
            name=event.name,
            messages=[message_json(message) for message in event.messages],
        )

    def _other_event(self, event: Event) -> None:
        match event:
            case ModelFailedOver() | GuardrailChecked(verdict="tripped"):
                self.record("taken.back", runId=event.run_id, name=event.name)
            case ToolStarted() | ToolFinished() | HitlResolved():
                self._tool_event(event)
            case _:
                pass

    async def progress(self, event: ToolProgressed) -> None:
        """Record the progress of a tool."""
        running = self._running[event.run_id, event.call.id]
        key = running[0] if running else event.call.id
        self.record("tool.progressed", tool=key, runId=event.run_id, **event.progress.to_dict())

    def _tool_event(self, event: ToolStarted | ToolFinished | HitlResolved) -> None:
        if isinstance(event, HitlResolved):
            if event.request.id == self.resumes_after:
                self.resumes_after = None
            return
        if isinstance(event, ToolFinished):
            call_id = event.result.tool.id
            waiting = self._running[event.run_id, call_id]
            key = waiting.popleft() if waiting else call_id
            result = message_json(event.result)
            raised = {} if event.error is None else {"traceback": traceback_text(event.error)}
            self.record("tool.finished", tool=key, runId=event.run_id, result=result, **raised)
            return
        call = event.call
        waiting = self._keys[event.run_id, call.id]
        key = waiting.popleft() if waiting else call.id
        self._running[event.run_id, call.id].append(key)
        arguments = call.malformed if call.malformed is not None else call.arguments
        self.record(
            "tool.started",
            tool=key,
            runId=event.run_id,
            name=event.name,
            call={"id": call.id, "name": call.name, "input": arguments},
        )

    @contextmanager
    def effect(self, step_id: str, changes: object) -> Generator[None]:
        """Record a callback in the block, with its changes to the state."""
        key = self.effect_began(step_id)
        state: object = getattr(changes, "state", None)
        watched = cast("State[Any]", state) if isinstance(state, State) else None
        before = None if watched is None else data_of(watched)
        try:
            yield
        finally:  # nothing durable runs here
            after = None if watched is None else data_of(watched)
            self.effect_ended(key, step_id, before, after)

    def close(self, status: str, error: Exception | None = None) -> None:
        """Record the run's end."""
        for call in self.calls.values():
            if call.open:
                call.error = call.error or status
                self._ended(call)
        what = None if error is None else error_text(error)
        self.record("end", status=status, error=what, state=self.state, **self.totals())

    def totals(self) -> dict[str, Any]:
        """Sum up tokens and cost of all calls; no cost where that of any call is not known."""
        usages = [call.usage for call in self.calls.values() if call.usage is not None]
        costs = [call.cost for call in self.calls.values() if call.error is None]
        known = [cost for cost in costs if cost is not None]
        whole = bool(costs) and len(known) == len(costs)
        return {
            "usage": usage_json(sum(usages, Usage())) if usages else None,
            "cost": sum(known) if whole else None,
        }


def error_text(error: BaseException) -> str:
    """Return an error's type and message."""
    return f"{type(error).__name__}: {error}"


def traceback_text(error: BaseException) -> str:
    """Return an exception with its traceback, without secrets."""
    return without_secrets(clean("".join(traceback.format_exception(error))))


def data_of(state: State[Any]) -> dict[str, Any] | None:
    """Return the state's data as JSON; None where it is not JSON, as in a direct run."""
    try:
        return state.dump()
    except Exception:  # noqa: BLE001 - users' own objects
        return None


def finish_json(finish: Finish | None) -> dict[str, Any]:
    """Return why a reply ended, with the provider's word and its explanation."""
    if finish is None:
        return {"finish": None, "finishDetails": None}
    return {"finish": str(finish), "finishDetails": finish.details}


def usage_json(usage: Usage | None) -> dict[str, int] | None:
    """Return tokens under the names of the page."""
    if usage is None:
        return None
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_tokens,
        "reasoning": usage.reasoning_tokens,
        "written": usage.cache_write_tokens,
    }


def as_json(text: str | None) -> Any:
    """Return the value of a JSON text, or the text where redaction broke it."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


class RecordingRuntime(DirectRuntime):
    """The direct runtime, which records requests and the state changes of callbacks."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._claimed: dict[str, int] = {}

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        """Wait, and record it."""
        self._recorder.record("wait.began", step=step_id)
        await super().wait(step_id, time)
        self._recorder.record("wait.ended", step=step_id)

    def claim(self, name: str) -> str:
        """Return a prefix that no other run inside this run has, so that steps name calls."""
        count = self._claimed[name] = self._claimed.get(name, 0) + 1
        return name if count == 1 else f"{name}:{count}"

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Send the request, and record it and its answer."""
        call = self._recorder.request_began(step_id, model)
        streams = model.answers is None and model.adapter.assembler(model) is not None
        call.streamed = on_delta is not None and streams
        key = self.key_of(model)

        def made() -> dict[str, Any]:
            body = make_body()
            call.request = request_text(model, body, key, streamed=call.streamed)
            return body

        try:
            reply = await super().infer(step_id, model, made, on_delta)
        except Exception as error:
            self._recorder.request_failed(call, error)
            raise
        self._recorder.reply_received(call, reply, key)
        return reply

    def key_of(self, model: Model) -> str | None:
        """Return the key that is sent with requests, so that it can be hidden."""
        if callable(model.api_key):
            return None  # it is known while the request is sent, and shown nowhere
        if model.answers is not None or not model.key_required:
            return model.api_key
        return self.api_key(model)

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Call ``handler``, and record its changes to the state."""
        with self._recorder.effect(step_id, changes):
            return await super().effect(step_id, handler, changes, codec)

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> JournalRuntime:
        """Return the runtime of a run that may pause for a person, with recording."""
        return _RecordingJournal(self._recorder, self, journal, answers)


class _RecordingJournal(JournalRuntime):
    """The runtime of a run that may pause, which records the state changes of callbacks."""

    def __init__(
        self,
        recorder: Recorder,
        local: DirectRuntime,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> None:
        super().__init__(local, journal, answers)
        self._recorder = recorder

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Call ``handler`` once, and record its changes to the state."""
        if self.remembers(step_id):
            return await super().effect(step_id, handler, changes, codec)
        with self._recorder.effect(step_id, changes):
            return await super().effect(step_id, handler, changes, codec)


def request_text(
    model: Model, body: dict[str, Any], key: str | None, *, streamed: bool = False
) -> str:
    """Return the JSON of a request as it is sent, without the key and values like a key."""
    sent = model.adapter.stream_body(body) if streamed else body
    return hide_keys(dumps(sent), model, key)
