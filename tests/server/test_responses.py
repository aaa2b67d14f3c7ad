"""stream_response: the reply as the answer to a route of one's own."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from agentkit_py import MemoryHistory, Network, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events import assemble
from agentkit_py.server import FormatName, stream_response
from agentkit_py.testing import tool_call, tool_calls
from tests.server.test_front_ends import answered, events, events_in, refund, run_input, said
from tests.server.world import client_of, message, support


def service(network: Network, format: FormatName = "agentkit", **options: Any) -> FastAPI:  # noqa: A002 - its name
    """An application whose users are named by a header, or nobody is."""
    app = FastAPI()

    @app.post("/ask")
    async def ask(request: Request) -> Response:
        user = request.headers.get("x-user")
        return await stream_response(network, request, format, user_id=user, **options)

    return app


def names(found: list[dict[str, Any]]) -> list[str]:
    """The events without the pieces of texts."""
    return [one["event"] for one in found if not one["event"].endswith("delta")]


async def test_our_own_chunks_are_between_the_beginning_and_the_end() -> None:
    """A thread is made where none is named, and the chunks can be assembled."""
    async with client_of(service(support("Hello."))) as client:
        found = await events(client, "/ask", message("Hi"))
    assert names(found) == [
        *["reply.started", "run.started", "run.started", "part.created", "part.completed"],
        *["run.completed", "run.completed", "stream.ended", "reply.ended"],
    ]
    assert found[0]["data"]["threadId"]
    assert found[-1]["data"]["reason"] == "completed"
    assert [part.text for part in assemble(found[1:-1]).parts] == ["Hello."]


async def test_answers_resume_the_run() -> None:
    """One word for all calls, or a decision on one."""
    both = tool_calls(("refund", {"order": "A1"}), ("refund", {"order": "B2"}))
    network = support(both, "Done.", tools=(refund,), history=MemoryHistory())
    async with client_of(service(network, approvers=("owner",))) as client:
        found = await events(client, "/ask", message("Refund", "t1"))
        assert found[-1]["data"]["reason"] == "asked"
        question = next(e["data"]["requestId"] for e in found if e["event"] == "hitl.requested")
        first = {"threadId": "t1", "answers": {f"{question}.0": {"approved": False}}}
        found = await events(client, "/ask", first)
        assert found[-1]["data"]["reason"] == "asked"
        found = await events(client, "/ask", {"threadId": "t1", "answers": {question: True}})
    outputs = [part.output for part in assemble(found[1:-1]).parts if part.type == "tool-call"]
    assert outputs[0]["error"]["name"] == "ApprovalDeniedError"
    assert outputs[1] == {"data": "paid for B2"}
    assert found[-1]["data"]["reason"] == "completed"


async def test_a_message_is_answered_once() -> None:
    """Sent again, its reply comes from the thread."""
    network = support("Hello.", history=MemoryHistory())
    body = message("Hi", "t1")
    async with client_of(service(network)) as client:
        await events(client, "/ask", body)
        found = await events(client, "/ask", body)
    assert names(found) == ["reply.started", "reply.replaced", "reply.ended"]
    (part,) = found[1]["data"]["parts"]
    assert part == {"type": "text", "agentName": "clerk", "text": "Hello."}


async def test_a_route_speaks_the_ai_sdk_or_ag_ui() -> None:
    """With its questions and their answers."""
    replies = (tool_call("refund", {"order": "A1"}), "Done.")
    network = support(*replies, tools=(refund,), history=MemoryHistory())
    async with client_of(service(network, "vercel", approvers=("owner",))) as client:
        answer = await client.post("/ask", json=said("Refund"))
        assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
        asked = next(e for e in events_in(answer.text) if e["type"] == "tool-approval-request")
        part = {"state": "approval-requested", "type": "tool-refund"}
        part["approval"] = {"id": asked["approvalId"]}  # type: ignore[assignment] - JSON
        thread = {"id": "t1", "messages": [{"role": "assistant", "parts": [part]}]}
        found = await events(client, "/ask", answered(thread, approved=True))
    assert found[-1]["finishReason"] == "stop"
    async with client_of(service(support("Hello."), "ag-ui")) as client:
        found = await events(client, "/ask", run_input("Hi"))
    assert found[-1]["outcome"] == {"type": "success"}


async def test_users_do_not_see_each_other() -> None:
    """Another user's thread is not found."""
    app = service(support("Hello.", history=MemoryHistory()))
    async with client_of(app) as client:
        await events(client, "/ask", message("Hi", "t1"))
    async with client_of(app, "eve") as client:
        assert (await client.post("/ask", json=message("Hi", "t1"))).status_code == 404


async def test_without_users_only_this_machine_is_answered() -> None:
    """A client without a name is the one user of the machine."""
    app = service(support("Hello."))
    async with client_of(app, None) as client:
        assert (await events(client, "/ask", message("Hi")))[-1]["data"]["reason"] == "completed"
    far = httpx.ASGITransport(app, client=("203.0.113.7", 1))
    async with httpx.AsyncClient(transport=far, base_url="http://localhost") as client:
        assert (await client.post("/ask", json=message("Hi"))).status_code == 403


async def test_pages_of_other_sites_are_refused() -> None:
    """Cookies of the application are safe from them."""
    async with client_of(service(support("Hello.")), **{"sec-fetch-site": "cross-site"}) as client:
        assert (await client.post("/ask", json=message("Hi"))).status_code == 403


async def test_users_cannot_approve_by_default() -> None:
    """A customer would allow his own refund."""
    network = support("Hello.", tools=(refund,))
    with pytest.raises(ConfigurationError, match="needs approval"):
        async with client_of(service(network)) as client:
            await client.post("/ask", json=message("Hi"))


async def test_options_that_change_and_formats_that_are_none_are_errors() -> None:
    """They name what is wrong."""
    network = support("Hello.", "Hello.")
    async with client_of(service(network, user_key="user")) as client:
        await events(client, "/ask", message("Hi"))
        with pytest.raises(ConfigurationError, match="user_key differs from the first"):
            async with client_of(service(network, user_key="who")) as other:
                await other.post("/ask", json=message("Hi"))
    unknown: Any = "smoke"
    with pytest.raises(ConfigurationError, match="Unknown format 'smoke'"):
        async with client_of(service(network, unknown)) as client:
            await client.post("/ask", json=message("Hi"))


async def test_a_tool_finds_the_user_in_the_state() -> None:
    """Whatever the client says."""
    seen: list[object] = []

    @tool
    def whoami(ctx: Any) -> str:
        """Say who asks."""
        seen.append(ctx.state.data["user_id"])
        return json.dumps(None)

    network = support(tool_call("whoami", {}), "Ada.", tools=(whoami,))
    async with client_of(service(network)) as client:
        body = message("Who am I?")
        body["userMessage"]["state"] = {"user_id": "eve"}
        await events(client, "/ask", body)
    assert seen == ["ada"]
