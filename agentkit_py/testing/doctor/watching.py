"""Watching your callbacks: the number of their calls, and their side effects outside of steps.

Side effects are seen by Python's audit events: a file opened for writing, a
connection, a process. Connections that are open already are not seen.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any

from agentkit_py._core.awaiting import is_async_callable
from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._engine.tool_sources import ToolSource
from agentkit_py.agent import Agent
from agentkit_py.inngest.overlap import inside_step
from agentkit_py.network import Network
from agentkit_py.testing.doctor.exploring import all_agents, labels_of
from agentkit_py.tools import Tool
from agentkit_py.tools.values import Arguments, InvalidArguments

_EFFECTS = {
    "sqlite3.connect": "opens the database {0}",
    "socket.connect": "connects to {1}",
    "socket.sendto": "sends to {1}",
    "subprocess.Popen": "starts the program {0}",
    "os.system": "runs the command {0}",
    "os.remove": "removes {0}",
    "os.rename": "renames {0}",
    "os.mkdir": "makes the folder {0}",
    "os.rmdir": "removes the folder {0}",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


_watching: ContextVar[tuple[CallbackWatch, str] | None] = ContextVar("doctor", default=None)
_hooked: list[bool] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Python's audit hook; cheap, for it sees everything that this process does from now on."""
    if event != "open" and event not in _EFFECTS:
        return
    watching = _watching.get()
    if watching is None or inside_step() is not None:
        return
    watch, callback = watching
    if event != "open":
        shown = [str(one)[:120] for one in arguments]
        watch.side_effects[callback, _EFFECTS[event].format(*shown)] += 1
    elif _is_writing(arguments) and "__pycache__" not in str(arguments[0]):
        watch.side_effects[callback, f"writes the file {str(arguments[0])[:120]}"] += 1


def _is_writing(arguments: tuple[Any, ...]) -> bool:
    _path, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool((flags or 0) & _WRITING)


@dataclass
class CallbackWatch:
    """Makes a copy of a network and watches its callbacks."""

    calls: Counter[str] = field(default_factory=Counter[str])
    """Calls outside of steps, by callback."""

    tools: Counter[str] = field(default_factory=Counter[str])
    """Calls of tools that were really made."""

    finished: set[str] = field(default_factory=set[str])
    """Tools that came to their end without an error, at least once."""

    failed: dict[str, str] = field(default_factory=dict[str, str])
    """What tools raised, by tool."""

    refused: dict[str, str] = field(default_factory=dict[str, str])
    """What was wrong with the last arguments of calls that were not made, by tool."""

    listed: dict[str, None] = field(default_factory=dict[str, None])
    """The tools of servers, in the order in which they were listed."""

    side_effects: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Side effects outside of steps, by callback and effect."""

    def __post_init__(self) -> None:
        """Hook into Python's audit events, once."""
        if not _hooked:
            _hooked.append(True)
            sys.addaudithook(_audit)  # for good: Python cannot remove an audit hook

    def network(self, given: Network[Any, Any], **changes: Any) -> Network[Any, Any]:
        """Return the network with callbacks that are watched."""
        router = given.router
        if router is not None and not isinstance(router, Agent):
            router = self._watched(f"router of {given.name}", router)
        found = all_agents(given)
        labels = labels_of(found)
        agents = [self._agent(agent, labels) for agent in found]
        return replace(given, agents=agents, router=router, **changes)

    def _agent(
        self, agent: Agent[Any, Any], labels: Mapping[tuple[str, str], str]
    ) -> Agent[Any, Any]:
        own = agent.tool_map.items()
        changes: dict[str, Any] = {
            "tools": [self.tool(tool, labels[agent.name, name]) for name, tool in own],
            "mcp_servers": [_WatchedSource(one, self) for one in agent.mcp_servers],
            "lifecycle": replace(agent.lifecycle, **self._hooks(agent)),
        }
        for name in ("system", "model", "allowed_tools"):
            value = getattr(agent, name, None)
            if callable(value):
                changes[name] = self._watched(f"{name} of {agent.name}", value)
        return replace(agent, **changes)

    def _hooks(self, agent: Agent[Any, Any]) -> dict[str, Any]:
        given = {item.name: getattr(agent.lifecycle, item.name) for item in fields(agent.lifecycle)}
        return {
            name: self._watched(f"{name} of {agent.name}", hook)
            for name, hook in given.items()
            if callable(hook)
        }

    def source_tool(self, tool: Tool) -> Tool:
        """Return a server's tool, watched."""
        self.listed[tool.name] = None
        return self.tool(tool)

    def tool(self, tool: Tool, name: str | None = None) -> Tool:
        """Return a tool, watched; ``name`` is that in the report."""
        name = name or tool.name
        invoke = tool.invoke

        async def call(arguments: Any, context: Any, /) -> Any:
            self.tools[name] += 1
            with self._noting(name), self._watch_steps(name, tool):
                return await invoke(arguments, context)

        def call_sync(arguments: Any, context: Any, /) -> Any:
            self.tools[name] += 1
            with self._noting(name), self._watch_steps(name, tool):
                return invoke(arguments, context)

        arguments = _WatchedArguments(tool.arguments, name, self.refused)
        return replace(tool, arguments=arguments, invoke=call if tool.is_async else call_sync)

    @contextmanager
    def _noting(self, name: str) -> Generator[None]:
        """Note how a tool's call ends; a step that ends the request does not end the call."""
        try:
            yield
        except Exception as error:
            self.failed[name] = f"{type(error).__name__}: {error}"
            raise
        self.finished.add(name)

    def _watch_steps(self, name: str, tool: Tool) -> AbstractContextManager[None]:
        return self._watch(f"tool {name}") if tool.steps else nullcontext()

    def _watched(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if is_async_callable(function):

            @functools.wraps(function)
            async def call(*args: Any, **kwargs: Any) -> Any:
                return await self._await(label, function, args, kwargs)

            return call

        @functools.wraps(function)
        def call_sync(*args: Any, **kwargs: Any) -> Any:
            with self._watch(label):
                return function(*args, **kwargs)

        return call_sync

    async def _await(self, label: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with self._watch(label):
            return await function(*args, **kwargs)

    @contextmanager
    def _watch(self, label: str) -> Generator[None]:
        if inside_step() is None:
            self.calls[label] += 1
        token = _watching.set((self, label))
        try:
            yield
        finally:
            _watching.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class _WatchedArguments:
    """Arguments that note why they are refused."""

    arguments: Arguments
    tool: str
    refused: dict[str, str]

    @property
    def schema(self) -> JsonObject | None:
        return self.arguments.schema

    def validate(self, given: JsonValue) -> Any:
        try:
            return self.arguments.validate(given)
        except InvalidArguments as error:
            self.refused[self.tool] = str(error)
            raise


@dataclass(eq=False)
class _WatchedSource:
    """A server whose tools are watched."""

    source: ToolSource
    watch: CallbackWatch

    @property
    def name(self) -> str:
        return self.source.name

    async def listing(self) -> JsonObject:
        return await self.source.listing()

    def tools(self, listing: JsonObject, taken: Collection[str]) -> Sequence[Tool]:
        return [self.watch.source_tool(tool) for tool in self.source.tools(listing, taken)]

    async def open(self) -> None:
        await self.source.open()

    async def close(self) -> None:
        await self.source.close()
