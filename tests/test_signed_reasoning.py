"""No request is refused because of signed reasoning, and what still holds is sent.

Networks of one to four agents, on one model or several, with random processors, routers, handovers
and edits, run against a `FakeProvider` that signs: Claude refuses thinking over a changed
beginning, GPT-6.2 would remove it in silence, and hosts, accounts and families have signatures of
their own. `SIGNED_EXAMPLES` sets how many networks are tried.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_py import Agent, AgentResult, Lifecycle, Network, State, tool
from agentkit_py.lifecycle import Start, StartContext
from agentkit_py.messages import Message, TextMessage
from agentkit_py.models import (
    Model,
    anthropic,
    azure_openai,
    capabilities_of,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.processors import (
    ByAuthor,
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    DropUnanswered,
    HandoffView,
    KeepImages,
    MessageWindow,
    Pin,
    RecentToolCalls,
    Redact,
    StripImages,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.routing import RouterContext, get_default_routing_agent
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import MemoryHistory, SqliteHistory
from agentkit_py.stores.interchange import export_threads, import_threads
from agentkit_py.testing.provider import FakeProvider, ReceivedRequest, Signing

EXAMPLES = int(os.environ.get("SIGNED_EXAMPLES", "25"))
CHECK = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
AZURE = "https://acme.openai.azure.com"
MODELS: dict[str, Callable[[], Model]] = {
    "opus-5.5": lambda: anthropic("claude-opus-5-5", api_key="sk-a"),
    "fable-5.2": lambda: anthropic("claude-fable-5-2", api_key="sk-a"),
    "sonnet-5.5, another account": lambda: anthropic("claude-sonnet-5-5", api_key="sk-b"),
    "sonnet-5": lambda: anthropic("claude-sonnet-5", api_key="sk-a"),
    "sonnet-4.5": lambda: anthropic("claude-sonnet-4-5", api_key="sk-a"),
    "gpt-6.2": lambda: openai("gpt-6.2-sol", api_key="sk-o"),
    "gpt-6.2-astra": lambda: openai("gpt-6.2-astra", api_key="sk-o"),
    "gpt-5, another account": lambda: openai_responses("gpt-5", api_key="sk-p"),
    "gpt-6.2 at Azure": lambda: azure_openai("gpt-6.2-sol", endpoint=AZURE, api_key="az"),
    "gpt-4.1 in chat": lambda: openai("gpt-4.1", api_key="sk-o"),
    "gemini-3": lambda: gemini("gemini-3-pro", api_key="g"),
    "gemini-4, another account": lambda: gemini("gemini-4-argon", api_key="h"),
    "grok": lambda: grok("grok-4.5", api="responses", api_key="xai"),
    "deepseek": lambda: openai("deepseek-v4", base_url="https://api.deepseek.com", api_key="d"),
    "mistral": lambda: openai("magistral", base_url="https://api.mistral.ai/v1", api_key="m"),
}


def _no_reasoning(messages: Sequence[Message]) -> list[Message]:
    return [m for m in messages if m.type != "reasoning"]


def _less_reasoning(messages: Sequence[Message]) -> list[Message]:
    return [m for number, m in enumerate(messages) if m.type != "reasoning" or number % 3]


def _reversed(messages: Sequence[Message]) -> list[Message]:
    return list(reversed(messages))


PROCESSORS: list[Callable[[], Any]] = [
    lambda: MessageWindow(3),
    lambda: MessageWindow(8),
    lambda: TokenLimiter(60),
    lambda: RecentToolCalls(1),
    lambda: ToolCallFilter(exclude=["look"]),
    lambda: ToolCallFilter(include=["book"]),
    ClearToolResults,
    CompressToolResults,
    lambda: TruncateToolResults(10),
    Deduplicate,
    DropUnanswered,
    HandoffView,
    KeepImages,
    StripImages,
    lambda: ByAuthor(keep=["one"]),
    lambda: Pin(lambda message: message.role == "user"),
    lambda: Redact([re.compile("secret")]),
    lambda: _no_reasoning,
    lambda: _less_reasoning,
    lambda: _reversed,
]


@tool
def look(what: str = "") -> str:
    """Look something up."""
    return f"found {what} secret " * 5


@tool
def book() -> str:
    """Book something."""
    return "booked"


@dataclass
class Replies:
    """A model that thinks in every reply, also between its parts, and calls tools if it likes."""

    seed: int
    thoughts: int = 1
    """The number of thoughts in a reply at the most."""

    count: int = 0

    def __call__(self, received: ReceivedRequest) -> dict[str, Any]:
        """Return the next reply."""
        self.count += 1
        chance = random.Random(f"{self.seed}.{self.count}")  # noqa: S311 - no secret
        many = chance.randint(1, self.thoughts) if self.thoughts > 1 else 1
        thoughts = [f"Thought {self.count}.{number}" for number in range(many)]
        reply: dict[str, Any] = {"reasoning": thoughts}
        offered = _tools_of(received.body)
        if "select_agent" in offered:
            chosen = {"name": chance.choice(["one", "two"])}
            done = chance.random() < 0.4
            call: dict[str, Any] = {"name": "done", "arguments": {}}
            route: dict[str, Any] = call if done else {"name": "select_agent", "arguments": chosen}
            return {**reply, "tool_calls": [route]}
        if chance.random() < 0.7 or not offered:
            reply["text"] = f"Answer {self.count}."
        if offered and (chance.random() < 0.4 or "text" not in reply):
            names = [chance.choice(offered) for _ in range(chance.choice([1, 1, 2]))]
            reply["tool_calls"] = [{"name": name, "arguments": {}} for name in names]
        return reply


def _tools_of(body: Any) -> list[str]:
    found: list[str] = []
    offered: list[dict[str, Any]] = body.get("tools") or []
    for one in offered:
        items: list[dict[str, Any]] = one.get("functionDeclarations", [one])
        found += [item.get("name") or item["function"]["name"] for item in items]
    return found


async def talk(
    network: Network, fake: FakeProvider, questions: int, *, by_results: bool = False
) -> None:
    """Run a network several times on one conversation, in memory or as a client resumes it."""
    state: State[Any] = State()
    runtime = DirectRuntime(transport=fake.transport)
    for number in range(questions):
        run = await network.run(f"Question {number}?", state=state, runtime=runtime)
        if by_results:  # as a store or a client gives them back
            rows = [result.to_dict() for result in run.state.transcript]
            state = State(results=[AgentResult.from_dict(row) for row in rows])
        else:
            state = run.state


@dataclass
class World:
    """A random network."""

    seed: int
    models: Sequence[str]
    agents: int
    chains: bool = True
    edits: bool = False
    by_model: bool = False
    prefix: Literal["auto", "shared", "own"] = "auto"

    def network(self) -> Network:
        """Return it."""
        chance = random.Random(self.seed)  # noqa: S311 - no secret
        names = ["one", "two", "three", "four"][: self.agents]
        agents = [self._agent(name, chance) for name in names]
        turns = [chance.choice(agents) for _ in range(3)]

        def route(context: RouterContext) -> Any:
            return turns[context.call_count] if context.call_count < len(turns) else None

        model = MODELS[self.models[0]]()
        router: Any = get_default_routing_agent() if self.by_model else route
        processors = self._chain(chance)
        return Network(
            name="net",
            agents=agents,
            router=router,
            default_model=model,
            processors=processors,
            prefix=self.prefix,
            max_iter=4,
        )

    def _agent(self, name: str, chance: random.Random) -> Agent:
        model = MODELS[chance.choice(self.models)]()
        system = chance.choice([f"You are {name}.", "You help."])
        tools = chance.choice([[look, book], [look], []])
        hooks = Lifecycle(on_start=_edit) if self.edits and chance.random() < 0.5 else Lifecycle()
        return Agent(
            name=name,
            system=system,
            tools=tools,
            model=model,
            processors=self._chain(chance),
            lifecycle=hooks,
            assistant="So" if self.edits and chance.random() < 0.3 else "",
            max_iter=3,
        )

    def _chain(self, chance: random.Random) -> list[Any]:
        if not self.chains:
            return []
        return [make() for make in chance.sample(PROCESSORS, chance.choice([0, 0, 1, 1, 2]))]


def _edit(context: StartContext) -> Start:
    """Put a note before the history, and drop what is older."""
    note: Message = TextMessage("user", f"Note {len(context.history) // 4}.")
    return Start(context.prompt, [note, *context.history[len(context.history) // 6 :]])


def run(world: World, *, by_results: bool = False, questions: int = 3) -> FakeProvider:
    """Let a world talk, and return what the provider saw; nothing was refused or lost."""
    replies = Replies(world.seed, thoughts=3 if world.chains else 1)
    fake = FakeProvider(replies, signing=Signing(fail_on_loss=True))
    asyncio.run(talk(world.network(), fake, questions, by_results=by_results))
    assert fake.rejections == []
    assert fake.requests
    return fake


models = st.lists(st.sampled_from(sorted(MODELS)), min_size=1, max_size=3)
seeds = st.integers(0, 10**9)
prefixes = st.sampled_from(["auto", "shared", "own"])


@CHECK
@given(seeds, models, st.integers(1, 4), st.booleans(), st.booleans(), prefixes)
def test_nothing_is_refused_whatever_processors_and_hooks_do(
    seed: int, names: list[str], agents: int, edits: bool, by_results: bool, prefix: Any
) -> None:
    """Editing history per agent is the product; the reasoning that it costs is left out."""
    run(World(seed, names, agents, edits=edits, prefix=prefix), by_results=by_results)


@CHECK
@given(seeds, models)
def test_nothing_is_refused_where_a_model_chooses_the_agents(seed: int, names: list[str]) -> None:
    """The default router forces a call, which the newest models refuse."""
    run(World(seed, names, 2, by_model=True))


def blocks_of(received: ReceivedRequest) -> list[str]:
    """Return the reasoning in a request."""
    body = received.body
    if "input" in body:
        return [
            str(item["encrypted_content"])
            for item in body["input"]
            if item.get("encrypted_content")
        ]
    turns = [m["content"] for m in body.get("messages", []) if isinstance(m["content"], list)]
    return [block["signature"] for turn in turns for block in turn if block["type"] == "thinking"]


STRICT = Signing(fail_on_loss=True)
CHECKING = ["opus-5.5", "fable-5.2", "gpt-6.2"]


@CHECK
@given(seeds, st.sampled_from(CHECKING), st.integers(1, 4), st.booleans())
def test_all_reasoning_of_an_agent_is_sent_where_nothing_edits_the_history(
    seed: int, name: str, agents: int, by_results: bool
) -> None:
    """Each agent's beginning grows by appending, also when others speak between its turns."""
    world = World(seed, [name], agents, chains=False)
    fake = run(world, by_results=by_results)
    seen: dict[str, list[str]] = {}
    for received in fake.requests:
        head = str([received.body.get("system"), received.body.get("tools")])
        if "input" in received.body:
            head = str([received.body["input"][0], received.body.get("tools")])
        before, now = seen.get(head, []), blocks_of(received)
        assert now[: len(before)] == before
        # The reply to the request before is there too, as nothing was edited.
        assert len(now) == len(before) + (head in seen)
        seen[head] = now


