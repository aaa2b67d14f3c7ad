"""Processors that call models, retries of what was too long, and nested runs, under replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    Message,
    Network,
    RouterContext,
    State,
    TextMessage,
    ToolContext,
    tool,
)
from agentkit_py.processors import ApproximateTokenizer, Recall, Summarize
from agentkit_py.stores import HistoryStore, MemoryHistory
from agentkit_py.testing import HashingEmbedder, tool_call
from agentkit_py.testing import error as error_reply
from agentkit_py.testing.executor import KillAt

from .world import INFERENCES, Inference, Scenario, Stage

COUNT = ApproximateTokenizer(chars_per_token=1)
TOO_LONG = error_reply(
    400, "This model's maximum context length is 8192 tokens. Reduce the length of the messages."
)


def past(count: int, size: int = 100) -> list[Message]:
    """Questions and answers in turn."""
    roles: list[Any] = ["user", "assistant"]
    return [TextMessage(roles[n % 2], f"{n:04}".ljust(size, "x")) for n in range(count)]


def once(context: RouterContext) -> str | None:
    """One turn of the clerk."""
    return None if context.call_count else "clerk"


def summarising(stage: Stage) -> Network:
    """A clerk whose tool makes two inferences of one turn, behind a summary."""

    @tool
    def act() -> str:
        """Act."""
        stage.effects.happen("act")
        return "acted"

    clerk = Agent(name="clerk", system="clerk S", tools=[act], max_iter=3, token_counter=COUNT)
    policy = Summarize(stage.model, 3000, 2000, summary_tokens=300)
    return Network(
        name="desk", agents=[clerk], router=once, history=stage.store, processors=[policy]
    )


SUMMARY_SCRIPT: dict[str, Sequence[Any]] = {
    "You summarise": ["They spoke.", "They spoke more."],
    "clerk": [tool_call("act"), "Done."],
}


async def with_summary(stage: Any) -> Any:
    """The summary of the only thread."""
    assert isinstance(stage, HistoryStore)
    (thread,) = await stage.list_threads()
    found: Any = stage
    return await found.load_summary(thread.id, "thread")


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_summary_is_made_once_and_the_run_is_as_it_is_directly(
    scenario: Any, inference: Inference
) -> None:
    """Requests, chunks and rows are the same; the summary's request is among them once."""
    case: Scenario = scenario(
        summarising, SUMMARY_SCRIPT, state=lambda: State(messages=past(40), thread_id="t")
    )
    direct = await case.direct()
    durable = await case.durable(inference)
    assert direct.error is None
    assert durable == direct
    asked = [r["messages"][0]["content"] for r in durable.requests]
    assert sum(text.startswith("You summarise") for text in asked) == 1
    assert "They spoke." in durable.requests[-1]["messages"][1]["content"]


@pytest.mark.parametrize("number", range(1, 12))
async def test_a_worker_that_dies_anywhere_leaves_one_summary(scenario: Any, number: int) -> None:
    """The run ends with the same result, whichever request the worker dies after."""
    stores: list[MemoryHistory] = []

    def store() -> MemoryHistory:
        stores.append(MemoryHistory())
        return stores[-1]

    case: Scenario = scenario(
        summarising, SUMMARY_SCRIPT, store=store,
        state=lambda: State(messages=past(40), thread_id="t"),
    )  # fmt: skip
    outcome = await case.durable("offload", kill=KillAt(request=number, when="after"))
    assert outcome.error is None
    assert outcome.effects == {"act": 1}
    summary = await with_summary(stores[-1])
    assert summary.text == "They spoke."


def overflowing(stage: Stage) -> Network:
    """A clerk with a long past."""
    clerk = Agent(name="clerk", system="clerk S", token_counter=COUNT)
    return Network(name="desk", agents=[clerk], router=once, history=stage.store)


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_request_that_is_too_long_is_sent_again_with_half_the_history(
    scenario: Any, inference: Inference
) -> None:
    """This holds too where the provider's answer comes as the text of a step's error."""
    case: Scenario = scenario(
        overflowing, {"clerk": [TOO_LONG, "Short enough."]}, retries=0,
        state=lambda: State(messages=past(40), thread_id="t"),
    )  # fmt: skip
    direct, durable = await case.direct(), await case.durable(inference)
    assert direct.error is None
    assert durable.text == direct.text == "Short enough."
    assert durable.requests[-1] == direct.requests[-1]
    sizes = [sum(len(m["content"]) for m in r["messages"]) for r in durable.requests]
    assert sizes[-1] <= sizes[0] // 2


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_request_that_is_too_long_twice_is_the_typed_error(
    scenario: Any, inference: Inference
) -> None:
    """There is one retry."""
    case: Scenario = scenario(
        overflowing, {"clerk": [TOO_LONG, TOO_LONG, "never"]}, retries=0,
        state=lambda: State(messages=past(40), thread_id="t"),
    )  # fmt: skip
    durable = await case.durable(inference)
    assert durable.error is not None
    assert "ContextOverflowError" in durable.error


