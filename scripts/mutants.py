#!/usr/bin/env python3
"""Change the package in one place at a time; say which changes the recordings of TypeScript notice.

    scripts/mutants.py [--seed N] [--count N] [--recordings N] [--parity] [--list]

Each mutant is a copy of the package with one operator, constant or condition of `_engine`,
`models`, `history` or `events` changed, chosen at random by the seed. Recordings are played in an
order that the seed gives, too, until one is no longer as it was. With ``--parity`` the other tests
of `tests/parity` then run on those that no recording noticed. A mutant takes a second to two
minutes; one that changes nothing that can be seen survives, so the rest has to be read.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    for number, node in enumerate(ast.walk(tree)):
        found = changed(node)
        if found is not None:
            yield Place(path.relative_to(ROOT), number, getattr(node, "lineno", 0), found[0])


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
import logging, random, sys
logging.disable(logging.CRITICAL)
from tests.parity.judge import documents, judge, pointer_problems
from tests.parity.vectors import COMMITTED, load_folder
seed, most, known = int(sys.argv[1]), int(sys.argv[2]), set(sys.argv[3:])
vectors = [v for v in load_folder(COMMITTED) if v.not_applicable() is None]
random.Random(seed).shuffle(vectors)
for vector in [v for v in vectors[:most] if v.name not in known]:
    try:
        found = documents(vector)
        whole = judge(found).passed and not [*found.problems, *pointer_problems(vector)]
    except Exception:
        whole = False
    if not whole:
        print(vector.name)
        if "--all" not in known:
            sys.exit(1)
"""


def ran(folder: Path, *command: str, patience: float | None = PATIENCE) -> tuple[int, str]:
    """Run Python on the copy; return its status and what it printed."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, *command],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "(too slow)"
    return done.returncode, done.stdout.strip()


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
    parser.add_argument(
        "--recordings", type=int, default=10_000, metavar="N", help="only N of them, by the seed"
    )
    parser.add_argument("--parity", action="store_true", help="then all tests of tests/parity")
    parser.add_argument("--list", action="store_true", help="name the mutants only")
    given = parser.parse_args()
    modules = [p for f in FOLDERS for p in sorted((ROOT / "agentkit_py" / f).rglob("*.py"))]
    every = [place for path in modules for place in places(path)]
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))  # noqa: S311 - a sample that a seed repeats, no secret
    print(f"seed {given.seed}: {len(chosen)} of {len(every)} places", flush=True)
    tally: Counter[str] = Counter()
    known: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not given.list:
            copy_into(folder)
            play = ("-c", PLAY, str(given.seed), str(given.recordings), "--all")
            status, said = ran(folder, *play, patience=None)
            if status:
                parser.exit(2, "the recordings cannot be played without a change, either\n")
            known = said.split()
            print(f"recordings that differ without a change: {known}", flush=True)
        for place in chosen:
            noticed = "" if given.list else verdict(folder, place, given, known)
            tally[noticed.partition(":")[0]] += 1
            print(f"{place.path}:{place.line}: {place.change}\t{noticed}", flush=True)
    print(dict(tally))
    return 0


def verdict(folder: Path, place: Place, given: argparse.Namespace, known: list[str]) -> str:
    """Return what notices a mutant: a recording, another test of parity, or nothing."""
    target = folder / place.path
    before = target.read_text(encoding="utf-8")
    target.write_text(mutated(place), encoding="utf-8")
    try:
        play = ("-c", PLAY, str(given.seed), str(given.recordings))
        status, said = ran(folder, *play, *known)
        if status:
            return f"recording: {said or 'it cannot be imported'}"
        tests = ("-m", "pytest", "-q", "-x", "-n", "0", "tests/parity", "-p", "no:cacheprovider")
        if given.parity and ran(folder, *tests)[0]:
            return "parity"
        return "nobody"
    finally:
        target.write_text(before, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
