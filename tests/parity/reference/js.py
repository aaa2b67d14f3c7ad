"""Small pieces of JavaScript."""

# JSON of any shape is read here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import re

from ..vectors import Json

_LONE = re.compile("[\ud800-\udfff]")
_BIG = 1e21


def stringify(value: Json) -> str:
    """``JSON.stringify``."""
    if isinstance(value, dict):
        pairs = (f"{stringify(key)}:{stringify(item)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(stringify, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    text = json.dumps(value, ensure_ascii=False)
    return _LONE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def number(value: float) -> str:
    """A number as JavaScript writes it."""
    if abs(value) < _BIG and value == int(value):
        return str(int(value))
    found = re.fullmatch(r"(-?[\d.]+)e([+-])0*(\d+)", repr(float(value)))
    return repr(float(value)) if found is None else f"{found[1]}e{found[2]}{found[3]}"


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
