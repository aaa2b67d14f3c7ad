"""Gemini's format, as TypeScript and as we write and read it."""

from __future__ import annotations

import copy
import itertools
import re

from ..vectors import Json
from .chat import our_arguments
from .core import UNDEFINED, Switches, our_failure, prose_failure
from .js import stringify
from .replies import cut
from .schemas import gemini_tools
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
) -> dict[str, Json]:
    """The body of a request.

    Raises:
        Failure: In TypeScript, a message with calls but none in it.
    """
    messages = with_names(with_json(messages, on), on)
    messages = _sendable(_without_last_thoughts(messages))
    defaults = copy.deepcopy(model["options"].get("defaultParameters") or {})
    ours = _ours(messages, prefill, model["options"])
    why = _causes(messages, prefill)
    if _is_signed(ours["contents"]):
        why.append("gemini-signatures")
    differs = all_on(on, why)
    body: dict[str, Json] = ours if differs else {"contents": _theirs(messages)}
    if tools:
        body["tools"] = [{"functionDeclarations": gemini_tools(tools, on)}]
        mode = {"functionCallingConfig": _choice(choice)}
        body["toolConfig" if on("gemini-tool-config") else "tool_config"] = mode
    config = defaults.get("generationConfig")  # @inngest/ai gemini.ts `onCall` merges both
    if config and "thinkingConfig" not in config and not on("no-empty-thinking-config"):
        config["thinkingConfig"] = {}
    return defaults | body


def _without_last_thoughts(messages: list[Json]) -> list[Json]:
    """The messages, but for a reply at the end that only thought."""
    end = len(messages)
    while end and messages[end - 1]["type"] == "reasoning" and "_empty" not in messages[end - 1]:
        end -= 1
    said = end > 0 and messages[end - 1]["role"] == "assistant"
    return messages if said else messages[:end]


def _sendable(messages: list[Json]) -> list[Json]:
    """The messages without code that has an id and no outcome, if the user has spoken since.

    A part that held nothing is none.
    """
    messages = [m for m in messages if m["type"] != "opaque" or _is_own(m)]
    running: dict[str, Json] = {}
    calls: dict[str, Json] = {}
    kept: list[Json] = []
    for message in messages:
        if message["type"] == "text" and message["role"] == "user":
            running.clear()
        if message.get("part") == "call" and not _id_in(message):
            kept.append(message)  # Gemini's file search writes its code so
        if message.get("part") == "call":
            calls[_id_in(message)] = running[_id_in(message)] = message
        elif message.get("part") == "result" and _id_in(message) in calls:
            running.pop(_id_in(message), None)
            kept += [message, calls[_id_in(message)]]
    kept += running.values()
    return [m for m in messages if "part" not in m or any(m is each for each in kept)]


def _id_in(message: Json) -> str:
    return next(iter(message["content"].values())).get("id", "")


def _causes(messages: list[Json], prefill: int) -> list[str]:
    rest = messages[: len(messages) - prefill]
    found = ["gemini-system-instruction", *causes(messages, prefill, "gemini")]
    if any(m["type"] == "tool_call" and len(m["tools"]) != 1 for m in messages):
        found.append("gemini-all-calls-of-a-message")
    roles = [m["role"] for m in rest if m["role"] != "system"]
    if any(a == b for a, b in itertools.pairwise(roles)):
        found.append("gemini-turns-alternate")
    return found


def _choice(choice: str) -> dict[str, Json]:
    if choice in ("auto", "any"):
        return {"mode": choice.upper()}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _theirs(messages: list[Json]) -> list[Json]:
    ours = ("opaque", "reasoning")
    return [_their_content(message) for message in messages if message["type"] not in ours]


