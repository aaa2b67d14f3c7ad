#!/usr/bin/env python3
"""Change the package in one place at a time; say which changes the recordings of TypeScript notice.

    scripts/mutants.py [--seed N] [--count N] [--parity] [--folder DIR]

Each mutant is a copy of the package with one operator, constant or condition of `_engine`,
`models`, `history` or `events` changed, chosen by the seed among the places that a recording
reaches: what is Python's alone (stores of reasoning, failover, other wire formats) is for other
tests. The recordings that reach the place are played in an order that the seed gives, until one is
no longer as it was: first for all mutants in the mode of TypeScript, then for those that are left
in the other two. With ``--parity`` the other tests of `tests/parity` run on what is left then. One
that changes nothing that can be seen survives, so the rest has to be read: ``left-out.tsv`` in the
folder holds a line for each that is asked no further, its name, a tab and why.

A run that was broken off goes on if it gets the same folder again, which holds the copies, the
places and each verdict (`verdicts.tsv`); the tree it began with is the one it ends with.
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
NEEDED = (
    "agentkit_py", "tests/parity", "tests/conftest.py", "tests/__init__.py", "pyproject.toml",
    "docs/parity.md",
)  # fmt: skip
TESTS = [
    "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/parity",
    "--ignore=tests/parity/test_vectors.py", "--ignore=tests/parity/test_modes.py",
]  # fmt: skip
PATIENCE = 30
"""Seconds of the processor that one recording has; one that takes longer has noticed."""

STAGES = ("typescript", "functions", "classes", "parity")
"""What is asked, one after the other: the recordings in each mode, then the other tests."""

UNSEEN = "not noticed by "
"""The verdict on what was not noticed by a stage and those before it."""

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


def places(root: Path, path: Path) -> Iterator[Place]:
    """Yield what can be changed of a module, but for names of types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    begins: dict[int, tuple[int, bool]] = {}
    _mark(tree, 0, defines=True, into=begins)
    for number, node in enumerate(ast.walk(tree)):
        found = changed(node)
        if found is not None:
            line: int = getattr(node, "lineno", 0)
            begin, defines = begins[id(node)]
            yield Place(path.relative_to(root), number, line, found[0], begin, defines)


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


def mutated(source: str, number: int) -> ast.Module:
    """Return a module with the change at this node, its lines as they were."""
    tree = ast.parse(source)
    node = next(node for at, node in enumerate(ast.walk(tree)) if at == number)
    found = changed(node)
    assert found is not None
    _Put(node, found[1]).visit(tree)
    return ast.fix_missing_locations(tree)


COVER = """
import functools, gc, hashlib, json, logging, sys
from pathlib import Path
logging.disable(logging.CRITICAL)
import coverage
cover = coverage.Coverage(data_file=None, include=["agentkit_py/*"])
cover.start()
from tests.parity.divergences import ALL_IDS
from tests.parity import judge as judging
from tests.parity.judge import documents, judge, models, pointer_problems
from tests.parity.modes import CLASSES, FUNCTIONS, TYPESCRIPT
from tests.parity.vectors import COMMITTED, load_folder
cover.stop()
play = judging.play
def playing(spec, replies, mode):
    played = play(spec, replies, mode)
    whole = json.dumps(played.observed).encode()
    digests[vector.name, mode.name] = hashlib.sha256(whole).hexdigest()
    return played
judging.play = playing
own = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)
       and one.__module__.startswith("agentkit_py")]
said, digests, differ = {}, {}, []
def expected(vector, on, mode):
    key = f"{vector.name} {mode.name}"
    said[key] = None
    found = models(vector, on, mode)
    said[key] = [(one.document, sorted(one.asked), one.replies) for one in found]
    return found
for vector in load_folder(COMMITTED):
    if vector.not_applicable() is not None:
        continue
    for one in own:  # what an earlier recording asked for is reached by this one, too
        one.cache_clear()
    cover.start()
    cover.switch_context(vector.name)
    found = documents(vector, ALL_IDS, TYPESCRIPT, expected)
    cover.stop()
    if not judge(found).passed or found.problems or pointer_problems(vector):
        differ.append(vector.name)
    for mode in (FUNCTIONS, CLASSES) if vector.kind == "run" else ():
        found = documents(vector, ALL_IDS, mode, expected)
        if not judge(found).passed or found.problems:
            differ.append(vector.name)
kept = [[*key, said[" ".join(key)], digest] for key, digest in digests.items()]
Path("../models.json").write_text(json.dumps(kept))
reached, data = {}, cover.get_data()
for path in data.measured_files():
    reached[path] = data.contexts_by_lineno(path)
print(json.dumps({"differ": differ, "reached": reached}))
"""
"""Plays all recordings; prints which differ and what they reach, and keeps what the model said."""

