"""Networks whose requests begin alike whichever agent's turn it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agentkit_py import Agent, Lifecycle, Network, NetworkRun, State, create_network, explain, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Messages
from agentkit_py.models import Model, anthropic, gemini, grok, openai
from agentkit_py.models.binding import unmarked
from agentkit_py.processors import ByAuthor, MessageWindow, Processor
from agentkit_py.routing import RouterContext
from agentkit_py.testing import FakeProvider, ReceivedRequest, Signing

from .runner import Runner

NAMES = ("desk", "billing", "courier", "manager")
SIGNING: dict[str, Model] = {
    "claude": anthropic("claude-opus-5-5", api_key="sk-a"),
    "gpt": openai("gpt-6.2-sol", api_key="sk-o"),
}
CALLED: list[str] = []
WHOLE = 0.968
"""Of 25 turns' bytes, those that were sent before as a beginning, where nothing is cut."""

LONG = pytest.mark.direct_only(
    "25 turns as functions, which pass too, take 30 s; the shorter ones run in both ways"
)


@tool
def track(parcel: int = 0) -> str:
    """Say where a parcel is."""
    CALLED.append("track")
    return f"Parcel {parcel} is in Linz. " * 8


@tool
def refund() -> str:
    """Give the money back."""
    CALLED.append("refund")
    return "refunded"


@tool
def escalate() -> str:
    """Write to the head of the depot."""
    return "sent"


@tool(name="track")
def other_track() -> str:
    """Say something else."""
    return "?"


TOOLS = {"desk": [track], "billing": [refund], "manager": [escalate]}


def agents(*names: str, **options: Any) -> list[Agent]:
    """Return agents with a prompt and tools of their own."""
    return [
        Agent(
            name=name,
            system=f"You are {name}. " + f"Mind the rules of {name}. " * 12,
            tools=TOOLS.get(name, []),
            **options,
        )
        for name in names
    ]


def network(model: Model, members: Sequence[Agent], **options: Any) -> Network:
    """Return a network whose agents speak one after the other."""

    def route(context: RouterContext) -> Agent | None:
        return members[context.call_count] if context.call_count < len(members) else None

    return Network(name="support", agents=members, router=route, default_model=model, **options)


def thinks(received: ReceivedRequest) -> dict[str, Any]:
    """Think; look something up where that was not done since the question, then answer."""
    items = received.body.get("input") or received.body["messages"]
    number = len(items)
    said = json.dumps(items)
    acting, said = said.rpartition("you are the agent ")[2], said.rpartition("Question")[2]
    reasoning = f"Thought {number}. " * 6
    if "Parcel" not in said and acting.startswith("desk"):
        call = {"name": "track", "arguments": {"parcel": number}}
        return {"reasoning": reasoning, "tool_calls": [call]}
    return {"reasoning": reasoning, "text": f"Answer {number}. " * 10}


def strict(reply: Any = thinks) -> FakeProvider:
    """Return a provider that refuses whatever a real one would leave out in silence."""
    return FakeProvider(reply, signing=Signing(fail_on_loss=True))


def rota(model: Model, **options: Any) -> Network:
    """Return a network of four agents, two of whom, by turns, answer each question."""
    members = agents(*NAMES)

    def route(context: RouterContext) -> Agent | None:
        asked = sum(entry.agent_name == "user" for entry in context.state.transcript)
        return members[(asked + context.call_count) % 4] if context.call_count < 2 else None

    return Network(name="support", agents=members, router=route, default_model=model, **options)


async def ask(
    runner: Runner, item: Network, fake: FakeProvider, questions: int
) -> list[NetworkRun]:
    """Ask a network on one state."""
    state: State[Any] = State()
    assert isinstance(item.default_model, Model)
    item = replace(item, default_model=replace(item.default_model, transport=fake.transport))
    return [
        await runner.run(item, f"Question {number}? " * 5, state=state)
        for number in range(questions)
    ]


def content(received: ReceivedRequest) -> bytes:
    """Return what providers compare with earlier requests, in their order."""
    body = received.body
    items = body.get("input") or body["messages"]
    said = unmarked([body.get("tools"), body.get("system"), items])
    return json.dumps(said)[:-2].encode()


