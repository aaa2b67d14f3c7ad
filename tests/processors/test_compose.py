"""Chain, Threshold, and processors from plain dicts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from agentkit_py.errors import ConfigurationError, ProcessorError
from agentkit_py.messages import Message
from agentkit_py.processors import (
    Chain,
    DropUnanswered,
    MessageWindow,
    ProcessorParts,
    RecentToolCalls,
    Threshold,
    ToolCallFilter,
    processor_from_settings,
    processors_from_env,
)
from agentkit_py.processors.apply import run_chain
from agentkit_py.processors.compose import PROCESSORS
from agentkit_py.testing import HashingEmbedder

from .conversations import CONTEXT, left, processed, shown, turns, user

if TYPE_CHECKING:
    from decimal import Decimal
from .replies import Answers


def test_a_chain_is_its_members_each_with_an_entry() -> None:
    """Nested chains, and chains that are called directly, have the same entries."""
    chain = Chain([RecentToolCalls(1), Chain([MessageWindow(3)])])
    outcome = asyncio.run(run_chain(turns(3), [("agent", [chain])], CONTEXT))
    assert [e.name for e in outcome.entries] == ["RecentToolCalls", "MessageWindow"]
    assert list(processed(chain, turns(3))) == list(outcome.messages)
    assert chain.reason == "RecentToolCalls → Chain"
    messages = turns(1)
    assert processed(Chain([]), messages) is messages
    assert processed(Chain([MessageWindow()]), messages) is messages


def test_a_threshold_of_tokens_counts_prompt_and_history() -> None:
    """Beyond it, not at it."""
    messages = turns(3)
    assert processed(Threshold(10**6, then=[ToolCallFilter()]), messages) is messages
    assert len(left(messages, Threshold(0, then=[ToolCallFilter()]))) == 6
    context = replace(CONTEXT, prompt=[user("p" * 10**5)])
    assert len(left(messages, Threshold(10**4, then=[ToolCallFilter()]), context=context)) == 6


def test_a_threshold_of_messages() -> None:
    """The seed's "more than 10 messages"; with both, both have to be passed."""
    only = Threshold(min_messages=4, then=[MessageWindow(1)])
    assert len(left(turns(1), only)) == 4
    assert len(left(turns(2), only)) == 1
    both = Threshold(10**6, min_messages=4, then=[MessageWindow(1)])
    assert len(left(turns(2), both)) == 8
    assert both.reason == "over 1000000 tokens and 4 messages: MessageWindow"


def test_protected_calls_stay_within_a_threshold() -> None:
    """The threshold passes the context's protected messages on."""
    messages = turns(2)
    context = replace(CONTEXT, protected=frozenset(map(id, messages[1:3])))
    kept = left(messages, Threshold(0, then=[ToolCallFilter()]), context=context)
    assert shown(kept)[1:3] == ["calls call_0", 'call_0: {"data":"r0"}']


def test_errors_inside_name_the_processor_that_failed() -> None:
    """The error also names the place where the processor was configured."""

    def fail(messages: Sequence[Message]) -> Sequence[Message]:
        raise LookupError("no such thing")

    with pytest.raises(ProcessorError, match="no such thing") as caught:
        left(turns(1), Threshold(0, then=[fail]))
    assert (caught.value.processor, caught.value.level) == ("fail", "chain")


PARTS = ProcessorParts(model=Answers().model, embedder=HashingEmbedder())

