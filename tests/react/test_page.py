"""The example page in a browser, against the Python server, in both modes.

With AGENTKIT_SCREENSHOTS=1 the pictures of the guide are made again. DESK_CONVERSATIONS=50 is the
long run of conversations with cuts, reloads, answers and stops.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect, sync_playwright

from tests.browser import PATIENCE, chromium

from .conftest import ROOT
from .serving import Mode, free_ports, in_process, inngest, killed_in_the_end

PICTURES = ROOT / "docs" / "assets" / "react"
POLICY = "What is your policy for sending things back?"
END_OF_POLICY = "if all of an order comes back."
CONVERSATIONS = int(os.environ.get("DESK_CONVERSATIONS", "1"))
SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...args) { super(...args); window.sockets.push(this); }
};
"""
"""Keeps what the hook listens with, so that a connection can break."""
STOP = "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Stop')?.click()"


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Chromium as the system has it."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(**chromium())
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
    axe: str
    problems: list[str] = field(default_factory=list[str])

    def open(self, address: str, name: str = "Ada Lind") -> None:
        """Sign in, and wait until it listens."""
        self.page.goto(address)
        self.button(name).click()
        self.connected()

    def connected(self) -> None:
        """Wait until it listens."""
        expect(self.page.get_by_text("Connected", exact=True)).to_be_visible()

    def send(self, text: str) -> None:
        """Send a message."""
        self.page.get_by_label("Message", exact=True).fill(text)
        self.button("Send").click()

    def button(self, name: str) -> Locator:
        """A button."""
        exact = name not in ("Ada Lind", "Mia Sandberg")
        return self.page.get_by_role("button", name=name, exact=exact)

    def tool(self, name: str) -> Locator:
        """The last call of a tool."""
        return self.page.locator(f'[data-tool="{name}"]').last

    @property
    def log(self) -> Locator:
        """The messages."""
        return self.page.get_by_role("log")

    def says(self, text: str) -> None:
        """Wait until the messages have this."""
        expect(self.log).to_contain_text(text)

    def ready(self) -> None:
        """Wait until nobody writes."""
        expect(self.button("Send")).to_be_visible()

    def look(self, name: str | None = None) -> None:
        """Look for what people cannot read or reach, and make a picture for the guide."""
        if name and self.mode == "in-process" and os.environ.get("AGENTKIT_SCREENSHOTS"):
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=PICTURES / f"{name}.png")
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(self.axe)
        found: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        assert found["violations"] == [], json.dumps(found["violations"], indent=1)[:4000]
        assert not self.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert self.page.evaluate(
            "[...document.querySelectorAll('[role=log] img')].every((one) => one.naturalWidth)"
        )


@pytest.fixture
def desk(browser: Browser, url: str, mode: Mode, packages: Path) -> Generator[Desk]:
    """The page in a browser that was never here."""
    context = browser.new_context(viewport={"width": 1000, "height": 720})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    axe = (packages / "node_modules" / "axe-core" / "axe.min.js").read_text()
    found = Desk(page, mode, axe)
    page.on("pageerror", lambda error: found.problems.append(str(error)))
    found.open(url)
    yield found
    assert found.problems == []
    context.close()


@pytest.fixture
def staff(browser: Browser, url: str, desk: Desk) -> Generator[Page]:
    """The page of staff, in a browser of its own."""
    context = browser.new_context(viewport={"width": 1000, "height": 720})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    Desk(page, desk.mode, desk.axe).open(url, "Mia Sandberg")
    page.goto(f"{url}/staff/")
    yield page
    context.close()


