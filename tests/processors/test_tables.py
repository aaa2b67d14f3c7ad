"""Results as tables: every value is with its key and the id of its record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit_py import Message, TextMessage
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    ContextPolicy,
    ProcessorContext,
    TableResults,
    apply_processors,
)


def exchange(result: Any, **arguments: Any) -> list[Message]:
    """Return a call and its result."""
    call = ToolCall("c1", "find", arguments)
    return [ToolCallMessage([call]), ToolResultMessage(call, {"data": result})]


async def table(result: Any, *after: Message, **settings: Any) -> Any:
    """Return what becomes of a result."""
    history = [*exchange(result, user_id="ada"), *after]
    left = await apply_processors(history, [TableResults(**settings)])
    assert isinstance(left[1], ToolResultMessage)
    content: Any = left[1].content
    return content["data"]


ROWS = [{"id": f"R{n}", "note": "quite a long note", "on": f"2024-05-0{n}"} for n in range(1, 7)]


async def test_a_list_of_objects_is_a_line_of_keys_and_a_line_for_each() -> None:
    """Nested objects have their path as key, missing values are empty cells."""
    rows = [{"id": "A1", "price": {"amount": 5}}, {"id": "A2", "price": {"amount": 7}, "old": True}]
    assert await table(rows) == "id|price.amount|old\nA1|5|\nA2|7|true"
    assert await table(json.dumps(rows)) == "id|price.amount|old\nA1|5|\nA2|7|true"


async def test_an_object_is_one_line_with_the_lists_in_it() -> None:
    """So each value is on one line with the id; without one, with that of the call."""
    order = {
        "order_id": "A1",
        "items": [{"sku": 3, "n": 2}, {"sku": 4, "n": 1}],
        "tags": ["x", "y"],
    }
    assert await table(order) == "order_id=A1|items(sku,n)=[3,2;4,1]|tags=[x,y]"
    found = {"name": "Ada", "cards": {"c1": {"id": "c1", "kind": "visa"}}}
    assert await table(found) == "user_id=ada|name=Ada|cards(id,kind)=[c1,visa]"


async def test_lists_of_lists_say_which_list_a_row_is_of() -> None:
    """E.g. flights with a stop."""
    trips = [
        [{"flight": "A", "from": "X"}, {"flight": "B", "from": "Y"}],
        [{"flight": "C", "from": "Z"}],
    ]
    assert await table(trips) == "list|flight|from\n1|A|X\n1|B|Y\n2|C|Z"


HOSTS = {f"web-{n}": {"zone": "a", "cpu": n, "memory_mb": 900 + n} for n in range(1, 5)}


async def test_a_mapping_of_records_by_id_is_a_table() -> None:
    """Records that do not say their own ids get a column for them."""
    rows = "web-1|a|1|901\nweb-2|a|2|902\nweb-3|a|3|903\nweb-4|a|4|904"
    assert await table(HOSTS) == f"id|zone|cpu|memory_mb\n{rows}"
    inline = rows.replace("|", ",").replace("\n", ";")
    assert await table({"order_id": "A1", "hosts": HOSTS}) == (
        f"order_id=A1|hosts(id,zone,cpu,memory_mb)=[{inline}]"
    )


async def test_records_that_say_their_own_ids_need_no_further_column() -> None:
    """Any key that names a record will do."""
    variants = {f"v{n}": {"item_id": f"v{n}", "options": {"hue": "red"}} for n in range(1, 3)}
    assert await table({"name": "Lamp", "variants": variants}) == (
        "user_id=ada|name=Lamp|variants(item_id,options.hue)=[v1,red;v2,red]"
    )


async def test_records_that_differ_in_a_few_keys_are_one_table() -> None:
    """A record without a key has an empty cell."""
    hosts = {**HOSTS, "web-2": {**HOSTS["web-2"], "note": "draining"}}
    lines = (await table(hosts)).splitlines()
    assert lines[0] == "id|zone|cpu|memory_mb|note"
    assert lines[1:3] == ["web-1|a|1|901|", "web-2|a|2|902|draining"]


@pytest.mark.parametrize(
    "record",
    [
        {"name": {"first": "Ada"}, "home": {"street": "1 Oak Avenue", "zip": "12345"}},
        {"from": {"town": "York", "zip": "12345"}, "to": {"town": "Bath", "zip": "54321"}},
    ],
)
async def test_objects_that_are_parts_of_one_record_keep_their_paths(record: Any) -> None:
    """Their keys are no ids."""
    text = await table({"order_id": "A1", **record})
    assert text.startswith("order_id=A1|")
    assert all(f"{key}." in text for key in record)


async def test_records_with_lists_of_records_are_a_line_each() -> None:
    """So a value of an inner record is on one line with its keys."""
    orders = [
        {"order_id": f"A{n}", "items": [{"sku": f"S{n}", "price": 10 * n}]} for n in range(1, 3)
    ]
    assert await table(orders) == (
        "order_id=A1|items(sku,price)=[S1,10]\norder_id=A2|items(sku,price)=[S2,20]"
    )


async def test_a_key_with_a_separator_in_it_is_quoted() -> None:
    """Keys come from strangers, too."""
    assert await table({"id": "some id", "a=b|c": "value", "two words": "value"}) == (
        'id=some id|"a=b|c"=value|two words=value'
    )


MARKDOWN = """Found:

