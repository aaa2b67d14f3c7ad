"""The guides' pages in a browser, as their readers start them, and when something is wrong."""

from __future__ import annotations

import asyncio
import importlib
import re
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Page, Route, async_playwright, expect
from starlette.staticfiles import StaticFiles

from agentkit_py import MemoryHistory, tool
from agentkit_py.events.chunks import FAILED
from agentkit_py.history import StaffDesk
from agentkit_py.testing import Raw, error, tool_call
from tests.browser import PATIENCE, chromium
from tests.server.test_chat_page import PAGE
from tests.server.test_staff_page import by_cookie, problems
from tests.server.world import app_of, client_of, said, served, support

UNREACHED = "The server cannot be reached."
SIGNED_OUT = "You are not signed in."


@tool(needs_approval=True, approvers=["mia"])
def refund(amount: int) -> str:
    """Pay money back."""
    return f"paid {amount}"


@asynccontextmanager
async def browsing(path: str, user: str | None, url: str) -> AsyncGenerator[Page]:
    """A page of a phone's size, with or without a sign-in; what it throws fails the test."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        context = await browser.new_context(viewport={"width": 400, "height": 800})
        if user is not None:
            await context.add_cookies([{"name": "user", "value": user, "url": url}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{url}{path}")
        yield page
        await browser.close()
    assert complaints == []


class Stoppable:
    """A server that stops, and comes again at the same address, as at a deploy."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self, app: Any) -> None:
        """Listen."""
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        self._listening = socket.create_server(("127.0.0.1", self._port))
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listening]))

    async def stop(self) -> None:
        """Close all connections."""
        self._server.should_exit = True
        await self._task
        self._listening.close()


def chat_app(*replies: Any, **options: Any) -> Any:
    """The API with the guide's page in front of it."""
    history = options.pop("history", None) or MemoryHistory()
    network = support(*replies, tools=options.pop("tools", ()), history=history)
    app = app_of(network, **{"auth": by_cookie, **options})
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


async def write(page: Page, text: str) -> None:
    """Send a message on the chat page."""
    await page.get_by_label("Message").fill(text)
    await page.get_by_label("Message").press("Enter")


