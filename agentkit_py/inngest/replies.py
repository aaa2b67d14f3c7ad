"""Replies that this process has decoded before, for the replays of a run.

A function runs again from the top for each new step and comes by every reply that it has had, of
which reading is a good part of what is left. This is a cache and nothing more: what it holds is
used only for the very same JSON, read for the same model, and without it (another process, a run
that was let go) replies are decoded as ever.

Whoever gets a reply has it for himself: hooks, processors and callers may hold and even change what
they get, so nothing but texts and numbers is shared by two executions.
"""

from __future__ import annotations

import marshal
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from agentkit_py._core.json import copied, find_non_json
from agentkit_py._core.values import changed
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models.base import Model, ModelReply

MAX_RUNS = 200
"""Runs whose replies are kept; of more, those that were idle for longest are let go."""

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all replies that are kept, counted by their JSON and `_OVERHEAD`."""

_OVERHEAD = 1024
"""Bytes that the objects of a reply take beside its JSON: 923 with one call (tracemalloc)."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What one reply was, and what was made of it."""

    body: bytes
    model: Model
    author: str
    reply: ModelReply

    @property
    def size(self) -> int:
        return len(self.body) + _OVERHEAD

    def is_of(self, body: bytes | None, model: Model, author: str) -> bool:
        return (
            self.body == body
            and self.author == author
            and (self.model is model or self.model == model)
        )


class RunReplies:
    """The replies of one run."""

    __slots__ = ("_known", "_pool", "open", "size")

    def __init__(self, pool: KnownReplies) -> None:
        """Begin with none; ``pool`` says how many may be kept."""
        self._pool = pool
        self._known: dict[str, _Known] = {}
        self.size: int = 0
        self.open: bool = True

    def decode(self, step_id: str, model: Model, body: object, author: str) -> ModelReply:
        """What ``model.decode`` gives for the reply of a step, signed by ``author`` if it is known.

        Raises:
            ModelResponseError: As `Model.decode`; that is not kept.
        """
        exact = _exact(body)
        known = self._known.get(step_id)
        if known is not None and known.is_of(exact, model, author):
            return _copy(known.reply)
        reply = model.decode(body)
        if exact is not None and _is_plain(reply):
            signed = _signed(_copy(reply), author)
            self._pool.keep(self, step_id, _Known(exact, model, author, signed))
        return reply

    def put(self, step_id: str, known: _Known) -> None:
        """Keep one, instead of what was kept for the step; for the pool."""
        before = self._known.get(step_id)
        self.size += known.size - (before.size if before is not None else 0)
        self._known[step_id] = known

    def close(self) -> None:
        """Let all go, and keep no more."""
        self.open = False
        self.size = 0
        self._known.clear()


class KnownReplies:
    """The replies of all runs that this process works on, within bounds."""

    def __init__(self, *, runs: int = MAX_RUNS, size: int = MAX_BYTES) -> None:
        """Keep replies of ``runs`` runs and ``size`` bytes at the most."""
        self._most_runs = runs
        self._most_bytes = size
        self._runs: OrderedDict[str, RunReplies] = OrderedDict()
        self._size = 0
        # Event loops of several threads may serve functions in one process.
        self._lock = threading.Lock()

    @property
    def runs(self) -> int:
        """How many runs have replies here."""
        return len(self._runs)

    @property
    def size(self) -> int:
        """How many bytes they have together."""
        return self._size

    def of(self, run_id: str) -> RunReplies:
        """Those of a run, which is not idle now."""
        with self._lock:
            found = self._runs.get(run_id)
            if found is None:
                found = self._runs[run_id] = RunReplies(self)
                while len(self._runs) > self._most_runs:
                    self._let_go(next(iter(self._runs)))
            else:
                self._runs.move_to_end(run_id)
            return found

    def drop(self, run_id: str) -> None:
        """The run has ended."""
        with self._lock:
            if run_id in self._runs:
                self._let_go(run_id)

    def keep(self, run: RunReplies, step_id: str, known: _Known) -> None:
        """Keep a reply of ``run``, instead of those of other runs that were idle for longer."""
        with self._lock:
            if not run.open or run.size + known.size > self._most_bytes:
                return
            self._size -= run.size
            run.put(step_id, known)
            self._size += run.size
            while self._size > self._most_bytes:
                self._let_go(next(name for name, one in self._runs.items() if one is not run))

    def _let_go(self, run_id: str) -> None:
        run = self._runs.pop(run_id)
        self._size -= run.size
        run.close()


known_replies: KnownReplies = KnownReplies()
"""Those of this process."""


def _exact(body: Any) -> bytes | None:
    """A text of the JSON that no other JSON has; None: it is something else.

    Comparing objects would take 1, 1.0 and True for the same. Format 2 does not depend on which
    objects are the same object, as later ones do.
    """
    try:
        return marshal.dumps(body, 2)
    except ValueError:
        return None


def _is_plain(reply: ModelReply) -> bool:
    """Whether a copy by `_copy` shares nothing that can be changed."""
    return (
        type(reply) is ModelReply
        and type(reply.usage) in (Usage, type(None))
        and all(map(_is_plain_message, reply.messages))
    )


def _is_plain_message(message: Message) -> bool:
    if find_non_json(message.provider_metadata) is not None:
        return False
    if type(message) is TextMessage or type(message) is ReasoningMessage:
        return isinstance(message.content, str)
    return type(message) is ToolCallMessage and all(map(_is_plain_call, message.tools))


def _is_plain_call(call: ToolCall) -> bool:
    json: Any = [call.input, call.provider_metadata]
    return type(call) is ToolCall and find_non_json(json) is None


def _signed(reply: ModelReply, author: str) -> ModelReply:
    """The reply with the name of its author, so that no replay has to write it again."""
    if not author:
        return reply
    messages = (m if m.agent is not None else changed(m, agent=author) for m in reply.messages)
    return replace(reply, messages=tuple(messages))


def _copy(reply: ModelReply) -> ModelReply:
    return ModelReply(
        messages=tuple(map(_copy_message, reply.messages)),
        usage=reply.usage,
        finish_reason=reply.finish_reason,
    )


def _copy_message(message: Message) -> Message:
    metadata = message.provider_metadata
    if metadata is not None:
        metadata = copied(metadata)
    if not isinstance(message, ToolCallMessage):
        return changed(message, provider_metadata=metadata)
    calls = list(map(_copy_call, message.tools))
    return ToolCallMessage(
        calls if isinstance(message.tools, list) else tuple(calls),
        stop_reason=message.stop_reason,
        from_history=message.from_history,
        agent=message.agent,
        provider_metadata=metadata,
    )


def _copy_call(call: ToolCall) -> ToolCall:
    metadata = call.provider_metadata
    if metadata is not None:
        metadata = copied(metadata)
    return ToolCall(call.id, call.name, copied(call.input), call.malformed, metadata)
