"""Telling what an import brings a second time, where it has no ids.

Threads without an id get one that is made of their line. Results stay without, so that an import
loses and adds nothing; they are known by what is said in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from agentkit_py._core.json import dumps
from agentkit_py.codec import message_to_dict
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import AgentResult
from agentkit_py.stores._delegating import redactor_of
from agentkit_py.stores.base import HistoryStore

_BYTES = 12


@dataclass(slots=True)
class Recognising:
    """What one import has seen.

    Who says the same twice in a thread is heard twice: the how-manieth time it is counts, too.
    """

    store: HistoryStore
    """Where everything is added."""

    user_id: str | None = None
    """Whose threads are added; None: those of whoever the lines name."""

    _lines: Counter[str] = field(default_factory=Counter[str])
    _rows: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    _stored: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def thread_id(self, record: Mapping[str, Any]) -> str:
        """An id for the thread of a line: the same for the same lines of the same user."""
        known = record if self.user_id is None else [self.user_id, record]
        return f"import-{_numbered(_digest(known), self._lines)}"

    async def are_stored(
        self, thread_id: str, results: Sequence[AgentResult], *, whole: bool
    ) -> list[bool]:
        """Of each result whether it has no id and was in its thread before the import.

        Args:
            thread_id: The thread; it is there.
            results: The results of a line.
            whole: Whether the line holds all of the thread, else one result of it.
        """
        redactor = redactor_of(self.store)
        counted = Counter[str]() if whole else self._rows.setdefault(thread_id, Counter())
        found: list[bool] = []
        for result in results:
            name = None if result.id is not None else _name_of(result, counted, redactor)
            found.append(name is not None and name in await self._names(thread_id))
        return found

    async def _names(self, thread_id: str) -> frozenset[str]:
        """The results without ids that were there before."""
        if thread_id not in self._stored:
            counted = Counter[str]()
            records = await self.store.records(thread_id)
            results = [one.result for one in records if one.result.id is None]
            names = [_name_of(result, counted, None) for result in results]
            self._stored[thread_id] = frozenset(names)
        return self._stored[thread_id]


def _name_of(result: AgentResult, counted: Counter[str], redactor: Redactor | None) -> str:
    said = [
        [message_to_dict(redactor.message(one) if redactor else one) for one in messages]
        for messages in (result.output, result.tool_calls)
    ]
    return _numbered(_digest([result.agent_name, *said]), counted)


def _numbered(digest: str, counted: Counter[str]) -> str:
    counted[digest] += 1
    number = counted[digest]
    return digest if number == 1 else f"{digest}-{number}"


def _digest(value: object) -> str:
    text = dumps(value).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=_BYTES).hexdigest()
