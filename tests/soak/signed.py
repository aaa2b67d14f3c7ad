"""Cases of the soak of signed reasoning, and what their providers refused.

Networks of one to four agents on any of the models of `tests/test_signed_reasoning.py`, with every
kind of router, processors of the library and of a user's own, hooks, handovers, approvals and
agents as tools. Between the questions their conversation goes through what a store, a client or an
import makes of it.

A million requests are tried without networks: agents with such models and chains take turns in one
conversation, whose requests go from the encoders straight to the stand-in's rules and signer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from agentkit_py import Agent, AgentResult, Lifecycle, Network, State, tool
from agentkit_py.errors import AgentKitError, InvalidRecordError
from agentkit_py.lifecycle import Start, StartContext
from agentkit_py.messages import (
    Message,
    Messages,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import Model, ModelRequest, ToolSpec
from agentkit_py.models.binding import account_tag, refuses_reasoning
from agentkit_py.processors import (
    Budget,
    Chain,
    HistoryProcessor,
    MessageWindow,
    Processor,
    ProcessorContext,
    ProviderCompaction,
    Recall,
    TableResults,
    Threshold,
    ensure_valid,
)
from agentkit_py.processors.apply import as_processors, run_chain
from agentkit_py.routing import RouterContext, get_default_routing_agent
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import MemoryHistory
from agentkit_py.testing import HashingEmbedder
from agentkit_py.testing._provider import compaction, signing
from agentkit_py.testing._provider.endpoints import route
from agentkit_py.testing._provider.handler import ClaudeCache, rendered, rules_for
from agentkit_py.testing._provider.replies import Ids
from agentkit_py.testing._provider.rules import Request, Rule, first_rejection
from agentkit_py.testing._provider.types import ProviderName
from agentkit_py.testing.provider import FakeProvider, ReceivedRequest, Signing
from tests.test_signed_reasoning import MODELS, PROCESSORS, Replies

NAMES = ("one", "two", "three", "four")
STRICT = Signing(fail_on_loss=True, fail_on_unknown=True)
REQUESTS = 10
"""Requests in one conversation without a network."""


class Louder(HistoryProcessor):
    """Rewrites texts inside of replies."""

    def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return texts of assistants in capitals."""
        del context
        return [
            replace(m, content=m.text.upper())
            if isinstance(m, TextMessage) and m.role == "assistant"
            else m
            for m in messages
        ]


