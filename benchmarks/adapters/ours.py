"""agentkit_py itself: its model is a function, and in rows of their own OpenAI's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import replaying
from harness import (
    MANY,
    Contender,
    Framework,
    NotHere,
    Session,
    Steps,
    Timed,
    adds_to,
    arguments,
    checked,
    counted,
    ignoring_input,
    pair,
    scripted,
    source_digest,
    threads,
)
from problem import ANSWER, QUESTION, SYSTEM, track_async
from workloads import conversation, results

import agentkit_py
from agentkit_py import (
    Agent,
    AgentResult,
    Network,
    NetworkRun,
    RouterContext,
    SqliteHistory,
    TextMessage,
    TokenLimiter,
    ToolCallFilter,
    anthropic,
    gemini,
    openai,
    tool,
)
from agentkit_py.messages import Finish, ToolCall, ToolCallMessage, Usage
from agentkit_py.models import Model, ModelReply, ModelRequest, function_model, openai_responses
from agentkit_py.processors import (
    ApproximateTokenizer,
    Budget,
    CompressToolResults,
    HandoffView,
    HistoryProcessor,
    MemoryIndex,
    MessageWindow,
    ProcessorContext,
    Recall,
    RecentToolCalls,
    Redact,
    apply_processors,
    ensure_valid,
)
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import HashingEmbedder

MOST_TURNS = 11
"""Model calls that a run may have: ten of them call a tool."""

WINDOW_TOKENS = 300
"""Of which 40 of the stored messages have about as many."""

LEAST_EVENTS = 8
"""Events of a run with one tool call: start, two requests and replies, tool start and end, end."""

SOURCE = Path(agentkit_py.__file__).parent
DATA = f"ours@{source_digest(SOURCE / 'stores', SOURCE / 'history')}"


@dataclass
class _Scripted:
    """Answers from the steps."""

    steps: Steps
    seen: int = 0

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """The next reply."""
        self.seen = len(request.messages) - 1  # without the system prompt
        number = await self.steps.later(request.messages)
        usage = Usage(input_tokens=120, output_tokens=12)
        if number is None:
            text = TextMessage("assistant", ANSWER, stop_reason="stop")
            return ModelReply(messages=(text,), usage=usage, finish=Finish("stop"))
        call = ToolCall(f"call_{number}", "track", arguments(number))
        calls = ToolCallMessage((call,))
        return ModelReply(messages=(calls,), usage=usage, finish=Finish("tool_calls"))


def _in_wire_format(steps: Steps) -> Model:
    """A model that is asked and answers in OpenAI's JSON."""
    return replace(OPENAI, answers=scripted(steps))


