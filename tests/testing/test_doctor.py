"""The doctor says what would not survive being run as an Inngest function."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, Field, field_validator

from agentkit_py import (
    Agent,
    Lifecycle,
    MemoryHistory,
    Network,
    RouterContext,
    State,
    ToolContext,
    tool,
)
from agentkit_py.errors import NonRetriableError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.output import PromptedOutput, ToolOutput
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.doctor import DoctorReport, examine
from agentkit_py.testing.doctor.samples import sample


def network_of(*tools: Any, router: Any = None, **agent: Any) -> Network:
    """A network of one agent that runs once."""
    clerk = Agent(name="clerk", system="S", tools=list(tools), max_iter=3, **agent)

    def once(context: RouterContext) -> Agent | None:
        return clerk if context.call_count == 0 else None

    return Network(name="desk", agents=[clerk], router=router or once)


def found(report: DoctorReport) -> set[tuple[str, str, str]]:
    """Name, severity and place of each finding."""
    return {(one.name, one.severity, one.where) for one in report.findings}


@tool
def look(order: str, ctx: ToolContext) -> str:
    """Look an order up."""
    ctx.state.data["order"] = order
    return "shipped"


async def test_a_healthy_network_has_no_findings() -> None:
    """The report has the size of the run."""
    report = await examine(network_of(look))
    assert (report.healthy, list(report.findings), report.tools) == (True, [], {"look": 1})
    figures = report.figures
    assert (figures.turns, figures.requests > figures.steps) == (1, True)
    assert figures.largest_step.startswith("desk.")
    assert report.callbacks[0].name == "router of desk"
    assert report.callbacks[0].calls > 2


class Ticket(BaseModel):
    """The clerk's output."""

    kind: Literal["repair", "booking"]
    rooms: list[int] = Field(min_length=1)
    code: str = Field(pattern=r"^T\d{4}$")


@pytest.mark.parametrize(
    "model", ["openai:gpt-5", "anthropic:claude-opus-4-8", "gemini:gemini-3-pro"]
)
@pytest.mark.parametrize(
    "kind",
    [Ticket, int, [Ticket, str], ToolOutput(Ticket), PromptedOutput(Ticket), Ticket | None],
)
async def test_a_typed_agent_gets_an_answer_of_its_type(kind: Any, model: str) -> None:
    """A made-up answer that is no JSON would be a finding about nothing."""
    report = await examine(network_of(look, model=model, output_type=kind))
    assert report.passed, report


class Even(BaseModel):
    """An output that is hard to make up."""

    number: int

    @field_validator("number")
    @classmethod
    def check(cls, value: int) -> int:
        """Refuse odd numbers."""
        if value % 2:
            raise ValueError("odd")
        return value


@pytest.mark.parametrize("kind", [Even, ToolOutput(Even), PromptedOutput(Even)])
async def test_an_answer_that_cannot_be_made_up_is_given(kind: Any) -> None:
    """The finding says how, and the tools were called before."""
    network = network_of(look, output_type=kind)
    report = await examine(network)
    assert not report.passed
    assert "final_result" in report.findings[0].text
    report = await examine(network, arguments={"final_result": {"number": 2}})
    assert (report.passed, report.tools) == (True, {"look": 1})


async def test_an_agent_by_itself_is_examined_too() -> None:
    """A single agent is examined like a network of one."""
    report = await examine(Agent(name="clerk", system="S", tools=[look], max_iter=3))
    assert (report.healthy, report.target, report.tools) == (True, "clerk", {"look": 1})


@pytest.mark.parametrize("deed", ["file", "database", "process"])
async def test_effects_of_a_tool_outside_its_steps_are_an_error(tmp_path: Path, deed: str) -> None:
    """Each replay does it again."""

    def act() -> None:
        if deed == "file":
            (tmp_path / "log.txt").write_text("again")
        elif deed == "database":
            with closing(sqlite3.connect(tmp_path / "books.db")):
                pass
        else:
            subprocess.run([sys.executable, "-c", ""], check=True)

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> None:
        """Pay."""
        act()

        async def work() -> int:
            return 1

        await ctx.step.run("work", work)

    report = await examine(network_of(pay))
    assert not report.healthy
    assert ("side-effect-on-replay", "error", "tool pay") in found(report)


async def test_effects_of_a_tool_in_its_steps_are_fine(tmp_path: Path) -> None:
    """The tool is a step, or has steps of its own."""

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> None:
        """Pay."""

        async def work() -> None:
            (tmp_path / "a.txt").write_text("once")

        await ctx.step.run("work", work)

    @tool
    def note() -> None:
        """Note."""
        (tmp_path / "b.txt").write_text("once")

    report = await examine(network_of(pay, note))
    assert list(report.findings) == []


