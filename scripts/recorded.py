#!/usr/bin/env python3
"""Run recorded exchanges of real providers through the models and through `FakeProvider`.

    scripts/recorded.py DIR [--list]
    scripts/recorded.py DIR --conversations FILE

DIR holds VCR cassettes (YAML); recordings of others stay outside of this repository. Each exchange
in a format of ours is checked:

- accepted: what the provider took, the stand-in takes;
- refused: what the provider refused for its form, the stand-in refuses;
- request: a request that is read into our messages and encoded again has lost nothing;
- reply: all of a reply is in the next request;
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
from urllib.parse import urlsplit

import httpx
import yaml

from agentkit_py import anthropic, gemini
from agentkit_py.errors import ModelError
from agentkit_py.messages import Message, TextMessage, ToolCallMessage, ToolResultMessage
from agentkit_py.models import Model
from agentkit_py.models.base import ModelRequest, ToolSpec, make_model
from agentkit_py.models.capabilities import OPENAI, OPENAI_RESPONSES
from agentkit_py.models.chat import ChatAdapter
from agentkit_py.models.conversations import read_conversation
from agentkit_py.models.responses import ResponsesAdapter
from agentkit_py.testing import FakeProvider, ReceivedRequest
from agentkit_py.testing.provider import Raw

CHECKS = ("accepted", "refused", "request", "reply", "cut")

_OK = 200
_REFUSALS = (400, 422)
_FORMATS = (
    ("chat", re.compile(r".*/chat/completions")),
    ("responses", re.compile(r".*/responses")),
    ("anthropic", re.compile(r".*/v1/messages")),
    ("gemini", re.compile(r".*/models/(?P<model>[^/:]+):(?:g|streamG)enerateContent")),
)
_STAND_INS = {
    "chat": "https://{host}/v1/chat/completions",
    "responses": "https://api.openai.com/v1/responses",
    "anthropic": "https://api.anthropic.com/v1/messages",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent",
}
# Hosts with chat completions in a dialect of their own, which the stand-in recognises.
_COMPATIBLE = (
    "cerebras.ai",
    "crusoecloud.com",
    "deepseek.com",
    "groq.com",
    "huggingface.co",
    "mistral.ai",
    "ollama.com",
    "openrouter.ai",
    "snowflakecomputing.com",
    "z.ai",
)
_KEYS = {"authorization": "Bearer x", "x-api-key": "x", "x-goog-api-key": "x"}
_SENT_HEADERS = ("anthropic-beta", "anthropic-version", "content-type")

_BETAS = {
    "tool_addition": "mid-conversation-tool-changes-2026-07-01",
    "tool_removal": "mid-conversation-tool-changes-2026-07-01",
}
"""Types of blocks that Claude's API takes under a beta, and the beta."""

# Whose rules the stand-in knows; of others it knows what all hosts of a format share.
_OWN_HOSTS = ("openai.com", "openai.azure.com", "anthropic.com", "googleapis.com")