class Retold(MessageWindow):
    """A subclass of a processor of the library's."""

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Put a note before what is left."""
        left = await super().process(messages, context)
        return left if left is messages else [TextMessage("user", "Earlier things."), *left]


def _bare(messages: Sequence[Message]) -> list[Message]:
    return [replace(m, provider_metadata=None) for m in messages]


def _half_bare(messages: Sequence[Message]) -> list[Message]:
    return [replace(m, provider_metadata=None) if n % 2 else m for n, m in enumerate(messages)]


def _other_arguments(messages: Sequence[Message]) -> list[Message]:
    return [
        replace(m, tools=[replace(call, arguments={"what": "else"}) for call in m.tools])
        if isinstance(m, ToolCallMessage)
        else m
        for m in messages
    ]


def _twice(messages: Sequence[Message]) -> list[Message]:
    return [
        m for message in messages for m in (message, message) if m.type in ("text", "reasoning")
    ]


OWN: list[Callable[[], Any]] = [
    Louder,
    lambda: Retold(6),
    lambda: _bare,
    lambda: _half_bare,
    lambda: _other_arguments,
    lambda: _twice,
    lambda: ProviderCompaction(1),
    lambda: Budget(400, method="estimate"),
    lambda: Chain([MessageWindow(9), Louder()]),
    lambda: Threshold(40, then=[MessageWindow(4)]),
    lambda: Recall(HashingEmbedder(), 2, keep_recent=2),
    TableResults,
]


@tool
def look(what: str = "") -> str:
    """Look something up."""
    return f"found {what} secret " * 5


@tool(needs_approval=True)
def book() -> str:
    """Book something."""
    return "booked"


def _notes(context: StartContext) -> Start:
    """Put a note into the middle, and drop what is oldest."""
    history = context.history
    middle = len(history) // 2
    note: Message = TextMessage("user", f"Note {middle}.")
    return Start(context.prompt, [*history[middle // 2 : middle], note, *history[middle:]])


def _model(name: str) -> Model:
    """Return a model whose key is long enough to be hidden in errors without hiding their words."""
    model = MODELS[name]()
    return replace(model, api_key=f"sk-test-{model.api_key}")


def _agent(name: str, chance: random.Random, models: Sequence[str]) -> Agent:
    helper = Agent(name=f"{name}_helper", system="You help.", model=_model(chance.choice(models)))
    tools = chance.choice([[look, book], [look], [look, helper.as_tool()], []])
    edits = chance.random() < 0.2
    return Agent(
        name=name,
        description=f"Does {name}.",
        system=chance.choice([f"You are {name}.", "You help."]),
        tools=tools,
        model=_model(chance.choice(models)),
        processors=_chain(chance),
        lifecycle=Lifecycle(on_start=_notes) if edits else Lifecycle(),
        assistant="So" if chance.random() < 0.1 else "",
        tool_choice="any" if tools and chance.random() < 0.1 else "auto",
        max_iter=3,
    )


def _chain(chance: random.Random) -> list[Any]:
    count = chance.choice([0, 0, 0, 1, 1, 2, 3])
    return [make() for make in chance.sample([*PROCESSORS, *OWN], count)]


def _network(chance: random.Random) -> Network:
    models = chance.sample(sorted(MODELS), chance.choice([1, 1, 2, 3]))
    names = NAMES[: chance.choice([1, 2, 2, 3, 4])]
    agents = [_agent(name, chance, models) for name in names]
    for number in range(1, len(agents)):
        if chance.random() < 0.2:
            to = chance.sample(agents[:number], 1)
            agents[number] = replace(agents[number], handoffs=to)
    turns = [chance.choice(agents) for _ in range(3)]

    def route(context: RouterContext) -> Any:
        return turns[context.call_count] if context.call_count < len(turns) else None

    by_model = len(agents) > 1 and chance.random() < 0.2
    return Network(
        name="net",
        agents=agents,
        router=get_default_routing_agent() if by_model else route,
        default_model=_model(models[0]),
        processors=_chain(chance),
        prefix=chance.choice(["auto", "shared", "own"]),
        max_iter=4,
    )


def _carried(run_state: State[Any], chance: random.Random, ways: Sequence[str]) -> State[Any]:
    """Return the conversation as a store, a client, or an older version gives it back."""
    rows: list[dict[str, Any]] = json.loads(
        json.dumps([result.to_dict() for result in run_state.transcript])
    )
    way = chance.choice(ways)
    if way == "same":
        return run_state
    for row in rows:
        for message in row.get("output", []):
            _spoil(message, way, chance)
            for call in message.get("tools", []):
                _spoil(call, way, chance)
    found: list[AgentResult] = []
    for row in rows:
        try:
            found.append(AgentResult.from_dict(row))
        except InvalidRecordError:  # said so, as it must be
            continue
    return State(results=found)


def _spoil(record: dict[str, Any], way: str, chance: random.Random) -> None:
    metadata = record.get("providerMetadata")
    if not metadata or chance.random() < 0.4:
        return
    origin = metadata.get("origin") if isinstance(metadata.get("origin"), dict) else None
    match way:
        case "no raw":
            record.pop("providerMetadata")
        case "version" if origin:
            origin["v"] = chance.choice([0, 2, "1", None])
        case "half" if origin:
            origin.pop(chance.choice(sorted(origin)), None)
        case "odd":
            name = chance.choice(sorted(metadata))
            metadata[name] = chance.choice([None, 5, "x", [], {}, {"type": "thinking"}])
        case _:
            pass


WHOLE = ("same", "rows", "no raw")
ODD = ("version", "half", "odd")
"""Ways in which rows lose what their reasoning is bound to: then a provider may refuse it, once."""


def _replies(seed: str, chance: random.Random) -> Replies:
    thoughts = random.Random(f"a {seed}").choice([1, 3])  # noqa: S311 - no secret
    return Replies(chance.randrange(10**9), thoughts=thoughts)


async def faults_in(seed: str) -> list[str]:
    """Return what the providers of a random network refused; nothing is expected."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    network = _network(chance)
    is_odd = chance.random() < 0.3
    signing = Signing() if is_odd else Signing(fail_on_loss=True)
    fake = FakeProvider(_replies(seed, chance), signing=signing)
    runtime = DirectRuntime(transport=fake.transport)
    if chance.random() < 0.3:
        network = replace(network, history=MemoryHistory())
    state: State[Any] = State()
    faults: list[str] = []
    for number in range(4):
        says = chance.random() < 0.7
        try:
            run = await network.run(
                f"Question {number}?",
                state=state,
                runtime=runtime,
                approver=lambda _, says=says: says,
            )
        except AgentKitError as error:
            faults.append(f"{type(error).__name__}: {error}")
            break
        kept = network.history is not None and chance.random() < 0.5
        state = (
            State(thread_id=run.state.thread_id)
            if kept
            else _carried(run.state, chance, ODD if is_odd else WHOLE)
        )
    refused = [one for one in fake.rejections if not (is_odd and refuses_reasoning(one.message))]
    return faults + [f"{one.rule}: {one.message}" for one in refused]


