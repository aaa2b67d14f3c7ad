"""A tool that is called at most so often."""

# --8<-- [start:recipe]
from agentkit_py import Agent, tool
from agentkit_py.runs import RunLimits
from agentkit_py.testing import ScriptedModel, tool_call


@tool(max_calls=2)
def search(words: str) -> str:
    """Search the catalogue."""
    return f"3 hats for {words!r}"


def write(text: str) -> str:
    """Write to the customer."""
    return f"sent: {text}"


again = [tool_call("search", {"words": f"hat {number}"}) for number in range(3)]
model = ScriptedModel(*again, "I found three hats.")  # or "openai:gpt-4.1"
finder = Agent(name="finder", system="You find hats.", model=model, tools=[search, write])
run = finder.run_sync("Hats?", limits=RunLimits(max_tool_calls={"write": 1}))
print(run.text)
# --8<-- [end:recipe]
model.assert_saw("hat 1", "may be called 2 times in a run")
