"""`redacted`: nothing personal reaches a store, and everything else works as before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, State, ToolContext, UserMessage, tool
from agentkit_py.errors import ConfigurationError, ThreadNotFoundError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import RunStore
from agentkit_py.messages import FileContent, TextContent, TextMessage, text_of
from agentkit_py.processors import Redactor, Summarize
from agentkit_py.processors.base import Summary, SummaryStore
from agentkit_py.results import AgentResult
from agentkit_py.stores import (
    HistoryStore,
    MemoryHistory,
    SqliteHistory,
    ThreadInfo,
    for_user,
    redacted,
)
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import replay_programs
from agentkit_py.testing.store_conformance import StoreCheck, checks_for

MAIL = "ada@example.com"
NEVER = Redactor({"never": r"\bnever in any test \d{9}\b"})


def run_store(store: HistoryStore) -> Any:
    """The store, as one that keeps summaries and runs."""
    assert isinstance(store, RunStore)
    assert isinstance(store, SummaryStore)
    return store


@pytest.mark.parametrize("check", checks_for(MemoryHistory), ids=str)
async def test_a_redacted_store_passes_the_conformance_suite(
    store: HistoryStore, check: StoreCheck
) -> None:
    """Memory, SQLite and PostgreSQL behind a redactor."""
    wrapped = redacted(store, NEVER)
    assert check in checks_for(type(wrapped))
    await check(wrapped)


@tool
def find_customer(mail: str, ctx: ToolContext) -> dict[str, Any]:
    """Find a customer."""
    ctx.state.data["customer"] = mail
    return {"mail": mail, "of": [mail], mail: True}


def desk(store: HistoryStore, *replies: Any) -> Agent:
    """An agent with a script that looks a customer up."""
    model = ScriptedModel(*replies)
    return Agent(
        name="desk", system="S", model=model, tools=[find_customer], max_iter=3, history=store
    )


async def ask(store: HistoryStore) -> AgentResult:
    """One turn with personal data wherever there may be some."""
    call = tool_call("find_customer", {"mail": MAIL})
    message = UserMessage(f"I am {MAIL}", "m1", state={"form": {"mail": MAIL}})
    return await desk(store, call, f"Hello, {MAIL}.").run(message, thread_id="t")


async def written(store: HistoryStore) -> str:
    """All that a store has of the thread, in one text."""
    data_store = run_store(store)
    shown: list[object] = [await store.get_thread("t"), await data_store.load_run("t")]
    shown.append(await data_store.load_summary("t", "k"))
    shown += [(r.result.to_dict(full=True), r.metadata) for r in await store.stored_results("t")]
    return repr(shown)


@pytest.mark.parametrize("lease", [None, ThreadLease()])
async def test_masked_text_never_reaches_the_store(
    store: HistoryStore, lease: ThreadLease | None
) -> None:
    """Messages, calls, results, the client's state, titles, metadata, summaries, states."""
    store.lease = lease
    wrapped = redacted(store, ["email"])
    await wrapped.add_thread("t", title=f"From {MAIL}", metadata={"mail": MAIL}, user_id=MAIL)
    result = await ask(wrapped)
    assert result.text == f"Hello, {MAIL}."
    summary = Summary(
        text=f"{MAIL} asked.",
        covered=1,
        anchor="a",
        tokens=3,
        original_tokens=9,
        created_at=datetime.now(UTC),
    )
    assert await run_store(wrapped).lock_summary("t", "k", "me", 9)
    assert await run_store(wrapped).save_summary("t", "k", summary, "me")
    found = (await written(store)).replace(f"user_id='{MAIL}'", "")
    assert MAIL not in found
    assert found.count("[email]") >= 9
    assert "find_customer" in found
    (info,) = await wrapped.list_threads(user_id=MAIL)
    assert info.title == "From [email]"


async def test_messages_for_an_active_run_are_masked(store: HistoryStore) -> None:
    """Their ids stay: by them the sender finds the answer."""
    wrapped: Any = redacted(store, ["email"])
    await wrapped.add_thread("t")
    await wrapped.put_message("t", UserMessage(f"I am {MAIL}", MAIL, state={"of": MAIL}))
    (taken,) = await run_store(store).take_messages("t", "me")
    assert taken == UserMessage("I am [email]", MAIL, state={"of": "[email]"})


