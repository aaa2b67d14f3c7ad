"""Survival: a value counts as kept only with its key, in one row with the id of its record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentkit_py import Agent, MemoryHistory, Message, Network, ToolCallFilter, tool
from agentkit_py.cli.app import app
from agentkit_py.lifecycle import AgentContext
from agentkit_py.messages import ToolResultMessage
from agentkit_py.processors import ContextPolicy, TableResults
from agentkit_py.testing.replay import Conversation, read_conversations, survival
from agentkit_py.testing.replay.survival import values_in


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """Return an assistant message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    tool_calls = [{"id": f"c{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


ORDERS = {
    "orders": [
        {"order_id": "A100", "total": 120, "date": "2024-05-20"},
        {"order_id": "A200", "total": 250, "date": "2024-05-27"},
    ]
}
LINE = {
    "id": "one",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "My name is ada_1."},
        call(1, "get_orders", user_id="ada_1"),
        {"role": "tool", "tool_call_id": "c1", "name": "get_orders", "content": json.dumps(ORDERS)},
        {"role": "assistant", "content": "Which one do you mean?"},
        {"role": "user", "content": "The one of May 27."},
        call(2, "cancel_order", order_id="A200"),
        {"role": "tool", "tool_call_id": "c2", "name": "cancel_order", "content": "done"},
        {"role": "assistant", "content": "You get $250.00 back."},
    ],
}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A file of one conversation."""
    path = tmp_path / "conversations.jsonl"
    path.write_text(json.dumps(LINE) + "\n", "utf-8")
    return path


def conversations(path: Path) -> list[Conversation]:
    """Return what is in the file."""
    return [one for one in read_conversations(path) if isinstance(one, Conversation)]


def rewriting(content: Any) -> Any:
    """Return a processor that puts ``content`` in place of the orders."""

    def process(messages: Sequence[Message]) -> Sequence[Message]:
        return [
            replace(m, content={"data": content})
            if isinstance(m, ToolResultMessage) and m.tool.name == "get_orders"
            else m
            for m in messages
        ]

    return process


@pytest.mark.parametrize("network", [False, True])
async def test_a_table_keeps_everything_and_a_filter_does_not(
    recording: Path, network: bool
) -> None:
    """The call that names the order could not have been made without the result."""
    read = conversations(recording)
    for policy in (TableResults(), ContextPolicy.balanced(128_000)):
        kept = await survival(read, lambda policy=policy: [policy], network=network)
        assert (kept.share_of_calls, kept.share_of_values, kept.losses) == (1, 1, [])
        assert kept.share_sent < 1
        assert (kept.calls, kept.values) == (2, 1)
    lost = await survival(read, lambda: [ToolCallFilter()], network=network)
    assert [(loss.call, loss.turn, loss.values) for loss in lost.losses] == [
        ("cancel_order", 2, ("A200",)),
        ("", 2, ("250",)),
    ]
    assert (lost.share_of_calls, lost.share_of_values) == (0.5, 0)


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (ORDERS, True),
        (json.dumps(ORDERS), True),
        ("order_id|total\nA200|250", True),
        ("orders(order_id,total)=[A100,120;A200,250]", True),
        ("| order_id | total |\n| --- | ---: |\n| A200 | 250 |", True),
        ("order_id,total\nA100,120\nA200,250", True),
        ({"A100": {"total": 120}, "A200": {"total": 250}}, True),
        ("A100, 120, A200, 250", False),
        ({"orders": ["A100", 120, "A200", 250]}, False),
        ("total|order_id\n250|A100", False),
        ("order_id|price\nA200|250", False),
        ("order_id|total\nA200|", False),
    ],
)
async def test_a_value_is_kept_with_its_key_and_its_record_only(
    recording: Path, content: Any, kept: bool
) -> None:
    """A list of bare values counts as lost."""
    found = await survival(conversations(recording), lambda: [rewriting(content)])
    assert found.values_kept == int(kept)


def test_the_command_lists_the_calls_that_lost_something(recording: Path) -> None:
    """In words and as JSON; policies of the library unless a network is named."""
    runner = CliRunner()
    done = runner.invoke(app, ["replay", str(recording), "--survival"])
    assert done.exit_code == 0, done.output
    assert "ContextPolicy.balanced" in done.output
    assert "ToolCallFilter(): one, turn 2: cancel_order lacks A200" in done.output
    done = runner.invoke(app, ["replay", str(recording), "--survival", "--json"])
    figures = json.loads(done.stdout)
    assert figures["TableResults()"]["callsWhole"] == 1
    assert figures["ToolCallFilter()"]["losses"][0]["values"] == ["A200"]
    empty = recording.with_name("empty.jsonl")
    empty.write_text("", "utf-8")
    assert runner.invoke(app, ["replay", str(empty), "--survival"]).exit_code == 2


async def test_the_processors_of_a_network_and_of_each_agent_are_measured(recording: Path) -> None:
    """Each reply is seen through those of its agent: the one that has the tool."""

    def tool_of(name: str) -> Any:
        @tool(name=name)
        def look() -> str:
            """Look."""
            return ""

        return look

    def shop(*, finder: Any = (), canceller: Any = (), **options: Any) -> Network[Any, Any]:
        find = Agent(name="finder", system="S", tools=[tool_of("get_orders")], processors=finder)
        cancel = Agent(
            name="canceller", system="S", tools=[tool_of("cancel_order")], processors=canceller
        )
        return Network(name="shop", agents=[find, cancel], **options)

    def chosen(context: AgentContext) -> Any:
        return [ToolCallFilter()] if context.agent.name == "canceller" else []

    read = conversations(recording)
    whole = await survival(read, network=shop())
    assert (whole.share_of_calls, whole.share_of_values, whole.share_sent) == (1, 1, 1)
    filters: list[dict[str, Any]] = [
        {"canceller": [ToolCallFilter()]},
        {"canceller": chosen},
        {"processors": [ToolCallFilter()]},
        {"history": MemoryHistory(processors=[ToolCallFilter()])},
        {"isolation": "own_tools"},
    ]
    for options in filters:
        lost = await survival(read, network=shop(**options))
        assert [(loss.agent, loss.call) for loss in lost.losses][:1] == [
            ("canceller", "cancel_order")
        ]
    none = await survival(read, network=shop(finder=[ToolCallFilter()]))
    assert none.losses == []
    alone = await survival(read, network=Agent(name="a", system="S"))
    assert alone.unknown_tools == {"get_orders", "cancel_order"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("9523456873", "9523459999", False),
        ("$1,024.00", "1024", True),
        ("12345678.5", "12345678.6", False),
        ("2.50", "2.5", True),
    ],
)
def test_numbers_are_compared_by_all_their_digits(one: str, other: str, same: bool) -> None:
    """Ids of ten digits are numbers, too."""
    assert (list(values_in(one)) == list(values_in(other))) == same


async def test_a_key_with_spaces_is_a_key(tmp_path: Path) -> None:
    """A catalogue maps names of two words to ids."""
    names = {"Rain Jacket": "2408010794", "Desk Lamp": "9523456873"}
    messages = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Hello"},
        call(1, "catalogue"),
        {"role": "tool", "tool_call_id": "c1", "name": "catalogue", "content": json.dumps(names)},
        {"role": "assistant", "content": "Which?"},
        {"role": "user", "content": "The lamp"},
        call(2, "article", line_id="9523456873"),
        {"role": "tool", "tool_call_id": "c2", "name": "article", "content": "none"},
    ]
    path = tmp_path / "conversations.jsonl"
    path.write_text(json.dumps({"id": "one", "messages": messages}) + "\n", "utf-8")
    found = await survival(conversations(path), lambda: [TableResults()])
    assert (found.calls, found.calls_whole) == (1, 1)
    assert found.share_sent < 1
