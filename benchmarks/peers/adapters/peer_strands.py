# pyright: basic, reportMissingImports=false
"""strands-agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable
from functools import partial
from typing import Any

from adapting import WINDOW, Conversation, Framework, Steps, arguments, counted, pair
from measuring import Contender, Session
from problem import ANSWER, QUESTION, SYSTEM, turn_of
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.models import Model
from strands.multiagent import GraphBuilder
from strands.types.content import Messages


class Scripted(Model):
    """Answers from the steps, in the pieces that its interface asks for."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def update_config(self, **_: Any) -> None:
        return None

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Messages, *_: Any, **__: Any) -> AsyncIterable[Any]:
        number = await self.steps.later(messages)
        yield {"messageStart": {"role": "assistant"}}
        if number is None:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": ANSWER}}}
        else:
            use = {"name": "track", "toolUseId": f"call_{number}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            text = json.dumps(arguments(number))
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": text}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if number is None else "tool_use"}}
        usage = {"inputTokens": 120, "outputTokens": 12, "totalTokens": 132}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}


class Strands(Framework):
    """An agent is a conversation, so each run makes one; the model is shared."""

    packages = ("strands-agents", "pydantic")
    statement = "from strands import Agent, tool"
    notes = (
        "`callback_handler=None`, its documented way not to print; no tracer is set up.",
        (
            "An agent keeps its conversation and refuses runs at once, so each run makes an agent,"
            " which is in the time: its guide on session management says to make one for each"
            " conversation and to share the model."
        ),
        (
            "Two agents: `GraphBuilder` with one edge; as its nodes keep their conversations, too,"
            " each run makes the graph and its agents, in the time."
        ),
        "Windows: `SlidingWindowConversationManager(window_size=40)`.",
    )
    absent = {"thread": "its sessions are files or S3, not SQLite"}  # noqa: RUF012 - read only

    def tool(self, function: Callable[..., Any]) -> Any:
        return tool(name="track")(function)

    def model(self, steps: Steps) -> Scripted:
        return Scripted(steps)

    def agent(self, model: Any, tools: list[Any], name: str = "support") -> Agent:
        return Agent(
            name=name,
            model=model,
            system_prompt=SYSTEM,
            tools=tools,
            callback_handler=None,
        )

    async def run(self, agent: Agent) -> Any:
        return await agent.invoke_async(QUESTION)

    def conversations(self, model: Any, tools: list[Any]) -> Conversation:
        return partial(self.first, model, tools)

    def answer(self, result: Any) -> str:
        return str(result).strip()

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        return {"two_agents": self._two, "window": self._window}

    def _two(self, session: Session) -> Contender:
        steps = Steps()

        model = self.model(steps)

        async def run() -> Any:
            graph = GraphBuilder()
            graph.add_node(self.agent(model, [], "first"), "first")
            graph.add_node(self.agent(model, [], "second"), "second")
            graph.add_edge("first", "second")
            graph.set_entry_point("first")
            return await graph.build().invoke_async(QUESTION)

        def answer(result: Any) -> str:
            return self.answer(result.results["second"].result)

        return pair(session, steps, run, answer)

    def _window(self, session: Session) -> Contender:
        manager = SlidingWindowConversationManager(window_size=WINDOW)
        messages: list[Any] = []
        for number in range(2_500):
            said = turn_of(number)
            use = {"toolUseId": said.call_id, "name": said.tool, "input": said.arguments}
            result = {"toolUseId": said.call_id, "status": "success"}
            content = [{"text": json.dumps(said.result)}]
            messages += [
                {"role": "user", "content": [{"text": said.question}]},
                {"role": "assistant", "content": [{"toolUse": use}]},
                {"role": "user", "content": [{"toolResult": {**result, "content": content}}]},
                {"role": "assistant", "content": [{"text": said.answer}]},
            ]
        model = self.model(Steps())

        def prepare() -> Any:
            agent = self.agent(model, [])
            agent.messages = list(messages)
            return agent

        def do(prepared: Any) -> Any:
            manager.apply_management(prepared)
            return prepared.messages

        return counted(session, do, len, range(WINDOW // 2, WINDOW + 1), prepare)


FRAMEWORK = Strands()
