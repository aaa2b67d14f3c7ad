"""More families of random scenarios: odd values in every place where a scenario has one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable

from . import accents
from .accents import FAMILIES, Accent, Spec, format_of, value
from .swapped import WRITERS
from .vectors import Json

ODD_KEYS = (
    "2",
    "1",
    "constructor",
    "toString",
    "length",
    "é",
    "",
    "arguments",
    "$ref",
)
ODD_TEXTS = (
    "\ud83d", "\u2028", "\x00", "\ufeffbom", "x" * 79 + "😀", "e\u0301", "\u200b",
    "a" * 49 + "😀" + "b" * 60, "\\u0041", "'single'", '"double"', "`tick`", "1e21",
    "[object Object]",
)  # fmt: skip
ODD_NUMBERS = (1e21, 1e-7, -0.0, 0.1, 1e300, 5e-324, 2**53, 123456789.5, 1.0, 100000000000000000000)


def odd(rand: random.Random, depth: int = 0) -> Json:
    """Any JSON, of what languages write differently."""
    kind = rand.random()
    if kind < 0.25:
        return rand.choice(ODD_TEXTS)
    if kind < 0.45:
        return rand.choice(ODD_NUMBERS)
    if kind < 0.6 or depth > 1:
        return value(rand, 1)
    if kind < 0.85:
        return {rand.choice(ODD_KEYS): odd(rand, depth + 1) for _ in range(rand.randrange(4))}
    return [odd(rand, depth + 1) for _ in range(rand.randrange(3))]


def _kind(spec: Spec) -> str:
    return format_of(next(iter(spec["models"].values()))["provider"])


def _writer(spec: Spec) -> Callable[..., Json]:
    return WRITERS[next(iter(spec["models"].values()))["provider"]]


def _reply(spec: Spec, text: str, *calls: tuple[str, str, Json]) -> Json:
    return {"json": _writer(spec)(text, list(calls))}


def _agents(spec: Spec) -> list[Spec]:
    return [agent for agent in spec["agents"].values() if agent["type"] == "agent"]


def _tool(spec: Spec, rand: random.Random) -> str:
    """The name of a tool that all agents have."""
    tools = spec["tools"]
    if not tools:
        tools["p"] = {"factory": "createTool", "name": "p", "handler": {"op": "echo"}}
    for agent in _agents(spec):
        agent["tools"] = list(tools)
    return rand.choice([tool["name"] for tool in tools.values()])


def _error(rand: random.Random, name: str | None = None) -> Json:
    name = name or rand.choice(("Error", "TypeError", "MyError", "AbortError", ""))
    said = rand.choice(("broke", "", "two\nlines", "héllo 😀"))
    return {"name": name, "message": said, "stack": f"{name}: {said}\n    at fixed (x.ts:1:1)"}


# ---------------------------------------------------------------------------- values and arguments


def values(spec: Spec, rand: random.Random) -> None:
    """Odd JSON as arguments, results, data and texts."""
    name = _tool(spec, rand)
    for tool in spec["tools"].values():
        tool.pop("parameters", None)
        tool["handler"] = rand.choice(
            (
                {"op": "return", "value": odd(rand)},
                {"op": "echo"},
                {"op": "setState", "key": rand.choice(ODD_KEYS), "value": odd(rand)},
                {
                    "op": "seq",
                    "ops": [
                        {"op": "kvSet", "key": "k", "value": odd(rand)},
                        {"op": "kvGet", "key": "k"},
                    ],
                },
            )
        )
    given = {rand.choice(ODD_KEYS): odd(rand) for _ in range(rand.randrange(4))}
    spec["llm"] = [
        _reply(spec, rand.choice(("", *ODD_TEXTS)), ("c1", name, given)),
        _reply(spec, rand.choice(ODD_TEXTS)),
        *spec["llm"],
    ]
    for run in spec["runs"]:
        run["input"] = rand.choice(ODD_TEXTS)
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randrange(3)
        if rand.random() < 0.4:
            run["options"]["streaming"] = {"simulateChunking": True}
    spec["states"] = {**spec["states"], "o": {"data": {rand.choice(ODD_KEYS): odd(rand)}}}
    if rand.random() < 0.4:
        spec["runs"][0]["options"]["state"] = "o"


def arguments(spec: Spec, rand: random.Random) -> None:
    """Arguments that are nearly JSON, or of another type than they should be."""
    name = _tool(spec, rand)
    for _ in range(rand.randint(1, 2)):
        given = {rand.choice(("city", "a", *ODD_KEYS)): odd(rand) for _ in range(rand.randrange(3))}
        reply = _reply(spec, rand.choice(("", "ok")), ("c1", name, given))
        _NEARLY[_kind(spec)](reply["json"], rand)
        spec["llm"].insert(0, reply)


_FORMS: tuple[str, ...] = (
    '{"a": `x "y" z`}', '{"a": `x`, "b": `y\nz`}', "'{\"a\": 1}'", '"{\\"a\\": 1}"', "{'a': 1}",
    "", " ", "null", "true", "7", "-0", "[1]", '"text"', "{", '{"a": 1,}', '{"a": 1} trailing',
    "NaN", '{"a": NaN}', '{"a": 1e400}', '{"a": 01}', '{"a": 1, "a": 2}', '{"a": "\\ud83d"}',
    "undefined", '\ufeff{"a": 1}', '{"a": "line\nbreak"}', '{"a": 12345678901234567890}',
    '{"2": 1, "1": 2}', "``", '""', "''", '"', '```json\n{"a": 1}\n```', '{"a": "`tick`"}',
    '{"a":-0.0}', '{"a": "\\u2028"}', '  {"a" : 1}\n', '"\\"{}\\""', '{"city": 5}',
    '{"city": null}', '{"city": "R", "x": 1}',
)  # fmt: skip


def _nearly_chat(body: Json, rand: random.Random) -> None:
    call = body["choices"][0]["message"]["tool_calls"][0]
    function = call["function"]
    changes: list[Callable[[], object]] = [
        lambda: function.update(arguments=rand.choice(({"a": 1}, None, 5, [], True))),
        lambda: function.pop("arguments"),
        lambda: call.pop("id"),
        lambda: call.pop("type"),
        lambda: call.update(id=rand.choice(("", None, 5))),
        lambda: function.update(name=rand.choice(("", None, 5))),
        lambda: function.pop("name"),
        lambda: call.update(function=None),
    ]
    if rand.random() < 0.75:
        function["arguments"] = rand.choice(_FORMS)
    else:
        rand.choice(changes)()


def _nearly_anthropic(body: Json, rand: random.Random) -> None:
    block = body["content"][-1]
    changes: list[Callable[[], object]] = [
        lambda: block.update(input=rand.choice((None, "text", '{"a": 1}', 5, [1], True, ""))),
        lambda: block.update(input=rand.choice(_FORMS)),
        lambda: block.pop("input"),
        lambda: block.update(id=rand.choice(("", None))),
        lambda: block.update(name=rand.choice(("", None))),
        lambda: block.update(cache_control={"type": "ephemeral"}),
    ]
    rand.choice(changes)()


def _nearly_gemini(body: Json, rand: random.Random) -> None:
    part = body["candidates"][0]["content"]["parts"][-1]
    call = part["functionCall"]
    changes: list[Callable[[], object]] = [
        lambda: call.update(args=rand.choice((None, "text", 5, [1], True, ""))),
        lambda: call.pop("args"),
        lambda: call.update(id="given"),
        lambda: call.update(name=rand.choice(("", None))),
    ]
    rand.choice(changes)()


_NEARLY = {"openai": _nearly_chat, "anthropic": _nearly_anthropic, "gemini": _nearly_gemini}


# ---------------------------------------------------------------------------- what is declared


def names(spec: Spec, rand: random.Random) -> None:
    """Odd names, descriptions, systems, prefills and tool options."""
    _named_tools(spec, rand)
    for agent in _agents(spec):
        if rand.random() < 0.3:
            agent["name"] = rand.choice(("", "A", "My Agent", "ä/ö", 'q"uote', "Ⅻ", "a" * 70))
        if rand.random() < 0.4:
            agent["description"] = rand.choice(("", "two\nlines", "<xml>&", "d" * 300))
        if rand.random() < 0.3:
            agent.pop("description", None)
        if rand.random() < 0.4:
            agent["system"] = rand.choice(("", " ", "{data.v}", "😀", *_SYSTEMS))
        if rand.random() < 0.3:
            agent["assistant"] = rand.choice(("", " ", "So: ", "\n"))
    for network in spec["networks"].values():
        network["name"] = rand.choice(("", "net", "My Net", "ñ"))


def _named_tools(spec: Spec, rand: random.Random) -> None:
    for tool in spec["tools"].values():
        if rand.random() < 0.3:
            tool["name"] = rand.choice(
                ("t", "my tool", "a.b", "done", "select_agent", "ü", "t" * 65)
            )
        if rand.random() < 0.3:
            tool["description"] = rand.choice(("", "d\nd", "😀"))
        if rand.random() < 0.3:
            tool["strict"] = rand.random() < 0.5
            tool["factory"] = rand.choice(("plain", "createTool"))
        if rand.random() < 0.3:
            tool.pop("parameters", None)
    every = [tool["name"] for tool in spec["tools"].values()]
    if every:
        calls = [("c", rand.choice(every), {}) for _ in range(rand.randint(1, 2))]
        spec["llm"].insert(0, _reply(spec, "", *calls))


_SYSTEMS: tuple[Json, ...] = (
    {"fn": {"template": "Net {network.name} of {agentNames}: {resultCount}."}},
    {"fn": {"template": "v is {data.v}, w is {data.w.x}.", "async": True}},
    {"fn": {"template": "", "async": True}},
    {
        "fn": {
            "template": "x",
            "throw": {"name": "Error", "message": "no prompt", "stack": "Error: x"},
        }
    },
)


_RARE = """
z.date() | z.bigint() | z.map(z.string(), z.number()) | z.set(z.string()) | z.void() |
z.undefined() | z.nan() | z.symbol() | z.never() | z.string().default("d") |
z.number().default(3).optional() | z.string().prefault("p") | z.string().catch('c') |
z.string().transform((s) => s.length) | z.preprocess((v) => v, z.string()) | z.coerce.number() |
z.coerce.string().min(1) | z.coerce.boolean().optional() | z.lazy(() => z.string()) |
z.string().readonly() | z.string().brand('b') |
z.intersection(z.object({ x: z.string() }), z.object({ y: z.number() })) |
z.discriminatedUnion("k", [z.object({ k: z.literal("a") }), z.object({ k: z.literal("b") })]) |
z.nativeEnum({ A: 'a', B: 'b' }) | z.enum({ A: 1, B: 2 }) | z.literal(["a", "b", 3]) |
z.literal(null) | z.literal(true) | z.int() | z.int32() | z.float64() | z.iso.date() |
z.iso.time() | z.ipv4() | z.url() | z.email() | z.uuidv4() | z.base64() | z.cuid() |
z.templateLiteral(['a', z.number()]) | z.stringbool() | z.json() | z.file() | z.e164() |
z.record(z.enum(['a', 'b']), z.number()) | z.partialRecord(z.enum(['a']), z.string()) |
z.array(z.string()).length(2) | z.array(z.number()).max(3) |
z.tuple([z.string()]).rest(z.number()) | z.object({}).catchall(z.number()) |
z.looseObject({ q: z.string() }) | z.strictObject({ q: z.string() }) |
z.string().meta({ title: 'T', examples: ['e'] }) | z.string().length(3) |
z.string().startsWith('a') | z.string().includes('b') | z.string().endsWith('c') |
z.string().trim() | z.string().toLowerCase() | z.number().lt(5).gt(1) | z.number().finite() |
z.number().negative() | z.number().safe() | z.string().nullable().optional() |
z.string().nullish().default(null) | z.union([z.string(), z.null()]) |
z.optional(z.nullable(z.number())) |
z.array(z.union([z.string(), z.object({ r: z.boolean() })])) |
z.string().refine((s) => s.length > 1) | z.string().superRefine(() => {}) |
z.number().pipe(z.number().max(9)) |
z.object({ a: z.object({ b: z.object({ c: z.string().optional() }) }) }) |
z.string().regex(/^[a-z]+$/i) |
(() => { const N = z.object({ v: z.string(), get next() { return N.optional() } }); return N })() |
(() => { const N = z.object({ get many() { return z.array(N) } }); return N })() |
(() => { const A = z.string().meta({ id: 'Own' }); return z.object({ p: A, q: A.optional() }) })() |
z.object({ a: z.string(), b: z.number() }).pick({ a: true }) |
z.object({ a: z.string() }).extend({ c: z.number().default(1) }) |
z.object({ a: z.string() }).and(z.object({ b: z.number().optional() })) |
z.string().or(z.number()).describe('one of two') | z.number().int().gt(0).lt(10) |
z.array(z.tuple([z.string(), z.number().optional()])) |
z.record(z.string(), z.object({ k: z.any() })) |
z.enum(['one']).describe('only one') | z.array(z.enum(['a', 'b'])).min(1).max(2) |
z.object({ a: z.string().optional().describe('x') }).describe('inner').optional() |
z.union([z.object({ t: z.literal('a'), x: z.string() }), z.object({ t: z.literal('b') })]) |
z.array(z.any()).default([]) | z.object({ z: z.string() }).default({ z: 'd' }) |
z.string().regex(/(?=x)y/) | z.string().date() | z.string().duration() |
z.iso.datetime({ offset: true })
"""
_KEYWORDS = ("additionalProperties", "$schema", "type", "properties", "items", "required", "enum")


def zod(spec: Spec, rand: random.Random) -> None:
    """Tools whose parameters are zod types that are rare."""
    _tool(spec, rand)
    rare = [each.strip() for each in _RARE.split(" |")]
    for tool in spec["tools"].values():
        known = ("city", "a", "2", "1", "constructor", "x y", rand.choice(_KEYWORDS))
        keys = rand.sample(known, rand.randint(1, 3))
        fields = ", ".join(f"{json.dumps(key)}: {rand.choice(rare)}" for key in keys)
        ends = ("", "", "", ".strict()", ".loose()", ".partial()", ".required()", ".optional()")
        made = f"z.object({{ {fields} }}){rand.choice(ends)}"
        if rand.random() < 0.1:
            made = rand.choice(rare)
        tool["parameters"] = {"zod": made}


def models(spec: Spec, rand: random.Random) -> None:
    """Models with options missing, empty or of another provider; agents and networks without."""
    for model in spec["models"].values():
        given = model["options"]
        changes: list[Callable[[], object]] = [
            lambda given=given: given.update(apiKey=rand.choice(("", "k y", "ä"))),
            lambda given=given: given.update(baseUrl="{{BASE}}"),
            lambda given=given: given.update(betaHeaders=["b-1", "b-2"]),
            lambda given=given: given.update(betaHeaders=[]),
            lambda given=given: given.update(defaultParameters={}),
            lambda given=given: given.setdefault("defaultParameters", {}).update(max_tokens=0),
            lambda given=given: given.setdefault("defaultParameters", {}).update(stream=False),
            lambda given=given: given.setdefault("defaultParameters", {}).update(tools=[]),
        ]
        rand.choice(changes)()
    for owner in _agents(spec):
        if rand.random() < 0.3:
            owner.pop("model", None)
    for network in spec["networks"].values():
        if rand.random() < 0.3:
            network.pop("defaultModel", None)


# ---------------------------------------------------------------------------- how it is run


def runs(spec: Spec, rand: random.Random) -> None:
    """Options of runs: another network, router or model; many runs on the same objects."""
    _routed(spec, rand)
    for _ in range(rand.randint(0, 2)):
        spec["runs"].append(copy.deepcopy(rand.choice(spec["runs"])))
    for run in spec["runs"]:
        options = run["options"]
        if rand.random() < 0.5:
            run["target"] = rand.choice(
                ({"network": "n"}, {"agent": rand.choice([a for a in spec["agents"] if a != "r"])})
            )
        if "agent" in run["target"]:
            options.pop("router", None)
            if rand.random() < 0.5:
                options["network"] = "n"
            options["maxIter"] = rand.choice((0, 1, 2, 3))
        else:
            options.pop("network", None)
            options.pop("maxIter", None)
            options.pop("model", None)
            for key in ("router", "defaultRouter"):
                if rand.random() < 0.3:
                    options[key] = _router(spec, rand)
        if rand.random() < 0.3:
            options["streaming"] = {"simulateChunking": rand.random() < 0.5}
        if spec["states"] and rand.random() < 0.5:
            options["state"] = rand.choice(list(spec["states"]))


def _routed(spec: Spec, rand: random.Random) -> None:
    """A network of all agents, with any router."""
    network: Spec = {"name": "net", "agents": [a for a in spec["agents"] if a != "r"]}
    network["agents"] = network["agents"][: rand.randint(1, 3)]
    network["defaultModel"] = next(iter(spec["models"]))
    network["maxIter"] = rand.choice((1, 2, 4))
    if rand.random() < 0.7:
        network["router"] = _router(spec, rand)
    if rand.random() < 0.2:
        network["defaultRouter"] = _router(spec, rand)
    if spec["states"] and rand.random() < 0.4:
        network["defaultState"] = rand.choice(list(spec["states"]))
    spec["networks"] = {"n": network}


def _router(spec: Spec, rand: random.Random) -> Json:
    agents = [a for a in spec["agents"] if a != "r"]
    if rand.random() < 0.25:
        spec["agents"]["r"] = _routing(spec, rand)
        return {"kind": "agent", "ref": "r"}
    rules: list[Json] = []
    for number in range(rand.randint(1, 4)):
        found = [rand.choice(agents) for _ in range(rand.randint(0, 3))]
        rule: Spec = {
            "when": rand.choice(
                (
                    {"callCount": number},
                    {"callCountLt": number + 1},
                    {"stateTruthy": "v", "callCountLt": 3},
                    {"callCount": number, "lastResultAgent": rand.choice("ABC")},
                )
            ),
            "return": rand.choice((found, found, rand.choice(agents), None)),
        }
        if rand.random() < 0.15 and rule["return"] != [] and "r" in spec["agents"]:
            rule["return"] = rand.choice(
                ("r", [rand.choice(agents), "r"], ["r", rand.choice(agents)])
            )
        if rand.random() < 0.4:
            rule["do"] = [_step(spec, rand) for _ in range(rand.randint(1, 2))]
        rules.append(rule)
    return {"kind": "fn", "rules": rules, "sync": rand.random() < 0.5}


def _step(spec: Spec, rand: random.Random) -> Json:
    return rand.choice(
        (
            {"op": "setState", "key": rand.choice("vw"), "value": odd(rand)},
            {"op": "schedule", "agent": rand.choice((*"ABC", "ghost"))},
            {"op": "addAgent", "agent": rand.choice([a for a in spec["agents"] if a != "r"])},
            {"op": "throw", "error": _error(rand)},
        )
    )


def _routing(spec: Spec, rand: random.Random) -> Json:
    route: Spec = rand.choice(
        (
            {"kind": "const", "agents": [rand.choice((*"ABC", "ghost"))]},
            {"kind": "const", "agents": [rand.choice("ABC"), rand.choice("ABC")]},
            {"kind": "const", "agents": []},
            {"kind": "const"},
            {"kind": "firstText"},
            {"kind": "const", "throw": _error(rand)},
        )
    )
    cycle: Spec = {"onRoute": route}
    if rand.random() < 0.3:
        cycle |= {k: v for k, v in _cycle(rand).items() if k != "enabled"}
    made: Spec = {"type": "routing", "name": "Router", "description": "routes", "lifecycle": cycle}
    made |= {"system": rand.choice(("Route.", *_SYSTEMS[:2])), "tools": list(spec["tools"])[:1]}
    if rand.random() < 0.8:
        made["model"] = rand.choice(list(spec["models"]))
    if rand.random() < 0.2:
        made["toolChoice"] = "any"
    return made


def routers(spec: Spec, rand: random.Random) -> None:
    """Routers that return lists, nothing, routing agents or errors."""
    _routed(spec, rand)
    for agent in _agents(spec):
        if rand.random() < 0.3:
            agent["lifecycle"] = _cycle(rand)
    spec["runs"] = [
        {"target": {"network": "n"}, "input": "go", "options": {}}
        for _ in range(rand.randint(1, 2))
    ]
    kind = rand.random()
    if kind < 0.3:
        accents.streaming(spec, rand)
    elif kind < 0.4:  # longer than our networks go on
        rules = [{"when": {"callCountLt": 53}, "return": spec["networks"]["n"]["agents"]}]
        spec["networks"]["n"]["router"] = {"kind": "fn", "rules": rules}
        spec["networks"]["n"].pop("maxIter")
    elif kind < 0.6:
        _scheduled(spec, rand)


def _scheduled(spec: Spec, rand: random.Random) -> None:
    """Two runs in which a tool schedules agents and changes what the network's state holds."""
    ops = [
        {"op": "schedule", "agent": rand.choice("ABC")},
        {"op": "appendState", "key": "list", "value": 1},
    ]
    tool = {"factory": "createTool", "name": "look", "handler": {"op": "seq", "ops": ops}}
    spec["tools"] = {"look": tool}
    for agent in spec["agents"].values():
        agent["tools"] = ["look"]
    spec["states"]["nested"] = {"data": {"list": [0]}}
    spec["networks"]["n"]["defaultState"] = "nested"
    spec["llm"] = [_reply(spec, "", ("c1", "look", {})), *spec["llm"]]
    spec["runs"] = [{"target": {"network": "n"}, "input": "go", "options": {}} for _ in range(2)]


