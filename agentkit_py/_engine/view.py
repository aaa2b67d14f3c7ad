"""What one inference is allowed to see: history → processors → validity → `on_start` → validity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.later import Later
from agentkit_py._engine.knowledge_base import with_instructions
from agentkit_py._engine.lifecycle import Start, StartContext
from agentkit_py._engine.overflow import NAME as OVERFLOW
from agentkit_py._engine.overflow import halved
from agentkit_py._engine.prompt import HistoryMode, join
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.tool import Tool
from agentkit_py.messages import Message
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.capabilities import window_of
from agentkit_py.processors.apply import is_enough, run_chain
from agentkit_py.processors.base import (
    HistoryProcessor,
    Level,
    ProcessorContext,
    ProcessorServices,
    SummaryStore,
)
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.processors.validity import ensure_valid
from agentkit_py.processors.vectors import VectorIndex

if TYPE_CHECKING:
    from agentkit_py.agent import Agent


@dataclass(slots=True, kw_only=True)
class Seen:
    """What the model is about to see, and how that came about."""

    prompt: Sequence[Message]
    history: Sequence[Message]
    joined: tuple[Message, ...]
    prefill: int
    report: ContextReport
    stop: bool = False


class Recalled:
    """What the model saw when it gave an answer that is remembered.

    A replay comes by every call of the run again, and hardly ever reads what they saw.
    """

    __slots__ = ("_agent", "_count", "_mode", "_past", "_present", "_prompt", "_seen")

    def __init__(self, scope: RunScope, agent: Agent, system: str) -> None:
        """Keep what it is made of, as it is now.

        Not the scope: results know what their call saw, and circles of all that a replay made
        are left to Python's garbage collector, which took as much as was saved.
        """
        self._agent = agent
        self._prompt = scope.input.prompt(system, agent.assistant)
        self._mode: HistoryMode = scope.mode
        self._past = scope.past
        self._present = scope.noted()
        self._count = len(self._present)
        self._seen: Seen | None = None

    def seen(self) -> Seen:
        """All of it."""
        if self._seen is None:
            full = (*self._past, *self._present.first(self._count))
            self._seen = _together(self._agent, self._mode, self._prompt, full, [], full)
        return self._seen

    def __call__(self, name: str) -> Sequence[Any]:
        """One of its report's sequences."""
        return getattr(self.seen().report, name)

    @property
    def report(self) -> ContextReport:
        """As in `Seen`; made anew for each reader."""
        agent = self._agent
        return ContextReport(
            agent=agent.name,
            entries=Later(self, "entries"),
            prompt=self._prompt,
            history=Later(self, "history"),
            sent=Later(self, "sent"),
            tokenizer=agent.tokenizer,
        )


