"""Runs from before the playground was opened: their timeline, graph and calls from the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from agentkit_py import Agent, MemoryHistory, Network
from agentkit_py.playground.app import create_playground
from agentkit_py.playground.runs import Playground
from agentkit_py.routing import handoffs
from agentkit_py.testing import ScriptedModel, tool_call
from tests.playground.conftest import Served, new_page
from tests.playground.test_page import ORDER, call, say, violations
from tests.playground.world import playground

_LINES = "**Refund** of <img src=x onerror=alert(1)>:\n\n- one\n- two"


def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is sent"


def desk(*replies: Any) -> Network:
    """Return two agents, of which the first hands over, and a scripted model."""
    money = Agent(name="Money Desk", system="You refund.", tools=[look_up])
    front = Agent(name="front", system="You greet.", handoffs=[money])
    return Network(
        name="desk",
        agents=[front, money],
        router=handoffs("front"),
        default_model=ScriptedModel(*replies),
        history=MemoryHistory(),
    )


@pytest.fixture
def opened_later(browser: Browser, tmp_path: Path) -> Any:
    """Return the page of a second process, on a thread that another one has answered."""
    with Served(create_playground(playground(tmp_path))) as served:
        page = new_page(browser)
        page.goto(served.address)
        say(page, ORDER)
        thread = page.url.split("?")[1]
        page.close()
    with Served(create_playground(playground(tmp_path))) as served:
        page = new_page(browser)
        page.goto(f"{served.address}/?{thread}")
        expect(page.locator(".turn .foot .link")).to_contain_text(["earlier run"])
        yield page
        page.close()


def test_a_run_from_before_has_its_timeline_from_the_store(opened_later: Page) -> None:
    """Agents, calls with their tokens, and tools; no durations, which nothing recorded."""
    page = opened_later
    expect(page.locator(".timeline .row")).to_have_count(9)
    expect(page.locator("#pane-run")).to_contain_text("From the store")
    expect(page.locator(".timeline .figures").nth(2)).to_contain_text("→")
    expect(page.locator(".path li")).to_contain_text(
        ["You ask greeter", "After greeter, the router chooses clerk"]
    )
    say(page, "And my other order?")
    expect(page.locator("#pane-run h2")).to_have_text("Run 2 of 2")
    expect(page.locator("#chat .said.user")).to_have_count(2)


def test_an_earlier_call_shows_its_messages(opened_later: Page) -> None:
    """As the processors of today would send it, and the page says so."""
    page = opened_later
    call(page, 3)
    pane = page.locator("#pane-call")
    expect(pane).to_contain_text("The request was not recorded")
    expect(pane).to_contain_text("processors of today")
    expect(pane.locator(".messages")).to_contain_text("Where is order 7?")
    page.locator(".step").first.click()
    expect(page.get_by_role("button", name="Edit and run again")).to_have_count(0)
    assert violations(page) == []


def test_the_graph_shows_who_handed_over_to_whom_and_in_words_too(browser: Browser) -> None:
    """A handover is known by its tool, however the agent's name is written."""
    replies = [tool_call("transfer_to_money_desk"), tool_call("look_up", {"order": "A7"}), _LINES]
    with Served(create_playground(Playground(desk(*replies)))) as served:
        page = new_page(browser)
        page.goto(served.address)
        say(page, "My money, please")
        steps = page.locator(".path li")
        expect(steps).to_contain_text(["You ask front", "front hands over to Money Desk"])
        graph = page.locator(".graph svg")
        expect(graph.locator(".node text")).to_have_text(["You", "front", "Money Desk"])
        expect(graph.locator(".used text")).to_have_text(["look_up"])
        expect(graph.locator(".edge.hands text")).to_have_text(["2"])
        steps.nth(1).get_by_role("button").press("Enter")
        expect(page.locator("#pane-call h2")).to_have_text("Call 2")
        page.set_viewport_size({"width": 390, "height": 800})
        page.get_by_role("tab", name="Run").click()
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide)
        assert violations(page) == []
        page.close()


def test_replies_are_shown_as_markdown_and_json_and_never_as_html(browser: Browser) -> None:
    """Lists and bold words are elements, JSON is indented, and tags are text."""
    with Served(create_playground(Playground(desk(_LINES, '{"amount": 12}')))) as served:
        page = new_page(browser)
        page.goto(served.address)
        say(page, "My money, please")
        reply = page.locator("#chat .said:not(.user)")
        expect(reply.locator("strong")).to_have_text("Refund")
        expect(reply.locator("li")).to_have_text(["one", "two"])
        expect(reply.locator("img")).to_have_count(0)
        expect(reply).to_contain_text("<img src=x")
        say(page, "How much?")
        expect(page.locator("#chat .json")).to_have_text('{\n  "amount": 12\n}')
        page.close()