def common(one: bytes, other: bytes) -> int:
    """Return the length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def shares(fake: FakeProvider) -> tuple[float, float, int]:
    """Return the share of bytes sent before, also without requests after a cut, and their count."""
    sent = [content(received) for received in fake.requests]
    again = [0] + [common(one, two) for one, two in pairwise(sent)]
    cut = [n for n in range(1, len(sent)) if again[n] < len(sent[n - 1])]
    rest = [n for n in range(len(sent)) if n not in cut]
    every = sum(again) / sum(map(len, sent))
    return every, sum(again[n] for n in rest) / sum(len(sent[n]) for n in rest), len(cut)


def entries(runs: Sequence[NetworkRun], level: str) -> list[str]:
    """Return what reports say at a level."""
    reports = [result.context for run in runs for result in run.results]
    return [e.reason for r in reports if r is not None for e in r.entries if e.level == level]


@LONG
@pytest.mark.parametrize("name", SIGNING)
async def test_25_turns_of_four_agents_send_95_percent_again_and_lose_no_reasoning(
    runner: Runner, name: str
) -> None:
    """Whoever's turn it is, the request is the one before with something behind it."""
    fake = strict()
    runs = await ask(runner, rota(SIGNING[name], prefix="shared"), fake, 25)
    assert fake.rejections == []
    assert entries(runs, "reasoning") == []
    every, _, cut = shares(fake)
    assert cut == 0
    assert every >= WHOLE >= 0.95


@LONG
@pytest.mark.parametrize("size", [40, 60])
@pytest.mark.parametrize("name", SIGNING)
async def test_a_window_cuts_rarely_and_at_turns_of_the_user(
    runner: Runner, name: str, size: int
) -> None:
    """A cut costs all agents their reasoning, so one request in ten follows a cut at most.

    Between cuts at least 0.95 of the share of the whole history was sent before.
    """
    fake = strict()
    item = rota(SIGNING[name], prefix="shared", processors=[MessageWindow(size)])
    runs = await ask(runner, item, fake, 25)
    assert fake.rejections == []
    assert entries(runs, "prefix") == []
    _, without_cuts, cut = shares(fake)
    assert 0 < cut <= len(fake.requests) / 10
    assert without_cuts >= 0.95 * WHOLE
    for run in runs:
        for result in run.results:
            assert result.context is not None
            others = [m for m in result.context.sent if m.role != "system"]
            assert len([m for m in others if m.type != "reasoning"]) <= size
            first = others[0]
            assert first.role == "user"


async def test_each_agent_reads_its_name_and_the_tools_it_may_call(runner: Runner) -> None:
    """Claude gets system messages with tools that come and go, the text of each agent once."""
    fake = strict()
    model = replace(SIGNING["claude"], transport=fake.transport)
    state: State[Any] = State()
    item = network(model, agents("desk", "billing"), prefix="shared")
    done = await runner.run(item, "Question?", state=state)
    await runner.run(item, "Question again?", state=State(results=list(done.state.transcript)))
    assert fake.rejections == []
    body = fake.requests[-1].body
    assert "Several agents" in str(body["system"])
    assert [one["name"] for one in body["tools"]] == ["track", "refund"]
    inside = [m["content"] for m in body["messages"] if m["role"] == "system"]
    assert [blocks[0]["text"].partition("\n")[0] for blocks in inside] == [
        "From here on you are the agent desk.",
        "From here on you are the agent billing.",
        "From here on you are the agent desk again, as described above.",
        "From here on you are the agent billing again, as described above.",
    ]
    changes = [
        [(block["type"], block["tool"]["name"]) for block in blocks[1:]] for blocks in inside
    ]
    over = [("tool_removal", "track"), ("tool_addition", "refund")]
    back = [("tool_removal", "refund"), ("tool_addition", "track")]
    assert changes == [[("tool_removal", "refund")], over, back, over]
    betas = {received.headers["anthropic-beta"] for received in fake.requests}
    assert betas == {"mid-conversation-tool-changes-2026-07-01"}


