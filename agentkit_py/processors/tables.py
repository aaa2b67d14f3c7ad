"""Tool results as tables: each key once, rows by their ids, and only rows that are mentioned."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeGuard, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.messages import (
    Message,
    Messages,
    ToolCallMessage,
    ToolResultMessage,
    derived,
    text_of,
)
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import pair, rewritten
from agentkit_py.processors.settings import ConfiguredProcessor, flag, names, whole
from agentkit_py.processors.shortening import parsed
from agentkit_py.processors.tool_results import NamedBy, id_of, is_id, older_results, payload_of

_PLAIN = re.compile(r"[^\s|,;=\"\[\]{}()][^|,;\n\"\[\]]*")
_PLAIN_KEY = re.compile(r"[^\s|,;=\"\[\]{}()](?:[^|,;=\n\"\[\]{}()]*[^\s|,;=\"\[\]{}()])?")
_WORD = re.compile(r"[^\W_](?:[\w.@:+-]*\w)?")
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"[A-Za-z_][\w. -]*")
_DASHES = re.compile(r"\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?")
_MIN_COLUMNS = 2
_DEPTH = 8

SEPARATOR = "|"
"""Stands between the cells of a row; a line of ``key=value`` pairs has it, too."""

GROUP = "list"
"""The column that says to which of several lists a row belongs."""

MIN_ROWS = 4
"""Length of a list from which rows may be left out: a shorter list is mostly a choice to make."""

MIN_RECORDS = 3
"""Records of a mapping without their own ids: so many of a kind are read as a table."""

LIKE = 0.6
"""Share of all keys that a record of such a mapping has on average."""

KEY = "id"
"""The column for the keys of such a mapping."""

LEFT_OUT = "({count} rows that no message mentions are left out)"


@dataclass(frozen=True)
class TableResults(ConfiguredProcessor):
    """Writes JSON results of tools as tables: each key appears once, not in each row.

    An object is a line, ``key=value|key=value``, lists of objects in it included:
    ``items(id,price)=[A1,20;A2,30]``. A list of objects, or a mapping of similar objects by their
    ids, is a line of keys and a line for each object. A Markdown table loses its padding. All
    values stay, with their keys and on the line of their record's id, in fewer characters.
    Text that is not JSON, or would not become shorter, stays as it is. Since nothing is lost,
    results of the agent's own calls in this run are written so, too: a result looks the same in
    every request, and providers cache it.

    Args:
        used_rows: Of lists in results that are not among the newest ``keep_recent``, keep only rows
            whose id a later message mentions: the user, an agent, a later call. A line says how
            many were left out.
        keep_recent: How many of the newest results keep all rows.
        exclude: Tools whose results stay as they are.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    _: KW_ONLY
    used_rows: Annotated[bool, flag] = False
    keep_recent: Annotated[int, whole()] = 1
    exclude: Annotated[Iterable[str], names] = ()

    looks_back: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """The form, for reports."""
        used = f"; rows in use, but for the newest {self.keep_recent}" if self.used_rows else ""
        return f"tool results as tables{used}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with results written as tables."""
        calls = pair(messages).calls
        spared = context.pinned
        older: set[int] = set()
        if self.used_rows:
            older.update(older_results(messages, context.held, self.keep_recent))
        said = _LaterWords(messages) if older else None
        rewrites: dict[int, Message] = {}
        for index, message in enumerate(messages):
            if (
                not isinstance(message, ToolResultMessage)
                or id(message) in spared
                or message.tool.name in self.exclude
            ):
                continue
            found = calls.get(index)
            owner = _arguments_of(messages, found)
            after = said.after(index) if said is not None and index in older else None
            rewrites[index] = _as_table(message, owner, after)
        return rewritten(messages, rewrites)


def _arguments_of(messages: Messages, found: tuple[int, int] | None) -> Mapping[str, JsonValue]:
    message = messages[found[0]] if found is not None else None
    if found is None or not isinstance(message, ToolCallMessage):
        return {}
    arguments = message.tools[found[1]].arguments
    return arguments if isinstance(arguments, dict) else {}


class _LaterWords:
    """Words with digits in the messages after each message, looked up from the end."""

    def __init__(self, messages: Messages) -> None:
        self._last: dict[str, int] = {}
        for index, message in enumerate(messages):
            if message.type != "tool_result":
                for word in _WORD.findall(text_of(message)):
                    self._last[word] = index

    def after(self, index: int) -> _Mentioned:
        """Return the words after a message."""
        return _Mentioned(self._last, index)


