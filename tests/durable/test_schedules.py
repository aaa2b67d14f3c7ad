"""Functions with a schedule, or several events at a time, run agents as others do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import inngest

from agentkit_py import Agent, tool
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor

EVERY_DAY = "0 9 * * *"


async def test_a_function_with_a_schedule_runs_an_agent() -> None:
    """Its event has no input, so the function says what the agent is asked."""
    sent: list[str] = []

    @tool
    def send(report: str) -> str:
        """Send a report."""
        sent.append(report)
        return "sent"

    model = ScriptedModel(tool_call("send", {"report": "All is well."}), "Sent.")
    agent = Agent(name="reporter", system="S", model=model, tools=[send], max_iter=2)
    client = inngest.Inngest(app_id="app", is_production=False, middleware=[AgentKitMiddleware])

    @client.create_function(
        fn_id="daily",
        trigger=[inngest.TriggerCron(cron=EVERY_DAY), inngest.TriggerEvent(event="app/report")],
    )
    async def daily(ctx: inngest.Context) -> str:
        return (await agent.run("Send the daily report.")).text

    executor = ReplayExecutor(client, [daily], check=True)
    run = await executor.run("inngest/scheduled.timer", {"cron": EVERY_DAY})
    assert (run.status, run.output, sent) == ("completed", "Sent.", ["All is well."])
    assert await executor.send_event("inngest/scheduled.timer", {"cron": "1 1 * * *"}) == []


async def test_a_function_of_ones_own_reads_all_events_of_a_batch() -> None:
    """`create_functions` refuses batches, since a run answers one message."""
    agent = Agent(name="reader", system="S", model=ScriptedModel("Read."))
    client = inngest.Inngest(app_id="app", is_production=False, middleware=[AgentKitMiddleware])

    @client.create_function(
        fn_id="read",
        trigger=inngest.TriggerEvent(event="app/mail"),
        batch_events=inngest.Batch(max_size=10, timeout=timedelta(seconds=5)),
    )
    async def read(ctx: inngest.Context) -> Any:
        texts = ", ".join(str(event.data["text"]) for event in ctx.events)
        return [texts, (await agent.run(texts)).text]

    run = await ReplayExecutor(client, [read], check=True).run("app/mail", {"text": "a"})
    assert run.output == ["a", "Read."]
