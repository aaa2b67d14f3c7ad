"""Where a server has tenants, staff and approvers act within theirs, at every endpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from agentkit_py import MemoryHistory, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.history import StaffDesk
from agentkit_py.history.questions import Question
from agentkit_py.history.staff import Takeover
from agentkit_py.memory import Memory
from agentkit_py.server import lifespan
from agentkit_py.server.app import ENDPOINTS
from agentkit_py.testing import tool_call
from tests.server.world import app_of, client_of, listening, said, served, support

TENANTS = {"ada": "A", "mia": "A", "bob": "B", "ben": "B"}
"""``ada`` and ``bob`` are customers, ``mia`` and ``ben`` staff; ``zoe`` and ``hq`` have none."""

STAFF = ["mia", "ben", "zoe", "hq"]
SECRET = "SECRET"


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid {order}"


def shop(**options: Any) -> Starlette:
    """A server of two tenants, whose staff are listed together."""
    store = MemoryHistory()
    network = support(
        tool_call("refund", {"order": f"{SECRET}-A1"}),
        tool_call("refund", {"order": "B1"}),
        *["Done."] * 9,
        tools=(refund,),
        history=store,
    )
    named = {"staff": STAFF, "approvers": STAFF, "memory": Memory(store)}
    given: dict[str, Any] = {"tenant_of": TENANTS.get, "across_tenants": ["hq"], **named, **options}
    return app_of(network, **given)


async def prepare(app: Starlette) -> str:
    """Let a customer of A ask, and want a person; return the id of the question."""
    store: Any = app.state.api.settings.store
    await said(app, f"{SECRET} pay", "t", id="m1")
    await StaffDesk(store).ask("t", f"{SECRET} reason")
    await StaffDesk(store).join("t", by="mia", name="Mia")
    (asked,) = await store.list_questions(thread_id="t")
    return asked.id


BODIES: dict[str, dict[str, Any]] = {
    "/api/approve-tool": {"threadId": "t", "action": "approve"},
    "/api/approvals/{questionId}": {"action": "approve"},
    "/api/chat/cancel": {"threadId": "t"},
    "/api/takeovers/{threadId}/join": {"name": "X"},
    "/api/takeovers/{threadId}/say": {"text": "X"},
    "/api/takeovers/{threadId}/hand-back": {"note": "X"},
    "/api/takeovers/{threadId}/note": {"text": "X"},
    "/api/threads/{threadId}/rewind": {"before": "m1"},
    "/api/threads/{threadId}/fork": {},
    "/api/memory/{factId}": {"text": "X"},
    "/api/chat": {
        "threadId": "t",
        "userMessage": {"id": "m9", "role": "user", "content": "X"},
    },
    "/api/threads": {"threadId": "t"},
    "/api/realtime/token": {},
}
QUERIES = {
    "/api/search": {"words": SECRET},
    "/api/takeovers/{threadId}/explain": {"agent": "clerk", "network": "support"},
    "/api/memory": {"all": "true"},
    "/api/approvals": {"status": "all"},
}


@dataclass
class Asked:
    """One endpoint's answer to one user."""

    name: str
    response: httpx.Response


async def ask_all(client: httpx.AsyncClient, question: str, last: tuple[str, ...]) -> list[Asked]:
    """Ask every endpoint for what is another's; those that change most come last."""
    found: list[Asked] = []
    order = sorted(ENDPOINTS, key=lambda one: (one.method == "DELETE", one.path in last))
    for one in order:
        path = one.path.replace("{threadId}", "t").replace("{questionId}", question)
        body = dict(BODIES.get(one.path, {}))
        if one.path == "/api/approve-tool":
            body["toolCallId"] = question
        response = await client.request(
            one.method,
            path.replace("{factId}", "1"),
            json=body if one.method == "POST" else None,
            params=QUERIES.get(one.path),
        )
        found.append(Asked(f"{one.method} {one.path}", response))
    return found


STAFF_ENDPOINTS = {
    "GET /api/approvals",
    "POST /api/approvals/{questionId}",
    "GET /api/takeovers",
    "GET /api/takeovers/{threadId}",
    "GET /api/takeovers/{threadId}/explain",
    "GET /api/staff/threads",
}
"""Those whose answers to staff hold what is the customer's."""


