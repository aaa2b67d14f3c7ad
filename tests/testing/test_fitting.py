"""`agentkit fit`: the cheapest policy for one's own conversations, by figures of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner, Result

from agentkit_py import Agent, SqliteHistory, ToolCallFilter
from agentkit_py.cli.app import app
from agentkit_py.errors import ConfigurationError
from agentkit_py.processors import MessageWindow, TableResults
from agentkit_py.stores.interchange import import_threads
from agentkit_py.testing.replay import (
    CANDIDATES,
    Candidate,
    Conversation,
    fit,
    picture,
    read_conversations,
    survival,
)
from agentkit_py.testing.replay.fitting import candidate


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """Return an assistant message that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    tool_calls = [{"id": f"c{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def conversation(name: str, *, far: bool) -> dict[str, Any]:
    """Return a conversation that cancels an order; ``far``: long after the orders were listed."""
    orders = [{"order_id": f"{name}{n}", "total": 100 + n, "note": "paid"} for n in range(4)]
    listed = {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"orders": orders})}
    small_talk = [
        {"role": "user", "content": "A moment please."},
        {"role": "assistant", "content": "Of course."},
    ]
    return {
        "id": name,
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "My orders?"},
            call(1, "get_orders"),
            listed,
            {"role": "assistant", "content": "Four of them."},
            *(small_talk * (40 if far else 3)),
            {"role": "user", "content": "Cancel the second."},
            call(2, "cancel_order", order_id=f"{name}1"),
            {"role": "tool", "tool_call_id": "c2", "content": "done"},
            {"role": "assistant", "content": "It is cancelled."},
        ],
    }


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A file of six conversations; the order in the last is far from its list."""
    path = tmp_path / "conversations.jsonl"
    lines = [json.dumps(conversation(f"A{n}", far=n == 5)) for n in range(6)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def conversations(path: Path) -> list[Conversation]:
    """Return what the file holds."""
    return [item for item in read_conversations(path) if isinstance(item, Conversation)]


def run(*arguments: object) -> Result:
    """`agentkit fit` with these arguments."""
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


WINDOW = candidate(MessageWindow, 10)
TABLES = candidate(TableResults)
FILTER = candidate(ToolCallFilter)


async def test_the_cheapest_policy_that_keeps_enough_is_chosen(recording: Path) -> None:
    """A window loses the order that is far away, a filter loses all, tables lose nothing."""
    read = conversations(recording)
    tried = [WINDOW, TABLES, FILTER]
    careful = await fit(read, keep=1, candidates=tried)
    bold = await fit(read, keep=0.8, candidates=tried)
    assert (careful.chosen.line, careful.found) == ("[TableResults()]", True)
    assert bold.chosen == WINDOW
    assert bold.figures[WINDOW].share_sent < careful.figures[TABLES].share_sent
    assert bold.figures[WINDOW].calls_whole == 5
    assert [(loss.conversation, loss.values) for loss in bold.figures[WINDOW].losses] == [
        ("A5", ("A51",))
    ]


async def test_the_figures_are_those_of_the_policy_by_itself(recording: Path) -> None:
    """The fit adds nothing to what `survival` measures."""
    read = conversations(recording)
    found = await fit(read, candidates=[WINDOW])
    alone = await survival(read, lambda: [MessageWindow(10)])
    figures = found.figures[WINDOW]
    assert figures.characters_sent == alone.characters_sent
    assert (figures.calls_whole, figures.values_kept) == (alone.calls_whole, alone.values_kept)
    assert 0 < figures.tokens_sent < figures.tokens


async def test_a_choice_is_measured_on_conversations_that_had_no_part_in_it(
    recording: Path,
) -> None:
    """Without the sixth conversation the window keeps all: there, it is chosen, and loses."""
    read = conversations(recording)
    order = [*read[:4], read[5], read[4]]  # the fold of the lossy conversation has only it
    found = await fit(order, keep=1, candidates=[WINDOW])
    assert found.chosen == Candidate(())
    assert [choice == WINDOW for choice in found.choices] == [False, False, False, False, True]
    assert found.held_out is not None
    assert (found.held_out.calls, found.held_out.calls_whole) == (6, 5)


def test_a_choice_that_does_not_hold_elsewhere_is_reported(recording: Path) -> None:
    """Without the last of four conversations a window keeps all; there, it loses the call."""
    lines = recording.read_text("utf-8").splitlines()
    recording.write_text("\n".join([*lines[:3], lines[5]]) + "\n", "utf-8")
    result = run(recording, "--keep", 80)
    assert "That is less than 80.0%: the choice depends on single" in result.stdout
    assert "That is less" not in run(recording, "--limit", 3).stdout


def test_an_interrupt_ends_without_a_choice(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C: one line, and the status of an interrupted command."""

    async def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentkit_py.testing.replay.fit", interrupted)
    result = run(recording)
    assert (result.exit_code, "no policy was chosen" in result.stderr) == (130, True)


async def test_a_single_conversation_is_not_cross_validated(recording: Path) -> None:
    """There is nothing to leave out."""
    found = await fit(conversations(recording)[:1], candidates=[TABLES])
    assert (found.held_out, found.choices) == (None, ())