def cycles(spec: Spec, rand: random.Random) -> None:
    """Hooks that give new results, throw or stop, in loops and networks."""
    name = _tool(spec, rand)
    for agent in _agents(spec):
        agent["lifecycle"] = _cycle(rand)
    given = {"city": "Rome", "a": 1}
    asked = [_reply(spec, "", ("c1", name, given)), _reply(spec, "t", ("c2", name, {}))]
    spec["llm"] = [*rand.sample(asked, rand.randint(0, 2)), *spec["llm"]]
    for run in spec["runs"]:
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randrange(4)
    if rand.random() < 0.4:
        accents.streaming(spec, rand)


def _cycle(rand: random.Random) -> Spec:
    made: Spec = {}
    if rand.random() < 0.2:
        made["enabled"] = rand.choice(({"const": True}, {"const": False}, {"stateKey": "w"}))
    if rand.random() < 0.4:
        made["onStart"] = accents.made_start(rand)
    for hook in ("onResponse", "onFinish"):
        if rand.random() < 0.5:
            made[hook] = {"ops": [_new(rand) if rand.random() < 0.5 else accents.made_edit(rand)]}
    for hook in made.values():
        if rand.random() < 0.3:
            hook["sync"] = True
        if rand.random() < 0.07:
            hook["throw"] = _error(rand)
    return made