@pytest.mark.parametrize("user", ["bob", "ben", "zoe", "eve"])
async def test_no_endpoint_shows_or_changes_data_of_another_tenant(user: str) -> None:
    """A customer and staff of B, staff of no tenant, and a stranger: nothing of A is theirs."""
    app = shop()
    store: Any = app.state.api.settings.store
    async with lifespan(app):
        question = await prepare(app)
        before = [await store.load_question(question), await store.load_takeover("t")]
        async with client_of(app, user) as client:
            answers = await ask_all(client, question, ())
        await app.state.api.backend.idle()
        after = [await store.load_question(question), await store.load_takeover("t")]
        rows = [row.result.to_dict() for row in await store.page("t", 100, 100)]
    assert len(answers) == len(ENDPOINTS)
    for one in answers:
        assert one.response.status_code in (200, 404), (one.name, one.response.text)
        assert SECRET not in one.response.text, one.name
    assert before == after
    assert f"{SECRET} pay" in str(rows)
    assert "'X'" not in str(rows)


@pytest.mark.parametrize("user", ["mia", "hq"])
async def test_staff_of_the_tenant_and_of_all_tenants_see_and_decide(user: str) -> None:
    """The same endpoints answer them."""
    app = shop()
    async with lifespan(app):
        question = await prepare(app)
        async with client_of(app, user) as client:
            # Reading first: an answer lets the run go on.
            answers = await ask_all(client, question, ("/api/approvals/{questionId}",))
    by_name = {one.name: one.response for one in answers}
    for name in STAFF_ENDPOINTS - {"POST /api/approvals/{questionId}"}:
        assert SECRET in by_name[name].text, name
    decided = [by_name["POST /api/approve-tool"], by_name["POST /api/approvals/{questionId}"]]
    assert 200 in [one.status_code for one in decided]


async def test_rules_of_the_application_are_asked_within_a_tenant_only() -> None:
    """A rule that says yes to all is no way round the tenant."""

    def yes(_user: str, _what: Question | Takeover) -> bool:
        return True

    app = shop(may_answer=yes, may_take_over=yes)
    async with lifespan(app):
        question = await prepare(app)
        statuses: dict[str, list[int]] = {}
        for user in ("ben", "hq", "mia"):
            async with client_of(app, user) as client:
                seen = [
                    await client.get("/api/takeovers/t"),
                    await client.post(f"/api/approvals/{question}", json={"action": "approve"}),
                ]
                statuses[user] = [one.status_code for one in seen]
    assert statuses == {"ben": [404, 404], "hq": [200, 200], "mia": [200, 409]}


@pytest.mark.parametrize("path", ["/api/approvals/stream", "/api/takeovers/stream"])
async def test_streams_of_staff_hold_data_of_their_tenant_alone(path: str) -> None:
    """What is of A would come before what is of B: it is older."""
    app = shop()
    store: Any = app.state.api.settings.store
    async with served(app) as url:
        await prepare(app)
        await said(app, "pay", "b", user="bob")
        await StaffDesk(store).ask("b", "help")
        async with listening(url, "ben", path=path) as stream:
            _, first = await stream.next()
    assert first["threadId"] == "b"
    assert SECRET not in json.dumps(first)


async def test_many_questions_of_one_tenant_hide_none_of_another() -> None:
    """However many there are of A, staff of B see theirs."""
    app = shop()
    store: Any = app.state.api.settings.store
    async with lifespan(app):
        await prepare(app)
        (known,) = await store.list_questions(thread_id="t")
        for number in range(1100):
            await store.save_question(
                known.__class__.from_dict({**known.to_dict(), "id": f"q{number}"}, where="test")
            )
        await said(app, "pay", "b", user="bob")
        async with client_of(app, "ben") as client:
            found = (await client.get("/api/approvals")).json()["approvals"]
    assert [one["threadId"] for one in found] == ["b"]


def test_across_tenants_needs_tenants_and_a_list() -> None:
    """Both mistakes are refused when the server is made."""
    with pytest.raises(ConfigurationError, match="tenant_of"):
        app_of(support(), across_tenants=["hq"])
    with pytest.raises(ConfigurationError, match="across_tenants must be a list"):
        app_of(support(), across_tenants="hq", tenant_of=TENANTS.get)
