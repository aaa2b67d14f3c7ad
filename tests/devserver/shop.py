"""A shop whose functions run on the real server, and people who answer its questions."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import inngest

from agentkit_py import SqliteHistory
from agentkit_py.history.questions import Question
from agentkit_py.inngest.runtime import Inference
from agentkit_py.testing import FakeProvider

from .conftest import Working
from .places import Cast, ServerPlace
from .server import ServerClient, WorkerProcess, eventually
from .support import APP


class Shop:
    """Where the functions run, and the store of their threads."""

    def __init__(self, place: ServerPlace, store: SqliteHistory) -> None:
        self.place, self.store = place, store

    async def start(
        self, name: str, said_by: str, *, text: str = "", kind: str = "agent", **data: Any
    ) -> str:
        """Send a message of somebody; gives the run."""
        message = {"content": f"I am {said_by}.{text}", "id": f"message-of-{said_by}"}
        whose = {"threadId": said_by, "state": {"customer": said_by}, **data}
        return await self.place.start(f"{APP}/{kind}-{name}", {"input": message, **whose})

    async def text(self, run: str) -> str:
        """Wait until a run is completed; return its answer."""
        end = await self.place.end(run)
        assert end.status == "completed", end.output
        return end.output["text"]

    async def cancel(self, run: str) -> None:
        """Cancel a run by the server's API."""
        await self.place.client.cancel(run)

    async def fails(self, run: str) -> str:
        """Wait until a run has failed; return its error as text."""
        end = await self.place.end(run)
        assert end.status == "failed", end.output
        return json.dumps(end.output)

    async def say_more(self, agent: str, customer: str, again: str = "again") -> str:
        """Send another message of the customer; return all that its model reads."""
        again = f"{customer}{again}"
        self.place.model.says(again, {agent: [f"Hello again, {again}."]})
        run = await self.start(agent, again, threadId=customer)
        assert await self.text(run) == f"Hello again, {again}."
        return str(self.place.model.read(f"Hello again, {again}."))

    async def questions(self, customer: str, count: int = 1) -> list[Question]:
        """Return the open questions of a customer's thread, once there are so many."""

        async def look() -> list[Question] | None:
            found = await self.store.list_questions(thread_id=customer)
            return found if len(found) == count else None

        return await eventually(look, f"{count} questions of {customer}")

    async def waits(self, run: str, count: int) -> None:
        """Wait until so many calls of a run wait for a person."""

        async def look() -> bool | None:
            spans = await self.place.spans(run)
            return len([one for one in spans if one["status"] == "WAITING"]) == count or None

        await eventually(look, f"{run} to wait for {count} people")

    async def happens(self, customer: str, name: str) -> None:
        """Wait for an effect."""

        async def look() -> bool | None:
            return self.place.books.of(customer)[name] == 1 or None

        await eventually(look, f"{name!r} of {customer}")

    async def logs(self, words: str) -> None:
        """Wait until the worker says something."""
        log = self.place.folder / "worker.log"

        async def look() -> bool | None:
            return words in log.read_text(errors="replace") or None

        await eventually(look, f"{words!r} in the worker's log")


class Lost(inngest.Middleware):
    """No event leaves."""

    async def before_send_events(self, events: list[inngest.Event]) -> None:
        """Fail as a network does."""
        raise ConnectionError


class Unheard(inngest.Middleware):
    """Events leave, and the server's reply is lost."""

    async def after_send_events(self, result: inngest.SendEventsResult) -> None:
        """Fail as a network does."""
        raise ConnectionError


@asynccontextmanager
async def person(url: str, *middleware: Any) -> AsyncGenerator[inngest.Inngest]:
    """A client of somebody who answers; the SDK has no way of its own to close one."""
    client = inngest.Inngest(
        app_id="people", is_production=False, event_api_base_url=url, middleware=[*middleware]
    )
    yield client
    connections: Any = client._http_client  # pyright: ignore[reportPrivateUsage] - see above
    await connections._http_client.aclose()
    connections._http_client_sync.close()


@contextmanager
def serving(
    world: str, server_url: str, folder: Path, inference: Inference = "local"
) -> Generator[Working]:
    """Run a worker with the functions of a module, and the provider of its models."""
    model = Cast()
    with FakeProvider(model) as provider:
        url = provider.base_url("openai")
        worker = WorkerProcess(server_url, url, folder, inference, world=world)
        with worker.started():
            yield worker, model, folder
        assert provider.rejections == []


@asynccontextmanager
async def opened(working: Working, store: SqliteHistory) -> AsyncGenerator[Shop]:
    """Open the shop of a worker, with the store of its threads."""
    worker, model, folder = working
    client = ServerClient(worker.server_url)
    async with store:
        yield Shop(ServerPlace(client, worker, model, folder), store)
    await client.close()
