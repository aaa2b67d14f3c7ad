"""The page of staff in a browser: hostile text stays text, axe finds nothing, keys are enough."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs] - it has none
from playwright.async_api import Page, async_playwright, expect
from starlette.requests import Request

from agentkit_py import MemoryHistory, tool
from agentkit_py.testing import tool_call
from agentkit_py.tools import ask_person
from tests.browser import PATIENCE, chromium
from tests.server.world import app_of, said, served, support

EVIL = "<img src=x onerror=alert(1)><b>\"'&</b>" + "long" * 60


def by_cookie(request: Request) -> str | None:
    """The user, as a browser says it."""
    return request.headers.get("x-user") or request.cookies.get("user")


@tool(needs_approval=True, approvers=["mia"])
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


@asynccontextmanager
async def staffs_page(app: Any, width: int, scheme: Any) -> AsyncGenerator[Page]:
    """Mia's page; whatever it complains of fails the test."""
    complaints: list[str] = []
    async with served(app) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        context = await browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        await context.add_cookies([{"name": "user", "value": "mia", "url": url}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        await page.goto(f"{url}/staff/")
        yield page
        await browser.close()
    assert complaints == []


async def problems(page: Page) -> list[str]:
    """Return axe's findings, of any weight."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_SCRIPT)
    found: Any = await page.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


async def is_wider(page: Page) -> bool:
    """Return whether something stands out of the window."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1400, "dark")])
async def test_staff_decide_take_over_and_hand_back_on_the_page(width: int, scheme: str) -> None:
    """All of it by keyboard, with text that would be a program in a page less careful."""
    network = support(
        *(tool_call("ask_person", {"reason": EVIL}), f"Somebody comes. {EVIL}"),
        *(tool_call("refund", {"order": EVIL, "amount": 249}), "On its way."),
        tools=(ask_person, refund),
        history=MemoryHistory(),
    )
    app = app_of(network, auth=by_cookie, staff=["mia"])
    await said(app, f"A human! {EVIL}", "t1")
    await said(app, "Money back!", "t2")
    async with staffs_page(app, width, scheme) as page:
        await page.locator("#takeovers button").press("Enter")
        await expect(page.locator("#log li")).to_have_count(3)
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.locator("#join-name").fill("Mia")
        await page.locator("#join-name").press("Enter")
        await page.locator("#say-text").fill(f"I am Mia. {EVIL}")
        await page.get_by_role("button", name="Send").press("Enter")
        await expect(page.locator("#log li.staff .text")).to_have_text(f"I am Mia. {EVIL}")
        await page.locator("#seen summary").press("Enter")
        await page.locator("#explain").press("Enter")
        await expect(page.locator("#explained li")).to_have_count(6)
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.locator("#note").fill("Be kind.")
        await page.get_by_role("button", name="Hand back").press("Enter")
        await expect(page.locator("#log li.note .text")).to_have_text("Be kind.")
        await expect(page.locator("#takeovers button")).to_have_count(0)
        await page.locator("#approvals button").press("Enter")
        await page.locator(".question summary").press("Enter")
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.locator(".question textarea").fill('{"order": "A1", "amount": 200}')
        await page.locator(".question input[id^=reason]").fill("worn twice")
        await page.get_by_role("button", name="Approve").press("Enter")
        await expect(page.locator("#log li").last).to_contain_text("On its way.")
        await expect(page.locator("#approvals button")).to_have_count(0)
    (question,) = await app.state.api.settings.store.list_questions(status="answered")
    assert (question.answered_by, question.reason) == ("mia", "worn twice")
    assert "paid 200 for A1" in str(await app.state.api.settings.store.messages("t2"))
