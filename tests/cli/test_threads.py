"""`agentkit threads`, on files and on a server."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import AgentResult, TextMessage
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import (
    ImageContent,
    TextContent,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.stores import HistoryStore, MemoryHistory, SqliteHistory, redacted
from agentkit_py.stores.interchange import ExportFormat, export_threads, import_threads
from agentkit_py.stores.workspace import Workspace
from agentkit_py.testing.replay.recording import conversation_of_line
from tests.cli.terminal import agentkit

from .conversations import CONVERSATIONS, IMAGE

FORMATS: list[ExportFormat] = ["archive", "openai", "typescript"]


def turn(name: str) -> list[AgentResult]:
    """A question, a call and an answer."""
    call = ToolCall(f"c{name}", "look", {"q": name})
    return [
        AgentResult.from_user(f"Where is {name}?\0\ud800", id=f"{name}-0"),
        AgentResult(
            "desk",
            [TextMessage("assistant", "I look."), ToolCallMessage((call,))],
            [ToolResultMessage(call, {"data": name})],
            id=f"{name}-1",
        ),
        AgentResult("desk", [TextMessage("assistant", f"{name} is in Graz.")], id=f"{name}-2"),
    ]


async def fill(store: HistoryStore) -> None:
    """Three threads of two users."""
    async with store:
        for name, user in (("a", "u1"), ("b", "u2"), ("c", "u1")):
            await store.add_thread(name, user_id=user, title=f"Title {name}", metadata={"n": name})
            await store.append(name, turn(name))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A file with three threads."""
    path = tmp_path / "threads.db"
    asyncio.run(fill(SqliteHistory(path)))
    return path


def threads(*arguments: object, given: str = "", code: int = 0) -> str:
    """Return the output of `agentkit threads`."""
    done = agentkit("threads", *arguments, lines=given, variables={"COLUMNS": "100"})
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


def test_threads_are_listed_shown_found_and_counted(db: Path) -> None:
    """``--user`` limits the commands to one user."""
    listed = threads("list", "--db", db, "--user", "u1")
    assert [line.split()[0] for line in listed.splitlines()] == ["thread", "c", "a"]
    shown = threads("show", "a", "--db", db)
    assert "a is in Graz." in shown
    assert "desk calls look" in shown
    assert "no thread 'b'" in threads("show", "b", "--db", db, "--user", "u1", code=1)
    found = threads("search", "WHERE IS B", "--db", db)
    assert found.splitlines()[0].startswith("b  Where is b?")
    assert found.splitlines()[1] == "1 thread"
    counted = dict(line.split() for line in threads("stats", "--db", db).splitlines())
    assert [counted[key] for key in ("threads", "users", "results", "messages")] == [
        "3", "2", "9", "15",
    ]  # fmt: skip


def test_the_end_of_a_thread_is_shown_by_itself(db: Path) -> None:
    """``--last`` limits the number of results."""
    shown = threads("show", "a", "--db", db, "--last", "1")
    assert "a is in Graz." in shown
    assert "Where is a?" not in shown


