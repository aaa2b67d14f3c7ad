# pyright: basic, reportMissingImports=false
"""langgraph and langchain."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

for _name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
    os.environ[_name] = "false"

from harness import (
    Contender,
    Framework,
    Session,
    Steps,
    arguments,
    pair,
)
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from problem import ANSWER, QUESTION, SYSTEM


class Scripted(BaseChatModel):
    """Answers from the steps."""

    steps: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        number = await self.steps.later(messages)
        usage = {"input_tokens": 120, "output_tokens": 12, "total_tokens": 132}
        if number is None:
            message = AIMessage(ANSWER, usage_metadata=usage)
        else:
            call = {"name": "track", "args": arguments(number), "id": f"call_{number}"}
            message = AIMessage("", tool_calls=[call], usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class LangGraph(Framework):
    """`create_agent`, compiled once; `ainvoke` for each conversation."""

    packages = ("langgraph", "langchain", "langchain-core")
    statement = "from langchain.agents import create_agent; from langchain.tools import tool"
    notes = (
        "Agents are compiled once and reused; `LANGSMITH_TRACING=false`.",
        "Two agents: a `StateGraph` with both agents as nodes.",
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        if function.__name__.endswith("async"):
            return StructuredTool.from_function(coroutine=function, name="track")
        return StructuredTool.from_function(function, name="track")

    def model(self, steps: Steps) -> Scripted:
        return Scripted(steps=steps)

    def agent(self, model: Any, tools: list[Any], **options: Any) -> Any:
        return create_agent(model, tools, system_prompt=SYSTEM, name="support", **options)

    async def run(self, agent: Any) -> Any:
        asked = {"messages": [{"role": "user", "content": QUESTION}]}
        # Each tool call is two steps of the graph, of which 25 are the default limit.
        return await agent.ainvoke(asked, {"recursion_limit": 50})

    def answer(self, result: Any) -> str:
        return result["messages"][-1].text

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {
            "two_agents": self._two,
        }

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        graph, model = StateGraph(MessagesState), self.model(steps)
        graph.add_node("first", self.agent(model, []))
        graph.add_node("second", self.agent(model, []))
        graph.add_edge(START, "first")
        graph.add_edge("first", "second")
        graph.add_edge("second", END)
        agents = graph.compile()
        return pair(session, steps, lambda: self.run(agents), self.answer)


FRAMEWORK = LangGraph()