SERVE = """
import gc, hashlib, json, logging, os, random, signal, sys, traceback, types
from pathlib import Path
logging.disable(logging.CRITICAL)
seed, patience, scripts = json.loads(sys.stdin.readline())
sys.path.append(scripts)
from mutants import mutated
from tests.parity.judge import documents
from tests.parity.vectors import COMMITTED, load_folder
own = [name for name in sys.modules if name.partition(".")[0] in ("agentkit_py", "tests")]
vectors = [one for one in load_folder(COMMITTED) if one.not_applicable() is None]
random.Random(seed).shuffle(vectors)
kept = json.loads(Path("../models.json").read_text())
said = {(name, mode): known for name, mode, known, _ in kept}
digests = {(name, mode): digest for name, mode, _, digest in kept}
gc.freeze()
print(json.dumps("ready"), flush=True)

def codes(code):
    found = {(code.co_qualname, code.co_firstlineno): code}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= codes(inner)
    return found

def put(path, number, imported):
    if imported:  # all anew, from the files
        for name in own:
            del sys.modules[name]
        return
    source = Path("../whole", Path(path).relative_to("agentkit_py")).read_text()
    changed = codes(compile(mutated(source, number), path, "exec", dont_inherit=True))
    gc.unfreeze()
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename.endswith(path):
            one.__code__ = changed[one.__code__.co_qualname, one.__code__.co_firstlineno]

def noticed(names, wanted):
    from tests.parity import modes
    from tests.parity.divergences import ALL_IDS
    from tests.parity.judge import _bound_as_recorded, documents, judge
    from tests.parity.play import play
    from tests.parity.reference.core import Unsupported
    from tests.parity.reference.play import Outcome
    mode = getattr(modes, wanted.upper())

    def expected(vector, on, mode):
        known = said[vector.name, mode.name]
        if known is None:
            raise Unsupported
        return [Outcome(doc, frozenset(asked), replies, {}, []) for doc, asked, replies in known]

    def is_as_it_was(vector):
        if vector.kind == "run":  # only what is not has to be compared with what was recorded
            known = said[vector.name, mode.name]
            replies = _bound_as_recorded(vector) if known is None else known[1][2]
            played = play(vector.spec, replies, mode)
            whole = json.dumps(played.observed).encode()
            same = hashlib.sha256(whole).hexdigest() == digests[vector.name, mode.name]
            if same and not played.problems:
                return True
        found = documents(vector, ALL_IDS, mode, expected)
        return judge(found).passed and not found.problems

    for vector in vectors:
        if vector.name in names and (vector.kind == "run" or mode is modes.TYPESCRIPT):
            signal.setitimer(signal.ITIMER_PROF, patience)
            signal.alarm(4 * patience)  # one that only waits takes no time of the processor
            try:
                if not is_as_it_was(vector):
                    return vector.name
            except Exception:
                return vector.name
    return ""

for line in sys.stdin:
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, patience)
        try:
            path, number, imported, names, mode = json.loads(line)
            put(path, number, imported)
            print(json.dumps(noticed(set(names), mode)), flush=True)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(json.dumps("(it cannot be imported, or does not end)"), flush=True)
"""
"""Plays recordings with a module as its file is now, in a process of its own each time: functions
get the code that is there now; if the import runs what was changed, all is imported again. Prints
the first recording that is no longer as it was, or an empty name."""


def ran(folder: Path, *command: str) -> tuple[int, str]:
    """Run Python on the copy; return its status and what it printed."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.strip()


class Player:
    """Plays recordings on the copy as it is then."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self._process: subprocess.Popen[str] = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", SERVE],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # It has imported the package before a file is changed.
        self._ask([plan["seed"], PATIENCE, str(Path(__file__).parent)])

    def _ask(self, asked: Any) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def noticed(self, mutant: dict[str, Any], mode: str) -> str:
        """Return the first recording that differs with this mutant in its file; empty: none."""
        facts = [mutant[name] for name in ("path", "number", "imported", "names")]
        return self._ask([*facts, mode])


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
            return {name for names in lines.values() for name in names} - {""}
        return self._between(place) - {""}

    def imported(self, place: Place) -> bool:
        """Return whether the module's import runs the place."""
        return place.defines or "" in self._between(place)

    def _between(self, place: Place) -> set[str]:
        lines = self._lines.get(place.path, {})
        between = range(place.begin, max(place.line, place.begin) + 1)
        return {name for number in between for name in lines.get(number, ())}


