"""JSON that grows: what was written before is not written again, and all reads as it did."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py._core.json import Growing, dumps, to_bytes

TEXTS = st.text(st.characters(exclude_categories=()))  # halves of surrogate pairs among them
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)


def _tried(write: Any, body: dict[str, Any]) -> bytes | str:
    try:
        found = write(body)
    except (TypeError, ValueError) as error:
        return repr(error)
    return found if isinstance(found, bytes) else found.encode()


@given(rounds=st.lists(st.tuples(st.lists(OBJECTS, max_size=3), st.booleans())), head=OBJECTS)
def test_a_growing_conversation_is_encoded_like_a_new_one(
    rounds: list[tuple[list[dict[str, Any]], bool]], head: dict[str, Any]
) -> None:
    """Byte for byte and error for error, also where the last object is exchanged for another."""
    grown = Growing()
    for more, exchanged in rounds:
        grown = copy(grown)
        if exchanged and grown:
            grown[-1] = {**grown[-1], "more": len(grown)}
        grown += more
        body = {"first": 1, **head, "turns": grown, "last": [grown]}
        assert _tried(to_bytes, body) == _tried(dumps, body)
        fewer = {"turns": Growing(grown[:1], grown.written)}
        assert _tried(to_bytes, fewer) == _tried(dumps, fewer)


@pytest.mark.parametrize("wild", [float("nan"), {1, 2}, object()])
def test_values_that_json_cannot_hold_are_refused(wild: object) -> None:
    """Whether it is in what grows or beside it."""
    for body in ({"turns": Growing([{"a": wild}])}, {"turns": Growing(), "beside": wild}):
        refused = _tried(to_bytes, body)
        assert isinstance(refused, str)
        assert refused == _tried(dumps, body)