# Refusals that no rule about the form of a request could know.
_NOT_STRUCTURAL = (
    ("no such model", re.compile(r"does not exist|model_not_found")),
    ("a property of this model", re.compile(r"(?:not supported|does not support).*this model")),
    ("this model does not take it", re.compile(r"this model does not support", re.I)),
    ("what a link leads to", re.compile(r"[Cc]annot fetch content|unsupported_file")),
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
    headers: Mapping[str, str] = field(repr=False)
    body: dict[str, Any] = field(repr=False)
    status: int
    answer: Any = field(repr=False)
    """The answer's JSON, or its events as text."""


# ------------------------------------------------------------------------------------- cassettes


def exchanges(folder: Path) -> Iterator[Exchange]:
    """Yield the exchanges of all cassettes under a folder that are in a format of ours."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.rglob("*.y*ml")):
        found = yaml.load(path.read_bytes(), loader)  # noqa: S506 - both loaders are safe
        listed = found.get("interactions") if isinstance(found, dict) else None
        for number, one in enumerate(listed or ()):
            if "request" not in one:  # a recording of another protocol
                continue
            exchange = _exchange(f"{path.relative_to(folder)}#{number}", one)
            if exchange is not None:
                yield exchange


def _exchange(where: str, one: dict[str, Any]) -> Exchange | None:
    request, response = one["request"], one["response"]
    url = urlsplit(request["uri"])
    form, found = next(
        ((name, match) for name, end in _FORMATS if (match := end.fullmatch(url.path))), ("", None)
    )
    body = _content(request)
    if found is None or not isinstance(body, dict) or request["method"].upper() != "POST":
        return None
    model = found.groupdict().get("model") or str(body.get("model"))
    given = request.get("headers") or {}
    headers = {name.lower(): _first(values) for name, values in given.items()}
    return Exchange(
        where=where,
        format=form,
        host=url.hostname or "",
        model=model,
        headers={name: headers[name] for name in _SENT_HEADERS if name in headers},
        body=body,
        status=response["status"]["code"],
        answer=_content(response),
    )


def _first(values: Any) -> str:
    return str(values[0]) if isinstance(values, list) else str(values)


def _content(message: dict[str, Any]) -> Any:
    """Return what a request or response holds: JSON, or the text of a stream."""
    if "parsed_body" in message:
        return message["parsed_body"]
    found = message.get("body")
    text = found.get("string") if isinstance(found, dict) else found
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


# -------------------------------------------------------------------------------- the stand-in


class StandIn:
    """A strict `FakeProvider` that takes any request and says nothing."""

    def __init__(self) -> None:
        """Begin with no request."""
        self._fake = FakeProvider(lambda _request: Raw(text="{}"))
        self._client = httpx.AsyncClient(transport=self._fake.transport)

    async def ask(self, exchange: Exchange) -> ReceivedRequest:
        """Send the request; return it with why it was refused, if it was."""
        known = any(exchange.host.endswith(host) for host in _COMPATIBLE)
        host = exchange.host if known else "api.openai.com"
        url = _STAND_INS[exchange.format].format(model=exchange.model, host=host)
        headers = {**_KEYS, "anthropic-version": "2023-06-01", **exchange.headers}
        if "anthropic-version" not in exchange.headers:  # the recorder has left headers out
            headers["anthropic-beta"] = _betas(exchange.body)
        await self._client.post(url, json=exchange.body, headers=headers)
        received = self._fake.requests[-1]
        self._fake.requests.clear()
        return received


def _betas(body: Mapping[str, Any]) -> str:
    """Return the betas that Claude's API must have been asked for, as it took the request."""
    text = json.dumps(body.get("messages"))
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

    typed: Counter[str] = field(default_factory=Counter[str])
    """Replies that say nothing, by the error that says so."""

    unknown: Counter[str] = field(default_factory=Counter[str])
    """Features that the stand-in does not know, at hosts that it does not speak for."""

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


# ------------------------------------------------------------- what a conversation is made of

Atom = tuple[str, str]
"""A kind and a value: a text, a call, a result, an image, a block of the provider's own."""

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})


