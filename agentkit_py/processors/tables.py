"""Tool results as tables: each key once, rows by their ids, and only rows that somebody used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, ClassVar, cast

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
from agentkit_py.processors.tool_results import (
    NamedBy,
    id_of,
    older_results,
    parsed,
    payload_of,
)

_PLAIN = re.compile(r"[^\s|,;=\"\[\]{}()][^|,;\n\"\[\]]*")
_WORD = re.compile(r"[^\W_](?:[\w.@:+-]*\w)?")
_DIGIT = re.compile(r"\d")
_DEPTH = 8

SEPARATOR = "|"
"""Stands between the cells of a row; a line of ``key=value`` pairs has it, too."""

GROUP = "list"
"""The column that says to which of several lists a row belongs."""

MIN_ROWS = 4
"""Rows of a list from which on rows are left out: a short one is mostly a choice to make."""

LEFT_OUT = "({count} rows that nobody mentioned are left out)"


@dataclass(frozen=True)
class TableResults(ConfiguredProcessor):
    """Writes JSON results of tools as tables: a key stands once, not in each row.

    An object is one line, ``key=value|key=value``, lists of objects in it included:
    ``items(id,price)=[A1,20;A2,30]``. A list of objects is a line of keys and a line for each. All
    values stay, with their keys and on one line with the id of their record, in fewer characters.
    What is no JSON, and what would not become shorter, stays as it is. Since nothing is lost,
    results of the agent's own calls in this run are written so, too: a result looks the same in
    every request, and providers cache it.

    Args:
        used_rows: Of lists in results that are not among the newest ``keep_recent``, keep only rows
            whose id somebody has mentioned since: the user, an agent, a later call. A line says how
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
    """Words with digits that were said after each message, looked up from the end."""

    def __init__(self, messages: Messages) -> None:
        self._last: dict[str, int] = {}
        for index, message in enumerate(messages):
            if message.type != "tool_result":
                for word in _WORD.findall(text_of(message)):
                    self._last[word] = index

    def after(self, index: int) -> _Mentioned:
        """Return what was said after a message."""
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
    if not isinstance(value, list | dict):
        return message

    def make() -> Message:
        text = table_of(value, owner=id_of(arguments), said=said)
        made = replace(message, content={"data": text})
        return made if len(text_of(made)) < len(text_of(message)) else message

    return make() if said is not None else derived(message, ("table",), make)


def table_of(value: JsonValue, *, owner: NamedBy | None = None, said: object = None) -> str:
    """Return JSON as lines of ``key=value`` pairs and tables.

    A record that does not name itself gets the key and value of its ``owner``. Of long lists, rows
    stay whose ids are in ``said``; None: all.
    """
    if isinstance(value, dict):
        return _record_line(value, owner, said)
    grouped = _grouped(value)
    rows = cast("list[Any]", value) if grouped is None else grouped
    if not isinstance(value, list) or not rows or not all(map(_is_record, rows)):
        return _cell(value)
    kept, left_out = _kept(cast("list[dict[str, JsonValue]]", rows), said)
    flat = [_flattened(row) for row in kept]
    columns = list(dict.fromkeys(key for cells in flat for key in cells))
    lines = [SEPARATOR.join(columns)] if kept else []
    lines += [SEPARATOR.join(_cell(c[k]) if k in c else "" for k in columns) for c in flat]
    return "\n".join([*lines, *left_out])


def _grouped(value: JsonValue) -> list[JsonValue] | None:
    """Return a list of lists of records as one of records with the number of their list."""
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
    """Return a record as one line, the lists of records in it with their keys before the rows."""
    flat = _flattened(record)
    if owner is not None and id_of(record) is None and owner[0] not in flat:
        flat = {owner[0]: owner[1], **flat}
    return SEPARATOR.join(_pair(key, value, said) for key, value in flat.items())


def _pair(key: str, value: JsonValue, said: object) -> str:
    if not isinstance(value, list) or not value or not all(map(_is_record, value)):
        return f"{key}={_cell(value)}"
    kept, left_out = _kept(cast("list[dict[str, JsonValue]]", value), said)
    flat = [_flattened(row) for row in kept]
    columns = list(dict.fromkeys(key for cells in flat for key in cells))
    rows = [",".join(_cell(cells[k]) if k in cells else "" for k in columns) for cells in flat]
    return f"{key}({','.join(columns)})=[{';'.join([*rows, *left_out])}]"


def _flattened(record: Mapping[str, JsonValue], depth: int = _DEPTH) -> dict[str, JsonValue]:
    """Return a record's values by their path; objects that hold records by id become lists."""
    flat: dict[str, JsonValue] = {}
    for key, value in record.items():
        if not isinstance(value, dict) or not value or not depth:
            flat[key] = value
        elif _holds_by_id(value):
            flat[key] = list(value.values())
        else:
            flat |= {f"{key}.{path}": one for path, one in _flattened(value, depth - 1).items()}
    return flat


def _holds_by_id(value: Mapping[str, JsonValue]) -> bool:
    return all(isinstance(one, dict) and one.get("id") == key for key, one in value.items())


def _kept(
    rows: Sequence[Mapping[str, JsonValue]], said: Any
) -> tuple[Sequence[Mapping[str, JsonValue]], list[str]]:
    """Return the rows that stay, and what says how many do not."""
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


def _cell(value: JsonValue) -> str:
    """Return a value as it stands in a line; what could be read as something else is JSON."""
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
