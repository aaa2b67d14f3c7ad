"""`agentkit dev`: the playground as a command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from agentkit_py.cli.demo.play import offline_network
from agentkit_py.cli.demo.script import QUESTIONS
from agentkit_py.playground.runs import Playground
from tests.cli.terminal import COMMAND, agentkit, environment

SHOP = """
from agentkit_py import Agent
from agentkit_py.testing import ScriptedModel

model = ScriptedModel("One.", "Two.", "Three.")
clerk = Agent(name="{name}", system="You sell hats.", model=model)
"""

Begin: TypeAlias = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module, as a developer has one."""
    (tmp_path / "shop.py").write_text(SHOP.format(name="clerk"))
    return tmp_path


@pytest.fixture
def begin(folder: Path) -> Iterator[Begin]:
    """Starts the command there."""
    begun: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [*COMMAND, "dev", "--no-open", *arguments]
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(COLUMNS="200"),
            start_new_session=True,
        )
        begun.append(process)
        return process

    yield start
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def address(process: subprocess.Popen[str]) -> str:
    """Return the address that the process printed."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"http://\S+", line)
        if found:
            return found[0]
    raise AssertionError("it printed no address")


def ask(url: str, path: str = "dev-api/target") -> dict[str, Any]:
    """An answer's JSON."""
    return httpx.get(f"{url}{path}", timeout=httpx.Timeout(None)).json()


def until(url: str, right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The target, once it is as wanted."""
    while True:
        try:
            target = ask(url)
        except httpx.TransportError:
            target = {}
        if target and right(target):
            return target


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and the rest of the output after Ctrl-C."""
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout is not None
    # Not `communicate`: it would leave out what has been read ahead for `address`.
    rest = process.stdout.read()
    return process.wait(), rest


def test_it_serves_a_target_again_when_code_changes_and_ends_on_ctrl_c(
    begin: Begin, folder: Path
) -> None:
    """A mistake is a page with the traceback; the thread is there through all of it."""
    process = begin("shop:clerk", "--port", "0")
    url = address(process)
    first = until(url, lambda target: target.get("name") == "clerk")
    begun = httpx.post(
        f"{url}dev-api/runs", json={"text": "Hello"}, timeout=httpx.Timeout(None)
    ).json()
    file = folder / "shop.py"
    file.write_text("import no_such_module\n")
    broken = until(url, lambda target: "broken" in target)["broken"]
    assert "no_such_module" in broken["message"]
    assert "Traceback" in broken["details"]
    assert "shop.py" in broken["details"]
    file.write_text(SHOP.format(name="seller"))
    mended = until(url, lambda target: target.get("name") == "seller")
    assert mended["boot"] != first["boot"]
    thread = ask(url, f"dev-api/threads/{begun['thread']}")
    assert [m["text"] for r in thread["results"] for m in r["messages"]] == ["Hello", "One."]
    code, rest = interrupted(process)
    assert code == 0, rest
    assert "Traceback" not in rest


def test_without_a_target_it_opens_the_demo(begin: Begin) -> None:
    """Offline, without a key."""
    process = begin("--port", "0")
    target = until(address(process), lambda target: "name" in target)
    assert target["name"] == "wayfarer-lane"
    assert target["examples"]
    code, rest = interrupted(process)
    assert code == 0, rest


def test_beyond_this_machine_it_prints_an_address_with_a_token(begin: Begin) -> None:
    """Requests without the token are refused."""
    process = begin("shop:clerk", "--host", "0.0.0.0", "--port", "0", "--no-reload")  # noqa: S104 - what is tested
    url, _, token = address(process).partition("?token=")
    assert len(token) > 20
    until_answered = httpx.get(url, timeout=httpx.Timeout(None))
    assert until_answered.status_code == 401
    with httpx.Client(base_url=url, timeout=httpx.Timeout(None), follow_redirects=True) as known:
        assert known.get(f"/?token={token}").status_code == 200
        assert known.get("/dev-api/target").json()["name"] == "clerk"
    code, rest = interrupted(process)
    assert code == 0, rest
    assert "From other machines" in rest


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["shop"], "is not MODULE:OBJECT"),
        (["shop:clerk", "--prices", "none.json"], "none.json cannot be read"),
        (["shop:clerk", "--port", "99999"], "65535"),
    ],
)
def test_a_wrong_command_says_so_at_once(folder: Path, arguments: list[str], problem: str) -> None:
    """The exit status is 2."""
    done = agentkit("dev", "--no-open", *arguments, folder=folder)
    assert problem in done.stderr
    assert done.exit_code == 2


async def test_the_demo_answers_every_thread(tmp_path: Path) -> None:
    """The refund of the first thread must not spoil the second."""
    played = Playground(offline_network(tmp_path, pause=0))
    for _ in range(2):
        thread: str | None = None
        for question in QUESTIONS:
            run = await played.start(question, thread)
            if run.task is not None:
                await run.task
            thread = run.thread_id
            assert run.status == "completed"
    await played.close()
