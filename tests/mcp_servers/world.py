"""The servers that tests start, and small helpers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from agentkit_py.mcp import MCPServer, Stdio

SERVERS = Path(__file__).parent / "servers"
MODERN = str(SERVERS / "modern.py")
HANDWRITTEN = str(SERVERS / "handwritten.py")


def modern(folder: Path, name: str = "m", **options: Any) -> MCPServer:
    """The server made with the SDK, over stdio."""
    return MCPServer(name, Stdio(sys.executable, [MODERN, "stdio", str(folder)]), **options)


def handwritten(name: str = "h", mode: str = "tools", **options: Any) -> MCPServer:
    """The server of the older protocol that does what it should not."""
    return MCPServer(name, Stdio(sys.executable, [HANDWRITTEN, mode]), **options)


class Served:
    """A server over HTTP."""

    def __init__(self, how: str, folder: Path, port: int = 0) -> None:
        command = [sys.executable, MODERN, how, str(folder), str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        found = re.match(r"port (\d+)", self._process.stdout.readline())
        assert found is not None
        self.port = int(found[1])
        path = "mcp" if how == "http" else "sse"
        self.url = f"http://127.0.0.1:{self.port}/{path}"

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def served(how: str, folder: Path, port: int = 0) -> Generator[Served]:
    """A server over HTTP, ended afterwards."""
    made = Served(how, folder, port)
    try:
        yield made
    finally:
        made.kill()


def notes(folder: Path) -> list[str]:
    """Return the notes that a server wrote."""
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


def text_of(value: Any) -> str:
    """The first text of a result."""
    return value[0]["text"]


def said(value: Any) -> dict[str, Any]:
    """Return the JSON in a result of the handwritten server."""
    return json.loads(text_of(value))


def is_alive(pid: int) -> bool:
    """Return whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class ProgressLog:
    """The progress that servers reported."""

    def __init__(self) -> None:
        self.facts: list[tuple[str, float, float | None, str | None]] = []

    def __call__(self, tool: str, done: float, total: float | None, words: str | None) -> None:
        self.facts.append((tool, done, total, words))


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds that another process brings about."""
    with anyio.fail_after(120):
        while not holds():  # noqa: ASYNC110 - of another process there is no event
            await anyio.sleep(0.01)