def test_tables_have_a_schema_and_a_prefix(
    db: Path, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    """``--schema`` and ``--prefix`` choose the same tables as the store's arguments."""
    lines = tmp_path / "threads.jsonl"
    threads("export", "--db", db, "-o", lines)
    where = ["--db", postgres_url, "--schema", postgres_schema, "--prefix", "my_"]
    assert "3 threads" in threads("import", lines, *where)
    assert "15" in threads("stats", *where)
    assert "a" in threads("search", "graz", *where)
    assert "0 threads" in threads("search", "graz", *where[:4], "--prefix", "other_")


def test_words_that_no_index_has_are_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A search says that it is slow for want of an index, and which command makes it."""
    path = tmp_path / "plain.db"
    asyncio.run(fill(SqliteHistory(path, full_text=False)))
    assert "3 threads" in threads("search", "graz", "--db", path)
    assert "agentkit threads index" in caplog.text
    caplog.clear()
    assert "9 results added" in threads("index", "--db", path)
    assert "3 threads" in threads("search", "graz", "--db", path)
    assert not caplog.text
    assert "0 results added" in threads("index", "--db", path)


RECALLING = """
from agentkit_py import Agent, openai
from agentkit_py.processors import Recall
from agentkit_py.testing import HashingEmbedder

clerk = Agent(
    name="clerk", system="", model=openai("gpt-4o", api_key="k"),
    processors=[Recall(HashingEmbedder(), keep_recent=0)],
)
"""


def test_older_turns_of_all_threads_are_embedded(db: Path, tmp_path: Path) -> None:
    """With an agent or a network; what it lacks of words is added as without."""
    (tmp_path / "recalling.py").write_text(RECALLING)
    done = agentkit("threads", "index", "recalling:clerk", "--db", db, folder=tmp_path)
    assert done.exit_code == 0, done.output
    assert "3 threads indexed" in done.output

    async def kept() -> list[int]:
        async with SqliteHistory(db) as store:
            data = [await store.thread_data(name) for name in "abc"]
        return [len(vectors) for one in data for vectors in one.vectors.values()]

    assert asyncio.run(kept()) == [1, 1, 1]


def test_deleting_asks_first_and_takes_files_along(db: Path, tmp_path: Path) -> None:
    """Everything of a user; others keep theirs."""
    files = Workspace(tmp_path / "files")
    for name in "abc":
        files.write(name, "x.txt", name)
    options = ["--db", db, "--user", "u1", "--workspace", files.root]
    threads("delete", *options, given="n\n", code=1)
    assert "2 threads deleted" in threads("delete", *options, given="y\n")
    left = threads("list", "--db", db).splitlines()[1:]
    assert [line.split()[0] for line in left] == ["b"]
    assert [files.files(name) for name in "abc"] == [[], ["x.txt"], []]
    assert "Name threads" in threads("delete", "--db", db, "--yes", code=2)


def test_files_that_stay_are_named_when_threads_are_deleted(db: Path, tmp_path: Path) -> None:
    """Only the application knows where these files are."""
    assert "--workspace" in threads("delete", "a", "--db", db, "--yes")
    assert "--workspace" not in threads("clean", "--db", db, "--older-than", "7d", "--yes")
    folder = ["--workspace", tmp_path / "files"]
    assert "--workspace" not in threads("delete", "b", "--db", db, "--yes", *folder)


def test_calls_and_results_are_found_in_words(db: Path) -> None:
    """Search reads calls as a transcript shows them, without the ids and brackets of their JSON."""
    call = ToolCall("c9", "price", {"hat": "Bowler Grün", "sizes": [54, 56]})
    answered = ToolResultMessage(call, {"data": {"price": 30, "note": "gelbes Band"}})
    failed = ToolResultMessage(call, {"error": {"name": "LookupError", "message": "no fedora"}})
    results = [
        AgentResult("desk", [ToolCallMessage((call,))], [answered], id="9"),
        AgentResult("desk", [TextMessage("assistant", "Hm.")], [failed], id="10"),
    ]

    async def add() -> None:
        async with SqliteHistory(db) as store:
            await store.append("a", results)

    asyncio.run(add())

    def first(words: str) -> str:
        return threads("search", words, "--db", db).splitlines()[0]

    assert first("bowler grün") == 'a  price(hat="Bowler Grün", sizes=[54,56])'
    assert first("GELBES") == 'a  price: {"price":30,"note":"gelbes Band"}'
    assert first("fedora") == "a  price: LookupError: no fedora"


def test_cleaning_removes_threads_older_than_the_given_age(db: Path) -> None:
    """Times are written like 7d."""
    assert "0 threads deleted" in threads("clean", "--db", db, "--older-than", "7d", "--yes")
    assert "3 threads deleted" in threads("clean", "--db", db, "--older-than", "0s", "--yes")
    assert "not a time" in threads("clean", "--db", db, "--older-than", "soon", code=2)


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize(
    "command", ["threads list", "threads search x", "staff queue", "approvals list"]
)
def test_a_limit_below_one_is_refused(db: Path, command: str, number: int) -> None:
    """A database would take it for all, or for an error of its own."""
    words = [*command.split(), "--db", str(db), "--limit", str(number)]
    done = agentkit(*words, variables={"COLUMNS": "200"})
    assert (done.exit_code, "Invalid value for '--limit'" in done.output) == (2, True)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A slip of the finger makes no database."""
    path = tmp_path / "none.db"
    assert "there is no file" in threads("list", "--db", path, code=2)
    assert not path.exists()


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_can_be_imported(db: Path, tmp_path: Path, form: str) -> None:
    """Twice, which changes nothing."""
    lines, other = tmp_path / "threads.jsonl", tmp_path / "other.db"
    threads("export", "--db", db, "--format", form, "-o", lines)
    for _ in range(2):
        assert "3 threads" in threads("import", lines, "--db", other)
    assert "a is in Graz." in threads("show", "a", "--db", other)


def test_a_server_is_named_by_its_url(postgres_url: str) -> None:
    """Every command works on a database server, too."""
    assert "thread" in threads("list", "--db", postgres_url)


async def everything(store: HistoryStore) -> dict[str, Any]:
    """All threads with their results."""
    return {
        thread.id: (
            thread.user_id,
            thread.title,
            thread.metadata,
            await store.stored_results(thread.id),
        )
        for thread in await store.list_threads(None)
    }


async def lines_of(store: HistoryStore, form: ExportFormat) -> list[str]:
    """All threads as lines."""
    return [line async for line in export_threads(store, await store.list_threads(None), form)]


def test_unreadable_and_unwritable_files_are_refused_in_one_line(db: Path, tmp_path: Path) -> None:
    """No new file of threads is created."""
    new = tmp_path / "new.db"
    refused = threads("import", tmp_path / "no.jsonl", "--db", new, code=2)
    assert "does not exist" in " ".join(refused.replace("│", " ").split())  # in a box, in lines
    assert not new.exists()
    printed = threads("export", "--db", db, "-o", tmp_path / "no" / "out.jsonl", code=2)
    assert printed.startswith("agentkit: --output: ")
    assert "--last" in threads("show", "a", "--db", db, "--last", "-3", code=2)
    (tmp_path / "photo").write_bytes(b"a\xff\xd8\n")
    binary = threads("import", tmp_path / "photo", "--db", new, code=1)
    assert binary == "agentkit: line 1, field (whole): not UTF-8 (byte 2)\n"
    folder = threads("list", "--db", tmp_path, code=2)
    assert folder == f"agentkit: --db: there is no file {str(tmp_path)!r}.\n"


def test_a_byte_order_mark_is_no_part_of_the_first_line(db: Path, tmp_path: Path) -> None:
    """Editors on Windows write one."""
    exported = tmp_path / "out.jsonl"
    threads("export", "--db", db, "-o", exported)
    exported.write_bytes(b"\xef\xbb\xbf" + exported.read_bytes())
    assert (
        threads("import", exported, "--db", tmp_path / "new.db") == "3 threads, 9 results added\n"
    )


def test_addresses_that_are_no_database_are_refused_without_their_password(tmp_path: Path) -> None:
    """The server is of another kind, or the password is not percent-encoded."""
    other = threads("list", "--db", "mysql://u:secret@localhost/x", code=2)
    assert other == "agentkit: --db: mysql:// is not known; give a file or postgresql://….\n"
    odd = threads("list", "--db", "postgresql://u:secret word@localhost/x", code=2)
    assert "percent-encoded" in odd
    assert "secret" not in odd


async def test_ids_are_listed_whole_however_long_the_titles_are(tmp_path: Path) -> None:
    """They are what other commands are given."""
    thread_id, path = "a8375927-4121-4822-a2ea-5e69b47f3d25", tmp_path / "threads.db"
    async with SqliteHistory(path) as store:
        await store.add_thread(thread_id, user_id="somebody@example.com", title="long " * 30)
    listed = await asyncio.to_thread(threads, "list", "--db", path)
    assert thread_id in listed
    assert len(listed.splitlines()) == 2


def test_an_import_for_a_user_leaves_threads_of_others_alone(db: Path, tmp_path: Path) -> None:
    """They are not found; nothing is added to them."""
    line = {"id": "a", "messages": [{"role": "user", "content": "I am u2."}]}
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    printed = threads("import", tmp_path / "in.jsonl", "--db", db, "--user", "u2", code=1)
    assert "no thread 'a'" in printed
    assert "I am u2." not in threads("show", "a", "--db", db)


@pytest.mark.parametrize("form", FORMATS)
async def test_a_round_trip_loses_nothing(form: ExportFormat) -> None:
    """Export and import keep all fields, in each format."""
    store, other = MemoryHistory(), MemoryHistory()
    await fill(store)
    await import_threads(other, await lines_of(store, form))
    before, after = await everything(store), await everything(other)
    assert after == before


async def test_an_openai_export_can_be_replayed() -> None:
    """`agentkit replay` reads it."""
    store = MemoryHistory()
    await fill(store)
    for line in await lines_of(store, "openai"):
        conversation = conversation_of_line(line.encode(), 1)
        assert conversation.tools == ["look"]


async def test_calls_that_were_made_at_once_are_one_message_of_an_openai_export() -> None:
    """The format wants the results right after the message that calls; so does a replay."""
    store = MemoryHistory()
    await store.add_thread("t")
    calls = [ToolCall(str(number), "look", {"at": number}) for number in range(3)]
    said = [
        TextMessage("assistant", "I look."),
        *(ToolCallMessage([call]) for call in calls[:2]),
        TextMessage("assistant", "And there."),
        ToolCallMessage(calls[2:]),
    ]
    answers = [ToolResultMessage(call, {"data": "here"}) for call in calls]
    await store.append("t", [AgentResult.from_user("Look!"), AgentResult("a", said, answers)])
    (line,) = await lines_of(store, "openai")
    _, asked, *results = json.loads(line)["messages"]
    assert asked["content"] == "I look.\n\nAnd there."
    assert [call["id"] for call in asked["tool_calls"]] == ["0", "1", "2"]
    assert [result["tool_call_id"] for result in results] == ["0", "1", "2"]
    assert len(conversation_of_line(line.encode(), 1).calls) == 3


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {
                "id": "x",
                "messages": [
                    {"role": "user", "content": "hi"},
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {"id": "1", "function": {"name": "look", "arguments": '{"q":1}'}}
                        ],
                    },
                    {"role": "tool", "tool_call_id": "1", "content": "found"},
                    {"role": "assistant", "content": "done"},
                ],
            },
            ["user", "assistant", "assistant"],
        ),
        (
            {
                "message_id": "m",
                "thread_id": "x",
                "message_type": "user",
                "content": "hi",
                "data": None,
                "created_at": "2024-01-01T00:00:00.000Z",
            },
            ["user"],
        ),
    ],
)
async def test_lines_that_others_wrote_are_read(line: Any, expected: Sequence[str]) -> None:
    """A second time they change nothing."""
    store = MemoryHistory()
    for _ in range(2):
        assert await import_threads(store, [json.dumps(line)], user_id="u") == ["x"]
    assert [result.agent_name for result in await store.load("x")] == expected
    assert (await store.get_thread("x")).user_id == "u"


