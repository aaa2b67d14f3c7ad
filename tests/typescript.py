"""The TypeScript package in Node, for tests that run programs with it.

Tests run in several processes: whichever comes first installs the packages, the others wait for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".cache"
PACKAGES = Path(__file__).parent / "node" / "package.json"


class NodeMissingError(Exception):
    """Node, npm or the package cannot be had here."""


def folder_of(name: str, files: Iterable[Path]) -> Path:
    """Return a folder with copies of programs, which find the npm packages there.

    Args:
        name: The folder's, the same for each process that asks for these programs.
        files: The programs; folders are copied as a whole.

    Raises:
        NodeMissingError: The packages cannot be installed.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NodeMissingError(f"{program} is not installed: TypeScript's package runs in Node")
    wanted = hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:12]
    installed, folder = CACHE / f"typescript-{wanted}", CACHE / f"typescript-{name}"
    for one in (installed, folder):
        one.mkdir(parents=True, exist_ok=True)
    with alone(installed / "lock"):
        if not (installed / "done").exists():
            _install(installed)
        for file in files:
            _copy(file, folder / file.name)
        link = folder / "node_modules"
        if not link.is_symlink() or link.readlink() != installed / "node_modules":
            link.unlink(missing_ok=True)
            link.symlink_to(installed / "node_modules")
    return folder


def _install(folder: Path) -> None:
    shutil.copy(PACKAGES, folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--no-progress"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NodeMissingError(f"npm cannot install TypeScript's package: {done.stderr[-300:]}")
    (folder / "done").touch()


def _copy(file: Path, target: Path) -> None:
    """Copy what has changed: another process may read it now."""
    if file.is_dir():
        target.mkdir(exist_ok=True)
        for one in file.iterdir():
            _copy(one, target / one.name)
    elif not target.exists() or target.read_bytes() != file.read_bytes():
        shutil.copy(file, target)


@contextmanager
def alone(lock: Path) -> Generator[None]:
    """One process at a time."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