def test_a_changed_system_prompt_costs_the_reasoning_and_the_report_says_why() -> None:
    """A user who wonders why a model thinks worse finds the reason."""
    fake = FakeProvider(Replies(1), signing=Signing(fail_on_loss=True))
    words = iter(["Be short.", "Be long."])
    agent = Agent(name="a", system=lambda _: next(words), model=MODELS["opus-5.5"]())
    runtime = DirectRuntime(transport=fake.transport)

    async def twice() -> AgentResult:
        state: State[Any] = State()
        await agent.run("One?", state=state, runtime=runtime)
        return await agent.run("Two?", state=state, runtime=runtime)

    result = asyncio.run(twice())
    assert fake.rejections == []
    assert result.context is not None
    entry = result.context.entries[-1]
    assert (entry.level, entry.name) == ("reasoning", "reasoning")
    assert "1 because the system prompt or the tools differ" in entry.reason


def test_the_report_names_the_processor_that_cost_the_reasoning() -> None:
    """A window cuts the beginning."""
    fake = FakeProvider(Replies(3), signing=Signing(fail_on_loss=True))
    agent = Agent(name="a", system="S", model=MODELS["opus-5.5"](), processors=[MessageWindow(4)])
    runtime = DirectRuntime(transport=fake.transport)

    async def often() -> AgentResult:
        state: State[Any] = State()
        for number in range(3):
            await agent.run(f"{number}?", state=state, runtime=runtime)
        return await agent.run("3?", state=state, runtime=runtime)

    entries = asyncio.run(often()).context
    assert fake.rejections == []
    assert entries is not None
    said = entries.entries[-1].reason
    assert "the messages before it differ" in said
    assert "MessageWindow (agent)" in said


