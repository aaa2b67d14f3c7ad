"""Suites: what evaluators say, what a report shows, and which regressions are found."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from agentkit_py import Agent, Network, SqliteHistory, tool
from agentkit_py.cli.app import app
from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.evals import (
    Case,
    Evaluator,
    Outcome,
    Report,
    Suite,
    Verdict,
    answered_by,
    called,
    contains,
    equals,
    evaluator,
    judge,
    matches_schema,
    no_contamination,
    not_called,
    not_saw,
    read_cases,
    saw,
    within,
)
from agentkit_py.messages import Usage
from agentkit_py.routing import RouterContext
from agentkit_py.testing import ScriptedModel, tool_call

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

support: Any = importlib.import_module("support_suite")  # a file of examples/


@pytest.fixture(scope="module", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the cases' data in pytest's own folder, so that a killed session leaves none behind."""
    made = tmp_path_factory.mktemp("evals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "folder", lambda: made)
        yield made


@pytest.fixture(scope="module")
def kept() -> list[Report]:
    """The report of the demo's own network, once there is one."""
    return []


@pytest.mark.parametrize("case", support.cases, ids=[case.name for case in support.cases])
async def test_demo_network_passes_its_suite(case: Case) -> None:
    """One test for each case of `agentkit eval support_suite:suite`."""
    await support.suite.check(case)


def test_demo_suite_is_large_enough() -> None:
    """Its size is that of a real suite."""
    assert len(support.cases) >= 25


def without_filters() -> Network:
    """Return the network whose desks see each other's calls."""
    made = support.network()
    return replace(made, agents=[replace(agent, processors=[]) for agent in made.agents])


def with_renamed_tool() -> Network:
    """Return the network whose billing has a refund tool of another name."""
    made = support.network()

    def renamed(agent: Agent) -> Agent:
        tools = [
            replace(one, name="refund_it") if one.name == "refund_payment" else one
            for one in agent.tool_map.values()
        ]
        return replace(agent, tools=tools)

    return replace(made, agents=[renamed(agent) for agent in made.agents])


def with_broken_router() -> Network:
    """Return the network whose router never leaves triage."""

    def route(context: RouterContext) -> str | None:
        return "triage" if context.call_count == 0 else None

    return replace(support.network(), router=route)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (without_filters, "no contamination"),
        (with_renamed_tool, "refund_payment"),
        (with_broken_router, "answered by"),
    ],
)
async def test_planted_regression_is_found_in_the_diff(
    target: Callable[[], Network], said: str, kept: list[Report]
) -> None:
    """The diff names the cases that are worse, and why."""
    if not kept:
        kept.append(await support.suite.run())
    before = kept[0]
    assert before.passed
    diff = (await support.make_suite(target).run()).diff(before)
    assert diff.worse
    assert said in str(diff)
    assert not diff.better


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is under way"


def outcome(**facts: Any) -> Outcome:
    """Return an outcome."""
    return Outcome(case=Case(name="c", input="i", expected="yes"), **facts)


class _Answer(BaseModel):
    sure: bool


@pytest.mark.parametrize(
    ("check", "passes", "fails"),
    [
        (equals(), {"text": " yes\n"}, {"text": "no"}),
        (contains("Und", "er"), {"text": "under"}, {"text": "un"}),
        (matches_schema(_Answer), {"text": '{"sure": true}'}, {"text": '{"sure": 3}'}),
        (within(tokens=5), {"usage": Usage(2, 3)}, {"usage": Usage(3, 3)}),
        (within(seconds=1, inferences=1), {"seconds": 0.5}, {"agents": ["a", "a"]}),
        (answered_by("a", "b"), {"agents": ["a", "a", "b"]}, {"agents": ["b", "a"]}),
        (not_called("x"), {}, {"error": "", "text": "", "calls": None}),
    ],
)
async def test_evaluators_say_why(
    check: Evaluator, passes: dict[str, Any], fails: dict[str, Any]
) -> None:
    """A check that holds passes; one that does not, or breaks, has a reason."""
    assert (await check(outcome(**passes))).passed
    verdict = await check(outcome(**fails))
    assert not verdict.passed
    assert verdict.reason


async def test_answered_by_says_who_answered_or_that_no_agent_did() -> None:
    """Its name has the agents that were expected."""
    check = answered_by("a", "b")
    assert check.name == "answered by a → b"
    said = [(await check(outcome(agents=agents))).reason for agents in (["b", "b", "a"], [])]
    assert said == ["b → a answered", "nobody answered"]


async def test_suite_sees_calls_and_contexts() -> None:
    """Over a single agent, with a recorded thread before, and repeated."""

    def made() -> Agent:
        model = ScriptedModel(tool_call("look_up", {"order": "7"}), "It is under way.")
        return Agent(name="desk", system="Help.", tools=[look_up], model=model)

    thread = Case.from_dict(
        {
            "name": "thread",
            "input": "And now?",
            "thread": [{"type": "text", "role": "user", "content": "I am Ada."}],
        }
    ).thread
    checks = [
        called("look_up", order="7", times=1),
        saw("desk", "I am Ada."),
        not_saw("desk", "Bob"),
        no_contamination(),
    ]
    case = Case(name="where", input="Where is 7?", thread=thread, evaluators=checks)
    report = await Suite(target=made, cases=[case]).run(repeat=3)
    assert report.passed, report.table()
    assert [row.number for row in report.rows] == [0, 1, 2]
    assert "3/3" in report.table()