async def test_the_guides_page_and_shop_work_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one local user has orders, a decision and an answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(PAGE.parent), *sys.path])
    for name in ("shop", "with_page"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    app = importlib.import_module("with_page").app
    async with served(app) as url, browsing("/", None, url) as page:
        lines = page.locator("#log p")
        await write(page, "What did I buy?")
        await expect(lines.last).to_have_text("You bought a bowler for 30.")
        await write(page, "I send it back.")
        await page.get_by_role("button", name="approve").click()
        await expect(lines.last).to_have_text("Your 30 are on their way.")
        thread = page.url.partition("thread=")[2]
        assert (await problems(page)) == []
    messages = str(await app.state.api.settings.store.messages(thread))
    assert "A1: bowler, 30" in messages
    assert "paid 30 for A1" in messages
    assert "KeyError" not in messages


async def test_the_chat_page_shows_that_no_user_is_signed_in() -> None:
    """Send says it, too, and keeps the line."""
    app = chat_app("Hello.")
    async with served(app) as url, browsing("/", None, url) as page:
        await expect(page.get_by_role("status")).to_have_text(SIGNED_OUT)
        await write(page, "Hi")
        await expect(page.locator("#log p")).to_contain_text(f"Hi (not sent: {SIGNED_OUT})")


async def test_the_chat_page_keeps_messages_that_an_unreachable_server_did_not_get() -> None:
    """The line is not gone when the server is back, and is sent once."""
    store, server = MemoryHistory(), Stoppable()
    server.start(chat_app("Hello.", history=store))
    async with browsing("/", "ada", server.url) as page:
        lines = page.locator("#log p")
        await write(page, "Hi")
        await expect(lines).to_have_text(["Hi", "Hello."])
        await server.stop()
        await expect(page.get_by_role("status")).to_have_text(UNREACHED)
        await write(page, "Still there?")
        await expect(lines.last).to_contain_text(f"Still there? (not sent: {UNREACHED})")
        assert (await problems(page)) == []
        server.start(chat_app("Here I am.", history=store))
        await expect(page.get_by_role("status")).to_have_text("")
        await expect(lines.last).to_contain_text("not sent")
        await page.get_by_role("button", name="Send again").click()
        await expect(lines).to_have_text(["Hi", "Hello.", "Still there?", "Here I am."])
    await server.stop()


async def test_the_chat_page_says_that_the_model_failed() -> None:
    """Also after a reload; the next message is answered."""
    app = chat_app(error(400, "no"), "Hello.")
    async with served(app) as url, browsing("/", "ada", url) as page:
        lines = page.locator("#log p")
        await write(page, "Hi")
        await expect(lines).to_have_text(["Hi", FAILED])
        await page.reload()
        await expect(lines).to_have_text(["Hi", FAILED])
        await write(page, "Again!")
        await expect(lines.last).to_have_text("Hello.")


async def test_the_chat_page_says_that_a_text_is_not_whole() -> None:
    """As it breaks off, and when it is loaded again."""
    app = chat_app(Raw(reply="Your refund of 120 EUR was approved. " * 5, cut_after=2500))
    cut = re.compile(r"^Your refund.*\(This answer is not whole\.\)$", re.DOTALL)
    async with served(app) as url, browsing("/", "ada", url) as page:
        lines = page.locator("#log p")
        await write(page, "Hi")
        await expect(lines).to_have_count(3)
        await expect(lines.nth(1)).to_have_text(cut)
        await page.reload()
        await expect(lines.nth(1)).to_have_text(cut)


async def test_the_chat_page_asks_only_who_may_answer() -> None:
    """The customer reads that somebody else decides."""
    call = tool_call("refund", {"amount": 30})
    app = chat_app(call, "On its way.", tools=(refund,), approvers=["mia"])
    async with served(app) as url, browsing("/", "ada", url) as page:
        await write(page, "My money!")
        last = page.locator("#log p").last
        for _ in range(2):
            await expect(last).to_contain_text("Somebody else decides this.")
            assert await page.get_by_role("button", name="approve").count() == 0
            await page.reload()


async def test_a_question_that_is_loaded_before_its_call_streams_in_stays_last() -> None:
    """The page reads the thread while the reply is on its way."""
    call = tool_call("refund", {"amount": 30})
    app = chat_app(call, "On its way.", tools=(refund,), approvers=["mia"])
    asked = asyncio.Event()
    reads: list[Route] = []

    async def slow(route: Route) -> None:
        reads.append(route)
        if len(reads) == 2:  # the stream is open
            message = {"id": "m1", "role": "user", "content": "My money!"}
            async with client_of(app, cookie="user=ada") as api:
                await api.post("/api/chat", json={"threadId": "t1", "userMessage": message})
                while not (await api.get("/api/threads/t1")).json()["pending"]:  # noqa: ASYNC110 - only the API says it
                    await asyncio.sleep(0)
            asked.set()
        await route.continue_()

    async with served(app) as url, browsing("/?thread=t0", "ada", url) as page:
        await page.route("**/api/threads/t1", slow)
        await page.goto(f"{url}/?thread=t1")
        await asked.wait()
        lines = page.locator("#log p")
        await expect(lines.nth(1)).to_have_text("clerk: refund")
        await expect(lines.last).to_contain_text("Somebody else decides this.")


async def test_messages_of_staff_are_under_their_name_on_the_chat_page() -> None:
    """As they come, and after a reload."""
    app = chat_app("Hello.")
    async with served(app) as url, browsing("/?thread=t1", "ada", url) as page:
        lines = page.locator("#log p")
        await write(page, "Hi")
        await expect(lines).to_have_text(["Hi", "Hello."])
        desk = StaffDesk(app.state.api.settings.store)
        await desk.join("t1", by="mia", name="Mia")
        await desk.say("t1", "I am here.", by="mia")
        await expect(lines).to_have_text(["Hi", "Hello.", "Mia", "I am here."])
        await page.reload()
        await expect(lines).to_have_text(["Hi", "Hello.", "Mia", "I am here."])


async def test_the_chat_page_is_dark_where_the_system_is() -> None:
    """The scheme is of the root, so that the whole window is."""
    app = chat_app("Hello.")
    async with served(app) as url, browsing("/", "ada", url) as page:
        scheme = "getComputedStyle(document.documentElement).colorScheme"
        assert await page.evaluate(scheme) == "light dark"


NONE = "#queue-none"
ASKED = tool_call("refund", {"amount": 30})


def staff_app(*replies: Any, **options: Any) -> Any:
    """The API with the page of staff, for Mia."""
    history = options.pop("history", None) or MemoryHistory()
    network = support(*replies, tools=(refund,), history=history)
    return app_of(network, auth=by_cookie, staff=["mia"], **options)


async def shows_nothing(page: Page) -> None:
    """The page does not say that there is nothing, where it does not know."""
    await expect(page.locator(NONE)).to_be_hidden()


async def test_the_staff_page_shows_that_no_user_is_signed_in() -> None:
    """And not that nothing is to be decided."""
    async with served(staff_app()) as url, browsing("/staff/", None, url) as page:
        await expect(page.locator("#status")).to_contain_text(SIGNED_OUT)
        await shows_nothing(page)
        assert (await problems(page)) == []


@pytest.mark.parametrize(
    ("user", "who"),
    [
        ("ada", "Signed in as ada, who may not take over conversations."),
        ("mia", "Signed in as mia."),
    ],
)
async def test_the_staff_page_names_the_approvers(user: str, who: str) -> None:
    """A customer's empty desk is not that of staff."""
    app = staff_app(ASKED)
    await said(app, "Money back!", "t1")
    async with served(app) as url, browsing("/staff/", user, url) as page:
        await expect(page.locator("#who")).to_have_text(who)
        await expect(page.locator("#status")).to_have_text("Connected.")
        await expect(page.locator("#queue button")).to_have_count(int(user == "mia"))
        if user != "mia":
            await expect(page.locator(NONE)).to_be_visible()


async def test_the_staff_page_says_that_the_server_is_down() -> None:
    """Until it is there again."""
    store, server = MemoryHistory(), Stoppable()
    server.start(staff_app(history=store))
    async with browsing("/staff/", "mia", server.url) as page:
        await expect(page.locator("#status")).to_have_text("Connected.")
        await server.stop()
        await expect(page.locator("#status")).to_have_text(UNREACHED)
        await shows_nothing(page)
        server.start(staff_app(history=store))
        await expect(page.locator("#status")).to_have_text("Connected.")
        await expect(page.locator(NONE)).to_be_visible()
    await server.stop()


async def test_an_unknown_conversation_does_not_show_the_last_customer() -> None:
    """Nor anything of the conversation that was open."""
    app = staff_app("Hello.")
    await said(app, "Hi", "t1")
    async with served(app) as url, browsing("/staff/#t1", "mia", url) as page:
        await expect(page.locator("#thread-about")).to_contain_text("Customer: ada")
        await page.evaluate("location.hash = 'nope'")
        await expect(page.locator("#thread-title")).to_have_text("It cannot be opened")
        await expect(page.locator("#thread-about")).to_contain_text("There is no conversation nope")
        await expect(page.locator("#thread-body")).to_be_hidden()
        assert "ada" not in await page.locator("#thread").inner_text()


async def test_after_a_decision_the_answer_is_on_the_screen_and_has_the_focus() -> None:
    """On a phone, where the buttons were far above it."""
    app = staff_app(*["Hello. " * 40] * 5, ASKED, "On its way. " * 40)
    for number in range(6):
        await said(app, "Hi", "t1", id=f"m{number}")
    async with served(app) as url, browsing("/staff/#t1", "mia", url) as page:
        await page.get_by_role("button", name="Approve").click()
        last = page.locator("#log li").last
        await expect(last).to_contain_text("On its way.")
        await expect(last).to_be_focused()
        await expect(last).to_be_in_viewport()
        assert (await problems(page)) == []


async def test_the_staff_page_says_that_the_model_failed() -> None:
    """After an approval staff look for what came of it."""
    app = staff_app(ASKED, error(400, "no"))
    await said(app, "Money back!", "t1")
    async with served(app) as url, browsing("/staff/#t1", "mia", url) as page:
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#failed")).to_have_text(FAILED)
        await page.reload()
        await expect(page.locator("#failed")).to_have_text(FAILED)
