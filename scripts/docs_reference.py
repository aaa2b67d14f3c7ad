"""A mkdocs hook that keeps the reference complete.

A line ``<!-- public names: engine -->`` on a page becomes one entry for each name of
``agentkit_py.__all__`` that is defined in ``agentkit_py.engine`` (several sub-packages may be
named). A public name that no page takes fails the build.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import griffe
from mkdocs.exceptions import PluginError

PACKAGE = "agentkit_py"
MARK = re.compile(r"^<!-- public names: (?P<parts>[\w ]+) -->$", re.MULTILINE)

_placed: set[str] = set()


@cache
def _public_names() -> dict[str, str]:
    """Each public name and the part of the package that defines it, e.g. ``engine``."""
    package = griffe.load(PACKAGE, search_paths=["."], resolve_aliases=True)
    names = sorted(str(name) for name in package.exports or ())
    return {n: _home(package[n]) for n in names if not n.startswith("__")}


def _home(thing: Any) -> str:
    path = (thing.final_target if thing.is_alias else thing).path
    return path.removeprefix(f"{PACKAGE}.").split(".")[0]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the entries in the place of the mark."""
    return MARK.sub(lambda match: _entries(match["parts"].split()), markdown)


def _entries(parts: list[str]) -> str:
    names = [name for name, home in _public_names().items() if home in parts]
    _placed.update(names)
    return "\n\n".join(f"::: {PACKAGE}.{name}" for name in names)


def on_env(env: Any, **_: Any) -> Any:
    """After the last page has been read: nothing public may be missing."""
    left = {name: home for name, home in _public_names().items() if name not in _placed}
    if left:
        listed = ", ".join(f"{name} ({home})" for name, home in sorted(left.items()))
        raise PluginError(f"no page under docs/reference takes these public names: {listed}")
    return env
