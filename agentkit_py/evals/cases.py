"""Cases, the outcome of their runs, and cases made of recorded threads."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import Message, TextMessage, Usage
from agentkit_py.results import AgentResult


@dataclass(frozen=True, slots=True)
class Verdict:
    """An evaluator's verdict, with the reason."""

    passed: bool
    reason: str = ""


CaseCheck: TypeAlias = "Callable[[Outcome], Verdict | bool | str | Awaitable[Verdict | bool | str]]"
"""A verdict; True or False; or the reason why not, empty where it holds."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A check with a name, by which reports know it."""

    name: str
    check: CaseCheck

    async def __call__(self, outcome: Outcome) -> Verdict:
        """Return the verdict on a run; a check that fails itself gives a verdict, too."""
        try:
            found = await resolve(self.check(outcome))
        except Exception as error:  # noqa: BLE001 - it is the user's, and others continue
            return Verdict(passed=False, reason=f"{type(error).__name__}: {error}")
        if isinstance(found, str):
            return Verdict(passed=not found, reason=found)
        return found if isinstance(found, Verdict) else Verdict(bool(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question to a network, and the requirements for its answer."""

    name: str
    input: str
    before: Sequence[str] = ()
    """Earlier messages of the user, which are really answered first, in the same thread."""

    thread: Sequence[Message] = ()
    """Earlier messages of the thread, as they were recorded."""

    state: Any = None
    """The data of the run's state; None: the network's own."""

    expected: Any = None
    """The value that `equals`, `contains` and `matches_schema` compare with by default."""

    evaluators: Sequence[Evaluator] = ()
    """In addition to those of the suite."""

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON; evaluators are code and stay behind."""
        return {
            "name": self.name,
            "input": self.input,
            "before": list(self.before),
            "thread": [message_to_dict(message) for message in self.thread],
            "state": self.state,
            "expected": self.expected,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Case:
        """Return the case that `to_dict` wrote.

        Raises:
            InvalidRecordError: It is none.
        """
        try:
            return cls(
                name=str(found["name"]),
                input=str(found["input"]),
                before=tuple(map(str, found.get("before") or ())),
                thread=tuple(message_from_dict(one) for one in found.get("thread") or ()),
                state=found.get("state"),
                expected=found.get("expected"),
            )
        except (KeyError, TypeError) as error:
            problem = f"a case needs name and input ({type(error).__name__}: {error})"
            raise InvalidRecordError(problem, where="case", field="(whole)") from error


@dataclass(frozen=True, slots=True)
class CallMade:
    """A tool call of a run, with its result."""

    agent: str
    name: str
    arguments: Mapping[str, Any]
    content: Any
    is_error: bool


@dataclass(frozen=True, slots=True)
class Saw:
    """The messages of a model call."""

    agent: str
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a case's run, without those of the user's earlier messages."""

    case: Case
    text: str = ""
    error: str = ""
    """The error that ended the run; empty: none did."""

    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    calls: Sequence[CallMade] = ()
    saw: Sequence[Saw] = ()
    agents: Sequence[str] = ()
    """The agents that answered, in order, each as often as its model was asked."""

    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The names of each agent's own tools."""


def case_from_thread(entries: Sequence[AgentResult], name: str) -> Case:
    """Return the last question of a stored thread as a case: its answer is the expected answer.

    Raises:
        InvalidRecordError: The thread holds no question with an answer.
    """
    turns = [index for index, entry in enumerate(entries) if entry.agent_name == "user"]
    answered = [index for index in turns if any(e.text for e in entries[index + 1 :])]
    if not answered:
        problem = "holds no question of a user with an answer"
        raise InvalidRecordError(problem, where=f"thread {name!r}", field="results")
    last = answered[-1]
    asked = " ".join(m.text for m in entries[last].output if isinstance(m, TextMessage))
    following = [index for index in turns if index > last]
    replies = entries[last + 1 : following[0] if following else None]
    texts = [entry.text for entry in replies if entry.text]
    earlier = tuple(message for entry in entries[:last] for message in entry.messages)
    return Case(name=name, input=asked, thread=earlier, expected=texts[-1] if texts else None)


def read_cases(path: str | Path) -> list[Case]:
    """Return the cases of a file of JSON Lines, e.g. of ``agentkit eval from-thread``.

    Raises:
        InvalidRecordError: A line is not a case; the error names it.
    """
    found: list[Case] = []
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        if line.strip():
            try:
                found.append(Case.from_dict(json.loads(line)))
            except (ValueError, InvalidRecordError) as error:
                where = f"{path}, line {number}"
                raise InvalidRecordError(str(error), where=where, field="(whole)") from error
    return found
