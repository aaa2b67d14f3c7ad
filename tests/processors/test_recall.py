"""Recall: which older turns come back, where they stand, and what it costs."""

from __future__ import annotations

import json
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import (
    Agent,
    AgentResult,
    MemoryHistory,
    Message,
    State,
    TextMessage,
    ToolCallFilter,
)
from agentkit_py.errors import ConfigurationError, RateLimitError
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ApproximateTokenizer, MemoryIndex, MessageWindow, Recall
from agentkit_py.processors.validity import is_valid
from agentkit_py.search import passages
from agentkit_py.testing import HashingEmbedder, ScriptedModel

from .replies import Answers

COUNT = ApproximateTokenizer(chars_per_token=4)
FACTS = ["the parcel is in Linz", "the invoice is paid", "the hotel is the Astoria"]


def turn(text: str, answer: str = "noted") -> list[Message]:
    """Return a user's message and an answer."""
    return [TextMessage("user", text), TextMessage("assistant", answer)]


def conversation(count: int = 10) -> list[Message]:
    """Facts, and then small talk."""
    facts = [m for fact in FACTS for m in turn(fact)]
    return [*facts, *(m for n in range(count) for m in turn(f"chatter {n}", f"reply {n}"))]


async def ask(policy: Recall, text: str, messages: Sequence[Message], **more: Any) -> AgentResult:
    """Ask an agent that has this policy, with these messages in its state."""
    agent = Agent(
        name="a", system="S", model=Answers().model, processors=[*more.pop("before", ()), policy],
        token_counter=COUNT, **more,
    )  # fmt: skip
    return await agent.run(text, state=State(messages=messages, thread_id="t"))


def seen(result: AgentResult) -> list[str]:
    """The texts that were sent, system prompt and question left out."""
    assert result.context is not None
    return [m.text for m in result.context.sent[1:-1] if isinstance(m, TextMessage)]


async def test_the_older_turns_most_like_the_input_come_back() -> None:
    """Delimited, in the user's role, right before the question."""
    result = await ask(
        Recall(HashingEmbedder(), 1, keep_recent=4, neighbours=0),
        "where is the parcel",
        conversation(),
    )
    texts = seen(result)
    assert texts[-1].startswith("<recalled_messages>")
    assert "user: the parcel is in Linz\nassistant: noted" in texts[-1]
    assert "invoice" not in texts[-1]
    assert 4 <= len(texts) - 1 <= 5
    assert texts[-2] == "reply 9"


async def test_turns_next_to_those_that_were_found_come_along() -> None:
    """An answer is beside its question; as far as there is room."""
    for neighbours, facts in ((1, [True, True, False]), (2, [True, True, True])):
        policy = Recall(HashingEmbedder(), 1, keep_recent=4, neighbours=neighbours)
        result = await ask(policy, "where is the parcel", conversation())
        assert [fact in seen(result)[-1] for fact in FACTS] == facts
    policy = Recall(HashingEmbedder(), 1, keep_recent=4, max_tokens=12)
    result = await ask(policy, "where is the parcel", conversation())
    assert [fact in seen(result)[-1] for fact in FACTS] == [True, False, False]


