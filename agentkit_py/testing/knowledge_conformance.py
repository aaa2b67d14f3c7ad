"""Conformance checks for stores of documents, with or without pytest.

Each check is an async function of a new, empty store; it raises `AssertionError` if the store does
not keep a promise. With pytest::

    from agentkit_py.testing.knowledge_conformance import KnowledgeCheck, knowledge_checks

    @pytest.mark.parametrize("check", knowledge_checks(), ids=str)
    async def test_my_store(check: KnowledgeCheck) -> None:
        store = MyKnowledge(...)
        await check(store)
        await store.close()
"""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import anyio

from agentkit_py.errors import KnowledgeError
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
    Document,
    DocumentChunk,
    FilterExpr,
    Hit,
    KnowledgeStore,
)
from agentkit_py.testing.store_conformance import StoreCheck

__all__ = ["KnowledgeCheck", "knowledge_checks"]

EMBEDDER = "words:3"
"""The embedder that the checks' vectors are from."""

_METADATA: Sequence[Mapping[str, Any]] = (
    {},
    {"n": 1, "kind": "a"},
    {"n": 1.5, "kind": "A"},
    {"n": -2, "kind": "ab", "tags": ["x", "y"]},
    {"n": True, "tags": ["x", 1, False]},
    {"n": "1", "tags": []},
    {"kind": "%_'; --", "a.b": "é", "tags": ["%"]},
    {"kind": "STRASSE \U0001f600", "a.b": "straße"},
)
"""Metadata that filters distinguish."""

_LEAVES: Sequence[FilterExpr] = (
    *(EQ("n", value) for value in (1, 1.0, True, "1", 1.5)),
    *(EQ("kind", value) for value in ("a", "A", "%_'; --", "")),
    *(NEQ("n", value) for value in (1, "1")),
    NEQ("missing", 1),
    *(GT("n", 1), GTE("n", 1), LT("n", 1), LTE("n", 1.5), GT("kind", "a"), LTE("kind", "ab")),
    *(IN("n", [1, "1"]), IN("kind", ["a", "ab"]), IN("kind", [])),
    *(CONTAINS("tags", value) for value in ("x", 1, True, "%")),
    *(CONTAINS("kind", value) for value in ("A", "strasse", "%")),
    *(STARTSWITH("kind", "a"), STARTSWITH("kind", "%"), STARTSWITH("a.b", "é")),
    *(EQ("source", "doc-1"), STARTSWITH("source", "doc-")),
)
_FILTERS: Sequence[FilterExpr] = (
    *_LEAVES,
    *(NOT(leaf) for leaf in _LEAVES[::2]),
    AND(GT("n", 0), CONTAINS("tags", "x")),
    OR(EQ("kind", "a"), EQ("a.b", "é")),
    AND(NOT(EQ("kind", "a")), OR(GT("n", 1), EQ("n", "1"))),
    NOT(OR(EQ("kind", "a"), NOT(CONTAINS("tags", "x")))),
)


KnowledgeCheck: TypeAlias = StoreCheck[KnowledgeStore]
"""One promise of a store of documents."""


def knowledge_checks() -> list[KnowledgeCheck]:
    """Return the checks that every store of documents has to pass."""
    found = [
        value
        for name, value in globals().items()
        if inspect.iscoroutinefunction(value) and not name.startswith("_")
    ]
    return [KnowledgeCheck.of(function) for function in found]


def _document(name: str, metadata: Mapping[str, Any] | None = None, content: str = "1") -> Document:
    return Document(id=f"id-{name}", source=name, hash=content, metadata=dict(metadata or {}))


def _chunk(text: str, vector: Sequence[float] = (1.0, 0.0, 0.0)) -> DocumentChunk:
    return DocumentChunk(text, array("f", vector))


async def _add(
    store: KnowledgeStore, name: str, *texts: str, metadata: Mapping[str, Any] | None = None
) -> Document:
    document = _document(name, metadata)
    await store.put(document, [_chunk(text) for text in texts], EMBEDDER)
    return document


async def _near(store: KnowledgeStore, filters: FilterExpr | None = None, k: int = 50) -> list[Hit]:
    return await store.nearest([1.0, 0.0, 0.0], EMBEDDER, filters, k)


async def an_empty_store_finds_nothing(store: KnowledgeStore) -> None:
    """Before the first document each method has an answer, and none is an error."""
    assert await store.get("id") is None
    assert await store.count() == (0, 0)
    assert await store.keys(None, 5) == {}
    assert await store.remove(None) == 0
    assert await _near(store) == []
    assert await store.matching("word", None, 5) == []


