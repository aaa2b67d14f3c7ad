"""The facts of users: written, corrected, forgotten, and never another's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit_py import AgentResult, MemoryHistory, State
from agentkit_py.errors import ConfigurationError, ModelError, ThreadNotFoundError
from agentkit_py.history.users import Fact
from agentkit_py.memory import Heard, Learned, Memory, extractor
from agentkit_py.messages import TextMessage, text_of
from agentkit_py.processors import apply_processors
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.stores import for_user, redacted
from agentkit_py.testing import ScriptedModel

ADA: dict[str, Any] = {"user_id": "ada", "tenant": "acme"}


def heard(*texts: str) -> State[dict[str, Any]]:
    """A state of Ada's with messages."""
    turns = [AgentResult.from_user(text, id=f"m{i}") for i, text in enumerate(texts)]
    return State(ADA, results=turns)


@pytest.mark.parametrize(
    ("user", "tenant", "what"),
    [(None, "acme", "no user"), ("", "acme", "no user"), ("ada", None, "no tenant")],
)
def test_memory_without_a_user_is_refused(user: str | None, tenant: str | None, what: str) -> None:
    """The error says what is missing, and where it belongs."""
    with pytest.raises(ConfigurationError, match=what):
        Memory(MemoryHistory()).of(user=user, tenant=tenant)


async def test_memory_of_one_tenant_needs_no_other_and_takes_none() -> None:
    """An application with one tenant names it once."""
    memory = Memory(MemoryHistory(), tenant="acme")
    await memory.of(user="ada").remember("Likes tea.")
    assert len(await memory.of(user="ada", tenant="acme").facts()) == 1
    with pytest.raises(ConfigurationError, match="another tenant"):
        memory.of(user="ada", tenant="other")


def test_settings_that_make_no_sense_are_refused() -> None:
    """Where they are given."""
    with pytest.raises(ConfigurationError, match="pass the store"):
        Memory("threads.db")  # pyright: ignore[reportArgumentType] - a wrong kind of value
    with pytest.raises(ConfigurationError, match="most=0"):
        Memory(MemoryHistory(), most=0)
    with pytest.raises(ConfigurationError, match="k=0"):
        Memory(MemoryHistory()).recall(0)


async def test_same_words_are_one_fact_and_come_back_after_a_correction() -> None:
    """Berlin, Munich, and Berlin again."""
    mine = Memory(MemoryHistory()).of(user="ada", tenant="acme")
    berlin = await mine.remember(" Lives in\nBerlin.\x1b ")
    assert berlin.text == "Lives in Berlin."
    assert (await mine.remember("Lives in Berlin.")).id == berlin.id
    munich = await mine.correct(berlin.id, "Lives in Munich.")
    again = await mine.remember("Lives in Berlin.", replaces=munich.id)
    assert [one.id for one in await mine.facts()] == [again.id]
    assert [one.text[9:-1] for one in await mine.facts(replaced=True)] == [
        "Berlin",
        "Munich",
        "Berlin",
    ]
    assert await mine.forget(munich.id)
    assert await mine.facts(replaced=True) == []
    assert not await mine.forget(munich.id)


async def test_repeated_write_of_a_replaced_fact_changes_nothing() -> None:
    """It has the key of the first."""
    mine = Memory(MemoryHistory()).of(user="ada", tenant="acme")
    first = await mine.remember("Likes tea.", key="call")
    await mine.correct(first.id, "Likes coffee.")
    await mine.remember("Likes tea.", key="call")
    assert [one.text for one in await mine.facts()] == ["Likes coffee."]
    await mine.remember("Likes tea.", key="another")
    assert len(await mine.facts()) == 2


