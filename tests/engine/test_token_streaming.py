"""Streamed runs have the same results, and chunks while the model writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from agentkit_py import Agent, AgentResult, Lifecycle, Network, RouterContext
from agentkit_py.errors import ModelStreamError
from agentkit_py.events.types import Event, ModelReplied, ReplyDelta, RunFailed
from agentkit_py.lifecycle import ResultContext
from agentkit_py.messages import ReasoningDelta, TextDelta, TextMessage, ToolCallDelta
from agentkit_py.models import ModelRequest
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import EventLog, Raw, ScriptedModel, tool_call
from agentkit_py.testing.fakes import Provider

from .runner import Runner

ALL: tuple[Provider, ...] = (
    "openai",
    "openai_responses",
    "azure_openai",
    "anthropic",
    "gemini",
    "grok",
)
EVERY = pytest.mark.parametrize("provider", ALL)
FIRST: dict[str, Any] = {
    "text": "Let me see 👀",
    "reasoning": "First, look.",
    "tool_calls": [
        {"name": "look", "arguments": {"q": "Größe"}},
        {"name": "look", "arguments": {"q": "b"}},
    ],
}


def look(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def agent_of(provider: Provider, *replies: Any, **options: Any) -> Agent:
    """An agent with a tool, whose model says this."""
    model = ScriptedModel(*(replies or (FIRST, "Done, all of it.")), provider=provider)
    return Agent(name="a", system="S", tools=[look], model=model, max_iter=3, **options)


class PublishedChunks:
    """Keeps the chunks that are published."""

    def __init__(self) -> None:
        self.chunks: list[dict[str, Any]] = []

    def __call__(self, chunk: dict[str, Any]) -> None:
        self.chunks.append(chunk)

    def of(self, *names: str) -> list[dict[str, Any]]:
        return [chunk["data"] for chunk in self.chunks if chunk["event"] in names]


def without_ids(event: Event) -> Event:
    """The event without what is random in a direct run."""
    changes: dict[str, Any] = {"run_id": "", "message_id": ""}
    known = {name: value for name, value in changes.items() if hasattr(event, name)}
    return replace(event, **known)


@EVERY
async def test_a_streamed_run_has_the_events_of_a_plain_one_and_pieces(
    runner: Runner, provider: Provider
) -> None:
    """`ReplyDelta` is the only new event, and no other event changes."""
    plain, streamed = EventLog(), EventLog()
    await runner.run(agent_of(provider), "q?", observer=plain)
    agent = agent_of(provider)
    async for event in agent.stream("q?"):
        streamed(event)
    rest = [event for event in streamed.events if not isinstance(event, ReplyDelta)]
    assert [type(event) for event in rest] == [type(event) for event in plain.events]
    replies = [[without_ids(e) for e in log.of(ModelReplied)] for log in (plain, streamed)]
    assert replies[0] == replies[1]
    assert streamed.of(ReplyDelta)
    assert isinstance(agent.model, ScriptedModel)
    agent.model.assert_finished()


@EVERY
async def test_the_pieces_of_a_reply_come_before_it_and_are_it(provider: Provider) -> None:
    """Text, arguments, and reasoning where the provider shows it."""
    log = EventLog()
    async for event in agent_of(provider).stream("q?"):
        log(event)
    ends = [i for i, event in enumerate(log.events) if isinstance(event, ModelReplied)]
    deltas = [e.delta for e in log.events[: ends[0]] if isinstance(e, ReplyDelta)]
    assert "".join(d.delta for d in deltas if isinstance(d, TextDelta)) == FIRST["text"]
    assert len({d.index for d in deltas if isinstance(d, ToolCallDelta)}) == 2
    hidden = provider in ("openai", "azure_openai")
    assert any(isinstance(d, ReasoningDelta) for d in deltas) is not hidden
    last = [e.delta for e in log.events[ends[0] : ends[1]] if isinstance(e, ReplyDelta)]
    assert "".join(d.delta for d in last) == "Done, all of it."
    assert len(last) > 1


@EVERY
async def test_streamed_chunks_have_each_part_once_and_whole(
    runner: Runner, provider: Provider
) -> None:
    """A part is created, streamed in pieces and completed; tool outputs are not changed."""
    published = PublishedChunks()
    config = StreamingConfig(publish=published)
    await runner.run(agent_of(provider), "q?", streaming=config)
    created = published.of("part.created")
    completed = {data["partId"]: data for data in published.of("part.completed")}
    assert sorted(completed) == sorted(data["partId"] for data in created)
    assert not published.of("part.failed")
    kinds = [data["type"] for data in created if data["type"] != "reasoning"]
    assert kinds == ["text", "tool-call", "tool-call", "tool-output", "tool-output", "text"]
    for data in created:
        pieces = [d["delta"] for d in published.of(*DELTAS) if d["partId"] == data["partId"]]
        final = completed[data["partId"]]["finalContent"]
        if data["type"] in ("text", "reasoning"):
            assert "".join(pieces) == final
            assert len(pieces) > 1
    calls = [d["finalContent"] for d in completed.values() if d["type"] == "tool-call"]
    assert sorted(call["q"] for call in calls) == ["Größe", "b"]
    numbers = [chunk["sequenceNumber"] for chunk in published.chunks]
    assert numbers == list(range(len(numbers)))


DELTAS = ("text.delta", "reasoning.delta", "tool_call.arguments.delta", "tool_call.output.delta")


async def test_without_tokens_a_reply_is_asked_for_in_one_piece(runner: Runner) -> None:
    """``StreamingConfig(tokens=False)``, and a run that nobody streams."""
    agent = agent_of("openai", "Hi", "Hi")
    await runner.run(
        agent, "q?", streaming=StreamingConfig(publish=PublishedChunks(), tokens=False)
    )
    await runner.run(agent, "q?")
    assert isinstance(agent.model, ScriptedModel)
    assert ["stream" in body for body in agent.model.bodies] == [False, False]


def masked(ctx: ResultContext) -> AgentResult:
    """A hook that lets nothing secret through."""
    messages = [
        replace(m, content=m.text.replace("secret", "******")) if isinstance(m, TextMessage) else m
        for m in ctx.result.output
    ]
    return replace(ctx.result, output=tuple(messages))


@pytest.mark.parametrize(
    ("options", "pieces"), [({}, False), ({"stream_before_response": True}, True)]
)
async def test_text_is_held_back_until_on_response_has_seen_it(
    runner: Runner, options: dict[str, Any], pieces: bool
) -> None:
    """An agent with ``stream_before_response`` streams it before."""
    published = PublishedChunks()
    # Not reset between executions: a piece is streamed once, when the call really happens.
    pieces_told: list[Event] = []

    def observer(event: Event) -> None:
        if isinstance(event, ReplyDelta):
            pieces_told.append(event)

    lifecycle = Lifecycle(on_response=masked)
    agent = agent_of("openai", "The secret is 42.", lifecycle=lifecycle, **options)
    config = StreamingConfig(publish=published)
    result = await runner.run(agent, "q?", observer=observer, streaming=config)
    assert result.text == "The ****** is 42."
    deltas = "".join(data["delta"] for data in published.of("text.delta"))
    assert bool(pieces_told) is pieces
    assert deltas == ("The secret is 42." if pieces else "The ****** is 42.")
    assert [data["finalContent"] for data in published.of("part.completed")] == [
        "The ****** is 42."
    ]
    assert isinstance(agent.model, ScriptedModel)
    assert ("stream" in agent.model.bodies[0]) is pieces


@EVERY
async def test_a_stream_that_breaks_off_fails_the_run_with_the_received_text(
    runner: Runner,
    provider: Provider,
) -> None:
    """Its parts have failed, and nothing is tried again."""
    published, log = PublishedChunks(), EventLog()
    whole = ScriptedModel("Hello there", provider=provider)
    agent = agent_of(provider, Raw(reply="Hello there", cut_after=await until(whole, b" ther")))
    with pytest.raises(ModelStreamError) as caught:
        await runner.run(agent, "q?", observer=log, streaming=StreamingConfig(publish=published))
    assert caught.value.partial == "Hello"
    assert [event.error for event in log.of(RunFailed)] == [caught.value]
    assert [data["delta"] for data in published.of("text.delta")] == ["Hello"]
    assert len(published.of("part.failed")) == 1
    assert published.chunks[-1]["event"] == "stream.ended"


async def until(model: ScriptedModel, text: bytes) -> int:
    """Where ``text`` is in the stream with which the model answers."""
    adapter: Any = model.adapter
    request = ModelRequest(messages=(TextMessage("user", "Hi"),))
    async with httpx.AsyncClient(transport=model.transport) as client:
        answer = await client.post(
            adapter.stream_url(model),
            json=adapter.stream_body(model.encode(request)),
            headers=adapter.headers(model, "sk-scripted"),
        )
    return answer.content.index(text)


async def test_networks_stream_their_agents_replies(runner: Runner) -> None:
    """Each agent's under its own name; a routing agent's answers are no part of it."""
    published = PublishedChunks()

    def names(context: RouterContext) -> str | None:
        return "ab"[context.call_count] if context.call_count < 2 else None

    agents = [
        Agent(name=name, system="S", model=ScriptedModel(f"I am {name}, hello")) for name in "ab"
    ]
    network = Network(name="n", agents=agents, router=names)
    await runner.run(network, "q?", streaming=StreamingConfig(publish=published))
    spoken = {
        data["metadata"]["agentName"]: data["partId"] for data in published.of("part.created")
    }
    texts = {
        name: "".join(d["delta"] for d in published.of("text.delta") if d["partId"] == part)
        for name, part in spoken.items()
    }
    assert texts == {"a": "I am a, hello", "b": "I am b, hello"}


async def test_two_inferences_of_one_turn_number_their_parts_apart(runner: Runner) -> None:
    """They share the message's id on the wire."""
    published = PublishedChunks()
    agent = agent_of("anthropic", tool_call("look", {"q": "x"}), "one", "two")
    await runner.run(agent, "q?", streaming=StreamingConfig(publish=published))
    created = published.of("part.created")
    assert len({data["partId"] for data in created}) == len(created) == 3
    assert len({data["messageId"] for data in created}) == 1
