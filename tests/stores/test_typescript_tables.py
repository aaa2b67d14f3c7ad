"""One thread table for both languages: TypeScript's own tables, and its package on them in Node."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from agentkit_py import Agent, Network, State, UserMessage, anthropic, openai, tool
from agentkit_py.errors import ConfigurationError, HistoryError, ThreadNotFoundError
from agentkit_py.events import ApprovalRequest
from agentkit_py.history import StaffDesk
from agentkit_py.history.questions import Question
from agentkit_py.messages import (
    ImageContent,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    text_of,
)
from agentkit_py.results import AgentResult
from agentkit_py.stores import PostgresHistory, SqliteHistory
from agentkit_py.stores.interchange import export_threads, import_threads
from agentkit_py.testing import FakeProvider
from tests.typescript import NodeMissingError, folder_of

PROGRAM = Path(__file__).parent / "node"
PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@pytest.fixture
async def store(postgres_url: str, postgres_schema: str) -> AsyncIterator[PostgresHistory]:
    """A store on TypeScript's tables, in a schema of the test's own."""
    made = PostgresHistory(postgres_url, schema=postgres_schema, layout="typescript")
    yield made
    await made.close()


def signed() -> AgentResult:
    """Return a result with reasoning, a call and its result, in characters that jsonb refuses."""
    call = ToolCall("call_1", "lookup", {"z": 1.0, "a": "nul \0 and half \ud83d"})
    thought = ReasoningMessage("hm", provider_metadata={"anthropic": {"signature": "s"}})
    output = [thought, TextMessage("assistant", "I look."), ToolCallMessage((call,))]
    return AgentResult("desk", output, [ToolResultMessage(call, {"data": ""})], id=str(uuid4()))


async def test_written_results_are_read_back_unchanged(store: PostgresHistory) -> None:
    """Reasoning, images, key order, and characters that the columns cannot hold."""
    said = AgentResult.from_user(
        (TextContent("look"), ImageContent(data=PIXEL, media_type="image/gif")), id="no uuid"
    )
    written = [said, signed(), AgentResult("b\0", [TextMessage("assistant", "bye")], [])]
    thread = await store.add_thread(user_id="u", title="T", metadata={"plan": "gold"})
    await store.append(thread, written)
    await store.append(thread, written[:2])
    read = await store.load(thread)
    assert [one.to_dict() for one in read] == [one.to_dict() for one in written]
    info = await store.get_thread(thread)
    assert (info.user_id, info.title, info.metadata["plan"], info.result_count) == (
        *("u", "T", "gold"),
        3,
    )
    assert [one.id for one in await store.list_threads(user_id="u")] == [thread]
    assert await store.delete_thread(thread)
    with pytest.raises(ThreadNotFoundError):
        await store.load(thread)


async def test_typescript_sees_texts_calls_and_results_only(
    store: PostgresHistory, postgres_url: str, postgres_schema: str
) -> None:
    """Its adapters fail on reasoning and on texts in parts."""
    thread = await store.add_thread()
    parts = (TextContent("look"), ImageContent(url="https://example.com/a.png"))
    await store.append(thread, [AgentResult.from_user(parts), signed()])
    with psycopg.connect(postgres_url) as connection:
        query = sql.SQL("SELECT message_type, content, data FROM {} ORDER BY created_at").format(
            sql.Identifier(postgres_schema, "agentkit_messages")
        )
        rows: list[Any] = connection.execute(query).fetchall()
    assert [row[:2] for row in rows] == [("user", "look"), ("agent", None)]
    data: Any = rows[1][2]
    assert [message["type"] for message in data["output"]] == ["text", "tool_call"]
    assert [message["type"] for message in data["toolCalls"]] == ["tool_result"]
    assert all(isinstance(m["content"], str) for m in data["output"] if m["type"] == "text")


async def test_thread_ids_are_uuids(store: PostgresHistory) -> None:
    """Theirs is a column of UUIDs: another id is refused by name when it would be made."""
    with pytest.raises(HistoryError, match="'t1' is not a UUID"):
        await store.add_thread("t1")
    assert not await store.thread_exists("t1")
    made = str(uuid4())
    assert await store.add_thread(made.replace("-", "").upper()) == made


async def test_each_layout_says_whose_tables_it_found(
    store: PostgresHistory, postgres_url: str, postgres_schema: str
) -> None:
    """Both begin with agentkit_ by default; neither makes anything where the other's are."""
    await store.setup()
    ours = PostgresHistory(postgres_url, schema=postgres_schema)
    with pytest.raises(ConfigurationError, match="layout='typescript'"):
        await ours.setup()
    other = PostgresHistory(postgres_url, schema=postgres_schema, prefix="own_")
    await other.setup()
    wrong = PostgresHistory(
        postgres_url, schema=postgres_schema, prefix="own_", layout="typescript"
    )
    with pytest.raises(ConfigurationError, match="own_threads has no column 'thread_id'"):
        await wrong.setup()
    await other.close()
    with pytest.raises(ConfigurationError, match="layout is 'agentkit' or 'typescript'"):
        PostgresHistory(postgres_url, layout="mysql")  # pyright: ignore[reportArgumentType] - it is refused


