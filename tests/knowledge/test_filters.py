"""Filters: what they mean, their JSON, and their limits."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.knowledge import (
    AND,
    CONTAINS,
    EQ,
    GT,
    GTE,
    IN,
    LT,
    LTE,
    NEQ,
    NOT,
    OR,
    STARTSWITH,
    FilterError,
    FilterExpr,
)

SCALARS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5]),
    st.booleans(),
)
KEYS = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(
    st.builds(EQ, KEYS, SCALARS),
    st.builds(NEQ, KEYS, SCALARS),
    st.builds(CONTAINS, KEYS, SCALARS),
    st.builds(GT, KEYS, st.integers(-3, 3)),
    st.builds(LTE, KEYS, st.text("abc", max_size=2)),
    st.builds(STARTSWITH, KEYS, st.text("abc", max_size=2)),
    st.builds(IN, KEYS, st.lists(SCALARS, max_size=3)),
)
TREES: st.SearchStrategy[FilterExpr] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AND, inner, inner), st.builds(OR, inner, inner), st.builds(NOT, inner)
    ),
    max_leaves=6,
)


def test_python_operators_combine_filters() -> None:
    """Nested filters of one kind are flattened."""
    both = EQ("a", 1) & GT("b", 2) & LT("b", 5)
    assert both == AND(EQ("a", 1), GT("b", 2), LT("b", 5))
    assert EQ("a", 1) | EQ("a", 2) == OR(EQ("a", 1), EQ("a", 2))
    assert ~EQ("a", 1) == NOT(EQ("a", 1))


@given(TREES)
def test_a_filter_comes_back_from_its_json(tree: FilterExpr) -> None:
    """The filters are random trees."""
    assert FilterExpr.from_dict(tree.to_dict()) == tree


@pytest.mark.parametrize(
    ("tree", "metadata", "passes"),
    [
        (EQ("a", 1), {"a": 1.0}, True),
        (EQ("a", 1), {"a": True}, False),
        (EQ("a", "1"), {"a": 1}, False),
        (EQ("a", "x"), {"a": ["x"]}, False),
        (EQ("a", "x"), {}, False),
        (NEQ("a", "x"), {}, True),
        (NOT(GT("a", 1)), {}, True),
        (GTE("a", 2), {"a": 2}, True),
        (LT("a", "b"), {"a": "a"}, True),
        (CONTAINS("a", "RAß"), {"a": "straSSe"}, True),
        (CONTAINS("a", "x"), {"a": ["x", "y"]}, True),
        (CONTAINS("a", "x"), {"a": ["xy"]}, False),
        (STARTSWITH("a", "Th"), {"a": "Thai"}, True),
        (STARTSWITH("a", "th"), {"a": "Thai"}, False),
        (IN("a", ["x", 1]), {"a": 1}, True),
        (IN("a", []), {"a": 1}, False),
    ],
)
def test_a_filter_has_the_meaning_that_the_guide_describes(
    tree: FilterExpr, metadata: dict[str, Any], passes: bool
) -> None:
    """Kinds are never mixed, and what is missing passes only negations."""
    assert tree.matches(metadata) is passes


def deep(levels: int) -> dict[str, Any]:
    """A filter so deep."""
    found: dict[str, Any] = {"op": "EQ", "key": "a", "value": 1}
    for _ in range(levels - 1):
        found = {"op": "NOT", "condition": found}
    return found


def test_a_filter_has_a_greatest_depth() -> None:
    """The limit holds for JSON and for Python."""
    assert FilterExpr.from_dict(deep(10)).depth == 10
    with pytest.raises(FilterError, match="10 deep"):
        FilterExpr.from_dict(deep(11))
    with pytest.raises(FilterError, match="10 deep"):
        NOT(FilterExpr.from_dict(deep(10)))
    with pytest.raises(FilterError, match="10 deep"):
        FilterExpr.from_dict(deep(100_000))
    with pytest.raises(FilterError, match="200 comparisons"):
        OR(*(EQ("a", i) for i in range(201)))


@pytest.mark.parametrize(
    "given_json",
    [
        None,
        [],
        "a = 1",
        {},
        {"op": "eq", "key": "a", "value": 1},
        {"op": "EQ", "key": "a"},
        {"op": "EQ", "key": "a", "value": 1, "or": 2},
        {"op": "EQ", "key": "a' OR 1=1 --", "value": 1},
        {"op": "EQ", "key": 1, "value": 1},
        {"op": "EQ", "key": "a", "value": None},
        {"op": "EQ", "key": "a", "value": {"b": 1}},
        {"op": "EQ", "key": "a", "value": 2**60},
        {"op": "EQ", "key": "a", "value": float("nan")},
        {"op": "EQ", "key": "a", "value": "\0"},
        {"op": "GT", "key": "a", "value": True},
        {"op": "STARTSWITH", "key": "a", "value": 1},
        {"op": "IN", "key": "a", "values": "abc"},
        {"op": "AND", "conditions": []},
        {"op": "AND", "conditions": {"op": "EQ", "key": "a", "value": 1}},
        {"op": "NOT", "condition": []},
    ],
)
def test_invalid_json_of_a_filter_is_refused(given_json: Any) -> None:
    """Nothing is guessed and nothing left out."""
    with pytest.raises(FilterError):
        FilterExpr.from_dict(given_json)


def test_importing_knowledge_loads_no_database() -> None:
    """Each loads when a store is first used."""
    slow = ["apsw", "numpy", "psycopg", "pypdf", "semantic_text_splitter", "sqlite3"]
    slow += ["numpy", "fastembed", "onnxruntime", "tokenizers"]
    script = f"import sys, agentkit_py.knowledge; print(*[m for m in {slow} if m in sys.modules])"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
