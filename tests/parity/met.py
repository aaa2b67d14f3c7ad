"""Families of random scenarios after what hosts reply and what programs in the wild do."""

from __future__ import annotations

import copy
import random

from . import accents, corners
from .accents import TEXTS, Accent, Spec, format_of
from .swapped import OPTIONS, WRITERS
from .vectors import Json

_SAID = ("ok", "one", "two\nlines", "", " ", "<task_summary>made it</task_summary>", "😀")


def _provider(spec: Spec) -> str:
    return next(iter(spec["models"].values()))["provider"]


def _tools(spec: Spec) -> list[str]:
    tool = {"factory": "createTool", "name": "look", "handler": {"op": "echo"}}
    spec["tools"] = {"look": tool, **spec["tools"]}
    for agent in spec["agents"].values():
        if agent["type"] == "agent":
            agent["tools"] = list(spec["tools"])
    return [str(tool["name"]) for tool in spec["tools"].values()]


def hosts(spec: Spec, rand: random.Random) -> None:
    """Models of hosts that speak OpenAI's format, with the reasoning that they give."""
    names = ("deepseek-chat", "deepseek-reasoner", "deepseek-coder")
    for model in spec["models"].values():
        options = {**copy.deepcopy(OPTIONS["deepseek"]), "model": rand.choice(names)}
        model.update(provider="deepseek", options=options)
    known = _tools(spec)
    spec["llm"] = []
    for number in range(rand.randint(2, 5)):
        calls = [(f"c{number}", rand.choice(known), {"city": rand.choice(TEXTS)})]
        body = WRITERS["deepseek"](rand.choice(_SAID), calls if rand.random() < 0.6 else [])
        message = body["choices"][0]["message"]
        if rand.random() < 0.6:
            message["reasoning_content"] = rand.choice(("I think.", "", "so\nand so", None))
        if rand.random() < 0.2:
            body["choices"][0]["finish_reason"] = rand.choice(
                ("length", "content_filter", "insufficient_system_resource")
            )
        spec["llm"].append({"json": body})
    for run in spec["runs"]:
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randint(1, 4)
    if rand.random() < 0.3:
        accents.messages(spec, rand)


# ---------------------------------------------------------------------------- replies

_CHAT_PARTS: tuple[Json, ...] = (
    {"type": "text", "text": "part"},
    {"type": "text", "text": ""},
    {"type": "output_text", "text": "other"},
    {"type": "refusal", "refusal": "no"},
    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
)
_CLAUDE_BLOCKS: tuple[Json, ...] = (
    {"type": "text", "text": "more"},
    {"type": "text", "text": ""},
    {"type": "text", "text": "cited", "citations": [{"type": "char_location", "cited_text": "x"}]},
    {"type": "thinking", "thinking": "hm", "signature": "sig"},
    {"type": "thinking", "thinking": "", "signature": "sig"},
    {"type": "redacted_thinking", "data": "abc"},
    {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "x"},
        "result": {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    },
    {"type": "container_upload", "file_id": "f"},
    {"type": "brand_new", "anything": [1]},
)
_GEMINI_PARTS: tuple[Json, ...] = (
    {"text": "more"},
    {"text": ""},
    {"text": "hm", "thought": True},
    {"text": "signed", "thoughtSignature": "c2ln"},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
    {"fileData": {"mimeType": "text/plain", "fileUri": "https://x"}},
    {"functionResponse": {"name": "look", "response": {"a": 1}}},
    {"brandNew": {}},
)


def blocks(spec: Spec, rand: random.Random) -> None:
    """Replies with parts of every type, in any order, between texts and calls."""
    known = _tools(spec)
    kind = format_of(_provider(spec))
    for number in range(rand.randint(1, 3)):
        count = rand.choice((0, 0, 1, 2))
        calls = [(f"b{number}{i}", rand.choice(known), {"a": i}) for i in range(count)]
        body = WRITERS[kind](rand.choice(_SAID), calls)
        _MIXED[kind](body, rand)
        spec["llm"].insert(0, {"json": body})
    if rand.random() < 0.4:
        for run in spec["runs"]:
            run["options"]["streaming"] = {"simulateChunking": rand.random() < 0.5}