class Ours(Framework):
    """One agent, made once and reused."""

    packages = ("pyagentkit", "pydantic", "inngest")
    statement = "from agentkit_py import Agent, openai, tool"
    notes = (
        (
            "The model is a function, `function_model(function)`: messages in, a `ModelReply` out,"
            " as the peers' own interfaces for models have it."
        ),
        "The rows *request body* and *Inngest function* are in OpenAI's format, as their floors.",
        "Threads: `SqliteHistory(lazy=True)` and `TokenLimiter(300)`: about 40 messages.",
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        """A tool."""
        return tool(name="track")(function)

    def model(self, steps: Steps) -> Model:
        """A model."""
        return function_model(_Scripted(steps))

    def agent(self, model: Any, tools: list[Any]) -> Agent:
        """An agent."""
        return Agent(name="support", system=SYSTEM, model=model, tools=tools, max_iter=MOST_TURNS)

    async def run(self, agent: Agent) -> AgentResult:
        """Run it."""
        return await agent.run(QUESTION)

    def answer(self, result: AgentResult) -> str:
        """Its text."""
        return result.text

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """Filters, stored threads, request bodies, durable steps and ways to watch a run."""
        sizes = (100, 10_000, 1_000_000)
        return {
            "observed": partial(self._watched, lambda seen: {"observer": seen.append}),
            "streamed": partial(self._watched, _streamed),
            "traced": self._traced,
            "two_agents": self._two,
            **threads(DATA, sizes, _build, self._thread),
            "body": partial(_body, OPENAI),
            **{f"body_{name}": partial(_body, model) for name, model in WIRE_MODELS.items()},
            **{name: partial(_policy, make) for name, make in PROCESSORS.items()},
            "validity": _validity,
            "inngest": _inngest,
        }

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        agent = self.agent(self.model(steps), [])
        agents = [replace(agent, name=name) for name in ("first", "second")]

        def router(ctx: RouterContext) -> Agent | None:
            return agents[ctx.call_count] if ctx.call_count < len(agents) else None

        network = Network(name="pair", agents=agents, router=router)

        async def run() -> NetworkRun:
            return await network.run(QUESTION)

        return pair(session, steps, run, lambda done: done.results[-1].text)

    def _watched(
        self, options: Callable[[list[Any]], dict[str, Any]], session: Session
    ) -> Contender:
        """A run with one tool call whose events somebody collects."""
        steps = Steps(1)
        agent = self.agent(self.model(steps), [self.tool(track_async)])
        seen: list[Any] = []
        given: Any = options(seen)
        check = checked(steps, self.answer)

        async def do(_: object) -> AgentResult:
            seen.clear()
            return await agent.run(QUESTION, **given)

        def verify(result: AgentResult, done: int) -> None:
            check(result, done)
            assert len(seen) >= LEAST_EVENTS

        return Timed(do, session.loop, verify=verify)

    def _traced(self, session: Session) -> Contender:
        """Run with spans and metrics of the SDK; nothing exports them."""
        if find_spec("opentelemetry.sdk") is None:
            raise NotHere("opentelemetry-sdk is not installed")
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - may be missing
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - may be missing

        from agentkit_py.tracing import Tracing  # noqa: PLC0415 - needs opentelemetry

        tracing = Tracing(
            tracer_provider=TracerProvider(shutdown_on_exit=False),
            meter_provider=MeterProvider(shutdown_on_exit=False),
        )
        steps = Steps(1)
        agent = self.agent(self.model(steps), [self.tool(track_async)])

        async def run() -> AgentResult:
            return await agent.run(QUESTION, tracing=tracing)

        return Timed(ignoring_input(run), session.loop, verify=checked(steps, self.answer))

    def _thread(self, session: Session, folder: Path) -> Contender:
        steps = Steps()
        scripted = _Scripted(steps)
        agent = Agent(
            name="support",
            system=SYSTEM,
            model=function_model(scripted),
            history=_store(session, folder),
            processors=[TokenLimiter(WINDOW_TOKENS)],
        )

        async def run() -> AgentResult:
            return await agent.run(QUESTION, thread_id="t")

        return adds_to(session, steps, run, self.answer, lambda: scripted.seen)


def _store(session: Session, folder: Path) -> SqliteHistory:
    store = SqliteHistory(folder / "threads.db", lazy=True)
    session.stack.callback(lambda: session.loop.run(store.close()))
    return store


def _results(number: int) -> list[AgentResult]:
    answer = AgentResult("support", [TextMessage("assistant", ANSWER)], id=f"answer-{number}")
    return [AgentResult.from_user(QUESTION, id=f"question-{number}"), answer]


async def _build(folder: Path, size: int) -> None:
    async with SqliteHistory(folder / "threads.db", lazy=True) as store:
        await store.add_thread("t")
        for first in range(0, size // 2, 5_000):
            last = min(first + 5_000, size // 2)
            await store.append("t", [r for number in range(first, last) for r in _results(number)])


def long_request() -> ModelRequest:
    """A request with many messages."""
    history = [message for result in results(MANY) for message in result.messages]
    return ModelRequest(messages=(TextMessage("system", SYSTEM), *history))


def _body(model: Model, session: Session) -> Contender:
    request = long_request()

    def do(_: object) -> str:
        return json.dumps(model.encode(request))

    def verify(body: str, _: int) -> None:
        assert body.count(" has left Linz this morning ") == MANY // 4

    return Timed(do, session.loop, verify=verify)


def _policy(make: Callable[[], HistoryProcessor], session: Session) -> Contender:
    messages, processor = conversation(MANY), make()

    async def do(_: object) -> Any:
        context = ProcessorContext(tokenizer=ApproximateTokenizer(), input="a word")
        return await apply_processors(messages, [processor], context)

    return counted(session, do, len, range(1, MANY + 1))


def _validity(session: Session) -> Contender:
    messages = conversation(MANY)

    def do(_: object) -> Any:
        return ensure_valid(messages)[0]

    return counted(session, do, len, range(MANY, MANY + 1))


def _streamed(seen: list[Any]) -> dict[str, Any]:
    async def publish(chunk: dict[str, Any]) -> None:
        seen.append(chunk)

    return {"streaming": StreamingConfig(publish=publish)}


def _inngest(_: Session) -> Contender:
    return replaying.Replays(replaying.ours(_in_wire_format))


OPENAI = openai("gpt-4o", api_key="x")
WIRE_MODELS = {
    "responses": openai_responses("gpt-5", api_key="x"),
    "anthropic": anthropic("claude-sonnet-4-5", api_key="x"),
    "gemini": gemini("gemini-2.5-flash", api_key="x"),
}
PROCESSORS: dict[str, Callable[[], HistoryProcessor]] = {
    "ToolCallFilter()": ToolCallFilter,
    "RecentToolCalls(100)": lambda: RecentToolCalls(100),
    "MessageWindow(40)": MessageWindow,
    "TokenLimiter(2000), estimated": lambda: TokenLimiter(2_000, use_tiktoken=False),
    "CompressToolResults(100)": lambda: CompressToolResults(100),
    "HandoffView()": HandoffView,
    "Redact(email, card)": lambda: Redact(["email", "card"]),
    "Budget(8000)": lambda: Budget(8000, method="estimate"),
    "Recall(3)": lambda: Recall(HashingEmbedder(16), 3, index=MemoryIndex()),
}
"""Each with work to do, on messages that were counted before, as in a thread that goes on."""

FRAMEWORK = Ours()