def planned(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Return the mutants, and the recordings that reach each; made once in a folder.

    Raises:
        SystemExit: Recordings differ without a change, or the folder is that of another run.
    """
    plan, tree, whole = folder / "plan.json", folder / "tree", folder / "whole"
    facts = {"seed": given.seed, "count": given.count}
    if plan.exists():
        kept: dict[str, Any] = json.loads(plan.read_text(encoding="utf-8"))
        if {name: kept[name] for name in facts} != facts:
            sys.exit(f"{folder} holds a run with another seed or count")
        shutil.copytree(whole, tree / "agentkit_py", dirs_exist_ok=True)
        return kept
    for name in NEEDED:
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, target)
    shutil.copytree(tree / "agentkit_py", whole)
    if (ROOT / ".cache").exists():
        (tree / ".cache").symlink_to((ROOT / ".cache").resolve())
    status, said = ran(tree, "-c", COVER)
    found: dict[str, Any] = {} if status else json.loads(said.splitlines()[-1])
    if found.get("differ", "all"):
        sys.exit(f"without a change there differ: {found.get('differ', 'all')}")
    if given.parity and ran(tree, *TESTS)[0]:
        sys.exit("without a change a test of tests/parity fails")
    every = [p for f in FOLDERS for p in sorted((tree / "agentkit_py" / f).rglob("*.py"))]
    reached = Reached(tree, found["reached"])
    there = [one for path in every for one in places(tree, path) if reached.by(one)]
    chosen = random.Random(given.seed).sample(there, min(given.count, len(there)))  # noqa: S311 - a sample that a seed repeats, no secret
    mutants = [
        {
            "path": str(one.path),
            "number": one.number,
            "shown": f"{one.path}:{one.line}: {one.change}",
            "imported": reached.imported(one),
            "names": sorted(reached.by(one)),
        }
        for one in chosen
    ]
    made = {**facts, "places": len(there), "mutants": mutants}
    plan.write_text(json.dumps(made), encoding="utf-8")
    return made


def verdict(folder: Path, mutant: dict[str, Any], player: Player, stage: str) -> str:
    """Return what notices a mutant at a stage."""
    path = Path(mutant["path"])
    target = folder / "tree" / path
    whole = (folder / "whole" / path.relative_to("agentkit_py")).read_text(encoding="utf-8")
    target.write_text(ast.unparse(mutated(whole, mutant["number"])), encoding="utf-8")
    try:
        if stage == "parity":
            return stage if ran(folder / "tree", *TESTS)[0] else f"{UNSEEN}{stage}"
        found = player.noticed(mutant, stage)
        return f"recording: {found}" if found else f"{UNSEEN}{stage}"
    finally:
        target.write_text(whole, encoding="utf-8")


def main() -> int:
    """Print each mutant with what noticed it, then the rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--count", type=int, default=200, metavar="N")
    parser.add_argument("--parity", action="store_true", help="then all tests of tests/parity")
    parser.add_argument("--folder", type=Path, help="where a run that was broken off goes on")
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="agentkit-mutants-"))).resolve()
    plan = planned(folder, given)
    print(f"seed {given.seed}: {len(plan['mutants'])} of {plan['places']} places, in {folder}")
    file = folder / "verdicts.tsv"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    verdicts = {name: said for name, _, said in (line.rpartition("\t") for line in lines)}
    player = Player(folder / "tree", plan)
    stages = STAGES if given.parity else STAGES[:-1]
    read = folder / "left-out.tsv"
    for line in read.read_text(encoding="utf-8").splitlines() if read.exists() else ():
        name, _, why = line.partition("\t")
        if verdicts.get(name, UNSEEN).startswith(UNSEEN):
            verdicts[name] = f"left out: {why}"
    for number, stage in enumerate(stages):
        before = f"{UNSEEN}{stages[number - 1]}" if number else ""
        for mutant in plan["mutants"]:
            name = f"{mutant['path']}#{mutant['number']}"
            if verdicts.get(name, "") == before:
                verdicts[name] = verdict(folder, mutant, player, stage)
                with file.open("a", encoding="utf-8") as kept:
                    kept.write(f"{name}\t{verdicts[name]}\n")
                reached = len(mutant["names"])
                print(f"{mutant['shown']}\t{verdicts[name]}\t({reached} reach it)", flush=True)
    print(dict(Counter(said.partition(":")[0] for said in verdicts.values())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
