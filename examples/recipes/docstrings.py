"""A docstring describes a tool and its arguments."""

# --8<-- [start:recipe]
from agentkit_py import Agent
from agentkit_py.testing import ScriptedModel, tool_call


def refund(order: str, amount: float) -> str:
    """Pay money back.

    Args:
        order: The order's number, e.g. ``A1``.
        amount: Euros, at most what was paid.
    """
    return f"{amount:.2f} euros for {order}"


model = ScriptedModel(tool_call("refund", {"order": "A1", "amount": 5}), "Done.")
clerk = Agent(name="clerk", system="You pay back.", model=model, tools=[refund])
print(clerk.run_sync("5 euros for A1, please.").text)

for name, described in model.bodies[0]["tools"][0]["function"]["parameters"]["properties"].items():
    print(f"{name}: {described['description']}")
# --8<-- [end:recipe]
model.assert_saw("The order's number", "at most what was paid")