async def test_tables_of_another_adapter_are_refused_with_advice(
    store: PostgresHistory, postgres_url: str, postgres_schema: str
) -> None:
    """agentkit-starter's have no `message_id`; no prefix and no `initializeTables` helps there."""
    await store.setup()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        table = sql.Identifier(postgres_schema, "agentkit_messages")
        connection.execute(sql.SQL("ALTER TABLE {} DROP COLUMN message_id").format(table))
    other = PostgresHistory(postgres_url, schema=postgres_schema, layout="typescript")
    with pytest.raises(ConfigurationError, match=r"'message_id'.*HistoryConfig with callbacks"):
        await other.setup()


async def test_rows_are_read_as_they_were_written_whatever_a_browsers_clock_says(
    store: PostgresHistory, postgres_url: str, postgres_schema: str
) -> None:
    """TypeScript keeps the browser's time; ours come before what it writes next."""
    thread = await store.add_thread()
    table = sql.Identifier(postgres_schema, "agentkit_messages")
    user = sql.SQL(
        "INSERT INTO {} (message_id, thread_id, message_type, content, checksum, created_at) "
        "VALUES (gen_random_uuid(), %s, 'user', %s, %s, clock_timestamp() + %s::interval)"
    ).format(table)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(user, (thread, "one", "c1", "10 minutes"))
        ahead = datetime.now(UTC) + timedelta(minutes=10)
        asked = AgentResult.from_user("two", id=str(uuid4()), created_at=ahead)
        await store.append(thread, [asked, AgentResult("a", [TextMessage("assistant", "2")])])
        connection.execute(user, (thread, "three", "c2", "0"))
        times = sql.SQL("SELECT created_at FROM {} ORDER BY id").format(table)
        _, two, answer, three = [row[0] for row in connection.execute(times).fetchall()]
    assert two < answer < three
    read = [message for entry in await store.load(thread) for message in entry.output]
    assert [text_of(message) for message in read] == ["one", "two", "2", "three"]


async def test_threads_move_to_our_tables(store: PostgresHistory, tmp_path: Path) -> None:
    """The archive of a thread in their tables is read by every other store."""
    thread = await store.add_thread(user_id="u")
    await store.append(thread, [AgentResult.from_user("hi", id=str(uuid4())), signed()])
    lines = [line async for line in export_threads(store, [await store.get_thread(thread)])]
    async with SqliteHistory(tmp_path / "ours.db") as ours:
        await import_threads(ours, lines)
        moved = await ours.load(thread)
    assert [one.to_dict() for one in moved] == [one.to_dict() for one in await store.load(thread)]


# ------------------------------------------------------------------------------------------- Node


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def node() -> Path:
    """A folder with the npm package, which is installed there the first time."""
    try:
        return folder_of("turn", PROGRAM.iterdir())
    except NodeMissingError as missing:
        _missing(str(missing))


