"""Small pieces of JavaScript."""

from __future__ import annotations

import json

from ..vectors import Json


def stringify(value: Json) -> str:
    """``JSON.stringify``."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def utf16_pieces(text: str, size: int) -> list[str]:
    """``text`` cut every ``size`` UTF-16 units, through surrogate pairs where they stand so."""
    data = text.encode("utf-16-le", "surrogatepass")
    step = size * 2
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    return [piece.decode("utf-16-le", "surrogatepass") for piece in pieces]


def whole_pieces(text: str, size: int) -> list[str]:
    """The same, but a pair that would be cut goes to the next piece as a whole."""
    pieces: list[str] = []
    piece, used = "", 0
    for character in text:
        units = 2 if ord(character) > 0xFFFF else 1  # noqa: PLR2004 - the last single unit
        if used + units > size:
            pieces.append(piece)
            piece, used = "", 0
        piece += character
        used += units
    return [*pieces, piece] if piece else pieces
