"""Write the code that README and docs show into them, from the files that tests run.

A comment ``<!-- file: examples/tools.py:errors -->`` before a fence names a file, or one marked
section of it (``# --8<-- [start:errors]`` to ``# --8<-- [end:errors]``), whose text the fence
repeats: so a page shows its code wherever it is read. Before a section stand those of the file's
imports that it needs and that the page has not shown yet. Whoever changes an example runs
``python scripts/pages.py``; with ``--check`` nothing is written, and pages that differ are named.

Between ``<!-- table: commands -->`` and ``<!-- end of table -->`` stands what the code itself says
(``scripts/tables.py``): commands, endpoints, errors, events.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

from tables import TABLES

ROOT = Path(__file__).resolve().parent.parent

FENCE = re.compile(
    r"^(?P<indent>[ \t]*)<!-- file: (?P<file>\S+) -->[ \t]*\n(?:[ \t]*\n)?"
    r"(?P<open>[ \t]*(?P<ticks>```+|~~~+)[^\n]*\n)(?P<code>.*?)^[ \t]*(?P=ticks)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
SECTION = r"^[^\n]*--8<-- \[start:{0}\][^\n]*\n(?P<text>.*?)^[^\n]*--8<-- \[end:{0}\]"
TABLE = re.compile(
    r"^(?P<open><!-- table: (?P<name>\w+) -->)\n.*?^(?P<close><!-- end of table -->)$",
    re.MULTILINE | re.DOTALL,
)
WIDTH = 100
"""Characters of a line of code."""

MARK = re.compile(r"^[^\n]*--8<-- \[(?:start|end):[^\n]*\n", re.MULTILINE)


def pages() -> list[Path]:
    """Return the pages: those at the root and those under docs."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def code_of(reference: str) -> str:
    """Return the text that ``examples/a.py`` or ``examples/a.py:section`` stands for.

    Raises:
        LookupError: There is no such file or section.
    """
    name, _, section = reference.partition(":")
    path = ROOT / name
    if not path.is_file():
        raise LookupError(f"{name} does not exist")
    text = path.read_text(encoding="utf-8")
    if section:
        match = re.search(SECTION.format(re.escape(section)), text, re.MULTILINE | re.DOTALL)
        if match is None:
            raise LookupError(f"{name} has no section {section!r}")
        text = match["text"]
    code = re.sub(r"\n{4,}", "\n\n\n", MARK.sub("", text))
    return dedent(code).strip("\n") + "\n"


def parsed(code: str) -> list[ast.AST]:
    """Return the nodes of a section, which may be the inside of an async function."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        tree = ast.parse("async def inside():\n" + indent(code, " "))
    return list(ast.walk(tree))


def imported(node: ast.AST) -> list[ast.alias]:
    """Return the names that a node imports."""
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def imports_of(reference: str, code: str, shown: set[str]) -> str:
    """Return the imports of its file that a section needs, but those that are shown already."""
    name, _, section = reference.partition(":")
    nodes = parsed(code)
    shown |= {alias.asname or alias.name for node in nodes for alias in imported(node)}
    shown |= {one.name for one in nodes if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    own = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    needed = {node.id for node in nodes if isinstance(node, ast.Name)} - shown - own
    source = (ROOT / name).read_text(encoding="utf-8")
    lines: list[str] = []
    last = 0
    for node in ast.parse(source).body if section else []:
        names = [alias.name for alias in imported(node) if alias.name in needed]
        if names and lines and "" in source.splitlines()[last : node.lineno]:
            lines.append("")
        last = node.lineno if names else last
        if names and isinstance(node, ast.ImportFrom):
            line = f"from {'.' * node.level}{node.module or ''} import {', '.join(names)}"
            if len(line) > WIDTH:
                line = line.replace("import ", "import (\n    ").replace(", ", ",\n    ") + ",\n)"
            lines.append(line)
        else:
            lines += [f"import {one}" for one in names]
        shown |= set(names)
    if not lines:
        return ""
    space = "\n\n\n" if re.match(r"@|def |async def |class ", code) else "\n\n"
    return "\n".join(lines) + space


def written(page: str) -> str:
    """Return a page's text with the code of today in its fences."""
    shown: set[str] = set()

    def fence(match: re.Match[str]) -> str:
        space = match["indent"]
        code = code_of(match["file"])
        if ".py" in match["file"]:
            code = imports_of(match["file"], code, shown) + code
        code = indent(code, space)
        return (
            f"{space}<!-- file: {match['file']} -->\n{match['open']}{code}{space}{match['ticks']}"
        )

    def table(match: re.Match[str]) -> str:
        return f"{match['open']}\n\n{TABLES[match['name']]()}\n{match['close']}"

    return TABLE.sub(table, FENCE.sub(fence, page))


def changed() -> Iterator[tuple[Path, str]]:
    """Yield the pages that show something else than their files say, with what they should say.

    Raises:
        LookupError: A page names a file or section that is not there; the message names the page.
    """
    for path in pages():
        before = path.read_text(encoding="utf-8")
        try:
            after = written(before)
        except LookupError as error:
            raise LookupError(f"{path.relative_to(ROOT)}: {error.args[0]}") from None
        if after != before:
            yield path, after


def main() -> None:
    """Write the pages, or look at them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1")
    check = parser.parse_args().check
    found = list(changed())
    for path, text in found:
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and found:
        sys.exit("run: python scripts/pages.py")


if __name__ == "__main__":
    main()
