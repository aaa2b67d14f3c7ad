"""Scripted replies before any provider's format: their content, ids and token numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, zip_longest
from typing import Any, TypeVar, cast

T = TypeVar("T")

# Replies have a fixed time, so that a test can compare whole bodies.
CREATED = 1_750_000_000
FINISHES = ("stop", "tool", "length", "filter", "refusal")
"""Reasons for which a reply ends; each provider has its own words."""

_PIECE = 5


def pieces(text: str) -> list[str]:
    """Return the small pieces in which a text is streamed, always the same."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


class Ids:
    """Ids that are the same in every run: a counter per kind."""

    def __init__(self) -> None:
        """Start all counters at 1."""
        self._counters: dict[str, count[int]] = {}

    def next(self, prefix: str) -> str:
        """Return the next id with this prefix, such as `call_1`."""
        return f"{prefix}{next(self._counters.setdefault(prefix, count(1)))}"


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One tool call of a reply; `arguments` is text exactly as the model wrote it."""

    name: str
    arguments: str
    id: str | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ScriptedCall:
        """Return a scripted call in this form."""
        arguments = given.get("arguments", {})
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return cls(str(given["name"]), written, given.get("id"))

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments as an object, or `None` if the text is not an object."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class ReplyContent:
    """The content of a reply: text, thoughts, calls, and the reason of its end."""

    text: str | None
    thoughts: tuple[str, ...]
    calls: tuple[ScriptedCall, ...]
    finish: str
    usage: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, reply: str | Mapping[str, Any]) -> ReplyContent:
        """Return a scripted reply in this form.

        Raises:
            ValueError: The reply has unknown keys, or an unknown finish.
        """
        if isinstance(reply, str):
            return cls(reply, (), (), "stop")
        unknown = set(reply) - {"text", "reasoning", "tool_calls", "usage", "finish"}
        if unknown:
            raise ValueError(
                f"A scripted reply has unknown keys {sorted(unknown)}; known are text, reasoning, "
                "tool_calls, usage, finish. Use Raw(json=…) for a provider's own JSON."
            )
        calls = tuple(map(ScriptedCall.of, reply.get("tool_calls") or ()))
        finish = reply.get("finish") or ("tool" if calls else "stop")
        if finish not in FINISHES:
            raise ValueError(f"finish={finish!r} is none of {sorted(FINISHES)}.")
        given = reply.get("reasoning")
        thoughts = () if given is None else (given,) if isinstance(given, str) else tuple(given)
        return cls(reply.get("text"), thoughts, calls, finish, reply.get("usage") or {})

    @property
    def reasoning(self) -> str | None:
        """All thoughts joined, for formats with a single reasoning field."""
        return "\n\n".join(self.thoughts) if self.thoughts else None


def interleaved(thoughts: Sequence[T], parts: Sequence[T]) -> list[T]:
    """Return the parts of a reply, each behind a thought of its own as long as there are any."""
    pairs = chain.from_iterable(zip_longest(thoughts, parts))
    return [one for one in pairs if one is not None]


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts of a request and its reply."""

    prompt: int
    completion: int
    cached: int
    written: int
    reasoning: int

    @classmethod
    def of(cls, reply: ReplyContent, body: Any) -> TokenCounts:
        """Return the reply's usage as given, else plausible numbers (a word is a token)."""
        given = reply.usage
        prompt = _first(given, "input_tokens", "prompt_tokens", "input")
        completion = _first(given, "output_tokens", "completion_tokens", "output")
        reasoning = _first(given, "reasoning_tokens")
        thought = len((reply.reasoning or "").split())
        if prompt is None:
            prompt = sum(len(text.split()) for text in strings_in(body))
        if completion is None:
            written = [reply.text or "", *(call.arguments for call in reply.calls)]
            completion = thought + len(reply.calls) + sum(len(text.split()) for text in written)
        cached = _first(given, "cached_tokens") or 0
        written = _first(given, "cache_write_tokens") or 0
        thought = thought if reasoning is None else reasoning
        return cls(prompt, completion, cached, written, thought)

    @property
    def cache(self) -> dict[str, int]:
        """The tokens that a cache gave and got, as OpenAI's APIs name them."""
        written = {"cache_write_tokens": self.written} if self.written else {}
        return {"cached_tokens": self.cached, **written}


def _first(given: Mapping[str, int], *names: str) -> int | None:
    return next((given[name] for name in names if name in given), None)


def strings_in(value: Any) -> Sequence[str]:
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
