"""Context windows by model name."""

from __future__ import annotations

import pytest

from agentkit_py.models.capabilities import CONTEXT_WINDOWS, window_of


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-32k-0613", 32_768),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("gpt-4o-mini", 128_000),
        ("gpt-4.1-nano", 1_047_576),
        ("gpt-5-mini", 400_000),
        ("claude-sonnet-4-5", 200_000),
        ("gemini-2.5-flash", 1_048_576),
        ("GROK-4-fast-reasoning", 2_000_000),
        ("openrouter/openai/gpt-4o", 128_000),
        ("my-own-model", None),
        ("", None),
    ],
)
def test_the_longest_name_that_fits_is_the_one(model: str, tokens: int | None) -> None:
    """So that "gpt-4" does not win over "gpt-4-turbo"."""
    assert window_of(model) == tokens


def test_a_window_of_ones_own_comes_before_the_table() -> None:
    """Also one with a shorter name."""
    assert window_of("gpt-4o-mini", {"gpt": 5}) == 5
    assert window_of("gpt-4o-mini", {"claude": 5}) == CONTEXT_WINDOWS["gpt-4o"]
