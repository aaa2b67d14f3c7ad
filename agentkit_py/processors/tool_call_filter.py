"""Hiding tool calls from a model: those of some tools, those of all others, or all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext
from agentkit_py.processors.groups import CallGroup, call_groups
from agentkit_py.processors.pairing import Pairing, pair


class ToolCallFilter(HistoryProcessor):
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
        self._persist = persist_results

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
        if not any(self._affects(message, context) for message in messages):
            return messages
        left = _Filtering(self, messages, context, persist=self._persist).run()
        if len(left) == len(messages) and all(a is b for a, b in zip(left, messages, strict=True)):
            return messages
        return left

    def _affects(self, message: Message, context: ProcessorContext) -> bool:
        match message:
            case ToolCallMessage():
                filtered = not message.tools or not all(self.keeps(c.name) for c in message.tools)
            case ToolResultMessage():
                # Without a name it is its call's tool that counts.
                filtered = not self.keeps(message.tool.name)
            case TextMessage() | ReasoningMessage():
                return False
            case _:
                assert_never(message)
        return filtered and not context.is_protected(message)


class _Filtering:
    """One pass of a filter over one list."""

    def __init__(
        self,
        rule: ToolCallFilter,
        messages: Sequence[Message],
        context: ProcessorContext,
        *,
        persist: bool,
    ) -> None:
        self._rule = rule
        self._messages = messages
        self._context = context
        self._persist = persist
        self._pairing: Pairing = pair(messages)
        self._out: list[Message] = []

    def run(self) -> list[Message]:
        groups = {g.calls[0]: g for g in call_groups(self._messages, self._pairing)}
        kept = self._kept_members(groups.values())
        for index, message in enumerate(self._messages):
            group = groups.get(index)
            if group is not None and self._persist:
                # Ahead of the group: between its calls and results it would tear them apart.
                self._out += self._summaries(group)
            rest = kept.get(index, message)
            if rest is not None and self._stays(index, rest):
                self._out.append(rest)
        return self._out

    def _kept_members(self, groups: Iterable[CallGroup]) -> dict[int, Message | None]:
        """What is left of each member of the groups; None: nothing."""
        kept: dict[int, Message | None] = {}
        for group in groups:
            leads_on = False
            for index in reversed(group.calls):
                message = self._messages[index]
                if isinstance(message, ToolCallMessage):
                    rest = kept[index] = self._rest(message)
                    leads_on = leads_on or rest is not None
                elif not leads_on:
                    # Reasoning goes with the calls it led to.
                    kept[index] = None
            for index in group.results:
                kept[index] = self._messages[index] if self._keeps_result(index) else None
        return kept

    def _rest(self, message: ToolCallMessage) -> ToolCallMessage | None:
        tools = [call for call in message.tools if self._keeps(message, call)]
        if len(tools) == len(message.tools):
            return message
        return replace(message, tools=tuple(tools)) if tools else None

    def _keeps(self, message: Message, call: ToolCall) -> bool:
        return self._rule.keeps(call.name) or self._context.is_protected(message)

    def _keeps_result(self, index: int) -> bool:
        call_index, place = self._pairing.calls[index]
        message = self._messages[call_index]
        assert isinstance(message, ToolCallMessage)
        return self._keeps(message, message.tools[place])

    def _stays(self, index: int, message: Message) -> bool:
        """Whether a message stays for its own sake: results that answer no call have a tool too."""
        match message:
            case ToolResultMessage() if index not in self._pairing.calls:
                return self._keeps(message, message.tool)
            case ToolCallMessage():
                return len(message.tools) > 0
            case _:
                return True

    def _summaries(self, group: CallGroup) -> list[Message]:
        """A line for each call message of ``group`` that loses calls."""
        summaries: list[Message] = []
        for index in group.calls:
            message = self._messages[index]
            if not isinstance(message, ToolCallMessage):
                continue
            names = [call.name for call in message.tools if not self._keeps(message, call)]
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
