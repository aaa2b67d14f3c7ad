"""Small pieces of JavaScript."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from decimal import Decimal

from ..vectors import Json
from .core import UNDEFINED, Switches

_LONE = re.compile("[\ud800-\udfff]")
_BIG = 1e21
_SAFE = 2**53


def stringify(value: Json, *, python: bool = False) -> str:
    """``JSON.stringify``, or the same with numbers as Python writes them."""
    if isinstance(value, dict) and set(value) == {"$number"}:
        return "null"
    if isinstance(value, dict):
        pairs = value.items() if python else _ordered(value).items()
        items = ((stringify(k), stringify(v, python=python)) for k, v in pairs)
        return "{" + ",".join(f"{key}:{item}" for key, item in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(stringify(item, python=python) for item in value) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value) if python else number(value)
    text = json.dumps(value, ensure_ascii=False)
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _ordered(value: dict[str, Json]) -> dict[str, Json]:
    """An object's members in JavaScript's order: those with numbers for names come first."""
    numbers = [key for key in value if re.fullmatch("0|[1-9][0-9]{0,8}", key)]
    return {key: value[key] for key in sorted(numbers, key=int)} | value


def written(value: Json, on: Switches) -> str:
    """JSON as TypeScript and as we write it: numbers may look otherwise (ECMAScript 6.1.6.1.20)."""
    theirs = stringify(value)
    ours = stringify(value, python=True)
    return ours if theirs == ours or on("numbers-as-python-writes-them") else theirs


def parsed(value: Json) -> Json:
    """A value of ``json.loads`` as ``JSON.parse`` has it: each number is a double."""
    if isinstance(value, dict):
        return {key: parsed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [parsed(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return {"$number": "Infinity" if value > 0 else "-Infinity"}
    big = isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE
    return int(Decimal(repr(float(value)))) if big else value


def number(value: float) -> str:
    """A number as JavaScript writes it."""
    if abs(value) < _BIG and value == int(value):
        return str(int(value))
    found = re.fullmatch(r"(-?[\d.]+)e([+-])0*(\d+)", repr(float(value)))
    return repr(float(value)) if found is None else f"{found[1]}e{found[2]}{found[3]}"


def date(text: str) -> str:
    """``new Date(text).toISOString()``; a time without zone is that of the recorder, UTC."""
    time = datetime.fromisoformat(text)
    time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def without_halves(value: Json) -> Json:
    """JSON whose texts hold no halves of surrogate pairs."""
    if isinstance(value, dict):
        return {key: without_halves(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_halves(item) for item in value]
    return _LONE.sub("?", value) if isinstance(value, str) else value


def utf16_pieces(text: str, size: int) -> list[str]:
    """``text`` cut every ``size`` UTF-16 units, through surrogate pairs where they stand so."""
    data = text.encode("utf-16-le", "surrogatepass")
    step = size * 2
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    return [piece.decode("utf-16-le", "surrogatepass") for piece in pieces]


def whole_pieces(text: str, size: int) -> list[str]:
    """Like `utf16_pieces`, but a pair that would be cut goes to the next piece as a whole."""
    pieces: list[str] = []
    piece, used = "", 0
    for character in text:
        units = 2 if ord(character) > 0xFFFF else 1
        if used + units > size:
            pieces.append(piece)
            piece, used = "", 0
        piece += character
        used += units
    return [*pieces, piece] if piece else pieces


def text(value: Json) -> str:
    """``String(value)``."""
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join("" if one in (None, UNDEFINED) else text(one) for one in value)
    return value if isinstance(value, str) else stringify(value)


def truthy(value: Json) -> bool:
    """Return what JavaScript's ``!!value`` gives: arrays and objects are true, empty or not."""
    return value is not UNDEFINED and (isinstance(value, list | dict) or bool(value))
