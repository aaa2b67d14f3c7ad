"""The page of staff in a browser: hostile text stays text, axe finds nothing, keys are enough."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs] - it has none
from playwright.async_api import Page, Route, async_playwright, expect
from starlette.requests import Request

from agentkit_py import MemoryHistory, tool
from agentkit_py.history.questions import Question
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.testing import tool_call, tool_calls
from agentkit_py.tools import ask_person
from tests.browser import PATIENCE, chromium
from tests.server.world import app_of, client_of, said, served, support

EVIL = "<img src=x onerror=alert(1)><b>\"'&</b>" + "long" * 60


def by_cookie(request: Request) -> str | None:
    """The user, as a browser says it."""
    return request.headers.get("x-user") or request.cookies.get("user")


@tool(needs_approval=True, approvers=["mia"], title="Refund {amount} cents")
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


async def desk() -> Any:
    """A server with a customer who wants a person, and who wants money."""
    network = support(
        *(tool_call("ask_person", {"reason": EVIL}), f"Somebody comes. {EVIL}"),
        *(tool_call("refund", {"order": EVIL, "amount": 3000}), "On its way."),
        tools=(ask_person, refund),
        history=MemoryHistory(),
    )
    app = app_of(network, auth=by_cookie, staff=["mia"])
    await said(app, f"A human! {EVIL}", "t1")
    await said(app, "Money back!", "t2")
    return app


SIZES = [(390, "light"), (1280, "dark"), (390, "dark"), (1280, "light")]


@pytest.mark.parametrize(("width", "scheme"), SIZES)
async def test_staff_take_over_note_and_hand_back_on_the_page(width: int, scheme: str) -> None:
    """All of it by keyboard, with text that would be a program in a page less careful."""
    app = await desk()
    async with staffs_page(app, width, scheme) as page:
        queue = page.locator("#queue button")
        await expect(queue).to_have_count(2)
        await expect(page).to_have_title("(2) Help desk")
        assert (await problems(page), await is_wider(page)) == ([], False)
        await queue.first.focus()
        await page.keyboard.press("ArrowDown")
        await expect(queue.nth(1)).to_be_focused()
        await page.keyboard.press("ArrowUp")
        await page.keyboard.press("Enter")
        await expect(page.locator("#log li")).to_have_count(3)
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.locator("#join-name").fill("Mia")
        await page.locator("#join-name").press("Enter")
        await page.locator("#say-text").fill(f"I am Mia. {EVIL}")
        await page.get_by_role("button", name="Send").press("Enter")
        await expect(page.locator("#log li.staff .text")).to_have_text(f"I am Mia. {EVIL}")
        await expect(queue.last).to_contain_text("Nobody waits")
        await page.locator("#internal-text").fill("A regular customer.")
        await page.get_by_role("button", name="Add note").press("Enter")
        await expect(page.locator("#log li.note .text")).to_have_text("A regular customer.")
        await page.locator("#seen summary").press("Enter")
        await page.locator("#explain").press("Enter")
        await expect(page.locator("#explained > li")).to_have_count(6)  # without the note
        await expect(page.locator("#earlier-list button")).to_have_count(1)
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.locator("#note").fill("Be kind.")
        await page.get_by_role("button", name="Hand back").press("Enter")
        await expect(page.locator("#log li.note .text").last).to_have_text("Be kind.")
        await expect(queue).to_have_count(1)
        await page.locator("#join-name").press("Escape")
        await expect(page.locator("#filter")).to_be_focused()


@pytest.mark.parametrize(("width", "scheme"), SIZES)
async def test_staff_change_and_approve_and_the_entry_says_so(width: int, scheme: str) -> None:
    """By keyboard; what was really approved, by whom and why is in the conversation."""
    app = await desk()
    async with staffs_page(app, width, scheme) as page:
        queue = page.locator("#queue button")
        await queue.filter(has_text="To decide").press("Enter")
        await page.locator(".question summary").press("Enter")
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.get_by_label("Amount").fill("much")
        await page.get_by_role("button", name="Approve").press("Enter")
        await expect(page.locator(".question [role=alert]")).to_have_text(
            "Amount is not a number: much"
        )
        await page.get_by_label("Amount").fill("1500")
        await page.locator(".question input[id^=reason]").fill("worn twice")
        await page.get_by_role("button", name="Approve").press("Enter")
        await expect(page.locator("#log li").last).to_contain_text("On its way.")
        await expect(queue).to_have_count(1)
        await expect(page).to_have_title("(1) Help desk")
        decided = page.locator(".decided")
        await expect(decided).to_contain_text("Approved with changes by mia (you)")
        await expect(decided.locator("dd.changed")).to_have_text("1500, changed from 3000")
        await expect(decided).to_contain_text("Reason: worn twice")
        await expect(page.locator("#log summary").last).to_have_text("Refund 1500 cents")
        assert (await problems(page), await is_wider(page)) == ([], False)
    (question,) = await app.state.api.settings.store.list_questions(status="answered")
    assert (question.answered_by, question.reason) == ("mia", "worn twice")
    assert "paid 1500 for" in str(await app.state.api.settings.store.messages("t2"))


def anybody(_user: str, _question: Question) -> bool:
    """The rule of an application."""
    return True


async def test_a_colleagues_answer_is_shown_in_the_place_of_the_question() -> None:
    """With who it was and why; the page does not ask for what is decided."""
    asks = tool_call("refund", {"order": "A1", "amount": 3000})
    network = support(asks, "It was refused.", tools=(refund,), history=MemoryHistory())
    app = app_of(network, auth=by_cookie, staff=["mia"], may_answer=anybody)
    await said(app, "Money back!", "t1")
    async with staffs_page(app, 1280, "light") as page:
        await page.locator("#queue button").click()
        await expect(page.get_by_role("button", name="Deny")).to_be_visible()
        (asked,) = await app.state.api.settings.store.list_questions(thread_id="t1")
        async with client_of(app, "sam") as sam:
            body = {"action": "deny", "reason": "worn"}
            assert (await sam.post(f"/api/approvals/{asked.id}", json=body)).status_code == 200
        closed = page.locator(".question.closed")
        await expect(closed).to_contain_text("A colleague answered this meanwhile.")
        await expect(closed).to_contain_text("Denied by sam")
        await expect(closed).to_contain_text("Reason: worn")
        assert (await problems(page)) == []
        await closed.get_by_role("button", name="Dismiss").press("Enter")
        await expect(closed).to_have_count(0)
        await expect(page.locator(".decided")).to_contain_text("Denied by sam")


async def test_staff_deny_with_a_reason_and_words_to_the_customer() -> None:
    """By keyboard; the model and the conversation get them."""
    network = support(
        tool_call("refund", {"order": "A1", "amount": 3000}),
        "I am sorry.",
        tools=(refund,),
        history=MemoryHistory(),
    )
    app = app_of(network, auth=by_cookie, staff=["mia"])
    await said(app, "Money back!", "t1")
    async with staffs_page(app, 390, "dark") as page:
        await page.locator("#queue button").press("Enter")
        await page.get_by_label("Reason, which the agent reads").fill("worn twice")
        await page.get_by_label("Words to the customer").fill("We cannot take it back.")
        await page.get_by_role("button", name="Deny").press("Enter")
        decided = page.locator(".decided")
        await expect(decided).to_contain_text("Denied by mia (you)")
        await expect(decided).to_contain_text("Reason: worn twice")
        await expect(decided).to_contain_text("We cannot take it back.")
        await expect(page.locator("#log li").last).to_contain_text("I am sorry.")
        assert (await problems(page), await is_wider(page)) == ([], False)
    model: Any = network.default_model
    assert "worn twice" in str(model.bodies[-1])


async def test_single_calls_of_a_question_are_denied() -> None:
    """The box of a call that is unchecked: the others are made."""
    both = tool_calls(
        ("refund", {"order": "A1", "amount": 10}), ("refund", {"order": "B2", "amount": 20})
    )
    network = support(both, "Done.", tools=(refund,), history=MemoryHistory())
    app = app_of(network, auth=by_cookie, staff=["mia"])
    await said(app, "Money back!", "t1")
    async with staffs_page(app, 1280, "light") as page:
        await page.locator("#queue button").press("Enter")
        await page.get_by_label("Approve this call").nth(1).uncheck()
        await page.get_by_role("button", name="Approve").press("Enter")
        await expect(page.locator(".decided")).to_contain_text(
            ["Approved by mia (you)", "Denied by mia (you)"]
        )
        assert await problems(page) == []
    kept = str(await app.state.api.settings.store.messages("t1"))
    assert "paid 10 for A1" in kept
    assert "paid 20" not in kept


async def test_the_queue_is_filtered() -> None:
    """By what waits, and by who is on it."""
    app = await desk()
    async with staffs_page(app, 1280, "light") as page:
        queue = page.locator("#queue button")
        await expect(queue).to_have_count(2)
        await page.get_by_label("Show").select_option("decide")
        await expect(queue).to_have_count(1)
        await expect(queue).to_contain_text("To decide")
        await page.get_by_label("Show").select_option("mine")
        await expect(page.locator("#queue-none")).to_have_text("None of these.")
        await StaffDesk(app.state.api.settings.store).join("t1", by="mia", name="Mia")
        await expect(queue).to_contain_text("You are on it")
        await page.get_by_label("Show").select_option("free")
        await expect(queue).to_have_count(1)
        await expect(queue).to_contain_text("To decide")


async def test_a_decision_that_comes_after_a_colleagues_is_refused_and_said() -> None:
    """The page did not hear of the colleague's answer before the click."""
    asks = tool_call("refund", {"order": "A1", "amount": 3000})
    network = support(asks, "It was refused.", tools=(refund,), history=MemoryHistory())
    app = app_of(network, auth=by_cookie, staff=["mia"], may_answer=anybody)
    await said(app, "Money back!", "t1")
    async with staffs_page(app, 1280, "light") as page:
        await page.locator("#queue button").click()
        approve = page.get_by_role("button", name="Approve")
        await expect(approve).to_be_visible()
        (asked,) = await app.state.api.settings.store.list_questions(thread_id="t1")

        async def overtaken(route: Route) -> None:
            """A colleague denies while this answer is on its way."""
            async with client_of(app, "sam") as sam:
                body = {"action": "deny", "reason": "worn"}
                answer = await sam.post(f"/api/approvals/{asked.id}", json=body)
                assert answer.status_code == 200
            answer = await route.fetch()
            statuses.append(answer.status)
            await route.fulfill(response=answer)

        statuses: list[int] = []
        await page.route(f"**/api/approvals/{asked.id}", overtaken)
        await approve.press("Enter")
        closed = page.locator(".question.closed")
        await expect(closed).to_contain_text("A colleague answered this meanwhile.")
        await expect(closed).to_contain_text("Denied by sam")
        assert statuses == [409]
    assert "paid" not in str(await app.state.api.settings.store.messages("t1"))


