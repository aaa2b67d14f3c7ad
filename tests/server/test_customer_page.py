"""The chat page for customers and its widget, in a browser, with the keyboard alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import inngest
import pytest
from playwright.async_api import Page, async_playwright, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from agentkit_py import MemoryHistory, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.chunks import FAILED
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.routing import sequence
from agentkit_py.server import ChatPage
from agentkit_py.server import app as server_app
from agentkit_py.testing import error, tool_call
from tests.browser import PATIENCE, chromium
from tests.server.test_staff_page import is_wider, problems
from tests.server.world import app_of, client_of, served, support, waiting

EVIL = "<img src=x onerror=alert(1)>"
REPLY = f"**Two** things:\n\n- your order `A1`\n- [the page](https://shop.example/a) {EVIL}"
PAGE = ChatPage(name="Hat shop", greeting="*Hello!*", suggestions=["Where is my hat?"])


@tool(needs_approval=True)
def refund(order_id: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order_id}"


@tool(needs_approval=True, title="Pay {amount} back for order {order_id}")
def refund_with_title(order_id: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order_id}"


@asynccontextmanager
async def browsing(url: str, **options: Any) -> AsyncGenerator[Page]:
    """A page in a browser; an error of its script fails the test."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**chromium())
        context = await browser.new_context(**options)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        await page.goto(url)
        yield page
        await browser.close()
    assert complaints == []


async def say(page: Page, words: str) -> None:
    """Write a message, and send it with the keyboard."""
    await page.get_by_label("Message").fill(words)
    await page.get_by_label("Message").press("Enter")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1200, "dark")])
async def test_customers_chat_and_decide_with_the_keyboard(width: int, scheme: str) -> None:
    """Text of models is Markdown and never HTML; decisions survive a reload; axe finds nothing."""
    network = support(
        REPLY,
        *(tool_call("refund", {"order_id": EVIL, "amount": 30}), "On its way."),
        tools=(refund,),
        history=MemoryHistory(),
    )
    app = app_of(network, auth="local", page=PAGE)
    window = {"width": width, "height": 700}
    async with (
        served(app) as url,
        browsing(f"{url}/chat", viewport=window, color_scheme=scheme) as page,
    ):
        log = page.get_by_role("log")
        await expect(log.locator("em")).to_have_text("Hello!")
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.get_by_role("button", name="Where is my hat?").press("Enter")
        await expect(log.locator("strong")).to_have_text("Two")
        await expect(log.locator("li")).to_have_text(["your order A1", f"the page {EVIL}"])
        await expect(log.get_by_role("link")).to_have_attribute("href", "https://shop.example/a")
        await say(page, "Money back!")
        yes = page.get_by_role("button", name="Yes, go ahead")
        await expect(yes).to_be_visible()
        await expect(page.locator("dd")).to_have_text([EVIL, "30"])
        assert (await problems(page), await is_wider(page)) == ([], False)
        await page.reload()
        await yes.press("Enter")
        await expect(log.locator(".message").last).to_have_text("On its way.")
        await expect(log.locator(".you")).to_have_text(["Where is my hat?", "Money back!"])
        await expect(page.get_by_role("status")).to_have_text("")
        words = await page.locator("body").inner_text()
        assert not [word for word in ("clerk", "support", "refund", "{") if word in words]
        await page.get_by_role("button", name="New conversation").press("Enter")
        await expect(log.locator(".you")).to_have_count(0)
        await expect(log.locator("em")).to_have_text("Hello!")


async def test_a_question_is_put_in_the_words_of_the_tools_title() -> None:
    """Customers who may not decide get no buttons."""
    call = tool_call("refund_with_title", {"order_id": "A1", "amount": 30})
    for approvers, buttons, words in (
        (["owner"], 1, "Pay 30 back for order A1"),
        (["mia"], 0, "A colleague looks at this first."),
    ):
        network = support(call, tools=(refund_with_title,), history=MemoryHistory())
        app = app_of(network, auth="local", page=PAGE, approvers=approvers)
        async with served(app) as url, browsing(f"{url}/chat") as page:
            await say(page, "Money back!")
            question = page.get_by_role("group", name="Your decision")
            await expect(question).to_contain_text(words)
            await expect(question.get_by_role("button", name="No")).to_have_count(buttons)


async def test_a_message_that_was_not_sent_stays_until_it_is_sent() -> None:
    """The problem stays on the page; a click sends the message once."""
    app = app_of(support("Hello."), auth="local", page=PAGE)
    async with served(app) as url, browsing(f"{url}/chat") as page:
        await expect(page.locator("em")).to_have_text("Hello!")
        await page.route("**/api/chat", lambda route: route.abort())
        await say(page, "Hi")
        await expect(page.locator(".failed")).to_contain_text("Not sent. We cannot be reached")
        assert await problems(page) == []
        await page.unroute("**/api/chat")
        await page.get_by_role("button", name="Send again").press("Enter")
        await expect(page.locator(".message")).to_have_text(["Hi", "Hello."])
        await expect(page.locator(".failed")).to_have_count(0)


