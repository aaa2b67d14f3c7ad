"""Vectors as databases keep them."""

from __future__ import annotations

import sys
from array import array

from agentkit_py.processors.vectors import Vector, unit


def to_bytes(vector: Vector) -> bytes:
    """The vector at length 1, as little-endian 4-byte floats."""
    return _little_endian(unit(vector)).tobytes()


def of_bytes(stored: bytes) -> array[float]:
    """The vector that `to_bytes` gave."""
    return _little_endian(array("f", stored))


def _little_endian(numbers: array[float]) -> array[float]:
    """The numbers in the byte order of files, from that of this machine or the other way round."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