async def test_inserted_threads_are_masked_and_owned(
    store: HistoryStore,
) -> None:
    """Imports insert threads."""
    time = datetime.now(UTC)
    thread = ThreadInfo(
        id="t", title=MAIL, metadata={"of": [MAIL]}, created_at=time, updated_at=time
    )
    await redacted(for_user(store, "ada"), ["email"]).insert_thread(thread)
    found = await store.get_thread("t")
    assert (found.title, found.metadata, found.user_id) == ("[email]", {"of": ["[email]"]}, "ada")
    with pytest.raises(ThreadNotFoundError):
        await for_user(store, "bob").insert_thread(replace(thread, id="u", user_id="ada"))
    with pytest.raises(ThreadNotFoundError):
        await for_user(store, "bob").insert_thread(thread)
    assert not await store.thread_exists("u")


async def test_masked_text_is_not_in_the_file(path: Path) -> None:
    """A title made of the question is masked, too."""
    store = SqliteHistory(path)
    async with redacted(store, ["email"]) as wrapped:
        await ask(wrapped)
        long = "x" * 70 + f" {MAIL}"
        await desk(wrapped, "Hm.").run(long, thread_id="u")
        assert (await wrapped.get_thread("u")).title.endswith("[email]")
    stored = b"".join(file.read_bytes() for file in path.parent.glob("threads.db*"))
    assert b"[email]" in stored
    for piece in (MAIL.encode(), b"ada@"):
        assert piece not in stored


async def test_the_next_run_sees_the_thread_masked(store: HistoryStore) -> None:
    """The thread is still valid for the provider."""
    wrapped = redacted(store, ["email"])
    await ask(wrapped)
    model = ScriptedModel("Yes.")
    await Agent(name="desk", system="S", model=model, history=wrapped).run("So?", thread_id="t")
    model.assert_saw("I am [email]", '\\"of\\":[', "Hello, [email].")
    assert MAIL not in str(model.bodies)


async def test_a_repeated_masked_write_is_stored_once(
    store: HistoryStore, reply: Callable[[str], AgentResult]
) -> None:
    """Equal texts get equal masks, so that a repeated write is recognised."""
    wrapped = redacted(store, Redactor({"order": r"order-\d+"}))
    await wrapped.add_thread("t")
    for _ in range(2):
        await wrapped.append("t", [reply("order-7"), AgentResult.from_user("order-7?", id="u")])
    await wrapped.append("t", await wrapped.load("t"))
    assert [text_of(m) for m in await wrapped.messages("t")][-1] == "[order]?"
    assert await wrapped.count_results("t") == 2


async def test_messages_are_answered_once_and_replayed_runs_are_consistent(
    store: HistoryStore,
) -> None:
    """A message that is delivered again gets the answer that was given, masked."""
    store.lease = ThreadLease()
    wrapped = redacted(store, ["email"])
    call = tool_call("find_customer", {"mail": MAIL})
    agent = desk(wrapped, call, f"Hello, {MAIL}.", "Again.")
    once = UserMessage(f"I am {MAIL}", "m1")
    lines = [once, once, UserMessage("more", "m2"), once]
    runs = await replay_programs([partial(agent.run, m, thread_id="t") for m in lines])
    assert [run.error for run in runs] == [None] * 4
    authors = [result.agent_name for result in await wrapped.load("t")]
    assert authors == ["user", "desk", "desk", "user", "desk"]
    assert MAIL not in await written(store)
    again = await desk(wrapped).run(once, thread_id="t")
    assert again.text == "Hello, [email]."


async def test_the_state_of_runs_can_stay_unmasked(store: HistoryStore) -> None:
    """The option is ``state=False``."""
    store.lease = ThreadLease()
    await ask(redacted(store, ["email"], state=False))
    run = await run_store(store).load_run("t")
    assert run.state == {"customer": MAIL}


