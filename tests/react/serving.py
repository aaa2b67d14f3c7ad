"""The example's Python server as its own process, in both modes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import httpx

Mode: TypeAlias = Literal["in-process", "inngest"]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "react_support"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@contextmanager
def in_process(page: Path, folder: Path, port: int | None = None) -> Generator[str]:
    """Runs are tasks of the server; gives its address."""
    with _uvicorn("app:app", port or free_ports(1)[0], page, folder, {}) as (url, _):
        yield url


@contextmanager
def killed_in_the_end(page: Path, folder: Path, port: int) -> Generator[str]:
    """The same, and it dies without a chance to end anything."""
    with _uvicorn("app:app", port, page, folder, {}) as (url, process):
        yield url
        process.kill()


@contextmanager
def inngest(program: str, page: Path, folder: Path) -> Generator[str]:
    """Runs are functions of a Dev Server; gives the address of the Python server."""
    own, port, *others = free_ports(5)
    command = [program, "dev", "--no-discovery", "--no-poll", "--host", "127.0.0.1"]
    names = ("connect-gateway-port", "connect-gateway-grpc-port", "connect-executor-grpc-port")
    for name, number in zip(("port", *names), (port, *others), strict=True):
        command += [f"--{name}", str(number)]
    command += ["--tick", "10", "--retry-interval", "1"]
    environment = {**os.environ, "DO_NOT_TRACK": "1"}
    server = f"http://127.0.0.1:{port}"
    with _process(command, folder, environment, folder / "inngest.log", f"{server}/health"):
        variables = {"INNGEST_DEV": "1", "INNGEST_BASE_URL": server}
        with _uvicorn("inngest_app:app", own, page, folder, variables) as (url, _):
            no_limit = httpx.Timeout(None)
            registered = httpx.put(f"{url}/api/inngest", trust_env=False, timeout=no_limit)
            assert registered.status_code == 200, registered.text
            yield url


@contextmanager
def _uvicorn(
    app: str, port: int, page: Path, folder: Path, variables: dict[str, str]
) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "warning"]
    environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    environment |= {
        "AGENTKIT_TIKTOKEN_TIMEOUT": "0",
        "DESK_PAGE": str(page),
        "DESK_THREADS": str(folder / "threads.db"),
        "DESK_FILES": str(folder / "files"),
        "DESK_SECRET": "desk" * 8,
        **variables,
    }
    url = f"http://127.0.0.1:{port}"
    with _process(
        command, EXAMPLE, environment, folder / "server.log", f"{url}/openapi.json"
    ) as process:
        yield url, process


@contextmanager
def _process(
    command: list[str], folder: Path, environment: dict[str, str], log: Path, url: str
) -> Generator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _until_up(url, process, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        try:
            if httpx.get(url, trust_env=False).status_code < 500:
                return
        except httpx.TransportError:
            pass
        text = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"it ended with {process.returncode}: {text}"
        time.sleep(0.05)
