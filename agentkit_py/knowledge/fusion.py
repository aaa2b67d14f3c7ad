"""Two rankings in one. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentkit_py.knowledge.documents import Hit

_SMOOTH = 60
"""The constant of reciprocal rank fusion: how little it matters to be first rather than second."""


def fused(*rankings: Sequence[Hit]) -> list[Hit]:
    """Reciprocal rank fusion: 1 for what all of them put first."""
    scores: dict[tuple[str, int], float] = {}
    hits: dict[tuple[str, int], Hit] = {}
    for ranking in rankings:
        for rank, one in enumerate(ranking, start=1):
            key = (one.document, one.position)
            hits.setdefault(key, one)
            scores[key] = scores.get(key, 0.0) + 1 / (_SMOOTH + rank)
    best = len(rankings) / (_SMOOTH + 1)
    ordered = sorted(hits, key=lambda key: (-scores[key], key))
    return [replace(hits[key], score=scores[key] / best) for key in ordered]
