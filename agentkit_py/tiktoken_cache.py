"""Fill a folder with tiktoken's encodings without asking the host that tiktoken itself asks.

tiktoken downloads its vocabulary on first use. Behind a firewall, in a container without network
and in tests that may not depend on a foreign host, point ``TIKTOKEN_CACHE_DIR`` at a folder made by
this program instead. The files come out of packages on the package indexes, which such places
usually mirror: the wheels of ``llama-index-core`` and ``litellm``, or the npm package
``gpt-tokenizer``. Each file is checked against the SHA-256 that tiktoken expects, so it does not
matter who delivered it.

Run:
    python -m agentkit_py.tiktoken_cache FOLDER [--encodings NAME ...] [--require]

Ends with status 0 and a note when nothing could be had, since agentkit_py then counts tokens
approximately; with ``--require`` that is status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentkit_py.runtime.tiktoken_loader import FILES, cached_name

_NEEDED = ("o200k_base", "cl100k_base")
"""Encodings that are put there unless others are asked for."""

_EXTRA = ("p50k_base", "r50k_base")
_WHEELS = ("llama-index-core", "litellm")
_NPM_PACKAGE = "gpt-tokenizer"
_TIMEOUT = 300
"""The time limit of a download, in seconds."""


def _lacking(folder: Path, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the files of encodings that are not in the folder, or damaged.

    Returns:
        By the name under which tiktoken looks for the file (the SHA-1 of the address that it would
        ask): the encoding, and the file's SHA-256.
    """
    files = {cached_name(url): (name, sha) for name in names for url, sha in FILES[name]}
    return {file: about for file, about in files.items() if not _fits(folder / file, about[1])}


def _fits(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def _fill(folder: Path, names: Sequence[str]) -> list[str]:
    """Put the encodings into the folder, and others that turn up; return those still missing."""
    for source, label in _sources():
        if not _lacking(folder, names):
            break
        with tempfile.TemporaryDirectory(prefix="tiktoken-cache-") as scratch:
            archive = source(Path(scratch))
            if archive is None:
                _say(f"{label}: could not be downloaded")
            else:
                _take(archive, folder, label)
    return [name for name, _ in _lacking(folder, names).values()]


def _sources() -> Iterator[tuple[Callable[[Path], Path | None], str]]:
    for wheel in _WHEELS:
        yield lambda scratch, wheel=wheel: _download_wheel(wheel, scratch), f"wheel {wheel}"
    yield _download_npm, f"npm package {_NPM_PACKAGE}"


def _download_wheel(name: str, scratch: Path) -> Path | None:
    wanted = ["--no-deps", "--only-binary", ":all:", "--dest", str(scratch), name]
    for pip in _pips():
        if _run([*pip, "download", "--quiet", "--disable-pip-version-check", *wanted]):
            return next(scratch.glob("*.whl"), None)
    return None


def _pips() -> Iterator[list[str]]:
    """Ways to call pip: this Python's own, uv's, or the pip on PATH."""
    yield [sys.executable, "-m", "pip"]
    if shutil.which("uv"):
        yield ["uv", "tool", "run", "--quiet", "pip"]
    if pip := shutil.which("pip3"):
        yield [pip]


def _download_npm(scratch: Path) -> Path | None:
    npm = shutil.which("npm")
    if npm and _run([npm, "pack", "--silent", "--pack-destination", str(scratch), _NPM_PACKAGE]):
        return next(scratch.glob("*.tgz"), None)
    return None


def _run(command: list[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own command lines
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _take(archive: Path, folder: Path, label: str) -> None:
    """Write the files that the folder lacks; packages name them as tiktoken does or by encoding."""
    lacking = _lacking(folder, _NEEDED + _EXTRA)
    by_encoding = {f"{name}.tiktoken": file for file, (name, _) in lacking.items()}
    for member, read in _members(archive):
        base = Path(member).name
        file = by_encoding.get(base, base)
        if file not in lacking:
            continue
        (name, sha256), data = lacking[file], read()
        if hashlib.sha256(data).hexdigest() == sha256:
            _write(folder / file, data)
            _say(f"{name} from {label}")
        else:
            _say(f"{label}: {member} is not the {name} that tiktoken expects, left out")


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                yield name, lambda name=name: wheel.read(name)
        return
    with tarfile.open(archive) as tarball:
        for info in tarball:
            content = tarball.extractfile(info)
            if content is not None:
                yield info.name, content.read


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically, since two set-ups may run at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        draft.write(data)
    Path(draft.name).chmod(0o644)
    Path(draft.name).replace(path)


def _say(text: str) -> None:
    """Print a line for the person who runs the set-up."""
    sys.stderr.write(f"tiktoken cache: {text}\n")


def _folder(name: str) -> Path:
    if not name:  # an unset variable in a script, and Path("") is the current folder
        raise argparse.ArgumentTypeError("its name is empty")
    return Path(name)


def _make(folder: Path) -> str | None:
    """Make the folder before the download; return why it cannot be written to, or None."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"{folder} cannot be used: {error.strerror}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, fill the folder, and print its contents.

    Args:
        arguments: The command line; that of the process unless given.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(
        prog="python -m agentkit_py.tiktoken_cache",
        description="Fill a folder with tiktoken's encodings, which packages on the index hold.",
    )
    parser.add_argument("folder", type=_folder, help="is made if it is not there")
    parser.add_argument("--encodings", nargs="+", default=_NEEDED, choices=_NEEDED + _EXTRA)
    parser.add_argument("--require", action="store_true", help="status 1 if one is missing")
    options = parser.parse_args(arguments)
    if not _lacking(options.folder, options.encodings):
        return 0
    if refused := _make(options.folder):
        parser.error(f"argument folder: {refused}")
    missing = _fill(options.folder, options.encodings)
    if not missing:
        _say(f"complete; use it with TIKTOKEN_CACHE_DIR={options.folder}")
        return 0
    _say(f"NOT available: {', '.join(missing)}. Without them token counts are approximate.")
    return 1 if options.require else 0


if __name__ == "__main__":
    sys.exit(main())
