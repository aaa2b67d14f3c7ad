"""Families of random scenarios that combine: providers, servers of tools, functions, threads."""

from __future__ import annotations

import copy
import random

from . import accents, corners
from .accents import Accent, Spec, format_of, value
from .corners import odd
from .swapped import OPTIONS, WRITERS
from .vectors import Json

_WIDTHS = (0, 1, 48, 49, 50, 51, 79, 80, 81, 99, 100, 101, 160, 161)


def providers(spec: Spec, rand: random.Random) -> None:
    """Agents of several providers that share a history, a state and tools."""
    names = rand.sample(list(OPTIONS), 3)
    for number, name in enumerate(names):
        spec["models"][f"p{number}"] = {"provider": name, "options": copy.deepcopy(OPTIONS[name])}
    tool = {"factory": "createTool", "name": "look", "handler": {"op": "echo"}}
    spec["tools"] = {"look": tool, **spec["tools"]}
    spec["agents"] = {
        name: {
            "type": "agent",
            "name": name.upper(),
            "system": f"You are {name}.",
            "model": f"p{number}",
            "tools": rand.choice((["look"], ["look"], [])),
        }
        for number, name in enumerate("abc")
    }
    if rand.random() < 0.3:
        accents.messages(spec, rand)
    turns = [rand.choice("abc") for _ in range(rand.randint(2, 5))]
    rules = [{"when": {"callCount": i}, "return": name} for i, name in enumerate(turns)]
    router = {"kind": "fn", "rules": rules}
    spec["networks"] = {"n": {"name": "net", "agents": list("abc"), "router": router}}
    options = [r["options"] for r in spec["runs"] if "network" in r["target"]] or [{}]
    for key in ("maxIter", "network", "model", "router", "defaultRouter"):
        options[0].pop(key, None)
    given = rand.choice((*accents.TEXTS, *corners.ODD_TEXTS))
    spec["runs"] = [{"target": {"network": "n"}, "input": given, "options": options[0]}]
    spec["llm"] = [_turn(spec, name, rand) for name in turns]
    if rand.random() < 0.3:
        rand.choice((accents.lifecycle, accents.history, accents.streaming))(spec, rand)


def _turn(spec: Spec, agent: str, rand: random.Random) -> Json:
    owner = spec["agents"][agent]
    write = WRITERS[spec["models"][owner["model"]]["provider"]]
    calls = [
        (f"c{i}", "look", {rand.choice(accents.KEYS): odd(rand)}) for i in range(rand.randint(1, 3))
    ]
    asks = bool(owner["tools"]) and rand.random() < 0.6
    text = rand.choice(accents.TEXTS)
    return {"json": write(text if not asks or rand.random() < 0.4 else "", calls if asks else [])}


def parameters(spec: Spec, rand: random.Random) -> None:
    """Default parameters of any kind, those that adapters write themselves among them."""
    for model in spec["models"].values():
        found = _PARAMETERS[format_of(model["provider"])]
        given = model["options"].setdefault("defaultParameters", {})
        for each in rand.sample(found, rand.randint(1, 3)):
            given |= copy.deepcopy(each)
    if rand.random() < 0.5:
        accents.parallel(spec, rand)


_PARAMETERS: dict[str, list[Json]] = {
    "openai": [
        {"tool_choice": "none"}, {"tool_choice": "required"}, {"stream": False}, {"store": True},
        {"logprobs": True, "top_logprobs": 2}, {"service_tier": "flex"}, {"temperature": 0},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
        {"parallel_tool_calls": False}, {"frequency_penalty": -1.5}, {"logit_bias": {"50256": -1}},
        {"reasoning_effort": "high"}, {"verbosity": "low"}, {"temperature": 1.0}, {"n": 2},
        {"prediction": {"type": "content", "content": "x"}}, {"max_completion_tokens": 0},
        {"messages": []}, {"tools": []}, {"unknown_key": {"deep": [1, None]}}, {"user": None},
    ],
    "anthropic": [
        {"system": "from parameters"}, {"messages": []}, {"tools": []}, {"stream": False},
        {"tool_choice": {"type": "any"}}, {"tool_choice": {"type": "none"}}, {"temperature": 0},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"top_p": 1.0},
        {"service_tier": "auto"}, {"unknown_key": {"deep": [1, None]}}, {"max_tokens": 8192},
    ],
    "gemini": [
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, {"contents": []},
        {"generationConfig": {"responseMimeType": "application/json"}}, {"tools": []},
        {"generationConfig": {"maxOutputTokens": 5, "topK": 1, "topP": 0.5}},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
        {"systemInstruction": {"parts": [{"text": "from parameters"}]}}, {"model": "other"},
        {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, {"labels": {"a": "b"}},
        {"safetySettings": [{"category": "C", "threshold": "T"}]}, {"unknown_key": [1, None]},
    ],
}  # fmt: skip


