"""Metadata of documents: what may stand in it, and how stores keep it. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from agentkit_py.errors import FilterError, KnowledgeError

Scalar: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, Scalar | Sequence[Scalar]]
"""Facts of a document: texts, numbers, truth values, and lists of them."""

Kind: TypeAlias = Literal["text", "number", "bool"]

KEY = re.compile(r"[^\W\d][\w.-]{0,62}")
_MOST_EXACT = 2**53
_MOST_TEXT = 1000
_UNSAFE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of one key, as stores keep it: a list is several facts."""

    key: str
    in_list: bool
    kind: Kind
    text: str | None
    folded: str | None
    """The text without case, by Python's rules: databases have others."""

    number: float | None


def check_key(key: object) -> str:
    """The key.

    Raises:
        FilterError: It is none.
    """
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise FilterError(
            f"{key!r:.80} is no key: 1 to 63 letters, digits, _, . or -, beginning with a letter "
            "or _"
        )
    return key


def check_scalar(value: object, where: str) -> Scalar:
    """The value.

    Raises:
        FilterError: It is no text, number or truth value, or cannot be compared exactly.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > _MOST_EXACT:
            raise FilterError(f"{where}: {value!r:.40} cannot be compared exactly; use a text")
        return value
    if isinstance(value, str):
        if len(value) > _MOST_TEXT or not is_plain(value):
            raise FilterError(
                f"{where}: {value!r:.40} must have at most {_MOST_TEXT} characters, "
                "none of them NUL or half of a surrogate pair"
            )
        return value
    raise FilterError(f"{where}: {value!r:.80} is no text, number, true or false")


def is_plain(text: str) -> bool:
    """Whether every database can keep the text as it is."""
    return _UNSAFE.search(text) is None


def plain(text: str) -> str:
    """The text without what databases cannot keep."""
    return _UNSAFE.sub("", text)


def checked(metadata: Mapping[str, Any] | None) -> dict[str, Scalar | list[Scalar]]:
    """The metadata, with None left out.

    Raises:
        KnowledgeError: A key or value cannot be kept so that filters are exact.
    """
    found: dict[str, Scalar | list[Scalar]] = {}
    for key, value in (metadata or {}).items():
        try:
            check_key(key)
            if value is None:
                continue
            if isinstance(value, list | tuple | set | frozenset):
                items = cast("Sequence[object]", value)
                found[key] = [check_scalar(one, key) for one in items]
            else:
                found[key] = check_scalar(value, key)
        except FilterError as error:
            raise KnowledgeError(f"Metadata: {error}") from error
    return found


def kind_of(value: Scalar) -> Kind:
    """Values of different kinds are never equal."""
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def fold(text: str) -> str:
    """The text as it is compared where case does not matter."""
    return text.casefold()


def facts_of(metadata: Mapping[str, Scalar | list[Scalar]]) -> list[Fact]:
    """One fact for each value."""
    found: list[Fact] = []
    for key, value in metadata.items():
        in_list = isinstance(value, list)
        for one in value if isinstance(value, list) else [value]:
            text = one if isinstance(one, str) else None
            folded = None if text is None else fold(text)
            number = None if isinstance(one, str) else float(one)
            found.append(Fact(key, in_list, kind_of(one), text, folded, number))
    return found