async def a_document_is_read_as_it_was_stored(store: KnowledgeStore) -> None:
    """Id, source, hash and metadata come back, with the types of all values."""
    for number, metadata in enumerate(_METADATA):
        document = await _add(store, f"doc-{number} '\"é", "text", metadata=metadata)
        found = await store.get(document.id)
        assert found == document, found
        assert found is not None
        assert str(found.metadata) == str(document.metadata), "1, 1.0 and True are different"
    assert await store.get("another") is None
    assert await store.count() == (len(_METADATA), len(_METADATA))


async def a_document_replaces_the_one_with_its_id(store: KnowledgeStore) -> None:
    """Of the older version no chunk, no word and no metadata is found."""
    await _add(store, "a", "older apple", "second apple", metadata={"old": 1})
    newer = _document("a", {"new": 2}, "2")
    await store.put(newer, [_chunk("pear")], EMBEDDER)
    assert await store.get(newer.id) == newer
    assert await store.count() == (1, 1)
    assert [hit.text for hit in await _near(store)] == ["pear"]
    assert await store.matching("apple", None, 5) == []
    assert await store.keys(None, 5) == {"new": [2]}
    assert await store.count(EQ("old", 1)) == (0, 0)


async def a_document_may_have_no_chunks(store: KnowledgeStore) -> None:
    """An empty text is a document, too; also one that replaces a longer one."""
    await _add(store, "a", "apple")
    document = await _add(store, "a")
    assert await store.get(document.id) == document
    assert await store.count() == (1, 0)
    assert await _near(store) == []


async def vectors_of_another_embedder_are_refused(store: KnowledgeStore) -> None:
    """They cannot be compared: neither stored nor searched with, and nothing is changed."""
    await _add(store, "a", "apple")
    for embedder, vector in (("other:3", [1.0, 0.0, 0.0]), (EMBEDDER, [1.0, 0.0])):
        chunk = DocumentChunk("pear", array("f", vector))
        for name in ("a", "b"):
            try:
                await store.put(_document(name, content="2"), [chunk], embedder)
            except KnowledgeError:
                continue
            raise AssertionError(f"put took vectors of {embedder}, {len(vector)} numbers each")
        try:
            await store.nearest(vector, embedder, None, 5)
        except KnowledgeError:
            continue
        raise AssertionError(f"nearest compared vectors of {embedder}")
    assert [hit.text for hit in await _near(store)] == ["apple"]
    assert await store.count() == (1, 1)


async def the_nearest_chunks_come_first(store: KnowledgeStore) -> None:
    """In the order of their likeness, at most as many as asked for; 1 is the same direction."""
    vectors = {"same": (1, 0, 0), "near": (0.8, 0.6, 0), "far": (0, 1, 0), "away": (-1, 0, 0)}
    chunks = [_chunk(name, vectors[name]) for name in ("far", "same", "away", "near")]
    document = _document("a", {"n": 1})
    await store.put(document, chunks, EMBEDDER)
    hits = await store.nearest([2.0, 0.0, 0.0], EMBEDDER, None, 4)
    assert [hit.text for hit in hits] == ["same", "near", "far", "away"]
    for hit, likeness in zip(hits, (1, 0.8, 0, -1), strict=True):
        assert abs(hit.score - likeness) < 0.01, (hit.text, hit.score)  # noqa: PLR2004 - of floats
    assert [hit.text for hit in await _near(store, k=2)] == ["same", "near"]
    assert [hit.position for hit in hits] == [1, 3, 0, 2]
    facts = {(hit.document, hit.source, str(hit.metadata)) for hit in hits}
    assert facts == {(document.id, "a", "{'n': 1}")}


async def a_vector_of_zeros_is_near_to_nothing(store: KnowledgeStore) -> None:
    """A text without words may have such a vector. It is not an error; all scores are numbers."""
    document = _document("a")
    await store.put(document, [_chunk("zero", (0, 0, 0)), _chunk("one")], EMBEDDER)
    assert (await _near(store))[0].text == "one"
    for hit in await store.nearest([0.0, 0.0, 0.0], EMBEDDER, None, 5):
        assert hit.score == hit.score, "a score is a number"


async def all_methods_take_what_passes_a_filter(store: KnowledgeStore) -> None:
    """Exactly the documents that `Document.passes` allows, by Python's rules for case and type."""
    documents = [
        await _add(store, f"doc-{number}", "one word", metadata=metadata)
        for number, metadata in enumerate(_METADATA)
    ]
    for filters in _FILTERS:
        passing = {one.source for one in documents if one.passes(filters)}
        near = {hit.source for hit in await _near(store, filters)}
        assert near == passing, (filters, near, passing)
        worded = {hit.source for hit in await store.matching("word", filters, 50)}
        assert worded == passing, (filters, worded, passing)
        assert await store.count(filters) == (len(passing), len(passing)), filters
        keys = {key for one in documents if one.passes(filters) for key in one.metadata}
        found = set(await store.keys(filters, 1))
        assert found >= {key for key in keys if key != "tags"}, (filters, found)
        assert found <= keys, (filters, found)


