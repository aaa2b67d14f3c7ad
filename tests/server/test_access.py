"""Access control: nobody reads, steers, approves or listens as somebody else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agentkit_py import Agent, MemoryHistory, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.server import ServerLimits, create_app
from agentkit_py.server.auth import StreamTokens
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.world import (
    app_of,
    by_header,
    client_of,
    listening,
    message,
    post,
    said,
    served,
    support,
    wait_until_idle,
)

REQUESTS: list[tuple[str, str, Any]] = [
    ("POST", "/api/chat", {"userMessage": {"content": "Hi", "role": "user"}, "threadId": "t1"}),
    ("POST", "/api/chat/cancel", {"threadId": "t1"}),
    ("GET", "/api/threads", None),
    ("POST", "/api/threads", {"threadId": "t1"}),
    ("GET", "/api/threads/t1", None),
    ("DELETE", "/api/threads/t1", None),
    ("POST", "/api/realtime/token", {}),
    ("POST", "/api/approve-tool", {"toolCallId": "x", "threadId": "t1", "action": "approve"}),
    ("GET", "/api/memory", None),
    ("POST", "/api/memory/f1", {"text": "x"}),
    ("DELETE", "/api/memory/f1", None),
    ("DELETE", "/api/memory?all=true", None),
    ("GET", "/api/stream", None),
]


async def sent(client: httpx.AsyncClient, request: tuple[str, str, Any]) -> httpx.Response:
    """One request."""
    method, path, body = request
    return await client.request(method, path, json=body)


def refuses(_request: Request) -> str | None:
    """An authenticator that knows no user."""
    return None


def raises(_request: Request) -> str | None:
    """It knows too much."""
    raise PermissionError("the password of ada is hats123")


async def refuses_later(_request: Request) -> str | None:
    """An async one."""
    return None


@pytest.mark.parametrize("auth", [refuses, raises, refuses_later])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: f"{r[0]} {r[1]}")
async def test_requests_without_a_user_are_refused_everywhere(
    auth: Callable[[Request], Any], request_: tuple[str, str, Any]
) -> None:
    """Every endpoint refuses, without a reason."""
    async with client_of(app_of(support(), auth=auth)) as client:
        answer = await sent(client, request_)
    assert answer.status_code == 401
    assert answer.json()["error"] == {"message": "Please sign in.", "code": "unauthorized"}


@pytest.mark.parametrize("found", ["", 7, "a\nb", "x" * 257, "\ud800", ["ada"]])
async def test_an_invalid_user_id_from_auth_is_an_internal_error(found: Any) -> None:
    """A mistake of the application's opens nothing."""

    def auth(_request: Request) -> Any:
        return found

    async with client_of(app_of(support(), auth=auth)) as client:
        answer = await client.get("/api/threads")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"


ABOUT_T1 = [r for r in REQUESTS if "t1" in f"{r[1]}{r[2]}"]


@pytest.mark.parametrize("request_", ABOUT_T1, ids=lambda r: f"{r[0]} {r[1]}")
async def test_threads_of_other_users_are_not_found(request_: tuple[str, str, Any]) -> None:
    """404 as for one that nobody has, and it stays as it is."""
    app = app_of(support("Hello."))
    await said(app, "My secret", "t1", "ada")
    async with client_of(app, "ada") as ada, client_of(app, "eve") as eve:
        before = (await ada.get("/api/threads/t1")).json()
        answer = await sent(eve, request_)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "thread_not_found"
        assert "secret" not in answer.text
        await wait_until_idle(app)
        assert (await ada.get("/api/threads/t1")).json() == before
        assert (await eve.get("/api/threads")).json()["threads"] == []


async def test_user_ids_in_bodies_are_ignored() -> None:
    """Threads, runs and tokens are those of the user that auth names."""
    app = app_of(support("Hello."))
    async with client_of(app, "eve") as eve, client_of(app, "nora") as nora:
        forged = {"userId": "nora", "channelKey": "nora"}
        await eve.post("/api/chat", json=message("Hi", "t1") | forged)
        await wait_until_idle(app)
        made = (await eve.post("/api/threads", json={"threadId": "t2", **forged})).json()
        assert made["userId"] == "eve"
        token = (await eve.post("/api/realtime/token", json=forged)).json()
        assert token["channel"] == "user:eve"
        assert (await nora.get("/api/threads")).json()["total"] == 0
        mine = (await eve.get("/api/threads?userId=nora&channelKey=nora")).json()
        assert {thread["id"] for thread in mine["threads"]} == {"t1", "t2"}
        theirs = (await eve.get("/api/threads/t1")).json()
        assert "nora" not in json.dumps(theirs)  # no part of a hexadecimal id, as "ada" may be


