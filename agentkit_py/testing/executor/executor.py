"""ReplayExecutor: the Inngest server's part, played strictly and at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import httpx
import inngest

from agentkit_py.errors import ConfigurationError, ScriptError
from agentkit_py.testing.executor.api import Published, ServerTransport
from agentkit_py.testing.executor.expressions import matches
from agentkit_py.testing.executor.opcodes import Opcodes
from agentkit_py.testing.executor.records import JournalEntry, KillAt, Run, Wait
from agentkit_py.testing.executor.requests import Requests
from agentkit_py.testing.executor.schedule import Schedule
from agentkit_py.testing.executor.sdk import Config, Connection, Worker

Functions: TypeAlias = Sequence[inngest.Function[Any]]

Answerer: TypeAlias = Callable[[Wait], Mapping[str, Any] | None]
"""What a person would send to a run that waits: the event's data; None: nothing comes."""


class ReplayExecutor:
    """Runs Inngest functions as the server does, and more strictly than any server.

    Each request goes through the SDK's own handler; each output through JSON. A function is called
    from its top for each step. Time is virtual: sleeps, retries and time-outs happen at once.

    Example:
        ::

            executor = ReplayExecutor(client, functions, transport=fake.transport)
            run = await executor.run("app/network-support", {"input": "Where is my order?"})
            assert run.status == "completed"

    Attributes:
        runs: All runs, invoked ones too, in the order in which they began.
        journal: Every request to the worker.
        events: Every event that was sent.
        published: Every realtime message.
    """

    def __init__(
        self,
        client: inngest.Inngest,
        functions: Functions | Callable[[], Functions],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        seed: int | None = 0,
        kill: KillAt | Sequence[KillAt] = (),
        check: bool = False,
        discovery: Literal["joined", "eager"] = "joined",
    ) -> None:
        """Register the functions.

        Args:
            client: The functions' client, in development mode.
            functions: The functions, or what makes them: called again after each kill.
            transport: Where the AI gateway sends the requests of ``step.ai.infer``.
            seed: Decides in which order things happen that may happen in any; None: as they came.
            kill: When the worker dies.
            check: Send each request twice, the first time without running a step, and compare.
            discovery: When what follows parallel steps is looked for: once all are done, or (as
                with ``ParallelMode.RACE``, and on older servers) after each.
        """
        make = functions if callable(functions) else lambda: functions
        self._make = partial(_made, client, make)
        self.worker: Worker = self._make()
        self.client = client
        self.transport = transport
        self.schedule: Schedule = Schedule(seed)
        self.eager: bool = discovery == "eager"
        self.check = check
        self.kills: list[KillAt] = [kill] if isinstance(kill, KillAt) else list(kill)
        self.runs: list[Run] = []
        self.journal: list[JournalEntry] = []
        self.events: list[dict[str, Any]] = []
        self.published: list[Published] = []
        self.connection: Connection = Connection(client, ServerTransport(self))
        self._requests = Requests(self, Opcodes(self))

    @property
    def configs(self) -> dict[str, Config]:
        """The functions that are registered, by id."""
        return self.worker.configs

    def restart(self) -> None:
        """Go on with a new worker process."""
        self.worker = self._make()

    async def run(
        self,
        target: str | inngest.Function[Any],
        data: Mapping[str, Any] | None = None,
        *,
        answer: Answerer | None = None,
    ) -> Run:
        """Start a function and let time pass until it has ended.

        Args:
            target: The name of an event that starts it, or the function itself.
            data: The event's data.
            answer: Asked for each event that the run comes to wait for; unanswered waits time out.

        Raises:
            ScriptError: The event starts no function.
        """
        return await self.finish(await self.start(target, data), answer=answer)

    async def start(
        self, target: str | inngest.Function[Any], data: Mapping[str, Any] | None = None
    ) -> Run:
        """Start a function, and go on until it has ended or waits for an event."""
        before = len(self.runs)
        if isinstance(target, str):
            self.receive({"name": target, "data": dict(data or {})})
        else:
            name = next(iter(self.configs[target.id].triggers), ("inngest/invoked", None))[0]
            self.begin(target.id, self._event({"name": name, "data": dict(data or {})}))
        if len(self.runs) == before:
            raise ScriptError(f"The event {target!r} starts none of {', '.join(self.configs)}")
        run = self.runs[before]
        await self._drive(lambda: run.status != "running")
        return run

    async def finish(self, run: Run, *, answer: Answerer | None = None) -> Run:
        """Let time pass until ``run`` has ended."""
        asked: set[Wait] = set()
        while run.status == "running":
            await self._drive(lambda: run.status != "running")
            wait = next((w for w in self._waits() if w not in asked), None)
            if answer is not None and wait is not None:
                asked.add(wait)
                given = answer(wait)
                if given is not None:
                    self.receive({"name": wait.event, "data": dict(given)})
                continue
            if run.status == "running" and not await self._once(patience=True):
                raise ScriptError(f"The run {run.id} has not ended, and nothing is left to do")
        return run

    async def send_event(self, name: str, data: Mapping[str, Any] | None = None) -> list[Run]:
        """Send an event and do what follows from it; gives the runs that it started."""
        before = len(self.runs)
        self.receive({"name": name, "data": dict(data or {})})
        await self._drive(lambda: False)
        return self.runs[before:]

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, time-outs included."""
        limit = self.schedule.now + seconds
        while await self._once(patience=True, limit=limit):
            pass
        self.schedule.now = limit

    # What the server's other parts use.

    def receive(self, event: dict[str, Any]) -> str:
        """Take an event: whoever waits goes on, and what it triggers begins."""
        event = self._event(event)
        if any(known["id"] == event["id"] for known in self.events):
            return event["id"]
        self.events.append(event)
        for run in [run for run in self.runs if run.status == "running"]:
            self._tell(run, event)
        for config in list(self.configs.values()):
            if any(_is_about(event, *trigger) for trigger in config.triggers):
                self.begin(config.id, event)
        return event["id"]

    def stored(self, run_id: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A run's events and remembered steps."""
        run = next(run for run in self.runs if run.id == run_id)
        return run.events, run.memos

    def begin(
        self, function: str, event: dict[str, Any], invoked_by: tuple[Run, str] | None = None
    ) -> Run:
        """Begin a run of a function."""
        run = Run(
            id=f"01RUN{len(self.runs):021d}",
            function=function,
            events=[json.loads(json.dumps(event))],
            max_attempts=self.configs[function].max_attempts,
            invoked_by=invoked_by,
        )
        self.runs.append(run)
        self.schedule.add(partial(self._requests.send, run))
        return run

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        number = len(self.events) + len(self.runs)
        filled = {"id": f"01EVENT{number:019d}", "ts": int(self.schedule.now * 1000)}
        return json.loads(json.dumps({**filled, **{k: v for k, v in event.items() if v}}))

    def _tell(self, run: Run, event: dict[str, Any]) -> None:
        for cancel in self.configs[run.function].cancels:
            if _is_about(event, *cancel, run.events[0]):
                run.status = "cancelled"
                return
        for wait in list(run.waits.values()):
            if _is_about(event, wait.event, wait.expression, run.events[0]):
                del run.waits[wait.step.id]
                self._requests.opcodes.done(run, wait.step, event)

    def _waits(self) -> list[Wait]:
        running = (run for run in self.runs if run.status == "running")
        return [wait for run in running for wait in run.waits.values()]

    async def _drive(self, until: Callable[[], bool]) -> None:
        while not until() and await self._once(patience=False):
            pass

    async def _once(self, *, patience: bool, limit: float | None = None) -> bool:
        action = self.schedule.pop(patience=patience, limit=limit)
        if action is None:
            return False
        with self.connection.use():
            await action()
        return True


def _made(client: inngest.Inngest, make: Callable[[], Functions]) -> Worker:
    functions = list(make())
    names = [function.id for function in functions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"Two functions are called {twice[0]!r}")
    return Worker(client, functions)


def _is_about(
    event: dict[str, Any],
    name: str,
    expression: str | None,
    cause: dict[str, Any] | None = None,
) -> bool:
    """Whether ``event`` is what is waited for; triggers know it as ``event``, others ``async``."""
    if event["name"] != name:
        return False
    known = {"event": event} if cause is None else {"event": cause, "async": event}
    return matches(expression, known)
