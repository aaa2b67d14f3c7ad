"""`agentkit replay` runs recordings again and says what differs, was refused, and what it cost."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any, cast, get_args

import pytest
from typer.testing import CliRunner, Result

from agentkit_py._core.json import dumps
from agentkit_py.cli.app import app
from agentkit_py.cli.replay import Provider
from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import ApproximateTokenizer
from agentkit_py.results import AgentResult
from agentkit_py.stores import SqliteHistory
from agentkit_py.testing.provider import error
from agentkit_py.testing.replay import (
    PROVIDERS,
    Conversation,
    Pass,
    RecordedNetwork,
    Replay,
    ReplayOutcome,
    read_conversations,
)
from agentkit_py.testing.replay.networks import Script, agent_of, deal_out
from agentkit_py.testing.replay.recording import RecordedCall, RecordedReply, RecordedTurn
from agentkit_py.testing.replay.runner import adds_up, difference

from .conversations import CONVERSATIONS

DATA = Path(__file__).parent / "data"
ODDITIES = DATA / "oddities.jsonl"
AIRLINE = Path(__file__).resolve().parents[3] / "shared/data/airline/conversations.jsonl"
needs_airline = pytest.mark.skipif(
    not AIRLINE.is_file(), reason="the recorded airline conversations are not on this machine"
)


def run(*arguments: object) -> Result:
    """`agentkit replay` with these arguments."""
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def figures(*arguments: object) -> dict[str, Any]:
    """The figures of a replay in which all was well."""
    done = run(*arguments, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def recorded(file: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Id and messages of each conversation, as the file has them but for the system's."""
    for line in file.read_text(encoding="utf-8").splitlines():
        conversation = json.loads(line)
        messages = [m for m in conversation["messages"] if m["role"] not in ("system", "developer")]
        yield conversation["id"], [plain(m) for m in in_call_order(messages)]


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """A recorded message in the form that `stored` gives, read by other code than the command's."""
    content: Any = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in cast("list[dict[str, str]]", content))
    calls = [
        (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"] or "{}"))
        for c in message.get("tool_calls", ())
    ]
    blank = calls and content is not None and not content.strip()
    found = {"role": message["role"], "content": None if blank else content, "calls": calls}
    return {**found, "id": message["tool_call_id"]} if message["role"] == "tool" else found


def in_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the results of a reply in the order of its two calls."""
    out = list(messages)
    for index in range(len(out) - 2):
        ids = [call["id"] for call in out[index].get("tool_calls", ())]
        if len(set(ids)) == 2 and out[index + 1]["tool_call_id"] == ids[1]:
            out[index + 1 : index + 3] = [out[index + 2], out[index + 1]]
    return out


def stored(db: Path, thread_id: str) -> list[dict[str, Any]]:
    """The messages of a thread, straight from the rows of the SQLite file."""
    with sqlite3.connect(db) as connection:
        query = "SELECT json FROM results WHERE thread_id = ? ORDER BY position"
        rows = [json.loads(text) for (text,) in connection.execute(query, (thread_id,))]
    connection.close()
    found: list[dict[str, Any]] = []
    for row in rows:
        texts = [m["content"] for m in row["output"] if m["type"] == "text"]
        tools = [c for m in row["output"] if m["type"] == "tool_call" for c in m["tools"]]
        calls = [(c["id"], c["name"], c["input"]) for c in tools]
        role = "user" if row["agentName"] == "user" else "assistant"
        found.append({"role": role, "content": texts[0] if texts else None, "calls": calls})
        assert len(texts) <= 1
        for answer in row["toolCalls"]:
            content = answer["content"]["data"]
            found.append(
                {"role": "tool", "content": content, "calls": [], "id": answer["tool"]["id"]}
            )
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_oddity_of_a_recording_comes_back_as_it_was(provider: str, tmp_path: Path) -> None:
    """Repeated ids, text with calls, parallel calls, open ends; each thread is its recording."""
    db = tmp_path / "threads.db"
    found = figures(ODDITIES, "--db", db, "--provider", provider)
    for one in ("none", "default"):
        counted = found["passes"][one]
        assert {name: counted[name] for name in counted if name != "tokensSent"} == {
            "conversations": 8,
            "turns": 13,
            "modelCalls": 25,
            "toolCalls": 17,
            "foreignToolCallsSent": 24 if one == "none" else 0,
            "reportsThatDoNotAddUp": 0,
            "requestsRejected": 0,
            "threadsThatDiffer": 0,
            "rulesBroken": {},
            "missingTools": {},
        }
        for name, messages in recorded(ODDITIES):
            assert stored(db, f"{name}:{one}") == messages
    tokens = [found["passes"][one]["tokensSent"] for one in ("none", "default")]
    assert tokens[0] > tokens[1] > 0


@needs_airline
def test_the_airline_conversations_replay_without_one_refused_request(tmp_path: Path) -> None:
    """A hundred conversations of a real model, with and without processors."""
    db = tmp_path / "threads.db"
    found = figures(AIRLINE, "--db", db)
    for one, counted in found["passes"].items():
        kept = ("conversations", "turns", "modelCalls", "toolCalls")
        assert [counted[name] for name in kept] == [100, 757, 1229, 572]
        wrong = ("requestsRejected", "threadsThatDiffer", "reportsThatDoNotAddUp")
        assert [counted[name] for name in wrong] == [0, 0, 0]
        for name, messages in recorded(AIRLINE):
            assert stored(db, f"{name}:{one}") == messages
    assert found["passes"]["none"]["foreignToolCallsSent"] > 3000
    assert found["passes"]["default"]["foreignToolCallsSent"] == 0


async def outcomes(file: Path, maker: RecordedNetwork, db: Path) -> list[ReplayOutcome]:
    """Return the outcome of each conversation, with the requests that the provider got."""
    seen: list[ReplayOutcome] = []
    async with SqliteHistory(db) as store:
        job = Replay(
            store=store,
            passes=[Pass("only", maker)],
            concurrency=1,
            on_outcome=lambda _pass, outcome: seen.append(outcome),
        )
        await job.run(read_conversations(file))
    return seen


async def test_agents_never_see_another_agents_tool_calls(tmp_path: Path) -> None:
    """Read from the requests as they arrived: each call in them is of a tool offered in them."""
    maker = RecordedNetwork.with_default_processors()
    found = await outcomes(ODDITIES, maker, tmp_path / "t.db")
    requests = [request for outcome in found for request in outcome.requests]
    offered = [{t["function"]["name"] for t in r.body.get("tools", ())} for r in requests]
    called = [
        {c["function"]["name"] for m in r.body["messages"] for c in m.get("tool_calls", ())}
        for r in requests
    ]
    assert len(requests) == 25
    assert all(names <= tools for names, tools in zip(called, offered, strict=True))
    assert any(called)
    assert any(not tools for tools in offered)  # the front desk has none


@pytest.mark.parametrize("filters", [False, True])
async def test_a_report_counts_the_messages_that_the_provider_got(
    *, filters: bool, tmp_path: Path
) -> None:
    """Each text, call and result that a report calls sent is in the request; nothing else is."""
    found = await outcomes(ODDITIES, RecordedNetwork(filters=filters), tmp_path / "t.db")
    for outcome in found:
        assert len(outcome.requests) == len(outcome.reports) > 0
        for request, report in zip(outcome.requests, outcome.reports, strict=True):
            assert contents(request.body) == [item for m in report.sent for item in spoken(m)]
            assert report.tokens_after == sum(
                ContextReport(agent="", sent=[m], tokenizer=report.tokenizer).tokens_after
                for m in report.sent
            )
            assert adds_up(report)


def contents(body: dict[str, Any]) -> list[str]:
    """Return a request's texts, names of called tools and results, in order."""
    found: list[str] = []
    for message in body["messages"]:
        if message["content"] is not None:
            found.append(message["content"])
        found += [call["function"]["name"] for call in message.get("tool_calls", ())]
    return found


def spoken(message: Message) -> list[str]:
    """Return one of our messages in the form of `contents`."""
    match message:
        case ToolCallMessage():
            return [call.name for call in message.tools]
        case ToolResultMessage():
            return [dumps(message.content)]
        case TextMessage():
            return [message.text]
        case _:
            raise AssertionError(message)


def test_unusable_lines_are_named_and_the_others_are_replayed() -> None:
    """Each kind of bad line, with its number and field; the good ones are replayed.

    Line 28 has a result without an id, which finds its call.
    """
    done = run(DATA / "bad_lines.jsonl", "--json")
    named = re.findall(r"^line (\d+), field ([^:]+): \S", done.stderr, re.MULTILINE)
    call = "messages[2].tool_calls[0]"
    assert [field for _, field in named] == [
        *["(whole line)"] * 2,
        "messages",  # a line without an id has its number for one
        "id",
        *["messages"] * 3,
        "messages[1]",
        *["messages[1].role"] * 2,
        *["messages[1].content"] * 3,
        "messages[1].content[0].type",
        "messages[1].content[0].text",
        "messages[1].role",
        "messages[2].content",
        "messages[2].tool_calls",
        f"{call}.type",
        f"{call}.function",
        f"{call}.function.name",
        *[f"{call}.function.arguments"] * 3,
        f"{call}.id",
        "messages[2].role",
        "messages[3].tool_call_id",
        "messages[3].name",
        "messages[3].content",
        *[call] * 2,
        "messages[3].role",
        "id",
        "(whole line)",
    ]
    assert [int(number) for number, _ in named] == [n for n in range(2, 37) if n != 28]
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["linesNotRead"] == 34
    assert found["passes"]["none"]["conversations"] == 3


def test_a_file_that_was_cut_off_says_so() -> None:
    """The lines before the cut are replayed."""
    done = run(DATA / "cut_off.jsonl")
    assert "line 2, field (whole line): no JSON" in done.stderr
    assert "perhaps it was cut off" in done.stderr
    assert "Lines that could not be read: 1." in done.stdout
    assert done.exit_code == 1


def test_text_that_is_no_utf_8_is_a_bad_line(tmp_path: Path) -> None:
    """So is JSON nested deeper than Python reads; the other lines are replayed."""
    file = tmp_path / "mixed.jsonl"
    good = ODDITIES.read_bytes().splitlines(keepends=True)[0]
    file.write_bytes(b"\xef\xbb\xbf" + good + b'{"id": "\xff"}\n' + b"[" * 100_000 + b"\n")
    done = run(file, "--json")
    assert "line 2, field (whole line): not UTF-8 (byte 9)" in done.stderr
    assert "line 3, field (whole line): no JSON" in done.stderr
    assert json.loads(done.stdout)["passes"]["none"]["conversations"] == 1


def test_nothing_to_replay_is_exit_status_2(tmp_path: Path) -> None:
    """A file that is missing, empty or no file, and a database that cannot be one."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n\n")
    other = tmp_path / "other.db"
    other.write_text("this is no database, it is a text of some length " * 50)
    cases = {
        (tmp_path / "none.jsonl",): "there is no file",
        (empty,): "it is empty",
        (tmp_path,): "cannot be read",
        (ODDITIES, "--db", other): "is not an SQLite database",
        (ODDITIES, "--db", tmp_path / "no" / "x.db"): "does not exist",
        (ODDITIES, "--limit", "0"): "--limit",
        (ODDITIES, "--concurrency", "0"): "--concurrency",
        (ODDITIES, "--provider", "acme"): "--provider",
        (ODDITIES, "--live-tools"): "--live-tools needs --network",
    }
    for arguments, said in cases.items():
        done = run(*arguments)
        assert done.exit_code == 2, (arguments, done.output)
        assert said in done.stderr.replace("\n", " ")
        assert done.stdout == ""


def test_a_file_of_bad_lines_only_is_exit_status_1(tmp_path: Path) -> None:
    """A replay that could read nothing has failed."""
    file = tmp_path / "bad.jsonl"
    file.write_text('[1]\n{"messages": []}\n')
    done = run(file)
    assert done.exit_code == 1
    assert "Lines that could not be read: 2." in done.stdout


def test_the_line_that_the_guide_shows_can_be_replayed(tmp_path: Path, root: Path) -> None:
    """The guide shows the line broken into several."""
    page = (root / "docs" / "guides" / "command-line.md").read_text(encoding="utf-8")
    sample = page.split("```json\n")[1].split("```")[0]
    file = tmp_path / "sample.jsonl"
    file.write_text(json.dumps(json.loads(sample)))
    assert run(file).exit_code == 0


def test_limit_stops_reading_after_so_many_conversations() -> None:
    """Lines after them are not looked at."""
    found = figures(DATA / "bad_lines.jsonl", "--limit", 1)
    assert found["passes"]["none"]["conversations"] == 1
    assert found["linesNotRead"] == 0
    assert figures(ODDITIES, "--limit", 99)["passes"]["none"]["conversations"] == 8


def test_without_processors_there_is_one_pass() -> None:
    """The table has one column."""
    done = run(ODDITIES, "--processors", "none")
    assert done.exit_code == 0
    assert "no processors" in done.stdout
    assert "filter + limit" not in done.stdout
    assert list(figures(ODDITIES, "--processors", "none")["passes"]) == ["none"]


def test_a_second_replay_into_the_same_database_makes_threads_of_its_own(tmp_path: Path) -> None:
    """It says so; the first replay's threads stay as they were."""
    db = tmp_path / "threads.db"
    assert "were there already" not in run(ODDITIES, "--db", db).stdout
    before = stored(db, "plain:none")
    again = run(ODDITIES, "--db", db)
    assert again.exit_code == 0
    assert "16 of these thread ids were there already" in " ".join(again.stdout.split())
    assert stored(db, "plain:none") == stored(db, "plain:none~2") == before


def test_the_table_names_the_compared_policies() -> None:
    """No progress bar where nobody watches; figures with thousands separators and notes."""
    done = run(ODDITIES)
    lines = {line.split("  ")[0]: line.split()[-2:] for line in done.stdout.splitlines() if line}
    assert lines["conversations"] == ["8", "8"]
    assert lines["turns (user messages)"] == ["13", "13"]
    assert lines["model calls"] == ["25", "25"]
    assert lines["requests rejected"] == ["0", "0"]
    assert lines["threads that differ from the recording"] == ["0", "0"]
    assert "Threads were compared without system messages" in done.stdout
    assert "processors saved" in done.stdout
    assert done.stderr == ""


def test_a_terminal_gets_a_progress_bar() -> None:
    """The bar is on stderr, so that the table can be redirected; errors are above it."""
    arguments = ["replay", str(DATA / "bad_lines.jsonl"), "--limit", "3"]
    done = CliRunner().invoke(app, arguments, env={"FORCE_COLOR": "1"})
    assert "replaying" in done.stderr
    assert "3/3" in done.stderr
    assert "field messages[3].role" in done.stderr
    assert "replaying" not in done.stdout


def test_a_recording_may_come_through_a_pipe(tmp_path: Path) -> None:
    """It is read once, from its beginning to its end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=[ODDITIES.read_bytes()])
    writer.start()
    done = CliRunner().invoke(app, ["replay", str(pipe), "--json"], env={"FORCE_COLOR": "1"})
    writer.join()
    assert done.exit_code == 0
    assert json.loads(done.stdout)["passes"]["none"]["conversations"] == 8


def test_the_options_name_every_provider() -> None:
    """The command's list and the replay's are one."""
    assert list(get_args(Provider)) == list(PROVIDERS)


def conversation(name: str) -> Conversation:
    """One of the oddities."""
    found = [c for c in read_conversations(ODDITIES) if isinstance(c, Conversation)]
    return next(c for c in found if c.id == name)


def test_tools_are_dealt_out_by_name_and_stay_together_where_a_reply_calls_both() -> None:
    """A reply can only come from an agent that has all of its tools."""
    assert deal_out(conversation("repeated-ids")) == {"get_bike": "lookups", "rent_bike": "changes"}
    assert deal_out(conversation("parallel")) == {"get_bike": "lookups", "book_bike": "lookups"}
    names = ["getUser", "search-flights", "cancel_order", "_think", "transfer_to_human"]
    assert [agent_of(name) for name in names] == ["lookups"] * 2 + ["changes"] + ["service"] * 2
    assert {agent_of(f"zz{n}") for n in range(50)} == {"lookups", "changes", "service"}


def test_tools_that_no_reply_calls_together_stay_where_their_names_put_them() -> None:
    """Only what was called together moves."""
    calls = [RecordedCall(name, name, {}, "{}", "") for name in ("send_bill", "get_bike", "add")]
    replies = [RecordedReply(None, (calls[0],)), RecordedReply(None, tuple(calls[1:]))]
    replayed = Conversation("x", 1, "", [RecordedTurn("Hi", replies)])
    assert deal_out(replayed) == {"send_bill": "service", "get_bike": "lookups", "add": "lookups"}


def test_a_script_answers_each_call_once_and_says_when_it_is_asked_for_more() -> None:
    """Calls are matched by id and name; equal ones are matched in order."""
    script = Script()
    assert script.reply() == error(500, "The recording has no further reply in this turn.")
    script.begin(conversation("parallel").turns[0])
    script.reply()
    second, first = ToolCall("call_7", "get_bike"), ToolCall("call_6", "get_bike")
    assert [script.answer(second), script.answer(first)] == ["a city bike", "a racing bike"]
    with pytest.raises(LookupError, match="no answer"):
        script.answer(first)
    script.begin(conversation("parallel").turns[1])
    script.reply()
    twice = ToolCall("call_9", "get_bike")
    assert [script.answer(twice), script.answer(twice)] == ["first answer", "second answer"]


def test_an_id_that_no_store_takes_ends_its_conversation_only(tmp_path: Path) -> None:
    """Half of a surrogate pair is JSON but no Unicode."""
    file = tmp_path / "odd.jsonl"
    good = ODDITIES.read_text().splitlines(keepends=True)[0]
    file.write_text(good.replace('"plain"', '"\\ud83d"') + good)
    done = run(file, "--json")
    assert done.exit_code == 1
    assert "line 1" in done.stderr
    found = json.loads(done.stdout)["passes"]["none"]
    assert (found["conversations"], found["threadsThatDiffer"], found["modelCalls"]) == (2, 1, 1)


def results(*messages: Message) -> list[AgentResult]:
    """A thread of the conversation that ends on a tool, with a last reply of these messages."""
    first = ToolCall("call_4", "think", {"thought": "They want a person."})
    output = [m for m in messages if not isinstance(m, ToolResultMessage)]
    answers = [m for m in messages if isinstance(m, ToolResultMessage)]
    return [
        AgentResult.from_user("Let me talk to a person."),
        AgentResult("a", [ToolCallMessage([first])], [ToolResultMessage(first, {"data": ""})]),
        AgentResult("blank", []),
        AgentResult("b", output, answers),
    ]


def test_a_thread_that_differs_says_where_first() -> None:
    """Message by message, field by field; results out of their envelope, errors as they are."""
    replayed = conversation("ends-on-tool")
    call = ToolCall("call_5", "transfer_to_person", {"summary": "wants a person"})
    ask, answer = ToolCallMessage([call]), ToolResultMessage(call, {"data": "Transfer successful"})
    failed = ToolResultMessage(call, {"error": {"name": "E", "message": "m"}})
    other = ToolCallMessage([ToolCall("call_6", "transfer_to_person", call.arguments)])
    assert difference(replayed, results(ask, answer)) is None
    cases = {
        "message 4 (assistant) is not in the thread": [],
        "message 5 (tool) is not in the thread": [ask],
        "message 5: tool, content is 'Transfer successful' in the recording": [ask, failed],
        "message 4: assistant, tool_calls is [{'id': 'call_5'": [other, answer],
        "message 4: assistant, content is None in the recording, 'Hm' in the thread": [
            TextMessage("assistant", "Hm"),
            ask,
            answer,
        ],
        "message 6 (tool) is in the thread only": [ask, answer, answer],
    }
    for said, messages in cases.items():
        assert (difference(replayed, results(*messages)) or "").startswith(said)
    swapped = results(ask, answer)
    assert "assistant in the recording, user in the thread" in str(
        difference(replayed, [swapped[0], swapped[0], *swapped[1:]])
    )


def test_figures_that_do_not_add_up_are_found() -> None:
    """An entry that does not continue where the one before ended, and a list that was not sent."""
    tokenizer = ApproximateTokenizer()
    history = [TextMessage("user", "one two"), TextMessage("assistant", "three four five")]
    prompt = [TextMessage("system", "six")]

    def report(sent: list[Message], *entries: ReportEntry) -> ContextReport:
        return ContextReport(
            agent="a",
            entries=entries,
            prompt=prompt,
            history=history,
            sent=sent,
            tokenizer=tokenizer,
        )

    def entry(before: list[Message], after: list[Message], level: str = "agent") -> ReportEntry:
        return ReportEntry(level=level, name="x", before=before, after=after, tokenizer=tokenizer)

    full: list[Message] = [*prompt, *history]
    one: list[Message] = [*prompt, history[0]]
    assert adds_up(report(full))
    assert not adds_up(report(one))
    assert adds_up(report(one, entry([*history], [history[0]])))
    assert not adds_up(report(one, entry([history[1]], [history[0]])))
    assert adds_up(report(one, entry(full, one, "validity")))
    assert not adds_up(report(full, entry(full, one, "validity")))


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_requests_of_each_provider_can_be_replayed_on_any(provider: str, tmp_path: Path) -> None:
    """With their images and tools; the threads hold them as they were."""
    lines = [json.dumps({**line, "id": name}) for name, line in CONVERSATIONS.items()]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    found = figures(tmp_path / "in.jsonl", "--provider", provider)
    done = found["passes"]["none"]
    assert (done["conversations"], done["modelCalls"], done["toolCalls"]) == (4, 8, 4)
    assert (done["requestsRejected"], done["threadsThatDiffer"]) == (0, 0)


GREETED: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "assistant", "content": "Where do you want to go?"},
            {"role": "user", "content": "To Rome."},
            {"role": "assistant", "content": ""},
            {"role": "system", "content": "Flights are late today."},
            {"role": "assistant", "content": "When?"},
        ]
    },
    {
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]},
            {"role": "model", "parts": [{"text": "Where do you want to go?"}]},
            {"role": "user", "parts": [{"text": "To Rome."}]},
            {"role": "model", "parts": [{"text": "When?"}]},
        ]
    },
]


@pytest.mark.parametrize("line", GREETED)
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_a_conversation_that_the_assistant_opens_is_replayed(
    line: dict[str, Any], provider: str, tmp_path: Path
) -> None:
    """Greetings come first; empty replies, which some programs keep, say nothing."""
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    found = figures(tmp_path / "in.jsonl", "--provider", provider)
    done = found["passes"]["none"]
    assert (done["conversations"], done["modelCalls"]) == (1, 1)
    assert (done["requestsRejected"], done["threadsThatDiffer"]) == (0, 0)


NOT_REPLAYED: list[tuple[dict[str, Any], str]] = [
    ({"contents": [{"role": "model", "parts": [{"text": "Hi"}]}]}, "no user message"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": "1"}]}, "no call"),
    ({"system": "S", "messages": []}, "no user message"),
    ({"contents": [{"role": "root", "parts": []}]}, "'root'"),
]


@pytest.mark.parametrize(("line", "problem"), NOT_REPLAYED)
def test_a_request_that_cannot_be_replayed_says_why(
    line: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """It is a line that could not be read, as others are."""
    (tmp_path / "in.jsonl").write_text(json.dumps(line))
    done = run(tmp_path / "in.jsonl")
    assert done.exit_code == 1
    assert problem in done.stderr
