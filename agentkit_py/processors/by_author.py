"""What an agent sees of the other agents' messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.removal import is_same, without_calls
from agentkit_py.processors.settings import Check, ConfiguredProcessor, names, optional


@dataclass(frozen=True, kw_only=True)
class ByAuthor(ConfiguredProcessor):
    """Keeps what some agents wrote only, or leaves out what some wrote.

    An agent's texts, reasoning and tool calls go, and the results of its calls. Messages of users
    and of the system, and those whose author is not known, stay; so do the running agent's own
    calls of the current run.

    Args:
        keep: Keep messages of these agents only.
        drop: Leave out messages of these agents only.

    Raises:
        ConfigurationError: Not exactly one of them is given, or it is no list of names.
    """

    looks_back: ClassVar[bool] = False

    keep: Iterable[str] | None = None
    drop: Iterable[str] | None = None

    settings: ClassVar[Mapping[str, Check]] = {"keep": optional(names), "drop": optional(names)}

    def __post_init__(self) -> None:
        """Check the names."""
        self._check()
        if (self.keep is None) == (self.drop is None):
            raise ConfigurationError("ByAuthor takes keep=… or drop=…: exactly one of them.")

    @property
    def reason(self) -> str:
        """Whose messages it keeps or leaves out."""
        rule, agents = ("only", self.keep) if self.drop is None else ("nothing", self.drop)
        return f"{rule} of {', '.join(sorted(agents or ())) or 'no agent'}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages of the agents that may be seen."""
        keeps = self._verdict(context.held)
        if all(map(keeps, messages)):
            return messages
        # Results go with their calls, whoever is said to have written them.
        left = without_calls(
            messages,
            lambda index, _: keeps(messages[index]),
            keeps_orphan=lambda index: keeps(messages[index]),
        )
        found = [m for m in left if m.type in ("tool_call", "tool_result") or keeps(m)]
        return messages if is_same(messages, found) else found

    def _verdict(self, held: frozenset[int]) -> Callable[[Message], bool]:
        keep, drop = self.keep, frozenset(self.drop or ())
        kept = None if keep is None else frozenset(keep)

        def keeps(message: Message) -> bool:
            author = message.agent
            if author is None:
                return True
            seen = author not in drop if kept is None else author in kept
            return seen or id(message) in held

        return keeps