def test_users_read_their_own_threads_alone_and_a_forged_cookie_is_refused(
    desk: Desk, browser: Browser, url: str
) -> None:
    """Files are for who sent them, and for staff."""
    picture = {"name": "lamp.png", "mimeType": "image/png", "buffer": b"\x89PNG"}
    desk.page.locator("input[type=file]").set_input_files([picture])  # pyright: ignore[reportArgumentType] - a payload
    expect(desk.page.get_by_label("Files of this message")).to_contain_text("lamp.png")
    desk.look()
    desk.send("It is broken.")
    desk.says("Which order is it about?")
    address = f"{url}{desk.log.locator('a.file').get_attribute('href')}"
    assert desk.page.request.get(address).status == 200
    forged = browser.new_context()
    assert forged.request.get(address).status == 404
    forged.add_cookies([{"name": "desk", "value": "ada.é" + "0" * 64, "url": url}])
    assert forged.request.get(address).status == 404
    assert forged.request.get(f"{url}/api/threads").status == 401
    forged.request.post(f"{url}/sign-in", data={"id": "ben"})
    assert forged.request.get(address).status == 404
    forged.request.post(f"{url}/sign-in", data={"id": "mia"})
    assert forged.request.get(address).status == 200
    forged.close()


def test_text_is_streamed_and_can_be_stopped(desk: Desk) -> None:
    """The page says so, and nothing more comes."""
    desk.send(f"{POLICY} But wait half way.")
    desk.says("thirty days")
    expect(desk.button("Stop")).to_be_visible()
    expect(desk.log).to_contain_text("Orders is writing")
    desk.look("streaming")
    assert END_OF_POLICY not in desk.log.inner_text()
    desk.button("Stop").click()
    desk.ready()
    written = desk.log.inner_text()
    assert END_OF_POLICY not in written
    stopped = desk.page.get_by_text("The answer was stopped.")
    expect(stopped).to_be_visible()
    expect(desk.log).to_contain_text("This answer is not whole.")
    desk.says("thirty days")
    desk.look("stopped")
    desk.button("Try again").click()
    expect(stopped).to_be_hidden()
    desk.says("thirty days")
    expect(desk.log.get_by_text("But wait half way.")).to_have_count(1)
    desk.button("Stop").click()
    expect(stopped).to_be_visible()
    desk.send("Where is my order B2?")
    expect(stopped).to_be_hidden()
    desk.says("sent on 19 November")
    assert END_OF_POLICY not in desk.log.inner_text()


def test_calls_are_quiet_lines_with_folded_details(desk: Desk) -> None:
    """Those of each agent, in their order, in the user's words; also after a reload."""
    desk.send("Where is my order A1?")
    desk.says("It should be with you within three days.")
    desk.ready()
    for again in (False, True):
        if again:
            desk.page.reload()
            desk.connected()
            desk.says("within three days.")
        expect(desk.tool("hand_over").locator("summary")).to_have_text("✓Hand over to ordersdone")
        expect(desk.tool("find_order").locator("summary")).to_have_text("✓Look up order A1done")
        expect(desk.tool("find_order").locator("dl").last).to_be_hidden()
        desk.tool("find_order").locator("summary").press("Enter")
        expect(desk.tool("find_order").locator("dl").last).to_contain_text("Itema reading lamp")
        expect(desk.log.get_by_role("heading")).to_contain_text(["You", "Triage", "Orders"])
        expect(desk.log.locator(".text strong")).to_have_text("A1")
        expect(desk.log.get_by_role("img", name="a reading lamp")).to_be_visible()
        assert "{" not in desk.log.inner_text()
    desk.look("tools")


def test_the_customer_approves_after_a_reload(desk: Desk) -> None:
    """The run waits; the page has the same card again, once."""
    desk.send("Please cancel order B2.")
    card = desk.page.get_by_role("region", name="Approval needed")
    expect(card).to_contain_text("Cancel order B2")
    expect(desk.tool("cancel_order")).to_contain_text("waits for a decision")
    desk.look("approval")
    before = card.inner_text()
    desk.page.reload()
    desk.connected()
    desk.says("Please cancel order B2.")
    expect(card).to_have_count(1)
    assert card.inner_text() == before
    desk.button("Approve").click()
    desk.says("Order B2 is cancelled.")
    expect(card).to_have_count(0)
    expect(desk.tool("cancel_order").locator("summary")).to_have_text("✓Cancel order B2done")
    desk.ready()


def test_a_denied_call_does_not_run_on_the_page(desk: Desk) -> None:
    """The model reads why."""
    desk.send("Please cancel order B2.")
    desk.button("Decline").click()
    desk.says("this was decided against.")
    expect(desk.tool("cancel_order").locator("summary")).to_contain_text("declined")
    desk.ready()


