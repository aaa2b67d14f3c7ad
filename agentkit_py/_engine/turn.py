"""One inference of an agent: history → processors → validity → hook → model → hook → tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.context_log import log_context
from agentkit_py._engine.emitter import Emitter
from agentkit_py._engine.host import TurnHost
from agentkit_py._engine.lifecycle import ResultContext
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.tool import Tool
from agentkit_py._engine.tool_calls import ToolRunner, calls_of
from agentkit_py._engine.trace import is_traced, trace_call
from agentkit_py._engine.view import Recalled, Seen, View
from agentkit_py.errors import ContextOverflowError
from agentkit_py.events.types import ContextBuilt, ModelReplied, ReplyDelta
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import AgentResult
from agentkit_py.runtime.port import DeltaSink

if TYPE_CHECKING:
    from agentkit_py.agent import Agent


@dataclass(slots=True)
class Turn:
    """One agent's turn in a run: everything that stays the same over its inferences."""

    scope: RunScope
    agent: Agent
    model: Model
    path: str
    """Step id prefix of this turn."""

    message_id: str
    _run_id: str | None = field(default=None, init=False)

    @property
    def run_id(self) -> str:
        """What events call the turn; made when the first of them is."""
        if self._run_id is None:
            self._run_id = self.scope.runtime.new_id(f"{self.path}/run")
        return self._run_id

    async def infer(self, iteration: int) -> AgentResult | None:
        """One inference with its tools; None if `on_start` said stop."""
        scope, agent, step = self.scope, self.agent, f"{self.path}.{iteration}"
        with scope.runtime.within(step):
            tools: Mapping[str, Tool] = agent.tool_map
            if agent.mcp_servers or agent.allowed_tools is not None:
                tools = await agent.tools_now(scope, f"{step}.tools")
            view = View(
                scope=scope,
                agent=agent,
                model=self.model,
                tools=tools,
                make_host=self._host,
                step_id=step,
            )
            seen = view.recalled() if self._is_repeated(view, step) else await view.look()
            if scope.emitter.is_heard:
                await self._tell(seen.report)
            if isinstance(seen, Seen) and seen.stop:
                return None
            result = await self._ask(view, seen, step, first=iteration == 0)
            calls = calls_of(result.output)
            if not calls:
                return result
            results = await ToolRunner(scope, self, tools, step).run(calls)
            if agent.mcp_servers:
                scope.sources.called(call.name for call in calls)
            return replace(result, tool_calls=results)

    def _host(self, step: str) -> TurnHost:
        return TurnHost(
            scope=self.scope,
            run_id=self.run_id,
            name=self.agent.name,
            message_id=self.message_id,
            path=step,
        )

    def _is_repeated(self, view: View, step: str) -> bool:
        """Whether the answer is remembered, and nobody wants to see the call again."""
        scope = self.scope
        return (
            scope.runtime.remembers(f"{step}.infer")
            and scope.spans is None
            and not is_traced()
            and view.is_plain
        )

    async def _tell(self, report: ContextReport) -> None:
        await self.scope.emitter.emit(
            ContextBuilt(
                run_id=self.run_id,
                name=self.agent.name,
                message_id=self.message_id,
                report=report,
            )
        )

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

    async def finish(self, result: AgentResult, reason: str | None) -> AgentResult:
        """The last result of the turn, as `on_finish` wants it; ``reason`` is why it is that."""
        hook = self.agent.lifecycle.on_finish
        if hook is not None:
            with self.scope.runtime.within(f"{self.path}.finish"):
                result = await resolve(hook(self._result_context(result))) or result
        return result if result.stop_reason == reason else replace(result, stop_reason=reason)

    async def _ask(
        self, view: View, seen: Seen | Recalled, step: str, *, first: bool
    ) -> AgentResult:
        scope, agent, model = self.scope, self.agent, self.model
        refused: ContextOverflowError | None = None
        body: object = None
        try:
            body = await self._send(view, seen, f"{step}.infer")
        except ContextOverflowError as error:
            refused = error
        if refused is not None:
            body, seen = await self._send_less(view, seen, step, refused)
        reply = model.decode(body)
        scope.meter.add(model.model, reply.usage)
        report = seen.report
        result = AgentResult(
            agent.name,
            reply.messages,
            (),
            scope.runtime.now(step),
            report.prompt,
            # Of what is recalled nothing was taken away.
            seen.history if isinstance(seen, Seen) else report.history,
            reply=body,
            id=self.message_id if first else scope.runtime.new_id(step),
            usage=reply.usage,
            context=report,
        )
        if agent.lifecycle.on_response is not None:
            result = await self._on_response(result)
        if scope.is_heard:
            await scope.tell(
                ModelReplied(
                    run_id=self.run_id,
                    name=agent.name,
                    message_id=self.message_id,
                    messages=result.output,
                    usage=result.usage,
                )
            )
        return result

    async def _send_less(
        self, view: View, seen: Seen | Recalled, step: str, refused: ContextOverflowError
    ) -> tuple[object, Seen]:
        """The answer to less than the provider could not take, and what the model then saw."""
        if self.scope.mode == "typescript":
            raise refused
        whole = seen.seen() if isinstance(seen, Recalled) else seen
        shorter = await view.halved(whole)
        if shorter.joined == whole.joined:
            raise refused
        if self.scope.emitter.is_heard:
            await self._tell(shorter.report)
        return await self._send(view, shorter, f"{step}.infer.shorter"), shorter

    async def _send(self, view: View, seen: Seen | Recalled, step_id: str) -> object:
        scope, model, on_delta = self.scope, self.model, self._on_delta()
        if isinstance(seen, Recalled):
            return await scope.runtime.infer(
                step_id, model, lambda: model.encode(view.request(seen.seen())), on_delta
            )
        request = view.request(seen)

        def make_body() -> dict[str, Any]:
            log_context(seen.report)  # here, since a replay has no call to tell of
            return model.encode(request)

        if is_traced():
            trace_call(view, seen, run_id=self.run_id, message_id=self.message_id, step_id=step_id)
        if scope.spans is None:
            return await scope.runtime.infer(step_id, model, make_body, on_delta)
        with scope.watching(step_id, model, request, self.run_id):
            return await scope.runtime.infer(step_id, model, make_body, on_delta)

    def _on_delta(self) -> DeltaSink | None:
        hook, agent = self.agent.lifecycle.on_response, self.agent
        if not self.scope.emitter.tokens or (hook and not agent.stream_before_response):
            return None

        return _Deltas(self.scope.emitter, self.run_id, agent.name, self.message_id)

    async def _on_response(self, result: AgentResult) -> AgentResult:
        hook = self.agent.lifecycle.on_response
        assert hook is not None
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
