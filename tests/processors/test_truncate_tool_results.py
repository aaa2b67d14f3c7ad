"""TruncateToolResults: long results end early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import ToolResultMessage
from agentkit_py.processors import TruncateToolResults

from .conversations import CONTEXT, call, gave, left, turns


def cut(data: Any, chars: int = 100) -> Any:
    """Return one result's truncated data."""
    (made,) = left([gave(call(1), data)], TruncateToolResults(chars))
    assert isinstance(made, ToolResultMessage)
    assert isinstance(made.content, dict)
    return made.content["data"]


def test_the_beginning_stays_and_the_rest_is_counted() -> None:
    """The result has at most as many characters as requested."""
    data = cut("abc" * 100)
    assert len(data) <= 100
    assert data.startswith("abcabc")
    assert data.endswith("characters left out]")
    assert cut("abc" * 100, 5) == "abca…"


def test_json_is_cut_as_text() -> None:
    """Half an object is no object."""
    assert cut({"items": list(range(200))}).startswith('{"items":[0,1,2')


def test_short_results_stay_as_they_are() -> None:
    """Measured without the envelope."""
    result = gave(call(1), "x" * 100)
    assert left([result], TruncateToolResults(100)) == [result]
    messages = turns(3)
    assert [id(m) for m in left(messages, TruncateToolResults())] == [id(m) for m in messages]


def test_the_newest_and_excluded_stay_and_current_results_do_not() -> None:
    """A result that is too long for the model is so from the first."""
    long = [gave(call(n, "notes" if n == 0 else "search"), "x" * 500) for n in range(3)]
    kept = left(long, TruncateToolResults(50, keep_recent=1, exclude=["notes"]))
    assert [a is b for a, b in zip(long, kept, strict=True)] == [True, False, True]
    context = replace(CONTEXT, protected=frozenset({id(long[2])}))
    kept = left(long, TruncateToolResults(50), context=context)
    assert kept[2] is not long[2]


def test_content_without_an_envelope_stays_without() -> None:
    """Other stores hold plain text."""
    (made,) = left([ToolResultMessage(call(1), "x" * 500)], TruncateToolResults(50))
    assert isinstance(made, ToolResultMessage)
    assert isinstance(made.content, str)
    assert len(made.content) <= 50


@given(st.text(), st.integers(1, 80))
def test_truncating_twice_changes_nothing_more(text: str, chars: int) -> None:
    """The truncated text, including its note, is within the limit."""
    (made,) = left([gave(call(1), text)], TruncateToolResults(chars))
    assert left([made], TruncateToolResults(chars))[0] is made
    assert isinstance(made, ToolResultMessage)
    assert isinstance(made.content, dict)
    assert len(str(made.content["data"])) <= max(chars, 1)


def test_settings_are_checked() -> None:
    """The error names the key."""
    made = TruncateToolResults.from_settings({"max_chars": 10, "exclude_tools": ["a"]})
    assert made.reason == "tool results over 10 characters"
    with pytest.raises(ConfigurationError, match="max_chars must be"):
        TruncateToolResults.from_settings({"max_chars": "10"})
