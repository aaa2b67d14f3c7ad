"""An agent with a typed output and a validator of it."""

# ruff: noqa: E402 - each section shows its own imports
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

# --8<-- [start:partial]
import asyncio

from agentkit_py.errors import OutputError
from agentkit_py.events import OutputDelta

scripted = ScriptedModel('{"summary": "Paid back.", "refund": 1}')


async def watch() -> None:
    """Print the object while it is written."""
    try:
        async with extract.stream("…", model=scripted) as stream:
            async for event in stream:
                if isinstance(event, OutputDelta) and isinstance(event.output, Closed):
                    print(event.output.summary)
        print(stream.result.output.refund)
    except OutputError as error:
        print(error.reason, error.problems)  # e.g. "retries", and what was wrong with each answer


asyncio.run(watch())
# --8<-- [end:partial]
