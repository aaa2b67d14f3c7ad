"""Print the size and shape of the package: ``python scripts/house.py``.

Counts modules and lines, import cycles (type-checking imports counted), the names of the root, and
the functions that have a single caller in another module.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

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
SHOWN = 40


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


def single_callers(paths: list[Path]) -> list[str]:
    """List the functions that one other module uses and their own module does not.

    Names that a package's ``__init__`` exports are public and not counted.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
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


def main() -> None:
    """Print the figures."""
    paths = sorted(PACKAGE.rglob("*.py"))
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
    sys.path.insert(0, str(ROOT))
    names = __import__("agentkit_py").__all__
    print(f"names of the root: {len(names)}")
    loops = cycles(imports())
    print(f"import cycles, type-checking imports counted: {len(loops)}")
    for loop in loops:
        print(f"  {len(loop)} modules: {', '.join(loop)}")
    single = single_callers(paths)
    print(f"functions with a single caller, in another module: {len(single)}")
    for name in single[:SHOWN]:
        print(f"  {name}")
    if len(single) > SHOWN:
        print(f"  … and {len(single) - SHOWN} more")


if __name__ == "__main__":
    main()
