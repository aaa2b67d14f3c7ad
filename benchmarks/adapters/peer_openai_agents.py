# pyright: basic, reportMissingImports=false
"""openai-agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    RunResult,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.memory import SessionSettings
from agents.testing import assistant_message, function_call
from harness import (
    WINDOW,
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

set_tracing_disabled(disabled=True)


class Scripted(Model):
    """Answers from the steps."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.seen = 0

    async def get_response(self, **asked: Any) -> ModelResponse:
        self.seen = len(asked["input"])
        number = await self.steps.later(asked["input"])
        usage = Usage(requests=1, input_tokens=120, output_tokens=12, total_tokens=132)
        if number is None:
            return ModelResponse([assistant_message(ANSWER)], usage, None)
        call = function_call("track", json.dumps(arguments(number)), call_id=f"call_{number}")
        return ModelResponse([call], usage, None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class OpenAIAgents(Framework):
    """One agent, made once; `Runner.run` for each conversation."""

    packages = ("openai-agents", "openai", "pydantic")
    statement = "from agents import Agent, Runner, function_tool"
    notes = (
        "`set_tracing_disabled(True)`: traces would be sent to OpenAI.",
        (
            "Two agents: its documented deterministic flow, `to_input_list()` of"
            " the first run is the"
            " second's input."
        ),
        "Threads: `SQLiteSession` with `SessionSettings(limit=40)`.",
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        return function_tool(function, name_override="track")

    def model(self, steps: Steps) -> Scripted:
        return Scripted(steps)

    def agent(self, model: Any, tools: list[Any]) -> Agent:
        return Agent(name="support", instructions=SYSTEM, model=model, tools=tools)

    async def run(self, agent: Agent) -> RunResult:
        return await Runner.run(agent, QUESTION, max_turns=20)

    def answer(self, result: RunResult) -> str:
        return str(result.final_output)

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        sizes = (100, 10_000, 1_000_000)
        return {
            "two_agents": self._two,
            **threads(self.data, sizes, _build, self._thread),
        }

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        model = self.model(steps)
        first, second = self.agent(model, []), self.agent(model, [])

        async def run() -> RunResult:
            done = await Runner.run(first, QUESTION)
            return await Runner.run(second, done.to_input_list())

        return pair(session, steps, run, self.answer)

    def _thread(self, session: Session, folder: Path) -> Contender:
        steps = Steps()
        agent = self.agent(self.model(steps), [])
        kept = SQLiteSession("t", folder / "agents.db")
        session.stack.callback(kept.close)
        config = RunConfig(session_settings=SessionSettings(limit=WINDOW))

        async def run() -> RunResult:
            return await Runner.run(agent, QUESTION, session=kept, run_config=config)

        return adds_to(session, steps, run, self.answer, lambda: agent.model.seen)


def _items(number: int) -> list[Any]:
    answer = assistant_message(ANSWER).model_dump(exclude_unset=True)
    return [{"role": "user", "content": QUESTION}, {**answer, "id": f"msg_{number}"}]


async def _build(folder: Path, size: int) -> None:
    kept = SQLiteSession("t", folder / "agents.db")
    for first in range(0, size // 2, 5_000):
        last = min(first + 5_000, size // 2)
        await kept.add_items([item for number in range(first, last) for item in _items(number)])
    kept.close()


FRAMEWORK = OpenAIAgents()