@tool
def lookup(order: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order, "status": "shipped"}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_two_languages_on_one_thread(
    node: Path, store: PostgresHistory, postgres_url: str, postgres_schema: str, provider: str
) -> None:
    """TypeScript, Python, TypeScript, Python: nothing is lost, and no request is refused."""
    await store.setup()
    thread = str(uuid4())
    with FakeProvider() as fake:
        settings = {
            "database": postgres_url,
            "schema": postgres_schema,
            "threadId": thread,
            "provider": provider,
            "baseUrl": fake.base_url(provider),
        }

        def typescript(said: str) -> None:
            fake.reply(
                {"tool_calls": [{"name": "lookup", "arguments": {"order": said}}]}, f"ts: {said}"
            )
            done = subprocess.run(
                ["node", "turn.mjs"],
                cwd=node,
                input=json.dumps({**settings, "input": said}),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr

        async def python(said: str) -> None:
            call = {
                "tool_calls": [{"name": "lookup", "arguments": {"order": said}}],
                "text": "I look.",
            }
            thinks = {"reasoning": f"about {said}"} if provider == "anthropic" else {}
            fake.reply({**call, **thinks}, {"text": f"py: {said}", **thinks})
            base = fake.base_url(provider)
            thinking = {"max_tokens": 3000, "thinking": {"type": "enabled", "budget_tokens": 1024}}
            model = (
                anthropic(
                    "claude-sonnet-4-5", base_url=base, api_key="k", default_parameters=thinking
                )
                if provider == "anthropic"
                else openai("gpt-4o", base_url=base, api_key="k")
            )
            agent = Agent(name="py-desk", system="Answer.", tools=[lookup], model=model)
            image = ImageContent(data=PIXEL, media_type="image/gif")
            network = Network(
                name="py",
                agents=[agent],
                history=store,
                router=lambda ctx: None if ctx.call_count else agent,
            )
            message = UserMessage((TextContent(said), image))
            await network.run(message, state=State(thread_id=thread))

        typescript("one")
        await python("two")
        typescript("three")
        await python("four")
        assert fake.rejections == []
        assert fake.remaining == 0
        last = json.dumps(fake.requests[-1].body)
    entries = await store.load(thread)
    asked = [entry.output[0] for entry in entries if entry.agent_name == "user"]
    said = [message.text for message in asked if isinstance(message, TextMessage)]
    assert said == ["one", "two", "three", "four"]
    authors = [entry.agent_name for entry in entries if entry.agent_name != "user"]
    assert authors == ["ts-desk"] * 2 + ["py-desk"] * 2 + ["ts-desk"] * 2 + ["py-desk"] * 2
    assert [len(entry.tool_calls) for entry in entries if entry.agent_name != "user"] == [1, 0] * 4
    for text in ("ts: one", "py: two", "ts: three", "four"):
        assert text in last
    assert last.count(PIXEL) == 2
    kinds = [message.type for entry in entries for message in entry.output]
    assert kinds.count("reasoning") == (4 if provider == "anthropic" else 0)


async def test_a_fork_is_a_copy_and_a_thread_is_not_rewound(store: PostgresHistory) -> None:
    """TypeScript reads a fork as any thread, and knows nothing of shared results."""
    thread = await store.add_thread(user_id="ann")
    said = [AgentResult.from_user(text, id=str(uuid4())) for text in ("one", "two")]
    await store.append(thread, [said[0], signed(), said[1]])
    fork = await store.fork(thread, said[1].id)
    assert [one.id for one in await store.load(fork)] == [
        one.id for one in (await store.load(thread))[:2]
    ]
    await store.delete_thread(thread)
    assert len(await store.load(fork)) == 2
    with pytest.raises(ConfigurationError, match="fork it, and continue with the fork"):
        await store.rewind(fork, 0)


async def test_a_person_joins_a_thread_in_which_nothing_of_python_has_run(
    store: PostgresHistory,
) -> None:
    """A thread that TypeScript has made, too; questions to people are kept for it as well."""
    first, second = [await store.add_thread(user_id="ann") for _ in range(2)]
    await StaffDesk(store).join(first, by="mia", name="Mia")
    assert [one.thread_id for one in await store.list_takeovers(user_id="ann")] == [first]
    asked = ApprovalRequest(id="q", agent="desk", timeout=60, asked_at=datetime.now(UTC))
    question = Question(request=asked, thread_id=second)
    await store.save_question(question)
    assert [one.thread_id for one in await store.list_questions(user_id="ann")] == [second]
    assert await store.delete_thread(first)
    assert await store.list_takeovers() == []
    with pytest.raises(ThreadNotFoundError):
        await StaffDesk(store).join(first, by="mia", name="Mia")