async def a_filter_leaves_as_many_hits_as_there_are(store: KnowledgeStore) -> None:
    """The k best of those that pass, and not those of the k best that pass."""
    for number in range(30):
        await _add(store, f"other-{number}", "apple", metadata={"tenant": "a"})
    hidden = _document("own", {"tenant": "b"})
    await store.put(hidden, [_chunk("apple pie", (0.6, 0.8, 0.0))], EMBEDDER)
    filters = EQ("tenant", "b")
    assert [hit.source for hit in await _near(store, filters, 3)] == ["own"]
    assert [hit.source for hit in await store.matching("apple", filters, 3)] == ["own"]


async def documents_are_removed_by_id_and_by_filter(store: KnowledgeStore) -> None:
    """Those that pass, of the ids if some are given; their number is returned."""
    for name, kind in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")):
        await _add(store, name, f"text {name}", metadata={"kind": kind})
    assert await store.remove(None, ["id-a", "id-none"]) == 1
    assert await store.remove(None, []) == 0
    assert await store.remove(EQ("kind", "y"), ["id-b"]) == 0
    assert await store.remove(EQ("kind", "x")) == 1
    assert {hit.source for hit in await _near(store)} == {"c", "d"}
    assert {hit.source for hit in await store.matching("text", None, 9)} == {"c", "d"}
    assert await store.keys(None, 5) == {"kind": ["y"]}
    assert await store.remove(None) == 2  # noqa: PLR2004 - all that is left
    assert await store.count() == (0, 0)


async def telling_words_are_found_first(store: KnowledgeStore) -> None:
    """A rare word of the query weighs more than a common one; a score is about 1 for all words."""
    for number in range(20):
        await _add(store, f"common-{number}", "payment was made for the order")
    await _add(store, "code", "error ERR-4012 of a payment")
    await _add(store, "soup", "lemongrass soup")
    hits = await store.matching("payment ERR-4012", None, 3)
    assert hits[0].source == "code"
    assert len(hits) == 3  # noqa: PLR2004 - as asked for
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score > 0 for hit in hits)
    (found,) = await store.matching("lemongrass soup", None, 5)
    assert 0.5 < found.score < 2, found.score  # noqa: PLR2004 - about 1
    assert (found.document, found.position, found.text) == ("id-soup", 0, "lemongrass soup")
    assert await store.matching("nothing-of-this", None, 5) == []


async def signs_and_operators_are_words_like_any_other(store: KnowledgeStore) -> None:
    """A query is never a program: each is answered, whatever is in it."""
    await _add(store, "a", "AND OR NOT NEAR text")
    queries = ("", "   ", "'\"", 'text" OR *', "NEAR(", "a & !b | <-> c", "%s %", "?", "--", "{}")
    for query in queries:
        await store.matching(query, None, 5)
    assert await store.matching('text" OR *', None, 5)


async def keys_come_with_their_most_frequent_values(store: KnowledgeStore) -> None:
    """At most as many as asked for; values of lists count each for itself."""
    for number in range(3):
        await _add(store, f"often-{number}", "t", metadata={"kind": "often", "tags": ["x", "y"]})
    await _add(store, "seldom", "t", metadata={"kind": "seldom", "tags": ["x"]})
    keys = await store.keys(None, 1)
    assert keys == {"kind": ["often"], "tags": ["x"]}, keys
    assert (await store.keys(EQ("kind", "seldom"), 5)) == {"kind": ["seldom"], "tags": ["x"]}
    assert await store.keys(None, 0) == {"kind": [], "tags": []}


async def values_of_keys_keep_their_types(store: KnowledgeStore) -> None:
    """`True`, 1 and "1" are three values."""
    for number, value in enumerate((True, True, True, "1", "1", 1)):
        await _add(store, f"doc-{number}", "t", metadata={"flag": value})
    found = (await store.keys(None, 5))["flag"]
    assert [(type(value), value) for value in found] == [(bool, True), (str, "1"), (int, 1)], found


async def a_document_that_is_put_by_several_at_once_is_there_once(store: KnowledgeStore) -> None:
    """Also if they are the first of all; others of the same moment are not lost."""

    async def put(number: int) -> None:
        await _add(store, f"doc-{number % 3}", "apple", "pear")

    async with anyio.create_task_group() as group:  # noqa: TID251 - no engine code is in it
        for number in range(9):
            group.start_soon(put, number)
    assert await store.count() == (3, 6)
    assert len(await _near(store)) == 6  # noqa: PLR2004 - two of each


async def a_closed_store_is_opened_by_its_next_use(store: KnowledgeStore) -> None:
    """Closing twice is allowed."""
    await _add(store, "a", "apple")
    await store.close()
    await store.close()
    await _add(store, "b", "pear")
    assert await store.get("id-b") is not None
