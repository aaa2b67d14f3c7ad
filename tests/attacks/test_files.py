"""Files: their owner alone reads them, and a link that comes meanwhile leads nowhere."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from agentkit_py import Agent, SqliteHistory
from agentkit_py.errors import HistoryError
from agentkit_py.knowledge import Knowledge, SqliteKnowledge
from agentkit_py.stores.workspace import Workspace
from agentkit_py.testing import HashingEmbedder, ScriptedModel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it has no such modes and links")


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of all files in a folder."""
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.lstat().st_mode)
        for path in folder.rglob("*")
    }


async def test_database_files_are_for_their_owner(tmp_path: Path) -> None:
    """The write-ahead log and its index hold the same conversations."""
    before = os.umask(0)
    try:
        history = SqliteHistory(tmp_path / "threads.db")
        agent = Agent(name="a", system="S", model=ScriptedModel("Hm."), history=history)
        await agent.run("Hi", thread_id="t")
        knowledge = SqliteKnowledge(tmp_path / "docs.db")
        await Knowledge(store=knowledge, embedder=HashingEmbedder()).add("something")
        found = modes(tmp_path)
    finally:
        os.umask(before)
    await history.close()
    await knowledge.close()
    assert {"threads.db", "threads.db-wal", "threads.db-shm", "docs.db", "docs.db-wal"} <= set(
        found
    )
    assert set(found.values()) == {0o600}


async def test_a_file_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """Sharing a database with a group is the owner's own choice."""
    path = tmp_path / "threads.db"
    path.touch()
    path.chmod(0o640)
    history = SqliteHistory(path)
    await history.add_thread("t")
    await history.close()
    assert modes(tmp_path)["threads.db"] == 0o640


def test_files_of_threads_are_for_their_owner(tmp_path: Path) -> None:
    """Folders, too, and those between."""
    before = os.umask(0)
    try:
        Workspace(tmp_path / "files").write("t", "a/b/c.txt", "x")
    finally:
        os.umask(before)
    kinds = {name: mode for name, mode in modes(tmp_path).items() if not name.endswith(".txt")}
    assert set(kinds.values()) == {0o700}
    assert modes(tmp_path / "files").popitem()[1] == 0o600


@pytest.mark.parametrize("place", ["", "a"])
def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path, place: str) -> None:
    """Somebody exchanges a folder and a link for it, as quickly as possible, meanwhile."""
    files = Workspace(tmp_path / "files")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"secret")
    files.write("t", "a/x", b"inner")
    (outside / "a").mkdir()
    (outside / "a" / "x").write_bytes(b"secret")
    target = files.folder("t") / place if place else files.folder("t")
    parked = tmp_path / "parked"
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            target.rename(parked)
            with suppress(FileExistsError):  # a writer was quicker
                target.symlink_to(outside)
                target.unlink()
            while parked.exists():
                shutil.rmtree(target, ignore_errors=True)  # a writer has made a new one
                with suppress(OSError):
                    parked.rename(target)

    other = threading.Thread(target=exchange)
    other.start()
    try:
        for _ in range(2000):
            try:
                assert files.read("t", "a/x") != b"secret"
                files.write("t", "a/x", b"inner")
            except (HistoryError, FileNotFoundError):
                continue
    finally:
        done.set()
        other.join()
    assert [path.read_bytes() for path in sorted(outside.rglob("x"))] == [b"secret"] * 2
    assert len(list(outside.rglob("*"))) == 3


def test_a_link_to_itself_in_a_threads_folder_is_an_error_of_ours(tmp_path: Path) -> None:
    """The system has its own: a loop of links cannot be resolved."""
    files = Workspace(tmp_path / "files")
    files.write("t", "a", b"x")
    (files.folder("t") / "loop").symlink_to(files.folder("t") / "loop")
    with pytest.raises(HistoryError):
        files.read("t", "loop/x")


def test_a_pipe_in_a_threads_folder_does_not_hold_a_reader(tmp_path: Path) -> None:
    """To open one would wait for its writer."""
    files = Workspace(tmp_path / "files")
    files.write("t", "a", b"x")
    os.mkfifo(files.folder("t") / "pipe")
    with pytest.raises(HistoryError):
        files.read("t", "pipe")
    assert files.files("t") == ["a"]
