"""Growth: a message makes few calls of this package's functions, and no deep stack of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import pytest

import agentkit_py
from agentkit_py import Agent, AgentResult, MemoryHistory, Network, TextMessage, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.processors import MessageWindow
from agentkit_py.routing import once
from agentkit_py.testing import FakeProvider, ScriptedModel

HOME = f"{Path(agentkit_py.__file__).parent}/"


@dataclass
class Calls:
    """The calls of the package's functions by file, without its kit for tests, and their depth."""

    files: Counter[str] = field(default_factory=Counter[str])
    depth: int = 0

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(HOME) or name.startswith(f"{HOME}testing/"):
            return
        self.files[name.removeprefix(HOME)] += 1
        own, outer = 0, frame
        while outer is not None:
            own += outer.f_code.co_filename.startswith(HOME)
            outer = outer.f_back
        self.depth = max(self.depth, own)

    async def of(self, work: Awaitable[object]) -> None:
        """Count while the work is done."""
        before = sys.getprofile()
        sys.setprofile(self._see)
        try:
            await work
        finally:
            sys.setprofile(before)


def _network() -> Network:
    provider = FakeProvider(["warm", "hello"])
    model = replace(openai("gpt-4o", api_key="k"), transport=provider.transport)
    agent = Agent(name="a", system="s", model=model)
    return Network(name="n", agents=[agent], router=once(agent))


async def test_a_message_makes_few_calls_of_few_frames() -> None:
    """A network of one agent, no store, one model call over HTTP; as in ``scripts/house.py``."""
    network, calls = _network(), Calls()
    await network.run("warm up")
    await calls.of(network.run("Is invoice 7 paid?"))
    assert calls.files.total() <= 380
    assert calls.depth <= 20
    assert len(calls.files) <= 53  # a few more where other modules are loaded


async def test_a_network_that_was_not_changed_is_not_checked_again() -> None:
    """The checks of options belong to the run after a change."""
    network, calls = _network(), Calls()
    await network.run("warm up")
    await calls.of(network.run("Is invoice 7 paid?"))
    assert calls.files["_engine/option_checks.py"] == 0


@pytest.mark.parametrize("text", ["Speak German.", "Говори по-русски."])
def test_an_agent_with_instructions_is_resolved_once(text: str) -> None:
    """A text is no list: its characters are other objects at each look."""
    agent = Agent(name="a", instructions=text, model=ScriptedModel("hello"))
    assert agent.resolve() is agent.resolve()


async def test_changes_of_a_network_count_for_its_next_run() -> None:
    """Also changes inside its lists, and of its agents; options of a run count for that run."""
    model = ScriptedModel(*["hello"] * 6)
    one, other = Agent(name="one", system="s"), Agent(name="other", system="s")
    network = Network(name="n", agents=[one], router=once(one), default_model=model)
    network.processors = processors = list[MessageWindow]()
    agents = list(network.agents)
    network.agents = agents
    await network.run("Hi")
    agents.append(other)
    assert list((await network.run("Hi", router=once("other"))).agents) == ["one", "other"]
    assert (await network.run("Hi", max_iter=1)).stop_reason == "max_iter"
    assert (await network.run("Hi")).stop_reason == "done"
    processors.append(MessageWindow(1))
    run = await network.run("Hi")
    assert [entry.name for entry in run.context[0].entries] == ["MessageWindow"]
    other.name = "one"
    with pytest.raises(ConfigurationError, match="two agents called 'one'"):
        await network.run("Hi")
    other.name, one.system = "other", "Speak German."
    assert (await network.run("Hi")).context[0].prompt[0] == TextMessage("system", "Speak German.")


async def test_a_stored_row_of_text_is_read_in_few_calls() -> None:
    """Of all functions, Python's own too: each row that a run loads makes them."""
    store, calls, rows = MemoryHistory(), Counter[str](), 200
    await store.add_thread("t")
    await store.append("t", [AgentResult.from_user(f"Hat {n}?", id=f"m{n}") for n in range(rows)])
    await store.open_unleased("t", rows)

    def see(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        await store.open_unleased("t", rows)
    finally:
        sys.setprofile(before)
    assert calls.total() <= 25 * rows, calls.most_common(12)
    assert calls["cast"] < rows
