"""State: the typed data, transcript, seed messages and thread of a run."""

from __future__ import annotations

import copy
import dataclasses
import logging
import re
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, cast

from typing_extensions import TypeVar

from agentkit_py._core.json import JsonValue, find_non_json
from agentkit_py._core.spellings import explained, options_spelled_here, spelled_here
from agentkit_py._core.untrusted import get_logger
from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import InvalidRecordError, StateConflictError, StateError
from agentkit_py.messages import MediaContent, Message, TextContent, TextMessage
from agentkit_py.results import USER, AgentResult, sided

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

logger: logging.Logger = get_logger("agentkit_py")

_PLAIN_KEYS = frozenset(
    {"data", "messages", "_messages", "results", "_results", "threadId", "kv", "_kv", "_data"}
    | {"notLoaded"}
)
"""The keys of a plain state, in the TypeScript package's spellings too."""

_MENTION = re.compile(r"(?<![\w@.])@((?>\w(?:[\w-]*\w)?))(?!\.\w)")
"""A name after ``@``: all of it or, where an address continues, nothing."""

D = TypeVar("D", default=dict[str, Any])

T = TypeVar("T")

StateT = TypeVar("StateT", default=Any)
"""The type of the data that agents, tools, hooks and routers share."""


TENANT_KEYS = ("tenant", "tenant_id", "tenantId")
"""The names of state data that name its tenant, the first that exists."""


