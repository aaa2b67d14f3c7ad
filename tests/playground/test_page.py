"""The page in a browser: what a developer does with it, and whether everybody can."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore[reportMissingTypeStubs] - it has none
from playwright.sync_api import Browser, Page, Route, expect

from agentkit_py import Agent, MemoryHistory
from agentkit_py.evals import read_cases
from agentkit_py.mcp import MCPServer, Stdio
from agentkit_py.playground.app import BrokenTarget, create_playground
from agentkit_py.playground.runs import Playground
from agentkit_py.testing import Raw, ScriptedModel, tool_call
from agentkit_py.tools import Progress
from tests.mcp_servers.world import modern
from tests.playground.conftest import Served, new_page
from tests.playground.world import playground

ORDER = "Where is order 7? Write to ann@example.com"


def say(page: Page, text: str, *, wait: bool = True) -> None:
    """Send a message, and wait for the end of its run."""
    done = page.locator(".turn .foot .link")
    before = done.count()
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_role("button", name="Send").click()
    if wait:
        expect(done).to_have_count(before + 1)


def call(page: Page, number: int) -> None:
    """Look at a call of the last run."""
    page.get_by_role("tab", name="Run").click()
    page.locator(".pick", has_text=f"call {number}").click()
    expect(page.locator("#pane-call h2")).to_have_text(f"Call {number}")


def test_a_conversation_shows_the_run_as_it_happens_and_its_cost(page: Page) -> None:
    """Texts, tools, agents, model calls, tokens and money."""
    say(page, ORDER)
    chat = page.locator("#chat")
    expect(chat.locator(".said.user")).to_contain_text("Where is order 7?")
    expect(chat).to_contain_text("The tool said")
    expect(chat.locator(".tool .name")).to_have_text(["note", "look_up"])
    expect(chat.locator(".tool .agent")).to_have_text(["greeter", "clerk"])
    timeline = page.locator(".timeline .row")
    expect(timeline).to_have_count(9)  # network, 2 agents, 4 calls, 2 tools
    expect(page.locator("#pane-run .agent-run")).to_contain_text(["greeter", "clerk"])
    summary = page.locator(".summary")
    expect(summary).to_contain_text("4 model calls · 2 tool calls")
    expect(summary).to_contain_text(re.compile(r"EUR 0\.\d{4}"))


def test_the_matrix_of_a_conversation_opens_from_it(page: Page) -> None:
    """A cell shows the words that a call was sent."""
    link = page.get_by_role("link", name="Matrix")
    expect(link).to_be_hidden()
    say(page, ORDER)
    with page.expect_popup() as opened:
        link.click()
    matrix = opened.value
    expect(matrix.get_by_role("status")).to_contain_text("4 model calls")
    expect(matrix.locator("#note")).to_contain_text("processors of today")
    matrix.locator(".body .cell.seen").first.click()
    expect(matrix.locator("#detail h2")).to_contain_text("in model call 1 (greeter)")
    expect(matrix.locator("#detail pre")).not_to_be_empty()


def test_each_call_shows_the_messages_that_the_agent_saw_level_by_level(page: Page) -> None:
    """Removed and shortened messages are marked, with who did it and tokens before and after."""
    say(page, ORDER)
    say(page, "And my other order?")
    call(page, 3)
    steps = page.locator(".step")
    expect(steps).to_contain_text(
        ["Full history", "TokenLimiter", "hide_mail", "ToolCallFilter", "What it saw"]
    )
    removed = page.locator(".message.removed")
    expect(removed.first).to_contain_text("removed by agent: ToolCallFilter")
    expect(removed.first).to_contain_text("note(")
    changed = page.locator(".message.rewritten")
    expect(changed).to_contain_text("by network: hide_mail")
    expect(changed).to_contain_text("[hidden]")
    expect(changed.locator(".tok")).to_contain_text("→")
    expect(changed.locator(".change ins")).to_have_text("[hidden]")
    expect(changed.locator(".change del")).to_have_text("ann@example.com")
    expect(page.locator(".why-line")).to_contain_text("of tools that are not this agent's")
    steps.nth(0).click()
    expect(page.locator(".message.removed")).to_have_count(0)
    expect(page.locator(".messages")).to_contain_text("ann@example.com")


def test_a_call_is_saved_as_a_case_and_two_runs_are_shown_side_by_side(
    page: Page, tmp_path: Path
) -> None:
    """The case is a line that `read_cases` reads."""
    say(page, ORDER)
    say(page, "And my other order?")
    call(page, 3)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as evaluation case").click()
    waiting.value.save_as(tmp_path / "case.jsonl")
    (case,) = read_cases(tmp_path / "case.jsonl")
    assert case.input == "And my other order?"
    assert case.thread
    page.get_by_role("tab", name="Run").click()
    page.get_by_label("Compare with").select_option(index=1)
    table = page.locator(".compared table")
    expect(table).to_contain_text("Run 2")
    expect(table.locator("tr", has_text="message")).to_contain_text(ORDER)
    assert violations(page) == []


def test_request_and_reply_are_shown_as_they_were_without_the_key(page: Page) -> None:
    """The JSON that went over the wire."""
    say(page, ORDER)
    call(page, 4)
    page.get_by_role("button", name="Request").click()
    body = json.loads(page.locator("#pane-call pre.json").inner_text())
    assert body["model"] == "gpt-shop"
    assert body["stream"] is True
    assert [m["role"] for m in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "assistant",
        "tool",
    ]
    page.get_by_role("button", name="Reply").click()
    reply = json.loads(page.locator("#pane-call pre.json").inner_text())
    assert reply["choices"][0]["message"]["content"].startswith("The tool said")
    assert "sk-the-secret" not in page.content()


def test_a_call_is_made_again_with_another_prompt_and_other_processors(page: Page) -> None:
    """A look at what it would see, then the model's new answer; the thread stays as it is."""
    say(page, ORDER)
    say(page, "And my other order?")
    before = page.locator("#chat").inner_text()
    call(page, 3)
    page.get_by_role("button", name="Edit and run again").click()
    page.get_by_label("System prompt").fill("You sell. Be brief.")
    page.get_by_label("agent ToolCallFilter").uncheck()
    page.get_by_role("button", name="What would it see?").click()
    outcome = page.locator(".outcome")
    expect(outcome).to_contain_text("tokens sent")
    expect(outcome.locator(".message.removed")).to_have_count(0)
    page.get_by_role("button", name="Run again", exact=True).click()
    expect(outcome.locator(".side").nth(0)).to_contain_text("look_up(")
    expect(outcome.locator(".side").nth(1)).to_contain_text("Briefly: yes.")
    page.get_by_role("textbox", name="limit").fill("nonsense")
    page.get_by_role("button", name="What would it see?").click()
    expect(outcome).to_contain_text("limit: write JSON")
    assert page.locator("#chat").inner_text() == before


