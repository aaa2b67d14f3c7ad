"""Every piece of Python that the README and the docs show is a file, and every such file runs.

In ``docs/`` a fence includes its file (``--8<-- "examples/quickstart.py"``, or one marked section
of it, ``"examples/quickstart.py:tools"``). GitHub does not resolve includes, so in the README a
comment ``<!-- file: examples/quickstart.py -->`` (or ``…py:tools``) before the fence names the file
whose text the fence repeats.
"""

from __future__ import annotations

import builtins
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PROGRAMS = sorted(
    [
        *ROOT.glob("examples/*.py"),
        *ROOT.glob("examples/*/main.py"),
        *ROOT.glob("examples/processors/*.py"),
        *ROOT.glob("examples/porting/*.py"),
        *ROOT.glob("docs_src/**/*.py"),
    ]
)
SECONDS = 120
"""The time limit of one example."""

FENCE = re.compile(
    r"(?:^[ \t]*<!-- file: (?P<file>\S+) -->[ \t]*\n(?:[ \t]*\n)?)?"
    r"^(?P<indent>[ \t]*)(?P<ticks>```+|~~~+)[ \t]*(?:\{\.?)?(?:python3?|py|pycon)\b[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)(?P=ticks)[ \t]*$",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
INCLUDE = re.compile(r'--8<-- "(?P<file>[^"]+)"')
SECTION = r"^[^\n]*# --8<-- \[start:{0}\]\n(?P<text>.*?)^[^\n]*# --8<-- \[end:{0}\]"


@dataclass(frozen=True)
class Fence:
    """A piece of Python on a page."""

    page: str
    line: int
    code: str
    file: str | None
    """The file named by the comment before it."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(path: Path) -> list[Fence]:
    """The Python fences of a page, in order."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    page = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return [
        Fence(page, text.count("\n", 0, m.start("ticks")) + 1, dedent(m["code"]), m["file"])
        for m in FENCE.finditer(text)
    ]


def shown(reference: str) -> str:
    """The text that ``examples/a.py`` or ``examples/a.py:section`` stands for."""
    name, _, section = reference.partition(":")
    path = ROOT / name
    assert path.is_file(), f"{name} does not exist"
    assert is_run(path), f"{name} is not run by a test: only examples and docs_src are"
    text = path.read_text(encoding="utf-8")
    if not section:
        return text
    match = re.search(SECTION.format(re.escape(section)), text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"{name} has no section {section!r}"
    return dedent(match["text"])


def is_run(path: Path) -> bool:
    """Return whether the file is a program below, or a module next to one."""
    return path in PROGRAMS or path.parent / "main.py" in PROGRAMS


@pytest.mark.parametrize("fence", fences(README), ids=str)
def test_the_readme_shows_a_file_that_runs(fence: Fence) -> None:
    """Byte for byte."""
    assert fence.file is not None, "put <!-- file: examples/….py --> before the fence"
    assert fence.code == shown(fence.file)


@pytest.mark.parametrize("fence", [f for p in PAGES for f in fences(p)], ids=str)
def test_the_docs_include_files_that_run(fence: Fence) -> None:
    """Nothing on a page is typed twice."""
    for line in fence.code.strip().splitlines():
        match = INCLUDE.fullmatch(line.strip())
        assert match is not None, f'include a file (--8<-- "examples/….py"), not {line!r}'
        assert shown(match["file"])


def test_porting_shows_each_typescript_program_beside_its_twin() -> None:
    """Each pair is on the page."""
    page = (ROOT / "docs" / "porting.md").read_text(encoding="utf-8")
    folder = ROOT / "examples" / "porting"
    names = sorted(path.stem for path in folder.glob("*.py"))
    assert len(names) >= 10
    assert names == sorted(path.stem for path in folder.glob("*.ts"))
    for name in names:
        original = f'```ts\n--8<-- "examples/porting/{name}.ts"\n```\n'
        twin = f'```python\n--8<-- "examples/porting/{name}.py:twin"\n```\n'
        assert f"{original}\n{twin}" in page, name


def test_the_readme_shows_code_and_there_are_examples() -> None:
    """The checks here have something to check."""
    assert fences(README)
    assert PROGRAMS


def test_fences_are_found_however_they_are_written(tmp_path: Path) -> None:
    """The measure itself."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: examples/a.py -->\n\n```python\none\n```\n\n"
        '=== "Tab"\n\n    ```py title="x.py"\n    two\n    ```\n\n'
        '~~~ {.python hl_lines="1"}\nthree\n~~~\n'
        "```sh\nnot this\n```\n"
    )
    assert [(f.line, f.code, f.file) for f in fences(page)] == [
        (3, "one\n", "examples/a.py"),
        (9, "two\n", None),
        (13, "three\n", None),
    ]


GUIDES = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]*[\w-]\.(?:py|md|toml|txt|yml)|(?:[\w.-]+/)+[\w.-]+/?")
NAME = re.compile(r"agentkit_py(?:\.\w+)+|(?:[A-Z][a-z]+){2,}|[a-z]+_[a-z_]+")


def mentions(page: Path, pattern: re.Pattern[str]) -> list[str]:
    """The pieces of inline code of a page that have a form, and words of its glossary."""
    text = page.read_text(encoding="utf-8")
    glossary = [
        word for row in re.findall(r"^\| ([\w, ]+?) \|", text, re.M) for word in row.split(", ")
    ]
    return sorted({piece for piece in [*CODE.findall(text), *glossary] if pattern.fullmatch(piece)})


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_path_that_a_guide_mentions_exists(page: Path) -> None:
    """A reader opens it next."""
    paths = mentions(page, FILE)
    assert len(paths) > 5
    assert [name for name in paths if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_name_that_a_guide_mentions_is_in_the_package(page: Path) -> None:
    """Classes and functions are defined there, dotted names can be imported."""
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "agentkit_py").rglob("*.py"))
    missing: list[str] = []
    for name in mentions(page, NAME):
        last = name.rpartition(".")[2]
        is_module = (ROOT / name.replace(".", "/")).is_dir()
        is_module |= (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()
        if hasattr(builtins, name) or is_module:
            continue
        if not re.search(rf"(class|def) {last}\b|^ *{last}\b.*=", source, re.M):
            missing.append(name)
    assert missing == []


def offline() -> dict[str, str]:
    """This environment without keys, and with every way out of this machine closed."""
    providers = ("_API_KEY", "_ENDPOINT", "_BASE_URL")
    kept = {k: v for k, v in os.environ.items() if not k.endswith(providers)}
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    proxies |= {name.lower(): value for name, value in proxies.items()}
    local = "127.0.0.1,localhost"
    return {**kept, **proxies, "NO_PROXY": local, "no_proxy": local}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_example_runs_without_network_and_keys(program: Path, tmp_path: Path) -> None:
    """Started as a user would, in a folder of its own."""
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=offline(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