def acts(spec: Spec, rand: random.Random) -> None:
    """Tools that wait, do many things or fail half-way, whose errors have causes and members."""
    for tool in spec["tools"].values():
        tool.pop("parameters", None)
        tool["handler"] = _act(rand)
    accents.parallel(spec, rand)
    for run in spec["runs"]:
        if rand.random() < 0.3:
            run["options"]["streaming"] = {"simulateChunking": rand.random() < 0.7}


def _act(rand: random.Random, depth: int = 0) -> Json:
    inner = {"name": "Error", "message": "inner", "stack": "Error: inner\n    at fixed (x:1:1)"}
    cause = rand.choice((inner, {**inner, "cause": dict(inner)}, {**inner, "props": {"code": 5}}))
    name = rand.choice(("Error", "HttpError", "TypeError", "NonRetriableError"))
    error: Spec = {"name": name, "message": rand.choice(("broke", "", '{"json": 1}', "😀"))}
    error["stack"] = f"{name}: {error['message']}\n    at fixed (tool.ts:1:1)"
    if rand.random() < 0.4:
        error["cause"] = cause
    if rand.random() < 0.4:
        error["props"] = rand.choice(({"status": 404}, {"data": odd(rand)}, {"name2": None}))
    key = rand.choice(("v", "w", "list"))
    plain: list[Json] = [
        {"op": "delay", "ms": rand.randrange(20), "value": odd(rand)},
        {"op": "throw", "error": error},
        {"op": "setState", "key": key, "fromInput": rand.choice(("city", "a", "none"))},
        {"op": "setState", "key": key, "value": odd(rand), "returns": odd(rand)},
        {"op": "appendState", "key": "list", "fromInput": rand.choice((True, "a"))},
        {"op": "appendState", "key": "list", "value": odd(rand), "returns": 1},
        {"op": "incState", "key": "n", "by": rand.choice((0, 0.1, -3, 1e21))},
        {"op": "getState", "key": rand.choice(("v", "n", "none"))},
        {"op": "kvSet", "key": key, "value": odd(rand)},
        {"op": "kvGet", "key": rand.choice(("v", "n", "none"))},
        {"op": "networkInfo"},
        {"op": "throwValue", "value": rand.choice(("", 0, False, [], {}, {"message": "m"}))},
        {"op": "return", "value": {"error": "not really"}},
        {"op": "return", "value": {"data": {"data": 1}}},
    ]
    if depth:
        return rand.choice(plain)
    if rand.random() < 0.4:
        return {"op": "seq", "ops": [_act(rand, 1) for _ in range(rand.randint(0, 4))]}
    return rand.choice(plain)


def chunks(spec: Spec, rand: random.Random) -> None:
    """Streamed texts, arguments and results as long as a chunk, or one more."""

    def text() -> str:
        letter = rand.choice(("a", "é", "😀", "ab😀", "\n", '"'))
        return (letter * 170)[: rand.choice(_WIDTHS)]

    for tool in spec["tools"].values():
        tool.pop("parameters", None)
        tool["handler"] = {"op": "return", "value": rand.choice((text(), [text()], {"t": text()}))}
    names = [tool["name"] for tool in spec["tools"].values()]
    for agent in spec["agents"].values():
        if agent["type"] == "agent":
            agent["tools"] = list(spec["tools"])
    provider = next(iter(spec["models"].values()))["provider"]
    for _ in range(rand.randint(1, 3)):
        count = rand.randint(0, 3) if names else 0
        calls = [(f"c{i}", rand.choice(names), {"t": text()}) for i in range(count)]
        spec["llm"].insert(0, {"json": WRITERS[provider](text(), calls)})
    for run in spec["runs"]:
        run["options"]["streaming"] = {"simulateChunking": rand.random() < 0.85}
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randrange(4)


