"""State: data of every kind, forked, merged, dumped and loaded."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from agentkit_py._core.json import dumps, find_non_json
from agentkit_py.errors import InvalidRecordError, StateConflictError, StateError
from agentkit_py.messages import TextMessage, ToolCall, ToolResultMessage
from agentkit_py.results import AgentResult
from agentkit_py.state import State, create_state


class Mood(Enum):
    CALM = "calm"
    ANGRY = "angry"


@dataclass
class Ticket:
    customer: str = "Ann"
    tags: list[str] = field(default_factory=list[str])
    opened: datetime = datetime(2024, 1, 1, tzinfo=UTC)
    mood: Mood = Mood.CALM
    pair: tuple[int, int] = (1, 2)


class Order(BaseModel):
    model_config = ConfigDict(extra="allow")

    customer: str = "Ann"
    tags: list[str] = []
    ticket: Ticket = Ticket()


KINDS: list[Any] = [{"customer": "Ann", "tags": []}, Ticket(), Order()]


def customer_of(data: Any) -> str:
    """The customer, whatever kind of data it is."""
    return cast("str", data["customer"] if type(data) is dict else data.customer)


def set_customer(data: Any, name: str) -> None:
    """Change the customer, whatever kind of data it is."""
    if isinstance(data, dict):
        data["customer"] = name
    else:
        data.customer = name


def tags_of(data: Any) -> list[str]:
    """The tags, whatever kind of data it is."""
    return cast("list[str]", data["tags"] if type(data) is dict else data.tags)


@pytest.fixture(params=KINDS, ids=["dict", "dataclass", "pydantic"])
def state(request: pytest.FixtureRequest) -> State[Any]:
    """A state with data of each kind."""
    return State(request.param).clone()


def test_a_state_without_data_has_an_empty_dict_of_its_own() -> None:
    """States do not share it."""
    first: State[Any] = State()
    second: State[Any] = create_state()
    first.data["a"] = 1
    assert second.data == {}


@pytest.mark.parametrize("data", [[1], "x", 7, Ticket, None.__class__])
def test_data_of_another_kind_is_refused(data: Any) -> None:
    """A class is none of its instances."""
    with pytest.raises(StateError, match="a dict, a dataclass instance or a pydantic model"):
        State(data)


def test_a_clone_shares_nothing_that_can_change(state: State[Any]) -> None:
    """Nested data neither, nor the list of results; the thread is the same."""
    state.thread_id = "t"
    clone = state.clone()
    tags_of(clone.data).append("new")
    clone.append_result(AgentResult.from_user("hi"))
    assert tags_of(state.data) == []
    assert (len(state.transcript), len(clone.transcript), clone.thread_id) == (0, 1, "t")


def test_a_state_that_cannot_be_copied_is_an_error_that_names_the_key() -> None:
    """Locks and connections belong elsewhere."""
    with pytest.raises(StateError, match="'lock' cannot be copied"):
        State({"fine": 1, "lock": threading.Lock()}).clone()


def test_data_survives_dump_and_load(state: State[Any]) -> None:
    """Equal and of the same type, and the dump is JSON."""
    set_customer(state.data, "Bob")
    tags_of(state.data).append("vip")
    dumped = state.dump()
    assert find_non_json(dumped) is None
    other = State(type(state.data)())
    other.load(dumped)
    assert other.data == state.data
    assert type(other.data) is type(state.data)


def test_a_dump_does_not_change_with_the_data(state: State[Any]) -> None:
    """A loaded dump and the data of the state share no object."""
    dumped = state.dump()
    state.load(dumped)
    tags_of(state.data).append("new")
    assert dumped["tags"] == []


def test_forks_that_change_different_keys_are_merged(state: State[Any]) -> None:
    """Nested changes too."""
    forks = [("a", state.fork()), ("b", state.fork())]
    set_customer(forks[0][1].data, "Bob")
    tags_of(forks[1][1].data).append("new")
    state.merge(forks)
    assert (customer_of(state.data), tags_of(state.data)) == ("Bob", ["new"])


def test_forks_that_change_one_key_are_an_error_and_change_nothing(state: State[Any]) -> None:
    """It names the key and the two tools."""
    forks = [("a", state.fork()), ("b", state.fork()), ("c", state.fork())]
    tags_of(forks[0][1].data).append("new")
    for _, fork in forks[1:]:
        set_customer(fork.data, "Bob")
    with pytest.raises(StateConflictError, match=r"'b' and 'c' .* 'customer'") as caught:
        state.merge(forks)
    assert (caught.value.keys, caught.value.tools) == (("customer",), ("b", "c"))
    assert (customer_of(state.data), tags_of(state.data)) == ("Ann", [])


def test_keys_that_forks_add_and_remove_are_added_and_removed() -> None:
    """This holds for dicts, and for models with extra fields."""
    state = State[Any]({"old": 1, "kept": 2})
    a, b = state.fork(), state.fork()
    del a.data["old"]
    b.data["new"] = {"deep": [3]}
    state.merge([("a", a), ("b", b)])
    assert state.data == {"kept": 2, "new": {"deep": [3]}}

    model = State(Order())
    fork: State[Any] = model.fork()
    fork.data.note = "x"
    model.merge([("a", fork)])
    assert model.data.model_extra == {"note": "x"}


@pytest.mark.parametrize(("before", "after"), [(0, False), (1, 1.0), ([{"a": 1}], [{"a": True}])])
def test_a_fork_that_writes_an_equal_value_has_changed_it(before: Any, after: Any) -> None:
    """Python takes 0, 0.0 and False for the same; JSON does not."""
    state = State[Any]({"key": before})
    fork = state.fork()
    fork.data["key"] = after
    state.merge([("a", fork)])
    assert repr(state.data) == repr({"key": after})


def test_a_field_that_a_fork_lost_stays_in_a_model() -> None:
    """Models and dataclasses have no missing fields; only extra ones can go."""
    state = State(Order.model_validate({"note": "x"}))
    fork: State[Any] = state.fork()
    del fork.data.note
    state.merge([("a", fork)])
    assert state.data.model_extra == {"note": "x"}


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"a": {"b": [1, (2,)]}}, r"data\.a\.b\[1\]"),
        ({"a": {1: "x"}}, r"data\.a\.1"),
        ({"a": float("nan")}, r"data\.a"),
        ({"a": [float("inf")]}, r"data\.a\[0\]"),
        ({"a": {1, 2}}, r"data\.a"),
        ({"when": datetime.now(UTC)}, r"data\.when"),
    ],
)
def test_a_dict_that_is_not_json_is_an_error_that_names_the_key(data: Any, path: str) -> None:
    """The error comes at once, not when a replay decides otherwise than the first run."""
    with pytest.raises(StateError, match=path):
        State(data).dump()


class Secretive(BaseModel):
    _count: int = PrivateAttr(default=0)

    def count(self) -> None:
        """Change what a dump does not show."""
        self._count += 1


@dataclass
class Anything:
    fine: int = 1
    value: Any = None


@dataclass
class Locked:
    lock: threading.Lock = field(default_factory=threading.Lock)


def test_private_fields_that_a_dump_would_lose_are_an_error() -> None:
    """They come back with their defaults otherwise."""
    data = Secretive()
    State(data).dump()
    data.count()
    with pytest.raises(StateError, match="private or excluded field"):
        State(data).dump()


def test_a_value_that_json_would_change_is_an_error_that_names_the_field() -> None:
    """An untyped tuple comes back as a list."""
    with pytest.raises(StateError, match="'value' would change"):
        State(Anything(value=(1,))).dump()


@pytest.mark.parametrize(
    ("data", "name"), [(Anything(value=object()), "value"), (Locked(), "lock")]
)
def test_a_field_that_json_cannot_hold_is_an_error_that_names_it(data: Any, name: str) -> None:
    """The error is a `StateError`, whatever pydantic raised."""
    with pytest.raises(StateError, match=f"field '{name}' cannot"):
        State(data).dump()


@pytest.mark.parametrize("data", [Ticket(), Order()])
def test_a_stored_state_that_does_not_fit_is_an_error_that_names_the_field(data: Any) -> None:
    """The type may have changed since."""
    state = State(data)
    with pytest.raises(StateError, match=r"field 'tags\.0': Input should be a valid string"):
        state.load({"customer": "Ann", "tags": [7]})
    with pytest.raises(StateError, match=r"\(whole\)"):
        state.load(7)
    with pytest.raises(StateError, match="got 7"):
        State({}).load(7)


CALL = ToolCall("c", "look", {})
RESULT = AgentResult(
    "a",
    [TextMessage("assistant", "x")],
    [ToolResultMessage(CALL, 1)],
    datetime(2024, 1, 1, tzinfo=UTC),
)


def test_a_plain_state_of_typescript_is_read() -> None:
    """Both the private and the public names are read."""
    plain = {
        "data": {"k": 1},
        "threadId": "t",
        "_messages": [{"type": "text", "role": "user", "content": "m"}],
        "_results": [RESULT.to_dict()],
    }
    for given_plain in (plain, {key.lstrip("_"): value for key, value in plain.items()}):
        state = State[Any].from_dict(given_plain)
        assert (state.data, state.thread_id) == ({"k": 1}, "t")
        assert (state.messages, state.results) == ([TextMessage("user", "m")], [RESULT])


def test_a_state_survives_json() -> None:
    """Data, seed messages, results and thread."""
    state = State({"k": [1]}, messages=[TextMessage("user", "m")], results=[RESULT], thread_id="t")
    again = State[Any].from_dict(state.to_dict())
    assert (again.data, again.messages, again.results, again.thread_id) == (
        state.data, state.messages, state.results, "t",
    )  # fmt: skip
    assert list(State[Any]().to_dict()) == ["data", "results"]


@pytest.mark.parametrize(
    ("plain", "where", "name"),
    [
        ({"messages": 7}, "state", "messages"),
        ({"_results": {"0": {}}}, "state", "results"),
        ({"messages": [{"type": "text"}]}, "messages[0]", "role"),
        ({"results": [RESULT.to_dict(), {}]}, "results[1]", "agentName"),
    ],
)
def test_a_plain_state_that_is_wrong_is_an_error_that_names_the_key(
    plain: dict[str, Any], where: str, name: str
) -> None:
    """Clients send them."""
    with pytest.raises(InvalidRecordError) as caught:
        State[Any].from_dict(plain)
    assert (caught.value.where, caught.value.field) == (where, name)


def test_plain_data_that_is_no_object_is_an_error() -> None:
    """Typed data is made by the caller."""
    with pytest.raises(StateError, match="must be an object"):
        State[Any].from_dict({"data": [1]})


def test_history_is_seed_messages_then_each_results_output_and_tools() -> None:
    """The seed comes with the first result, and once."""
    seed = TextMessage("user", "m")
    state: State[Any] = State(messages=[seed], results=[RESULT, RESULT])
    assert state.format_history() == [seed, *RESULT.messages, *RESULT.messages]
    assert state.format_history(lambda result: result.output) == [
        seed,
        *RESULT.output,
        *RESULT.output,
    ]


def test_lists_that_a_state_hands_out_are_copies() -> None:
    """Changing them changes nothing."""
    state: State[Any] = State(messages=[TextMessage("user", "m")], results=[RESULT])
    state.results.clear()
    state.messages.clear()
    assert (len(state.messages), state.result_count) == (1, 1)
    state.set_results([])
    assert state.get_results_from(0) == []


def test_a_state_is_seeded_by_messages_or_results() -> None:
    """Data and a thread id seed nothing."""
    assert not State({"k": 1}, thread_id="t").is_seeded
    assert State(messages=[TextMessage("user", "m")]).is_seeded
    assert State(results=[RESULT]).is_seeded


jsons: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(), jsons, max_size=4))
def test_plain_json_is_dumped_as_it_is(data: dict[str, Any]) -> None:
    """Plain JSON has no values that need a conversion."""
    assert State(data).dump() == data
    assert find_non_json(data) is None
    assert dumps(data)


def asked(text: str) -> AgentResult:
    """Return a user's message as an entry."""
    return AgentResult.from_user(text, id=text)


