"""The states of each page, for pictures: empty, loading, full and failed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from playwright.async_api import Browser, Page, Route, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route as Served

from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory, ToolCallFilter, tool
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.playground.app import BrokenTarget, create_playground
from agentkit_py.playground.runs import Playground
from agentkit_py.routing import handoffs
from agentkit_py.server import ChatPage
from agentkit_py.testing import ScriptedModel, error, tool_call
from agentkit_py.tools import ask_person
from tests.browser import PATIENCE
from tests.server.world import app_of, client_of, said, served, support, waiting

ANSWER = (
    "Your order **A-1042** left our warehouse on Tuesday.\n\n"
    "- Carrier: DHL, number `JJD0003902`\n- Expected: Friday, before noon\n\n"
    "You can [follow the parcel](https://shop.example/parcels/A-1042)."
)
PAGE = ChatPage(
    name="Hat shop",
    greeting="Hello! Ask us about **orders**, returns and hats.",
    suggestions=["Where is my order?", "I want to return a hat"],
)
_HELD = "**/api/**"


def pay_back(order: str, amount: int) -> str:
    """Pay money back."""
    return f"{amount} EUR are on their way for {order}."


PAYS = "Pay {amount} EUR back for order {order}"
refund = tool(name="refund", needs_approval=True, approvers=["mia"], title=PAYS)(pay_back)
"""Staff decides on it."""
refund_by_customer = tool(name="refund", needs_approval=True, title=PAYS)(pay_back)
"""The customer decides on it."""


@tool(title="Look up order {order}")
def look_up(order: str) -> dict[str, Any]:
    """Look up an order."""
    return {"order": order, "status": "sent", "lines": ["bowler, black", "scarf, wool"]}


@dataclass(frozen=True, slots=True)
class Place:
    """What a state needs: a browser, and all that ends with the picture."""

    browser: Browser
    stack: AsyncExitStack
    folder: Path

    async def serve(self, app: Starlette) -> str:
        """Serve an app until the picture is taken."""
        return await self.stack.enter_async_context(served(app, timeout_graceful_shutdown=1))

    async def page(self, user: str = "ada", url: str = "http://127.0.0.1/") -> Page:
        """Return a page of a user."""
        context = await self.browser.new_context(viewport={"width": 1280, "height": 800})
        self.stack.push_async_callback(context.close)
        await context.add_cookies([{"name": "user", "value": user, "url": url}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        return page


Opened: TypeAlias = Callable[[Place], Awaitable[Page]]

STATES: dict[str, Opened] = {}
"""The states by name: ``page-state``."""

MAY_COMPLAIN = frozenset({"chat-failed", "chat-signed-out", "desk-failed", "matrix-failed"})
"""States in which the browser says in its console that a request failed."""


def state(name: str) -> Callable[[Opened], Opened]:
    """Add a state."""

    def add(opened: Opened) -> Opened:
        STATES[name] = opened
        return opened

    return add


@asynccontextmanager
async def opened(browser: Browser, name: str) -> AsyncGenerator[Page]:
    """Open a page in a state; the page shows it when this returns."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield await STATES[name](Place(browser, stack, folder))


def by_cookie(request: Request) -> str | None:
    """The user, as a browser says it."""
    return request.headers.get("x-user") or request.cookies.get("user")


async def hold(place: Place, page: Page, path: str) -> None:
    """Let requests for a path wait for as long as the page is there."""
    done = asyncio.Event()

    async def wait(route: Route) -> None:
        await done.wait()
        await route.abort()

    async def end() -> None:
        done.set()
        await page.unroute_all(behavior="wait")

    await page.route(path, wait)
    place.stack.push_async_callback(end)


def shop(*replies: Any, tools: Any = (look_up,)) -> Starlette:
    """The shop's server, with a page for customers; Mia is staff."""
    network = support(*replies, tools=tools, history=MemoryHistory())
    return app_of(network, auth=by_cookie, staff=["mia"], page=PAGE)


# The customers' page.


async def chat(place: Place, app: Starlette, path: str = "/chat") -> tuple[Page, str]:
    """Open the customers' page."""
    url = await place.serve(app)
    page = await place.page(url=url)
    await page.goto(url + path)
    return page, url


async def say(page: Page, words: str) -> None:
    """Send a message of the customer."""
    await page.get_by_label("Message").fill(words)
    await page.get_by_label("Message").press("Enter")


