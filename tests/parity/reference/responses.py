"""OpenAI's Responses API, in which newer models are asked; TypeScript's package knows none."""

from __future__ import annotations

import copy
import re

from ..vectors import Json
from .chat import as_written, our_arguments, sent_arguments
from .core import Switches, our_failure
from .replies import cut
from .schemas import chat_tools
from .turns import (
    OPENING,
    Exchange,
    Unit,
    images_in,
    is_image,
    result_text,
    text_pieces,
    units,
    whole,
    with_json,
    with_names,
    words_of,
)

_VERSION = re.compile(r"(?<![a-z0-9])gpt-(\d{1,2})(?!\d)(?:\.(\d{1,2}))?(?!.*-chat)")
_ONLY_CHAT = {
    "n", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "seed",
    "stream_options", "modalities", "audio", "prediction", "functions", "function_call",
}  # fmt: skip
_SAMPLING = {"temperature", "top_p", "top_logprobs"}
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


def is_asked(model: dict[str, Json], on: Switches) -> bool:
    """Return whether a model is asked here: chat completions would refuse its tools."""
    return _refuses_tools(model) and on("tools-where-they-are-taken")


def _refuses_tools(model: dict[str, Json]) -> bool:
    options = model["options"]
    found = _VERSION.search(options["model"].lower())
    if found is None or model["provider"] not in ("openai", "azure-openai"):
        return False
    effort = (options.get("defaultParameters") or {}).get("reasoning_effort")
    version = int(found[1]), int(found[2] or 0)
    if version >= (6, 1):
        return True
    return effort != "none" if version >= (5, 6) else version >= (5, 4) and effort is not None


def encode(
    model: dict[str, Json], messages: list[Json], tools: list[Json], choice: str, on: Switches
) -> dict[str, Json]:
    """The body of a request."""
    messages = with_json(with_names(messages, on), on)
    messages = [m for m in messages if m["type"] not in ("reasoning", "opaque")]
    body: dict[str, Json] = {"model": model["options"]["model"], "store": False}
    body["include"] = ["reasoning.encrypted_content"]
    if model["provider"] == "azure-openai":
        body["model"] = model["options"]["deployment"]
    if tools:
        body["tools"] = [
            {"type": "function", "parameters": _NO_PARAMETERS, **tool["function"]}
            for tool in chat_tools(tools, strict=True, on=on)
        ]
        named = {"type": "function", "name": choice}
        body["tool_choice"] = {"auto": "auto", "any": "required"}.get(choice, named)
        body["parallel_tool_calls"] = False
    body |= _renamed(copy.deepcopy(model["options"].get("defaultParameters") or {}))
    if not body.get("tools"):
        body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)
    items = [item for unit in units(whole(messages)) for item in _items(unit, on)]
    said = [item for item in items if item.get("role") != "system"]
    if not said or said[0].get("role") != "user":
        at = items.index(said[0]) if said else len(items)
        items.insert(at, _said("user", [OPENING]))
    return {"input": items, **body}


def _renamed(parameters: dict[str, Json]) -> dict[str, Json]:
    made = {k: v for k, v in parameters.items() if k not in _ONLY_CHAT}
    for name in {"max_tokens", "max_completion_tokens"} & made.keys():
        made["max_output_tokens"] = made.pop(name)
    effort = made.pop("reasoning_effort", None)
    if "reasoning_effort" in parameters:
        made["reasoning"] = {"effort": effort}
    if "verbosity" in made:
        made["text"] = {"verbosity": made.pop("verbosity")}
    if isinstance(form := made.get("response_format"), dict):
        del made["response_format"]
        kept = {k: v for k, v in form.items() if k != "json_schema"}
        made["text"] = {**made.get("text", {}), "format": kept | form.get("json_schema", {})}
    return {k: v for k, v in made.items() if effort == "none" or k not in _SAMPLING}


def _said(role: str, pieces: list[str]) -> Json:
    more = {"annotations": []} if role == "assistant" else {}
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": piece, **more} for piece in pieces]
    return {"type": "message", "role": role, "content": content}