@dataclass(slots=True, kw_only=True)
class View:
    """Puts together what one inference of an agent sees."""

    scope: RunScope
    agent: Agent
    model: Model
    tools: Mapping[str, Tool]
    """What the model is offered."""

    make_host: Callable[[str], ProcessorServices] | None
    """Makes what processors may use, with the step id prefix of the inference; None: nothing may
    happen, this is a rehearsal."""

    step_id: str = ""
    """Step id prefix of the inference."""

    others: Sequence[tuple[Level, Sequence[HistoryProcessor]]] | None = None
    """Processors to try in place of those that are configured."""

    _host: ProcessorServices | None = field(default=None, init=False)

    @property
    def host(self) -> ProcessorServices | None:
        """What processors may use, made when one may want it."""
        if self._host is None and self.make_host is not None:
            self._host = self.make_host(self.step_id)
        return self._host

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them."""
        if self.tools is self.agent.tool_map:
            return self.agent.specs
        return tuple(tool.spec for tool in self.tools.values())

    def request(self, seen: Seen) -> ModelRequest:
        """What the model is asked."""
        choice = self.agent.tool_choice
        return ModelRequest(
            messages=seen.joined,
            tools=self.specs,
            # A tool that may not be called now cannot be asked for either.
            tool_choice=choice if choice in _CHOICES or choice in self.tools else "auto",
            agent=self.agent.name,
            prefill=seen.prefill,
        )

    @property
    def is_plain(self) -> bool:
        """Whether nobody has a say in what the model sees: no processor, function or hook."""
        agent = self.agent
        return (
            isinstance(agent.system, str)
            and agent.lifecycle.on_start is None
            and agent.knowledge is None
            and self.is_unprocessed
        )

    @property
    def is_unprocessed(self) -> bool:
        """Whether the model sees the history as it is: all is loaded, and nothing changes it."""
        return self.scope.thread.older is None and not self.chains()

    def recalled(self) -> Recalled:
        """What a plain call saw whose answer is remembered; put together when it is read."""
        system = self.agent.system
        assert isinstance(system, str)
        return Recalled(self.scope, self.agent, system)

    async def look(self) -> Seen:
        """What the model sees now."""
        scope, agent = self.scope, self.agent
        prompt = await self._prompt()
        present = scope.present()
        history: Sequence[Message]
        entries: list[ReportEntry]
        if self.is_unprocessed:
            history = full = (*scope.past, *present)
            entries = []
        else:
            history, entries, full = await self._history(prompt, present)
        stop = False
        if agent.lifecycle.on_start is not None:
            before = history = _valid(history, entries, agent)
            start = await self._on_start(prompt, history)
            prompt, history, stop = tuple(start.prompt), tuple(start.history), start.stop
            if history != tuple(before):
                entries.append(_entry("on_start", "on_start", before, history, agent))
        return self._seen(prompt, history, entries, full, stop=stop)

    async def _history(
        self, prompt: Sequence[Message], present: Sequence[Message]
    ) -> tuple[Sequence[Message], list[ReportEntry], Sequence[Message]]:
        """What the processors leave, what each of them did, and what there was before."""
        scope, chains = self.scope, self.chains()
        context = self._context(prompt, present)
        await scope.widen(
            lambda newest: is_enough(newest, chains, replace(context, unloaded=scope.before))
        )
        full = (*scope.past, *present)
        context = replace(context, unloaded=scope.before)
        spans = scope.spans if self.make_host is not None else None
        around = spans.processors(self.step_id) if spans is not None else None
        outcome = await run_chain(full, chains, context, around)
        return outcome.messages, list(outcome.entries), full

    async def halved(self, seen: Seen) -> Seen:
        """About half of it, where a provider said that it is too long."""
        context = self._context(seen.prompt, seen.history)
        full = seen.report.history
        pins = (p.pinned(full) for _, processors in self.chains() for p in processors)
        context = replace(context, pinned=frozenset(id(m) for found in pins for m in found))
        sent = count_messages(seen.joined, self.agent.tokenizer)
        prompt = count_messages(seen.prompt, self.agent.tokenizer)
        history, reason = await halved(seen.history, sent, prompt, context)
        entry = _entry("overflow", OVERFLOW, seen.history, history, self.agent, reason)
        entries = [*seen.report.entries, entry]
        return self._seen(seen.prompt, history, entries, full)

    def _seen(
        self,
        prompt: Sequence[Message],
        history: Sequence[Message],
        entries: list[ReportEntry],
        full: Sequence[Message],
        *,
        stop: bool = False,
    ) -> Seen:
        scope = self.scope
        # In a turn of many inferences only what is new has to be looked at.
        seen = _together(self.agent, scope.mode, prompt, history, entries, full, scope.valid)
        scope.valid, seen.stop = seen.joined, stop
        return seen

    async def _prompt(self) -> tuple[Message, ...]:
        agent, scope = self.agent, self.scope
        system = agent.system
        if not isinstance(system, str):
            system = await agent.system_prompt(scope)
        if agent.knowledge_search is not None:
            system = await with_instructions(system, agent, scope, self.tools, self.host)
        return scope.input.prompt(system, agent.assistant)

    def chains(self) -> Sequence[tuple[Level, Sequence[HistoryProcessor]]]:
        """The processors, level by level."""
        if self.others is not None:
            return self.others
        return self.scope.chains_of(self.agent)

    def _context(self, prompt: Sequence[Message], present: Sequence[Message]) -> ProcessorContext:
        network, history = self.scope.network, self.scope.history
        return ProcessorContext(
            agent=self.agent.name,
            network=network.name if network is not None else None,
            thread_id=self.scope.state.thread_id,
            model=self.model.model,
            context_window=self.model.context_window or window_of(self.model.model),
            tokenizer=self.agent.tokenizer,
            prompt=prompt,
            protected=self._protected(present),
            steps=self.scope.runtime.step,
            input=self.scope.input.text,
            tools=self.specs,
            services=self.host,
            summaries=history if history and isinstance(history, SummaryStore) else None,
            vectors=history if history and isinstance(history, VectorIndex) else None,
            memory=self.scope.memory,
            dry=self.make_host is None,
        )

    def _protected(self, present: Sequence[Message]) -> frozenset[int]:
        if self.scope.mode == "typescript":
            return frozenset()
        name = self.agent.name
        return frozenset(
            id(m)
            for m in present
            if m.from_history is False and m.type != "text" and m.agent == name
        )

    async def _on_start(self, prompt: Sequence[Message], history: Sequence[Message]) -> Start:
        hook = self.agent.lifecycle.on_start
        assert hook is not None
        context = StartContext(
            agent=self.agent,
            network=self.scope.network,
            state=self.scope.state,
            input=self.scope.input.text,
            prompt=prompt,
            history=history,
        )
        return await resolve(hook(context)) or Start(prompt, history)


_CHOICES = ("auto", "any")


def _together(
    agent: Agent,
    mode: HistoryMode,
    prompt: Sequence[Message],
    history: Sequence[Message],
    entries: list[ReportEntry],
    full: Sequence[Message],
    known: tuple[Message, ...] = (),
) -> Seen:
    """Prompt and history as they are sent; a list that begins with ``known`` is valid so far."""
    joined, prefill = join(prompt, history, mode)
    begins = joined[: len(known)] == known
    joined = tuple(_valid(joined, entries, agent, len(known) if begins else 0))
    report = ContextReport(
        agent=agent.name,
        entries=tuple(entries),
        prompt=prompt,
        history=full,
        sent=joined,
        tokenizer=agent.tokenizer,
    )
    return Seen(prompt=prompt, history=history, joined=joined, prefill=prefill, report=report)


def _valid(
    messages: Sequence[Message], entries: list[ReportEntry], agent: Agent, known: int = 0
) -> Sequence[Message]:
    valid, repairs = ensure_valid(messages, known)
    if repairs:
        reason = "; ".join(str(repair) for repair in repairs)
        entries.append(_entry("validity", "validity", messages, valid, agent, reason))
    return valid


def _entry(
    level: str,
    name: str,
    before: Sequence[Message],
    after: Sequence[Message],
    agent: Agent,
    reason: str = "",
) -> ReportEntry:
    facts: dict[str, Any] = {"level": level, "name": name, "reason": reason}
    return ReportEntry(**facts, before=before, after=after, tokenizer=agent.tokenizer)
