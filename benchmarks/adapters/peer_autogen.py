# pyright: basic, reportMissingImports=false
"""autogen-agentchat."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import EVENT_LOGGER_NAME, CancellationToken, FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import FunctionTool
from harness import (
    Contender,
    Conversation,
    Framework,
    Session,
    Steps,
    arguments,
    pair,
)
from problem import ANSWER, QUESTION, SYSTEM

logging.getLogger(EVENT_LOGGER_NAME).setLevel(logging.WARNING)


class Scripted(ChatCompletionClient):
    """Answers from the steps."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        number = await self.steps.later(messages)
        usage = RequestUsage(prompt_tokens=120, completion_tokens=12)
        if number is None:
            return CreateResult(finish_reason="stop", content=ANSWER, usage=usage, cached=False)
        call = FunctionCall(f"call_{number}", json.dumps(arguments(number)), "track")
        return CreateResult(
            finish_reason="function_calls", content=[call], usage=usage, cached=False
        )

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        return None

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    total_usage = actual_usage

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 0

    remaining_tokens = count_tokens

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=True,
            family="gpt-4o",
            structured_output=True,
        )

    capabilities = model_info


class AutoGen(Framework):
    """An agent keeps its conversation: it is reset before each run, or a new one is made."""

    packages = ("autogen-agentchat", "autogen-core", "pydantic")
    statement = (
        "from autogen_agentchat.agents import AssistantAgent; "
        "from autogen_core.tools import FunctionTool"
    )
    notes = (
        (
            "An agent keeps its conversation, so `on_reset`, its documented way back to the"
            " beginning, comes before each run and is in the time. It must not be shared between"
            " tasks: of the runs at once each makes an agent, in the time as well."
        ),
        "`max_tool_iterations=11`, else it stops after one tool call.",
        (
            "Two agents: `RoundRobinGroupChat` with `MaxMessageTermination`; `reset()`, documented"
            " for a task that has nothing to do with the one before, is in the time."
        ),
    )
    absent = {"thread": "it has `save_state` for programs to store, no database"}  # noqa: RUF012 - read only

    def tool(self, function: Callable[..., Any]) -> Any:
        return FunctionTool(function, name="track", description="Look up where a parcel is.")

    def model(self, steps: Steps) -> Scripted:
        return Scripted(steps)

    def agent(self, model: Any, tools: list[Any], name: str = "support") -> AssistantAgent:
        return AssistantAgent(
            name,
            model_client=model,
            tools=tools,
            system_message=SYSTEM,
            max_tool_iterations=11,
        )

    async def run(self, agent: AssistantAgent) -> TaskResult:
        return await agent.run(task=QUESTION)

    def conversations(self, model: Any, tools: list[Any]) -> Conversation:
        agent = self.agent(model, tools)

        async def ask() -> TaskResult:
            await agent.on_reset(CancellationToken())
            return await self.run(agent)

        return ask

    def conversations_at_once(self, model: Any) -> Conversation:
        async def ask() -> TaskResult:
            return await self.run(self.agent(model, []))

        return ask

    def answer(self, result: TaskResult) -> str:
        return result.messages[-1].content

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {"two_agents": self._two}

    def _two(self, session: Session) -> Contender:
        steps = Steps()

        model = self.model(steps)
        agents = [self.agent(model, [], name) for name in ("first", "second")]
        team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))

        async def run() -> TaskResult:
            await team.reset()
            return await team.run(task=QUESTION)

        return pair(session, steps, run, self.answer)


FRAMEWORK = AutoGen()
