"""agentkit_py itself: its model is a function, and in rows of their own OpenAI's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import replaying
from adapting import (
    AGENTS_EACH,
    LIMIT,
    MANY,
    WINDOW,
    Framework,
    Idle,
    Steps,
    adds_to,
    arguments,
    awaited,
    checked,
    counted,
    fingerprint,
    pair,
    saved_before,
    stored,
    threads,
)
from measuring import Contender, NotHere, Session, Timed
from problem import ANSWER, QUESTION, SYSTEM, Replies, call_reply, text_reply, track_async
from workloads import conversation, model_of, results

import agentkit_py
from agentkit_py import (
    Agent,
    AgentResult,
    MessageWindow,
    Model,
    Network,
    NetworkRun,
    RecentToolCalls,
    RouterContext,
    SqliteHistory,
    TextMessage,
    TokenLimiter,
    ToolCall,
    ToolCallFilter,
    ToolCallMessage,
    Usage,
    answering,
    apply_processors,
    tool,
)
from agentkit_py.models import ModelReply, ModelRequest
from agentkit_py.processors import HistoryProcessor
from agentkit_py.runtime.tiktoken_loader import load_encoding

ENCODING = "o200k_base"
KEPT = 100
"""Tool calls that `RecentToolCalls` leaves."""

MOST_TURNS = 11
"""Model calls that a run may have: ten of them call a tool."""

WINDOW_TOKENS = 300
"""Of which 40 of the stored messages have about as many."""

SOURCE = Path(agentkit_py.__file__).parent
DATA = f"ours@{fingerprint(SOURCE / 'stores', SOURCE / 'history')}"


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
            return ModelReply(messages=(text,), usage=usage, finish_reason="stop")
        call = ToolCall(f"call_{number}", "track", arguments(number))
        calls = ToolCallMessage((call,))
        return ModelReply(messages=(calls,), usage=usage, finish_reason="tool_calls")


def _in_wire_format(steps: Steps) -> Model:
    """A model that is asked and answers in OpenAI's JSON."""
    calls = [call_reply(number) for number in range(steps.calls)]
    last = text_reply()

    async def respond(body: dict[str, Any]) -> object:
        number = await steps.later(body["messages"])
        return last if number is None else calls[number]

    return replace(OPENAI, respond=respond)


