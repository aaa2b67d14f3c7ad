"""Threads: listing, paging, titles and what a thread's messages look like."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory
from agentkit_py.messages import ReasoningMessage, TextMessage
from agentkit_py.results import AgentResult
from agentkit_py.server import ServerLimits
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.test_streams import price
from tests.server.world import (
    app_of,
    client_of,
    message,
    once,
    said,
    support,
    wait_until_idle,
    waiting,
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> MemoryHistory | SqliteHistory:
    """A place for threads."""
    return MemoryHistory() if request.param == "memory" else SqliteHistory(tmp_path / "t.db")


async def five(store: Any) -> Any:
    """An API with five threads of ada's and one of bob's."""
    for number in range(5):
        await store.add_thread(f"t{number}", user_id="ada", title=f"Thread {number}")
        await store.append(f"t{number}", [AgentResult.from_user("hi", id="m")])
    await store.add_thread("b", user_id="bob")
    return app_of(support(), history=store)


async def test_threads_are_listed_by_limit_and_offset(store: Any) -> None:
    """The hook pages by offset."""
    async with client_of(await five(store)) as client:
        first = (await client.get("/api/threads?limit=2&offset=0&userId=ada")).json()
        second = (await client.get("/api/threads?limit=2&offset=2")).json()
        third = (await client.get("/api/threads?limit=2&offset=4")).json()
        none = (await client.get("/api/threads?limit=2&offset=9")).json()
    pages = [first, second, third, none]
    assert [[t["id"] for t in page["threads"]] for page in pages] == [
        ["t4", "t3"], ["t2", "t1"], ["t0"], []
    ]  # fmt: skip
    assert [page["hasMore"] for page in pages] == [True, True, False, False]
    assert {page["total"] for page in pages} == {5}
    thread = first["threads"][0]
    assert thread["title"] == "Thread 4"
    assert thread["messageCount"] == 1
    assert thread["lastMessageAt"].endswith("Z")
    assert thread["createdAt"] <= thread["updatedAt"] == thread["lastMessageAt"]


async def test_threads_are_found_by_words(store: Any) -> None:
    """One's own, with the message around the words."""
    async with client_of(await five(store)) as client:
        await store.append("t3", [AgentResult.from_user(f"{'x ' * 99} a Purple hat", id="n")])
        await store.append("b", [AgentResult.from_user("my purple hat", id="n")])
        found = (await client.get("/api/search", params={"words": "hat purp"})).json()
        several = (await client.get("/api/search?words=hi&limit=2")).json()
        wrong = await client.get("/api/search?words=")
        other = (await client.get("/api/search?words=zebra")).json()
    (match,) = found["matches"]
    assert (match["thread"]["id"], match["thread"]["title"]) == ("t3", "Thread 3")
    assert match["position"] == 1
    assert match["text"].endswith(" a Purple hat")
    assert len(match["text"]) < 100
    assert not found["hasMore"]
    assert (len(several["matches"]), several["hasMore"]) == (2, True)
    assert wrong.status_code == 400
    assert other == {"matches": [], "hasMore": False}


