"""Every recording of the TypeScript package against our library."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import canon
from .compare import shown
from .conftest import checked
from .divergences import DIVERGENCES, NOTATION
from .judge import applied, documents, judge, pointer_problems
from .vectors import COMMITTED, Vector, load

Record = Callable[[str, Any], None]
SOURCES = {
    "agent.ts", "anthropic.ts", "gemini.ts", "grok.ts", "history.ts", "model.ts", "network.ts",
    "openai.ts", "processors.ts", "state.ts", "streaming.ts", "tool.ts", "types.ts", "@inngest/ai",
}  # fmt: skip
"""Where TypeScript does what a rule is about."""


def test_recording(vector: Vector, record_property: Record) -> None:
    """We do what TypeScript did, but for the differences that the manifest names."""
    waiting = vector.not_applicable()
    if waiting is not None:
        record_property("parity", "n/a")
        record_property("reason", waiting)
        pytest.skip(waiting)
    found = documents(vector)
    verdict = judge(found)
    divergences = applied(vector, found)
    problems = [*found.problems, *pointer_problems(vector)]
    passed = verdict.passed and not problems
    kind = "divergent" if set(divergences) - NOTATION else "notation" if divergences else "full"
    record_property("parity", kind if passed else "failed")
    record_property("divergences", divergences)
    assert not problems
    assert not verdict.conflicts, f"not what is replaced:\n{shown(verdict.conflicts)}"
    assert not verdict.differences, shown(verdict.differences)
    assert verdict.compared > 0, "nothing of the recording was compared"


def test_each_divergence_makes_a_difference(vectors: list[Vector], is_known: bool) -> None:
    """A recording meets it, or its entry names recordings outside the folder.

    A folder of others may lack what is rare, and may show what ours do not.
    """
    if not is_known:
        pytest.skip("these are not the recordings that the manifest was written for")
    unmet = {each.id for each in DIVERGENCES if not each.recorded_as}
    for vector in sorted(vectors, key=lambda one: len(str(one.data))):  # the large are slow
        if unmet and vector.not_applicable() is None:
            unmet.difference_update(applied(vector, documents(vector), unmet))
    assert unmet == set(), "met by no recording"


@pytest.mark.parametrize(
    "place", ["/checks", "/spec/states/checks", "/spec/networks/limits", "/expected/chunks"]
)
def test_a_recording_with_a_member_that_nothing_reads_fails(place: str) -> None:
    """It would be overlooked, and the recording would look compared."""
    vector = load(COMMITTED / "network.max_iter_router_still_called.json")
    *parents, name = place.removeprefix("/").split("/")
    spec = {"states": {"s": {}}, "networks": {"n": {}}, **vector.spec}
    data: Any = {**vector.data, "spec": spec, "expected": dict(vector.expected)}
    vector, at = replace(vector, data=data), data
    for parent in parents:
        at = at[parent]
    owner = next(iter(at.values())) if parents[1:] else at
    owner[name] = {}
    with pytest.raises(ValueError, match=f"does not read {place}"):
        documents(vector)


def test_a_limiters_tokenizer_may_be_an_argument_or_an_option(tmp_path: Path) -> None:
    """Both are one scenario."""
    forms: list[dict[str, Any]] = [
        {"type": "TokenLimiter", "options": {"limit": 9, "tokenizer": "chars"}},
        {"type": "TokenLimiter", "options": {"limit": 9}, "tokenizer": "chars"},
        {"type": "TokenLimiter", "options": {"limit": 9}, "customTokenizer": "chars"},
    ]
    found: list[Any] = []
    for form in forms:
        (tmp_path / "v.json").write_text(json.dumps({"name": "v", "p": form}), encoding="utf-8")
        found.append(load(tmp_path / "v.json").data["p"])
    assert found == [forms[2]] * 3


def test_tools_without_an_order_are_compared_by_their_names() -> None:
    """`unorderedTools`: two servers answer in any order."""
    chat = [{"function": {"name": name}} for name in ("b", "a")]
    gemini = [{"functionDeclarations": [{"name": "b"}, {"name": "a"}]}]
    made = canon.tools_by_name([{"tools": chat}, {"tools": gemini}])
    assert made[0]["tools"] == chat[::-1]
    assert made[1]["tools"][0]["functionDeclarations"] == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_without_recordings_is_refused(tmp_path: Path, there: bool) -> None:
    """A run of nothing must not look like one in which all is well."""
    folder = tmp_path / "vectors"
    if there:
        folder.mkdir()
        (folder / "vector.schema.json").write_text("{}", encoding="utf-8")
    said = "holds no recordings" if there else "there is no such folder"
    with pytest.raises(pytest.UsageError, match=said):
        checked(folder)
    assert checked(COMMITTED) == COMMITTED


def test_divergences_have_one_name_each_and_say_why() -> None:
    """The manifest is what people read."""
    names = [each.id for each in DIVERGENCES]
    assert len(set(names)) == len(names)
    for each in DIVERGENCES:
        assert each.difference.endswith("."), each.id
        assert each.why.endswith("."), each.id
        file, _, name = each.source.partition(" ")
        assert name, each.id
        assert file in SOURCES, each.id