@pytest.mark.parametrize("where", ["system", "on_start", "on_response", "on_finish", "enabled"])
async def test_effects_of_hooks_happen_on_each_replay(tmp_path: Path, where: str) -> None:
    """They are to look, and not to act."""

    def act(_context: Any) -> Any:
        (tmp_path / "log.txt").write_text("again")
        return {"system": "S", "enabled": True}.get(where)

    given: dict[str, Any] = {"name": "clerk", "system": "S"}
    given |= {"system": act} if where == "system" else {"lifecycle": Lifecycle(**{where: act})}

    async def router(context: RouterContext) -> str | None:
        enabled = await context.network.available_agents()
        return "clerk" if enabled and context.call_count == 0 else None

    network = Network(name="desk", agents=[Agent(**given)], router=router)
    report = await examine(network)
    assert found(report) == {("side-effect-on-replay", "error", f"{where} of clerk")}


async def test_a_router_that_decides_by_chance_is_an_error() -> None:
    """Replays of one request would ask for other steps."""
    count = itertools.count()

    def router(context: RouterContext) -> str | None:
        return ("left", "right")[next(count) % 2] if context.call_count == 0 else None

    agents = [Agent(name=name, system="S") for name in ("left", "right")]
    report = await examine(Network(name="desk", agents=agents, router=router))
    assert ("differs-between-replays", "error", "doctor-network-desk") in found(report)


async def test_a_clock_that_comes_into_the_state_is_an_error() -> None:
    """Tools would see another state than the run has at its end."""
    count = itertools.count()

    def router(context: RouterContext) -> str | None:
        context.state.data["at"] = next(count)
        return "left" if context.call_count == 0 else None

    report = await examine(
        Network(name="desk", agents=[Agent(name="left", system="S")], router=router)
    )
    assert ("differs-between-replays", "error", "doctor-network-desk") in found(report)


async def test_a_prompt_that_changes_is_a_warning() -> None:
    """The first that is sent counts, so nothing breaks; but what is reported is another one."""
    count = itertools.count()

    def system() -> str:
        return f"It is {next(count)}."

    clerk = Agent(name="clerk", system=system)
    report = await examine(clerk)
    assert found(report) == {("differs-between-replays", "warning", "doctor-network-clerk")}
    assert "It is 0." in report.findings[0].text


async def test_tools_that_remember_are_a_warning() -> None:
    """Two runs had other steps, which may be the tool's data."""
    done: list[str] = []

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> None:
        """Pay, once and for all."""

        async def work() -> bool:
            done.append("paid")
            return len(done) == 1

        if await ctx.step.run("look", work):
            await ctx.step.run("work", work)

    report = await examine(network_of(pay))
    assert ("differs-between-replays", "warning", "doctor-network-desk") in found(report)


async def test_state_that_is_not_json_is_an_error() -> None:
    """The finding names the key."""

    @tool
    def bad(ctx: ToolContext) -> None:
        """Keep it."""
        ctx.state.data["seats"] = {1: "A"}

    report = await examine(network_of(bad))
    assert found(report) == {("not-json", "error", "doctor-network-desk")}
    assert "data.seats" in report.findings[0].text


async def test_colliding_steps_are_an_error() -> None:
    """The finding names the step."""

    @tool(steps=True)
    async def twice(ctx: ToolContext) -> None:
        """Do it twice."""

        async def work() -> int:
            return 1

        await ctx.step.run("work", work)
        await ctx.step.run("work", work)

    report = await examine(network_of(twice))
    assert found(report) == {("colliding-ids", "error", "doctor-network-desk")}


async def test_outputs_near_the_limit_are_a_warning_and_larger_ones_an_error() -> None:
    """4 MB for a step."""

    def tool_of(megabytes: int) -> Callable[[], str]:
        def fetch() -> str:
            """Fetch it."""
            return "x" * megabytes * 1024 * 1024

        return fetch

    assert ("too-large", "warning") in {
        one[:2] for one in found(await examine(network_of(tool_of(3))))
    }
    assert ("too-large", "error") in {
        one[:2] for one in found(await examine(network_of(tool_of(5))))
    }


async def test_a_network_that_may_take_too_many_steps_is_a_warning() -> None:
    """The estimate is the steps of a turn times the allowed turns."""
    network = network_of(look)
    network.max_iter = None
    report = await examine(network)
    assert found(report) == {("too-many-steps", "warning", "desk")}
    assert report.healthy


