"""Running recorded conversations: workers, each with a strict provider of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from agentkit_py.errors import InvalidRecordError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.runs import RunLimits
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores.base import HistoryStore
from agentkit_py.testing.fakes import Provider, model_of
from agentkit_py.testing.provider import FakeProvider
from agentkit_py.testing.replay.networks import Script
from agentkit_py.testing.replay.outcomes import Figures, Outcome, difference
from agentkit_py.testing.replay.recording import Conversation, RecordedTurn, result_of

PROVIDERS: tuple[Provider, ...] = ("openai", "azure_openai", "anthropic", "gemini", "grok")
"""Providers whose wire formats a replay supports."""


class NetworkMaker(Protocol):
    """Makes the network of one conversation."""

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
    figures: Figures = field(default_factory=Figures)
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
    on_outcome: Callable[[Pass, Outcome], None] = lambda _pass, _outcome: None
    on_conversation: Callable[[], None] = lambda: None

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
        # Of its own, so that no proxy of the environment stands before the loopback.
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
                    outcome = await self._replay(item, one, _Stage(script, fake, model, runtime))
                    one.figures.add(outcome)
                    self.on_outcome(one, outcome)
                self.on_conversation()

    async def _replay(self, conversation: Conversation, one: Pass, stage: _Stage) -> Outcome:
        outcome = Outcome(conversation=conversation.id, line=conversation.line, thread_id="")
        try:
            outcome.thread_id = await self._free_thread(f"{conversation.id}:{one.name}")
            network = await one.maker.network(conversation, stage.script, self.store)
            outcome.missing_tools = _missing_tools(conversation, network)
            if conversation.opening:
                await self._open(conversation, network, outcome.thread_id)
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

    async def _open(
        self, conversation: Conversation, network: Network[Any, Any], thread_id: str
    ) -> None:
        """Put what the assistant said before the first user message into the thread."""
        await self.store.add_thread(thread_id)
        agent = network.agents[0].name
        opening = [result_of(reply, agent) for reply in conversation.opening]
        await self.store.append(thread_id, opening)

    async def _free_thread(self, name: str) -> str:
        """Return a thread id that is not taken: a store may hold threads of earlier replays."""
        thread_id, number = name, 1
        while await self.store.thread_exists(thread_id):
            number += 1
            thread_id = f"{name}~{number}"
        self.existing += number > 1
        return thread_id

    async def _difference(self, conversation: Conversation, outcome: Outcome) -> str | None:
        try:
            found = difference(conversation, await self.store.load(outcome.thread_id))
        except Exception as error:  # noqa: BLE001 - a thread that cannot be read differs
            found = f"the thread cannot be read: {error}"
        if outcome.error is None:
            return found
        cause = f"because {outcome.error}"
        return cause if found is None else f"{found}, {cause}"


@dataclass(frozen=True, slots=True)
class _Stage:
    """All that one worker plays conversations with."""

    script: Script
    fake: FakeProvider
    model: Model
    runtime: DirectRuntime

    async def play(
        self, turn: RecordedTurn, network: Network[Any, Any], outcome: Outcome, own_calls: int
    ) -> str | None:
        """Run the network once, for one recorded user message; return why it ended early, if so."""
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


def _missing_tools(conversation: Conversation, network: Network[Any, Any]) -> list[str]:
    known = {name for agent in network.agents for name in agent.tool_map}
    return [name for name in conversation.tools if name not in known]
