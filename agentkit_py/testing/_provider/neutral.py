"""Replies before any provider's format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

# Answers bear one fixed time, so that a test can compare whole bodies.
CREATED = 1_750_000_000

FINISH: dict[str, dict[str, str]] = {
    "openai": {
        "stop": "stop",
        "tool": "tool_calls",
        "length": "length",
        "filter": "content_filter",
    },
    "anthropic": {
        "stop": "end_turn",
        "tool": "tool_use",
        "length": "max_tokens",
        "filter": "refusal",
    },
    "openai_responses": {
        "stop": "completed",
        "tool": "completed",
        "length": "max_output_tokens",
        "filter": "content_filter",
    },
    "gemini": {"stop": "STOP", "tool": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"},
}


class Ids:
    """Ids that are the same in every run: one counter per kind."""

    def __init__(self) -> None:
        """Start all counters at one."""
        self._counters: dict[str, count[int]] = {}

    def next(self, prefix: str) -> str:
        """Return the next id with this prefix, such as `call_1`."""
        return f"{prefix}{next(self._counters.setdefault(prefix, count(1)))}"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a reply; `arguments` is text exactly as the model wrote it."""

    name: str
    arguments: str
    id: str | None

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments as an object, or `None` if the text is not one."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Neutral:
    """A reply before any provider's format: text, reasoning, calls, usage."""

    text: str | None
    reasoning: str | None
    calls: tuple[Call, ...]
    finish: str
    usage: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, reply: str | Mapping[str, Any]) -> Neutral:
        """Read a scripted reply, which is a text or a dict of the neutral form."""
        if isinstance(reply, str):
            return cls(reply, None, (), "stop")
        unknown = set(reply) - {"text", "reasoning", "tool_calls", "usage", "finish"}
        if unknown:
            raise ValueError(
                f"A scripted reply has unknown keys {sorted(unknown)}; known are text, reasoning, "
                "tool_calls, usage, finish. Use Raw(json=…) for a provider's own JSON."
            )
        calls = tuple(_call(item) for item in reply.get("tool_calls") or ())
        finish = reply.get("finish") or ("tool" if calls else "stop")
        if finish not in FINISH["openai"]:
            raise ValueError(f"finish={finish!r} is none of {sorted(FINISH['openai'])}.")
        usage = cast("Mapping[str, int]", reply.get("usage") or {})
        return cls(reply.get("text"), reply.get("reasoning"), calls, finish, usage)


def _call(item: Mapping[str, Any]) -> Call:
    arguments = item.get("arguments", {})
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Call(str(item["name"]), written, item.get("id"))


@dataclass(frozen=True, slots=True)
class Usage:
    """Token numbers of one exchange."""

    prompt: int
    completion: int
    cached: int
    reasoning: int


def usage_of(reply: Neutral, body: Any) -> Usage:
    """Return the reply's usage as given, else plausible numbers (a word is a token)."""
    given = reply.usage
    prompt = _first(given, ("input_tokens", "prompt_tokens", "input"))
    completion = _first(given, ("output_tokens", "completion_tokens", "output"))
    if prompt is None:
        prompt = sum(_words(value) for value in _strings(body))
    if completion is None:
        written = [
            reply.text or "",
            reply.reasoning or "",
            *(call.arguments for call in reply.calls),
        ]
        completion = sum(_words(value) for value in written) + len(reply.calls)
    reasoning = _first(given, ("reasoning_tokens",))
    if reasoning is None:
        reasoning = _words(reply.reasoning or "")
    return Usage(prompt, completion, _first(given, ("cached_tokens",)) or 0, reasoning)


def _first(given: Mapping[str, int], names: Sequence[str]) -> int | None:
    return next((given[name] for name in names if name in given), None)


def _words(value: str) -> int:
    return len(value.split())


def _strings(value: Any) -> list[str]:
    """Return every string inside a JSON value, without recursion (bodies can be deep)."""
    found: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            todo.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            todo.extend(cast("list[Any]", item))
    return found
