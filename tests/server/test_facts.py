"""Facts over HTTP: a user sees, corrects and forgets what agents remember, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette

from agentkit_py import Agent, MemoryHistory, SqliteHistory
from agentkit_py.errors import ConfigurationError
from agentkit_py.memory import Memory
from agentkit_py.server import create_app
from agentkit_py.stores import HistoryStore, ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.world import app_of, by_header, client_of, said, support

TENANTS = {"ada": "acme", "bob": "acme", "eve": "globex"}
"""Nobody else has a tenant."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> HistoryStore:
    """A store that keeps facts."""
    return MemoryHistory() if request.param == "memory" else SqliteHistory(tmp_path / "t.db")


def remembering(store: HistoryStore, *replies: Any, **options: Any) -> tuple[Starlette, Memory]:
    """An app whose clerk remembers, and the memory."""
    memory = Memory(store)  # pyright: ignore[reportArgumentType] - each store here keeps facts
    network = support(*replies, tools=tuple(memory.tools()), processors=[memory.recall()])
    options.setdefault("tenant_of", TENANTS.get)
    return app_of(network, history=store, memory=memory, **options), memory


async def texts(app: Starlette, user: str = "ada", query: str = "") -> list[str]:
    """Return the texts that a user is shown."""
    async with client_of(app, user) as client:
        answer = await client.get(f"/api/memory{query}")
    assert answer.status_code == 200, answer.text
    return [one["text"] for one in answer.json()["facts"]]


async def test_a_user_sees_corrects_and_forgets_facts_of_an_agent(
    store: HistoryStore,
) -> None:
    """The next conversation gets a corrected fact; a forgotten one is gone for good."""
    call = tool_call("remember", {"fact": "Ada wears 57."})
    app, memory = remembering(store, call, "Noted.", "A 58, then.")
    model: Any = next(iter(app.state.api.settings.targets.values())).default_model
    await said(app, "I wear 57.", "t1", id="m1")
    async with store, client_of(app) as ada:
        (fact,) = (await ada.get("/api/memory")).json()["facts"]
        assert (fact["text"], fact["threadId"]) == ("Ada wears 57.", "t1")
        answer = await ada.post(f"/api/memory/{fact['id']}", json={"text": " Ada  wears 58. "})
        better = answer.json()
        assert (better["text"], better["replaces"], better["threadId"]) == (
            *("Ada wears 58.", fact["id"]),
            "t1",
        )
        await said(app, "A hat, please.", "t2")
        model.assert_saw("Ada wears 58.")
        assert await texts(app) == ["Ada wears 58."]
        assert await texts(app, query="?replaced=true") == ["Ada wears 58.", "Ada wears 57."]
        assert (await ada.delete(f"/api/memory/{fact['id']}")).json() == {"success": True}
        assert await texts(app, query="?replaced=true") == []
        for method in ("POST", "DELETE"):
            gone = await ada.request(method, f"/api/memory/{better['id']}", json={"text": "x"})
            assert (gone.status_code, gone.json()["error"]["code"]) == (404, "fact_not_found")
    assert await memory.of(user="ada", tenant="acme").facts(replaced=True) == []


@pytest.mark.parametrize("who", ["bob", "eve"])
async def test_facts_of_others_are_not_there(store: HistoryStore, who: str) -> None:
    """Neither of another user of the tenant, nor of another tenant: absent, and 404."""
    app, memory = remembering(store)
    async with store, client_of(app, who) as client:
        hers = memory.of(user="ada", tenant="acme")
        fact = await hers.remember("Ada has a secret.")
        assert await texts(app, who, "?replaced=true") == []
        for method in ("POST", "DELETE"):
            answer = await client.request(method, f"/api/memory/{fact.id}", json={"text": "x"})
            assert answer.status_code == 404
            assert "secret" not in answer.text
        answer = await client.delete("/api/memory?all=true")
        assert answer.json() == {"success": True, "forgotten": 0}
        assert await hers.facts(replaced=True) == [fact]


async def test_a_user_of_two_tenants_sees_one() -> None:
    """That of which the application says the user is now."""
    tenants = {"ada": "acme"}
    app, memory = remembering(MemoryHistory(), tenant_of=tenants.get)
    await memory.of(user="ada", tenant="globex").remember("Of globex.")
    await memory.of(user="ada", tenant="acme").remember("Of acme.")
    assert await texts(app) == ["Of acme."]
    async with client_of(app) as ada:
        assert (await ada.delete("/api/memory?all=true")).json()["forgotten"] == 1
    tenants["ada"] = "globex"
    assert await texts(app) == ["Of globex."]


