"""Counting tokens: by tiktoken, by estimate, by a tokenizer of one's own."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import tiktoken

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    ApproximateTokenizer,
    TiktokenTokenizer,
    TokenLimiter,
    apply_processors,
    default_tokenizer,
)
from agentkit_py.processors.tokenizers import (
    as_tokenizer,
    count_messages,
    count_text,
    prepare,
)


@pytest.mark.parametrize(
    ("encoding", "tokens"),
    [
        ("o200k_base", 100),
        ("cl100k_base", 105),
        ("p50k_base", 111),
        ("r50k_base", 120),
        ("gpt2", 132),
        ("unheard_of", 105),
    ],
)
def test_an_estimate_is_the_length_by_the_usual_ratio_of_the_encoding_rounded_up(
    encoding: str, tokens: int
) -> None:
    """420 characters; encodings that are not known are taken to have 4 characters per token."""
    assert ApproximateTokenizer(encoding).count("x" * 420) == tokens


def test_an_estimate_measures_length_as_javascript_does() -> None:
    """An emoji has two UTF-16 units; half a one, as broken clients send, has one."""
    tokenizer = ApproximateTokenizer(chars_per_token=1)
    assert [tokenizer.count(text) for text in ("", "é", "😀", "\ud83d")] == [0, 1, 2, 1]


def test_an_estimate_with_a_ratio_of_its_own_has_its_own_key() -> None:
    """Its counts must not be mixed up with those of the usual ratio."""
    assert ApproximateTokenizer(chars_per_token=3).key == "approximate:3"
    assert ApproximateTokenizer("gpt2").key == "approximate:gpt2"
    assert ApproximateTokenizer() == ApproximateTokenizer()


@pytest.mark.parametrize("ratio", [0, -1, True, float("nan")])
def test_a_ratio_that_is_not_positive_is_refused(ratio: float) -> None:
    """The ratio is a divisor."""
    with pytest.raises(ConfigurationError, match="chars_per_token"):
        ApproximateTokenizer(chars_per_token=ratio)


def test_tiktoken_counts_like_tiktoken(real_tiktoken: Path) -> None:
    """The counts equal tiktoken's for each encoding."""
    text = "The customer asked: où est ma commande? 😀"
    for name in ("o200k_base", "cl100k_base"):
        tokenizer = TiktokenTokenizer(name)
        assert tokenizer.count(text) == len(tiktoken.get_encoding(name).encode(text))
        assert tokenizer.key == f"tiktoken:{name}"


def test_special_tokens_count_as_the_text_they_are(real_tiktoken: Path) -> None:
    """Users write them, and tiktoken refuses them by default."""
    assert TiktokenTokenizer().count("<|endoftext|>") > 1
    assert TiktokenTokenizer().count("\ud800 <|fim_prefix|>") > 1


def test_a_million_blanks_are_counted(real_tiktoken: Path) -> None:
    """Tiktoken's regex engine panics on them, with what no `except Exception` catches."""
    assert 0 < TiktokenTokenizer().count(" " * 1_000_000) < 1_000_000


def test_the_default_is_tiktoken_where_it_can_be_loaded(real_tiktoken: Path) -> None:
    """An option turns tiktoken off."""
    text = "internationalisation"
    assert default_tokenizer().count(text) == TiktokenTokenizer().count(text)
    assert default_tokenizer().key == "tiktoken:o200k_base"
    assert default_tokenizer(use_tiktoken=False).key == "approximate:o200k_base"


async def test_an_encoding_that_does_not_exist_is_estimated_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A missing encoding that was asked for explicitly is an error instead."""
    with caplog.at_level(logging.WARNING):
        tokenizer = await prepare(default_tokenizer("no_such_encoding"))
        assert tokenizer.count("x" * 41) == 11
        await prepare(default_tokenizer("no_such_encoding"))
        assert default_tokenizer("no_such_encoding").key == "approximate:no_such_encoding"
        with pytest.raises(ConfigurationError, match="no_such_encoding"):
            TiktokenTokenizer("no_such_encoding").count("x")
    assert len(caplog.records) == 1


class Words:
    """A tokenizer of one's own that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        """Words."""
        self.asked += 1
        return len(text.split())


class NamedWords(Words):
    """A tokenizer with a key."""

    key = "words"


def test_a_tokenizer_of_ones_own_needs_only_to_count() -> None:
    """Each gets a key of its own unless it has one."""
    one, other = as_tokenizer(Words()), as_tokenizer(Words())
    assert one.count("two words") == 2
    assert one.key != other.key
    named = NamedWords()
    assert as_tokenizer(named) is named
    assert as_tokenizer(len).count("abc") == 3


@pytest.mark.parametrize("value", [None, 3, "words", Words])
def test_a_value_that_cannot_count_is_refused_as_tokenizer(value: object) -> None:
    """A class is not one either, nor is a string, whose ``count`` counts something else."""
    with pytest.raises(ConfigurationError, match="count"):
        as_tokenizer(value)  # type: ignore[arg-type] - on purpose: it is refused


async def test_a_message_is_counted_once_per_tokenizer() -> None:
    """Processors, reports and runs share the count."""
    message = TextMessage("user", "three short words")
    words = Words()
    tokenizer = as_tokenizer(words)
    for _ in range(3):
        assert count_text(message, tokenizer) == 3
        assert count_messages([message, message], tokenizer) == 6
        await apply_processors([message], [TokenLimiter(5, tokenizer=tokenizer)])
    assert words.asked == 1


def test_fractions_are_added_before_they_are_rounded() -> None:
    """Three messages of a third each are one token."""
    thirds = as_tokenizer(lambda text: len(text) / 4)
    messages = [TextMessage("user", "x") for _ in range(4)]
    assert count_messages(messages, thirds) == 1
    assert count_messages(messages[:1], thirds) == 1
    assert count_messages([], thirds) == 0


def test_calls_and_results_are_counted_by_their_compact_json() -> None:
    """The upstream proposal counts so; malformed arguments count as their text."""
    length = as_tokenizer(len)
    call = ToolCall("c", "search", {"q": "é"})
    assert count_text(ToolCallMessage([call]), length) == len(
        '[{"type":"tool","id":"c","name":"search","input":{"q":"é"}}]'
    )
    assert count_text(ToolResultMessage(call, "ok"), length) == len('"ok"')
    broken = ToolCallMessage([ToolCall("c", "search", {}, malformed="x" * 1000)])
    assert count_text(broken, length) > 1000
