"""Where the scenarios run: on the real server, or on `ReplayExecutor`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import inngest

from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.inngest.realtime import TOPIC, channel_of
from agentkit_py.inngest.runtime import Inference
from agentkit_py.testing import FakeProvider, ReceivedRequest
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run

from .server import ServerClient, WorkerProcess, eventually
from .support import APP, Books, functions_of

Status: TypeAlias = Literal["completed", "failed", "cancelled"]
Replies: TypeAlias = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class End:
    """The status and output of a run that has ended."""

    status: Status
    output: Any = None


class Cast:
    """The model: replies by customer (who is in the user's message) and agent.

    A request that comes again, byte for byte, gets the same reply again: the server may try twice.
    """

    def __init__(self) -> None:
        self._left: dict[str, dict[str, list[Any]]] = {}
        self._given: dict[str, Any] = {}

    def read(self, reply: str) -> list[str]:
        """The texts of the request that got this reply."""
        bodies = [json.loads(key) for key, given in self._given.items() if given == reply]
        return [message["content"] for body in bodies for message in body["messages"]]

    def says(self, customer: str, replies: Replies) -> None:
        """Set the agents' replies to this customer."""
        self._left[customer] = {name: list(given) for name, given in replies.items()}

    def __call__(self, request: ReceivedRequest) -> Any:
        body: Any = request.body
        key = json.dumps(body, sort_keys=True)
        if key not in self._given:
            customers = re.findall(r"I am (customer-\w+)", key)
            agent = body["messages"][0]["content"].split()[0]
            left = self._left[customers[-1]][agent]
            self._given[key] = left.pop(0)
        return self._given[key]


class Place(Protocol):
    """The environment of a scenario: the real Dev Server, or the replay executor."""

    model: Cast
    books: Books
    folder: Path
    inference: Inference

    async def start(self, name: str, data: dict[str, Any]) -> Any:
        """Send an event; gives the run that it starts."""
        ...

    async def send(self, name: str, data: dict[str, Any]) -> None:
        """Send an event."""
        ...

    async def waits(self, run: Any, step: str) -> None:
        """Wait until the run is in a step whose name ends so."""
        ...

    async def answer(self, run: Any, data: dict[str, Any]) -> None:
        """Answer the question that the run waits with."""
        ...

    async def end(self, run: Any) -> End:
        """Wait for the run's end and return it."""
        ...

    async def steps(self, run: Any) -> list[str]:
        """Names of the steps that are done."""
        ...

    def restart(self) -> None:
        """Kill the worker, and start it again."""
        ...

    def listening(self, user: str) -> AbstractAsyncContextManager[Callable[[], list[Any]]]:
        """The chunks that were published to a user, inside the block."""
        ...


class ReplayPlace:
    """`ReplayExecutor`, everywhere."""

    def __init__(self, folder: Path, *, kill: KillAt | Sequence[KillAt] = ()) -> None:
        self.model = Cast()
        self.folder = folder
        self.inference: Inference = "offload"
        self.books = Books(folder / "books.db")
        self._fake = FakeProvider(self.model)
        client = inngest.Inngest(app_id=APP, is_production=False)

        def functions() -> list[inngest.Function[Any]]:
            url = "https://model.invalid/v1"
            return functions_of(client, model_url=url, folder=folder, inference="offload")

        transport = self._fake.transport
        self.executor = ReplayExecutor(
            client, functions, transport=transport, kill=kill, check=not kill
        )

    async def start(self, name: str, data: dict[str, Any]) -> Run:
        return await self.executor.start(name, data)

    async def send(self, name: str, data: dict[str, Any]) -> None:
        await self.executor.send_event(name, data)

    async def waits(self, run: Run, step: str) -> None:
        assert [wait.step.name.endswith(step) for wait in run.waits.values()] == [True]

    async def answer(self, run: Run, data: dict[str, Any]) -> None:
        (wait,) = run.waits.values()
        await self.send(APPROVAL_EVENT, {"approvalId": _question(wait.expression), **data})

    async def end(self, run: Run) -> End:
        if run.status == "running":
            await self.executor.finish(run)
        assert run.differences == []
        assert run.status != "running"
        return End(run.status, run.output if run.error is None else run.error)

    async def steps(self, run: Run) -> list[str]:
        return run.names

    def restart(self) -> None:
        self.executor.restart()

    @asynccontextmanager
    async def listening(self, user: str) -> AsyncGenerator[Callable[[], list[Any]]]:
        channel = channel_of(user)
        yield lambda: [one.data for one in self.executor.published if one.channel == channel]


class ServerPlace:
    """The Inngest Dev Server, and a worker in a process of its own."""

    def __init__(self, client: ServerClient, worker: WorkerProcess, model: Cast, folder: Path):
        self.model = model
        self.books = Books(folder / "books.db")
        self.folder = folder
        self.inference: Inference = worker.inference
        self.client = client
        self._worker = worker

    async def start(self, name: str, data: dict[str, Any]) -> str:
        own = name.replace(f"{APP}/", f"{self._worker.app}/")
        return await self.client.run_of(await self.client.send(own, data))

    async def send(self, name: str, data: dict[str, Any]) -> None:
        await self.client.send(name, data)

    async def _waiting(self, run: str) -> list[dict[str, Any]]:
        return [span for span in await self.spans(run) if span["status"] == "WAITING"]

    async def spans(self, run: str) -> list[dict[str, Any]]:
        """Return the steps as the server shows them."""
        found = await self.client.look_at(run)
        trace: dict[str, Any] = found.get("trace") or {}
        return trace.get("childrenSpans") or []

    async def waits(self, run: str, step: str) -> None:
        async def look() -> bool | None:
            names = [span["name"] for span in await self._waiting(run)]
            return any(name.endswith(step) for name in names) or None

        await eventually(look, f"{run} to wait in {step}")

    async def answer(self, run: str, data: dict[str, Any]) -> None:
        (span,) = await self._waiting(run)
        question = _question(span["stepInfo"]["expression"])
        await self.send(APPROVAL_EVENT, {"approvalId": question, **data})

    async def end(self, run: str) -> End:
        found = await self.client.ended(run)
        output = found["output"]
        status: Any = found["status"].lower()
        return End(status, json.loads(output) if isinstance(output, str) else output)

    async def steps(self, run: str) -> list[str]:
        spans = await self.spans(run)
        inner: list[dict[str, Any]] = [c for span in spans for c in span.get("childrenSpans") or ()]
        done = [s for s in [*spans, *inner] if s["status"] == "COMPLETED" and s["stepOp"]]
        return list(dict.fromkeys(span["name"] for span in done))

    def restart(self) -> None:
        self._worker.kill()
        self._worker.start()

    @asynccontextmanager
    async def listening(self, user: str) -> AsyncGenerator[Callable[[], list[Any]]]:
        async with self.client.listening(channel_of(user), TOPIC) as received:
            await asyncio.sleep(0)
            yield lambda: [one["data"] for one in received if one.get("kind") == "data"]


def _question(expression: str | None) -> str:
    found = re.search(r"'([0-9a-f-]+)'", expression or "")
    assert found is not None
    return found[1]
