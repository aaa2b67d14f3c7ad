"""Providers accept every request, for any history and any changes by processors and hooks.

Networks of agents with different tools, or none, work on any messages, while processors at every
level drop, repeat, reverse, shuffle, rewrite and insert what they like. `HOSTILE_EXAMPLES` sets
how many networks are tried per provider.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    Lifecycle,
    Message,
    Network,
    RouterContext,
    State,
    TextMessage,
    TokenLimiter,
    ToolCallFilter,
    UserMessage,
)
from agentkit_py.events.types import ContextBuilt
from agentkit_py.lifecycle import Start, StartContext
from agentkit_py.messages import (
    OpaqueMessage,
    ReasoningMessage,
    TextContent,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import ApproximateTokenizer, ContextReport
from agentkit_py.processors.base import Processor
from agentkit_py.testing import EventLog, ScriptedModel

Provider = Literal["openai", "azure_openai", "anthropic", "gemini", "grok"]
EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "60"))
TOOLS = ["look", "fly", "book"]

# Few ids, names and authors, so that they collide; some that no provider takes as they are.
ids = st.sampled_from(["", "a", "b", "call 1!", "x" * 70, "call_1"])
names = st.sampled_from([*TOOLS, "look", "gone", "", "bad name!"])
authors = st.sampled_from([None, "one", "two", "three", "somebody", "user"])
words = st.sampled_from(["", " ", "\n", "hello", "a < b & c", "né 🙂", "\ud800", "x " * 40])
arguments = st.sampled_from(
    cast("list[Any]", [{}, {"what": "x"}, {"a": [1, {"b": None}]}, [1], "text", None, 5, True])
)
contents = st.sampled_from(
    cast(
        "list[Any]",
        [{"data": "found"}, {"error": {"name": "E", "message": "m"}}, "", "text", None, [], 0],
    )
)
metadata = st.sampled_from(
    cast(
        "list[Any]",
        [
            None,
            None,
            {"anthropic": {"signature": "c2lnbmVk"}},
            {"anthropic": {"redacted": "ZGF0YQ=="}},
            {"gemini": {"thoughtSignature": "c2lnbmVk"}},
            {"openai": {}},
            {"elsewhere": {"x": 1}},
        ],
    )
)
sides = st.sampled_from([None, None, True, False])
calls = st.builds(
    ToolCall, ids, names, arguments, st.sampled_from([None, None, '{"a": ']), metadata
)
common: dict[str, Any] = {"from_history": sides, "agent": authors, "provider_metadata": metadata}
texts = st.builds(
    TextMessage,
    st.sampled_from(["system", "user", "assistant"]),
    words | st.lists(st.builds(TextContent, words), max_size=2),
    **common,
)
call_messages = st.builds(ToolCallMessage, st.lists(calls, max_size=3), **common)
results = st.builds(ToolResultMessage, calls, contents, **common)
reasonings = st.builds(ReasoningMessage, words, **common)
HOSTS = [
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "api.x.ai",
    "scripted.openai.azure.com",
]
opaques = st.builds(
    OpaqueMessage,
    st.sampled_from([{"type": "server_tool_use", "id": "s", "name": "look", "input": {}}]),
    st.sampled_from(["anthropic", "gemini", "chat", "openai-responses"]),
    st.sampled_from(["", "elsewhere.example", *HOSTS]),
    names,
    ids,
    st.sampled_from(["call", "result"]),
    **common,
)
messages = st.lists(texts | call_messages | results | reasonings | opaques, max_size=10)


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """Calls with their results, as runs leave them."""
    made = draw(st.lists(calls, min_size=1, max_size=3))
    who = draw(authors)
    answers = [ToolResultMessage(call, draw(contents), agent=who) for call in made]
    return [ToolCallMessage(made, agent=who), *answers]


@st.composite
def states(draw: st.DrawFn) -> State[Any]:
    """Anything that a client or a store may bring along."""
    seeds = draw(messages) + [m for group in draw(st.lists(exchanges(), max_size=2)) for m in group]
    outputs = draw(st.lists(st.tuples(authors, messages), max_size=3))
    old = [AgentResult(author or "nobody", output) for author, output in outputs]
    return State(messages=seeds, results=old)


Change = Callable[[list[Message], random.Random], Sequence[Message]]


def drop_some(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Each stays by chance."""
    return [m for m in found if chance.random() < 0.6]


