"""Deduplicate: what was read twice is shown once."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.messages import Message, ToolResultMessage
from agentkit_py.processors import Deduplicate

from .conversations import CONTEXT, asked, call, gave, left, processed, shown, turns

LONG = "line\n" * 100
CHANGED = "[Outdated: order_id A1 is in a newer result, further down]"
CHANGED_CUSTOMER = "[Outdated: customer_id c1 is in a newer result, further down]"


def read(number: int, text: str = LONG, path: str = "a.py") -> list[Message]:
    """A file that is read."""
    one = call(number, "read_file", path=path)
    return [asked(one), gave(one, text)]


def test_of_equal_results_the_newest_stays() -> None:
    """The older one says where it is."""
    messages = [*read(1), *read(2, "other" * 80), *read(3)]
    kept = left(messages, Deduplicate())
    assert shown(kept)[1] == (
        'call_1: {"data":"[The same as the newer result of read_file with {\\"path\\":\\"a.py\\"}, '
        'further down]"}'
    )
    assert [a is b for a, b in zip(messages, kept, strict=True)] == [True, False] + [True] * 4


def test_a_file_that_was_read_again_replaces_its_earlier_content() -> None:
    """Only for tools that are said to read: yesterday's weather is not today's."""
    messages = [*read(1, LONG), *read(2, LONG + "more"), *read(3, LONG + "else", path="b.py")]
    assert left(messages, Deduplicate()) == messages
    kept = left(messages, Deduplicate(reads=["read_file"]))
    assert "[Outdated: read_file was called" in shown(kept)[1]
    assert kept[2:] == messages[2:]


def test_errors_and_short_results_stay() -> None:
    """A failed read does not replace a good one."""
    one, two = call(1, "read_file", path="a.py"), call(2, "read_file", path="a.py")
    failed = ToolResultMessage(two, {"error": {"name": "E", "message": LONG}})
    messages = [asked(one), gave(one, LONG), asked(two), failed]
    assert processed(Deduplicate(reads=["read_file"]), messages) is messages
    short = [*read(1, "x"), *read(2, "x")]
    assert processed(Deduplicate(), short) is short
    assert processed(Deduplicate(min_chars=1), short) is not short


def test_current_results_stay_and_replace_older_ones() -> None:
    """A current result stays even if a newer one is equal."""
    messages = [*read(1), *read(2), *read(3)]
    context = replace(CONTEXT, protected=frozenset(map(id, messages[2:4])))
    kept = left(messages, Deduplicate(), context=context)
    assert [a is b for a, b in zip(messages, kept, strict=True)] == [True, False] + [True] * 4


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "yy", LONG])), max_size=8))
def test_processing_twice_changes_nothing_more(reads: list[tuple[str, str]]) -> None:
    """Results replaced by references are compared, too, without a further change."""
    messages = [m for n, (path, text) in enumerate(reads) for m in read(n, text, path)]
    processor = Deduplicate(reads=["read_file"], min_chars=1)
    once = left(messages, processor)
    assert processed(processor, once) is once


def order(number: int, tool: str, status: str, **more: object) -> list[Message]:
    """Return a call that gives an order."""
    record = {"order_id": "A1", "status": status, "items": ["x" * 100], "city": "Linz", **more}
    one = call(number, tool, order_id="A1")
    return [asked(one), gave(one, json.dumps(record))]


def test_of_a_record_the_newest_state_stays_if_asked() -> None:
    """Whichever tool gave it; keys that are no longer there keep the older one."""
    messages = [*order(1, "get", "new"), *order(2, "pay", "paid"), *order(3, "send", "sent", by=7)]
    processor = Deduplicate(records=True, min_chars=1)
    kept = left(messages, processor)
    assert [CHANGED in line for line in shown(kept)] == [False, True, False, True, False, False]
    assert kept[4:] == messages[4:]
    assert left(messages, Deduplicate(min_chars=1)) == messages
    fewer = [*order(1, "send", "sent", by=7), *order(2, "get", "sent")]
    assert left(fewer, processor) == fewer
    context = replace(CONTEXT, protected=frozenset({id(messages[1])}))
    assert left(messages, processor, context=context)[1] is messages[1]


def test_another_part_of_a_record_is_not_its_older_state() -> None:
    """Pages and filters have the id of whose they are, and other rows or arguments."""

    def rows(number: int, tool: str, first: int, **arguments: object) -> list[Message]:
        one = call(number, tool, customer_id="c1", **arguments)
        found = [{"order_id": f"A{n}"} for n in range(first, first + 20)]
        return [asked(one), gave(one, json.dumps({"customer_id": "c1", "orders": found}))]

    processor = Deduplicate(records=True, min_chars=1)
    for messages in (
        [*rows(1, "orders", 0, page=1), *rows(2, "orders", 20, page=2)],
        [*rows(1, "open_orders", 0), *rows(2, "closed_orders", 20)],
        [*order(1, "get", "new"), *read(2), *read(3, json.dumps([{"order_id": "A1"}]))],
    ):
        assert left(messages, processor) == messages
    again = [*rows(1, "orders", 0), *rows(2, "orders", 20)]
    assert CHANGED_CUSTOMER in shown(left(again, processor))[1]


def test_settings_and_reason() -> None:
    """Both are made from a plain dict."""
    assert Deduplicate.from_settings({"reads": ["a"]}).reads == {"a"}
    assert Deduplicate().reason == "results that are repeated further down"
    assert Deduplicate.from_settings({"records": True}).reason.endswith("older states of records")
    messages = turns(3)
    assert processed(Deduplicate(), messages) is messages
