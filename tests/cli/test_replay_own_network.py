"""`agentkit replay --network` puts somebody's own network under a recording."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentkit_py.cli.app import app
from tests.cli.terminal import COMMAND, environment

ODDITIES = Path(__file__).parent / "data" / "oddities.jsonl"

SHOP = """
from agentkit_py import *
from agentkit_py.routing import get_default_routing_agent

asked = []

def tool(name):
    def handler(given):
        asked.append(name)
        return "from the shop itself"
    return create_tool(name=name, handler=handler)

NAMES = ["get_bike", "rent_bike", "book_bike", "search_rentals", "cancel_rental", "think",
         "transfer_to_person", "frobnicate", "update_books", "update-books-again"]
clerk = Agent(name="clerk", system="You rent out bicycles.", tools=[tool(name) for name in NAMES])
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """Writes the shop with a test's own lines into the current folder; returns `replay` on it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = f"shop_{abs(hash(request.node.name))}"

    def run(lines: str, *arguments: object, target: str = "network") -> Result:
        (tmp_path / f"{module}.py").write_text(SHOP + lines, encoding="utf-8")
        given = ["replay", str(ODDITIES), "--network", f"{module}:{target}", *map(str, arguments)]
        return CliRunner().invoke(app, given)

    return run


def counted(done: Result, one: str = "none") -> dict[str, Any]:
    """The figures of one pass."""
    return json.loads(done.stdout)["passes"][one]


def test_an_agent_alone_is_a_network_too_and_its_tools_are_not_called(shop: Any) -> None:
    """The recording answers for them. Without processors there is nothing to compare: one pass."""
    done = shop("", "--json", target="clerk")
    assert (done.exit_code, done.stderr) == (0, "")
    assert list(json.loads(done.stdout)["passes"]) == ["none"]
    assert (counted(done)["modelCalls"], counted(done)["threadsThatDiffer"]) == (25, 0)
    assert [m.asked for name, m in sys.modules.items() if name.startswith("shop_")][-1] == []


def test_own_processors_are_measured_against_none(shop: Any) -> None:
    """Those of the network, its agents and its history, each left out of the first pass."""
    lines = """
clerk.max_iter = 9
network = Network(
    name="shop", agents=[clerk], router=lambda ctx: clerk if ctx.call_count == 0 else None,
    processors=[ToolCallFilter()], history=MemoryHistory(processors=[TokenLimiter(30)]),
)
"""
    done = shop(lines, "--json")
    # It said two things in a row once; this router asks its agent only once a turn.
    assert "line 7, 'no-system' (own): message 3 (assistant) is not in the thread" in done.stderr
    assert counted(done, "own")["tokensSent"] < counted(done, "none")["tokensSent"]
    assert counted(done, "own")["requestsRejected"] == 0
    once = shop(lines, "--json", "--processors", "none")
    assert list(json.loads(once.stdout)["passes"]) == ["none"]


def test_a_router_that_ends_a_turn_early_is_a_difference(shop: Any) -> None:
    """The replies that nobody asked for are counted, and the next turn begins where it should."""
    done = shop(
        "clerk.max_iter = 1\nnetwork = Network(name='shop', agents=[clerk], "
        "router=lambda ctx: clerk if ctx.call_count == 0 else None)",
    )
    assert done.exit_code == 1
    assert "line 2, 'repeated-ids' (none): message 4 (assistant)" in done.stderr
    assert "because the run ended (done) with recorded replies left: 2" in done.stderr
    assert "'plain'" not in done.stderr


@pytest.mark.parametrize(
    "router",
    [
        "None",
        "get_default_routing_agent()",
        "lambda ctx: get_default_routing_agent()",
        "lambda ctx: 'clerk'",
        "lambda ctx: [clerk]",
        "lambda ctx: clerk",
    ],
)
def test_the_next_agent_comes_from_the_router_or_the_recorded_calls(shop: Any, router: str) -> None:
    """No recorded reply is spent on a routing agent; a turn ends where it was recorded to end."""
    greeter = "greeter = Agent(name='greeter', system='You greet.')\n"
    agents = "[clerk]" if router.startswith("lambda ctx: get_default") else "[greeter, clerk]"
    done = shop(
        f"{greeter}network = Network(name='shop', agents={agents}, router={router})", "--json"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    assert (counted(done)["modelCalls"], counted(done)["threadsThatDiffer"]) == (25, 0)


def test_an_agent_that_the_router_brings_in_has_recorded_tools_too(shop: Any) -> None:
    """It is not among the network's, so its tools are known only when it comes."""
    done = shop(
        "other = Agent(name='other', system='Hi')\n"
        "network = Network(name='shop', agents=[other], router=lambda ctx: clerk)",
        "--json",
    )
    assert done.exit_code == 0
    assert counted(done)["threadsThatDiffer"] == 0


