# pyright: basic, reportMissingImports=false
"""openai-agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapting import (
    WINDOW,
    Framework,
    Steps,
    adds_to,
    arguments,
    counted,
    pair,
    saved_before,
    stored,
    threads,
)
from agents import (
    Agent,
    HandoffInputData,
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
from agents.extensions.handoff_filters import remove_all_tools
from agents.memory import SessionSettings
from agents.testing import assistant_message, function_call
from measuring import Contender, Session
from problem import ANSWER, QUESTION, SYSTEM, turn_of

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
            "filter_calls": _filter,
            **threads(self.data, sizes, _build, self._thread),
            "turn": self._turn,
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

    def _turn(self, session: Session) -> Contender:
        folder = session.loop.run(
            stored(session, f"{self.data}-10000", lambda f: _build(f, 10_000))
        )
        kept = SQLiteSession("t", folder / "agents.db")
        session.stack.callback(kept.close)
        question, answer = _items(0)

        async def do(_: object) -> list[Any]:
            found = await kept.get_items(WINDOW)
            await kept.add_items([question])
            await kept.add_items([answer])
            return found

        saved_before(session, do, lambda: None)
        return counted(session, do, len, range(WINDOW, WINDOW + 1))


def _items(number: int) -> list[Any]:
    answer = assistant_message(ANSWER).model_dump(exclude_unset=True)
    return [{"role": "user", "content": QUESTION}, {**answer, "id": f"msg_{number}"}]


async def _build(folder: Path, size: int) -> None:
    kept = SQLiteSession("t", folder / "agents.db")
    for first in range(0, size // 2, 5_000):
        last = min(first + 5_000, size // 2)
        await kept.add_items([item for number in range(first, last) for item in _items(number)])
    kept.close()


def _filter(session: Session) -> Contender:
    items: list[Any] = []
    for number in range(2_500):
        said = turn_of(number)
        call = {"type": "function_call", "call_id": said.call_id, "name": said.tool}
        result = {"type": "function_call_output", "call_id": said.call_id}
        items += [
            {"role": "user", "content": said.question},
            {**call, "arguments": json.dumps(said.arguments)},
            {**result, "output": json.dumps(said.result)},
            {"role": "assistant", "content": said.answer},
        ]
    data = HandoffInputData(input_history=tuple(items), pre_handoff_items=(), new_items=())
    return counted(
        session,
        lambda _: remove_all_tools(data),
        lambda left: len(left.input_history),
        range(5_000, 5_001),
    )


FRAMEWORK = OpenAIAgents()
