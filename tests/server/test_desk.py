"""The staff's desk over HTTP: finding threads, internal notes, closed questions, the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pytest
from starlette.applications import Starlette

from agentkit_py import Agent, MemoryHistory, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.history import StaffDesk, Takeover
from agentkit_py.messages import Message, TextMessage
from agentkit_py.results import AgentResult
from agentkit_py.server import create_app
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.world import app_of, by_header, client_of, said, support


@tool(needs_approval=True, approvers=["mia"], title="Refund {amount} cents")
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


def shop(*replies: Any, **options: Any) -> Starlette:
    """A server with Mia and Sam as staff; Mia decides."""
    network = support(*replies, tools=(refund,), history=MemoryHistory())
    return app_of(network, staff=["mia", "sam"], **options)


async def found(app: Starlette, query: str = "", user: str = "mia") -> list[str]:
    """Return the ids of the threads that a user finds as staff."""
    async with client_of(app, user) as client:
        answer = await client.get(f"/api/staff/threads{query}")
        assert answer.status_code == 200, answer.text
    return [one["thread"]["id"] for one in answer.json()["threads"]]


async def busy() -> Starlette:
    """A server with four threads of three customers."""
    app = shop("A bowler.", "A beret.", "Tomorrow.", "Hello.")
    await said(app, "What hats are there?", "t1", "ada")
    await said(app, "Which one is blue?", "t2", "bob")
    await said(app, "When does my hat come?", "t3", "ada")
    await said(app, "Hello", "t4", "Ada Byron")
    return app


@pytest.mark.parametrize(
    ("query", "threads"),
    [
        ("", ["t4", "t3", "t2", "t1"]),
        ("?userId=ada", ["t3", "t1"]),
        ("?words=hat", ["t3", "t1"]),
        ("?words=hat&userId=bob", []),
        ("?words=bob", ["t2"]),
        ("?words=t2", ["t2"]),
        ("?words=t2&userId=ada", []),
        ("?words=nothing%20of%20it", []),
        ("?words=Ada%20Byron", ["t4"]),
        ("?words=%00", []),
    ],
)
async def test_staff_find_threads_by_words_by_id_and_by_customer(
    query: str, threads: list[str]
) -> None:
    """Those that changed last come first."""
    assert await found(await busy(), query) == threads


async def test_a_list_of_threads_shows_that_there_are_more_and_the_match() -> None:
    """The text around the words."""
    app = await busy()
    async with client_of(app, "mia") as mia:
        one = (await mia.get("/api/staff/threads?words=blue&limit=1")).json()
        cut = (await mia.get("/api/staff/threads?limit=2")).json()
    assert (one["threads"][0]["text"], one["hasMore"]) == ("Which one is blue?", False)
    assert one["threads"][0]["takeover"]["userId"] == "bob"
    assert (len(cut["threads"]), cut["hasMore"]) == (2, True)


def of_ada(_user: str, takeover: Takeover) -> bool:
    """The rule of an application."""
    return takeover.user_id == "ada"


async def test_customers_find_no_thread_as_staff() -> None:
    """Not even their own; a rule is asked for each thread."""
    app = await busy()
    assert await found(app, user="ada") == []
    ruled = app_of(
        support("A bowler.", "A beret.", history=MemoryHistory()),
        may_take_over=of_ada,
    )
    await said(ruled, "Hi", "t1", "ada")
    await said(ruled, "Hi", "t2", "bob")
    assert await found(ruled) == ["t1"]


class Counting(MemoryHistory):
    """Counts the pages of threads that are read."""

    pages = 0

    async def thread_page(self, *args: Any, **which: Any) -> Any:
        """Return a page."""
        self.pages += 1
        return await super().thread_page(*args, **which)


class Losing(MemoryHistory):
    """Finds a thread that another request deletes, and does not know its title."""

    async def search(self, *args: Any, **which: Any) -> Any:
        """Return matches as a store that has no threads at hand."""
        found = await super().search(*args, **which)
        await self.delete_thread(found[0].thread_id)
        return [replace(match, thread=None) for match in found]


async def with_threads(store: MemoryHistory, count: int, **options: Any) -> Starlette:
    """A server with an old thread of Ada's, and newer ones of Bob's."""
    app = app_of(support(history=store), **options)
    await store.add_thread("old", user_id="ada")
    for n in range(count):
        await store.add_thread(f"t{n}", user_id="bob")
    return app


async def test_users_who_are_not_staff_make_the_server_read_nothing() -> None:
    """A request of a customer does not cost a look at a thousand threads."""
    store = Counting()
    assert await found(await with_threads(store, 2, staff=["mia"]), user="ada") == []
    assert store.pages == 0


async def test_the_threads_own_user_finds_it_where_the_list_of_staff_has_owner() -> None:
    """Only that one."""
    app = await with_threads(MemoryHistory(), 2, staff=["owner"])
    assert await found(app, user="ada") == ["old"]


async def test_a_search_that_ends_before_all_threads_says_so() -> None:
    """Staff of few of many threads: nothing was found among those that were read."""
    app = await with_threads(MemoryHistory(), 1000, may_take_over=of_ada)
    async with client_of(app, "mia") as mia:
        cut = (await mia.get("/api/staff/threads")).json()
        whole = (await mia.get("/api/staff/threads?userId=ada")).json()
    assert cut == {"threads": [], "hasMore": True}
    assert ([one["thread"]["id"] for one in whole["threads"]], whole["hasMore"]) == (["old"], False)


async def test_a_thread_that_is_deleted_during_a_search_is_left_out() -> None:
    """The others are found."""
    app = app_of(support("Ten.", "Twelve.", history=Losing()), staff=["mia"])
    await said(app, "This hat?", "t1")
    await said(app, "And that hat?", "t2")
    assert await found(app, "?words=hat") == ["t1"]


@pytest.mark.parametrize("to", ["staff", "agents"])
async def test_a_note_is_for_colleagues_and_never_for_the_customer(to: str) -> None:
    """Agents read it only if it is for them; its writer need not have joined."""
    app = shop("Hello.", "Of course.")
    model: Any = next(iter(app.state.api.settings.targets.values())).default_model
    await said(app, "Hi", "t")
    async with client_of(app) as ada, client_of(app, "mia") as mia, client_of(app, "sam") as sam:
        note = {"text": "A regular customer.", "name": "Mia", "messageId": "n1"}
        note |= {} if to == "staff" else {"to": to}
        for _ in range(2):  # a repetition changes nothing
            assert (await mia.post("/api/takeovers/t/note", json=note)).status_code == 200
        read = (await sam.get("/api/takeovers/t")).json()
        notes = [one for one in read["messages"] if one.get("staff")]
        assert [(n["staff"], n["data"]["output"][0]["content"]) for n in notes] == [
            ({"name": "Mia", "to": to}, "A regular customer.")
        ]
        assert "regular" not in (await ada.get("/api/threads/t")).text
        assert await found(app, "?words=regular") == []
        explained = (await mia.get("/api/takeovers/t/explain?agent=clerk&network=support")).text
        assert ("A regular customer." in explained) == (to == "agents")
    await said(app, "A hat, please", "t")
    assert ("A regular customer." in str(model.bodies[-1])) == (to == "agents")
    assert "A hat, please" in str(model.bodies[-1])
    async with client_of(app, "mia") as mia:
        matrix = (await mia.get("/api/takeovers/t/matrix")).text
    assert ("A regular customer." in matrix) == (to == "agents")


async def test_a_note_without_a_text_is_refused() -> None:
    """Nothing is stored."""
    store = MemoryHistory()
    await store.add_thread("t")
    with pytest.raises(ConfigurationError, match="got no text"):
        await StaffDesk(store).note("t", " ", by="mia")
    nobody: Any = "user"
    with pytest.raises(ConfigurationError, match="to"):
        await StaffDesk(store).note("t", "A note.", by="mia", to=nobody)
    assert await store.load("t") == []


async def test_a_closed_question_says_who_decided_why_and_on_which_arguments() -> None:
    """Staff who may not answer read it, too; an open question says that they may not."""
    asks = tool_call("refund", {"order": "A1", "amount": 3000})
    app = shop(asks, "On its way.", asks)
    await said(app, "Money back!", "t")
    async with client_of(app, "mia") as mia, client_of(app, "sam") as sam:
        (asked,) = (await sam.get("/api/takeovers/t")).json()["questions"]
        assert (asked["status"], asked["mayAnswer"], asked["approved"]) == ("open", False, None)
        change = {"index": 0, "action": "approve", "arguments": {"order": "A1", "amount": 1500}}
        body = {"action": "approve", "reason": "worn twice", "calls": [change]}
        assert (await mia.post(f"/api/approvals/{asked['id']}", json=body)).status_code == 200
        await app.state.api.backend.idle()
        await said(app, "And the rest?", "t")
        closed, again = (await sam.get("/api/takeovers/t")).json()["questions"]
        last = (await sam.get("/api/takeovers/t?limit=1")).json()["questions"]
        brief = (await sam.get("/api/takeovers/t?closed=false")).json()["questions"]
    assert (closed["answeredBy"], closed["reason"], closed["approved"]) == (
        *("mia", "worn twice"),
        True,
    )
    assert closed["decisions"]["0"]["arguments"] == {"order": "A1", "amount": 1500}
    assert closed["calls"][0]["toolInput"] == {"order": "A1", "amount": 3000}
    assert again["status"] == "open"
    assert last == brief == [again]


async def test_an_open_question_is_read_however_many_came_after_it() -> None:
    """The limit counts the last ones; what waits for a decision is not among those left out."""
    asks = [tool_call("refund", {"order": f"A{n}", "amount": 30}) for n in range(3)]
    app = shop(*asks)
    store = app.state.api.settings.store
    for n in range(3):
        await said(app, f"Money back for A{n}!", "t")
    asked = await store.list_questions(thread_id="t", status=None, limit=None)
    open_ones = [one.id for one in asked if one.status == "open"]
    async with client_of(app, "mia") as mia:
        for query in ("?limit=1", "?closed=false"):
            read = (await mia.get(f"/api/takeovers/t{query}")).json()["questions"]
            assert [one["id"] for one in read if one["status"] == "open"] == open_ones


async def test_arguments_of_no_call_are_refused() -> None:
    """Else the call would be approved with the model's own."""
    app = shop(tool_call("refund", {"order": "A1", "amount": 3000}), "On its way.")
    await said(app, "Money back!", "t")
    (asked,) = await app.state.api.settings.store.list_questions(thread_id="t")
    async with client_of(app, "mia") as mia:
        body = {"action": "approve", "arguments": {"order": "A1", "amount": 1500}}
        answer = await mia.post(f"/api/approvals/{asked.id}", json=body)
    assert answer.status_code == 400
    assert "arguments belong to a call" in answer.json()["error"]["message"]
    (still,) = await app.state.api.settings.store.list_questions(thread_id="t")
    assert still.status == "open"


