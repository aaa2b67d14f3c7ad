"""The least that the work needs in plain Python: dicts, lists, json and sqlite3."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from adapting import (
    AGENTS_EACH,
    LIMIT,
    MANY,
    WINDOW,
    Framework,
    Idle,
    Steps,
    adds_to,
    counted,
    pair,
    saved_before,
    stored,
    threads,
)
from measuring import Contender, NotHere, Session, Timed
from problem import (
    ANSWER,
    QUESTION,
    SYSTEM,
    bare_turn,
    call_reply,
    text_reply,
    track_async,
    turn_of,
)

KEPT = 100


@dataclass(slots=True)
class Plain:
    """What an agent comes down to: a name, a prompt, a model, tools by name."""

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


def scripted(steps: Steps) -> Callable[[dict[str, Any]], Any]:
    """What answers the requests."""
    calls = [call_reply(number) for number in range(steps.calls)]
    last = text_reply()

    async def respond(body: dict[str, Any]) -> Any:
        number = await steps.later(body["messages"])
        return last if number is None else calls[number]

    return respond


def _started() -> list[dict[str, Any]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


class Floor(Framework):
    """No library."""

    packages: tuple[str, ...] = ()
    statement = "import asyncio, json"
    notes = (
        "No library: a loop that keeps OpenAI's messages as dicts. Sync tools run in a thread.",
        (
            "Import: `asyncio` and `json`. Turn: the two inserts alone, in WAL mode with"
            " `synchronous=FULL`."
        ),
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

    def network(self) -> list[Plain]:
        """Five objects."""
        model = scripted(STEPS)
        return [Plain(f"agent{n}", SYSTEM, model, {}) for n in range(AGENTS_EACH)]

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """As ours."""
        return {
            "text_wire": partial(self._runs, 0, None),
            "tool1_wire": partial(self._runs, 1, track_async),
            "tool10_wire": partial(self._runs, 10, track_async),
            "two_agents": _two,
            "filter_calls": partial(_filter, _without_calls, range(5_000, 5_001)),
            "recent_calls": partial(_filter, _recent, range(5_200, 5_201)),
            "window": partial(_filter, _newest, range(WINDOW, WINDOW + 1)),
            "limit_approximate": _limit,
            "tiktoken_first": _encode,
            **threads("floor@1", (100, 10_000, 1_000_000), _build, _thread),
            "turn": _turn,
            "body": _body,
            "inngest": _inngest,
            "idle": lambda _: Idle("floor"),
        }


def _two(session: Session) -> Contender:
    steps = Steps()
    model = scripted(steps)

    async def run() -> str:
        messages = _started()
        await bare_turn(messages, model, None, track_async)
        return await bare_turn(messages, model, None, track_async)

    return pair(session, steps, run, str)


# ------------------------------------------------------------------------------- filters

Messages = Sequence[dict[str, Any]]


def _dicts() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(MANY // 4):
        said = turn_of(number)
        function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
        call = {"id": said.call_id, "type": "function", "function": function}
        result = {"role": "tool", "tool_call_id": said.call_id}
        found += [
            {"role": "user", "content": said.question},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {**result, "content": json.dumps({"data": said.result})},
            {"role": "assistant", "content": said.answer},
        ]
    return found


def _filter(do: Callable[[Messages], Any], expected: range, session: Session) -> Contender:
    messages = _dicts()
    return counted(session, lambda _: do(messages), len, expected)


def _without_calls(messages: Messages) -> Any:
    gone = {call["id"] for one in messages for call in one.get("tool_calls", ())}
    return [
        one
        for one in messages
        if one.get("tool_call_id") not in gone
        and not ("tool_calls" in one and one["tool_calls"][0]["id"] in gone)
    ]


def _recent(messages: Messages) -> Any:
    kept = set([one["tool_call_id"] for one in messages if one["role"] == "tool"][-KEPT:])
    return [
        one
        for one in messages
        if (one["role"] != "tool" or one["tool_call_id"] in kept)
        and ("tool_calls" not in one or one["tool_calls"][0]["id"] in kept)
    ]


def _newest(messages: Messages) -> Any:
    return messages[-WINDOW:]


def _texts() -> list[str]:
    return [one["content"] or one["tool_calls"][0]["function"]["arguments"] for one in _dicts()]


def _limit(session: Session) -> Contender:
    texts = _texts()

    def do(_: object) -> int:
        total = 0
        for number, text in enumerate(reversed(texts)):
            total += ceil(len(text) / 4.2)
            if total > LIMIT:
                return number
        return len(texts)

    return counted(session, do, int, range(20, 200))


def _encode(session: Session) -> Contender:
    from workloads import conversation  # noqa: PLC0415 - loaded only where it is used

    from agentkit_py.messages import text_of  # noqa: PLC0415 - the same texts as ours
    from agentkit_py.runtime.tiktoken_loader import load_encoding  # noqa: PLC0415 - loaded only where it is used

    encoder = load_encoding("o200k_base")
    if encoder is None:
        raise NotHere("tiktoken's o200k_base cannot be loaded")
    texts = [text_of(message) for message in conversation(MANY)]

    def do(_: object) -> int:
        return sum(len(encoder.encode_ordinary(text)) for text in texts)

    return counted(session, do, int, range(MANY, 100 * MANY))


# ------------------------------------------------------------------------------- storing


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


def _turn(session: Session) -> Contender:
    from adapters.ours import _results  # noqa: PLC0415 # pyright: ignore[reportPrivateUsage] - the same history as ours
    from agentkit_py.stores.records import encode_row  # noqa: PLC0415 - the same bytes as ours

    async def nothing(_: Path) -> None:
        return None

    connection = _open(session, session.loop.run(stored(session, "floor@1-0", nothing)))
    texts = [encode_row(result, "t").json for result in _results(1_000_000)]

    def do(_: object) -> int:
        for text in texts:
            _insert(connection, text)
        return connection.total_changes

    saved_before(session, do, lambda: None)
    return counted(session, do, lambda changes: changes % 2, range(1))


def _body(session: Session) -> Contender:
    from adapters.ours import OPENAI, long_request  # noqa: PLC0415 - the same body as ours

    # The history stays, as where ours is measured: what lies beside the body slows its reading.
    request = long_request()
    made = OPENAI.encode(request)

    def verify(body: str, _: int) -> None:
        assert len(json.loads(body)["messages"]) == len(request.messages) == MANY + 1

    return Timed("body", lambda _: json.dumps(made), session.loop, verify=verify)


def _inngest(_: Session) -> Contender:
    import replaying  # noqa: PLC0415 - only here: it imports the SDK

    return replaying.Replays(replaying.bare())


STEPS = Steps()
FRAMEWORK = Floor()
