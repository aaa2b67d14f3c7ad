"""One inference of an agent: history → processors → validity → hook → model → hook → tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentkit_py._core.awaiting import resolve
from agentkit_py.engine.emitter import Emitter
from agentkit_py.engine.lifecycle import ResultContext, Start, StartContext
from agentkit_py.engine.prompt import assemble, join
from agentkit_py.engine.scope import RunScope
from agentkit_py.engine.tool_calls import ToolRunner, calls_of
from agentkit_py.events.types import ContextBuilt, ModelReplied, ReplyDelta
from agentkit_py.history.result import AgentResult
from agentkit_py.messages import Delta, Message
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.processors.apply import run_chain
from agentkit_py.processors.base import HistoryProcessor, Level, ProcessorContext
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.validity import ensure_valid
from agentkit_py.runtime.port import DeltaSink

if TYPE_CHECKING:
    from agentkit_py.engine.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the model is about to see, and how that came about."""

    prompt: Sequence[Message]
    history: Sequence[Message]
    joined: tuple[Message, ...]
    prefill: int
    report: ContextReport
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One agent's turn in a run: everything that stays the same over its inferences."""

    scope: RunScope
    agent: Agent
    model: Model
    run_id: str
    message_id: str
    path: str
    """Step id prefix of this turn."""

    async def infer(self, iteration: int) -> AgentResult | None:
        """One inference with its tools; None if `on_start` said stop."""
        step = f"{self.path}.{iteration}"
        with self.scope.runtime.within(step):
            return await self._infer(step, first=iteration == 0)

    async def _infer(self, step: str, *, first: bool) -> AgentResult | None:
        seen = await self._look()
        await self.scope.emitter.emit(
            ContextBuilt(
                run_id=self.run_id,
                name=self.agent.name,
                message_id=self.message_id,
                report=seen.report,
            )
        )
        if seen.stop:
            return None
        result = await self._ask(seen, step, first=first)
        calls = calls_of(result.output)
        if not calls:
            return result
        runner = ToolRunner(
            scope=self.scope,
            agent=self.agent,
            run_id=self.run_id,
            message_id=self.message_id,
            path=step,
        )
        return replace(result, tool_calls=await runner.run(calls))

    def blank(self, reason: str) -> AgentResult:
        """The result of a turn in which the model was not asked."""
        key = f"{self.path}.stopped"
        runtime = self.scope.runtime
        return AgentResult(
            self.agent.name,
            (),
            (),
            runtime.now(key),
            id=runtime.new_id(key),
            stop_reason=reason,
        )

    async def finish(self, result: AgentResult) -> AgentResult:
        """The last result of the turn, as `on_finish` wants it."""
        hook = self.agent.lifecycle.on_finish
        if hook is None:
            return result
        with self.scope.runtime.within(f"{self.path}.finish"):
            return await resolve(hook(self._result_context(result))) or result

    async def _look(self) -> Seen:
        scope, agent = self.scope, self.agent
        prompt = await self._prompt()
        present = scope.present()
        full = (*scope.past, *present) if scope.past else tuple(present)
        context = self._processor_context(prompt, present)
        outcome = await run_chain(full, self._chains(), context)
        history, entries = outcome.messages, list(outcome.entries)
        stop = False
        if agent.lifecycle.on_start is not None:
            before = history = _valid(history, entries, agent)
            start = await self._on_start(prompt, history)
            prompt, history, stop = tuple(start.prompt), tuple(start.history), start.stop
            if history != tuple(before):
                entries.append(_entry("on_start", "on_start", before, history, agent))
        joined, prefill = join(prompt, history, scope.mode)
        joined = tuple(_valid(joined, entries, agent))
        report = ContextReport(
            agent=agent.name,
            entries=tuple(entries),
            prompt=prompt,
            history=full,
            sent=joined,
            tokenizer=agent.tokenizer,
        )
        return Seen(
            prompt=prompt, history=history, joined=joined, prefill=prefill, report=report, stop=stop
        )

    async def _prompt(self) -> tuple[Message, ...]:
        user = self.scope.input
        system = await self.agent.system_prompt(self.scope)
        return assemble(
            system,
            user.as_text_message(),
            self.agent.assistant,
            addition=user.message.system_prompt,
        )

    def _chains(self) -> list[tuple[Level, Sequence[HistoryProcessor]]]:
        network = self.scope.network.network if self.scope.network is not None else None
        configs = [network.history if network else None, self.agent.history]
        if configs[0] is configs[1]:
            configs.pop()
        chains: list[tuple[Level, Sequence[HistoryProcessor]]] = [
            ("history", config.chain) for config in configs if config is not None
        ]
        if network is not None:
            chains.append(("network", network.chain))
        chains.append(("agent", self.agent.chain))
        return [chain for chain in chains if chain[1]]

    def _processor_context(
        self, prompt: Sequence[Message], present: Sequence[Message]
    ) -> ProcessorContext:
        network = self.scope.network
        return ProcessorContext(
            agent=self.agent.name,
            network=network.name if network is not None else None,
            thread_id=self.scope.state.thread_id,
            model=self.model.model,
            context_window=self.model.context_window,
            tokenizer=self.agent.tokenizer,
            prompt=prompt,
            protected=self._protected(present),
            steps=self.scope.runtime.step,
        )

    def _protected(self, present: Sequence[Message]) -> frozenset[int]:
        if self.scope.mode == "typescript":
            return frozenset()
        name = self.agent.name
        return frozenset(id(m) for m in present if m.type != "text" and m.agent == name)

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

    async def _ask(self, seen: Seen, step: str, *, first: bool) -> AgentResult:
        scope, agent, model = self.scope, self.agent, self.model
        request = ModelRequest(
            messages=seen.joined,
            tools=agent.specs,
            tool_choice=agent.tool_choice,
            agent=agent.name,
            prefill=seen.prefill,
        )
        body = await scope.runtime.infer(
            f"{step}.infer", model, lambda: model.encode(request), self._on_delta()
        )
        reply = model.decode(body)
        scope.meter.add(model.model, reply.usage)
        result = AgentResult(
            agent.name,
            reply.messages,
            (),
            scope.runtime.now(step),
            seen.prompt,
            seen.history,
            reply=body,
            id=self.message_id if first else scope.runtime.new_id(step),
            usage=reply.usage,
            context=seen.report,
        )
        result = await self._on_response(result)
        await scope.emitter.emit(
            ModelReplied(
                run_id=self.run_id,
                name=agent.name,
                message_id=self.message_id,
                messages=result.output,
                usage=result.usage,
            )
        )
        return result

    def _on_delta(self) -> DeltaSink | None:
        hook, agent = self.agent.lifecycle.on_response, self.agent
        if not self.scope.emitter.tokens or (hook and not agent.stream_before_response):
            return None

        return _Deltas(self.scope.emitter, self.run_id, agent.name, self.message_id)

    async def _on_response(self, result: AgentResult) -> AgentResult:
        hook = self.agent.lifecycle.on_response
        if hook is None:
            return result
        return await resolve(hook(self._result_context(result))) or result

    def _result_context(self, result: AgentResult) -> ResultContext:
        return ResultContext(
            agent=self.agent, network=self.scope.network, state=self.scope.state, result=result
        )


@dataclass(frozen=True, slots=True)
class _Deltas:
    """Turns the pieces of a reply into events."""

    emitter: Emitter
    run_id: str
    name: str
    message_id: str

    async def __call__(self, delta: Delta, /) -> None:
        await self.emitter.emit(self._event(delta))

    async def skip(self, delta: Delta, count: int, /) -> None:
        await self.emitter.skip(self._event(delta), count)

    def _event(self, delta: Delta) -> ReplyDelta:
        return ReplyDelta(
            run_id=self.run_id, name=self.name, message_id=self.message_id, delta=delta
        )


def _valid(
    messages: Sequence[Message], entries: list[ReportEntry], agent: Agent
) -> Sequence[Message]:
    valid, repairs = ensure_valid(messages)
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
