"""One case of the soak: a random history, a random chain, and what has to be true afterwards."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from agentkit_py.codec import message_to_dict
from agentkit_py.messages import Message, TextMessage, ToolCall, lineage
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    azure_openai,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.processors import (
    ApproximateTokenizer,
    Chain,
    Pin,
    Processor,
    ProcessorContext,
    Recall,
    Threshold,
    ensure_valid,
)
from agentkit_py.processors.apply import run_chain
from agentkit_py.processors.base import HistoryProcessor
from agentkit_py.processors.pairing import is_same
from agentkit_py.testing._provider.handler import rules_for
from agentkit_py.testing._provider.rules import Request, first_rejection
from agentkit_py.testing._provider.types import ProviderName

from .chances import history, hostile, own_group, processor

THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
MODELS: dict[ProviderName, list[Model]] = {
    "openai": [openai("gpt-4.1", api_key="k"), openai("o4-mini", api_key="k")],
    "azure_openai": [azure_openai("gpt-4o", endpoint="https://r.openai.azure.com", api_key="k")],
    "anthropic": [
        anthropic("claude-3-5-haiku-latest", api_key="k"),
        anthropic("claude-opus-4-6", api_key="k"),
        anthropic("claude-sonnet-4-5", api_key="k", default_parameters=THINKING),
    ],
    "gemini": [
        gemini("gemini-2.5-flash", api_key="k"),
        gemini("gemini-3-pro-preview", api_key="k"),
    ],
    "grok": [grok("grok-4", api_key="k")],
    "openai_responses": [
        openai_responses("gpt-4.1", api_key="k"),
        openai_responses("gpt-5", api_key="k"),
        openai_responses("o4-mini", api_key="k"),
    ],
}
RULES = {name: rules_for(name, ["anthropic.tool_blocks_without_tools"]) for name in MODELS}
TOOLS = (ToolSpec("search"), ToolSpec("ping"))
SYSTEM = TextMessage("system", "Be brief.")
PREFILL = TextMessage("assistant", "It is ")
TOKENIZER = ApproximateTokenizer()


def faults_of(seed: str) -> list[str]:
    """Return the faults of the case that ``seed`` makes; none are expected."""
    return asyncio.run(faults_in(seed))


async def faults_in(seed: str) -> list[str]:
    """Return the faults like `faults_of`, in a running event loop, for many cases."""
    return await _faults_of(random.Random(seed))  # noqa: S311 - not a secret


async def _faults_of(chance: random.Random) -> list[str]:
    messages = history(chance)
    own = own_group(chance) if chance.random() < 0.4 else []
    messages += own
    pinned = [m for m in messages if chance.random() < 0.1]
    chosen = set(map(id, pinned))
    own_ids = frozenset(map(id, own))
    context = ProcessorContext(
        agent="me",
        tokenizer=TOKENIZER,
        protected=own_ids,
        input=chance.choice(["", "where is my parcel?"]),
    )
    steps: list[Processor] = [processor(chance) for _ in range(chance.randrange(1, 5))]
    if chance.random() < 0.3:
        steps.insert(chance.randrange(len(steps) + 1), hostile(chance))
    steps.append(Pin(lambda message: id(message) in chosen))
    before = [message_to_dict(message) for message in messages]
    outcome = await run_chain(messages, [("agent", steps)], context)
    left = outcome.messages
    faults = [f"{p}: {why}" for p in MODELS for why in _refused(left, p, chance)]
    faults += _lost(pinned, left, "pinned") + _lost(own, left, "protected")
    if [message_to_dict(message) for message in messages] != before:
        faults.append("the history itself was changed")
    for step in steps:
        if isinstance(step, HistoryProcessor):
            faults += await _alone(step, messages, context)
    return faults


def _refused(messages: Sequence[Message], name: ProviderName, chance: random.Random) -> list[str]:
    """Return the provider's rejections of a request with these messages."""
    model = chance.choice(MODELS[name])
    before = [SYSTEM] if chance.random() < 0.8 else []
    after = [PREFILL] if chance.random() < 0.1 else []
    whole, _ = ensure_valid([*before, *messages, *after])
    if ensure_valid(whole)[0] is not whole or not _is_whole(whole):
        return ["what was made valid is not"]
    request = ModelRequest(
        messages=tuple(whole),
        tools=chance.choice([(), TOOLS]),
        tool_choice=chance.choice(["auto", "auto", "any", "search"]),
        agent="me",
        prefill=len(after),
    )
    body = model.encode(request)
    parts = urlsplit(model.adapter.url(model))
    headers = {k.lower(): v for k, v in model.adapter.headers(model, "k").items()}
    inbound = Request(name, parts.path, dict(parse_qsl(parts.query)), headers, body, model.model)
    rejection = first_rejection(inbound, RULES[name])
    return [] if rejection is None else [f"{rejection.rule}: {rejection.message}"]