async def test_a_message_stays_that_is_sent_while_the_thread_is_read() -> None:
    """The thread as it was before does not take it away."""
    app = app_of(
        support("Hello.", tool_call("refund", {"order_id": "A1", "amount": 1}), tools=(refund,)),
        auth="local",
        page=PAGE,
    )
    read, go = asyncio.Event(), asyncio.Event()

    async def late(route: Any) -> None:
        answer = await route.fetch()
        if not go.is_set() and "Hello." in await answer.text():
            read.set()
            await go.wait()
        await route.fulfill(response=answer)

    async with served(app) as url, browsing(f"{url}/chat") as page:
        await page.route("**/api/threads/*", late)
        await say(page, "Hi")
        await read.wait()
        async with page.expect_response("**/api/chat"):
            await say(page, "Money back!")
        go.set()
        await expect(page.get_by_role("button", name="Yes, go ahead")).to_be_visible()
        await expect(page.locator(".you")).to_have_text(["Hi", "Money back!"])


async def test_a_lost_connection_is_shown_and_restored() -> None:
    """What came meanwhile is shown."""
    app = app_of(support("Hello."), auth="local", page=PAGE)
    async with served(app) as url, browsing(f"{url}/chat") as page:
        await page.route("**/api/stream", lambda route: route.abort())
        await page.reload()
        notice = page.get_by_role("alert")
        await expect(notice).to_contain_text("The connection is lost. We are trying again.")
        await say(page, "Hi")
        await page.unroute("**/api/stream")
        await expect(page.locator(".message")).to_have_text(["Hi", "Hello."])
        await expect(notice).to_have_text("")


async def test_a_reply_is_stopped_and_a_failed_reply_is_shown() -> None:
    """Both also after a reload."""
    wait, begun, _ = waiting()
    network = support(tool_call("wait", {}), error(400, "no"), tools=(wait,))
    app = app_of(network, auth="local", page=PAGE)
    async with served(app) as url, browsing(f"{url}/chat") as page:
        await say(page, "Hi")
        await begun.wait()
        await page.get_by_role("button", name="Stop").press("Enter")
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        await expect(page.get_by_role("status")).to_have_text("")
        await say(page, "And now?")
        await expect(page.locator(".failed")).to_have_text(FAILED)
        await page.reload()
        await expect(page.locator(".failed")).to_have_text(FAILED)


async def test_staff_write_under_their_names() -> None:
    """The page says who is there."""
    history = MemoryHistory()
    app = app_of(support("Hello.", history=history), auth="local", page=PAGE, history=history)
    async with served(app) as url, browsing(f"{url}/chat?thread=t1") as page:
        await say(page, "Hi")
        await expect(page.locator(".message")).to_have_text(["Hi", "Hello."])
        desk = StaffDesk(history)
        await desk.join("t1", by="mia", name="Mia")
        await desk.say("t1", "I **look** into it.", by="mia")
        await expect(page.locator(".message.staff")).to_have_text("MiaI look into it.")
        await expect(page.locator("#people")).to_have_text("You are talking to Mia")


async def test_earlier_messages_are_loaded_on_demand() -> None:
    """A long conversation shows its end first."""
    history = MemoryHistory()
    network = support(*[f"answer {n}" for n in range(101)], history=history)
    app = app_of(network, auth="local", page=PAGE, history=history)
    for number in range(101):
        await network.run(
            f"question {number}", thread_id=await _thread(history), state={"user_id": "local"}
        )
    async with served(app) as url, browsing(f"{url}/chat?thread=long") as page:
        await expect(page.locator(".message").last).to_have_text("answer 100")
        await page.get_by_role("button", name="Earlier messages").press("Enter")
        await expect(page.locator(".message").first).to_have_text("question 0")
        await expect(page.locator(".message")).to_have_count(202)


async def _thread(history: MemoryHistory) -> str:
    return await history.add_thread("long", user_id="local")


async def test_the_widget_opens_the_page_with_the_sign_in_of_the_site() -> None:
    """A site of another origin gives its token; Escape closes; a new answer is marked."""

    def by_token(request: Request) -> str | None:
        return {"Bearer of-ada": "ada"}.get(request.headers.get("authorization", ""))

    async def shop(_request: Request) -> HTMLResponse:
        return HTMLResponse(
            "<!doctype html><html lang=en><title>Shop</title><main><h1>Hats</h1></main>"
            "<script>window.agentkitChat = { token: async () => 'of-ada' }</script>"
            f"<script src='{chat}/chat/widget.js' defer></script>"
        )

    site = Starlette(routes=[Route("/", shop)])
    async with served(site) as shop_url:
        page_of_shop = ChatPage(name="Hat shop", color="#ffd54f", sites=[shop_url])
        app = app_of(support("Hello Ada."), auth=by_token, page=page_of_shop)
        async with served(app) as chat, browsing(shop_url) as page:
            await page.get_by_role("button", name="Chat with us").press("Enter")
            frame = page.frame_locator("iframe")
            await frame.get_by_label("Message").fill("Hi")
            await frame.get_by_label("Message").press("Enter")
            await expect(frame.locator(".message")).to_have_text(["Hi", "Hello Ada."])
            assert await problems(page) == []
            await page.set_viewport_size({"width": 390, "height": 800})
            box = await page.locator("iframe").bounding_box()
            assert box is not None
            assert (box["width"], box["height"]) == (390, 800 - 72)  # above its button
            await frame.get_by_label("Message").press("Escape")
            await expect(page.locator("iframe")).to_be_hidden()
            chat_button = page.get_by_role("button", name="Chat with us")
            await expect(chat_button).to_be_focused()
            await expect(chat_button).to_have_css("background-color", "rgb(255, 213, 79)")
            await expect(chat_button).to_have_css("color", "rgb(0, 0, 0)")
        threads = await app.state.api.settings.store.list_threads(user_id="ada")
        assert len(threads) == 1


