# pyright: basic, reportMissingImports=false
"""agno."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from adapting import Framework, Idle, Steps, adds_to, arguments, counted, pair, stored, threads
from agno.agent import Agent
from agno.db.base import SessionType
from agno.db.sqlite import SqliteDb
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import RunInput, RunOutput
from agno.run.base import RunStatus
from agno.session.agent import AgentSession
from agno.team import Team
from agno.tools import tool
from agno.utils.message import filter_tool_calls
from agno.workflow import Step, Workflow
from measuring import Contender, Session
from problem import ANSWER, QUESTION, SYSTEM, turn_of

KEPT = 100
"""Tool calls that its filter leaves."""


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

    def network(self) -> Team:
        """Five agents that share a task are a team."""
        members = [
            Agent(name=f"agent{n}", system_message=SYSTEM, model=MODEL, telemetry=False)
            for n in range(5)
        ]
        return Team(name="team", members=members, model=MODEL, telemetry=False)

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {
            "two_agents": self._two,
            "recent_calls": _recent,
            **threads(self.data, (100, 10_000), self._build, self._thread),
            "turn": self._turn,
            "idle": lambda _: Idle("peer_agno"),
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

    def _turn(self, session: Session) -> Contender:
        build = partial(self._build, size=10_000)
        folder = session.loop.run(stored(session, f"{self.data}-10000", build))
        database = SqliteDb(db_file=str(folder / "agno.db"))
        numbers = iter(range(10_000, 10_000_000))

        def do(_: object) -> Any:
            found = database.get_session("t", SessionType.AGENT, runs_limit=20)
            database.upsert_run(_run(next(numbers)), "t")
            return found

        return counted(session, do, lambda found: len(found.runs), range(20, 21))


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


def _recent(session: Session) -> Contender:
    messages: list[Message] = []
    for number in range(2_500):
        said = turn_of(number)
        function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
        call = {"id": said.call_id, "type": "function", "function": function}
        messages += [
            Message(role="user", content=said.question),
            Message(role="assistant", tool_calls=[call]),
            Message(role="tool", tool_call_id=said.call_id, content=json.dumps(said.result)),
            Message(role="assistant", content=said.answer),
        ]

    def do(prepared: list[Message]) -> list[Message]:
        filter_tool_calls(prepared, KEPT)
        return prepared

    return counted(session, do, len, range(5_200, 5_201), lambda: list(messages))


MODEL = Scripted(Steps())
FRAMEWORK = Agno()
