"""Results of tools as tables: keys stand once, and no value is lost."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ContextPolicy, TableResults, apply_processors

call = ToolCall("call_1", "find_orders", {"customer_id": "ada_1"})
orders = [
    {"order_id": f"A{number}", "item": item, "price": {"amount": 10 * number, "currency": "EUR"}}
    for number, item in enumerate(["tea", "cups", "a kettle", "spoons", "sugar"], 1)
]
history: list[Message] = [
    TextMessage("user", "What did I order?"),
    ToolCallMessage([call], agent="desk"),
    ToolResultMessage(call, {"data": orders}),
    TextMessage("assistant", "Five things. Is it about A3, the kettle?", agent="desk"),
]


async def main() -> None:
    """Try it by hand."""
    left = await apply_processors(history, [TableResults()])
    table = left[2]
    assert isinstance(table, ToolResultMessage)
    assert table.content == {
        "data": "order_id|item|price.amount|price.currency\n"
        "A1|tea|10|EUR\nA2|cups|20|EUR\nA3|a kettle|30|EUR\nA4|spoons|40|EUR\nA5|sugar|50|EUR"
    }
    left = await apply_processors(history, [TableResults(used_rows=True, keep_recent=0)])
    table = left[2]
    assert isinstance(table, ToolResultMessage)
    assert table.content == {
        "data": "order_id|item|price.amount|price.currency\n"
        "A3|a kettle|30|EUR\n(4 rows that no message mentions are left out)"
    }
    policy = ContextPolicy.balanced(128_000)
    print(policy.explain())
    assert len(await apply_processors(history, [policy])) == 4


if __name__ == "__main__":
    asyncio.run(main())
