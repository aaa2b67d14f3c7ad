"""Playing a scenario with our library, recorded in the shapes of the TypeScript recordings."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import inngest

from agentkit_py import Agent, AgentResult, Network, NetworkRun, State, create_state
from agentkit_py.runs import StreamingConfig
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.port import Runtime

from .handlers import ScenarioError
from .hooks import STORED
from .ids import normalised
from .inside import Server
from .journal import Journal, result_record, snapshot, state_record
from .modes import TYPESCRIPT, Mode
from .scripted import ScriptedTransport
from .vectors import Json
from .world import World, user_input

_RECENT = 900


@dataclass(frozen=True, slots=True)
class Played:
    """Our run of a scenario."""

    observed: dict[str, Json]
    returned: list[dict[str, Json]]
    """The return value of each tool's handler, in order."""

    problems: list[str]
    """Violations of our own rules, whatever TypeScript does."""


def play(spec: dict[str, Json], replies: list[list[Json]], mode: Mode = TYPESCRIPT) -> Played:
    """Play a scenario, each run with its own replies."""
    return asyncio.run(_Player(spec, replies, mode).play())


class _Player:
    def __init__(self, spec: dict[str, Json], replies: list[list[Json]], mode: Mode) -> None:
        self._spec, self._mode = spec, mode
        self._journal = Journal()
        self._steps: list[dict[str, Json]] = []
        self._transport = ScriptedTransport(replies, self._journal.note)
        self._world = World(spec, self._journal, self._transport, mode)
        self._runtime = DirectRuntime(environment={})
        self._problems: list[str] = []
        self._stored = {*re.findall(_ISO, json.dumps(spec)), STORED}

    @functools.cached_property
    def _server(self) -> Server:
        """Made where a run is durable: the SDK's clients read all certificates."""
        return Server(self._runtime, self._transport, self._journal.step)

    async def play(self) -> Played:
        runs: list[dict[str, Json]] = []
        for number, run in enumerate(self._world.runs):
            self._journal.run = self._transport.run = number
            self._journal.note(f"run:{number}")
            runs.append(await (self._durable(run) if run.get("stepContext") else self._run(run)))
        await self._runtime.aclose()
        journal = self._journal
        observed = {
            "events": list(journal.events),
            "historyLog": list(journal.histories),
            "runs": runs,
            "requests": self._transport.requests,
            "stepLog": self._steps,
            "callbackLog": list(journal.callbacks),
            "order": list(journal.order),
            "warnings": list(journal.warnings),
            "unusedReplies": self._transport.unused,
            "exhaustedReplies": self._transport.exhausted,
        }
        return Played(normalised(_times(observed)), journal.returned, self._problems)

    async def _durable(self, run: dict[str, Json]) -> dict[str, Json]:
        """A run inside an Inngest function, whose code runs from its top for each step."""
        journal, before = self._journal, copy.deepcopy(self._world.made_states())
        records: list[dict[str, Json]] = []

        async def execute(runtime: Runtime) -> None:
            journal.begin_execution()
            self._world = World(self._spec, journal, self._transport, self._mode)
            self._world.have_states(copy.deepcopy(before))
            records.append(await self._run(run, runtime))

        journal.begin_durable()
        with self._transport.gateway():
            done = await self._server.run(execute)
        self._problems += [*done.problems, *journal.end_durable()]
        self._steps += [{"run": journal.run, **step} for step in done.steps]
        return records[-1]

    async def _run(self, run: dict[str, Json], runtime: Runtime | None = None) -> dict[str, Json]:
        record: dict[str, Json] = {"target": run["target"], "error": None}
        options: dict[str, Any] = {}
        given: Any = None
        try:
            given = user_input(run["input"])
            options = self._options(run.get("options", {}))
            target = self._target(run["target"])
            completed = _completed(options, target)
            outcome = await target.run(given, **completed, runtime=runtime or self._runtime)
            self._keep(record, outcome, options)
        except Exception as error:  # noqa: BLE001 - errors are what is compared
            if not str(error) and not isinstance(error, ScenarioError):
                self._problems.append(f"{type(error).__name__} without a message")
            record["error"] = _error(_cause(error) if runtime is not None else error)
        if "network" in run["target"]:
            record["networkOwnState"] = self._own_state(run["target"]["network"])
        states = self._world.made_states()
        if states:
            record["statesAfter"] = {name: state_record(state) for name, state in states.items()}
        if not isinstance(run["input"], str):
            record["inputAfter"] = run["input"]
        return record

    def _target(self, target: dict[str, str]) -> Agent | Network:
        if "agent" in target:
            return self._world.agent(target["agent"])
        return self._world.network(target["network"])

    def _own_state(self, name: str) -> Json:
        try:
            own = self._world.network(name).default_state
        except Exception:  # noqa: BLE001 - the run's error says why there is no network
            own = None
        return state_record(own if own is not None else create_state())

    def _keep(self, record: dict[str, Json], outcome: Any, options: dict[str, Any]) -> None:
        if isinstance(outcome, AgentResult):
            record["result"] = result_record(outcome)
            self._check_result(outcome)
            return
        assert isinstance(outcome, NetworkRun)
        record["networkRun"] = {
            "name": outcome.name,
            "class": type(outcome).__name__,
            "counter": outcome.call_count,
            "remainingStack": list(outcome.stack),
            "state": state_record(outcome.state),
        }
        if outcome.state is options.get("state"):
            record["networkRun"]["stateIsPassedState"] = True
        for result in outcome.results:
            self._check_result(result)

    def _check_result(self, result: AgentResult) -> None:
        # The recordings leave the times out: a result is of now, or of the scenario.
        stored = result.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not _is_now(result.created_at) and stored not in self._stored:
            self._problems.append(f"a result of {result.agent_name!r} is from {stored}")
        for message in result.messages:
            if message.role != "user" and message.agent is None:
                self._problems.append(f"{message!r:.80} does not name its author")

    def _options(self, spec: dict[str, Json]) -> dict[str, Any]:
        readers: dict[str, Any] = {
            "model": lambda value: {"model": self._world.model(value)},
            "maxIter": lambda value: {"max_iter": value},
            "state": lambda value: {"state": self._state(value)},
            "router": lambda value: {"router": self._world.router(value)},
            "defaultRouter": lambda value: {"router": self._world.router(value)},
            "streaming": lambda value: {"streaming": self._streaming(value)},
            "network": self._network_option,
        }
        options: dict[str, Any] = {}
        # Of router and defaultRouter the first wins; a model may be refused, which ends it all.
        for name in sorted(spec, key=lambda name: (name == "model", name)):
            options |= readers[name](spec[name])
        return options

    def _state(self, spec: Json) -> Any:
        return self._world.state(spec) if isinstance(spec, str) else snapshot(spec["plain"])

    def _network_option(self, name: str) -> dict[str, Any]:
        # Our agents take model and state themselves: TypeScript's take both from a network.
        network = self._world.network(name)
        state = network.default_state if network.default_state is not None else State()
        return {"default_model": network.default_model, "state": state}

    def _streaming(self, spec: dict[str, Json]) -> StreamingConfig:
        behaviour = spec.get("publish", "ok")

        def publish(chunk: dict[str, Json]) -> None:
            run = self._journal.run
            number = sum(event["run"] == run for event in self._journal.events)
            self._journal.published(_event(run, chunk), chunk["event"])
            failure = _publish_failure(behaviour, number, chunk["event"])
            if failure is not None:
                place = {name: chunk[name] for name in ("event", "sequenceNumber")}
                self._journal.warnings.sent({"run": self._journal.run, **place})
                raise RuntimeError(failure)

        return StreamingConfig(
            publish=publish,
            tokens=False,
            extended=False,
            simulate_chunking=bool(spec.get("simulateChunking")),
        )


