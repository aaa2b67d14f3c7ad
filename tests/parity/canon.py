"""Both sides in one form: each side's own words, random ids and error classes taken out.

What TypeScript's authors wrote (error messages, the routing prompt) is compared by what it stands
for: a digest for a message, the agents on offer for the prompt.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from typing import Any

from agentkit_py.routing import _PROMPT  # pyright: ignore[reportPrivateUsage] - its wording is what is tested

from .ids import normalised
from .reference.js import stringify, text
from .vectors import Json, Vector

SECTIONS = (
    "events",
    "historyLog",
    "runs",
    "requests",
    "stepLog",
    "callbackLog",
    "order",
    "warnings",
    "unusedReplies",
    "exhaustedReplies",
)
_PROSE = {
    "8b84b0": "no-tool",
    "56f8ef": "no-model",
    "c00c1d": "request-failed",
    "6eedff": "request-failed",
    "83dc37": "request-failed",
    "40ce25": "no-calls",
    "0e4a0f": "unknown-content",
    "6239bb": "no-agents",
    "888b9b": "invalid-agent",
    "1de4f1": "no-such-agent",
    "554e44": "no-router",
    "8080a5": "unknown-on-stack",
    "ff0d8f": "bad-arguments",
    "b8e1d0": "no-schema",
    "dff607": "unknown-role",
}
"""Digests of TypeScript's messages, and what the reference model calls them."""

_TOKEN = re.compile(r"<ts:([0-9a-f]{6})>(?:: )?(.*)", re.DOTALL)
_OUR_ERRORS = (
    "UnknownToolError",
    "IncompleteReplyError",
    "InvalidArgumentsError",
    "MissingToolResult",
    "LookupError",
)
_OUR_ENDING = _PROMPT.rsplit("{agents}", maxsplit=1)[1]
_TOLD = re.compile(r"\[Result of tool [^\]]*?: (?={)")
_NAMED = re.compile(r"<name>(.*?)</name>\s*<description>(.*?)</description>", re.DOTALL)


