"""Faults where a first run does not come: the doctor finds each, or lists what it left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from agentkit_py import Agent, Lifecycle, Network, RouterContext, RoutingAgent, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.routing import Handoff, handoffs, mention_router
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.doctor import DoctorReport, examine
from agentkit_py.tools import provider_tool


@tool
def bad(ctx: ToolContext) -> str:
    """Keep the seats."""
    ctx.state.data["seats"] = {1: "A"}
    return "kept"


@tool
def good() -> str:
    """Do nothing."""
    return "done"


def refused(ctx: ToolContext) -> str | None:
    """Only order A1 may be looked at."""
    return None if "A1" in str(ctx.call.arguments) else "no such order"


@tool(check=refused)
def bad_order(order: str, ctx: ToolContext) -> str:
    """Look an order up."""
    ctx.state.data["seats"] = {1: order}
    return "found"


@tool(needs_approval=True)
def bad_payment(ctx: ToolContext) -> str:
    """Pay."""
    ctx.state.data["seats"] = {1: "paid"}
    return "paid"


@tool
def bad_after_an_error(order: str, ctx: ToolContext) -> str:
    """Keep the seats of an order."""
    if order != "A1":
        raise LookupError(f"no order {order}")
    ctx.state.data["seats"] = {1: "A"}
    return "kept"


@tool
def far(place: Annotated[str, Field(pattern="(?i)^oslo$")]) -> str:
    """Go to a place whose name is hard to make up."""
    return place


def another_bad() -> Any:
    """A tool that has the name of a good one."""

    @tool(name="good")
    def other(ctx: ToolContext) -> str:
        """Do something else."""
        ctx.state.data["seats"] = {1: "A"}
        return "kept"

    return other


def agent(name: str, *tools: Any, **options: Any) -> Agent[Any, Any]:
    """An agent that may call tools and then say something."""
    return Agent(name=name, system="S", tools=list(tools), max_iter=3, **options)


def network(*agents: Agent[Any, Any]) -> Network[Any, Any]:
    """The first agent begins, and the others get the conversation by handoffs."""

    def router(context: RouterContext) -> str | None:
        return agents[0].name if context.call_count == 0 else None

    return Network(name="desk", agents=list(agents), router=router)


def behind(*desks: Agent[Any, Any]) -> Network[Any, Any]:
    """A network in which triage can hand over to each desk."""
    return network(agent("triage", handoffs=list(desks)))


def writes(path: Path) -> Callable[[Any], None]:
    """A hook that acts outside of steps."""

    def on_finish(_context: Any) -> None:
        path.write_text("again")

    return on_finish


@dataclass
class Planted:
    """A network with a fault, and the options with which the doctor comes to it."""

    target: Network[Any, Any]
    listed: str | None = None
    """The kind and name that are listed; None: the fault is found at once."""

    options: dict[str, Any] = field(default_factory=dict[str, Any])
    finding: str = "not-json"


def shut_out() -> Network[Any, Any]:
    """The agent may not use the tool now; with the right state it may."""

    def allowed(context: Any) -> list[str]:
        return ["good", "bad"] if context.state.data.get("plan") == "gold" else ["good"]

    return network(agent("clerk", good, bad, allowed_tools=allowed))


def never_chosen() -> Network[Any, Any]:
    """The router chooses the second agent at night only."""

    def router(context: RouterContext) -> str | None:
        if context.call_count:
            return None
        return "night" if context.state.data.get("late") else "day"

    return Network(name="desk", agents=[agent("day", good), agent("night", bad)], router=router)


def planted(folder: Path) -> dict[str, Planted]:
    """All faults, by where they are."""
    helper = agent("helper", bad_order)
    acting = Lifecycle(on_finish=writes(folder / "log.txt"))
    return {
        "behind a check": Planted(
            network(agent("clerk", bad_order)),
            "tool bad_order",
            {"arguments": {"bad_order": {"order": "A1"}}},
        ),
        "behind the second handoff": Planted(behind(agent("a", good), agent("b", bad))),
        "behind the second handoff of the second agent": Planted(
            behind(
                agent("a", good),
                agent("b", good, handoffs=[agent("c", good), agent("d", bad)]),
            )
        ),
        "in a hook behind the second handoff": Planted(
            behind(agent("a"), agent("b", lifecycle=acting)), finding="side-effect-on-replay"
        ),
        "in a tool of the name of another": Planted(
            behind(agent("a", good), agent("b", another_bad()))
        ),
        "behind an approval": Planted(
            network(agent("clerk", bad_payment)), "tool bad_payment", {"approve": True}
        ),
        "behind an error": Planted(
            network(agent("clerk", bad_after_an_error)),
            "tool bad_after_an_error",
            {"arguments": {"bad_after_an_error": [{"order": "B1"}, {"order": "A1"}]}},
        ),
        "in an agent that is not chosen": Planted(
            never_chosen(), "tool bad", {"state": {"late": True}}
        ),
        "in a tool that is not allowed": Planted(
            shut_out(), "tool bad", {"state": {"plan": "gold"}}
        ),
        "in a tool of an agent that is a tool": Planted(
            network(agent("clerk", helper.as_tool(allowed_tools="own"))), "tool bad_order"
        ),
        "behind two replies": Planted(
            network(agent("clerk", bad_order)),
            "tool bad_order",
            {"script": ["Which?", tool_call("bad_order", {"order": "A1"})] * 2},
        ),
    }


NAMES = list(planted(Path()))


def listed(report: DoctorReport) -> list[str]:
    """Kinds and names of what was not examined."""
    return [f"{one.kind} {one.name}" for one in report.unexamined]


@pytest.mark.parametrize("name", NAMES)
async def test_a_planted_fault_is_found_or_listed(name: str, tmp_path: Path) -> None:
    """Never a pass."""
    fault = planted(tmp_path)[name]
    report = await examine(fault.target)
    assert not report.passed
    if fault.listed is None:
        assert fault.finding in {one.name for one in report.findings}
    else:
        assert fault.listed in listed(report)
        assert report.healthy


REACHED = [name for name, fault in planted(Path()).items() if fault.options and "two" not in name]


@pytest.mark.parametrize("name", REACHED)
async def test_listed_items_are_found_with_the_right_options(name: str, tmp_path: Path) -> None:
    """Arguments, an approval, a state."""
    fault = planted(tmp_path)[name]
    report = await examine(fault.target, **fault.options)
    assert "not-json" in {one.name for one in report.findings}


async def test_a_script_leads_to_the_fault() -> None:
    """The model says what it says each time."""
    target = network(agent("clerk", good, bad_order))
    script = [tool_call("bad_order", {"order": "A1"})]
    report = await examine(target, script=script)
    assert "not-json" in {one.name for one in report.findings}
    assert listed(report) == ["tool good"]


async def test_every_handoff_is_made_and_a_whole_examination_passes() -> None:
    """Agents that join by handoffs are examined as those of the network."""
    last = agent("last", good)
    left = agent("left", good, handoffs=[last])
    right = agent("right", good, handoffs=[last, Handoff("left")])
    report = await examine(network(agent("first", good, handoffs=[left, right])))
    assert (report.passed, listed(report)) == (True, [])
    assert report.tools == {"good": 1}


async def test_the_default_routing_agent_visits_each_agent() -> None:
    """Not the first one only."""
    agents = [agent("a", good, description="A"), agent("b", bad, description="B")]
    report = await examine(Network(name="desk", agents=agents))
    assert "not-json" in {one.name for one in report.findings}


async def test_the_list_says_why() -> None:
    """So that the reader knows which option helps."""
    report = await examine(
        network(
            agent("clerk", bad_order, bad_after_an_error, bad_payment, far), agent("idle", good)
        )
    )
    why = {one.name: one.why for one in report.unexamined}
    assert "no such order" in why["bad_order"]
    assert why["bad_after_an_error"] == "it raised LookupError: no order doctor"
    assert "approve" in why["bad_payment"]
    assert "arguments were refused: place: " in why["far"]
    assert why["idle"] == "no run gave it a turn"
    assert why["good"] == "its agent had no turn"


async def test_skipped_items_are_not_listed() -> None:
    """A name that is not there is an error."""
    target = network(agent("clerk", good, bad_order))
    assert (await examine(target, skip=["bad_order"])).passed
    with pytest.raises(ConfigurationError, match="Unknown tool, handoff or agent 'bad_ordre'"):
        await examine(target, skip=["bad_ordre"])


MODULE = '''
from agentkit_py import Agent, ToolContext, tool

def known(ctx):
    return None if ctx.call.arguments["order"] == "A1" else "no such order"

@tool(check=known)
def look(order: str) -> str:
    """Look it up."""
    return "shipped"

clerk = Agent(name="clerk", system="S", tools=[look], max_iter=2)
'''


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 1, "? not examined: tool look: "),
        (["--arguments", "arguments.json"], 0, "✓ nothing found"),
        (["--script", "script.json"], 0, "✓ nothing found"),
        (["--skip", "look"], 0, "✓ nothing found"),
        (["--state", "[]"], 2, "--state takes an object"),
    ],
)
def test_the_command_does_not_pass_unexamined_items(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    """Arguments and scripts are files."""
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "arguments.json").write_text(json.dumps({"look": {"order": "A1"}}))
    call = {"name": "look", "arguments": {"order": "A1"}}
    (tmp_path / "script.json").write_text(json.dumps([{"tool_calls": [call]}, "Shipped."]))
    done = subprocess.run(
        [sys.executable, "-m", "agentkit_py.cli", "doctor", "shop:clerk", *arguments],
        cwd=tmp_path,
        env={**os.environ, "AGENTKIT_TIKTOKEN_TIMEOUT": "0", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done.stderr


@dataclass
class Desk:
    """A state that has to be given."""

    customer: str


@tool
def note(ctx: ToolContext[Desk]) -> str:
    """Write something down for the customer."""
    return f"noted for {ctx.state.data.customer}"


def run_bash(arguments: dict[str, str]) -> str:
    """Run a command."""
    return f"ran {arguments}"


CLERK = Agent(name="clerk", system="You note.", tools=[note], state_type=Desk)
BOOKINGS = Agent(name="bookings", system="You book.")
TRIAGE = Agent(
    name="triage",
    system="You hand over.",
    handoffs=[CLERK, Handoff(BOOKINGS, input_type=str)],
    model=ScriptedModel(tool_call("transfer_to_clerk")),
    state_type=Desk,
)
READER = Agent(name="reader", system="You read.", tools=[good])
STATE = {"customer": "ada"}

TARGETS: dict[str, Agent[Any, Any] | Network[Any, Any]] = {
    "handoffs of an agent with a scripted model": Network(
        name="desk",
        agents=[TRIAGE, CLERK, BOOKINGS],
        router=handoffs(TRIAGE),
        state_type=Desk,
    ),
    "an agent's own type of state": CLERK,
    "a tool of an agent that is used as a tool": Agent(
        name="desk", system="You ask the reader.", tools=[READER.as_tool(allowed_tools=["good"])]
    ),
    "an agent that has to be mentioned": Network(
        name="office", agents=[READER, BOOKINGS], router=mention_router(fallback="bookings")
    ),
    "a routing agent by itself": RoutingAgent(
        name="chief", system="Who is next?", lifecycle=Lifecycle(on_route=lambda _: [])
    ),
    "a provider's own tool": Agent(
        name="operator", system="You run.", tools=[provider_tool("bash_20250124", run_bash)]
    ),
}


@pytest.mark.parametrize("case", TARGETS)
async def test_a_target_is_examined_to_the_end(case: str) -> None:
    """What needs a certain name, input, state or model gets it."""
    report = await examine(TARGETS[case], state=STATE)
    assert report.passed, report