async def test_the_matrix_of_a_thread_is_for_staff() -> None:
    """A thread without a model call has none."""
    app = shop("Hello.")
    await app.state.api.settings.store.add_thread("empty", user_id="ada")
    await said(app, "Hi", "t")
    async with client_of(app, "mia") as mia:
        made = (await mia.get("/api/takeovers/t/matrix")).json()["matrix"]
        none = await mia.get("/api/takeovers/empty/matrix")
        pages = [(await mia.get(f"/staff/matrix/{one}")).status_code for one in ("", "viewer.js")]
    assert [call["agent"] for call in made["calls"]] == ["clerk"]
    assert (none.status_code, none.json()["error"]["code"]) == (409, "not_explained")
    assert pages == [200, 200]


async def test_the_matrix_is_of_the_agents_that_answered_in_the_thread() -> None:
    """An API of several networks; a thread that none of them answered cannot be shown."""
    porter = Agent(name="porter", system="You carry.", model=ScriptedModel())
    store = MemoryHistory()
    for thread, agent in (("t", "porter"), ("gone", "seller")):
        await store.add_thread(thread, user_id="ada")
        await store.append(thread, [AgentResult(agent, [TextMessage("assistant", "Hi")])])
    app = create_app(
        networks=[support("Hello.")],
        agents=[porter],
        auth=by_header,
        history=store,
        staff=["mia"],
    )
    async with client_of(app, "mia") as mia:
        made = (await mia.get("/api/takeovers/t/matrix")).json()["matrix"]
        none = (await mia.get("/api/takeovers/gone/matrix")).json()["error"]["message"]
    assert [call["agent"] for call in made["calls"]] == ["porter"]
    assert none == "No model call of this conversation can be shown."