TIME = "2024-01-01T00:00:00.000Z"


def spoken(text: str, author: str = "user") -> dict[str, Any]:
    """A result of somebody else's, without an id."""
    message = {"type": "text", "role": "user", "content": text}

    return {"agentName": author, "output": [message], "toolCalls": [], "createdAt": TIME}


SAID = ["Hello", "yes", "yes", "Hello"]
WITHOUT_IDS: dict[str, list[dict[str, Any]]] = {
    "archive": [
        {"format": "agentkit/1", "thread": {"id": "x"}, "results": [spoken(one) for one in SAID]}
    ],
    "typescript": [
        {"thread_id": "x", "message_type": "user", "content": one, "created_at": TIME}
        for one in SAID
    ],
    "typescript with data": [{"thread_id": "x", "data": spoken(one)} for one in SAID],
    "openai": [{"messages": [{"role": "user", "content": one} for one in SAID]}],
}


@pytest.mark.parametrize("lines", WITHOUT_IDS.values(), ids=WITHOUT_IDS.keys())
async def test_results_without_ids_are_added_once(lines: list[Any]) -> None:
    """Messages repeated in one file are all imported; a second import of the file adds nothing."""
    store = MemoryHistory()
    texts = [json.dumps(line) for line in lines]
    (thread,) = await import_threads(store, texts)
    first = await store.load(thread)
    assert [message.text for r in first for message in r.output if message.type == "text"] == SAID
    assert await import_threads(store, texts) == [thread]
    assert await store.load(thread) == first
    assert len(await store.list_threads(None)) == 1


