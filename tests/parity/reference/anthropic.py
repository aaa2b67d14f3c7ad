"""Anthropic's Messages format, as TypeScript and as we write and read it."""

from __future__ import annotations

import copy
import json
import math
import re

from ..vectors import Json
from .chat import UNNAMED, nameless_call, our_arguments, without_choice
from .core import UNDEFINED, Switches, engine_failure, our_failure
from .js import parsed, stringify
from .replies import cut
from .schemas import anthropic_tools
from .turns import (
    Exchange,
    Sides,
    Turns,
    Unit,
    all_on,
    arguments_object,
    causes,
    images_in,
    is_image,
    is_thought,
    opaque,
    result_text,
    text_pieces,
    with_json,
    with_names,
    words_of,
)


def encode(
    model: dict[str, Json],
    messages: list[Json],
    tools: list[Json],
    choice: str,
    on: Switches,
    prefill: int,
    reader: str,
    thread: Json,
) -> dict[str, Json]:
    """The body of a request.

    Args:
        model: Who is asked.
        messages: All that is said.
        tools: Those of the agent.
        choice: Its choice of them.
        on: Our differences.
        prefill: The number of messages at the end that begin the answer.
        reader: The agent.
        thread: The thread's id; undefined where nothing is marked for the cache.
    """
    options = model["options"]
    messages = [message for message in with_json(messages, on) if _is_sent(message, options)]
    messages = with_names(messages, on) if tools else messages
    defaults = _defaults(options, on)
    theirs: dict[str, Json] = {
        "system": _their_system(messages),
        "messages": _their_messages(messages),
    }
    continues = _continues(options, choice if tools else "auto")
    ours = _ours(messages, reader, prefill=prefill, tools=bool(tools), continues=continues)
    asked_before = ours.pop("_asked")
    body: dict[str, Json] = theirs
    if theirs != ours and all_on(on, _causes(messages, prefill)):
        body = ours
    forced = bool(tools) and choice != "auto" and _refuses_force(options["model"])
    forced = forced and on("forced-choices-where-taken")
    if forced:
        words = "one of your tools" if choice == "any" else f"the tool {choice}"
        asked = f"Answer by calling {words}, not with text."
        body["system"] = f"{body['system']}\n\n{asked}" if body.get("system") else asked
        choice = "auto"
    if _signs(options["model"], defaults) and on("anthropic-signed-texts"):
        said = body["messages"]  # but for the prefill, which ends it
        said = said[:-1] if said and said[-1]["role"] == "assistant" else said
        _put_in_blocks([(body, "system"), *((m, "content") for m in said)])
    failed = [block for block in _results_in(body) if _is_failure(block["content"])]
    if failed and on("anthropic-failed-results"):
        for block in failed:
            block["is_error"] = True
    body |= {"model": options["model"], "max_tokens": defaults.get("max_tokens", UNDEFINED)}
    if body["max_tokens"] is UNDEFINED and on("anthropic-needs-no-parameters"):
        body["max_tokens"] = 4096
    if tools:
        strict = _version(options["model"]) >= (4, 5) and not (continues and prefill)
        body["tools"] = anthropic_tools(tools, on, strict=strict, forced=forced)
        named = choice not in ("auto", "any")
        body["tool_choice"] = {"type": "tool", "name": choice} if named else {"type": choice}
    without_choice(body, defaults, tools, on)
    said = [] if "messages" in defaults else body["messages"]
    body = _thinking_where_taken(body | defaults, said, on)
    own = thread is UNDEFINED or "cache_control" in stringify(defaults)
    marked = body if own else _marked_for_cache(body, asked_before, thread)
    return marked if marked != body and on("long-requests-are-marked") else body


def _is_sent(message: Json, options: dict[str, Json]) -> bool:
    """Return whether a message is for Claude: parts without a type go to the host they are of.

    Those of hosted tools go to requests that offer the tool, and none does here. Thoughts go to
    the account that they were made for.
    """
    if message["type"] == "reasoning" and "_made" in message:
        return message["_made"].get("apiKey") == options.get("apiKey")
    own = message.get("format") == "anthropic" and "part" not in message
    return message["type"] != "opaque" or own


