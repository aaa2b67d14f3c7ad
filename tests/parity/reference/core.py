"""Values of the reference model: states, results, errors, and the switches."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..vectors import Json

if TYPE_CHECKING:
    from .inputs import Input


class _Undefined:
    def __copy__(self) -> _Undefined:
        return self

    def __deepcopy__(self, memo: object) -> _Undefined:
        return self


UNDEFINED: Any = _Undefined()
"""JavaScript's undefined: the key is absent in JSON."""


USER = "user"


class Unsupported(Exception):  # noqa: N818 - a signal, no error
    """The scenario holds something that this model does not know; it is compared without it."""


class Failure(Exception):  # noqa: N818 - a failure of the scenario, not of the model
    """An error in the scenario, as it is compared."""

    def __init__(self, **facts: Json) -> None:
        super().__init__(str(facts))
        self.facts = facts
        self.text: str | None = facts.get("text")


def own_failure(error: dict[str, Json]) -> Failure:
    """An error that the scenario's own code throws."""
    return Failure(own=[error.get("name", "Error"), error.get("message", "")])


def engine_failure(kind: str) -> Failure:
    """An error of the JavaScript engine: only its class counts."""
    return Failure(engine=kind)


def prose_failure(meaning: str, rest: str = "") -> Failure:
    """An error whose words are TypeScript's; what they mean stands for them."""
    return Failure(prose=meaning, rest=rest)


def our_failure(kind: str, **facts: Json) -> Failure:
    """An error of our library."""
    return Failure(kind=kind, **facts)


class Switches:
    """Which differences are switched on, and which of them were asked for."""

    def __init__(self, on: frozenset[str]) -> None:
        self.on = on
        self.asked: set[str] = set()

    def __call__(self, divergence: str) -> bool:
        """Return whether this divergence is on; call it only where it makes a difference."""
        self.asked.add(divergence)
        return divergence in self.on


@dataclass(slots=True)
class Result:
    """An AgentResult."""

    agent: str
    output: list[Json] = field(default_factory=list[Json])
    tool_calls: list[Json] = field(default_factory=list[Json])
    prompt: Json = UNDEFINED
    history: Json = UNDEFINED
    raw: Json = UNDEFINED
    id: Json = UNDEFINED
    heard: bool = False
    """True of what the user says in this run, which the default mode keeps."""

    def short(self) -> dict[str, Json]:
        """Return the author and messages."""
        return {
            "agentName": self.agent,
            "output": public(self.output),
            "toolCalls": public(self.tool_calls),
        }

    def record(self) -> dict[str, Json]:
        """All of it."""
        return {
            "id": self.id,
            **self.short(),
            "prompt": public(self.prompt),
            "history": public(self.history),
            "raw": self.raw,
        }

    @property
    def messages(self) -> list[Json]:
        """Output and tool results, each signed by its author: of a result, who ran the tool."""
        return [{"_by": self.agent, **message} for message in [*self.output, *self.tool_calls]]

    @classmethod
    def of(cls, record: dict[str, Json], on: Switches) -> Result:
        """A result as a scenario describes it."""
        output, calls = read(record["output"], on), read(record["toolCalls"], on)
        facts = [record.get(name, UNDEFINED) for name in ("prompt", "history", "raw", "id")]
        return cls(record["agentName"], output, calls, *facts)


def _usual(message: dict[str, Json]) -> dict[str, Json]:
    if message["type"] == "text":
        return message
    role = {"role": "assistant"} if message["type"] == "tool_call" else {}
    return {"stop_reason": "tool", **message, **role}


_KEYS = {"type", "role", "stop_reason", "content", "tools", "tool", "agent", "providerMetadata"}
_ROLES = {"system", "user", "assistant"}


def read(messages: list[Json], on: Switches) -> list[Json]:
    """Messages of a scenario's own.

    Raises:
        Failure: We refuse one.
    """
    found = copy.deepcopy(messages)
    for message in found:
        if message["type"] == "text" and message["role"] not in _ROLES and on("roles-are-known"):
            raise our_failure("InvalidRecordError")
        said = message["type"] in ("tool_call", "tool_result")  # null is not what is left out
        none = (
            {"stop_reason"} if not said and message.get("stop_reason", "") is None else set[str]()
        )
        for key in none | (message.keys() - _KEYS):
            if on("unknown-keys-are-dropped"):
                del message[key]
        usual = _usual(message)
        if usual != message and on("calls-are-the-assistants"):
            message.update(usual)
        named = message.get("tools") or ([message["tool"]] if "tool" in message else [])
        for call in named:
            if "input" not in call and on("missing-arguments"):
                call["input"] = {}
    return found


