"""Recorded HTTP exchanges, in the formats that projects keep them in.

VCR of Python (also with requests and responses in two lists), Ruby, R and Go; HAR; nock; the JSON
files of ddapm-test-agent; Llama Stack's, with the objects of a provider's SDK; ReqLLM's of Elixir;
httprr; httpmock of Rust and WireMock of Java, which leave the host out: it is taken from a folder's
name. A file that ends in `.gz` is unpacked first. What a file holds besides is skipped; a file that
cannot be read is counted by its error.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SUFFIXES = (".yaml", ".yml", ".json", ".har", ".httprr")

_HOSTS = {
    "anthropic": "api.anthropic.com",
    "bedrock": "bedrock-runtime.us-east-1.amazonaws.com",
    "deepseek": "api.deepseek.com",
    "gemini": "generativelanguage.googleapis.com",
    "google": "generativelanguage.googleapis.com",
    "groq": "api.groq.com",
    "mistral": "api.mistral.ai",
    "openai": "api.openai.com",
    "openai_compatible": "host.invalid",
    "openrouter": "openrouter.ai",
    "perplexity": "api.perplexity.ai",
    "vllm": "host.invalid",
    "xai": "api.x.ai",
}
"""Hosts by a folder's name, for tools that record a path alone."""

_GZIP = b"\x1f\x8b"
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE):
    """YAML's safe types; tags of other languages give the plain value that they mark."""


def _binary(_: Any, node: yaml.Node) -> bytes:
    return _from_base64(str(node.value))


def _plain(loader: Any, _: str, node: yaml.Node) -> Any:
    match node:
        case yaml.MappingNode():
            return loader.construct_mapping(node, deep=True)
        case yaml.SequenceNode():
            return loader.construct_sequence(node, deep=True)
        case _:
            return loader.construct_scalar(node)


_Loader.add_constructor("!binary", _binary)
_Loader.add_multi_constructor("!", _plain)


