"""ContextMatrix: the fate of each message in each call, of live runs and of stored threads."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, State, TextMessage, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.matrix import ContextMatrix, matrix_page
from agentkit_py.messages import Message, text_of
from agentkit_py.network import explain_thread
from agentkit_py.processors import (
    HandoffView,
    MessageWindow,
    Redact,
    Summarize,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.results import AgentResult
from agentkit_py.routing import together
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def find(words: str) -> str:
    """Find."""
    return f"found {words * 40}"


def desk(*processors: Any, rounds: int = 2, **options: Any) -> Network:
    """Two agents, each of which searches and answers; the second has processors."""
    replies = [tool_call("find", {"words": "a"}), "Write to ada@example.com.", "Done."] * rounds
    first = Agent(name="first", system="Find.", tools=[find], max_iter=5)
    second = Agent(name="second", system="Sum up.", processors=list(processors))
    return Network(
        name="desk",
        agents=[first, second],
        default_model=ScriptedModel(*replies),
        router=lambda context: ["first", "second", None][context.call_count],
        history=MemoryHistory(),
        **options,
    )


def fates(matrix: ContextMatrix, call: int) -> dict[str, str]:
    """The fate of each message that a call has a cell of, by what the message is."""
    found: dict[str, str] = {}
    for number, row in enumerate(matrix.rows):
        cell = matrix.cells.get((number, call))
        if cell is not None:
            found[f"{row.section} {row.message.type}"] = cell.fate
    return found


async def matrix_of(network: Network, *inputs: str) -> ContextMatrix:
    """The matrix of runs of one thread."""
    results = [r for text in inputs for r in (await network.run(text, thread_id="t")).results]
    return ContextMatrix.of(results)


async def test_each_call_has_a_cell_for_each_message_that_was_there() -> None:
    """The question, then a call with its result, then the answer of the agent before."""
    matrix = await matrix_of(desk(), "Hi")
    assert [call.agent for call in matrix.calls] == ["first", "first", "second"]
    assert [fates(matrix, call) for call in range(3)] == [
        {"prompt text": "seen", "thread text": "seen"},
        {f"thread {kind}": "seen" for kind in ("text", "tool_call", "tool_result")}
        | {"prompt text": "seen"},
        {f"thread {kind}": "seen" for kind in ("text", "tool_call", "tool_result")}
        | {"prompt text": "seen"},
    ]
    assert [row.message.type for row in matrix.rows if row.section == "thread"] == [
        *("text", "tool_call", "tool_result", "text", "text")
    ]
    assert [matrix.rows[n].message.type for call in matrix.calls for n in call.reply] == [
        *("tool_call", "tool_result", "text", "text")
    ]


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        (TruncateToolResults(30), {"tool_result": "shortened"}),
        (Redact(), {"text": "masked"}),
        (ToolCallFilter(), {"tool_call": "left out", "tool_result": "left out"}),
        (HandoffView(), {"tool_call": "as text", "tool_result": "left out"}),
    ],
    ids=["shortened", "masked", "left out", "as text"],
)
async def test_a_cell_describes_the_effect_of_a_processor(
    processor: Any, expected: dict[str, str]
) -> None:
    """The cell names the processor, and holds the words that were sent."""
    matrix = await matrix_of(desk(processor), "Hi")
    found = fates(matrix, 2)
    assert {kind: found[f"thread {kind}"] for kind in expected} == expected
    cells = [cell for (_, call), cell in matrix.cells.items() if call == 2 and cell.by]
    assert {cell.by for cell in cells} == {f"agent: {type(processor).__name__}"}
    assert all((cell.sent is None) == (cell.fate == "left out") for cell in cells)


async def test_a_summary_says_of_which_messages_it_was_made() -> None:
    """It has a row of its own; the messages are left out by the same processor."""
    summarize = Summarize(ScriptedModel("In short."), 20, 10, min_messages=1, summary_tokens=5)
    matrix = await matrix_of(desk(summarize), "Hi", "And?")
    made = [(place, cell) for place, cell in matrix.cells.items() if cell.fate == "added"]
    ((row, call), cell), *others = made
    assert others == []
    assert (matrix.rows[row].section, call, cell.by) == ("made", 5, "agent: Summarize")
    left_out = {
        n for (n, c), found in matrix.cells.items() if c == call and found.fate == "left out"
    }
    assert left_out
    assert left_out <= set(cell.of)


async def test_a_later_run_finds_the_messages_of_the_thread_again() -> None:
    """Each message has one row, though the thread was loaded again."""
    matrix = await matrix_of(desk(MessageWindow(3)), "Hi", "Hi")
    thread = [row.message for row in matrix.rows if row.section == "thread"]
    assert len(thread) == 10
    assert [call.run for call in matrix.calls] == [1, 1, 1, 2, 2, 2]
    last = [cell.fate for (_, call), cell in sorted(matrix.cells.items()) if call == 5]
    assert last == ["seen", *["left out"] * 5, *["seen"] * 4]


async def test_the_beginning_that_an_agents_call_shares_with_its_call_before_is_cached() -> None:
    """The second call begins as the first; another agent's does not."""
    matrix = await matrix_of(desk(), "Hi")
    first, again, other = matrix.calls
    assert (first.cached, again.cached, other.cached) == (0, first.tokens, 0)
    assert [cell.is_cached for (_, call), cell in sorted(matrix.cells.items()) if call == 1] == [
        *(True, True, False, False)
    ]