def _completed(options: dict[str, Any], target: Agent | Network) -> dict[str, Any]:
    given = dict(options)
    default = given.pop("default_model", None)
    if default is not None and isinstance(target, Agent) and target.model is None:
        given.setdefault("model", default)
    return given


def _publish_failure(behaviour: Json, number: int, event: str) -> str | None:
    if behaviour in ("throw", "throwString"):
        return "publishing failed"
    if isinstance(behaviour, dict):
        if behaviour.get("throwOnIndex") == number:
            return f"publishing {number} failed"
        if behaviour.get("throwOnEvent") == event:
            return f"publishing {event} failed"
    return None


def _event(run: int, chunk: dict[str, Json]) -> dict[str, Json]:
    time = chunk["timestamp"]
    is_time = isinstance(time, int) and _is_now(datetime.fromtimestamp(time / 1000, UTC))
    return {
        "run": run,
        "event": chunk["event"],
        "data": snapshot(chunk["data"]),
        "sequenceNumber": chunk["sequenceNumber"],
        "id": chunk["id"],
        "timestampType": "int-ms" if is_time else type(time).__name__,
        "chunkKeys": list(chunk),
    }


def _cause(error: Exception) -> Exception:
    """Return the error that Inngest's error wraps, or the error itself."""
    cause = error.__cause__
    if isinstance(error, inngest.NonRetriableError) and isinstance(cause, Exception):
        return cause
    return error


def _error(error: Exception) -> dict[str, Json]:
    cause = error.__cause__
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException)]
    record: dict[str, Json] = {
        "class": type(error).__name__,
        "kinds": kinds,
        "name": type(error).__name__,
        "message": str(error),
        "own": isinstance(error, ScenarioError),
    }
    if cause is not None:
        record["cause"] = {"class": type(cause).__name__, "message": str(cause)}
    for fact in ("status", "detail", "processor", "excerpt"):
        if hasattr(error, fact):
            record[fact] = getattr(error, fact)
    return record


_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _is_now(time: datetime) -> bool:
    return abs((datetime.now(UTC) - time).total_seconds()) < _RECENT


def _times(value: Json) -> Json:
    """Times of just now as the recordings have them."""
    if isinstance(value, dict):
        return {key: _times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_times(item) for item in value]
    if isinstance(value, str) and _ISO.fullmatch(value):
        return "<now>" if _is_now(datetime.fromisoformat(value)) else value
    return value