@dataclass(frozen=True, slots=True)
class _Mentioned:
    last: Mapping[str, int] = field(repr=False)
    index: int

    def __contains__(self, value: object) -> bool:
        return any(self.last.get(word, -1) > self.index for word in _WORD.findall(str(value)))


def _as_table(
    message: ToolResultMessage, arguments: Mapping[str, JsonValue], said: _Mentioned | None
) -> Message:
    kind, inner = payload_of(message)
    value = parsed(inner) if kind == "data" else None
    if not isinstance(value, list | dict | str):
        return message

    def make() -> Message:
        if isinstance(value, str):
            text = with_plain_tables(value, said)
        else:
            text = table_of(value, owner=id_of(arguments), said=said)
        made = replace(message, content={"data": text})
        return made if len(text_of(made)) < len(text_of(message)) else message

    return make() if said is not None else derived(message, ("table",), make)


def table_of(value: JsonValue, *, owner: NamedBy | None = None, said: object = None) -> str:
    """Return JSON as lines of ``key=value`` pairs and tables.

    A record that does not name itself gets the key and value of its ``owner``. Long lists keep only
    rows whose ids are in ``said``; None: all.
    """
    if isinstance(value, dict):
        by_id = _records_by_id(value)
        if by_id is None:
            return _record_line(value, owner, said)
        value = by_id
    grouped = _grouped(value)
    rows = value if grouped is None else grouped
    if not isinstance(value, list) or not _is_table(rows):
        return _cell(value)
    kept, left_out = _kept(rows, said)
    flat = [_flattened(row) for row in kept]
    if any(map(_is_table, (value for cells in flat for value in cells.values()))):
        return "\n".join([*(_record_line(row, owner, None) for row in kept), *left_out])
    columns = list(dict.fromkeys(key for cells in flat for key in cells))
    lines = [SEPARATOR.join(map(_key, columns))] if kept else []
    lines += [SEPARATOR.join(_cell(c[k]) if k in c else "" for k in columns) for c in flat]
    return "\n".join([*lines, *left_out])


def with_plain_tables(text: str, said: object = None) -> str:
    """Return a text with its Markdown tables, and CSV of which rows go, in the form of tables.

    A Markdown table loses its padding and its line of dashes. A text that is CSV as a whole is
    changed only where rows are left out.
    """
    lines = text.splitlines()
    if said is not None and _is_csv(lines):
        rows = list(csv.reader(lines))
        return "\n".join(_text_table(rows[0], rows[1:], said))
    plain: list[str] = []
    at, tables = 0, 0
    while at < len(lines):
        end = _end_of_markdown(lines, at)
        if end is None:
            plain.append(lines[at])
            at += 1
            continue
        header, *rows = [_markdown_cells(line) for line in (lines[at], *lines[at + 2 : end])]
        plain += _text_table(header, rows, said)
        at, tables = end, tables + 1
    return "\n".join(plain) if tables else text


def _text_table(header: list[str], rows: list[list[str]], said: object) -> list[str]:
    records = [dict(zip(header, row, strict=True)) for row in rows]
    kept, left_out = _kept(records, said)
    written = [SEPARATOR.join(map(_text_cell, record.values())) for record in kept]
    return [SEPARATOR.join(map(_key, header)), *written, *left_out]


def _text_cell(value: JsonValue) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if SEPARATOR in text or "\n" in text else text


def _end_of_markdown(lines: Sequence[str], start: int) -> int | None:
    """Return the line after a Markdown table that begins at a line; None: none begins there."""
    if start + 1 >= len(lines) or not _DASHES.fullmatch(lines[start + 1].strip()):
        return None
    header = _markdown_cells(lines[start])
    width = len(header)
    if not lines[start].lstrip().startswith(SEPARATOR) or len(set(header)) < width:
        return None
    if len(_markdown_cells(lines[start + 1])) != width or width < _MIN_COLUMNS:
        return None
    end = start + 2
    while end < len(lines) and lines[end].lstrip().startswith(SEPARATOR):
        if len(_markdown_cells(lines[end])) != width:
            return None
        end += 1
    return end


def _markdown_cells(line: str) -> list[str]:
    inner = line.strip().removeprefix(SEPARATOR).removesuffix(SEPARATOR)
    return [cell.strip() for cell in inner.split(SEPARATOR)]


