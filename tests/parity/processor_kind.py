"""Recordings of history processors: the upstream proposal's, case by case."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from agentkit_py import HistoryProcessor, Message, TokenLimiter, ToolCallFilter
from agentkit_py.codec import message_from_dict
from agentkit_py.errors import AgentKitError, ConfigurationError
from agentkit_py.messages import text_of
from agentkit_py.processors import ApproximateTokenizer, TiktokenTokenizer, apply_processors
from agentkit_py.runtime.tiktoken_loader import load_encoding

from .evidence import Documents
from .journal import message_record, snapshot
from .reference.processors import CaseModel, encoding_of, estimate
from .stores import TOKENIZERS
from .vectors import Json, Vector

_DEFAULT = "o200k_base"


@dataclass(frozen=True, slots=True)
class Counting:
    """Counts as the recording has them, so that no vocabulary is needed for its own texts."""

    key: str
    known: dict[str, float]
    encoding: str

    def count(self, text: str) -> float:
        """Return the number of tokens of ``text``."""
        found = self.known.get(text)
        return TiktokenTokenizer(self.encoding).count(text) if found is None else found


def documents(vector: Vector, on: frozenset[str]) -> Documents:
    """A recording's cases as they were recorded, on the model, and with our processors."""
    messages = tuple(message_from_dict(record) for record in vector.data["messages"])
    theirs, ours = CaseModel(vector.data, frozenset()), CaseModel(vector.data, on)
    cases = [case for case in vector.data["cases"] if countable(case, vector)]
    counted = counts(vector)
    observed: dict[str, Json] = {
        "countedText": [text_of(message) for message in messages],
        "tokenCounts": counted,
        "cases": [_case(vector, case, messages) for case in cases],
    }
    recorded: dict[str, Json] = {
        "countedText": vector.data.get("countedText", theirs.texts),
        "tokenCounts": {name: vector.data["tokenCounts"][name] for name in counted},
        "cases": [neutral_case(case) for case in cases],
    }
    their_counts = {name: recorded["tokenCounts"][name] for name in counted}
    base = {**recorded, "tokenCounts": their_counts, "cases": [theirs.case(c) for c in cases]}
    other = {**recorded, "tokenCounts": _without_errors(their_counts, counted, ours)}
    other["countedText"] = ours.our_texts
    other["tokenCounts"] = _recounted(other["tokenCounts"], counted, ours)
    other["cases"] = [ours.case(case) for case in cases]
    return Documents(recorded, base, other, observed, frozenset(ours.on.asked))


def neutral_case(case: dict[str, Json]) -> dict[str, Json]:
    """A case without TypeScript's words."""
    return {**case, "error": {"special": True}} if "error" in case else case


def _without_errors(
    recorded: dict[str, Json], counted: dict[str, Json], ours: CaseModel
) -> dict[str, Json]:
    """Counts of texts that TypeScript refuses to count."""
    refused = [name for name, found in recorded.items() if not isinstance(found, list)]
    if not refused or not ours.on("special-tokens-are-text"):
        return recorded
    return {**recorded, **{name: counted[name] for name in refused}}


def _recounted(
    recorded: dict[str, Json], counted: dict[str, Json], ours: CaseModel
) -> dict[str, Json]:
    """The counts of texts that we write otherwise."""
    changed = [i for i, text in enumerate(ours.our_texts) if text != ours.texts[i]]
    found = {name: list(counts) for name, counts in recorded.items()}
    for name, counts in found.items():
        for index in changed:
            kind, encoding = name.split(":")
            text = ours.our_texts[index]
            known = estimate({"options": {"encoding": encoding}}, text)
            counts[index] = counted[name][index] if kind == "tiktoken" else known
    return found


def countable(case: dict[str, Json], vector: Vector) -> bool:
    """Return whether the tiktoken vocabularies that the case needs are available here."""
    if not _needs_vocabulary(case, vector):
        return True
    return all(load_encoding(encoding_of(spec)) is not None for spec in case["processors"])


def _needs_vocabulary(case: dict[str, Json], vector: Vector) -> bool:
    specs = [spec for spec in case["processors"] if spec["type"] == "TokenLimiter"]
    options = [spec.get("options", {}) for spec in specs if "customTokenizer" not in spec]
    used = [
        "o200k_base" if not isinstance(each, dict) else each.get("encoding", "o200k_base")
        for each in options
        if not isinstance(each, dict) or each.get("useTiktoken") is not False
    ]
    counts_of = vector.data["tokenCounts"]
    known = [counts_of.get(f"tiktoken:{name}") for name in used]
    if not used or (None in known and not any(known)):
        return False
    new_texts = len(case["processors"]) > 1
    return new_texts or not all(isinstance(found, list) for found in known if found is not None)


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
    options: Any = spec.get("options", {})
    if spec["type"] == "ToolCallFilter":
        given: dict[str, Any] = dict(options)
        given["persist_results"] = given.pop("persistResults", False)
        return ToolCallFilter(**given)
    options = options if isinstance(options, dict) else {"limit": options}
    limit: Any = _number(options["limit"])
    if "customTokenizer" in spec:
        return TokenLimiter(limit, tokenizer=TOKENIZERS[spec["customTokenizer"]])
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
    messages = [message_from_dict(record) for record in vector.data["messages"]]
    known = dict(zip(map(text_of, messages), counts, strict=True))
    return Counting(f"recorded:{vector.name}:{encoding}", known, encoding)


def counts(vector: Vector) -> dict[str, Json]:
    """Token counts of each message by each tokenizer that can be had here."""
    messages = [message_from_dict(record) for record in vector.data["messages"]]
    found: dict[str, Json] = {}
    for name in vector.data["tokenCounts"]:
        kind, encoding = name.split(":")
        make = TiktokenTokenizer if kind == "tiktoken" else ApproximateTokenizer
        with contextlib.suppress(ConfigurationError):  # a vocabulary that cannot be loaded here
            found[name] = [make(encoding).count(text_of(message)) for message in messages]
    return found
