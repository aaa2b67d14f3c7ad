"""What a run costs around the model: the model answers at once, in this process."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any

from measuring import Case, Contender, Session, Timed
from problem import (
    ANSWER,
    QUESTION,
    SYSTEM,
    Replies,
    bare_turn,
    called,
    replies_of,
    text_reply,
    track_async,
    track_sync,
)
from workloads import model_of, results

from agentkit_py import (
    Agent,
    AgentResult,
    Model,
    ModelError,
    Network,
    NetworkRun,
    RouterContext,
    State,
    TextMessage,
    TokenLimiter,
    anthropic,
    gemini,
    openai,
    openai_responses,
    tool,
)
from agentkit_py.models.base import ModelRequest, ToolSpec


def _agent(model: Model, function: Callable[..., Any], calls: int) -> Agent:
    tools = [tool(name="track")(function)] if calls else []
    return Agent(name="support", system=SYSTEM, tools=tools, model=model, max_iter=calls + 1)


def _one_agent(calls: int, function: Callable[..., Any]) -> Callable[[Session], list[Contender]]:
    def make(session: Session) -> list[Contender]:
        replies = replies_of(calls)
        agent = _agent(model_of(replies), function, calls)
        tools_before = called[0]

        async def ours(_: object) -> AgentResult:
            return await agent.run(QUESTION)

        def verify(result: AgentResult, runs: int) -> None:
            assert result.text == ANSWER
            assert replies.asked == runs * (calls + 1)
            # The floor calls the same function; it has its own check.
            assert called[0] - tools_before >= runs * calls

        bodies = session.loop.run(_recorded(replies, ours))
        assert len(bodies) == calls + 1
        return [
            Timed("ours", ours, session.loop, verify=verify, done=1),
            _bare_loop(session, [(calls, bodies)], function),
            _dumps(session, bodies),
        ]

    return make


async def _recorded(
    replies: Replies, run: Callable[[None], Awaitable[object]]
) -> list[dict[str, Any]]:
    """The request bodies of one run."""
    replies.recorded = []
    await run(None)
    bodies, replies.recorded = replies.recorded, None
    return bodies


def _dumps(session: Session, bodies: list[dict[str, Any]]) -> Contender:
    def dump(_: object) -> int:
        return sum(len(json.dumps(body)) for body in bodies)

    def verify(length: int, _: int) -> None:
        assert length > 100 * len(bodies)

    return Timed("json.dumps of its requests", dump, session.loop, verify=verify)


def _bare_loop(
    session: Session,
    turns: list[tuple[int, list[dict[str, Any]]]],
    function: Callable[..., Any],
) -> Contender:
    """The same requests, replies and tool calls without any library, one agent after the other."""
    scripts = [replies_of(calls) for calls, _ in turns]
    tools = [bodies[0].get("tools") for _, bodies in turns]
    tools_before = called[0]

    async def bare(_: object) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
        ]
        answer = ""
        for script, specs in zip(scripts, tools, strict=True):
            answer = await bare_turn(messages, script, specs, function)
        return answer

    def verify(answer: str, runs: int) -> None:
        assert answer == ANSWER
        for script, (calls, _) in zip(scripts, turns, strict=True):
            assert script.asked == runs * (calls + 1)
        assert called[0] - tools_before >= runs * sum(calls for calls, _ in turns)

    return Timed("bare-Python loop", bare, session.loop, verify=verify)


def _two_agents(session: Session) -> list[Contender]:
    replies = Replies(text_reply("One moment."), text_reply())
    first, second = (
        Agent(name=name, system=SYSTEM, model=model_of(replies)) for name in ("first", "second")
    )

    def router(ctx: RouterContext) -> Agent | None:
        return (first, second)[ctx.call_count] if ctx.call_count < 2 else None

    network = Network(name="pair", agents=[first, second], router=router)

    async def ours(_: object) -> NetworkRun:
        return await network.run(QUESTION)

    def verify(run: NetworkRun, runs: int) -> None:
        assert [result.agent_name for result in run.results] == ["first", "second"]
        assert replies.asked == runs * 2

    bodies = session.loop.run(_recorded(replies, ours))
    return [
        Timed("ours", ours, session.loop, verify=verify, done=1),
        _bare_loop(session, [(0, bodies[:1]), (0, bodies[1:])], track_async),
        _dumps(session, bodies),
    ]


def _long_state(messages: int) -> Callable[[Session], list[Contender]]:
    """A run whose state remembers a long conversation, of which the model sees the end."""

    def make(session: Session) -> list[Contender]:
        replies = Replies(text_reply())
        agent = Agent(
            name="support", system=SYSTEM, model=model_of(replies), processors=[TokenLimiter(2000)]
        )
        remembered = results(messages)

        async def ours(state: State[Any]) -> AgentResult:
            return await agent.run(QUESTION, state=state)

        def state() -> State[Any]:
            return State(results=remembered)

        def verify(result: AgentResult, runs: int) -> None:
            assert result.text == ANSWER
            assert replies.asked == runs
            assert result.context is not None
            assert len(result.context.history) == messages
            assert len(result.context.sent) < 200

        replies.recorded = []
        session.loop.run(ours(state()))
        bodies, replies.recorded = replies.recorded, None
        timed = Timed("ours", ours, session.loop, prepare=state, verify=verify, done=1)
        return [timed, _dumps(session, bodies)]

    return make


def _request(model: Model, *, tools: bool = True) -> Callable[[Session], list[Contender]]:
    """The request body of a long history, encoded before, made again and written as JSON."""

    def make(session: Session) -> list[Contender]:
        history = [message for result in results(10_000) for message in result.messages]
        messages = (TextMessage("system", SYSTEM), *history)
        request = ModelRequest(messages=messages, tools=(SPEC,) if tools else ())
        made = model.encode(request)
        expected = json.dumps(made)

        def ours(_: object) -> str:
            return json.dumps(model.encode(request))

        def verify(body: str, _: int) -> None:
            assert body == expected
            assert body.count(" has left Linz this morning ") == 2_500

        return [
            Timed("ours", ours, session.loop, verify=verify),
            Timed("json.dumps of it", lambda _: json.dumps(made), session.loop, verify=verify),
        ]

    return make


def _failed(session: Session) -> list[Contender]:
    """A run whose model answers with nonsense: what an error costs."""
    model = dataclasses.replace(model_of(Replies()), respond=Replies({"nonsense": True}))
    agent = Agent(name="support", system=SYSTEM, model=model)

    async def ours(_: object) -> str:
        try:
            await agent.run(QUESTION)
        except ModelError as error:
            return type(error).__name__
        return "no error"

    def verify(name: str, _: int) -> None:
        assert name == "ModelResponseError"

    return [Timed("ours", ours, session.loop, verify=verify)]


SPEC = ToolSpec("track", "Look up where a parcel is.")
BODIES = {
    "OpenAI": _request(openai("gpt-4o", api_key="x"), tools=False),
    "Responses": _request(openai_responses("gpt-5", api_key="x")),
    "Anthropic": _request(anthropic("claude-sonnet-4-5", api_key="x")),
    "Anthropic without tools": _request(anthropic("claude-sonnet-4-5", api_key="x"), tools=False),
    "Gemini": _request(gemini("gemini-2.5-flash", api_key="x")),
}

CASES = [
    Case("run, text reply", "µs", _one_agent(0, track_async)),
    Case("run, one async tool call", "µs", _one_agent(1, track_async)),
    Case("run, ten async tool calls", "µs", _one_agent(10, track_async)),
    Case("run, one sync tool call", "µs", _one_agent(1, track_sync)),
    Case("run, ten sync tool calls", "µs", _one_agent(10, track_sync)),
    Case("run, two agents in a network", "µs", _two_agents),
    Case("run, model answers nonsense", "µs", _failed),
    Case("run, 100 messages behind TokenLimiter", "µs", _long_state(100)),
    Case("run, 10,000 messages behind TokenLimiter", "µs", _long_state(9_999 // 4 * 4)),
    *[
        Case(f"request body of 10,000 messages, {name}", "ms", make)
        for name, make in BODIES.items()
    ],
]
