"""The part of CEL that functions match events with: comparisons of paths and literals."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from agentkit_py.errors import ScriptError

# Strings stay; the rest becomes Python, in which `~` binds as tightly as CEL's `!`.
_CEL = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<op>&&|\|\||!(?!=))"
    r"|\.(?P<field>[A-Za-z_]\w*)"
    r"|\b(?P<word>true|false|null|async)\b"
)
_PYTHON = {
    "&&": " and ",
    "||": " or ",
    "!": "~",
    "true": "True",
    "false": "False",
    "null": "None",
    "async": "async_",
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
}


def matches(expression: str | None, variables: Mapping[str, Any]) -> bool:
    """Return whether ``expression`` holds for ``event`` and ``async`` in ``variables``.

    Raises:
        ScriptError: It uses more of CEL than is known here.
    """
    if not expression:
        return True
    names = {_PYTHON.get(name, name): value for name, value in variables.items()}
    try:
        tree = ast.parse(_CEL.sub(_translated, expression).strip(), mode="eval")
        return bool(_value(tree.body, names))
    except (SyntaxError, LookupError) as error:
        raise ScriptError(
            f"ReplayExecutor cannot evaluate the expression {expression!r}; it knows comparisons "
            "of event.… and async.… with each other and with literals, &&, || and !"
        ) from error


def _translated(found: re.Match[str]) -> str:
    if found["field"]:
        return f"[{found['field']!r}]"
    return found[0] if found["text"] else _PYTHON[found[0]]


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of a part; LookupError where it is none of the known kinds."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _member(_value(inner, names), key)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return not _value(operand, names)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return -cast("Any", value)
        case ast.BoolOp(op=op, values=values):
            found = [bool(_value(one, names)) for one in values]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            try:
                return _COMPARE[type(op)](_value(left, names), _value(right, names))
            except TypeError:  # CEL knows no order between kinds; the event does not match
                return False
        case _:
            raise LookupError(type(node).__name__)


def _member(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).get(key)
    if isinstance(value, list) and isinstance(key, int):
        items = cast("list[Any]", value)
        return items[key] if key < len(items) else None
    return None
