"""Text made of messages holds nothing that a filter hides, wherever filter and text are made."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    MemoryHistory,
    Message,
    Network,
    State,
    TextMessage,
    ToolCallFilter,
)
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import function_model
from agentkit_py.processors import (
    Budget,
    ByAuthor,
    Chain,
    HandoffView,
    HistoryProcessor,
    MessageWindow,
    ProcessorContext,
    Recall,
    Summarize,
    Threshold,
    TruncateToolResults,
)
from agentkit_py.routing import sequence
from agentkit_py.testing import HashingEmbedder, ScriptedModel

from .runner import Runner

SECRET = "salary-4711"
KNOWN = "weather-0815"
TEXTS = ("<recalled_messages>", "<conversation_summary")


def salary() -> str:
    """Look a salary up."""
    return SECRET


def weather() -> str:
    """Look the weather up."""
    return KNOWN


def called(agent: str, tool: str, result: str, number: int) -> list[Message]:
    """A call with its result."""
    call = ToolCall(f"call_{number}", tool, {})
    return [
        ToolCallMessage((call,), agent=agent),
        ToolResultMessage(call, {"data": result}, agent=agent),
    ]


def past() -> list[AgentResult]:
    """Turns in which each agent called its own tool."""
    found: list[AgentResult] = []
    for number in range(6):
        asked = TextMessage("user", f"What of the salary and the weather, {number}?")
        found.append(AgentResult(agent_name="user", output=(asked,)))
        for name, tool, result in (("hr", "salary", SECRET), ("shop", "weather", KNOWN)):
            parts = called(name, tool, result, 2 * number + (name == "shop"))
            said = TextMessage("assistant", f"{name} is done", agent=name)
            output = (parts[0], said)
            found.append(AgentResult(agent_name=name, output=output[:1], tool_calls=(parts[1],)))  # type: ignore[arg-type] - the kinds are right
            found.append(AgentResult(agent_name=name, output=(said,)))
    return found


async def everything(request: Any) -> str:
    """Sum up with all that is to be summed up and may be known."""
    return " ".join(one for one in (SECRET, KNOWN) if one in str(request)) or "nothing"


def makers() -> dict[str, HistoryProcessor]:
    """Processors that make text of messages."""
    model, embedder = function_model(everything), HashingEmbedder()
    summary = Summarize(model, 60, 30, min_messages=1, min_new=1, summary_tokens=25)
    recall = Recall(embedder, k=5, keep_recent=2)
    return {
        "Recall": recall,
        "Summarize": summary,
        "Budget with a model": Budget(900, 0.5, 0.4, 0.3, model=model),
        "Budget with an embedder": Budget(900, 0.5, 0.5, 0.2, embedder=embedder),
        "Threshold": Threshold(10, then=[summary]),
        "Chain": Chain([TruncateToolResults(100), recall]),
    }


def filters() -> dict[str, Any]:
    """Processors that hide what ``salary`` gave from the agent ``shop``."""

    class Discreet(HistoryProcessor):
        @property
        def hides(self) -> bool:
            return True

        async def process(self, messages: Any, context: ProcessorContext) -> Any:
            return [m for m in messages if m.agent in (None, context.agent)]

    return {
        "own": ToolCallFilter(include="own"),
        "exclude": ToolCallFilter(exclude=["salary"]),
        "lines": ToolCallFilter(include="own", persist_results=True),
        "author": ByAuthor(drop=["hr"]),
        "results": HandoffView(results=False),
        "own class": Discreet(),
    }


def build(maker: Any, hidden: Any, place: str) -> tuple[Network, ScriptedModel, Any]:
    """Return a network, its model and its store; the text is made at ``place``."""
    at_store, at_network, at_agent = (
        [maker] if place == one else [] for one in ("store", "network", "agent")
    )
    store, model = MemoryHistory(processors=at_store), ScriptedModel("hr here", "shop here")
    hr = Agent(name="hr", system="S", tools=[salary], processors=[*at_agent])
    shop = Agent(name="shop", system="S", tools=[weather], processors=[*at_agent, hidden])
    network = Network(
        name="n",
        agents=[hr, shop],
        router=sequence(hr, shop),
        default_model=model,
        history=store,
        processors=at_network,
    )
    return network, model, store


@pytest.mark.parametrize("maker", list(makers()))
@pytest.mark.parametrize("hidden", list(filters()))
async def test_text_that_is_made_of_messages_holds_nothing_that_a_later_filter_hides(
    runner: Runner, maker: str, hidden: str
) -> None:
    """It is made for the view of each agent: what is hidden from one is there for the other."""
    for place in ("store", "network", "agent"):
        network, model, _ = build(makers()[maker], filters()[hidden], place)
        state = State[Any](results=past(), thread_id=f"{place}")
        run = await runner.run(network, "What of the salary and the weather?", state=state)
        seen = {report.agent: json.dumps([str(m) for m in report.sent]) for report in run.context}
        bodies = [json.dumps(body["messages"]) for body in model.bodies]
        assert set(seen) == {"hr", "shop"}
        assert SECRET in bodies[0], place
        assert SECRET not in bodies[1], place
        assert any(text in bodies[0] for text in TEXTS), place


@pytest.mark.parametrize("seed", range(12))
async def test_random_chains_leak_nothing_that_is_hidden(runner: Runner, seed: int) -> None:
    """Whatever else shortens the history at any level."""
    choose = random.Random(seed)  # noqa: S311 - no secrets are made
    maker = choose.choice(list(makers().values()))
    hidden = choose.choice(list(filters().values()))
    network, model, store = build(maker, hidden, choose.choice(["store", "network", "agent"]))
    others: list[Any] = [MessageWindow(14), TruncateToolResults(80), Chain([MessageWindow(20)])]
    store.processors = [*store.processors, *choose.sample(others, 1)]
    network.processors = [*network.processors, *choose.sample(others, 2)]  # type: ignore[misc] - it is a list
    state = State[Any](results=past(), thread_id="t")
    await runner.run(network, "What of the salary and the weather?", state=state)
    assert SECRET not in json.dumps(model.bodies[1])


async def test_a_summary_of_everything_is_not_shown_where_a_filter_comes_later(
    runner: Runner,
) -> None:
    """It was kept with the thread by a program that had no filter yet."""
    network, _, store = build(makers()["Summarize"], MessageWindow(100), "network")
    for filtered in (False, True):
        if filtered:
            network.agents[1].processors = [ToolCallFilter(include="own")]
        model = network.default_model = ScriptedModel("hr here", "shop here")
        state = State[Any](results=past(), thread_id="t") if not filtered else None
        options: dict[str, Any] = {"state": state} if state else {"thread_id": "t"}
        await runner.run(network, "What of the salary and the weather?", **options)
        assert (SECRET in json.dumps(model.bodies[1])) is not filtered
    assert store.chain == ()


@pytest.mark.parametrize("filtered", [True, False])
async def test_the_default_router_sees_no_calls_where_an_agents_view_is_filtered(
    runner: Runner, filtered: bool
) -> None:
    """Its view is that of an agent with ``include="own"``; without filters it sees all."""
    processors = [ToolCallFilter(include="own")] if filtered else []
    hr = Agent(name="hr", system="S", tools=[salary])
    shop = Agent(name="shop", system="S", tools=[weather], processors=processors)
    select: Any = {"tool_calls": [{"name": "select_agent", "arguments": {"name": "shop"}}]}
    model = ScriptedModel(select, "shop here", {"tool_calls": [{"name": "done"}]})
    network = Network(name="n", agents=[hr, shop], default_model=model)
    await runner.run(network, "q?", state=State[Any](results=past()))
    routed = [json.dumps(model.bodies[index]["messages"]) for index in (0, 2)]
    assert [SECRET in body for body in routed] == [not filtered] * 2
    assert all("hr is done" in body for body in routed)


def only_own(messages: Sequence[Message], context: ProcessorContext) -> list[Message]:
    """Leave out what other agents did."""
    return [m for m in messages if getattr(m, "agent", None) in (None, context.agent)]


@pytest.mark.parametrize("hides", [True, False, None])
async def test_a_function_behind_text_says_whether_it_hides(
    runner: Runner, caplog: pytest.LogCaptureFixture, *, hides: bool | None
) -> None:
    """With it the text is made of what the function leaves; without it a warning names both."""

    def filtering(messages: Sequence[Message], context: ProcessorContext) -> list[Message]:
        return only_own(messages, context)

    filtering.__name__ = f"filtering_{runner.mode}_{hides}"
    if hides is not None:
        setattr(filtering, "hides", hides)  # noqa: B010 - functions have no such attribute
    model = ScriptedModel("done")
    network = Network(
        name="net",
        agents=[Agent(name="shop", system="s", processors=[filtering])],
        router=sequence("shop"),
        default_model=model,
        processors=[Recall(HashingEmbedder(), 3, keep_recent=2)],
    )
    await runner.run(network, "What of the salary?", state=State(results=past()))
    assert (SECRET in json.dumps(model.bodies[-1]["messages"])) is (hides is not True)
    warned = [r.getMessage() for r in caplog.records if filtering.__name__ in r.getMessage()]
    assert len([text for text in warned if "runs after Recall" in text]) == (hides is None)
