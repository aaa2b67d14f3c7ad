"""The page on parity says what the manifest says, and names what there is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.typescript import NodeMissingError

from .fresh import recorder
from .names import NAMES, exists, exports
from .page import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parity.md"


def test_the_page_is_up_to_date() -> None:
    """`python scripts/parity_docs.py` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_export_of_the_package_is_listed() -> None:
    """72 of the package and one of its server part."""
    assert len(exports()) == 73
    assert [name for name in exports() if name not in NAMES] == []


def test_the_list_of_exports_is_the_packages_own() -> None:
    """The package's declarations are read."""
    try:
        declarations = recorder() / "node_modules" / "@inngest" / "agent-kit" / "dist"
    except NodeMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    found: set[str] = set()
    for prefix, file in (("", "index.d.ts"), ("server/", "server.d.ts")):
        text = (declarations / file).read_text(encoding="utf-8")
        lists = re.findall(r"^export (?:type )?{([^}]*)}", text, re.MULTILINE)
        named = [name for found in lists for name in found.split(",") if name.strip()]
        found |= {prefix + name.split(" as ")[-1].removeprefix("type ").strip() for name in named}
    assert found == set(exports())


@pytest.mark.parametrize("name", NAMES)
def test_each_python_name_is_there(name: str) -> None:
    """A missing name has a note that says why."""
    assert exists(NAMES[name]), NAMES[name]
