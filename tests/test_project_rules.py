"""The rules of DESIGN.md that no linter knows."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentkit_py

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agentkit_py"
MODULES = sorted(PACKAGE.rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def named(path: Path) -> str:
    """A path as messages show it."""
    return path.relative_to(ROOT).as_posix()


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler is bare or names BaseException."""
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(name).split(".")[-1] == "BaseException" for name in names)


def test_nothing_catches_base_exception() -> None:
    """A durable step ends a request by raising one through us; to catch it breaks the run."""
    found = [
        f"{named(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert found == []


ENGINE_TESTS = sorted((ROOT / "tests" / "engine").glob("test_*.py"))


def runs_in_one_way_only(module: ast.Module) -> list[str]:
    """Functions that call `run` of an agent or network themselves, and are not marked.

    A mark may have a name of its own (``HERE = pytest.mark.direct_only("…")``), or be the module's.
    """
    marks = {
        ast.unparse(node.targets[0])
        for node in module.body
        if isinstance(node, ast.Assign) and "direct_only" in ast.unparse(node.value)
    }
    if "pytestmark" in marks:
        return []
    return [
        function.name
        for function in module.body
        if isinstance(function, Function)
        and not any(
            "direct_only" in (word := ast.unparse(mark)) or word in marks
            for mark in function.decorator_list
        )
        and any(runs_something(node) for node in ast.walk(function))
    ]


def runs_something(node: ast.AST) -> bool:
    """Return whether it is ``x.run(…)``, where ``x`` is neither the tests' runner nor a step."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    where = ast.unparse(node.func.value)
    through_runner = where == "runner" or where.startswith("Runner(")
    return node.func.attr == "run" and not through_runner and not where.endswith("step")


def test_every_engine_test_runs_directly_and_as_an_inngest_function() -> None:
    """The fixture `runner` does both; exceptions are marked `direct_only` with a reason."""
    trees = {named(p): ast.parse(p.read_text(encoding="utf-8")) for p in ENGINE_TESTS}
    assert len(trees) > 20
    assert {name: found for name, m in trees.items() if (found := runs_in_one_way_only(m))} == {}
    reasons = [
        node.args[0].value
        for module in trees.values()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.direct_only"
        if node.args and isinstance(node.args[0], ast.Constant)
    ]
    marks = sum(path.read_text(encoding="utf-8").count("mark.direct_only") for path in ENGINE_TESTS)
    assert len([reason for reason in reasons if len(str(reason).split()) > 4]) == marks


def test_tests_that_run_in_a_single_mode_are_found() -> None:
    """The measure itself."""
    module = ast.parse(
        "HERE = pytest.mark.direct_only('why')\n"
        "async def plain(): await agent.run('q?')\n"
        "async def made(): await make(a).run('q?')\n"
        "async def both(runner): await runner.run(agent, 'q?')\n"
        "async def step(runner): await context.step.run('s', work)\n"
        "@pytest.mark.direct_only('why')\nasync def marked(): await agent.run('q?')\n"
        "@HERE\nasync def named(): await agent.run('q?')\n"
    )
    assert runs_in_one_way_only(module) == ["plain", "made"]


def test_the_engine_never_asks_which_runtime_it_has() -> None:
    """Differences between runtimes belong behind the port."""
    asks = re.compile(r"InngestRuntime|isinstance\(.*untime|(import .*|\w\.)DirectRuntime")
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in sorted((PACKAGE / "_engine").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if asks.search(line)
    ]
    assert found == []


# Put together here, so that this file does not hold what it looks for.
HOSTS = ["py" + "pi.org", "python" + "hosted.org", "registry.npm" + "js.org"]
FOREIGN = re.compile(
    "|".join([*map(re.escape, HOSTS), r"(?<![\w./~-])/(?:work|root|(?:home|Users)/\w+)/"])
)


def project_files() -> list[Path]:
    """Return the files that are committed or will be: neither ignored nor deleted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git clone, e.g. an unpacked sdist")
def test_no_file_names_a_package_index_or_a_folder_of_one_machine() -> None:
    """Both differ from machine to machine, and the second says whose it was."""
    found = [
        f"{named(path)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="ignore").splitlines(), start=1
        )
        if FOREIGN.search(line)
    ]
    assert found == []


