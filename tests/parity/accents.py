"""Families of random scenarios: what each adds to a scenario that was put together of pieces."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from typing import TypeAlias

from .swapped import OPTIONS, WRITERS, swapped
from .variations import VARIATIONS
from .vectors import Json

Spec: TypeAlias = dict[str, Json]
Accent: TypeAlias = Callable[[Spec, random.Random], None]

TEXTS = (
    "ok", "", "DONE", "A", "B", "0", "null", "  pad ", '{"a": 1}', "<|endoftext|>",
    "héllo 😀 wörld", "line\nline\n\nline  ", "x" * 49, "y" * 50, "z" * 51, "w" * 101, "😀" * 30,
)  # fmt: skip
NUMBERS = (0, 1, -1, 1.5, 1e21, 1e-7, 123456789012, True, False, None)
KEYS = ("city", "a", "b", "name", "arguments", "v", "x y", "unit")
HALF = re.compile(r"(?<!\\ud83d)\\ude|\\ud83d(?!\\ude)")
"""Half of a surrogate pair in JSON, which Inngest's server cannot carry."""

_FORMATS = {"anthropic": "anthropic", "gemini": "gemini"}


def format_of(provider: str) -> str:
    """The format of a provider's replies; that of all but two is OpenAI's."""
    return _FORMATS.get(provider, "openai")


def value(rand: random.Random, depth: int = 0) -> Json:
    """Any JSON."""
    kind = rand.random()
    if kind < 0.3:
        return rand.choice(TEXTS)
    if kind < 0.5 or depth > 2:
        return rand.choice(NUMBERS)
    count = rand.randrange(4)
    if kind < 0.75:
        return {rand.choice(KEYS): value(rand, depth + 1) for _ in range(count)}
    return [value(rand, depth + 1) for _ in range(count)]


def _provider(spec: Spec) -> str:
    return next(iter(spec["models"].values()))["provider"]


def _format(spec: Spec) -> str:
    return format_of(_provider(spec))


def _write(spec: Spec, text: str, calls: list[tuple[str, str, Json]]) -> Json:
    return {"json": WRITERS[_format(spec)](text, calls)}


def _ordinary(spec: Spec, rand: random.Random) -> list[Spec]:
    """The agents that are no routing agents."""
    return [agent for agent in spec["agents"].values() if agent["type"] == "agent"]


def _calls(rand: random.Random, names: list[str], most: int) -> list[tuple[str, str, Json]]:
    found: list[tuple[str, str, Json]] = []
    for number in range(rand.randint(1, most)):
        given = {rand.choice(KEYS): value(rand, 1) for _ in range(rand.randrange(3))}
        found.append((rand.choice((f"c{number}", f"c{number}", "c0")), rand.choice(names), given))
    return found


def _names(spec: Spec) -> list[str]:
    return [tool["name"] for tool in spec.get("tools", {}).values()]


# ---------------------------------------------------------------------------- tools and replies


def parallel(spec: Spec, rand: random.Random) -> None:
    """Many calls in a reply, and turns of several inferences."""
    names = _names(spec)
    if not names:
        spec["tools"]["p"] = {"factory": "createTool", "name": "p", "handler": {"op": "echo"}}
        names = ["p"]
    for agent in _ordinary(spec, rand):
        agent["tools"] = list(spec["tools"])
    texts = ("", "both", "first")
    spec["llm"] = [
        _write(spec, rand.choice(texts), _calls(rand, names, 5)) for _ in range(rand.randint(1, 3))
    ] + [_write(spec, "done", [])]
    for run in spec["runs"]:
        if "agent" in run["target"]:
            run["options"]["maxIter"] = rand.randrange(5)


def handlers(spec: Spec, rand: random.Random) -> None:
    """Tools that change the state, fail, or look around."""
    for number, tool in enumerate(spec.get("tools", {}).values()):
        tool.pop("parameters", None)
        tool["handler"] = _handler(rand, number)
    parallel(spec, rand)