def test_a_thread_is_there_again_after_the_page_is_reloaded(page: Page) -> None:
    """The address names the thread; another one begins empty, and the list leads back."""
    say(page, "Hello, unique greeting")
    expect(page).to_have_url(re.compile("thread="))
    page.reload()
    expect(page.locator("#chat")).to_contain_text("You said: Hello, unique greeting")
    page.get_by_role("button", name="New").click()
    expect(page.locator("#chat")).to_contain_text("No messages yet")
    page.get_by_role("button", name="Try: Where is order 7?", exact=True).click()
    expect(page.get_by_label("Message", exact=True)).to_have_value("Where is order 7?")
    page.locator(".thread", has_text="Hello, unique greeting").click()
    expect(page.locator("#chat")).to_contain_text("You said: Hello, unique greeting")


def test_the_state_names_the_tool_of_each_change(page: Page) -> None:
    """Key by key."""
    say(page, "Hello there")
    page.get_by_role("tab", name="State").click()
    change = page.locator(".change")
    expect(change).to_contain_text("greeter note")
    expect(change).to_contain_text('topic: "" → "Hello there"')


def test_after_a_run_only_new_data_is_asked_for(page: Page) -> None:
    """The page still shows the whole conversation."""
    say(page, "Hello")
    # Loaded anew, the page has the whole first run: what it asks for at that run's end may be late.
    page.reload()
    expect(page.locator("#chat")).to_contain_text("You said: Hello")

    with page.expect_response(re.compile(r"/dev-api/threads/.*\?after=")) as asked:
        say(page, "Hello again")
    assert asked.value.url.endswith("?after=4")
    expect(page.locator("#chat .said.user")).to_have_count(2)