def answered(text: str) -> AgentResult:
    """Return an agent's answer as a result."""
    return AgentResult("a", (TextMessage("assistant", text),), id=text)


def test_results_are_those_of_agents_and_the_transcript_has_the_user_turns_too() -> None:
    """Both keep their order."""
    entries = [asked("1?"), answered("1"), asked("2?"), answered("2")]
    state = State[Any](results=entries)
    assert state.transcript == entries
    assert state.results == [entries[1], entries[3]]
    assert (state.result_count, state.get_results_from(1)) == (2, [entries[3]])


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ([], ["3?"]),
        (["2"], ["2?", "2", "3?"]),
        (["1b"], ["1?", "1b", "3?"]),
        (["1", "2"], ["1?", "1", "2?", "2", "3?"]),
        (["new"], ["new", "3?"]),
    ],
)
def test_a_user_turn_goes_with_the_results_that_answered_it(
    kept: list[str], left: list[str]
) -> None:
    """One that nobody has answered stays, as the last one."""
    entries = [
        *[asked("1?"), answered("1"), answered("1b")],
        *[asked("2?"), answered("2"), asked("3?")],
    ]
    state = State[Any](results=entries)
    known = {entry.id: entry for entry in entries}
    state.set_results([known.get(name) or answered(name) for name in kept])
    assert [entry.id for entry in state.transcript] == left


def test_user_turns_stay_where_results_are_replaced_by_edited_ones() -> None:
    """A result is known by its id."""
    state = State[Any](results=[asked("1?"), answered("1"), asked("2?"), answered("2")])
    state.set_results([result.with_messages([]) for result in state.results])
    assert [entry.id for entry in state.transcript] == ["1?", "1", "2?", "2"]
    assert [entry.output for entry in state.results] == [(), ()]


def test_results_with_user_turns_replace_the_whole_transcript() -> None:
    """They are complete."""
    state = State[Any](results=[asked("1?"), answered("1")])
    state.set_results([asked("2?"), answered("2")])
    assert [entry.id for entry in state.transcript] == ["2?", "2"]
