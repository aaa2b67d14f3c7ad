"""Random histories and chains of processors, each from a seed of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import (
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
    MessageWindow,
    Recall,
    RecentToolCalls,
    Redact,
    StripImages,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.testing import HashingEmbedder

TEXTS = ["", " ", "\n", "hi", "Wie geht's? ✓", "\ud800", "mail a@b.io", "x" * 400, '{"a": 1}']
NAMES = ["search", "search", "ping", "gone", "", "billing.look up", "9lives", "n" * 80]
IDS = ["", "a", "b", "call_1", "call_1_1", "é!", "i" * 60]
AGENTS = [None, "me", "billing", "sales"]
SIGNED = {"anthropic": {"type": "thinking", "thinking": "of a@b.io", "signature": "c2ln"}}
OPENAI_REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gA",
}
METADATA: list[dict[str, Any] | None] = [
    None,
    None,
    SIGNED,
    {"anthropic": {"type": "redacted_thinking", "data": "ZGF0YQ=="}},
    {"gemini": {"thoughtSignature": "c2ln"}},
    {"openai-responses": OPENAI_REASONING},
    {"openai-responses": {**OPENAI_REASONING, "encrypted_content": None}},
    {"openai-responses": {"id": "item_1", "reasoning": ["rs_1"], "phase": "commentary"}},
]
PARTS: list[ContentPart] = [
    TextContent("see"),
    TextContent(""),
    ImageContent("iVBORw0KGgo=", media_type="image/png"),
    ImageContent("PHN2Zy8+", media_type="image/svg+xml"),
    ImageContent(url="https://example.com/a.png"),
    FileContent("JVBERi0=", media_type="application/pdf", name="a.pdf"),
    FileContent("UEs=", media_type="application/zip", name="a.zip"),
    FileContent("AA==", media_type="text/plain"),
    FileContent(url="https://example.com/a.pdf"),
]
VALUES: list[Any] = [
    None,
    7,
    "found",
    "word " * 300,
    "line\n" * 60,
    {"success": True, "items": [{"id": n, "title": "t" * 50} for n in range(30)], "total": 30},
    [[[[["deep"] * 9]]]],
    {f"key{n}": n for n in range(40)},
    '{"items": [1, 2, 3], "note": "' + "z" * 900 + '"}',
]


def history(chance: random.Random) -> list[Message]:
    """A conversation: mostly as runs write it, sometimes torn."""
    messages: list[Message] = []
    for _ in range(chance.randrange(8)):
        kind = chance.random()
        if kind < 0.45:
            messages.append(_text(chance))
        elif kind < 0.55:
            messages.append(_thought(chance))
        else:
            messages += _group(chance)
    if chance.random() < 0.3:
        work = chance.choice(HOSTILE)
        messages = work(messages, chance)
    return messages


def own_group(chance: random.Random) -> list[Message]:
    """Calls of the agent's own current turn, as the engine makes them."""
    calls = [ToolCall(f"own_{n}", chance.choice(["search", "ping"])) for n in range(2)]
    results = [ToolResultMessage(c, {"data": chance.choice(VALUES)}, agent="me") for c in calls]
    return [ToolCallMessage(calls, agent="me"), *results]


def _text(chance: random.Random) -> TextMessage:
    content: Any = chance.choice(TEXTS)
    if chance.random() < 0.15:
        content = tuple(chance.choices(PARTS, k=chance.randrange(4)))
    role = chance.choice(["user", "user", "assistant", "assistant", "system"])
    agent = chance.choice(AGENTS) if role == "assistant" else None
    metadata = chance.choice(METADATA) if role == "assistant" else None
    return TextMessage(
        role,  # pyright: ignore[reportArgumentType] - drawn from the roles
        content,
        agent=agent,
        provider_metadata=metadata,
    )


def _thought(chance: random.Random) -> ReasoningMessage:
    metadata = chance.choice(METADATA)
    return ReasoningMessage(
        chance.choice(TEXTS), agent=chance.choice(AGENTS), provider_metadata=metadata
    )