async def test_steps_at_the_same_time_are_an_error() -> None:
    """One of them would be done again."""

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""

        async def work() -> None:
            pass

        await asyncio.gather(ctx.step.run("one", work), ctx.step.run("two", work))
        return "paid"

    report = await examine(network_of(pay))
    assert ("overlapping-steps", "error", "doctor-network-desk") in found(report)


async def test_a_number_that_the_server_rounds_is_an_error() -> None:
    """Another function would get another id."""

    @tool(steps=True)
    async def call(ctx: ToolContext) -> str:
        """Call."""
        data = {"user": 1150000000000000001}
        await ctx.step.invoke_by_id("ban", function_id="ban", data=data)
        return "banned"

    report = await examine(network_of(call))
    told = [one for one in report.findings if one.name == "rounded-number"]
    assert [one.severity for one in told] == ["error"]
    assert "user is the number 1150000000000000001" in told[0].text


@pytest.mark.parametrize("change", ["nothing", "approval", "renamed"])
async def test_the_effect_of_a_deploy_on_waiting_runs_is_found(change: str) -> None:
    """Each request is a place where a run may wait."""

    @tool(needs_approval=change == "approval")
    def charge(order: str) -> str:
        """Charge."""
        return "charged"

    @tool(name="charge")
    def before_charge(order: str) -> str:
        """Charge."""
        return "charged"

    def desk(name: str, *tools: Any) -> Network:
        clerk = Agent(name=name, system="S", tools=list(tools), max_iter=3)

        def once(context: RouterContext) -> Agent | None:
            return clerk if context.call_count == 0 else None

        return Network(name="desk", agents=[clerk], router=once)

    after = desk("prima" if change == "renamed" else "clerk", charge)
    report = await examine(after, before=desk("clerk", before_charge))
    broken = [one for one in report.findings if one.name == "breaks-waiting-runs"]
    assert bool(broken) == (change == "renamed")
    assert all("agent clerk is gone" in one.text for one in broken)


async def test_a_run_that_fails_is_an_error() -> None:
    """The finding has the error's text."""

    @tool
    def broken() -> None:
        """Break."""
        raise NonRetriableError("no such table")

    report = await examine(network_of(broken))
    assert found(report) == {("run-failed", "error", "doctor-network-desk")}
    assert "no such table" in report.findings[0].text


@pytest.mark.parametrize("approve", [True, False])
async def test_questions_are_answered_as_one_says(approve: bool) -> None:
    """No, unless otherwise."""
    done: list[str] = []

    @tool(needs_approval=True)
    def pay() -> None:
        """Pay."""
        done.append("paid")

    report = await examine(network_of(pay), approve=approve)
    assert (report.healthy, report.tools) == (True, {"pay": int(approve)})
    assert len(done) == 2 * approve


async def test_its_own_threads_are_left_alone() -> None:
    """The doctor's own runs are stored elsewhere."""
    store = MemoryHistory()
    network = network_of(look)
    network.history = store
    assert (await examine(network)).healthy
    assert await store.list_threads() == []


async def test_a_store_without_a_lease_is_a_warning() -> None:
    """Runs on one thread would overlap; a store with a lease, and none at all, are fine."""
    network = network_of(look)
    network.history = MemoryHistory()
    report = await examine(network)
    assert report.healthy
    assert found(report) == {("no-lease", "warning", "desk")}
    network.history = MemoryHistory(lease=ThreadLease())
    assert found(await examine(network)) == set()
    assert found(await examine(network_of(look))) == set()


async def test_a_tool_that_receives_needs_a_store_that_keeps_mail() -> None:
    """The doctor's own store would keep it."""

    @tool(steps=True)
    async def paid(ctx: ToolContext) -> str:
        """Wait for a payment."""
        return str(await ctx.receive("shop/paid", key="A1", timeout=timedelta(seconds=1)))

    report = await examine(network_of(paid))
    (finding,) = report.findings
    assert (finding.name, finding.severity) == ("no-mailbox", "error")
    assert "A mailbox needs history=…" in finding.text
    network = network_of(paid)
    network.history = MemoryHistory(lease=ThreadLease())
    assert found(await examine(network)) == set()


async def test_the_default_routing_agent_finds_an_agent() -> None:
    """Its tools are understood."""
    agents = [
        Agent(name=name, system="S", description=name, tools=[look], max_iter=1)
        for name in ("a", "b")
    ]
    report = await examine(Network(name="desk", agents=agents))
    assert (report.healthy, report.tools) == (True, {"look": 1})


async def test_a_model_of_ones_own_can_be_named() -> None:
    """It is asked as often as both runs need."""
    model = ScriptedModel(*[tool_call("look", {"order": "A1"}), "Shipped."] * 2)
    report = await examine(network_of(look), model=model, input="Where is A1?")
    model.assert_finished()
    model.assert_saw("Where is A1?")
    assert (report.healthy, report.tools) == (True, {"look": 1})