def keep_one(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Whichever."""
    return chance.sample(found, min(1, len(found)))


def drop_all(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Nothing stays."""
    return []


def repeat(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """The beginning comes again."""
    return found + found[: chance.randrange(len(found) + 1)]


def double(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Some come twice."""
    return [m for m in found for _ in range(chance.randrange(1, 3))]


def reverse(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """The last are the first."""
    return found[::-1]


def shuffle(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Return the messages in a random order."""
    chance.shuffle(found)
    return found


def rewrite(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Other texts, ids, names, results, authors and sides."""
    return [_other(m, chance) if chance.random() < 0.5 else m for m in found]


def _other(message: Message, chance: random.Random) -> Message:
    facts: dict[str, Any] = {
        "agent": chance.choice([None, "one", "two", "user"]),
        "from_history": chance.choice([None, True, False]),
        "provider_metadata": None,
    }
    call = ToolCall(chance.choice(["", "a", "z z"]), chance.choice([*TOOLS, "", "!"]), [1])
    match message:
        case TextMessage():
            role: Any = chance.choice(["system", "user", "assistant"])
            return replace(message, role=role, content=chance.choice(["", " ", "new"]), **facts)
        case ToolCallMessage():
            return replace(message, tools=[*message.tools, call][chance.randrange(2) :], **facts)
        case ToolResultMessage():
            return replace(message, tool=call, content=chance.choice(["", {"data": 1}]), **facts)
        case OpaqueMessage():
            return replace(message, content={"type": "other"}, **facts)
        case ReasoningMessage():
            return replace(message, content=chance.choice(["", "hm"]), **facts)


def equal_ones(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Equal messages, but other objects."""
    return [replace(m) for m in found]


def halve_calls(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Half of the calls of each reply."""
    return [
        replace(m, tools=m.tools[: len(m.tools) // 2]) if isinstance(m, ToolCallMessage) else m
        for m in found
    ]


def split_calls(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Each call in a message of its own, a text between them."""
    return [
        part
        for m in found
        for part in (
            [
                piece
                for call in m.tools
                for piece in (replace(m, tools=[call]), TextMessage("user", "well?"))
            ]
            if isinstance(m, ToolCallMessage)
            else [m]
        )
    ]


def insert_orphans(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Calls without results, results without calls, empty things, instructions in the middle."""
    call = ToolCall(chance.choice(["", "a", "orphan"]), chance.choice(TOOLS))
    strange: list[Message] = [
        ToolCallMessage([call]),
        ToolCallMessage([]),
        ToolResultMessage(call, {"data": 1}),
        TextMessage("system", "new rule"),
        TextMessage("assistant", ""),
        TextMessage("user", []),
        ReasoningMessage(""),
    ]
    for message in chance.sample(strange, chance.randrange(1, 4)):
        found.insert(chance.randrange(len(found) + 1), message)
    return found


def no_results(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """No call has an answer."""
    return [m for m in found if m.type != "tool_result"]


def no_calls(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """No answer has a call."""
    return [m for m in found if m.type != "tool_call"]


def results_first(found: list[Message], chance: random.Random) -> Sequence[Message]:
    """Answers before all calls."""
    return sorted(found, key=lambda m: m.type != "tool_result")


CHANGES: list[Change] = [
    drop_some, keep_one, drop_all, repeat, double, reverse, shuffle, rewrite, equal_ones,
    halve_calls, split_calls, insert_orphans, no_results, no_calls, results_first,
]  # fmt: skip


@dataclass(frozen=True)
class Hostile:
    """A change as a processor; its chance is the same whenever the example is tried again."""

    change: Change
    seed: int

    def __call__(self, found: Sequence[Message]) -> Sequence[Message]:
        """Return the changed messages."""
        return self.change(list(found), random.Random(self.seed))  # noqa: S311 - the same each time

    def __repr__(self) -> str:
        return f"{self.change.__name__}({self.seed})"


hostile = st.builds(Hostile, st.sampled_from(CHANGES), st.integers(0, 99))
some_tools = st.lists(st.sampled_from(TOOLS), max_size=2)
kept = st.booleans()
filters: st.SearchStrategy[Processor] = st.one_of(
    st.builds(ToolCallFilter, persist_results=kept),
    st.builds(ToolCallFilter, include=some_tools, persist_results=kept),
    st.builds(ToolCallFilter, exclude=some_tools, persist_results=kept),
)
limiters: st.SearchStrategy[Processor] = st.builds(
    TokenLimiter, st.sampled_from([1, 5, 20, 80]), tokenizer=st.just(ApproximateTokenizer())
)
chains: st.SearchStrategy[list[Processor]] = st.lists(
    st.one_of(hostile, filters, limiters), max_size=3
)


@dataclass(frozen=True)
class HostileHook:
    """A change as an `on_start` hook, of the history and perhaps of the prompt."""

    change: Hostile
    prompt_too: bool

    def __call__(self, context: StartContext) -> Start:
        """Return the changed prompt and history."""
        prompt = self.change(context.prompt) if self.prompt_too else context.prompt
        return Start(prompt, self.change(context.history))


hooks = st.builds(HostileHook, hostile, st.booleans())


def look(what: str = "") -> str:
    """Look something up."""
    return f"found {what}"


def fly() -> None:
    """Fly."""


def book(row: int) -> int:
    """Book a seat."""
    return row


FUNCTIONS: dict[str, Callable[..., Any]] = {"look": look, "fly": fly, "book": book}


@st.composite
def agents(draw: st.DrawFn, name: str) -> Agent:
    """An agent with some tools, or none, and processors and hooks of any kind."""
    tools = draw(st.lists(st.sampled_from(TOOLS), unique=True, max_size=2))
    hook = draw(st.none() | hooks)
    return Agent(
        name=name,
        system=draw(st.sampled_from(["You help.", ""])),
        assistant=draw(st.sampled_from(["", "", "Well,", "  "])),
        tools=[FUNCTIONS[tool] for tool in tools],
        tool_choice=draw(st.sampled_from(["auto", "any", *tools])),
        max_iter=draw(st.integers(1, 3)),
        parallel_tools=draw(st.booleans()),
        processors=draw(chains),
        history=HistoryConfig(processors=draw(chains)) if draw(st.booleans()) else None,
        lifecycle=Lifecycle(on_start=hook),
    )


@st.composite
def replies(draw: st.DrawFn) -> Any:
    """Draw a model's reply: words, calls of any tools, both, thoughts; or nothing."""
    made = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from([*TOOLS, "gone"]),
                    "arguments": st.sampled_from(
                        cast("list[dict[str, Any]]", [{}, {"what": "x"}, {"row": 1}, {"row": "?"}])
                    ),
                },
                optional={"id": st.sampled_from(["a", "b", "call_9"])},
            ),
            max_size=3,
        )
    )
    reply: dict[str, Any] = {"text": draw(st.sampled_from(["ok", "", "Let me see."]))}
    if made:
        reply["tool_calls"] = made
    if draw(st.booleans()):
        reply["reasoning"] = "hm"
    return reply


AGENTS: list[str] = ["one", "two", "three"]
inputs = st.one_of(
    words, st.builds(UserMessage, st.lists(st.builds(TextContent, words), max_size=2))
)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Network, list[str]]:
    """Up to three agents, and whose turn it is."""
    members = [draw(agents(name)) for name in AGENTS]
    plan = draw(st.lists(st.sampled_from(AGENTS), min_size=1, max_size=4))
    network = Network(
        name="n",
        agents=members,
        processors=draw(chains),
        history=HistoryConfig(processors=draw(chains)) if draw(st.booleans()) else None,
        history_mode=draw(st.sampled_from(["chronological", "chronological", "typescript"])),
    )
    return network, plan


def faults(sent: Sequence[Message]) -> list[str]:
    """Return the faults of what is sent, before an encoder has changed it."""
    found: list[str] = []
    asked = answered = 0
    for message in (*sent, TextMessage("user", "the end")):
        if isinstance(message, ToolResultMessage):
            answered += 1
            if answered > asked:
                found.append("a result without its call")
            continue
        if asked > answered and (answered or message.role != "assistant"):
            found.append(f"{message.type} where a result is due")
        if answered or message.role != "assistant":
            asked = answered = 0
        if isinstance(message, ToolCallMessage):
            asked += len(message.tools)
            found += [] if message.tools else ["a call message without calls"]
    return found


FORMATS: list[tuple[Provider, str]] = [
    ("openai", "gpt-4o"),
    ("azure_openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-3-5-haiku-latest"),
    ("gemini", "gemini-2.5-flash"),
    ("gemini", "gemini-3-pro-preview"),
    ("grok", "grok-4"),
]


@pytest.mark.parametrize(("provider", "name"), FORMATS)
@settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(made=networks(), state=states(), said=inputs, script=st.lists(replies(), max_size=8))
def test_every_request_is_taken_whatever_histories_and_processors_are(
    provider: Provider,
    name: str,
    made: tuple[Network, list[str]],
    state: State[Any],
    said: str | UserMessage,
    script: list[Any],
) -> None:
    """The stored entries stay the same objects, but for the mark of what an earlier run said."""
    network, plan = made
    model_name: dict[str, Any] = {} if provider == "azure_openai" else {"model": name}
    model = ScriptedModel(*script, *["done"] * 12, provider=provider, **model_name)

    def router(context: RouterContext) -> str | None:
        return plan[context.call_count] if context.call_count < len(plan) else None

    before, log = state.format_history(), EventLog()
    asyncio.run(network.run(said, state=state, model=model, router=router, observer=log))
    assert [str(rejection) for rejection in model.fake.rejections] == []
    for event in log.of(ContextBuilt):
        assert isinstance(event.report, ContextReport)
        assert faults(event.report.sent) == []
    after = state.format_history()
    for old, new in zip(before, after[: len(before)], strict=True):
        assert new is old or (not old.from_history and new.from_history and new == old)
