"""Runs recorded conversations and reports differences and figures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol

import httpx

from agentkit_py.errors import InvalidRecordError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.messages import (
    TextMessage,
    ToolCallMessage,
    UserMessage,
)
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.processors.pairing import is_own
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import USER, AgentResult
from agentkit_py.runs import RunLimits
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores.base import HistoryStore
from agentkit_py.testing.fakes import Provider, model_of
from agentkit_py.testing.provider import FakeProvider, ReceivedRequest, Rejection
from agentkit_py.testing.replay.networks import Script
from agentkit_py.testing.replay.recording import (
    Conversation,
    RecordedTurn,
    agent_result_of,
    plain_content,
    unwrapped,
)


@dataclass(slots=True, kw_only=True)
class ReplayOutcome:
    """Outcome of a conversation in a pass."""

    conversation: str
    line: int
    thread_id: str
    turns: int = 0
    tool_calls: int = 0
    tokens_sent: int = 0
    foreign_calls: int = 0
    """Tool calls that were sent to an agent that did not make them or does not have the tool."""

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
        """Count a model call; ``tools``: the names that each agent has."""
        self.reports.append(report)
        own = tools.get(report.agent, frozenset())
        calls = [message for message in report.sent if isinstance(message, ToolCallMessage)]
        called = [(message, call.name) for message in calls for call in message.tools]
        self.foreign_calls += sum(not is_own(m, name, report.agent, own) for m, name in called)
        self.tokens_sent += report.tokens_after
        self.wrong_reports += not adds_up(report)


@dataclass(slots=True)
class ReplayFigures:
    """Figures of all conversations of a pass."""

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

    def add(self, outcome: ReplayOutcome) -> None:
        """Count a conversation."""
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
    """Return whether a report's figures are consistent, from the full history to the request.

    Each entry starts with the figures that the previous entry ended with. The last entry's figures
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

    System messages are not part of a thread, so they are not compared; message 1 is the first
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
        "tool_calls": [
            {
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments if call.malformed is None else call.malformed,
            }
            for call in calls
        ],
    }
    answers = [
        {
            "role": "tool",
            "tool_call_id": message.tool.id,
            "name": message.tool.name,
            "content": unwrapped(message.content),
        }
        for message in result.tool_calls
    ]
    return [asked, *answers]


