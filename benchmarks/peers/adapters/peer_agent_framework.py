# pyright: basic, reportMissingImports=false
"""agent-framework."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

os.environ["ENABLE_INSTRUMENTATION"] = "false"

from adapting import WINDOW, Framework, Steps, arguments, counted, pair
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    SlidingWindowStrategy,
    WorkflowBuilder,
    apply_compaction,
    tool,
)
from agent_framework.observability import ChatTelemetryLayer
from measuring import Contender, Session
from problem import ANSWER, QUESTION, SYSTEM, turn_of


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
        (
            "Windows: `apply_compaction` with `SlidingWindowStrategy`, on new"
            " messages each time, as it"
            " marks them."
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
        return {"two_agents": self._two, "window": _window}

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


def _messages() -> list[Message]:
    found: list[Message] = []
    for number in range(2_500):
        said = turn_of(number)
        call = Content.from_function_call(said.call_id, said.tool, arguments=said.arguments)
        result = Content.from_function_result(said.call_id, result=json.dumps(said.result))
        found += [
            Message("user", [said.question]),
            Message("assistant", [call]),
            Message("tool", [result]),
            Message("assistant", [said.answer]),
        ]
    return found


def _window(session: Session) -> Contender:
    # A group is a message, or a call with its result: three groups for each four messages.
    strategy = SlidingWindowStrategy(keep_last_groups=WINDOW * 3 // 4)

    async def do(prepared: list[Message]) -> list[Message]:
        return await apply_compaction(prepared, strategy=strategy)

    return counted(session, do, len, range(WINDOW - 4, WINDOW + 5), _messages)


FRAMEWORK = AgentFramework()
