"""Programs of the porting page in both languages, against one stand-in, compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import inngest
import psycopg
import pytest
from psycopg import sql

from agentkit_py import openai
from agentkit_py.runtime.direct import providers
from agentkit_py.testing import FakeProvider, ReplayExecutor, tool_call
from agentkit_py.testing.executor import Wait
from tests.typescript import NodeMissingError, folder_of

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "porting"
PROGRAM = Path(__file__).parent / "node"

NOT_SENT = {"stream", "stream_options"}
"""Members of a request that only one of the languages sends; docs/parity.md says why."""

OURS = {"usage.updated", "metadata.updated"}
"""Chunks that TypeScript only declares."""


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def node() -> Path:
    """A folder with the npm package, which is installed there the first time."""
    try:
        return folder_of("porting", [*PROGRAM.iterdir(), *PROGRAMS.glob("*.ts")])
    except NodeMissingError as missing:
        _missing(str(missing))


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


def typescript_inside(
    node: Path, name: str, target: str, event: Any, script: Sequence[Any] = (), **answers: Any
) -> tuple[Any, Any]:
    """Run a function of the TypeScript program as Inngest does; return requests and the rest.

    Args:
        node: The folder with the npm package.
        name: The program.
        target: The exported function, or a network.
        event: The data of the event that begins it.
        script: Replies of the model.
        answers: What comes of waiting for events and of invoking functions.
    """
    with FakeProvider(list(script), strict=False) as fake:
        given = [target, json.dumps(event), json.dumps(answers)]
        done = subprocess.run(
            ["node", "inside.mjs", f"{name}.ts", fake.base_url("openai"), *given],
            cwd=node,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        bodies = [request.body for request in fake.requests]
    return bodies, json.loads(done.stdout.splitlines()[-1])


def twin(name: str) -> dict[str, Any]:
    """Return the names of the Python program, its networks and agents in TypeScript's order."""
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    source = text.split("# --8<-- [start:twin]")[1].split("# --8<-- [end:twin]")[0]
    module = sys.modules[name] = ModuleType(name)  # dataclasses look for it
    names = vars(module)
    exec(compile(source, name, "exec"), names)  # noqa: S102 - our own example
    for value in names.values():
        if hasattr(value, "history_mode") and not isinstance(value, type):
            value.history_mode = "typescript"
            model = "default_model" if hasattr(value, "default_model") else "model"
            if getattr(value, model) is not None:
                setattr(value, model, openai("gpt-4o", api_key="sk-test"))
    return names


async def python(name: str, script: list[Any], thread: str) -> tuple[Any, Any, Any]:
    """Run the twin; return its requests, its chunks and what `main` returned."""
    names = twin(name)
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


IDS = ("runId", "parentRunId", "messageId", "partId", "stepId", "threadId")


