"""Print the size and shape of the package: ``python scripts/house.py [--list]``.

Counts modules and lines, import cycles (once with type-checking imports, once as at run time, with
imports inside functions), state (fields of classes, assignments from outside), the calls of a
message and of an approval, words, complexity, the names of the root, and the functions that have a
single caller in another module. With ``--list`` it names what it counts.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "agentkit_py"
FACADE = (
    "agent",
    "network",
    "routing",
    "tools",
    "output",
    "guardrails",
    "lifecycle",
    "state",
    "results",
)


def lines(path: Path) -> int:
    """Count the lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def module_of(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group: list[str] = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return found


def imports() -> dict[str, set[str]]:
    """Return which module imports which, imports for type checkers included."""
    graph = grimp.build_graph("agentkit_py", include_external_packages=False, cache_dir=None)
    return {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}


class RuntimeImports(ast.NodeVisitor):
    """Collects the modules that a module may import at run time.

    These are the imports at its top and inside its functions, ``import_module`` with a name written
    out, and the tables of names that a package loads on first use. Imports for type checkers only
    are left out, and so is the package that a module is in, which Python loads before it.
    """

    def __init__(self, name: str, modules: set[str]) -> None:
        """Begin with nothing.

        Args:
            name: The module that imports.
            modules: All modules of the package.
        """
        self._name = name
        self._modules = modules
        self.found: set[str] = set()

    def _add(self, module: str) -> None:
        if module in self._modules and module != self._name:
            self.found.add(module)

    def visit_If(self, node: ast.If) -> None:
        """Skip what only type checkers see."""
        only_types = ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for inner in node.orelse if only_types else [*node.body, *node.orelse]:
            self.visit(inner)

    def visit_Import(self, node: ast.Import) -> None:
        """Add ``import a.b``."""
        for alias in node.names:
            self._add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Add ``from a.b import c``: the module ``a.b.c``, else ``a.b``."""
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            self._add(inner if inner in self._modules else str(node.module))

    def visit_Call(self, node: ast.Call) -> None:
        """Add modules that are imported by their name."""
        called = ast.unparse(node.func).split(".")[-1].lstrip("_")
        texts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)]
        if called in {"import_module", "__import__", "lazily", "provided_by"}:
            for text in texts:
                self._add(str(text))
        self.generic_visit(node)


def runtime_imports(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Return which module may import which at run time."""
    names = {module_of(path): tree for path, tree in trees.items()}
    graph: dict[str, set[str]] = {}
    for name, tree in names.items():
        visitor = RuntimeImports(name, set(names))
        visitor.visit(tree)
        graph[name] = visitor.found
    return graph


STATE_FOLDERS = ("_engine", "history", "inngest", "lifecycle", "output", "runtime", "tools")
MOST_FIELDS = 15
WRITTEN_BY_USERS = ("RunLimits", "HistoryConfig", "FunctionOptions")
"""Classes of these folders that users fill in, which may have more fields."""


def fields_of(node: ast.ClassDef) -> set[str]:
    """Return a class's annotated fields, and the attributes that its methods assign to self."""
    annotated = {
        x.target.id
        for x in node.body
        if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)
    }
    assigned = {
        x.attr
        for x in ast.walk(node)
        if isinstance(x, ast.Attribute)
        and isinstance(x.ctx, ast.Store)
        and ast.unparse(x.value) == "self"
    }
    return annotated | assigned


def classes_with_fields(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, str, set[str]]]:
    """Yield the classes of the folders that carry a run's state, with their fields."""
    for path, tree in trees.items():
        if path.relative_to(PACKAGE).parts[0] not in STATE_FOLDERS:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            if not any("TypedDict" in ast.unparse(base) for base in node.bases):
                yield path, node.name, fields_of(node)


