"""Redact and Redactor: personal data masked wherever it stands."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import Redact, Redactor

from .conversations import CONTEXT, left, processed, turns, user

CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail ada.l+x@mail.example.co.uk now", "mail [email] now"),
        (f"card {CARD}.", "card [card]."),
        ("card 4111111111111111", "card [card]"),
        ("order 4111111111111112", "order 4111111111111112"),
        ("iban DE89 3704 0044 0532 0130 00", "iban [iban]"),
        ("call +43 660 1234567 or (212) 555-0123", "call [phone] or [phone]"),
        ("ssn 078-05-1120", "ssn [ssn]"),
        ("from 192.168.0.1.", "from [ip]."),
        ("version 1.2.3 of 2026-01-20, 10:30, order 17", None),
        ("", None),
    ],
)
def test_built_in_patterns_mask_personal_data_and_nothing_else(
    text: str, masked: str | None
) -> None:
    """Similar text that is not personal stays."""
    assert Redactor().text(text) == (text if masked is None else masked)


def test_redactor_takes_named_bare_and_compiled_patterns_and_functions() -> None:
    """Named by their mask, bare, or compiled; or a function."""
    assert Redactor({"booking": r"BK\d+"}).text("see BK17") == "see [booking]"
    assert Redactor([r"BK\d+", "email"]).text("BK1 a@b.io") == "[redacted] [email]"
    assert Redactor([re.compile("ada", re.IGNORECASE)]).text("Ada!") == "[redacted]!"
    assert Redactor(lambda text: text.replace("Ada", "A.")).text("Ada!") == "A.!"


def test_everything_in_a_message_is_masked_but_names_and_ids() -> None:
    """Arguments, results, keys, numbers, parts, reasoning."""
    redactor = Redactor(["email", "card"])
    call = ToolCall("a@b.io", "mail_a", {"to": ["a@b.io"], "n": 1, "card": 4111111111111111})
    messages = [
        user("a@b.io"),
        TextMessage("user", [TextContent("a@b.io"), TextContent("hi")]),
        ToolCallMessage([call], agent="me"),
        ToolResultMessage(call, {"data": {"a@b.io": True, "[email]": None, "c@d.io": 2.5}}),
        ReasoningMessage("of a@b.io"),
        ToolCallMessage([ToolCall("1", "x", malformed="{a@b.io")]),
    ]
    kept = cast("list[Any]", left(messages, Redact(redactor)))
    assert kept[0].content == "[email]"
    assert kept[1].content == (TextContent("[email]"), TextContent("hi"))
    (made,) = kept[2].tools
    assert (made.id, made.name) == ("a@b.io", "mail_a")
    assert made.arguments == {"to": ["[email]"], "n": 1, "card": "[card]"}
    assert kept[3].content == {"data": {"[email]": True, "[email] 2": None, "[email] 3": 2.5}}
    assert kept[3].tool == made
    assert kept[4].content == "of [email]"
    assert kept[5].tools[0].malformed == "{[email]"


def test_signed_reasoning_goes_back_only_if_nothing_in_it_is_masked() -> None:
    """Its provider wants it word for word."""
    signed = {"type": "thinking", "thinking": "of a@b.io", "signature": "c2ln"}
    mailed = ReasoningMessage("of a@b.io", provider_metadata={"anthropic": signed})
    clean = ReasoningMessage("x", provider_metadata={"anthropic": {**signed, "thinking": "x"}})
    listed = replace(clean, provider_metadata={"openai": {"summary": ["of a@b.io"]}})
    kept = left([mailed, clean, listed], Redact(["email"]))
    assert kept[0].provider_metadata is None
    assert kept[1] is clean
    assert kept[2].provider_metadata is None


def test_untouched_messages_stay_and_masked_ones_are_made_once() -> None:
    """The very list where there is nothing to mask."""
    messages = turns(3)
    assert processed(Redact(), messages) is messages
    messages.append(user("a@b.io"))
    processor = Redact(["email"])
    once, again = left(messages, processor), left(messages, processor)
    assert [id(m) for m in once] == [id(m) for m in again]
    assert processed(processor, once) is once


def test_current_calls_are_masked_too() -> None:
    """Masking must not remove the calls."""
    call = ToolCall("1", "find", {"mail": "a@b.io"})
    messages = [ToolCallMessage([call]), ToolResultMessage(call, {"data": "a@b.io"})]
    context = replace(CONTEXT, protected=frozenset(map(id, messages)))
    kept = left(messages, Redact(["email"]), context=context)
    assert len(kept) == 2
    assert "a@b.io" not in str(kept)


@given(st.text(), st.text())
def test_masking_twice_changes_nothing_more(before: str, after: str) -> None:
    """No mask is taken for something to mask."""
    redactor = Redactor()
    once = redactor.text(f"{before} ada@example.com {CARD} {after}")
    assert redactor.text(once) == once
    assert CARD not in once


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ([], "needs patterns"),
        ("email", "as a list"),
        (["e-mail("], "not a regular expression"),
        (["emial"], "Unknown pattern 'emial'; built in are"),
        ([5], "not 5"),
        ({"x": ""}, "not ''"),
    ],
)
def test_invalid_pattern_raises_configuration_error(what: Any, said: str) -> None:
    """A mistyped name would mask nothing."""
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        Redactor(what)


def test_a_function_must_return_text() -> None:
    """A function that returns no text is a configuration error."""
    with pytest.raises(ConfigurationError, match="returned None"):
        Redactor(cast("Any", print)).text("x")


def test_settings_are_checked() -> None:
    """The error names the key."""
    assert Redact.from_settings({"patterns": ["email"]}).reason == "masks email"
    assert Redact.from_settings({"patterns": {"b": r"BK\d"}}).reason == "masks b"
    assert Redact.from_settings({}).redactor.names == Redactor().names
    assert Redact(str.upper).reason == "masks upper"
    with pytest.raises(ConfigurationError, match="no setting 'pattern'"):
        Redact.from_settings({"pattern": []})
    with pytest.raises(ConfigurationError, match="patterns must be a list"):
        Redact.from_settings({"patterns": "email"})
    with pytest.raises(ConfigurationError, match="patterns: Unknown pattern 'emial'"):
        Redact.from_settings({"patterns": ["emial"]})