def _text(call: Json, on: Switches) -> str:
    # What was written in another format goes back as JSON of our own.
    own = {"_written": call["_said"]} if "_said" in call else {}
    call = {name: value for name, value in call.items() if name != "_written"} | own
    return sent_arguments(call, on).get("arguments", "{}")


def _items(unit: Unit, on: Switches) -> list[Json]:
    if not isinstance(unit, Exchange):
        pieces, part = text_pieces(unit), unit.get("_part", {})
        if part.get("refusal") == unit["content"]:  # as it came
            return [{"type": "message", "role": "assistant", "content": [part]}]
        return [_said(unit["role"], pieces)] if pieces else []
    found = [
        {"type": "function_call", "name": c["name"], "arguments": _text(c, on), "call_id": name}
        for c, name in unit.named()
    ]
    for place, message in reversed(unit.said):
        found[place:place] = (
            [_said("assistant", text_pieces(message))] if text_pieces(message) else []
        )
    for message, (_, name) in zip(unit.results, unit.named(), strict=True):
        found.append({"type": "function_call_output", "call_id": name, "output": _output(message)})
    return found


def _output(message: Json) -> Json:
    if not images_in(message):
        return result_text(message)
    return [
        {
            "type": "input_image",
            "image_url": f"data:{item['mimeType']};base64,{item['data']}",
            "detail": "auto",
        }
        if is_image(item)
        else {"type": "input_text", "text": words_of(item)}
        for item in message["content"]["data"]
    ]


def answered(reply: Json) -> Json:
    """A reply of chat completions as the host gives it here; one of another shape as it is."""
    body = reply.get("json")
    try:
        choices = body["choices"]
        output = [item for choice in choices for item in _output_items(choice["message"])]
        ends = [choice.get("finish_reason") for choice in choices]
    except (AttributeError, KeyError, TypeError):
        return reply
    why = next((each for each in ends if each in ("length", "content_filter")), None)
    made: dict[str, Json] = {"object": "response", "output": output}
    made["status"] = "incomplete" if why else "completed"
    if why:
        reason = "max_output_tokens" if why == "length" else why
        made["incomplete_details"] = {"reason": reason}
    return {**reply, "json": made}


def _output_items(message: Json) -> list[Json]:
    found: list[Json] = []
    said, refusal = message.get("content"), message.get("refusal")
    if isinstance(said, list):
        said = "".join(part["text"] for part in said if part.get("type") == "text")
    content = [{"type": "output_text", "text": said, "annotations": []}] if said else []
    content += [{"type": "refusal", "refusal": refusal}] if refusal and not said else []
    if content:
        found.append({"type": "message", "role": "assistant", "content": content})
    for call in message.get("tool_calls") or []:
        facts = {name: call["function"].get(name) for name in ("name", "arguments")}
        found.append({"type": "function_call", "call_id": call.get("id"), **facts})
    return found


def decode(body: Json, on: Switches) -> list[Json]:
    """The messages of an answer that is no error.

    Raises:
        Failure: It cannot be read.
    """
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        raise our_failure("ModelResponseError")
    calls = any(item["type"] == "function_call" for item in body["output"])
    found: list[Json] = []
    refused = False
    for item in body["output"]:
        base = {"role": "assistant", "stop_reason": "tool" if calls else "stop"}
        if item["type"] == "message":
            part = item["content"][0]
            refused = refused or "refusal" in part
            text = part.get("text") or part.get("refusal")
            own = {"_part": part} if "refusal" in part else {}
            found.append({**base, "type": "text", "content": text, **own})
            continue
        call = {"type": "tool", "id": item["call_id"] or "", "name": item["name"]}
        given = item["arguments"]
        read = our_arguments(given or "{}") if isinstance(given or "", str) else {"input": given}
        call |= read | ({"_said": given} if as_written(given) else {})
        found.append({**base, "type": "tool_call", "tools": [call]})
    why = (body.get("incomplete_details") or {}).get("reason", "")
    why = "length" if why == "max_output_tokens" else why
    return cut(found, ["refusal" if refused and not (why or calls) else why], on)
