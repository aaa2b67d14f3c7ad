"""Programs of the porting page in both languages, against one stand-in, compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agentkit_py import openai
from agentkit_py.runtime.direct import providers
from agentkit_py.testing import FakeProvider

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "porting"
PROGRAM = Path(__file__).parent / "node"
FOLDER = ROOT / ".cache" / "node-porting"

NOT_SENT = {"stream", "stream_options", "parallel_tool_calls"}
"""Members of a request that only one of the languages sends; docs/parity.md says why."""

OURS = {"usage.updated", "metadata.updated"}
"""Chunks that TypeScript only declares."""


def _missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def node() -> Path:
    """A folder with the npm package, which is installed there the first time."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            _missing(f"{program} is not installed: TypeScript's package runs in Node")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "run.mjs"):
        shutil.copy(PROGRAM / name, FOLDER / name)
    for program in PROGRAMS.glob("*.ts"):
        shutil.copy(program, FOLDER / program.name)
    if not (FOLDER / "node_modules" / "@inngest" / "agent-kit").is_dir():
        install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
        done = subprocess.run(install, cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode:
            _missing(f"npm cannot install TypeScript's package: {done.stderr[-300:]}")
    return FOLDER


@pytest.fixture
def database(postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A schema of the test's own; programs find it without naming it."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(postgres_schema)))
    mark = "&" if "?" in postgres_url else "?"
    url = f"{postgres_url}{mark}options=-csearch_path%3D{postgres_schema}"
    monkeypatch.setenv("DATABASE_URL", url)
    return url


def typescript(node: Path, name: str, script: list[Any], thread: str) -> tuple[Any, Any, Any]:
    """Run the TypeScript program; return its requests, its chunks and what `main` returned."""
    with FakeProvider(script, strict=False) as fake:
        done = subprocess.run(
            ["node", "run.mjs", f"{name}.ts", fake.base_url("openai")],
            cwd=node,
            env={**os.environ, "THREAD": thread},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        bodies = [request.body for request in fake.requests]
    found = json.loads(done.stdout.splitlines()[-1])
    return bodies, found["sent"], found["returned"]


async def python(name: str, script: list[Any], thread: str) -> tuple[Any, Any, Any]:
    """Run the twin, its networks and agents in TypeScript's order of messages."""
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    twin = text.split("# --8<-- [start:twin]")[1].split("# --8<-- [end:twin]")[0]
    names: dict[str, Any] = {"__name__": name}
    exec(compile(twin, name, "exec"), names)  # noqa: S102 - our own example
    for value in names.values():
        if hasattr(value, "history_mode") and not isinstance(value, type):
            value.history_mode = "typescript"
            model = "default_model" if hasattr(value, "default_model") else "model"
            if getattr(value, model) is not None:
                setattr(value, model, openai("gpt-4o", api_key="sk-test"))
    os.environ["THREAD"] = thread
    fake = FakeProvider(script, strict=False)
    token = providers.set(fake.transport)
    try:
        returned = await names["main"]()
    finally:
        providers.reset(token)
        del os.environ["THREAD"]
    return [request.body for request in fake.requests], names.get("sent", []), returned


def sent_bodies(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests without what only one language sends."""
    return [{k: v for k, v in body.items() if k not in NOT_SENT} for body in bodies]


def loaded_first(body: dict[str, Any]) -> dict[str, Any]:
    """TypeScript's request as if it had loaded the thread before it saved the question.

    That is the difference `load-before-saving` of docs/parity.md: in TypeScript the store gives the
    new question back as an old one.
    """
    messages = body["messages"]
    asked = messages[1]
    again = len(messages) > 2 and asked["role"] == "user" and messages[-1] == asked
    return {**body, "messages": messages[:-1]} if again else body


def told(chunks: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Chunks as a front end reads them: deltas of one part joined, without ids and times."""
    kept = [chunk for chunk in chunks if chunk["event"] not in OURS]
    for event, group in groupby(kept, key=lambda chunk: chunk["event"]):
        members = list(group)
        if event.endswith(".delta"):
            yield event, "".join(chunk["data"]["delta"] for chunk in members)
        else:
            for chunk in members:
                data = chunk["data"]
                yield event, (data.get("scope"), data.get("name"), data.get("type"))


SCRIPTS: dict[str, list[Any]] = {
    "06_lifecycle_hooks": ["The code is 4711."],
    "08_history_config": ["Hello Ada.", "You are Ada."],
    "09_streaming": ["A fox came by, looked in, and went on."],
    "12_own_postgres": ["Hello Ada.", "You are Ada."],
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_ported_program_sends_the_requests_and_chunks_of_the_original(
    node: Path, database: str, name: str
) -> None:
    """Request by request, chunk by chunk, row by row."""
    assert database
    script = SCRIPTS[name]
    theirs, their_chunks, _ = typescript(node, name, list(script), "theirs")
    ours, our_chunks, _ = await python(name, list(script), "ours")
    assert sent_bodies(ours) == [loaded_first(body) for body in sent_bodies(theirs)]
    assert list(told(our_chunks)) == list(told(their_chunks))
    if name == "12_own_postgres":
        assert rows(database, "ours") == rows(database, "theirs")


async def test_both_languages_go_on_with_one_thread(node: Path, database: str) -> None:
    """TypeScript, Python, TypeScript: each reads the rows of the other."""
    assert database
    script: list[Any] = ["Hello Ada.", "You are Ada."]
    typescript(node, "12_own_postgres", list(script), "both")
    ours, _, _ = await python("12_own_postgres", list(script), "both")
    theirs, _, _ = typescript(node, "12_own_postgres", list(script), "both")
    assert len(rows(database, "both")) == 12
    for body in (*ours, *theirs):
        said = [message["content"] for message in body["messages"]]
        assert said.count("Hello Ada.") >= 1
        assert said[0] == "You know the town."


def rows(database: str, thread: str) -> list[Any]:
    """A thread's rows as both languages mean them."""
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT author, data FROM chat_rows WHERE thread_id = %s ORDER BY position", (thread,)
        ).fetchall()
    return [
        (author, data["agentName"], [without_author(m) for m in data["output"]], data["toolCalls"])
        for author, data in found
    ]


def without_author(message: dict[str, Any]) -> dict[str, Any]:
    """Only ours says in each message who wrote it; TypeScript reads on over it."""
    return {name: value for name, value in message.items() if name != "agent"}
