"""The least that the work needs in plain Python: dicts, lists, json and sqlite3."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import (
    MANY,
    WINDOW,
    Contender,
    Framework,
    Session,
    Steps,
    Timed,
    adds_to,
    counted,
    pair,
    scripted,
    threads,
)
from problem import (
    ANSWER,
    QUESTION,
    SYSTEM,
    bare_turn,
    track_async,
)
from rows import PROCESSOR_ROWS, WIRE_FORMATS
from workloads import conversation


@dataclass(slots=True)
class Plain:
    """An agent in plain Python: a name, a prompt, a model, tools by name."""

    name: str
    system: str
    model: Callable[[dict[str, Any]], Any]
    tools: dict[str, Callable[..., Any]]


SPECS = [
    {
        "type": "function",
        "function": {
            "name": "track",
            "description": "Look up where a parcel is.",
            "parameters": {"type": "object", "properties": {"parcel": {"type": "integer"}}},
        },
    }
]


def _started() -> list[dict[str, Any]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


class Floor(Framework):
    """No library."""

    packages: tuple[str, ...] = ()
    statement = "import asyncio, json"
    notes = (
        "No library: a loop that keeps OpenAI's messages as dicts. Sync tools run in a thread.",
        "Import: `asyncio` and `json`. Stored thread: SQLite in WAL mode with `synchronous=FULL`.",
    )

    def tool(self, function: Callable[..., Any]) -> Any:
        """The function."""
        return function

    def model(self, steps: Steps) -> Any:
        """A function."""
        return scripted(steps)

    def agent(self, model: Any, tools: list[Any]) -> Plain:
        """An object."""
        return Plain("support", SYSTEM, model, dict(zip(("track",), tools, strict=False)))

    async def run(self, agent: Plain) -> str:
        """A loop."""
        function = agent.tools.get("track", track_async)
        specs = SPECS if agent.tools else None
        return await bare_turn(_started(), agent.model, specs, function)

    def answer(self, result: str) -> str:
        """It is the text."""
        return result

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """As ours."""
        return {
            "observed": partial(self._runs, 1, track_async),
            "streamed": partial(self._runs, 1, track_async),
            "traced": partial(self._runs, 1, track_async),
            "two_agents": _two,
            **{row.key: _copy for row in PROCESSOR_ROWS},
            **threads("floor@1", (100, 10_000, 1_000_000), _build, _thread),
            "body": partial(_body, "OPENAI"),
            **{f"body_{name}": partial(_body, name) for name in WIRE_FORMATS},
            "inngest": _inngest,
        }


def _two(session: Session) -> Contender:
    steps = Steps()
    model = scripted(steps)

    async def run() -> str:
        messages = _started()
        await bare_turn(messages, model, None, track_async)
        return await bare_turn(messages, model, None, track_async)

    return pair(session, steps, run, str)


def _copy(session: Session) -> Contender:
    """A loop that looks at each message."""
    messages = conversation(MANY)

    def do(_: object) -> list[Any]:
        return [message for message in messages if message.type]

    return counted(session, do, len, range(MANY, MANY + 1))


def _open(session: Session, folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    session.stack.callback(connection.close)
    _prepare(connection)
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, thread TEXT, json TEXT)"
    )


def _insert(connection: sqlite3.Connection, text: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO rows (thread, json) VALUES (?, ?)", ("t", text))
    connection.execute("COMMIT")


async def _build(folder: Path, size: int) -> None:
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    _prepare(connection)
    rows = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    texts = [json.dumps(row) for row in rows]
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO rows (thread, json) VALUES ('t', ?)",
        ((text,) for _ in range(size // 2) for text in texts),
    )
    connection.execute("COMMIT")
    connection.close()


def _thread(session: Session, folder: Path) -> Contender:
    steps = Steps()
    model = scripted(steps)
    connection = _open(session, folder)
    seen = [0]

    async def run() -> str:
        newest = connection.execute(
            "SELECT json FROM rows ORDER BY id DESC LIMIT ?", (WINDOW,)
        ).fetchall()
        question = {"role": "user", "content": QUESTION}
        messages = [json.loads(text) for (text,) in reversed(newest)]
        messages = [{"role": "system", "content": SYSTEM}, *messages, question]
        seen[0] = len(messages) - 1
        _insert(connection, json.dumps(question))
        answer = await bare_turn(messages, model, None, track_async)
        _insert(connection, json.dumps(messages[-1]))
        return answer

    return adds_to(session, steps, run, str, lambda: seen[0])


def _body(name: str, session: Session) -> Contender:
    from adapters.ours import OPENAI, WIRE_MODELS, long_request  # noqa: PLC0415 - the same body as ours

    # The history stays in memory, as where ours is measured.
    request = long_request()
    made = WIRE_MODELS.get(name, OPENAI).encode(request)

    def verify(body: str, _: int) -> None:
        assert body.count(" has left Linz this morning ") == len(request.messages) // 4

    return Timed(lambda _: json.dumps(made), session.loop, verify=verify)


def _inngest(_: Session) -> Contender:
    import replaying  # noqa: PLC0415 - only here: it imports the SDK

    return replaying.Replays(replaying.bare())


FRAMEWORK = Floor()