def told(chunks: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Chunks as a front end reads them: deltas of one part joined, ids by their first mention."""
    kept = [chunk for chunk in chunks if chunk["event"] not in OURS]
    numbers: dict[str, int] = {}
    for event, group in groupby(kept, key=lambda chunk: chunk["event"]):
        members = [chunk["data"] for chunk in group]
        if event.endswith(".delta"):
            joined = "".join(data["delta"] for data in members)
            members = [{**members[0], "delta": joined}]
        for data in members:
            ids = {name: data[name] for name in IDS if data.get(name) is not None}
            named = {name: numbers.setdefault(one, len(numbers)) for name, one in ids.items()}
            yield event, {**data, **named}


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


async def test_both_languages_continue_one_thread(node: Path, database: str) -> None:
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


@pytest.mark.parametrize("approved", [True, False])
async def test_a_support_desk_asks_the_model_and_a_person_as_the_original_does(
    node: Path, approved: bool
) -> None:
    """The same requests, the same event, the same money, the same output."""
    event = {
        "ticket": "t7",
        "history": [{"type": "text", "role": "user", "content": "My lamp is broken."}],
        "userMessage": {"id": "m1", "role": "user", "content": "I want my money back."},
    }
    script: list[Any] = [tool_call("refund", {"amount": 12.5}), "I have seen to it."]
    answer = {"ticket": "t7", "approved": approved}
    theirs, there = typescript_inside(
        node, "11_support_desk", "answerTicket", event, script, **{"desk/refund.answered": answer}
    )

    names = twin("11_support_desk")
    fake = FakeProvider(list(script), strict=False)
    waited: list[Wait] = []

    def person(wait: Wait) -> Mapping[str, Any]:
        waited.append(wait)
        return answer

    executor = ReplayExecutor(names["client"], [names["answer_ticket"]], transport=fake.transport)
    run = await executor.run("desk/ticket.opened", event, answer=person)
    assert run.status == "completed", run.error
    ours = [request.body for request in fake.requests]
    assert [without_schemas(body) for body in ours] == [without_schemas(body) for body in theirs]
    (wait,) = waited
    (question,) = [one for one in there["operations"] if one["op"] == "WaitForEvent"]
    assert wait.expression == question["opts"]["if"]
    assert names["paid"] == there["paid"] == ([12.5] if approved else [])
    assert run.output["ticket"] == there["returned"]["ticket"]
    pairs = zip(run.output["results"], there["returned"]["results"], strict=True)
    for our_result, their_result in pairs:
        assert our_result["agentName"] == their_result["agentName"]
        outputs = [list(map(meant, each["output"])) for each in (our_result, their_result)]
        assert outputs[0] == outputs[1]
        assert [m["content"] for m in our_result["toolCalls"]] == [
            m["content"] for m in their_result["toolCalls"]
        ]


async def test_functions_of_both_languages_invoke_each_other(node: Path) -> None:
    """What TypeScript returns is read in Python, and what Python returns in TypeScript."""
    _, price = typescript_inside(node, "13_invoking", "price", {"bread": "rye"})
    names = twin("13_invoking")
    typescript_app = inngest.Inngest(app_id="shop-ts", is_production=False)
    trigger = inngest.TriggerEvent(event="shop/price.asked")

    @typescript_app.create_function(fn_id="price", trigger=trigger)
    async def price_of(ctx: inngest.Context) -> Any:
        assert ctx.event.data["bread"] == "rye"
        return price["returned"]

    asked: list[Any] = [tool_call("ask_price", {"bread": "rye"}), "Rye is 3.40."]
    fake = FakeProvider(asked, strict=False)
    functions = [*names["functions"], price_of]
    executor = ReplayExecutor(names["client"], functions, transport=fake.transport)
    run = await executor.run("bakery-py/network-bakery", {"input": "What is rye?"})
    assert run.status == "completed", run.error
    last = fake.requests[-1].body["messages"][-1]
    assert json.loads(last["content"]) == {"data": {"bread": "rye", "cents": 340}}

    called: list[Any] = [tool_call("ask_python", {"question": "What is rye?"}), "It is 3.40."]
    bodies, shop = typescript_inside(
        node, "13_invoking", "shop", {"input": "Rye?"}, called, **{run.function: run.output}
    )
    assert run.function == "bakery-py-network-bakery"
    (invoked,) = [one["opts"] for one in shop["operations"] if one["op"] == "InvokeFunction"]
    assert invoked["function_id"] == run.function
    assert invoked["payload"]["data"] == {"input": "What is rye?"}
    assert json.loads(bodies[-1]["messages"][-1]["content"]) == {"data": "Rye is 3.40."}


def without_schemas(body: dict[str, Any]) -> dict[str, Any]:
    """A request without the words of its schemas, and with the calls' arguments as JSON.

    Zod and pydantic write schemas differently, and arguments go back as the model wrote them.
    """
    kept: dict[str, Any] = {name: value for name, value in body.items() if name not in NOT_SENT}
    messages = json.loads(json.dumps(kept["messages"]))
    for message in messages:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return {**kept, "messages": messages, "tools": [t["function"]["name"] for t in body["tools"]]}


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


def meant(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what the provider wrote: `providerMetadata` here, `function` there."""
    said = ("agent", "providerMetadata")
    kept = {name: value for name, value in message.items() if name not in said}
    if "tools" in kept:
        members = ("type", "id", "name", "input")
        kept["tools"] = [{name: call[name] for name in members} for call in kept["tools"]]
    return kept
