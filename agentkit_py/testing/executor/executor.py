"""ReplayExecutor: the Inngest server's part, played strictly and at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import httpx
import inngest

from agentkit_py.errors import ScriptError
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.testing.executor.runs import KillAt, Run, Wait
from agentkit_py.testing.executor.server import Server

Functions: TypeAlias = Sequence[inngest.Function[Any]]

Answerer: TypeAlias = Callable[[Wait], Mapping[str, Any] | None]
"""Gives the data of the event that a run waits for; None: nothing comes."""


class ReplayExecutor(Server):
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
            transport: Where requests to models go, those of the AI gateway (``step.ai.infer``)
                included, unless a model or a runtime has a transport of its own.
            seed: Decides in which order things happen that may happen in any; None: as they came.
            kill: When the worker dies.
            check: Send each request twice, the first time without running a step, and compare.
            discovery: When what follows parallel steps is looked for: once all are done, or (as
                with ``ParallelMode.RACE``, and on older servers) after each.
        """
        super().__init__(
            client,
            functions if callable(functions) else lambda: functions,
            transport=transport,
            seed=seed,
            kills=[kill] if isinstance(kill, KillAt) else kill,
            check=check,
            eager=discovery == "eager",
        )

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
            self.begin(target.id, self.filled({"name": name, "data": dict(data or {})}))
        if len(self.runs) == before:
            raise ScriptError(f"The event {target!r} starts none of {', '.join(self.configs)}")
        run = self.runs[before]
        await self._drive(run)
        return run

    async def finish(self, run: Run, *, answer: Answerer | None = None) -> Run:
        """Let time pass until ``run`` has ended."""
        asked: set[Wait] = set()
        while run.status == "running":
            await self._drive(run)
            wait = next((one for one in self.waits() if one not in asked), None)
            if answer is not None and wait is not None:
                asked.add(wait)
                given = answer(wait)
                if given is not None:
                    self.receive({"name": wait.event, "data": dict(given)})
            elif run.status == "running" and not await self.do_next(timeouts=True):
                raise ScriptError(f"The run {run.id} has not ended, and nothing is left to do")
        return run

    async def send_event(self, name: str, data: Mapping[str, Any] | None = None) -> list[Run]:
        """Send an event and do what follows from it; returns the runs that it started."""
        before = len(self.runs)
        self.receive({"name": name, "data": dict(data or {})})
        await self._drive(None)
        return self.runs[before:]

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, time-outs included."""
        limit = self.schedule.now + seconds
        while await self.do_next(timeouts=True, limit=limit):
            pass
        self.schedule.now = limit

    async def _drive(self, run: Run | None) -> None:
        """Do what is due, until a run has ended or nothing but time-outs is left."""
        while (run is None or run.status == "running") and await self.do_next(timeouts=False):
            pass


async def replay_programs(programs: Sequence[Callable[[], Awaitable[Any]]]) -> list[Run]:
    """Run programs one after another, each as an Inngest function that is replayed for each step.

    Args:
        programs: Functions that run agents; what they return is not looked at.

    Returns:
        The runs; those that failed say so.
    """
    event = "agentkit/program"
    middleware = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="programs", is_production=False, middleware=[middleware])

    @client.create_function(fn_id="program", trigger=inngest.TriggerEvent(event=event), retries=0)
    async def function(ctx: inngest.Context) -> None:
        await programs[int(str(ctx.event.data["number"]))]()

    executor = ReplayExecutor(client, [function], check=True)
    return [await executor.run(event, {"number": number}) for number in range(len(programs))]
