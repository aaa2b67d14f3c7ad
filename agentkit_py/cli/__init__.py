"""The `agentkit` command. Its packages are an extra: ``pip install "pyagentkit[cli]"``."""

from __future__ import annotations

import sys
from importlib.util import find_spec

_NEEDED = ("typer", "rich")


def main() -> None:
    """Run the command line; without its packages, name the missing extra and exit with 2."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f'The agentkit command needs {" and ".join(missing)}: pip install "pyagentkit[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)
    from agentkit_py.cli.app import app  # noqa: PLC0415 - needs the extra

    app()