def _field(recorded: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Return the first field in which two messages differ."""
    if recorded["role"] != stored["role"]:
        return f"{recorded['role']} in the recording, {stored['role']} in the thread"
    name = next(key for key in recorded if recorded[key] != stored.get(key))
    theirs, ours = f"{recorded[name]!r:.120}", f"{stored.get(name)!r:.120}"
    return f"{recorded['role']}, {name} is {theirs} in the recording, {ours} in the thread"


PROVIDERS: tuple[Provider, ...] = ("openai", "azure_openai", "anthropic", "gemini", "grok")
"""Providers whose wire formats a replay supports."""


class NetworkMaker(Protocol):
    """Makes the network of a conversation."""

    async def network(
        self, conversation: Conversation, script: Script, history: HistoryConfig
    ) -> Network[Any, Any]:
        """Return the network; its threads go to ``history``."""
        ...


@dataclass(frozen=True, slots=True)
class Pass:
    """One way to run each conversation."""

    name: str
    """Ends the ids of its threads."""

    maker: NetworkMaker
    figures: ReplayFigures = field(default_factory=ReplayFigures)
    own_calls: int = 0
    """Model calls that a turn may make in addition to the recorded ones, e.g. for summaries."""


@dataclass(slots=True, kw_only=True)
class Replay:
    """Recorded conversations, run once for each pass."""

    store: HistoryStore
    passes: Sequence[Pass]
    provider: Provider = "openai"
    concurrency: int = 4
    bad_lines: int = 0
    existing: int = 0
    """Threads whose id was taken, by an earlier replay into the same store."""

    on_bad_line: Callable[[InvalidRecordError], None] = lambda _error: None
    on_outcome: Callable[[Pass, ReplayOutcome], None] = lambda _pass, _outcome: None
    on_conversation: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        """Check the provider.

        Raises:
            ConfigurationError: It is not known.
        """
        model_of(self.provider)

    @property
    def fine(self) -> bool:
        """True if every line could be read, no request was refused and no thread differs."""
        return not self.bad_lines and all(
            not (one.figures.rejected or one.figures.differing or one.figures.wrong_reports)
            for one in self.passes
        )

    async def run(self, feed: Iterator[Conversation | InvalidRecordError]) -> None:
        """Run all conversations of ``feed``, several at a time, as they are read.

        Raises:
            OSError: The feed's file cannot be read on.
        """
        # Its own client, so that the environment's proxies do not apply to the loopback.
        runtime = DirectRuntime(transport=httpx.AsyncHTTPTransport())
        workers = [asyncio.create_task(self._work(feed, runtime)) for _ in range(self.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await runtime.aclose()

    async def _work(
        self, feed: Iterator[Conversation | InvalidRecordError], runtime: DirectRuntime
    ) -> None:
        script = Script()

        with FakeProvider(lambda _request: script.reply()) as fake:
            model = model_of(self.provider, url=fake.base_url(self.provider))
            for item in feed:
                if isinstance(item, InvalidRecordError):
                    self.bad_lines += 1
                    self.on_bad_line(item)
                    continue
                for one in self.passes:
                    outcome = await self._replay(
                        item, one, _Equipment(script, fake, model, runtime)
                    )
                    one.figures.add(outcome)
                    self.on_outcome(one, outcome)
                self.on_conversation()

    async def _replay(
        self, conversation: Conversation, one: Pass, stage: _Equipment
    ) -> ReplayOutcome:
        outcome = ReplayOutcome(conversation=conversation.id, line=conversation.line, thread_id="")
        try:
            outcome.thread_id = await self._free_thread(f"{conversation.id}:{one.name}")
            network = await one.maker.network(conversation, stage.script, self.store)
            known = {name for agent in network.agents for name in agent.tool_map}
            outcome.missing_tools = [name for name in conversation.tools if name not in known]
            if conversation.opening:  # assistant messages before the first user message
                await self.store.add_thread(outcome.thread_id)
                agent = network.agents[0].name
                opening = [agent_result_of(reply, agent) for reply in conversation.opening]
                await self.store.append(outcome.thread_id, opening)
            for turn in conversation.turns:
                outcome.error = await stage.play(turn, network, outcome, one.own_calls)
                if outcome.error is not None:
                    break
        except Exception as error:  # noqa: BLE001 - of users' code too; the others still run
            outcome.error = f"of {type(error).__name__}: {error}"
        # Nothing is under way at this worker's provider, whose record would grow without end.
        outcome.requests = list(stage.fake.requests)
        stage.fake.requests.clear()
        outcome.difference = await self._difference(conversation, outcome)
        return outcome

    async def _free_thread(self, name: str) -> str:
        """Return a thread id that is not taken: a store may hold threads of earlier replays."""
        thread_id, number = name, 1
        while await self.store.thread_exists(thread_id):
            number += 1
            thread_id = f"{name}~{number}"
        self.existing += number > 1
        return thread_id

    async def _difference(self, conversation: Conversation, outcome: ReplayOutcome) -> str | None:
        try:
            found = difference(conversation, await self.store.load(outcome.thread_id))
        except Exception as error:  # noqa: BLE001 - a thread that cannot be read differs
            found = f"the thread cannot be read: {error}"
        if outcome.error is None:
            return found
        cause = f"because {outcome.error}"
        return cause if found is None else f"{found}, {cause}"


@dataclass(frozen=True, slots=True)
class _Equipment:
    """The resources of a worker that replays conversations."""

    script: Script
    fake: FakeProvider
    model: Model
    runtime: DirectRuntime

    async def play(
        self, turn: RecordedTurn, network: Network[Any, Any], outcome: ReplayOutcome, own_calls: int
    ) -> str | None:
        """Run the network on a recorded user message; return the reason of an early end."""
        self.script.begin(turn)
        most = len(turn.replies)
        # An agent that loops by itself must not ask for more than was recorded.
        limits = RunLimits(max_inferences=most + own_calls) if most else RunLimits()
        run = await network.run(
            turn.content if isinstance(turn.content, str) else UserMessage(turn.content),
            thread_id=outcome.thread_id,
            model=self.model,
            limits=limits,
            runtime=self.runtime,
        )
        tools = {name: frozenset(agent.tool_map) for name, agent in run.agents.items()}
        for report in run.context:
            outcome.add(report, tools)
        outcome.turns += 1
        outcome.tool_calls += sum(len(result.tool_calls) for result in run.results)
        left = self.script.remaining
        return (
            f"the run ended ({run.stop_reason}) with recorded replies left: {left}"
            if left
            else None
        )