def test_connection_times_of_servers_are_shown_under_their_agent(
    browser: Browser, tmp_path: Path
) -> None:
    """One row each, also for a server that could not be reached."""
    gone = MCPServer("gone", Stdio("agentkit-no-such-program"), required=False)
    agent = Agent(
        name="desk",
        system="S",
        model=ScriptedModel("Hi.", "Hi."),
        mcp_servers=[modern(tmp_path, include=["add"]), gone],
        history=MemoryHistory(),
    )
    with Served(create_playground(Playground(agent))) as served:
        page = new_page(browser)
        page.goto(served.address)
        say(page, "Hello")
        rows = page.locator(".timeline .row")
        expect(rows).to_have_count(4)
        expect(rows.nth(0)).to_contain_text("desk")
        expect(rows.nth(1)).to_contain_text("MCP server m1 tool")
        expect(rows.nth(2)).to_contain_text("MCP server gonethe command")
        expect(rows.nth(3)).to_contain_text("call 1")
        indented = [
            one.evaluate("one => one.style.paddingLeft") for one in rows.locator(".label").all()
        ]
        assert indented == ["0px", "14px", "14px", "14px"]
        page.close()


def test_a_person_approves_or_denies_on_a_card(page: Page) -> None:
    """The wait is in the timeline, and the model reads the reason."""
    say(page, "A refund please", wait=False)
    card = page.locator(".card")
    expect(card).to_contain_text('refund(order="A7")')
    expect(page.locator(".row.wait")).to_contain_text("waiting")
    expect(page.locator("#pane-run .status")).to_have_text("waiting for a person")
    expect(page.locator("#chat .foot")).to_contain_text("waiting for a person")
    card.get_by_role("button", name="Approve").click()
    expect(page.locator("#chat")).to_contain_text("A7 is refunded")
    expect(card).to_contain_text("approved")
    page.get_by_role("button", name="New").click()
    say(page, "Another refund", wait=False)
    page.locator(".card").get_by_label("Reason").fill("Not today.")
    page.locator(".card").get_by_role("button", name="Deny").click()
    expect(page.locator(".card")).to_contain_text("denied: Not today.")
    expect(page.locator("#chat .said").last).to_contain_text("A person refused")


def test_a_reply_that_broke_off_stays_and_is_marked_as_cut(browser: Browser) -> None:
    """As the thread has it, also when the page is loaded again."""
    words = "Your refund of 120 EUR was approved. " * 5
    model = ScriptedModel(Raw(reply=words, cut_after=2500))
    agent = Agent(name="desk", system="S", model=model, history=MemoryHistory())
    with Served(create_playground(Playground(agent))) as served:
        page = new_page(browser)
        page.goto(served.address)
        say(page, "Hello")
        said = page.locator(".said:not(.user)")
        for _ in range(2):
            expect(said).to_have_count(1)
            expect(said).to_contain_text("Your refund")
            expect(said).to_contain_text("This reply is not whole")
            page.reload()
        page.close()


