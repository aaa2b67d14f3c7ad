"""Messages that survive everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, text_of
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext
from agentkit_py.processors.groups import call_groups
from agentkit_py.processors.settings import checked_object, names

Predicate: TypeAlias = Callable[[Message], bool]
"""Gets a message, and says whether it is pinned."""


class Pin(HistoryProcessor):
    """Keeps some messages, whatever other processors do, before and after it and at any level.

    Of a call group all is kept if any of it is pinned, so that no call is parted from its result.
    A processor may rewrite a pinned message (mask a name in it), but not drop it.

    Args:
        predicate: Which messages of the full history are pinned; asked once for each, before any
            processor runs.

    Raises:
        ConfigurationError: ``predicate`` cannot be called.
    """

    def __init__(self, predicate: Predicate) -> None:
        if not callable(predicate):
            raise ConfigurationError(f"Pin needs a function of a message, not {predicate!r:.80}.")
        self._predicate = predicate

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Pin:
        """Make one from a dict: ``{"contains": [texts], "tools": [names], "agents": [names]}``.

        A message is pinned if one of them fits: it has one of the texts in it (in any case), calls
        or answers one of the tools, or was written by one of the agents.

        Raises:
            ConfigurationError: A key is not known, or its value is no list of strings.
        """
        found: dict[str, frozenset[str]] = {}
        for key, value in checked_object("Pin.from_settings", settings).items():
            if key not in ("contains", "tools", "agents"):
                raise ConfigurationError(
                    f"Pin has no setting {key!r}; known are: agents, contains, tools."
                )
            found[key] = names(f"Pin: {key}", value)
        if not found:
            raise ConfigurationError("Pin.from_settings needs agents, contains or tools.")
        return cls(_Rule(found))

    @property
    def reason(self) -> str:
        """What it is for."""
        return "pinned messages stay"

    def pinned(self, messages: Sequence[Message]) -> Iterable[Message]:
        """The messages that fit, and the call groups that they belong to."""
        chosen = {index for index, message in enumerate(messages) if self._predicate(message)}
        if not chosen:
            return ()
        whole = set(chosen)
        if any(messages[index].type != "text" for index in chosen):
            for group in call_groups(messages):
                if not chosen.isdisjoint(group.members):
                    whole.update(group.members)
        return [messages[index] for index in sorted(whole)]

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages as they are: pins work beside the chain."""
        del context
        return messages


class _Rule:
    """The predicate that settings describe."""

    def __init__(self, found: Mapping[str, frozenset[str]]) -> None:
        self._texts = [text.casefold() for text in found.get("contains", ())]
        self._tools = found.get("tools", frozenset())
        self._agents = found.get("agents", frozenset())

    def __call__(self, message: Message) -> bool:
        if message.agent is not None and message.agent in self._agents:
            return True
        if message.type == "tool_call" and any(c.name in self._tools for c in message.tools):
            return True
        if message.type == "tool_result" and message.tool.name in self._tools:
            return True
        if not self._texts:
            return False
        said = text_of(message).casefold()
        return any(text in said for text in self._texts)
