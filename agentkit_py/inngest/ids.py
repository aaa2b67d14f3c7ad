"""Ids that are computed alike on each replay, and remembered for the next."""

from __future__ import annotations

import hashlib
import uuid
from functools import lru_cache


@lru_cache(maxsize=4096)
def uuid5(name: str) -> str:
    """`uuid.uuid5` of a URL, in a third of its time."""
    digits = hashlib.sha1(_URLS + name.encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANT[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


@lru_cache(maxsize=4096)
def step_hash(step_id: str) -> str:
    """Under which name the SDK and the server know a step."""
    return hashlib.sha1(step_id.encode(), usedforsecurity=False).hexdigest()


_URLS = uuid.NAMESPACE_URL.bytes
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""A digit with the variant's bits (RFC 9562, 4.1) in place of its own."""
