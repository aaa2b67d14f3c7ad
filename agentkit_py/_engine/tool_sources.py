"""Tool sources and rights: the tools that servers have, and those that an agent may use now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from agentkit_py._core.json import JsonObject
from agentkit_py._engine.instrumentation import ListTools
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.tools.definition import Tool

AllowedTools: TypeAlias = (
    Collection[str]
    | Callable[[AgentContext], "Collection[str] | Awaitable[Collection[str] | None] | None"]
)
"""Names of tools, or a function of the context that gives them; None: all."""


class ToolSource(Protocol):
    """Something that has tools and can be asked for them, e.g. `agentkit_py.mcp.MCPServer`.

    Above: agents, which ask it in a step, so that a replay has the tools that the run began with.
    Below: a connection that the source opens, keeps and closes itself, in a task of its own, since
    nothing may be open around a step.
    """

    @property
    def name(self) -> str:
        """The prefix of its tools' names: ``{name}-{tool}``."""
        ...

    async def listing(self) -> JsonObject:
        """Return its tools as JSON, a step's output; ``"changes": true``: it may have more later.

        Raises:
            ToolSourceError: It cannot be reached, and is needed.
        """
        ...

    def tools(self, listing: JsonObject, taken: Collection[str]) -> Sequence[Tool]:
        """The tools of a listing, the same for the same listing; none has a name in ``taken``."""
        ...

    async def open(self) -> None:
        """Connect; each caller that opens must close.

        Raises:
            ToolSourceError: It cannot be reached, and is needed.
        """
        ...

    async def close(self) -> None:
        """Disconnect when the last caller has closed; the next use connects again."""
        ...


@dataclass(slots=True)
class SourceBook:
    """The listings of the sources, as the run's steps recorded them."""

    _listed: dict[int, JsonObject] = field(default_factory=dict[int, JsonObject])
    """By identity of the source, since sources of a network may share a name."""

    _owners: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def copy(self) -> SourceBook:
        """Return a copy for a parallel agent, so that the order of the agents does not matter."""
        return SourceBook(dict(self._listed), {k: set(v) for k, v in self._owners.items()})

    async def tools(
        self,
        sources: Sequence[ToolSource],
        own: Mapping[str, Tool],
        ask: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        watch: Callable[[str, ListTools], ListTools] = lambda _name, listing: listing,
    ) -> Mapping[str, Tool]:
        """An agent's own tools and those of its sources.

        Args:
            sources: The sources.
            own: The agent's own tools.
            ask: Runs a callback in a step.
            watch: Gets the name of a source and what asks it, and returns that, watched.
        """
        missing = [source for source in sources if id(source) not in self._listed]
        if missing:

            async def look() -> list[JsonObject]:
                return [await watch(source.name, source.listing)() for source in missing]

            for source, listing in zip(missing, await ask(look), strict=True):
                self._listed[id(source)] = listing
        return self.known(sources, own)

    def known(self, sources: Sequence[ToolSource], own: Mapping[str, Tool]) -> Mapping[str, Tool]:
        """An agent's own tools, and those of its sources that have been asked so far."""
        found = dict(own)
        for source in sources:
            listing = self._listed.get(id(source))
            if listing is None:
                continue
            for tool in source.tools(listing, found.keys()):
                found[tool.name] = tool
                self._owners.setdefault(tool.name, set()).add(id(source))
        return found

    def called(self, names: Iterable[str]) -> None:
        """Tools were called: a source whose list may change is asked again before the next look."""
        for name in names if self._owners else ():
            for source in self._owners.get(name, ()):
                if self._listed.get(source, {}).get("changes") is True:
                    self._listed.pop(source, None)


def check_sources(agent: str, sources: Sequence[Any]) -> None:
    """Validate the tool sources: their types, and that their names differ.

    Raises:
        ConfigurationError: See there.
    """
    names: set[str] = set()
    for source in sources:
        if isinstance(source, Mapping) or not hasattr(source, "listing"):
            raise ConfigurationError(
                f"Agent {agent!r}: mcp_servers has a {_kind(source)}, which is not a server; "
                "use agentkit_py.mcp.MCPServer(name, transport)"
            )
        if source.name in names:
            raise ConfigurationError(f"Agent {agent!r} has two servers called {source.name!r}")
        names.add(source.name)


def _kind(given: Any) -> str:
    # Not its repr: settings that were written for another library hold keys.
    return type(given).__name__


def may_have(sources: Sequence[ToolSource], tool: str) -> bool:
    """Return whether the name has a source's prefix; only a listing shows if the tool exists."""
    return any(tool.startswith(f"{source.name}-") for source in sources)


async def opened(sources: Iterable[ToolSource]) -> AsyncExitStack:
    """All of ``sources`` opened; closing the stack closes them.

    Raises:
        ToolSourceError: A source cannot be reached; the sources opened so far are closed again.
    """
    async with AsyncExitStack() as stack:
        for source in sources:
            await source.open()
            stack.push_async_callback(source.close)
        return stack.pop_all()


def check_allowed(
    agent: str, allowed: object, tools: Mapping[str, Tool], sources: Sequence[ToolSource] = ()
) -> None:
    """Validate ``allowed_tools``.

    Raises:
        ConfigurationError: It is neither names nor a function, or names a tool there is not.
    """
    if allowed is None or callable(allowed):
        return
    missing = sorted(allowed_names(agent, allowed) - tools.keys())
    unknown = [name for name in missing if not may_have(sources, name)]
    if unknown:
        raise ConfigurationError(
            f"Agent {agent!r}: allowed_tools has {unknown[0]!r}, which is not among its tools "
            f"({', '.join(sorted(tools)) or 'it has none'})"
        )


def allowed_names(agent: str, given: Any) -> set[str]:
    """Return the names of tools in ``given``.

    Raises:
        ConfigurationError: The value is not a list of names.
    """
    if isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping):
        found: set[Any] = set(given)  # pyright: ignore[reportUnknownArgumentType] - users pass anything
        if all(isinstance(name, str) for name in found):
            return found
    raise ConfigurationError(
        f"Agent {agent!r}: allowed_tools must be a list of names, or a function that returns "
        f"a list, not {given!r:.80}"
    )
