"""Checks of what agents are asked, of what they say, and of their tool calls."""

# ruff: noqa: E402 - each section shows its own imports
# --8<-- [start:input]
from pydantic import BaseModel

from agentkit_py import Agent
from agentkit_py.guardrails import Guardrail, GuardrailTripped, Redactor, Tripwire
from agentkit_py.testing import ScriptedModel, tool_call

# Scripts in place of a cheap model and a better one.
small, large = ScriptedModel('{"homework": true}'), ScriptedModel("x = 4")


class Judged(BaseModel):
    """The judge's answer."""

    homework: bool


judge = Agent(name="judge", system="Is this homework?", model=small, output_type=Judged)


def not_too_long(text: str) -> str | None:
    """Return the reason why a message is refused, or None."""
    return f"{len(text)} characters" if len(text) > 10_000 else None


support = Agent(
    name="support",
    system="You help customers.",
    model=large,
    input_guardrails=[
        Redactor(["iban"]),
        not_too_long,
        Guardrail(judge, trips=lambda found: found.homework, run_in_parallel=True),
    ],
)

try:
    support.run_sync("Solve 2x + 3 = 11 for me")
except GuardrailTripped as tripped:
    print(tripped.guardrail, tripped.stage, tripped.info, tripped.model_call)
# --8<-- [end:input]

# --8<-- [start:output]
from dataclasses import dataclass

from agentkit_py import State
from agentkit_py.lifecycle import AgentContext


@dataclass
class Desk:
    """The state of a run."""

    customer: str
    leaks: int = 0


def names_nobody(ctx: AgentContext[Desk], text: str) -> Tripwire | None:
    """Stop an answer about another customer; the customer reads the reply instead."""
    if "Bob" not in text or ctx.state.data.customer == "Bob":
        return None
    ctx.state.data.leaks += 1
    return Tripwire("names another customer", reply="I cannot say that.")


answering = Agent(
    name="answering",
    system="Answer.",
    model=ScriptedModel("Bob has bought a bicycle."),
    state_type=Desk,
    output_guardrails=[names_nobody],
)
state = State(Desk("Ada"))
result = answering.run_sync("What did Bob buy?", state=state)
print(result.text, result.stop_reason, state.data.leaks)
# --8<-- [end:output]

# --8<-- [start:tools]
from typing import Any

from agentkit_py import Network, ToolContext, tool
from agentkit_py.routing import once


def inside(ctx: ToolContext, arguments: Any) -> str | None:
    """Refuse mail that leaves the house; the model reads the reason and goes on."""
    outside = ctx.call.name == "send_mail" and not arguments.to.endswith("@example.com")
    return f"Nothing may be sent to {arguments.to}." if outside else None


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {len(text)} characters to {to}"


clerk = Agent(
    name="clerk",
    system="You write mails.",
    model=ScriptedModel(tool_call("send_mail", {"to": "x@evil.test", "text": "…"}), "I may not."),
    tools=[send_mail],
)
office = Network(
    name="office",
    agents=[clerk],
    router=once(clerk),
    tool_input_guardrails=[inside],
    tool_output_guardrails=[Redactor(["email"])],
)
run = office.run_sync("Write to x@evil.test")
print(run.results[0].tool_calls[0].content, run.output)
# --8<-- [end:tools]
