"""Claude in clouds: what Bedrock and Vertex want besides, and Bedrock's streams.

A cloud's request is judged as one to Anthropic's own API: its model comes from the path, the API's
version and the betas from the body.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from agentkit_py.models.capabilities import capabilities_of

from .rules import Problem, Request, fields_of, items_of, numbered, rules_of
from .types import SseEvent

_rule = rules_of("anthropic")
_VERSIONS = {
    "bedrock": ("bedrock-2023-05-31", "2026-10-21"),
    "vertex": ("vertex-2023-10-16", "2026-10-21"),
}
EVENT_STREAM = "application/vnd.amazon.eventstream"
_STRING = 7
"""The type of a header with a text."""


def as_messages(request: Request) -> None:
    """Make a cloud's request one to Anthropic's own API; `sent` keeps it as it came."""
    body = fields_of(request.body)
    if not body:
        return
    version, betas = body.get("anthropic_version"), items_of(body.get("anthropic_beta"))
    rest = {k: v for k, v in body.items() if k not in ("anthropic_version", "anthropic_beta")}
    request.body = {**rest, "model": request.model}
    request.headers = {**request.headers, "anthropic-version": str(version)}
    if betas:
        request.headers["anthropic-beta"] = ",".join(map(str, betas))


@_rule("platform.claude.com/docs/en/build-with-claude, each cloud's page; api/versioning")
def version_in_body(request: Request) -> Iterator[Problem]:
    """In clouds `anthropic_version` stands in the body, and is the cloud's own."""
    if (
        request.cloud
        and fields_of(request.sent).get("anthropic_version") not in (_VERSIONS[request.cloud])
    ):
        yield Problem("anthropic_version: Field required, with a version of this platform's")


@_rule("answers of Bedrock and Vertex", "observed")
def key_of_the_url(request: Request) -> Iterator[Problem]:
    """A fact of the URL is no key of the body: the model, and Bedrock's `stream`."""
    words = {
        "bedrock": "Malformed input request: extraneous key [{}] is not permitted, please "
        "reformat your input and try again.",
        "vertex": "{}: Extra inputs are not permitted",
    }
    for name in {"bedrock": ("model", "stream"), "vertex": ("model",)}.get(request.cloud, ()):
        if name in fields_of(request.sent):
            yield Problem(words[request.cloud].format(name), name)


@_rule("github.com/BerriAI/litellm/issues/18430, anthropic-sdk-typescript/issues/1038", "observed")
def linked_media(request: Request) -> Iterator[Problem]:
    """Clouds fetch no images and documents from addresses."""
    for where, message in numbered("messages", request.body.get("messages")):
        for place, block in numbered(f"{where}.content", fields_of(message).get("content")):
            if request.cloud and fields_of(fields_of(block).get("source")).get("type") == "url":
                words = "image.source.base64.data: URL sources are not supported"
                yield Problem(f"{place}.{words}", place)


@_rule("github.com/Portkey-AI/gateway/issues/1570; platform.claude.com, structured-outputs")
def format_in_cloud(request: Request) -> Iterator[Problem]:
    """Structured outputs are missing for some models on Bedrock, and off on Vertex at first."""
    asked = fields_of(request.body.get("output_config")).get("format") is not None
    takes = capabilities_of(request.model, f"https://{request.host}")
    if request.cloud and asked and not takes.structured_output:
        yield Problem("output_config.format: Extra inputs are not permitted", "output_config")


def event_message(event: SseEvent) -> bytes:
    """Return one event as Bedrock sends it: AWS's event stream, the JSON in Base64."""
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