async def test_facts_that_cannot_be_kept_are_refused() -> None:
    """Empty, too long, too many, or in place of none."""
    mine = Memory(MemoryHistory(), most=1).of(user="ada", tenant="acme")
    for text in ("", " \u200b\n", "x" * 1001):
        with pytest.raises(ConfigurationError, match="1 to 1,000 characters"):
            await mine.remember(text)
    fact = await mine.remember("Likes tea.")
    with pytest.raises(ConfigurationError, match="The memory is full: 1 "):
        await mine.remember("Likes cake.")
    await mine.correct(fact.id, "Likes coffee.")
    for change in (mine.correct("nope", "x"), mine.remember("x", replaces="nope")):
        with pytest.raises(ConfigurationError, match="Unknown fact 'nope'"):
            await change
    with pytest.raises(ThreadNotFoundError):
        await mine.remember("x", replaces=fact.id, thread_id="nope")


async def test_a_correction_is_deleted_with_the_thread_of_the_corrected_fact() -> None:
    """And stays with the agent that alone knew it."""
    store = MemoryHistory()
    await store.add_thread("t", user_id="ada")
    mine = Memory(store).of(user="ada", tenant="acme")
    fact = await mine.remember("Likes tea.", thread_id="t", agent="desk")
    made = await mine.correct(fact.id, "Likes coffee.")
    assert (made.thread_id, made.agent, made.replaces) == ("t", "desk", fact.id)
    await store.delete_thread("t")
    assert await mine.facts(replaced=True) == []


async def test_facts_in_a_redacted_store_are_masked() -> None:
    """Also through a store that is one user's."""
    store = MemoryHistory()
    for wrapped in (redacted(store, ["email"]), redacted(for_user(store, "ada"), ["email"])):
        memory = Memory(wrapped)  # pyright: ignore[reportArgumentType] - the type of a wrapped store is HistoryStore
        await memory.of(user="ada", tenant="acme").remember("Writes as ada@example.com.")
    found = await store.list_facts("acme", "ada")
    assert [one.text for one in found] == ["Writes as [email]."] * 2


async def test_recall_shows_facts_with_words_of_the_input_then_the_newest() -> None:
    """In one message before this run's, which no fact can end; oldest first."""
    memory = Memory(MemoryHistory(), clock=lambda: datetime(2026, 1, 4, tzinfo=UTC))
    mine = memory.of(user="ada", tenant="acme")
    texts = ("Flies from Graz.", "Likes tea.", "Has a cat.", "Is </memory> tall.")
    ids = [(await mine.remember(text, key=text)).id for text in texts]
    past = TextMessage("assistant", "Hello.", from_history=True)
    now = TextMessage("user", "A flight from Graz?", from_history=False)
    context = ProcessorContext(**ADA, input="A flight from Graz?")
    left = await apply_processors([past, now], [memory.recall(2)], context)
    assert (left[0], left[2]) == (past, now)
    shown = text_of(left[1])
    assert shown.splitlines()[3:] == [
        f"- [{ids[0]}] Flies from Graz. (2026-01-04)",
        f"- [{ids[3]}] Is &lt;/memory> tall. (2026-01-04)",
        "</memory>",
    ]


class Meanings:
    """Knows what two texts mean, and which it was asked for."""

    key = "meanings"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one direction for food, another for the rest."""
        self.asked += texts
        if "fails" in texts:
            raise ModelError("no embedder today", provider="ours", model="meanings")
        return [[1.0, 0.0] if "meat" in t or "eat" in t else [0.0, 1.0] for t in texts]


async def test_facts_are_found_by_meaning_and_embedded_once() -> None:
    """Each user's alone; a fact that was forgotten is not found again."""
    meanings = Meanings()
    memory = Memory(MemoryHistory(), embedder=meanings)
    mine = memory.of(user="ada", tenant="acme")
    fact = await mine.remember("Takes no meat.")
    await mine.remember("Has a cat.")
    await mine.remember("Likes tea.")
    await memory.of(user="ada", tenant="globex").remember("Has meat daily.")
    assert [one.text for one in await mine.search("What does she eat?", 1)] == [fact.text]
    assert [one.text for one in await mine.search("What to eat?", 1)] == [fact.text]
    assert len(meanings.asked) == 5
    assert "Has meat daily." not in meanings.asked
    await mine.forget(fact.id)
    assert [one.text for one in await mine.search("What to eat?")] == ["Likes tea.", "Has a cat."]
    context = ProcessorContext(**ADA, input="fails")
    left = await apply_processors([], [memory.recall()], context)
    assert "Has a cat." in text_of(left[0])  # the newest, without the embedder
    wrong: Any = "minilm"
    with pytest.raises(ConfigurationError, match="embed"):
        Memory(MemoryHistory(), embedder=wrong)


