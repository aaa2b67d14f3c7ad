"""Workspace: files of threads, in one folder for each, which file names cannot leave."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path, PurePosixPath, PureWindowsPath

from agentkit_py.errors import ConfigurationError, HistoryError

_MB = 1_000_000


class Workspace:
    """A folder with a folder for each thread: ``store.workspace = Workspace("files")``.

    Names of files are relative paths with ``/``; none can lead out of its thread's folder, not
    through a link either. The files are deleted with their thread.

    Attributes:
        root: The folder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        max_file: int = 10 * _MB,
        max_thread: int = 100 * _MB,
        keep: timedelta | None = None,
    ) -> None:
        """Remember the folder; it is created by the first write.

        Args:
            root: The folder.
            max_file: Bytes of one file at the most.
            max_thread: Bytes of all files of a thread at the most.
            keep: Folders without a write for so long are removed by the next write of
                another thread; None: they stay until their thread is deleted.

        Raises:
            ConfigurationError: A limit is not positive.
        """
        if max_file <= 0 or max_thread <= 0:
            raise ConfigurationError("Workspace: max_file and max_thread must be more than 0.")
        self.root: Path = Path(root).absolute()
        self._max_file = max_file
        self._max_thread = max_thread
        self._keep = keep

    def folder(self, thread_id: str) -> Path:
        """Return the thread's folder; its name is a digest of the id, which may hold anything."""
        name = blake2b(thread_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return self.root / name

    def path(self, thread_id: str, name: str) -> Path:
        """Return the path of a file of a thread.

        Raises:
            HistoryError: The name leads out of the thread's folder, or is none.
        """
        folder = self.folder(thread_id)
        parts = PurePosixPath(name).parts
        odd = not parts or ".." in parts or "\0" in name or "\\" in name
        if odd or PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive:
            raise HistoryError(f"{name!r:.80} is no name of a file in a thread's folder.")
        found = folder.joinpath(*parts)
        if not found.resolve().is_relative_to(folder.resolve()):
            raise HistoryError(f"{name!r:.80} leads out of the thread's folder.")
        return found

    def write(self, thread_id: str, name: str, content: bytes | str) -> Path:
        """Write a whole file, replacing an existing one; its folders are created.

        Raises:
            HistoryError: The name leads out of the folder, or a limit is exceeded.
        """
        path = self.path(thread_id, name)
        data = content.encode() if isinstance(content, str) else content
        if len(data) > self._max_file:
            raise HistoryError(f"{name!r} has {len(data)} bytes, more than {self._max_file}.")
        before = path.stat().st_size if path.is_file() else 0
        total = self.size(thread_id) - before + len(data)
        if total > self._max_thread:
            raise HistoryError(
                f"With {name!r} the files of the thread would have {total} bytes, more than "
                f"{self._max_thread}."
            )
        if self._keep is not None:
            self.clean(self._keep, but=thread_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        new.write_bytes(data)
        new.replace(path)
        os.utime(self.folder(thread_id))
        return path

    def read(self, thread_id: str, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            HistoryError: The name leads out of the folder, or there is no such file.
        """
        path = self.path(thread_id, name)
        if not path.is_file():
            raise HistoryError(f"The thread has no file {name!r:.80}.")
        return path.read_bytes()

    def files(self, thread_id: str) -> list[str]:
        """Return the names of a thread's files, sorted."""
        folder = self.folder(thread_id)
        found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(path.relative_to(folder).as_posix() for path in found)

    def size(self, thread_id: str) -> int:
        """Return the bytes of all files of a thread."""
        return sum(self.path(thread_id, name).stat().st_size for name in self.files(thread_id))

    def remove(self, thread_id: str) -> bool:
        """Remove a thread's files; return False if there were none."""
        return _remove(self.folder(thread_id))

    def clean(self, older_than: timedelta, *, but: str | None = None) -> int:
        """Remove the files of threads without a write for so long.

        Args:
            older_than: How long.
            but: The thread whose files stay in any case.

        Returns:
            Of how many threads.
        """
        end = time.time() - older_than.total_seconds()
        stays = None if but is None else self.folder(but)
        folders = list(self.root.iterdir()) if self.root.is_dir() else []
        old = [f for f in folders if f != stays and f.is_dir() and f.stat().st_mtime < end]
        return sum(map(_remove, old))


def _remove(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    shutil.rmtree(folder)
    return True
