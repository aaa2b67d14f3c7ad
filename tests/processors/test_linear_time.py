"""Processors take time linear in what a stranger wrote, whatever its shape."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import log

import pytest

from agentkit_py import Agent, MemoryHistory, TextMessage
from agentkit_py.processors import Redact, Redactor
from agentkit_py.processors.summarize import conversation_text
from agentkit_py.stores import redacted
from agentkit_py.testing import ScriptedModel

from .conversations import left, user

KB = 1024
SLOPE = 1.2
SHAPES = {
    "letters": "a",
    "hex": "0f3a",
    "digits": "7",
    "dots": ".",
    "at signs": "@",
    "plus signs": "+",
    "spaces": " ",
    "dashes": "-",
    "capitals and digits": "AA00",
    "letters with an at sign": "a@",
    "addresses cut off": "ada@example ",
    "addresses in a row": "a@b.c_",
    "phone numbers run into words": "+12345678901234567890a ",
    "phone numbers run into dashes": "+12345678901234567890- ",
    "cards run into words": "4111 1111 1111 1111a ",
    "numbers with dots": "255.255.",
}


def slope(work: Callable[[str], object], shape: str, small: int, large: int) -> float:
    """Return the exponent of growth in thread CPU time, the best of up to five rounds."""

    def seconds(size: int) -> float:
        text = (shape * (size // len(shape) + 1))[:size]
        start = time.thread_time()
        work(text)
        return time.thread_time() - start

    best, least = {small: float("inf"), large: float("inf")}, float("inf")
    for _ in range(5):
        best = {size: min(known, seconds(size)) for size, known in best.items()}
        least = log(best[large] / best[small]) / log(large / small)
        if least <= SLOPE:
            break
    return least


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_built_in_patterns_take_linear_time(shape: str) -> None:
    """Texts from 64 kB to 1 MB are measured."""
    assert slope(Redactor().text, shape, 64 * KB, 1024 * KB) <= SLOPE


@pytest.mark.parametrize("name", Redactor().names)
def test_each_built_in_pattern_takes_linear_time_alone(name: str) -> None:
    """No other pattern has broken up the text before."""
    text = "".join(part * (KB // len(part)) for part in SHAPES.values())
    assert slope(Redactor([name]).text, text, 64 * KB, 1024 * KB) <= SLOPE


def test_redact_takes_linear_time_for_one_long_message() -> None:
    """The processor must not be slower than its patterns."""
    work = slope(lambda text: left([TextMessage("user", text)], Redact()), "a", 64 * KB, 1024 * KB)
    assert work <= SLOPE


def test_objects_whose_keys_get_one_mask_take_linear_time() -> None:
    """Each key gets a number of its own."""

    def mask(text: str) -> object:
        return Redactor(["email"]).value({f"{n}@b.io": n for n in range(len(text) // 8)})

    assert slope(mask, "a", 16 * KB, 256 * KB) <= SLOPE


def test_a_pattern_that_is_quadratic_takes_linear_time() -> None:
    """An expression of one's own is applied to windows of the text."""
    assert slope(Redactor([r"a+b"]).text, "a", 16 * KB, 64 * KB) <= SLOPE


async def test_a_redacted_store_does_not_hold_the_event_loop() -> None:
    """64 kB of hexadecimal digits used to take half a minute."""
    kept = MemoryHistory()
    agent = Agent(
        name="desk", system="S", model=ScriptedModel("Hm."), history=redacted(kept, Redactor())
    )
    started = time.thread_time()
    await agent.run("f" * 64 * KB + " ada@example.com", thread_id="t")
    seconds = time.thread_time() - started
    message = (await kept.messages("t"))[0]
    assert isinstance(message, TextMessage)
    assert message.text.endswith("f [email]")
    assert seconds < 5


@pytest.mark.parametrize("shape", ["<", "< ", "<conversation", "</ "])
def test_masking_delimiters_of_a_summary_takes_linear_time(shape: str) -> None:
    """Users may write what looks like the end of the conversation, and blanks after it."""

    def shown(text: str) -> str:
        return conversation_text([user("<" + " " * len(text)), user(text)], 4_000)

    assert slope(shown, shape, 64 * KB, 1024 * KB) <= SLOPE


def test_matches_of_long_texts_are_those_of_the_whole() -> None:
    """Across the edges of windows, and where one match is longer than a window."""
    words = " ".join(f"BK{n}" for n in range(5_000))
    assert Redactor({"booking": r"BK\d+"}).text(words) == " ".join(["[booking]"] * 5_000)
    key = f"-----BEGIN KEY-----{'x' * 3_900}-----END KEY-----"
    masked = Redactor({"key": r"-----BEGIN KEY[\s\S]+?END KEY-----"}).text("y" * 7_000 + key + "z")
    assert masked == "y" * 7_000 + "[key]z"
    assert Redactor({"rest": "secret: .*"}).text(f"a secret: {'x' * 50_000}") == "a [rest]"
    assert Redactor({"name": r"(?<=my )ada\b"}).text("my ada, " * 3_000) == "my [name], " * 3_000
