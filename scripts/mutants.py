#!/usr/bin/env python3
"""Change the package in one place at a time; say which changes the recordings of TypeScript notice.

    scripts/mutants.py [--seed N] [--count N] [--parity] [--list]

Each mutant is a copy of the package with one operator, constant or condition of `_engine`,
`models`, `history` or `events` changed, chosen by the seed among the places that a recording
reaches: what is Python's alone (stores of reasoning, failover, other wire formats) is for other
tests. The recordings that reach the place are played in all three modes, in an order that the seed
gives, until one is no longer as it was. With ``--parity`` the other tests of `tests/parity` then
run on those that no recording noticed. One that changes nothing that can be seen survives, so the
rest has to be read.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("_engine", "models", "history", "events")
NEEDED = ("agentkit_py", "tests/parity", "tests/conftest.py", "tests/__init__.py", "pyproject.toml")
PATIENCE = 900
"""Seconds that one mutant has; one that takes longer is noticed."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the package that can be changed."""

    path: Path
    number: int
    """The number of the node in `ast.walk`'s order."""

    line: int
    change: str
    begin: int
    """The line on which the statement begins that the node is part of."""

    defines: bool
    """True if the module's import runs it: it stands in no function."""


def changed(node: ast.AST) -> tuple[str, ast.AST] | None:
    """Return what is changed of a node, and the other one; None: nothing is."""
    made = copy.deepcopy(node)
    match made:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            made.ops = [_COMPARISONS[type(op)]()]
        case ast.BoolOp():
            made.op = ast.Or() if isinstance(made.op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not()):
            made = made.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            made.op = ast.Sub() if isinstance(made.op, ast.Add) else ast.Add()
        case ast.Constant(value=bool()):
            made.value = not made.value
        case ast.Constant(value=int(number)):
            made.value = number + 1
        case ast.IfExp() | ast.If():
            made.test = ast.UnaryOp(ast.Not(), made.test)
        case ast.Return(value=ast.Constant(value=None)):
            return None
        case ast.Return(value=ast.expr()):
            made.value = ast.Constant(None)
        case _:
            return None
    before, after = ast.unparse(node), ast.unparse(made)
    shown = f"{before.splitlines()[0][:60]} -> {after.splitlines()[0][:60]}"
    return shown, ast.copy_location(made, node)


def places(path: Path) -> Iterator[Place]:
    """Yield what can be changed of a module, but for names of types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    begins: dict[int, tuple[int, bool]] = {}
    _mark(tree, 0, defines=True, into=begins)
    for number, node in enumerate(ast.walk(tree)):
        found = changed(node)
        if found is not None:
            line: int = getattr(node, "lineno", 0)
            begin, defines = begins[id(node)]
            yield Place(path.relative_to(ROOT), number, line, found[0], begin, defines)


def _mark(node: ast.AST, begin: int, *, defines: bool, into: dict[int, tuple[int, bool]]) -> None:
    begin = node.lineno if isinstance(node, ast.stmt) else begin
    into[id(node)] = begin, defines
    inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        _mark(child, begin, defines=defines and not inner, into=into)


class _Put(ast.NodeTransformer):
    def __init__(self, target: ast.AST, other: ast.AST) -> None:
        self._target, self._other = target, other

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the other node in the target's place."""
        return self._other if node is self._target else super().visit(node)


def mutated(place: Place) -> str:
    """Return the source of a module with the change."""
    tree = ast.parse((ROOT / place.path).read_text(encoding="utf-8"))
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == place.number)
    found = changed(node)
    assert found is not None
    return ast.unparse(ast.fix_missing_locations(_Put(node, found[1]).visit(tree)))


PLAY = """
import json, logging, random, sys
logging.disable(logging.CRITICAL)
asked = json.load(sys.stdin)
if asked["cover"]:
    import coverage
    cover = coverage.Coverage(data_file=None, include=["agentkit_py/*"])
from tests.parity.divergences import ALL_IDS
from tests.parity.judge import documents, judge, pointer_problems
from tests.parity.modes import CLASSES, FUNCTIONS, TYPESCRIPT
from tests.parity.vectors import COMMITTED, load_folder
vectors = [v for v in load_folder(COMMITTED) if v.not_applicable() is None]
vectors = [v for v in vectors if asked["cover"] or v.name in asked["names"]]
random.Random(asked["seed"]).shuffle(vectors)
if asked["cover"]:
    cover.start()
differ = []
modes = (TYPESCRIPT,) if asked["cover"] else (TYPESCRIPT, FUNCTIONS, CLASSES)
plays = [(v, m) for m in modes for v in vectors if m is TYPESCRIPT or v.kind == "run"]
for vector, mode in plays:
    if asked["cover"]:
        cover.switch_context(vector.name)
    try:
        found = documents(vector, ALL_IDS, mode)
        whole = judge(found).passed and not [*found.problems, *pointer_problems(vector)]
    except Exception:
        whole = False
    if not whole:
        differ.append(vector.name)
        if not asked["cover"]:
            break
reached = {}
if asked["cover"]:
    cover.stop()
    data = cover.get_data()
    for path in data.measured_files():
        reached[path] = {n: c for n, c in data.contexts_by_lineno(path).items() if any(c)}
print(json.dumps({"differ": differ, "reached": reached, "names": [v.name for v in vectors]}))
"""