def _chat_mixed(body: Json, rand: random.Random) -> None:
    message = body["choices"][0]["message"]
    parts = [copy.deepcopy(rand.choice(_CHAT_PARTS)) for _ in range(rand.randint(0, 3))]
    if rand.random() < 0.6:
        message["content"] = parts
    if rand.random() < 0.3:
        message["refusal"] = rand.choice(("I will not.", "", None))
    if rand.random() < 0.2:
        message["function_call"] = {"name": "look", "arguments": "{}"}
    if rand.random() < 0.2:
        message["audio"] = {"id": "a", "transcript": "said", "data": "AA==", "expires_at": 1}


def _claude_mixed(body: Json, rand: random.Random) -> None:
    kinds = [block["type"] for block in body["content"]]
    calls = kinds.index("tool_use") if "tool_use" in kinds else len(kinds)
    for _ in range(rand.randint(1, 3)):
        block = copy.deepcopy(rand.choice(_CLAUDE_BLOCKS))
        hosted = block.pop("result", None)
        # Claude thinks before it calls, and a hosted tool's result follows its call.
        last = calls if hosted or "thinking" in block["type"] else len(body["content"])
        place = rand.randint(0, last)
        body["content"][place:place] = [block, hosted] if hosted else [block]
        calls += (2 if hosted else 1) * (place <= calls)
    if rand.random() < 0.3:
        body["stop_reason"] = rand.choice(("pause_turn", "refusal", "max_tokens", "end_turn"))


def _gemini_mixed(body: Json, rand: random.Random) -> None:
    parts = body["candidates"][0]["content"]["parts"]
    for _ in range(rand.randint(1, 3)):
        parts.insert(rand.randint(0, len(parts)), copy.deepcopy(rand.choice(_GEMINI_PARTS)))
    if rand.random() < 0.3:
        reasons = ("MAX_TOKENS", "SAFETY", "RECITATION")
        body["candidates"][0]["finishReason"] = rand.choice(reasons)


_MIXED = {"openai": _chat_mixed, "anthropic": _claude_mixed, "gemini": _gemini_mixed}


def choices(spec: Spec, rand: random.Random) -> None:
    """Several choices or candidates, each with its text, calls and end."""
    known = _tools(spec)
    kind = format_of(_provider(spec))
    if kind == "anthropic":  # has one: several replies of one turn instead
        blocks(spec, rand)
        return
    member = "choices" if kind == "openai" else "candidates"
    ends = {
        "openai": ("stop", "length", "tool_calls", "content_filter", None),
        "gemini": ("STOP", "MAX_TOKENS", "SAFETY", None),
    }[kind]
    for number in range(rand.randint(1, 2)):
        several: list[Json] = []
        for index in range(rand.randint(2, 3)):
            calls = [(f"d{number}{index}", rand.choice(known), {"a": index})]
            asks = rand.random() < 0.4
            (one,) = WRITERS[kind](rand.choice(_SAID), calls if asks else [])[member]
            one["index"] = index
            if rand.random() < 0.4:
                one["finish_reason" if kind == "openai" else "finishReason"] = rand.choice(ends)
            several.append(one)
        spec["llm"].insert(0, {"json": {member: several}})


# ---------------------------------------------------------------------------- programs