EXAMPLES: dict[str, dict[str, Any]] = {
    "ByAuthor": {"keep": ["a"]},
    "Chain": {"processors": [{"type": "DropUnanswered"}]},
    "Pin": {"contains": ["x"]},
    "RecentToolCalls": {"n": 3},
    "RecentTurns": {"turns": 2},
    "Threshold": {"trigger": 5, "then": [{"type": "MessageWindow", "max_messages": 12}]},
    "TokenLimiter": {"limit": 100, "use_tiktoken": False},
    "ToolCallFilter": {"include": ["a"], "persistResults": True},
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_every_processor_can_be_made_from_a_plain_dict(name: str) -> None:
    """The dict names the type; an unknown key is named in the error.

    What a new one needs is in `EXAMPLES`.
    """
    settings = {"type": name, **EXAMPLES.get(name, {})}
    made = processor_from_settings(settings, PARTS)
    assert type(made).__name__ == name
    left(turns(2), made)
    with pytest.raises(ConfigurationError, match=f"{name}.*'nonsense'"):
        processor_from_settings({**settings, "nonsense": 1}, PARTS)


def test_parts_reach_processors_inside_of_others() -> None:
    """Nested processors get the parts, too; without them the error names what is missing."""
    stored = {
        "type": "Threshold",
        "min_messages": 4,
        "then": [
            {"type": "Chain", "processors": [{"type": "Summarize", "upper_threshold": 60_000}]},
            {"type": "Recall", "k": 2},
            {"type": "Budget", "target_usage_ratio": 0.5},
        ],
    }
    made = processor_from_settings(stored, PARTS)
    assert made.reason == "over 4 messages: Chain → Recall → Budget"
    with pytest.raises(ConfigurationError, match="Summarize needs a model"):
        processor_from_settings(stored)
    with pytest.raises(ConfigurationError, match="Recall needs an embedder"):
        processor_from_settings({"type": "Recall"})
    with pytest.raises(ConfigurationError, match="Recall: k must be a whole number"):
        processor_from_settings({"type": "Recall", "k": 0}, PARTS)


def test_processors_are_made_from_the_environment() -> None:
    """One or several, as JSON."""
    one = {"AGENTKIT_PROCESSORS": ' {"type": "MessageWindow", "max_message_history": 60} '}
    assert processors_from_env(environment=one) == [MessageWindow(60)]
    several = {"MINE": json.dumps([{"type": "DropUnanswered"}, {"type": "Summarize"}])}
    made = processors_from_env("MINE", parts=PARTS, environment=several)
    assert [type(policy).__name__ for policy in made] == ["DropUnanswered", "Summarize"]
    assert processors_from_env(environment={}) == []
    assert processors_from_env(environment={"AGENTKIT_PROCESSORS": " "}) == []
    assert isinstance(processors_from_env(), list)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "AGENTKIT_PROCESSORS: Expecting value"),
        ("7", "AGENTKIT_PROCESSORS: .* must be a dict"),
        ('{"type": "MessageWindow", "max_messages": 0}', "AGENTKIT_PROCESSORS: .*max_messages"),
        ('[{"type": "Window"}]', "AGENTKIT_PROCESSORS: .*unknown processor 'Window'"),
    ],
)
def test_invalid_environment_variable_is_refused(text: str, said: str) -> None:
    """The error names the variable, and what is wrong in it."""
    with pytest.raises(ConfigurationError, match=said):
        processors_from_env(environment={"AGENTKIT_PROCESSORS": text})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "type: unknown processor None"),
        ({"type": "Window"}, "unknown processor 'Window'; there are: "),
        ({"type": "Chain", "processors": "x"}, "Chain: processors must be a list"),
        ({"type": "Threshold", "trigger": -1, "then": []}, "trigger must be"),
        ({"type": "Threshold", "then": []}, "needs trigger"),
        ({"type": "Threshold", "trigger": 1}, "then must be a list"),
        ({"type": "Threshold", "trigger": 1, "then": []}, "needs processors to run"),
        ({"type": "Chain", "processors": [{"type": "MessageWindow", "max_messages": 0}]}, "max_m"),
        ({"type": "TokenLimiter", "limit": "a lot"}, "TokenLimiter: limit must be"),
        ({"type": "TokenLimiter"}, "TokenLimiter.from_settings needs limit."),
        ([], "must be a dict"),
        ({1: 2}, "string keys"),
    ],
)
def test_wrong_settings_are_named(settings: Any, said: str) -> None:
    """The error comes before anything runs."""
    with pytest.raises(ConfigurationError, match=said):
        processor_from_settings(settings)


def test_a_value_that_is_no_processor_is_refused_at_once() -> None:
    """The error comes at configuration and not in a run."""
    with pytest.raises(ConfigurationError, match="not a history processor"):
        Chain([cast("Any", 5)])
    with pytest.raises(ConfigurationError, match="is a class"):
        Threshold(1, then=[cast("Any", DropUnanswered)])


def test_a_subclass_keeps_the_settings_of_its_base_whatever_it_annotates() -> None:
    """Its annotations may name types that are imported for type checkers only."""

    class Short(MessageWindow):
        price: ClassVar[Decimal | None] = None

    assert Short.from_settings({"max_messages": 3}).max_messages == 3
    with pytest.raises(ConfigurationError, match="Short: max_messages must be"):
        Short.from_settings({"max_messages": 0})


async def test_the_report_has_the_figures_of_the_processors_inside() -> None:
    """Of a threshold, a chain that it holds, and a policy."""
    history = [user(f"message {number}") for number in range(10)]
    inner = Chain([MessageWindow(6), MessageWindow(4)])
    outcome = await run_chain(
        history, [("agent", [Threshold(min_messages=5, then=[inner])])], CONTEXT
    )
    (entry,) = outcome.entries
    assert [(p.name, p.messages_before, p.messages_after) for p in entry.parts] == [
        ("MessageWindow", 10, 6),
        ("MessageWindow", 6, 4),
    ]
    written = entry.to_dict()["parts"]
    assert [part["messagesAfter"] for part in written] == [6, 4]
    assert all(part["tokensBefore"] > part["tokensAfter"] for part in written)
