"""Words for times, understood against the day on which they were said."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import Agent, AgentResult, MemoryHistory, UserMessage
from agentkit_py.processors import Recall
from agentkit_py.processors.time_words import MAX_PERIODS, Period, periods
from agentkit_py.search import ranked
from agentkit_py.testing import HashingEmbedder, ScriptedModel

WEDNESDAY = date(2026, 5, 13)
DAYS = st.dates(date(1990, 1, 1), date(2090, 12, 31))
UNITS = st.sampled_from(["day", "week", "month", "year"])
MONTHS: list[str] = [date(2000, month, 1).strftime("%B") for month in range(1, 13)]
WORDS: list[str] = [
    *("last", "this", "on", "in", "of", "ago", "week", "month", "year", "days", "two", "a", "the"),
    *("yesterday", "31", "2024", "february", "friday", "may", "29th", "99999", "day", "before"),
    *("march", ",", ".", "2024-02-30", "2023-13-01", "0", "past", "three", "0000"),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What did I say yesterday?", [("2026-05-12", "2026-05-12")]),
        ("the day before yesterday", [("2026-05-11", "2026-05-11")]),
        ("LAST\nWeek", [("2026-05-04", "2026-05-10")]),
        ("this month", [("2026-05-01", "2026-05-13")]),
        ("last year", [("2025-01-01", "2025-12-31")]),
        ("three days ago", [("2026-05-10", "2026-05-10")]),
        ("2 weeks ago", [("2026-04-27", "2026-05-03")]),
        ("a couple of months ago", [("2026-03-01", "2026-03-31")]),
        ("in the past 3 weeks", [("2026-04-22", "2026-05-13")]),
        ("on Friday, or last Wednesday", [("2026-05-08",) * 2, ("2026-05-06",) * 2]),
        ("in March", [("2026-03-01", "2026-03-31")]),
        ("in December", [("2025-12-01", "2025-12-31")]),
        ("March 2024", [("2024-03-01", "2024-03-31")]),
        ("March 5th, the 5th of March 2024", [("2026-03-05",) * 2, ("2024-03-05",) * 2]),
        ("May 14", [("2025-05-14",) * 2]),
        ("29 February", [("2024-02-29",) * 2]),
        ("on 2024-05-27", [("2024-05-27",) * 2]),
        ("in 2023", [("2023-01-01", "2023-12-31")]),
        ("May I march on? 31 June, 2024-02-30, 9999 years ago, Monday", []),
    ],
)
def test_english_words_for_times(text: str, found: list[tuple[str, str]]) -> None:
    """A month or a weekday alone may be another word."""
    wanted = [Period(*map(date.fromisoformat, pair)) for pair in found]
    assert periods(text, WEDNESDAY) == wanted


@given(st.lists(st.sampled_from(WORDS), max_size=40), DAYS)
def test_any_words_give_periods_that_begin_before_they_end(words: list[str], said: date) -> None:
    """Nothing that is written like a date fails."""
    found = periods(" ".join(words), said)
    assert all(one.first <= one.last for one in found)
    assert len(found) <= MAX_PERIODS


@given(DAYS, st.integers(0, 9_000))
def test_so_many_days_ago_is_that_day(said: date, count: int) -> None:
    """Also across months and leap years."""
    day = said - timedelta(days=count)
    assert periods(f"{count} days ago", said) == [Period(day, day)]
    assert periods(f"It was on {day.isoformat()}.", said) == [Period(day, day)]
    assert periods(f"{MONTHS[day.month - 1]} {day.day}, {day.year}", said) == [Period(day, day)]


@given(DAYS, st.integers(1, 50), UNITS)
def test_a_past_period_ends_in_the_past_and_has_the_length_of_its_unit(
    said: date, count: int, unit: str
) -> None:
    """Weeks begin on Monday."""
    (ago,) = periods(f"{count} {unit}s ago", said)
    (last,) = periods(f"last {unit}", said) if unit != "day" else (ago,)
    lengths = {"day": {1}, "week": {7}, "month": {28, 29, 30, 31}, "year": {365, 366}}
    for one in (ago, last):
        assert one.last < said
        assert (one.last - one.first).days + 1 in lengths[unit]
    if unit == "week":
        assert ago.first.weekday() == 0


@given(DAYS, st.sampled_from(MONTHS))
def test_a_month_is_the_newest_of_its_name_that_has_begun(said: date, month: str) -> None:
    """Never one to come."""
    (found,) = periods(f"in {month}", said)
    assert found.first.month == MONTHS.index(month) + 1
    assert said - timedelta(days=366) < found.first <= said


@given(
    st.lists(st.sampled_from(["red shoes", "a blue hat", "shoes", ""]), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_a_text_of_the_time_asked_for_ranks_no_lower(texts: list[str], index: int) -> None:
    """And without any, ranks are as they were."""
    index %= len(texts)
    plain = [place for place, _ in ranked("shoes", texts, {})]
    timely = [place for place, _ in ranked("shoes", texts, {}, {index})]
    assert index in timely
    if index in plain:
        assert timely.index(index) <= plain.index(index)


def turn(text: str, day: str) -> AgentResult:
    """Return what the user said on a day."""
    return AgentResult.from_user(text, created_at=datetime.fromisoformat(f"{day}T12:00:00+00:00"))


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What did we talk about last week?", "[2026-05-06]\nuser: I bought a lamp."),
        ("What was it in March?", "[2026-03-20]\nuser: The roof leaks."),
        ("Where was I on April 30?", "[2026-05-01]\nuser: Yesterday we met in Linz."),
        ("Where was I 13 days ago?", "[2026-05-01]\nuser: Yesterday we met in Linz."),
    ],
)
async def test_recall_understands_time_words_against_message_dates(
    question: str, said: str
) -> None:
    """In the question against now, in a message against the day on which it was said."""
    assert said in await recalled(question, datetime(2026, 5, 13, 9, tzinfo=UTC))


@pytest.mark.parametrize("hours", [-12, 14])
async def test_recall_counts_days_in_utc_wherever_the_user_is(hours: int) -> None:
    """A client may send its time with another zone's offset."""
    now = datetime(2026, 5, 13, 9 if hours < 0 else 15, tzinfo=UTC)
    local = now.astimezone(timezone(timedelta(hours=hours)))
    assert local.date() != now.date()
    assert "[2026-05-06]\nuser: I bought a lamp." in await recalled("What was 7 days ago?", local)


async def recalled(question: str, now: datetime) -> str:
    """Return the turn that is recalled for a question."""
    store = MemoryHistory()
    await store.add_thread("t")
    entries = [
        turn("The roof leaks.", "2026-03-20"),
        turn("Yesterday we met in Linz.", "2026-05-01"),
        turn("I bought a lamp.", "2026-05-06"),
        turn("Hello.", "2026-05-12"),
    ]
    await store.append("t", entries)
    model = ScriptedModel("ok")
    agent = Agent(
        name="a",
        system="S",
        model=model,
        history=store,
        processors=[Recall(HashingEmbedder(), 1, keep_recent=1, neighbours=0)],
    )
    await agent.run(UserMessage(question, client_timestamp=now), thread_id="t")
    found = next(
        str(m["content"]) for m in model.bodies[0]["messages"] if "<recalled" in str(m["content"])
    )
    assert found.count("user: ") == 1
    return found