def _new(rand: random.Random) -> Json:
    return {"op": "newResult", **accents.made_result(rand)}


def stores(spec: Spec, rand: random.Random) -> None:
    """Stores that give nothing, other shapes, many results or errors."""
    for number in range(2):
        store = accents.made_store(rand)
        if "createThread" in store and rand.random() < 0.5:
            store["createThread"]["return"] = rand.choice(
                ({"threadId": ""}, {"threadId": "x", "extra": 1}, None, {"threadId": "ä b"})
            )
        if "get" in store and rand.random() < 0.5:
            store["get"].pop("sequence", None)
            many = [accents.made_result(rand) for _ in range(rand.randint(2, 5))]
            store["get"]["return"] = many
        if rand.random() < 0.15 and store:
            rand.choice(list(store.values()))["throw"] = _error(rand)
        spec["histories"][f"o{number}"] = store
    for owner in [*_agents(spec), *spec["networks"].values()]:
        if rand.random() < 0.7:
            owner["history"] = rand.choice(("o0", "o1"))
    said(spec, rand)
    for _ in range(rand.randrange(3)):
        spec["runs"].append(copy.deepcopy(rand.choice(spec["runs"])))
    if rand.random() < 0.4:
        accents.streaming(spec, rand)


def said(spec: Spec, rand: random.Random) -> None:
    """User messages with members missing, unknown or of another type."""
    for number, run in enumerate(spec["runs"]):
        if rand.random() < 0.2:
            continue
        given: Spec = {"id": rand.choice((f"um-{number}", "um-0", "")), "role": "user"}
        given["content"] = rand.choice(("hi", "", " ", *ODD_TEXTS))
        if rand.random() < 0.5:
            given["clientTimestamp"] = rand.choice(
                (
                    "2024-05-06T07:08:09Z", "2024-05-06", "2024-05-06T07:08:09.123456Z", "", "2024",
                    "2024-05-06T07:08:09+02:00", "2024-02-30T00:00:00Z", "2024-05-06T24:00:00Z",
                    "+012024-05-06T07:08:09Z", "1969-12-31T23:59:59.999Z",
                )
            )  # fmt: skip
        if rand.random() < 0.4:
            given["systemPrompt"] = rand.choice(("Be brief.", " ", *ODD_TEXTS))
        if rand.random() < 0.4:
            given["state"] = rand.choice(({}, {"v": odd(rand)}, {"data": {"v": 1}}))
        if rand.random() < 0.1:
            given["role"] = rand.choice(("assistant", "system", "User"))
        if rand.random() < 0.1:
            given["extra"] = odd(rand)
        run["input"] = given


