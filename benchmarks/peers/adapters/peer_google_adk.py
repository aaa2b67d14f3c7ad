# pyright: basic, reportMissingImports=false
"""google-adk."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=UserWarning, module="google.adk")

from adapting import (
    WINDOW,
    Conversation,
    Framework,
    Steps,
    adds_to,
    arguments,
    counted,
    pair,
    stored,
    threads,
)
from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import FunctionTool
from google.adk.workflow import Workflow
from google.genai import types
from measuring import Contender, Session
from problem import ANSWER, QUESTION, SYSTEM, turn_of

WHERE: dict[str, str] = {"app_name": "app", "user_id": "user"}
RECENT = GetSessionConfig(num_recent_events=WINDOW)
SEEN = [0]


class Scripted(BaseLlm):
    """Answers from the steps."""

    steps: Any = None

    async def generate_content_async(
        self,
        request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002 - the interface's argument
    ) -> AsyncGenerator[LlmResponse, None]:
        SEEN[0] = len(request.contents)
        number = await self.steps.later(request.contents)
        if number is None:
            part = types.Part(text=ANSWER)
        else:
            call = types.FunctionCall(id=f"call_{number}", name="track", args=arguments(number))
            part = types.Part(function_call=call)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=120, candidates_token_count=12, total_token_count=132
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            finish_reason=types.FinishReason.STOP,
            usage_metadata=usage,
        )


def _message() -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=QUESTION)])


class GoogleADK(Framework):
    """One agent and one runner, made once; a new session for each conversation."""

    packages = ("google-adk", "google-genai", "pydantic")
    statement = (
        "from google.adk.agents import Agent; from google.adk.runners import Runner; "
        "from google.adk.sessions import InMemorySessionService"
    )
    notes = (
        (
            "Agent and `Runner` are made once and reused, with `InMemorySessionService`; each run"
            " has a new session, and making it is in the time. No tracer is set up."
        ),
        "Two agents: a `Workflow` with one edge (its `SequentialAgent` is deprecated).",
        "Threads: `SqliteSessionService`, `GetSessionConfig(num_recent_events=40)`.",
        "Windows: `ContextFilterPlugin(num_invocations_to_keep=10)`: 40 messages.",
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        function.__name__ = "track"
        return FunctionTool(function)

    def model(self, steps: Steps) -> Scripted:
        return Scripted(model="scripted", steps=steps)

    def agent(self, model: Any, tools: list[Any], name: str = "support") -> Agent:
        return Agent(
            name=name,
            model=model,
            instruction=SYSTEM,
            tools=tools,
        )

    def conversations(self, model: Any, tools: list[Any]) -> Conversation:
        return partial(_asked_anew, _runner(self.agent(model, tools)))

    async def run(self, agent: Any) -> Any:
        return await _asked_anew(_runner(agent))

    def answer(self, result: Event) -> str:
        return result.content.parts[0].text

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        sizes = (100, 10_000, 1_000_000)
        return {
            "two_agents": self._two,
            "window": _window,
            **threads(self.data, sizes, _build, self._thread),
            "turn": _turn,
        }

    def _two(self, session: Session) -> Contender:
        steps = Steps()
        model = self.model(steps)
        first, second = self.agent(model, [], "first"), self.agent(model, [], "second")
        flow = Workflow(name="pair", edges=[("START", first, second)])
        runner = Runner(app_name="app", node=flow, session_service=InMemorySessionService())
        return pair(session, steps, partial(_asked_anew, runner), self.answer)

    def _thread(self, session: Session, folder: Path) -> Contender:
        steps = Steps()
        service = SqliteSessionService(str(folder / "adk.db"))
        agent = self.agent(self.model(steps), [])
        runner = Runner(app_name="app", agent=agent, session_service=service)
        config = RunConfig(get_session_config=RECENT)

        async def run() -> Any:
            return await _asked(runner, "t", run_config=config)

        return adds_to(session, steps, run, self.answer, lambda: SEEN[0])


def _runner(agent: Agent) -> Runner:
    return Runner(app_name="app", agent=agent, session_service=InMemorySessionService())


async def _asked_anew(runner: Runner) -> Any:
    session = await runner.session_service.create_session(**WHERE)
    return await _asked(runner, session.id)


async def _asked(runner: Runner, session_id: str, **options: Any) -> Any:
    last = None
    asked = runner.run_async(
        user_id="user", session_id=session_id, new_message=_message(), **options
    )
    async for event in asked:
        last = event
    return last


def _events(number: int) -> list[Event]:
    answer = types.Content(role="model", parts=[types.Part(text=ANSWER)])
    return [
        Event(id=f"q{number}", invocation_id=f"i{number}", author="user", content=_message()),
        Event(id=f"a{number}", invocation_id=f"i{number}", author="support", content=answer),
    ]


async def _build(folder: Path, size: int) -> None:
    """Two events through the service, the others as copies of their rows with new ids."""
    file = folder / "adk.db"
    service = SqliteSessionService(str(file))
    made = await service.create_session(**WHERE, session_id="t")
    for event in _events(0):
        await service.append_event(made, event)
    with closing(sqlite3.connect(file)) as database, database:
        rows = database.execute("SELECT * FROM events ORDER BY timestamp").fetchall()
        names = [row[1] for row in database.execute("PRAGMA table_info(events)")]
        copies = (
            _copied(dict(zip(names, row, strict=True)), number, size)
            for number in range(1, size // 2)
            for row in rows
        )
        marks = ", ".join("?" * len(names))
        database.executemany(
            f"INSERT INTO events VALUES ({marks})",  # noqa: S608 - question marks
            map(tuple, copies),
        )


def _copied(row: dict[str, Any], number: int, size: int) -> list[Any]:
    data = json.loads(row["event_data"])
    own = {"id": f"{row['id'][0]}{number}", "invocation_id": f"i{number}"}
    # Before the two that are there, in their order.
    at = row["timestamp"] - (size - number)
    found = {**row, **own, "timestamp": at, "event_data": {**data, **own, "timestamp": at}}
    found["event_data"] = json.dumps(found["event_data"])
    return list(found.values())


def _turn(session: Session) -> Contender:
    folder = session.loop.run(
        stored(session, f"{FRAMEWORK.data}-10000", partial(_build, size=10_000))
    )
    service = SqliteSessionService(str(folder / "adk.db"))
    numbers = count(1_000_000)

    async def do(_: object) -> Any:
        found = await service.get_session(**WHERE, session_id="t", config=RECENT)
        loaded = len(found.events)
        for event in _events(next(numbers)):
            await service.append_event(found, event)
        return loaded

    return counted(session, do, int, range(WINDOW, WINDOW + 1))


def _window(session: Session) -> Contender:
    contents: list[types.Content] = []
    for number in range(2_500):
        said = turn_of(number)
        call = types.FunctionCall(id=said.call_id, name=said.tool, args=said.arguments)
        result = types.FunctionResponse(id=said.call_id, name=said.tool, response=said.result)
        contents += [
            types.Content(role="user", parts=[types.Part(text=said.question)]),
            types.Content(role="model", parts=[types.Part(function_call=call)]),
            types.Content(role="user", parts=[types.Part(function_response=result)]),
            types.Content(role="model", parts=[types.Part(text=said.answer)]),
        ]
    plugin = ContextFilterPlugin(num_invocations_to_keep=WINDOW // 4)
    context: Any = None

    async def do(request: LlmRequest) -> LlmRequest:
        await plugin.before_model_callback(callback_context=context, llm_request=request)
        return request

    def prepare() -> LlmRequest:
        return LlmRequest(contents=list(contents))

    return counted(session, do, lambda left: len(left.contents), range(WINDOW, WINDOW + 1), prepare)


FRAMEWORK = GoogleADK()