def test_a_key_that_changes_costs_the_reasoning_unless_the_account_has_a_name() -> None:
    """Signatures belong to an account; nobody can tell from a new key that it is the same."""
    signing = Signing(fail_on_loss=True, accounts={"sk-1": "acme", "sk-2": "acme"})
    for label, kept in (("acme", 1), (None, 0)):
        fake = FakeProvider(Replies(5), signing=signing)
        runtime = DirectRuntime(transport=fake.transport)
        state: State[Any] = State()

        async def ask(key: str, label: str | None = label, state: State[Any] = state) -> None:
            model = openai("gpt-6.2-sol", api_key=key, account=label)
            await Agent(name="a", system="S", model=model).run(
                "?",
                state=state,
                runtime=runtime,  # noqa: B023 - awaited at once
            )

        asyncio.run(ask("sk-1"))
        asyncio.run(ask("sk-2"))
        assert fake.rejections == []
        assert len(blocks_of(fake.requests[-1])) == kept
        rows = str([result.to_dict() for result in state.results])
        assert "sk-1" not in rows


def test_a_refusal_that_names_reasoning_is_healed_once_and_not_repeated() -> None:
    """A thread with reasoning that a provider no longer takes continues."""
    replies = Replies(9)
    fake = FakeProvider(replies)
    moved = FakeProvider(replies, signing=Signing(accounts={"sk-1": "other"}))
    model = openai("gpt-6.2-sol", api_key="sk-1")
    agent = Agent(name="a", system="S", model=model)
    state: State[Any] = State()

    async def ask(provider: FakeProvider) -> AgentResult:
        runtime = DirectRuntime(transport=provider.transport)
        return await agent.run("?", state=state, runtime=runtime)

    asyncio.run(ask(fake))
    assert len(fake.requests) == 1
    healed = asyncio.run(ask(moved))
    assert [one.code for one in moved.rejections] == ["invalid_encrypted_content"]
    assert [len(blocks_of(one)) for one in moved.requests] == [1, 0]
    assert healed.context is not None
    assert "refused" in healed.context.entries[-1].reason
    rows = [result.to_dict() for result in state.transcript]
    state = State(results=[AgentResult.from_dict(row) for row in rows])
    asyncio.run(ask(moved))
    assert len(moved.rejections) == 1
    assert len(blocks_of(moved.requests[-1])) == 1  # its own, made since


