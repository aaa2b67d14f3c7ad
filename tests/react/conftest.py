"""The example page, built once with the npm packages as they are."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "react_support"
INSTALL = 240
"""Seconds that npm may take."""


@pytest.fixture(scope="session")
def node() -> str:
    """The program `node`."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    return found


@pytest.fixture(scope="session")
def packages(node: str) -> Path:
    """A folder with the example's npm packages; kept between runs of the tests."""
    return _installed(EXAMPLE, "react")


@pytest.fixture(scope="session")
def front_ends(node: str) -> Path:
    """A folder with the packages of the other front ends; kept between runs of the tests."""
    return _installed(ROOT / "examples" / "front_ends", "front-ends")


def _installed(example: Path, title: str) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    wanted = hashlib.sha256((example / "package.json").read_bytes()).hexdigest()[:12]
    folder = ROOT / ".cache" / f"{title}-{wanted}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "installed"
    with _alone(folder / "lock"):
        if not done.exists():
            for name in ("package.json", ".npmrc"):
                shutil.copy(example / name, folder / name)
            _install(npm, folder)
            done.touch()
    return folder


def _install(npm: str, folder: Path) -> None:
    command = [npm, "install", "--ignore-scripts", "--no-progress", "--loglevel=error"]
    try:
        found = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install the packages in {INSTALL} s")
    if found.returncode:
        lines = found.stderr.strip().splitlines() or ["no reason given"]
        pytest.skip(f"npm cannot install the packages: {lines[0]}")


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    """One process at a time, where tests run in several."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def page(packages: Path, node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as Vite builds it."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("index.html", "package.json", "vite.config.js"):
        shutil.copy(EXAMPLE / name, folder / name)
    for name in ("src", "public"):
        shutil.copytree(EXAMPLE / name, folder / name)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    vite = packages / "node_modules" / "vite" / "bin" / "vite.js"
    built = subprocess.run(
        [node, str(vite), "build"],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=INSTALL,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "dist"