@pytest.mark.parametrize("tried", CANDIDATES, ids=lambda one: one.line)
def test_the_lines_to_paste_make_the_policy(tried: Candidate) -> None:
    """What is printed is Python, and makes the processors that were measured."""
    names: dict[str, Any] = {}
    exec(tried.imports, names)  # noqa: S102 - the line that a user pastes
    pasted: Sequence[Any] = eval(tried.line, names)  # noqa: S307 - as above
    made: Sequence[Any] = tried()
    assert [(type(one), one.name) for one in pasted] == [(type(one), one.name) for one in made]
    assert Agent(name="a", system="S", processors=pasted).name == "a"


def test_the_command_prints_the_lines_and_their_savings(recording: Path) -> None:
    """With a price, the money, too."""
    result = run(recording, "--limit", 2, "--keep", 100, "--price", 2.5)
    assert result.exit_code == 0
    assert "from agentkit_py.processors import" in result.stdout
    assert "processors=[" in result.stdout
    assert "for a thousand such conversations at 2.5 a million" in result.stdout
    assert "of 2 folds" in result.stdout
    assert "Lost:" not in result.stdout


def test_all_figures_are_json(recording: Path) -> None:
    """`--json` has each policy with its shares, and the losses of the choice."""
    found = json.loads(run(recording, "--limit", 2, "--json", "--keep", 50).stdout)
    assert found["conversations"] == 2
    assert len(found["candidates"]) == len(CANDIDATES)
    assert {one["conversation"] for one in found["losses"]} <= {f"A{n}" for n in range(6)}
    frontier = [one for one in found["candidates"] if one["onFrontier"]]
    assert found["chosen"] in [one["policy"] for one in frontier]


def test_threads_of_a_store_are_read_like_a_file(recording: Path, tmp_path: Path) -> None:
    """`--db` reads all threads, or those of a user."""
    db = tmp_path / "threads.db"
    lines = recording.read_text("utf-8").splitlines()[:1]
    recording.write_text(lines[0] + "\n", "utf-8")

    async def store_threads() -> None:
        async with SqliteHistory(db) as store:
            await import_threads(store, lines, user_id="ada")

    asyncio.run(store_threads())
    stored = json.loads(run("--db", db, "--user", "ada", "--json").stdout)
    assert stored["candidates"] == json.loads(run(recording, "--json").stdout)["candidates"]
    assert run("--db", db, "--user", "bob").exit_code == 2


def test_nothing_to_read_is_an_error(recording: Path, tmp_path: Path) -> None:
    """One line says why, and the status is 2."""
    empty, bad = tmp_path / "empty.jsonl", tmp_path / "bad.jsonl"
    empty.write_text("", "utf-8")
    bad.write_text("no json\n", "utf-8")
    for arguments, said in (
        ((), "give a file"),
        ((recording, "--db", "x.db"), "give a file"),
        ((empty,), "holds no conversation"),
        ((bad,), "holds no conversation"),
        ((tmp_path / "none.jsonl",), "none.jsonl"),
        (("--db", tmp_path / "none.db"), "no file"),
        ((recording, "--network", "nowhere:network"), "nowhere"),
    ):
        result = run(*arguments)
        assert (result.exit_code, said in result.stderr) == (2, True), arguments


def test_lines_that_cannot_be_read_are_counted(recording: Path) -> None:
    """The others are tried."""
    recording.write_text("no json\n" + recording.read_text("utf-8"), "utf-8")
    result = run(recording, "--limit", 1)
    assert "1 of 2 lines left out." in result.stderr


def test_the_lack_of_a_policy_that_keeps_enough_is_reported(tmp_path: Path) -> None:
    """A conversation without anything to save: the status is 1."""
    path = tmp_path / "short.jsonl"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    path.write_text(json.dumps({"id": "a", "messages": messages}) + "\n", "utf-8")
    result = run(path)
    assert (result.exit_code, "No policy sends less" in result.stdout) == (1, True)


def test_a_picture_has_every_policy(recording: Path, tmp_path: Path) -> None:
    """It is SVG, with the names of the policies that are best at their price."""
    path = tmp_path / "fit.svg"
    assert run(recording, "--limit", 1, "--picture", path).exit_code == 0
    root = ET.fromstring(path.read_text("utf-8"))  # noqa: S314 - our own picture
    circles = [one for one in root.iter() if one.tag.endswith("circle")]
    assert len(circles) == len(CANDIDATES)
    found = asyncio.run(fit(conversations(recording), candidates=[WINDOW, TABLES]))
    assert "[MessageWindow(10)]" in picture(found)


@pytest.mark.parametrize("keep", [-0.1, 1.1, float("nan")])
async def test_a_share_is_between_0_and_1(recording: Path, keep: float) -> None:
    """The value is named."""
    with pytest.raises(ConfigurationError, match=f"got {keep}"):
        await fit(conversations(recording), keep=keep)
    with pytest.raises(ConfigurationError, match="no conversation"):
        await fit([])