@pytest.mark.parametrize("name", CHECKING)
@pytest.mark.parametrize("form", ["archive", "openai"])
async def test_the_binding_survives_a_store_and_its_export(
    name: str, form: Literal["archive", "openai"], tmp_path: Path
) -> None:
    """A thread that moves keeps its reasoning."""
    fake = FakeProvider(lambda _: {"reasoning": "Hm.", "text": "Yes."}, signing=STRICT)
    runtime = DirectRuntime(transport=fake.transport)
    async with SqliteHistory(tmp_path / "one.db") as store, MemoryHistory() as other:
        agent = Agent(name="a", system="S", model=MODELS[name](), history=store)
        state: State[Any] = State()
        for question in ("One?", "Two?"):
            state = State(thread_id=state.thread_id)
            await agent.run(question, state=state, runtime=runtime)
        threads = await store.list_threads()
        lines = [line async for line in export_threads(store, threads, form)]
        await import_threads(other, lines)
        moved = Agent(name="a", system="S", model=MODELS[name](), history=other)
        await moved.run("Three?", state=State(thread_id=state.thread_id), runtime=runtime)
    assert fake.rejections == []
    assert [len(blocks_of(one)) for one in fake.requests] == [0, 1, 2]


@pytest.mark.parametrize("name", ["sonnet-5", "sonnet-4.5"])
async def test_a_model_that_signs_continues_after_the_thinking_of_a_model_that_does_not(
    name: str,
) -> None:
    """Both are written the same conversation in the same form, to the last byte."""
    fake = FakeProvider(lambda _: {"reasoning": "Hm.", "text": "Yes."}, signing=STRICT)
    runtime = DirectRuntime(transport=fake.transport)
    state: State[Any] = State()
    for model in (name, name, "opus-5.5"):
        agent = Agent(name="a", system="S", model=MODELS[model]())
        await agent.run("?", state=state, runtime=runtime)
    assert fake.rejections == []
    assert [len(blocks_of(one)) for one in fake.requests] == [0, 1, 2]


