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

# --8<-- [start:beside]
from agentkit_py import Network, RouterContext, ToolContext, tool
from agentkit_py.testing import tool_call


@tool
def close_case(summary: str, refund: int, ctx: ToolContext) -> str:
    """Note how the case ends."""
    ctx.state.data["closed"] = {"summary": summary, "refund": refund}
    return "noted"


clerk = Agent(
    name="clerk",
    system="Help the customer. Call close_case when the case is closed, then say goodbye.",
    model=ScriptedModel(
        tool_call("close_case", {"summary": "Paid twice", "refund": 12}),
        "You get 12 EUR back. Have a nice day!",
    ),
    tools=[close_case],
)


def once(context: RouterContext) -> Agent | None:
    """Let the clerk answer each message."""
    return clerk if context.call_count == 0 else None


case = Network(
    name="case",
    agents=[clerk],
    router=once,
    output=lambda ctx: ctx.state.data.get("closed"),
    output_type=[Closed, type(None)],  # None while the case is open
)
run = case.run_sync("I paid twice.")
print(run.output)  # for your program: summary='Paid twice' refund=12
print(run.text)  # for the customer: You get 12 EUR back. Have a nice day!
# --8<-- [end:beside]
