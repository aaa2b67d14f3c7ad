"""Filters of documents by their metadata. Pure values.

Their meaning is two-valued: a document either passes or does not. It passes ``EQ``, ``GT`` and so
on only if it has the key, with one value (no list) of the same kind (text, number, truth value);
``NEQ`` and ``NOT`` are the exact opposite of what they negate, so that what has no such key passes.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.errors import FilterError
from agentkit_py.knowledge.metadata import Scalar, check_key, check_scalar, fold, kind_of

MAX_DEPTH = 10
MAX_PARTS = 200
MAX_VALUES = 1000

Facts = Mapping[str, Scalar | list[Scalar]]

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "GT": operator.gt,
    "GTE": operator.ge,
    "LT": operator.lt,
    "LTE": operator.le,
}


class FilterExpr(ABC):
    """A filter; ``a & b``, ``a | b`` and ``~a`` put filters together."""

    __slots__ = ()
    op: ClassVar[str] = ""

    @property
    def depth(self) -> int:
        """How deep filters stand in each other."""
        return 1

    @property
    def parts(self) -> int:
        """How many comparisons it consists of."""
        return 1

    @property
    @abstractmethod
    def keys(self) -> frozenset[str]:
        """Every key that it names."""

    @abstractmethod
    def matches(self, metadata: Facts) -> bool:
        """Whether a document with this metadata passes."""

    @abstractmethod
    def to_dict(self) -> JsonObject:
        """The filter as JSON."""

    @staticmethod
    def from_dict(given: object) -> FilterExpr:
        """The filter that `to_dict` gave.

        Raises:
            FilterError: It is none, or too deep.
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
    """Compares the value of one key."""

    key: str
    value: Scalar

    def __post_init__(self) -> None:
        """Check both."""
        check_key(self.key)
        check_scalar(self.value, f"{self.op}({self.key!r})")

    @property
    def keys(self) -> frozenset[str]:
        """The key."""
        return frozenset([self.key])

    def to_dict(self) -> JsonObject:
        """The filter as JSON."""
        return {"op": self.op, "key": self.key, "value": self.value}

    def _found(self, metadata: Facts) -> Any:
        """The document's value, if it is one and of the same kind; else None."""
        found = metadata.get(self.key)
        if found is None or isinstance(found, list) or kind_of(found) != kind_of(self.value):
            return None
        return found


class EQ(Comparison):
    """The value is equal."""

    __slots__ = ()
    op = "EQ"

    def matches(self, metadata: Facts) -> bool:
        """Whether it is."""
        return self._found(metadata) == self.value


class NEQ(Comparison):
    """The opposite of `EQ`."""

    __slots__ = ()
    op = "NEQ"

    def matches(self, metadata: Facts) -> bool:
        """Whether it is not equal, or not there."""
        return self._found(metadata) != self.value


class Ordered(Comparison):
    """Compares numbers, or texts by their code points."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check the value."""
        Comparison.__post_init__(self)
        if isinstance(self.value, bool):
            raise FilterError(f"{self.op}({self.key!r}): true and false have no order")

    def matches(self, metadata: Facts) -> bool:
        """Whether it stands so."""
        found = self._found(metadata)
        return found is not None and _ORDERS[self.op](found, self.value)


class GT(Ordered):
    """The value is greater."""

    __slots__ = ()
    op = "GT"


class GTE(Ordered):
    """The value is greater or equal."""

    __slots__ = ()
    op = "GTE"


class LT(Ordered):
    """The value is less."""

    __slots__ = ()
    op = "LT"


class LTE(Ordered):
    """The value is less or equal."""

    __slots__ = ()
    op = "LTE"


class CONTAINS(Comparison):
    """A list has the value as an item, or a text has it in it, whatever the case."""

    __slots__ = ()
    op = "CONTAINS"

    def matches(self, metadata: Facts) -> bool:
        """Whether it has."""
        found = metadata.get(self.key)
        if isinstance(found, list):
            return any(kind_of(one) == kind_of(self.value) and one == self.value for one in found)
        if isinstance(found, str) and isinstance(self.value, str):
            return fold(self.value) in fold(found)
        return False


class STARTSWITH(Comparison):
    """A text begins with the value."""

    __slots__ = ()
    op = "STARTSWITH"

    def __post_init__(self) -> None:
        """Check the value."""
        Comparison.__post_init__(self)
        if not isinstance(self.value, str):
            raise FilterError(f"STARTSWITH({self.key!r}) needs a text, not {self.value!r:.40}")

    def matches(self, metadata: Facts) -> bool:
        """Whether it does."""
        found = self._found(metadata)
        return found is not None and found.startswith(self.value)


