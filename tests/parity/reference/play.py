"""Playing a scenario on the reference model."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from typing import Any

from ..ids import normalised
from ..modes import TYPESCRIPT, Mode
from ..scripted import BASE
from ..vectors import Json
from .core import (
    UNDEFINED,
    Failure,
    Ids,
    Result,
    State,
    Switches,
    Unsupported,
    cleaned,
    our_failure,
    prose_failure,
)
from .history import Adapter
from .http import check_model, request_record, step_record
from .inputs import Input
from .js import date
from .mcp import ListingFailed, kept, server_tools
from .networks import NetworkRun
from .replies import answer_of, closing_reply
from .responses import answered, is_asked
from .routing import DEFAULT_ROUTING, DONE, SELECT
from .standalone import StandaloneRun

_TOO_MANY = 400
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LARGE = 2**53
"""Whole numbers from here on are rounded by a double."""

Binding = dict[tuple[Any, ...], Json]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The run that the reference model predicts."""

    document: dict[str, Json]
    asked: frozenset[str]
    """The divergences that the scenario comes across."""

    replies: list[list[Json]]
    """For each run, the replies to its requests."""

    binding: Binding
    """Which reply went to which inference."""

    unused: list[Json]


class Play:
    """One play of a scenario on the model.

    Args:
        spec: The scenario.
        on: The divergences that are switched on.
        earlier: The same scenario without any: its inferences keep their replies.
        old_branch: Whether the recording is of the branch with processors, which knows no user
            messages.
        shimmed: Whether the recording was made with what TypeScript needs for MCP.
        mode: How agents and networks are made.
    """

    def __init__(
        self,
        spec: dict[str, Json],
        on: frozenset[str],
        earlier: Outcome | None = None,
        *,
        old_branch: bool = False,
        shimmed: bool = False,
        mode: Mode = TYPESCRIPT,
    ) -> None:
        self.mode = mode
        self.spec: dict[str, Json] = json.loads(json.dumps(spec).replace("{{BASE}}", BASE))
        self.on = Switches(on)
        self.ids = Ids()
        self.run = 0
        self.order: list[str] = []
        self.events: list[Json] = []
        self.histories: list[Json] = []
        self.callbacks: list[Json] = []
        self.requests: list[Json] = []
        self.steps: list[Json] = []
        self.warnings: list[Json] = []
        self.has_user_messages = not old_branch
        self._shimmed = shimmed
        self._offered: list[Json] | None = None
        self._asked: set[tuple[int, str]] = set()
        self._listed: set[tuple[int, str]] = set()
        self._earlier = earlier
        self._script = copy.deepcopy(earlier.unused if earlier else self.spec["llm"])
        self._binding: Binding = {}
        self._replies: list[list[Json]] = [[] for _ in self.spec["runs"]]
        self._turns: dict[tuple[Any, ...], int] = {}
        self._counts: dict[int, int] = {}
        self._states: dict[str, State] = {}
        self._own: dict[str, State] = {}
        self._refused: set[str] = set()
        self._adapters: dict[str, Adapter] = {}

    # ------------------------------------------------------------------ notes

    def note(self, what: str) -> None:
        """Record an event.

        Raises:
            Unsupported: The scenario has no end, such as that of agents which a hook always stops.
        """
        if len(self.order) > 10 * _TOO_MANY:
            raise Unsupported("a scenario without end")
        self.order.append(what)

    def callback(self, kind: str, **facts: Json) -> None:
        """The scenario's code is called."""
        self.callbacks.append({"run": self.run, "kind": kind, **copy_facts(facts)})

    def log(self, what: str, kind: str, **facts: Json) -> None:
        """Both."""
        self.note(what)
        self.callback(kind, **facts)

    @property
    def durable(self) -> bool:
        """True if the run is inside an Inngest function."""
        return bool(self.spec["runs"][self.run].get("stepContext"))

    @property
    def target(self) -> str:
        """The name of what runs."""
        [(kind, name)] = self.spec["runs"][self.run]["target"].items()
        return self.spec[f"{kind}s"][name]["name"]

    def step(self, name: str) -> None:
        """Record a step."""
        self.note(f"step.run:{name}")
        self.steps.append({"run": self.run, "op": "run", "id": name})

    def step_for_ids(self, name: str) -> None:
        """TypeScript makes ids in steps of their own."""
        if self.durable and not self.on("no-steps-for-ids"):
            self.step(name)

    def count(self, key: int) -> int:
        """Return the number of earlier calls with this key."""
        self._counts[key] = self._counts.get(key, -1) + 1
        return self._counts[key]

    def turn_key(self, agent: str) -> tuple[Any, ...]:
        """Names one run of an agent."""
        key = (self.run, agent)
        self._turns[key] = self._turns.get(key, -1) + 1
        return (*key, self._turns[key])

    # ------------------------------------------------------------------ things

    def agent(self, name: str) -> dict[str, Json]:
        """The agent of this id."""
        return self.spec["agents"][name]

    def tools_of(self, agent: dict[str, Json]) -> list[Json]:
        """Its tools."""
        if agent is DEFAULT_ROUTING:
            return [SELECT, DONE]
        return [self.spec["tools"][name] for name in agent.get("tools", [])]

    def offered_to(self, agent: dict[str, Json], path: str = "") -> list[Json]:
        """Its tools and those of its servers, which we ask in a step of this path, once in a run.

        Raises:
            Failure: A server fails, and with it the run.
        """
        found = self.tools_of(agent)
        servers = agent.get("mcpServers", [])
        new = {(self.run, name) for name in servers} - self._listed if path else set[Json]()
        self._listed |= new
        if new and self.durable and self.on("effects-are-steps"):
            self.step(f"{path}.0.tools")
        for name in servers:
            server = self.spec["mcpServers"][name]
            try:
                found = [*found, *server_tools(server, self.on, shimmed=self._shimmed)]
            except Failure:
                if self.durable:  # the step fails, and its error is the SDK's
                    raise our_failure("StepError") from None
                raise
            except ListingFailed as failed:
                # agent.ts `initMCP` asks an agent's servers once
                self.warnings += failed.warnings if (id(agent), name) not in self._asked else []
                self._asked.add((id(agent), name))
        self._offered = found if servers else None
        return found

    def histories_spec(self, name: Json) -> dict[str, Json]:
        """The history adapter of this id, as described."""
        return self.spec["histories"][name] if name else {}

    def adapter(self, name: Json) -> Adapter | None:
        """The history adapter of this id."""
        if not name:
            return None
        if name not in self._adapters:
            self._adapters[name] = Adapter(self, name, self.spec["histories"][name])
        return self._adapters[name]

    def own_state(self, name: str) -> State:
        """The network object's own state."""
        default = self.spec["networks"][name].get("defaultState")
        if default:
            return self._state(default)
        return self._own.setdefault(name, State())

    def _state(self, name: str) -> State:
        if name not in self._states:
            self._states[name] = State.of(self.spec["states"][name], self.on)
        return self._states[name]

    def model_for(
        self,
        agent: dict[str, Json],
        options: dict[str, Json],
        network: dict[str, Json],
    ) -> dict[str, Json]:
        """The model an agent uses.

        Raises:
            Failure: There is none.
        """
        if agent.get("mcpServers") and not self.on("mcp-servers-that-fail"):
            self.offered_to(agent)  # agent.ts `run` begins with `initMCP`
        chosen = options.get("model")
        name = chosen or agent.get("withModel") or agent.get("model") or network.get("defaultModel")
        if not name:
            failure = our_failure("MissingModelError")
            raise failure if self.on("typed-errors") else prose_failure("no-model")
        return self.spec["models"][name]

    def infer(
        self, model: dict[str, Json], body: Json, plain: Json, key: tuple[Any, ...], path: str
    ) -> Json:
        """One request; the answer's JSON.

        Args:
            model: Who is asked.
            body: The request's body.
            plain: The same without the model's default parameters, as in Inngest's steps.
            key: Names the inference.
            path: Its step id, in our words.
        """
        if max(len(self.requests), len(self.steps)) > _TOO_MANY:
            raise Unsupported("a scenario without end")
        if self.durable:
            name = f"{path}.infer" if self.on("step-ids-say-where") else key[1]
            self.note(f"step.ai.infer:{name}")
            self.steps.append(
                step_record(self.run, model, name, cleaned(body), cleaned(plain), self.on)
            )
        else:
            self.note(f"llm:{len(self.requests)}")
            self.requests.append(request_record(self.run, model, cleaned(body), self.on))
        reply = self._reply(key, model)
        self._binding[key] = reply
        if is_asked(model, self.on):
            reply = answered(reply)
        self._replies[self.run].append(reply)
        told = json.loads(json.dumps(reply, sort_keys=True)) if self.durable else reply
        if json.dumps(told) != json.dumps(reply) and self.on("replies-are-sorted"):
            reply = told
        large = self.durable and _is_rounded(reply.get("json"))
        if large and self.on("numbers-inside-inngest-are-exact"):
            raise our_failure("ConfigurationError")
        return answer_of(reply, model["provider"], self.on)

    def _reply(self, key: tuple[Any, ...], model: dict[str, Json]) -> Json:
        if self._earlier is not None and key in self._earlier.binding:
            return self._earlier.binding[key]
        if self._script:
            return self._script.pop(0)
        if self._earlier is None:
            raise Unsupported("a request without reply")
        return {"json": closing_reply(model["provider"])}

    # ------------------------------------------------------------------ runs

    def play(self) -> Outcome:
        """All runs."""
        runs: list[Json] = []
        for number, run in enumerate(self.spec["runs"]):
            self.run, self._offered = number, None
            self.note(f"run:{number}")
            runs.append(self._run(run))
        document = {
            "events": self.events,
            "historyLog": self.histories,
            "runs": runs,
            "requests": self.requests,
            "stepLog": self.steps,
            "callbackLog": self.callbacks,
            "order": self.order,
            "warnings": self.warnings,
            "unusedReplies": len(self._script) if self._earlier is None else 0,
            "exhaustedReplies": 0,
        }
        return Outcome(
            normalised(cleaned(document)),
            frozenset(self.on.asked),
            self._replies,
            self._binding,
            self._script,
        )

    def _run(self, run: dict[str, Json]) -> dict[str, Json]:
        record: dict[str, Json] = {"target": run["target"], "error": None}
        given = Input(self._message(run["input"]), self.ids.new())
        try:
            if "agent" in run["target"]:
                record["result"] = self._run_agent(run, given).record()
            else:
                record["networkRun"] = self._run_network(run, given)
        except Failure as failure:
            record["error"] = failure.facts
        offered = self._offered if "agent" in run["target"] else None
        if offered is not None and not self.on("mcp-agents-stay-as-they-are"):
            record["agentTools"] = kept(offered)
        kv = not self.on("no-kv")
        if "network" in run["target"]:
            record["networkOwnState"] = self._own_record(run["target"]["network"], kv=kv)
        if self._states:
            record["statesAfter"] = {n: s.record(kv=kv) for n, s in self._states.items()}
        if not isinstance(run["input"], str):
            record["inputAfter"] = self._input_after(run)
        return record

    def _message(self, given: Json) -> Json:
        if isinstance(given, str) or given.get("id") != "" or not self.on("empty-ids"):
            return given
        return {key: value for key, value in given.items() if key != "id"}

    def _input_after(self, run: dict[str, Json]) -> Json:
        """Return the caller's object; network.ts `run` makes its time a Date."""
        time = run["input"].get("clientTimestamp")
        if "agent" in run["target"] or time is None or self.on("inputs-stay-as-they-are"):
            return run["input"]
        return {**run["input"], "clientTimestamp": {"$date": date(time)}}

    def _own_record(self, name: str, *, kv: bool) -> dict[str, Json]:
        """The network's own state; a network that was refused has none."""
        try:
            own = State() if name in self._refused else self.own_state(name)
        except Failure:
            own = State()
        return own.record(kv=kv)

    def _run_network(self, run: dict[str, Json], given: Input) -> dict[str, Json]:
        name, options = run["target"]["network"], run.get("options", {})
        spec = self.spec["networks"][name]
        if isinstance(options.get("state"), str):
            self._state(options["state"])
        self._refused.add(name)
        self._check_network(spec)
        self._refused.remove(name)
        state = self._state_of(options.get("state"), name)
        network = NetworkRun(self, spec, state, given, options)
        network.play_out()
        return {
            "name": spec["name"],
            "class": "NetworkRun",
            "counter": network.counter,
            "remainingStack": list(network.stack),
            "state": state.record(kv=not self.on("no-kv")),
            "stateIsPassedState": True if isinstance(options.get("state"), str) else UNDEFINED,
        }

    def _check_network(self, spec: dict[str, Json]) -> None:
        agents = [self.agent(name) for name in spec["agents"]]
        for agent in agents:
            self.check_agent(agent)
        if spec.get("defaultModel"):
            check_model(self.spec["models"][spec["defaultModel"]], self.on)
        if spec.get("defaultState"):
            self._state(spec["defaultState"])
        router: dict[str, Json] = spec.get("defaultRouter") or spec.get("router") or {}
        if router.get("kind") == "agent":
            self.check_agent(self.agent(router["ref"]))
        if not spec["name"] and self.on("names-are-checked"):
            raise our_failure("ConfigurationError")
        names = [agent["name"] for agent in agents]
        if len(set(names)) < len(names) and self.on("names-are-unique"):
            raise our_failure("ConfigurationError")
        if spec.get("maxIter", 0) < 0 and self.on("negative-limits-are-refused"):
            raise our_failure("ConfigurationError")

    def check_agent(self, agent: dict[str, Json]) -> None:
        """Refuse what we refuse in an agent.

        Raises:
            Failure: It is refused.
        """
        tools = [self.spec["tools"][name] for name in agent.get("tools", [])]
        if not all(_NAME.fullmatch(t["name"]) for t in tools) and self.on("names-are-checked"):
            raise our_failure("ToolDefinitionError")
        for name in filter(None, (agent.get("model"), agent.get("withModel"))):
            check_model(self.spec["models"][name], self.on)
        if not agent["name"] and self.on("names-are-checked"):
            raise our_failure("ConfigurationError")
        chooses = agent["type"] != "routing" or "onRoute" in agent.get("lifecycle", {})
        if not chooses and self.on("routing-agents-choose"):
            raise our_failure("ConfigurationError")
        names = [tool["name"] for tool in self.tools_of(agent)]
        if len(set(names)) < len(names) and self.on("names-are-unique"):
            raise our_failure("ConfigurationError")
        unnamed = agent.get("toolChoice", "auto") not in ("auto", "any", *names)
        if unnamed and not agent.get("mcpServers") and self.on("tool-choice-names-a-tool"):
            raise our_failure("ConfigurationError")

    def _state_of(self, given: Json, network: str) -> State:
        if isinstance(given, str):
            return self._state(given)
        if given is None:
            own = self.own_state(network)
            shared = any(isinstance(value, dict | list) for value in own.data.values())
            return own.clone(deep=shared and self.on("default-state-is-copied"))
        plain = given["plain"]
        # network.ts `run` reads the members of a State that went through JSON, but for its thread.
        theirs = {
            "data": plain.get("data"),
            "messages": plain.get("_messages") or [],
            "results": plain.get("_results") or [],
            "threadId": None,
        }
        ours = {
            "data": plain.get("data"),
            "messages": plain.get("messages") or theirs["messages"],
            "results": plain.get("results") or theirs["results"],
            "threadId": plain.get("threadId"),
        }
        same = ours == theirs or not self.on("plain-states-keep-their-thread")
        return State.of(theirs if same else ours, self.on)

    def _run_agent(self, run: dict[str, Json], given: Input) -> Result:
        agent, options = self.agent(run["target"]["agent"]), run.get("options", {})
        network: dict[str, Json] = {}
        if "network" in options:
            network = self.spec["networks"][options["network"]]
        if network:
            self._check_network(network)
        lent = network and (network.get("defaultState") or not self.on("agents-run-by-themselves"))
        own = self.own_state(options["network"]) if lent else State()
        state = self._state_of(options["state"], "") if "state" in options else own
        if "model" in options:
            check_model(self.spec["models"][options["model"]], self.on)
        self.check_agent(agent)
        model = self.model_for(agent, options, network)
        return StandaloneRun(self, agent, model, state, given, options, network).play_out()


def _is_rounded(value: Json) -> bool:
    """Return whether JSON holds a whole number that may be another one as a double."""
    if isinstance(value, dict | list):
        return any(map(_is_rounded, value.values() if isinstance(value, dict) else value))
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    return whole and abs(value) >= _LARGE


def copy_facts(facts: dict[str, Json]) -> dict[str, Json]:
    """A copy in which undefined stays itself."""
    return {k: v if v is UNDEFINED else _copied(v) for k, v in facts.items()}


def _copied(value: Json) -> Json:
    if value is UNDEFINED:
        return value
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value