def _group(chance: random.Random) -> list[Message]:
    agent = chance.choice(AGENTS)
    messages: list[Message] = []
    made: list[ToolCall] = []
    for _ in range(chance.choice([1, 1, 1, 2])):
        if chance.random() < 0.2:
            messages.append(_thought(chance))
        calls = [_call(chance) for _ in range(chance.choice([1, 1, 2, 3]))]
        messages.append(ToolCallMessage(calls, agent=agent))
        made += calls
    chance.shuffle(made)
    envelope = "error" if chance.random() < 0.1 else "data"
    return [
        *messages,
        *(ToolResultMessage(c, {envelope: chance.choice(VALUES)}, agent=agent) for c in made),
    ]


def _call(chance: random.Random) -> ToolCall:
    return ToolCall(
        chance.choice(IDS),
        chance.choice(NAMES),
        chance.choice([{}, {"q": "a@b.io"}, {"path": "a.py"}, [1], "x"]),
        chance.choice([None, None, None, "{broken"]),
        chance.choice([None, None, *METADATA[-4:]]),
    )


def _drop(messages: list[Message], chance: random.Random) -> list[Message]:
    return [m for m in messages if chance.random() < 0.6]


def _repeat(messages: list[Message], chance: random.Random) -> list[Message]:
    return messages + messages[: chance.randrange(len(messages) + 1)]


def _shuffle(messages: list[Message], chance: random.Random) -> list[Message]:
    return chance.sample(messages, len(messages))


def _copy(messages: list[Message], chance: random.Random) -> list[Message]:
    return [replace(m) if chance.random() < 0.5 else m for m in messages]


def _halve(messages: list[Message], chance: random.Random) -> list[Message]:
    del chance
    return [
        replace(m, tools=m.tools[: len(m.tools) // 2]) if isinstance(m, ToolCallMessage) else m
        for m in messages
    ]


HOSTILE: list[Callable[[list[Message], random.Random], list[Message]]] = [
    _drop,
    _repeat,
    _shuffle,
    _copy,
    _halve,
]
"""Changes that a user's function may make to a list."""


def processor(chance: random.Random) -> HistoryProcessor:
    """A processor of the library's with random settings."""
    names = chance.sample(["search", "ping", "gone"], chance.randrange(3))
    agents = chance.sample(["me", "billing", "sales"], chance.randrange(1, 3))
    number = chance.randrange(5)
    tokens = chance.choice([0, 40, 150, 600])
    makers: list[Callable[[], HistoryProcessor]] = [
        lambda: RecentToolCalls(number, per_tool=dict.fromkeys(names, 1)),
        lambda: MessageWindow(number + 1),
        lambda: MessageWindow(2 * number + 2, lower=number + 1),
        DropUnanswered,
        lambda: CompressToolResults(30 + tokens, keep_recent=number, exclude=names),
        lambda: TruncateToolResults(1 + tokens, keep_recent=number, exclude=names),
        lambda: ClearToolResults(tokens, number, clear_inputs=number > 2, exclude=names),
        lambda: ClearToolResults(tokens, number % 2, clear_inputs=True, clear_at_least=tokens),
        lambda: ByAuthor(keep=agents) if number % 2 else ByAuthor(drop=agents),
        lambda: HandoffView(results=number > 2, max_chars=50 + tokens),
        lambda: Deduplicate(reads=names, min_chars=1 + tokens),
        lambda: StripImages(files=number > 2),
        lambda: KeepImages(number, files=number > 2),
        lambda: Redact(["email", "card"]),
        lambda: ToolCallFilter(include=names, persist_results=number > 2),
        lambda: ToolCallFilter(exclude=names),
        lambda: TokenLimiter(1 + tokens, use_tiktoken=False),
        lambda: Budget(200 + 4 * tokens, method="estimate", tool_output_max_tokens=30 + tokens),
        lambda: Recall(HashingEmbedder(8), 1 + number, keep_recent=2 * number),
    ]
    if chance.random() < 0.1:
        inner = [processor(chance) for _ in range(2)]
        return Chain(inner) if number % 2 else Threshold(tokens, then=inner)
    return chance.choice(makers)()


def hostile(chance: random.Random) -> Callable[[Sequence[Message]], list[Message]]:
    """A function that does damage."""
    work = chance.choice(HOSTILE)
    return lambda messages: work(list(messages), chance)
