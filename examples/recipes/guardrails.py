"""A message that is refused, with a reply of one's own."""

# --8<-- [start:recipe]
from agentkit_py import Agent
from agentkit_py.guardrails import Guardrail
from agentkit_py.testing import ScriptedModel

model = ScriptedModel("Your order is on its way.")  # or "openai:gpt-4.1"


def refused(text: str) -> str | None:
    """Return the reason why a message is not for this desk, or None."""
    return "legal advice" if "sue" in text.casefold().split() else None


support = Agent(
    name="support",
    system="You help with orders.",
    model=model,
    input_guardrails=[Guardrail(refused, reply="Please write to legal@example.com.")],
)
print(support.run_sync("I sue you").text)  # the model was not asked
print(support.run_sync("Where is my order?").text)
# --8<-- [end:recipe]