def _is_whole(messages: Sequence[Message]) -> bool:
    """Return whether results directly follow their calls' reply, by a second implementation."""
    group = _Group()
    for message in messages:
        of_others = message.role in ("user", "system")
        begins = of_others or (group.answering and message.type != "tool_result")
        if begins:
            if not group.is_answered():
                return False
            group = _Group()
        if message.type == "tool_call" and not group.ask(message.tools):
            return False
        if message.type == "tool_result" and not group.take(message.tool):
            return False
    return group.is_answered()


@dataclass
class _Group:
    """The calls of one reply that wait for results, by id and name."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    nameless: Counter[str] = field(default_factory=Counter[str])
    """Results that name no tool: each is of any of the calls with its id that are left."""

    answering: bool = False

    def ask(self, tools: Sequence[ToolCall]) -> bool:
        self.calls.update((call.id, call.name) for call in tools)
        return bool(tools)

    def take(self, answered: ToolCall) -> bool:
        self.answering = True
        if not answered.name:
            self.nameless[answered.id] += 1
            return True
        key = (answered.id, answered.name)
        self.calls[key] -= 1
        return self.calls[key] >= 0

    def is_answered(self) -> bool:
        left: Counter[str] = Counter()
        for (name, _), count in self.calls.items():
            left[name] += count
        return +left == self.nameless


def _lost(wanted: Sequence[Message], left: Sequence[Message], what: str) -> list[str]:
    """Messages that are neither there nor rewritten."""
    there = {id(source) for message in left for source in lineage(message)}
    # Calls and results may be rewritten by anybody, who then keeps their ids and tools.
    shapes = Counter(map(_shape, left))
    lost = [m for m in wanted if id(m) not in there and not shapes[_shape(m)]]
    return [f"{what}: {m!r:.200} is gone" for m in lost]


def _shape(message: Message) -> tuple[Any, ...]:
    if message.type == "tool_call":
        return (message.type, *((c.id, c.name) for c in message.tools))
    if message.type == "tool_result":
        return (message.type, message.tool.id, message.tool.name)
    return (message.type, message.role)


async def _processed(
    step: HistoryProcessor, messages: Sequence[Message], context: ProcessorContext
) -> Sequence[Message]:
    found = step.process(messages, context)
    return await found if isinstance(found, Awaitable) else found


def _followed(messages: Sequence[Message], context: ProcessorContext) -> ProcessorContext:
    """The context after a processor, as the engine makes it: what stands for held ones is held."""

    def of(held: frozenset[int]) -> frozenset[int]:
        new = (m for m in messages if not held.isdisjoint(map(id, lineage(m))))
        return held.union(map(id, new))

    return replace(context, protected=of(context.protected), pinned=of(context.pinned))


async def _alone(
    step: HistoryProcessor, messages: Sequence[Message], context: ProcessorContext
) -> list[str]:
    """A processor on its own: it touches nothing in vain, and doing it twice is doing it once."""
    once = await _processed(step, messages, context)
    faults: list[str] = []
    if once is not messages and is_same(messages, once):
        faults.append(f"{step.name} made a new list of the same messages")
    if isinstance(step, Chain | Threshold | Recall):
        # Only as idempotent as what they are made of is together; to recall is to add something.
        return faults
    again = await _processed(step, once, _followed(once, context))
    if not is_same(once, again):
        faults.append(f"{step.name} ({step.reason}) changes what it made itself")
    return faults
