"""The guides' pages in a browser, as their readers start them, and when something is wrong."""

from __future__ import annotations

import asyncio
import importlib
import shutil
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Page, async_playwright, expect
from starlette.staticfiles import StaticFiles

from agentkit_py import MemoryHistory, tool
from agentkit_py.events.chunks import FAILED
from agentkit_py.history import StaffDesk
from agentkit_py.testing import error, tool_call
from tests.server.test_chat_page import PAGE
from tests.server.test_staff_page import PATIENCE, by_cookie, problems
from tests.server.world import app_of, served, support

UNREACHED = "The server cannot be reached."
SIGNED_OUT = "You are not signed in."


@tool(needs_approval=True, approvers=["mia"])
def refund(amount: int) -> str:
    """Pay money back."""
    return f"paid {amount}"


@asynccontextmanager
async def browsing(path: str, user: str | None, url: str) -> AsyncGenerator[Page]:
    """A page of a phone's size, with or without a sign-in; what it throws fails the test."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    expect.set_options(timeout=PATIENCE)
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
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


async def test_the_chat_page_says_that_nobody_is_signed_in() -> None:
    """Send says it, too, and keeps the line."""
    app = chat_app("Hello.")
    async with served(app) as url, browsing("/", None, url) as page:
        await expect(page.get_by_role("status")).to_have_text(SIGNED_OUT)
        await write(page, "Hi")
        await expect(page.locator("#log p")).to_contain_text(f"Hi (not sent: {SIGNED_OUT})")


async def test_the_chat_page_keeps_what_a_server_that_is_down_did_not_get() -> None:
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


async def test_words_of_staff_stand_under_their_name_on_the_chat_page() -> None:
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