async def test_conversations_without_ids_get_different_ids() -> None:
    """Two that are alike in one file are two, each time."""
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    other = json.dumps({"messages": [{"role": "user", "content": "ho"}]})
    store = MemoryHistory()
    first = await import_threads(store, [line, other, line])
    assert len(set(first)) == 3
    assert await import_threads(store, [line, other, line]) == first
    assert (await store.stats()).results == 3


async def test_the_same_conversation_of_two_users_is_two() -> None:
    """Imports of different users get different threads, so that neither blocks the other."""
    line = json.dumps({"messages": [{"role": "user", "content": "hi"}]})
    store = MemoryHistory()
    of_ada, of_bob, again = [
        await import_threads(store, [line], user_id=user) for user in ("ada", "bob", "ada")
    ]
    assert of_ada == again != of_bob
    assert (await store.stats("ada")).results == (await store.stats("bob")).results == 1


async def test_results_that_a_store_keeps_without_ids_come_back_once() -> None:
    """An import of exported results recognises them without ids."""
    store = MemoryHistory()
    await store.add_thread("x")
    await store.append("x", [AgentResult.from_user(one) for one in SAID])
    for form in FORMATS:
        await import_threads(store, await lines_of(store, form))
        assert await store.count_results("x") == len(SAID)


async def test_threads_of_a_redacting_store_are_imported_once() -> None:
    """Though the file says it in the clear."""
    store = redacted(MemoryHistory(), ["email"])
    line = json.dumps({"thread_id": "x", "data": spoken("I am ann@example.com.")})
    for _ in range(2):
        await import_threads(store, [line, line])
    said = [m.text for r in await store.load("x") for m in r.output if m.type == "text"]
    assert said == ["I am [email]."] * 2


