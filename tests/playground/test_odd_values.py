"""Words and numbers that JSON in UTF-8 cannot hold: the page shows them, or null, and continues."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from agentkit_py import Agent, SqliteHistory
from agentkit_py.models import openai
from agentkit_py.playground.app import create_playground, to_text
from agentkit_py.playground.runs import Playground
from agentkit_py.testing import FakeProvider, Raw, ReceivedRequest, text, tool_call
from agentkit_py.testing.provider import Reply
from tests.playground.world import until_done

HALF = "\ud83d"


def answer(request: ReceivedRequest) -> Reply:
    """Half an emoji in a call, as models that are cut off give it."""
    done = request.body["messages"][-1]["role"] == "tool"
    return text("Done.") if done else tool_call("note", {"words": f"cut {HALF}"})


def note(words: str) -> str:
    """Keep words."""
    return f"{len(words)} kept"


async def test_half_an_emoji_of_a_model_is_shown(tmp_path: Path) -> None:
    """Thread and call are there, and the half is what it was."""
    provider = FakeProvider(answer, api_keys={"openai": "k"})
    model = replace(openai("m", api_key="k"), transport=provider.transport)
    clerk = Agent(
        name="clerk",
        system="S",
        tools=[note],
        model=model,
        max_iter=3,
        history=SqliteHistory(tmp_path / "x.db"),
    )
    played = Playground(clerk)
    transport = httpx.ASGITransport(create_playground(played))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
        begun = (await api.post("/dev-api/runs", json={"text": "Hello"})).json()
        await until_done(played, begun["run"])
        thread = await api.get(f"/dev-api/threads/{begun['thread']}")
        assert thread.status_code == 200
        assert HALF in json.dumps(thread.json(), ensure_ascii=False)
        call = await api.get(f"/dev-api/runs/{begun['run']}/calls/1")
        assert call.status_code == 200
        looked = await api.post(f"/dev-api/runs/{begun['run']}/calls/1/look", json={})
        assert looked.status_code == 200
    await played.close()


async def test_json_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    """The refusal is that of bodies that are no JSON."""
    played = Playground(Agent(name="clerk", system="S", history=SqliteHistory(tmp_path / "x.db")))
    transport = httpx.ASGITransport(create_playground(played))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
        headers = {"content-type": "application/json"}
        refused = await api.post("/dev-api/runs", content="[" * 200_000, headers=headers)
    assert refused.status_code == 400
    await played.close()


def test_numbers_that_json_cannot_hold_are_null() -> None:
    """An infinite limit of a processor must not take the page away."""
    assert json.loads(to_text({"a": [float("inf"), 1.5], "b": (float("nan"),)})) == {
        "a": [None, 1.5],
        "b": [None],
    }


async def test_a_refused_reply_shows_the_providers_word_and_details(tmp_path: Path) -> None:
    """Also where it says nothing else, which ends the run; its tokens are shown, too."""
    refusal: dict[str, Any] = {
        "choices": [{"message": {"role": "assistant", "refusal": "Not this."}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    blocked: dict[str, Any] = {
        "choices": [{"message": {"role": "assistant"}, "finish_reason": "content_filter"}]
    }
    blocked["usage"] = refusal["usage"]
    provider = FakeProvider([Raw(json=refusal), Raw(json=blocked)], api_keys={"openai": "k"})
    model = replace(openai("m", api_key="k"), transport=provider.transport)
    store = SqliteHistory(tmp_path / "x.db")
    played = Playground(Agent(name="clerk", system="S", model=model, history=store))
    transport = httpx.ASGITransport(create_playground(played))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
        calls: list[dict[str, Any]] = []
        for _ in range(2):
            begun = (await api.post("/dev-api/runs", json={"text": "Hello"})).json()
            await until_done(played, begun["run"])
            calls.append((await api.get(f"/dev-api/runs/{begun['run']}/calls/1")).json())
    ends = [(call["finish"], call["finishDetails"]) for call in calls]
    assert ends == [("refusal", {"refusal": "Not this."}), ("content_filter", None)]
    assert [call["usage"]["output"] for call in calls] == [3, 3]
    await played.close()