async def test_a_reply_that_says_nothing_leaves_no_user_behind_a_system_message(
    runner: Runner,
) -> None:
    """Claude takes an assistant's turn there only, and white space is none."""
    fake = strict(["Yes.", {"reasoning": "Hm.", "text": " "}, "Yes.", "Yes."])
    model = replace(SIGNING["claude"], transport=fake.transport)
    state: State[Any] = State()
    for question in ("One?", "Two?"):
        item = network(model, agents("desk", "billing"), prefix="shared")
        state = (await runner.run(item, question, state=state)).state
    assert fake.rejections == []
    roles = [message["role"] for message in fake.requests[-1].body["messages"]]
    begun = ["user", "system", "assistant", "user", "system", "assistant", "user", "system"]
    assert roles == [*begun, "assistant", "user", "system"]


async def test_openai_gets_the_allowed_tools_in_the_tool_choice(runner: Runner) -> None:
    """The choice is no part of the beginning; the tools are."""
    fake = strict()
    model = replace(SIGNING["gpt"], transport=fake.transport)
    await runner.run(network(model, agents(*NAMES[:3]), prefix="shared"), "Question?")
    assert fake.rejections == []
    choices = [received.body["tool_choice"] for received in fake.requests]
    functions = [{"type": "function", "name": "track"}], [{"type": "function", "name": "refund"}]
    desk, billing = [{"type": "allowed_tools", "mode": "auto", "tools": f} for f in functions]
    assert choices == [desk, desk, billing, "none"]
    assert len({json.dumps(received.body["tools"]) for received in fake.requests}) == 1


async def test_a_call_of_another_agents_tool_is_refused_and_not_run(runner: Runner) -> None:
    """The wire shows all tools, and each agent may call its own only."""
    CALLED.clear()
    call: dict[str, Any] = {"tool_calls": [{"name": "refund", "arguments": {}}]}
    fake = strict([call, "I cannot.", "Fine."])
    model = replace(SIGNING["claude"], transport=fake.transport)
    run = await runner.run(network(model, agents("desk", "billing"), prefix="shared"), "Question?")
    assert CALLED == []
    (answer,) = run.results[0].tool_calls
    assert "'refund' is a tool of 'billing'; you are 'desk'. Available: track." in str(
        answer.content
    )


async def test_who_may_not_see_all_keeps_a_prefix_of_its_own(runner: Runner) -> None:
    """A processor hides words from an agent, and its own prompt and tools from nobody else."""
    fake = strict()
    model = replace(SIGNING["claude"], transport=fake.transport)
    desk, billing, courier = agents("desk", "billing", "courier")
    billing.processors = [ByAuthor(keep=["billing"])]
    run = await runner.run(network(model, [desk, billing, courier], prefix="shared"), "Question?")
    assert fake.rejections == []
    first, _, own, last = (json.dumps(received.body) for received in fake.requests)
    assert "Several agents" not in own
    assert "Answer" not in own
    for shared in (first, last):
        assert "Several agents" in shared
        assert "rules of billing" not in shared
        assert "refund" not in shared
    said = "a prefix of its own: ByAuthor may hide something from it"
    assert entries([run], "prefix") == [said]
    assert [f"; prefix: {said}" in str(report) for report in run.context].count(True) == 1


def _nothing(context: Any) -> None:
    del context


def _same(messages: Messages) -> Messages:
    return messages


def _odd() -> dict[str, dict[str, Any]]:
    return {
        "its system prompt is a function": {"system": lambda: "S"},
        "its on_start may change its messages": {"lifecycle": Lifecycle(on_start=_nothing)},
        "its rights are a function": {"allowed_tools": _nothing},
        "its hosted tools could be called": {"hosted_tools": ["web_search"]},
        "it begins its answers itself": {"assistant": "So"},
        "its tool_choice is part": {"tool_choice": "any"},
        "may hide something from it": {"processors": [_same]},
        "another agent has another tool 'track'": {"tools": [other_track]},
    }