_MARK = {"cache_control": {"type": "ephemeral"}}
_MARKABLE = ("text", "image", "tool_use", "tool_result")


def _marked_for_cache(body: dict[str, Json], asked: int, thread: Json) -> dict[str, Json]:
    """The body with marks behind all that is long enough for Claude's cache to keep it.

    They stand behind tools and system prompt, where the agent's last request ended, and at the end.
    """
    made, turns = dict(body), list(body["messages"])
    tools, system = body.get("tools"), body.get("system")
    least = 4 * least_cached(body["model"]) or math.inf  # characters
    if tools:
        least -= len(stringify(tools))
        made |= {"tools": [*tools[:-1], tools[-1] | _MARK]} if least <= 0 else {}
    if system:
        least -= len(stringify(system))
        made |= {"system": _marked(system)} if least <= 0 else {}
    last, ends = -1, set[int]()
    for index, turn in enumerate(turns):
        least -= len(stringify(turn["content"]))
        last = index if least <= 0 and turn["role"] == "user" else last
        ends |= {last} if index in (asked, len(turns) - 1) else set()
    goes_on = thread or tools or any(turn["role"] == "assistant" for turn in turns)
    for index in ends - {-1} if goes_on else ():
        turns[index] = turns[index] | {"content": _marked(turns[index]["content"])}
    return made | {"messages": turns}


def _marked(content: Json) -> Json:
    blocks = [_text(content)] if isinstance(content, str) else list(content)
    for place in reversed(range(len(blocks))):
        if blocks[place]["type"] in _MARKABLE and blocks[place].get("text") != "":
            blocks[place] = blocks[place] | _MARK
            return blocks
    return content


def least_cached(model: str) -> int:
    """The tokens from which on a Claude's cache keeps something; 0: it has none."""
    version = _version(model)
    tier = next((t for t in ("opus", "sonnet", "haiku") if f"claude-{t}" in model), "")
    if tier == "sonnet":
        return 1024
    if not tier and version < (5, 0):
        return 2048 if version >= (3, 0) else 0
    if version >= (5, 0):
        return 512
    if version >= (4, 7):
        return 2048 if version == (4, 7) else 1024
    large = version == (4, 5) or (version == (4, 6) and tier == "opus")
    return 4096 if large else 1024


def _defaults(options: dict[str, Json], on: Switches) -> dict[str, Json]:
    given = copy.deepcopy(options.get("defaultParameters"))
    if given is None:
        if not on("anthropic-needs-no-parameters"):
            raise engine_failure("TypeError")
        given = {"max_tokens": 4096}
    taken = _taken(given, options["model"])
    return taken if taken != given and on("sampling-where-it-is-taken") else given


def _taken(parameters: dict[str, Json], model: str) -> dict[str, Json]:
    """The default parameters as a Claude takes them; @inngest/ai sends any."""
    version, made = _version(model), dict(parameters)
    if version >= (4, 7):
        made = {k: v for k, v in made.items() if k not in ("temperature", "top_p", "top_k")}
    kind = _thinking(made) if "thinking" in made else ""
    if "claude" in model and kind and kind not in _thinking_kinds(model, version):
        made["thinking"] = {"type": "adaptive"}
        if kind != "enabled" or version < (4, 6):
            del made["thinking"]
    choice = made.get("tool_choice")
    if _refuses_force(model) and isinstance(choice, dict) and choice["type"] in ("any", "tool"):
        made["tool_choice"] = {k: v for k, v in choice.items() if k != "name"} | {"type": "auto"}
    return made


def _thinking_kinds(model: str, version: tuple[int, int]) -> set[str]:
    if version < (4, 6):
        return {"enabled", "disabled"}
    if _refuses_force(model):
        return {"adaptive", *(["between_tools"] if "sonnet" in model else [])}
    return {"disabled", "adaptive", *(["enabled"] if version == (4, 6) else [])}