@pytest.mark.parametrize("whose", [{"user_id": "ada"}, {"tenant": "acme"}, {}])
async def test_recall_without_a_user_shows_nothing_and_says_so(
    whose: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """In the report and in the log."""
    memory = Memory(MemoryHistory())
    await memory.of(user="ada", tenant="acme").remember("Likes tea.")
    context = ProcessorContext(**whose)
    assert await apply_processors([], [memory.recall()], context) == ()
    assert "Nothing is remembered: there is no " in caplog.text


async def test_learned_facts_have_their_message_and_are_learned_once() -> None:
    """A source or fact that the model made up does no harm."""
    store = MemoryHistory()
    memory = Memory(store, shared=False)
    mine = memory.of(user="ada", tenant="acme")
    tea = await mine.remember("Likes tea.")
    await mine.remember("Is rich.", agent="desk")
    seen: list[tuple[Sequence[Heard], Sequence[Fact]]] = []

    async def extract(messages: Sequence[Heard], known: Sequence[Fact]) -> Sequence[Learned]:
        seen.append((messages, known))
        coffee = Learned(text="Likes coffee.", source=0, replaces=tea.id)
        return [coffee, Learned(text="Has a cat.", source=99, replaces="made up")]

    state = heard("Hi.", "Coffee now.", "I have a cat.")
    found = await memory.learn(state, extract, last=2)
    assert [(one.text, one.message_id) for one in found] == [
        ("Likes coffee.", "m1"),
        ("Has a cat.", "m2"),
    ]
    assert [one.id for one in seen[0][0]] == ["m1", "m2"]
    assert [one.id for one in seen[0][1]] == [tea.id]
    await memory.learn(state, extract)
    assert {one.text for one in await mine.facts()} == {"Likes coffee.", "Has a cat.", "Is rich."}
    with pytest.raises(ConfigurationError, match="no user"):
        await memory.learn(State({"tenant": "acme"}), extract)
    assert await memory.learn(State(ADA), extract) == []


async def test_found_facts_that_cannot_be_kept_are_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those after them are kept: an empty one, one that is too long, one without room."""
    memory = Memory(MemoryHistory(), most=2)

    async def extract(messages: Sequence[Heard], known: Sequence[Fact]) -> Sequence[Learned]:
        del messages, known
        return [Learned(text=text) for text in (" ", "x" * 2000, "one", "two", "three")]

    found = await memory.learn(heard("Hi."), extract)
    assert [one.text for one in found] == ["one", "two"]
    warnings = [record.message for record in caplog.records if "learn: " in record.message]
    assert len(warnings) == 3
    assert "is full" in warnings[2]


async def test_extractor_asks_a_model_with_messages_and_known_facts() -> None:
    """The question holds data only, and the answer is checked."""
    memory = Memory(MemoryHistory())
    mine = memory.of(user="ada", tenant="acme")
    tea = await mine.remember("Likes tea.")
    model = ScriptedModel(
        f'{{"facts": [{{"text": "Likes coffee.", "source": 0, "replaces": "{tea.id}"}}]}}'
    )
    (fact,) = await memory.learn(heard("Coffee for me."), extractor(model))
    assert (fact.text, fact.replaces, fact.message_id) == ("Likes coffee.", tea.id, "m0")
    model.assert_saw(tea.id, "Likes tea.", "Coffee for me.")


async def test_two_corrections_at_once_leave_one() -> None:
    """The later holds."""
    mine = Memory(MemoryHistory()).of(user="ada", tenant="acme")
    fact = await mine.remember("Likes tea.")
    await asyncio.gather(*(mine.remember(f"Likes {n}.", replaces=fact.id) for n in range(5)))
    assert len(await mine.facts()) == 1
    assert len(await mine.facts(replaced=True)) == 6
