"""Budgets: how a window is split, and what is left of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Message, State, TextMessage, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models.base import ToolSpec
from agentkit_py.processors import (
    ApproximateTokenizer,
    Budget,
    ProcessorContext,
    ReportEntry,
    processor_from_settings,
)
from agentkit_py.processors.budget import UNKNOWN_WINDOW, tool_tokens
from agentkit_py.testing import HashingEmbedder, ScriptedModel

from .replies import Answers

COUNT = ApproximateTokenizer(chars_per_token=1)


def history(count: int, size: int = 100) -> list[Message]:
    """Questions and answers in turn."""
    roles: list[Any] = ["user", "assistant"]
    return [TextMessage(roles[n % 2], f"{n:04}".ljust(size, "x")) for n in range(count)]


async def entries(
    policy: Budget, messages: Sequence[Message], text: str = "Now?", **more: Any
) -> Sequence[ReportEntry]:
    """Return the report's entries of one run."""
    agent = Agent(
        name="a", system=more.pop("system", "S"), model=more.pop("model", Answers().model),
        processors=[policy], token_counter=COUNT, **more,
    )  # fmt: skip
    result = await agent.run(text, state=State(messages=messages, thread_id="t"))
    assert result.context is not None
    return result.context.entries


def texts(entry: ReportEntry) -> list[str]:
    """Return the texts of the messages left."""
    return [m.text for m in entry.after if isinstance(m, TextMessage)]


def share(entry: ReportEntry) -> int:
    """Return the report's number of tokens for the newest messages."""
    return int(entry.reason.rpartition(": ")[2].partition(" ")[0])


async def test_the_newest_messages_have_their_share() -> None:
    """The share is a part of the target less the prompt; when exceeded, 70 % of it stay."""
    policy = Budget(10_000, target=0.5, recent=0.5, summary=0.3, compress_tool_output=False)
    (entry,) = await entries(policy, history(100))
    room = 5000 - 78  # the prompt, rounded up to 1/128 of the window
    assert f"{room // 2} tokens of recent messages" in entry.reason
    assert room // 2 * 0.7 - 100 < entry.tokens_after <= room // 2
    assert texts(entry)[-1].startswith("0099")


async def test_a_history_that_fits_stays_unchanged() -> None:
    """Object for object."""
    (_, entry) = await entries(Budget(100_000), history(100))
    assert not entry.changed


async def test_prompt_and_tools_are_counted() -> None:
    """A long system prompt and a large schema leave less for the history."""

    def search(query: str) -> str:
        """Search."""
        return query

    search.__doc__ = "Search. " + "d" * 2000
    policy = Budget(10_000, compress_tool_output=False)
    (bare,) = await entries(policy, history(100))
    (prompt,) = await entries(policy, history(100), system="S" * 2000)
    (tools,) = await entries(policy, history(100), tools=[search])
    # Of 2000 tokens less, 65 % are missing in the share of the messages.
    assert share(prompt) <= share(bare) - 0.65 * 1900
    assert share(tools) <= share(bare) - 0.65 * 1900
    for entry in (bare, prompt, tools):
        assert share(entry) * 0.7 - 100 < entry.tokens_after <= share(entry)


def test_a_tools_schema_is_counted_once() -> None:
    """The count is remembered, since every request repeats the schema."""
    counted: list[str] = []

    class Counting:
        key = "counting"

        def count(self, text: str) -> int:
            counted.append(text)
            return len(text)

    spec = ToolSpec("look", "Look", {"type": "object"})
    assert tool_tokens([spec, spec], Counting()) == 2 * len('["look","Look",{"type":"object"}]')
    assert len(counted) == 1


async def test_a_long_question_takes_from_the_history() -> None:
    """The history shrinks by the part of the question that the buffer does not hold."""
    policy = Budget(10_000, compress_tool_output=False)
    (short,) = await entries(policy, history(100))
    (within,) = await entries(policy, history(100), "q" * 400)
    (long,) = await entries(policy, history(100), "q" * 3000)
    assert within.tokens_after == short.tokens_after
    assert long.tokens_after < short.tokens_after - 900


async def test_the_models_window_is_known() -> None:
    """The window comes from the model, the policy, the table, or a guess that the report names."""
    policy = Budget(compress_tool_output=False)

    async def window(policy: Budget, **options: Any) -> str:
        model = openai(options.pop("model", "gpt-4o"), api_key="k", **options)
        made = replace(model, answers=Answers())
        (entry,) = await entries(policy, history(4), model=made)
        return entry.reason.partition(", prompt")[0]

    assert await window(policy) == "window 128000"
    assert await window(policy, context_window=5000) == "window 5000"
    table = Budget(windows={"gpt": 7000}, compress_tool_output=False)
    assert await window(table) == "window 7000"
    guess = f"window {UNKNOWN_WINDOW} (not known, a guess)"
    assert await window(policy, model="own") == guess


async def test_the_cut_stays_where_it_is_for_many_turns() -> None:
    """It moves once for every 30 % of the share."""
    policy = Budget(10_000, compress_tool_output=False)
    firsts = [texts((await entries(policy, history(n)))[0])[0] for n in range(100, 200, 2)]
    moves = sum(a != b for a, b in pairwise(firsts))
    assert 2 <= moves <= 100 * 100 / (3850 * 0.3) + 1