def _thinking(parameters: dict[str, Json]) -> str:
    return (parameters.get("thinking") or {}).get("type", "disabled")


def _thinking_where_taken(body: dict[str, Json], said: list[Json], on: Switches) -> dict[str, Json]:
    """The body: a forced tool, and a last turn that calls without a thought, forbid thinking."""
    last = next((m for m in reversed(said) if m["role"] == "assistant"), None)
    kinds = (
        [block["type"] for block in last["content"]]
        if last and isinstance(last["content"], list) and _thinking(body) == "enabled"
        else []
    )
    choice = body.get("tool_choice")
    forced = isinstance(choice, dict) and choice.get("type") in ("any", "tool")
    refused = forced or ("tool_use" in kinds and "thinking" not in kinds[0])
    if refused and _thinking(body) != "disabled" and on("sampling-where-it-is-taken"):
        del body["thinking"]
    return body


def _signs(model: str, asked: dict[str, Json]) -> bool:
    """Return whether a model gets its texts as blocks: signs thinking, or is asked to think."""
    return _version(model) >= (4, 5) or _thinking(asked) != "disabled"


def _refuses_force(model: str) -> bool:
    return _version(model) >= (5, 1) and "haiku" not in model


def _put_in_blocks(places: list[tuple[dict[str, Json], str]]) -> None:
    for place, name in places:
        if type(place.get(name)) is str:
            place[name] = [_text(place[name])]


def _causes(messages: list[Json], prefill: int) -> list[str]:
    found = causes(messages, prefill, "anthropic")
    if any("_block" in each for m in messages for each in (m, *m.get("tools", []))):
        found.append("blocks-go-back-whole")
    if any(m["type"] == "text" and isinstance(m["content"], list) for m in messages):
        found.append("anthropic-array-text")
    if sum(m["role"] == "system" for m in messages) > 1:
        found.append("anthropic-all-system-messages")
    return found or ["anthropic-turns-alternate"]


def _their_system(messages: list[Json]) -> str:
    first = next((m for m in messages if m["type"] == "text" and m["role"] == "system"), None)
    content = first["content"] if first is not None else ""
    return content if isinstance(content, str) else ""


def _their_messages(messages: list[Json]) -> list[Json]:
    kinds = ("reasoning", "opaque")
    said = [m for m in messages if m["role"] != "system" and m["type"] not in kinds]
    found = [_their_message(m) for m in said]
    if found and found[-1]["role"] == "assistant":
        found[-1]["role"] = "user"
    return found


def _their_message(message: Json) -> Json:
    match message["type"]:
        case "text":
            content = message["content"]
            if isinstance(content, list):
                content = [{"type": "text", "text": part} for part in content]
            return {"role": message["role"], "content": content}
        case "tool_call":
            blocks = [_use(call, call["id"], call.get("input")) for call in message["tools"]]
            return {"role": message["role"], "content": blocks}
        case _:
            block = _result(message["tool"]["id"], message)
            return {"role": "user", "content": [block]}


def _use(call: Json, name: str, given: Json) -> Json:
    return {"type": "tool_use", "id": name, "input": given, "name": call["name"]}


