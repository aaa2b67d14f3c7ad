# pyright: basic, reportMissingImports=false
"""agno."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agno.agent import Agent
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import RunOutput
from agno.tools import tool
from agno.workflow import Step, Workflow
from harness import (
    Contender,
    Framework,
    Session,
    Steps,
    arguments,
    pair,
)
from problem import ANSWER, QUESTION, SYSTEM


class Scripted(Model):
    """Answers from the steps."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(id="scripted", name="scripted", provider="scripted")
        self.steps = steps

    async def ainvoke(self, messages: list[Message], **_: Any) -> ModelResponse:
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
    )

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
        }

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        model, names = self.model(steps), ("first", "second")
        agents = [Step(name=name, agent=self.agent(model, [])) for name in names]
        flow = Workflow(name="pair", steps=agents, telemetry=False)
        return pair(session, steps, lambda: flow.arun(input=QUESTION), self.answer)


FRAMEWORK = Agno()
