#!/usr/bin/env python3
"""Run recorded exchanges of real providers through the models and through `FakeProvider`.

    scripts/recorded.py DIR [--list]
    scripts/recorded.py DIR --conversations FILE

DIR holds recordings of any project, at any depth, in the formats that `recordings.py` reads; they
stay outside of this repository. Each exchange in a format of ours is checked:

- accepted: what the provider took, the stand-in takes;
- refused: what the provider refused for its form, the stand-in refuses;
- request: a request that is read into our messages and encoded again has lost nothing;
- reply: all of a reply is in the next request;
- stream: a streamed reply is what `reference_streams.py` makes of the same events;
- cut: a stream that breaks off, wherever it does, is an error or the whole reply.

A table counts exchanges and failures per format and host; `--list` names each failure with its
reason. Exit status: 0 without failures, else 1. `--conversations` writes the longest request of
each cassette to a file that `agentkit replay` and `agentkit threads import` read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from atoms import atoms, lost
from recordings import Recording, recordings
from reference_streams import events, reply_of

from agentkit_py import anthropic, gemini
from agentkit_py.errors import ModelError
from agentkit_py.messages import (
    Message,
    OpaqueMessage,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import Model
from agentkit_py.models.base import ModelRequest, ToolSpec, make_model
from agentkit_py.models.capabilities import COMPATIBLE, OPENAI, OPENAI_RESPONSES, host_of_url
from agentkit_py.models.chat import ChatAdapter
from agentkit_py.models.conversations import read_conversation
from agentkit_py.models.responses import ResponsesAdapter
from agentkit_py.testing import FakeProvider, ReceivedRequest
from agentkit_py.testing._provider.endpoints import provider_of, route
from agentkit_py.testing.provider import Raw

CHECKS = ("accepted", "refused", "request", "reply", "stream", "cut")

_OK = 200
_REFUSALS = (400, 422)
_FORMATS = (
    ("chat", re.compile(r".*/chat/completions")),
    ("responses", re.compile(r".*/responses")),
    ("anthropic", re.compile(r".*/v1/messages")),
    ("anthropic", re.compile(r".*/publishers/anthropic/models/(?P<model>[^/:]+):\w*[rR]awPredict")),
    ("anthropic", re.compile(r".*/model/(?P<model>[^/]+)/invoke(?:-with-response-stream)?")),
    ("gemini", re.compile(r".*/models/(?P<model>[^/:]+):(?:g|streamG)enerateContent")),
)
_INVOKE = re.compile(r"/invoke(?:-with-response-stream)?$")
_CONVERSE = re.compile(r"/converse(?:-stream)?$")
_STAND_INS = {
    "chat": "https://api.openai.com/v1/chat/completions",
    "responses": "https://api.openai.com/v1/responses",
    "anthropic": "https://api.anthropic.com/v1/messages",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent",
}
_NO_HOST = "host.invalid"
"""The host of exchanges whose recorder has left it out, or that speak another provider's format."""

_CHAT_HOSTS = {
    host_of_url(host.base_url): host for host in COMPATIBLE.values() if host.key_required
}

_KEYS = {"authorization": "Bearer x", "x-api-key": "x", "x-goog-api-key": "x"}
_SENT_HEADERS = ("anthropic-beta", "anthropic-version", "content-type")

_BETAS = {
    "tool_addition": "mid-conversation-tool-changes-2026-07-01",
    "tool_removal": "mid-conversation-tool-changes-2026-07-01",
    "compaction": "compact-2026-01-12",
    "compact_20260112": "compact-2026-01-12",
    "clear_tool_uses_20250919": "context-management-2025-06-27",
    "clear_thinking_20251015": "context-management-2025-06-27",
}
"""Types of blocks that Claude's API takes under a beta, and the beta."""

# Whose rules the stand-in knows; of others it knows what all hosts of a format share.
_OWN_HOSTS = ("openai.com", "openai.azure.com", "anthropic.com", "googleapis.com", "api.x.ai")

