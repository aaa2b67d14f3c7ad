"""Rules of particular hosts of a known format, of clouds and of xAI.

A cloud's request is checked like a request to Anthropic's own API: its model comes from the path,
the API's version and the betas from the body.

Source: api-docs.deepseek.com (thinking mode); platform.moonshot.ai and huggingface/responses.js#54;
groq's and mistral's answers in vercel/ai#17930 and #17991 (read October and November 2026).
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from agentkit_py.models.capabilities import Capabilities, capabilities_of

from .anthropic import blocks_of
from .rules import Problem, Request, items_of, numbered, object_of, referred, rules_of
from .types import SseEvent

_rule = rules_of("compatible")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_DOES_NOT_THINK = re.compile(r"deepseek-chat|kimi-k2-instruct")
_DOES_WITHOUT = ("charm.land",)
_MEMBERS = ("reasoning_content", "reasoning", "reasoning_details")


def takes(request: Request) -> Capabilities:
    """Return the capabilities of the requested host."""
    return capabilities_of(request.model, f"https://{request.host}")


@_rule("api-docs.deepseek.com, thinking mode; huggingface/responses.js#54")
def missing_reasoning_content(request: Request) -> Iterator[Problem]:
    """DeepSeek and Kimi want `reasoning_content` with tool calls; it may be empty.

    Their models that do not think go without it (15 recorded exchanges of 2026), and so do those
    that think where the request turns it off (16 with deepseek-v4-flash). The gateway of Charm does
    without it, too (13 with deepseek-v4-pro).
    """
    if request.host.endswith(_DOES_WITHOUT):
        return
    if not takes(request).reasoning_required or _DOES_NOT_THINK.search(request.model.lower()):
        return
    if object_of(request.body.get("thinking")).get("type") == "disabled":
        return
    for where, message in numbered("messages", request.body["messages"]):
        given = object_of(message)
        if given.get("tool_calls") and not isinstance(given.get("reasoning_content"), str):
            words = "The `reasoning_content` in the thinking mode must be passed back to the API."
            yield Problem(words, where)


@_rule("answers of Groq (400) and Mistral (422)", "observed")
def unknown_reasoning_member(request: Request) -> Iterator[Problem]:
    """Groq and Mistral take no member of a message for reasoning."""
    if not request.host.endswith(("groq.com", "mistral.ai")):
        return
    for where, message in numbered("messages", request.body["messages"]):
        for name in _MEMBERS:
            if name in object_of(message):
                yield Problem(f"'{where}': property '{name}' is unsupported", where)


@_rule("DeepSeek's answer in seven recorded exchanges of 2026", "observed")
def text_parts_alone(request: Request) -> Iterator[Problem]:
    """DeepSeek takes text alone."""
    if not request.host.endswith("deepseek.com"):
        return
    for where, message in numbered("messages", request.body["messages"]):
        for part in items_of(object_of(message).get("content")):
            kind = object_of(part).get("type")
            if kind != "text":
                words = f"{where}: unknown variant `{kind}`, expected `text`"
                words = f"Failed to deserialize the JSON body into the target type: {words}"
                yield Problem(words, where, "invalid_request_error")


@_rule("DeepSeek's answer in two recorded exchanges of 2026", "observed")
def choice_while_thinking(request: Request) -> Iterator[Problem]:
    """DeepSeek calls no tool that it must where the request turns thinking on."""
    thinks = object_of(request.body.get("thinking")).get("type") == "enabled"
    forced = request.body.get("tool_choice") not in (None, "auto", "none")
    if request.host.endswith("deepseek.com") and thinks and forced:
        words = "Thinking mode does not support this tool_choice"
        yield Problem(words, "tool_choice", "invalid_request_error")


@_rule("answers of Mistral (code 3230); OpenMinis#87, vercel/ai#17991", "observed")
def strict_turns(request: Request) -> Iterator[Problem]:
    """Mistral takes no user after results, and no assistant at the end.

    mistral-small-latest took a user after results in two recorded exchanges of August 2026, and
    ministral-3b-latest in eight of one project.
    """
    if not takes(request).strict_turns:
        return
    before = ""
    for where, message in numbered("messages", request.body["messages"]):
        role = str(object_of(message).get("role"))
        may_follow = role == "user" and request.model.startswith(("mistral-small", "ministral-3b"))
        if before == "tool" and role in ("user", "system") and not may_follow:
            yield Problem(f"Unexpected role '{role}' after role 'tool'", where, "3230")
        before = role
    if before not in ("user", "tool"):
        words = f"Expected last role User or Tool for serving but got {before}"
        yield Problem(words, "messages", "3230")


@_rule("github.com/vercel/ai/issues/17930", "observed")
def short_call_id(request: Request) -> Iterator[Problem]:
    """Mistral's ids of calls are nine letters and digits."""
    if takes(request).call_id_length is None:
        return
    for where, message in numbered("messages", request.body["messages"]):
        given = object_of(message)
        ids = [object_of(call).get("id") for call in items_of(given.get("tool_calls"))]
        ids += [given["tool_call_id"]] if "tool_call_id" in given else []
        for one in ids:
            if not isinstance(one, str) or not _MISTRAL_ID.fullmatch(one):
                words = f"Tool call id was {one} but must be a-z, A-Z, 0-9, with a length of 9."
                yield Problem(words, where, "3280")


