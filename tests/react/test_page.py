"""The example page in a browser, against the Python server, in both modes.

With AGENTKIT_SCREENSHOTS=1 the pictures of the guide are made anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from .conftest import ROOT
from .serving import Mode, in_process, inngest

PICTURES = ROOT / "docs" / "assets" / "react"
SECONDS = 20_000
POLICY = "What is your policy for sending things back?"
END_OF_POLICY = "if all of an order comes back."


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Chromium as the system has it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module", params=["in-process", "inngest"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """The place where runs happen."""
    return request.param


@pytest.fixture(scope="module")
def url(mode: Mode, page: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The server's address."""
    folder = tmp_path_factory.mktemp("server")
    if mode == "in-process":
        with in_process(page, folder) as address:
            yield address
        return
    program = shutil.which("inngest")
    if program is None:
        pytest.skip("the program inngest is not on PATH")
    with inngest(program, page, folder) as address:
        yield address


@dataclass
class Desk:
    """The page, as a customer uses it."""

    page: Page
    mode: Mode
    axe: Path
    problems: list[str] = field(default_factory=list[str])

    def open(self, address: str) -> None:
        """Open it, and wait until it listens."""
        self.page.goto(address)
        self.connected()

    def connected(self) -> None:
        """Wait until it listens."""
        expect(self.page.get_by_text("Connected", exact=True)).to_be_visible(timeout=SECONDS)

    def send(self, text: str) -> None:
        """Send a message."""
        self.page.get_by_label("Message", exact=True).fill(text)
        self.button("Send").click()

    def button(self, name: str) -> Locator:
        """A button."""
        return self.page.get_by_role("button", name=name, exact=True)

    def tool(self, name: str) -> Locator:
        """The last call of a tool."""
        return self.page.locator(f'[data-tool="{name}"]').last

    @property
    def log(self) -> Locator:
        """The messages."""
        return self.page.get_by_role("log")

    def says(self, text: str) -> None:
        """Wait until the messages have this."""
        expect(self.log).to_contain_text(text, timeout=SECONDS)

    def ready(self) -> None:
        """Wait until nobody writes."""
        expect(self.button("Send")).to_be_visible(timeout=SECONDS)

    def picture(self, name: str) -> None:
        """A picture for the guide, and a look for people who cannot see it."""
        if self.mode == "in-process" and os.environ.get("AGENTKIT_SCREENSHOTS"):
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=PICTURES / f"{name}.png")
        self.page.add_script_tag(path=self.axe)
        found: dict[str, Any] = self.page.evaluate("axe.run()")
        bad = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        assert bad == [], json.dumps(bad, indent=1)[:4000]


@pytest.fixture
def desk(browser: Browser, url: str, mode: Mode, packages: Path) -> Generator[Desk]:
    """The page in a browser that was never here."""
    context = browser.new_context(viewport={"width": 1000, "height": 720})
    page = context.new_page()
    found = Desk(page, mode, packages / "node_modules" / "axe-core" / "axe.min.js")
    page.on("pageerror", lambda error: found.problems.append(str(error)))
    found.open(url)
    yield found
    assert found.problems == []
    context.close()


def test_text_is_streamed_and_can_be_stopped(desk: Desk) -> None:
    """The text written before the stop stays, and nothing more comes."""
    desk.send(f"{POLICY} But wait half way.")
    desk.says("thirty days")
    expect(desk.button("Stop")).to_be_visible()
    desk.picture("streaming")
    assert END_OF_POLICY not in desk.log.inner_text()
    desk.button("Stop").click()
    desk.ready()
    written = desk.log.inner_text()
    assert END_OF_POLICY not in written
    desk.picture("stopped")
    desk.send("Where is my order B2?")
    desk.says("a light bulb, was sent on 19 November")
    assert END_OF_POLICY not in desk.log.inner_text()