def atoms(form: str, body: Mapping[str, Any]) -> Counter[Atom]:
    """Return what a request's conversation is made of, in no order."""
    return Counter(atom for atom in _ATOMS[form](body) if atom[1].strip() or atom[0] == "call")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _json_of(text: Any) -> Any:
    """Return the JSON in a text, else the text: how it is written does not count."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return text
    return found if isinstance(found, dict | list) else text


def _own_block(block: Mapping[str, Any]) -> Atom:
    kept = {k: v for k, v in block.items() if v is not None and k not in _MARKS}
    return str(block.get("type", "block")), _canonical(kept)


def _listed(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _chat_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    for message in body["messages"]:
        side = "assistant" if message["role"] == "assistant" else "other"
        kind = "result" if message["role"] in ("tool", "function") else f"{side} text"
        for part in _listed(message.get("content")):
            if part.get("type") == "text":
                yield kind, part["text"]
            else:
                yield _own_block(part)
        if message.get("refusal"):
            yield kind, message["refusal"]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = _json_of(function.get("arguments")) or {}
            yield "call", _canonical([function["name"], arguments])
        for name in ("reasoning_content", "reasoning", "reasoning_details"):
            if message.get(name):
                yield name, _canonical(message[name])


def _responses_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind == "message":
            side = "assistant" if item.get("role") == "assistant" else "other"
            for part in _listed(item.get("content")):
                text = part.get("text", part.get("refusal"))
                yield (f"{side} text", text) if text is not None else _own_block(part)
        elif kind == "function_call":
            yield "call", _canonical([item["name"], _json_of(item["arguments"])])
        elif kind == "function_call_output":
            for part in _listed(item["output"]):
                yield ("result", part["text"]) if "text" in part else _own_block(part)
        else:
            yield _own_block({k: v for k, v in item.items() if k != "status"})


def _anthropic_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    for block in _listed(body.get("system")):
        yield "other text", block["text"]
    for message in body["messages"]:
        side = "assistant" if message["role"] == "assistant" else "other"
        for block in _listed(message["content"]):
            match block["type"]:
                case "text":
                    yield f"{side} text", block["text"]
                    if block.get("citations"):
                        yield "citations", _canonical(block["citations"])
                case "tool_use":
                    yield "call", _canonical([block["name"], block["input"]])
                case "tool_result":
                    for part in _listed(block.get("content")):
                        known = part["type"] == "text"
                        yield ("result", part["text"]) if known else _own_block(part)
                case _:
                    yield _own_block(block)


def _gemini_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    system = body.get("systemInstruction") or {}
    for part in system.get("parts") or ():
        yield "other text", part["text"]
    for content in body["contents"]:
        side = "assistant" if content.get("role") == "model" else "other"
        for raw in content.get("parts") or ():
            yield from _gemini_part(_camel(raw), side)


def _gemini_part(part: dict[str, Any], side: str) -> Iterator[Atom]:
    if part.get("thoughtSignature"):
        yield "signature", part["thoughtSignature"]
    if "functionCall" in part:
        call = part["functionCall"]
        yield "call", _canonical([call["name"], call.get("args") or {}])
    elif "functionResponse" in part:
        found = part["functionResponse"]
        given = found.get("response")
        ours = isinstance(given, dict) and given.keys() == {"name", "content"}
        value = _json_of(given["content"]) if ours else given
        yield "result", value if isinstance(value, str) else _canonical(value)
        for one in found.get("parts") or ():
            yield _gemini_bytes(_camel(one))
    elif part.get("thought"):
        if part.get("thoughtSignature"):  # without one it carries nothing over
            yield "thought", part.get("text") or ""
    elif "text" in part:
        yield f"{side} text", part["text"]
    elif "inlineData" in part or "fileData" in part:
        yield _gemini_bytes(part)
    elif part.keys() - {"videoMetadata", "thoughtSignature"}:
        yield _own_block(part)


def _gemini_bytes(part: dict[str, Any]) -> Atom:
    found = part.get("inlineData") or part.get("fileData") or {}
    data = str(found.get("data") or found.get("fileUri"))
    return "media", data.replace("-", "+").replace("_", "/")


def _camel(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, inner in value.items():
        head, *rest = name.split("_")
        key = head + "".join(word.title() for word in rest)
        found[key] = inner if key in ("args", "response") else _camel(inner)
    return found


_ATOMS = {
    "chat": _chat_atoms,
    "responses": _responses_atoms,
    "anthropic": _anthropic_atoms,
    "gemini": _gemini_atoms,
}


def lost(before: Counter[Atom], after: Counter[Atom]) -> list[Atom]:
    """Return what of a conversation is not in another: texts may have been joined, results too."""
    texts: dict[str, str] = {}
    for kind, value in after:
        texts[kind] = texts.get(kind, "") + "\n" + value
    missing: list[Atom] = []
    for (kind, value), count in (before - after).items():
        joined = kind.endswith("text") or kind == "result"
        if not (joined and value.strip() in texts.get(kind, "")):
            missing += [(kind, value)] * count
    return missing


# ------------------------------------------------------------------------------------ our models


def model_of(exchange: Exchange) -> Model:
    """Return a model of ours for the exchange's host and format."""
    base_url = f"https://{exchange.host}/v1"
    name = exchange.model
    match exchange.format:
        case "chat":
            return make_model(ChatAdapter(OPENAI), name, base_url=base_url)
        case "responses":
            return make_model(ResponsesAdapter(OPENAI_RESPONSES), name, base_url=base_url)
        case "anthropic":
            return anthropic(name, base_url=base_url)
        case _:
            return gemini(name, base_url=base_url)