def desks(spec: Spec, rand: random.Random) -> None:
    """A router that reads a status which tools and hooks set, and prompts that name it."""
    known = _tools(spec)
    status = {"op": "setState", "key": "v", "fromInput": True}
    first = {"op": "kvSet", "key": "v", "value": rand.choice(("", "test", {"status": 1}))}
    seen = {"op": "seq", "ops": [{"op": "getState", "key": "v"}, {"op": "networkInfo"}]}
    for number, tool in enumerate(spec["tools"].values()):
        tool.pop("parameters", None)
        tool["handler"] = copy.deepcopy((status, first, seen)[number % 3])
    agents = [name for name in spec["agents"] if name != "r"]
    for name in agents:
        agent = spec["agents"][name]
        cycle = agent.setdefault("lifecycle", {})
        if rand.random() < 0.6:
            cycle["onStart"] = accents.made_start(rand)
        if rand.random() < 0.6:
            cycle["onResponse"] = {"ops": [accents.made_edit(rand)]}
        if rand.random() < 0.3:
            cycle["onFinish"] = {"ops": [], "sync": True}
    rules: list[Json] = [
        {"when": {"callCount": 0}, "return": agents[0]},
        {"when": {"stateFalsy": "v", "callCountLt": 4}, "return": rand.choice(agents)},
        {"when": {"lastToolCalled": rand.choice(known), "callCountLt": 4}, "return": agents},
        {"when": {"lastResultAgent": "A", "callCountLt": 3}, "return": rand.choice(agents)},
    ]
    for rule in rules:
        if rand.random() < 0.3:
            rule["do"] = [{"op": "setState", "key": rand.choice("vw"), "value": rand.choice(TEXTS)}]
    network: Spec = {"name": "net", "agents": agents, "defaultModel": next(iter(spec["models"]))}
    network["router"] = {"kind": "fn", "rules": rules, "sync": rand.random() < 0.5}
    if rand.random() < 0.3:
        network["maxIter"] = rand.randint(1, 3)
    spec["states"]["d"] = {"data": {"v": rand.choice(("", None, "x"))}}
    spec["networks"] = {"n": network}
    options: Spec = {"state": "d"} if rand.random() < 0.8 else {}
    if rand.random() < 0.5:
        options["streaming"] = {"simulateChunking": rand.random() < 0.5}
    spec["runs"] = [
        {"target": {"network": "n"}, "input": rand.choice(TEXTS), "options": copy.deepcopy(options)}
        for _ in range(rand.randint(1, 3))
    ]
    write = WRITERS[_provider(spec)]
    spec["llm"] = [
        {"json": write(rand.choice(_SAID), _status_calls(rand, known))}
        for _ in range(rand.randint(2, 7))
    ]


def _status_calls(rand: random.Random, known: list[str]) -> list[tuple[str, str, Json]]:
    """Return no call, or one or two that set a status."""
    count = rand.choice((0, 1, 1, 2))
    words = ("", "code", "done")
    return [(f"e{i}", rand.choice(known), {"v": rand.choice(words)}) for i in range(count)]


def adapters(spec: Spec, rand: random.Random) -> None:
    """Stores under agents and networks at once, whose agents also run by themselves."""
    accents.history(spec, rand)
    if rand.random() < 0.6:
        accents.lifecycle(spec, rand)
    if rand.random() < 0.5:
        accents.inputs(spec, rand)
    spec["states"]["t"] = {"threadId": "T-9", "data": {"n": 1}}
    spec["states"]["c"] = {"results": [accents.made_result(rand)], "data": {}}
    agents = [name for name, agent in spec["agents"].items() if agent["type"] == "agent"]
    given = spec["runs"][0]["input"]
    for _ in range(rand.randint(1, 3)):
        target: Spec = {"agent": rand.choice(agents)}
        if spec["networks"] and rand.random() < 0.5:
            target = {"network": "n"}
        options: Spec = {"state": rand.choice(("t", "t", "c"))} if rand.random() < 0.8 else {}
        if rand.random() < 0.5:
            options["streaming"] = {"simulateChunking": rand.random() < 0.5}
        if "agent" in target and rand.random() < 0.6:
            options["maxIter"] = rand.randint(1, 3)
        text = given if rand.random() < 0.4 else rand.choice(TEXTS)
        spec["runs"].append({"target": target, "input": text, "options": options})


def together(spec: Spec, rand: random.Random) -> None:
    """Two of these at once, at times inside an Inngest function or with a server's tools."""
    rand.choice((desks, adapters))(spec, rand)
    rand.choice((blocks, choices))(spec, rand)
    kind = rand.random()
    if kind < 0.25:
        accents.durable(spec, rand)
    elif kind < 0.5:
        accents.mcp(spec, rand)
    elif kind < 0.6:
        corners.arguments(spec, rand)


MET: dict[str, Accent] = {
    "hosts": hosts,
    "blocks": blocks,
    "choices": choices,
    "desks": desks,
    "adapters": adapters,
    "together": together,
}
