"""Transcript: the messages of a thread and a run, with their authors; history and staff marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from operator import is_
from typing import overload

from agentkit_py.messages import Message, TextContent, TextMessage, derived
from agentkit_py.results import USER, AgentResult, StaffAuthor
from agentkit_py.state import State

GUARDRAIL = "guardrail"
"""The stop reason of turns and runs that a guardrail ended, and its word for the reply's end."""

INTERRUPTED = "interrupted"
"""The stop reason of turns and runs that end for a message of the user."""


@dataclass(slots=True)
class Transcript:
    """The user turns and results of a run's state, and which of them this run added.

    Each message says on which side it is (``from_history``). A message that a tool or hook put into
    the state without a side is on the side of the message before it.
    """

    state: State
    question: str | None
    """The id of this run's user message: the prompt holds it, so the history does not."""

    older: tuple[AgentResult, ...] = ()
    """A fork's older results of the thread that processors asked for; not in its state."""

    added: list[AgentResult] = field(default_factory=list[AgentResult])
    """The results of this run."""

    _entries: Sequence[AgentResult] = field(default=(), init=False, repr=False)
    _past: list[Message] = field(init=False, repr=False)
    _present: list[Message] = field(init=False, repr=False)
    _is_present: bool = field(default=False, init=False, repr=False)
    """True if the message that was read last is of this run."""

    _is_asked: bool = field(default=False, init=False, repr=False)
    """True if the entry read last follows this run's message."""

    def begin(self) -> None:
        """Mark everything in the state as from before this run."""
        self.state.mark_past()

    def add(self, result: AgentResult) -> AgentResult:
        """Append a result of this run to the state; return the stored result."""
        result = result.on_side(past=False)
        self.state.append_result(result)
        self.added.append(result)
        return result

    def results(self) -> list[AgentResult]:
        """Return the results of this run that are in the state, in order."""
        return [
            entry
            for entry in self.of_this_run()
            if entry.agent_name != USER and entry.staff is None
        ]

    def of_this_run(self) -> list[AgentResult]:
        """Return the user turn and the results of this run, in order."""
        own, added = self._own_ids(), set(map(id, self.added))  # a hook's result may have no id
        return [e for e in self.state.transcript if e.id in own or id(e) in added]

    def _own_ids(self) -> set[str]:
        ids = (self.question, *(result.id for result in self.added))
        return {one for one in ids if one is not None}

    def history(self) -> tuple[Message, ...]:
        """Return the history of the next model call: past messages, then those of this run."""
        self._read()
        older: list[Message] = []
        if self.older:
            withheld = _withheld(self.older)
            for entry in self.older:
                older += _hidden(entry) if id(entry) in withheld else read_by_models(entry)
        return (*self.state.messages, *older, *self._past, *self._present)

    def add_older(self, entries: Sequence[AgentResult]) -> None:
        """Add older entries of the thread, which do not belong into the state."""
        self.older = (*[entry.on_side(past=True) for entry in entries], *self.older)

    def forget_older(self) -> None:
        """Leave out the older entries that were loaded."""
        self.older = ()

    def times(self) -> dict[int, datetime]:
        """Return the time of each message, by its id in this process; seed messages have none."""
        entries = (*self.older, *self.state.transcript)
        return {id(m): e.created_at for e in entries for m in (*e.output, *e.tool_calls)}

    def _read(self) -> None:
        """Sort the messages of entries that were added since the last call.

        All entries are sorted again if a tool or hook changed entries already read (as another
        agent's run on the same state does), or added messages of this run without a side.
        """
        entries = self.state.transcript
        count = len(self._entries)
        is_same = len(entries) >= count and all(map(is_, entries, self._entries))
        if not is_same or self._has_unmarked(entries[count:]):
            self.state.mark_present(self._own_ids())
            entries, count = self.state.transcript, 0
        if not count:
            self._past, self._present, self._is_asked = [], [], False
        withheld = _withheld(entries[max(0, count - 1) :])
        for entry in entries[count:]:
            said: Sequence[Message] = (*entry.output, *entry.tool_calls)
            if id(entry) in withheld:
                said = _hidden(entry)
            elif entry.staff is not None:
                said = read_by_models(entry)
            by_user = entry.agent_name == USER
            self._is_asked = self._is_asked or (by_user and entry.id == self.question)
            if self._is_asked and is_cut_reply(entry):
                continue  # an earlier run broke off here; this run answers the same message
            # A call for each message would cost more than all else here.
            for one in said:
                text = one.content if by_user and one.type == "text" else ""
                message = one if isinstance(text, str) and "<" not in text else users_words(one)
                self._is_present = message.from_history is False
                # The prompt holds the user message of this run.
                if not by_user or entry.id != self.question:
                    (self._present if self._is_present else self._past).append(message)
        self._entries = entries

    def _has_unmarked(self, entries: Sequence[AgentResult]) -> bool:
        """Return whether a message without a side follows a message of this run."""
        is_present = self._is_present
        for entry in entries:
            for message in (*entry.output, *entry.tool_calls):
                if message.from_history is None and is_present:
                    return True
                is_present = message.from_history is False
        return False

    def fork(self, state: State) -> Transcript:
        """Return the transcript of an agent that runs in parallel to others, on its own state."""
        return Transcript(state, self.question, self.older)