_cloud_rule = rules_of("anthropic")
_VERSIONS = {
    "bedrock": ("bedrock-2023-05-31", "2026-10-21"),
    "vertex": ("vertex-2023-10-16", "2026-10-21"),
}
EVENT_STREAM = "application/vnd.amazon.eventstream"
_STRING = 7
"""The type of a header with a text."""


def as_messages(request: Request) -> None:
    """Convert a cloud's request to Anthropic's own API; `sent` keeps the original."""
    body = object_of(request.body)
    if not body:
        return
    version, betas = body.get("anthropic_version"), items_of(body.get("anthropic_beta"))
    rest = {k: v for k, v in body.items() if k not in ("anthropic_version", "anthropic_beta")}
    request.body = {**rest, "model": request.model}
    request.headers = {**request.headers, "anthropic-version": str(version)}
    if betas:
        request.headers["anthropic-beta"] = ",".join(map(str, betas))


@_cloud_rule("platform.claude.com/docs/en/build-with-claude, each cloud's page; api/versioning")
def version_in_body(request: Request) -> Iterator[Problem]:
    """In clouds `anthropic_version` is in the body, with the cloud's own value."""
    if (
        request.cloud
        and object_of(request.sent).get("anthropic_version") not in (_VERSIONS[request.cloud])
    ):
        yield Problem("anthropic_version: Field required, with a version of this platform's")


@_cloud_rule("answers of Bedrock and Vertex", "observed")
def key_of_the_url(request: Request) -> Iterator[Problem]:
    """Facts of the URL are not keys of the body: the model, and Bedrock's `stream`."""
    words = {
        "bedrock": "Malformed input request: extraneous key [{}] is not permitted, please "
        "reformat your input and try again.",
        "vertex": "{}: Extra inputs are not permitted",
    }
    for name in {"bedrock": ("model", "stream"), "vertex": ("model",)}.get(request.cloud, ()):
        if name in object_of(request.sent):
            yield Problem(words[request.cloud].format(name), name)


@_cloud_rule(
    "github.com/BerriAI/litellm/issues/18430, anthropic-sdk-typescript/issues/1038", "observed"
)
def linked_media(request: Request) -> Iterator[Problem]:
    """Clouds fetch no images and documents from addresses."""
    for block in blocks_of(request, "image", "document") if request.cloud else ():
        if object_of(block.given["source"]).get("type") == "url":
            words = "image.source.base64.data: URL sources are not supported"
            yield Problem(f"{block.where}.{words}", block.where)


@_cloud_rule("github.com/Portkey-AI/gateway/issues/1570; platform.claude.com, structured-outputs")
def format_in_cloud(request: Request) -> Iterator[Problem]:
    """Structured outputs are missing for some models on Bedrock, and off on Vertex at first."""
    asked = object_of(request.body.get("output_config")).get("format") is not None
    takes = capabilities_of(request.model, f"https://{request.host}")
    if request.cloud and asked and not takes.structured_output:
        yield Problem("output_config.format: Extra inputs are not permitted", "output_config")