@dataclass(frozen=True, slots=True)
class Recording:
    """One request with its response, as some project recorded it."""

    where: str
    """The file and the number of the exchange in it."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    """Of the request, names in lower case."""

    body: Any = field(repr=False)
    """JSON, or text."""

    status: int
    answer: Any = field(repr=False)
    """JSON, text, or the bytes of an event stream."""

    date: str
    """When the provider answered, as its header says; empty where the recorder left it out."""


def recordings(folder: Path, unread: Counter[str]) -> Iterator[Recording]:
    """Yield all exchanges under a folder; count files that cannot be read in `unread`."""
    for path in sorted(folder.rglob("*")):
        name = path.name.removesuffix(".gz")
        if not name.endswith(SUFFIXES) or not path.is_file():
            continue
        where = str(path.relative_to(folder))
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            found = _file(name, content, path)
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, EOFError) as error:
            unread[type(error).__name__] += 1
            continue
        for number, raw in enumerate(found):
            recording = _recording(f"{where}#{number}", raw)
            if recording is not None:
                yield recording


@dataclass(frozen=True, slots=True)
class _Raw:
    """The parts of an exchange, before their contents are read."""

    method: Any
    url: Any
    headers: Any
    body: Any
    status: Any
    answer: Any
    answer_headers: Any


def _file(name: str, content: bytes, path: Path) -> list[_Raw | None]:
    """Return the exchanges of one file, `None` for each that is of another protocol."""
    if name.endswith(".httprr"):
        return list(_httprr(content))
    if name.endswith((".json", ".har")):
        return list(_listed(json.loads(content), path))
    documents = yaml.load_all(content, _Loader)
    return [raw for document in documents for raw in _listed(document, path)]


def _listed(found: Any, path: Path) -> Iterator[_Raw | None]:
    if isinstance(found, list):  # nock
        yield from (_nock(one) for one in found if isinstance(one, dict) and "scope" in one)
    if not isinstance(found, dict):
        return
    if isinstance(found.get("log"), dict):
        yield from (_har(one) for one in found["log"].get("entries") or ())
    elif isinstance(found.get("requests"), list) and isinstance(found.get("responses"), list):
        pairs = zip(found["requests"], found["responses"], strict=False)
        yield from (_vcr({"request": one, "response": other}) for one, other in pairs)
    elif (reading := _single(found)) is not None:
        yield reading(found, path)
    else:
        listed = found.get("interactions") or found.get("http_interactions")
        for one in listed if isinstance(listed, list) else ():
            yield _vcr(one) if isinstance(one, dict) else None


def _single(found: dict[str, Any]) -> Callable[[dict[str, Any], Path], _Raw | None] | None:
    """Return what reads a document that is one exchange; `None`: it is none."""
    request, response = found.get("request"), found.get("response")
    if isinstance(found.get("when"), dict) and isinstance(found.get("then"), dict):
        return _httpmock
    if not isinstance(request, dict) or not isinstance(response, dict):
        return None
    if "bodyPatterns" in request:
        return _wiremock
    if "canonical_json" in request:
        return _req_llm
    return _from_sdk if "test_id" in found else _vcr


def _vcr(one: dict[str, Any], _: Path | None = None) -> _Raw | None:
    """Read Python's `uri` and `status.code`, Ruby's and R's `status`, Go's `url` and `code`."""
    request, response = one.get("request"), one.get("response")
    if not isinstance(request, dict) or not isinstance(response, dict):
        return None
    status = response.get("status", response.get("code", response.get("status_code")))
    if isinstance(status, dict):
        status = status.get("code", status.get("status_code"))
    if "code" in response:  # Go writes "200 OK" as the status
        status = response["code"]
    return _Raw(
        method=request.get("method"),
        url=request.get("uri", request.get("url")),
        headers=request.get("headers"),
        body=request.get("parsed_body", request.get("body", request.get("content"))),
        status=status,
        answer=response.get("parsed_body", response.get("body", response.get("content"))),
        answer_headers=response.get("headers"),
    )


def _from_sdk(one: dict[str, Any], _: Path) -> _Raw | None:
    """Read Llama Stack's recordings: objects of the SDK, in a list if they were streamed."""
    request, response = one["request"], one["response"]
    body = response.get("body")
    if not {"method", "url"} <= request.keys() or response.get("is_exception"):
        return None
    if response.get("is_streaming"):
        body = "".join(f"data: {json.dumps(_data(piece))}\n\n" for piece in body)
    else:
        body = _data(body)
    return _Raw(
        method=request["method"],
        url=request["url"],
        headers=request.get("headers"),
        body={name: value for name, value in request["body"].items() if value is not None},
        status=response.get("status", 200),
        answer=body,
        answer_headers={},
    )


def _data(found: Any) -> Any:
    return found.get("__data__", found) if isinstance(found, dict) else found


def _url(path: str, file: Path) -> str:
    """Return a URL for a path whose host was not recorded."""
    host = next((_HOSTS[part] for part in reversed(file.parts) if part in _HOSTS), "host.invalid")
    return f"https://{host}{path}"


def _httpmock(one: dict[str, Any], path: Path) -> _Raw:
    request, response = one["when"], one["then"]
    answer = response.get("body")
    if response.get("body_encoding") == "base64":
        answer = {"base64_string": answer}
    return _Raw(
        method=request.get("method"),
        url=_url(request["path"], path),
        headers={pair["name"]: pair["value"] for pair in request.get("header") or ()},
        body=request.get("body"),
        status=response.get("status", 200),
        answer=answer,
        answer_headers={pair["name"]: pair["value"] for pair in response.get("header") or ()},
    )


def _wiremock(one: dict[str, Any], path: Path) -> _Raw:
    request, response = one["request"], one["response"]
    answer: Any = response.get("body")
    if "bodyFileName" in response:
        answer = (path.parent.parent / "__files" / response["bodyFileName"]).read_bytes()
    headers = request.get("headers") or {}
    return _Raw(
        method=request.get("method"),
        url=_url(request.get("url", request.get("urlPath")), path),
        headers={name: match.get("equalTo") for name, match in headers.items()},
        body=next(iter(request["bodyPatterns"]), {}).get("equalToJson"),
        status=response.get("status"),
        answer=answer,
        answer_headers=response.get("headers"),
    )