@pytest.mark.parametrize(("name", "kept"), [("opus-5.5", 0), ("sonnet-5", 1), ("gpt-6.2", 0)])
async def test_old_rows_are_sent_to_models_that_check_nothing(name: str, kept: int) -> None:
    """A thread of version 0.1 says nothing of what its reasoning is bound to."""
    fake = FakeProvider(lambda _: {"reasoning": "Hm.", "text": "Yes."}, signing=STRICT)
    runtime = DirectRuntime(transport=fake.transport)
    agent = Agent(name="a", system="S", model=MODELS[name]())
    state: State[Any] = State()
    await agent.run("One?", state=state, runtime=runtime)
    rows: list[dict[str, Any]] = [result.to_dict() for result in state.transcript]
    for message in [message for row in rows for message in row["output"]]:
        message.get("providerMetadata", {}).pop("origin", None)
    old: State[Any] = State(results=[AgentResult.from_dict(row) for row in rows])
    assert "origin" not in str([result.to_dict() for result in old.transcript])
    await agent.run("Two?", state=old, runtime=runtime)
    assert fake.rejections == []
    assert len(blocks_of(fake.requests[-1])) == kept


CLAUDES = ["fable-5.2", "opus-5.5", "sonnet-5", "sonnet-4.5"]
LESS: dict[str, dict[int, list[int]]] = {
    "the first": {0: []},
    "the last": {2: []},
    "all": {0: [], 1: [], 2: []},
    "the order": {0: [2], 2: [0]},
    "the number": {2: [2, 2]},
    "nothing": {},
}
"""Changes of a reply's three thoughts: which ones stand in the place of one."""


@pytest.mark.parametrize("name", CLAUDES)
@pytest.mark.parametrize("change", LESS)
async def test_thinking_of_a_reply_that_waits_for_results_goes_back_whole_or_not_at_all(
    name: str, change: str
) -> None:
    """Claude refuses the rest, which nobody can see in it: "blocks … cannot be modified"."""
    calls: list[dict[str, Any]] = [{"name": "look", "arguments": {}}]
    thoughts = ["One.", "Two.", "Three."]
    fake = FakeProvider(
        [{"reasoning": thoughts, "text": "So.", "tool_calls": calls * 2}, "Yes."], signing=STRICT
    )
    runtime = DirectRuntime(transport=fake.transport)
    agent = Agent(name="a", system="S", tools=[look], model=MODELS[name](), max_iter=1)
    state: State[Any] = State()
    await agent.run("?", state=state, runtime=runtime)
    rows: list[dict[str, Any]] = [result.to_dict() for result in state.transcript]
    said = rows[-1]["output"]
    places = [n for n, message in enumerate(said) if message["type"] == "reasoning"]
    edited = {places[n]: [places[one] for one in to] for n, to in LESS[change].items()}
    rows[-1]["output"] = [said[one] for n in range(len(said)) for one in edited.get(n, [n])]
    state = State(results=[AgentResult.from_dict(row) for row in rows])
    await agent.run("And?", state=state, runtime=runtime)
    assert fake.rejections == []
    assert [len(blocks_of(one)) for one in fake.requests] == [0, 0 if LESS[change] else 3]


@pytest.mark.parametrize("name", CLAUDES)
async def test_thoughts_between_the_parts_of_a_reply_keep_their_places(name: str) -> None:
    """Newer models write progress before each call."""
    calls = [{"name": "look", "arguments": {"what": what}} for what in "xy"]
    fake = FakeProvider(
        [{"reasoning": ["One.", "Two."], "text": "So.", "tool_calls": calls}, "Yes.", "Yes."],
        signing=STRICT,
    )
    agent = Agent(name="a", system="S", tools=[look], model=MODELS[name]())
    state: State[Any] = State()
    for _ in range(2):
        await agent.run("?", state=state, runtime=DirectRuntime(transport=fake.transport))
    for received in fake.requests[1:]:
        kinds = [block["type"] for block in received.body["messages"][1]["content"]]
        assert kinds == ["thinking", "text", "thinking", "tool_use", "tool_use"]


def test_the_models_of_the_test_are_those_that_check() -> None:
    """The table may change; what this file is about must not go away."""
    assert all(
        capabilities_of(model().model).checks_prefix for model in map(MODELS.__getitem__, CHECKING)
    )
