"""The clients of npm, as they are, show what the thread holds: after whatever has happened.

The long run, ten conversations of each recording: CLIENT_CONVERSATIONS=1000 CLIENT_RECORDINGS=FILE
pytest -o faulthandler_timeout=0, since it takes longer than a test may; with CLIENT_EVENTS=10 each
conversation continues until so many cuts, reloads, answers and stops have happened; in a browser
CLIENT_PAGES=50.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright
from starlette.applications import Starlette
from starlette.staticfiles import StaticFiles

from agentkit_py import (
    Agent,
    AgentResult,
    Lifecycle,
    MemoryHistory,
    Network,
    TextMessage,
    Tool,
    create_tool,
    openai,
    tool,
)
from agentkit_py._core.json import dumps
from agentkit_py.lifecycle import ResultContext
from agentkit_py.models import FallbackModel, Model, RetryPolicy
from agentkit_py.routing import once, together
from agentkit_py.server import create_app
from agentkit_py.testing import (
    FakeProvider,
    PacedTransport,
    Raw,
    ReceivedRequest,
    error,
    text,
    tool_call,
    tool_calls,
)
from agentkit_py.testing.provider import ErrorReply
from agentkit_py.testing.replay import Conversation, read_conversations
from tests.react.conftest import EXAMPLE
from tests.server.world import by_header, served

HERE = Path(__file__).parent
CONVERSATIONS = int(os.environ.get("CLIENT_CONVERSATIONS", "16"))
EVENTS = int(os.environ.get("CLIENT_EVENTS", "0"))
PAGES = int(os.environ.get("CLIENT_PAGES", "2"))
RECORDINGS = os.environ.get("CLIENT_RECORDINGS", "")
RECORDED = [
    one
    for one in (read_conversations(Path(RECORDINGS)) if RECORDINGS else ())
    if isinstance(one, Conversation)
]
RESULTS = {(c.name, dumps(c.arguments)): c.result for one in RECORDED for c in one.calls}
ASKS = ("book", "cancel", "get_user", "search", "send", "transfer", "update")
"""A recorded tool whose name begins so waits for a person."""


@tool
def find_order(order: str) -> dict[str, Any]:
    """Find an order."""
    if order == "Z9":
        raise LookupError("there is no such order")
    return {"order": order, "lines": ["a lamp", "ein Glühwürmchen 🪔"]}


@tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


def recorded_tools() -> list[Tool]:
    """The tools of the recordings, with what they gave."""

    def made(name: str) -> Tool:
        def handler(given: Any) -> Any:
            return RESULTS.get((name, dumps(given)), "done")

        return create_tool(name=name, handler=handler, needs_approval=name.startswith(ASKS))

    return [made(name) for name in dict.fromkeys(n for one in RECORDED for n in one.tools)]


def recorded(words: str, step: int) -> Any:
    """What the recorded model said at this place: ten seeds begin at ten places of it."""
    seed, turn = map(int, words.split())
    turns = RECORDED[seed % len(RECORDED)].turns
    replies = turns[(seed // len(RECORDED) + turn) % len(turns)].replies
    if step >= len(replies):
        return text("That is all.")
    reply = replies[step]
    calls = [(call.name, call.arguments) for call in reply.calls]
    return tool_calls(*calls) if calls else text(reply.text or "…")


def said(request: ReceivedRequest) -> Any:
    """The model's next reply: what a seed says, for each turn and each inference of it."""
    messages: list[dict[str, Any]] = request.body["messages"]
    asked = max(n for n, one in enumerate(messages) if one["role"] == "user")
    step = sum(1 for one in messages[asked:] if one["role"] == "assistant")
    if RECORDED:
        return recorded(messages[asked]["content"], step)
    chance = random.Random(f"{messages[asked]['content']} {step}")  # noqa: S311 - the same each time
    kind = chance.random()
    words = " ".join(chance.choices(["lamp", "🪔", "on", "its", "way", "\n"], k=12))
    if step > 3 or kind < 0.25:
        return text(words)
    if kind < 0.4:
        return {"text": words, "reasoning": "The lamp is on its way."}
    find = ("find_order", {"order": chance.choice(["A1", "Z9"])})
    pay = ("refund", {"order": "A1", "amount": chance.randint(1, 99)})
    if kind < 0.6:
        return tool_call(*find)
    if kind < 0.75:
        return tool_calls(find, pay)
    if kind < 0.95:
        return tool_calls(pay, find, pay)
    return error(400, "no")


def broken(request: ReceivedRequest) -> Any:
    """Return replies of which some break off."""
    reply: Any = said(request)
    chance = random.Random(f"{request.body['messages']}")  # noqa: S311 - the same each time
    if isinstance(reply, ErrorReply) or chance.random() < 0.8:
        return reply
    return Raw(reply=reply, cut_after=chance.randint(200, 1500))


