"""The part of CEL that functions match events with: comparisons of paths and literals."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from agentkit_py.errors import ScriptError

_TOKEN = re.compile(
    r"\s*(?:(?P<op>&&|\|\||==|!=|>=|<=|[<>!()])"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<path>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:'[^']*'|\"[^\"]*\"|\d+)\])*))"
)
_PART = re.compile(r"([A-Za-z_]\w*)|\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
}


def matches(expression: str | None, variables: Mapping[str, Any]) -> bool:
    """Whether ``expression`` holds for ``event`` and ``async`` in ``variables``.

    Raises:
        ScriptError: It uses more of CEL than is known here.
    """
    if not expression:
        return True
    return bool(_Parser(expression, variables).whole())


class _Parser:
    def __init__(self, expression: str, variables: Mapping[str, Any]) -> None:
        self._expression = expression
        self._variables = variables
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(expression.rstrip()):
            found = _TOKEN.match(expression, at)
            if found is None:
                raise self._unknown()
            kind = cast("str", found.lastgroup)
            self._tokens.append((kind, found[kind]))
            at = found.end()

    def _unknown(self) -> ScriptError:
        return ScriptError(
            f"ReplayExecutor cannot evaluate the expression {self._expression!r}; it knows "
            "comparisons of event.… and async.… with each other and with literals, &&, || and !"
        )

    def _take(self, *operators: str) -> str | None:
        if self._tokens and self._tokens[0][0] == "op" and self._tokens[0][1] in operators:
            return self._tokens.pop(0)[1]
        return None

    def whole(self) -> Any:
        value = self._either()
        if self._tokens:
            raise self._unknown()
        return value

    def _either(self) -> Any:
        value = self._both()
        while self._take("||"):
            other = self._both()
            value = bool(value) or bool(other)
        return value

    def _both(self) -> Any:
        value = self._comparison()
        while self._take("&&"):
            other = self._comparison()
            value = bool(value) and bool(other)
        return value

    def _comparison(self) -> Any:
        value = self._single()
        found = self._take(*_COMPARE)
        if found is None:
            return value
        other = self._single()
        try:
            return _COMPARE[found](value, other)
        except TypeError:  # CEL knows no order between kinds; the event does not match
            return False

    def _single(self) -> Any:
        if self._take("!"):
            return not self._single()
        if self._take("("):
            value = self._either()
            if not self._take(")"):
                raise self._unknown()
            return value
        if not self._tokens or self._tokens[0][0] == "op":
            raise self._unknown()
        kind, text = self._tokens.pop(0)
        if kind == "text":
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        return json.loads(text) if kind == "number" else self._path(text)

    def _path(self, text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        found = _PART.finditer(text)
        name, *parts = [next(str(group) for group in part.groups() if group) for part in found]
        if name not in self._variables:
            raise self._unknown()
        value: Any = self._variables[name]
        for part in parts:
            if isinstance(value, list) and part.isdigit():
                items = cast("list[Any]", value)
                value = items[int(part)] if int(part) < len(items) else None
            else:
                value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
        return value