# Refusals that no rule about the form of a request could know.
_NOT_STRUCTURAL = (
    ("no such model", re.compile(r"does not exist|[Mm]odel.not.found")),
    ("no such reply is stored", re.compile(r"previous_response_not_found")),
    ("how a grammar compiles", re.compile(r"too complex for compilation")),
    ("a property of this model", re.compile(r"(?:not supported|does not support).*this model")),
    ("a property of this model", re.compile(r"Model \S+ does not support parameter")),
    ("this model does not take it", re.compile(r"this model does not support", re.I)),
    (
        "what a link or a file holds",
        re.compile(r"[Cc]annot fetch content|unsupported_file|invalid_image|unsupported image"),
    ),
    (
        "its length",
        re.compile(r"context_length_exceeded|prompt is too long|token count .* exceeds"),
    ),
    ("the key", re.compile(r"API key not valid|API_KEY_INVALID|Incorrect API key")),
    ("what the model wrote", re.compile(r"tool_use_failed")),
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded request with its answer."""

    where: str
    """The cassette and the number of the exchange in it."""

    format: str
    host: str
    model: str
    path: str
    cloud: bool
    """Whether the host is a cloud that has Claude under bodies of its own."""

    headers: Mapping[str, str] = field(repr=False)
    body: dict[str, Any] = field(repr=False)
    status: int
    answer: Any = field(repr=False)
    """The answer's JSON, its events as text, or the bytes of an event stream."""

    date: str


# ------------------------------------------------------------------------------------- exchanges


def exchanges(folder: Path, skipped: Counter[str] | None = None) -> Iterator[Exchange]:
    """Yield the exchanges under a folder that are in a format of ours; count others by reason."""
    unread: Counter[str] = Counter()
    for recording in recordings(folder, unread):
        exchange = _exchange(recording)
        if exchange is not None:
            yield exchange
        elif skipped is not None and (why := _no_format(recording)):
            skipped[why] += 1
    if skipped is not None:
        skipped.update({f"a file that cannot be read: {why}": n for why, n in unread.items()})


def _no_format(recording: Recording) -> str:
    """Return why an exchange with a model cannot be checked; empty if it is none."""
    path = urlsplit(recording.url).path
    if _CONVERSE.search(path):
        return "Bedrock's Converse, which no model of ours speaks"
    if _INVOKE.search(path):
        return "Bedrock's own bodies of models that are not Claude"
    if any(pattern.fullmatch(path) for _, pattern in _FORMATS):
        return "a request without a JSON body"
    return ""


def _exchange(recording: Recording) -> Exchange | None:
    url = urlsplit(recording.url)
    form, found = next(
        ((name, match) for name, end in _FORMATS if (match := end.fullmatch(url.path))), ("", None)
    )
    body = recording.body
    if found is None or not isinstance(body, dict) or recording.method != "POST":
        return None
    cloud = "anthropic_version" in body
    if _INVOKE.search(url.path) and not cloud:
        return None
    model = found.groupdict().get("model") or str(body.get("model"))
    host = url.hostname or _NO_HOST
    return Exchange(
        where=recording.where,
        format=form,
        host=host,
        model=unquote(model),
        path=url.path + (f"?{url.query}" if url.query else ""),
        cloud=cloud,
        headers={n: recording.headers[n] for n in _SENT_HEADERS if n in recording.headers},
        body=with_ids(form, host, body),
        status=recording.status,
        answer=with_ids(form, host, recording.answer),
        date=recording.date,
    )


_REPLACED_ID = re.compile(r'"\w+_REDACTED_(?P<number>\d+)"')
_REPLACED = "_REDACTED_"


def with_ids(form: str, host: str, body: Any) -> Any:
    """Return a request or an answer with ids of the provider's shape for those that are replaced.

    Some recorders write `call_REDACTED_1` for each id, which the provider has not taken.
    """
    text = json.dumps(body, default=repr)
    if not isinstance(body, dict) or _REPLACED not in text:
        return body
    if form == "chat" and host.endswith("mistral.ai"):
        return json.loads(_REPLACED_ID.sub(lambda found: f'"call{found["number"]:0>5}"', text))
    found = json.loads(text)
    if form == "responses" and isinstance(found.get("input"), list):
        for item in found["input"]:
            if item.get("type") == "reasoning" and _REPLACED in str(item.get("id")):
                item["id"] = f"rs_{item['id']}"
    if form == "anthropic":
        for said in [found, *(found.get("messages") or ())]:
            _name_calls(said.get("content"))
    return found


def _name_calls(blocks: Any) -> None:
    """Give results of a server's tools the ids of their calls, which the recorder has kept."""
    calls: dict[str, str] = {}
    for block in blocks if isinstance(blocks, list) else ():
        kind = block.get("type", "")
        if kind == "server_tool_use":
            calls[block["name"]] = block["id"]
        elif kind.endswith("_tool_result") and _REPLACED in str(block.get("tool_use_id")):
            name = kind.removesuffix("_tool_result")
            block["tool_use_id"] = calls.get(name, block["tool_use_id"])


# -------------------------------------------------------------------------------- the stand-in


class StandIn:
    """A strict `FakeProvider` that takes any request and says nothing."""

    def __init__(self) -> None:
        """Begin with no request."""
        self._fake = FakeProvider(lambda _request: Raw(text="{}"))
        self._client = httpx.AsyncClient(transport=self._fake.transport)

    async def ask(self, exchange: Exchange) -> ReceivedRequest:
        """Send the request; return it with why it was refused, if it was."""
        url = _STAND_INS[exchange.format].format(model=exchange.model)
        headers = {**_KEYS, "anthropic-version": "2023-06-01", **exchange.headers}
        if "anthropic-version" not in exchange.headers:  # the recorder has left headers out
            headers["anthropic-beta"] = _betas(exchange.body)
        if exchange.cloud:
            url = f"https://{exchange.host}{exchange.path}"
        elif exchange.format == "chat":
            url = _chat_url(exchange)
        await self._client.post(url, json=exchange.body, headers=headers)
        received = self._fake.requests[-1]
        self._fake.requests.clear()
        return received


def _chat_url(exchange: Exchange) -> str:
    """Return the exchange's own URL where the stand-in knows the host, else any host's."""
    if exchange.host.endswith("openai.com"):
        return _STAND_INS["chat"]
    found = route(exchange.host, exchange.path.partition("?")[0])
    if found is not None and found.provider != "openai":
        return f"https://{exchange.host}{exchange.path}"
    known = provider_of(exchange.host, "/compatible/v1/chat/completions") == "compatible"
    return f"https://{exchange.host if known else _NO_HOST}/compatible/v1/chat/completions"


def _betas(body: Mapping[str, Any]) -> str:
    """Return the betas that Claude's API must have been asked for, as it took the request."""
    text = json.dumps([body.get("messages"), body.get("context_management")])
    return ", ".join(beta for kind, beta in _BETAS.items() if f'"type": "{kind}"' in text)


def not_structural(exchange: Exchange) -> str | None:
    """Return why no rule about its form could refuse this request; None: one should."""
    if exchange.status not in _REFUSALS:
        return f"status {exchange.status}"
    if not exchange.host.endswith(_OWN_HOSTS):
        return "a rule of another host"
    words = json.dumps(exchange.answer)
    return next((why for why, pattern in _NOT_STRUCTURAL if pattern.search(words)), None)


# ------------------------------------------------------------------------------------ the checks


@dataclass(slots=True)
class Report:
    """Outcomes of all checks."""

    exchanges: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Counts per format and host."""

    failures: list[tuple[Exchange, str, str]] = field(
        default_factory=list[tuple[Exchange, str, str]]
    )
    """Exchange, check and reason."""

    refusals: Counter[str] = field(default_factory=Counter[str])
    """Answers that are no success, by why they are not structural."""

    not_ours: Counter[str] = field(default_factory=Counter[str])
    """Requests and answers that no message of ours stands for."""

    streams: int = 0
    """Streams that were held against the reference."""

    typed: Counter[str] = field(default_factory=Counter[str])
    """Replies that say nothing, by the error that says so."""

    unknown: Counter[str] = field(default_factory=Counter[str])
    """Refusals at hosts that the stand-in does not speak for: see `is_unknown`."""

    def fail(self, exchange: Exchange, check: str, reason: str) -> None:
        """Note a failure."""
        self.failures.append((exchange, check, reason))

    def table(self) -> str:
        """Return the table."""
        failed = {(e.where, check): e for e, check, _ in self.failures}
        counts = Counter((e.format, e.host, check) for (_, check), e in failed.items())
        rows = [["format", "host", "exchanges", *CHECKS]]
        for form, host in sorted(self.exchanges):
            figures = [counts[form, host, check] for check in CHECKS]
            rows.append([form, host, *map(str, [self.exchanges[form, host], *figures])])
        totals = Counter(check for _, check in failed)
        sums = [self.exchanges.total(), *(totals[check] for check in CHECKS)]
        rows.append(["all", "", *map(str, sums)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if index < 2 else cell.rjust(width)  # noqa: PLR2004 - two names
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines)


# ------------------------------------------------------------------------------------ our models


def model_of(exchange: Exchange) -> Model:
    """Return a model of ours for the exchange's host and format."""
    base_url = f"https://{exchange.host}/v1"
    name = exchange.model
    match exchange.format:
        case "chat":
            host = _CHAT_HOSTS.get(exchange.host, OPENAI)
            return make_model(ChatAdapter(host), name, base_url=base_url)
        case "responses":
            return make_model(ResponsesAdapter(OPENAI_RESPONSES), name, base_url=base_url)
        case "anthropic":
            return anthropic(name, base_url=base_url)
        case _:
            return gemini(name, base_url=base_url)


def with_parameters(model: Model, body: Mapping[str, Any]) -> Model:
    """Return the model with the parameters of a request, but for its conversation and functions."""
    kept = (
        "container",
        "context_management",
        "include",
        "mcp_servers",
        "reasoning",
        "store",
        "thinking",
        "tools",
    )
    given = {name: body[name] for name in kept if name in body}
    if "input" in body:  # what a server stores is sent by its id alone
        given = {"store": True, **given}
    return model.with_parameters(**given)


def encoded_again(exchange: Exchange, messages: tuple[Message, ...]) -> dict[str, Any]:
    """Return the body of a request with these messages."""
    called = {c.name for m in messages if isinstance(m, ToolCallMessage) for c in m.tools}
    specs = tuple(ToolSpec(name) for name in sorted(called))
    model = with_parameters(model_of(exchange), exchange.body)
    return model.encode(ModelRequest(messages=messages, tools=specs))


# What no message of ours stands for: a request that holds one is not compared.
_NOT_OURS = {
    "chat": re.compile(
        r'"type": "(?:video_url|document_url|file_url)"|"file_id"|"file_data": "http'
    ),
    "responses": re.compile(
        r'"prompt": \{|"file_id"|"type": "item_reference"|"previous_response_id"|"conversation"'
        r'|"execution": "client"|"type": "additional_tools"'
    ),
    "anthropic": re.compile(
        r'"type": "(?:container_upload|tool_addition|tool_removal|tool_reference)"|"file_id"'
        r'|"tool_use_id": "toolu_REDACTED_\d+", "type": "(?:web_search|code_execution)_tool_result"'
    ),
    "gemini": re.compile(r"$^"),
}


def check_request(exchange: Exchange, report: Report) -> None:
    """Check that a request that is read and encoded again has lost nothing."""
    if exchange.status != _OK:
        return
    if found := _NOT_OURS[exchange.format].search(json.dumps(exchange.body)):
        report.not_ours[f"{exchange.format}: {found[0]}"] += 1
        return
    if shows_in_results(exchange):
        report.not_ours["chat: an image in a result, which is named in words, with a warning"] += 1
        return
    model = model_of(exchange)
    messages = read_conversation(exchange.body, form=exchange.format, model=model)
    compare(exchange, "request", exchange.body, encoded_again(exchange, messages), report)


def shows_in_results(exchange: Exchange) -> bool:
    """Return whether a tool's result has an image, in chat completions."""
    results = [m for m in exchange.body.get("messages") or () if m.get("role") == "tool"]
    return exchange.format == "chat" and '"image_url"' in json.dumps(results)


_REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def compare(
    exchange: Exchange, check: str, before: dict[str, Any], after: dict[str, Any], report: Report
) -> None:
    """Note what is lost of a conversation; reasoning only where the host takes it back."""
    takes = model_of(exchange).takes.reasoning_fields if exchange.format == "chat" else _REASONING
    for kind, value in lost(atoms(exchange.format, before), atoms(exchange.format, after)):
        if kind in _REASONING and kind not in takes:
            report.not_ours[f"chat: {kind} at a host that does not want it back"] += 1
        else:
            report.fail(exchange, check, f"lost {kind}: {value[:300]}")


def reply_body(exchange: Exchange, report: Report) -> Any:
    """Return the JSON of a reply, put together by the reference where it was streamed, or None.

    The library's own assembler is held against it. After each event it is asked whether the reply
    may end there, as where a connection breaks: a reply that is whole before its end must be the
    same as at its end.
    """
    answer = exchange.answer
    if isinstance(answer, dict):
        return answer
    model = model_of(exchange)
    assembler = model.adapter.assembler(model)
    if assembler is None or not answer:
        return None
    reference = reply_of(exchange.format, answer)
    early: list[Any] = []
    for event, data in events(answer):
        assembler.feed(event, json.dumps(data))
        if assembler.whole:
            early.append(json.dumps(assembler.finish()))
    if not early:
        if reference is not None:
            report.fail(exchange, "stream", "the library finds no end of this reply")
        return None
    ours = json.loads(early[-1])
    final = words_in(model, ours)
    for body in early[:-1]:
        if words_in(model, json.loads(body)) != final:
            report.fail(exchange, "cut", "a stream that ends earlier looks whole and is not")
            break
    compare_streams(exchange, reference, ours, report)
    return reference or ours


def words_in(model: Model, body: Any) -> list[Message]:
    """Return the messages of a reply without those that say nothing."""
    messages = model.decode(body).messages
    return [m for m in messages if not isinstance(m, TextMessage) or m.text.strip()]


def compare_streams(exchange: Exchange, reference: Any, ours: Any, report: Report) -> None:
    """Note where the library's assembler and the reference differ."""
    if reference is None:
        report.fail(exchange, "stream", "the library finds an end that the reference does not")
        return
    report.streams += 1
    said, heard = said_in(exchange.format, reference), said_in(exchange.format, ours)
    if said is None or heard is None:
        if said != heard:
            report.fail(exchange, "stream", "a reply to the library or the reference alone")
        return
    one, other = atoms(exchange.format, said), atoms(exchange.format, heard)
    for kind, value in lost(one, other):
        report.fail(exchange, "stream", f"lost {kind}: {value[:300]}")
    for kind, value in lost(other, one):
        report.fail(exchange, "stream", f"added {kind}: {value[:300]}")
    for name, expected in ends_of(exchange.format, reference).items():
        if ends_of(exchange.format, ours)[name] != expected:
            report.fail(exchange, "stream", f"{name} is not {expected}")


def ends_of(form: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return how a reply ended, and what it cost."""
    match form:
        case "chat":
            usage = body.get("usage") or {}
            counts = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
            return {"end": body["choices"][0].get("finish_reason"), "usage": counts}
        case "gemini":
            usage = body.get("usageMetadata") or {}
            counts = [usage.get("promptTokenCount"), usage.get("candidatesTokenCount")]
            return {"end": body["candidates"][0].get("finishReason"), "usage": counts}
        case _:
            usage = body.get("usage") or {}
            counts = [usage.get("input_tokens"), usage.get("output_tokens")]
            return {"end": body.get("stop_reason", body.get("status")), "usage": counts}


def check_reply(exchange: Exchange, report: Report) -> None:
    """Check that all of a reply is in the next request."""
    if exchange.status != _OK:
        return
    try:
        body = reply_body(exchange, report)
    except ModelError as error:
        report.typed[f"{exchange.format}: {type(error).__name__}"] += 1
        return
    if body is None:
        report.not_ours[f"{exchange.format}: an answer that is no reply"] += 1
        return
    said = said_in(exchange.format, body)
    if said is None or _NOT_OURS[exchange.format].search(json.dumps([exchange.body, body])):
        return
    model = model_of(exchange)
    try:
        messages = model.decode(body).messages
    except ModelError as error:
        report.typed[f"{exchange.format}: {type(error).__name__}"] += 1
        return
    before = read_conversation(exchange.body, form=exchange.format, model=model)
    if any(isinstance(m, OpaqueMessage) and m.kind == "compaction" for m in messages):
        messages = model.bind(ModelRequest(messages=before), messages)  # as a run does
    calls = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    results = [ToolResultMessage(call, {"data": "done"}) for call in calls]
    # A paused reply goes on by itself.
    paused = body.get("stop_reason") == "pause_turn"
    further = () if paused else (TextMessage("user", "Go on."),)
    conversation = (*before, *messages, *results, *further)
    compare(exchange, "reply", said, encoded_again(exchange, conversation), report)


def said_in(form: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return a reply as the part of a request that it becomes; None: it is no reply."""
    match form:
        case "chat" if body.get("choices") and "message" in body["choices"][0]:
            return {"messages": [{**body["choices"][0]["message"], "role": "assistant"}]}
        case "responses" if "output" in body:
            return {"input": body["output"]}
        case "anthropic" if "content" in body:
            return {"messages": [{"role": "assistant", "content": body["content"]}]}
        case "gemini" if body.get("candidates"):
            content = body["candidates"][0].get("content") or {}
            return {"contents": [{"role": "model", "parts": content.get("parts") or []}]}
        case _:
            return None


def is_unknown(exchange: Exchange) -> bool:
    """Return whether nobody knows the host of a format that the stand-in has as OpenAI's alone."""
    return exchange.host == _NO_HOST and exchange.format == "responses"


async def judge(exchange: Exchange, stand_in: StandIn, report: Report) -> None:
    """Check whether the stand-in says of a request what the provider said."""
    rejection = (await stand_in.ask(exchange)).rejection
    if rejection is not None and rejection.unknown and not exchange.host.endswith(_OWN_HOSTS):
        report.unknown[rejection.message.partition(", so")[0]] += 1
    elif exchange.status == _OK and rejection is not None and is_unknown(exchange):
        report.unknown[f"{rejection.rule} at an unknown host"] += 1
    elif exchange.status == _OK and rejection is not None:
        report.fail(exchange, "accepted", f"{rejection.rule}: {rejection.message}")
    if exchange.status == _OK:
        return
    why = not_structural(exchange)
    report.refusals[why or "structural"] += 1
    if why is None and rejection is None:
        report.fail(exchange, "refused", json.dumps(exchange.answer)[:400])


async def run(folder: Path) -> Report:
    """Check all exchanges under a folder."""
    report = Report()
    stand_in = StandIn()
    for exchange in exchanges(folder, report.not_ours):
        report.exchanges[exchange.format, exchange.host] += 1
        await judge(exchange, stand_in, report)
        for name, check in (("request", check_request), ("reply", check_reply)):
            try:
                check(exchange, report)
            except Exception as error:  # noqa: BLE001 - a crash is what is looked for
                report.fail(exchange, name, f"{type(error).__name__}: {error}")
    return report


def conversations(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the longest request of each cassette and format, as `agentkit replay` reads it."""
    longest: dict[tuple[str, str], Exchange] = {}
    for exchange in exchanges(folder):
        key = (exchange.where.rpartition("#")[0], exchange.format)
        known = longest.get(key)
        if exchange.status == _OK and (known is None or _length(exchange) >= _length(known)):
            longest[key] = exchange
    for exchange in longest.values():
        yield {**exchange.body, "id": exchange.where}


def _length(exchange: Exchange) -> int:
    said = next(exchange.body[n] for n in ("messages", "input", "contents") if n in exchange.body)
    return len(said) if isinstance(said, list) else 0


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="with cassettes, at any depth")
    parser.add_argument("--list", action="store_true", help="name each failure with its reason")
    parser.add_argument(
        "--conversations", type=Path, metavar="FILE", help="write requests for agentkit replay"
    )
    given = parser.parse_args()
    if given.conversations is not None:
        lines = [json.dumps(one) + "\n" for one in conversations(given.folder)]
        given.conversations.write_text("".join(lines), encoding="utf-8")
        return 0
    report = asyncio.run(run(given.folder))
    if not report.exchanges:
        print(f"{given.folder} holds no recorded exchange of a format of ours", file=sys.stderr)
        return 1
    if given.list:
        for exchange, check, reason in report.failures:
            shown = " ".join(reason.split())
            print(f"{check}\t{exchange.format}\t{exchange.where}\t{exchange.model}\t{shown}")
    print(report.table())
    print(f"streams held against the reference: {report.streams}")
    for why, count in report.refusals.most_common():
        print(f"refused by the provider: {count} ({why})")
    for what, count in (report.not_ours + report.typed).most_common():
        print(f"not compared: {count} ({what})")
    for what, count in report.unknown.most_common():
        print(f"{count} times: {what}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