def with_parameters(model: Model, body: Mapping[str, Any]) -> Model:
    """Return the model with the parameters of a request, but for its conversation and functions."""
    kept = ("thinking", "mcp_servers", "reasoning", "container", "tools")
    return model.with_parameters(**{name: body[name] for name in kept if name in body})


def encoded_again(exchange: Exchange, messages: tuple[Message, ...]) -> dict[str, Any]:
    """Return the body of a request with these messages."""
    called = {c.name for m in messages if isinstance(m, ToolCallMessage) for c in m.tools}
    specs = tuple(ToolSpec(name) for name in sorted(called))
    model = with_parameters(model_of(exchange), exchange.body)
    return model.encode(ModelRequest(messages=messages, tools=specs))


# What no message of ours stands for: a request that holds one is not compared.
_NOT_OURS = {
    "chat": re.compile(r'"type": "(?:video_url|document_url)"|"file_id"|"file_data": "http'),
    "responses": re.compile(
        r'"file_id"|"type": "item_reference"|"previous_response_id"|"conversation"'
        r'|"execution": "client"|"type": "additional_tools"'
    ),
    "anthropic": re.compile(
        r'"type": "(?:container_upload|tool_addition|tool_removal|tool_reference)"|"file_id"'
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
    model = model_of(exchange)
    messages = read_conversation(exchange.body, form=exchange.format, model=model)
    compare(exchange, "request", exchange.body, encoded_again(exchange, messages), report)


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
    """Return the JSON of a reply, put together where it was streamed; None: it is none.

    Each event is followed by a look at whether the reply may end there, as where a connection
    breaks: a reply that is whole before its end must be the same as at its end.
    """
    if isinstance(exchange.answer, dict):
        return exchange.answer
    model = model_of(exchange)
    assembler = model.adapter.assembler(model)
    if assembler is None or not isinstance(exchange.answer, str):
        return None
    early: list[Any] = []
    for event, data in events_of(exchange.answer):
        assembler.feed(event, data)
        if assembler.whole:
            early.append(json.dumps(assembler.finish()))
    if not early:
        return None
    final = model.decode(json.loads(early[-1])).messages
    for body in early[:-1]:
        if model.decode(json.loads(body)).messages != final:
            report.fail(exchange, "cut", "a stream that ends earlier looks whole and is not")
            break
    return json.loads(early[-1])


def events_of(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the events of a stream as (name, data)."""
    for block in re.split(r"\r?\n\r?\n", text):
        lines = block.splitlines()
        data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
        name = next((line[6:].strip() for line in lines if line.startswith("event:")), None)
        if data:
            yield name, "\n".join(data)


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
    calls = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    results = [ToolResultMessage(call, {"data": "done"}) for call in calls]
    before = read_conversation(exchange.body, form=exchange.format, model=model)
    # A paused reply goes on by itself.
    paused = body.get("stop_reason") == "pause_turn"
    further = () if paused else (TextMessage("user", "Go on."),)
    conversation = (*before, *messages, *results, *further)
    compare(exchange, "reply", said, encoded_again(exchange, conversation), report)


def said_in(form: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return a reply as the part of a request that it becomes; None: it is no reply."""
    match form:
        case "chat" if body.get("choices"):
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


async def judge(exchange: Exchange, stand_in: StandIn, report: Report) -> None:
    """Check whether the stand-in says of a request what the provider said."""
    rejection = (await stand_in.ask(exchange)).rejection
    if rejection is not None and rejection.unknown and not exchange.host.endswith(_OWN_HOSTS):
        report.unknown[rejection.message.partition(", so")[0]] += 1
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
    for exchange in exchanges(folder):
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
    for why, count in report.refusals.most_common():
        print(f"refused by the provider: {count} ({why})")
    for what, count in (report.not_ours + report.typed).most_common():
        print(f"not compared: {count} ({what})")
    for what, count in report.unknown.most_common():
        print(f"{count} times: {what}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
