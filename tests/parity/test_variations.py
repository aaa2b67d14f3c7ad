"""Beyond the recordings: model and library agree on variations of their scenarios.

The model with all divergences switched on says what we must do in scenarios that nobody recorded,
too. Here it is asked about recorded scenarios at other providers, and with one thing changed.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections.abc import Callable

import pytest

from . import canon
from .compare import shown
from .divergences import ALL_IDS
from .evidence import Documents
from .judge import judge, models
from .play import play
from .reference.core import Unsupported
from .swapped import OPTIONS, swapped
from .variations import VARIATIONS
from .vectors import Json, Vector

EVERY = int(os.environ.get("VARIATIONS_EVERY", "22"))
"""One recording in so many is taken for each variation; 1 takes all."""


def runs(vectors: list[Vector], begin: int) -> list[Vector]:
    """Some of the recorded runs."""
    found = [
        v
        for v in vectors
        if v.kind == "run" and not (v.not_applicable() or v.durable or v.spec.get("mcpServers"))
    ]
    return found[begin % EVERY :: EVERY]


def disagreement(vector: Vector, spec: dict[str, Json]) -> str | None:
    """Return the difference between model and library in a scenario; None: no difference."""
    other = dataclasses.replace(vector, data={**vector.data, "spec": spec})
    try:
        theirs, ours = models(other, ALL_IDS)
    except Unsupported:  # TypeScript would ask for more replies than there are
        return None
    played = play(spec, ours.replies)
    observed = canon.observed(played.observed)
    verdict = judge(Documents(theirs.document, theirs.document, ours.document, observed))
    return shown(verdict.differences, 4) or "\n".join(played.problems) or None


def all_disagreements(
    chosen: list[Vector], change: Callable[[dict[str, Json]], dict[str, Json] | None]
) -> dict[str, str]:
    """Return the differences by recording."""
    found: dict[str, str] = {}
    for vector in chosen:
        spec = change(copy.deepcopy(vector.spec))
        said = None if spec is None else disagreement(vector, spec)
        if said is not None:
            found[vector.name] = said
    return found


@pytest.mark.parametrize("provider", OPTIONS)
def test_at_another_provider(vectors: list[Vector], provider: str) -> None:
    """The scenario with all its models at one provider."""
    chosen = runs(vectors, list(OPTIONS).index(provider))
    assert all_disagreements(chosen, lambda spec: swapped(spec, provider)) == {}


@pytest.mark.parametrize("name", VARIATIONS)
def test_with_one_thing_changed(vectors: list[Vector], name: str) -> None:
    """Streamed, looped, stored, hooked and so on."""

    def change(spec: dict[str, Json]) -> dict[str, Json]:
        VARIATIONS[name](spec)
        return spec

    chosen = runs(vectors, list(VARIATIONS).index(name))
    assert all_disagreements(chosen, change) == {}


def is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def test_inside_inngest(vectors: list[Vector]) -> None:
    """The scenario as an Inngest function, whose code runs from its top for each step.

    Left out is what Inngest has its own errors for: a store's step that fails, a reply that is
    empty, or that holds half of a surrogate pair where the server itself asks the model.
    """

    def change(spec: dict[str, Json]) -> dict[str, Json] | None:
        for run in spec["runs"]:
            run["stepContext"] = "ctx"
        fails = "throw" in json.dumps(spec.get("histories"))
        fails = fails or any(reply.get("text") == "" for reply in spec["llm"])
        fails = fails or not is_unicode(json.dumps(spec["llm"], ensure_ascii=False))
        return None if fails else spec

    chosen = [vector for begin in (3, 7, 10) for vector in runs(vectors, begin)]
    assert all_disagreements(chosen, change) == {}