def test_tools_that_the_network_lacks_are_named(shop: Any) -> None:
    """The number of conversations that call each tool is shown."""
    done = shop("network = Agent(name='nobody', system='Hi')")
    assert done.exit_code == 1
    said = " ".join(done.stdout.split())
    assert "Called in 2 conversations, but no agent has it: get_bike." in said
    assert "Unknown tool 'get_bike'" in done.stderr


def test_live_tools_are_called_and_answer_themselves(shop: Any) -> None:
    """Live tools' results differ from the recorded ones, and the figures count the difference."""
    done = shop("", "--live-tools", "--json", target="clerk")
    assert done.exit_code == 1
    assert "'from the shop itself' in the thread" in done.stderr
    assert counted(done)["threadsThatDiffer"] == 6
    asked = [m.asked for name, m in sys.modules.items() if name.startswith("shop_")][-1]
    assert len(asked) == 17


def test_a_refused_request_is_counted_by_rule_and_ends_its_conversation_only(shop: Any) -> None:
    """OpenAI takes at most 128 tools."""
    done = shop(
        "network = Agent(name='many', system='Hi', tools=[tool(f'tool_{n}') for n in range(129)])",
        "--json",
    )
    assert done.exit_code == 1
    assert (counted(done)["conversations"], counted(done)["requestsRejected"]) == (8, 8)
    assert list(counted(done)["rulesBroken"].values()) == [8]
    assert "refused by openai." in done.stderr
    shown = shop("")
    assert shown.exit_code == 1
    assert "Broken 8 times: openai." in shown.stdout


def test_an_error_of_the_network_ends_one_conversation_only(shop: Any) -> None:
    """Users' code may raise anything; the message and the others' figures are shown."""
    done = shop(
        "def router(ctx):\n"
        "    if 'tandem' in ctx.input: raise KeyError('no tandems')\n"
        "    return clerk\n"
        "network = Network(name='shop', agents=[clerk], router=router)",
        "--json",
    )
    assert done.exit_code == 1
    assert "line 4, 'ends-on-user' (none)" in done.stderr
    assert "because of KeyError: 'no tandems'" in done.stderr
    assert counted(done)["threadsThatDiffer"] == 1


def test_a_network_that_cannot_be_loaded_is_exit_status_2(shop: Any) -> None:
    """The error comes before the recording is read."""
    done = shop("", target="nothing")
    assert done.exit_code == 2
    assert "--network" in done.stderr
    assert done.stdout == ""


def test_ctrl_c_shows_the_figures_so_far_and_leaves_the_threads(tmp_path: Path) -> None:
    """The third conversation waits for ever; two were finished."""
    lines = """
import asyncio, sys
async def router(ctx):
    if "Cancel" in ctx.input:
        print("waiting", file=sys.stderr, flush=True)
        await asyncio.Event().wait()
    return clerk
network = Network(name="shop", agents=[clerk], router=router)
"""
    (tmp_path / "waiting_shop.py").write_text(SHOP + lines, encoding="utf-8")
    command = [*COMMAND, "replay", str(ODDITIES), "--network", "waiting_shop:network"]
    process = subprocess.Popen(
        [*command, "--concurrency", "1", "--db", "t.db"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert "waiting\n" in iter(process.stderr.readline, "")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert process.returncode == 130
    assert errors == ""
    assert "Interrupted" in out
    assert next(line for line in out.splitlines() if line.startswith("conv")).split() == [
        "conversations",
        "2",
    ]