def test_the_progress_of_a_tool_is_shown_until_it_has_its_result(browser: Browser) -> None:
    """Its words and a bar, on the line of the call."""
    go = threading.Event()

    def pack(order: str) -> Generator[Any]:
        """Pack an order."""
        yield Progress(f"Packing {order}", fraction=0.5)
        go.wait()
        yield "packed"

    model = ScriptedModel(tool_call("pack", {"order": "A7"}), "Done.")
    agent = Agent(name="desk", system="S", model=model, tools=[pack], history=MemoryHistory())
    with Served(create_playground(Playground(agent))) as served:
        page = new_page(browser)
        try:
            page.goto(served.address)
            say(page, "Pack it", wait=False)
            line = page.locator("#chat .tool summary")
            expect(line).to_contain_text("Packing A7")
            expect(line.get_by_role("progressbar")).to_have_attribute("value", "0.5")
        finally:
            go.set()
        expect(page.locator(".turn .foot .link")).to_have_count(1)
        expect(line.get_by_role("progressbar")).to_have_count(0)
        expect(line).not_to_contain_text("Packing")
        page.close()


def test_a_run_is_cancelled(page: Page) -> None:
    """The run's finished parts stay, and the next message can be sent."""
    say(page, "wait for it", wait=False)
    expect(page.locator(".tool .name")).to_have_text(["note", "wait_for_stock"])
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".foot")).to_contain_text("cancelled")
    expect(page.locator("#pane-run .status")).to_have_text("cancelled")
    say(page, "Still there?")
    expect(page.locator("#chat")).to_contain_text("You said: Still there?")


def test_everything_is_reached_by_keyboard(page: Page) -> None:
    """Shortcuts, tabs and help; a key that is typed into a box is text."""
    page.keyboard.press("/")
    page.keyboard.type("Where is order 7? j k t")
    page.keyboard.press("Enter")
    expect(page.locator(".foot .link")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("#pane-call h2")).to_have_text("Call 1")
    page.keyboard.press("j")
    expect(page.locator("#pane-call h2")).to_have_text("Call 2")
    page.keyboard.press("k")
    expect(page.locator("#pane-call h2")).to_have_text("Call 1")
    page.keyboard.press("e")
    expect(page.get_by_label("System prompt")).to_be_visible()
    page.keyboard.press("5")
    expect(page.get_by_role("tab", name="State")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="State").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Call")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_next_call_is_one_of_the_run_that_is_shown(page: Page) -> None:
    """One picks a run, then its calls; not those of the thread's first run."""
    for said in ("Hello one", "Hello two"):
        say(page, said)
    page.locator(".turn .foot .link").nth(1).click()
    page.keyboard.press("j")
    expect(page.locator("#pane-call h2")).to_have_text("Call 1")
    expect(page.locator("#pane-call .messages")).to_contain_text("Hello two")
    page.locator(".turn .foot .link").nth(0).click()
    page.keyboard.press("k")
    expect(page.locator("#pane-call h2")).to_have_text("Call 3")
    expect(page.locator("#pane-call .messages")).not_to_contain_text("Hello two")


