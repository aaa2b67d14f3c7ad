"""What users saw of a reply that was stopped or broke off is in the thread, marked as cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory, UserMessage
from agentkit_py.errors import ConfigurationError, GuardrailTripped, ModelError, ModelStreamError
from agentkit_py.events.types import ReplyDelta
from agentkit_py.guardrails import Guardrail, Tripwire
from agentkit_py.history import HistoryConfig
from agentkit_py.routing import sequence
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import Raw, ScriptedModel
from agentkit_py.testing.fakes import Provider

from .runner import Runner

LONG = "Your refund of 120 EUR was approved and will arrive on Monday. " * 3
PROVIDERS: tuple[Provider, ...] = ("openai", "openai_responses", "anthropic", "gemini", "grok")


def broken(cut_after: int = 1500) -> Raw:
    """A reply whose stream breaks off in the middle of its text."""
    return Raw(reply=LONG, cut_after=cut_after)


def quiet() -> StreamingConfig:
    """Stream to nobody: pieces are shown nevertheless."""
    return StreamingConfig(publish=lambda _: None)


async def said(store: Any) -> list[tuple[str, str]]:
    """Roles and texts of a thread."""
    return [(one.role, one.text) for one in await store.messages("t") if one.type == "text"]


def agent_of(model: ScriptedModel, store: HistoryConfig | None, **options: Any) -> Agent:
    """An agent with a thread."""
    return Agent(name="a", system="S", model=model, history=store, **options)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reply_whose_stream_breaks_off_is_kept_as_far_as_it_came(
    runner: Runner, provider: Provider
) -> None:
    """The next request has it, so that the model knows what it said."""
    store = MemoryHistory()
    model = ScriptedModel(broken(), "I said that it was approved.", provider=provider)
    agent = agent_of(model, store)

    with pytest.raises(ModelStreamError):
        await runner.run(agent, "q?", thread_id="t", streaming=quiet())
    await runner.run(agent, "What did you say?", thread_id="t")

    (_, asked), (role, text), *_ = await said(store)
    assert (asked, role) == ("q?", "assistant")
    assert text
    assert LONG.startswith(text)
    rows = await store.messages("t")
    assert rows[1].stop_reason == "error"
    model.assert_saw(text)


@pytest.mark.direct_only("the task of this process is cancelled")
@pytest.mark.parametrize("leaves", [True, False])
async def test_a_reply_that_is_stopped_is_kept_as_far_as_the_user_saw_it(
    runner: Runner, leaves: bool, tmp_path: Path
) -> None:
    """By leaving the stream, or by cancelling the task."""
    store = SqliteHistory(tmp_path / "t.db")
    agent = agent_of(ScriptedModel(Raw(reply=LONG, pause=0.001)), store)
    seen: list[str] = []

    async def watch() -> None:
        async with agent.stream("q?", thread_id="t") as stream:
            async for event in stream:
                if isinstance(event, ReplyDelta):
                    seen.append(getattr(event.delta, "delta", ""))
                    if len(seen) == 3 and leaves:
                        return
                    if len(seen) == 3:
                        task.cancel()

    task = asyncio.create_task(watch())
    await asyncio.wait([task])

    assert task.cancelled() is not leaves
    (_, (role, text)) = await said(store)
    assert role == "assistant"
    assert text.startswith("".join(seen[:3]).rstrip())
    assert LONG.startswith(text)


async def test_text_that_was_not_shown_is_not_kept(runner: Runner) -> None:
    """Without a reader, before any text, with the option off, and as TypeScript has it."""
    cases: list[tuple[dict[str, Any], dict[str, Any], Raw]] = [
        ({"keep_cut_replies": False}, {"streaming": quiet()}, broken()),
        ({"history_mode": "typescript"}, {"streaming": quiet()}, broken()),
        ({"output_guardrails": [Guardrail(lambda _: None)]}, {"streaming": quiet()}, broken()),
        ({}, {"streaming": quiet()}, broken(cut_after=60)),
    ]
    for options, how, reply in cases:
        store = MemoryHistory()
        with pytest.raises(ModelError):
            await runner.run(
                agent_of(ScriptedModel(reply), store, **options), "q?", thread_id="t", **how
            )
        assert await said(store) == [("user", "q?")], options


@pytest.mark.direct_only("the check waits for the reply beside it")
async def test_text_that_was_shown_before_a_guardrail_tripped_is_not_kept(runner: Runner) -> None:
    """The message was refused while its reply came: neither thread nor next request has it."""
    store, seen = MemoryHistory(), asyncio.Event()

    async def check(_: object) -> Tripwire:
        await seen.wait()
        return Tripwire("No.")

    def publish(chunk: Any) -> None:
        if "delta" in chunk["data"]:
            seen.set()

    model = ScriptedModel(Raw(reply=LONG, pause=0.001))
    beside = Guardrail(check, name="no", run_in_parallel=True)
    agent = agent_of(model, store, input_guardrails=[beside])
    with pytest.raises(GuardrailTripped):
        await runner.run(agent, "q?", thread_id="t", streaming=StreamingConfig(publish=publish))
    assert seen.is_set()
    assert await said(store) == [("user", "q?")]


@pytest.mark.parametrize("make", [MemoryHistory, None])
async def test_a_message_that_is_sent_again_is_answered_without_the_cut_reply(
    runner: Runner, make: Callable[[], Any] | None, tmp_path: Path
) -> None:
    """The new reply takes its place for the model; the thread has both."""
    store: Any = make() if make else SqliteHistory(tmp_path / "t.db")
    model = ScriptedModel(broken(), "A whole answer.", "Yes.")
    agent, message = agent_of(model, store), UserMessage("q?", id="m1")

    with pytest.raises(ModelStreamError):
        await runner.run(agent, message, thread_id="t", streaming=quiet())
    result = await runner.run(agent, message, thread_id="t", streaming=quiet())

    assert result.text == "A whole answer."
    assert [one["role"] for one in model.bodies[1]["messages"]] == ["system", "user"]
    await runner.run(agent, "Sure?", thread_id="t")
    roles = [one["role"] for one in model.bodies[2]["messages"]]
    assert roles == ["system", "user", "assistant", "assistant", "user"]
    assert [role for role, _ in await said(store)] == [
        "user",
        *["assistant"] * 2,
        "user",
        "assistant",
    ]


async def test_later_agents_of_another_run_see_the_cut_reply(runner: Runner) -> None:
    """A network's thread, too."""
    store = MemoryHistory()
    first = Agent(name="first", system="S", model=ScriptedModel(broken()))
    network = Network(name="n", agents=[first], router=sequence(first), history=store)
    with pytest.raises(ModelStreamError):
        await runner.run(network, "q?", thread_id="t", streaming=quiet())
    model = ScriptedModel("I see.")
    second = Agent(name="second", system="S", model=model)

    await runner.run(
        Network(name="n", agents=[second], router=sequence(second), history=store),
        "And now?",
        thread_id="t",
    )

    model.assert_saw("Your refund of 120 EUR")


def test_a_switch_of_another_kind_is_refused() -> None:
    """It would be true by accident."""
    with pytest.raises(ConfigurationError, match="keep_cut_replies"):
        Agent(name="a", system="S", keep_cut_replies="no")  # type: ignore[arg-type]
