"""One scenario, run directly and as an Inngest function, with everything that can be compared."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import inngest
from pydantic_core import to_jsonable_python

from agentkit_py import Network, NetworkRun, State, openai
from agentkit_py._core.json import as_object
from agentkit_py.errors import OutputError
from agentkit_py.events import ApprovalRequest
from agentkit_py.history.config import HistoryConfig
from agentkit_py.inngest import AgentKitMiddleware, runtime_of
from agentkit_py.models import Model, RetryPolicy
from agentkit_py.runs import StreamingConfig
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import HistoryStore, MemoryHistory
from agentkit_py.testing import FakeProvider, ReceivedRequest
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait, kill_points

Inference: TypeAlias = Literal["offload", "local"]
INFERENCES: list[Inference] = ["offload", "local"]
EVENT = "test/run"


class Effects:
    """Side effects, counted in a database file as a real system's would be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("create table if not exists effects (name text)")

    def happen(self, name: str) -> None:
        """One side effect."""
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("insert into effects values (?)", (name,))

    @property
    def counts(self) -> Counter[str]:
        """Return the number of times each effect happened."""
        with closing(sqlite3.connect(self._path)) as database:
            return Counter(name for (name,) in database.execute("select name from effects"))


class Script:
    """Replies by agent, whose system prompt begins with its name.

    A request that comes again, byte for byte, gets the same reply again.
    """

    def __init__(self, replies: Mapping[str, Sequence[Any]]) -> None:
        self._left = {name: list(given) for name, given in replies.items()}
        self._given: dict[str, Any] = {}

    def __call__(self, request: ReceivedRequest) -> Any:
        body: Any = request.body
        key = json.dumps(body, sort_keys=True)
        if key not in self._given:
            system = body["messages"][0]["content"]
            name = next(name for name in self._left if system.startswith(name))
            self._given[key] = _with_ids(name, len(self._left[name]), self._left[name].pop(0))
        return self._given[key]


def _with_ids(agent: str, left: int, reply: Any) -> Any:
    """The reply with call ids that do not depend on who asks first."""
    fields = as_object(reply)
    if fields is None or "tool_calls" not in fields:
        return reply
    calls: list[dict[str, Any]] = fields["tool_calls"]
    named = [{**call, "id": f"{agent}-{left}-{i}"} for i, call in enumerate(calls)]
    return {**fields, "tool_calls": named}


@dataclass(kw_only=True)
class Stage:
    """The objects that one run of a scenario may use."""

    effects: Effects
    model: Model
    fake: FakeProvider
    store: HistoryConfig | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(kw_only=True)
class Outcome:
    """Everything that can be compared between two runs."""

    error: str | None
    text: str | None
    stop_reason: str | None
    output: Any
    handoffs: Any
    state: Any
    results: list[Any]
    rows: list[Any]
    requests: list[Any]
    effects: Counter[str]
    chunks: list[Any]
    run: Run | None = field(default=None, compare=False, repr=False)


@dataclass(kw_only=True)
class Scenario:
    """A network with a script, to be run in all ways.

    Attributes:
        answer: A person's answers to what a durable run waits for; a direct one is told yes.
    """

    network: Callable[[Stage], Network]
    replies: Mapping[str, Sequence[Any]]
    input: str = "hi"
    state: Callable[[], State[Any]] = State
    store: Callable[[], HistoryConfig | None] = MemoryHistory
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retries: int = 4
    tokens: bool = False
    answer: Callable[[Wait], Mapping[str, Any] | None] | None = None
    base: Path = Path()

    _count: int = 0

    def stage(self) -> Stage:
        """A new stage."""
        self._count += 1
        fake = FakeProvider(Script(self.replies))
        model = openai("gpt-4o", api_key="sk-test", retry=RetryPolicy(attempts=1))
        model = at(model, fake)
        effects = Effects(self.base / f"effects-{self._count}.db")
        return Stage(effects=effects, model=model, fake=fake, store=self.store())

    async def _run(self, stage: Stage, network: Network, **how: Any) -> dict[str, Any]:
        async def publish(chunk: dict[str, Any]) -> None:
            stage.chunks.append(chunk)

        if "ctx" in how:
            runtime = runtime_of(how["ctx"])
            runtime.publish_with(publish)
            publish = runtime.publish
        run = await network.run(
            self.input,
            state=self.state(),
            model=stage.model,
            streaming=StreamingConfig(publish=publish, tokens=self.tokens),
            **self.options,
            **how,
        )
        return {
            "text": run.text,
            "stop": run.stop_reason,
            "output": _output_of(run),
            "handoffs": [f"{one.source} {one.target} {one.input}" for one in run.handoffs],
            "state": run.state.dump(),
            "thread": run.thread_id,
            "results": [result.to_dict() for result in run.state.transcript],
        }

    async def direct(self) -> Outcome:
        """Run it in this process."""
        stage = self.stage()
        error = None
        output: dict[str, Any] = {}
        try:
            how: dict[str, Any] = {} if self.answer is None else {"approver": _says_yes}
            how["runtime"] = DirectRuntime(transport=stage.fake.transport)
            output = await self._run(stage, self.network(stage), **how)
        except Exception as found:  # noqa: BLE001 - compared with the durable run's
            error = f"{type(found).__name__}: {found}"
        return await _outcome(stage, output, error, None)

    async def durable(
        self,
        inference: Inference = "offload",
        *,
        kill: KillAt | Sequence[KillAt] = (),
        seed: int | None = 0,
        check: bool = True,
        discovery: Literal["joined", "eager"] = "joined",
    ) -> Outcome:
        """Run it as a function under `ReplayExecutor`."""
        stage = self.stage()
        client = client_with(inference, stage)

        def functions() -> list[inngest.Function[Any]]:
            network = self.network(stage)

            @client.create_function(
                fn_id="run", trigger=inngest.TriggerEvent(event=EVENT), retries=self.retries
            )
            async def function(ctx: inngest.Context) -> dict[str, Any]:
                return await self._run(stage, network, ctx=ctx)

            return [function]

        executor = ReplayExecutor(
            client,
            functions,
            transport=stage.fake.transport,
            seed=seed,
            kill=kill,
            check=check,
            discovery=discovery,
        )
        run = await executor.run(EVENT, answer=self.answer)
        assert run.differences == []
        error = None if run.error is None else str(run.error["message"])
        return await _outcome(stage, run.output or {}, error, run)


