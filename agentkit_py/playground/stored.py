"""Earlier runs of a thread, from the entries of the store, in the form of the recorder's events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from agentkit_py.matrix.page import AS_NOW
from agentkit_py.messages import ToolCallMessage, Usage, text_of
from agentkit_py.network import Network, Target, explain_thread
from agentkit_py.playground.levels import levels_json, message_json
from agentkit_py.playground.recorder import finish_json, usage_json
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores.base import HistoryStore

STORED = "stored-"
"""The beginning of the ids of stored runs; the position of the user's message follows."""

_NETWORK = "network"


def stored_runs(
    target: Target, entries: Sequence[AgentResult], offset: int
) -> list[dict[str, Any]]:
    """Return the runs that entries of a thread are of, oldest first.

    Each begins with a message of the user; entries before the first such message are of no run
    here, as its beginning is not known. The store has no times of tools and no requests, so an
    event is at the time at which its answer was saved.

    Args:
        target: The agent or network of the thread.
        entries: The entries, in order.
        offset: The position of the first of them.
    """
    begins = [place for place, entry in enumerate(entries) if entry.agent_name == USER]
    groups = pairwise([*begins, len(entries)])
    return [
        _run(target, entries[begin:end], offset + begin) for begin, end in groups if end - begin > 1
    ]


def _run(target: Target, entries: Sequence[AgentResult], first: int) -> dict[str, Any]:
    asked = entries[0]
    text = "\n".join(text_of(message) for message in asked.output)
    events = _Events(target, asked)
    for entry in entries[1:]:
        events.add(entry)
    return {
        "id": f"{STORED}{first}",
        "input": text,
        "status": "stored",
        "first": first,
        "last": first + len(entries),
        "beganAt": asked.created_at.isoformat(),
        "events": events.made(),
    }


class _Events:
    """The events of a stored run."""

    def __init__(self, target: Target, asked: AgentResult) -> None:
        self._events: list[dict[str, Any]] = []
        self._begin = asked.created_at
        self._at = 0.0
        self._parent = _NETWORK if isinstance(target, Network) else None
        self._agent = ""
        self._calls = 0
        self._turns = 0
        self._usages: list[Usage] = []
        if self._parent is not None:
            self._started("network", _NETWORK, target.name, None)

    def add(self, entry: AgentResult) -> None:
        """Add an entry of the thread."""
        passed = (entry.created_at - self._begin).total_seconds() * 1000
        self._at = max(self._at, round(passed, 1))
        if not entry.by_agent:
            messages = [message_json(message) for message in entry.messages]
            self._emit("replied", call=0, name=entry.agent_name, messages=messages)
            return
        if entry.agent_name != self._agent:
            self._agent, self._turns = entry.agent_name, self._turns + 1
            self._started("agent", self._run_id, entry.agent_name, self._parent)
        self._call(entry)
        self._emit("completed", runId=self._run_id, stopReason=entry.stop_reason)

    @property
    def _run_id(self) -> str:
        return f"turn-{self._turns}"

    def made(self) -> list[dict[str, Any]]:
        """Return all events, with those of the run's end."""
        if self._parent is not None:
            self._emit("completed", runId=_NETWORK, stopReason=None)
        usage = usage_json(sum(self._usages, Usage())) if self._usages else None
        self._emit("end", status="stored", error=None, state=None, usage=usage, cost=None)
        return self._events

    def _emit(self, kind: str, **facts: Any) -> None:
        event = {"kind": kind, "at": self._at, "seq": len(self._events) + 1, **facts}
        self._events.append(event)

    def _started(self, scope: str, run_id: str, name: str, parent: str | None) -> None:
        facts = {"runId": run_id, "name": name, "parent": parent, "routing": False}
        self._emit("started", scope=scope, **facts)

    def _call(self, entry: AgentResult) -> None:
        self._calls += 1
        call, where = self._calls, {"runId": self._run_id, "name": entry.agent_name}
        facts = {"call": call, "agent": entry.agent_name, "runId": self._run_id}
        self._emit("call.started", **facts, model="", provider="")
        usage = usage_json(entry.usage)
        ending = {"usage": usage, "cost": None, "error": None, **finish_json(entry.finish)}
        self._emit("call.ended", call=call, **ending)
        if entry.usage is not None:
            self._usages.append(entry.usage)
        messages = [message_json(message) for message in entry.output]
        self._emit("replied", call=call, messages=messages, **where)
        results = {result.tool.id: result for result in entry.tool_calls}
        asked = [tool for m in entry.output if isinstance(m, ToolCallMessage) for tool in m.tools]
        for index, tool in enumerate(asked):
            key = f"{call}.{index}"
            arguments = tool.malformed if tool.malformed is not None else tool.arguments
            shown = {"id": tool.id, "name": tool.name, "input": arguments}
            self._emit("tool.started", tool=key, call=shown, **where)
            result = results.get(tool.id)
            if result is not None:
                self._emit("tool.finished", tool=key, result=message_json(result), **where)


async def stored_call(
    target: Target, store: HistoryStore, thread_id: str, run_id: str, number: int
) -> dict[str, Any] | None:
    """Describe a model call of a stored run, as the processors of today would send it.

    Returns:
        The description; None if the thread has no such call.
    """
    position = run_id.removeprefix(STORED)
    if not position.isdecimal() or not await store.thread_exists(thread_id):
        return None
    begin, count = int(position), await store.count_results(thread_id)
    if begin >= count:
        return None
    entries = [stored.result for stored in await store.page(thread_id, count, count - begin)]
    calls = [place for place, entry in enumerate(entries) if entry.by_agent]
    if not 1 <= number <= len(calls):
        return None
    end = begin + calls[number - 1] + 1
    explained = (await explain_thread(target, thread_id, before=end, limit=1))[-1]
    found: dict[str, Any] = {
        "call": number,
        "usage": usage_json(explained.usage),
        **finish_json(explained.finish),
        "stored": AS_NOW,
    }
    return found if explained.context is None else {**found, **seen_json(explained.context)}


def seen_json(report: ContextReport) -> dict[str, Any]:
    """Describe the input of a model call."""
    prompt = report.prompt
    return {
        "agent": report.agent,
        "system": "\n\n".join(text_of(m) for m in prompt if m.role == "system"),
        "input": next((text_of(m) for m in reversed(prompt) if m.role == "user"), ""),
        "seen": levels_json(report),
    }
