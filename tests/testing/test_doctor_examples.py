"""The doctor passes the agents and networks of the examples, given what they need."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, Network
from agentkit_py.testing.doctor import examine

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(
    path
    for path in EXAMPLES.rglob("*.py")
    if "Agent(" in (text := path.read_text("utf-8")) or "Network(" in text
)
FOLDERS = sorted({path.parent.relative_to(EXAMPLES).as_posix() for path in FILES})

STATES: dict[str, dict[str, Any]] = {
    "guardrails.py": {"customer": "ada"},
    "knowledge_support/main.py": {"tenant": "acme"},
    "operation.py": {"tenant": "acme", "plan": "free"},
    "recipes/multi_tenant.py": {"tenant": "acme"},
    "support_network.py": {"customer": "ada"},
}
"""The state that an example's runs need."""

SHOP = {
    "orders-find_order": {"number": 1001},
    "orders-refund": {"number": 1002, "reason": "late"},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "guardrails.py:office": {"send_mail": {"to": "ada@example.com", "text": "Hello"}},
    "isolation.py:careful": {"load_skill": {"name": "billing"}},
    "isolation.py:office": {"load_skill": {"name": "billing"}},
    "mcp_support/main.py:shop": SHOP,
    "mcp_support/main.py:support": SHOP,
    "tools.py:operator": {"bash": {"command": "uptime"}},
}
"""The arguments with which an example's tools do their work, by example and tool."""


def name_of(path: Path) -> str:
    """A path as the tables above have it."""
    return path.relative_to(EXAMPLES).as_posix()


def loaded(path: Path) -> dict[str, Any]:
    """Import an example; return its agents and networks by name."""
    spec = importlib.util.spec_from_file_location(f"examined_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return {n: o for n, o in vars(module).items() if isinstance(o, Agent | Network)}


def examine_folder(folder: str) -> list[str]:
    """Examine all examples of a folder; return what the doctor does not pass."""
    sys.path.insert(0, str(EXAMPLES / folder))
    failing: list[str] = []
    for path in [path for path in FILES if path.parent == EXAMPLES / folder]:
        name = name_of(path)
        for own, target in loaded(path).items():
            arguments, state = ARGUMENTS.get(f"{name}:{own}", {}), STATES.get(name, {})
            examination = examine(target, approve=True, arguments=arguments, state=state)
            report = asyncio.run(examination)
            if not report.passed:
                failing.append(f"{name}:{own} {report.findings} {report.unexamined}")
    return failing


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_doctor_passes_the_examples(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pages teach must pass the command that they recommend."""
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(key, "none")
    command = [sys.executable, __file__, folder]  # examples change the process that imports them
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_each_entry_is_of_an_example() -> None:
    """An example that was renamed needs its entry renamed."""
    known = set(map(name_of, FILES))
    assert {name.partition(":")[0] for name in ARGUMENTS} | STATES.keys() <= known


if __name__ == "__main__":
    sys.exit("\n".join(examine_folder(sys.argv[1])) or 0)