@dataclass
class Speaker:
    """An agent of a conversation without a network."""

    name: str
    model: Model
    system: TextMessage
    tools: tuple[ToolSpec, ...]
    chain: Sequence[Processor]
    prefill: str
    tool_choice: str

    @classmethod
    def any(cls, name: str, chance: random.Random, models: Sequence[str]) -> Speaker:
        """Return a random one."""
        tools = chance.choice([("look", "book"), ("look",), ()])
        return cls(
            name,
            _ready(chance.choice(models)),
            TextMessage("system", chance.choice([f"You are {name}.", "You help."])),
            tuple(map(ToolSpec, tools)),
            as_processors(_chain(chance)),
            "So" if chance.random() < 0.1 else "",
            "any" if tools and chance.random() < 0.1 else "auto",
        )

    async def request(self, history: Sequence[Message]) -> ModelRequest:
        """Return what it asks its model."""
        context = ProcessorContext(
            agent=self.name,
            prompt=[self.system],
            tools=self.tools,
            model=self.model.model,
            protected=_since_question(history, self.name),
        )
        outcome = await run_chain(history, [("agent", self.chain)], context)
        prefill = [TextMessage("assistant", self.prefill)] if self.prefill else []
        sent, _ = ensure_valid([self.system, *outcome.messages, *prefill])
        return ModelRequest(
            messages=tuple(sent),
            tools=self.tools,
            tool_choice=self.tool_choice,
            agent=self.name,
            prefill=len(prefill),
            account=account_tag(self.model, str(self.model.api_key)),
            cache_key="thread",
            compaction=context.wishes[-1] if context.wishes else None,
        )


def _since_question(history: Sequence[Message], name: str) -> frozenset[int]:
    found: set[int] = set()
    for message in reversed(history):
        if message.role == "user" and message.type == "text":
            break
        if message.agent == name and message.type != "text":
            found.add(id(message))
    return frozenset(found)


@cache
def _ready(name: str) -> Model:
    return _model(name)


@cache
def _rules(provider: ProviderName) -> tuple[Rule, ...]:
    return rules_for(provider)


def _asked(model: Model, request: ModelRequest) -> Request:
    """Return a request as the stand-in gets it over HTTP."""
    model = model.for_request(request)
    parts = urlsplit(model.adapter.url(model))
    where = route(parts.netloc, parts.path)
    assert where is not None
    body = json.loads(json.dumps(model.encode(request)))
    return Request(
        provider=where.provider,
        path=parts.path,
        query=dict(parse_qsl(parts.query)),
        headers={
            name.lower(): value
            for name, value in model.adapter.headers(model, str(model.api_key)).items()
        },
        body=body,
        model=where.model or body["model"],
        host=parts.netloc,
        signing=STRICT,
        sent=body,
    )


def _answer(asked: Request, replies: Replies, ids: Ids, cache_: ClaudeCache) -> Any:
    """Return the stand-in's answer, signed."""
    received = ReceivedRequest(
        provider=asked.provider,
        method="POST",
        path=asked.path,
        query=asked.query,
        headers=asked.headers,
        body=asked.body,
        model=asked.model,
    )
    plain = rendered(asked, received, replies(received), ids, cache_)
    return json.loads(json.dumps(signing.sign(asked, compaction.added(asked, plain, ids))))


async def faults_in_requests(seed: str) -> list[str]:
    """Return what the providers of a random conversation refused; nothing is expected."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    models = chance.sample(sorted(MODELS), chance.choice([1, 1, 2, 3]))
    speakers = [Speaker.any(n, chance, models) for n in NAMES[: chance.choice([1, 2, 3, 4])]]
    replies, ids, seen = _replies(seed, chance), Ids(), ClaudeCache()
    history: list[Message] = [TextMessage("user", "Question 0?")]
    speaker = speakers[0]
    for number in range(REQUESTS):
        request = await speaker.request(history)
        asked = _asked(speaker.model, request)
        refused = first_rejection(asked, _rules(asked.provider))
        if refused is not None:
            return [f"{refused.rule}: {refused.message}"]
        reply = speaker.model.decode(_answer(asked, replies, ids, seen)).messages
        said = speaker.model.bind(request, [replace(m, agent=speaker.name) for m in reply])
        history += said
        calls = [c for m in said if isinstance(m, ToolCallMessage) for c in m.tools]
        history += [ToolResultMessage(c, _result(c, number), agent=speaker.name) for c in calls]
        if not calls or chance.random() < 0.2:  # another agent may take over after calls, too
            speaker = chance.choice(speakers)
            if chance.random() < 0.5:
                history.append(TextMessage("user", f"Question {number}?"))
    return []


def _result(call: ToolCall, number: int) -> str:
    return f"{call.name} {number} found a secret " * 5