def _their_content(message: Json) -> Json:
    if message["type"] == "text":
        content = message["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        if message["role"] not in ("system", "user", "assistant"):
            raise prose_failure("unknown-role", message["role"])
        role = "model" if message["role"] == "assistant" else "user"
        return {"role": role, "parts": [{"text": text}]}
    if message["type"] == "tool_call":
        if not message["tools"]:
            raise prose_failure("no-calls")
        call = message["tools"][0]
        asked = {"name": call["name"], "args": call.get("input", UNDEFINED)}
        return {"role": "model", "parts": [{"functionCall": asked}]}
    return {"role": "user", "parts": [_response(message["tool"], message)]}


def _response(call: Json, message: Json, *, words: bool = False, shows: bool = False) -> Json:
    """A result; models that see images get them beside the rest of it."""
    name, shown = call["name"], {}
    content = result_text(message, words=words)
    if shows and images_in(message):
        items = message["content"]["data"]
        content = "\n".join(words_of(item) for item in items if not is_image(item))
        data = [{"mimeType": i["mimeType"], "data": i["data"]} for i in items if is_image(i)]
        shown = {"parts": [{"inlineData": each} for each in data]}
    response = {"name": name, "content": content}
    return {"functionResponse": {"name": name, "response": response, **_own_id(call), **shown}}


def _own_id(call: Json) -> dict[str, Json]:
    """The id that Gemini gave a call itself."""
    return {"id": call["_id"]} if call.get("_id") else {}


def _is_signed(contents: list[Json]) -> bool:
    return any("thoughtSignature" in part for content in contents for part in content["parts"])


def _standing(part: Json, said: Json, model: Json) -> Json:
    """A part, without its signature where another model made it, or where it is none."""
    made_by = said.get("_made") or {}
    same = all(made_by.get(name) == model.get(name) for name in ("baseUrl", "apiKey"))
    same = same and _family(made_by.get("model", "")) == _family(model["model"])
    return part if same else {k: v for k, v in part.items() if k != "thoughtSignature"}


def _family(name: str) -> str:
    """The models that read each other's signatures: a version's of one size."""
    found = re.search(r"gemini-[\d.]+(?:-[a-z]+)?", name.lower())
    return found[0] if found else name


def _asked(call: Json, model: Json, *, first: bool) -> Json:
    """A call as it came; Gemini 3 refuses the first of a reply without a signature."""
    arguments = {} if call.get("_bare") else {"args": arguments_object(call)}
    part = {"functionCall": {"name": call["name"], **arguments, **_own_id(call)}}
    part = _standing({**part, **call.get("_signature", {})}, call, model)
    unsigned = first and "thoughtSignature" not in part and "gemini-3" in model["model"]
    return part | ({"thoughtSignature": "skip_thought_signature_validator"} if unsigned else {})


def _ours(messages: list[Json], prefill: int, model: Json) -> dict[str, Json]:
    sides = Sides(lambda text: {"text": text})
    sides.read(messages, prefill, lambda unit: _turns(unit, model))
    said = sides.instructions(prefill_in_words=True)
    system = {"systemInstruction": {"parts": [{"text": said}]}} if said else {}
    names = {"assistant": "model"}
    contents = [{"role": names.get(role, role), "parts": parts} for role, parts in sides.turns]
    return {**system, **sides.mark, "contents": contents}


def says_nothing(body: Json, read: list[Json]) -> bool:
    """Whether a reply that Gemini ended well is empty."""
    candidates = body.get("candidates") or []
    well = all(each.get("finishReason", "STOP") == "STOP" for each in candidates)
    return well and not any(
        m["type"] not in ("text", "reasoning")
        or (m["type"] == "text" and "".join(text_pieces(m)).strip())
        for m in read
    )


def empty(read: list[Json]) -> list[Json]:
    """The messages of a reply that says nothing, marked for the next request."""
    nothing: Json = {"type": "reasoning", "role": "assistant", "content": ""}
    held = read or [nothing]
    return [{**m, "_empty": "end" if m is held[-1] else "part"} for m in held]


def _turns(unit: Unit, model: Json) -> Turns:
    if not isinstance(unit, Exchange) and "_empty" in unit:
        return [("user", [{"text": "Continue."}])] if unit["_empty"] == "end" else []
    if not isinstance(unit, Exchange):
        return [("user" if unit["role"] == "user" else "assistant", _said(unit, model))]
    asked = [_asked(c, model, first=c is unit.calls[0]) for c in unit.calls]
    for place, message in reversed(unit.said):
        asked[place:place] = _said(message, model)
    shows = "gemini-3" in model["model"]
    pairs = zip(unit.calls, unit.results, strict=True)
    given = [_response(c, m, words=True, shows=shows) for c, m in pairs]
    return [("assistant", asked), ("user", given)]


def _said(message: Json, model: Json) -> list[Json]:
    if message["type"] == "opaque":
        return [message["content"]]
    pieces, part = text_pieces(message), message.get("_part", {})
    same = part.get("text") == message["content"]
    if message["type"] == "reasoning":  # unsigned it carries nothing over
        part = _standing(part, message, model)
        return [part] if same and pieces and "thoughtSignature" in part else []
    if same:
        return [_standing(part, message, model)]
    return [{"text": "".join(pieces)}] if pieces else []


def decode(body: Json, on: Switches) -> list[Json]:
    """The messages of an answer that is no error.

    Raises:
        Failure: It cannot be read.
    """
    candidates = body.get("candidates") or [] if isinstance(body, dict) else []
    if not candidates and on("answers-are-checked"):
        feedback = body.get("promptFeedback") if isinstance(body, dict) else None
        blocked = isinstance(feedback, dict) and feedback.get("blockReason")
        raise our_failure("EmptyReplyError" if blocked else "ModelResponseError")
    found: list[Json] = []
    for candidate in candidates:
        malformed = candidate.get("finishReason") == "MALFORMED_FUNCTION_CALL"
        if malformed and not on("malformed-arguments"):
            continue  # gemini.ts skips it
        content = candidate.get("content") or {}
        for part in content.get("parts") or []:
            found += _part(part, content, body, on)
        said = candidate.get("finishMessage") or "MALFORMED_FUNCTION_CALL"
        found += [_malformed(body, said)] if malformed else []
    found = _with_ids(found, body, on)
    return cut(_stopped(found, on), [each.get("finishReason") for each in candidates], on)


def _part(part: Json, content: Json, body: Json, on: Switches) -> list[Json]:
    role = content.get("role")
    if role == "user" and ("text" in part or "functionResponse" in part):
        if not on("replies-are-the-models"):
            return [_users(part)]
        return (
            [{"role": "assistant", "type": "text", "content": part["text"]}]
            if "text" in part
            else []
        )
    known = "text" in part or "functionCall" in part
    if (not known or role != "model") and not on("unknown-parts"):
        raise prose_failure("unknown-content")
    if "functionCall" in part:
        asked = part["functionCall"]
        nameless = not (isinstance(asked.get("name"), str) and asked["name"])
        if nameless and on("malformed-arguments"):
            return [
                _malformed(body, f"a function call without a name: {stringify(asked, python=True)}")
            ]
        given = asked.get("args", UNDEFINED)
        if given in (UNDEFINED, None) and on("missing-arguments"):
            given = {}
        read: dict[str, Json] = {"input": given}
        if isinstance(given, str) and on("arguments-are-read-as-json-first"):
            read = our_arguments(given)
        call = {
            "name": asked["name"],
            **read,
            "type": "tool",
            "id": asked["name"],
            "_id": asked.get("id"),
            "_bare": "args" not in asked,
            "_signature": {k: v for k, v in part.items() if k == "thoughtSignature" and v},
        }
        shape = {"role": "assistant", "type": "tool_call", "stop_reason": "tool"}
        return [{**shape, "tools": [call]}]
    if "functionResponse" in part and on("replies-are-the-models"):
        return []
    if part.get("text") is None and on("unknown-parts"):
        return [_opaque({name: value for name, value in part.items() if value is not None})]
    text = part["text"]
    kind = "reasoning" if part.get("thought") and on("thoughts-are-reasoning") else "text"
    part = {k: v for k, v in part.items() if v is not None}
    plain = part == {"text": text if text.strip() else ""}
    kept = {} if plain else {"_part": part}
    return [{"role": "assistant", "type": kind, "content": text, **kept}]


_CALLED = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)\s*\(")


def _malformed(body: Json, said: str) -> Json:
    """A call that is none, or has no name: the model reads that."""
    names = [name for name in _CALLED.findall(said) if name not in ("print", "default_api")]
    name = names[0] if names else "malformed_function_call"
    call = {"type": "tool", "id": f"{body.get('responseId') or name}_malformed", "name": name}
    call["input"] = {}
    shape = {"role": "assistant", "type": "tool_call", "stop_reason": "tool"}
    return {**shape, "tools": [call | {"malformed": said}]}


def _users(part: Json) -> Json:
    """A part of a candidate whose role is ``user`` (gemini.ts ``responseParser``)."""
    if "text" in part:
        return {"role": "user", "type": "text", "content": part["text"]}
    said = part["functionResponse"]
    tool = {"name": said["name"], "input": said["response"], "type": "tool", "id": said["name"]}
    shape = {"role": "tool_result", "type": "tool_result", "stop_reason": "tool"}
    return {**shape, "tool": tool, "content": stringify(said["response"])}


def _is_own(message: Json) -> bool:
    return bool(message["content"]) and message["format"] == "gemini"


def _opaque(part: Json) -> Json:
    """A part for which there is no type, as it came."""
    kind = {"executableCode": "call", "codeExecutionResult": "result"}.get(next(iter(part), ""))
    hosted = {"toolName": "code_execution", "part": kind} if kind else {}
    return opaque(part, "gemini", **hosted)


def _with_ids(found: list[Json], body: Json, on: Switches) -> list[Json]:
    counts: dict[str, int] = {}
    number = 0
    for message in found:
        for call in message.get("tools", []):
            number += 1
            counts[call["name"]] = counts.get(call["name"], 0) + 1
            own = (
                f"{call['name']}_{counts[call['name']]}"
                if counts[call["name"]] > 1
                else call["name"]
            )
            if body.get("responseId"):
                own = f"{body['responseId']}_{number}"
            own = (
                call["id"] if "malformed" in call and "_id" not in call else call.get("_id") or own
            )
            if own != call["id"] and on("gemini-call-ids"):
                call["id"] = own
    return found


def _stopped(found: list[Json], on: Switches) -> list[Json]:
    said = [m for m in found if m["type"] not in ("tool_call", "reasoning")]
    if not said or not on("gemini-texts-stop"):
        return found
    calls = any(m["type"] == "tool_call" for m in found)
    for message in said:
        message["stop_reason"] = "tool" if calls else "stop"
    return found
