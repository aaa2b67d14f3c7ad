"""Installations without an extra: the error where the extra is needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

TARGET = "agentkit_py.cli.demo.play:offline_network"

NEEDS = [
    ("api", "starlette", "import agentkit_py.server"),
    ("api", "starlette", f"command(['api', '{TARGET}'])"),
    (
        "bedrock",
        "botocore",
        "from agentkit_py.runtime.cloud import bedrock; bedrock('m', region='r')",
    ),
    ("embedder", "fastembed", "from agentkit_py.knowledge import LocalEmbedder; LocalEmbedder()"),
    ("inngest", "fastapi", f"command(['serve', '{TARGET}'])"),
    ("inngest", "fastapi", "from agentkit_py.testing import ReplayExecutor"),
    (
        "jsonschema",
        "jsonschema",
        (
            "from agentkit_py import create_tool\n"
            "create_tool(name='t', description='d', parameters={'type': 'object'}, handler=print)"
        ),
    ),
    (
        "knowledge",
        "apsw",
        "from agentkit_py.knowledge import SqliteKnowledge; SqliteKnowledge('k')",
    ),
    (
        "knowledge",
        "pypdf",
        "from agentkit_py.knowledge.documents import sections; sections(b'', 'pdf', 'a.pdf')",
    ),
    (
        "knowledge",
        "semantic-text-splitter",
        "from agentkit_py.knowledge.documents import Chunking; Chunking(9, 0).cut('a ' * 9, '')",
    ),
    ("a2a", "a2a-sdk", "import agentkit_py.a2a"),
    ("a2a", "a2a-sdk", f"command(['a2a', '{TARGET}'])"),
    ("mcp", "mcp", "import agentkit_py.mcp"),
    ("mcp", "mcp", f"command(['mcp', '{TARGET}'])"),
    ("otel", "opentelemetry", "import agentkit_py.tracing"),
    ("playground", "starlette", "command(['dev'])"),
    ("postgres", "psycopg", "from agentkit_py import PostgresHistory; PostgresHistory('h')"),
    (
        "postgres",
        "psycopg",
        "from agentkit_py.knowledge import PostgresKnowledge; PostgresKnowledge('h')",
    ),
    (
        "vertex",
        "google-auth",
        "from agentkit_py.runtime.cloud import vertex; vertex('m', project='p')",
    ),
]
"""Extras, the package that is missed first without it, and a program that needs it."""

OPTIONAL = (
    *("a2a", "apsw", "botocore", "fastapi", "fastembed", "google", "google.auth"),
    *("jsonschema", "mcp"),
    *("opentelemetry", "psycopg", "psycopg_pool", "pypdf", "semantic_text_splitter", "numpy"),
    *("sse_starlette", "starlette", "uvicorn", "watchfiles", "websockets"),
)
"""Modules of all extras but the command line's."""

RUN_ALL = """
import contextlib, io, json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # as if it were not installed

def command(arguments):
    from agentkit_py.cli.app import app
    with contextlib.suppress(SystemExit):
        app(arguments)

def outcome(program):
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown):
        try:
            exec(program, {"command": command})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return shown.getvalue()

print(json.dumps({program: outcome(program) for program in json.loads(sys.argv[2])}))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the words of each program in an environment without extras."""
    given = [json.dumps(OPTIONAL), json.dumps([program for *_, program in NEEDS])]
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *given],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path_factory.mktemp("empty"),
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("extra", "package", "program"), NEEDS)
def test_features_that_need_an_extra_name_it(
    extra: str, package: str, program: str, said: dict[str, str]
) -> None:
    """One sentence with the line that installs it."""
    shown = " ".join(said[program].split())
    expected = f"needs the package '{package}': pip install \"pyagentkit[{extra}]\""
    assert expected in shown
    assert shown.startswith("agentkit: " if "command" in program else "MissingDependencyError: ")
    assert "Traceback" not in shown


def test_every_extra_is_named_by_an_error_and_by_the_page_on_installing(root: Path) -> None:
    """An extra that neither names would be found by nobody; `cli` has a test of its own."""
    project: Any = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {*project["optional-dependencies"]}
    assert {extra for extra, *_ in NEEDS} == extras - {"cli"}
    page = (root / "docs" / "install.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} == extras