def _result(name: str, message: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": result_text(message)}


def _shown(name: str, message: Json) -> Json:
    """A result whose images are blocks."""
    made = _result(name, message)
    if images_in(message):
        made["content"] = [
            {"type": "image", "source": _source(item)} if is_image(item) else _text(words_of(item))
            for item in message["content"]["data"]
        ]
    return made


def _source(image: Json) -> Json:
    return {"type": "base64", "media_type": image["mimeType"], "data": image["data"]}


def _pieces(message: Json) -> list[Json]:
    """A text's blocks; one that came with more members goes back as it came."""
    if message["type"] == "opaque":
        return [message["content"]]
    block = message.get("_block")
    if block is not None and block.get("text") == message["content"] and block["text"].strip():
        return [block]
    return [_text(piece) for piece in text_pieces(message)]


def _results_in(body: dict[str, Json]) -> list[Json]:
    contents = [message["content"] for message in body["messages"]]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [block for block in blocks if block["type"] == "tool_result"]


def _is_failure(content: Json) -> bool:
    try:
        return "error" in json.loads(content) and content.startswith("{")
    except (TypeError, ValueError):
        return False


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NEWEST = (99, 0)


def _version(model: str) -> tuple[int, int]:
    """A Claude's version; one that names none is the newest, and others have none of its ways."""
    found = _VERSION.search(model)
    if found is None:
        return _NEWEST if "claude" in model else (0, 0)
    return int(found[1]), int(found[2] or 0)


def _continues(options: dict[str, Json], choice: str) -> bool:
    """Return whether the model accepts a prefill: until 4.5, if it does not think."""
    known = _VERSION.search(options["model"]) is not None
    if not known or _version(options["model"]) >= (4, 6) or choice != "auto":
        return False
    return _thinking(options.get("defaultParameters") or {}) == "disabled"


def _ours(
    messages: list[Json], reader: str, *, prefill: int, tools: bool, continues: bool
) -> dict[str, Json]:
    thoughts: list[Json] = []

    def written(unit: Unit) -> Turns:
        if is_thought(unit):
            thoughts.extend(_own_thought(unit))
            return []
        turns = _blocks(unit, tools=tools)
        if turns[0][0] == "assistant" and turns[0][1]:
            turns[0] = ("assistant", [*thoughts, *turns[0][1]])
        if turns[0][1]:
            thoughts.clear()
        return turns

    sides = Sides(_text).read(messages, prefill, written, thoughts.clear, reader)
    if sides.beginning and continues:
        sides.add("assistant", [_text(sides.beginning)])
    system = sides.instructions(prefill_in_words=not continues)
    said = [{"role": role, "content": _content(blocks)} for role, blocks in sides.turns]
    asked = next((i for i, turn in enumerate(sides.turns) if turn[1] is sides.asked), -1)
    facts = {"_asked": asked, **sides.mark}
    return {**({"system": system} if system else {}), **facts, "messages": said}


def _blocks(unit: Unit, *, tools: bool) -> Turns:
    if isinstance(unit, Exchange):
        return _exchange(unit) if tools else _told(unit)
    return [(unit["role"], _pieces(unit))]


def _exchange(unit: Exchange) -> Turns:
    named = unit.named()
    asked = [_asked(call, name) for call, name in named]
    for place, message in reversed(unit.said):
        asked[place:place] = _pieces(message)
    return [
        ("assistant", asked),
        ("user", [_shown(n, m) for m, (_, n) in zip(unit.results, named, strict=True)]),
    ]


def _asked(call: Json, name: str) -> Json:
    """A call's block; one that came with more members goes back as it came."""
    block, given = call.get("_block", {}), arguments_object(call)
    same = block.get("name") == call["name"] and block["input"] == given
    return {**block, "id": name} if same else _use(call, name, given)


def _told(unit: Exchange) -> Turns:
    calls = [f"[Called tool {call['name']} with {_given(call)}]" for call in unit.calls]
    for place, message in reversed(unit.said):
        calls[place:place] = text_pieces(message)
    results = [
        f"[Result of tool {c['name']}: {result_text(m, words=True)}]"
        for c, m in zip(unit.calls, unit.results, strict=True)
    ]
    return [("assistant", [_text(t) for t in calls]), ("user", [_text(t) for t in results])]


def _given(call: Json) -> str:
    if "malformed" in call:
        return stringify({"malformed_arguments": call["malformed"]})
    return stringify(call.get("input", {}), python=True)


def _own_thought(message: Json) -> list[Json]:
    block = message.get("_block", {})
    signed = "signature" in block if block.get("type") == "thinking" else "data" in block
    return [block] if signed and "_trails" not in message else []


def _content(blocks: list[Json]) -> Json:
    only = blocks[0] if len(blocks) == 1 else {}
    return only["text"] if only.keys() == {"type", "text"} else blocks


def decode(body: Json, on: Switches) -> list[Json]:
    """The messages of an answer that is no error.

    Raises:
        Failure: It cannot be read.
    """
    if not isinstance(body, dict) or not {"type", "content"} & body.keys():
        if on("answers-are-checked"):
            raise our_failure("ModelResponseError")
        return []
    blocks: Json = body.get("content") or []
    if not isinstance(blocks, list):
        raise TypeError
    found = _messages_of(body, blocks, on)
    if found is UNDEFINED:
        return UNDEFINED
    for message in reversed(found):  # nothing of the reply follows them
        if message["type"] == "tool_call" or (message["type"] == "text" and text_pieces(message)):
            break
        message["_trails"] = True
    return cut(found, [body.get("stop_reason")], on)


def _messages_of(body: Json, blocks: list[Json], on: Switches) -> Json:
    found: list[Json] = []
    tools: dict[str, str] = {}
    for block in blocks:
        if not block.get("type"):
            continue
        if block["type"] in ("text", "tool_use"):
            found.append(_block(block, body, on))
        elif not on("thinking-blocks"):
            if block is blocks[-1]:
                return UNDEFINED  # the reducer gives undefined, over which agent.ts then walks
            raise engine_failure("TypeError")
        elif "thinking" in block["type"]:
            thought = {"type": "reasoning", "role": "assistant", "_block": block}
            found.append({**thought, "content": block.get("thinking", "")})
        else:
            found.append(_unknown(block, tools))
    return found


def _unknown(block: Json, tools: dict[str, str]) -> Json:
    """A block for which there is no type; a hosted tool's say whose call it is."""
    return _hosted(block, tools) | {"stop_reason": "stop"}


def _hosted(block: Json, tools: dict[str, str]) -> Json:
    kind = block["type"]
    if kind.endswith("_tool_use"):
        name = tools[block["id"]] = block["name"]
        return opaque(block, "anthropic", toolName=name, callId=block["id"], part="call")
    if kind.endswith("_tool_result"):
        asked = block["tool_use_id"]
        name = tools.get(asked) or kind.removesuffix("_tool_result")
        return opaque(block, "anthropic", toolName=name, callId=asked, part="result")
    return opaque(block, "anthropic")


def _block(block: Json, body: Json, on: Switches) -> Json:
    role, said = body.get("role", UNDEFINED), block.get("text", UNDEFINED)
    if role != "assistant" and on("answers-are-checked"):
        role = "assistant"
    # A mark for the cache is the request's own business, whoever says it in a reply.
    kept = {k: v for k, v in block.items() if v is not None and k != "cache_control"}
    if block["type"] == "text":
        if not isinstance(said, str) and on("answers-are-checked"):
            said = ""
        return {
            "type": "text",
            "role": role,
            "content": said,
            "stop_reason": "stop",
            **({"_block": kept} if kept.keys() - {"type", "text"} else {}),
        }
    call = {name: block.get(name, UNDEFINED) for name in ("id", "name")}
    if not isinstance(call["id"], str) and on("answers-are-checked"):
        call["id"] = ""
    if not block.get("name") and on("malformed-arguments"):
        nameless = {**nameless_call(block), "id": call["id"] or UNNAMED}
        return {"type": "tool_call", "role": role, "stop_reason": "tool", "tools": [nameless]}
    call |= {"type": "tool", **_input(block, on)}
    if kept.keys() - {"type", "id", "name", "input"} and isinstance(kept.get("input"), dict):
        call["_block"] = kept
    return {
        "type": "tool_call",
        "role": role,
        "stop_reason": "tool",
        "tools": [call],
    }


def _input(block: Json, on: Switches) -> dict[str, Json]:
    given = block.get("input", UNDEFINED)
    if not isinstance(given, str):
        missing = given is UNDEFINED or given is None
        return {"input": {} if missing and on("missing-arguments") else given}
    ours = our_arguments(given)
    try:
        theirs = {"input": parsed(json.loads(given))}
    except ValueError:
        theirs = {"input": given}
    return ours if theirs != ours and on("malformed-arguments") else theirs
