"""A customer reads every endpoint and stream, and finds no word, id or list of staff."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, cast

from starlette.applications import Starlette

from agentkit_py import MemoryHistory, tool
from agentkit_py.history import StaffDesk
from agentkit_py.server import lifespan
from agentkit_py.server.app import ENDPOINTS
from agentkit_py.testing import tool_call
from tests.server.test_front_ends import events, run_input
from tests.server.test_front_ends import said as vercel_message
from tests.server.world import app_of, client_of, listening, message, post, said, served, support

HIDDEN = "HIDDEN"
"""Stands in all that staff are called and write for agents."""

MIA, BOSS = f"{HIDDEN}-mia@shop.example", f"{HIDDEN}-boss@shop.example"
QUERIES = {"/api/search": {"words": "money"}, "/api/approvals": {"status": "all"}}


@tool(
    needs_approval=True,
    approvers=[MIA],
    approval_timeout=timedelta(hours=4),
    escalate_after=timedelta(hours=2),
    escalate_to=[BOSS],
)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


def shop() -> Starlette:
    """A server whose staff decide and take over."""
    asks = [tool_call("refund", {"order": order}) for order in ("A1", "A2")]
    network = support(
        asks[0], "It was not possible.", asks[1], tools=(refund,), history=MemoryHistory()
    )
    return app_of(network, staff=[MIA], approvers=[])


def leaves(value: Any) -> int:
    """Return the number of facts in JSON."""
    if isinstance(value, dict):
        return sum(map(leaves, cast("dict[str, Any]", value).values()))
    return sum(map(leaves, cast("list[Any]", value))) if isinstance(value, list) else 1


async def test_no_endpoint_and_no_stream_shows_a_customer_data_for_staff() -> None:
    """One question is denied, one is open; a person joins, writes and hands back."""
    app = shop()
    store: Any = app.state.api.settings.store
    desk = StaffDesk(store)
    read: dict[str, str] = {}
    async with lifespan(app), served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("My money!", "t1", id="m1"))
        await stream.until("hitl.requested")
        (asked,) = await store.list_questions(thread_id="t1")
        words = {"reason": f"{HIDDEN} a liar", "toUser": "Not without a receipt."}
        body = {"action": "deny", **words}
        assert (await post(url, f"/api/approvals/{asked.id}", body, MIA)).status_code == 200
        await stream.until("stream.ended")
        async with client_of(app) as ada:
            read["AG-UI's stream"] = json.dumps(
                await events(ada, "/api/ag-ui", run_input("My money!"))
            )
            read["AI SDK's stream"] = json.dumps(
                await events(ada, "/api/vercel", vercel_message("My money!"))
            )
        await desk.ask("t1", f"{HIDDEN} difficult")
        await desk.join("t1", by=MIA)
        await desk.say("t1", "I have a look.", by=MIA)
        await desk.hand_back("t1", by=MIA, note=f"{HIDDEN} be nice")
        await post(url, "/api/chat", message("My money, now!", "t1", id="m2"))
        await stream.until("hitl.requested")
        read["useAgent's stream"] = json.dumps(stream.chunks)
        async with client_of(app) as ada:
            for one in (one for one in ENDPOINTS if one.method == "GET"):
                path = one.path.replace("{threadId}", "t1").replace("{questionId}", asked.id)
                response = await ada.get(path, params=QUERIES.get(one.path))
                read[f"GET {one.path}"] = response.text
            denied = await ada.post(f"/api/approvals/{asked.id}", json={"action": "approve"})
            read["a refusal"] = denied.text
    assert [name for name, text in read.items() if HIDDEN in text] == []
    shown = [name for name, text in read.items() if "Not without a receipt." in text]
    assert {"useAgent's stream", "GET /api/threads/{threadId}"} <= set(shown)
    fields = sum(leaves(json.loads(text)) for text in read.values() if text[:1] in "[{")
    assert len(read) >= 15
    assert fields > 200


async def test_the_words_are_there_for_staff() -> None:
    """So that the test above looks for what could be found."""
    app = shop()
    store: Any = app.state.api.settings.store
    async with lifespan(app):
        await said(app, "My money!", "t1", id="m1")
        (asked,) = await store.list_questions(thread_id="t1")
        async with client_of(app, MIA) as mia:
            body = {"action": "deny", "reason": f"{HIDDEN} a liar"}
            await mia.post(f"/api/approvals/{asked.id}", json=body)
            await app.state.api.backend.idle()
            await StaffDesk(store).ask("t1", f"{HIDDEN} difficult")
            texts = [
                (await mia.get(path)).text
                for path in ("/api/approvals?status=all", "/api/takeovers", "/api/takeovers/t1")
            ]
    assert all(HIDDEN in text for text in texts)