| id  | name        | ms   |
| --- | :---------- | ---: |
| r-1 | a long name | 5    |
| r-2 | b           | 1200 |

Done."""


async def test_a_markdown_table_loses_its_padding() -> None:
    """The text around it stays."""
    assert await table(MARKDOWN) == ("Found:\n\nid|name|ms\nr-1|a long name|5\nr-2|b|1200\n\nDone.")


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nb | c\r\n",
        "| a | b |\n| - | - |\n| 1 | 2 | 3 |\n",
        "| a | a |\n|---|---|\n|   1    |   2    |",
        "id,name\nr-1,x\nr-2,y\nr-3,z\nr-4,w",
    ],
)
async def test_a_text_that_is_no_whole_table_stays(text: str) -> None:
    """CSV, too: it has no padding."""
    history = exchange(text)
    assert await apply_processors(history, [TableResults()]) == tuple(history)


async def test_unmentioned_rows_of_older_csv_and_markdown_are_removed() -> None:
    """As those of JSON do."""
    said = TextMessage("user", "And r-3?")
    lines = ["id,name", *(f'r-{n},"name, {n}"' for n in range(1, 7))]
    text = await table("\n".join(lines), said, *exchange(ROWS), used_rows=True)
    assert text == "id|name\nr-3|name, 3\n(5 rows that no message mentions are left out)"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("plain text", "plain text"),
        ("7", '"7"'),
        ("a|b", '"a|b"'),
        ("x=1", "x=1"),
        ("a, b", '"a, b"'),
        ("", '""'),
        (None, "null"),
        (1.5, "1.5"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
async def test_ambiguous_values_are_quoted(value: Any, cell: str) -> None:
    """A text of digits is not a number."""
    assert await table({"some_key": "first", "id": "1x", "value": value}) == (
        f"some_key=first|id=1x|value={cell}"
    )


@pytest.mark.parametrize("result", ["plain", [1, 2], 7, None, [], {}, [1, {"a": 2}]])
async def test_values_that_would_not_become_shorter_stay(result: Any) -> None:
    """The message is the same object."""
    history = exchange(result)
    assert await apply_processors(history, [TableResults()]) == tuple(history)


async def test_errors_stay_as_they_are() -> None:
    """A model has to see that it was one."""
    call = ToolCall("c1", "find", {})
    error: Any = {"error": {"name": "NotFound", "message": "no such order"}}
    history = [ToolCallMessage([call]), ToolResultMessage(call, error)]
    assert await apply_processors(history, [TableResults()]) == tuple(history)


async def test_of_older_lists_only_mentioned_rows_stay() -> None:
    """A line says how many were left out; the newest results have all rows."""
    said = TextMessage("user", "Take R3, please")
    newer = exchange(ROWS)
    text = await table(ROWS, said, *newer, used_rows=True)
    assert text == (
        "id|note|on\nR3|quite a long note|2024-05-03\n"
        "(5 rows that no message mentions are left out)"
    )
    assert (await table(ROWS, said, used_rows=True)).count("\n") == 6
    assert (await table(ROWS[:3], said, *newer, used_rows=True)).count("\n") == 3


async def test_rows_of_the_current_runs_own_calls_stay() -> None:
    """They are written as tables, too, since nothing is lost by it."""
    history = [*exchange(ROWS), *exchange(ROWS), *exchange(ROWS)]
    context = ProcessorContext(protected=frozenset(map(id, history)))
    left = await apply_processors(history, [TableResults(used_rows=True)], context)
    assert ["R6" in str(m) for m in left if m.type == "tool_result"] == [True] * 3


async def test_the_lean_policy_explains_itself() -> None:
    """Of thirty messages and more, the newest stay, as tables."""
    policy = ContextPolicy.lean(10_000)
    assert len(policy.explain().splitlines()) == len(policy.members) == 4
    assert "30 messages" in policy.explain()
    assert "8,500" in policy.explain()
    history = [m for _ in range(30) for m in exchange(ROWS)]
    left = await apply_processors(history, [policy])
    assert len(left) <= 30
    assert "id|note|on" in str(left[-1])
    with pytest.raises(ConfigurationError, match="window"):
        ContextPolicy.lean(10)


async def test_the_balanced_policy_explains_itself() -> None:
    """Each step says when it does what; each has its own report entry."""
    policy = ContextPolicy.balanced(10_000)
    assert len(policy.explain().splitlines()) == len(policy.members) == 4
    assert "5,000" in policy.explain()
    assert "8,500" in policy.explain()
    left = await apply_processors(exchange(ROWS), [policy])
    assert "id|note|on" in str(left[1])
    with pytest.raises(ConfigurationError, match="window"):
        ContextPolicy.balanced(10)
