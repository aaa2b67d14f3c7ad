"""The `agentkit` command in tests: in this process, or in its own where that is the subject."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from agentkit_py.cli.app import app

# A shell starts background jobs with SIGINT ignored, and children inherit that.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from agentkit_py.cli import main; main()"
)
COMMAND = [sys.executable, "-c", PROGRAM]
"""The command in a process of its own, which Ctrl-C ends."""

_UNSET = ("OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "NO_COLOR", "FORCE_COLOR", "COLUMNS")


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command in a process of its own: no keys, no colours."""
    kept = {k: v for k, v in os.environ.items() if k not in _UNSET and "INNGEST" not in k}
    ours = {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1", "AGENTKIT_TIKTOKEN_TIMEOUT": "0"}
    return {**kept, **ours, **variables}


@contextlib.contextmanager
def working_in(folder: Path | None) -> Generator[None]:
    """The folder as current one; its modules are forgotten afterwards."""
    path, modules = sys.path[:], set(sys.modules)
    with contextlib.chdir(folder) if folder is not None else contextlib.nullcontext():
        try:
            yield
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                file = getattr(sys.modules[name], "__file__", None)
                if folder is not None and file and Path(file).is_relative_to(folder):
                    del sys.modules[name]


def agentkit(
    *arguments: object,
    folder: Path | None = None,
    lines: str = "",
    variables: Mapping[str, str] | None = None,
) -> Result:
    """Run the command in this process.

    Args:
        arguments: The command's.
        folder: The current folder.
        lines: Standard input.
        variables: Of the environment.
    """
    ours = {"INNGEST_DEV", *(k for k in os.environ if "INNGEST" in k)}  # serve sets the first
    unset = dict.fromkeys((*_UNSET, *ours), None)
    env = {**unset, "AGENTKIT_TIKTOKEN_TIMEOUT": "0", **(variables or {})}
    with working_in(folder):
        return CliRunner().invoke(app, [*map(str, arguments)], input=lines, env=env)


class Screen:
    """The output of a pseudo-terminal, read step by step."""

    def __init__(self, terminal: int) -> None:
        self.shown = b""
        self._terminal = terminal
        self._read = 0

    def wait_for(self, text: bytes, again: Callable[[], object] = lambda: None) -> None:
        """Read until this text comes, after what was waited for before.

        Args:
            text: What is to come.
            again: Called each second that nothing comes.
        """
        while (found := self.shown.find(text, self._read)) < 0:
            ready, _, _ = select.select([self._terminal], [], [], 1)
            if ready:
                self.shown += os.read(self._terminal, 1024)
            else:
                again()
        self._read = found + len(text)