async def test_threads_are_listed_by_cursor(store: Any) -> None:
    """All of them, each once."""
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    async with client_of(await five(store)) as client:
        while True:
            page = (await client.get("/api/threads", params=query)).json()
            seen += [thread["id"] for thread in page["threads"]]
            if not page["hasMore"]:
                break
            query["cursorTimestamp"] = page["nextCursorTimestamp"]
            query["cursorId"] = page["nextCursorId"]
    assert seen == ["t4", "t3", "t2", "t1", "t0"]
    assert page["nextCursorId"] is None


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", "offset=-1", "limit=1e3", "limit=٣",
     "cursorTimestamp=now&cursorId=t1", "offset=99999999999999999999"],
)  # fmt: skip
async def test_invalid_paging_is_refused(query: str) -> None:
    """400, and the message names the parameter."""
    async with client_of(app_of(support())) as client:
        answer = await client.get(f"/api/threads?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]["message"]


async def test_a_thread_is_created_and_titled(store: Any) -> None:
    """The first message sets a missing title; a second call changes nothing."""
    app = app_of(support("Hello."), history=store)
    async with client_of(app) as client:
        made = (await client.post("/api/threads", json={"userId": "ada"})).json()
        assert made["title"] == "New conversation"
        thread = made["threadId"]
        assert (await client.get(f"/api/threads/{thread}")).json()["messages"] == []
        await said(app, "Where is my order?", thread)
        found = (await client.get("/api/threads")).json()["threads"]
        assert [one["title"] for one in found] == ["Where is my order?"]
        named = {"threadId": "t2", "title": "  My hats "}
        assert (await client.post("/api/threads", json=named)).json()["title"] == "My hats"
        again = {"threadId": "t2", "title": "Other"}
        assert (await client.post("/api/threads", json=again)).json()["title"] == "My hats"
        bad = await client.post("/api/threads", json={"threadId": "a b"})
        assert bad.status_code == 400


async def test_messages_have_the_shape_that_the_hook_reads(store: Any) -> None:
    """Those of TypeScript's history adapter."""
    network = support(tool_call("price", {"hat": "bowler"}), "It costs 30.", tools=(price,))
    app = app_of(network, history=store)
    await said(app, "How much?", "t1", id="m-1")
    async with client_of(app) as client:
        found = (await client.get("/api/threads/t1")).json()
    assert found["thread"]["messageCount"] == 3
    user, call, reply = found["messages"]
    assert user["message_id"] == "m-1"
    assert [m["type"] for m in found["messages"]] == ["user", "agent", "agent"]
    assert [m["position"] for m in found["messages"]] == [0, 1, 2]
    assert call["data"]["output"][0]["type"] == "tool_call"
    assert call["data"]["toolCalls"][0]["content"] == {"data": "bowler: 30"}
    assert reply["data"]["output"][0]["content"] == "It costs 30."
    assert reply["createdAt"].endswith("Z")


async def test_a_long_thread_can_be_read_in_parts(store: Any) -> None:
    """Parts are counted from the thread's end."""
    await store.add_thread("t1", user_id="ada")
    turns = [AgentResult.from_user(f"message {n}", id=f"m{n}") for n in range(7)]
    await store.append("t1", turns)
    async with client_of(app_of(support(), history=store)) as client:
        last = (await client.get("/api/threads/t1?limit=3")).json()
        first = (await client.get("/api/threads/t1?limit=9&before=4")).json()
        whole = (await client.get("/api/threads/t1")).json()
        nothing = (await client.get("/api/threads/t1?before=0")).json()
    assert [m["position"] for m in last["messages"]] == [4, 5, 6]
    assert last["hasMore"] is True
    assert [m["position"] for m in first["messages"]] == [0, 1, 2, 3]
    assert first["hasMore"] is False
    assert len(whole["messages"]) == 7
    assert nothing["messages"] == []


async def test_a_thread_has_a_default_and_a_greatest_page_size(store: Any) -> None:
    """The hook names no limit: it gets the newest messages, and not a million of them."""
    await store.add_thread("t1", user_id="ada")
    turns = [AgentResult.from_user(f"message {n}", id=f"m{n}") for n in range(450)]
    await store.append("t1", turns)
    seen: list[int] = []
    query: dict[str, Any] = {}
    sizes: list[int] = []
    async with client_of(app_of(support(), history=store)) as client:
        while True:
            page = (await client.get("/api/threads/t1", params=query)).json()
            seen = [message["position"] for message in page["messages"]] + seen
            sizes.append(len(page["messages"]))
            if not page["hasMore"]:
                break
            query = {"before": seen[0]}
        longest = (await client.get("/api/threads/t1?limit=1000")).json()
        longer = await client.get("/api/threads/t1?limit=1001")
    assert sizes == [200, 200, 50]
    assert seen == list(range(450))
    assert page["thread"]["messageCount"] == 450
    assert len(longest["messages"]) == 450
    assert (longer.status_code, "limit" in longer.json()["error"]["message"]) == (400, True)


async def test_provider_metadata_is_left_out_of_messages(store: Any) -> None:
    """Signatures of thoughts stay in the store."""
    await store.add_thread("t1", user_id="ada")
    metadata = {"anthropic": {"signature": "sig-123"}}
    thought = ReasoningMessage("hm", provider_metadata=metadata)
    await store.append("t1", [AgentResult("clerk", [thought, TextMessage("assistant", "Yes.")])])
    async with client_of(app_of(support(), history=store)) as client:
        answer = await client.get("/api/threads/t1")
    assert "sig-123" not in answer.text
    assert answer.json()["messages"][0]["data"]["output"][1]["content"] == "Yes."


async def test_the_networks_own_history_is_used_where_none_is_given(tmp_path: Any) -> None:
    """`agentkit chat` then shows the same threads."""
    store = SqliteHistory(tmp_path / "t.db")
    agent = Agent(name="clerk", system="S", model=ScriptedModel("Hello."))
    app = app_of(Network(name="support", agents=[agent], router=once, history=store))
    await said(app, "Hi", "t1")
    assert [thread.id for thread in await store.list_threads(user_id="ada")] == ["t1"]
    await wait_until_idle(app)
    await store.close()


async def test_thread_ids_may_hold_escaped_characters(store: Any) -> None:
    """The hook escapes them."""
    await store.add_thread("a:b/c?d=é", user_id="ada")
    async with client_of(app_of(support(), history=store)) as client:
        assert (await client.get("/api/threads/a%3Ab%2Fc%3Fd%3D%C3%A9")).status_code in (200, 404)
        assert (await client.get("/api/threads/a%00b")).status_code == 404


def texts(thread: Any) -> list[str]:
    """Return what was said in a thread."""
    found: list[str] = []
    for one in thread["messages"]:
        output = one["data"]["output"] if one["type"] == "agent" else [one]
        found += [message["content"] for message in output]
    return found


async def test_a_thread_is_forked_before_a_message(store: Any) -> None:
    """The fork is another thread of the user; nobody else's can be forked."""
    app = app_of(support("One.", "Two.", "Other."), history=store)
    await said(app, "first", "t", id="m1")
    await said(app, "second", "t", id="m2")
    async with client_of(app) as client:
        made = (await client.post("/api/threads/t/fork", json={"before": "m2"})).json()
        await said(app, "instead", made["threadId"])
        fork = (await client.get(f"/api/threads/{made['threadId']}")).json()
        thread = (await client.get("/api/threads/t")).json()
        missing = await client.post("/api/threads/t/fork", json={"before": "m3"})
        forks = (await client.get("/api/threads/t/forks")).json()
    (listed,) = forks["forks"]
    assert (listed["threadId"], listed["position"], forks["hasMore"]) == (
        made["threadId"],
        2,
        False,
    )
    assert texts(fork) == ["first", "One.", "instead", "Other."]
    assert texts(thread) == ["first", "One.", "second", "Two."]
    assert (fork["thread"]["forkedFrom"], thread["thread"]["forkedFrom"]) == ("t", None)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "message_not_found")
    async with client_of(app, "bob") as client:
        assert (await client.post("/api/threads/t/fork", json={})).status_code == 404
        assert (await client.get("/api/threads/t/forks")).status_code == 404
        assert (
            await client.post("/api/threads/t/rewind", json={"before": "m1"})
        ).status_code == 404


