"""A stream that is cut at any byte gives the whole reply or a typed error, and no half of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from agentkit_py import Agent, MemoryHistory, State, tool
from agentkit_py.errors import ModelError, ModelResponseError, ModelStreamError
from agentkit_py.events.types import ReplyDelta
from agentkit_py.messages import TextDelta, TextMessage
from agentkit_py.models import (
    Model,
    ModelRequest,
    RetryPolicy,
    ToolSpec,
    anthropic,
    gemini,
    openai,
    openai_responses,
)
from agentkit_py.runtime.cloud import bedrock
from agentkit_py.testing import FakeProvider

ONCE = RetryPolicy(attempts=1)
MODELS: dict[str, Model] = {
    "chat": openai("gpt-4o", api_key="k", retry=ONCE),
    "responses": openai_responses("gpt-4.1", api_key="k", retry=ONCE),
    "anthropic": anthropic("claude-sonnet-4-5", api_key="k", retry=ONCE),
    "gemini": gemini("gemini-2.5-flash", api_key="k", retry=ONCE),
    "bedrock": bedrock("anthropic.claude-opus-4-6-v1", region="us-east-1", api_key="k", retry=ONCE),
}
STRIDE = int(os.environ.get("CUT_STRIDE", "97"))
"""Bytes between two cuts; 1: every byte is one (five minutes)."""


async def stream_of(model: Model) -> bytes:
    """The bytes of a reply with a text and a call."""
    fake = FakeProvider(
        [{"text": "Grüße.", "tool_calls": [{"name": "wipe", "arguments": {"path": "ä/b"}}]}]
    )
    request = ModelRequest(messages=(TextMessage("user", "x"),), tools=(ToolSpec("wipe"),))
    body = model.adapter.stream_body(model.encode(request))
    async with httpx.AsyncClient(transport=fake.transport) as client:
        headers = model.adapter.headers(model, "k")
        answer = await client.post(model.adapter.stream_url(model), json=body, headers=headers)
    assert answer.is_success, answer.text
    return answer.content


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_stream_cut_at_any_byte_loses_nothing_in_silence(kind: str, breaks: bool) -> None:
    """The connection is closed there, or breaks: the tool runs once with all, or not at all."""
    model = MODELS[kind]
    whole = await stream_of(model)
    events = {"content-type": model.adapter.stream_type}
    ran: list[str] = []

    @tool
    def wipe(path: str = "/") -> str:
        """Wipe a path."""
        ran.append(path)
        return "wiped"

    async def part(length: int) -> AsyncIterator[bytes]:
        yield whole[:length]
        if breaks:
            raise httpx.ReadError("gone")

    ends: set[type[ModelError] | None] = set()
    for length in (*range(0, len(whole), STRIDE), len(whole) - 1, len(whole)):
        ran.clear()
        store = MemoryHistory()
        await store.add_thread("t")
        transport = httpx.MockTransport(
            lambda _, n=length: httpx.Response(200, headers=events, content=part(n))
        )
        agent = Agent(
            name="a",
            system="S",
            model=replace(model, transport=transport),
            tools=[wipe],
            max_iter=1,
            history=store,
        )
        stream = agent.stream("x", state=State(thread_id="t"))
        failed: type[ModelError] | None = None
        said = ""
        try:
            async for event in stream:
                if isinstance(event, ReplyDelta) and isinstance(event.delta, TextDelta):
                    said += event.delta.delta
        except ModelError as error:
            failed = type(error)
        ends.add(failed)
        assert ran == ([] if failed else ["ä/b"])
        # The user's, and the agent's: of a stream that failed what the user saw.
        assert await store.count_results("t") == (1 if failed and not said.strip() else 2)
        assert failed or stream.result.text == "Grüße."
    assert {None, ModelStreamError} <= ends <= {None, ModelStreamError, ModelResponseError}