def recalling(stage: Stage) -> Network:
    """A clerk who remembers."""

    class Counted(HashingEmbedder):
        async def embed(self, texts: Sequence[str]) -> Any:
            for _ in texts:
                stage.effects.happen("embed")
            return await super().embed(texts)

    clerk = Agent(name="clerk", system="clerk S", token_counter=COUNT)
    policy = Recall(Counted(), 1, keep_recent=2)
    return Network(
        name="desk", agents=[clerk], router=once, history=stage.store, processors=[policy]
    )


async def test_recalled_turns_are_embedded_once(scenario: Any) -> None:
    """Replays of the function reuse the remembered vectors."""
    facts = [TextMessage("user", f"fact {n}: the {word} is here") for n, word in enumerate("abc")]
    case: Scenario = scenario(
        recalling, {"clerk": ["Yes."]}, input="where is the b",
        state=lambda: State(messages=[*facts, *past(4)], thread_id="t"),
    )  # fmt: skip
    direct, durable = await case.direct(), await case.durable()
    assert direct.error is None
    assert durable == direct
    assert "the b is here" in durable.requests[-1]["messages"][-2]["content"]


def nesting(stage: Stage) -> Network:
    """A clerk who has a researcher do the looking up."""

    @tool
    def look(what: str) -> str:
        """Look up."""
        stage.effects.happen(f"look {what}")
        return "raw " * 50

    researcher = Agent(
        name="researcher", system="researcher S", tools=[look], description="Finds things out",
        history=stage.store, max_iter=1)  # fmt: skip
    clerk = Agent(
        name="clerk", system="clerk S", max_iter=3,
        tools=[researcher.as_tool(allowed_tools=["look"])],
    )  # fmt: skip
    return Network(name="desk", agents=[clerk], router=once, history=stage.store)


NESTED: dict[str, Sequence[Any]] = {
    "clerk": [tool_call("researcher", {"task": "find x"}), "It is 7."],
    "researcher": [tool_call("look", {"what": "x"}), "x is 7"],
}


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_nested_run_does_each_thing_once(scenario: Any, inference: Inference) -> None:
    """Its steps have names of their own, and its thread an id that replays do not change."""
    case: Scenario = scenario(nesting, NESTED)
    durable = await case.durable(inference)
    assert durable.error is None
    assert durable.text == "It is 7."
    assert durable.effects == {"look x": 1}
    assert sorted(len(rows) for rows in durable.rows) == [3, 3]


def together_in_tools(stage: Stage) -> Network:
    """Two nested runs at the same time."""

    @tool
    def note(what: str, ctx: ToolContext) -> str:
        """Note."""
        del ctx
        stage.effects.happen(f"note {what}")
        return "noted"

    helper = Agent(name="helper", system="helper S", tools=[note], max_iter=1)
    clerk = Agent(
        name="clerk", system="clerk S", max_iter=3, parallel_tools=True,
        tools=[helper.as_tool(allowed_tools="own")],
    )  # fmt: skip
    return Network(name="desk", agents=[clerk], router=once, history=stage.store)


async def test_nested_runs_at_the_same_time_have_steps_of_their_own(scenario: Any) -> None:
    """One agent, called twice in one reply."""
    both = [{"id": f"c{n}", "name": "helper", "arguments": {"task": f"t{n}"}} for n in range(2)]
    replies: dict[str, Sequence[Any]] = {
        "clerk": [{"tool_calls": both}, "Both done."],
        "helper": ["One.", "One."],
    }
    outcome = await scenario(together_in_tools, replies).durable("local")
    assert outcome.error is None
    assert outcome.text == "Both done."