def ran(
    folder: Path, *command: str, given: str = "", patience: float | None = PATIENCE
) -> tuple[int, str]:
    """Run Python on the copy; return its status and what it printed."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, *command],
            cwd=folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "(too slow)"
    return done.returncode, done.stdout.strip()


def played(folder: Path, seed: int, names: list[str] | None = None) -> dict[str, Any] | None:
    """Play the recordings of these names, or all with what they reach; None: it cannot be done."""
    asked = json.dumps({"seed": seed, "names": names, "cover": names is None})
    patience = None if names is None else PATIENCE
    status, said = ran(folder, "-c", PLAY, given=asked, patience=patience)
    return None if status else json.loads(said.splitlines()[-1])


class Reached:
    """The recordings that run the package's lines."""

    def __init__(self, folder: Path, found: dict[str, dict[str, list[str]]]) -> None:
        root = folder.resolve()
        self._lines: dict[Path, dict[int, set[str]]] = {}
        for path, lines in found.items():
            known = self._lines.setdefault(Path(path).resolve().relative_to(root), {})
            known |= {int(number): set(names) for number, names in lines.items()}

    def by(self, place: Place) -> set[str]:
        """The recordings that reach a place; what an import runs is reached by the module's."""
        lines = self._lines.get(place.path, {})
        if place.defines:
            return {name for names in lines.values() for name in names}
        between = range(place.begin, max(place.line, place.begin) + 1)
        return {name for number in between for name in lines.get(number, ())} - {""}


def copy_into(folder: Path) -> None:
    """Copy what the recordings need."""
    for name in NEEDED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, target)


def main() -> int:
    """Print each mutant with what noticed it, then the rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--count", type=int, default=200, metavar="N")
    parser.add_argument("--parity", action="store_true", help="then all tests of tests/parity")
    parser.add_argument("--list", action="store_true", help="name the mutants only")
    given = parser.parse_args()
    modules = [p for f in FOLDERS for p in sorted((ROOT / "agentkit_py" / f).rglob("*.py"))]
    every = [place for path in modules for place in places(path)]
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_into(folder)
        found = played(folder, given.seed)
        if found is None:
            parser.exit(2, "the recordings cannot be played without a change, either\n")
        known = set(found["differ"])
        print(f"recordings that differ without a change: {sorted(known)}", flush=True)
        reached = Reached(folder, found["reached"])
        there = [place for place in every if reached.by(place)]
        chosen = random.Random(given.seed).sample(there, min(given.count, len(there)))  # noqa: S311 - a sample that a seed repeats, no secret
        print(f"seed {given.seed}: {len(chosen)} of {len(there)} places that recordings reach")
        print(f"(of {len(every)} in all)", flush=True)
        for place in chosen:
            names = sorted(reached.by(place) - known)
            noticed = "" if given.list else verdict(folder, place, given, names)
            tally[noticed.partition(":")[0]] += 1
            shown = f"{place.path}:{place.line}: {place.change}"
            print(f"{shown}\t{noticed}\t({len(names)} reach it)", flush=True)
    print(dict(tally))
    return 0


def verdict(folder: Path, place: Place, given: argparse.Namespace, names: list[str]) -> str:
    """Return what notices a mutant: a recording, another test of parity, or nothing."""
    target = folder / place.path
    before = target.read_text(encoding="utf-8")
    target.write_text(mutated(place), encoding="utf-8")
    try:
        found = played(folder, given.seed, names)
        if found is None or found["differ"]:
            said = found["differ"][0] if found else "it cannot be imported, or does not end"
            return f"recording: {said}"
        tests = ("-m", "pytest", "-q", "-x", "-n", "0", "tests/parity", "-p", "no:cacheprovider")
        if given.parity and ran(folder, *tests)[0]:
            return "parity"
        return "nobody"
    finally:
        target.write_text(before, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
