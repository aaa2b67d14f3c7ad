"""Look at what is published: the contents of the wheel, each extra alone, what the pins hold.

    python -m build && python scripts/wheel.py dist

Each extra is installed with the wheel into an environment of its own, with the versions of
``constraints.txt``, and what it is for is imported there. Needs ``uv``. The bill of materials
(CycloneDX) lists the pinned versions; it says nothing of licences.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTION = "pyagentkit"
PACKAGE = "agentkit_py"

WORKS: dict[str, str] = {
    "": "import agentkit_py; agentkit_py.Agent(name='a', system='s')",
    "a2a": "import uvicorn, typer; from agentkit_py.a2a import A2AAgent, create_a2a_app",
    "api": "import uvicorn, websockets, typer; from agentkit_py.server import create_app",
    "bedrock": "from agentkit_py.runtime.cloud import bedrock; bedrock('m', region='r')",
    "cli": "from agentkit_py.cli import main",
    "embedder": "from agentkit_py.knowledge import LocalEmbedder; LocalEmbedder()",
    "inngest": "import fastapi, uvicorn, typer; from agentkit_py.testing import ReplayExecutor",
    "jsonschema": "from agentkit_py import create_tool; "
    "create_tool(name='t', description='d', parameters={'type': 'object'}, handler=print)",
    "knowledge": "import pypdf, semantic_text_splitter; "
    "from agentkit_py.knowledge import SqliteKnowledge; SqliteKnowledge(':memory:')",
    "mcp": "from agentkit_py.mcp import MCPServer",
    "otel": "import opentelemetry; import agentkit_py.tracing",
    "playground": "import watchfiles, typer; import agentkit_py.playground.app",
    "postgres": "from agentkit_py import PostgresHistory; PostgresHistory('postgresql://h/d')",
    "vertex": "from agentkit_py.runtime.cloud import vertex; vertex('m', project='p')",
}
"""The purpose of each extra, as a program. An extra that is not here is only installed."""


def contents(wheel: Path) -> list[str]:
    """Return the wheel's files that have no business in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1024:,.0f} kB")
    own = (f"{PACKAGE}/", f"{wheel.name.split('-')[0]}-")
    return [name for name in names if not name.startswith(own)]


def extras(wheel: Path) -> list[str]:
    """Return the extras that the wheel offers."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode("utf-8").splitlines()
    return sorted(line.split(": ")[1] for line in lines if line.startswith("Provides-Extra: "))


def try_extra(wheel: Path, extra: str, python: str) -> str | None:
    """Install the wheel with one extra, and return what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        pins = str(ROOT / "constraints.txt")
        steps = [
            ["uv", "venv", "--quiet", "--python", python, folder],
            ["uv", "pip", "install", "--quiet", "--python", folder, "-c", pins, wanted],
            [f"{folder}/bin/python", "-W", "error", "-c", WORKS.get(extra, WORKS[""])],
        ]
        for step in steps:
            done = subprocess.run(  # noqa: S603 - our own commands
                step, cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode:
                return (done.stderr or done.stdout).strip().rpartition("\n")[2]
    return None


def bill_of_materials() -> dict[str, object]:
    """Return the pinned versions as CycloneDX 1.5."""
    pins = [
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": DISTRIBUTION}},
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{quote(name.lower())}@{quote(version)}",
            }
            for name, version in pins
        ],
    }


def main() -> None:
    """Print what was looked at; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder with the wheel, usually dist")
    parser.add_argument("--python", default=sys.executable, help="the Python to install into")
    parser.add_argument("--extra", action="append", help="only this one (may be repeated)")
    parser.add_argument("--bill-of-materials", type=Path, metavar="FILE")
    given = parser.parse_args()
    wheels = sorted(given.folder.glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{given.folder} has {len(wheels)} wheels, not one; run: python -m build")
    wheel = wheels[0].resolve()
    wrong = [f"not ours: {name}" for name in contents(wheel)]
    for extra in given.extra or ["", *extras(wheel)]:
        error = try_extra(wheel, extra, given.python)
        print(f"{extra or '(none)':12} {error or 'ok'}", flush=True)
        wrong += [f"extra {extra!r}: {error}"] if error else []
    if given.bill_of_materials:
        text = json.dumps(bill_of_materials(), indent=1) + "\n"
        given.bill_of_materials.write_text(text, encoding="utf-8")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
