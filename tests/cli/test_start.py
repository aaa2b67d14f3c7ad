"""The time that the command takes to begin, counted in modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentkit_py.cli.app import app
from agentkit_py.stores import SqliteHistory
from tests.cli.terminal import agentkit

_HELP = "from agentkit_py.cli.app import app; app(['--help'], standalone_mode=False)"
_LIST = "from agentkit_py.cli.app import app; app(['threads', 'list', '--db', 't.db'])"


def _loaded(program: str, folder: Path) -> set[str]:
    """Return the modules that a program loads in a process of its own."""
    text = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n" + program
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=folder
    )
    return set(done.stderr.split())


async def test_help_and_a_list_of_threads_load_little_of_the_library(tmp_path: Path) -> None:
    """No agents, models, processors or servers: whoever lists threads does not wait for them."""
    async with SqliteHistory(tmp_path / "t.db") as store:
        await store.add_thread("one", title="First")
    for program, most in ((_HELP, 15), (_LIST, 58)):
        loaded = _loaded(program, tmp_path)
        own = {name for name in loaded if name.startswith("agentkit_py")}
        assert len(own) <= most, sorted(own)
        assert "httpx" not in loaded
        assert "snowballstemmer" not in loaded
        for module in ("events.project", "events.types", "search.words", "stores.wrappers"):
            assert f"agentkit_py.{module}" not in own
        for package in ("models", "_engine", "server", "playground", "testing", "inngest"):
            assert f"agentkit_py.{package}" not in own


def test_names_of_the_package_load_when_they_are_used(tmp_path: Path) -> None:
    """Importing it costs nothing yet."""
    loaded = _loaded("import agentkit_py", tmp_path)
    assert {name for name in loaded if name.startswith("agentkit_py")} == {
        "agentkit_py",
        "agentkit_py._core",
        "agentkit_py._core.extension_points",
        "agentkit_py._core.lazy",
    }


@pytest.mark.parametrize("name", [command.name for command in app.registered_commands])
def test_each_command_says_in_the_list_what_it_says_itself(name: str) -> None:
    """The list is written by hand, since the commands are not loaded for it."""
    command = next(one for one in app.registered_commands if one.name == name)
    said = " ".join((command.help or "?").replace("`", "").split())
    assert said in " ".join(agentkit(name, "--help").output.split())
