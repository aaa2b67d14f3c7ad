"""A state that holds only the newest results of its thread behaves like one that holds all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from agentkit_py import Agent, AgentResult, Network, RouterContext, State, TextMessage
from agentkit_py.errors import InvalidRecordError
from agentkit_py.lifecycle import AgentContext
from agentkit_py.messages import Message
from agentkit_py.processors import (
    ApproximateTokenizer,
    HistoryProcessor,
    MessageWindow,
    Pin,
    ProcessorContext,
    StripImages,
    TokenLimiter,
)
from agentkit_py.stores import HistoryStore, MemoryHistory
from agentkit_py.testing import ScriptedModel

LENGTH = 200
Look = Callable[[HistoryStore], Awaitable[Any]]


async def both(look: Look) -> list[Any]:
    """Return the look's result with lazy loading and without."""
    found: list[Any] = []
    for store in (MemoryHistory(), MemoryHistory(lazy=False)):
        await store.add_thread("t")
        await store.append("t", [said(number) for number in range(LENGTH)])
        found.append(await look(store))
    return found


def said(number: int) -> AgentResult:
    """Questions and answers."""
    if number % 2 == 0:
        return AgentResult.from_user(f"q{number}", id=f"r{number}")
    return AgentResult("desk", [TextMessage("assistant", f"a{number}")], id=f"r{number}")


def desk(*processors: HistoryProcessor, **options: Any) -> Agent:
    """An agent that says the same again and again."""
    return Agent(
        name="desk",
        system=options.pop("system", "S"),
        model=ScriptedModel(*["hello"] * 3),
        processors=processors,
        token_counter=ApproximateTokenizer(),
        **options,
    )


def net(
    store: HistoryStore, agent: Agent, first: Callable[[State[Any]], object] | None = None
) -> Network:
    """A network that runs its agent once; ``first`` is done with the state before that."""

    def router(context: RouterContext) -> Agent | None:
        if context.call_count:
            return None
        if first is not None:
            first(context.network.state)
        return agent

    return Network(name="net", agents=[agent], router=router, history=store)


def sent(agent: Agent, request: int = 0) -> list[str]:
    """The texts that the model got."""
    assert isinstance(agent.model, ScriptedModel)
    return [str(message["content"]) for message in agent.model.bodies[request]["messages"]]


CHANGES: dict[str, Callable[[Sequence[AgentResult]], Sequence[AgentResult]]] = {
    "all": lambda results: [],
    "all but the newest": lambda results: results[-3:],
    "the newest": lambda results: results[:-2],
    "nothing": lambda results: results,
}


@pytest.mark.parametrize("name", CHANGES)
async def test_results_that_a_router_removes_do_not_come_back(name: str) -> None:
    """Older results that were not loaded are not put before a list that somebody made new."""

    async def look(store: HistoryStore) -> list[str]:
        agent = desk(TokenLimiter(10**6))
        network = net(store, agent, lambda s: s.set_results(CHANGES[name](s.results)))
        await network.run("hi", thread_id="t")
        return sent(agent)

    lazy, eager = await both(look)
    assert lazy == eager


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_state_that_is_handed_on_is_whole(as_json: bool) -> None:
    """The next run may want to see more of the thread than the one that loaded it."""

    async def look(store: HistoryStore) -> list[list[str]]:
        agent, other = desk(MessageWindow(20)), desk(MessageWindow(90, lower=61))
        state = (await net(store, agent).run("hi", thread_id="t")).state
        for turn in "bc":
            state = State.from_dict(state.to_dict()) if as_json else state.clone()
            state = (await net(store, other).run(turn, state=state)).state
        assert state.not_loaded + len(state.transcript) == LENGTH + 6
        assert state.transcript[-1].id == (await store.load("t"))[-1].id
        return [sent(agent), sent(other), sent(other, 1)]

    lazy, eager = await both(look)
    assert lazy == eager


async def test_a_state_of_another_store_has_nothing_more() -> None:
    """The state has no part of a thread that could be loaded from this store."""
    store = MemoryHistory()
    agent = desk(TokenLimiter(10**6))
    state = State(results=[said(3)], thread_id="t")
    state.not_loaded = 3
    await net(store, agent).run("hi", state=state)
    assert sent(agent) == ["S", "a3", "hi"]
    assert state.not_loaded == 0


def test_how_much_is_not_loaded_is_a_number() -> None:
    """A plain state has the number, too."""
    for odd in (-1, "3", True):
        with pytest.raises(InvalidRecordError):
            State.from_dict({"data": {}, "notLoaded": odd})


UNBOUNDED: list[list[HistoryProcessor]] = [
    [],
    [StripImages()],
    [Pin(lambda message: message.role == "user"), TokenLimiter(60)],
]


@pytest.mark.parametrize("chain", UNBOUNDED, ids=["none", "no bound", "pins"])
async def test_where_nothing_bounds_the_history_all_is_there_from_the_start(
    chain: list[HistoryProcessor],
) -> None:
    """A router or prompt that looks at the results sees all of them."""

    async def look(store: HistoryStore) -> list[int]:
        counts: list[int] = []

        def system(context: AgentContext) -> str:
            counts.append(len(context.state.transcript))
            return "S"

        agent = desk(*chain, system=system)
        await net(store, agent, lambda s: counts.append(len(s.transcript))).run("a", thread_id="t")
        alone = desk(*chain, system=system, history=store)
        await alone.run("b", thread_id="t")
        return counts

    lazy, eager = await both(look)
    assert lazy == eager == [LENGTH + 1, LENGTH + 1, LENGTH + 3]


async def test_a_state_says_how_much_is_not_loaded() -> None:
    """Routers and hooks count with it."""
    found: list[int] = []

    async def look(store: HistoryStore) -> None:
        def count(state: State[Any]) -> None:
            found.append(state.not_loaded + len(state.transcript))

        await net(store, desk(TokenLimiter(20)), count).run("a", thread_id="t")

    await both(look)
    assert found == [LENGTH + 1, LENGTH + 1]


class First(TokenLimiter):
    """Keeps the first message of the thread, and inherits what the limiter says of itself."""

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return the first message and those that the limiter leaves."""
        return [messages[0], *(await super().process(messages, context))]


class Counted(StripImages):
    """Inherits that it does not look back, and does."""

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Add the number of messages at the end."""
        return [*messages, TextMessage("user", f"{len(messages)} before")]


@pytest.mark.parametrize("chain", [[First(60)], [Counted(), TokenLimiter(60)]], ids=repr)
async def test_a_subclass_with_its_own_process_gets_everything(
    chain: list[HistoryProcessor],
) -> None:
    """The needs that a base class declares do not hold for a subclass's own `process`."""

    async def look(store: HistoryStore) -> list[str]:
        agent = desk(*chain)
        await net(store, agent).run("hi", thread_id="t")
        return sent(agent)

    lazy, eager = await both(look)
    assert lazy == eager