@pytest.mark.parametrize("line", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
async def test_conversations_of_each_provider_are_imported_with_images_and_tools(line: Any) -> None:
    """Nothing of them becomes text that it was not, and an export gives them back."""
    store = MemoryHistory()
    added: list[int] = []
    (thread,) = await import_threads(store, [json.dumps(line)], on_added=added.append)
    results = await store.load(thread)
    said: list[Any] = [message for result in results for message in result.messages]
    kinds = ["text", "text", "tool_call", "tool_result", "text"]
    assert [message.type for message in said] == kinds
    image = ImageContent("iVBORw0KGgo=", None, "image/png")
    assert list(said[1].content) == [TextContent("Look:"), image]
    assert said[3].content == "1.10"
    assert added == [4]
    await import_threads(store, [json.dumps(line)], on_added=added.append)
    assert added == [4, 0]
    (exported,) = await lines_of(store, "openai")
    messages = json.loads(exported)["messages"]
    assert messages[1]["content"][1]["image_url"]["url"] == IMAGE
    assert messages[3]["content"] == "1.10"


WRITTEN = ["Transfer successful", "1.10", "12345678901234567890", "1e999", "null", '"x"', "[1.0]"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("text", WRITTEN)
async def test_a_tools_text_stays_as_it_was_written(text: str, form: ExportFormat) -> None:
    """A text that looks like a number stays a text, as the model read it."""
    asked = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    line = {
        "id": "x",
        "messages": [
            {"role": "user", "content": "Pay."},
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "1", "content": text},
        ],
    }
    store, other = MemoryHistory(), MemoryHistory()
    await import_threads(store, [json.dumps(line)])
    await import_threads(other, await lines_of(store, form))
    for one in (store, other):
        (result,) = [m for r in await one.load("x") for m in r.tool_calls]
        assert result.content == text
    (exported,) = await lines_of(store, "openai")
    assert json.loads(exported)["messages"][2]["content"] == text


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN"])
async def test_a_number_that_is_none_is_an_error_of_its_line(number: str) -> None:
    """The lines before it are added."""
    good = json.dumps(WITHOUT_IDS["typescript"][0])
    bad = '{"thread_id": "y", "messages": [], "n": %s}' % number  # noqa: UP031 - braces
    store = MemoryHistory()
    with pytest.raises(InvalidRecordError, match="line 2"):
        await import_threads(store, [good, bad])
    assert await store.count_results("x") == 1


async def test_a_file_that_has_grown_adds_its_new_lines() -> None:
    """The new messages are added at the end of the thread."""
    store = MemoryHistory()
    lines = [json.dumps(line) for line in WITHOUT_IDS["typescript"]]
    await import_threads(store, lines[:2])
    await import_threads(store, lines)
    texts = [m.text for r in await store.load("x") for m in r.output if m.type == "text"]
    assert texts == SAID


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"messages":1}', '{"messages":[1]}'])
async def test_a_line_of_no_format_is_named(line: str) -> None:
    """The error has the line's number."""
    with pytest.raises(InvalidRecordError, match="line 2"):
        await import_threads(MemoryHistory(), ["\n", line])