def test_constraints_are_names_and_versions_only() -> None:
    """No hashes, addresses or options: they tie the pins to one index."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [p for p in pins if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*==[a-z0-9.+!]+", p)] == []


def test_every_public_name_is_listed_once_and_resolves() -> None:
    """The order of the list is ruff's business (RUF022)."""
    names = list(agentkit_py.__all__)
    assert [n for n in names if names.count(n) > 1] == []
    assert [n for n in names if not hasattr(agentkit_py, n)] == []


def test_the_root_has_no_class_or_function_that_is_not_listed() -> None:
    """A forgotten import would be public by accident."""
    ours = {
        name
        for name, value in vars(agentkit_py).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("agentkit_py")
    }
    assert ours - set(agentkit_py.__all__) == set()


def has_docstring(value: object) -> bool:
    """Return whether a class or function has a docstring of its own (dataclasses generate one)."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return True  # constants and type aliases cannot carry one at run time
    return bool(value.__doc__) and not (value.__doc__ or "").startswith(f"{value.__name__}(")


def test_every_public_name_has_a_docstring() -> None:
    """The package has one, too."""
    assert agentkit_py.__doc__
    assert [n for n in agentkit_py.__all__ if not has_docstring(getattr(agentkit_py, n))] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ApprovalAnswer", "from agentkit_py.events import ApprovalAnswer"),
        ("Budget", "from agentkit_py.processors import Budget"),
        ("ThreadLease", "from agentkit_py.stores import ThreadLease"),
        ("createNetwork", "from agentkit_py import create_network"),
        ("createServer", "from agentkit_py.inngest import create_functions"),
    ],
)
def test_a_name_of_another_module_is_refused_with_the_import_to_write(name: str, line: str) -> None:
    """TypeScript's names, too; the line works."""
    with pytest.raises(ImportError, match=f"{name} is .*: {line}$"):
        getattr(agentkit_py, name)
    exec(line, {})  # noqa: S102 - our own lines


def test_a_name_that_is_nowhere_is_an_attribute_error() -> None:
    """Modules of the package are imported as ever."""
    assert not hasattr(agentkit_py, "Nonsense")
    exec("from agentkit_py import server, stores", {})  # noqa: S102 - our own line


SLOW_TO_IMPORT = [
    *("a2a", "httpx", "inngest", "jsonschema", "mcp", "opentelemetry"),
    *("rich", "sqlite3", "tiktoken", "typer"),
    *("pydantic", "snowballstemmer", "difflib", "pickle", "statistics"),
    *("agentkit_py.processors.compose", "agentkit_py.processors.recall"),
    *("agentkit_py.processors.summarize", "agentkit_py.search.words"),
]


def test_what_nearly_all_programs_import_loads_nothing_that_may_not_be_needed() -> None:
    """Each loads when it is first used."""
    names = "from agentkit_py import Agent, Network, State, openai, tool"
    script = f"{names}; import sys; print(*[m for m in {SLOW_TO_IMPORT} if m in sys.modules])"
    # Measured without coverage, which loads sqlite3 itself.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_each_name_in_the_list_of_slow_tests_is_a_test(root: Path) -> None:
    """Else a test that was renamed comes back into the quick suite, and nothing says so."""
    lines = (root / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()
    names = [line.removeprefix("+ ") for line in lines if line and not line.startswith("#")]
    assert len(names) == len(set(names)) > 100
    for name in names:
        path, _, rest = name.partition("::")
        files = list(root.glob(path))
        assert files, name
        wanted = f"def {rest.partition('[')[0]}(".removesuffix("*(")
        assert any(wanted in file.read_text(encoding="utf-8") for file in files) or not rest, name


def test_no_modules_import_each_other_in_a_circle_at_run_time(root: Path) -> None:
    """Imports inside functions count too: each part can be read, and tried, without those above."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import house; print(house.cycles(house.runtime_imports(house.parsed())))",
        ],
        cwd=root / "scripts",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr
