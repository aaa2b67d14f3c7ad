"""Metadata of documents, and filters that compare them. Pure values.

A filter is two-valued: a document either passes or does not. It passes ``EQ``, ``GT`` and so on
only if it has the key, with a single value (not a list) of the same kind (text, number, truth
value); ``NEQ`` and ``NOT`` are the exact opposite of the negated filter, so a document without the
key passes them.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, cast

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.errors import FilterError, KnowledgeError

Scalar: TypeAlias = str | int | float | bool
Metadata: TypeAlias = Mapping[str, Scalar | list[Scalar]]
"""Texts, numbers, truth values and lists of them, by key."""

Kind: TypeAlias = Literal["text", "number", "bool"]

MAX_DEPTH = 10
MAX_PARTS = 200
MAX_VALUES = 1000
_MAX_EXACT = 2**53
_MAX_TEXT = 1000
_KEY = re.compile(r"[^\W\d][\w.-]{0,62}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


SOURCE = "source"
"""The key by which a document's source is compared, unless its metadata have that key."""


def is_storable(text: str) -> bool:
    """Return whether every database can keep the text: it has no NUL and no lone surrogate."""
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """Return the text without the characters that databases cannot keep."""
    return _UNSTORABLE.sub("", text)


def kind_of(value: Scalar) -> Kind:
    """Return the value's kind; values of different kinds are never equal."""
    if isinstance(value, bool):
        return "bool"
    return "text" if isinstance(value, str) else "number"


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Scalar | list[Scalar]]:
    """Return the metadata without keys whose value is None.

    Raises:
        KnowledgeError: A key or value cannot be kept so that filters are exact.
    """
    found: dict[str, Scalar | list[Scalar]] = {}
    for key, value in (metadata or {}).items():
        try:
            _check_key(key)
            if isinstance(value, list | tuple | set | frozenset):
                items = cast("Sequence[object]", value)
                found[key] = [_check_scalar(one, key) for one in items]
            elif value is not None:
                found[key] = _check_scalar(value, key)
        except FilterError as error:
            raise KnowledgeError(f"Metadata: {error}") from error
    return found


def facts_of(source: str, metadata: Metadata) -> Metadata:
    """Return all that filters compare of a document: its metadata, and its source."""
    # A longer key could not be named in a filter, nor kept in an index.
    return metadata if len(source) > _MAX_TEXT else {SOURCE: source, **metadata}


def as_filter(given: object) -> FilterExpr:
    """Return a filter given as a filter, as its JSON, or as a dict of values by key.

    Raises:
        FilterError: It is none of these.
    """
    if isinstance(given, FilterExpr):
        return given
    fields = as_object(given)
    if fields is None:
        raise FilterError(
            f"{given!r:.80} is not a filter; pass EQ(key, value) and the like, or {{key: value}}"
        )
    if "op" in fields:
        return FilterExpr.from_dict(fields)
    if not fields:
        raise FilterError("{} is not a filter; leave it out to search everything")
    found = [
        IN(key, cast("Sequence[Scalar]", value))
        if isinstance(value, list | tuple)
        else EQ(key, value)
        for key, value in fields.items()
    ]
    return found[0] if len(found) == 1 else AND(*found)


class FilterExpr(ABC):
    """A filter; ``a & b``, ``a | b`` and ``~a`` combine filters."""

    __slots__ = ()
    op: ClassVar[str] = ""
    _fields: ClassVar[tuple[str, ...]] = ("key", "value")
    """The fields of its JSON other than op."""

    @property
    def children(self) -> tuple[FilterExpr, ...]:
        """The filters that this filter combines; none if it compares a key."""
        return ()

    @property
    def depth(self) -> int:
        """The depth of nested filters; 1 for a comparison."""
        return 1 + max((one.depth for one in self.children), default=0)

    @property
    def parts(self) -> int:
        """The number of comparisons."""
        return sum(one.parts for one in self.children) or 1

    @property
    def keys(self) -> frozenset[str]:
        """Every key that is compared."""
        return frozenset[str]().union(*(one.keys for one in self.children))

    def matches(self, metadata: Metadata) -> bool:
        """Return whether a document with this metadata passes."""
        return self._test(metadata)

    def to_dict(self) -> JsonObject:
        """Return the filter as JSON."""
        found: JsonObject = {"op": self.op}
        for name in self._fields:
            found[name] = _as_json(getattr(self, name))
        return found

    @abstractmethod
    def _test(self, metadata: Metadata) -> bool: ...

    @staticmethod
    def from_dict(given: object) -> FilterExpr:
        """Return the filter that `to_dict` gave.

        Raises:
            FilterError: It is not a filter, or too deep.
        """
        return _read(given, 1)

    def __and__(self, other: FilterExpr) -> AND:
        return AND(*_flat(AND, self), *_flat(AND, other))

    def __or__(self, other: FilterExpr) -> OR:
        return OR(*_flat(OR, self), *_flat(OR, other))

    def __invert__(self) -> NOT:
        return NOT(self)


