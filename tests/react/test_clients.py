"""The clients of npm, as they are, show what the thread holds: after whatever has happened.

The long run, ten conversations of each recording: CLIENT_CONVERSATIONS=1000 CLIENT_RECORDINGS=FILE
pytest -o faulthandler_timeout=0, since it takes longer than a test may.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

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
from agentkit_py.routing import together
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
from tests.server.world import by_header, served

HERE = Path(__file__).parent
CONVERSATIONS = int(os.environ.get("CLIENT_CONVERSATIONS", "16"))
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


def paced(name: str, answer: Callable[[ReceivedRequest], Any]) -> Model:
    """A model whose replies take their time."""
    fake = FakeProvider(answer, strict=False)
    model = openai(name, api_key="sk-offline", retry=RetryPolicy(attempts=1))
    return replace(model, transport=PacedTransport(fake.transport, 0.001))


def shout(context: ResultContext) -> AgentResult | None:
    """Say some things louder than the model did."""
    result = context.result
    if result.tool_calls or "🪔 🪔" not in result.text:
        return None
    return result.with_messages([TextMessage("assistant", result.text.upper())])


def desk() -> Starlette:
    """Two clerks one after the other, or at the same time.

    Their first model breaks off now and then, and what one of them says is changed.
    """
    model = FallbackModel([paced("first", broken), paced("second", said)], breaker=None)
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


def shown(message: dict[str, Any]) -> dict[str, Any]:
    """A message, its arguments as JSON."""
    found = json.loads(json.dumps(message))
    for call in found.get("toolCalls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return found


@pytest.mark.parametrize("kind", ["vercel", "ag-ui"])
async def test_the_client_shows_what_the_thread_holds(
    kind: str, node: str, front_ends: Path, record_property: Any
) -> None:
    """Connections break, pages are loaded again, questions are answered, replies are stopped."""
    async with served(desk()) as url:
        seeds = json.dumps(list(range(CONVERSATIONS)))
        process = await asyncio.create_subprocess_exec(
            *[node, str(HERE / "clients.mjs"), str(front_ends), kind, url, seeds],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    assert problems.decode() == ""
    totals: dict[str, int] = {}
    for found in json.loads(output):
        client = [shown(one) for one in found["client"] if one.get("parts") != []]
        assert client == [shown(one) for one in found["thread"]], found["seed"]
        for name, count in found["counts"].items():
            totals[name] = totals.get(name, 0) + count
    assert all(totals.values())
    record_property(f"figures: {kind} conversations", {"conversations": CONVERSATIONS, **totals})
