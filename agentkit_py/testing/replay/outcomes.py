"""Outcomes of a replay: differences between thread and recording, and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from agentkit_py._core.json import JsonValue
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import USER, AgentResult
from agentkit_py.testing.provider import ReceivedRequest, Rejection
from agentkit_py.testing.replay.recording import Conversation, plain_content


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Outcome of one conversation in one pass."""

    conversation: str
    line: int
    thread_id: str
    turns: int = 0
    tool_calls: int = 0
    tokens_sent: int = 0
    foreign_calls: int = 0
    """Tool calls that were sent to an agent that does not have the tool."""

    wrong_reports: int = 0
    """Reports whose figures do not add up."""

    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest], repr=False)
    """The provider's requests, refused ones included."""

    reports: list[ContextReport] = field(default_factory=list[ContextReport], repr=False)
    """Context reports of the model calls; of runs that failed there is none."""

    missing_tools: list[str] = field(default_factory=list[str])
    """Tools that the recording calls and no agent of the network has."""

    error: str | None = None
    """Cause of an early end, as the end of a sentence ("because …")."""

    difference: str | None = None
    """First difference between thread and recording."""

    @property
    def rejections(self) -> list[Rejection]:
        """The reasons of refusals, in order."""
        return [seen.rejection for seen in self.requests if seen.rejection is not None]

    def add(self, report: ContextReport, tools: Mapping[str, frozenset[str]]) -> None:
        """Count one model call; ``tools``: the names that each agent has."""
        self.reports.append(report)
        own = tools.get(report.agent, frozenset())
        called = [c.name for m in report.sent if isinstance(m, ToolCallMessage) for c in m.tools]
        self.foreign_calls += sum(name not in own for name in called)
        self.tokens_sent += report.tokens_after
        self.wrong_reports += not adds_up(report)


@dataclass(slots=True)
class Figures:
    """Figures of all conversations of one pass."""

    conversations: int = 0
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens_sent: int = 0
    foreign_calls: int = 0
    wrong_reports: int = 0
    rejected: int = 0
    differing: int = 0
    rules: Counter[str] = field(default_factory=Counter[str])
    """Number of refusals by each rule of the provider."""

    missing_tools: Counter[str] = field(default_factory=Counter[str])
    """In how many conversations each tool was called that the network does not have."""

    def add(self, outcome: Outcome) -> None:
        """Count one conversation."""
        self.conversations += 1
        self.turns += outcome.turns
        self.model_calls += len(outcome.requests)
        self.tool_calls += outcome.tool_calls
        self.tokens_sent += outcome.tokens_sent
        self.foreign_calls += outcome.foreign_calls
        self.wrong_reports += outcome.wrong_reports
        self.rejected += len(outcome.rejections)
        self.differing += outcome.difference is not None
        self.rules.update(rejection.rule for rejection in outcome.rejections)
        self.missing_tools.update(outcome.missing_tools)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {
            "conversations": self.conversations,
            "turns": self.turns,
            "modelCalls": self.model_calls,
            "toolCalls": self.tool_calls,
            "tokensSent": self.tokens_sent,
            "foreignToolCallsSent": self.foreign_calls,
            "reportsThatDoNotAddUp": self.wrong_reports,
            "requestsRejected": self.rejected,
            "threadsThatDiffer": self.differing,
            "rulesBroken": dict(self.rules),
            "missingTools": dict(self.missing_tools),
        }


def adds_up(report: ContextReport) -> bool:
    """Return whether a report's figures are consistent, from the full history to what was sent.

    Each entry starts with the figures that the one before ended with. The last entry's figures
    do not count the prompt; making calls and results whole comes after that and does count it.
    """
    tokens, messages = report.tokens_before, len(report.history)
    joined = False
    for entry in report.entries:
        if entry.level == "validity" and not joined and entry is report.entries[-1]:
            joined = entry.messages_before == messages + len(report.prompt)
            tokens += report.prompt_tokens if joined else 0
            messages += len(report.prompt) if joined else 0
        if (entry.tokens_before, entry.messages_before) != (tokens, messages):
            return False
        tokens, messages = entry.tokens_after, entry.messages_after
    if not joined:
        tokens, messages = tokens + report.prompt_tokens, messages + len(report.prompt)
    return (tokens, messages) == (report.tokens_after, len(report.sent))


# The thread against the recording.


def difference(conversation: Conversation, thread: Sequence[AgentResult]) -> str | None:
    """Return where the thread first differs from the recording, in words; None: nowhere.

    System messages are no part of a thread, so they are not compared; message 1 is the first
    after them.
    """
    pairs = zip_longest(conversation.messages(), thread_messages(thread))
    for number, (recorded, stored) in enumerate(pairs, start=1):
        if recorded is None:
            return f"message {number} ({stored['role']}) is in the thread only"
        if stored is None:
            return f"message {number} ({recorded['role']}) is not in the thread"
        if recorded != stored:
            return f"message {number}: {_field(recorded, stored)}"
    return None


def thread_messages(thread: Sequence[AgentResult]) -> list[dict[str, Any]]:
    """Return the thread's messages in the form of `Conversation.messages`."""
    return [message for result in thread for message in _messages(result)]


def _messages(result: AgentResult) -> list[dict[str, Any]]:
    said = [m for m in result.output if isinstance(m, TextMessage)]
    if result.agent_name == USER:
        return [{"role": "user", "content": plain_content(m.content)} for m in said]
    texts = [m.text for m in said]
    calls = [c for m in result.output if isinstance(m, ToolCallMessage) for c in m.tools]
    if not texts and not calls:
        return []  # a turn that was stopped before the model was asked
    asked = {
        "role": "assistant",
        "content": "\n".join(texts) if texts else None,
        "tool_calls": [_call(call) for call in calls],
    }
    return [asked, *(_result(message) for message in result.tool_calls)]


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if call.malformed is None else call.malformed
    return {"id": call.id, "name": call.name, "arguments": arguments}


def _result(message: ToolResultMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": message.tool.id,
        "name": message.tool.name,
        "content": _unwrapped(message.content),
    }


def _unwrapped(content: JsonValue) -> JsonValue:
    """Return what the tool returned, out of the envelope in which the engine keeps it."""
    if isinstance(content, Mapping) and list(content) == ["data"]:
        return content["data"]
    return content


def _field(recorded: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Return the first field in which two messages differ."""
    if recorded["role"] != stored["role"]:
        return f"{recorded['role']} in the recording, {stored['role']} in the thread"
    name = next(key for key in recorded if recorded[key] != stored.get(key))
    theirs, ours = f"{recorded[name]!r:.120}", f"{stored.get(name)!r:.120}"
    return f"{recorded['role']}, {name} is {theirs} in the recording, {ours} in the thread"