class Ours(Framework):
    """One agent, made once and reused."""

    packages = ("pyagentkit", "pydantic", "tiktoken", "inngest")
    statement = "from agentkit_py import Agent, openai, tool"
    notes = (
        (
            "The model is a function, `answering(function)`: messages in, a `ModelReply` out, as"
            " the peers' own interfaces for models have it. The rows *through OpenAI's wire"
            " format* are the same runs with `openai(…)`: the request's body is made, and the reply"
            " read from its JSON objects. They are compared with the floor and with TypeScript,"
            " whose models have no other way."
        ),
        "The rows *request body* and *Inngest function* are in OpenAI's format, as their floors.",
        "Threads: `SqliteHistory(lazy=True)` and `TokenLimiter(300)`: about 40 messages.",
        (
            "SQLite turn: 40 messages are loaded, two are saved one after the other. Ours, the"
            " floor and openai-agents use WAL with `synchronous=FULL`, one `fdatasync` for each"
            " save; the floor loads nothing and uses no thread."
        ),
        (
            "Ours keeps decoded rows in the process (`cache_bytes`, 16 MiB): a turn reads all its"
            " rows from the file, and decodes those that are new. openai-agents reads and parses"
            " its rows at each turn. What ours costs without that is under *A turn on a stored"
            " thread* in performance.md."
        ),
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        """A tool."""
        return tool(name="track")(function)

    def model(self, steps: Steps) -> Model:
        """A model."""
        return answering(_Scripted(steps))

    def agent(self, model: Any, tools: list[Any]) -> Agent:
        """An agent."""
        return Agent(name="support", system=SYSTEM, model=model, tools=tools, max_iter=MOST_TURNS)

    async def run(self, agent: Agent) -> AgentResult:
        """Run it."""
        return await agent.run(QUESTION)

    def answer(self, result: AgentResult) -> str:
        """Its text."""
        return result.text

    def network(self) -> Network:
        """Five agents."""
        agents = [Agent(name=f"agent{n}", system=SYSTEM) for n in range(AGENTS_EACH)]
        return Network(name="team", agents=agents, default_model=OPENAI)

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """What issue 8 measures beyond runs."""
        limiter = TokenLimiter(LIMIT, use_tiktoken=False)
        sizes = (100, 10_000, 1_000_000)
        return {
            "text_wire": partial(self._wire, 0),
            "tool1_wire": partial(self._wire, 1),
            "tool10_wire": partial(self._wire, 10),
            "two_agents": self._two,
            "filter_calls": partial(_filter, ToolCallFilter(), range(5_000, 5_001)),
            "recent_calls": partial(_filter, RecentToolCalls(KEPT), range(5_200, 5_201)),
            "window": partial(_filter, MessageWindow(WINDOW), range(WINDOW * 3 // 4, WINDOW + 1)),
            "limit_approximate": partial(_filter, limiter, range(20, 200), new=True),
            "tiktoken_first": partial(_tiktoken, new=True),
            "tiktoken_again": partial(_tiktoken, new=False),
            **threads(DATA, sizes, _build, self._thread),
            "turn": _turn,
            "body": _body,
            "inngest": _inngest,
            "idle": lambda _: Idle("ours"),
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

    def _wire(self, calls: int, session: Session) -> Contender:
        steps = Steps(calls)
        tools = [self.tool(track_async)] if calls else []
        ask = self.conversations(_in_wire_format(steps), tools)
        return Timed("run", awaited(ask), session.loop, verify=checked(steps, self.answer))

    def _thread(self, session: Session, folder: Path) -> Contender:
        steps = Steps()
        scripted = _Scripted(steps)
        agent = Agent(
            name="support",
            system=SYSTEM,
            model=answering(scripted),
            history=_store(session, folder),
            processors=[TokenLimiter(WINDOW_TOKENS)],
        )

        async def run() -> AgentResult:
            return await agent.run(QUESTION, thread_id="t")

        return adds_to(session, steps, run, self.answer, lambda: scripted.seen)


def _filter(
    processor: HistoryProcessor, expected: range, session: Session, *, new: bool = False
) -> Contender:
    fixed = conversation(MANY)

    async def do(prepared: Any) -> Any:
        return await apply_processors(prepared if new else fixed, [processor])

    # Counts of tokens are kept with each message, so counting begins with new ones.
    prepare = partial(conversation, MANY) if new else None
    return counted(session, do, len, expected, prepare)


def _tiktoken(session: Session, *, new: bool) -> Contender:
    if load_encoding(ENCODING) is None:
        raise NotHere(f"tiktoken's {ENCODING} cannot be loaded")
    limiter = TokenLimiter(1_000_000_000, encoding=ENCODING)
    return _filter(limiter, range(MANY, MANY + 1), session, new=new)


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


def _turn(session: Session) -> Contender:
    folder = session.loop.run(stored(session, f"{DATA}-{MANY}", partial(_build, size=MANY)))
    store = _store(session, folder)
    numbers = count(1_000_000)

    async def do(said: Any) -> Any:
        _, found = await store.newest("t", WINDOW)  # as a run asks for it
        question, answer = said
        await store.append("t", [question])
        await store.append("t", [answer])
        return [message for one in found for message in one.result.messages]

    prepare = lambda: _results(next(numbers))  # noqa: E731 - as the peer's items are made before
    saved_before(session, do, prepare)
    return counted(session, do, len, range(WINDOW, WINDOW + 1), prepare)


def long_request() -> ModelRequest:
    """A request with many messages."""
    history = [message for result in results(MANY) for message in result.messages]
    return ModelRequest(messages=(TextMessage("system", SYSTEM), *history))


def _body(session: Session) -> Contender:
    request = long_request()

    def do(_: object) -> str:
        return json.dumps(OPENAI.encode(request))

    def verify(body: str, _: int) -> None:
        assert len(json.loads(body)["messages"]) == MANY + 1

    return Timed("body", do, session.loop, verify=verify)


def _inngest(_: Session) -> Contender:
    return replaying.Replays(replaying.ours(_in_wire_format))


OPENAI = model_of(Replies(text_reply()))
FRAMEWORK = Ours()
