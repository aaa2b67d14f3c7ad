"""Personal data that somebody wrote so that it is not found, and expressions that take for ever."""

# ruff: noqa: RUF001 - characters that look like others are the subject

from __future__ import annotations

import logging
import time
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import Agent, MemoryHistory, TextMessage
from agentkit_py.messages import ToolCall, ToolResultMessage
from agentkit_py.processors import Redact, Redactor
from agentkit_py.testing import ScriptedModel
from tests.processors.conversations import left

HIDDEN = {
    "card": (
        *("4111.1111.1111.1111", "4111 - 1111 - 1111 - 1111", "4111–1111–1111–1111"),
        *("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "4-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1"),
        *("４１１１ １１１１ １１１１ １１１１", "4111\u200b1111\u200b1111\u200b1111"),
        *("4111\u00a01111\u20031111\u30001111", "3782.822463.10005"),
    ),
    "email": (
        *("a\u200bda@exam\u2060ple.com", "a\u00adda@example.com", "ada\ufe0f@example.com"),
        *("ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ", "ada＠example。com", "𝐚𝐝𝐚@𝐞𝐱𝐚𝐦𝐩𝐥𝐞.𝐜𝐨𝐦"),
        *("ada [at] example [dot] com", "ada(at)example.com", "ada at example dot com"),
        *("ADA AT EXAMPLE DOT CO DOT UK", "ada @ example.com", "ada @ example . com"),
        *("ada@example[.]com", "a d a @ e x a m p l e . c o m"),
    ),
    "iban": (
        *("de89370400440532013000", "de89 3704 0044 0532 0130 00", "De89370400440532013000"),
        *("DE89.3704.0044.0532.0130.00", "DE89-3704-0044-0532-0130-00"),
        *("D E 8 9 3 7 0 4 0 0 4 4 0 5 3 2 0 1 3 0 0 0", "gb29nwbk60161331926819"),
        *("de89\u200b370400440532013000", "ＤＥ８９ ３７０４ ００４４ ０５３２ ０１３０ ００"),
    ),
    "ip": (
        *("192[.]168[.]0[.]1", "192 . 168 . 0 . 1", "192 dot 168 dot 0 dot 1"),
        *("１９２．１６８．０．１", "192.168\u200b.0.1"),
        *("fe80::1", "::1", "2001:db8::8a2e:370:7334", "::ffff:192.0.2.128", "fe80::1%eth0"),
        "2001:0DB8:0000:0000:0000:FF00:0042:8329",
    ),
    "ssn": ("078 05 1120", "078.05.1120", "０７８－０５－１１２０", "078\u201005\u20101120"),
    "phone": (
        *("+43.660.1234567", "+43\u200b6601234567", "＋４３ ６６０ １２３４５６７"),
        *("+ 4 3 6 6 0 1 2 3 4 5 6 7", "212.555.0123"),
    ),
}
SIMILAR = (
    *("look at the cat", "meet me at home", "me @ home. See you", "take 10 at 5 dot 5"),
    *("12:30:45", "std::vector a::b Bad::Face ::", "00:1a:2b:3c:4d:5e", "ratio 16:9:4"),
    *("1. 2. 3. 4", "1 2 3 4 5 6 7 8 9", "1 2 3 4 5 6 7 8 9 10 11 12 13", "v1.2.3.4.5"),
    *("this that have been de12 with many more word", "order 4111111111111112", "a – b — c"),
    *("中文。标点", "x² + y²", "２０２６年１１月２２日", "ﬁne 👩\u200d👧 naïve"),
)


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in HIDDEN.items() for text in texts]
)
@pytest.mark.parametrize("around", ["{}", "see {} now", "x: {}!", "is it {}?", "– {}, –"])
def test_hidden_personal_data_is_masked(kind: str, text: str, around: str) -> None:
    """By its own name, with nothing of it left and nothing else gone."""
    assert Redactor().text(around.format(text)) == around.format(f"[{kind}]")


@pytest.mark.parametrize("text", SIMILAR)
def test_similar_text_stays_the_same_object(text: str) -> None:
    """Lists, times, names in programs, other languages."""
    assert Redactor().text(text) is text


def test_hidden_data_is_masked_in_history() -> None:
    """In messages and in results of tools."""
    call = ToolCall("1", "find", {"to": "ada [at] example.com"})
    result = ToolResultMessage(call, {"data": {"ip": "fe80::1", "ada＠example.com": 1}})
    message, masked = cast(
        "list[Any]", left([TextMessage("user", "de89370400440532013000"), result], Redact())
    )
    assert message.content == "[iban]"
    assert masked.content == {"data": {"ip": "[ip]", "[email]": 1}}
    assert masked.tool.arguments == {"to": "[email]"}


def test_expressions_of_users_find_hidden_data() -> None:
    """And what they name as it is written."""
    redactor = Redactor({"booking": r"BK\d+", "sign": "＠"})
    assert (
        redactor.text("see B\u200bK17 or ＢＫ１７ ＠ BK17")
        == "see [booking] or [booking] [sign] [booking]"
    )


@given(
    before=st.text(),
    data=st.sampled_from([text for texts in HIDDEN.values() for text in texts]),
    after=st.text(),
)
def test_masking_hidden_data_twice_changes_nothing_more(before: str, data: str, after: str) -> None:
    """No mask is taken for something to mask."""
    once = Redactor().text(f"{before} {data} {after}")
    assert Redactor().text(once) == once


BAD = {
    "nested": (r"(a+)+$", "a"),
    "alternatives": (r"(a|aa)+$", "a"),
    "words": (r"^(\w+\s?)*!!$", "aa "),
    "back references": (r"(\w+)\1+\d", "a"),
    "around": (r"(?<=x)(a|a)*b|(a*)*c", "a"),
    "square": (r"\w+-\d", "a"),
    "cube": (r"a.*b.*c.*d", "abc"),
}


@pytest.mark.parametrize("shape", BAD)
@pytest.mark.parametrize("size", [40, 9_000, 1_000_000])
def test_an_own_expression_has_limited_time(
    shape: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A text that could not be searched in time is masked as a whole, and the log says so once."""
    pattern, piece = BAD[shape]
    text = (piece * size)[:size] + "!"
    redactor = Redactor({"own": pattern})
    with caplog.at_level(logging.WARNING):
        start = time.thread_time()
        masked = redactor.text(text)
        assert time.thread_time() - start < 2
        redactor.text(text)
    assert masked in (text, "[own: too slow to search]")
    warned = [r for r in caplog.records if "'own'" in r.getMessage()]
    assert len(warned) == (masked != text)
    assert redactor.text("short") == "short"


def test_a_text_that_is_too_slow_to_search_is_not_let_through() -> None:
    """It may hold what was to be masked."""
    assert Redactor({"own": r"(a|aa)+$"}).text("a" * 50 + "!") == "[own: too slow to search]"


async def test_long_texts_are_masked_away_from_the_loop() -> None:
    """The thread of the event loop is free meanwhile."""
    text = "a@b.io " * 2**16
    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel("One.", "Two."),
        history=(history := MemoryHistory()),
        processors=[Redact(["email", "iban", "phone"])],
    )
    await agent.run(text, thread_id="t")
    alone = time.thread_time()
    Redactor(["email", "iban", "phone"]).text(text)
    alone = time.thread_time() - alone
    begin = time.thread_time()
    result = await agent.run("And?", thread_id="t")
    assert time.thread_time() - begin < alone
    assert "a@b.io" not in str(result.history)
    assert "a@b.io" in str((await history.messages("t"))[0])
