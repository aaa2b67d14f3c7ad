"""Routing by mention: ``@billing, what do I owe?`` goes to the agent called billing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable

from agentkit_py._core.awaiting import resolve
from agentkit_py.engine.agent import Agent, RoutingAgent
from agentkit_py.engine.router import Routed, Router, RouterContext, check_router

_BEFORE, _AFTER = r"(?<![\w@.])@", r"(?![\w-])(?!\.\w)"


def mention_router(
    fallback: Router | Agent | str | None = None,
) -> Callable[[RouterContext], Awaitable[Routed]]:
    """A router that gives each agent mentioned as ``@name`` one turn, in the order of mention.

    Case does not matter; names that are no enabled agent of the network are no mentions.

    Args:
        fallback: Who is next where nobody is mentioned: an agent or its name (one turn), or a
            router, which then routes the whole run. None: nobody.

    Raises:
        ConfigurationError: ``fallback`` is none of these.
    """
    one = fallback if isinstance(fallback, str | Agent) else None
    if one is None:
        check_router("mention_router", fallback)

    async def route(context: RouterContext) -> Routed:
        agents = await context.network.available_agents()
        named = mentioned(context.input, [agent.name for agent in agents])
        if named:
            return named if context.call_count == 0 else None
        if isinstance(fallback, RoutingAgent):
            return fallback
        if isinstance(fallback, str | Agent):
            return fallback if context.call_count == 0 else None
        return None if fallback is None else await resolve(fallback(context))

    return route


def mentioned(text: str, names: Iterable[str]) -> list[str]:
    """Which of ``names`` are mentioned in ``text``, in the order of their first mention."""
    found: list[tuple[int, int, str]] = []
    for name in names:
        match = re.search(f"{_BEFORE}{re.escape(name)}{_AFTER}", text, re.IGNORECASE)
        if match is not None:
            found.append((match.start(), -len(name), name))
    places: dict[int, str] = {}
    for start, _, name in sorted(found):  # of two names at one place the longer is meant
        places.setdefault(start, name)
    return list(places.values())