@pytest.mark.parametrize("reason", _odd())
async def test_an_agent_that_is_not_known_before_its_turn_keeps_its_own(reason: str) -> None:
    """The report of what it would be sent says why."""
    options: dict[str, Any] = {"system": "You are odd.", **_odd()[reason]}
    odd = Agent(name="odd", **options)
    item = network(SIGNING["claude"], [*agents("desk", "billing"), odd], prefix="shared")
    report = await explain(item, "odd", input="?")
    said = [entry.reason for entry in report.entries if entry.level == "prefix"]
    assert len(said) == 1
    assert reason in said[0]
    other = await explain(item, "desk", input="?")
    assert "Several agents" in str(other.sent)
    assert "You are odd" not in str(other.sent)


@pytest.mark.parametrize(
    "model",
    [
        anthropic("claude-sonnet-5", api_key="k"),
        anthropic("claude-opus-5-5", api_key="k", base_url="https://gateway.example.com/v1"),
        gemini("gemini-3-pro", api_key="k"),
        openai("gpt-4.1", api_key="k"),
        openai("deepseek-v4", base_url="https://api.deepseek.com", api_key="k"),
    ],
    ids=lambda model: f"{model.model} at {model.base_url.partition('//')[2]}",
)
async def test_models_that_take_no_system_messages_inside_are_sent_the_ordinary_way(
    runner: Runner,
    model: Model,
) -> None:
    """One network works with every model."""
    bodies: list[list[Any]] = []
    for prefix in ("shared", "own"):
        fake = FakeProvider(lambda _: "Fine.")
        item = network(model, agents("desk", "billing"), prefix=prefix)
        await ask(runner, item, fake, 2)
        assert fake.rejections == []
        bodies.append([received.body for received in fake.requests])
    assert bodies[0] == bodies[1]


async def test_a_host_without_restrictions_of_tools_gets_them_in_words(runner: Runner) -> None:
    """Grok takes system messages anywhere; nobody documents allowed tools there."""
    fake = strict()
    model = grok("grok-4.5", api="responses", api_key="x")
    await ask(runner, network(model, agents("desk", "billing"), prefix="shared"), fake, 2)
    assert fake.rejections == []
    assert {received.body["tool_choice"] for received in fake.requests} == {"auto"}
    assert "Your tools: refund." in json.dumps(fake.requests[-1].body)


async def is_shared(item: Network) -> bool:
    """Return whether the second agent's request would have the common beginning."""
    name = item.agents[-1].name
    return "Several agents" in str((await explain(item, name, input="?")).sent)


async def test_a_prefix_is_shared_by_itself_where_nothing_is_hidden() -> None:
    """Same signing model, no processors, more than one agent."""
    members = agents("desk", "billing")
    claude, gpt = SIGNING["claude"], SIGNING["gpt"]
    assert await is_shared(network(claude, members))
    assert not await is_shared(network(claude, members, prefix="own"))
    assert not await is_shared(network(claude, agents("desk")))
    assert not await is_shared(network(claude, members, processors=[MessageWindow(9)]))
    assert not await is_shared(network(claude, members, history_mode="typescript"))
    assert not await is_shared(network(openai("gpt-5", api_key="k"), members))
    mixed = [*agents("desk"), *agents("billing", model=gpt)]
    assert not await is_shared(network(claude, mixed))
    assert await is_shared(network(claude, mixed, prefix="shared"))
    hiding: list[Processor] = [ByAuthor(keep=["billing"])]
    assert not await is_shared(network(claude, agents("desk", "billing", processors=hiding)))
    assert not await is_shared(create_network(name="n", agents=members, default_model=claude))


def test_a_prefix_that_is_no_choice_is_refused() -> None:
    """TypeScript's order puts the question before the history, so that nothing only grows."""
    with pytest.raises(ConfigurationError, match="'auto', 'shared' or 'own', got 'both'"):
        network(SIGNING["gpt"], agents("desk"), prefix="both")
    with pytest.raises(ConfigurationError, match="prefix='shared' needs requests that grow"):
        network(SIGNING["gpt"], agents("desk"), prefix="shared", history_mode="typescript")
