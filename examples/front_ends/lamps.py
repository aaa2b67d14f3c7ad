"""A server for front ends with a protocol of their own; its model answers from a script."""

import re
from dataclasses import replace
from typing import Any

from agentkit_py import Agent, Network, openai, tool
from agentkit_py.routing import once
from agentkit_py.server import create_app
from agentkit_py.testing import FakeProvider, ReceivedRequest, text, tool_call


def answer(request: ReceivedRequest) -> Any:
    """Return the reply to the last message."""
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return text("Done: the money is on its way.")
    found = re.search(r"\b[A-Z]\d\b", last["content"])
    return tool_call("refund", {"order": found[0]}) if found else text("Which order is it?")


model = openai("gpt-4.1", api_key="sk-offline")
model = replace(model, transport=FakeProvider(answer).transport)


# --8<-- [start:app]
@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay the money for an order back."""
    return f"paid for {order}"


clerk = Agent(
    name="clerk",
    system="You sell lamps.",
    tools=[refund],
    model=model,  # "openai:gpt-4.1", …
)
network = Network(name="support", agents=[clerk], router=once(clerk))

app = create_app(networks=[network], auth="local")
# --8<-- [end:app]