def threads(spec: Spec, rand: random.Random) -> None:
    """Several runs on one thread: what a store returns grows, states are used again."""
    accents.history(spec, rand)
    for store in spec["histories"].values():
        if "get" in store:
            rows = [accents.made_result(rand) for _ in range(3)]
            if rand.random() < 0.4:
                rows[0] = {**rows[0], "agentName": "user", "output": [_USER], "toolCalls": []}
            store["get"] = {"sequence": [rows[:n] for n in sorted(rand.sample(range(4), 3))]}
    spec["states"]["one"] = {"threadId": "T-1", "data": {"n": 0}}
    spec["states"]["new"] = {"data": {"n": 0}}
    first = spec["runs"][0]
    spec["runs"] = []
    for _ in range(rand.randint(2, 4)):
        run = copy.deepcopy(first)
        run["input"] = rand.choice(accents.TEXTS)
        run["options"].pop("state", None)
        if rand.random() < 0.8:
            run["options"]["state"] = rand.choice(("one", "new"))
        spec["runs"].append(run)


_USER = {"type": "text", "role": "user", "content": "said before"}


def inside(spec: Spec, rand: random.Random) -> None:
    """Any other family inside an Inngest function."""
    rand.choice(_WITHIN)(spec, rand)
    accents.durable(spec, rand)
    if rand.random() < 0.3:
        spec["runs"][-1].pop("stepContext")


def served(spec: Spec, rand: random.Random) -> None:
    """Tools of a server in any other family."""
    rand.choice(_WITHIN)(spec, rand)
    accents.mcp(spec, rand)
    if rand.random() < 0.4:
        spec["runs"][0]["options"]["streaming"] = {"simulateChunking": rand.random() < 0.5}
    if rand.random() < 0.3:
        accents.durable(spec, rand)


def mixture(spec: Spec, rand: random.Random) -> None:
    """Two of these and the other families at once."""
    left = ("both", "twice", "mcp", "mixture", "served", "inside", "providers")
    every = {**accents.FAMILIES, **corners.CORNERS, **COMBINED}
    for name in rand.sample([name for name in every if name not in left], 2):
        every[name](spec, rand)
    if rand.random() < 0.1:
        spec["states"]["m"] = {"data": {"v": value(rand)}}
        spec["runs"][0]["options"]["state"] = "m"


def teams(spec: Spec, rand: random.Random) -> None:
    """Several networks that share agents, stores, states and models, run in turns."""
    accents.history(spec, rand)
    agents = [name for name, agent in spec["agents"].items() if agent["type"] == "agent"]
    if len(agents) < 2:
        spec["agents"]["z"] = {"type": "agent", "name": "Z", "system": "You are Z."}
        agents.append("z")
    spec["states"]["team"] = {"data": {"n": 0}, "threadId": rand.choice(("T-1", "", "t"))}
    for number in range(3):
        turns = [rand.choice((agents[0], agents, agents[1], None)) for _ in range(3)]
        rules = [{"when": {"callCount": at}, "return": each} for at, each in enumerate(turns)]
        network: Spec = {"name": rand.choice(("net", f"net{number}")), "agents": agents}
        network |= {
            "defaultModel": rand.choice(list(spec["models"])),
            "maxIter": rand.choice((2, 3)),
        }
        network["router"] = {"kind": "fn", "rules": rules}
        if rand.random() < 0.5:
            network["history"] = rand.choice(list(spec["histories"]))
        if rand.random() < 0.5:
            network["defaultState"] = "team"
        spec["networks"][f"k{number}"] = network
    options: Spec = {}
    if rand.random() < 0.4:
        options["streaming"] = {"simulateChunking": rand.random() < 0.5}
    spec["runs"] = []
    for text in rand.sample(accents.TEXTS, rand.randint(2, 4)):
        target = rand.choice(
            (
                {"network": f"k{rand.randrange(3)}"},
                {"network": "k0"},
                {"agent": rand.choice(agents)},
            )
        )
        state = {"state": "team"} if rand.random() < 0.4 else {}
        spec["runs"].append({"target": target, "input": text, "options": {**options, **state}})


