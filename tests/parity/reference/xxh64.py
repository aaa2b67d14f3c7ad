"""XXH64 (Yann Collet's specification, seed 0): checksums that other languages can compute too."""

from __future__ import annotations

from struct import iter_unpack, unpack_from

_MASK = (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return (_rotate((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def xxh64(data: bytes) -> int:
    """The 64-bit hash of ``data``, seed 0."""
    blocks = len(data) // 32 * 32
    hashed = (_stripes(data, blocks) if blocks else _P5) + len(data)
    return _avalanche(_tail(data, blocks, hashed & _MASK))


def _stripes(data: bytes, end: int) -> int:
    lanes = [(_P1 + _P2) & _MASK, _P2, 0, (-_P1) & _MASK]
    for words in iter_unpack("<4Q", data[:end]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
    rotated = zip(lanes, (1, 7, 12, 18), strict=True)
    hashed = sum(_rotate(lane, bits) for lane, bits in rotated) & _MASK
    for lane in lanes:
        hashed = ((hashed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return hashed


def _tail(data: bytes, at: int, hashed: int) -> int:
    while at + 8 <= len(data):
        (word,) = unpack_from("<Q", data, at)
        hashed = (_rotate(hashed ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(data):
        (half,) = unpack_from("<I", data, at)
        hashed = (_rotate(hashed ^ (half * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        hashed = (_rotate(hashed ^ (byte * _P5 & _MASK), 11) * _P1) & _MASK
    return hashed


def _avalanche(hashed: int) -> int:
    hashed = ((hashed ^ (hashed >> 33)) * _P2) & _MASK
    hashed = ((hashed ^ (hashed >> 29)) * _P3) & _MASK
    return hashed ^ (hashed >> 32)