def test_a_message_that_is_sent_before_the_page_is_ready_waits_for_it(
    page: Page, address: str
) -> None:
    """A message typed quickly is not lost, and the next message is taken at once."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.goto("about:blank")  # what the first look still asks for is not what is held
    page.route("**/dev-api/threads", hold, times=1)
    with page.expect_request("**/dev-api/threads"):
        page.goto(address)
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" else None)
    page.get_by_label("Message", exact=True).fill("Quickly typed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    assert sent == []
    held[0].continue_()
    done = page.locator(".turn .foot .link")
    expect(done).to_have_count(1)
    page.get_by_label("Message", exact=True).fill("And the next one")
    page.keyboard.press("Enter")
    expect(done).to_have_count(2)


def test_a_message_to_a_thread_that_is_answered_stays_in_the_box(page: Page) -> None:
    """The page says why it was not sent."""
    say(page, "wait for it", wait=False)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    page.get_by_label("Message", exact=True).fill("Me too")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text("run in progress")
    expect(page.get_by_label("Message", exact=True)).to_have_value("Me too")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".foot")).to_contain_text("cancelled")


def test_an_empty_thread_names_the_agents(page: Page) -> None:
    """This includes the first view, drawn before the agents were known."""
    expect(page.locator("#chat .empty")).to_contain_text("Agents: greeter, clerk")
    expect(page.get_by_role("button", name="Try: Where is order 7?")).to_be_visible()
    page.get_by_role("tab", name="Call").click()
    expect(page.locator("#pane-call")).to_contain_text("calls of your next message are shown here")


def colour(page: Page) -> str:
    """The page's background."""
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_page_continues_when_another_process_answers(browser: Browser, tmp_path: Path) -> None:
    """After a change of code the thread stays, and an error is shown until it is fixed."""
    served = Served(create_playground(playground(tmp_path)))
    page = new_page(browser)
    page.goto(served.address)
    say(page, "Before the change")
    for app in (BrokenTarget("'shop' cannot be imported", "Traceback"), playground(tmp_path)):
        served.stop()
        served = Served(create_playground(app, target="shop:network"), served.port)
        problem = page.get_by_role("alert")
        if isinstance(app, BrokenTarget):
            expect(problem).to_contain_text("'shop' cannot be imported")
        else:
            expect(problem).to_be_hidden()
    expect(page.locator(".turn .foot .link")).to_contain_text(["earlier run"])
    expect(page.locator("#chat")).to_contain_text("You said: Before the change")
    page.locator(".tool summary").first.click()
    expect(page.locator(".tool .result").first).to_have_text("noted")
    say(page, "After the change")
    expect(page.locator("#chat")).to_contain_text("You said: After the change")
    page.close()
    served.stop()


def test_dark_follows_the_system_until_one_is_chosen(page: Page) -> None:
    """The choice is kept."""
    light = colour(page)
    page.emulate_media(color_scheme="dark")
    dark = colour(page)
    assert dark != light
    page.keyboard.press("t")
    assert colour(page) == light
    page.reload()
    assert colour(page) == light


PANES = ["Threads", "Chat", "Run", "Call", "State", "Setup"]


def open_panes(width: int) -> list[str]:
    """The panes that are no tabs at a width."""
    return PANES[:2] if width >= 1180 else PANES[1:2] if width >= 760 else []


def panes(page: Page, width: int) -> Iterator[str]:
    """Each pane in turn at a width, with a call to look at."""
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.get_by_role("tab")).to_have_count(6 - len(open_panes(width)))
    for name in PANES:
        tab = page.get_by_role("tab", name=name)
        if tab.is_visible():
            tab.click()
            yield name


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_nothing_needs_to_be_scrolled_sideways(page: Page, width: int) -> None:
    """Every pane, the long texts and tables in them, and the edit form."""
    say(page, ORDER)
    page.keyboard.press("Escape")
    call(page, 4)
    seen: list[str] = []
    for name in panes(page, width):
        for part in ("What it saw", "Request", "Reply", "Edit and run again"):
            if name == "Call":
                page.get_by_role("button", name=part, exact=True).click()
            wide = page.evaluate(
                "[document.documentElement, ...document.querySelectorAll('.pane:not([hidden])')]"
                ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.id || e.tagName)"
            )
            assert wide == [], name
        seen.append(name)
    assert seen == [name for name in PANES if name not in open_panes(width)]


def violations(page: Page) -> list[str]:
    """Return axe's violations, of any weight."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['help']} {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in found["violations"]
    ]


@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing(page: Page, width: int) -> None:
    """All panes are checked, light and dark, wide and narrow."""
    say(page, ORDER)
    say(page, "A refund please", wait=False)
    expect(page.locator(".card")).to_be_visible()
    call(page, 2)
    for name in panes(page, width):
        for part in ("Edit and run again", "What it saw") if name == "Call" else ("",):
            if part:
                page.get_by_role("button", name=part, exact=True).click()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert violations(page) == [], f"{name} {part} {scheme}"
    page.get_by_role("button", name="Help and shortcuts").click()
    assert violations(page) == [], "help"


def test_axe_would_find_something(page: Page) -> None:
    """The measure itself: a picture without a name is serious."""
    page.evaluate("document.body.append(new Image())")
    assert any(one.startswith("image-alt") for one in violations(page))