async def test_only_named_sites_may_show_the_page_in_a_frame() -> None:
    """The page holds no data, and needs nothing from other hosts."""
    app = app_of(support("Hello."), page=ChatPage(path="/help/desk", sites=["https://a.example"]))
    async with client_of(app, user=None) as client:
        answer = await client.get("/help/desk/")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'self' https://a.example" in policy
        assert '"api": "../../api/"' in answer.text
        assert (await client.get("/help/desk/chat.js")).status_code == 200
        assert (await client.get("/chat/")).status_code == 404


def test_texts_of_the_page_cannot_end_its_markup() -> None:
    """Name and greeting are escaped where they stand."""
    text = ChatPage(name="</title><script>", greeting="</script><script>alert(1)").html()
    assert "<script>alert" not in text
    assert "</title><script>" not in text


@pytest.mark.parametrize(
    ("color", "text"), [("#1d4ed8", "#ffffff"), ("#ffd54f", "#000000"), ("#777777", "#000000")]
)
def test_text_on_the_colour_can_be_read(color: str, text: str) -> None:
    """Black or white, whichever has more contrast."""
    assert ChatPage(color=color).text_color == text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"color": "blue"}, "color must be a colour like '#1d4ed8', got 'blue'"),
        ({"path": "chat"}, "path must be a path like '/chat', got 'chat'"),
        ({"path": "/"}, "path must be a path"),
        ({"path": "/api/chat"}, "path must be none of the app's own paths, got '/api/chat'"),
        ({"sites": ["https://shop.example/page"]}, "is not the origin of a site"),
        ({"sites": "https://shop.example"}, "sites"),
        ({"suggestions": "Hello"}, "suggestions"),
        ({"name": 3}, "name"),
    ],
)
def test_values_that_cannot_be_shown_are_refused(values: dict[str, Any], words: str) -> None:
    """The value is named."""
    with pytest.raises(ConfigurationError, match=words.replace("(", r"\(")):
        ChatPage(**values)


def test_each_path_of_the_app_is_refused_for_the_page() -> None:
    """Else the page would hide it, or be hidden."""
    for route in app_of(support("x")).routes:
        path = "/" + getattr(route, "path", "").split("/")[1]
        with pytest.raises(ConfigurationError, match="none of the app's own paths"):
            ChatPage(path=path)


def test_an_inner_agent_that_is_not_there_is_refused() -> None:
    """A misspelt name would show JSON to customers; an own router may bring agents along."""
    page = ChatPage(inner_agents=["clrek"])
    with pytest.raises(ConfigurationError, match="no agent 'clrek'; there are 'clerk'"):
        app_of(replace(support("x"), router=sequence("clerk")), page=page)
    app_of(support("x"), page=page)


def test_a_page_without_streams_is_refused() -> None:
    """Replies of Inngest functions pass through the server with `realtime="store"` only."""
    client = inngest.Inngest(app_id="shop", is_production=False)
    with pytest.raises(ConfigurationError, match='realtime="store"'):
        app_of(support("x", history=MemoryHistory()), page=PAGE, client=client)


def test_a_page_that_is_none_is_refused() -> None:
    """`page=True` would show nothing."""
    given: Any = True
    with pytest.raises(ConfigurationError, match=r"page must be ChatPage\(…\), got True"):
        server_app.create_app(networks=[support("x")], auth="local", page=given)


HOSTILE = ["[" * 50_000, "*" * 50_000, "`" * 49_999, "- \n" * 20_000, "https://" * 9000]


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js on PATH")
def test_hostile_markdown_is_read_in_linear_time() -> None:
    """Twice the text takes at most four times as many steps, measured by time in one process."""
    module = Path(server_app.__file__).parent / "static" / "markdown.js"
    program = f"""
        globalThis.document = {{ createElement: (nodeName) => ({{ nodeName, append() {{}} }}) }};
        const {{ render }} = await import({json.dumps(module.as_uri())});
        let given = "";
        for await (const piece of process.stdin) given += piece;
        for (const text of JSON.parse(given)) {{
            const spent = (words) => {{
                const begun = process.cpuUsage();
                render(words);
                return process.cpuUsage(begun).user + 1000;
            }};
            spent(text);
            const twice = Math.min(...[1, 2, 3].map(() => spent(text + text)));
            if (twice > 20 * spent(text)) throw new Error(text.slice(0, 9));
        }}
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program],
        input=json.dumps(HOSTILE),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
