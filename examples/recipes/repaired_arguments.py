"""Arguments that are nearly right."""

# --8<-- [start:recipe]
from agentkit_py import Agent, State
from agentkit_py.testing import ScriptedModel, tool_call


def find_orders(tags: list[str], limit: int | None = None) -> list[str]:
    """Find orders."""
    return [f"A1: {', '.join(tags)}, at most {limit or 10}"]


slip = {"tags": '["late", "gift"]', "limit": None}  # a list as JSON text
model = ScriptedModel(tool_call("find_orders", slip), "There is A1.")  # or "openai:gpt-4.1"
clerk = Agent(name="clerk", system="You find orders.", model=model, tools=[find_orders])

state = State[dict[str, object]]({})
print(clerk.run_sync("Late gifts?", state=state).text)
print(state.results[0].context)  # … repaired find_orders(tags: text read as a list)
# --8<-- [end:recipe]
model.assert_saw("A1: late, gift, at most 10")