async def test_a_model_makes_a_summary_within_its_share() -> None:
    """Kept like any other."""
    answers = Answers("They spoke.")
    policy = Budget(10_000, model=answers.model, store=MemoryHistory())
    (_, entry) = await entries(policy, history(100))
    assert "They spoke." in texts(entry)[0]
    assert "summary of" in entry.reason
    assert entry.tokens_after <= 0.91 * 6000
    asked = answers.asked
    await entries(policy, history(102))
    assert answers.asked == asked


async def test_older_tool_results_are_shortened_first() -> None:
    """Several at once, with an entry of their own in the report."""
    messages: list[Message] = []
    for n in range(20):
        call = ToolCall(f"c{n}", "look", {})
        messages += [
            TextMessage("user", "q"),
            ToolCallMessage([call]),
            ToolResultMessage(call, {"data": "r " * 500}),
            TextMessage("assistant", "a"),
        ]
    first, second = await entries(Budget(100_000), messages)
    assert (first.name, second.name) == ("CompressToolResults", "Budget")
    assert len(first.added) == 10
    assert not second.changed
    for count in (20, 21, 24):
        more, _ = await entries(Budget(100_000), messages[: 4 * count])
        assert len(more.added) == 10


async def test_an_estimate_needs_no_tiktoken() -> None:
    """The run's token counter must not matter."""
    policy = Budget(10_000, method="estimate", compress_tool_output=False)
    (entry,) = await entries(policy, history(60))
    assert not entry.changed


async def test_budget_called_directly_has_the_same_result_as_in_runs() -> None:
    """A direct call needs no model."""
    policy = Budget(10_000, compress_tool_output=False)
    left = await policy.process(history(100), ProcessorContext(tokenizer=COUNT))
    assert sum(len(m.text) for m in left if isinstance(m, TextMessage)) <= 3900


async def test_a_window_smaller_than_the_prompt_leaves_no_history() -> None:
    """The provider will say the rest."""
    policy = Budget(500, compress_tool_output=False)
    (entry,) = await entries(policy, history(10), system="S" * 900)
    assert list(entry.after) == []


def test_budget_is_made_from_a_dict() -> None:
    """The keys have the seed's names and are checked."""
    stored = {
        "token_calculation_method": "estimate", "target_usage_ratio": 0.5,
        "summary_token_ratio": 0.2, "recent_token_ratio": 0.7, "compress_tool_output": True,
        "tool_output_max_tokens": 100, "enable_context_optimization": True,
    }  # fmt: skip
    found = Budget.from_settings(stored)
    assert (found.method, found.target, found.summary, found.recent) == ("estimate", 0.5, 0.2, 0.7)
    assert [member.name for member in found.members] == ["CompressToolResults", "Budget"]
    made = processor_from_settings({"type": "Budget", **stored})
    assert isinstance(made, Budget)
    off = Budget.from_settings({"enable_context_optimization": False})
    assert off.members == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target": 0}, "target"),
        ({"target_usage_ratio": 1.5}, "target_usage_ratio"),
        ({"summary": 0.6, "recent": 0.6}, "at most 1"),
        ({"recent": 0}, "recent more than 0"),
        ({"method": "guess"}, "tiktoken"),
        ({"context_window": 0}, "context_window"),
        ({"windows": {"gpt": "big"}}, "gpt"),
        ({"targett": 1}, "targett"),
    ],
)
def test_invalid_settings_raise_an_error_that_names_them(
    settings: dict[str, Any], said: str
) -> None:
    """The error names the key."""
    with pytest.raises(ConfigurationError, match=said):
        Budget.from_settings(settings)


@pytest.mark.parametrize("with_model", [False, True])
async def test_older_turns_that_the_question_is_about_come_back_within_the_budget(
    with_model: bool,
) -> None:
    """In the share of a summary, or in half of it; a request stays below the target."""
    said = "My hotel in Graz is the Astoria, booking 78123."
    past = [TextMessage("user", said), TextMessage("assistant", "Noted."), *history(200)]
    seen: list[str] = []
    for embedder in (None, HashingEmbedder()):
        model = ScriptedModel("The Astoria.")
        budget = Budget(
            context_window=6000,
            method="estimate",
            embedder=embedder,
            model=ScriptedModel("They talked.") if with_model else None,
        )
        agent = Agent(name="clerk", system="You remember.", model=model, processors=[budget])
        result = await agent.run("Which hotel in Graz is mine?", state=State(messages=past))
        seen.append("".join(str(one["content"]) for one in model.bodies[0]["messages"]))
        assert result.context is not None
        assert result.context.tokens_after <= 0.6 * 6000
        assert ("They talked." in seen[-1]) is with_model
    assert said not in seen[0]
    assert "<recalled_messages>" in seen[1]
    assert said in seen[1]


async def test_a_history_that_fits_its_budget_is_not_searched() -> None:
    """The embedder is asked for nothing."""
    embedder = HashingEmbedder()
    agent = Agent(
        name="clerk",
        system="S",
        model=ScriptedModel("ok"),
        processors=[Budget(context_window=100_000, embedder=embedder)],
    )
    result = await agent.run("Which?", state=State(messages=history(10)))
    assert result.context is not None
    assert not any(entry.removed or entry.added for entry in result.context.entries)