def histories(spec: Spec, rand: random.Random) -> None:
    """States whose messages are of unknown types, or have members missing."""
    accents.messages(spec, rand)
    for state in spec["states"].values():
        for each in [
            *state.get("messages", []),
            *(m for r in state.get("results", []) for m in r["output"]),
        ]:
            if rand.random() < 0.25:
                _misshape(each, rand)
    for run in spec["runs"]:
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randrange(3)


def _misshape(message: Spec, rand: random.Random) -> None:
    changes: list[Callable[[], object]] = [
        lambda: message.pop("stop_reason", None),
        lambda: message.update(stop_reason=rand.choice(("tool", "stop", "odd", None))),
        lambda: message.update(extra=odd(rand)),
        lambda: (
            message.update(content=rand.choice(ODD_TEXTS)) if message["type"] == "text" else None
        ),
        lambda: (
            message.update(role=rand.choice(("assistant", "user")))
            if message["type"] == "text"
            else None
        ),
        lambda: (
            message["tools"].append({"type": "tool", "id": "h9", "name": "old", "input": odd(rand)})
            if "tools" in message
            else None
        ),
        lambda: (
            message.update(content=[{"type": "text", "text": t} for t in ODD_TEXTS[:2]])
            if message["type"] == "text"
            else None
        ),
    ]
    rand.choice(changes)()


