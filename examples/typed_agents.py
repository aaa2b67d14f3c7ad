"""An agent with a typed output and a validator of it."""

# --8<-- [start:validator]
from pydantic import BaseModel

from agentkit_py import Agent
from agentkit_py.output import ModelRetry
from agentkit_py.testing import ScriptedModel


class Closed(BaseModel):
    """The end of a case."""

    summary: str
    refund: int


extract = Agent(
    name="extract",
    system="Extract the closing note.",
    model=ScriptedModel('{"summary":"","refund":1}', '{"summary":"Fine","refund":1}'),
    output_type=Closed,
    output_retries=2,
)


@extract.output_validator
def has_a_summary(output: Closed) -> Closed:
    """Refuse an empty summary; the model reads why."""
    if not output.summary:
        raise ModelRetry("Write a summary.")
    return output


print(extract.run_sync("…").output)
# --8<-- [end:validator]