async def test_a_user_of_no_tenant_has_no_memory() -> None:
    """Over HTTP 404, and in runs nothing is remembered, whatever the thread's state was before."""
    tenants: dict[str, str] = {"ada": "acme"}
    calls = [tool_call("remember", {"fact": f"Ada is {n}."}) for n in (1, 2)]
    store = MemoryHistory(lease=ThreadLease())
    app, memory = remembering(store, calls[0], "Noted.", calls[1], "Noted.", tenant_of=tenants.get)
    await said(app, "I am 1.", "t")
    del tenants["ada"]
    await said(app, "I am 2.", "t")
    async with client_of(app) as ada:
        for method, path in (
            ("GET", "/api/memory"),
            ("DELETE", "/api/memory?all=true"),
            ("DELETE", "/api/memory/f"),
            ("POST", "/api/memory/f"),
        ):
            answer = await ada.request(method, path, json={"text": "x"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "memory_not_found")
    (fact,) = await memory.of(user="ada", tenant="acme").facts()
    assert fact.text == "Ada is 1."


async def test_without_a_memory_there_is_none() -> None:
    """Also where the tenant is known."""
    async with client_of(app_of(support(), tenant_of=TENANTS.get)) as ada:
        assert (await ada.get("/api/memory")).status_code == 404


async def test_one_tenant_is_named_once() -> None:
    """`Memory(store, tenant=…)` is enough, for runs too."""
    store = MemoryHistory()
    memory = Memory(store, tenant="acme")
    network = support(
        tool_call("remember", {"fact": "Ada rows."}), "Noted.", tools=(*memory.tools(),)
    )
    app = app_of(network, history=store, memory=memory)
    await said(app, "I row.", "t")
    assert await texts(app) == ["Ada rows."]


async def test_a_tenant_found_later_counts_for_runs_and_requests() -> None:
    """`tenant_of` may be async, as one that asks a database."""

    async def tenant_of(user: str) -> str | None:
        return TENANTS.get(user)

    call = tool_call("remember", {"fact": "Ada rows."})
    app, _ = remembering(MemoryHistory(), call, "Noted.", tenant_of=tenant_of)
    await said(app, "I row.", "t")
    assert await texts(app) == ["Ada rows."]


@pytest.mark.parametrize("found", [7, ["acme"], True])
async def test_a_tenant_that_is_no_text_opens_nothing(found: Any) -> None:
    """A mistake of the application's is an internal error."""
    app, _ = remembering(MemoryHistory(), tenant_of={"ada": found}.get)
    async with client_of(app) as ada:
        assert (await ada.get("/api/memory")).status_code == 500


async def test_facts_go_with_their_thread(store: HistoryStore) -> None:
    """A thread that its user deletes takes them along, and their corrections."""
    call = tool_call("remember", {"fact": "Ada wears 57."})
    app, _ = remembering(store, call, "Noted.")
    await said(app, "I wear 57.", "t1")
    async with store, client_of(app) as ada:
        (fact,) = (await ada.get("/api/memory")).json()["facts"]
        await ada.post(f"/api/memory/{fact['id']}", json={"text": "Ada wears 58."})
        assert (await ada.delete("/api/threads/t1")).status_code == 200
        assert await texts(app, query="?replaced=true") == []


@pytest.mark.parametrize(
    "path", ["/api/memory", "/api/memory/", "/api/memory?all=", "/api/memory?all=1"]
)
async def test_an_empty_id_does_not_forget_everything(path: str) -> None:
    """A client that puts nothing in place of the id is refused."""
    app, memory = remembering(MemoryHistory())
    await memory.of(user="ada", tenant="acme").remember("Ada rows.")
    async with client_of(app) as ada:
        answer = await ada.delete(path, follow_redirects=True)
    assert answer.status_code in {400, 404}
    assert await texts(app) == ["Ada rows."]


@pytest.mark.parametrize("text", ["", "  \x00 ", "x" * 1001, "\ud800", None, 7])
async def test_a_correction_that_is_no_fact_is_refused(text: Any) -> None:
    """400, and the fact stays."""
    app, memory = remembering(MemoryHistory())
    fact = await memory.of(user="ada", tenant="acme").remember("Ada rows.")
    async with client_of(app) as ada:
        body = b'{"text": "\\ud800"}' if text == "\ud800" else None
        sent: Any = {"json": {"text": text}} if body is None else {"content": body}
        answer = await ada.post(f"/api/memory/{fact.id}", **sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert await texts(app) == ["Ada rows."]


@pytest.mark.parametrize("key", ["tenant", "tenant_id", "tenantId"])
def test_clients_may_not_name_the_tenant(key: str) -> None:
    """Whatever state they may set."""
    with pytest.raises(ConfigurationError, match=key):
        app_of(support(), client_state=[key])


def test_a_memory_that_could_not_be_shown_is_refused() -> None:
    """Of another store, without a tenant or with two rules, under another key, or none at all."""
    store = MemoryHistory()
    memory = Memory(store)
    rule = {"tenant_of": TENANTS.get}
    for options, words in (
        ({**rule, "memory": Memory(MemoryHistory())}, "another store"),
        ({"memory": memory}, "either tenant_of"),
        ({**rule, "memory": Memory(store, tenant="acme")}, "either tenant_of"),
        ({**rule, "memory": memory, "user_key": "customer"}, "user_key"),
        ({**rule, "memory": store}, "pass a Memory"),
    ):
        agent = Agent(name="clerk", system="You sell hats.", model=ScriptedModel())
        given: Any = options
        with pytest.raises(ConfigurationError, match=words):
            create_app(agents=[agent], history=store, auth=by_header, **given)