def test_staff_decide_on_a_refund_and_the_customers_page_shows_it(desk: Desk, staff: Page) -> None:
    """The customer sees an amount and may wait, or leave; nobody else may decide."""
    desk.send("I want to give order A1 back.")
    card = desk.page.get_by_role("region", name="Decision of a colleague")
    expect(card).to_contain_text("Pay back 120 € for order A1")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    desk.look("colleague")
    entry = staff.locator("#queue button", has_text="Pay back 120 € for order A1").first
    entry.click()
    staff.locator(".question").get_by_role("button", name="Approve").click()
    desk.says("120 € for a reading lamp are on their way to you.")
    expect(card).to_have_count(0)
    desk.ready()
    desk.look("approved")


def test_a_person_of_the_staff_takes_over_and_hands_back(desk: Desk, staff: Page) -> None:
    """The customer sees who it is, and who is there; the same after a reload."""
    desk.send("I want to talk to a person.")
    desk.says("I have asked a colleague")
    expect(desk.page.get_by_text("We have asked a colleague to join you.")).to_be_visible()
    thread = desk.page.url.partition("thread=")[2]
    staff.locator(f'#queue [data-thread="{thread}"]').click()
    staff.locator("#join-name").fill("Mia Sandberg")
    staff.get_by_role("button", name="Take over").click()
    staff.locator("#say-text").fill("Hello Ada!")
    staff.get_by_role("button", name="Send", exact=True).click()
    for again in (False, True):
        if again:
            desk.page.reload()
            desk.connected()
        desk.says("Hello Ada!")
        expect(desk.log.get_by_role("heading").last).to_contain_text("Mia Sandberg Staff")
        expect(desk.page.locator(".people")).to_have_text(
            "Mia Sandberg from our staff is with you."
        )
    desk.look("staff")
    staff.get_by_role("button", name="Hand back").click()
    expect(desk.page.locator(".people")).to_have_count(0)


def test_a_failed_answer_can_be_asked_for_again(desk: Desk) -> None:
    """In its place: the message is there once."""
    desk.send("Please fail.")
    desk.button("Try again").click()
    expect(desk.button("Try again")).to_be_visible()
    desk.look("failed")
    desk.page.reload()
    desk.connected()
    desk.says("Please fail.")
    expect(desk.log.get_by_text("Please fail.")).to_have_count(1)


def test_a_reply_continues_over_a_reload(desk: Desk) -> None:
    """Nothing is lost of it, and nothing is there twice."""
    desk.send(POLICY)
    desk.says("thirty days")
    desk.page.reload()
    desk.connected()
    desk.says(END_OF_POLICY)
    desk.ready()
    expect(desk.log).to_contain_text("You may send everything back within thirty days")
    assert desk.log.inner_text().count("thirty days") == 1


def test_a_reply_that_ends_while_the_page_is_loaded_is_read(desk: Desk, url: str) -> None:
    """Between the moment when the thread is read and the one from which the page listens."""

    def hold(route: Route) -> None:
        while desk.page.request.get(f"{url}/api/threads/{thread}").json()["running"]:
            pass
        route.continue_()

    desk.send(POLICY)
    desk.says("thirty days")
    thread = desk.page.url.partition("thread=")[2]
    desk.page.route("**/api/realtime/token", hold)
    desk.page.reload()
    desk.connected()
    desk.says(END_OF_POLICY)
    desk.ready()


