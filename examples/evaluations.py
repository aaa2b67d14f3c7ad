"""A suite of two cases, as docs/guides/evaluations.md shows it."""

from __future__ import annotations

import asyncio

from agentkit_py import Agent, tool

# --8<-- [start:suite]
from agentkit_py.evals import Case, Outcome, Suite, called, contains, evaluator, no_contamination
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"order {order} is under way"


def desk() -> Agent:
    """Return the agent; each run of a case gets one of its own."""
    model = ScriptedModel(tool_call("look_up", {"order": "7"}), "Order 7 is under way.")
    return Agent(name="desk", system="Help.", tools=[look_up], model=model)


@evaluator
def promises_nothing(outcome: Outcome) -> str:
    """Return why it fails; empty: it holds."""
    return "it promises" if "promise" in outcome.text else ""


suite = Suite(
    target=desk,
    cases=[
        Case(
            name="where is my order",
            input="Where is order 7?",
            evaluators=[called("look_up", order="7", times=1), contains("under way")],
        ),
    ],
    evaluators=[no_contamination(), promises_nothing],
)
# --8<-- [end:suite]


# --8<-- [start:compare]
async def compare() -> None:
    """Run each case three times, and show what differs from an earlier report."""
    earlier = await suite.run()  # or Report.load("evals.json")
    report = await suite.run(repeat=3)
    print(report.table())
    print(report.diff(earlier))


# --8<-- [end:compare]

asyncio.run(compare())