def event_message(event: SseEvent) -> bytes:
    """Return an event as Bedrock sends it: AWS's event stream, the JSON in Base64."""
    if isinstance(event, bytes):
        return event
    data = event[1] if isinstance(event, tuple) else event
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    payload: dict[str, Any] = {"bytes": base64.b64encode(text.encode()).decode(), "p": "abcdefgh"}
    return framed({":event-type": "chunk", ":message-type": "event"}, payload)


def framed(headers: dict[str, str], payload: Any) -> bytes:
    """Return a message of an event stream.

    Source: smithy.io, Amazon Event Stream.
    """
    head = b""
    for name, value in {**headers, ":content-type": "application/json"}.items():
        head += struct.pack("!B", len(name)) + name.encode()
        head += struct.pack("!BH", _STRING, len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", len(head) + len(body) + 16, len(head))
    message = prelude + struct.pack("!I", crc32(prelude)) + head + body
    return message + struct.pack("!I", crc32(message))


_grok_rule = rules_of("grok", "openai_responses")
_GROK_DOCS = "docs.x.ai/developers/model-capabilities/text/structured-outputs (November 2026)"
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_INSIDE = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")


@_grok_rule(f"{_GROK_DOCS}, rejected schemas; the words are ours")
def grok_schema(request: Request) -> Iterator[Problem]:
    """No empty `enum` or `anyOf`, boolean property, `minContains`, or list as `items`."""
    for where, root in _schemas(request):
        for at, schema in _parts(where, root):
            for words in _refused(schema):
                yield Problem(f"Invalid JSON schema at {at}: {words}", where)


@_grok_rule(
    f"{_GROK_DOCS}, supported types: non-circular references only, in tools, too. That others are "
    "refused is inferred from github.com/get-bb/bb/issues/1612: Grok 4.6 does, 4.5 did not, seen "
    "through another host and for a tool; the words are ours",
    "inferred",
)
def grok_circle(request: Request) -> Iterator[Problem]:
    """No schema refers to itself, neither a tool's nor an answer's."""
    for where, root in _schemas(request):
        if any(_circles(root, schema, ()) for _, schema in _parts(where, root)):
            yield Problem(f"Invalid JSON schema at {where}: circular references", where)


def _schemas(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas of a request to Grok in chat completions or Responses."""
    if request.provider == "grok":
        inner, answer = "function", ("response_format", "json_schema", "schema")
    elif request.host.endswith("x.ai"):
        inner, answer = None, ("text", "format", "schema")
    else:
        return
    for where, tool in numbered("tools", request.body.get("tools")):
        given = object_of(tool) if inner is None else object_of(object_of(tool).get(inner))
        place = where if inner is None else f"{where}.{inner}"
        yield f"{place}.parameters", object_of(given.get("parameters"))
    wanted: Any = request.body
    for name in answer:
        wanted = object_of(wanted).get(name)
    yield ".".join(answer), object_of(wanted)


def _parts(where: str, given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and those inside it, with their places."""
    if not isinstance(given, dict):
        return
    schema = object_of(given)
    yield where, schema
    for key in _BY_NAME:
        for name, inner in object_of(schema.get(key)).items():
            yield from _parts(f"{where}.{key}.{name}", inner)
    for key in _INSIDE:
        yield from _parts(f"{where}.{key}", schema.get(key))
    for key in _LISTED:
        for at, inner in numbered(f"{where}.{key}", schema.get(key)):
            yield from _parts(at, inner)


def _refused(schema: dict[str, Any]) -> Iterator[str]:
    for key in ("enum", "anyOf"):
        if schema.get(key) == []:
            yield f"'{key}' must have at least one variant"
    for name, inner in object_of(schema.get("properties")).items():
        if isinstance(inner, bool):
            yield f"the schema of property '{name}' must be an object"
    for key in ("minContains", "maxContains"):
        if key in schema:
            yield f"'{key}' is not supported"
    if isinstance(schema.get("items"), list):
        yield "'items' must be a schema; use 'prefixItems' for tuples"


def _circles(root: dict[str, Any], schema: dict[str, Any], inside: tuple[str, ...]) -> bool:
    """Return whether the reference of a schema leads back to a schema that was followed."""
    ref = schema.get("$ref")
    if not isinstance(ref, str):
        return False
    if ref in inside:
        return True
    found = object_of(referred(root, ref))
    own = {key: value for key, value in found.items() if key not in _BY_NAME[2:]}
    return any(_circles(root, one, (*inside, ref)) for _, one in _parts("", own))