def test_tool_calls_have_inputs_and_outputs(desk: Desk) -> None:
    """Those of each agent, in their order; also after a reload."""
    desk.send("Where is my order A1?")
    desk.says("a reading lamp, was sent on 18 November")
    desk.ready()
    for again in (False, True):
        if again:
            desk.page.reload()
            desk.connected()
            desk.says("within three days.")
        expect(desk.tool("hand_over")).to_have_attribute("data-state", "output-available")
        expect(desk.tool("hand_over")).to_contain_text('{"desk":"orders"}')
        expect(desk.tool("find_order")).to_contain_text('{"order":"A1"}')
        expect(desk.tool("find_order")).to_contain_text('"item":"a reading lamp"')
    desk.picture("tools")


def test_a_person_approves_after_a_reload(desk: Desk) -> None:
    """The run waits; the page finds the question again."""
    desk.send("I want to give order A1 back.")
    card = desk.page.get_by_role("region", name="Approval needed")
    expect(card).to_contain_text('refund({"order":"A1","amount":120})', timeout=SECONDS)
    expect(desk.tool("refund")).to_contain_text("waits for you")
    desk.picture("approval")
    desk.page.reload()
    desk.connected()
    desk.says("I want to give order A1 back.")
    expect(card).to_be_visible(timeout=SECONDS)
    desk.button("Approve").click()
    desk.says("120 euros for a reading lamp are on their way to you.")
    expect(card).to_have_count(0)
    expect(desk.tool("refund")).to_contain_text('"refunded":120')
    desk.ready()
    desk.picture("approved")


def test_a_denied_call_does_not_run_on_the_page(desk: Desk) -> None:
    """The model reads why."""
    desk.send("I want to give order A1 back.")
    expect(desk.button("Deny")).to_be_visible(timeout=SECONDS)
    desk.button("Deny").click()
    desk.says("decided against paying this back.")
    expect(desk.tool("refund")).to_contain_text("The customer declined.")
    desk.ready()


def test_a_reply_goes_on_over_a_reload(desk: Desk) -> None:
    """Nothing is lost of it, and nothing is there twice."""
    desk.send(POLICY)
    desk.says("thirty days")
    desk.page.reload()
    desk.connected()
    desk.says(END_OF_POLICY)
    desk.ready()
    expect(desk.log).to_contain_text("You may send everything back within thirty days")
    assert desk.log.inner_text().count("thirty days") == 1
    desk.picture("resumed")


def test_threads_are_in_a_side_bar(desk: Desk) -> None:
    """Opened, gone on with, and deleted from there."""
    side = desk.page.get_by_role("navigation", name="Conversations")
    desk.send("Where is my order B2? (first)")
    desk.says("a light bulb")
    desk.ready()
    desk.button("New conversation").click()
    desk.send("Where is my order A1? (second)")
    desk.says("a reading lamp")
    desk.ready()
    expect(desk.log).not_to_contain_text("a light bulb")
    side.get_by_role("button", name="Where is my order B2? (first)", exact=True).click()
    desk.says("a light bulb")
    expect(desk.log).not_to_contain_text("a reading lamp")
    desk.send("Hello again")
    desk.says("Hello! Which order is it about?")
    desk.ready()
    desk.picture("threads")
    desk.page.emulate_media(color_scheme="dark")
    desk.picture("dark")
    desk.page.emulate_media(color_scheme="light")
    desk.page.set_viewport_size({"width": 400, "height": 720})
    desk.picture("narrow")
    wide = desk.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 400
    side.get_by_role("button", name=re.compile("^Delete .*second")).click()
    expect(side).not_to_contain_text("(second)")
    expect(side).to_contain_text("(first)")


def test_a_server_that_refuses_says_why_on_the_page(desk: Desk) -> None:
    """The words of the API, and the message is marked."""
    desk.send("Where is it? " * 3_000)
    expect(desk.page.get_by_role("alert")).to_contain_text("at most 32000 characters")
    expect(desk.log).to_contain_text("Not sent.")
