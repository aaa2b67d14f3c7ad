"""agentkit_py itself, through OpenAI's wire format: bodies are made and replies are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    counted,
    fingerprint,
    pair,
    stored,
    threads,
)
from measuring import Contender, NotHere, Session, Timed
from problem import ANSWER, QUESTION, SYSTEM, Replies, call_reply, text_reply
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
    ToolCallFilter,
    apply_processors,
    tool,
)
from agentkit_py.models.base import ModelRequest
from agentkit_py.processors import HistoryProcessor
from agentkit_py.runtime.tiktoken_loader import load_encoding

ENCODING = "o200k_base"
KEPT = 100
"""Tool calls that `RecentToolCalls` leaves."""

WINDOW_TOKENS = 300
"""Of which 40 of the stored messages have about as many."""

SOURCE = Path(agentkit_py.__file__).parent
DATA = f"ours@{fingerprint(SOURCE / 'stores', SOURCE / 'history')}"


@dataclass
class _Scripted:
    """What answers the model's requests."""

    steps: Steps
    seen: int = 0
    replies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    last: dict[str, Any] = field(default_factory=text_reply)

    async def __call__(self, body: dict[str, Any]) -> object:
        """The next reply, as OpenAI's JSON."""
        self.seen = len(body["messages"]) - 1  # without the system prompt
        number = await self.steps.later()
        return self.last if number is None else self.replies[number]


def _scripted(steps: Steps) -> _Scripted:
    return _Scripted(steps, replies=[call_reply(number) for number in range(steps.calls)])


def _model(steps: Steps) -> Model:
    return replace(MODEL, respond=_scripted(steps))


class Ours(Framework):
    """One agent, made once and reused."""

    packages = ("pyagentkit", "pydantic", "tiktoken", "inngest")
    statement = "from agentkit_py import Agent, openai, tool"
    notes = (
        (
            "The model speaks OpenAI's format: the time of ours has making the request's body and"
            " reading the reply's JSON objects in it, which the peers' own model"
            " interfaces leave out."
        ),
        "Threads: `SqliteHistory(lazy=True)` and `TokenLimiter(300)`: about 40 messages.",
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        """A tool."""
        return tool(name="track")(function)

    def agent(self, steps: Steps, tools: list[Any]) -> Agent:
        """An agent."""
        model = _model(steps)
        return Agent(
            name="support", system=SYSTEM, model=model, tools=tools, max_iter=steps.calls + 1
        )

    async def run(self, agent: Agent) -> AgentResult:
        """Run it."""
        return await agent.run(QUESTION)

    def answer(self, result: AgentResult) -> str:
        """Its text."""
        return result.text

    def network(self) -> Network:
        """Five agents."""
        agents = [Agent(name=f"agent{n}", system=SYSTEM) for n in range(AGENTS_EACH)]
        return Network(name="team", agents=agents, default_model=MODEL)

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """What issue 8 measures beyond runs."""
        limiter = TokenLimiter(LIMIT, use_tiktoken=False)
        sizes = (100, 10_000, 1_000_000)
        return {
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
        agents = [replace(self.agent(steps, []), name=name) for name in ("first", "second")]

        def router(ctx: RouterContext) -> Agent | None:
            return agents[ctx.call_count] if ctx.call_count < len(agents) else None

        network = Network(name="pair", agents=agents, router=router)

        async def run(_: object) -> NetworkRun:
            return await network.run(QUESTION)

        return pair(session, steps, run, lambda done: done.results[-1].text)

    def _thread(self, session: Session, folder: Path) -> Contender:
        steps = Steps()
        scripted = _scripted(steps)
        agent = Agent(
            name="support",
            system=SYSTEM,
            model=replace(MODEL, respond=scripted),
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

    async def do(_: object) -> Any:
        found = await store.page("t", await store.count_results("t"), WINDOW)
        question, answer = _results(next(numbers))
        await store.append("t", [question])
        await store.append("t", [answer])
        return found

    return counted(session, do, len, range(WINDOW, WINDOW + 1))


def long_request() -> ModelRequest:
    """A request with many messages."""
    history = [message for result in results(MANY) for message in result.messages]
    return ModelRequest(messages=(TextMessage("system", SYSTEM), *history))


def _body(session: Session) -> Contender:
    request = long_request()

    def do(_: object) -> str:
        return json.dumps(MODEL.encode(request))

    def verify(body: str, _: int) -> None:
        assert len(json.loads(body)["messages"]) == MANY + 1

    return Timed("body", do, session.loop, verify=verify)


def _inngest(_: Session) -> Contender:
    return replaying.Replays(replaying.ours(_model))


MODEL = model_of(Replies(text_reply()))
FRAMEWORK = Ours()