def public(messages: Json) -> Json:
    """Messages without what the model notes down for itself; a copy."""
    if messages is UNDEFINED:
        return UNDEFINED
    return [_public(message) for message in messages]


def _public(message: dict[str, Json]) -> dict[str, Json]:
    made = {k: copy.deepcopy(v) for k, v in message.items() if not k.startswith("_")}
    for call in [*made.get("tools", []), *([made["tool"]] if "tool" in made else [])]:
        for own in [name for name in call if name == "malformed" or name[0] == "_"]:
            del call[own]
    return made


@dataclass(slots=True)
class State:
    """A State."""

    data: dict[str, Json] = field(default_factory=dict[str, Json])
    messages: list[Json] = field(default_factory=list[Json])
    results: list[Result] = field(default_factory=list[Result])
    thread_id: str | None = None
    kv: dict[str, Json] = field(default_factory=dict[str, Json])

    @classmethod
    def of(cls, spec: dict[str, Json], on: Switches) -> State:
        """A state as a scenario describes it."""
        data = copy.deepcopy(spec.get("data") or {})
        results = [Result.of(record, on) for record in spec.get("results", [])]
        messages = read(spec.get("messages", []), on)
        return cls(data, messages, results, spec.get("threadId"), dict(data))

    def clone(self, *, deep: bool) -> State:
        """A copy; TypeScript's shares what is nested in the data."""
        data = copy.deepcopy(self.data) if deep else dict(self.data)
        return State(data, list(self.messages), list(self.results), self.thread_id, dict(data))

    def answers(self, on: Switches) -> list[Result]:
        """What hooks and routers see as results.

        TypeScript's results are whatever a store returned (state.ts ``setResults``).
        """
        found = [result for result in self.results if result.agent != USER]
        if len(found) == len(self.results) or on("rows-of-users-are-user-turns"):
            return found
        return self.results

    def history(self, first: int | None = None, said: Json = None) -> list[Json]:
        """All messages, oldest first; results from ``first`` on are of the run that goes on.

        Args:
            first: The number of the run's first result.
            said: The id of a user turn that is left out.
        """
        past = [r for r in self.results[:first] if r.agent != USER or said is None or r.id != said]
        own = [] if first is None else [r for r in self.results[first:] if not r.heard]
        return [
            *({**message, "_past": True} for message in self.messages),
            *({**m, "_past": True} for result in past for m in result.messages),
            *({**m, "_past": False} for r in own for m in r.messages),
        ]

    def hear(self, given: Input) -> None:
        """Keep what the user said, as the default mode does."""
        if given.content:
            said = {"type": "text", "role": "user", "content": given.content}
            self.results.append(Result(USER, [said], id=given.stored()["id"], heard=True))

    def record(self, *, kv: bool) -> dict[str, Json]:
        """Return the parts of the state that are compared."""
        return {
            "threadId": UNDEFINED if self.thread_id is None else self.thread_id,
            "data": copy.deepcopy(self.data),
            **({"kv": copy.deepcopy(self.kv)} if kv else {}),
            "messages": public(self.messages),
            "results": [result.record() for result in self.results],
        }


class Ids:
    """Fresh ids; they are numbered again before anything is compared."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1_000_000)

    def new(self, kind: str = "uuid") -> str:
        """One more."""
        return f"<{kind}:{next(self._numbers)}>"


def cleaned(value: Json, path: str = "", undefined: list[str] | None = None) -> Json:
    """JSON without undefined; their pointers are added to ``undefined``."""
    if isinstance(value, dict):
        result: dict[str, Json] = {}
        for key, item in value.items():
            where = f"{path}/{key}"
            if item is UNDEFINED:
                if undefined is not None:
                    undefined.append(where)
            else:
                result[key] = cleaned(item, where, undefined)
        return result
    if isinstance(value, list):
        return [cleaned(item, f"{path}/{i}", undefined) for i, item in enumerate(value)]
    return value
