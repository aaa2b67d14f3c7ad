"""What traces cost: a run with spans and metrics beside the same run without."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from measuring import Case, Contender, NotHere, Session, Timed
from problem import ANSWER, QUESTION, SYSTEM, replies_of, track_async
from workloads import model_of

from agentkit_py import Agent, AgentResult, tool


def _traced(session: Session) -> list[Contender]:
    """The SDK makes the spans and metrics; nothing exports them."""
    if find_spec("opentelemetry.sdk") is None:
        raise NotHere("opentelemetry-sdk is not installed")
    spans = _Spans()
    plain, content = spans.tracing(content=False), spans.tracing(content=True)

    def contender(name: str, tracing: Any) -> Contender:
        replies = replies_of(1)
        tools = [tool(name="track")(track_async)]
        agent = Agent(
            name="support", system=SYSTEM, tools=tools, model=model_of(replies), max_iter=2
        )
        before = spans.ended

        async def run(_: object) -> AgentResult:
            return await agent.run(QUESTION, tracing=tracing)

        def verify(result: AgentResult, runs: int) -> None:
            assert result.text == ANSWER
            assert replies.asked == runs * 2
            # An agent, two model calls and a tool call each; contenders take turns.
            assert tracing is None or spans.ended - before >= runs * 4

        return Timed(name, run, session.loop, verify=verify)

    return [
        contender("ours", plain),
        contender("without traces", None),
        contender("with content", content),
    ]


class _Spans:
    """Counts spans that end."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - may be missing
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - loaded only where it is used

        self.ended = 0
        self.meters = MeterProvider(shutdown_on_exit=False)
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(self)  # pyright: ignore[reportArgumentType] - by shape

    def tracing(self, *, content: bool) -> Any:
        """What sends everything here."""
        from agentkit_py.tracing import Tracing  # noqa: PLC0415 - loaded only where it is used

        return Tracing(tracer_provider=self.tracers, meter_provider=self.meters, content=content)

    def on_start(self, span: object, parent_context: object = None) -> None:
        """A span begins."""

    def _on_ending(self, span: object) -> None:
        """A span is about to end."""

    def on_end(self, span: object) -> None:
        """A span has ended."""
        del span
        self.ended += 1

    def shutdown(self) -> None:
        """Nothing is open."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Nothing waits."""
        return timeout_millis >= 0


CASES = [Case("run, one async tool call, traced", "µs", _traced)]
