"""What a scenario's own code decides, for both sides: it is neither TypeScript's nor ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from .reference.js import truthy
from .vectors import Json


def rearrange(op: str, target: list[Any], messages: list[Any]) -> None:
    """Change a prompt or history as an ``onStart`` hook does."""
    if op.startswith("append"):
        target.extend(messages)
    elif op.startswith("prepend"):
        target[:0] = messages
    else:
        target[:] = messages


def holds(
    when: dict[str, Json], *, count: int, data: dict[str, Any], last: Json, called: Iterable[str]
) -> bool:
    """Return whether a router's rule is met; ``last`` is the last result's agent."""
    tests: dict[str, Callable[[Json], bool]] = {
        "callCount": lambda value: count == value,
        "callCountLt": lambda value: count < value,
        "stateTruthy": lambda key: truthy(data.get(key)),
        "stateFalsy": lambda key: not truthy(data.get(key)),
        "lastResultAgent": lambda name: last == name,
        "lastToolCalled": lambda name: name in called,
    }
    return all(tests[name](value) for name, value in when.items())


def routed(hook: dict[str, Json], texts: Iterable[Json], call: tuple[Json, Json]) -> list[Json]:
    """Return whom an ``onRoute`` hook chooses.

    Args:
        hook: As the scenario has it.
        texts: What the routing agent said.
        call: The arguments of its first call, and the content of the result.
    """
    if hook["kind"] == "const":
        return list(hook.get("agents") or [])
    if hook["kind"] == "firstText":
        text = next(iter(texts), "DONE")
        return [] if text == "DONE" else [text]
    data = hook["kind"] == "firstToolData"
    found = call[1] if data else call[0]
    name = found.get("data" if data else "name") if isinstance(found, dict) else None
    return [name] if isinstance(name, str) else []


class Operations:
    """The pieces that tools' handlers are made of, named as in the scenario's JSON.

    Args:
        given: The call's arguments.
        data: The state's data.
        nothing: What undefined is on this side.
        thrown: Makes the error that a description asks for.
    """

    def __init__(
        self, given: Json, data: dict[str, Any], nothing: Any, thrown: Callable[[Json], Exception]
    ) -> None:
        self.given, self.data, self.nothing, self.thrown = given, data, nothing, thrown

    def perform(self, handler: dict[str, Json]) -> Any:
        """Return the value of the handler."""
        name = re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", handler["op"])
        return getattr(self, f"op_{name}")(handler)

    def op_return(self, handler: dict[str, Json]) -> Any:
        return handler.get("value")

    def op_return_undefined(self, handler: dict[str, Json]) -> Any:
        return self.nothing

    def op_echo(self, handler: dict[str, Json]) -> Any:
        return {} if self.given is self.nothing is not None else {"received": self.given}

    def op_throw(self, handler: dict[str, Json]) -> Any:
        raise self.thrown(handler["error"])

    op_throw_sync = op_throw

    def op_set_state(self, handler: dict[str, Json]) -> Any:
        self.data[handler["key"]] = self.value(handler)
        return handler.get("returns", self.nothing)

    def op_get_state(self, handler: dict[str, Json]) -> Any:
        return self.data.get(handler["key"], self.nothing)

    def value(self, handler: dict[str, Json]) -> Any:
        """The handler's value, or JavaScript's ``input[name]``."""
        name, given = handler.get("fromInput"), self.given
        if name is None or name is True:
            return given if name else handler.get("value")
        if given is None:
            said = f"Cannot read properties of null (reading '{name}')"
            raise self.thrown({"name": "TypeError", "message": said})
        return given.get(name, self.nothing) if isinstance(given, dict) else self.nothing

    def op_append_state(self, handler: dict[str, Json]) -> Any:
        key = handler["key"]
        if self.data.get(key) is None or self.data[key] is self.nothing:
            self.data[key] = []
        if not isinstance(self.data[key], list):
            said = "(data[key] ??= []).push is not a function"
            raise self.thrown({"name": "TypeError", "message": said})
        self.data[key].append(self.value(handler))
        return handler.get("returns", self.nothing)

    def op_inc_state(self, handler: dict[str, Json]) -> Any:
        key = handler["key"]
        self.data[key] = self.data.get(key, 0) + handler.get("by", 1)
        return self.data[key]