def paced(name: str, answer: Callable[[ReceivedRequest], Any], pause: float) -> Model:
    """A model whose replies take their time."""
    fake = FakeProvider(answer, strict=False)
    model = openai(name, api_key="sk-offline", retry=RetryPolicy(attempts=1))
    return replace(model, transport=PacedTransport(fake.transport, pause))


def shout(context: ResultContext) -> AgentResult | None:
    """Say some things louder than the model did."""
    result = context.result
    if result.tool_calls or "🪔 🪔" not in result.text:
        return None
    return result.with_messages([TextMessage("assistant", result.text.upper())])


def desk(pause: float = 0.001) -> Starlette:
    """Two clerks one after the other, or at the same time.

    Their first model breaks off now and then, and what one of them says is changed.
    """
    models = [paced("first", broken, pause), paced("second", said, pause)]
    model = FallbackModel(models, breaker=None)
    clerks = [
        Agent(
            name=name,
            system="S",
            tools=[find_order, refund, *recorded_tools()],
            model=model,
            max_iter=5,
            lifecycle=Lifecycle(on_response=shout) if name == "left" else Lifecycle(),
        )
        for name in ("left", "right")
    ]

    def route(context: Any) -> Any:
        if context.call_count:
            return None
        return together(*clerks) if context.input.endswith("2") else clerks[0]

    network = Network(name="support", agents=clerks, router=route, history=MemoryHistory())
    return create_app(networks=[network], auth=by_header, approvers=["owner"])


def plain_desk() -> Starlette:
    """One clerk: what is taken back of a reply, the hook continues showing."""
    clerk = Agent(
        name="clerk",
        system="S",
        tools=[find_order, refund, *recorded_tools()],
        model=paced("plain", said, 0.001),
        max_iter=5,
    )
    network = Network(name="support", agents=[clerk], router=once(clerk), history=MemoryHistory())
    return create_app(networks=[network], auth=by_header, approvers=["owner"])


