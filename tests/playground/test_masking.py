"""A network whose store masks personal data is shown masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
from starlette.applications import Starlette
from starlette.types import Message

from agentkit_py import SqliteHistory
from agentkit_py.playground.app import create_playground
from agentkit_py.playground.runs import Playground
from agentkit_py.stores import redacted
from tests.playground.world import shop, until_done

KEY = "sk-my-own-secret-1234567890"
MAIL = "ada@example.org"


async def events_of(app: Starlette, thread: str) -> str:
    """Return the events of a thread's runs that a page gets, until the end of one."""
    found = bytearray()

    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        found.extend(message.get("body", b""))
        if b'"kind":"end"' in found:
            app.state.end()

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "GET",
        "path": "/dev-api/events",
        "query_string": f"thread={thread}&after=0".encode(),
        "headers": [(b"host", b"localhost")],
    }
    await app(scope, receive, send)
    return found.decode()


def asking(app: Starlette) -> httpx.AsyncClient:
    """Asks as the page does."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


def masking(folder: Path) -> Playground:
    """The shop on a store that masks mail addresses and what looks like a key."""
    network = shop(folder)
    patterns: Mapping[str, str] = {"key": "sk-[a-z0-9-]+", "email": r"[\w.]+@\w+\.\w+"}
    network.history = redacted(SqliteHistory(folder / "masked.db"), patterns)
    return Playground(network)


async def test_words_that_the_store_masks_are_masked_on_the_page(tmp_path: Path) -> None:
    """Titles, messages, events, what an agent saw, requests and replies."""
    played = masking(tmp_path)
    app = create_playground(played)
    async with asking(app) as api:
        said = f"My key is {KEY} and I am {MAIL}. Where is my order?"
        begun = (await api.post("/dev-api/runs", json={"text": said})).json()
        await until_done(played, begun["run"])
        run = played.runs[begun["run"]]
        paths = ["threads", f"threads/{begun['thread']}", f"matrix/{begun['thread']}"]
        paths += [f"runs/{run.id}/calls/{number}" for number in run.recorder.calls]
        answers = {path: (await api.get(f"/dev-api/{path}")).text for path in paths}
        call = f"/dev-api/runs/{run.id}/calls/3"
        for path in ("look", "again"):
            answers[path] = (await api.post(f"{call}/{path}", json={"system": "You sell."})).text
        answers["events"] = await events_of(app, begun["thread"])
    for path, answer in answers.items():
        assert KEY not in answer, path
        assert MAIL not in answer, path
    thread = json.loads(answers[f"threads/{begun['thread']}"])
    assert thread["runs"][0]["input"] == "My key is [key] and I am [email]. Where is my order?"
    kinds = {event["kind"] for event in thread["runs"][0]["events"]}
    assert {"run", "replied", "tool.finished", "end"} <= kinds
    assert "[key]" in answers["threads"]
    assert "My key is [key]" in answers["events"]
    await played.close()


async def test_ids_names_and_figures_stay_where_words_are_masked(tmp_path: Path) -> None:
    """The page finds calls, tools and runs by them."""
    network = shop(tmp_path)
    network.history = redacted(SqliteHistory(tmp_path / "masked.db"), lambda _: "***")
    played = Playground(network)
    app = create_playground(played)
    async with asking(app) as api:
        begun = (await api.post("/dev-api/runs", json={"text": "Where is my order?"})).json()
        await until_done(played, begun["run"])
        thread = (await api.get(f"/dev-api/threads/{begun['thread']}")).json()
        call = (await api.get(f"/dev-api/runs/{begun['run']}/calls/3")).json()
    events = thread["runs"][0]["events"]
    plain = list(played.runs[begun["run"]].events.values())
    for name in ("kind", "at", "runId", "name", "call", "tool", "agent", "usage", "status"):
        for event, before in zip(events, plain, strict=True):
            if event["kind"] != "tool.started":
                assert event.get(name) == before.get(name)
    started = next(event for event in events if event["kind"] == "tool.started")
    assert (started["call"]["name"], started["call"]["input"]) == ("note", {"***": "***"})
    assert (call["agent"], call["model"], call["system"]) == ("clerk", "gpt-shop", "***")
    assert {message["text"] for message in call["seen"]["messages"] if "text" in message} == {"***"}
    await played.close()
