"""Conversations of data sets and other programs: imported, and read for a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentkit_py.cli.app import app
from agentkit_py.errors import InvalidRecordError
from agentkit_py.models.chat_records import as_chat, records_of
from agentkit_py.stores import MemoryHistory
from agentkit_py.stores.interchange import import_threads
from agentkit_py.testing.replay.recording import conversation_of_line

CALL = {"name": "look", "arguments": {"city": "Graz"}}
WRITTEN = json.dumps(CALL)
OPENAI = {"id": "c9", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def event(number: int, source: str, **rest: Any) -> dict[str, Any]:
    """An event of OpenHands."""
    return {"id": number, "source": source, "timestamp": "2026-01-01T00:00:00", **rest}


def metadata(call_id: str) -> dict[str, Any]:
    """What an event of OpenHands keeps of its call."""
    return {"function_name": "look", "tool_call_id": call_id, "total_calls_in_response": 1}


RECORDS: dict[str, dict[str, Any]] = {
    "tau2": {
        "id": "sim-1",
        "task_id": "3",
        "messages": [
            {"role": "assistant", "content": "Hi! How can I help?", "tool_calls": None},
            {"role": "user", "content": "Weather?", "tool_calls": None},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c9", **CALL, "requestor": "assistant"}],
            },
            {"role": "tool", "id": "c9", "content": "rain", "requestor": "assistant"},
            {"role": "user", "content": None, "tool_calls": [{"id": "u1", **CALL}]},
            {"role": "tool", "id": "u1", "content": "mine", "requestor": "user"},
            {"role": "assistant", "content": "It rains."},
        ],
    },
    "tau2, two results at once": {
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "tool_calls": [{"id": "c9", **CALL}, {"id": "c8", **CALL}]},
            {
                "role": "tool",
                "tool_messages": [
                    {"role": "tool", "id": "c8", "content": "rain"},
                    {"role": "tool", "id": "c9", "content": "rain"},
                ],
            },
            {"role": "assistant", "content": "It rains."},
        ],
    },
    "ShareGPT": {
        "id": "s",
        "system": "S",
        "conversations": [
            {"from": "human", "value": "Weather?"},
            {"from": "function_call", "value": WRITTEN},
            {"from": "observation", "value": "rain"},
            {"from": "gpt", "value": "It rains."},
        ],
    },
    "ShareGPT in tags": {
        "conversations": [
            {"from": "system", "value": "S"},
            {"from": "human", "value": "Weather?"},
            {"from": "gpt", "value": f"Let me see.\n<tool_call>\n{WRITTEN}\n</tool_call>"},
            {
                "from": "tool",
                "value": '<tool_response>\n{"name": "look", "content": "rain"}\n</tool_response>',
            },
            {"from": "gpt", "value": "It rains."},
        ],
    },
    "SWE-agent": {
        "instance_id": "i",
        "history": [
            {"role": "system", "content": "S", "agent": "main"},
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {"role": "assistant", "content": "Hm.", "thought": "Hm.", "tool_calls": [OPENAI]},
            {"role": "tool", "content": "rain", "tool_call_ids": ["c9"]},
            {"role": "assistant", "content": "It rains."},
        ],
        "trajectory": [],
    },
    "SWE-agent, steps": {
        "instance_id": "i",
        "trajectory": [
            {
                "query": [{"role": "user", "content": "Weather?"}],
                "thought": "Hm.",
                "action": "look\n",
                "observation": "rain",
            },
            {"thought": "It rains.", "action": ""},
        ],
    },
    "OpenHands": {
        "instance_id": "i",
        "history": [
            event(0, "agent", action="system", args={"content": "S"}),
            event(1, "user", action="message", args={"content": "Weather?"}),
            event(2, "environment", observation="agent_state_changed", content=""),
            event(
                3,
                "agent",
                action="run",
                args={"command": "look", "thought": "Hm."},
                tool_call_metadata=metadata("c9"),
            ),
            event(4, "agent", observation="run", content="rain", cause=3)
            | {"tool_call_metadata": metadata("c9")},
            event(5, "agent", action="finish", args={"final_thought": "It rains."}),
        ],
    },
    "OpenHands' SDK": {
        "events": [
            event(0, "agent", kind="SystemPromptEvent", system_prompt={"text": "S"}),
            event(
                1,
                "user",
                kind="MessageEvent",
                llm_message={"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            ),
            event(
                2,
                "agent",
                kind="ActionEvent",
                thought=[{"type": "text", "text": "Hm."}],
                tool_name="look",
                tool_call_id="c9",
                tool_call={"id": "c9", "name": "look", "arguments": '{"city": "Graz"}'},
            ),
            event(
                3,
                "environment",
                kind="ObservationEvent",
                tool_name="look",
                tool_call_id="c9",
                observation={"content": [{"type": "text", "text": "rain"}]},
            ),
            event(
                4,
                "agent",
                kind="MessageEvent",
                llm_message={
                    "role": "assistant",
                    "content": [{"type": "text", "text": "It rains."}],
                },
            ),
        ],
    },
    "the role function": {
        "messages": [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "look", "arguments": '{"city": "Graz"}'},
            },
            {"role": "function", "name": "look", "content": "rain"},
            {"role": "assistant", "content": "It rains."},
        ],
    },
    "results without an id": {
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [OPENAI]},
            {"role": "tool", "content": "rain"},
            {"role": "assistant", "content": "It rains."},
        ],
    },
}
records = pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))


@records
def test_a_replay_reads_it(record: dict[str, Any]) -> None:
    """Each result answers its call, and what the simulated user did by itself is not there."""
    conversation = conversation_of_line(json.dumps(record).encode(), 1)
    assert [turn.text for turn in conversation.turns] == ["Weather?"]
    assert [call.result for call in conversation.calls] == ["rain"] * len(conversation.calls)
    assert conversation.replies[-1].text == "It rains."
    assert conversation.tools in (["look"], ["bash"])


@records
async def test_an_import_reads_it(record: dict[str, Any]) -> None:
    """Its results are beside their calls, under their names."""
    store = MemoryHistory()
    (thread,) = await import_threads(store, [json.dumps(record)])
    results = [one.result for one in await store.stored_results(thread)]
    answers = [answer for result in results for answer in result.tool_calls]
    assert answers
    assert all(answer.content == "rain" for answer in answers)
    assert all(answer.tool.id and answer.tool.name in ("look", "bash") for answer in answers)
    assert await import_threads(store, [json.dumps(record)]) == [thread]
    assert len(await store.stored_results(thread)) == len(results)


def test_the_questions_of_bfcl_are_a_conversation_without_replies() -> None:
    """Turn by turn."""
    asked = [[{"role": "user", "content": "Move it."}], [{"role": "user", "content": "And now?"}]]
    conversation = conversation_of_line(json.dumps({"id": "m_0", "question": asked}).encode(), 1)
    assert [turn.text for turn in conversation.turns] == ["Move it.", "And now?"]


@pytest.mark.parametrize(
    "message", [{"role": "function", "name": "look", "content": "x"}, {"role": "tool"}]
)
def test_a_result_that_answers_no_call_is_named(message: dict[str, Any]) -> None:
    """With the place where it stands."""
    with pytest.raises(InvalidRecordError, match="answers no call") as caught:
        as_chat({"messages": [{"role": "user", "content": "Hi"}, message]}, "line 7")
    assert (caught.value.where, caught.value.field) == ("line 7", "messages[1].role")


def test_a_turn_of_bfcl_that_only_adds_functions_says_nothing() -> None:
    """Its list of messages is empty; two messages of one turn are both there."""
    asked = [[{"role": "user", "content": "Move it."}], [], [{"role": "user", "content": "Now?"}]]
    record = {"id": "miss_func_0", "question": asked, "missed_function": {"1": ["move"]}}
    conversation = conversation_of_line(json.dumps(record).encode(), 1)
    assert [turn.text for turn in conversation.turns] == ["Move it.", "Now?"]


def test_a_voice_simulation_of_tau2_is_refused_with_the_way_on() -> None:
    """Its sounds overlap: there are no turns to read."""
    chunk = {"role": "assistant", "contains_speech": False}
    record = {"id": "s", "ticks": [{"tick_id": 0, "agent_chunk": chunk, "user_chunk": chunk}]}
    with pytest.raises(InvalidRecordError, match=r"voice simulation.*in text") as caught:
        as_chat(record)
    assert caught.value.field == "ticks"


def test_values_in_openais_format_stay_unchanged() -> None:
    """Not one member of a line is touched."""
    record = {"messages": [{"role": "assistant", "tool_calls": [OPENAI], "x": 1}], "y": 2}
    assert as_chat(record) is record


def test_a_document_on_several_lines_is_its_records() -> None:
    """A file of tau2, a list, a trajectory of events, or one record."""
    one, two = RECORDS["tau2"], RECORDS["ShareGPT"]
    events = RECORDS["OpenHands"]["history"]
    documents: list[tuple[Any, list[Any]]] = [
        ({"simulations": [one], "tasks": []}, [one]),
        ([one, two], [one, two]),
        (events, [{"history": events}]),
        (one, [one]),
    ]
    for document, wanted in documents:
        lines = json.dumps(document, indent=2).encode().splitlines(keepends=True)
        assert [json.loads(line) for line in records_of(lines)] == wanted
    lines = [json.dumps(one).encode(), b"\n", json.dumps(two).encode()]
    assert b"".join(records_of(lines)) == b"".join(lines)


def test_lines_that_are_events_are_a_conversation_together() -> None:
    """As OpenHands' SDK keeps them; with a line of another kind each is for itself."""
    events = RECORDS["OpenHands' SDK"]["events"]
    lines = [json.dumps(one).encode() + b"\n" for one in events]
    assert [json.loads(line) for line in records_of(lines)] == [{"history": events}]
    mixed = [*lines, b'{"messages": []}\n']
    assert list(records_of(mixed)) == mixed