class Blind:
    """An embedder to which all texts are alike."""

    key = "blind"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the same vector for each."""
        return [[1.0, 0.0] for _ in texts]


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("what happened to order 4711?", "order 4711 came back"),
        ("wann war der Termin am 12.5.?", "der Termin ist am 12.5. um drei"),
        ("did Ada's meeting move?", "the meetings with Ada were moved"),
        ("東京の天気は", "昨日東京で会いました"),
    ],
)
async def test_names_numbers_and_dates_of_the_question_count(question: str, fact: str) -> None:
    """Words find what vectors do not, in any language."""
    messages = [*turn("order 4712 is fine"), *turn(fact), *turn("nothing else"), *conversation()]
    policy = Recall(Blind(), 1, keep_recent=4, neighbours=0)
    assert fact in seen(await ask(policy, question, messages))[-1]


async def test_other_questions_recall_other_turns() -> None:
    """Another one brings another turn."""
    policy = Recall(HashingEmbedder(), 1, keep_recent=4)
    for word, fact in (("invoice", FACTS[1]), ("hotel", FACTS[2])):
        result = await ask(policy, f"what about the {word}", conversation())
        assert fact in seen(result)[-1]


async def test_a_short_history_is_left_alone() -> None:
    """No text is embedded."""
    embedder = HashingEmbedder()
    messages = turn("hello")
    result = await ask(Recall(embedder), "hello", messages)
    assert embedder.texts == []
    assert seen(result) == ["hello", "noted"]


async def test_calls_come_with_their_results() -> None:
    """A turn is whole; what stays is valid."""
    call = ToolCall("c", "track", {"parcel": 17})
    messages = [
        TextMessage("user", "where is parcel 17"),
        ToolCallMessage([call], agent="desk"),
        ToolResultMessage(call, {"data": "Linz"}),
        TextMessage("assistant", "In Linz.", agent="desk"),
        *conversation(),
    ]
    result = await ask(Recall(HashingEmbedder(), 1, keep_recent=4), "parcel 17 where", messages)
    text = seen(result)[-1]
    assert 'assistant desk calls track: {"parcel":17}' in text
    assert 'track gives: {"data":"Linz"}' in text
    assert result.context is not None
    assert is_valid(result.context.sent)


async def test_each_turn_is_embedded_once() -> None:
    """Vectors are stored with the thread: later runs embed what is new, and the question."""
    embedder, store = HashingEmbedder(), MemoryHistory()
    policy = Recall(embedder, 2, keep_recent=2, index=store)
    await ask(policy, "where", conversation(10))
    first = len(embedder.texts)
    await ask(policy, "where", conversation(12))
    assert first > 5
    assert len(embedder.texts) - first == 1 + 2


async def test_vectors_are_kept_in_the_runs_own_history() -> None:
    """This holds for histories that implement `VectorIndex`."""
    embedder, store = HashingEmbedder(), MemoryHistory()
    await store.add_thread("t")
    await store.append("t", [AgentResult("a", [m]) for m in conversation()])
    agent = Agent(
        name="a", system="S", model=Answers().model, history=store,
        processors=[Recall(embedder, keep_recent=2)],
    )  # fmt: skip
    await agent.run("where is the parcel", thread_id="t")
    first = len(embedder.texts)
    await agent.run("where is the hotel", thread_id="t")
    assert len(embedder.texts) - first <= 3


async def test_recall_searches_the_messages_that_the_window_leaves_out() -> None:
    """`beside` says who; what was gone before it stays gone."""
    policy = Recall(HashingEmbedder(), 1, window=[MessageWindow(6)])
    result = await ask(policy, "where is the parcel", conversation())
    assert len(seen(result)) == 7
    assert FACTS[0] in seen(result)[-1]
    call = ToolCall("c", "track", {"secret": 1})
    messages = [
        TextMessage("user", "where is the parcel"),
        ToolCallMessage([call]),
        ToolResultMessage(call, "hidden"),
        *conversation(),
    ]
    result = await ask(policy, "where is the parcel", messages, before=[ToolCallFilter()])
    assert "secret" not in "".join(seen(result))


async def test_the_cut_does_not_move_with_every_turn() -> None:
    """The messages that stay begin with the same one for half a window."""
    policy = Recall(HashingEmbedder(), 1, keep_recent=10)
    firsts = [seen(await ask(policy, "x", conversation(n)))[0] for n in range(10, 30)]
    assert len(set(firsts)) <= 10


async def test_turns_that_do_not_fit_stay_out() -> None:
    """The best that do come, in their order."""
    messages = [*turn("parcel parcel parcel " + "x" * 4000), *turn("parcel small"), *conversation()]
    policy = Recall(HashingEmbedder(), 3, keep_recent=4, max_tokens=100)
    text = seen(await ask(policy, "parcel", messages))[-1]
    assert "parcel small" in text
    assert "xxxx" not in text


async def test_turns_that_are_not_like_it_stay_out() -> None:
    """``min_likeness`` says how like they must be."""
    policy = Recall(HashingEmbedder(), 3, keep_recent=4, min_likeness=0.9)
    assert not any("recalled" in text for text in seen(await ask(policy, "zebra", conversation())))


class Failing(HashingEmbedder):
    """An embedder that cannot be had."""

    async def embed(self, texts: Sequence[str]) -> Any:
        raise RateLimitError("slow down", provider="openai", model="e", status=429)


async def test_an_embedder_that_fails_costs_the_matches_by_meaning_alone() -> None:
    """The report says so."""
    result = await ask(Recall(Failing(), keep_recent=4), "where", conversation())
    assert result.context is not None
    assert "found by words alone" in result.context.entries[0].reason
    assert len(seen(result)) <= 6
    result = await ask(Recall(Failing(), k=1, keep_recent=4), "Which hotel?", conversation())
    assert "the hotel is the Astoria" in "".join(seen(result))


async def test_an_embedder_that_gives_too_few_vectors_is_an_error() -> None:
    """It is the developer's."""

    class Short(HashingEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            return (await super().embed(texts))[:-1]

    with pytest.raises(Exception, match="must return a vector for each"):
        await ask(Recall(Short(), keep_recent=4), "where", conversation())


async def test_one_search_serves_all_inferences_of_a_run() -> None:
    """The question is the same."""
    embedder = HashingEmbedder()
    from agentkit_py.testing import ScriptedModel, tool_call  # noqa: PLC0415 - loaded only where it is used

    def look() -> str:
        """Look."""
        return "found"

    agent = Agent(
        name="a", system="S", tools=[look], max_iter=3,
        model=ScriptedModel(tool_call("look"), tool_call("look"), "Done."),
        processors=[Recall(embedder, keep_recent=4, index=MemoryIndex())],
    )  # fmt: skip
    await agent.run("where", state=State(messages=conversation(), thread_id="t"))
    assert embedder.texts.count("where") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [({"k": 0}, "k"), ({"max_tokens": 0}, "max_tokens"), ({"min_likeness": 2}, "min_likeness")],
)
def test_invalid_settings_raise_an_error_that_names_them(
    options: dict[str, Any], said: str
) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigurationError, match=said):
        Recall(HashingEmbedder(), **options)
    wrong: Any = "text-embedding-3-small"
    with pytest.raises(ConfigurationError, match="needs an embedder"):
        Recall(wrong)


