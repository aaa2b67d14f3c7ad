"""One network of the soak of signed reasoning, and what its providers refused.

Networks of one to four agents on any of the models of `tests/test_signed_reasoning.py`, with every
kind of router, processors of the library and of a user's own, hooks, handovers, approvals and
agents as tools. Between the questions their conversation goes through what a store, a client or an
import makes of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agentkit_py import Agent, AgentResult, Lifecycle, Network, State, tool
from agentkit_py.errors import AgentKitError, InvalidRecordError
from agentkit_py.lifecycle import Start, StartContext
from agentkit_py.messages import Message, Messages, TextMessage, ToolCallMessage
from agentkit_py.models import Model
from agentkit_py.models.binding import refuses_reasoning
from agentkit_py.processors import (
    Budget,
    Chain,
    HistoryProcessor,
    MessageWindow,
    ProcessorContext,
    ProviderCompaction,
    Recall,
    TableResults,
    Threshold,
)
from agentkit_py.routing import RouterContext, get_default_routing_agent
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import MemoryHistory
from agentkit_py.testing import HashingEmbedder
from agentkit_py.testing.provider import FakeProvider, Signing
from tests.test_signed_reasoning import MODELS, PROCESSORS, Replies

NAMES = ("one", "two", "three", "four")


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


async def faults_in(seed: str) -> list[str]:
    """Return what the providers of a random network refused; nothing is expected."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    network = _network(chance)
    is_odd = chance.random() < 0.3
    signing = Signing() if is_odd else Signing(fail_on_loss=True)
    fake = FakeProvider(Replies(chance.randrange(10**9)), signing=signing)
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
