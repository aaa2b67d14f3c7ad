"""Workspace: files of threads, in a folder for each, which file names cannot leave."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO
from uuid import uuid4

from agentkit_py.errors import ConfigurationError, HistoryError

_MB = 1_000_000

# What systems without these lack is 0 or False: there, names are only checked before.
_IS_RELATIVE = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class Workspace:
    """A folder with a folder for each thread: ``store.workspace = Workspace("files")``.

    Names of files are relative paths with ``/``; none can lead out of its thread's folder, not
    through a link either, and not where a link is put there meanwhile (on systems that open
    files relative to an open folder: Linux, macOS). Files and folders are their owner's alone
    (0600, 0700). The files are deleted with their thread.

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
            max_file: Bytes of a file at the most.
            max_thread: Bytes of all files of a thread at the most.
            keep: Folders without a write for so long are removed by the next write of
                another thread; None: they stay until their thread is deleted.

        Raises:
            ConfigurationError: A limit is not positive.
        """
        if max_file <= 0 or max_thread <= 0:
            raise ConfigurationError("Workspace: max_file and max_thread must be more than 0.")
        self._root: Path = Path(root).absolute()
        self._max_file = max_file
        self._max_thread = max_thread
        self._keep = keep

    @property
    def root(self) -> Path:
        """The folder that holds the threads' files."""
        return self._root

    def folder(self, thread_id: str) -> Path:
        """Return the thread's folder; its name is a digest of the id, which may hold anything."""
        name = blake2b(thread_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return self._root / name

    def path(self, thread_id: str, name: str) -> Path:
        """Return the path of a file of a thread.

        Raises:
            HistoryError: The name leads out of the thread's folder, is none, or cannot be used.
        """
        folder = self.folder(thread_id)
        parts = PurePosixPath(name).parts
        odd = not parts or ".." in parts or "\0" in name or "\\" in name
        if odd or PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive:
            raise HistoryError(f"{name!r:.80} is not a name of a file in a thread's folder.")
        found = folder.joinpath(*parts)
        try:
            is_inside = found.resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError) as error:
            problem = "its folders change meanwhile, or link to themselves"
            raise HistoryError(f"{name!r:.80} cannot be used: {problem}.") from error
        if not is_inside:
            raise HistoryError(f"{name!r:.80} leads out of the thread's folder.")
        return found

    def write(self, thread_id: str, name: str, content: bytes | str) -> Path:
        """Write a whole file, replacing an existing file; its folders are created.

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
        new = f"{path.name}.{os.getpid()}.new"
        with self._folder_of(thread_id, name, create=True) as folder:
            with folder.open(new, _NEW_FILE) as file:
                file.write(data)
            folder.replace(new, path.name)
        os.utime(self.folder(thread_id), follow_symlinks=False)
        return path

    def read(self, thread_id: str, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            HistoryError: The name leads out of the folder, or the file does not exist.
        """
        path = self.path(thread_id, name)
        if not path.is_file():
            raise HistoryError(f"The thread has no file {name!r:.80}.")
        with (
            self._folder_of(thread_id, name, create=False) as folder,
            folder.open(path.name, os.O_RDONLY | _NO_WAIT) as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise HistoryError(f"{name!r:.80} is not a file.")
            return file.read()

    @contextmanager
    def _folder_of(self, thread_id: str, name: str, *, create: bool) -> Generator[_Folder]:
        """Open the folder that a file is in, step by step from the root; no step is a link."""
        if create:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _Folder(self._root)
        try:
            for step in (self.folder(thread_id).name, *PurePosixPath(name).parts[:-1]):
                folder.enter(step, create=create)
            yield folder
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise HistoryError(f"{name!r:.80} leads out of the thread's folder.") from error
            raise HistoryError(f"{name!r:.80} cannot be used: {error.strerror}.") from error
        finally:
            folder.close()

    def files(self, thread_id: str) -> list[str]:
        """Return the names of a thread's files, sorted."""
        return sorted(name for name, _ in self._files(thread_id))

    def _files(self, thread_id: str) -> Iterator[tuple[str, int]]:
        """Yield names and sizes; links are not followed, deleted files are left out."""
        folder = self.folder(thread_id)
        for place, _, names in os.walk(folder):
            for name in names:
                path = Path(place, name)
                with suppress(OSError):
                    found = path.lstat()
                    if stat.S_ISREG(found.st_mode):
                        yield path.relative_to(folder).as_posix(), found.st_size

    def copy(self, thread_id: str) -> str:
        """Copy a thread's files; return the id that they have until `give` or `remove`."""
        new = f"{thread_id} {uuid4().hex}"
        try:
            for name in self.files(thread_id):
                data = self.read(thread_id, name)
                with (
                    self._folder_of(new, name, create=True) as folder,
                    folder.open(PurePosixPath(name).name, _NEW_FILE) as file,
                ):
                    file.write(data)
        except Exception:
            self.remove(new)
            raise
        return new

    def give(self, copy: str, thread_id: str) -> None:
        """Give a copy to a thread that has no files."""
        there = self.folder(thread_id)
        if not there.exists() and self.folder(copy).exists():
            self.folder(copy).rename(there)

    def size(self, thread_id: str) -> int:
        """Return the bytes of all files of a thread."""
        return sum(size for _, size in self._files(thread_id))

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
        folders = list(self._root.iterdir()) if self._root.is_dir() else []
        old = [f for f in folders if f != stays and f.is_dir() and f.stat().st_mtime < end]
        return sum(map(_remove, old))


class _Folder:
    """An open folder, whose files are opened relative to it where the system can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number: int | None = os.open(path, _OPEN_FOLDER) if _IS_RELATIVE else None

    def enter(self, name: str, *, create: bool) -> None:
        """Go into a folder in it."""
        if create:
            with suppress(FileExistsError):
                os.mkdir(self._place(name), 0o700, dir_fd=self._number)
        if self._number is not None:
            inner = os.open(name, _OPEN_FOLDER, dir_fd=self._number)
            os.close(self._number)
            self._number = inner
        self._path /= name

    def open(self, name: str, flags: int) -> BinaryIO:
        """Open a file in it; a link is refused."""
        number = os.open(self._place(name), flags | _NO_LINK, 0o600, dir_fd=self._number)
        return os.fdopen(number, "wb" if flags & os.O_WRONLY else "rb")

    def replace(self, old: str, new: str) -> None:
        """Give a file in it another's name."""
        number = self._number
        os.replace(self._place(old), self._place(new), src_dir_fd=number, dst_dir_fd=number)

    def close(self) -> None:
        """Close it."""
        if self._number is not None:
            os.close(self._number)

    def _place(self, name: str) -> str:
        return name if self._number is not None else str(self._path / name)


def _remove(folder: Path) -> bool:
    if folder.is_symlink():
        folder.unlink()
        return True
    if not folder.is_dir():
        return False
    shutil.rmtree(folder)
    return True
