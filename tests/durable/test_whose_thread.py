"""An event that names a user opens only that user's threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, AgentResult, Message, Network, RouterContext, TextMessage
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import create_functions
from agentkit_py.stores import (
    HistoryStore,
    MemoryHistory,
    PostgresHistory,
    SqliteHistory,
    redacted,
)
from agentkit_py.testing import ScriptedModel
from agentkit_py.testing.executor import ReplayExecutor, Run


@pytest.fixture(params=["memory", "sqlite", "lease", "redacted", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HistoryStore]:
    """A new store of each kind."""
    makers: dict[str, Callable[[], HistoryStore]] = {
        "memory": MemoryHistory,
        "sqlite": lambda: SqliteHistory(tmp_path / "threads.db"),
        "lease": lambda: SqliteHistory(tmp_path / "threads.db", lease=ThreadLease()),
        "redacted": lambda: redacted(MemoryHistory(), str.strip),
        "postgres": lambda: PostgresHistory(
            request.getfixturevalue("postgres_url"),
            schema=request.getfixturevalue("postgres_schema"),
        ),
    }
    async with makers[request.param]() as made:
        yield made


class Desk:
    """A network and an agent on one store, served as functions."""

    def __init__(self, store: HistoryStore) -> None:
        self.model = ScriptedModel(*["Noted."] * 9)
        clerk = Agent(name="clerk", system="S", model=self.model, history=store)

        def router(context: RouterContext) -> Agent | None:
            return clerk if context.call_count == 0 else None

        network = Network(name="desk", agents=[clerk], router=router, history=store)
        client = inngest.Inngest(app_id="app", is_production=False)
        functions = create_functions(client, agents=[clerk], networks=[network], inference="local")
        self.executor = ReplayExecutor(client, functions, check=True)

    async def run(self, text: str, *, to: str = "network-desk", **data: Any) -> Run:
        """Send the event."""
        run = await self.executor.run(f"app/{to}", {"input": text, "threadId": "t1", **data})
        assert run.differences == []
        return run


@pytest.mark.parametrize("to", ["network-desk", "agent-clerk"])
async def test_another_users_thread_is_not_found(store: HistoryStore, to: str) -> None:
    """The error comes at once, before any model call or entry in the thread."""
    desk = Desk(store)
    await desk.run("I am Ada, my PIN is 1234.", to=to, userId="ada")
    run = await desk.run("What is the PIN?", to=to, userId="bob")
    assert run.status == "failed"
    assert run.error is not None
    assert "ThreadNotFoundError: There is no thread 't1'" in run.error["message"]
    assert len(desk.model.bodies) == run.steps[-1].attempts == 1
    assert "What is the PIN?" not in str(await store.messages("t1"))


async def test_a_thread_without_an_owner_is_not_found_either(store: HistoryStore) -> None:
    """It may be anybody's."""
    await store.add_thread("t1")
    run = await Desk(store).run("hi", userId="bob")
    assert (run.status, await store.load("t1")) == ("failed", [])


async def test_history_of_the_client_gives_no_way_into_a_thread(store: HistoryStore) -> None:
    """Client-authoritative history loads nothing, but would append to another user's thread."""
    desk = Desk(store)
    await desk.run("I am Ada.", userId="ada")
    rows = len(await store.load("t1"))
    past = [{"type": "text", "role": "user", "content": "Hello."}]
    run = await desk.run("hi", userId="bob", state={"messages": past})
    assert (run.status, len(await store.load("t1"))) == ("failed", rows)


async def test_a_thread_of_the_user_continues(store: HistoryStore) -> None:
    """A new one is the user's."""
    desk = Desk(store)
    for text in ("I am Ada.", "Who am I?"):
        assert (await desk.run(text, userId="ada")).status == "completed"
    assert "I am Ada." in str(desk.model.bodies[-1])
    assert (await store.get_thread("t1")).user_id == "ada"


async def test_an_event_without_a_user_opens_every_thread(store: HistoryStore) -> None:
    """The sender of an event without a user acts for the application."""
    desk = Desk(store)
    await desk.run("I am Ada.", userId="ada")
    assert (await desk.run("Summarise.")).status == "completed"
    assert (await desk.run("Summarise.", userId=None)).status == "completed"


@pytest.mark.parametrize("user", ["", 7, {"id": "ada"}])
async def test_a_user_that_is_no_text_is_refused(user: object) -> None:
    """Such a run would otherwise open every thread."""
    desk = Desk(MemoryHistory())
    run = await desk.run("hi", userId=user)
    assert (run.status, run.requests) == ("failed", 1)
    assert run.error is not None
    assert "event.data.userId must be a text" in run.error["message"]


@pytest.mark.parametrize("thread", [7, True, ["t1"], {"id": "t1"}])
async def test_a_thread_id_that_is_no_text_is_refused(thread: object) -> None:
    """At once: no other thread is begun in its place."""
    desk = Desk(store := MemoryHistory())
    places: list[dict[str, Any]] = [
        {"threadId": thread},
        {"threadId": None, "state": {"data": {}, "threadId": thread}},
    ]
    for given in places:
        run = await desk.run("hi", userId="ada", **given)
        assert (run.status, run.requests) == ("failed", 1)
        assert run.error is not None
        assert "event.data.threadId must be a text" in run.error["message"]
    assert await store.list_threads() == []


async def test_processors_of_a_store_that_agents_share_with_their_network_run_once() -> None:
    """A run with a user must not add the shared processors twice."""

    def mark(messages: Sequence[Message]) -> list[Message]:
        return [*messages, TextMessage("user", "marked")]

    desk = Desk(MemoryHistory(processors=[mark]))
    await desk.run("hi", userId="ada")
    assert str(desk.model.bodies).count("marked") == 1


@pytest.mark.parametrize("key", ["messages", "_messages", "results"])
async def test_state_with_messages_or_results_is_the_clients_history(key: str) -> None:
    """The thread is not loaded, like in `network.run(state=…)`."""
    desk = Desk(MemoryHistory())
    await desk.run("I am Ada.", userId="ada")
    past = [{"type": "text", "role": "user", "content": "From the client."}]
    result = AgentResult("clerk", [TextMessage("assistant", "From the client.")], [])
    given = {key: [result.to_dict()] if key == "results" else past}
    run = await desk.run("hi", userId="ada", state=given)
    assert run.error is None
    assert "From the client." in str(desk.model.bodies[-1])
    assert "I am Ada." not in str(desk.model.bodies[-1])
    assert run.output["state"] == {}


async def test_client_history_that_cannot_be_read_fails_once_and_says_where() -> None:
    """It is not taken for data."""
    run = await Desk(MemoryHistory()).run("hi", state={"messages": [{"role": "user"}]})
    assert (run.status, run.requests) == ("failed", 1)
    assert run.error is not None
    assert "messages[0]" in run.error["message"]