async def test_the_hook_shows_the_messages_of_the_thread(
    node: str, packages: Path, tmp_path: Path, record_property: Any
) -> None:
    """The whole of useAgent, as React renders it; without a browser, so that many can be had."""
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    for file in (HERE / "use_agent.mjs", HERE / "chance.mjs", EXAMPLE / "src" / "server.js"):
        shutil.copy(file, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    async with served(plain_desk()) as url:
        seeds = json.dumps(list(range(CONVERSATIONS)))
        process = await asyncio.create_subprocess_exec(
            *[node, "--experimental-websocket", "use_agent.mjs", url, seeds],
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    totals, shown = Counter[str](), dict[int, Any]()
    for found in json.loads(output):
        totals.update(found["counts"])
        if found["client"] != found["thread"]:
            shown[found["seed"]] = found["client"], found["thread"]
            (tmp_path / f"{found['seed']}.json").write_text(json.dumps(found, indent=1))
    assert not shown, f"both are whole in {tmp_path}"
    assert all(totals.values())
    record_property("figures: useAgent conversations", {"conversations": CONVERSATIONS, **totals})


def one_shown(message: dict[str, Any]) -> dict[str, Any]:
    """A message, its arguments as JSON."""
    found = json.loads(json.dumps(message))
    for call in found.get("toolCalls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return found


@pytest.mark.parametrize("kind", ["vercel", "ag-ui"])
async def test_the_client_shows_the_messages_of_the_thread(
    kind: str, node: str, front_ends: Path, record_property: Any
) -> None:
    """Connections break, pages are loaded again, questions are answered, replies are stopped."""
    # No cut but the driver's own: on a busy machine connections are idle for long.
    async with served(desk(), timeout_keep_alive=3600) as url:
        seeds = json.dumps(list(range(CONVERSATIONS)))
        process = await asyncio.create_subprocess_exec(
            *[node, str(HERE / "clients.mjs"), str(front_ends), kind, url, seeds, str(EVENTS)],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    assert problems.decode() == ""
    totals: dict[str, int] = {}
    whole = 0
    for found in json.loads(output):
        whole += min(found["counts"].values()) >= EVENTS
        client = [one_shown(one) for one in found["client"] if one.get("parts") != []]
        assert client == [one_shown(one) for one in found["thread"]], found["seed"]
        for name, times in found["counts"].items():
            totals[name] = totals.get(name, 0) + times
    assert all(totals.values())
    figures = {"conversations": CONVERSATIONS, **totals, f"with {EVENTS} of each": whole}
    record_property(f"figures: {kind} conversations", figures)


@pytest.fixture
def built(packages: Path, front_ends: Path, node: str, tmp_path: Path) -> Path:
    """The page of the clients as Vite builds it."""
    shutil.copy(HERE / "clients_page.mjs", tmp_path)
    script = '<div id="root"></div><script type="module" src="clients_page.mjs"></script>'
    (tmp_path / "index.html").write_text(f"<!doctype html><title>Clients</title>{script}")
    (tmp_path / "node_modules").symlink_to(front_ends / "node_modules")
    vite = packages / "node_modules" / "vite" / "bin" / "vite.js"
    command = [node, str(vite), "build", "--target", "esnext"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "dist"


class Wire:
    """Passes connections on to a server, until they are cut."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = ""
        self.open = set[asyncio.StreamWriter]()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        onward, outward = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self._pass(reader, outward), self._pass(onward, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        with contextlib.suppress(OSError):
            while found := await reader.read(4096):
                writer.write(found)
                await writer.drain()
        self.open.discard(writer)
        writer.close()

    def cut(self) -> None:
        """End all connections, in the middle of whatever they bring."""
        for writer in self.open:
            writer.transport.abort()


@dataclass
class Pages:
    """The clients in browsers, each with a conversation of its own."""

    browser: Browser
    url: str
    kind: str
    wire: Wire
    counts: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])
    """The errors that clients were told."""

    async def converse(self, seed: int) -> None:
        """Talk, with all that happens, and compare what is shown with the thread."""
        chance = random.Random(seed)  # noqa: S311 - the same each time
        thread, user = f"{self.kind}-{seed}", f"user-{seed}"
        context = await self.browser.new_context()
        page = await context.new_page()
        query = f"kind={self.kind}&thread={thread}&user={user}"
        await page.goto(f"{self.wire.url}/?{query}")
        for turn in range(3):
            await page.wait_for_function("window.desk")
            sent = [f"{thread}-{turn}", f"{seed} {turn}"]
            await page.evaluate("sent => desk.send(...sent)", sent)
            stops = chance.random() < 0.25
            for (
                step
            ) in count():  # the first hundred may be disturbed; a reply then comes to its end
                if stops and chance.random() < 0.3:
                    stops = False
                    body = {"threadId": thread}
                    cancel = context.request.post(
                        f"{self.url}/api/chat/cancel", data=body, headers={"x-user": user}
                    )
                    self.counts["stops"] += (await cancel).ok
                if step < 100 and not await self._happens(page, chance):
                    continue
                await page.wait_for_function("window.desk")
                if await self._is_done(page, chance):
                    break
        shown = json.loads(await page.evaluate("JSON.stringify(desk.look().messages)"))
        answer = await context.request.get(
            f"{self.url}/api/{self.kind}/{thread}", headers={"x-user": user}
        )
        client = [one_shown(one) for one in shown if one.get("parts") != []]
        assert client == [one_shown(one) for one in (await answer.json())["messages"]], (
            seed,
            self.problems,
        )
        await context.close()

    async def _happens(self, page: Page, chance: random.Random) -> bool:
        """Let the connection break, or the page be loaded again; return whether to look at it."""
        kind = chance.random()
        busy = await page.evaluate("desk.look().state === 'busy'")
        if kind < 0.25 and busy:
            self.wire.cut()
            self.counts["cuts"] += 1
        elif 0.25 <= kind < 0.4:
            await page.reload()
            await page.wait_for_function("window.desk")
            self.counts["reloads"] += 1
        else:
            return True
        return False

    async def _is_done(self, page: Page, chance: random.Random) -> bool:
        """Do what the page waits for; return whether it waits for a message."""
        found = await page.evaluate("desk.look()")
        if found["state"] == "busy":
            await page.wait_for_timeout(chance.randint(0, 60))
        elif found["state"] == "cut":
            self.counts["resumed"] += 1
            await page.evaluate("desk.resume()")
        elif found["state"] == "asks":
            words = [
                {"approved": chance.random() < 0.7, "reason": "because"}
                for _ in range(found["asked"])
            ]
            self.counts["answers"] += len(words)
            await page.evaluate("words => desk.answer(words)", words)
            await page.wait_for_timeout(20)
        if found["state"] == "failed":
            self.problems.append(found["problem"])
        return found["state"] in ("ready", "failed")


@pytest.mark.parametrize("kind", ["vercel", "ag-ui"])
async def test_the_client_in_a_browser_shows_the_messages_of_the_thread(
    kind: str, built: Path, record_property: Any
) -> None:
    """The page itself is loaded again, and its connections are cut."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed")
    app = desk(pause=0.01)
    app.mount("/", StaticFiles(directory=built, html=True))
    async with served(app) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        wire = Wire(int(url.rpartition(":")[2]))
        async with await asyncio.start_server(wire.connect, "127.0.0.1", 0) as passing:
            wire.url = f"http://127.0.0.1:{passing.sockets[0].getsockname()[1]}"
            pages = Pages(browser, url, kind, wire)
            for seed in range(PAGES):
                await pages.converse(seed)
            await browser.close()
    record_property(f"figures: {kind} pages", {"pages": PAGES, **pages.counts})
