"""Hooks into an agent's turn; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from dataclasses import replace

from agentkit_py import AgentResult, Lifecycle, Message, TextMessage, create_agent, openai
from agentkit_py.lifecycle import ResultContext, Start, StartContext

seen: list[str] = []


def masked(message: Message) -> Message:
    """Messages are immutable: a changed one is another one."""
    if isinstance(message, TextMessage):
        return replace(message, content=message.text.replace("4711", "****"))
    return message


def on_start(ctx: StartContext) -> Start:
    """Before each inference."""
    today = TextMessage("system", "Today is a holiday.")
    system, *rest = ctx.prompt
    return Start([system, today, *rest], ctx.history, stop=False)


def on_response(ctx: ResultContext) -> AgentResult:
    """After each inference, before its tools."""
    return ctx.result.with_messages(map(masked, ctx.result.output))


def on_finish(ctx: ResultContext) -> None:
    """At the end of the turn; None leaves the result as it is."""
    seen.append(f"{ctx.agent.name}: {len(ctx.result.output)}")


doorman = create_agent(
    name="doorman",
    system="You know when the house is open.",
    model=openai("gpt-4o"),
    lifecycle=Lifecycle(on_start=on_start, on_response=on_response, on_finish=on_finish),
)


async def main() -> tuple[str, list[str]]:
    """Run it."""
    result = await doorman.run("What is the code of the door?")
    return result.text, seen


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel

model = ScriptedModel("It is 4711, but we are closed.")
doorman.model = model
assert asyncio.run(main()) == ("It is ****, but we are closed.", ["doorman: 1"])
model.assert_saw("You know when", "Today is a holiday.", "What is the code")
model.assert_finished()