def is_cut_reply(entry: AgentResult) -> bool:
    """Return whether an entry of an earlier run is a reply that broke off or was stopped."""
    for message in entry.output:
        is_text = isinstance(message, TextMessage) and message.role == "assistant"
        if not is_text or message.stop_reason != "error" or message.from_history is False:
            return False
    return bool(entry.output) and not entry.tool_calls


WITHHELD = "[A guardrail stopped this message; it is not shown.]"


def _withheld(entries: Sequence[AgentResult]) -> set[int]:
    """Return the user turns (by their ids in this process) that input guardrails stopped."""
    found: list[AgentResult] = []
    for before, entry in pairwise(entries):
        finish = entry.finish
        if finish is None or finish.word != GUARDRAIL:
            continue
        details = finish.details or {}
        if details.get("stage") == "input":
            named = details.get("message", before.id)
            found += [before] if named == before.id else [e for e in entries if e.id == named]
    return {id(entry) for entry in found if entry.agent_name == USER} if found else set()


def _hidden(entry: AgentResult) -> Sequence[Message]:
    """Return the messages of a user's turn that a guardrail stopped, as models see them."""
    return [derived(m, WITHHELD, partial(_emptied, m)) for m in entry.output]


def _emptied(message: Message) -> Message:
    return TextMessage("user", WITHHELD, from_history=message.from_history)


_ELEMENT = re.compile(r"<(?=\s*+(?:/\s*+)?staff)", re.IGNORECASE)


def read_by_models(entry: AgentResult) -> Sequence[Message]:
    """Return the messages of an entry as models read them."""
    if entry.staff is not None:
        if entry.staff.to == "staff":
            return ()
        said = partial(_of_staff, entry.staff)
        return [derived(m, ("staff", entry.staff), partial(said, m)) for m in entry.output]
    if entry.agent_name == USER:
        return [users_words(message) for message in entry.output]
    return (*entry.output, *entry.tool_calls)


def _of_staff(author: StaffAuthor, message: Message) -> Message:
    assert isinstance(message, TextMessage)
    to = "" if author.to == "user" else ' to="agents"'
    text = f'<staff name="{author.name}"{to}>\n{_escaped(message.text)}\n</staff>'
    return TextMessage("user", text, from_history=message.from_history)


@overload
def users_words(message: TextMessage) -> TextMessage: ...
@overload
def users_words(message: Message) -> Message: ...
def users_words(message: Message) -> Message:
    """Return a user's message without text that would look like a message of staff."""
    if not isinstance(message, TextMessage) or message.role != "user":
        return message
    if isinstance(message.content, str) and "<" not in message.content:
        return message
    return derived(message, "user's words", partial(_of_user, message))


def _of_user(message: TextMessage) -> TextMessage:
    if isinstance(message.content, str):
        text = _escaped(message.content)
        return message if text == message.content else replace(message, content=text)
    parts = tuple(
        replace(part, text=_escaped(part.text)) if isinstance(part, TextContent) else part
        for part in message.content
    )
    return message if parts == tuple(message.content) else replace(message, content=parts)


def _escaped(text: str) -> str:
    return _ELEMENT.sub("&lt;", text) if "<" in text else text
