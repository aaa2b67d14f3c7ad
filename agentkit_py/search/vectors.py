"""Vectors of texts: the embedder that makes them, where they are kept, and the nearest."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from math import sqrt
from operator import mul
from typing import TypeAlias

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py.errors import ConfigurationError

Vector: TypeAlias = Sequence[float]


class Embedder(Protocol):
    """Turns texts into vectors that are near each other where the texts mean the same."""

    @property
    def key(self) -> str:
        """Names the model and the length of its vectors: those of another are not compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return a vector for each text, in order."""
        ...


@runtime_checkable
class VectorIndex(Protocol):
    """Stores vectors with threads, and finds the nearest."""

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        ...

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id; ids that are there already stay as they are."""
        ...

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the ``k`` nearest of ``ids`` with their likeness (1: equal), best first."""
        ...


async def embed_all(embedder: Embedder, texts: Sequence[str]) -> Sequence[Vector]:
    """Return a vector for each text, in order.

    Raises:
        ConfigurationError: The embedder gave another number of vectors.
    """
    vectors = await embedder.embed(texts)
    if len(vectors) != len(texts):
        raise ConfigurationError(
            f"The embedder {embedder.key!r} gave {len(vectors)} vectors for {len(texts)} texts; it "
            "must return a vector for each."
        )
    return vectors


class MemoryIndex:
    """Vectors in memory, as long as the process lives."""

    def __init__(self) -> None:
        self._vectors: dict[tuple[str, str], dict[str, array[float]]] = {}

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        known = self._vectors.get((thread_id, key), {})
        return [one for one in ids if one not in known]

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id."""
        known = self._vectors.setdefault((thread_id, key), {})
        for one, vector in vectors.items():
            known.setdefault(one, normalized(vector))

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the nearest, best first."""
        known = self._vectors.get((thread_id, key), {})
        return nearest(vector, {one: known[one] for one in ids if one in known}, k)


_NEAR = 1e-6


def normalized(vector: Vector) -> array[float]:
    """Return the vector at length 1 with 4 bytes per number; a zero vector stays.

    Raises:
        ConfigurationError: It is not a list of numbers.
    """
    try:
        numbers = array("f", vector)
    except (TypeError, OverflowError) as error:
        raise ConfigurationError(f"An embedder gave {vector!r:.80}, not a vector.") from error
    length = sqrt(sum(map(mul, numbers, numbers)))
    # As near to 1 as 4 bytes can be: dividing again would only change last digits.
    if not length or abs(length - 1) < _NEAR:
        return numbers
    return array("f", (n / length for n in numbers))


def nearest(vector: Vector, known: Mapping[str, Vector], k: int) -> list[tuple[str, float]]:
    """Return the ``k`` vectors of ``known`` (at length 1) nearest to ``vector``, best first.

    Raises:
        ConfigurationError: The vectors are of different lengths.
    """
    sought = normalized(vector)
    for one, other in known.items():
        if len(other) != len(sought):
            raise ConfigurationError(
                f"Vectors of {len(sought)} and {len(other)} numbers ({one!r}) cannot be compared; "
                "give each embedding model its own key."
            )
    scored = ((one, sum(map(mul, sought, other))) for one, other in known.items())
    return nlargest(k, scored, key=lambda pair: (pair[1], pair[0]))
