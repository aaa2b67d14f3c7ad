"""``python -m agentkit_py.cli``: the `agentkit` command."""

from __future__ import annotations

from agentkit_py.cli import main

if __name__ == "__main__":
    main()