def test_the_page_comes_back_from_a_deploy_and_from_a_crash(
    browser: Browser, page: Path, packages: Path, tmp_path: Path
) -> None:
    """A reply of the server that stops comes to its end; one that died can be asked for again."""
    context = browser.new_context(viewport={"width": 1000, "height": 720})
    context.set_default_timeout(PATIENCE)
    axe = (packages / "node_modules" / "axe-core" / "axe.min.js").read_text()
    desk = Desk(context.new_page(), "in-process", axe)
    (port,) = free_ports(1)
    lost = desk.page.get_by_text("Connecting again…")
    with in_process(page, tmp_path, port) as url:
        desk.open(url)
        desk.send(POLICY)
        desk.says("thirty days")
    expect(lost).to_be_visible()
    desk.page.get_by_label("Message", exact=True).fill("Where is my order B2?")
    desk.look()
    with killed_in_the_end(page, tmp_path, port):
        desk.connected()
        desk.says(END_OF_POLICY)
        desk.button("Send").click()
        desk.says("a light bulb")
        desk.ready()
        desk.send(f"{POLICY} But wait half way.")
        expect(desk.log.get_by_text("thirty days")).to_have_count(2)
    expect(lost).to_be_visible()
    with in_process(page, tmp_path, port):
        desk.connected()
        expect(desk.page.get_by_role("alert")).to_contain_text("has no answer yet")
        desk.look()
        desk.button("Try again").click()
        expect(desk.log.get_by_text("thirty days")).to_have_count(2)
        expect(desk.page.get_by_role("alert")).to_have_count(0)
        expect(desk.log.get_by_text("But wait half way.")).to_have_count(1)
    context.close()


@pytest.mark.parametrize("seed", range(CONVERSATIONS))
def test_after_all_that_happens_the_page_shows_the_thread(desk: Desk, seed: int) -> None:
    """Connections break, the page is loaded again, questions are answered, replies are stopped."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    page = desk.page
    page.add_init_script(SOCKETS)
    page.reload()
    desk.connected()
    asked = ["Where is my order A1?", "Please cancel order B2.", POLICY, "Hello"]
    for turn in range(3):
        words = f"{chance.choice(asked)} ({turn})"
        desk.send(words)
        if chance.random() < 0.3:
            page.wait_for_timeout(chance.randint(0, 1500))
            page.evaluate(STOP)  # the reply may end between a look and a click
        elif "cancel" in words:
            _maybe_lose(desk, chance)
            answer = desk.button(chance.choice(["Approve", "Decline"]))
            answer.click()
        _maybe_lose(desk, chance)
        desk.ready()
        page.reload()  # of a stopped reply the page has more than the thread
        desk.connected()
    desk.send(f"{POLICY} (the last one)")
    _maybe_lose(desk, chance)
    desk.says("(the last one)")
    expect(desk.log.locator("article").last).to_contain_text(END_OF_POLICY)
    desk.ready()
    again = page.context.new_page()
    stored = Desk(again, desk.mode, desk.axe)
    again.goto(page.url)
    stored.connected()
    stored.says("(the last one)")
    expect(stored.log.locator("article").last).to_contain_text(END_OF_POLICY)
    stored.ready()
    # What was missed of a reply, the page reads once it has ended.
    expect(desk.log).to_have_text(stored.log.text_content() or "")


def _maybe_lose(desk: Desk, chance: random.Random) -> None:
    for _ in range(chance.randint(0, 2)):
        desk.page.wait_for_timeout(chance.randint(0, 800))
        if chance.random() < 0.5:
            desk.page.evaluate("sockets.forEach((one) => one.close())")
        else:
            desk.page.reload()
        desk.connected()


def test_threads_are_in_a_side_bar(desk: Desk) -> None:
    """Opened, gone on with, and deleted from there; on a phone behind a button."""
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
    desk.look("threads")
    desk.page.emulate_media(color_scheme="dark")
    desk.look("dark")
    desk.page.emulate_media(color_scheme="light")
    desk.page.set_viewport_size({"width": 400, "height": 720})
    desk.look("narrow")
    expect(side).to_be_hidden()
    desk.button("Conversations").press("Enter")
    desk.look()
    side.get_by_role("button", name=re.compile("^Delete .*second")).click()
    expect(side).not_to_contain_text("(second)")
    expect(side).to_contain_text("(first)")


def test_a_server_that_refuses_says_why_on_the_page(desk: Desk) -> None:
    """The words of the API; the message is marked, and can be changed."""
    words = "Where is it? " * 3_000
    desk.send(words)
    expect(desk.page.get_by_role("alert")).to_contain_text("at most 32000 characters")
    expect(desk.log).to_contain_text("Not sent.")
    desk.look()
    desk.button("Change it and send it again").click()
    expect(desk.page.get_by_label("Message", exact=True)).to_have_value(words.strip())
    expect(desk.log).not_to_contain_text("Not sent.")
