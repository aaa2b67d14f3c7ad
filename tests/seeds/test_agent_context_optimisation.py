"""The optimised chat record of an agent service: summary, newest messages, shares of a window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Message, State, TextMessage, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    ApproximateTokenizer,
    Budget,
    CompressToolResults,
    Deduplicate,
    ProcessorContext,
    Summarize,
    Summary,
    Threshold,
    TokenLimiter,
    apply_processors,
)
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.testing import ScriptedModel

LETTERS = ApproximateTokenizer(chars_per_token=1)


class Summariser:
    """A model that summarises, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.model = replace(openai("gpt-4.1-mini", api_key="none"), answers=self._answer)

    async def _answer(self, body: dict[str, Any]) -> object:
        self.asked.append(body["messages"][0]["content"])
        message = {"role": "assistant", "content": "Five meetings."}
        return {"choices": [{"message": message, "finish_reason": "stop"}]}


def texts(count: int, letters: int = 100) -> list[Message]:
    """Return texts of the past."""
    return [
        TextMessage("user" if n % 2 else "assistant", f"{n:03} ".ljust(letters, "x"))
        for n in range(count)
    ]


def exchange(name: str, result: Any) -> list[Message]:
    """Return a call with its result."""
    call = ToolCall(f"c-{name}", name, {})
    return [ToolCallMessage([call]), ToolResultMessage(call, {"data": result})]


async def sent(agent: Agent, past: Sequence[Message]) -> list[Any]:
    """Run the agent on a past; return the contents that its model was sent."""
    assert isinstance(agent.model, ScriptedModel)
    await agent.run("And now?", state=State(messages=past))
    return [m["content"] for m in agent.model.bodies[-1]["messages"]]


def summarising(summariser: Summariser, **options: Any) -> Agent:
    """Return an agent whose older messages are summarised."""
    options = {"upper": 1_000, "lower": 700, "min_messages": 2} | options
    return Agent(
        name="a",
        system="S",
        model=ScriptedModel("ok"),
        processors=[Summarize(summariser.model, **options)],
        token_counter=LETTERS,
    )


async def test_summarize_prompt_language_heading_and_frame_are_options() -> None:
    """The seed's form; braces that are no parts, as in JSON, stay."""
    summariser = Summariser()
    agent = summarising(
        summariser,
        prompt='Summarise in {language}, {words} words at the most. Form: {"open": []}',
        language="Chinese",
        heading="【对话历史总结】",
        frame="{heading}\n{summary}\n--- {messages} {other}",
    )
    contents = await sent(agent, texts(20))
    asked = summariser.asked[0]
    assert asked.startswith("Summarise in Chinese, ")
    assert asked.endswith('words at the most. Form: {"open": []}')
    assert contents[1].startswith("【对话历史总结】\nFive meetings.\n--- ")
    assert contents[1].endswith(" {other}")


async def test_summarize_language_alone_changes_the_prompt_of_the_library() -> None:
    """And is added to one that has no place for it."""
    for options, asked in (
        ({"language": "German"}, "Write in German, in short sections"),
        ({"language": "German", "prompt": "Sum up."}, "Sum up.\nWrite in German."),
        ({"language": "German", "prompt": "{words} words."}, " words.\nWrite in German."),
        ({}, "Write in the language of the conversation"),
    ):
        summariser = Summariser()
        await sent(summarising(summariser, **options), texts(20))
        assert asked in summariser.asked[0]
        assert "{" not in summariser.asked[0]


@pytest.mark.parametrize(
    "wrong", [{"frame": "no place"}, {"prompt": ""}, {"heading": 7}, {"language": ""}]
)
def test_summarize_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    """Also in settings of an application."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Summarize(Summariser().model, **wrong)


async def test_compression_rate() -> None:
    """A stored summary has the seed's facts: 1,500 of 12,000 tokens are 0.875."""
    now = datetime.now(UTC)
    made = Summary(
        text="", covered=50, anchor="", tokens=1500, original_tokens=12_000, created_at=now
    )
    assert made.compression_rate == 0.875
    assert replace(made, original_tokens=0).compression_rate == 0
    store = MemoryHistory()
    agent = replace(summarising(Summariser()), history=store)
    await store.add_thread("t")
    await agent.run("x" * 900, thread_id="t", model=ScriptedModel("y" * 900))
    await agent.run("And?", thread_id="t", model=ScriptedModel("ok"))
    kept = await store.load_summary("t", "agent:a")
    assert kept is not None
    assert 0.5 < kept.compression_rate < 1
    assert kept.compression_rate == 1 - kept.tokens / kept.original_tokens