def test_threads_are_forked_and_rewound(db: Path) -> None:
    """Before a message that is named by id, position, or counted from the end; rewinding asks."""
    for name in ("x", "y"):
        asyncio.run(SqliteHistory(db).append("a", turn(name)))
    fork = threads("fork", "a", "--db", db, "--before", "y-0", "--title", "Other").split()[0]
    assert "x is in Graz" in threads("show", fork, "--db", db)
    assert "y is in Graz" not in threads("show", fork, "--db", db)
    assert "fork of a  before result 6, " in threads("show", fork, "--db", db)
    assert f"fork {fork}  before result 6, " in threads("show", "a", "--db", db, "--last", 1)
    assert "9 results" in threads("fork", "a", "--db", db)
    assert "3 results" in threads("fork", "a", "--db", db, "--back", 2)
    threads("rewind", "a", "--db", db, given="n\n", code=1)
    assert "6 results left" in threads("rewind", "a", "--db", db, given="y\n")
    assert "0 results left" in threads("rewind", "a", "--db", db, "--before", 0, "-y")
    assert "no message of the user" in threads("fork", fork, "--db", db, "--before", 1, code=1)
    assert "not both" in threads("fork", fork, "--db", db, "--before", 1, "--back", 1, code=2)
    assert "has not written 1" in threads("rewind", "a", "--db", db, "-y", code=2)


