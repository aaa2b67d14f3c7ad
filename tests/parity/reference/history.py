"""History adapters and processors of the reference model."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

from ..vectors import Json
from .core import UNDEFINED, Result, State, engine_failure, our_failure, own_failure
from .processors import Item, ItemModel, estimate, exact_counts

if TYPE_CHECKING:
    from .inputs import Input
    from .play import Play


class Adapter:
    """One history adapter, which notes every call."""

    def __init__(self, play: Play, name: str, spec: dict[str, Json]) -> None:
        self.play = play
        self._name = name
        self.spec = spec
        self._calls: dict[str, int] = {}
        self._saves: dict[tuple[int, str], int] = {}

    def new_id(self) -> str:
        """A thread id of the library's own."""
        return self.play.ids.new()

    def has(self, hook: str) -> bool:
        """Return whether the adapter has this hook."""
        return hook in self.spec

    def call(
        self,
        hook: str,
        state: State,
        given: Input,
        network: tuple[str, list[str]],
        results: list[Result] | None = None,
        *,
        lost: bool = False,
    ) -> Json:
        """Call a hook; what it returns."""
        if self.play.durable and not lost and self.play.on("effects-are-steps"):
            self._step(hook, results[0].agent if results else "")
        spec = self.spec[hook]
        number = self._calls[hook] = self._calls.get(hook, -1) + 1
        self.play.note(f"history:{self._name}.{hook}")
        self.play.histories.append(
            {
                "run": self.play.run,
                "adapter": self._name,
                "hook": hook,
                "ctx": self._context(hook, state, given, network, results),
            }
        )
        state.data.update(copy.deepcopy(spec.get("setState", {})))
        if "throw" in spec:
            if self.play.durable and not lost and self.play.on("effects-are-steps"):
                raise our_failure("StepError", says=spec["throw"].get("message", ""))
            raise own_failure(spec["throw"])
        default: Json = {"threadId": "thread-created"} if hook == "createThread" else []
        value = spec.get("return", default)
        if spec.get("sequence"):
            value = spec["sequence"][min(number, len(spec["sequence"]) - 1)]
        return value

    def _step(self, hook: str, author: str) -> None:
        name = re.sub("[A-Z]", lambda found: f"-{found[0].lower()}", hook)
        if hook == "appendResults":
            key = (self.play.run, author)
            number = self._saves[key] = self._saves.get(key, -1) + 1
            name = f"{name}.{author}.{number}"
        self.play.step(f"{self.play.target}.history.{name}")

    def _context(
        self,
        hook: str,
        state: State,
        given: Input,
        network: tuple[str, list[str]],
        results: list[Result] | None,
    ) -> dict[str, Json]:
        keys = {"input", "network", "state", "step"}
        keys |= {"threadId"} if hook != "createThread" else set()
        extra: dict[str, Json] = {"userMessage": UNDEFINED, "newResults": UNDEFINED}
        if hook == "appendUserMessage":
            extra["userMessage"] = given.stored()
            keys.add("userMessage")
        if hook == "appendResults":
            extra["newResults"] = [result.record() for result in results or []]
            keys.add("newResults")
        thread = UNDEFINED if state.thread_id is None else state.thread_id
        return {
            "keys": sorted(keys),
            "input": given.text,
            "threadId": UNDEFINED if hook == "createThread" else thread,
            "stateThreadId": thread,
            "stateData": copy.deepcopy(state.data),
            "stateResultCount": len(state.answers(self.play.on)),
            "stateMessageCount": len(state.messages),
            "networkName": network[0],
            "networkAgents": list(network[1]),
            "hasStep": self.play.durable,
            **extra,
        }


def open_thread(
    adapter: Adapter, state: State, given: Input, network: tuple[str, list[str]], *, whole: bool
) -> int:
    """Create and load a thread, and save what the user said; return the number of past results.

    Args:
        adapter: Where the thread is kept.
        state: The run's state.
        given: What the user says.
        network: The network's name and its agents.
        whole: Whether it is a network's thread; agents by themselves have less in TypeScript.
    """
    on = adapter.play.on
    client = bool(state.thread_id)
    if state.thread_id == "" and on("empty-ids"):
        state.thread_id = None
    _create(adapter, state, given, network, client=client)
    loads = adapter.has("get") and bool(state.thread_id) and not (state.results or state.messages)
    if loads and not client and (whole or on("new-threads-are-not-loaded")):
        loads = False
    saves = adapter.has("appendUserMessage")
    if saves and not whole:
        saves = on("agents-save-what-the-user-said")
    if saves and not given.content:
        saves = not on("empty-messages-are-not-saved")
    early = saves and not (loads and on("load-before-saving"))
    first = 0
    if early:
        first = heard(adapter.play, state, given)
        adapter.call("appendUserMessage", state, given, network)
    if loads:
        loaded = adapter.call("get", state, given, network)
        state.results = [Result.of(record, on) for record in loaded or []]
    if not early:
        first = heard(adapter.play, state, given)
    if saves and not early:
        adapter.call("appendUserMessage", state, given, network)
    return len(state.results) if early and loads else first


def heard(play: Play, state: State, given: Input) -> int:
    """Return the number of past results; in the default mode, the user's turn comes after them."""
    first = len(state.results)
    if play.mode.chronological:
        state.hear(given)
    return first


def _create(
    adapter: Adapter,
    state: State,
    given: Input,
    network: tuple[str, list[str]],
    *,
    client: bool,
) -> None:
    on = adapter.play.on
    if adapter.has("createThread"):
        known = state.thread_id  # history.ts `initializeThread`: then what is returned is ignored
        created = adapter.call("createThread", state, given, network)
        if created is None and not known and not on("create-thread-may-return-nothing"):
            raise engine_failure("TypeError")
        name = created["threadId"] if created is not None else state.thread_id
        if name == "" and on("empty-ids"):
            name = state.thread_id
        if not client or (name != state.thread_id and on("stores-name-the-thread")):
            state.thread_id = name
    named = adapter.has("createThread") and not on("empty-ids")  # the id may be empty
    if adapter.has("get") and not state.thread_id and not named:
        state.thread_id = adapter.new_id()


def processed(play: Play, history: list[Json], specs: list[Json]) -> list[Json]:
    """The history as processors leave it."""
    for spec in specs:
        label = spec.get("label", UNDEFINED)
        play.note(f"processor:{spec.get('label', spec['type'])}")
        play.callback("processor", label=label, type=spec["type"], count=len(history))
        if spec["type"] == "throw":
            error = spec["error"]
            if play.on("processor-errors-name-the-processor"):
                raise our_failure("ProcessorError", cause=error.get("message", ""))
            raise own_failure(error)
        if spec["type"] == "tag":
            text = f"tag:{spec['label']} saw {len(history)}"
            history = [*history, {"type": "text", "role": "user", "content": text}]
        else:
            history = _cut(play, history, spec)
    return history


def _cut(play: Play, history: list[Json], spec: dict[str, Json]) -> list[Json]:
    items = [Item(index, message) for index, message in enumerate(history)]
    # The branch's own build finds no tiktoken, so it estimates.
    model = ItemModel(play.on, estimate, exact_counts)
    return [item.message for item in model.applied(spec, items)]
