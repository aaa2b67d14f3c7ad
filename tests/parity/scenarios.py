"""Random scenarios: the parts of recordings put together anew, with any texts and arguments."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from .accents import FAMILIES, KEYS, TEXTS, format_of, value, varied
from .combined import COMBINED
from .corners import CORNERS
from .met import MET
from .swapped import OPTIONS, WRITERS
from .vectors import Json, Vector


def can_be_recorded(vector: Vector) -> bool:
    """Return whether the npm package plays the scenario: the released one has no processors."""
    return vector.kind == "run" and not vector.not_applicable() and not vector.old_branch


@dataclass(slots=True)
class Pieces:
    """What recordings are made of."""

    tools: list[Json] = field(default_factory=list[Json])
    lifecycles: list[Json] = field(default_factory=list[Json])
    histories: list[Json] = field(default_factory=list[Json])
    states: list[Json] = field(default_factory=list[Json])
    systems: list[Json] = field(default_factory=list[Json])
    inputs: list[Json] = field(default_factory=list[Json])
    streams: list[Json] = field(default_factory=list[Json])
    models: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    replies: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    whole: list[Vector] = field(default_factory=list[Vector])

    @classmethod
    def of(cls, vectors: Iterable[Vector]) -> Pieces:
        """The pieces of these recordings."""
        found = cls()
        for vector in filter(can_be_recorded, vectors):
            found.whole.append(vector)
            if not vector.durable and not vector.spec.get("mcpServers"):
                found._take(vector.spec)
        return found

    def _take(self, spec: dict[str, Json]) -> None:
        tools = spec.get("tools", {}).values()
        self.tools += [tool for tool in tools if "stepRun" not in json.dumps(tool)]
        self.histories += spec.get("histories", {}).values()
        self.states += [s for s in spec.get("states", {}).values() if s.get("threadId") != ""]
        for agent in spec["agents"].values():
            self.systems.append(agent["system"])
            cycle = {k: v for k, v in agent.get("lifecycle", {}).items() if k != "onRoute"}
            self.lifecycles += [cycle] if cycle else []
        for run in spec["runs"]:
            self.inputs.append(run["input"])
            stream = run.get("options", {}).get("streaming")
            self.streams += [stream] if stream is not None else []
        for model in spec["models"].values():
            if model["options"]["model"] != "claude":  # of no version: it has rules of its own
                self.models.setdefault(model["provider"], []).append(model)
        formats = {format_of(model["provider"]) for model in spec["models"].values()}
        if len(formats) == 1:
            self.replies.setdefault(formats.pop(), []).extend(spec["llm"])


def scenario(pieces: Pieces, seed: str, family: str) -> dict[str, Json]:
    """A random scenario of a family, as the recorder takes it."""
    rand = random.Random(seed)  # noqa: S311 - a seed gives the same again
    made: dict[str, Json] = {"schemaVersion": 1, "name": seed, "area": family}
    if family == "varied":
        base = rand.choice(pieces.whole)
        return {**made, "area": base.data["area"], "spec": varied(base.spec, rand)}
    spec = Scenario(pieces, rand).spec
    (FAMILIES | CORNERS | COMBINED | MET)[family](spec, rand)
    shimmed = family in ("mcp", "served") and rand.random() < 0.75
    return {**made, **({"area": "mcp-shimmed"} if shimmed else {}), "spec": spec}


class Scenario:
    """One random scenario."""

    def __init__(self, pieces: Pieces, rand: random.Random) -> None:
        self._pieces = pieces
        self._random = rand
        self.spec: dict[str, Json] = {}
        self._make()

    def _of(self, values: Iterable[Json]) -> Json:
        return copy.deepcopy(self._random.choice(list(values)))

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def _some(self, values: Iterable[str], share: float) -> list[str]:
        return [value for value in values if self._happens(share)]

    def _chosen(self, optional: dict[str, tuple[float, Json]]) -> dict[str, Json]:
        return {key: value for key, (share, value) in optional.items() if self._happens(share)}

    # ------------------------------------------------------------------ the parts

    def _make(self) -> None:
        pieces, spec = self._pieces, self.spec
        self._provider = self._of(OPTIONS)
        spec["models"] = {f"m{i}": self._model() for i in range(self._of((1, 1, 2)))}
        tools = {tool["name"]: tool for tool in (self._of(pieces.tools) for _ in range(3))}
        spec["tools"] = {f"t{i}": tools[name] for i, name in enumerate(self._some(tools, 0.6))}
        self._names = [tool["name"] for tool in spec["tools"].values()]
        stores = [self._of(pieces.histories) for _ in range(self._of((0, 0, 1, 2)))]
        spec["histories"] = {f"h{i}": store for i, store in enumerate(stores)}
        spec["states"] = {f"s{i}": self._of(pieces.states) for i in range(self._of((0, 1, 1)))}
        agents = {name.lower(): self._agent(name) for name in "ABC"[: self._of((1, 2, 3))]}
        spec["agents"] = agents
        spec["networks"] = {"n": self._network(list(agents))} if self._happens(0.6) else {}
        spec["runs"] = [self._run(agents) for _ in range(self._of((1, 1, 2)))]
        spec["llm"] = [self._reply() for _ in range(self._random.randint(1, 6))]

    def _model(self) -> Json:
        same = [each for each in OPTIONS if format_of(each) == format_of(self._provider)]
        provider = self._of(same)
        if self._happens(0.3):
            return self._of(self._pieces.models[provider])
        return {"provider": provider, "options": copy.deepcopy(OPTIONS[provider])}

    def _agent(self, name: str) -> Json:
        plain = f"You are {name}."
        system = self._of(self._pieces.systems) if self._happens(0.3) else plain
        agent: dict[str, Json] = {"type": "agent", "name": name, "system": system}
        optional: dict[str, tuple[float, Json]] = {
            "description": (0.8, f"does {name}"),
            "model": (0.9, self._of(self.spec["models"])),
            "tools": (0.8, self._some(self.spec["tools"], 0.6)),
            "assistant": (0.1, "Well, "),
            "toolChoice": (0.1, self._of(["auto", "any", *self._names])),
            "lifecycle": (0.25, self._of(self._pieces.lifecycles)),
        }
        if self.spec["histories"]:
            optional["history"] = (0.4, self._of(self.spec["histories"]))
        return agent | self._chosen(optional)

    def _network(self, agents: list[str]) -> Json:
        network: dict[str, Json] = {"name": "net", "agents": self._some(agents, 0.85) or ["a"]}
        optional: dict[str, tuple[float, Json]] = {
            "defaultModel": (0.5, self._of(self.spec["models"])),
            "maxIter": (0.3, self._of((1, 2, 3, 3, 0, -1))),
        }
        for key, kind, share in (("defaultState", "states", 0.3), ("history", "histories", 0.5)):
            if self.spec[kind]:
                optional[key] = (share, self._of(self.spec[kind]))
        network |= self._chosen(optional)
        kind = self._random.random()
        if kind < 0.75:
            rules = [self._rule(number, network["agents"]) for number in range(self._of((1, 2, 3)))]
            network["router"] = {"kind": "fn", "rules": rules, "sync": self._happens(0.3)}
        elif kind < 0.9:
            network |= {"router": self._routing_agent(), "maxIter": 2}
        else:  # the default routing agent
            network["defaultModel"] = self._of(self.spec["models"])
            self._names += ["select_agent", "done"]
        return network

    def _rule(self, number: int, agents: list[str]) -> Json:
        when = self._of(
            (
                {"callCount": number},
                {"callCount": number},
                {"callCountLt": number + 1},
                {"lastResultAgent": self._of("ABC"), "callCountLt": 4},
                {"stateFalsy": "v", "callCountLt": 3},
                {"lastToolCalled": self._of([*self._names, "ghost"]), "callCountLt": 3},
            )
        )
        chosen = self._of((self._of(agents), self._of(agents), agents, None))
        rule = {"when": when, "return": chosen}
        if not self._happens(0.2):
            return rule
        step = self._of(
            (
                {"op": "setState", "key": "v", "value": value(self._random)},
                {"op": "schedule", "agent": self._of("ABC")},
                {"op": "addAgent", "agent": self._of(self.spec["agents"])},
            )
        )
        return rule | {"do": [step]}

    def _routing_agent(self) -> Json:
        route = self._of(
            (
                {"kind": "firstText"},
                {"kind": "const", "agents": [self._of("ABC")]},
                {"kind": "firstToolInput"},
                {"kind": "firstToolData"},
            )
        )
        self.spec["agents"]["r"] = {
            "type": "routing",
            "name": "Router",
            "description": "routes",
            "model": self._of(self.spec["models"]),
            "system": "Route.",
            "lifecycle": {"onRoute": route},
            "tools": self._some(self.spec["tools"], 0.5),
        }
        return {"kind": "agent", "ref": "r"}

    def _run(self, agents: dict[str, Json]) -> Json:
        whole = bool(self.spec["networks"]) and self._happens(0.8)
        target = {"network": "n"} if whole else {"agent": self._of([n for n in agents if n != "r"])}
        optional: dict[str, tuple[float, Json]] = {
            "streaming": (0.3, self._of([{}, {"simulateChunking": True}, *self._pieces.streams]))
        }
        if not whole:
            optional["maxIter"] = (0.4, self._of((0, 1, 2, 3)))
        if self.spec["states"]:
            optional["state"] = (0.5, self._of(self.spec["states"]))
        options = self._chosen(optional)
        text = self._of(self._pieces.inputs) if self._happens(0.3) else self._of(TEXTS)
        return {"target": target, "input": text, "options": options}

    # ------------------------------------------------------------------ replies

    def _reply(self) -> Json:
        kind = format_of(self._provider)
        if self._happens(0.2):
            return self._of(self._pieces.replies[kind])
        asks = bool(self._names) and self._happens(0.45)
        calls = [self._call(number) for number in range(self._of((1, 1, 1, 2, 3)))] if asks else []
        text = self._of(TEXTS) if not calls or self._happens(0.4) else ""
        return {"json": WRITERS[kind](text, calls)}

    def _call(self, number: int) -> tuple[str, str, Json]:
        known = self._happens(0.95)
        name = self._of(self._names) if known else "ghost"
        fields = {self._of(KEYS): value(self._random, 1) for _ in range(self._of((0, 1, 2, 3)))}
        given = value(self._random) if self._happens(0.15) else fields
        return self._of((f"c{number}", "c0", "call_1")), name, given