@dataclass(frozen=True, slots=True)
class Comparison(FilterExpr):
    """Compares the value of a key."""

    key: str
    value: Scalar

    def __post_init__(self) -> None:
        _check_key(self.key)
        _check_scalar(self.value, f"{self.op}({self.key!r})")

    @property
    def keys(self) -> frozenset[str]:
        """The key."""
        return frozenset([self.key])

    def _found(self, metadata: Metadata) -> Any:
        """Return the document's value if it is a single value of the same kind, else None."""
        found = metadata.get(self.key)
        if found is None or isinstance(found, list) or kind_of(found) != kind_of(self.value):
            return None
        return found


class EQ(Comparison):
    """The value is equal."""

    __slots__ = ()
    op = "EQ"

    def _test(self, metadata: Metadata) -> bool:
        return self._found(metadata) == self.value


class NEQ(Comparison):
    """The opposite of `EQ`: another value, or none."""

    __slots__ = ()
    op = "NEQ"

    def _test(self, metadata: Metadata) -> bool:
        return self._found(metadata) != self.value


class Ordered(Comparison):
    """Compares numbers, or texts by their code points."""

    __slots__ = ()
    compare: ClassVar[Callable[[Any, Any], bool]]

    def __post_init__(self) -> None:
        Comparison.__post_init__(self)
        if isinstance(self.value, bool):
            raise FilterError(f"{self.op}({self.key!r}): true and false have no order")

    def _test(self, metadata: Metadata) -> bool:
        found = self._found(metadata)
        return found is not None and type(self).compare(found, self.value)


class GT(Ordered):
    """The value is greater."""

    __slots__ = ()
    op = "GT"
    compare: ClassVar[Callable[[Any, Any], bool]] = operator.gt


class GTE(Ordered):
    """The value is greater or equal."""

    __slots__ = ()
    op = "GTE"
    compare: ClassVar[Callable[[Any, Any], bool]] = operator.ge


class LT(Ordered):
    """The value is less."""

    __slots__ = ()
    op = "LT"
    compare: ClassVar[Callable[[Any, Any], bool]] = operator.lt


class LTE(Ordered):
    """The value is less or equal."""

    __slots__ = ()
    op = "LTE"
    compare: ClassVar[Callable[[Any, Any], bool]] = operator.le


class CONTAINS(Comparison):
    """A list has the value as an item, or a text has it in it, whatever the case."""

    __slots__ = ()
    op = "CONTAINS"

    def _test(self, metadata: Metadata) -> bool:
        found = metadata.get(self.key)
        if isinstance(found, list):
            return any(kind_of(one) == kind_of(self.value) and one == self.value for one in found)
        if isinstance(found, str) and isinstance(self.value, str):
            return self.value.casefold() in found.casefold()
        return False


class STARTSWITH(Comparison):
    """A text begins with the value."""

    __slots__ = ()
    op = "STARTSWITH"

    def __post_init__(self) -> None:
        Comparison.__post_init__(self)
        if not isinstance(self.value, str):
            raise FilterError(f"STARTSWITH({self.key!r}) needs a text, not {self.value!r:.40}")

    def _test(self, metadata: Metadata) -> bool:
        found = self._found(metadata)
        return found is not None and found.startswith(self.value)


@dataclass(frozen=True, slots=True)
class IN(FilterExpr):
    """The value is in a list."""

    key: str
    values: Sequence[Scalar]
    op = "IN"
    _fields = ("key", "values")

    def __post_init__(self) -> None:
        _check_key(self.key)
        values: Any = self.values
        if isinstance(values, str) or not isinstance(values, list | tuple | set | frozenset):
            raise FilterError(f"IN({self.key!r}) needs a list of values, not {values!r:.40}")
        items = tuple(cast("Sequence[object]", values))
        if len(items) > MAX_VALUES:
            raise FilterError(f"IN({self.key!r}) has {len(items)} values, at most {MAX_VALUES}")
        found = tuple(_check_scalar(one, f"IN({self.key!r})") for one in items)
        object.__setattr__(self, "values", found)

    @property
    def keys(self) -> frozenset[str]:
        """The key."""
        return frozenset([self.key])

    def _test(self, metadata: Metadata) -> bool:
        return any(EQ(self.key, one).matches(metadata) for one in self.values)


