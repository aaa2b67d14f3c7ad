"""The page of a matrix in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs] - it has none
from playwright.sync_api import Page, expect, sync_playwright

from agentkit_py import TextMessage
from agentkit_py.matrix import ContextMatrix, matrix_page
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import ApproximateTokenizer
from agentkit_py.results import AgentResult
from tests.browser import PATIENCE, chromium


def long_matrix(messages: int, calls: int) -> ContextMatrix:
    """A thread of which each call sees half."""
    tokenizer = ApproximateTokenizer()
    history = [TextMessage("user", f"Message {n}") for n in range(messages)]

    def result(number: int) -> AgentResult:
        sent = history[number % 2 :: 2]
        entry = ReportEntry(
            level="agent", name="Half", before=history, after=sent, tokenizer=tokenizer
        )
        agent = f"agent {number % 3}"
        report = ContextReport(
            agent=agent, entries=[entry], history=history, sent=sent, tokenizer=tokenizer
        )
        return AgentResult(agent, [TextMessage("assistant", f"Reply {number}")], context=report)

    return ContextMatrix.of(result(n) for n in range(calls))


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    """Chromium without a network."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium())
        yield browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
        browser.close()


@pytest.fixture
def page(context: Any) -> Iterator[Page]:
    """A page; what it throws fails the test."""
    page: Page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert complaints == []


def show(page: Page, tmp_path: Path, matrix: ContextMatrix) -> None:
    """Open a matrix as a file."""
    path = tmp_path / "matrix.html"
    path.write_text(matrix_page(matrix, "Desk", "A note."), encoding="utf-8")
    page.goto(path.as_uri())


def test_a_cell_shows_the_sent_messages_and_the_processors_that_changed_them(
    page: Page, tmp_path: Path
) -> None:
    """By a click, and by the keyboard alone."""
    show(page, tmp_path, long_matrix(6, 4))
    expect(page.get_by_role("heading", name="Desk")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("10 messages, 4 model calls")
    detail = page.locator("#detail")
    page.locator("#c1-0").click()
    expect(detail).to_contain_text("Message 2 in model call 1 (agent 0)")
    expect(detail).to_contain_text("left out, by agent: Half")
    expect(detail.locator("pre")).to_have_text("Message 1")
    page.keyboard.press("ArrowRight")
    expect(detail).to_contain_text("Message 2 in model call 2 (agent 1)")
    expect(detail).to_contain_text("sent as it is")
    page.keyboard.press("Enter")
    expect(detail).to_contain_text("Model call 2 (agent 1, run 2)")
    expect(detail.locator("pre")).to_have_text("Reply 1")


def test_calls_of_an_agent_and_messages_with_words_are_found(page: Page, tmp_path: Path) -> None:
    """The others are hidden."""
    show(page, tmp_path, long_matrix(6, 4))
    page.get_by_label("Agent").select_option("agent 0")
    page.get_by_label("Find").fill("MESSAGE 3")
    expect(page.get_by_role("status")).to_contain_text("1 of 10 messages, 2 model calls")
    expect(page.get_by_role("gridcell")).to_have_count(2)


def test_only_rows_in_view_of_a_long_thread_are_in_the_page(page: Page, tmp_path: Path) -> None:
    """A thousand messages by fifty calls; the last is reached by scrolling."""
    show(page, tmp_path, long_matrix(1000, 50))
    expect(page.get_by_role("status")).to_contain_text("1,050 messages, 50 model calls")
    assert page.locator(".cell").count() < 4000
    page.locator("#grid").evaluate("grid => grid.scrollTo(0, grid.scrollHeight)")
    expect(page.locator("#c1049-49")).to_be_visible()
    assert page.locator(".cell").count() < 4000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_everybody_can_use_the_page(page: Page, tmp_path: Path, scheme: Any, width: int) -> None:
    """The axe rules find nothing, and the page is no wider than the window."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    show(page, tmp_path, long_matrix(6, 4))
    page.locator("#c1-0").click()
    page.evaluate(AXE_SCRIPT)
    found: Any = page.evaluate("axe.run()")
    assert [(v["id"], [n["target"] for n in v["nodes"]]) for v in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