@state("chat-empty")
async def chat_empty(place: Place) -> Page:
    """Nothing was said."""
    page, _ = await chat(place, shop("x"))
    await expect(page.get_by_role("button", name="Where is my order?")).to_be_visible()
    return page


@state("chat-loading")
async def chat_loading(place: Place) -> Page:
    """The conversation is on its way."""
    url = await place.serve(shop("x"))
    page = await place.page(url=url)
    await hold(place, page, "**/api/threads/**")
    async with page.expect_request("**/api/threads/**"):
        await page.goto(f"{url}/chat?thread=t1")
    return page


@state("chat-writing")
async def chat_writing(place: Place) -> Page:
    """An agent works."""
    wait, begun, go = waiting()
    page, _ = await chat(place, shop(tool_call("wait", {}), ANSWER, tools=(wait,)))
    place.stack.callback(go.set)
    await say(page, "Where is my order?")
    await begun.wait()
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    return page


@state("chat-full")
async def chat_full(place: Place) -> Page:
    """A conversation with Markdown, a colleague and a decision."""
    app = shop(
        ANSWER, tool_call("refund", {"order": "A-1042", "amount": 30}), tools=(refund_by_customer,)
    )
    await said(app, "Where is my order?", "t1")
    desk = StaffDesk(app.state.api.settings.store)
    await desk.join("t1", by="mia", name="Mia")
    await desk.say("t1", "Hello, I am Mia. Do write to me if it is not there on Friday.", by="mia")
    await desk.hand_back("t1", by="mia")
    await said(app, "I do not want it any more. Please pay me back.", "t1")
    page, _ = await chat(place, app, "/chat?thread=t1")
    await expect(page.get_by_role("button", name="Yes, go ahead")).to_be_visible()
    return page