def _handler(rand: random.Random, number: int, depth: int = 0) -> Json:
    error: Spec = {"name": rand.choice(("Error", "RangeError", "MyError"))}
    error["message"] = rand.choice(TEXTS)
    error["stack"] = f"{error['name']}: {error['message']}\n    at fixed (tool.ts:1:1)"
    if rand.random() < 0.3:
        error["props"] = {"code": "E1", "other": 1}
    if rand.random() < 0.2:
        inner = {"name": "Error", "message": "inner", "stack": "Error: inner\n    at fixed (x:1:1)"}
        error["cause"] = inner
    key = rand.choice(("v", "w"))
    made: list[Json] = [
        {"op": "return", "value": value(rand)},
        {"op": "returnUndefined"},
        {"op": "echo"},
        {"op": "throw", "error": error},
        {"op": "throwSync", "error": error},
        {"op": "throwValue", "value": rand.choice(("text", 7, {"code": 1}, [1], None, True))},
        {"op": "setState", "key": key, "value": value(rand), "returns": "set"},
        {"op": "setState", "key": key, "fromInput": True},
        {"op": "appendState", "key": f"list{key}", "value": number},
        {"op": "incState", "key": f"n{key}", "by": 2},
        {"op": "getState", "key": key},
        {"op": "kvSet", "key": key, "value": value(rand)},
        {"op": "kvGet", "key": key},
        {"op": "networkInfo"},
        {"op": "schedule", "agent": rand.choice("AB")},
        {"op": "hasStep"},
    ]
    if depth == 0:
        made.append({"op": "seq", "ops": [_handler(rand, number, 1) for _ in range(2)]})
        made[-1]["ops"] = [each for each in made[-1]["ops"] if each["op"] != "throwSync"]
    chosen = copy.deepcopy(rand.choice(made))
    if depth == 0 and chosen["op"] not in ("seq", "throwValue") and rand.random() < 0.25:
        chosen["sync"] = True
    return chosen


def replies(spec: Spec, rand: random.Random) -> None:
    """Replies with members missing, unknown or of another type."""
    for _ in range(rand.randint(1, 2)):
        names = [*_names(spec), "ghost"][:2]
        text, calls = rand.choice(TEXTS), _calls(rand, names, 2) if rand.random() < 0.5 else []
        reply = _write(spec, text, calls)
        _ODD[_format(spec)](reply["json"], rand)
        spec["llm"].insert(rand.randrange(len(spec["llm"]) + 1), reply)


