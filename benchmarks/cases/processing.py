"""What history processors cost on conversations of 1,000, 10,000 and 100,000 messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any

from measuring import Case, Contender, NotHere, Session, Timed
from workloads import KEPT, as_dicts, conversation, eventful

from agentkit_py import (
    ApproximateTokenizer,
    Budget,
    ByAuthor,
    Chain,
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    DropUnanswered,
    HandoffView,
    HistoryProcessor,
    KeepImages,
    Message,
    MessageWindow,
    Pin,
    ProcessorContext,
    Recall,
    RecentToolCalls,
    Redact,
    StripImages,
    Summarize,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
    apply_processors,
    openai,
)
from agentkit_py.messages import text_of
from agentkit_py.processors import MemoryIndex, ensure_valid
from agentkit_py.runtime.tiktoken_loader import Encoder, load_encoding
from agentkit_py.testing import HashingEmbedder

ENCODING = "o200k_base"
Floor = Callable[[Session, Sequence[Message]], Contender]


def cases(sizes: Sequence[int]) -> list[Case]:
    """Each processor on each size."""
    kinds: dict[str, Callable[[Session, int], list[Contender]]] = {
        "validity": _validity,
        "ToolCallFilter()": partial(_filter, ToolCallFilter(), ()),
        "ToolCallFilter(include)": partial(_filter, ToolCallFilter(include=KEPT), KEPT),
        "TokenLimiter(2000), approximate": partial(_limiter, 2000, first=True),
        "TokenLimiter(all), approximate, first": partial(_limiter, None, first=True),
        "TokenLimiter(all), approximate, again": partial(_limiter, None, first=False),
        "TokenLimiter(all), tiktoken, first": partial(_tiktoken, first=True),
        "TokenLimiter(all), tiktoken, again": partial(_tiktoken, first=False),
    }
    sized = [(name, make, size) for name, make in kinds.items() for size in sizes]
    others = [(name, partial(_policy, make), POLICY_SIZE) for name, make in POLICIES.items()]
    return [
        Case(f"{name}, {size:,} messages", "µs", _with_size(make, size))
        for name, make, size in [*sized, *others]
    ]


POLICY_SIZE = 10_000
POLICIES: dict[str, Callable[[], HistoryProcessor]] = {
    "RecentToolCalls(100)": lambda: RecentToolCalls(100),
    "MessageWindow(40)": MessageWindow,
    "DropUnanswered()": DropUnanswered,
    "CompressToolResults(100)": lambda: CompressToolResults(100),
    "TruncateToolResults(30)": lambda: TruncateToolResults(30),
    "ClearToolResults(1000)": lambda: ClearToolResults(1000),
    "ByAuthor(drop)": lambda: ByAuthor(drop=["support"]),
    "HandoffView()": HandoffView,
    "Deduplicate()": Deduplicate,
    "Pin(users)": lambda: Pin(lambda message: message.role == "user"),
    "StripImages()": StripImages,
    "KeepImages(1)": KeepImages,
    "Redact(email, card)": lambda: Redact(["email", "card"]),
    "Threshold(MessageWindow)": lambda: Threshold(1000, then=[MessageWindow()]),
    "Chain(MessageWindow)": lambda: Chain([MessageWindow()]),
    "Budget(8000)": lambda: Budget(8000, method="estimate"),
    "Summarize(8000, 4000), no summary": lambda: Summarize(
        openai("gpt-4o", api_key="none"), 8000, 4000
    ),
    "Recall(3)": lambda: Recall(HashingEmbedder(16), 3, index=MemoryIndex()),
}
"""Each with work to do, on messages that were seen before, as in a thread that goes on."""


def _policy(make: Callable[[], HistoryProcessor], session: Session, size: int) -> list[Contender]:
    messages = eventful(size)
    processor = make()

    def bare(_: object) -> list[Message]:
        return [message for message in messages if message.type]

    def verify(left: Sequence[object], _: int) -> None:
        same = len(left) == size and all(a is b for a, b in zip(left, messages, strict=False))
        assert same == isinstance(processor, Pin)

    # By hand no model is asked: Summarize leaves what it leaves without a summary.
    context = partial(ProcessorContext, tokenizer=ApproximateTokenizer(), input="a word")
    return [
        Timed("ours", _applied(processor, messages, context), session.loop, verify=verify),
        Timed("bare loop over messages", bare, session.loop),
    ]


def _with_size(
    make: Callable[[Session, int], list[Contender]], size: int
) -> Callable[[Session], list[Contender]]:
    return lambda session: make(session, size)


def _validity(session: Session, size: int) -> list[Contender]:
    messages = conversation(size)
    dicts = as_dicts(messages)

    def ours(_: object) -> tuple[Sequence[Message], list[Any]]:
        return ensure_valid(messages)

    def verify(outcome: tuple[Sequence[Message], list[Any]], _: int) -> None:
        assert outcome[0] is messages
        assert outcome[1] == []

    def found_valid(valid: bool, _: int) -> None:  # noqa: FBT001 - what was returned
        assert valid

    return [
        Timed("ours", ours, session.loop, verify=verify),
        Timed(
            "bare loop over dicts", lambda _: _bare_valid(dicts), session.loop, verify=found_valid
        ),
    ]


def _bare_valid(messages: Sequence[dict[str, Any]]) -> bool:
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.discard(message["tool_call_id"])
        elif "tool_calls" in message:
            waiting.update(call["id"] for call in message["tool_calls"])
        elif waiting:
            return False
    return not waiting


def _filter(
    processor: ToolCallFilter, kept: Sequence[str], session: Session, size: int
) -> list[Contender]:
    messages = conversation(size)
    dicts = as_dicts(messages)
    # Every fourth message is a call and every fourth a result; two of the five tools are kept.
    expected = size // 2 + sum(2 for number in range(size // 4) if number % 5 < len(kept))

    def bare(_: object) -> list[dict[str, Any]]:
        gone = {
            call["id"]
            for message in dicts
            if "tool_calls" in message
            for call in message["tool_calls"]
            if call["function"]["name"] not in kept
        }
        return [
            message
            for message in dicts
            if message.get("tool_call_id") not in gone
            and not ("tool_calls" in message and message["tool_calls"][0]["id"] in gone)
        ]

    def verify(left: Sequence[object], _: int) -> None:
        assert len(left) == expected

    return [
        Timed("ours", _applied(processor, messages), session.loop, verify=verify),
        Timed("bare filter of dicts", bare, session.loop, verify=verify),
    ]


def _applied(
    processor: HistoryProcessor,
    fixed: Sequence[Message] | None = None,
    context: Callable[[], ProcessorContext] = ProcessorContext,
) -> Any:
    """What applies the processor to ``fixed``, or to the messages that were prepared."""

    async def ours(prepared: Sequence[Message] | None) -> Sequence[Message]:
        messages = fixed if fixed is not None else prepared
        assert messages is not None
        return await apply_processors(messages, [processor], context())

    return ours


def _limiter(limit: int | None, session: Session, size: int, *, first: bool) -> list[Contender]:
    processor = TokenLimiter(limit or 1_000_000_000, use_tiktoken=False)
    messages = conversation(size)
    texts = [text_of(message) for message in messages]

    def bare(_: object) -> float:
        total = 0
        for text in reversed(texts):
            total += ceil(len(text) / 4.2)
            if limit is not None and total > limit:
                break
        return total

    return [
        _ours_counting(session, processor, size, limit, first=first),
        Timed("bare loop over texts", bare, session.loop),
    ]


def _tiktoken(session: Session, size: int, *, first: bool) -> list[Contender]:
    encoder = load_encoding(ENCODING)
    if encoder is None:
        raise NotHere(f"tiktoken's {ENCODING} cannot be loaded")
    processor = TokenLimiter(1_000_000_000, encoding=ENCODING)
    return [
        _ours_counting(session, processor, size, None, first=first),
        _encode_loop(session, encoder, size),
    ]


def _encode_loop(session: Session, encoder: Encoder, size: int) -> Contender:
    texts = [text_of(message) for message in conversation(size)]

    def bare(_: object) -> int:
        return sum(len(encoder.encode_ordinary(text)) for text in texts)

    def verify(tokens: int, _: int) -> None:
        assert tokens > size

    return Timed("encode_ordinary loop", bare, session.loop, verify=verify)


def _ours_counting(
    session: Session, processor: TokenLimiter, size: int, limit: int | None, *, first: bool
) -> Contender:
    """Counts are kept per message, so "first" needs new messages for each call."""

    def verify(left: Sequence[Message], _: int) -> None:
        assert len(left) == size if limit is None else 0 < len(left) < 200

    ours = _applied(processor, None if first else conversation(size))
    prepare = partial(conversation, size) if first else None
    return Timed("ours", ours, session.loop, prepare=prepare, verify=verify)