async def test_budget_has_the_numbers_of_the_seed() -> None:
    """60 % of 128,000 are 76,800, less 2,000 for the system prompt: 26 % and 65 % of 74,800."""
    budget = Budget(128_000, model=Summariser().model)
    context = ProcessorContext(prompt=[TextMessage("system", "x" * 2000)], tokenizer=LETTERS)
    shares = budget.shares(context, [])
    assert (shares.fixed, shares.summary, shares.recent) == (2000, 19_448, 48_620)
    assert budget.tool_output_max_tokens == CompressToolResults().max_tokens == 200


async def test_budget_below_ten_messages_is_a_threshold() -> None:
    """The seed's second condition."""
    policy = Threshold(min_messages=10, then=[Budget(1_000, method="estimate")])
    context = ProcessorContext(tokenizer=LETTERS)
    assert len(await apply_processors(texts(10, 1_000), [policy], context)) == 10
    assert len(await apply_processors(texts(11, 1_000), [policy], context)) < 10


@pytest.mark.parametrize(("keep", "whole"), [(0, 0), (2, 5), (5, 5), (6, 25)])
async def test_budget_option_for_the_newest_results(keep: int, whole: int) -> None:
    """The seed shortens all; five stay unless told otherwise, with those of their block."""
    past = [m for n in range(25) for m in exchange(f"t{n}", {"items": list(range(500))})]
    budget = Budget(1_000_000, keep_recent_results=keep)
    left = await apply_processors(past, [budget], ProcessorContext(tokenizer=LETTERS))
    results = [m for m in left if isinstance(m, ToolResultMessage)]
    assert [m for m in results if "compressed" not in str(m)] == results[25 - whole :]


async def test_a_chain_that_does_not_fit_may_be_skipped() -> None:
    """Older messages have their room; calls stay with their results."""
    past = [*texts(3), *exchange("long", "x" * 5_000), *texts(2), *exchange("short", 1)]
    context = ProcessorContext(tokenizer=LETTERS)
    ends = await apply_processors(past, [TokenLimiter(1_000)], context)
    assert list(ends) == past[5:]
    skips = await apply_processors(past, [TokenLimiter(1_000, skip_calls=True)], context)
    assert list(skips) == [*past[:3], *past[5:]]
    # A text that does not fit still ends it.
    room = count_messages([*past[2:3], *past[5:]], LETTERS)
    few = await apply_processors(past, [TokenLimiter(room, skip_calls=True)], context)
    assert list(few) == [*past[2:3], *past[5:]]
    held = replace(context, protected=frozenset(map(id, past[3:5])))
    # Nothing older than a text that does not fit is there, however short.
    short = [TextMessage("user", "x"), *past]
    few = await apply_processors(short, [TokenLimiter(room + 50, skip_calls=True)], context)
    assert list(few) == [*past[2:3], *past[5:]]
    limiter = TokenLimiter(count_messages(past[3:], LETTERS), skip_calls=True)
    assert list(await apply_processors(past, [limiter], held)) == past[3:]


@pytest.mark.parametrize("skip", [False, True])
async def test_budget_may_skip_a_chain_that_does_not_fit(skip: bool) -> None:
    """Calls that are longer than all of the history may be go alone."""
    past = [*texts(3), *exchange("long", "x" * 5_000), *texts(2)]
    budget = Budget(2_000, compress_tool_output=False, skip_calls=skip)
    left = await apply_processors(past, [budget], ProcessorContext(tokenizer=LETTERS))
    assert list(left) == ([*past[:3], *past[5:]] if skip else past[5:])


async def test_deduplicate_texts_of_the_user() -> None:
    """A long document that was pasted twice is sent once; what others say stays."""
    document = "A long document. " * 30
    past: list[Message] = [
        TextMessage("user", f"{document}\n"),
        TextMessage("assistant", document),
        TextMessage("user", "Short."),
        TextMessage("user", document),
        TextMessage("user", "Short."),
    ]
    left = await apply_processors(past, [Deduplicate(texts=True)])
    assert [m.content for m in left if isinstance(m, TextMessage)] == [
        "[The same text as in a newer message of the user, further down]",
        *(m.content for m in past[1:] if isinstance(m, TextMessage)),
    ]
    asked = ProcessorContext(prompt=[TextMessage("user", document)])
    left = await apply_processors(past, [Deduplicate(texts=True)], asked)
    assert json.dumps([str(m) for m in left]).count(document) == 1
    assert await apply_processors(past, [Deduplicate()]) == tuple(past)
