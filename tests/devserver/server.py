"""The Inngest Dev Server and a worker, started and asked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from agentkit_py.inngest.runtime import Inference

from .support import app_of

T = TypeVar("T")
PATIENCE = float(os.environ.get("AGENTKIT_PATIENCE", "90"))
"""Seconds until something that must happen has not happened; a schedule's shortest time is 60."""

_ROOT = Path(__file__).resolve().parents[2]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def program() -> str | None:
    """Return the path of the `inngest` program."""
    return shutil.which("inngest")


def start_server(binary: str, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the program on loopback only; gives the process and its address."""
    port, gateway, gateway_grpc, executor_grpc = free_ports(4)
    # A busy port would be replaced silently, and --host does not cover the connect ports.
    command = [binary, "dev", "--no-discovery", "--no-poll", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--connect-gateway-port", str(gateway)]
    command += ["--connect-gateway-grpc-port", str(gateway_grpc)]
    command += ["--connect-executor-grpc-port", str(executor_grpc)]
    command += ["--tick", "10", "--retry-interval", "1"]
    environment = {**os.environ, "DO_NOT_TRACK": "1"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    _until_up(f"{url}/health", process, folder / "server.log")
    return process, url


def _until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        try:
            return httpx.get(url, trust_env=False).status_code < 500
        except httpx.TransportError:
            return False

    _until(answers, process, log, f"an answer at {url}")


def _until(
    happens: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str
) -> None:
    until = time.monotonic() + PATIENCE
    while not happens():
        text = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"it ended with {process.returncode}: {text}"
        assert time.monotonic() < until, f"waited for {what}: {text}"
        time.sleep(0.05)


class WorkerProcess:
    """The process that serves the functions; it can be killed and started again."""

    def __init__(
        self,
        server_url: str,
        model_url: str,
        folder: Path,
        inference: Inference,
        *,
        connects: str | None = None,
        world: str = "support",
    ) -> None:
        """Keep what it needs.

        Args:
            server_url: Address of the server.
            model_url: Address of the models' provider.
            folder: Where its files are.
            inference: Who asks the models.
            connects: Its name where it calls the server itself.
            world: The module whose functions it serves.
        """
        self.server_url, self._model_url, self._folder = server_url, model_url, folder
        self.inference: Inference = inference
        self._connects = connects
        self._world = world
        self.app = app_of(world, inference, connects=connects is not None)
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the functions."""
        return f"http://127.0.0.1:{self._port}/api/inngest"

    def start(self) -> None:
        """Start it, and tell the server of its functions."""
        command = [sys.executable, "-m", "tests.devserver.worker", self._world]
        command += [str(self._port), self._model_url, str(self._folder), self.inference]
        connected = self._folder / f"connected-{self._connects}"
        connected.unlink(missing_ok=True)
        command += [] if self._connects is None else [str(connected)]
        log = self._folder / "worker.log"
        # The worker writes on after the handle here is closed.
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                env={
                    **os.environ,
                    "INNGEST_DEV": "1",
                    "INNGEST_BASE_URL": self.server_url,
                    "AGENTKIT_TIKTOKEN_TIMEOUT": "0",
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        if self._connects is not None:
            _until(connected.exists, self._process, log, str(connected))
            return
        _until_up(self.url, self._process, log)
        registered = httpx.put(self.url, trust_env=False, timeout=30)
        assert registered.status_code == 200, registered.text

    @contextmanager
    def started(self) -> Generator[None]:
        """Run it inside the block."""
        self.start()
        try:
            yield
        finally:
            self.kill()

    def kill(self) -> None:
        """End it without any warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve_module(
    module: str, folder: Path, variables: dict[str, str], *, connects: bool = False
) -> subprocess.Popen[str]:
    """``agentkit serve`` in a folder, once the server knows of it."""
    how = ["--connect"] if connects else ["--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentkit_py.cli", "serve", module, *how],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    if connects:
        said = iter(process.stdout.readline, "")
        assert any(line.startswith("Connected.") for line in said)
        return process
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    registered = httpx.put(found[0], trust_env=False, timeout=30)
    assert registered.status_code == 200, registered.text
    return process


async def eventually(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Poll ``look`` until it returns something, and return that."""
    until = time.monotonic() + PATIENCE
    while True:
        found = await look()
        if found is not None:
            return found
        assert time.monotonic() < until, f"waited {PATIENCE} s for {what}"
        await asyncio.sleep(0.05)


class ServerClient:
    """Asks the server. GraphQL, as its REST answers are cached for seconds."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=30)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, name: str, data: dict[str, Any]) -> str:
        """Send an event; gives its id."""
        answer = await self._http.post("/e/key", json={"name": name, "data": data})
        return answer.json()["ids"][0]

    async def _ask(self, query: str, **variables: Any) -> dict[str, Any] | None:
        body = {"query": query, "variables": variables}
        answer = (await self._http.post("/v0/gql", json=body)).json()
        return None if answer.get("errors") else answer["data"]

    async def run_of(self, event_id: str) -> str:
        """The run that the event started."""
        query = "query($e: ID!) { event(query: {eventId: $e}) { functionRuns { id } } }"

        async def look() -> str | None:
            found = await self._ask(query, e=event_id)
            event: dict[str, Any] = (found or {}).get("event") or {}
            runs: list[dict[str, str]] = event.get("functionRuns") or []
            return runs[0]["id"] if runs else None

        return await eventually(look, f"a run of the event {event_id}")

    async def look_at(self, run_id: str) -> dict[str, Any]:
        """Status, begin, output and steps of a run."""
        wait = "stepInfo { ... on WaitForEventStepInfo { expression } }"
        span = f"name status stepOp attempts outputID {wait}"
        query = (
            "query($r: String!) { run(runID: $r) { status startedAt output trace { "
            f"childrenSpans {{ {span} childrenSpans {{ {span} }} }} }} }} }}"
        )
        found = await self._ask(query, r=run_id)
        return (found or {}).get("run") or {}

    async def shown(self, run_id: str, step: str) -> dict[str, Any]:
        """Return what the server shows of a step's model call, once it does."""
        query = (
            "query($r: String!) { run(runID: $r) { trace(preview: true) "
            "{ childrenSpans { name metadata { kind values } } } } }"
        )

        async def look() -> dict[str, Any] | None:
            found: dict[str, Any] = (await self._ask(query, r=run_id) or {}).get("run") or {}
            trace: dict[str, Any] = found.get("trace") or {}
            spans: list[dict[str, Any]] = trace.get("childrenSpans") or []
            lists: list[list[dict[str, Any]]] = [
                one["metadata"] for one in spans if one["name"] == step
            ]
            kept = [one for metadata in lists for one in metadata if one["kind"] == "inngest.ai"]
            return kept[0]["values"] if kept else None

        return await eventually(look, f"tokens of step {step}")

    async def output_of(self, span: dict[str, Any]) -> str:
        """Return what the server keeps of a step's output, as text."""
        query = "query($o: String!) { runTraceSpanOutputByID(outputID: $o) { data } }"
        found = await self._ask(query, o=span["outputID"])
        return json.dumps((found or {})["runTraceSpanOutputByID"]["data"])

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run, once it has ended and its output is there."""

        async def look() -> dict[str, Any] | None:
            run = await self.look_at(run_id)
            if run.get("status") == "CANCELLED":
                return run
            done = run.get("status") in ("COMPLETED", "FAILED")
            return run if done and run.get("output") is not None else None

        try:
            return await eventually(look, f"the end of run {run_id}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.look_at(run_id)}") from None

    async def cancel(self, run_id: str) -> None:
        """Cancel a run."""
        await self._http.delete(f"/v1/runs/{run_id}")

    async def cancel_on_page(self, run_id: str) -> None:
        """Cancel a run as the dashboard does."""
        await self._ask("mutation($r: ULID!) { cancelRun(runID: $r) { id } }", r=run_id)

    @asynccontextmanager
    async def listening(self, channel: str, topic: str) -> AsyncGenerator[list[Any]]:
        """Collects what is published to a channel, inside the block."""
        wanted = [{"channel": channel, "name": topic, "kind": "run"}]
        answer = await self._http.post("/v1/realtime/token", json=wanted)
        token = answer.json()["jwt"]
        received: list[Any] = []
        began = asyncio.Event()
        task = asyncio.create_task(self._listen(token, received, began))
        await asyncio.wait_for(began.wait(), PATIENCE)
        yield received
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _listen(self, token: str, received: list[Any], began: asyncio.Event) -> None:
        request = self._http.stream(
            "GET", "/v1/realtime/sse", params={"token": token}, timeout=None
        )
        async with request as response:
            began.set()
            async for line in response.aiter_lines():
                received += [json.loads(line[5:])] if line.startswith("data:") else []
