"""An answer of a type instead of text."""

# --8<-- [start:recipe]
from pydantic import BaseModel

from agentkit_py import Agent
from agentkit_py.testing import ScriptedModel

model = ScriptedModel('{"number": 7, "total": 120.0, "paid": false}')  # or "openai:gpt-4.1"


class Invoice(BaseModel):
    """The facts of an invoice."""

    number: int
    total: float
    paid: bool


reader = Agent(
    name="reader",
    system="Read the invoice.",
    model=model,
    output_type=Invoice,
)
result = reader.run_sync("Invoice no. 7: 120.00 EUR, due in May.")
print(result.output.total)  # a float, for pyright too
# --8<-- [end:recipe]
