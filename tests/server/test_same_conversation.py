"""One conversation, held in four ways, is one thread in the store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import inngest

from agentkit_py import Network, SqliteHistory
from agentkit_py._core.json import as_list, as_object
from agentkit_py.events import ApprovalAnswer, ApprovalRequest
from agentkit_py.inngest import create_functions
from agentkit_py.server import create_app
from agentkit_py.testing.executor import ReplayExecutor
from tests.server.shop_for_chat import LINES, WORDS, make
from tests.server.world import (
    by_header,
    client_of,
    listening,
    message,
    post,
    served,
    wait_until_idle,
)

ROOT = Path(__file__).resolve().parents[2]


def without_ids(value: object) -> Any:
    """JSON without ids and times."""
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        return {k: without_ids(v) for k, v in fields.items() if k not in ("id", "createdAt")}
    return [without_ids(item) for item in items] if items is not None else value


async def kept(path: Path) -> Any:
    """All that the store has of its one thread."""
    async with SqliteHistory(path) as store:
        [thread] = await store.list_threads()
        records = await store.stored_results(thread.id)
    ids = [record.result.id for record in records]
    assert len(set(ids)) == len(records)
    rows: list[Any] = []
    for record in records:
        metadata: dict[str, Any] = {**record.metadata}
        answered = metadata.pop("answers", None)
        if answered is not None:  # by a run that waited: the id of the user's message
            users = [one for one in records[: record.position] if one.result.agent_name == "user"]
            assert answered == users[-1].result.id
        rows.append((record.position, without_ids(record.result.to_dict()), metadata))
    return thread.title, thread.metadata, rows


async def plainly(path: Path) -> Any:
    """Play the conversation in Python."""
    network = make(str(path))
    words = iter(WORDS)

    def approver(_request: ApprovalRequest) -> ApprovalAnswer:
        word = next(words)
        if word is True:
            return ApprovalAnswer(approved=True)
        return ApprovalAnswer(approved=False, reason=str(word), to_user=str(word))

    thread = None
    for line in LINES:
        run = await network.run(line, thread_id=thread, approver=approver)
        thread = run.thread_id
    return await ended(network, path)


async def ended(network: Network, path: Path) -> Any:
    """The conversation is over: what was kept of it."""
    model: Any = network.default_model
    model.assert_finished()
    store: Any = network.history
    await store.close()
    return await kept(path)


def talk_in_terminal(folder: Path) -> None:
    """Play the conversation with `agentkit chat`."""
    first, second, third = LINES
    lines = [first, second, "y", "y", third, WORDS[1]]
    done = subprocess.run(
        [sys.executable, "-m", "agentkit_py.cli", "chat", "tests.server.shop_for_chat:make"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        input="\n".join(map(str, lines)),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def by_http(path: Path) -> Any:
    """Play the conversation like the React hook does, with runs in the API's process."""
    network = make(str(path))
    app = create_app(networks=[network], auth=by_header, approvers=["owner"])
    words = iter(WORDS)
    async with served(app) as url, listening(url) as stream:
        for number, line in enumerate(LINES):
            await post(url, "/api/chat", message(line, "t1"))
            if number:
                question = (await stream.until("hitl.requested"))["data"]
                word = next(words)
                said = {"action": "approve"} if word is True else {"action": "deny", "reason": word}
                where = {"threadId": "t1", "toolCallId": question["requestId"]}
                assert (await post(url, "/api/approve-tool", where | said)).status_code == 200
            await stream.until("stream.ended")
            await wait_until_idle(app)
    return await ended(network, path)


async def by_functions(path: Path) -> Any:
    """Play the conversation like the React hook does, with runs as Inngest functions."""
    network = make(str(path))
    client = inngest.Inngest(app_id="shop", is_production=False)
    functions = create_functions(client, networks=[network], inference="local", realtime=True)
    executor = ReplayExecutor(client, functions)
    app = create_app(networks=[network], auth=by_header, approvers=["owner"], client=client)
    words = iter(WORDS)
    async with client_of(app) as http:
        for number, line in enumerate(LINES):
            with executor.connection.use():
                await http.post("/api/chat", json=message(line, "t1"))
            await executor.advance(1)
            if number:
                asked = [p for p in executor.published if p.data["event"] == "hitl.requested"]
                word = next(words)
                said = {"action": "approve"} if word is True else {"action": "deny", "reason": word}
                question = asked[-1].data["data"]["requestId"]
                with executor.connection.use():
                    body = {"threadId": "t1", "toolCallId": question, **said}
                    answer = await http.post("/api/approve-tool", json=body)
                    assert answer.status_code == 200
                await executor.advance(1)
            assert executor.runs[-1].status == "completed"
    return await ended(network, path)


async def test_a_conversation_is_the_same_thread_over_http_and_in_python(tmp_path: Path) -> None:
    """HTTP in both modes, the terminal and Python give one thread, apart from ids and times."""
    expected = await plainly(tmp_path / "plain.db")
    title, _, rows = expected
    assert title == "Good morning"
    assert [row[1]["agentName"] for row in rows] == [
        "user", "clerk", "user", "clerk", "clerk", "user", "clerk", "clerk"
    ]  # fmt: skip
    assert await by_http(tmp_path / "http.db") == expected
    assert await by_functions(tmp_path / "functions.db") == expected
    folder = tmp_path / "terminal"
    folder.mkdir()
    talk_in_terminal(folder)
    assert await kept(folder / "threads.db") == expected