def _odd_chat(body: Json, rand: random.Random) -> None:
    choice = body["choices"][0]
    message = choice["message"]
    reason = rand.choice(("stop", "length", "content_filter", "tool_calls", "odd", None))
    changes: list[Callable[[], object]] = [
        lambda: choice.update(finish_reason=reason),
        lambda: choice.pop("finish_reason", None),
        lambda: message.update(content=""),
        lambda: message.update(refusal="I will not."),
        lambda: message.update(reasoning_content="thinking"),
        lambda: message.update(annotations=[]),
        lambda: message.update(tool_calls=None),
        lambda: message.update(tool_calls=[]),
        lambda: body.update(usage=None),
        lambda: body.update(usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
        lambda: body.update(error=None),
        lambda: body["choices"].append(copy.deepcopy(choice)),
        lambda: message.pop("role", None),
        lambda: message.update(content=[{"type": "text", "text": "part"}]),
    ]
    rand.choice(changes)()


def _odd_anthropic(body: Json, rand: random.Random) -> None:
    blocks = body["content"]
    reasons = ("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "odd", None)
    reason = rand.choice(reasons)
    changes: list[Callable[[], object]] = [
        lambda: body.update(stop_reason=reason),
        lambda: body.pop("stop_reason", None),
        lambda: body.update(usage=None),
        lambda: body.update(usage={"input_tokens": 3, "output_tokens": 4}),
        lambda: body.pop("role", None),
        lambda: blocks.append({"type": "text", "text": "more"}),
        lambda: blocks.insert(0, {"type": "text", "text": ""}),
        blocks.reverse,
        lambda: blocks.append({"type": "text", "text": "cited", "citations": []}),
        lambda: blocks.insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"}),
        lambda: body.update(content=[]),
    ]
    rand.choice(changes)()


def _odd_gemini(body: Json, rand: random.Random) -> None:
    candidate = body["candidates"][0]
    content = candidate["content"]
    reasons = ("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "ODD", None)
    reason = rand.choice(reasons)
    changes: list[Callable[[], object]] = [
        lambda: candidate.update(finishReason=reason),
        lambda: candidate.pop("finishReason", None),
        lambda: content["parts"].append({"text": "more"}),
        lambda: content["parts"].insert(0, {"text": "hm", "thought": True}),
        content["parts"].reverse,
        lambda: content.update(role="user"),
        lambda: content.pop("role", None),
        lambda: content.update(parts=[]),
        lambda: body["candidates"].append(copy.deepcopy(candidate)),
        lambda: body.update(usageMetadata={"promptTokenCount": 3}),
        lambda: body.update(promptFeedback={"safetyRatings": []}),
        lambda: [part.setdefault("thoughtSignature", "c2ln") for part in content["parts"]],
        lambda: [part.setdefault("thoughtSignature", "c2ln") for part in content["parts"][:1]],
    ]
    rand.choice(changes)()


_ODD = {"openai": _odd_chat, "anthropic": _odd_anthropic, "gemini": _odd_gemini}


def errors(spec: Spec, rand: random.Random) -> None:
    """Answers that are no replies."""
    bodies: list[Json] = [
        {"json": {"error": {"message": "it broke", "type": "x", "code": "c"}}, "status": 500},
        {"json": {"error": {"message": "it broke"}}},
        {"json": {"error": {}}, "status": 400},
        {"json": {"error": "text"}, "status": 400},
        {"json": {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}},
        {"json": {"error": {"code": 503, "message": "late", "status": "UNAVAILABLE"}}},
        {"json": {"detail": "Not Found"}, "status": 404},
        {"json": {}},
        {"json": []},
        {"json": "text"},
        {"text": "<html>bad gateway</html>", "status": 502, "contentType": "text/html"},
        {"text": "", "status": 204},
        {"text": '{"half":', "status": 200},
        {"disconnect": True},
    ]
    spec["llm"].insert(rand.randrange(len(spec["llm"])), rand.choice(bodies))


# ---------------------------------------------------------------------------- models and schemas


def options(spec: Spec, rand: random.Random) -> None:
    """Models with other names, addresses and default parameters."""
    for model in spec["models"].values():
        usual: Json = OPTIONS.get(model["provider"], model["options"])
        given: dict[str, Json] = copy.deepcopy(usual)
        model["options"] = given
        _named(model["provider"], given, rand)
        if rand.random() < 0.1:
            given["apiKey"] = rand.choice(("", "k y"))
        if rand.random() < 0.1:
            given.pop("defaultParameters", None)
        if rand.random() < 0.6:
            given.setdefault("defaultParameters", {}).update(_parameters(model["provider"], rand))
    for agent in _ordinary(spec, rand):
        names = [spec["tools"][tool]["name"] for tool in agent.get("tools", [])]
        agent["toolChoice"] = rand.choice(("auto", "any", *names))
        if rand.random() < 0.2:
            agent["withModel"] = rand.choice(list(spec["models"]))
    for run in spec["runs"]:
        if "agent" in run["target"] and rand.random() < 0.4:
            run["options"]["model"] = rand.choice(list(spec["models"]))


def _named(provider: str, given: Json, rand: random.Random) -> None:
    names = {
        "openai": ("gpt-4.1", "gpt-4o-mini", "o3-mini", "o4-mini", "gpt-5", "gpt-5.6", "x/y"),
        "grok": ("grok-2", "grok-4", "grok-3-mini"),
        "azure-openai": ("gpt-4o", "o1", "dep"),
        "anthropic": (
            "claude-3-7-sonnet-latest", "claude-sonnet-4-20250514", "claude-sonnet-4-5",
            "claude-opus-4-7", "claude-haiku-5-5", "claude-opus-5-1", "claude",
        ),
        "gemini": ("gemini-1.5-pro", "gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-pro"),
        "deepseek": ("deepseek-chat",),
    }  # fmt: skip
    given["model"] = rand.choice(names[provider])
    if "baseUrl" in given:
        ends = ("", "/", "//") if provider != "gemini" else ("", "/")
        path = rand.choice(("/v1", "/a/b", "")) + rand.choice(ends)
        given["baseUrl"] = "{{BASE}}" + path


def _parameters(provider: str, rand: random.Random) -> Json:
    kind = format_of(provider)
    found: dict[str, list[Json]] = {
        "openai": [
            {"temperature": 0.5}, {"max_tokens": 5}, {"max_completion_tokens": 7}, {"top_p": 0.1},
            {"stop": ["x"]}, {"seed": 1}, {"user": "u"}, {"metadata": {"a": "b"}},
            {"parallel_tool_calls": True}, {"tool_choice": "auto"}, {"model": "other"},
            {"response_format": {"type": "json_object"}}, {"reasoning_effort": "low"}, {"n": 1},
        ],
        "anthropic": [
            {"temperature": 0.5}, {"max_tokens": 5}, {"top_k": 3}, {"stop_sequences": ["x"]},
            {"metadata": {"user_id": "u"}}, {"model": "other"}, {"tool_choice": {"type": "auto"}},
            {"thinking": {"type": "disabled"}},
        ],
        "gemini": [
            {"generationConfig": {"temperature": 0.5}}, {"safetySettings": []},
            {"generationConfig": {"stopSequences": ["x"]}}, {"cachedContent": "c"},
        ],
    }  # fmt: skip
    made: dict[str, Json] = {}
    for each in rand.sample(found[kind], rand.randint(1, 2)):
        made |= each
    return made


def schemas(spec: Spec, rand: random.Random) -> None:
    """Tools whose parameters are any zod type."""
    for tool in spec["tools"].values():
        keys = rand.sample(("a", "b", "city", "unit", "deep"), rand.randint(0, 3))
        fields = ", ".join(f"{key}: {_zod(rand)}" for key in keys)
        ends = ("", "", "", ".strict()", ".passthrough()", '.describe("d")', ".partial()")
        tool["parameters"] = {"zod": f"z.object({{ {fields} }}){rand.choice(ends)}"}


def _zod(rand: random.Random, depth: int = 0) -> str:
    plain = (
        "z.string()", "z.number()", "z.boolean()", "z.number().int()", "z.number().min(1).max(9)",
        "z.string().min(2)", "z.string().max(5)", "z.string().email()", "z.string().url()",
        "z.string().uuid()", 'z.enum(["c", "f"])', 'z.literal("x")', "z.null()", "z.any()",
        "z.unknown()", "z.string().regex(/^a+$/)", "z.number().positive()", "z.literal(3)",
        "z.number().multipleOf(2)", "z.string().datetime()", "z.number().nonnegative()",
    )  # fmt: skip
    kind = rand.random()
    if depth > 1 or kind < 0.5:
        made = rand.choice(plain)
    else:
        inner = _zod(rand, depth + 1)
        made = rand.choice(
            (
                f"z.array({inner})",
                f"z.array({inner}).min(1)",
                f"z.object({{ k: {inner} }})",
                f"z.object({{ k: {inner}, l: {_zod(rand, depth + 1)}.optional() }})",
                f"z.record(z.string(), {inner})",
                f"z.tuple([{inner}, z.string()])",
                f"z.union([{inner}, z.number()])",
            )
        )
    ends = (
        "", "", "", ".optional()", ".nullable()", '.describe("words")', ".nullish()",
        '.optional().describe("some")',
    )  # fmt: skip
    return made + rand.choice(ends)


# ---------------------------------------------------------------------------- from outside


def messages(spec: Spec, rand: random.Random) -> None:
    """States with any messages and results, as clients keep them."""
    spec["states"] = {**spec.get("states", {}), "f2": _state(rand), "f3": _state(rand)}
    for run in spec["runs"]:
        run["options"]["state"] = rand.choice(("f2", "f3"))
    for network in spec["networks"].values():
        network.pop("defaultState", None)


def _state(rand: random.Random) -> Json:
    state: dict[str, Json] = {}
    if rand.random() < 0.5:
        state["data"] = {rand.choice(("v", "w", "userId")): value(rand)}
    if rand.random() < 0.4:
        state["threadId"] = rand.choice(("T-1", "thread", "a/b c", ""))
    if rand.random() < 0.7:
        state["messages"] = [m for _ in range(rand.randint(1, 3)) for m in _said(rand)]
    if rand.random() < 0.7:
        state["results"] = [made_result(rand) for _ in range(rand.randint(1, 3))]
    return state


def _said(rand: random.Random) -> list[Json]:
    """A text, or a call with its result."""
    text = rand.choice(TEXTS)
    parts = [{"type": "text", "text": text}, {"type": "text", "text": "two"}]
    assistant = {"type": "text", "role": "assistant", "content": text, "stop_reason": "stop"}
    tool = {"type": "tool", "id": f"h{rand.randrange(99)}", "name": "old", "input": {"a": 1}}
    call = {"type": "tool_call", "role": "assistant", "stop_reason": "tool", "tools": [tool]}
    content = rand.choice(({"data": value(rand)}, {"error": {"name": "Error", "message": "m"}}))
    answer = {"type": "tool_result", "role": "tool_result", "stop_reason": "tool", "tool": tool}
    return rand.choice(
        (
            [{"type": "text", "role": "user", "content": text}],
            [{"type": "text", "role": "user", "content": parts}],
            [{"type": "text", "role": "system", "content": text}],
            [assistant],
            [{**assistant, "content": parts}],
            [call, {**answer, "content": content}],
        )
    )


def made_result(rand: random.Random) -> Json:
    """A result."""
    output = [m for _ in range(rand.randint(1, 2)) for m in _said(rand)]
    made: dict[str, Json] = {
        "agentName": rand.choice(("A", "B", "old")),
        "output": [m for m in output if m["role"] == "assistant"],
        "toolCalls": [m for m in output if m["type"] == "tool_result"],
        "createdAt": "2024-01-02T03:04:05.000Z",
    }
    if rand.random() < 0.3:
        made["id"] = "11111111-2222-4333-8444-555555555555"
    return made


def inputs(spec: Spec, rand: random.Random) -> None:
    """User messages of front ends: with id, time, state and a system prompt."""
    messages(spec, rand)
    for number, run in enumerate(spec["runs"]):
        given: dict[str, Json] = {"id": f"um-{number}", "role": "user"}
        given["content"] = rand.choice(TEXTS)
        if rand.random() < 0.5:
            given["systemPrompt"] = rand.choice(("Be brief.", "", "In French."))
        if rand.random() < 0.5:
            given["clientTimestamp"] = rand.choice(
                ("2024-05-06T07:08:09.123Z", "2025-12-31T23:59:59.000Z")
            )
        if rand.random() < 0.5:
            given["state"] = {"tab": value(rand)}
        run["input"] = given
        if rand.random() < 0.2 and "network" in run["target"]:
            made = _state(rand)
            plain = {"data": made.get("data", {})} | made
            run["options"]["state"] = {"plain": plain}


def history(spec: Spec, rand: random.Random) -> None:
    """Stores with any hooks, on agents and networks."""
    spec["histories"] = {
        **spec.get("histories", {}),
        "f0": made_store(rand),
        "f1": made_store(rand),
    }
    for owner in [*_ordinary(spec, rand), *spec["networks"].values()]:
        if rand.random() < 0.7:
            owner["history"] = rand.choice(("f0", "f1"))
    if rand.random() < 0.5:
        messages(spec, rand)
    if rand.random() < 0.5:
        spec["runs"].append(copy.deepcopy(spec["runs"][-1]))


def made_store(rand: random.Random) -> Json:
    """A store."""
    store: dict[str, Json] = {}
    for hook in ("createThread", "get", "appendUserMessage", "appendResults"):
        if rand.random() < 0.25:
            continue
        made: dict[str, Json] = {}
        if rand.random() < 0.3:
            made["sync"] = True
        if rand.random() < 0.2:
            made["setState"] = {"hook": hook}
        if rand.random() < 0.07:
            error = {
                "name": "Error",
                "message": f"{hook} broke",
                "stack": "Error: x\n    at f (x:1:1)",
            }
            made["throw"] = error
        store[hook] = made
    if "createThread" in store and rand.random() < 0.6:
        store["createThread"]["return"] = {"threadId": rand.choice(("made", "made-2"))}
    if "get" in store:
        if rand.random() < 0.3:
            store["get"]["sequence"] = [[], [made_result(rand)]]
        else:
            store["get"]["return"] = [made_result(rand) for _ in range(rand.randrange(3))]
    return store


def lifecycle(spec: Spec, rand: random.Random) -> None:
    """Hooks that rearrange prompts, histories and outputs."""
    for agent in _ordinary(spec, rand):
        made: dict[str, Json] = {}
        if rand.random() < 0.3:
            made["enabled"] = rand.choice(
                (
                    {"const": True},
                    {"const": False},
                    {"stateKey": "v"},
                    {"stateKey": "v", "sync": True},
                )
            )
        if rand.random() < 0.5:
            made["onStart"] = made_start(rand)
        for hook in ("onResponse", "onFinish"):
            if rand.random() < 0.5:
                made[hook] = {"ops": [made_edit(rand) for _ in range(rand.randrange(3))]}
        for hook in made.values():
            if rand.random() < 0.3:
                hook["sync"] = True
            if rand.random() < 0.05:
                hook["throw"] = {"name": "Error", "message": "hook broke", "stack": "Error: x"}
        agent["lifecycle"] = made
    if rand.random() < 0.5:
        messages(spec, rand)


def made_start(rand: random.Random) -> Json:
    """An ``onStart`` hook."""
    kinds = ("append", "prepend", "set")
    targets = ("Prompt", "History")
    ops = [
        {
            "op": rand.choice(kinds) + rand.choice(targets),
            "messages": [m for _ in range(rand.randrange(3)) for m in _said(rand)],
        }
        for _ in range(rand.randrange(3))
    ]
    made: dict[str, Json] = {"ops": ops}
    if rand.random() < 0.1:
        made["stop"] = True
    if rand.random() < 0.1:
        made["stopOnCall"] = rand.randrange(2)
    return made


def made_edit(rand: random.Random) -> Json:
    """A change of a result."""
    said = [m for m in _said(rand) if m["role"] == "assistant"]
    return rand.choice(
        (
            {"op": "appendOutput", "messages": said},
            {"op": "replaceLastText", "text": "edited"},
            {"op": "dropToolCalls"},
            {"op": "setOutput", "messages": said},
        )
    )


# ---------------------------------------------------------------------------- how it is run


def streaming(spec: Spec, rand: random.Random) -> None:
    """Streams, some of which nobody can be published to."""
    failures: tuple[Json, ...] = (
        "throw", "throwString", {"throwOnIndex": rand.randrange(9)},
        {"throwOnEvent": rand.choice(("run.started", "part.created", "run.completed"))},
    )  # fmt: skip
    for run in spec["runs"]:
        made: dict[str, Json] = {}
        if rand.random() < 0.6:
            made["simulateChunking"] = rand.random() < 0.7
        if rand.random() < 0.25:
            made["publish"] = rand.choice(failures)
        run["options"]["streaming"] = made
    if rand.random() < 0.4:
        history(spec, rand)


def durable(spec: Spec, rand: random.Random) -> None:
    """Inside an Inngest function; what Inngest has its own errors for is left out."""
    for run in spec["runs"]:
        run["stepContext"] = "ctx"
    spec["llm"] = [
        reply
        for reply in spec["llm"]
        if isinstance(reply.get("json"), dict) and not HALF.search(json.dumps(reply))
    ] or [_write(spec, "ok", [])]
    for tool in spec.get("tools", {}).values():
        if rand.random() < 0.25:
            tool["handler"] = {"op": "stepRun", "id": "inner", "value": value(rand)}


def mcp(spec: Spec, rand: random.Random) -> None:
    """Tools of a server."""
    kind = rand.choice(("two", "two", "many", "none", "error-list"))
    transport: dict[str, Json] = {"type": "stdio", "command": "node"}
    transport["args"] = ["{{ORACLE}}/src/mcp-server.mjs", kind]
    name = rand.choice(("oracle", "s"))
    spec["mcpServers"] = {"s": {"name": name, "transport": transport}}
    offered = {"two": ["add", "greet"], "none": [], "error-list": []}
    tools = offered.get(
        kind, ["add", "greet", "noargs", "fails", "throws", "multi", "nested", "structured"]
    )
    arguments: dict[str, Json] = {
        "add": {"a": rand.randrange(9), "b": 2},
        "greet": {"name": rand.choice(("Ada", "", "ö")), "polite": rand.random() < 0.5},
        "nested": {"user": {"id": "1"}},
    }
    for agent in spec["agents"].values():
        if agent["type"] == "agent" and rand.random() < 0.8:
            agent["mcpServers"] = ["s"]
            agent.pop("toolChoice", None)
    calls = [
        (f"m{i}", f"{name}-{tool}", arguments.get(tool, {}))
        for i, tool in enumerate(rand.sample(tools, min(len(tools), rand.randint(1, 3))))
    ]
    spec["llm"] = [_write(spec, "", calls) if calls else _write(spec, "ok", [])] + [
        reply for reply in spec["llm"] if isinstance(reply.get("json"), dict)
    ]
    for run in spec["runs"]:
        run["options"].pop("streaming", None)


def routing(spec: Spec, rand: random.Random) -> None:
    """The default routing agent, asked for any agent."""
    names = [agent["name"] for agent in _ordinary(spec, rand)]
    agents = [a for a, s in spec["agents"].items() if s["type"] == "agent"]
    network: Spec = {"name": "net", "agents": agents, "defaultModel": next(iter(spec["models"]))}
    if rand.random() < 0.4:
        network["maxIter"] = rand.randint(1, 3)
    spec["networks"] = {"n": network}
    spec["runs"] = [{"target": {"network": "n"}, "input": "go", "options": {}}]
    said: list[Json] = []
    for _ in range(rand.randint(1, 4)):
        asked = rand.choice((*names, *names, "ghost", 7, None))
        given: dict[str, Json] = {"name": asked} if asked is not None else {}
        if rand.random() < 0.3:
            given["reason"] = "because"
        said.append(_write(spec, rand.choice(("", "so")), [("r", "select_agent", given)]))
        said.append(_write(spec, rand.choice(TEXTS), []))
    spec["llm"] = [*said, _write(spec, "", [("d", "done", rand.choice(({}, {"summary": "s"})))])]
    if rand.random() < 0.3:
        streaming(spec, rand)
    if rand.random() < 0.3:
        lifecycle(spec, rand)


def twice(spec: Spec, rand: random.Random) -> None:
    """Two accents at once."""
    plain = [accent for name, accent in FAMILIES.items() if name not in ("twice", "mcp", "varied")]
    for accent in rand.sample(plain, 2):
        accent(spec, rand)


FAMILIES: dict[str, Accent] = {
    "mixed": lambda _spec, _rand: None,
    "parallel": parallel,
    "handlers": handlers,
    "replies": replies,
    "errors": errors,
    "options": options,
    "schemas": schemas,
    "messages": messages,
    "inputs": inputs,
    "history": history,
    "lifecycle": lifecycle,
    "streaming": streaming,
    "durable": durable,
    "mcp": mcp,
    "routing": routing,
    "twice": twice,
}
"""What a family adds, by name."""


# ---------------------------------------------------------------------------- recordings changed


def varied(spec: Spec, rand: random.Random) -> Spec:
    """A recorded scenario with one to three things changed."""
    made = copy.deepcopy(spec)
    for run in made["runs"]:
        run.setdefault("options", {})
    made.setdefault("tools", {})
    made.setdefault("networks", {})
    for _ in range(rand.randint(1, 3)):
        made = _change(made, rand)
    return made


def _change(spec: Spec, rand: random.Random) -> Spec:
    kind = rand.random()
    if kind < 0.3:
        other = swapped(spec, rand.choice(list(OPTIONS)))
        return spec if other is None else other
    if kind < 0.6:
        name = rand.choice([name for name in VARIATIONS if "filtered" not in name])
        VARIATIONS[name](spec)
        return spec
    accents: list[Accent] = [
        replies,
        errors,
        options,
        messages,
        inputs,
        history,
        lifecycle,
        streaming,
    ]
    one = len({format_of(model["provider"]) for model in spec["models"].values()}) == 1
    if one and not spec.get("mcpServers") and not any("stepContext" in r for r in spec["runs"]):
        if spec["tools"]:
            accents.append(handlers)
        rand.choice(accents)(spec, rand)
    else:
        streaming(spec, rand)
    return json.loads(json.dumps(spec))