def _export_of(db: Path, tmp_path: Path) -> dict[str, Any]:
    lines = tmp_path / "lines.jsonl"
    threads("export", "a", "--db", db, "-o", lines)
    return json.loads(lines.read_text())


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("thread", "id"), 5),
        (("thread", "userId"), True),
        (("thread", "metadata"), "x"),
        (("thread", "createdAt"), "0001-01-01T00:00:00+14:00"),
        (("results", 0, "createdAt"), "9999-12-31T23:59:59-12:00"),
        (("results", 0, "output", 0, "role"), "robot"),
        (("summaries", "k", "text"), 0),
        (("summaries", "k", "covered"), "2"),
        (("summaries", "k", "originalTokens"), 2**70),
        (("runs", 0, "results"), 5),
        (("takeover", "askedAt"), "never"),
        (("vectors", "k"), {"a-0": "!"}),
    ],
)
def test_a_damaged_line_is_reported_in_one_line_and_adds_nothing(
    db: Path, tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    """Those before it are there."""
    record = _export_of(db, tmp_path)
    moment = record["thread"]["createdAt"]
    record["runs"] = [{"id": "a-0", "status": "completed", "results": ["a-1"]}]
    record["takeover"] = {"threadId": "a", "people": [], "askedAt": moment}
    record["vectors"] = {}
    summary = {"text": "S", "covered": 2, "anchor": "x", "tokens": 3, "originalTokens": 9}
    record["summaries"] = {"k": {**summary, "createdAt": moment}}
    good = {**record, "thread": {**record["thread"], "id": "good"}}
    lines = tmp_path / "damaged.jsonl"
    lines.write_text(json.dumps(good) + "\n")
    to = tmp_path / "to.db"
    threads("import", lines, "--db", to)
    at: Any = record
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = value
    lines.write_text(f"{json.dumps(good)}\n{json.dumps(record)}\n")
    said = threads("import", lines, "--db", to, code=1)
    assert said.startswith("agentkit: ")
    assert len(said.splitlines()) == 1
    listed = threads("list", "--db", to).splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["good"]


def test_an_export_takes_the_place_of_a_file_when_it_is_whole(db: Path, tmp_path: Path) -> None:
    """It never takes that of the database, and where it fails the file stays."""
    before = db.read_bytes()
    assert "is the database" in threads("export", "--db", db, "-o", db, code=2)
    assert db.read_bytes() == before
    lines = tmp_path / "lines.jsonl"
    lines.write_text("old")
    threads("export", "--db", db, "-o", lines)
    assert len(lines.read_text().splitlines()) == 3
    kept = lines.read_bytes()
    with sqlite3.connect(db) as damaged:
        damaged.execute("UPDATE results SET json = '{' WHERE id = 'b-1'")
    damaged.close()
    assert "Thread 'b', position 1" in threads("export", "--db", db, "-o", lines, code=1)
    assert lines.read_bytes() == kept
    assert [one.name for one in tmp_path.iterdir() if "lines" in one.name] == ["lines.jsonl"]


def test_impossible_ages_and_names_are_reported(db: Path, tmp_path: Path) -> None:
    """They were tracebacks."""
    for age in ("99999999999d", f"{10**30}w"):
        said = threads("clean", "--db", db, "--older-than", age, "--yes", code=2)
        assert "is not a time" in said
    assert "there is no file" in threads("list", "--db", "a" * 5000, code=2)
    out = ("eval", "from-thread", db, "a", "--out")
    for path in (db, tmp_path, tmp_path / "none" / "cases.jsonl"):
        assert agentkit(*out, path).exit_code == 2
    assert "3 threads" not in threads("list", "--db", db)


def test_a_look_at_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    """`explain` and `approvals answer` save nothing."""
    (tmp_path / "recalling.py").write_text(RECALLING)
    for command in (("explain",), ("approvals", "answer")):
        rest = [] if command == ("explain",) else ["q1", "--approve"]
        done = agentkit(*command, "recalling:clerk", *rest, "--db", "t.db", folder=tmp_path)
        assert done.exit_code == 2
        assert "there is no file" in done.output
    assert not (tmp_path / "t.db").exists()