async def test_the_matrix_of_a_long_thread_is_of_its_last_calls_in_the_customers_store() -> None:
    """Each of them is explained once, and none of the others."""
    users, seen = list[str](), list[int]()

    class Watched(MemoryHistory):
        """Knows for whom it is restricted."""

        def restricted_to(self, user_id: str) -> Self | None:
            users.append(user_id)
            return super().restricted_to(user_id)

    def look(messages: Sequence[Message]) -> Sequence[Message]:
        seen.append(len(messages))
        return messages

    store = Watched()
    network = replace(support(history=store), processors=[look])
    app = app_of(network, staff=["mia"])
    await store.add_thread("t", user_id="ada")
    for n in range(100):
        answer = [TextMessage("assistant", f"Answer {n}.")]
        asked = AgentResult("user", [TextMessage("user", f"Question {n}?")])
        await store.append("t", [asked, AgentResult("clerk", answer)])
    async with client_of(app, "mia") as mia:
        matrix = (await mia.get("/api/takeovers/t/matrix?limit=20")).json()["matrix"]
    assert len(matrix["calls"]) == len(seen) == 20
    assert "The last 20 of 100 calls." in matrix["note"]
    assert matrix["texts"].count("Question 99?") == 1
    assert max(seen) == 198  # what was said before the last question
    assert users == ["ada"]