@state("chat-failed")
async def chat_failed(place: Place) -> Page:
    """A reply failed, a message was not sent, and the connection is lost."""
    app = shop(error(400, "no"))
    await said(app, "Where is my order?", "t1")
    page, _ = await chat(place, app, "/chat?thread=t1")
    await expect(page.locator(".failed")).to_be_visible()
    await page.route("**/api/stream", lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text("The connection is lost")
    await page.route("**/api/chat", lambda route: route.abort())
    await say(page, "Hello?")
    await expect(page.get_by_role("button", name="Send again")).to_be_visible()
    return page


@state("chat-signed-out")
async def chat_signed_out(place: Place) -> Page:
    """Nobody is signed in."""
    network = support("x", history=MemoryHistory())
    page, _ = await chat(place, app_of(network, page=PAGE))
    await expect(page.get_by_role("alert")).to_contain_text("sign in")
    return page


async def widget(place: Place) -> Page:
    """Open a site that has the chat in its corner."""
    site = Starlette()
    site_url = await place.serve(site)
    page_of_shop = ChatPage(
        name=PAGE.name, greeting=PAGE.greeting, suggestions=PAGE.suggestions, sites=[site_url]
    )
    network = support(ANSWER, history=MemoryHistory())
    url = await place.serve(app_of(network, auth="local", page=page_of_shop))

    async def shown(_request: Request) -> HTMLResponse:
        return HTMLResponse(
            "<!doctype html><html lang=en><meta name=viewport content='width=device-width'>"
            "<title>Hats</title><link rel=icon href='data:,'>"
            "<style>:root{color-scheme:light dark}</style>"
            "<main><h1>Hats of the season</h1><p>Bowlers, berets and boaters.</p></main>"
            f"<script src='{url}/chat/widget.js' defer></script>"
        )

    site.router.routes.append(Served("/", shown))
    page = await place.page(url=site_url)
    await page.goto(site_url)
    await expect(page.get_by_role("button", name="Chat with us")).to_be_visible()
    return page


@state("widget-closed")
async def widget_closed(place: Place) -> Page:
    """The button in the corner."""
    return await widget(place)


@state("widget-open")
async def widget_open(place: Place) -> Page:
    """The chat in the corner."""
    page = await widget(place)
    await page.get_by_role("button", name="Chat with us").click()
    frame = page.frame_locator("iframe")
    await frame.get_by_role("button", name="Where is my order?").click()
    await expect(frame.locator("strong").last).to_have_text("A-1042")
    return page


# The help desk.


async def desk_of(place: Place, app: Starlette, path: str = "/staff/", user: str = "mia") -> Page:
    """Open the help desk."""
    url = await place.serve(app)
    page = await place.page(user, url)
    await page.goto(url + path)
    return page


async def busy() -> Starlette:
    """A shop with three conversations: one wants a person, one money, and one is answered."""
    app = shop(
        ANSWER,
        *(tool_call("ask_person", {"reason": "The parcel is damaged"}), "A colleague will join."),
        *(tool_call("look_up", {"order": "A-1042"}), "It was sent."),
        tool_call("refund", {"order": "A-1042", "amount": 30}),
        "Your money is on its way.",
        tools=(look_up, refund, ask_person),
    )
    await said(app, "Where is my order?", "t0", "bo")
    await said(app, "My hat came in pieces! I want to talk to a person.", "t1", "cleo")
    await said(app, "What about order A-1042?", "t2", "bo")
    await said(app, "I do not want it any more. Please pay me back.", "t2", "bo")
    return app


@state("desk-empty")
async def desk_empty(place: Place) -> Page:
    """Nobody waits."""
    page = await desk_of(place, shop("x"))
    await expect(page.locator("#queue-none")).to_have_text("Nobody waits.")
    await expect(page.locator("#who")).to_contain_text("Signed in")
    return page


@state("desk-loading")
async def desk_loading(place: Place) -> Page:
    """The queue is on its way."""
    url = await place.serve(shop("x"))
    page = await place.page("mia", url)
    await hold(place, page, _HELD)
    async with page.expect_request("**/api/approvals/stream"):
        await page.goto(f"{url}/staff/")
    return page


@state("desk-queue")
async def desk_queue(place: Place) -> Page:
    """Two conversations wait; none is open."""
    page = await desk_of(place, await busy())
    await expect(page.locator("#queue button")).to_have_count(2)
    await expect(page.locator("#status")).to_have_text("Connected.")
    return page


@state("desk-full")
async def desk_full(place: Place) -> Page:
    """A conversation with a question to decide, and an earlier one of the customer."""
    page = await desk_of(place, await busy(), "/staff/#t2")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await expect(page.locator("#earlier-list button")).to_have_count(1)
    await expect(page.locator("#queue button")).to_have_count(2)
    return page


@state("desk-taken")
async def desk_taken(place: Place) -> Page:
    """Mia has taken over, answered and left a note."""
    app = await busy()
    desk = StaffDesk(app.state.api.settings.store)
    await desk.join("t1", by="mia", name="Mia")
    await desk.say("t1", "Hello, I am Mia. I am sorry! Can you send a photo?", by="mia")
    await desk.note("t1", "A regular customer: 14 orders.", by="mia", name="Mia")
    page = await desk_of(place, app, "/staff/#t1")
    await expect(page.get_by_role("button", name="Hand back")).to_be_visible()
    await expect(page.locator("#queue button")).to_have_count(2)
    return page


@state("desk-decided")
async def desk_decided(place: Place) -> Page:
    """A refund was changed and approved."""
    app = await busy()
    (asked,) = await app.state.api.settings.store.list_questions(thread_id="t2")
    async with client_of(app, "mia") as client:
        changed = {"index": 0, "action": "approve", "arguments": {"order": "A-1042", "amount": 15}}
        body = {"action": "approve", "reason": "worn twice", "calls": [changed]}
        answer = await client.post(f"/api/approvals/{asked.id}", json=body)
        assert answer.status_code == 200, answer.text
    await app.state.api.backend.idle()
    page = await desk_of(place, app, "/staff/#t2")
    await expect(page.locator("dd.changed")).to_have_text("15, changed from 30")
    await expect(page.locator("#queue button")).to_have_count(1)
    return page


@state("desk-failed")
async def desk_failed(place: Place) -> Page:
    """The server is down, and a message was not sent."""
    app = await busy()
    await StaffDesk(app.state.api.settings.store).join("t1", by="mia", name="Mia")
    page = await desk_of(place, app, "/staff/#t1")
    await expect(page.get_by_role("button", name="Hand back")).to_be_visible()
    await expect(page.locator("#queue button")).to_have_count(2)
    await page.route(_HELD, lambda route: route.abort())
    await page.get_by_label("Write to the customer").fill("Hello, I am Mia.")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    return page


# The playground and the matrix.


def agency(folder: Path, *replies: Any) -> Network:
    """Two agents, the first of which hands over."""
    model = ScriptedModel(*replies)
    money = Agent(
        name="refunds",
        system="You refund.",
        tools=[look_up, refund],
        processors=[ToolCallFilter(include=["look_up", "refund"])],
    )
    front = Agent(name="front desk", system="You greet.", handoffs=[money])
    return Network(
        name="hat shop",
        agents=[front, money],
        router=handoffs("front desk"),
        default_model=model,
        history=SqliteHistory(folder / "hats.db"),
    )


def conversation() -> list[Any]:
    """The replies to two messages."""
    return [
        *(tool_call("transfer_to_refunds"), tool_call("look_up", {"order": "A-1042"}), ANSWER),
        '{"order": "A-1042", "refundable": true, "amount": 30}',
    ]


async def play(place: Place, *replies: Any, wait: bool = True) -> Page:
    """Open the playground, and send a message for which there are replies."""
    app = create_playground(Playground(agency(place.folder, *replies), examples=["Hello"]))
    url = await place.serve(app)
    place.stack.callback(app.state.end)
    page = await place.page(url=url)
    await page.goto(url)
    await expect(page.locator("#chat .empty")).to_contain_text("Agents: front desk")
    if replies:
        await tell(page, "Where is my order?", 1 if wait else None)
    return page


async def tell(page: Page, words: str, runs: int | None) -> None:
    """Send a message in the playground, and wait until so many runs are over."""
    await page.get_by_label("Message", exact=True).fill(words)
    await page.get_by_role("button", name="Send").click()
    if runs is not None:
        await expect(page.locator(".turn .foot .link")).to_have_count(runs)


@state("playground-empty")
async def playground_empty(place: Place) -> Page:
    """No messages yet."""
    return await play(place)


@state("playground-waiting")
async def playground_waiting(place: Place) -> Page:
    """A question waits for a person."""
    asks = tool_call("refund", {"order": "A-1042", "amount": 30})
    page = await play(place, tool_call("transfer_to_refunds"), asks, wait=False)
    await expect(page.locator(".card")).to_be_visible()
    return page


@state("playground-run")
async def playground_run(place: Place) -> Page:
    """A conversation, with the graph and the timeline of its last run."""
    page = await play(place, *conversation())
    await tell(page, "Can it be refunded?", 2)
    await page.locator(".turn .foot .link").first.click()
    return page


@state("playground-call")
async def playground_call(place: Place) -> Page:
    """What a call saw."""
    page = await playground_run(place)
    await page.locator(".pick", has_text="call 3").click()
    await expect(page.locator("#pane-call .messages")).to_be_visible()
    return page


@state("playground-failed")
async def playground_failed(place: Place) -> Page:
    """A run failed."""
    page = await play(place, error(400, "The model does not exist."), wait=False)
    await expect(page.locator("#chat .error")).to_be_visible()
    await page.get_by_role("tab", name="Run").click()
    return page


@state("playground-broken")
async def playground_broken(place: Place) -> Page:
    """The user's module has an error."""
    trace = 'Traceback (most recent call last):\n  File "hats.py", line 3\nNameError: Agnet'
    app = create_playground(
        BrokenTarget("NameError: name 'Agnet' is not defined", trace), target="hats:network"
    )
    url = await place.serve(app)
    place.stack.callback(app.state.end)
    page = await place.page(url=url)
    await page.goto(url)
    await expect(page.get_by_role("alert")).to_contain_text("Agnet")
    return page


@state("matrix-full")
async def matrix_full(place: Place) -> Page:
    """A conversation at a glance, with a cell that is selected."""
    page = await playground_run(place)
    await page.goto(str(await page.locator("#matrix").evaluate("link => link.href")))
    await page.locator(".body .cell.seen").first.click()
    await expect(page.locator("#detail pre").first).not_to_be_empty()
    return page


@state("matrix-loading")
async def matrix_loading(place: Place) -> Page:
    """The matrix is on its way."""
    page = await play(place)
    address = page.url.rstrip("/")
    await hold(place, page, "**/dev-api/matrix/**")
    async with page.expect_request("**/dev-api/matrix/**"):
        await page.goto(f"{address}/matrix/?thread=t1")
    return page


@state("matrix-failed")
async def matrix_failed(place: Place) -> Page:
    """There is no such conversation."""
    page = await play(place)
    await page.goto(f"{page.url.rstrip('/')}/matrix/?thread=none")
    await expect(page.get_by_role("status")).to_contain_text("none")
    return page


VIEWS = [(1280, "light"), (1280, "dark"), (390, "dark"), (390, "light")]
"""The widths and colours of pictures."""


async def turn_to(page: Page, width: int, scheme: Any) -> None:
    """Show a page at a width and in a colour."""
    await page.set_viewport_size({"width": width, "height": 844 if width < 500 else 800})
    await page.emulate_media(color_scheme=scheme)