async def test_streams_hold_chunks_of_their_own_user_only() -> None:
    """A query cannot ask for another user's chunks."""
    app = app_of(support("My answer."))
    async with served(app) as url:
        async with listening(url, "eve", query="?threadId=t1") as refused:
            assert refused.response.status_code == 404
        async with listening(url, "ada") as ada:
            last = ada.last_id
            await post(url, "/api/chat", message("Hi", "t1"), "ada")
            await ada.until("stream.ended")
        async with listening(url, "eve", last_id=last) as eve:
            await post(url, "/api/chat", message("Hi", "t2"), "eve")
            await eve.until("stream.ended")
        assert {c["data"]["threadId"] for c in eve.chunks} == {"t2"}


async def test_approvals_and_cancels_reach_own_runs_only() -> None:
    """Knowing the ids of the question and the thread is not enough."""
    paid: list[int] = []

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return "paid"

    app = app_of(support(tool_call("refund", {"amount": 5}), "done", tools=(refund,)))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        asked = (await stream.until("hitl.requested"))["data"]
        word = {"toolCallId": asked["requestId"], "action": "approve", "userId": "ada"}
        await post(url, "/api/threads", {"threadId": "own"}, "eve")
        for thread in ("t1", "own"):
            answer = await post(url, "/api/approve-tool", {**word, "threadId": thread}, "eve")
            assert answer.status_code == 404
            await post(url, "/api/chat/cancel", {"threadId": thread, "userId": "ada"}, "eve")
        assert paid == []
        await post(url, "/api/approve-tool", {**word, "threadId": "t1"})
        await stream.until("stream.ended")
    assert paid == [5]


def forged(key: str) -> list[str]:
    """Tokens for ada, made of one for eve."""
    body, _, signature = key.partition(".")
    padded = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    for_ada = base64.urlsafe_b64encode(padded.replace(b"eve", b"ada")).decode().rstrip("=")
    other, _ = StreamTokens("a guess of a secret").make("ada")
    unsigned = f"{for_ada}."
    return [f"{for_ada}.{signature}", unsigned, for_ada, other, "", ".", "a.b", "é.ü", "x" * 5000]


async def test_forged_tokens_open_no_stream() -> None:
    """The event stream and the WebSocket refuse them."""
    app = app_of(support())
    async with served(app) as url:
        key = (await post(url, "/api/realtime/token", {}, "eve")).json()["key"]
        for token in forged(key):
            async with listening(url, "eve", query=f"?token={token}") as refused:
                assert refused.response.status_code == 401, token
            with pytest.raises(InvalidStatus):
                async with connect(
                    f"{url}/v1/realtime/connect?token={token}".replace("http", "ws")
                ):
                    pass


async def test_a_token_expires() -> None:
    """The lifetime is one of the server's limits."""
    now = [1000.0]
    tokens = StreamTokens(seconds=60, clock=lambda: now[0])
    key, grant = tokens.make("ada")
    assert tokens.read(key) == grant
    now[0] += 60
    assert tokens.read(key) is None


