"""Change the package in one place at a time; say whether quick tests notice, or slow ones only.

Run:
    python scripts/suite_mutants.py [--seed N] [--count N] [--seconds N] [--folder DIR]
                                    [--within PATH] [--doubted TEST] [tests]

Works on a copy of the repository. Places are chosen by the seed among operators, constants,
conditions and returned values in functions of the whole package. Tests are collected once. First
all tests run with a line before each place that notes which test reached it; then a process of its
own gets each change and runs the quick tests that reach it until one fails, the shortest first, as
far as the seconds of processor time go. What they do not notice, slow tests are asked about in the
same way. A change that nothing notices may be one that cannot be seen: the share counts only what
is noticed. The folder keeps what was reached, for a run with the same places and tests.

``--doubted tests/inngest/test_approvals.py`` asks whether tests could go: the doubted tests take
the place of the slow ones, so that a change which only they notice is one that the others would
let through. ``--within agentkit_py/_engine`` chooses places there alone.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutants import Place, mutated, places

ROOT = Path(__file__).resolve().parent.parent


def copied(folder: Path) -> None:
    """Copy what git knows, and link what was downloaded."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - the git of this machine
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / ".cache").exists():
        (folder / ".cache").symlink_to(ROOT / ".cache")


def codes(code: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """Return the code of a module's functions, by name and line."""
    found = {(code.co_qualname, code.co_firstlineno): code}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= codes(inner)
    return found


class Reaching(ast.NodeTransformer):
    """Puts a line before statements that says that they are reached."""

    def __init__(self, begins: dict[int, list[int]]) -> None:
        self._begins = begins

    def visit(self, node: ast.AST) -> Any:
        """Return the statement with the lines before it."""
        made = self.generic_visit(node)
        if not isinstance(node, ast.stmt) or node.lineno not in self._begins:
            return made
        numbers = self._begins.pop(node.lineno)
        noting = ast.parse(f"__import__('builtins').note_place({numbers})").body[0]
        for inner in ast.walk(noting):
            ast.copy_location(inner, node)
        return [noting, made]


def put(path: Path, made: ast.Module) -> None:
    """Give functions that exist the code of a changed module."""
    changed = codes(compile(made, str(path), "exec", dont_inherit=True))
    gc.unfreeze()
    for found in gc.get_objects():
        if isinstance(found, types.FunctionType) and found.__code__.co_filename == str(path):
            code = changed.get((found.__code__.co_qualname, found.__code__.co_firstlineno))
            if code is not None and len(code.co_freevars) == len(found.__code__.co_freevars):
                found.__code__ = code
    gc.freeze()


class Mutants:
    """The plugin that runs the tests of each mutant, instead of each test once."""

    def __init__(
        self,
        mutants: list[Place],
        seconds: float,
        every: int,
        kept: Path | None,
        doubted: tuple[str, ...] = (),
    ) -> None:
        self._mutants, self._seconds, self._every, self._kept = mutants, seconds, every, kept
        self._doubted = doubted

    def _is_asked_late(self, item: pytest.Item) -> bool:
        if self._doubted:
            return item.nodeid.startswith(self._doubted)
        return item.get_closest_marker("slow") is not None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out tests if less than all are to run."""
        items[:] = items[:: self._every]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print what noticed each, then how many were noticed by which tests."""
        counts = Counter[str]()
        quick, slow = (
            {item.nodeid: item for item in session.items if self._is_asked_late(item) is late}
            for late in (False, True)
        )
        names = ("others", "doubted") if self._doubted else ("quick", "slow")
        reached = self._reached(session.items)
        for number, place in enumerate(self._mutants):
            times = reached.get(number, {})
            order = sorted(times, key=lambda name: times[name])
            said, noticed, asked = "nothing", "", [0, 0]
            for index, (kind, items) in enumerate(zip(names, (quick, slow), strict=True)):
                reaching = [items[name] for name in order if name in items]
                asked[index] = len(reaching)
                noticed = self._noticed(session, place, reaching) if reaching else ""
                if noticed:
                    said = kind
                    break
            said = said if sum(asked) else "no test reaches it"
            counts[said] += 1
            print(f"\n{said}\t{place.path}:{place.line}: {place.change}\t{noticed}\t{asked}")
            sys.stdout.flush()
        whole = sum(counts[name] for name in names)
        share = counts[names[0]] / whole if whole else 1.0
        words = f"{names[0]} tests notice {share:.0%} of what all notice"
        print(f"\n{dict(counts)}: {words}", flush=True)
        return True

    def _reached(self, items: list[pytest.Item]) -> dict[int, dict[str, float]]:
        """Return, for each place, the tests that reach it and their processor time."""
        file = self._kept / "reached.json" if self._kept else Path("reached.json")
        if not file.exists():
            child = os.fork()
            if not child:
                try:
                    file.write_text(json.dumps(self._noted(items)), encoding="utf-8")
                except BaseException:  # noqa: BLE001 - said below
                    traceback.print_exc()
                os._exit(0)
            os.waitpid(child, 0)
        found: dict[str, dict[str, float]] = json.loads(file.read_text(encoding="utf-8"))
        return {int(number): times for number, times in found.items()}

    def _noted(self, items: list[pytest.Item]) -> dict[int, dict[str, float]]:
        found: dict[int, dict[str, float]] = {}
        now: set[int] = set()
        builtins.__dict__["note_place"] = now.update
        begins: dict[Path, dict[int, list[int]]] = {}
        for number, place in enumerate(self._mutants):
            begins.setdefault(place.path, {}).setdefault(place.begin, []).append(number)
        for path, lines in begins.items():
            tree = Reaching(lines).visit(ast.parse(path.read_text(encoding="utf-8")))
            put(path.resolve(), ast.fix_missing_locations(tree))
        for item, following in zip(items, [*items[1:], None], strict=True):
            now.clear()
            before = sum(os.times()[:4])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            for number in now:
                found.setdefault(number, {})[item.nodeid] = sum(os.times()[:4]) - before
        return found

    def _noticed(self, session: pytest.Session, place: Place, items: list[pytest.Item]) -> str:
        """Return the first test that fails; empty: none."""
        source = place.path.read_text(encoding="utf-8")
        # Processes that tests start read the file.
        place.path.write_text(ast.unparse(mutated(source, place.number)), encoding="utf-8")
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            try:
                found = self._run(session, place, source, items)
            except BaseException:  # noqa: BLE001 - it has noticed
                traceback.print_exc()
                found = "(the run of tests ended)"
            os.write(writing, found.encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as said:
            found = said.read()
        status = os.waitpid(child, 0)[1]
        place.path.write_text(source, encoding="utf-8")
        return found or (f"(its process ended with {status})" if status else "")

    def _run(
        self, session: pytest.Session, place: Place, source: str, items: list[pytest.Item]
    ) -> str:
        put(place.path.resolve(), mutated(source, place.number))
        end = sum(os.times()[:4]) + self._seconds
        waited = time.monotonic() + 4 * self._seconds  # a change that makes tests wait
        for item, following in zip(items, [*items[1:], None], strict=True):
            failed = session.testsfailed
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            found = session.testsfailed > failed
            if found or sum(os.times()[:4]) > end or time.monotonic() > waited:
                # Once more, as the last: what tests share is put away.
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                return item.nodeid if found else ""
        return ""


def main() -> int:
    """Copy the repository and run the tests there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--count", type=int, default=200, metavar="N")
    parser.add_argument("--seconds", type=float, default=60, help="for each place and kind of test")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each Nth test only")
    parser.add_argument("--only", action="append", metavar="FILE:LINE", help="of those chosen")
    parser.add_argument("--within", action="append", metavar="PATH", help="choose places there")
    parser.add_argument("--doubted", action="append", default=[], metavar="TEST")
    parser.add_argument("--folder", type=Path, help="keeps what was reached")
    given, selection = parser.parse_known_args()
    kept: Path | None = given.folder.resolve() if given.folder else None
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="agentkit-mutants-") as place:
        folder = Path(place).resolve()
        copied(folder)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        files = sorted((folder / "agentkit_py").rglob("*.py"))
        if given.within:
            wanted = tuple(str(folder / name) for name in given.within)
            files = [path for path in files if str(path).startswith(wanted)]
        there = [one for path in files for one in places(folder, path) if not one.defines]
        chosen = random.Random(given.seed).sample(there, min(given.count, len(there)))  # noqa: S311 - a sample that a seed repeats, no secret
        if given.only:
            chosen = [one for one in chosen if f"{one.path}:{one.line}" in given.only]
        print(f"seed {given.seed}: {len(chosen)} of {len(there)} places")
        return pytest.main(
            [
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                "--no-header",
                "--tb=no",
                *selection,
            ],
            plugins=[Mutants(chosen, given.seconds, given.every, kept, tuple(given.doubted))],
        )


if __name__ == "__main__":
    sys.exit(main())
