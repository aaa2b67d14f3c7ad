"""Capabilities of models by their names."""

from __future__ import annotations

import pytest

from agentkit_py.models.capabilities import (
    CONTEXT_WINDOWS,
    Capabilities,
    capabilities_of,
    window_of,
)


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
    """The name "gpt-4" must not win over the longer "gpt-4-turbo"."""
    assert window_of(model) == tokens


def test_a_window_of_ones_own_comes_before_the_table() -> None:
    """An own entry wins even with a shorter name."""
    assert window_of("gpt-4o-mini", {"gpt": 5}) == 5
    assert window_of("gpt-4o-mini", {"claude": 5}) == CONTEXT_WINDOWS["gpt-4o"]


NEWEST_CLAUDE = Capabilities()
OLDER_CLAUDE = Capabilities(prefill=True)
O_SERIES = Capabilities(parallel_tool_calls=False, reasoning_items=True)
REASONING_GPT = Capabilities(reasoning_items=True)
SIGNING_GEMINI = Capabilities(signed_calls=True)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-3-5-haiku-latest", OLDER_CLAUDE),
        ("claude-sonnet-4-20250514", OLDER_CLAUDE),
        ("us.anthropic.claude-opus-4-6-v1", NEWEST_CLAUDE),
        ("gpt-4.1", Capabilities()),
        ("gpt-5-mini", REASONING_GPT),
        ("gpt-5-chat-latest", Capabilities()),
        ("openai/O3", O_SERIES),
        ("my-o4-finetune", O_SERIES),
        ("gpt-4o", Capabilities()),
        ("gemini-2.5-flash", Capabilities()),
        ("gemini-3-pro-preview", SIGNING_GEMINI),
        ("my-own-model", Capabilities()),
        ("", Capabilities()),
    ],
)
def test_a_models_capabilities_are_those_of_its_family_since_its_version(
    model: str, expected: Capabilities
) -> None:
    """The family's name stands alone in the model's, wherever it stands."""
    assert capabilities_of(model) == expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-7", NEWEST_CLAUDE),
        ("claude-latest", NEWEST_CLAUDE),
        ("o9", O_SERIES),
        ("gpt-12.5", REASONING_GPT),
        ("gemini-9-ultra", SIGNING_GEMINI),
        ("gemini-flash-latest", SIGNING_GEMINI),
    ],
)
def test_an_unknown_newer_model_counts_as_the_newest_known(
    model: str, expected: Capabilities
) -> None:
    """A name without a version counts as the newest, too."""
    assert capabilities_of(model) == expected