async def test_figures_of_recalls_quality_are_those_of_the_sent_messages(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evidence is a line of a pair; weights for each conversation are chosen on the others."""
    script = runpy.run_path(str(root / "scripts" / "recall_quality.py"))

    def line(number: int, speaker: str, text: str) -> dict[str, Any]:
        return {"dia_id": f"D1:{number}", "speaker": speaker, "text": text}

    talk: dict[str, Any] = {
        "speaker_a": "Ada",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            line(1, "Ada", "The parcel went to Linz."),
            line(2, "Bob", "And the zebra to Graz."),
            *(line(n, "Ada", f"chatter {n}") for n in range(3, 30)),
        ],
        "session_2_date_time": "1:56 pm on 9 May, 2023",
        "qa": [
            {"question": "Where is the zebra?", "evidence": ["D1:2"]},
            {"question": "zebra?", "evidence": ["D1:2; D1:29"]},
            {"question": "Not asked", "evidence": []},
        ],
    }
    file = tmp_path / "talks.json"
    named = [{"sample_id": f"conv-{n}", "conversation": talk, "qa": talk["qa"]} for n in (7, 8, 9)]
    file.write_text(json.dumps(named), "utf-8")
    talks = script["read"]([file], ["7", "8"])
    await script["measure"](talks, script["Remembering"](HashingEmbedder()))
    rows = [text.split() for text in capsys.readouterr().out.splitlines()]
    assert rows[1][:2] == ["7", "2"]
    assert [row[0] for row in rows if row][-3:] == ["7", "8", "mean"]
    assert rows[1][2:] == ["0.750", "0.750", "1.000"]
    assert rows[-1][1:] == ["0.750", "1.000"] * 2


async def test_a_record_in_a_long_tool_result_is_found_and_shown() -> None:
    """Wherever in the list it stands; its neighbours are not needed."""
    rows = [{"parcel_id": f"TX-{1000 + n}", "town": "Graz", "weight": n} for n in range(400)]
    call = ToolCall("c", "list_parcels", {})
    past: list[Message] = [
        TextMessage("user", "List all parcels."),
        ToolCallMessage([call]),
        ToolResultMessage(call, {"data": rows}),
        TextMessage("assistant", "Here they are."),
        *(TextMessage("user", f"Small talk {n}.") for n in range(30)),
    ]
    model = ScriptedModel("217.")
    recall = Recall(HashingEmbedder(), k=1, keep_recent=4, neighbours=0)
    agent = Agent(name="clerk", system="S", model=model, processors=[recall])
    await agent.run("How heavy is TX-1217?", state=State(messages=past))
    model.assert_saw("<recalled_messages>", "list_parcels gives:", "TX-1217", "Here they are.")
    model.assert_not_saw("TX-1001")
    model.assert_not_saw("TX-1216")


@given(
    st.text(st.sampled_from("ab1 .,}\n"), max_size=2000), st.text(max_size=30), st.integers(10, 500)
)
def test_passages_come_from_the_text_and_fit_their_room(text: str, query: str, most: int) -> None:
    """In their order."""
    found = passages(query, text, most)
    assert len(found) <= max(most, 0) or found == text
    place = 0
    for one in found.split(" … ") if found != text else []:
        place = text.index(one, place)
