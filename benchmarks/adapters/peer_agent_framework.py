# pyright: basic, reportMissingImports=false
"""agent-framework."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ["ENABLE_INSTRUMENTATION"] = "false"

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    WorkflowBuilder,
    tool,
)
from agent_framework.observability import ChatTelemetryLayer
from harness import Contender, Framework, Session, Steps, arguments, pair
from problem import ANSWER, QUESTION, SYSTEM


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
    """Answers from the steps; the layers are those of its own clients."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, **_: Any) -> Any:
        assert not stream
        return self._reply(messages)

    async def _reply(self, messages: Sequence[Message]) -> ChatResponse:
        number = await self.steps.later(messages)
        if number is None:
            content, reason = Content.from_text(ANSWER), "stop"
        else:
            text = json.dumps(arguments(number))
            content = Content.from_function_call(f"call_{number}", "track", arguments=text)
            reason = "tool_calls"
        usage = {"input_token_count": 120, "output_token_count": 12, "total_token_count": 132}
        return ChatResponse(
            messages=[Message("assistant", [content])], finish_reason=reason, usage_details=usage
        )


class AgentFramework(Framework):
    """One agent, made once and reused; each run without a session of its own."""

    packages = ("agent-framework-core", "pydantic")
    statement = "from agent_framework import Agent, tool"
    notes = (
        "`ENABLE_INSTRUMENTATION=false`, its documented switch.",
        "The model is a chat client with the layers that its own clients have.",
        (
            "Two agents: two agents made once, and for each run a workflow of `WorkflowBuilder`,"
            " which is in the time: a workflow keeps its conversation, and its guide on state"
            " isolation says to build one for each task."
        ),
    )
    absent = {"thread": "its histories are memory or JSON Lines files, not SQLite"}  # noqa: RUF012 - read only

    def tool(self, function: Callable[..., Any]) -> Any:
        return tool(function, name="track", approval_mode="never_require")

    def model(self, steps: Steps) -> Scripted:
        return Scripted(steps)

    def agent(self, model: Any, tools: list[Any], name: str = "support") -> Agent:
        return Agent(model, SYSTEM, name=name, tools=tools)

    async def run(self, agent: Agent) -> Any:
        return await agent.run(QUESTION)

    def answer(self, result: Any) -> str:
        return result.text

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {"two_agents": self._two}

    def _two(self, session: Session) -> Contender:
        steps = Steps()

        model = self.model(steps)
        first, second = self.agent(model, [], "first"), self.agent(model, [], "second")

        async def run() -> Any:
            made = WorkflowBuilder(start_executor=first, output_from=[second])
            return await made.add_edge(first, second).build().run(QUESTION)

        def answer(result: Any) -> str:
            return result.get_outputs()[-1].text

        return pair(session, steps, run, answer)


FRAMEWORK = AgentFramework()