@options_spelled_here
@spelled_here
class State(Generic[D]):
    """Typed data, the transcript so far, and the thread it belongs to.

    Attributes:
        data: A dict, dataclass instance or pydantic model of the user's. Tools, hooks and routers
            read and change it.
        thread_id: The thread this state belongs to, once it exists.
        not_loaded: How many older entries the thread has that are not in `transcript`.
        goes_on_with: A run takes the data of its thread's last run, where the store keeps it, with
            these values over it; None: it begins with the data that are here.
        context_id: Name of the run that the state is of: ``"main"``, or that of a run nested in it.
        parent_context: Name of the run that contains this run; or None.
    """

    def __init__(
        self,
        data: D | None = None,
        *,
        messages: Iterable[Message | Mapping[str, Any]] | None = (),
        results: Iterable[AgentResult | Mapping[str, Any]] | None = (),
        thread_id: str | None = None,
    ) -> None:
        """Begin a state.

        Args:
            data: The data; an empty dict unless given.
            messages: Messages from before all results, e.g. those of a client; as JSON, too.
            results: Results so far, user turns among them, as JSON, too; a run that is given
                messages or results loads no thread.
            thread_id: The thread to continue.

        Raises:
            StateError: ``data`` is of no kind that can be used, messages or results are none, or
                the thread id is not a text.
            InvalidRecordError: A message or result given as JSON is not readable.
        """
        start = cast("D", {}) if data is None else data
        check_kind(start)
        self.data: D = start
        if not (thread_id is None or isinstance(thread_id, str)):
            raise StateError(f"State thread_id must be a text, got {thread_id!r:.80}: write str(…)")
        self.thread_id = thread_id
        self.not_loaded: int = 0
        self.goes_on_with: Mapping[str, Any] | None = None
        self.context_id: str = "main"
        self.parent_context: str | None = None
        self._messages = tuple(_read(messages, "messages", Message, message_from_dict))
        self._transcript = _read(results, "results", AgentResult, AgentResult.from_dict)

    @property
    def kv(self) -> MutableMapping[str, Any]:
        """The data as a mapping, of whatever kind it is: ``state.kv["plan"] = "gold"``."""
        return DataView(self.data)

    @property
    def messages(self) -> list[Message]:
        """The seed messages (a copy)."""
        return list(self._messages)

    @property
    def transcript(self) -> list[AgentResult]:
        """User turns and agents' results, in order (a copy of the list).

        A user turn is a result of the author ``"user"``; the staff's messages are among them. Each
        message of a run says whether it is from before that run (``from_history``). Of a thread in
        a store that loads lazily these are the newest entries, as many as processors have wanted
        to see: ``not_loaded`` more come before them. All are there where no processor bounds the
        history, or with ``lazy=False``.
        """
        return list(self._transcript)

    @property
    def results(self) -> list[AgentResult]:
        """The results of agents so far (a copy of the list); see `transcript` for user turns."""
        return [e for e in self._transcript if e.agent_name != USER and e.staff is None]

    @property
    def result_count(self) -> int:
        """The number of results."""
        return len(self.results)

    @property
    def loops(self) -> int:
        """The number of inferences that the current (or last) run has made with this state."""
        return sum(any(m.from_history is False for m in e.messages) for e in self.results)

    @property
    def todos(self) -> list[dict[str, Any]]:
        """The list that `agentkit_py.tools.todo_write` keeps in the data (a copy)."""
        return [dict(item) for item in self.kv.get("todos") or ()]

    @property
    def mentions(self) -> list[str]:
        """The names after ``@`` in the user's newest message, in order, each once."""
        said = next((e.messages for e in reversed(self._transcript) if e.agent_name == USER), ())
        text = " ".join(m.text for m in said if isinstance(m, TextMessage))
        return list(dict.fromkeys(_MENTION.findall(text)))

    @property
    def uploaded_files(self) -> list[MediaContent]:
        """The images and files that the user sent, in order, as far as they are in `transcript`."""
        said = (m for e in self._transcript if e.agent_name == USER for m in e.messages)
        return [
            part
            for message in said
            if isinstance(message, TextMessage) and not isinstance(message.content, str)
            for part in message.content
            if not isinstance(part, TextContent)
        ]

    @property
    def is_seeded(self) -> bool:
        """True if the caller gave messages or results, so that nothing is loaded."""
        return bool(self._messages or self._transcript)

    def append_result(self, result: AgentResult) -> None:
        """Add a result, or a user turn, at the end."""
        self._transcript.append(result)

    def prepend(self, entries: Iterable[AgentResult]) -> None:
        """Put older entries of the thread, which were loaded later, before all others."""
        self._transcript[:0] = [entry.on_side(past=True) for entry in entries]

    def set_results(self, results: Iterable[AgentResult]) -> None:
        """Replace all results; an edited result is recognised by its id.

        A user turn goes when all results that answered it go. Results that hold user turns of their
        own replace the whole transcript.
        """
        new = list(results)
        if any(not result.by_agent for result in new):
            self.set_transcript(new)
            return
        kept = set(map(_identity, new))
        turns: dict[int | str, list[AgentResult]] = {}
        unanswered: list[AgentResult] = []
        for asked, answers in self._exchanges():
            first = next((one for one in map(_identity, answers) if one in kept), None)
            if first is not None:
                turns[first] = asked
            elif not answers:
                unanswered = asked
        entries = [entry for result in new for entry in (*turns.pop(_identity(result), ()), result)]
        self.set_transcript([*entries, *unanswered])

    def _exchanges(self) -> list[tuple[list[AgentResult], list[AgentResult]]]:
        """User turns with the results that answered them."""
        found: list[tuple[list[AgentResult], list[AgentResult]]] = [([], [])]
        for entry in self._transcript:
            asked, answers = found[-1]
            if entry.by_agent:
                answers.append(entry)
            elif answers:
                found.append(([entry], []))
            else:
                asked.append(entry)
        return found

    def set_transcript(self, entries: Iterable[AgentResult]) -> None:
        """Replace all user turns and results.

        Entries that are not loaded stay before them if the first is the same as before;
        otherwise they do not belong to this state any more.
        """
        new = list(entries)
        if not new or new[0] is not next(iter(self._transcript), None):
            self.not_loaded = 0
        self._transcript = new

    def load_transcript(self, entries: Iterable[AgentResult]) -> None:
        """Replace all user turns and results by a store's data."""
        self.set_transcript([entry.on_side(past=True) for entry in entries])

    def enter_thread(self, thread_id: str | None) -> None:
        """Make it the state of a thread."""
        self.thread_id = thread_id

    def leave_out(self, count: int) -> None:
        """Note how many older entries of the thread are not loaded."""
        self.not_loaded = count

    def replace_data(self, data: D) -> None:
        """Put other data in the place of its own."""
        self.data = data

    def nest(self, context_id: str, parent_context: str | None) -> None:
        """Make it the state of a nested run, whose thread has the name of the run.

        Data that are a dict hold both names, too.
        """
        self.thread_id = self.context_id = context_id
        self.parent_context = parent_context
        data: object = self.data
        if isinstance(data, dict):
            place = {"context_id": context_id, "parent_context": parent_context}
            cast("dict[str, Any]", data).update(place)

    def mark_past(self) -> None:
        """Mark the messages of earlier runs as from before the run that begins.

        Messages that are not marked count as past anyway, so a long state needs no call for each.
        """
        seeds = self._messages
        if [m for m in seeds if m.from_history is False]:
            self._messages = tuple(
                [m if m.from_history is None else sided(m, past=True) for m in seeds]
            )
        entries = self._transcript
        earlier = {
            id(entry)
            for entry in entries
            for m in (*entry.output, *entry.tool_calls)
            if m.from_history is False
        }
        if earlier:
            self._transcript = [e.on_side(past=True) if id(e) in earlier else e for e in entries]

    def mark_present(self, ids: Collection[str]) -> None:
        """Mark the entries with these ids as of the resumed run.

        A message that does not say on which side it is takes that of the message before it.
        """
        own = [entry.id in ids for entry in self._transcript]
        if True not in own:
            return
        first, past = own.index(True), True
        for place in range(first, len(own)):
            entry = self._transcript[place]
            marked = entry.on_side(past=False) if own[place] else entry.with_sides(past=past)
            if marked.messages:
                past = marked.messages[-1].from_history is True
            self._transcript[place] = marked

    def get_results_from(self, index: int) -> list[AgentResult]:
        """The results from ``index`` (0-based) on."""
        return self.results[index:]

    def format_history(
        self, formatter: Callable[[AgentResult], Sequence[Message]] | None = None
    ) -> list[Message]:
        """All messages in order: seed messages, then each entry's output and tool results.

        Args:
            formatter: Makes messages of an entry; its output and tool results unless given.
        """
        found: list[Message] = list(self._messages)
        for entry in self._transcript:
            found.extend(entry.messages if formatter is None else formatter(entry))
        return found

    def clone(self) -> State[D]:
        """A deep copy of the data, with the same (immutable) results and messages."""
        found = State(
            clone_data(self.data),
            messages=self._messages,
            results=self._transcript,
            thread_id=self.thread_id,
        )
        found._take_place_of(self)
        return found

    def _take_place_of(self, other: State[D]) -> None:
        """Take over which part of which run and thread another state is."""
        self.not_loaded, self.goes_on_with = other.not_loaded, other.goes_on_with
        self.context_id, self.parent_context = other.context_id, other.parent_context

    fork = clone
    """A copy for a tool of several that run in parallel; `merge` brings them together."""

    def merge(self, forks: Sequence[tuple[str, State[D]]]) -> None:
        """Apply the forks' changes, in the order given.

        Args:
            forks: Tool name and fork of each tool.

        Raises:
            StateConflictError: Two forks changed the same key; nothing is taken over then.
        """
        owners: dict[str, int] = {}
        base = clone_data(self.data)
        for index, (tool, fork) in enumerate(forks):
            keys = changed_keys(base, fork.data)
            clashes = [key for key in keys if key in owners]
            if clashes:
                raise StateConflictError(clashes, (forks[owners[clashes[0]]][0], tool))
            owners.update(dict.fromkeys(keys, index))
        for key, index in owners.items():
            take_key(self.data, forks[index][1].data, key)

    def dump(self) -> dict[str, JsonValue]:
        """The data as JSON, as a durable run records it.

        Raises:
            StateError: Something in it is not JSON; the message names the key.
        """
        return dump_data(self.data)

    def load(self, dumped: JsonValue) -> None:
        """Restore the data from the output of `dump`."""
        self.data = load_data(self.data, dumped)

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON, in the shape that TypeScript's plain states have."""
        found: dict[str, Any] = {
            "data": self.dump(),
            "results": [entry.to_dict() for entry in self._transcript],
        }
        if self.not_loaded:
            found["notLoaded"] = self.not_loaded
        if self._messages:
            found["messages"] = [message_to_dict(message) for message in self._messages]
        return {**found, "threadId": self.thread_id} if self.thread_id else found

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> State[dict[str, Any]]:
        """A state from a plain object: ``{data, messages|_messages, results|_results, threadId}``.

        Raises:
            InvalidRecordError: A message or result in it is not readable.
            StateError: ``data`` is not an object.
        """
        unknown = sorted(map(str, plain.keys() - _PLAIN_KEYS))
        if unknown and "data" not in plain:
            # TypeScript loses such values without a word, and ported programs must continue.
            logger.warning(
                "A plain state has {data, results, messages, threadId}; %s is not kept. Wrap your "
                "own values: state={'data': {…}}, or pass State({…}).",
                ", ".join(map(repr, unknown)),
            )
        data: object = plain.get("data") or {}
        if not isinstance(data, dict):
            raise StateError(f"State data must be an object, got {data!r:.80}")
        messages, results = _items(plain, "messages"), _items(plain, "results")
        state = State(
            cast("dict[str, Any]", data),
            messages=messages,
            results=results,
            thread_id=plain.get("threadId"),
        )
        state.not_loaded = _count(plain, "notLoaded")
        return state


