"""The guarantees of SqliteHistory about its file."""

# ruff: noqa: ASYNC221, ASYNC240 - nothing else runs in these loops
from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agentkit_py.errors import (
    ConfigurationError,
    HistoryError,
    InvalidRecordError,
    StoreVersionError,
)
from agentkit_py.results import AgentResult
from agentkit_py.stores import SqliteHistory
from agentkit_py.stores._sqlite_file import VERSION, check_version

Reply = Callable[[str], AgentResult]


@contextmanager
def raw(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """The file as another program sees it; every statement is committed at once."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


async def make(path: Path, *texts: str) -> None:
    """A file with one thread ``t``."""
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.append("t", [AgentResult.from_user(t, id=f"m-{t}") for t in texts])


def test_sqlite3_is_loaded_only_when_a_file_is_used() -> None:
    """Importing the stores and making one costs nothing."""
    script = (
        "import sys; from agentkit_py.stores import SqliteHistory; SqliteHistory('x.db');"
        "print('sqlite3' in sys.modules)"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_an_older_sqlite_is_refused_with_advice() -> None:
    """Python 3.11 of a system may link SQLite 3.26, which cannot drop a column."""
    with pytest.raises(HistoryError, match=r"SQLite 3\.34\.1, threads need 3\.35 .* uv python"):
        check_version((3, 34, 1))
    check_version((3, 35, 0))


async def test_the_file_is_created_at_the_first_use(path: Path) -> None:
    """Making the store creates nothing."""
    store = SqliteHistory(path)
    assert not path.exists()
    assert await store.list_threads() == []
    assert path.exists()
    await store.close()


async def test_a_relative_path_is_resolved_when_the_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of folder does not move the file."""
    monkeypatch.chdir(tmp_path)
    store = SqliteHistory("threads.db")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    await store.setup()
    await store.close()
    assert (tmp_path / "threads.db").exists()
    assert repr(store) == f"SqliteHistory({str(tmp_path / 'threads.db')!r})"


async def test_a_closed_store_leaves_one_file(path: Path) -> None:
    """No journal stays behind, so that the file can be copied."""
    await make(path, "hi")
    assert [found.name for found in path.parent.iterdir()] == [path.name]


async def test_a_process_that_ends_without_closing_its_store_leaves_one_file(path: Path) -> None:
    """Calling close() is optional."""
    script = (
        "import asyncio, os, sys; from agentkit_py.stores import SqliteHistory\n"
        "store = SqliteHistory(sys.argv[1]); asyncio.run(store.add_thread('t'))\n"
        "print(len(os.listdir(os.path.dirname(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "3"
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    async with SqliteHistory(path) as store:
        assert await store.thread_exists("t")


async def test_the_file_is_safe_against_power_loss_and_readers_never_wait(path: Path) -> None:
    """A reader sees the thread while another process holds the write lock."""
    await make(path, "hi")
    with raw(path) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        other.execute("BEGIN IMMEDIATE")
        async with SqliteHistory(path, busy_timeout=0) as store:
            assert await store.count_results("t") == 1


async def test_a_second_process_reads_the_results_of_the_first(path: Path) -> None:
    """The file is the only state."""
    await make(path, "one", "two")
    script = (
        "import asyncio, sys; from agentkit_py.stores import SqliteHistory\n"
        "async def main():\n"
        "    async with SqliteHistory(sys.argv[1]) as store:\n"
        "        print(*[message.text for message in await store.messages('t')])\n"
        "asyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["one", "two"]


async def test_rows_hold_the_json_that_typescript_reads(path: Path, reply: Reply) -> None:
    """Names and order are those of its AgentResult.export()."""
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.append("t", [reply("a")])
    with raw(path) as other:
        (text, valid) = other.execute("SELECT json, json_valid(json) FROM results").fetchone()
    assert valid
    assert text.startswith(
        '{"agentName":"billing","output":[{"type":"text","role":"assistant","content":"looking '
    )
    assert '"toolCalls":[{"type":"tool_result","role":"tool_result","tool":{"type":"tool",' in text


@pytest.mark.parametrize("given", [":memory:", "", "file:x.db?mode=memory", "a\0b"])
def test_a_path_that_is_no_file_is_refused(given: str) -> None:
    """The error points to MemoryHistory."""
    with pytest.raises(ConfigurationError, match=r"MemoryHistory|path of a file"):
        SqliteHistory(given)


async def refused(path: Path, **options: Any) -> str:
    """Return the error's text when the file is opened; it names the file."""
    with pytest.raises(HistoryError) as caught:
        await SqliteHistory(path, **options).setup()
    assert str(path) in str(caught.value)
    return str(caught.value)


async def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    """The error names the path."""
    assert "it is a folder" in await refused(tmp_path)


async def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Folders are not created: the path may be a mistake."""
    assert f"the folder {tmp_path / 'no'} does not exist" in await refused(tmp_path / "no" / "x.db")


async def test_a_file_that_is_no_database_is_not_changed(path: Path) -> None:
    """The error says what is wrong with it."""
    path.write_text("Dear diary, " * 100)
    assert "is not an SQLite database" in await refused(path)
    assert path.read_text() == "Dear diary, " * 100


@pytest.mark.parametrize("statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 7"])
async def test_another_programs_database_is_not_changed(path: Path, statement: str) -> None:
    """Neither tables nor journal mode are changed."""
    with raw(path) as other:
        other.execute(statement)
    before = path.read_bytes()
    assert "another program's" in await refused(path)
    assert path.read_bytes() == before


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """`mktemp` creates such files."""
    path.touch()
    await make(path, "hi")


async def test_a_file_of_a_newer_version_is_an_error_with_both_versions(path: Path) -> None:
    """Nothing in it is touched."""
    await make(path, "hi")
    with raw(path) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreVersionError, match="Upgrade pyagentkit") as caught:
        await SqliteHistory(path).load("t")
    assert (caught.value.found, caught.value.supported) == (99, VERSION)


READ_ONLY = """
import asyncio, os, sys
from agentkit_py.errors import HistoryError
from agentkit_py.stores import SqliteHistory

store = SqliteHistory(sys.argv[1])
asyncio.run(store.close())  # loads everything, while we may still read all folders
if os.geteuid() == 0:
    os.setuid(65534)  # permissions do not bind root
for store in (store, SqliteHistory(sys.argv[1] + ".new")):
    try:
        asyncio.run(store.add_thread("new"))
    except HistoryError as error:
        print(error)
"""


async def test_a_read_only_file_or_folder_is_an_error_that_says_so() -> None:
    """The text names the file and what has to be writable."""
    # Not in tmp_path: its parents are closed to everybody else, which would be another error.
    with TemporaryDirectory() as folder:
        path = Path(folder) / "threads.db"
        await make(path)
        with raw(path) as other:
            other.execute("PRAGMA journal_mode = DELETE")
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, check=True
        )
        Path(folder).chmod(0o755)
    old, new = done.stdout.splitlines()
    assert f"{path} is read-only; both the file and its folder must be writable" in old
    assert f"{path}.new cannot be opened: permission denied" in new


async def test_a_damaged_file_is_an_error_that_says_so(path: Path) -> None:
    """Nothing is repaired by guessing."""
    await make(path, *(f"{n}" * 500 for n in range(50)))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(HistoryError, match="is damaged") as caught:
        await SqliteHistory(path).load("t")
    assert str(path) in str(caught.value)


async def test_a_disk_that_is_full_is_an_error_and_stores_nothing(path: Path) -> None:
    """SQLite's own limit on the size of a file gives the same error as a full disk."""
    store = SqliteHistory(path)
    await store.add_thread("t")
    limit = "PRAGMA max_page_count = 20"  # per connection
    await store._first(limit)  # pyright: ignore[reportPrivateUsage] - see above
    big = [AgentResult.from_user("x" * 10_000) for _ in range(50)]
    with pytest.raises(HistoryError, match=r"the disk is full; nothing was saved"):
        await store.append("t", big)
    assert await store.load("t") == []
    await store.close()


@pytest.mark.parametrize(
    ("assignment", "field"),
    [
        ("json = '{\"agentName\"'", "(whole)"),
        ("json = CAST(x'7bff7d' AS TEXT)", "(whole)"),
        ("json = '[]'", "(whole)"),
        ("json = 'null'", "(whole)"),
        ("json = json || '],[' || json", "(whole)"),
        ("tokens = '{'", "tokens"),
        ("json = json_remove(json, '$.createdAt')", "createdAt"),
        ("json = json_set(json, '$.output[0].role', 'nobody')", "output[0].role"),
        ("metadata = '[1]'", "metadata"),
    ],
)
async def test_a_damaged_row_is_an_error_that_names_thread_position_and_field(
    path: Path, assignment: str, field: str
) -> None:
    """Other rows are not affected."""
    await make(path, "one", "two")
    with raw(path) as other:
        other.execute(f"UPDATE results SET {assignment} WHERE position = 1")
    async with SqliteHistory(path) as store:
        with pytest.raises(InvalidRecordError) as caught:
            await store.load("t")
    assert (caught.value.where, caught.value.field) == ("Thread 't', position 1", field)


async def test_saving_a_result_again_over_a_damaged_row_is_an_error(path: Path) -> None:
    """The two cannot be compared."""
    await make(path, "one")
    with raw(path) as other:
        other.execute("UPDATE results SET json = '{'")
    async with SqliteHistory(path) as store:
        with pytest.raises(InvalidRecordError, match="m-one"):
            await store.append("t", [AgentResult.from_user("one", id="m-one")])


async def test_damaged_thread_metadata_is_an_error_that_names_the_thread(path: Path) -> None:
    """Listing threads raises it."""
    await make(path)
    with raw(path) as other:
        other.execute("UPDATE threads SET metadata = '7'")
    async with SqliteHistory(path) as store:
        with pytest.raises(InvalidRecordError, match="Thread 't', field metadata"):
            await store.list_threads()


async def test_loading_an_id_that_is_no_unicode_is_an_error(path: Path) -> None:
    """SQLite cannot search for it."""
    async with SqliteHistory(path) as store:
        with pytest.raises(HistoryError, match="not valid Unicode"):
            await store.load("\ud800")


async def test_a_writer_that_waits_longer_than_busy_timeout_fails(path: Path) -> None:
    """Nothing of its call is stored; it works again when the other writer is done."""
    await make(path)
    store = SqliteHistory(path, busy_timeout=0.05)
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError, match=r"locked by another writer .* busy_timeout=0.05"):
            await store.append("t", [AgentResult.from_user("hi")])
    await store.append("t", [AgentResult.from_user("hi")])
    assert await store.count_results("t") == 1
    await store.close()


async def test_queued_writers_of_one_store_fail_after_busy_timeout(path: Path) -> None:
    """The time in the queue counts."""
    await make(path)
    store = SqliteHistory(path, busy_timeout=0.05)
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        calls = [store.append("t", [AgentResult.from_user("hi")]) for _ in range(3)]
        found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in found] == [HistoryError] * 3
    await store.close()


async def test_closing_a_store_lets_a_running_save_finish(path: Path) -> None:
    """Its connection is closed after it."""
    store = SqliteHistory(path)
    await store.add_thread("t")
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        save = asyncio.create_task(store.append("t", [AgentResult.from_user("hi")]))
        await asyncio.sleep(0)
        await store.close()
    await save
    assert await store.count_results("t") == 1
    await store.close()
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("steps", range(6))
async def test_a_cancelled_save_is_stored_whole_or_not_at_all(
    path: Path, reply: Reply, steps: int
) -> None:
    """The cancellation may come at any step; the store works afterwards."""
    store = SqliteHistory(path)
    await store.add_thread("t")
    with raw(path) as other:
        # Holds the save up in the middle; it is cancelled some steps after it began.
        other.execute("BEGIN IMMEDIATE")
        save = asyncio.create_task(store.append("t", [reply(f"{n}") for n in range(20)]))
        for _ in range(steps):
            await asyncio.sleep(0)
        save.cancel()
        with suppress(asyncio.CancelledError):
            await save
    await store.append("t", [AgentResult.from_user("after")])
    assert await store.count_results("t") in (1, 21)
    await store.close()


def test_a_started_save_finishes_though_its_caller_is_cancelled(path: Path) -> None:
    """The process ends after it."""
    script = """
import asyncio, sys, threading
from agentkit_py.results import AgentResult
from agentkit_py.stores import SqliteHistory
from agentkit_py.stores.rows import encode_row

begun = threading.Event()

class Rows(list):
    def __iter__(self):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
        return super().__iter__()

async def main():
    store = SqliteHistory(sys.argv[1])
    await store.add_thread("t")
    rows = Rows([encode_row(AgentResult.from_user("hi"), "t")] * 2000)
    save = asyncio.create_task(store.append_rows("t", rows))
    while not begun.is_set():
        await asyncio.sleep(0)
    save.cancel()
    await asyncio.wait([save])
    print(save.cancelled())

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
    assert asyncio.run(SqliteHistory(path).count_results("t")) == 2000


async def test_a_garbage_collected_store_closes_its_file(path: Path) -> None:
    """No journal stays behind."""
    store = SqliteHistory(path)
    await asyncio.gather(*(store.add_thread(f"{number}") for number in range(9)))
    del store
    gc.collect()
    assert [found.name for found in path.parent.iterdir()] == [path.name]


async def test_a_replaced_file_is_opened_again(path: Path) -> None:
    """Saves go to the new file, not to the removed one."""
    store = SqliteHistory(path)
    await store.add_thread("old")
    for found in path.parent.iterdir():
        found.unlink()
    assert not await store.thread_exists("old")
    await store.add_thread("new")
    await store.close()
    async with SqliteHistory(path) as again:
        assert [thread.id for thread in await again.list_threads()] == ["new"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_a_forked_process_has_connections_of_its_own(path: Path) -> None:
    """SQLite's connections must not be used after a fork."""
    script = """
import asyncio, os, sys
from agentkit_py.stores import SqliteHistory
store = SqliteHistory(sys.argv[1])
asyncio.run(store.add_thread("parent"))
child = os.fork()
asyncio.run(store.add_thread("child" if child == 0 else "after"))
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(*sorted(thread.id for thread in asyncio.run(store.list_threads())))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["after", "child", "parent"]