def _says_yes(_: ApprovalRequest) -> bool:
    return True


def _output_of(run: NetworkRun[Any, Any]) -> Any:
    try:
        return to_jsonable_python(run.output)
    except OutputError:
        return None


def extra(outcome: Outcome, reference: Outcome) -> Counter[str]:
    """Side effects that happened more often than in the reference."""
    assert set(outcome.effects) == set(reference.effects)
    return outcome.effects - reference.effects


async def sweep(
    scenario: Scenario,
    inference: Inference,
    record: Callable[[str, object], None],
    among: slice = slice(None),
) -> tuple[int, int]:
    """Kill at every point; gives the number of points and of side effects that came twice."""
    reference = await scenario.durable(inference, check=False)
    assert reference.error is None
    assert reference.run is not None
    points = list(kill_points(reference.run.requests))[among]
    doubled = 0
    for point in points:
        outcome = await scenario.durable(inference, kill=point, check=False)
        twice = extra(outcome, reference)
        # Only the step that was killed while it ran may have run twice.
        assert twice.total() <= (point.when == "inside"), point
        doubled += twice.total()
        outcome.effects, outcome.requests = reference.effects, reference.requests
        assert outcome == reference, point
    figures = {"runs": len(points) + 1, "kill points": len(points), "effects doubled": doubled}
    record("figures: workers killed", figures)
    return len(points), doubled


def client_with(inference: Inference = "offload", stage: Stage | None = None) -> inngest.Inngest:
    """A client whose functions find their runtime by themselves."""
    local = None if stage is None else DirectRuntime(transport=stage.fake.transport)
    middleware = AgentKitMiddleware.configured(inference=inference, local=local)
    return inngest.Inngest(app_id="test", is_production=False, middleware=[middleware])


def executor_for(
    handler: Callable[[inngest.Context], Awaitable[Any]],
    *,
    inference: Inference = "local",
    retries: int = 4,
    **options: Any,
) -> ReplayExecutor:
    """An executor with one function, started by `EVENT`."""
    client = client_with(inference)
    make = client.create_function(
        fn_id="run", trigger=inngest.TriggerEvent(event=EVENT), retries=retries
    )
    options.setdefault("check", True)
    return ReplayExecutor(client, [make(handler)], **options)


def at(model: Model, fake: FakeProvider) -> Model:
    """The model with a fake provider behind it."""
    known: dict[str, Any] = {name: getattr(model, name) for name in Model.__dataclass_fields__}
    known["transport"] = fake.transport
    return Model(**known)


async def _outcome(
    stage: Stage, output: dict[str, Any], error: str | None, run: Run | None
) -> Outcome:
    return Outcome(
        error=error,
        text=output.get("text"),
        stop_reason=output.get("stop"),
        output=output.get("output"),
        handoffs=output.get("handoffs"),
        state=output.get("state"),
        results=[_plain(result) for result in output.get("results", [])],
        rows=await _rows(stage),
        requests=[_without_thread(request.body) for request in stage.fake.requests],
        effects=stage.effects.counts,
        chunks=_chunks(stage.chunks),
        run=run,
    )


def _without_thread(body: Any) -> Any:
    """Return a request without the key that is made of its thread's id."""
    return {key: value for key, value in body.items() if key != "prompt_cache_key"}


_VARYING = frozenset({"id", "createdAt", "threadId", "checksum"})


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value without ids and times, including those in the provider's JSON."""
    plain = {key: value for key, value in record.items() if key not in _VARYING}
    if isinstance(plain.get("raw"), str):
        raw = json.loads(plain["raw"])
        plain["raw"] = {key: value for key, value in raw.items() if key not in ("id", "created")}
    return plain


async def _rows(stage: Stage) -> list[Any]:
    if not isinstance(stage.store, HistoryStore):
        return []
    threads = await stage.store.list_threads()
    rows = [await stage.store.load(thread.id) for thread in threads]
    return [[_plain(row.to_dict()) for row in thread] for thread in rows]


def _chunks(chunks: list[dict[str, Any]]) -> list[Any]:
    """Chunks as a consumer has them: each id once, in sequence; ids of runs numbered."""
    by_id = {chunk["id"]: chunk for chunk in reversed(chunks)}
    ordered = sorted(by_id.values(), key=lambda chunk: chunk["sequenceNumber"])
    names: dict[str, str] = {}

    def named(value: Any, key: str = "") -> Any:
        fields = as_object(value)
        if fields is not None:
            return {k: named(v, k) for k, v in fields.items() if k != "expiresAt"}
        if key in ("runId", "parentRunId", "messageId", "threadId", "partId", "callPartId"):
            return names.setdefault(value, f"{key}-{len(names)}")
        return value

    return [(c["sequenceNumber"], c["event"], named(c["data"])) for c in ordered]