async def test_processes_with_one_secret_accept_each_others_tokens() -> None:
    """Processes with another secret do not."""
    key, grant = StreamTokens("one secret of many").make("ada")
    assert StreamTokens("one secret of many").read(key) == grant
    assert StreamTokens("two secrets of many").read(key) is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_pages_of_other_hosts_cannot_use_a_browsers_cookies(
    headers: dict[str, str], status: int
) -> None:
    """Requests of other sites are refused for any content type."""
    app = app_of(support("Hi."))
    async with client_of(app, "ada", **headers) as client:
        for method, path in (("POST", "/api/threads"), ("DELETE", "/api/threads/t0")):
            answer = await client.request(method, path, content=b"{}")
            assert answer.status_code in (status, 404 if status == 200 else status)
        answer = await client.get("/api/threads")
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_pages_of_named_origins_may_use_the_api() -> None:
    """They and no others."""
    app = app_of(support("Hi."), origins=["https://shop.example"])
    headers = {"origin": "https://shop.example", "sec-fetch-site": "cross-site"}
    async with client_of(app, "ada", **headers) as client:
        answer = await client.post("/api/threads", json={})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        asking = {"access-control-request-method": "POST"}
        assert (await client.options("/api/chat", headers=asking)).status_code == 200
    async with client_of(app, "ada", origin="https://evil.example") as client:
        assert (await client.post("/api/threads", json={})).status_code == 403
        asking = {"access-control-request-method": "POST"}
        assert (await client.options("/api/chat", headers=asking)).status_code == 400


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        ("127.0.0.1", "localhost:8000", 200),
        ("127.0.0.1", "127.0.0.1", 200),
        ("::1", "[::1]:8000", 200),
        ("192.168.0.7", "localhost", 403),
        ("127.0.0.1", "shop.example", 403),
        ("127.0.0.1", "evil.example:8000", 403),
    ],
)
async def test_auth_local_answers_only_programs_on_this_machine(
    address: str, host: str, status: int
) -> None:
    """Another machine's address and another host name are refused."""
    app = app_of(support(), auth="local")
    transport = httpx.ASGITransport(app, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        assert (await client.get("/api/threads")).status_code == status


def agent() -> Agent:
    """One."""
    return Agent(name="clerk", system="S", model=ScriptedModel())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agents": [agent()]}, "auth=…"),
        ({"agents": [agent()], "auth": "everybody"}, "auth=…"),
        ({"auth": by_header}, "networks="),
        ({"agents": [agent(), agent()], "auth": by_header}, "two agents"),
        ({"agents": [agent()], "auth": by_header, "client_state": ["user_id"]}, "user_id"),
        ({"agents": [agent()], "auth": by_header, "client_state": ["userId"]}, "userId"),
        (
            {"agents": [agent()], "auth": by_header, "client_state": ["me"], "user_key": "me"},
            "'me'",
        ),
        ({"agents": [agent()], "auth": by_header, "orgins": []}, "orgins"),
        ({"agents": [agent()], "auth": by_header, "origins": ["*"]}, "origin of a page"),
        ({"agents": [agent()], "auth": by_header, "origins": ["shop.example"]}, "origin of a"),
        ({"agents": [agent()], "auth": by_header, "origins": ["https://a.b/x"]}, "origin of a"),
        ({"agents": [agent()], "auth": by_header, "history": "threads.db"}, "HistoryStore"),
    ],
)
def test_unsafe_or_unusable_options_are_refused(options: dict[str, Any], words: str) -> None:
    """The error says what to do."""
    with pytest.raises(ConfigurationError, match=words):
        create_app(**options)


def test_several_histories_are_refused() -> None:
    """One API, one list of threads."""
    one = support(history=MemoryHistory())
    two = support(history=MemoryHistory())
    two.name = "two"
    with pytest.raises(ConfigurationError, match="several histories"):
        create_app(networks=[one, two], auth=by_header)
    with pytest.raises(ConfigurationError, match="body_bytes"):
        ServerLimits(body_bytes=0)


async def test_unexpected_errors_have_a_public_body() -> None:
    """500 with one sentence; the log has the rest."""

    class Broken(MemoryHistory):
        async def select_threads(self, limit: int | None, user_id: str | None) -> Any:
            raise RuntimeError("postgres://ada:hats123@db")

    async with client_of(app_of(support(), history=Broken())) as client:
        answer = await client.get("/api/threads")
    assert answer.status_code == 500
    assert answer.json() == {
        "error": {
            "message": "Something went wrong on the server.",
            "code": "internal_error",
        }
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/nothing", 404), ("GET", "/api/chat", 405), ("PUT", "/api/threads/t1", 405)],
)
async def test_unknown_paths_and_methods_have_the_same_error_body(
    method: str, path: str, status: int
) -> None:
    """The hook reads it everywhere alike."""
    async with client_of(app_of(support())) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


async def test_tools_find_the_user_of_auth_in_the_state() -> None:
    """The key is the application's choice, and the client cannot set it."""

    @tool
    def orders(ctx: ToolContext) -> str:
        """The customer's orders."""
        return f"orders of {ctx.state.data['customer']}"

    network = support(tool_call("orders", {}), "done", tools=(orders,))
    app = app_of(network, user_key="customer", client_state=["tab"])
    await said(app, "Hi", "t1", "ada", state={"customer": "eve", "tab": "eve"})
    model: Any = network.default_model
    model.assert_saw("orders of ada")
