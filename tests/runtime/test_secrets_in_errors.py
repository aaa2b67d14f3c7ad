"""Secrets in the text of errors."""

from __future__ import annotations

import pytest

from agentkit_py._core.secrets import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://admin:pw@db.internal/prod failed", "postgres://[hidden] failed"),
        ("redis://:pw@cache:6379/0", "redis://[hidden]"),
        ("https://token@git.internal/a.git: 403", "https://[hidden] 403"),
        ("password=pw host=db", "password=[hidden] host=db"),
        ("{'api_key': 'abc', 'n': 1}", "{'api_key': '[hidden]', 'n': 1}"),
        ("Authorization: Bearer abc.def", "Authorization: [hidden]"),
        ("aws_secret_key=abc; region=x", "aws_secret_key=[hidden]; region=x"),
        ("key sk-abcdefghijklmnopqrst is not valid", "key [hidden] is not valid"),
        ("see https://example.com/a?b=c", "see https://example.com/a?b=c"),
        ("ada@example.com has no account", "ada@example.com has no account"),
        ("Unexpected token: }", "Unexpected token: }"),
        ("the password is wrong", "the password is wrong"),
    ],
)
def test_secrets_are_hidden_and_other_words_stay(text: str, shown: str) -> None:
    """An address with a user goes as a whole."""
    assert without_secrets(text) == shown


@pytest.mark.parametrize("piece", ["a", "a-", "x://", "x://a:", "secret", "password=", "@", "sk-"])
def test_hiding_takes_linear_time(piece: str) -> None:
    """Text of strangers, however long."""
    assert len(without_secrets(piece * 50_000)) > 0
