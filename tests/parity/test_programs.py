"""Programs of the shapes of the TypeScript repository's examples, in both languages.

Each is played by the npm package in Node and, written line by line, by ours in the default mode,
with the same replies. What it gives is the same, and each request holds the same messages; ours are
in the order in which they were said.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import inngest
import pytest

from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.testing import ReplayExecutor, ScriptedModel, tool_call
from tests.typescript import NodeMissingError

from .fresh import recorder
from .programs import DIRECT, DURABLE
from .swapped import WRITERS
from .vectors import Json

CALL = tuple[str, dict[str, Any]]
REPLIES: dict[str, list[str | CALL]] = {
    "research": [
        ("plan", {"topics": ["green", "black"]}),
        ("note", {"finding": "it is not fermented"}),
        ("note", {"finding": "it is"}),
        "All about tea.",
    ],
    "bench": [
        ("create_plan", {"thoughts": "swap them", "files": ["a.py"]}),
        ("write_file", {"filename": "a.py", "content": "b, a"}),
        ("done", {}),
    ],
    "hybrid": ["billing", "It is right.", "technical", "It works."],
    "chat": ["Hello, Ada.", "You are Ada."],
    "coder": [
        ("terminal", {"command": "ls -la"}),
        ("writeFiles", {"files": [{"path": "hi.py", "content": "print('hi')"}]}),
        ("readFiles", {"files": ["hi.py", "none"]}),
        ("terminal", {"command": "cat hi.py"}),
        "<task_summary>It greets.</task_summary>",
    ],
    "memory": [
        ("recall", {"queries": ["tea"]}),
        ("remember", {"facts": ["likes tea"]}),
        ("finish", {}),
    ],
    "person": [
        ("route", {"agent": "technical"}),
        ("ask_developer", {"question": "why?"}),
        ("route", {"agent": "technical"}),
        ("reply", {"message": "Turn it on."}),
        ("route", {"agent": "technical"}),
    ],
}
ANSWER = {"answer": "it is off"}


def typescripts(name: str) -> Json:
    """Return what the program gives in Node, and its requests."""
    try:
        folder = recorder()
    except NodeMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    write = WRITERS["openai"]
    said = [
        write(one, []) if isinstance(one, str) else write("", [(f"c{number}", *one)])
        for number, one in enumerate(REPLIES[name])
    ]
    given = {"replies": [{"json": reply} for reply in said], "event": {"data": ANSWER}}
    done = subprocess.run(
        ["node", "programs.mjs", name],
        cwd=folder,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def scripted(name: str) -> ScriptedModel:
    """Return a model with the program's replies."""
    return ScriptedModel(
        *(one if isinstance(one, str) else tool_call(*one) for one in REPLIES[name])
    )


def messages(requests: list[Json]) -> list[list[Json]]:
    """Return what each request says, without ids and in an order that is not that of a mode."""
    found: list[list[Json]] = []
    for body in requests:
        said = [
            (m["role"], m.get("content"), list(map(_call, m.get("tool_calls") or [])))
            for m in body["messages"]
        ]
        found.append(sorted((json.loads(json.dumps(one)) for one in said), key=json.dumps))
    return found


def _call(call: Json) -> Json:
    return [call["function"]["name"], json.loads(call["function"]["arguments"])]


@pytest.mark.parametrize("name", DIRECT)
async def test_a_program_has_the_same_effects_as_its_typescript_twin(name: str) -> None:
    """Outcome and requests."""
    theirs = typescripts(name)
    model = scripted(name)
    outcome = await DIRECT[name](model)
    model.assert_finished()
    outcome = json.loads(json.dumps(outcome))
    for row in outcome.get("rows", []):  # a stored message names its author
        authors = {message.pop("agent") for message in row.get("output", [])}
        assert authors <= {row.get("agent")}
    assert outcome == theirs["outcome"]
    assert messages([r.body for r in model.fake.requests]) == messages(theirs["requests"])


@pytest.mark.parametrize("name", DURABLE)
async def test_a_program_with_steps_has_the_same_effects_as_its_typescript_twin(name: str) -> None:
    """The same inside an Inngest function, whose code runs from its top for each step."""
    theirs = typescripts(name)
    model, outcomes = scripted(name), list[Any]()
    middleware = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="programs", is_production=False, middleware=[middleware])

    @client.create_function(fn_id="program", trigger=inngest.TriggerEvent(event="go"), retries=0)
    async def function(_: inngest.Context) -> None:
        outcomes.append(await DURABLE[name](model))

    executor = ReplayExecutor(client, [function], transport=model.fake.transport)
    run = await executor.run("go", answer=lambda _: ANSWER)
    assert run.status == "completed", run.error
    model.assert_finished()
    outcome = json.loads(json.dumps(outcomes[-1]))
    sent = [{"name": e["name"], "data": e["data"]} for e in executor.events if e["name"] != "go"]
    if "events" in theirs["outcome"]:
        outcome["events"] = [one for one in sent if one["name"].startswith("app/memories")]
    assert outcome == theirs["outcome"]
    assert messages([r.body for r in model.fake.requests]) == messages(theirs["requests"])
