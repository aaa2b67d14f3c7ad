"""Deduplicate: what was read twice is shown once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.messages import Message, ToolResultMessage
from agentkit_py.processors import Deduplicate

from .conversations import CONTEXT, asked, call, gave, left, processed, shown, turns

LONG = "line\n" * 100


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


def test_a_file_that_was_read_anew_replaces_what_it_was() -> None:
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


def test_settings_and_reason() -> None:
    """Both are made from a plain dict."""
    assert Deduplicate.from_settings({"reads": ["a"]}).reads == {"a"}
    assert Deduplicate().reason == "results that stand further down again"
    messages = turns(3)
    assert processed(Deduplicate(), messages) is messages