@pytest.mark.parametrize("as_hook", [True, False])
async def test_a_message_that_edits_another_takes_its_place(store: Any, as_hook: bool) -> None:
    """Sent by the hook with its state, or with `edits`; sent twice it edits once."""
    app = app_of(support("One.", "Two.", "Other."), history=store)
    await said(app, "first", "t", id="m1")
    await said(app, "second", "t", id="m2")
    body = message("instead", "t", id="m3")
    if as_hook:
        body["userMessage"]["state"] = {
            "mode": "conversation_branching",
            "editFromMessageId": "m2",
            "branchHistory": [],
        }
    else:
        body["edits"] = "m2"
    async with client_of(app) as client:
        for _ in range(2):
            assert (await client.post("/api/chat", json=body)).status_code == 200
            await wait_until_idle(app)
        thread = (await client.get("/api/threads/t")).json()
        wrong = await client.post("/api/chat", json={**message("x", "t"), "edits": "m2"})
    assert texts(thread)[:4] == ["first", "One.", "instead", "Other."]
    assert wrong.status_code == 404


async def test_an_edit_that_is_refused_leaves_the_thread_as_it_was() -> None:
    """429: too many answers are under way; the same again is taken later."""
    tool, begun, go = waiting()
    replies = ("One.", tool_call("wait", {}), "Done.", "Other.")
    app = app_of(support(*replies, tools=(tool,)), limits=ServerLimits(runs_per_user=1))
    await said(app, "first", "t", id="m1")
    edit = {**message("instead", "t", id="m2"), "edits": "m1"}
    async with client_of(app) as client:
        await client.post("/api/chat", json=message("go", "other"))
        await begun.wait()
        refused = await client.post("/api/chat", json=edit)
        kept = (await client.get("/api/threads/t")).json()
        go.set()
        await wait_until_idle(app)
        await client.post("/api/chat", json=edit)
        await wait_until_idle(app)
        edited = (await client.get("/api/threads/t")).json()
    assert (refused.status_code, texts(kept)) == (429, ["first", "One."])
    assert texts(edited) == ["instead", "Other."]


async def test_a_thread_that_is_being_answered_is_not_rewound() -> None:
    """409: it can be stopped first."""
    tool, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "Done.", tools=(tool,)))
    async with client_of(app) as client:
        await client.post("/api/chat", json=message("go", "t", id="m1"))
        await begun.wait()
        busy = await client.post("/api/threads/t/rewind", json={"before": "m1"})
        go.set()
        await wait_until_idle(app)
        done = await client.post("/api/threads/t/rewind", json={"before": "m1"})
        thread = (await client.get("/api/threads/t")).json()
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "thread_busy")
    assert (done.status_code, thread["messages"]) == (200, [])
