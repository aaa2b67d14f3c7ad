"""Files and texts as what is to be cut: text, Markdown, PDF, CSV, JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

from agentkit_py.errors import KnowledgeError, MissingDependencyError
from agentkit_py.knowledge.metadata import is_plain

Format: TypeAlias = Literal["text", "markdown", "pdf", "csv", "json"]

_LONGEST_LABEL = 100
"""Characters of a column's or field's name that a piece repeats."""

FORMATS: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".pdf": "pdf",
    ".csv": "csv",
    ".json": "json",
}


def passages(content: str | bytes, kind: Format, source: str) -> list[str]:
    """The content in passages, none of which is to be joined with another.

    A text is one passage, a PDF one for each page, CSV one for each row (``column: value``), JSON
    one for each item of a list (``path: value``).

    Raises:
        KnowledgeError: It is not what ``kind`` says.
        MissingDependencyError: It is a PDF, and pypdf is not installed.
    """
    try:
        found = _READERS[kind](content)
    except KeyError:
        known = ", ".join(_READERS)
        raise KnowledgeError(f"{source}: format={kind!r} is none of {known}") from None
    except MissingDependencyError:
        raise
    except (ValueError, csv.Error, RecursionError) as error:
        raise KnowledgeError(f"{source} cannot be read as {kind}: {error}") from error
    return [one for one in found if one.strip()]


def _text(content: str | bytes) -> str:
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    text = text.replace("\0", "")
    if not is_plain(text):
        raise ValueError("it is not valid Unicode")
    return text


def _plain(content: str | bytes) -> list[str]:
    return [_text(content)]


def _csv(content: str | bytes) -> list[str]:
    rows = csv.reader(io.StringIO(_text(content)))
    header = next(rows, list[str]())
    return ["\n".join(_cells(header, row)) for row in rows]


def _cells(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    for index, cell in enumerate(row):
        if cell.strip():
            name = header[index] if index < len(header) else f"column {index + 1}"
            yield f"{_label(name)}: {cell}"


def _label(name: str) -> str:
    """Return the end of a long name: it is written once for each value."""
    return name if len(name) <= _LONGEST_LABEL else f"…{name[-_LONGEST_LABEL:]}"


def _json(content: str | bytes) -> list[str]:
    found: Any = json.loads(_text(content))
    items = cast("list[Any]", found) if isinstance(found, list) else [found]
    return ["\n".join(_leaves(item)) for item in items]


def _leaves(root: Any) -> Iterator[str]:
    """Yield ``path: value`` of each value; not recursive, so depth costs nothing."""
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            waiting.extend(
                (_label(f"{path}.{key}" if path else key), inner[key]) for key in reversed(inner)
            )
        elif isinstance(value, list):
            waiting.extend((path, one) for one in reversed(cast("list[Any]", value)))
        else:
            shown = value if isinstance(value, str) else json.dumps(value)
            yield f"{path}: {shown}" if path else shown


def _pdf(content: str | bytes) -> list[str]:
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - an extra
        from pypdf.errors import PyPdfError  # noqa: PLC0415 - loaded only where it is used
    except ImportError as error:
        raise MissingDependencyError("pypdf", "knowledge", "Reading a PDF") from error
    if isinstance(content, str):
        raise ValueError("a PDF is bytes")  # noqa: TRY004 - what is wrong is the document
    try:
        return [_text(page.extract_text()) for page in PdfReader(io.BytesIO(content)).pages]
    except PyPdfError as error:
        raise ValueError(str(error)) from error


_READERS: dict[str, Callable[[str | bytes], list[str]]] = {
    "text": _plain,
    "markdown": _plain,
    "pdf": _pdf,
    "csv": _csv,
    "json": _json,
}
