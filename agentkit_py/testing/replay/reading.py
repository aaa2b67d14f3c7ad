"""Reading one recorded line: JSON objects whose fields are checked, with errors that name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py._core.naming import TOOL_NAME
from agentkit_py.errors import InvalidRecordError

WHOLE = "(whole line)"


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object of a line."""

    record: Mapping[str, Any]
    where: str
    path: str

    @classmethod
    def of(cls, value: object, where: str, path: str) -> Fields:
        """The fields of ``value``.

        Raises:
            InvalidRecordError: It is no object.
        """
        record = as_object(value)
        if record is None:
            problem = f"expected an object, got {value!r:.80}"
            raise InvalidRecordError(problem, where=where, field=path or WHOLE)
        return cls(record, where, path)

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def wrong(self, name: str, problem: str) -> NoReturn:
        """Say what is wrong with a field."""
        raise InvalidRecordError(problem, where=self.where, field=self.at(name))

    def value(self, name: str) -> object:
        """A field that has to be there."""
        if name not in self.record:
            self.wrong(name, "missing")
        return self.record[name]

    def string(self, name: str) -> str:
        """A field that has to be a string with something in it."""
        value = self.value(name)
        if not isinstance(value, str) or not value:
            self.wrong(name, f"expected a non-empty string, got {value!r:.80}")
        return value

    def list(self, name: str) -> list[Any]:
        """A field that has to be a list."""
        value = self.value(name)
        found = as_list(value)
        if found is None:
            self.wrong(name, f"expected a list, got {value!r:.80}")
        return found


def json_of_line(raw: bytes, where: str) -> object:
    """The JSON value of a line.

    Raises:
        InvalidRecordError: It is not UTF-8 or no JSON.
    """
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte {error.start + 1})"
    except json.JSONDecodeError as error:
        problem = f"no JSON: {error.msg} (column {error.colno})"
        if not raw.endswith(b"\n"):
            problem += "; the file ends here, perhaps it was cut off"
    except (ValueError, RecursionError) as error:
        problem = f"no JSON: {error}"
    raise InvalidRecordError(problem, where=where, field=WHOLE) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def content_of(fields: Fields) -> str:
    """The text of a message: a string, or a list of text parts, which are joined.

    Raises:
        InvalidRecordError: It is something else, such as an image.
    """
    content = fields.value("content")
    if isinstance(content, str):
        return content
    parts = as_list(content)
    if parts is None:
        fields.wrong("content", f"expected a string or a list of text parts, got {content!r:.80}")
    return "".join(
        _part(Fields.of(part, fields.where, fields.at(f"content[{index}]")))
        for index, part in enumerate(parts)
    )


def _part(fields: Fields) -> str:
    kind = fields.string("type")
    if kind != "text":
        fields.wrong("type", f"only text can be replayed, not {kind!r:.40}")
    text = fields.value("text")
    if not isinstance(text, str):
        fields.wrong("text", f"expected a string, got {text!r:.80}")
    return text


def tool_name(function: Fields) -> str:
    """A tool's name that all providers accept.

    Raises:
        InvalidRecordError: It is not.
    """
    name = function.string("name")
    if not TOOL_NAME.fullmatch(name):
        function.wrong(
            "name",
            f"{name!r:.80} is no tool name (1 to 64 letters, digits, _ or -, a letter or _ first)",
        )
    return name


def arguments_of(function: Fields) -> tuple[JsonObject, str]:
    """A call's arguments as an object, and as the model wrote them.

    Raises:
        InvalidRecordError: They are not the text of a JSON object.
    """
    given = function.value("arguments")
    if not isinstance(given, str):
        function.wrong("arguments", f"expected JSON as a string, got {given!r:.80}")
    # Models leave them empty for tools that take none.
    written = given if given.strip() else "{}"
    try:
        found = as_object(json.loads(written, parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        function.wrong("arguments", f"no JSON: {error}; got {given!r:.80}")
    if found is None:
        function.wrong("arguments", f"expected a JSON object as a string, got {given!r:.80}")
    return found, written
