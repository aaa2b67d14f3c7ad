"""Events of a scenario while it is played, in the shapes of the recordings."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from typing import Any

from agentkit_py import AgentResult, Message, State
from agentkit_py.codec import message_to_dict
from agentkit_py.messages import ToolCall

from .replayed import Log
from .vectors import Json

_OURS_ONLY = frozenset({"agent", "providerMetadata", "malformed"})


def snapshot(value: Any) -> Json:
    """A copy that later changes do not reach."""
    return copy.deepcopy(value)


class Journal:
    """Everything that is compared, as it happens."""

    def __init__(self) -> None:
        self.run = 0
        self.durable = False
        """True if the run is inside Inngest, so that TypeScript's code would see steps."""

        self.order: Log[str] = Log()
        self.callbacks: Log[dict[str, Json]] = Log()
        self.histories: Log[dict[str, Json]] = Log()
        self.events: Log[dict[str, Json]] = Log()
        self.returned: Log[dict[str, Json]] = Log()
        self.warnings: Log[Json] = Log()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    @property
    def _logs(self) -> list[Log[Any]]:
        logs: list[Log[Any]] = [self.order, self.callbacks, self.histories]
        return [*logs, self.events, self.returned, self.warnings]

    def begin_durable(self) -> None:
        """Begin a run inside Inngest, whose code is run again and again."""
        self.durable = True
        for log in self._logs:
            log.mark()

    def begin_execution(self) -> None:
        """The run's code runs from its top once more."""
        for log in self._logs:
            log.rewind()

    def end_durable(self) -> list[str]:
        """The run has ended; what its code did otherwise when it ran again."""
        self.durable = False
        return [problem for log in self._logs for problem in log.unmark()]

    def note(self, what: str) -> None:
        """Record an event, in order."""
        with self._lock:
            self.order.append(what)

    def published(self, event: dict[str, Json], kind: str) -> None:
        """A chunk was published."""
        with self._lock:
            self.order.sent(f"event:{kind}")
            self.events.sent(event)

    def step(self, what: str) -> None:
        """A step was asked for; a replay need not ask again."""
        with self._lock:
            self.order.once(what)

    def callback(self, kind: str, **facts: Json) -> None:
        """The scenario's own code was called."""
        with self._lock:
            self.callbacks.append({"run": self.run, "kind": kind, **facts})

    def called_before(self, adapter: str, hook: str) -> int:
        """Count a call of an adapter's hook, and return how many there were; a step makes one."""
        self._calls[adapter, hook] += 1
        return self._calls[adapter, hook] - 1

    def history(self, adapter: str, hook: str, context: Json) -> None:
        """A history adapter was called."""
        self.note(f"history:{adapter}.{hook}")
        entry = {"run": self.run, "adapter": adapter, "hook": hook, "ctx": context}
        self.histories.append(entry)

    def tool_returned(self, call: ToolCall, value: Any) -> None:
        """Record a handler's return value, which the tool's result must contain."""
        self.returned.append({"run": self.run, "call": call_record(call), "value": snapshot(value)})


def call_record(call: ToolCall) -> dict[str, Json]:
    """A tool call in TypeScript's fields."""
    return {"type": "tool", "id": call.id, "name": call.name, "input": snapshot(call.arguments)}


def message_record(message: Message) -> dict[str, Json]:
    """A message in TypeScript's fields; what only Python has is checked elsewhere."""
    return _without_ours(message_to_dict(message))


def _without_ours(value: Json) -> Json:
    if isinstance(value, list):
        return [_without_ours(item) for item in value]
    if not isinstance(value, dict):
        return snapshot(value)
    if value.get("type") == "tool":  # the input is the model's, and may have any key
        return {k: snapshot(v) for k, v in value.items() if k not in _OURS_ONLY}
    record = {k: v for k, v in value.items() if k not in _OURS_ONLY}
    return {k: snapshot(v) if k == "content" else _without_ours(v) for k, v in record.items()}


def short_result(result: AgentResult) -> dict[str, Json]:
    """Return the author and messages of a result."""
    return {
        "agentName": result.agent_name,
        "output": [message_record(message) for message in result.output],
        "toolCalls": [message_record(message) for message in result.tool_calls],
    }


def result_record(result: AgentResult) -> dict[str, Json]:
    """A result in TypeScript's fields; prompt, history and raw only where there was a reply."""
    record = short_result(result)
    if result.id is not None:
        record["id"] = result.id
    if result.raw is not None:
        record["prompt"] = [message_record(message) for message in result.prompt]
        record["history"] = [message_record(message) for message in result.history]
        record["raw"] = result.raw
    return record


def state_record(state: State[Any]) -> dict[str, Json]:
    """A state in TypeScript's fields."""
    record: dict[str, Json] = {
        "data": snapshot(state.data),
        "messages": [message_record(message) for message in state.messages],
        "results": [result_record(result) for result in state.transcript],
    }
    if state.thread_id is not None:
        record["threadId"] = state.thread_id
    return record
