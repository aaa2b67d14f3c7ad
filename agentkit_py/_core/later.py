"""Sequences that are put together when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class Later(Sequence[T_co]):
    """A tuple that is made when it is first read; equal to it, and as a copy it is one.

    For what a replay would put together again and almost never looks at.
    """

    __slots__ = ("_made", "_make", "_name")

    def __init__(self, make: Callable[[str], Sequence[T_co]], name: str) -> None:
        """Keep ``make``; it is called once at the most, with ``name``."""
        self._make: Callable[[str], Sequence[T_co]] | None = make
        self._name = name
        self._made: tuple[T_co, ...] = ()

    def _all(self) -> tuple[T_co, ...]:
        make = self._make
        if make is not None:  # two threads may both make it: they get equal ones
            self._made = tuple(make(self._name))
            self._make = None
        return self._made

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple | Later):
            return self._all() == tuple(other)  # pyright: ignore[reportUnknownArgumentType] - any tuple may be compared
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all(),)