def test_rows_of_alpaca_are_a_question_with_its_answer() -> None:
    """Their input is no request to the Responses API; earlier turns and a system prompt count."""
    row: dict[str, Any] = {"instruction": "Add.", "input": "1 2", "output": "3"}
    row |= {"system": "S", "history": [["Hi", "Hello"]]}
    said = [(m["role"], m["content"]) for m in as_chat(row)["messages"]]
    assert said == [
        ("system", "S"),
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "Add.\n1 2"),
        ("assistant", "3"),
    ]


def test_bad_lines_are_left_out_if_that_is_wanted(tmp_path: Path) -> None:
    """And counted, of how many."""
    file, store = tmp_path / "mixed.jsonl", tmp_path / "t.sqlite"
    file.write_text(f"{json.dumps(RECORDS['ShareGPT'])}\n{{}}\nno JSON\n")
    strict = CliRunner().invoke(app, ["threads", "import", str(file), "--db", str(store)])
    assert strict.exit_code != 0
    arguments = ["threads", "import", str(file), "--db", str(store), "--skip-bad"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert "2 of 3 lines left out" in found.output
    replay = ["replay", str(file), "--processors", "none"]
    assert CliRunner().invoke(app, replay).exit_code == 1
    skipping = CliRunner().invoke(app, [*replay, "--skip-bad"])
    assert skipping.exit_code == 0, skipping.output
    assert "2 of 3 lines left out" in skipping.output


def test_a_pipe_that_closes_early_ends_a_replay(tmp_path: Path) -> None:
    """It does not wait for ever."""
    file = tmp_path / "bad.jsonl"
    file.write_text("{}\n" * 3000)
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "agentkit_py.cli", "replay", str(file)]
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(program, stdout=closed, stderr=closed, timeout=600, check=False)
    assert done.returncode != 0