async def test_state_that_a_router_reads_is_there_on_replays() -> None:
    """The doctor reports nothing."""

    def router(context: RouterContext) -> str | None:
        if context.call_count == 0:
            return "clerk"
        return "closer" if context.call_count == 1 and context.network.state.data["order"] else None

    agents = [
        Agent(name="clerk", system="S", tools=[look], max_iter=2),
        Agent(name="closer", system="S"),
    ]
    network = Network(name="desk", agents=agents, router=router, default_state=State({"order": ""}))
    report = await examine(network)
    assert (list(report.findings), report.figures.turns) == ([], 2)


class Leg(BaseModel):
    place: Literal["Oslo", "Bergen"]
    nights: int = Field(ge=2)
    notes: list[str] = Field(min_length=1)
    price: float | None


class Journey(BaseModel):
    legs: list[Leg] = Field(min_length=2)
    vip: bool
    code: str = Field(min_length=8, max_length=10)


def test_made_up_arguments_fit_the_schema() -> None:
    """References, choices, bounds and lengths."""
    made = Journey.model_validate(sample(Journey.model_json_schema()))
    assert [leg.place for leg in made.legs] == ["Oslo", "Oslo"]
    assert (made.legs[0].nights, made.vip, made.code) == (2, False, "doctor..")
    recursive = {"$defs": {"T": {"properties": {"t": {"$ref": "#/$defs/T"}}}}, "$ref": "#/$defs/T"}
    assert "t" in sample(recursive)
    assert sample({"type": "string"}) == {}


class Booking(BaseModel):
    code: str = Field(pattern=r"^[A-Z]{2}-\d{3,}(?:/x|/y)?$", min_length=8)
    day: date
    at: datetime
    starts: time
    lasts: timedelta
    mail: str = Field(json_schema_extra={"format": "email"})
    key: UUID
    link: AnyUrl
    share: float = Field(gt=0, lt=1)
    percent: int = Field(multiple_of=5, ge=7, le=12)
    below: int = Field(lt=-3)
    place: tuple[int, str]
    name: str = Field(examples=["Oslo"], max_length=4)
    odd: str = Field(pattern=r"^[^a]\w+\.(\d|x)*$")


def test_made_up_arguments_fit_patterns_and_formats() -> None:
    """A tool whose numbers of orders have a form is reached without arguments of one's own."""
    made = Booking.model_validate(sample(Booking.model_json_schema()))
    assert (made.share, made.percent, made.below, made.name) == (0.5, 10, -4, "Oslo")
    assert made.code.startswith("AA-111")


@pytest.mark.parametrize("pattern", [r"^(?=a)b", r"(\w)\1", r"[", r"a{2"])
def test_a_pattern_that_is_too_hard_gives_a_plain_text(pattern: str) -> None:
    """The call is refused then, and the report says why."""
    assert sample({"properties": {"a": {"type": "string", "pattern": pattern}}}) == {"a": "doctor"}


MODULE = '''
from agentkit_py import Agent, Network, ToolContext, tool

@tool
def look(order: str) -> str:
    """Look it up."""
    return "shipped"

@tool
def bad(ctx: ToolContext) -> None:
    """Keep it."""
    ctx.state.data["seats"] = {1: "A"}

fine = Agent(name="fine", system="S", tools=[look], max_iter=2)
sick = Agent(name="sick", system="S", tools=[bad], max_iter=2)
'''


def doctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command."""
    (folder / "shop.py").write_text(MODULE)
    return subprocess.run(
        [sys.executable, "-m", "agentkit_py.cli", "doctor", *arguments],
        cwd=folder,
        env={**os.environ, "AGENTKIT_TIKTOKEN_TIMEOUT": "0", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


def test_the_command_shows_figures_and_findings(tmp_path: Path) -> None:
    """Exit status 0 where nothing is wrong, 1 where something is."""
    fine = doctor(tmp_path, "shop:fine")
    assert (fine.returncode, "✓ nothing found" in fine.stdout) == (0, True)
    assert "fine: " in fine.stdout
    assert "router of fine" in fine.stdout
    sick = doctor(tmp_path, "shop:sick")
    assert sick.returncode == 1
    assert "✗ not-json: doctor-network-sick: " in sick.stdout


def test_the_command_gives_json(tmp_path: Path) -> None:
    """Scripts read it."""
    done = doctor(tmp_path, "shop:sick", "--json", "--input", "Hi.")
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"], report["target"]) == (1, False, "sick")
    assert [one["name"] for one in report["findings"]] == ["not-json"]
