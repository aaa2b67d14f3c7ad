"""The chat page of the guide, in a browser: a reply, a decision, a reload."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect
from starlette.staticfiles import StaticFiles

from agentkit_py import MemoryHistory, tool
from agentkit_py.events.chunks import FAILED
from agentkit_py.testing import error, tool_call
from tests.browser import PATIENCE, chromium
from tests.server.test_staff_page import is_wider, problems
from tests.server.world import app_of, served, support, waiting

PAGE = Path(__file__).resolve().parents[2] / "examples" / "http_api" / "page"
EVIL = "<img src=x onerror=alert(1)>"


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid for {order}"


@pytest.mark.parametrize("inner", [False, True])
async def test_the_chat_page_shows_replies_and_asks_for_decisions(
    inner: bool, tmp_path: Path
) -> None:
    """Text of models stays text, a question survives a reload, axe finds nothing.

    Texts of an inner agent are not shown: other agents read them.
    """
    network = support(
        f"Hello. {EVIL}",
        *(tool_call("refund", {"order": EVIL}), "On its way."),
        tools=(refund,),
        history=MemoryHistory(),
    )
    app = app_of(network, auth="local")
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    named = text.replace("new Set([])", 'new Set(["clerk"])') if inner else text
    (tmp_path / "index.html").write_text(named, encoding="utf-8")
    app.mount("/", StaticFiles(directory=tmp_path, html=True))
    complaints: list[str] = []
    async with served(app) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        page = await browser.new_page(viewport={"width": 400, "height": 800})
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        await page.goto(url)
        lines = page.locator("#log p")
        await page.get_by_label("Message").fill("Hi")
        await page.get_by_label("Message").press("Enter")
        said, ended = ([], []) if inner else ([f"Hello. {EVIL}"], ["On its way."])
        await expect(lines).to_have_text(["Hi", *said])
        await page.get_by_label("Message").fill("Money back!")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_role("button", name="approve")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("button", name="deny")).to_be_visible()
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.get_by_role("button", name="approve").click()
        await expect(lines).to_have_text(["Hi", *said, "Money back!", "clerk: refund", *ended])
        await browser.close()
    assert complaints == []


async def test_the_chat_page_keeps_saying_that_a_message_was_not_answered(tmp_path: Path) -> None:
    """Also when it is loaded again; and a message behind another says that it waits."""
    wait, begun, go = waiting()
    network = support(tool_call("wait", {}), "Hello.", error(400, "no"), tools=(wait,))
    app = app_of(network, auth="local")
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    async with served(app) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE)
        async with page.expect_response("**/api/stream"):  # else it hears of no state
            await page.goto(url)
        lines = page.locator("#log p")
        await page.get_by_label("Message").fill("Hi")
        await page.get_by_label("Message").press("Enter")
        await begun.wait()
        await page.get_by_label("Message").fill("And now?")
        await page.get_by_label("Message").press("Enter")
        await expect(lines.last).to_have_text("It waits for its turn.")
        go.set()
        said = ["Hi", "clerk: wait", "Hello.", "And now?", FAILED]
        await expect(lines).to_have_text(said)
        await page.reload()
        await expect(lines).to_have_text(said)
        await browser.close()


def test_the_guides_program_serves_page_and_api(tmp_path: Path) -> None:
    """Its network needs a decision, which the one local user may make."""
    program = "import with_page; print([getattr(r, 'path', '') for r in with_page.app.routes])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{PAGE.parent}{os.pathsep}{PAGE.parents[2]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'/api/chat'" in done.stdout