def _is_csv(lines: Sequence[str]) -> bool:
    """Return whether all lines have equally many cells, and the first line's cells are names."""
    if len(lines) <= MIN_ROWS or not all(map(_NAME.fullmatch, lines[0].split(","))):
        return False
    rows = list(csv.reader(lines))
    names_of_columns = rows[0]
    return (
        len(set(names_of_columns)) == len(names_of_columns) >= _MIN_COLUMNS
        and all(len(row) == len(names_of_columns) for row in rows)
    )  # fmt: skip


def _grouped(value: JsonValue) -> list[JsonValue] | None:
    """Return a list of lists of records as a list of records with the number of their list."""
    if not isinstance(value, list) or not value:
        return None
    groups = [group for group in value if isinstance(group, list) and all(map(_is_record, group))]
    if len(groups) < len(value):
        return None
    return [
        {GROUP: number, **cast("dict[str, JsonValue]", row)}
        for number, group in enumerate(groups, 1)
        for row in group
    ]


def _is_record(value: JsonValue) -> bool:
    return isinstance(value, dict) and len(value) > 0


def _record_line(record: Mapping[str, JsonValue], owner: NamedBy | None, said: object) -> str:
    """Return a record as a line, its lists of records with their keys before the rows."""
    flat = _flattened(record)
    if owner is not None and id_of(record) is None and owner[0] not in flat:
        flat = {owner[0]: owner[1], **flat}
    return SEPARATOR.join(_pair(key, value, said) for key, value in flat.items())


def _is_table(value: JsonValue) -> TypeGuard[list[dict[str, JsonValue]]]:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_record, value))


def _pair(key: str, value: JsonValue, said: object) -> str:
    if not _is_table(value):
        return f"{_key(key)}={_cell(value)}"
    kept, left_out = _kept(value, said)
    flat = [_flattened(row) for row in kept]
    columns = list(dict.fromkeys(key for cells in flat for key in cells))
    rows = [",".join(_cell(cells[k]) if k in cells else "" for k in columns) for cells in flat]
    return f"{_key(key)}({','.join(map(_key, columns))})=[{';'.join([*rows, *left_out])}]"


def _flattened(record: Mapping[str, JsonValue], depth: int = _DEPTH) -> dict[str, JsonValue]:
    """Return a record's values by their path; mappings of records by id become lists."""
    flat: dict[str, JsonValue] = {}
    for key, value in record.items():
        if not isinstance(value, dict) or not value or not depth:
            flat[key] = value
        elif (rows := _records_by_id(value)) is not None:
            flat[key] = rows
        else:
            inner = _flattened(value, depth - 1)
            flat |= {f"{key}.{path}": inner_value for path, inner_value in inner.items()}
    return flat


def _records_by_id(value: Mapping[str, JsonValue]) -> list[JsonValue] | None:
    """Return a mapping of records by their ids as a list of records, each with its id.

    It is a mapping of records if each has its key as its id, or if there are several and they
    mostly have the same keys. None: the mapping is itself a record.
    """
    records = [record for record in value.values() if isinstance(record, dict) and record]
    if not records or len(records) < len(value):
        return None
    if all(map(_has_as_id, records, value)):
        return [*records]
    keys = {key for record in records for key in record}
    shared = sum(map(len, records)) / (len(keys) * len(records))
    if len(records) < MIN_RECORDS or shared < LIKE or KEY in keys:
        return None
    return [{KEY: key, **record} for key, record in zip(value, records, strict=True)]


def _has_as_id(record: Mapping[str, JsonValue], key: str) -> bool:
    return any(value == key and is_id(name) for name, value in record.items())


def _kept(
    rows: Sequence[Mapping[str, JsonValue]], said: Any
) -> tuple[Sequence[Mapping[str, JsonValue]], list[str]]:
    """Return the rows that stay, and the line that says how many do not."""
    if said is None or len(rows) < MIN_ROWS:
        return rows, []
    kept = [row for row in rows if _is_used(row, said)]
    return kept, [LEFT_OUT.format(count=len(rows) - len(kept))] if len(kept) < len(rows) else []


def _is_used(row: Mapping[str, JsonValue], said: Any) -> bool:
    named = id_of(row)
    if named is not None:
        return named[1] in said
    telling = [v for v in row.values() if isinstance(v, str | int) and _DIGIT.search(str(v))]
    return not telling or any(value in said for value in telling)


def _key(key: str) -> str:
    """Return a key as it is written in a line; a key with a separator in it is JSON."""
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _cell(value: JsonValue) -> str:
    """Return a value as it is written in a line; an ambiguous value is JSON."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and not _reads_as_json(value) and not value.endswith(" "):
            return value
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and value and all(isinstance(v, str | int | float) for v in value):
        return f"[{','.join(map(_cell, value))}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
