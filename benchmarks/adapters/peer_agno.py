# pyright: basic, reportMissingImports=false
"""agno."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import RunInput, RunOutput
from agno.run.base import RunStatus
from agno.session.agent import AgentSession
from agno.tools import tool
from agno.workflow import Step, Workflow
from harness import (
    Contender,
    Framework,
    Session,
    Steps,
    adds_to,
    arguments,
    pair,
    threads,
)
from problem import ANSWER, QUESTION, SYSTEM


class Scripted(Model):
    """Answers from the steps."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(id="scripted", name="scripted", provider="scripted")
        self.steps = steps
        self.seen = 0

    async def ainvoke(self, messages: list[Message], **_: Any) -> ModelResponse:
        self.seen = len(messages)
        number = await self.steps.later(messages)
        usage = MessageMetrics(input_tokens=120, output_tokens=12, total_tokens=132)
        if number is None:
            return ModelResponse(role="assistant", content=ANSWER, response_usage=usage)
        function = {"name": "track", "arguments": json.dumps(arguments(number))}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        return ModelResponse(role="assistant", tool_calls=[call], response_usage=usage)

    def invoke(self, *_: Any, **__: Any) -> ModelResponse:
        raise NotImplementedError

    invoke_stream = ainvoke_stream = invoke
    _parse_provider_response = _parse_provider_response_delta = invoke


class Agno(Framework):
    """Agents are made once and reused."""

    packages = ("agno", "pydantic", "sqlalchemy")
    statement = "from agno.agent import Agent; from agno.tools import tool"
    notes = (
        "`telemetry=False`, its switch for analytics.",
        "Agents are made once and reused; `arun`, its async entry.",
        "Two agents: a `Workflow` of two steps without a database.",
        "Threads: `SqliteDb`, `add_history_to_context=True`, `num_history_messages=40`.",
    )

    absent = {  # noqa: RUF012 - read only
        "thread_1000000": "a turn grows with the thread, as the rows above show"
    }

    def tool(self, function: Callable[..., Any]) -> Any:
        return tool(name="track")(function)

    def model(self, steps: Steps) -> Scripted:
        return Scripted(steps)

    def agent(self, model: Any, tools: list[Any]) -> Agent:
        return Agent(
            name="support",
            model=model,
            system_message=SYSTEM,
            tools=tools or None,
            telemetry=False,
        )

    async def run(self, agent: Agent) -> RunOutput:
        return await agent.arun(QUESTION)

    def answer(self, result: RunOutput) -> str:
        return str(result.content)

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {
            "two_agents": self._two,
            **threads(self.data, (100, 10_000), self._build, self._thread),
        }

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        model, names = self.model(steps), ("first", "second")
        agents = [Step(name=name, agent=self.agent(model, [])) for name in names]
        flow = Workflow(name="pair", steps=agents, telemetry=False)
        return pair(session, steps, lambda: flow.arun(input=QUESTION), self.answer)

    async def _build(self, folder: Path, size: int) -> None:
        database = SqliteDb(db_file=str(folder / "agno.db"))
        runs = [_run(number) for number in range(size // 2)]
        stored = AgentSession(session_id="t", agent_id="support", runs=runs, created_at=1)
        database.upsert_session(stored)
        for number, run in enumerate(runs):
            database.upsert_run(run, "t", run_index=number)

    def _thread(self, session: Session, folder: Path) -> Contender:
        steps = Steps()
        model = Scripted(steps)
        agent = Agent(
            id="support",
            name="support",
            model=model,
            system_message=SYSTEM,
            db=SqliteDb(db_file=str(folder / "agno.db")),
            add_history_to_context=True,
            num_history_messages=40,
            telemetry=False,
        )

        async def run() -> RunOutput:
            return await agent.arun(QUESTION, session_id="t")

        return adds_to(session, steps, run, self.answer, lambda: model.seen)


def _run(number: int) -> RunOutput:
    """A stored run: a question and its answer."""
    return RunOutput(
        run_id=f"run-{number}",
        agent_id="support",
        agent_name="support",
        session_id="t",
        input=RunInput(input_content=QUESTION),
        content=ANSWER,
        status=RunStatus.completed,
        messages=[
            Message(role="user", content=QUESTION),
            Message(role="assistant", content=ANSWER),
        ],
    )


FRAMEWORK = Agno()
