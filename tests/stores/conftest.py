"""Every store, and the values that its tests store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.results import AgentResult
from agentkit_py.stores import HistoryStore, MemoryHistory, PostgresHistory, SqliteHistory


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HistoryStore]:
    """A new store of each kind."""
    made = _made(request, tmp_path)
    yield made
    await made.close()


def _made(request: pytest.FixtureRequest, tmp_path: Path) -> HistoryStore:
    match request.param:
        case "memory":
            return MemoryHistory()
        case "sqlite":
            return SqliteHistory(tmp_path / "threads.db")
        case _:
            url = request.getfixturevalue("postgres_url")
            schema = request.getfixturevalue("postgres_schema")
            return PostgresHistory(url, schema=schema, connections=4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path for an SQLite file."""
    return tmp_path / "threads.db"


@pytest.fixture
def reply() -> Callable[[str], AgentResult]:
    """Makes an agent's result that calls a tool, with ids made of the name given."""

    def make(name: str) -> AgentResult:
        call = ToolCall(f"call-{name}", "lookup", {"order": name})
        return AgentResult(
            "billing",
            [TextMessage("assistant", f"looking {name} up"), ToolCallMessage((call,))],
            [ToolResultMessage(call, {"data": {"found": name}})],
            id=f"result-{name}",
        )

    return make