def _req_llm(one: dict[str, Any], _: Path) -> _Raw:
    request, response = one["request"], one["response"]
    answer = response.get("body")
    if one.get("chunks"):
        answer = b"".join(_from_base64(piece["b64"]) for piece in one["chunks"])
    elif isinstance(answer, dict) and "b64" in answer:
        answer = _from_base64(answer["b64"])
    return _Raw(
        method=request.get("method"),
        url=request.get("url"),
        headers=request.get("headers"),
        body=request["canonical_json"] or {"base64_string": request["body"].get("b64", "")},
        status=response.get("status"),
        answer=answer,
        answer_headers=response.get("headers"),
    )


def _har(one: dict[str, Any]) -> _Raw:
    request, response = one["request"], one["response"]
    content = response.get("content") or {}
    answer: Any = content.get("text")
    if content.get("encoding") == "base64" and isinstance(answer, str):
        answer = {"base64_string": answer}
    return _Raw(
        method=request["method"],
        url=request["url"],
        headers={pair["name"]: pair["value"] for pair in request.get("headers") or ()},
        body=(request.get("postData") or {}).get("text"),
        status=response["status"],
        answer=answer,
        answer_headers={pair["name"]: pair["value"] for pair in response.get("headers") or ()},
    )


def _nock(one: dict[str, Any]) -> _Raw:
    headers = one.get("rawHeaders") or []
    if isinstance(headers, list):  # names and values in turn
        headers = dict(zip(headers[::2], headers[1::2], strict=False))
    answer = one.get("response")
    if isinstance(answer, list) and all(isinstance(piece, str) for piece in answer):
        answer = bytes.fromhex("".join(answer))  # compressed or binary answers
    return _Raw(
        method=one["method"],
        url=str(one["scope"]).replace(":443", "") + one["path"],
        headers=one.get("reqheaders"),
        body=one.get("body"),
        status=one["status"],
        answer=answer,
        answer_headers=headers,
    )


def _httprr(content: bytes) -> Iterator[_Raw | None]:
    """Read Go's httprr: a line with two lengths, then a request and a response of these lengths."""
    first, _, rest = content.partition(b"\n")
    if not first.startswith(b"httprr trace"):
        raise ValueError("no httprr file")
    while rest.strip():
        lengths, _, rest = rest.partition(b"\n")
        asked, answered = map(int, lengths.split())
        request, response = rest[:asked], rest[asked : asked + answered]
        rest = rest[asked + answered :]
        method, url, headers, body = _http(request)
        _, status, answer_headers, answer = _http(response)
        yield _Raw(method, url, headers, body, status, answer, answer_headers)


def _http(message: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """Return the first two words, the headers and the body of an HTTP message."""
    head, _, body = message.replace(b"\r\n", b"\n", 60).partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    pairs = [line.partition(":") for line in lines]
    headers = {name.strip(): value.strip() for name, _, value in pairs}
    words = first.split()
    return words[0], words[1], headers, body


def _recording(where: str, raw: _Raw | None) -> Recording | None:
    if raw is None or not isinstance(raw.method, str) or not isinstance(raw.url, str):
        return None
    try:
        status = int(raw.status)
    except (TypeError, ValueError):
        return None
    return Recording(
        where=where,
        method=raw.method.upper(),
        url=raw.url,
        headers=_headers(raw.headers),
        body=_content(raw.body),
        status=status,
        answer=_content(raw.answer),
        date=_headers(raw.answer_headers).get("date", ""),
    )


def _headers(found: Any) -> dict[str, str]:
    return {
        str(name).lower(): str(value[0] if isinstance(value, list) and value else value)
        for name, value in (found.items() if isinstance(found, dict) else ())
    }


def _content(found: Any) -> Any:
    """Return what a body holds: JSON, the text of a stream, or bytes that are no text."""
    if isinstance(found, dict):
        if isinstance(found.get("base64_string"), str):
            found = _from_base64(found["base64_string"])
        elif found.keys() & {"string", "encoding"}:
            found = found.get("string")
    if isinstance(found, bytes):
        found = _text(_unpacked(found))
    if not isinstance(found, str):
        return found
    try:
        return json.loads(found)
    except ValueError:
        return found


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return text.encode()


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(_GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return content


def _text(content: bytes) -> str | bytes:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content