_BODIES = """\
null
5
true
{"error": false}
{"error": 0}
{"error": ""}
{"error": 5}
{"error": []}
{"error": {"message": ""}}
{"error": {"message": 5}}
{"error": {"message": "m", "type": "t", "code": null, "param": null}}
{"type": "error"}
{"type": "error", "error": null}
{"choices": []}
{"choices": null}
{"choices": [{}]}
{"choices": [{"message": {}}]}
{"choices": [{"message": null}]}
{"content": null}
{"content": "text"}
{"content": [{}]}
{"content": [{"type": "text"}]}
{"content": [{"type": "text", "text": null}]}
{"candidates": []}
{"candidates": null}
{"candidates": [{}]}
{"candidates": [{"content": null}]}
{"candidates": [{"content": {"parts": [{}]}}]}
{"candidates": [{"content": {"parts": [{"text": null}]}}]}
{"promptFeedback": {"blockReason": "SAFETY"}}"""


def answers(spec: Spec, rand: random.Random) -> None:
    """Replies with any status, content type or body; replies of another provider's format."""
    other = rand.choice(list(WRITERS))
    good = _reply(spec, "fine")
    bodies: list[Json] = [
        {**good, "status": rand.choice((201, 301, 400, 401, 404, 429, 500, 529))},
        {**good, "contentType": rand.choice(("text/plain", "application/json; charset=utf-8"))},
        {"text": "\ufeff" + json.dumps(good["json"])},
        {"text": "  " + json.dumps(good["json"]) + "\n"},
        {"text": json.dumps(good["json"]) + "x"},
        {"text": json.dumps([good["json"]])},
        {"json": WRITERS[other]("from elsewhere", [])},
        {"json": {**good["json"], "error": rand.choice((None, {"message": "both"}, ""))}},
        {"text": "null", "status": 500},
        *({"json": json.loads(body)} for body in _BODIES.split("\n")),
    ]
    spec["llm"].insert(0, rand.choice(bodies))


def both(spec: Spec, rand: random.Random) -> None:
    """Two of these and the other families at once."""
    every = [*CORNERS.items(), *FAMILIES.items()]
    plain = [accent for name, accent in every if name not in ("both", "twice", "mcp")]
    for accent in rand.sample(plain, 2):
        accent(spec, rand)


CORNERS: dict[str, Accent] = {
    "values": values,
    "arguments": arguments,
    "names": names,
    "zod": zod,
    "models": models,
    "runs": runs,
    "routers": routers,
    "cycles": cycles,
    "stores": stores,
    "said": said,
    "histories": histories,
    "answers": answers,
    "both": both,
}
"""Additions of a family, by name."""
