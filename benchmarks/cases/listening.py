"""What it costs to watch a run: an observer, streamed chunks, reports that are read, validity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from measuring import Case, Contender, Session, Timed
from problem import ANSWER, QUESTION, SYSTEM, replies_of, text_reply, track_async
from workloads import conversation, model_of

from agentkit_py import Agent, AgentResult, State, StreamingConfig, tool
from agentkit_py.processors import ensure_valid

CALLS = 1
EVENTS = 8
"""That a run with one tool call has: begun, built, replied, tool begun and done, built, replied,
completed."""

TOGETHER = 1000
SECONDS = 0.05


def _agent() -> Agent:
    track = tool(name="track")(track_async)
    model = model_of(replies_of(CALLS))
    return Agent(name="support", system=SYSTEM, tools=[track], model=model, max_iter=CALLS + 1)


def _against_silence(
    name: str, options: Callable[[list[Any]], dict[str, Any]], told: int
) -> Callable[[Session], list[Contender]]:
    """The same run with somebody who listens, and without."""

    def make(session: Session) -> list[Contender]:
        heard: list[Any] = []
        loud, silent = _agent(), _agent()
        given: Any = options(heard)

        async def with_listener(_: object) -> AgentResult:
            heard.clear()
            return await loud.run(QUESTION, **given)

        async def without(_: object) -> AgentResult:
            return await silent.run(QUESTION)

        def verify_heard(result: AgentResult, _: int) -> None:
            assert result.text == ANSWER
            assert len(heard) >= told

        def verify(result: AgentResult, _: int) -> None:
            assert result.text == ANSWER

        return [
            Timed("ours", with_listener, session.loop, verify=verify_heard),
            Timed(name, without, session.loop, verify=verify),
        ]

    return make


def _streamed(chunks: list[Any]) -> dict[str, Any]:
    async def publish(chunk: dict[str, Any]) -> None:
        chunks.append(chunk)

    return {"streaming": StreamingConfig(publish=publish)}


def _observed(events: list[Any]) -> dict[str, Any]:
    return {"observer": events.append}


def _read(session: Session) -> list[Contender]:
    """Reports are made in any case; their figures are counted by who reads them."""
    agents = _agent(), _agent()

    async def reading(_: object) -> list[dict[str, Any]]:
        state = State()
        await agents[0].run(QUESTION, state=state)
        return [one.context.to_dict() for one in state.results if one.context is not None]

    async def without(_: object) -> AgentResult:
        return await agents[1].run(QUESTION)

    def verify(figures: list[dict[str, Any]], _: int) -> None:
        assert [one["sentMessages"] for one in figures] == [2, 4]
        assert all(one["sentTokens"] > 0 for one in figures)

    return [
        Timed("ours", reading, session.loop, verify=verify),
        Timed("reports not read", without, session.loop),
    ]


def _valid(session: Session) -> list[Contender]:
    """What validity needs of such a run: its two requests are looked at."""
    agent = _agent()
    sent = [conversation(4)[:1], conversation(3)]

    async def run(_: object) -> AgentResult:
        return await agent.run(QUESTION)

    def look(_: object) -> int:
        return sum(len(ensure_valid(messages)[1]) for messages in sent)

    def verify(repairs: int, _: int) -> None:
        assert repairs == 0

    return [
        Timed("ours", run, session.loop),
        Timed("validity alone", look, session.loop, verify=verify),
    ]


def _concurrent(session: Session) -> list[Contender]:
    """A thousand runs at the same time, whose model takes its time."""

    async def respond(_: dict[str, Any]) -> object:
        await asyncio.sleep(SECONDS)
        return text_reply()

    model = replace(model_of(replies_of(0)), respond=respond)
    agent = Agent(name="support", system=SYSTEM, model=model)

    async def ours(_: object) -> int:
        found = await asyncio.gather(*(agent.run(QUESTION) for _ in range(TOGETHER)))
        return sum(result.text == ANSWER for result in found)

    async def bare(_: object) -> int:
        found = await asyncio.gather(*(respond({}) for _ in range(TOGETHER)))
        return len(found)

    def verify(count: int, _: int) -> None:
        assert count == TOGETHER

    return [
        Timed("ours", ours, session.loop, verify=verify),
        Timed("asyncio.sleep alone", bare, session.loop, verify=verify),
    ]


CASES = [
    Case("run, one async tool call, observed", "µs", _against_silence("silent", _observed, EVENTS)),
    Case("run, one async tool call, streamed", "µs", _against_silence("silent", _streamed, EVENTS)),
    Case("run, one async tool call, reports read", "µs", _read),
    Case("run, one async tool call, and validity", "µs", _valid),
    Case("1,000 runs at once, model of 50 ms", "ms", _concurrent),
]