@dataclass(frozen=True, slots=True, init=False)
class Several(FilterExpr):
    """Combines filters."""

    conditions: tuple[FilterExpr, ...]
    _fields = ("conditions",)

    def __init__(self, *conditions: FilterExpr) -> None:
        """Check the filters.

        Raises:
            FilterError: Filters are missing, too many or too deeply nested, or of another type.
        """
        if not conditions:
            raise FilterError(f"{self.op}() needs at least one filter")
        object.__setattr__(self, "conditions", conditions)
        _check_children(self)

    @property
    def children(self) -> tuple[FilterExpr, ...]:
        """The filters that this filter combines."""
        return self.conditions


class AND(Several):
    """All filters pass."""

    __slots__ = ()
    op = "AND"

    def _test(self, metadata: Metadata) -> bool:
        return all(one.matches(metadata) for one in self.conditions)


class OR(Several):
    """At least one of the filters passes."""

    __slots__ = ()
    op = "OR"

    def _test(self, metadata: Metadata) -> bool:
        return any(one.matches(metadata) for one in self.conditions)


@dataclass(frozen=True, slots=True)
class NOT(FilterExpr):
    """The opposite of a filter."""

    condition: FilterExpr
    op = "NOT"
    _fields = ("condition",)

    def __post_init__(self) -> None:
        _check_children(self)

    @property
    def children(self) -> tuple[FilterExpr, ...]:
        """The filter that is negated."""
        return (self.condition,)

    def _test(self, metadata: Metadata) -> bool:
        return not self.condition.matches(metadata)


COMPARISONS: dict[str, type[Comparison]] = {
    kind.op: kind for kind in (EQ, NEQ, GT, GTE, LT, LTE, CONTAINS, STARTSWITH)
}
OPERATORS = (*COMPARISONS, "IN", "AND", "OR", "NOT")


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise FilterError(
            f"{key!r:.80} is not a key: 1 to 63 letters, digits, _, . or -, beginning with a "
            "letter or _"
        )


def _check_scalar(value: object, where: str) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if abs(value) > _MAX_EXACT or math.isnan(value):
            raise FilterError(f"{where}: {value!r:.40} cannot be compared exactly; use a text")
        return value
    if isinstance(value, str):
        if len(value) > _MAX_TEXT or not is_storable(value):
            raise FilterError(
                f"{where}: {value!r:.40} must have at most {_MAX_TEXT} characters, "
                "none of them NUL or half of a surrogate pair"
            )
        return value
    raise FilterError(f"{where}: {value!r:.80} is not a text, number, true or false")


def _check_children(one: FilterExpr) -> None:
    for child in one.children:
        if not isinstance(child, FilterExpr):
            raise FilterError(f"{one.op}(): {child!r:.80} is not a filter")
    if one.depth > MAX_DEPTH or one.parts > MAX_PARTS:
        raise FilterError(
            f"A filter may be {MAX_DEPTH} deep and have {MAX_PARTS} comparisons; this filter is "
            f"{one.depth} deep and has {one.parts}"
        )


def _as_json(value: Any) -> Any:
    if isinstance(value, FilterExpr):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_as_json(one) for one in cast("tuple[Any, ...]", value)]
    return value


def _flat(kind: type[Several], one: Any) -> tuple[Any, ...]:
    return one.conditions if type(one) is kind else (one,)


def _read(given: object, depth: int) -> FilterExpr:
    if depth > MAX_DEPTH:
        raise FilterError(f"A filter may be {MAX_DEPTH} deep; this filter is deeper")
    fields = as_object(given)
    if fields is None:
        raise FilterError(f"{given!r:.80} is not a filter; pass an object with op")
    op = fields.get("op")
    if op in COMPARISONS:
        _only(fields, "key", "value")
        return COMPARISONS[str(op)](fields["key"], fields["value"])
    match op:
        case "IN":
            _only(fields, "key", "values")
            return IN(fields["key"], fields["values"])
        case "AND" | "OR":
            _only(fields, "conditions")
            items = as_list(fields["conditions"])
            if items is None:
                raise FilterError(f"{op}: conditions must be a list")
            found = [_read(one, depth + 1) for one in items]
            return AND(*found) if op == "AND" else OR(*found)
        case "NOT":
            _only(fields, "condition")
            return NOT(_read(fields["condition"], depth + 1))
        case _:
            raise FilterError(f"Unknown operator {op!r:.40}; there are {', '.join(OPERATORS)}")


def _only(fields: Mapping[str, Any], *names: str) -> None:
    if set(fields) != {"op", *names}:
        raise FilterError(
            f"{fields['op']} needs {', '.join(names)} and op, "
            f"this filter has {', '.join(map(repr, sorted(fields.keys() - {'op'})))}"
        )
