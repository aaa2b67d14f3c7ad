"""A page that shows a `ContextMatrix`: a single file, to open or to send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentkit_py.matrix.cells import ContextMatrix

VIEWER: Path = Path(__file__).parent / "viewer"
"""The folder of the page's files; its data is in the page, or in the playground's answer."""

AS_NOW = "Each call as the processors of today would send it, with default data in the state."
"""The note of a matrix of `explain_thread`."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def matrix_json(matrix: ContextMatrix, title: str, note: str = "") -> dict[str, Any]:
    """Return a matrix as JSON for the page, with its heading and a note below it."""
    return {"title": title, "note": note, **matrix.to_dict()}


def matrix_page(
    matrix: ContextMatrix, title: str = "What each model call saw", note: str = ""
) -> str:
    """Return a matrix as an HTML page that needs no other file and no network.

    The page holds the words of the conversation: send it only to those who may read them.

    Args:
        matrix: The matrix.
        title: The page's heading.
        note: A sentence below the heading.
    """
    data = json.dumps(matrix_json(matrix, title, note))
    data = data.replace("<", "\\u003c")  # nothing that strangers wrote ends the element
    page = _read("index.html")
    for old, new in (
        ('  <link rel="icon" href="icon.svg" type="image/svg+xml">\n', ""),
        ('<link rel="stylesheet" href="viewer.css">', f"<style>{_read('viewer.css')}</style>"),
        ("<!-- policy -->", f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        (
            '<script type="module" src="viewer.js"></script>',
            f'<script type="module">{_read("viewer.js")}</script>',
        ),
        ("<!-- data -->", f'<script id="data" type="application/json">{data}</script>'),
    ):
        assert old in page, old
        page = page.replace(old, new)
    return page


def _read(name: str) -> str:
    return (VIEWER / name).read_text(encoding="utf-8")