def digest(text: str) -> str:
    """Six hex digits that stand for a text of TypeScript's authors."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def recorded(vector: Vector) -> dict[str, Json]:
    """A recording in the common form."""
    expected = vector.expected
    document = {name: copy.deepcopy(expected[name]) for name in SECTIONS if name != "stepLog"}
    document["stepLog"] = [neutral_request(each) for each in expected.get("stepLog", [])]
    messages = [run["error"]["message"] for run in document["runs"] if run["error"]]
    for run in document["runs"]:
        if run["error"]:
            run["error"] = _their_error(run["error"], vector)
    for event in document["events"]:
        if event["event"] == "run.failed" and event["data"]["error"] in messages:
            event["data"]["error"] = "<error>"
    document["warnings"] = [_warning(each) for each in document["warnings"]]
    document["requests"] = [neutral_request(each) for each in document["requests"]]
    return normalised(document)


def observed(document: dict[str, Json]) -> dict[str, Json]:
    """Return our run in the common form."""
    made = copy.deepcopy(document)
    messages = [run["error"]["message"] for run in made["runs"] if run["error"]]
    for event in made["events"]:
        if event["event"] == "run.failed" and event["data"]["error"] in messages:
            event["data"]["error"] = "<error>"
    made["requests"] = [neutral_request(each) for each in made["requests"]]
    made["stepLog"] = [neutral_request(each) for each in made["stepLog"]]
    _join_our_words(made)
    return normalised(_without_our_words(made))


def _join_our_words(document: dict[str, Json]) -> None:
    """Put the pieces of an output that holds our own words together: how many is no matter."""
    ours = {
        event["data"]["partId"]
        for event in document["events"]
        if event["event"] == "part.completed" and _is_our_error(event["data"].get("finalContent"))
    }
    kept: list[Json] = []
    begun: dict[str, Json] = {}
    notes = iter([i for i, note in enumerate(document["order"]) if note.startswith("event:")])
    dropped: set[int] = set()
    for event in document["events"]:
        place = next(notes)
        part = event["data"].get("partId")
        if event["event"] == "tool_call.output.delta" and part in ours:
            if part in begun:
                begun[part]["data"]["delta"] += event["data"]["delta"]
                dropped.add(place)
                continue
            begun[part] = event
        kept.append(event)
    document["events"] = kept
    document["order"] = [n for i, n in enumerate(document["order"]) if i not in dropped]
    now = _number(kept)
    places = [(now.get((w["run"], w["sequenceNumber"])), w["event"]) for w in document["warnings"]]
    found = [{"event": event, "sequenceNumber": n} for n, event in places if n is not None]
    document["warnings"] = found


def _number(events: list[Json]) -> dict[tuple[int, int], int]:
    """Number the events of each run anew; return the new numbers by run and old number."""
    now: dict[tuple[int, int], int] = {}
    numbers: dict[int, int] = {}
    for event in events:
        number = numbers[event["run"]] = numbers.get(event["run"], -1) + 1
        now[event["run"], event["sequenceNumber"]] = number
        event["sequenceNumber"], event["id"] = number, f"publish-{number}:{event['event']}"
    return now


def _is_our_error(content: Json) -> bool:
    error = content.get("error") if isinstance(content, dict) else None
    return isinstance(error, dict) and error.get("name") in _OUR_ERRORS


# ---------------------------------------------------------------------------- errors


def _their_error(error: dict[str, Json], vector: Vector) -> dict[str, Json]:
    own = _own_errors(vector.spec)
    name, message = error["name"], error["message"]
    if (name, message) in own or message in {text for _, text in own}:
        described = next(each for each in own if each[1] == message)
        described = (name, message) if (name, message) in own else described
        same = error["class"] in (name, "Error") and name == described[0]
        return {"own": list(described)} if same else {"own": [name, message, error["class"]]}
    if message in _provider_messages(vector.spec):
        return {"provider": message, **_odd(error)}
    if error["class"] in ("TypeError", "SyntaxError") and error["name"] == error["class"]:
        cause = {"cause": error["cause"]["class"]} if "cause" in error else {}
        return {"engine": error["class"], **({} if error["class"] == "TypeError" else cause)}
    return {**_their_prose(message), **_odd(error)}


def _odd(error: dict[str, Json]) -> dict[str, Json]:
    usual = error["class"] == "Error" and error["name"] == "Error"
    return {} if usual else {"class": error["class"], "name": error["name"]}


def _their_prose(message: str) -> dict[str, Json]:
    token, rest = tokenised(message)
    known = _PROSE.get(token)
    if known is None:
        return {"prose": f"<{token}>", "rest": ""}
    return {"prose": known, "rest": rest if known in _WITH_REST else ""}


_WITH_REST = {"unknown-role", "no-tool", "no-such-agent", "unknown-on-stack"}


def tokenised(message: str) -> tuple[str, str]:
    """A message as the digest of its words, and what stands after their colon."""
    found = _TOKEN.fullmatch(message)
    if found is not None:
        return found[1], found[2]
    words, _, rest = message.partition(": ")
    return digest(words), rest


def _own_errors(spec: Json) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key in ("throw", "error") and isinstance(value, dict) and "stack" in value:
                found.append((value.get("name", "Error"), value.get("message", "")))
            elif key != "llm":
                found += _own_errors(value)
    elif isinstance(spec, list):
        for item in spec:
            found += _own_errors(item)
    return found


def _provider_messages(spec: Json) -> set[str]:
    errors = [
        (reply.get("json") or {}) for reply in spec["llm"] if isinstance(reply.get("json"), dict)
    ]
    said = [body.get("error") for body in errors]
    return {
        text(each["message"]) for each in said if isinstance(each, dict) and each.get("message")
    }


def our_error(expected: Json, error: Json) -> Json:
    """Our error as ``expected`` if it is what that asks for; else what it is."""
    if error is None or not isinstance(expected, dict):
        return error if error is None else {"kind": error["class"], "message": error["message"]}
    if "own" in expected:
        return {"own": [error["name"], error["message"]]} if error["own"] else _plain(error)
    if "kind" not in expected:
        return _plain(error)
    fits = expected["kind"] == error["class"]
    fits = fits and expected.get("status", error.get("status")) == error.get("status")
    says = expected.get("says", "")
    whole = says and "detail" in error  # what the provider says, and nothing else
    fits = fits and (says == error["detail"] if whole else says in error["message"])
    cause = error.get("cause", {}).get("message", "")
    fits = fits and expected.get("cause", cause) == cause
    if not fits:
        return _plain(error)
    return {key: expected[key] for key in _OUR_FACTS if key in expected}


_OUR_FACTS = ("kind", "status", "says", "cause")
"""The parts of our own errors that are compared."""


def _plain(error: dict[str, Json]) -> dict[str, Json]:
    if error["own"]:
        return {"own": [error["name"], error["message"]]}
    return {"kind": error["class"], "message": error["message"], "status": error.get("status")}


# ---------------------------------------------------------------------------- words


def _warning(entry: Json) -> Json:
    facts: Json = entry[1] if isinstance(entry, list) and len(entry) > 1 else entry
    if not isinstance(facts, dict) or "event" not in facts:
        return ["<ts:warning>", *entry[1:]] if isinstance(entry, list) else entry
    return {key: facts[key] for key in ("event", "sequenceNumber")}


def neutral_request(request: dict[str, Json]) -> dict[str, Json]:
    """A request or step without each side's words, if it is the default routing agent's."""
    body = request.get("body")
    if not isinstance(body, dict) or not _routes(body.get("tools")):
        return request
    return {**request, "body": _neutral(body)}


def _routes(tools: Json) -> bool:
    return set(_tool_names(tools)) == {"select_agent", "done"}


def _tool_names(tools: Json) -> list[str]:
    declared = [each for tool in tools or [] for each in tool.get("functionDeclarations", [tool])]
    return [each.get("function", each).get("name") for each in declared]


def tools_by_name(document: Json) -> Json:
    """Return a document with the tools of requests by name: two servers answer in any order."""
    if isinstance(document, list):
        return [tools_by_name(item) for item in document]
    if not isinstance(document, dict):
        return document
    made = {key: tools_by_name(value) for key, value in document.items()}
    for key in ("tools", "functionDeclarations", "agentTools"):
        if isinstance(made.get(key), list):
            made[key] = sorted(made[key], key=_name_of_tool)
    return made


def _name_of_tool(tool: Json) -> str:
    inner = tool.get("function", tool) if isinstance(tool, dict) else {}
    return str(inner.get("name", "")) if isinstance(inner, dict) else ""


def _neutral(value: Json) -> Json:
    """A request, if it routes, without each side's words: prompt and descriptions."""
    if isinstance(value, dict):
        return {
            key: "<prose>" if key == "description" and isinstance(item, str) else _neutral(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_neutral(item) for item in value]
    if isinstance(value, str) and "</agents>" in value:
        offered = [f"{name}|{described}" for name, described in _NAMED.findall(value)]
        added = value.partition(_OUR_ENDING)[2]
        return f"<routing:{';'.join(offered)}>{added}"
    return value


def _without_our_words(value: Json) -> Json:
    if isinstance(value, dict):
        error = value.get("error")
        if isinstance(error, dict) and error.get("name") in _OUR_ERRORS and error.get("message"):
            return {"error": {"name": error["name"], "message": "<ours>"}}
        return {key: _without_our_words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_our_words(item) for item in value]
    if isinstance(value, str) and value.startswith('{"error":{"name":"'):
        return _json_without_our_words(value)
    if isinstance(value, str) and "[Result of tool " in value:
        return _text_without_our_words(value)
    return value


def _json_without_our_words(text: str) -> str:
    try:
        read: Any = json.loads(text)
    except ValueError:
        return text
    return stringify(_without_our_words(read), python=True)


def _text_without_our_words(text: str) -> str:
    """The same for results that stand in a text, which models without tools are sent."""
    done: list[str] = []
    end = 0
    for told in _TOLD.finditer(text):
        try:
            _, after = json.JSONDecoder().raw_decode(text, told.end())
        except ValueError:
            continue
        done += [text[end : told.end()], _json_without_our_words(text[told.end() : after])]
        end = after
    return "".join([*done, text[end:]])
