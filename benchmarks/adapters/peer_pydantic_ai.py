# pyright: basic, reportMissingImports=false
"""pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Contender, Framework, Session, Steps, arguments, pair
from problem import ANSWER, QUESTION, SYSTEM
from pydantic_ai import Agent, AgentRunResult, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage


class PydanticAI(Framework):
    """One agent, made once and reused."""

    packages = ("pydantic-ai-slim", "pydantic")
    statement = "from pydantic_ai import Agent, Tool"
    notes = (
        "`FunctionModel`, its own model for tests; instrumentation is off unless asked for.",
        (
            "Agents are made once and reused. Two agents: its documented programmatic hand-off with"
            " `message_history`."
        ),
    )
    absent = {  # noqa: RUF012 - read only
        "thread": "its stores are in memory only; programs keep `all_messages_json()` themselves",
        "window": "a history processor is a function of the program's own",
    }

    def tool(self, function: Callable[..., Any]) -> Any:
        return Tool(function, name="track", takes_ctx=False)

    def model(self, steps: Steps) -> FunctionModel:
        usage = RequestUsage(input_tokens=120, output_tokens=12)

        async def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            number = await steps.later(messages)
            if number is None:
                return ModelResponse([TextPart(ANSWER)], usage=usage)
            call = ToolCallPart("track", arguments(number), f"call_{number}")
            return ModelResponse([call], usage=usage)

        return FunctionModel(reply)

    def agent(self, model: Any, tools: list[Any]) -> Agent:
        return Agent(model, instructions=SYSTEM, tools=tools, name="support")

    async def run(self, agent: Agent) -> AgentRunResult:
        return await agent.run(QUESTION)

    def answer(self, result: AgentRunResult) -> str:
        return result.output

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {"two_agents": self._two}

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        model = self.model(steps)
        first, second = self.agent(model, []), self.agent(model, [])

        async def run() -> AgentRunResult:
            done = await first.run(QUESTION)
            return await second.run(QUESTION, message_history=done.all_messages())

        return pair(session, steps, run, self.answer)


FRAMEWORK = PydanticAI()
