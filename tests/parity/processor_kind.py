"""Recordings of history processors: the upstream proposal's, case by case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentkit_py import (
    ApproximateTokenizer,
    HistoryProcessor,
    Message,
    TiktokenTokenizer,
    TokenLimiter,
    ToolCallFilter,
    apply_processors,
)
from agentkit_py.errors import AgentKitError, ConfigurationError
from agentkit_py.history.codec import message_from_dict
from agentkit_py.messages import text_of

from .journal import message_record, snapshot
from .vectors import Json, Vector

_CUSTOM: dict[str, Callable[[str], float]] = {
    "chars": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "words": lambda text: len(text.split()),
    "const42": lambda text: 42,
    "zero": lambda text: 0,
    "float": lambda text: len(text.encode("utf-16-le", "surrogatepass")) / 2 / 3,
}
_DEFAULT = "o200k_base"


@dataclass(frozen=True, slots=True)
class Counting:
    """Counts as the recording has them, so that no vocabulary is needed for its own texts."""

    key: str
    known: dict[str, float]
    encoding: str

    def count(self, text: str) -> float:
        """How many tokens ``text`` has."""
        found = self.known.get(text)
        return TiktokenTokenizer(self.encoding).count(text) if found is None else found


def play_cases(vector: Vector) -> dict[str, Json]:
    """All cases of a recording with our processors, in its own shape."""
    messages = tuple(message_from_dict(record) for record in vector.data["messages"])
    return {
        "countedText": [text_of(message) for message in messages],
        "cases": [_case(vector, case, messages) for case in vector.data["cases"]],
    }


def _case(vector: Vector, case: dict[str, Json], messages: tuple[Message, ...]) -> dict[str, Json]:
    before = [snapshot(message_record(message)) for message in messages]
    record = {key: case[key] for key in ("label", "processors", "levels") if key in case}
    try:
        chain = [processor(each, vector) for each in case["processors"]]
        left = asyncio.run(_applied(messages, chain))
    except AgentKitError as error:
        record["error"] = {"kind": type(error).__name__}
    else:
        places = {id(message): index for index, message in enumerate(messages)}
        record["output"] = [message_record(message) for message in left]
        record["outputIndices"] = [places.get(id(message), -1) for message in left]
        record["sameArray"] = left is messages
    after = [message_record(message) for message in messages]
    return {**record, "inputUnmodified": after == before}


async def _applied(messages: tuple[Message, ...], chain: list[HistoryProcessor]) -> Any:
    return await apply_processors(messages, chain)


def processor(spec: dict[str, Json], vector: Vector) -> HistoryProcessor:
    """One of our processors with the recording's options."""
    options = spec.get("options", {})
    if spec["type"] == "ToolCallFilter":
        names = {"persistResults": "persist_results"}
        return ToolCallFilter(**{names.get(key, key): value for key, value in options.items()})
    options = options if isinstance(options, dict) else {"limit": options}
    limit: Any = _number(options["limit"])
    if "customTokenizer" in spec:
        return TokenLimiter(limit, tokenizer=_CUSTOM[spec["customTokenizer"]])
    return TokenLimiter(limit, tokenizer=_tokenizer(options, vector))


def _number(value: Json) -> Json:
    return float(value["$number"]) if isinstance(value, dict) else value


def _tokenizer(options: dict[str, Json], vector: Vector) -> Any:
    encoding = options.get("encoding", _DEFAULT)
    counts = vector.data["tokenCounts"].get(f"tiktoken:{encoding}")
    if options.get("useTiktoken") is False or counts is None:
        return ApproximateTokenizer(encoding)
    if not isinstance(counts, list):
        return TiktokenTokenizer(encoding)
    texts = vector.data.get("countedText")
    if texts is None:
        return TiktokenTokenizer(encoding)
    known = dict(zip(texts, counts, strict=True))
    return Counting(f"recorded:{vector.name}:{encoding}", known, encoding)


def counts(vector: Vector) -> dict[str, Json]:
    """Token counts of each message by each tokenizer that can be had here."""
    messages = [message_from_dict(record) for record in vector.data["messages"]]
    found: dict[str, Json] = {}
    for name in vector.data["tokenCounts"]:
        kind, encoding = name.split(":")
        make = TiktokenTokenizer if kind == "tiktoken" else ApproximateTokenizer
        try:
            found[name] = [make(encoding).count(text_of(message)) for message in messages]
        except ConfigurationError:
            pass  # its vocabulary cannot be loaded here
    return found


