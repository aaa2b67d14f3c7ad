"""CompressToolResults: long results become short ones that still tell what matters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolResultMessage
from agentkit_py.processors import ApproximateTokenizer, CompressToolResults
from agentkit_py.processors.tokenizers import count_text

from .conversations import CONTEXT, Counting, asked, call, gave, left

MEETINGS = [
    {"id": n, "title": f"Meeting {n}", "start_time": "2026-01-20T10:00:00", "notes": "x" * 80}
    for n in range(1, 21)
]
TOKENIZER = ApproximateTokenizer()


def compressed(data: Any, **options: Any) -> dict[str, Any]:
    """Return one result's compressed content."""
    one = call(1)
    result = gave(one, data)
    (_, made) = left([asked(one), result], CompressToolResults(keep_recent=0, **options))
    assert isinstance(made, ToolResultMessage)
    return cast("dict[str, Any]", made.content)


def test_the_seeds_example_keeps_success_counts_and_the_first_and_last_items() -> None:
    """Its words: 20 meetings, of which 16 are left out."""
    content = compressed({"success": True, "items": MEETINGS, "total": 20}, max_tokens=300)
    assert content["compressed"] is True
    assert content["original_tokens"] > 500
    data = content["data"]
    assert (data["success"], data["total"]) == (True, 20)
    assert [i if isinstance(i, str) else i["id"] for i in data["items"]] == [
        1,
        2,
        "… 16 of 20 items left out …",
        19,
        20,
    ]


def test_json_in_a_string_is_read_as_json() -> None:
    """Tools often return text that is JSON."""
    content = compressed(json.dumps(MEETINGS), max_tokens=300)
    assert len(content["data"]) == 5


def test_text_keeps_its_head_and_tail() -> None:
    """The cut names the number of missing characters."""
    text = "beginning " + "middle " * 500 + "end"
    data = compressed(text, max_tokens=60)["data"]
    assert data.startswith("beginning ")
    assert data.endswith("end")
    assert "characters left out" in data


def test_depth_keys_and_strings_are_bounded() -> None:
    """Telling keys stay before others."""
    deep: dict[str, Any] = {"a": {"b": {"c": {"d": 1}, "e": [1, 2]}}}
    many = {**{f"key{n}": n for n in range(30)}, "status": "ok", "deep": deep, "text": "y" * 3000}
    data = compressed({**many, "id": 7, "name": deep}, max_tokens=250)["data"]
    assert data["status"] == "ok"
    assert data["id"] == 7
    assert data["name"]["a"]["b"] == "{… 2 keys …}"
    assert data["…"].startswith("25 more keys: key7, key8")


def test_a_result_that_is_still_too_long_is_cut_as_text() -> None:
    """Every result must fit the limit, whatever its structure."""
    wide = {"k" * 200 + str(n): n for n in range(40)}
    content = compressed(wide, max_tokens=50)
    assert isinstance(content["data"], str)


def test_errors_stay_errors() -> None:
    """The envelope's key says so."""
    one = call(1)
    long = ToolResultMessage(one, {"error": {"name": "E", "message": "m" * 4000}})
    (_, made) = left([asked(one), long], CompressToolResults(keep_recent=0))
    assert isinstance(made, ToolResultMessage)
    assert made.is_error
    assert cast("Any", made.content)["error"]["name"] == "E"


def history() -> list[Message]:
    """Seven calls with long results."""
    calls = [call(n, "notes" if n == 1 else "search") for n in range(7)]
    return [m for c in calls for m in (asked(c), gave(c, "z" * 4000))]


def test_the_newest_results_and_excluded_tools_stay_as_they_are() -> None:
    """The agent's own current results stay too, and are not counted."""
    messages = history()
    kept = left(messages, CompressToolResults(keep_recent=2, exclude=["notes"]))
    same = [a is b for a, b in zip(messages[1::2], kept[1::2], strict=True)]
    assert same == [False, True, False, False, False, True, True]
    context = replace(CONTEXT, protected=frozenset(map(id, messages[-2:])))
    kept = left(messages, CompressToolResults(keep_recent=2), context=context)
    same = [a is b for a, b in zip(messages[1::2], kept[1::2], strict=True)]
    assert same == [False] * 4 + [True] * 3


def test_a_result_is_compressed_once_and_the_same_in_every_request() -> None:
    """The object is reused, so that the beginning of requests does not change."""
    messages = history()
    counting = Counting()
    context = replace(CONTEXT, tokenizer=counting)
    processor = CompressToolResults(keep_recent=2)
    first = left(messages, processor, context=context)
    count = len(counting.counted)
    again = left(messages, processor, context=context)
    assert [id(m) for m in first] == [id(m) for m in again]
    assert len(counting.counted) == count
    assert left(first, processor, context=context) == first


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=40,
)


@given(_json, st.integers(30, 120))
def test_whatever_a_tool_gave_the_result_fits_or_is_as_it_was(data: Any, limit: int) -> None:
    """It never grows, stays JSON, and compressing twice is compressing once."""
    one = call(1)
    result = gave(one, data)
    processor = CompressToolResults(limit, keep_recent=0)
    made = left([result], processor)[0]
    assert made is result or count_text(made, TOKENIZER) <= max(limit, 30)
    assert count_text(made, TOKENIZER) <= count_text(result, TOKENIZER)
    assert isinstance(made, ToolResultMessage)
    json.dumps(made.content)
    assert left([made], processor)[0] is made


def test_settings_have_the_seeds_names_and_are_checked() -> None:
    """`tool_output_max_tokens` of its configuration."""
    made = CompressToolResults.from_settings({"tool_output_max_tokens": 100, "exclude": ["a"]})
    assert made == CompressToolResults(100, exclude=frozenset({"a"}))
    assert made.reason == "tool results over 100 tokens, but for the newest 5"
    with pytest.raises(ConfigurationError, match=r"tool_output_max_tokens must be .* at least 30"):
        CompressToolResults.from_settings({"tool_output_max_tokens": 5})
    with pytest.raises(ConfigurationError, match="exclude must be a list of names, not 'a'"):
        CompressToolResults(exclude="a")