def again(spec: Spec, rand: random.Random) -> None:
    """One message that is sent again, on a thread whose store knows it, and whose rows repeat."""
    accents.inputs(spec, rand)
    given = rand.choice(spec["runs"])["input"]
    rows = [accents.made_result(rand) for _ in range(2)]
    said = {**_USER, "content": given["content"]}
    known = {**rows[0], "agentName": "user", "output": [said], "toolCalls": [], "id": given["id"]}
    found = rand.choice(([known], [known, rows[1]], [rows[0], known, rows[1]], [rows[0], rows[0]]))
    store: Spec = {"get": {"return": found}, "appendUserMessage": {}, "appendResults": {}}
    spec["histories"]["again"] = store
    spec["states"]["again"] = {
        "threadId": "T-1",
        "data": {"userId": rand.choice(("u", 7, "", None))},
    }
    for owner in [*spec["agents"].values(), *spec["networks"].values()]:
        if owner.get("type") != "routing":
            owner["history"] = "again"
    for run in spec["runs"]:
        run["options"]["state"] = "again"
    spec["runs"] = [copy.deepcopy(rand.choice(spec["runs"])) for _ in range(rand.randint(1, 3))]
    if rand.random() < 0.4:
        accents.streaming(spec, rand)


def nothing(spec: Spec, rand: random.Random) -> None:
    """Nothing where there may be nothing: no agents, rows, texts, arguments or words."""
    for agent in spec["agents"].values():
        for name, empty in _EMPTY.items():
            if rand.random() < 0.3:
                agent[name] = empty
    for tool in spec["tools"].values():
        tool.update(rand.choice(({"description": ""}, {"handler": {"op": "returnUndefined"}}, {})))
    for network in spec["networks"].values():
        if rand.random() < 0.3:
            network["agents"] = []
        if rand.random() < 0.3:
            network["router"] = {"kind": "fn", "rules": []}
    names = [tool["name"] for tool in spec["tools"].values()]
    write = WRITERS[next(iter(spec["models"].values()))["provider"]]
    calls = [("c0", rand.choice(names), {})] if names and rand.random() < 0.5 else []
    spec["llm"] = [{"json": write(rand.choice(("", " ", "\n")), calls)}, *spec["llm"]]
    spec["states"]["none"] = rand.choice(({}, {"data": {}}, {"messages": [], "results": []}))
    for run in spec["runs"]:
        run["input"] = rand.choice(("", " ", {"id": "m", "role": "user", "content": ""}))
        run["options"] |= rand.choice(({}, {"state": "none"}, {"streaming": {}}))


_EMPTY: Spec = {"system": "", "description": "", "assistant": "", "tools": [], "lifecycle": {}}


def long(spec: Spec, rand: random.Random) -> None:
    """A turn of many inferences, with calls that fail, cut replies and texts in between."""
    accents.handlers(spec, rand)
    names = [tool["name"] for tool in spec["tools"].values()]
    write = WRITERS[next(iter(spec["models"].values()))["provider"]]
    spec["llm"] = []
    for number in range(rand.randint(5, 9)):
        calls = [
            (
                f"c{number}{at}",
                rand.choice((*names, *names, "ghost")),
                {rand.choice("ab"): odd(rand)},
            )
            for at in range(rand.choice((1, 1, 2)))
        ]
        spec["llm"].append({"json": write(rand.choice(("", "so", " ")), calls)})
    if rand.random() < 0.5:
        rand.choice((accents.replies, accents.lifecycle, corners.cycles))(spec, rand)
    for run in spec["runs"]:
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randint(4, 9)


def triple(spec: Spec, rand: random.Random) -> None:
    """Three of the families that do not set the whole scenario."""
    for accent in rand.sample(_WITHIN, 3):
        accent(spec, rand)


_WITHIN: tuple[Accent, ...] = (
    accents.lifecycle, accents.history, accents.messages, accents.inputs, accents.streaming,
    accents.parallel, accents.handlers, accents.options, corners.values, corners.routers,
    corners.cycles, corners.stores, corners.said, corners.names, acts, chunks, threads, parameters,
)  # fmt: skip

COMBINED: dict[str, Accent] = {
    "providers": providers,
    "parameters": parameters,
    "acts": acts,
    "chunks": chunks,
    "threads": threads,
    "inside": inside,
    "served": served,
    "mixture": mixture,
    "teams": teams,
    "again": again,
    "nothing": nothing,
    "long": long,
    "triple": triple,
}
"""Additions of a family, by name."""