async def test_summaries_of_masked_threads_are_reused(store: HistoryStore) -> None:
    """The next process sees the same masked messages, and makes no second summary."""
    writer = ScriptedModel(f"{MAIL} wrote a lot.")
    wrapped = redacted(store, ["email"])

    async def turn(number: int) -> ScriptedModel:
        model = ScriptedModel("Yes.")
        policy = Summarize(writer, 400, 200, min_messages=1, min_new=100)
        agent = Agent(name="desk", system="S", model=model, history=wrapped, processors=[policy])
        text = f"{number} {MAIL} " + "word " * 80
        await agent.run(text, state=State(thread_id="t"))
        return model

    seen = [await turn(number) for number in range(7)][-1]
    assert len(writer.bodies) == 1
    seen.assert_saw("[email] wrote a lot.")


async def test_token_counts_are_those_of_the_masked_text(path: Path) -> None:
    """Counts of the original text are not stored."""
    store = SqliteHistory(path, lazy=True)
    async with redacted(store, Redactor({"x": "long " * 50})) as wrapped:
        await desk(wrapped, "Fine.").run("say " + "long " * 50, thread_id="t")
        (said, _) = await wrapped.messages("t")
        assert isinstance(said, TextMessage)
        assert said.text == "say [x]"
        memo: Any = getattr(said, "_memo")  # noqa: B009 - what tokenizers keep there
        assert 0 < next(iter(memo.tokens.values())) < 10


@pytest.mark.parametrize("lazy", [None, True, False])
def test_wrappers_load_and_count_as_their_store_does(lazy: bool | None) -> None:
    """`redacted` and `for_user` load no encoding that the store would not load."""
    store = MemoryHistory(lazy=lazy)
    for wrapped in (redacted(store, ["email"]), for_user(store, "ada")):
        assert (wrapped.lazy, wrapped.counts_tokens) == (store.lazy, store.counts_tokens)


async def test_redacted_and_for_user_can_be_combined(store: HistoryStore) -> None:
    """The order does not matter; files are deleted with their thread."""
    for wrapped in (
        for_user(redacted(store, ["email"]), "ada"),
        redacted(for_user(store, "ada"), ["email"]),
    ):
        key = await wrapped.add_thread()
        await wrapped.append(key, [AgentResult.from_user(MAIL)])
        assert text_of((await wrapped.messages(key))[0]) == "[email]"
        assert await wrapped.delete_thread(key)
        assert not await store.thread_exists(key)
    assert repr(redacted(MemoryHistory(), ["email"])).endswith(", ['email'])")


def test_names_and_addresses_of_files_are_masked() -> None:
    """A masked link is replaced by a text."""
    parts = (
        FileContent("AA==", media_type="application/pdf", name=f"{MAIL}.pdf"),
        FileContent(url=f"https://example.com/{MAIL}", name="a.pdf"),
        TextContent("see"),
    )
    masked = Redactor(["email"]).message(TextMessage("user", parts))
    assert isinstance(masked, TextMessage)
    assert masked.content == (
        replace(parts[0], name="[email]"),
        TextContent("[file a.pdf at https://example.com/[email]]"),
        parts[2],
    )


def test_a_redactor_without_patterns_is_an_error() -> None:
    """It would mask nothing."""
    with pytest.raises(ConfigurationError, match="needs patterns"):
        redacted(MemoryHistory(), [])


async def test_a_run_with_a_lease_saves_nothing_unmasked(tmp_path: Path) -> None:
    """Lease and results are saved in one transaction, which passes the redactor nevertheless."""
    plain = SqliteHistory(tmp_path / "t.db", lease=ThreadLease())
    agent = Agent(
        name="clerk",
        system="You help.",
        model=ScriptedModel(tool_call("find_customer", {"mail": MAIL}), f"I wrote to {MAIL}."),
        tools=[find_customer],
        history=redacted(plain, {"mail": r"\S+@\S+"}),
    )
    state = State[Any](thread_id="t")
    await agent.run(UserMessage(f"I am {MAIL}", id="m1"), state=state)
    await plain.close()
    stored = [file.read_bytes() for file in tmp_path.iterdir()]  # noqa: ASYNC240 - nothing else runs
    assert all(MAIL.encode() not in content for content in stored)
    assert state.data["customer"] == MAIL
