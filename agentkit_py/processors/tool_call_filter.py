"""Hiding tool calls from a model: those of some tools, those of all others, or all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.groups import CallGroup
from agentkit_py.processors.removal import rest_of, without_calls
from agentkit_py.processors.settings import Check, ConfiguredProcessor, flag, optional
from agentkit_py.processors.settings import names as name_list


class ToolCallFilter(ConfiguredProcessor):
    """Removes tool calls and their results from what a model sees.

    A model that sees calls of tools it does not have tends to call them. Which tools an agent has
    does not change.

    Args:
        include: Keep calls of these tools only.
        exclude: Remove calls of these tools only. With neither, all calls are removed.
        persist_results: Leave a line of text in place of what is removed ("Used **search** tool").

    Raises:
        ConfigurationError: Both ``include`` and ``exclude`` are given, or one is no list of names.
    """

    looks_back: ClassVar[bool] = False

    settings: ClassVar[Mapping[str, Check]] = {
        "include": optional(name_list),
        "exclude": optional(name_list),
        "persist_results": flag,
    }
    aliases: ClassVar[Mapping[str, str]] = {"persistResults": "persist_results"}

    def __init__(
        self,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        persist_results: bool = False,
    ) -> None:
        if include is not None and exclude is not None:
            raise ConfigurationError(
                "ToolCallFilter takes include=… or exclude=…, not both: calls of tools that are "
                "not in include are removed anyway."
            )
        self._include = None if include is None else _names("include", include)
        self._exclude = None if exclude is None else _names("exclude", exclude)
        self._persist_results = persist_results

    @property
    def reason(self) -> str:
        """Which calls it removes."""
        if self._include is not None:
            return f"only calls of {_listed(self._include)}"
        if self._exclude is not None:
            return f"no calls of {_listed(self._exclude)}"
        return "no tool calls"

    def keeps(self, tool: str) -> bool:
        """Whether calls of ``tool`` stay."""
        if self._include is not None:
            return tool in self._include
        return self._exclude is not None and tool not in self._exclude

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without the calls that are filtered and their results."""
        rule = _Rule(self, messages, context)
        left = None if self._persist_results or context.protected else rule.by_name()
        if left is not None:
            return messages if len(left) == len(messages) and not rule.changed else left
        if not any(rule.affects(message) for message in messages):
            return messages
        return without_calls(
            messages,
            rule.keeps_call,
            keeps_orphan=rule.keeps_orphan,
            in_place_of=rule.summaries if self._persist_results else None,
        )


class _Rule:
    """A filter on one list."""

    def __init__(
        self, rule: ToolCallFilter, messages: Sequence[Message], context: ProcessorContext
    ) -> None:
        self._messages = messages
        self._context = context
        self._keeps = _Verdicts(rule)
        self.changed = False
        """Whether a call message lost some of its calls only."""

    def by_name(self) -> list[Message] | None:
        """What is left where each message decides for itself; None: some do not.

        A result has the tool of its call unless it names none; reasoning goes with its calls.
        """
        keeps = self._keeps
        left: list[Message] = []
        reasoned = False
        for message in self._messages:
            rest: Message | None = message
            if message.type == "text":
                reasoned = False
            elif message.type == "tool_result":
                if not message.tool.name:
                    return None
                if not keeps[message.tool.name]:
                    continue
            elif message.type == "tool_call":
                rest = self._rest(message)
                if reasoned and rest is not message:
                    return None
                if rest is None:
                    continue
            else:
                reasoned = True
            left.append(rest)
        return left

    def _rest(self, message: ToolCallMessage) -> ToolCallMessage | None:
        keeps, tools = self._keeps, message.tools
        if len(tools) == 1:
            return message if keeps[tools[0].name] else None
        kept = [place for place, call in enumerate(tools) if keeps[call.name]]
        rest = rest_of(message, kept)
        self.changed = self.changed or rest is not message
        return rest

    def affects(self, message: Message) -> bool:
        """Whether ``message`` is one that cannot stay as it is."""
        match message:
            case ToolCallMessage():
                filtered = not message.tools or not all(self._keeps[c.name] for c in message.tools)
            case ToolResultMessage():
                # Without a name it is its call's tool that counts.
                filtered = not self._keeps[message.tool.name]
            case _:
                return False
        return filtered and not self._context.is_protected(message)

    def keeps_call(self, index: int, place: int) -> bool:
        """Whether one call stays."""
        message = self._messages[index]
        assert isinstance(message, ToolCallMessage)
        return self._stays(message, message.tools[place])

    def keeps_orphan(self, index: int) -> bool:
        """Whether a result stays that answers no call: it has a tool, too."""
        message = self._messages[index]
        assert isinstance(message, ToolResultMessage)
        return self._stays(message, message.tool)

    def _stays(self, message: Message, call: ToolCall) -> bool:
        return self._keeps[call.name] or self._context.is_protected(message)

    def summaries(self, group: CallGroup) -> list[Message]:
        """A line for each call message of ``group`` that loses calls."""
        summaries: list[Message] = []
        for index in group.calls:
            message = self._messages[index]
            if not isinstance(message, ToolCallMessage):
                continue
            names = [call.name for call in message.tools if not self._stays(message, call)]
            if names:
                summaries.append(
                    TextMessage(
                        "assistant",
                        _summary(names),
                        stop_reason="stop",
                        from_history=message.from_history,
                        agent=message.agent,
                    )
                )
        return summaries


class _Verdicts(dict[str, bool]):
    """Which tools' calls stay, asked once for each name."""

    def __init__(self, rule: ToolCallFilter) -> None:
        self._rule = rule

    def __missing__(self, name: str) -> bool:
        self[name] = verdict = self._rule.keeps(name)
        return verdict


def _summary(names: Sequence[str]) -> str:
    """The words of the upstream proposal."""
    return f"Used **{names[0]}** tool" if len(names) == 1 else f"Used tools: {', '.join(names)}"


def _names(option: str, value: Iterable[str]) -> frozenset[str]:
    names = None if isinstance(value, str) else list(value)
    if names is None or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{option} must be a list of tool names, not {value!r}.")
    return frozenset(names)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no tool"