def assigned_attributes(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Yield the attributes that a module assigns to other objects than self and cls."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Attribute) and ast.unparse(one.value) not in {"self", "cls"}:
                    yield one


def assigned_from_outside(trees: dict[Path, ast.Module]) -> list[str]:
    """List assignments to fields of other modules' classes.

    A field counts by its name: where a module assigns to an attribute that only classes of other
    modules have. So a few may be of objects that have the name by chance.
    """
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, _, fields in classes_with_fields(trees):
        for field in fields:
            homes[field].add(path)
    found: list[str] = []
    for path, tree in trees.items():
        parts = path.relative_to(PACKAGE).parts
        if len(parts) > 1 and parts[0] not in STATE_FOLDERS:
            continue
        found += [
            f"{module_of(path)}:{target.lineno} {ast.unparse(target)}"
            for target in assigned_attributes(tree)
            if homes[target.attr] and path not in homes[target.attr]
        ]
    return found


def checks_of_stores(trees: dict[Path, ast.Module]) -> list[str]:
    """List ``isinstance(…, SomeStore)``."""
    return [
        f"{module_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and "Store" in ast.unparse(node.args[1])
    ]


WORDS = {
    "said": r"\bsaid\b",
    "tell, told": r"\b[Tt]old?\b|\b[Tt]ells?\b",
    "hear, heard": r"\b[Hh]ear[ds]?\b",
    "whoever, nobody": r"\b[Ww]hoever\b|\bnobody\b|\bNobody\b|\bsomebody\b",
    "one": r"\bone\b",
    "go on": r"\bgo(es)? on\b",
    "come to": r"\bcomes? to\b",
    "stand": r"\bstands?\b",
    "is to": r"\b(is|are) to [a-z]+",
    "what": r"\bwhat\b",
    "at work": r"\bat work\b",
    "is no": r"\b(is|are) no [a-z]+\b",
    "beside": r"\b[Bb]eside\b",
    "besides": r"\b[Bb]esides\b",
    "give back": r"\bg[ai]ve(s|n)? back\b",
    "of the staff": r"of the staff",
    "anew": r"\banew\b",
    "wish": r"\bwish(es)?\b",
    "desk": r"[Dd]esk\b",
    "Letters": r"\bLetters\b",
}
"""Words that make a sentence hard to read, as patterns."""

COMMENT = re.compile(r"#\s(?!noqa|type|pyright)(.*)")


def prose_of(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield a module's texts and comments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    for line in path.read_text(encoding="utf-8").splitlines():
        if comment := COMMENT.search(line):
            yield comment[1]


def count_words(trees: dict[Path, ast.Module]) -> Counter[str]:
    """Count the words of `WORDS` in docstrings, comments and texts."""
    counts: Counter[str] = Counter()
    for path, tree in trees.items():
        for text in prose_of(path, tree):
            for word, pattern in WORDS.items():
                counts[word] += len(re.findall(pattern, text))
    return counts


def complexities() -> list[tuple[int, str]]:
    """Return each function's complexity as ruff counts it, the largest first."""
    options = ["--select", "C901", "--config", "lint.mccabe.max-complexity=0", "--isolated"]
    command = [sys.executable, "-m", "ruff", "check", *options, "--output-format", "json"]
    command.append(str(PACKAGE))
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    found: list[tuple[int, str]] = []
    for problem in json.loads(done.stdout):
        match = re.match(r"`(.*)` is too complex \((\d+) ", problem["message"])
        assert match is not None, problem
        place = f"{Path(problem['filename']).relative_to(ROOT)}:{problem['location']['row']}"
        found.append((int(match[2]), f"{place} {match[1]}"))
    return sorted(found, reverse=True)


class Trace:
    """Calls of the package's own functions while an awaitable runs, in all threads."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.calls: list[tuple[str, str]] = []
        self.depth = 0

    def _watch(self, frame: FrameType, event: str, _: object) -> None:
        home, name = f"{PACKAGE}/", frame.f_code.co_filename
        if event != "call" or not name.startswith(home) or name.startswith(f"{home}testing/"):
            return
        self.calls.append((name.removeprefix(home), frame.f_code.co_qualname))
        own, outer = 0, frame
        while outer is not None:
            own += outer.f_code.co_filename.startswith(home)
            outer = outer.f_back
        self.depth = max(self.depth, own)

    async def of(self, awaitable: Awaitable[Any]) -> Any:
        """Await it, and note what is called."""
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        try:
            return await awaitable
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def __str__(self) -> str:
        """The figures of the trace."""
        functions, files = set(self.calls), {file for file, _ in self.calls}
        return (
            f"{len(self.calls)} calls, {len(functions)} functions, {len(files)} files, "
            f"{self.depth} own frames deep"
        )


async def trace_message() -> Trace:
    """Trace one message: a network of one agent, no store, one model call over HTTP."""
    from agentkit_py import Agent, Network  # noqa: PLC0415 - after the path is set
    from agentkit_py.models import openai  # noqa: PLC0415
    from agentkit_py.routing import once  # noqa: PLC0415
    from agentkit_py.testing import FakeProvider  # noqa: PLC0415

    provider = FakeProvider(["warm", "hello"])
    model = replace(openai("gpt-4o", api_key="k"), transport=provider.transport)
    agent = Agent(name="a", system="s", model=model)
    network = Network(name="n", agents=[agent], router=once(agent))
    await network.run("warm up")
    trace = Trace()
    await trace.of(network.run("Is invoice 7 paid?"))
    return trace


async def trace_approval(*, asks: bool = True) -> Trace:
    """Trace a run that pauses for an approval in SQLite, and its resume by another process.

    Args:
        asks: False: trace the same run of a tool that needs no approval, in one process.
    """
    from agentkit_py import Agent, Network, SqliteHistory, tool  # noqa: PLC0415
    from agentkit_py.routing import once  # noqa: PLC0415
    from agentkit_py.testing import ScriptedModel, tool_call  # noqa: PLC0415

    @tool(needs_approval=asks)
    def refund(order: int) -> str:
        """Refund an order."""
        return f"refunded {order}"

    def support(store: SqliteHistory, *replies: Any) -> Network:
        agent = Agent(name="a", system="s", tools=[refund])
        model = ScriptedModel(*replies)
        return Network(
            name="n", agents=[agent], router=once(agent), default_model=model, history=store
        )

    trace = Trace()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/threads.db"
        async with SqliteHistory(path) as store:
            replies: list[Any] = ["warm", tool_call("refund", {"order": 7}), "It is refunded."]
            network = support(store, *replies)
            await network.run("warm up")
            run = await trace.of(network.run("Refund 7"))
        if not asks:
            return trace
        async with SqliteHistory(path) as store:
            network = support(store, "It is refunded.")
            await network.pending(run.thread_id)
            await trace.of(network.resume(run.thread_id, {run.pending[0].id: True}, by="mia"))
    return trace


def public_functions(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's own functions."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def used_names(trees: dict[Path, ast.Module]) -> dict[str, set[Path]]:
    """Return in which files each name is used."""
    used: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                used[node.id].add(path)
            elif isinstance(node, ast.Attribute):
                used[node.attr].add(path)
    return used


def single_callers(trees: dict[Path, ast.Module]) -> list[str]:
    """List the functions that one other module uses and their own module does not.

    Names that a package's ``__init__`` exports are public and not counted.
    """
    used = used_names(trees)
    exported = {
        word
        for path, tree in trees.items()
        if path.name == "__init__.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in node.value.split()
    }
    found: list[str] = []
    for path, tree in trees.items():
        for name in public_functions(tree):
            callers = used[name]
            if name not in exported and len(callers) == 1 and path not in callers:
                found.append(f"{module_of(path)}.{name} <- {module_of(next(iter(callers)))}")
    return sorted(found)


def parsed() -> dict[Path, ast.Module]:
    """Return the package's modules."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def listed(title: str, found: list[str], *, every: bool) -> None:
    """Print how many there are; each of them where ``every``."""
    print(f"{title}: {len(found)}")
    for line in found if every else ():
        print(f"  {line}")


def print_sizes(paths: list[Path]) -> None:
    """Print modules and lines."""
    sizes = {path: lines(path) for path in paths}
    by_folder: dict[str, list[int]] = defaultdict(list)
    for path, size in sizes.items():
        inside = path.relative_to(PACKAGE).parts
        by_folder[inside[0] if len(inside) > 1 else "(top)"].append(size)
    print(f"{'folder':14}{'modules':>8}{'lines':>8}")
    for folder, own in sorted(by_folder.items(), key=lambda pair: -sum(pair[1])):
        print(f"{folder:14}{len(own):8}{sum(own):8,}")
    print(f"{'package':14}{len(sizes):8}{sum(sizes.values()):8,}")
    engine = sum(by_folder.get("_engine", []))
    facade = sum(sizes.get(PACKAGE / f"{name}.py", 0) for name in FACADE)
    print(f"\n_engine {engine:,} lines, with the facade {engine + facade:,}")
    benchmarks = sum(map(lines, (ROOT / "benchmarks").rglob("*.py")))
    tests = sum(map(lines, (ROOT / "tests").rglob("*.py")))
    print(f"benchmarks {benchmarks:,} lines, tests {tests:,} lines")


def print_imports(trees: dict[Path, ast.Module]) -> None:
    """Print circles, and what the agent loop imports."""
    static = imports()
    for title, graph in (
        ("import cycles, type-checking imports counted", static),
        ("import cycles at run time, imports in functions counted", runtime_imports(trees)),
    ):
        loops = cycles(graph)
        print(f"{title}: {len(loops)}")
        for loop in loops:
            print(f"  {len(loop)} modules: {', '.join(loop)}")
    loop = "agentkit_py._engine.agent_loop"
    size = lines(PACKAGE / "_engine" / "agent_loop.py")
    print(f"agent_loop.py: {size} lines, imports {len(static[loop])} modules")


def print_state(trees: dict[Path, ast.Module], *, every: bool) -> None:
    """Print what objects hold and who changes them."""
    large = [
        f"{module_of(path)}.{name} has {len(fields)}"
        for path, name, fields in classes_with_fields(trees)
        if len(fields) > MOST_FIELDS and name not in WRITTEN_BY_USERS
    ]
    listed(f"classes with more than {MOST_FIELDS} fields", large, every=True)
    listed("assignments to fields from outside", assigned_from_outside(trees), every=every)
    listed("isinstance checks on stores", checks_of_stores(trees), every=every)


def main() -> None:
    """Print the figures."""
    every = "--list" in sys.argv
    trees = parsed()
    print_sizes(list(trees))
    sys.path.insert(0, str(ROOT))
    print(f"names of the root: {len(__import__('agentkit_py').__all__)}\n")
    print_imports(trees)
    print_state(trees, every=every)
    print(f"a message: {asyncio.run(trace_message())}")
    plain, approval = asyncio.run(trace_approval(asks=False)), asyncio.run(trace_approval())
    own = len(set(approval.calls) - set(plain.calls))
    print(f"a tool call in SQLite: {plain}")
    print(f"an approval with its resume: {approval}, {own} functions of its own")
    most, place = complexities()[0]
    print(f"largest complexity: {most} ({place})")
    words = count_words(trees)
    print(f"words: {', '.join(f'{count} {word}' for word, count in words.most_common())}\n")
    listed("functions with a single caller, in another module", single_callers(trees), every=every)


if __name__ == "__main__":
    main()
