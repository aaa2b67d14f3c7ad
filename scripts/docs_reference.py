"""A mkdocs hook that keeps the reference complete, and shows files of the root as pages.

A line ``<!-- public names: agent network -->`` on a page becomes one entry for each public name of
``agentkit_py.agent`` and ``agentkit_py.network``, except those that the page has an entry for. A
name that the package or a public module in it exports and that no page takes fails the build. A
page that begins with ``<!-- whole file: CHANGELOG.md -->`` shows that file, not its own text. The
search puts recipes first, since they are named by the field's words.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError

PACKAGE = "agentkit_py"
MARK = re.compile(r"^<!-- public names: (?P<modules>[\w ]+) -->$", re.MULTILINE)
ENTRY = re.compile(
    rf"^::: {PACKAGE}\.(?P<path>[\w.]+)$(?P<options>(?:\n(?:[ ]{{4}}.*)?$)*)", re.MULTILINE
)
MEMBER = re.compile(r"^ +- (?P<name>\w+)$", re.MULTILINE)

WHOLE = re.compile(r"\A<!-- whole file: (?P<file>[\w.]+) -->")

_placed: set[str] = set()


@cache
def _package() -> Any:
    return griffe.load(PACKAGE, search_paths=["."], resolve_aliases=True)


def _names_of(module: str) -> list[str]:
    """The names that a module exports; without ``__all__``, its public classes and functions."""
    found = _package()[module]
    if found.exports is not None:
        return sorted(str(name) for name in found.exports)
    members = found.members.items()
    return sorted(
        name
        for name, member in members
        if not name.startswith("_")
        and not member.is_alias
        and (member.is_class or member.is_function or name.startswith("create_"))
        and member.has_docstring
    )


def _target(path: str) -> str:
    thing = _package()[path]
    return str((thing.final_target if thing.is_alias else thing).path)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the entries in the place of the mark, or the file in the place of the page."""
    if page.file.src_uri.startswith("recipes/"):
        page.meta["search"] = {"boost": 3}
    whole = WHOLE.match(markdown)
    if whole:
        return Path(whole["file"]).read_text(encoding="utf-8")
    own = {match["path"] for match in ENTRY.finditer(markdown)}
    _placed.update(_target(path) for path in own if "." in path)
    for match in ENTRY.finditer(markdown):
        if _package()[match["path"]].is_module:
            chosen = MEMBER.findall(match["options"]) or _names_of(match["path"])
            _placed.update(_target(f"{match['path']}.{name}") for name in chosen)

    def entries(match: re.Match[str]) -> str:
        paths = [f"{m}.{name}" for m in match["modules"].split() for name in _names_of(m)]
        _placed.update(map(_target, paths))
        return "\n\n".join(f"::: {PACKAGE}.{path}" for path in paths if path not in own)

    return MARK.sub(entries, markdown)


def on_env(env: Any, **_: Any) -> Any:
    """After the last page has been read: no exported name may be missing."""
    modules = [
        name for name, one in _package().modules.items() if not name.startswith("_") and one.exports
    ]
    names = [str(name) for name in _package().exports or ()]
    names += [f"{module}.{name}" for module in modules for name in _names_of(module)]
    left = sorted(name for name in names if _target(name) not in _placed)
    if left:
        listed = ", ".join(left)
        raise PluginError(f"no page under docs/reference takes these public names: {listed}")
    return env
