"""Edited calls behind the processors that keep, forget and find again by more than one message."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, openai
from agentkit_py.playground.app import create_playground
from agentkit_py.playground.runs import Playground, RecordedRun
from agentkit_py.processors import (
    Budget,
    Chain,
    CompressToolResults,
    MessageWindow,
    Recall,
    Redact,
    Summarize,
    Threshold,
)
from agentkit_py.testing import FakeProvider, ReceivedRequest, text
from agentkit_py.testing.fakes import HashingEmbedder
from agentkit_py.testing.provider import Reply
from tests.playground.world import until_done

SAID = (
    "My cat is called Minka and lives in Trier.",
    "The weather is fine and warm, write to ann@example.com",
    *(f"Let us talk of trains, part {number}, at some length" for number in range(6)),
    "What is my cat called?",
)


def answer(request: ReceivedRequest) -> Reply:
    """A summary where one is asked for, else a word."""
    asked = json.dumps(request.body["messages"])
    return text("They spoke of trains." if "ummar" in asked else "I see.")


def desk(folder: Path) -> Network:
    """One agent that remembers by likeness, and one that gets a summary."""
    provider = FakeProvider(answer, api_keys={"openai": "sk-desk"})
    model = replace(openai("gpt-desk", api_key="sk-desk"), transport=provider.transport)
    remembering = Agent(
        name="remembering",
        system="You remember.",
        processors=[
            Redact(),
            Recall(HashingEmbedder(), k=1, keep_recent=4),
            Threshold(10, then=[CompressToolResults(50)]),
        ],
    )
    brief = Agent(
        name="brief",
        system="You are brief.",
        processors=[Summarize(model, 60, 30, min_messages=4, min_new=2)],
    )

    def route(context: RouterContext) -> Agent | None:
        return (remembering, brief)[context.call_count] if context.call_count < 2 else None

    return Network(
        name="desk",
        agents=[remembering, brief],
        router=route,
        default_model=model,
        history=SqliteHistory(folder / "desk.db"),
        processors=[Chain([MessageWindow(200)]), Budget(9_000, method="estimate")],
    )


class World:
    """The desk behind its page's API."""

    def __init__(self, folder: Path) -> None:
        self.played = Playground(desk(folder), max_characters=1_000_000)
        app = create_playground(self.played)
        transport = httpx.ASGITransport(app)
        self.api = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def talk(self) -> list[RecordedRun]:
        """Say everything."""
        thread = None
        for said in SAID:
            body = {"text": said, "thread": thread}
            begun = (await self.api.post("/dev-api/runs", json=body)).json()
            thread = begun["thread"]
            await until_done(self.played, begun["run"])
        return list(self.played.runs.values())

    async def close(self) -> None:
        """Let go of the thread."""
        await self.api.aclose()
        await self.played.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A desk."""
    return World(tmp_path)


async def test_an_unchanged_call_sends_the_same_request_again(
    world: World,
) -> None:
    """The repeated request equals the first one after all of the desk's processors."""
    levels: set[str] = set()
    added = 0
    for run in await world.talk():
        for call in run.recorder.calls.values():
            path = f"/dev-api/runs/{run.id}/calls/{call.number}"
            found = (await world.api.get(path)).json()
            if "seen" not in found:
                continue  # the summary's own call
            sent = [found["seen"]["messages"][number] for number in found["seen"]["sent"]]
            asked = found["request"]["messages"]
            assert [m["text"] for m in sent] == [m["content"] for m in asked]
            again = (await world.api.post(f"{path}/look", json={})).json()
            assert again["request"]["messages"] == asked
            levels |= {level["name"] for level in found["seen"]["levels"]}
            added += sum(row["change"] == "added" for row in found["seen"]["overview"])
    assert {"Budget", "Redact", "Recall", "Threshold", "Summarize"} <= levels
    assert added > 2
    await world.close()


async def test_recall_runs_again_for_an_edited_input(world: World) -> None:
    """No embedder is asked when one only looks, and the report says so."""
    run = (await world.talk())[-1]
    path = f"/dev-api/runs/{run.id}/calls/1/look"
    same = (await world.api.post(path, json={"system": "You forget."})).json()
    assert "Minka" in json.dumps(same["request"])
    other = (await world.api.post(path, json={"input": "How is the weather?"})).json()
    assert "Minka" not in json.dumps(other["request"])
    (recall,) = (level for level in other["seen"]["levels"] if level["name"] == "Recall")
    assert "would look" in recall["reason"]
    await world.close()


async def test_a_budget_is_edited_as_a_whole(world: World) -> None:
    """Its members follow from its settings; those of a chain are edited one by one."""
    run = (await world.talk())[-1]
    path = f"/dev-api/runs/{run.id}/calls/1"
    found = (await world.api.get(path)).json()
    names: list[str] = [one["name"] for one in found["processors"]]
    assert names == ["MessageWindow", "Budget", "Redact", "Recall", "Threshold"]
    budget: dict[str, Any] = found["processors"][1]
    assert budget["settings"]["target"] == 0.6
    edit = {"processors": {"1": {"settings": {"context_window": 40, "target": 0.5}}}}
    small = (await world.api.post(f"{path}/look", json=edit)).json()["seen"]["figures"]
    assert small["sentMessages"] < found["seen"]["figures"]["sentMessages"]
    await world.close()


async def test_long_runs_are_dropped_by_their_size(tmp_path: Path) -> None:
    """Stored requests, replies and events are bounded, whatever the tools return."""
    played = Playground(desk(tmp_path), max_characters=20_000)
    transport = httpx.ASGITransport(create_playground(played))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
        ids: list[str] = []
        for number in range(4):
            text = f"{number} " + "word " * 2_000
            begun = (await api.post("/dev-api/runs", json={"text": text})).json()
            ids.append(begun["run"])
            await until_done(played, begun["run"])
        assert list(played.runs) == ids[-1:]
        assert (await api.get(f"/dev-api/runs/{ids[0]}/calls/1")).status_code == 404
        assert (await api.get(f"/dev-api/runs/{ids[-1]}/calls/1")).status_code == 200
    await played.close()
