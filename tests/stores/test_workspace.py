"""Files of threads: nothing gets out, nothing gets too large, nothing stays for ever."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit_py.errors import (
    ConfigurationError,
    HistoryError,
    MessageNotFoundError,
    ThreadNotFoundError,
)
from agentkit_py.stores import MemoryHistory, SqliteHistory, for_user, redacted
from agentkit_py.stores.workspace import Workspace


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    """A small workspace."""
    return Workspace(tmp_path / "files", max_file=10, max_thread=25)


@pytest.mark.parametrize("thread", ["t", "../x", "a/b", "", "x" * 5000, "\0", "\ud800"])
def test_files_of_a_thread_are_written_read_and_removed(files: Workspace, thread: str) -> None:
    """The thread's id may hold any character."""
    files.write(thread, "a/b.txt", "one")
    files.write(thread, "a/b.txt", "two")
    files.write("another", "c", b"")
    assert files.read(thread, "a/b.txt") == b"two"
    assert files.files(thread) == ["a/b.txt"]
    assert files.remove(thread)
    assert not files.remove(thread)
    assert files.files("another") == ["c"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a\0", "C:/x", "a\\..\\x"]
)
def test_a_file_name_cannot_leave_its_threads_folder(files: Workspace, name: str) -> None:
    """The rule holds for writing and reading."""
    with pytest.raises(HistoryError):
        files.write("t", name, "x")
    with pytest.raises(HistoryError):
        files.read("t", name)


def test_a_link_cannot_leave_its_threads_folder(files: Workspace, tmp_path: Path) -> None:
    """The rule holds for links that a tool created."""
    (tmp_path / "secret").write_text("x")
    files.write("t", "a", "x")
    (files.folder("t") / "out").symlink_to(tmp_path)
    with pytest.raises(HistoryError, match="leads out"):
        files.read("t", "out/secret")
    assert files.files("t") == ["a"]


def test_writes_beyond_the_limits_are_refused(files: Workspace) -> None:
    """Limits of a file and of a thread; a replaced file does not count."""
    with pytest.raises(HistoryError, match="11 bytes"):
        files.write("t", "a", "x" * 11)
    for name in ("a", "b", "a"):
        files.write("t", name, "x" * 10)
    with pytest.raises(HistoryError, match="30 bytes"):
        files.write("t", "c", "x" * 10)
    files.write("other", "c", "x" * 10)
    with pytest.raises(ConfigurationError):
        Workspace(files.root, max_file=0)


def test_old_files_are_removed_by_the_next_write(tmp_path: Path) -> None:
    """Those of other threads."""
    files = Workspace(tmp_path / "files", keep=timedelta(days=1))
    for name in ("old", "new"):
        files.write(name, "a", "x")
    os.utime(files.folder("old"), (0, 0))
    files.write("now", "a", "x")
    assert [files.files(name) for name in ("old", "new", "now")] == [[], ["a"], ["a"]]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "of a user", "redacted"])
async def test_a_fork_begins_with_the_files_that_the_thread_has(
    files: Workspace, tmp_path: Path, kind: str
) -> None:
    """From then on each has its own; the same fork again changes nothing."""
    own = SqliteHistory(tmp_path / "t.db") if kind == "sqlite" else MemoryHistory()
    own.workspace = files
    store = for_user(own, "u") if kind == "of a user" else own
    store = redacted(own, ["email"]) if kind == "redacted" else store
    await own.add_thread("t", user_id="u")
    files.write("t", "a/b.txt", "one")
    (files.folder("t") / "link").symlink_to(tmp_path)
    assert await store.fork("t", fork_id="f") == "f"
    assert (files.files("f"), files.read("f", "a/b.txt")) == (["a/b.txt"], b"one")
    assert oct((files.folder("f") / "a").stat().st_mode)[-3:] == "700"
    assert not (files.folder("f") / "link").exists()
    files.write("f", "a/b.txt", "two")
    files.write("t", "c", "three")
    await store.fork("t", fork_id="f")
    assert (files.files("f"), files.read("t", "a/b.txt")) == (["a/b.txt"], b"one")
    await store.delete_thread("t")
    assert (files.files("t"), files.read("f", "a/b.txt")) == ([], b"two")
    assert len(list(files.root.iterdir())) == 1
    await own.close()


async def test_a_fork_that_cannot_be_made_leaves_no_files(files: Workspace) -> None:
    """Neither of another user's thread, which is not read, nor where the place is none."""
    store = MemoryHistory()
    store.workspace = files
    await store.add_thread("t", user_id="u")
    await store.add_thread("f", user_id="u")
    files.write("t", "x", "x")
    with pytest.raises(MessageNotFoundError):
        await store.fork("t", "m1")
    with pytest.raises(HistoryError, match="already"):
        await store.fork("t", fork_id="f")
    with pytest.raises(ThreadNotFoundError):
        await for_user(store, "other").fork("t")
    assert (files.files("f"), len(list(files.root.iterdir()))) == ([], 1)


async def test_a_deleted_threads_files_are_deleted(files: Workspace) -> None:
    """A deleted user's files are deleted, too."""
    store = MemoryHistory()
    store.workspace = files
    for name in ("a", "b"):
        await store.add_thread(name, user_id="u")
        files.write(name, "x", "x")
    await store.delete_thread("a")
    assert (files.files("a"), files.files("b")) == ([], ["x"])
    await store.delete_user("u")
    assert files.files("b") == []