@pytest.mark.parametrize(
    "processors",
    [[], [MessageWindow(3)], [Redact(), TruncateToolResults(30)], [ToolCallFilter(include="own")]],
    ids=repr,
)
async def test_a_stored_thread_is_explained_as_its_runs_were_sent(processors: list[Any]) -> None:
    """Where neither processors nor functions have changed."""
    network = desk(*processors)
    live = await matrix_of(network, "Hi", "And?")
    stored = ContextMatrix.of(await explain_thread(network, "t"))
    assert stored.to_dict() == live.to_dict()


async def test_a_stored_thread_is_explained_with_the_processors_of_today() -> None:
    """And nothing is asked or saved."""
    before = desk()
    await before.run("Hi", thread_id="t")
    after = desk(MessageWindow(1), rounds=0)
    after.history = before.history
    matrix = ContextMatrix.of(await explain_thread(after, "t"))
    assert sorted(fates(matrix, 2).values()) == ["left out", "left out", "seen", "seen"]
    assert isinstance(before.history, MemoryHistory)
    assert await before.history.count_results("t") == 4


async def test_results_of_agents_that_are_gone_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others are explained."""
    network = desk()
    await network.run("Hi", thread_id="t")
    alone = Agent(name="second", system="S", model=ScriptedModel(), history=network.history)
    with caplog.at_level(logging.WARNING):
        results = await explain_thread(alone, "t")
    assert [result.agent_name for result in results if result.context] == ["second"]
    assert "'first', which 'second' does not have" in caplog.text


async def test_a_thread_without_a_store_or_reports_is_refused() -> None:
    """The error names what to pass."""
    agent = Agent(name="alone", system="S", model=ScriptedModel("Hello."))
    with pytest.raises(ConfigurationError, match="'alone' has no history"):
        await explain_thread(agent, "t")
    with pytest.raises(ConfigurationError, match="explain_thread"):
        ContextMatrix.of([])


async def test_a_page_needs_nothing_else_and_runs_nothing_that_strangers_wrote() -> None:
    """Words that end a script, and texts of any length, are data."""
    hostile = "</script><script>alert(1)</script><!-- data --> \ud800 " + "x" * 50_000
    history = [TextMessage("user", hostile)]
    agent = Agent(name="a", system="S", model=ScriptedModel("Hello."))
    result = await agent.run("Hi", state=State(messages=history))
    page = matrix_page(ContextMatrix.of([result]), "<b>title</b>")
    page.encode()
    assert "alert(1)</script>" not in page
    assert not re.search(r"(src|href)=", page)
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page)
    found = json.loads(data)
    assert found["title"] == "<b>title</b>"
    assert any("(30,0" in text for text in found["texts"])
    assert len(page) < 60_000


async def test_a_matrix_as_json_has_each_text_once() -> None:
    """However many calls saw it."""
    results = [
        result
        for _ in range(3)
        for result in (await desk(rounds=1).run("Hi", thread_id="t")).results
    ]
    found = ContextMatrix.of(results).to_dict()
    assert len(found["texts"]) == len(set(found["texts"]))
    assert [len(column) for column in found["cells"]][:3] == [2, 4, 5]


def one_after_another(turns: list[Any]) -> Any:
    """A router."""
    left = iter([*turns, None])

    def route(_context: RouterContext) -> Any:
        return next(left)

    return route


def words_of(message: Message) -> tuple[str, str]:
    """A message's type and text."""
    return message.type, text_of(message)


WORDS = st.sampled_from(["ok", "Fine <b>.", "Write to ada@example.com."])
REPLIES = st.one_of(WORDS, WORDS.map(lambda words: tool_call("find", {"words": words})))
CHAINS = st.lists(
    st.sampled_from(
        [MessageWindow(2), Redact(), TruncateToolResults(30), ToolCallFilter(), HandoffView()]
    ),
    max_size=2,
)
TURNS = st.lists(st.sampled_from(["one", "two", together("one", "two")]), min_size=1, max_size=2)


@given(
    replies=st.lists(REPLIES, min_size=2, max_size=4),
    chains=st.tuples(CHAINS, CHAINS),
    runs=st.lists(TURNS, min_size=1, max_size=3),
)
@settings(max_examples=30)
async def test_each_message_that_was_sent_has_one_cell_and_each_of_the_thread_one_row(
    replies: list[Any], chains: tuple[list[Any], list[Any]], runs: list[list[Any]]
) -> None:
    """Whatever agents say and processors do; texts that are repeated stay apart."""
    agents = [
        Agent(
            name=name,
            system="Help.",
            tools=[find],
            max_iter=2,
            processors=chain,
            model=ScriptedModel(*replies * 6),
        )
        for name, chain in zip(("one", "two"), chains, strict=True)
    ]
    network = Network(name="desk", agents=agents, history=MemoryHistory())
    results: list[AgentResult] = []
    for turns in runs:
        run = await network.run("Hi", thread_id="t", router=one_after_another(turns))
        results += run.results
    matrix = ContextMatrix.of(results)
    for number, result in enumerate(results):
        cells = [cell for (_, call), cell in matrix.cells.items() if call == number]
        assert result.context is not None
        assert sum(cell.fate != "left out" for cell in cells) == len(result.context.sent)
    stored = await explain_thread(network, "t")
    said = [m for entry in stored for m in (*entry.output, *entry.tool_calls)]
    rows = [row.message for row in matrix.rows if row.section == "thread"]
    assert sorted(map(words_of, rows)) == sorted(map(words_of, said))