@dataclass(frozen=True, slots=True)
class IN(FilterExpr):
    """The value is one of several."""

    key: str
    values: Sequence[Scalar]
    op = "IN"

    def __post_init__(self) -> None:
        """Check key and values."""
        check_key(self.key)
        values: Any = self.values
        if isinstance(values, str) or not isinstance(values, list | tuple | set | frozenset):
            raise FilterError(f"IN({self.key!r}) needs a list of values, not {values!r:.40}")
        items = tuple(cast("Sequence[object]", values))
        if len(items) > MAX_VALUES:
            raise FilterError(f"IN({self.key!r}) has {len(items)} values, at most {MAX_VALUES}")
        found = tuple(check_scalar(one, f"IN({self.key!r})") for one in items)
        object.__setattr__(self, "values", found)

    @property
    def keys(self) -> frozenset[str]:
        """The key."""
        return frozenset([self.key])

    def matches(self, metadata: Facts) -> bool:
        """Whether it is equal to one of them."""
        return any(EQ(self.key, one).matches(metadata) for one in self.values)

    def to_dict(self) -> JsonObject:
        """The filter as JSON."""
        return {"op": "IN", "key": self.key, "values": list(self.values)}


@dataclass(frozen=True, slots=True, init=False)
class Several(FilterExpr):
    """Puts filters together."""

    conditions: tuple[FilterExpr, ...]

    def __init__(self, *conditions: FilterExpr) -> None:
        """Check them.

        Raises:
            FilterError: There is none, one is no filter, or they are too many or too deep.
        """
        if not conditions:
            raise FilterError(f"{self.op}() needs at least one filter")
        for one in conditions:
            if not isinstance(one, FilterExpr):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not check their types
                raise FilterError(f"{self.op}(): {one!r:.80} is no filter")
        object.__setattr__(self, "conditions", conditions)
        _check_size(self)

    @property
    def depth(self) -> int:
        """How deep filters stand in it."""
        return 1 + max(one.depth for one in self.conditions)

    @property
    def parts(self) -> int:
        """How many comparisons it consists of."""
        return sum(one.parts for one in self.conditions)

    @property
    def keys(self) -> frozenset[str]:
        """Every key in it."""
        return frozenset[str]().union(*(one.keys for one in self.conditions))

    def to_dict(self) -> JsonObject:
        """The filter as JSON."""
        return {"op": self.op, "conditions": [one.to_dict() for one in self.conditions]}


class AND(Several):
    """All of them."""

    __slots__ = ()
    op = "AND"

    def matches(self, metadata: Facts) -> bool:
        """Whether all pass."""
        return all(one.matches(metadata) for one in self.conditions)


class OR(Several):
    """At least one of them."""

    __slots__ = ()
    op = "OR"

    def matches(self, metadata: Facts) -> bool:
        """Whether one passes."""
        return any(one.matches(metadata) for one in self.conditions)


@dataclass(frozen=True, slots=True)
class NOT(FilterExpr):
    """The opposite."""

    condition: FilterExpr
    op = "NOT"

    def __post_init__(self) -> None:
        """Check what is negated."""
        if not isinstance(self.condition, FilterExpr):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not check their types
            raise FilterError(f"NOT(): {self.condition!r:.80} is no filter")
        _check_size(self)

    @property
    def depth(self) -> int:
        """How deep filters stand in it."""
        return 1 + self.condition.depth

    @property
    def parts(self) -> int:
        """How many comparisons it consists of."""
        return self.condition.parts

    @property
    def keys(self) -> frozenset[str]:
        """Every key in it."""
        return self.condition.keys

    def matches(self, metadata: Facts) -> bool:
        """Whether it does not pass."""
        return not self.condition.matches(metadata)

    def to_dict(self) -> JsonObject:
        """The filter as JSON."""
        return {"op": "NOT", "condition": self.condition.to_dict()}


COMPARISONS: dict[str, type[Comparison]] = {
    kind.op: kind for kind in (EQ, NEQ, GT, GTE, LT, LTE, CONTAINS, STARTSWITH)
}
OPERATORS = (*COMPARISONS, "IN", "AND", "OR", "NOT")


def _check_size(one: FilterExpr) -> None:
    if one.depth > MAX_DEPTH or one.parts > MAX_PARTS:
        raise FilterError(
            f"A filter may be {MAX_DEPTH} deep and have {MAX_PARTS} comparisons; this one is "
            f"{one.depth} deep and has {one.parts}"
        )


def _flat(kind: type[Several], one: Any) -> tuple[Any, ...]:
    return one.conditions if type(one) is kind else (one,)


def _read(given: object, depth: int) -> FilterExpr:
    if depth > MAX_DEPTH:
        raise FilterError(f"A filter may be {MAX_DEPTH} deep; this one is deeper")
    fields = as_object(given)
    if fields is None:
        raise FilterError(f"{given!r:.80} is no filter, but should be an object with op")
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
            raise FilterError(f"There is no operator {op!r:.40}; there are {', '.join(OPERATORS)}")


def _only(fields: Mapping[str, Any], *names: str) -> None:
    if set(fields) != {"op", *names}:
        raise FilterError(
            f"{fields['op']} has {', '.join(names)} beside op, "
            f"this one has {', '.join(map(repr, sorted(fields.keys() - {'op'})))}"
        )