async def test_error_of_a_run_is_a_row_and_a_check_may_be_a_function() -> None:
    """A suite continues where a case fails."""

    @evaluator
    async def is_short(found: Outcome) -> bool:
        return len(found.text) < 10

    agent = Agent(name="a", system="", model=ScriptedModel())
    suite = Suite(target=agent, cases=[Case(name="x", input="q")], evaluators=[is_short])
    report = await suite.run()
    assert "exhausted" in report.table()
    assert report.rows[0].verdicts["is_short"] == Verdict(passed=True)
    with pytest.raises(AssertionError, match="runs without error"):
        await suite.check(suite.cases[0])


async def test_judge_says_by_a_tool_call() -> None:
    """The judge's reason is the verdict's; a judge that only talks gives none."""
    said = tool_call("verdict", {"passed": False, "reason": "It is rude."})
    rude = judge(ScriptedModel(said, "Fine!"), "Is it polite?")
    assert await rude(outcome(text="No.")) == Verdict(passed=False, reason="It is rude.")
    assert "no verdict" in (await rude(outcome(text="No."))).reason


async def test_wrong_suites_are_refused(tmp_path: Path) -> None:
    """The errors name the value."""
    case = Case(name="x", input="q")
    with pytest.raises(ConfigurationError, match="two cases called 'x'"):
        Suite(target=support.network, cases=[case, case])
    with pytest.raises(ConfigurationError, match="concurrency=0"):
        Suite(target=support.network, cases=[case], concurrency=0)
    assert Suite(target=support.network, cases=[case], concurrency=1).concurrency == 1
    with pytest.raises(ConfigurationError, match="within"):
        within()
    with pytest.raises(ConfigurationError, match=r"within\(tokens=-1\)"):
        within(tokens=-1)
    with pytest.raises(ConfigurationError, match="times=-1"):
        called("look_up", times=-1)
    with pytest.raises(ConfigurationError, match=r"only=\['y'\]: the suite's cases are x"):
        await Suite(target=support.network, cases=[case]).run(only=["y"])
    with pytest.raises(ConfigurationError, match="There is no file"):
        Report.load(tmp_path / "none.json")
    path = tmp_path / "cases.jsonl"
    path.write_text('{"name": "a"}\n')
    with pytest.raises(InvalidRecordError, match="line 1"):
        read_cases(path)
    with pytest.raises(InvalidRecordError, match="not a report"):
        Report.load(path)


def test_command_runs_saves_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`agentkit eval`, with a report to compare with."""
    monkeypatch.chdir(EXAMPLES)
    saved, only = tmp_path / "r.json", ["--only", "invoices of"]
    first = CliRunner().invoke(app, ["eval", "support_suite:suite", *only, "--save", str(saved)])
    assert first.exit_code == 0, first.output
    assert "3 of 3 cases passed" in first.output
    again = ["eval", "support_suite:suite", *only, "--against", str(saved)]
    assert "tokens of a run" in CliRunner().invoke(app, again).output
    wrong = CliRunner().invoke(app, ["eval", "support_suite:network"])
    assert wrong.exit_code == 2
    assert "no Suite" in wrong.output


@pytest.mark.parametrize("place", [".", "none/report.json"])
def test_a_report_that_cannot_be_saved_is_refused_before_the_cases_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """They may take hours; what is in the way is named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unsaved.py").write_text(
        "from agentkit_py import Agent\n"
        "from agentkit_py.evals import Case, Suite\n"
        "from agentkit_py.testing import ScriptedModel\n"
        "model = ScriptedModel('Ada.')\n"
        "target = Agent(name='a', system='', model=model)\n"
        "suite = Suite(target=target, cases=[Case(name='one', input='Who?')])\n"
    )
    done = CliRunner().invoke(app, ["eval", "run", "unsaved:suite", "--save", place])
    assert done.exit_code == 2
    assert "--save: " in done.output
    assert "cannot be written" in done.output
    assert ("it is a folder" in done.output) is (place == ".")
    assert sys.modules["unsaved"].model.bodies == []
    del sys.modules["unsaved"]


def test_thread_becomes_a_case(tmp_path: Path) -> None:
    """Its last question with the answer, and what was said before."""
    db = tmp_path / "threads.db"
    model = ScriptedModel("Hello Ada.", "Ada.")
    agent = Agent(name="a", system="", model=model, history=SqliteHistory(db))

    async def talk() -> None:
        await agent.run("I am Ada.", thread_id="t1")
        await agent.run("Who am I?", thread_id="t1")

    asyncio.run(talk())
    out = tmp_path / "cases.jsonl"
    done = CliRunner().invoke(app, ["eval", "from-thread", str(db), "t1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    (case,) = read_cases(out)
    assert (case.name, case.input, case.expected) == ("t1", "Who am I?", "Ada.")
    assert [message.role for message in case.thread] == ["user", "assistant"]
    target = Agent(name="a", system="", model=ScriptedModel("Ada."))
    assert asyncio.run(Suite(target=target, cases=[case], evaluators=[equals()]).run()).passed
