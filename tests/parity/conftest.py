"""Which recordings run, and what is said of them at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from .vectors import COMMITTED, Vector, is_recording, load_folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--vectors DIR``."""
    parser.addoption("--vectors", help="folder with recordings; default: those of the project")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a folder without recordings before anything else."""
    folder_of(config)


def folder_of(config: pytest.Config) -> Path:
    """The folder whose recordings run."""
    given: Any = config.getoption("--vectors", default=None)
    return COMMITTED if given is None else checked(Path(given))


def checked(folder: Path) -> Path:
    """The folder, if it holds recordings.

    Raises:
        pytest.UsageError: It is missing, or has none.
    """
    if not folder.is_dir():
        raise pytest.UsageError(f"--vectors {folder}: there is no such folder")
    if not any(map(is_recording, folder.glob("*.json"))):
        raise pytest.UsageError(f"--vectors {folder}: the folder holds no recordings (*.json)")
    return folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each recording."""
    if "vector" in metafunc.fixturenames:
        found = load_folder(folder_of(metafunc.config))
        metafunc.parametrize("vector", found, ids=[vector.name for vector in found])


@pytest.fixture(scope="session")
def vectors(request: pytest.FixtureRequest) -> list[Vector]:
    """All recordings that run."""
    return load_folder(folder_of(request.config))


@pytest.fixture(scope="session")
def is_known(request: pytest.FixtureRequest) -> bool:
    """Return whether the recordings include all those that the manifest was written for."""
    found = {vector.name for vector in load_folder(folder_of(request.config))}
    return found >= {vector.name for vector in load_folder(COMMITTED)}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report the numbers of recordings compared in full, and through which differences."""
    said = [dict(report.user_properties) for report in _reports(terminalreporter)]
    verdicts = [entry for entry in said if "parity" in entry]
    if verdicts:
        terminalreporter.section("parity with the TypeScript package")
        for line in summary(verdicts):
            terminalreporter.write_line(line)


def _reports(reporter: Any) -> Iterable[Any]:
    for outcome in ("passed", "failed", "skipped"):
        for report in reporter.stats.get(outcome, []):
            if getattr(report, "when", None) in ("call", "setup"):
                yield report


def summary(verdicts: list[dict[str, Any]]) -> list[str]:
    """The verdicts in words."""
    kinds = Counter(str(entry["parity"]) for entry in verdicts)
    through: Counter[str] = Counter()
    for entry in verdicts:
        through.update(entry.get("divergences", ()))
    waiting = Counter(str(entry["reason"]) for entry in verdicts if "reason" in entry)
    lines = [
        (
            f"{kinds['full']} compared in full, {kinds['notation']} in full but for notation, "
            f"{kinds['divergent']} through divergences, {kinds['failed']} failed, "
            f"{kinds['n/a']} not applicable"
        ),
    ]
    lines += [f"  {count:4}  {name}" for name, count in through.most_common()]
    lines += [f"  {count:4}  {reason}" for reason, count in waiting.most_common()]
    return lines