async def test_staff_search_and_read_the_matrix() -> None:
    """Typed outputs and results are lists; a refusal is at its button."""
    answer = '{"hats": [{"name": "bowler", "price": 30}], "inStock": true}'
    app = app_of(support(answer, history=MemoryHistory()), auth=by_cookie, staff=["mia"])
    await said(app, "What hats are there?", "t1")
    async with staffs_page(app, 1280, "light") as page:
        await expect(page.locator("#queue-none")).to_have_text("Nobody waits.")
        await page.get_by_label("Search all conversations").fill("scarf")
        await page.keyboard.press("Enter")
        await expect(page.locator("#found-none")).to_have_text("Nothing was found.")
        await page.get_by_label("Search all conversations").fill("hats")
        await page.keyboard.press("Enter")
        await page.locator("#found button").press("Enter")
        listed = page.locator("#log li.agent")
        await expect(listed.locator("dt").first).to_have_text("Hats")
        await expect(listed).to_contain_text("bowler")
        await expect(listed).to_contain_text("yes")
        await expect(listed).not_to_contain_text("{")
        await page.locator("#join-name").fill("<b>")
        await page.locator("#join-name").press("Enter")
        await expect(page.locator("#join [role=alert]")).to_contain_text("name: is not the name")
        assert (await problems(page)) == []
        async with page.context.expect_page() as opened:
            await page.locator("#matrix").press("Enter")
        matrix = await opened.value
        matrix.set_default_timeout(PATIENCE)
        await expect(matrix.locator("#title")).to_have_text("support: t1")
        await expect(matrix.locator("[role=gridcell]").first).to_be_visible()