@spelled_here
class DataView(MutableMapping[str, Any]):
    """The members of a state's data by name; a change is a change of the data."""

    def __init__(self, data: object) -> None:
        """Look at the data."""
        self._data: Any = data
        self._items = cast("dict[str, Any]", data) if isinstance(data, dict) else None

    def __getitem__(self, key: str) -> Any:
        if self._items is not None:
            return self._items[key]
        if key not in self._names():
            raise KeyError(key)
        return getattr(self._data, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if self._items is not None:
            self._items[key] = value
        elif key in self._names():
            setattr(self._data, key, value)
        else:
            raise KeyError(f"{type(self._data).__name__} has no field {key!r}")

    def __delitem__(self, key: str) -> None:
        if self._items is None:
            raise TypeError(f"{type(self._data).__name__} has fixed fields; set {key!r} instead")
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> Collection[str]:
        if self._items is not None:
            return self._items
        if dataclasses.is_dataclass(self._data):
            return [field.name for field in dataclasses.fields(self._data)]
        return list(cast("type[BaseModel]", type(self._data)).model_fields)


def _identity(result: AgentResult) -> int | str:
    """Return the id of a result; without an id, that of the object."""
    return id(result) if result.id is None else result.id


def _items(plain: Mapping[str, Any], name: str) -> list[Any]:
    found: object = plain.get(name) or plain.get(f"_{name}") or []
    if not isinstance(found, list):
        problem = f"expected a list, got {found!r:.80}"
        raise InvalidRecordError(problem, where="state", field=name)
    return cast("list[Any]", found)


def _read(
    given: Iterable[T | Mapping[str, Any]] | None,
    name: str,
    kind: Any,
    read: Callable[..., T],
) -> list[T]:
    """Return messages or results, those that are JSON read.

    Raises:
        StateError: It is not a list of them.
    """
    if given is None or isinstance(given, str | Mapping):
        if given is None:
            return []
        raise StateError(f"State {name} must be a list, got {given!r:.80}; put it into [ ]")
    if not isinstance(given, Iterable):
        raise StateError(f"State {name} must be a list, got {given!r:.80}")
    found: list[T] = []
    for index, item in enumerate(given):
        if isinstance(item, kind):
            found.append(cast("T", item))
        elif isinstance(item, Mapping):
            found.append(read(item, where=f"{name}[{index}]"))
        else:
            wanted = "an AgentResult" if name == "results" else "a message"
            raise StateError(
                f"State {name}[{index}] must be {wanted}, or its JSON, got {item!r:.80}"
            )
    return found


def _count(plain: Mapping[str, Any], name: str) -> int:
    found: object = plain.get(name, 0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        problem = f"expected a whole number of at least 0, got {found!r:.80}"
        raise InvalidRecordError(problem, where="state", field=name)
    return found


@explained
def create_state(
    data: D | None = None,
    *,
    messages: Iterable[Message | Mapping[str, Any]] | None = (),
    results: Iterable[AgentResult | Mapping[str, Any]] | None = (),
    thread_id: str | None = None,
) -> State[D]:
    """Begin a state; the same as ``State(…)`` under the TypeScript name."""
    return State(data, messages=messages, results=results, thread_id=thread_id)


def _is_model(data: object) -> TypeGuard[BaseModel]:
    """Return whether ``data`` is a pydantic model, without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(data, pydantic.BaseModel)


def check_kind(data: object) -> None:
    """Refuse data that is not a dict, dataclass instance or pydantic model.

    Raises:
        StateError: It is something else.
    """
    if isinstance(data, dict) or _is_model(data):
        return
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return
    raise StateError(
        f"State data must be a dict, a dataclass instance or a pydantic model, got {data!r:.80}"
    )


def clone_data(data: D) -> D:
    """A deep copy, so that nothing nested leaks between runs.

    Raises:
        StateError: Something in it cannot be copied; the message names the key.
    """
    try:
        return copy.deepcopy(data)
    except Exception as error:
        key = _first_failing(data, copy.deepcopy)
        raise StateError(f"State key {key!r} cannot be copied: {error}") from error


def dump_data(data: object) -> dict[str, JsonValue]:
    """The data as JSON.

    Raises:
        StateError: Something in it would be lost or changed by JSON; the message names the key.
    """
    if data == {}:
        return {}
    dumped = cast("object", data) if isinstance(data, dict) else _dump_typed(data)
    path = find_non_json(dumped, "data")
    if path is not None:
        raise StateError(
            f"State at {path!r} is not plain JSON; store strings, numbers, lists or dicts"
        )
    if not isinstance(data, dict):
        _check_round_trip(data, dumped)
    return copy.deepcopy(cast("dict[str, JsonValue]", dumped))


def _dump_typed(data: object) -> object:
    from pydantic.errors import PydanticSchemaGenerationError  # noqa: PLC0415 - loads pydantic
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # noqa: PLC0415 - loads pydantic

    try:
        return _adapter(type(data)).dump_python(cast("Any", data), mode="json")
    except (PydanticSchemaGenerationError, PydanticSerializationError) as error:
        key = _first_failing(data, to_jsonable_python)
        raise StateError(
            f"State of type {type(data).__name__} cannot be stored as JSON, "
            f"its field {key!r} cannot: {error}"
        ) from error


def _first_failing(data: object, attempt: Callable[[Any], object]) -> str:
    for key, value in fields_of(data).items():
        try:
            attempt(value)
        except Exception:  # noqa: BLE001 - values of users may raise anything
            return key
    return "(unknown)"


def _check_round_trip(data: object, dumped: object) -> None:
    again = _adapter(type(data)).validate_python(dumped)
    if again == data:
        return
    before, after = fields_of(data), fields_of(again)
    lost = [key for key in before if before[key] != after.get(key)] or [
        "(a private or excluded field)"
    ]
    names = ", ".join(map(repr, lost))
    raise StateError(
        f"State of type {type(data).__name__} does not survive JSON: {names} would change. "
        "Use JSON types, or give the field a pydantic serializer."
    )


def load_data(like: D, dumped: JsonValue) -> D:
    """Data of the type of ``like`` from the output of `dump_data`.

    Raises:
        StateError: It does not fit the type; the message names the field.
    """
    if isinstance(like, dict):
        check_kind(dumped)
        return cast("D", copy.deepcopy(dumped))
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    try:
        return cast("D", _adapter(type(like)).validate_python(dumped))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole)"
        raise StateError(
            f"Stored state does not fit {type(like).__name__}, field {field!r}: {first['msg']}"
        ) from error


def restore_data(data: D, dumped: JsonValue) -> D:
    """``data`` as `dump_data` gave it: itself where it can be changed, since others may hold it.

    Raises:
        StateError: What was dumped does not fit the type; the message names the field.
    """
    found = load_data(data, dumped)
    if isinstance(data, dict):
        held = cast("dict[str, Any]", data)
        held.clear()
        held.update(cast("dict[str, Any]", found))
        return cast("D", held)
    try:
        for key in changed_keys(data, found):
            take_key(data, found, key)
    except (AttributeError, ValueError):  # it is frozen, or validates values
        return found
    return data if data == found else found


@lru_cache(maxsize=256)
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - loads pydantic

    return TypeAdapter(kind)


def fields_of(data: object) -> dict[str, Any]:
    """The top-level keys or fields and their values."""
    if isinstance(data, Mapping):
        return dict(cast("Mapping[str, Any]", data))
    if _is_model(data):
        return {**dict(data), **(data.model_extra or {})}
    assert dataclasses.is_dataclass(data)
    return {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}


def field_names(kind: object) -> frozenset[str] | None:
    """Return the fields of a type of state data; None: it takes other keys, too."""
    if dataclasses.is_dataclass(kind):
        return frozenset(field.name for field in dataclasses.fields(kind) if field.init)
    fields: Any = getattr(kind, "model_fields", None)
    if fields is None or "extra" in getattr(kind, "model_config", {}):
        return None
    return frozenset(fields) | {field.alias for field in fields.values() if field.alias}


def missing_fields(kind: type[Any], given: Iterable[str] = ()) -> list[str]:
    """Return the required fields of a type of state data, those that are given left out."""
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    try:
        _adapter(kind).validate_python({})
    except ValidationError as error:
        problems = error.errors(include_url=False)
        missing = [str(one["loc"][0]) for one in problems if one["type"] == "missing"]
        return [name for name in missing if name not in given]
    return []


def user_of(state: State[Any]) -> str | None:
    """Return the user that a state's data name: ``user_id`` or ``userId``."""
    return _text_in(state, ("user_id", "userId"))


def tenant_of(state: State[Any]) -> str | None:
    """Return the tenant that a state's data name: ``tenant``, ``tenant_id`` or ``tenantId``."""
    return _text_in(state, TENANT_KEYS)


def _text_in(state: State[Any], keys: Iterable[str]) -> str | None:
    fields = fields_of(state.data)
    found = next((value for key in keys if (value := fields.get(key))), None)
    return found if isinstance(found, str) else None


def changed_keys(base: object, fork: object) -> list[str]:
    """Keys whose values differ between two versions of the same data."""
    before, after = fields_of(base), fields_of(fork)
    keys = [*before, *(key for key in after if key not in before)]
    missing = object()
    return [key for key in keys if differs(before.get(key, missing), after.get(key, missing))]


def differs(one: Any, other: Any) -> bool:
    """Return whether two values differ as JSON, where 0, 0.0 and False are not equal."""
    kinds: set[type] = {type(one), type(other)}
    if len(kinds) == 1 and kinds <= _ROWS:
        return len(one) != len(other) or any(map(differs, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        # The order of keys counts: it shows in a prompt that contains the dict.
        return differs([*cast("Any", one).items()], [*cast("Any", other).items()])
    return one != other or (len(kinds) == 2 and kinds <= _NUMBERS)  # noqa: PLR2004 - two values


_ROWS: frozenset[type] = frozenset({list, tuple})
_NUMBERS: frozenset[type] = frozenset({bool, int, float})


def take_key(target: Any, source: object, key: str) -> None:
    """Copy a key of ``source`` into ``target``; a key that is gone is removed."""
    values = fields_of(source)
    if isinstance(target, dict):
        if key in values:
            target[key] = values[key]
        else:
            cast("dict[str, Any]", target).pop(key, None)
    elif key in values:
        setattr(target, key, values[key])
