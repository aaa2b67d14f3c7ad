"""Open replies: the outcome of each of their calls when the run ends.

A run that ends by an error, or is cancelled, keeps such a reply: each call is recorded in the
thread as done, failed, not known, or not made. Calls that a replay remembers count as if they had
just been done.

A durable run that is stopped from outside cannot save anything itself. So it notes each call in
its store when the call begins and when it is done, inside the call's own step; the receiver of the
stop makes results of its notes. A step that was still running then finds its execution stopped, and
adds its output as another result, marked. A note after the call never fails its step: its content
is in the step's output as well.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
from typing_extensions import Protocol  # as the protocols that it adds to

from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._core.secrets import without_secrets
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import AgentKitError, NonRetriableError
from agentkit_py.events.for_users import STOPPED_CALL
from agentkit_py.history.runs import RunStore, Unfinished
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.results import AgentResult

logger: logging.Logger = get_logger("agentkit_py.history")

STOPPED = "stopped"
"""The stop reason of a result whose run was stopped while its calls were being carried out."""

_NOT_CALLED = "The run was stopped before this call was made."
_NOT_KNOWN = (
    "The run was stopped while this call was being carried out. Whether it took effect is not "
    "known; check before you call it again."
)
_NOT_KEPT = "The call was carried out, and its result cannot be stored. "
_LATE = "This came after the run had been stopped."


class StoppableStore(RunStore, Protocol):
    """A store of runs that results can be added to."""

    async def append(self, thread_id: str, results: Sequence[AgentResult]) -> None:
        """Add results to a thread."""
        ...

    async def newest(self, thread_id: str, limit: int) -> tuple[int, Sequence[Any]]:
        """Return the number of results, and the last ones."""
        ...


@dataclass(slots=True)
class OpenReply:
    """A reply whose calls are being carried out."""

    result: AgentResult
    """The reply, without results of tools."""

    begun: set[int] = field(default_factory=set[int])
    """Indexes of the calls that have begun, or may have in another process."""

    contents: dict[int, JsonValue] = field(default_factory=dict[int, JsonValue])
    """The contents of results, by index of the call."""

    failed: dict[int, tuple[str, str]] = field(default_factory=dict[int, "tuple[str, str]"])
    """Name and text of the errors of calls that ended the run, by index of the call."""

    steps: dict[int, dict[str, JsonValue]] = field(
        default_factory=dict[int, "dict[str, JsonValue]"]
    )
    """Outputs of the steps of calls that are not done, by index of the call and name."""

    def calls(self) -> list[ToolCall]:
        """Return the reply's calls, in order."""
        found = [m for m in self.result.output if isinstance(m, ToolCallMessage)]
        return [call for message in found for call in message.tools]

    def so_far(self) -> AgentResult:
        """Return the reply with the results there are, and errors that say why others are not."""
        results = [
            ToolResultMessage(call, self._content(index), agent=self.result.agent_name)
            for index, call in enumerate(self.calls())
        ]
        return replace(self.result, tool_calls=results, stop_reason=STOPPED)

    def _content(self, index: int) -> JsonValue:
        if index in self.contents:
            return self.contents[index]
        if index not in self.begun:
            return _error(STOPPED_CALL, _NOT_CALLED)
        name, message = self.failed.get(index, (STOPPED_CALL, _NOT_KNOWN))
        return _error(name, message, self.steps.get(index))


def _error(name: str, message: str, done: Mapping[str, JsonValue] | None = None) -> JsonValue:
    error: dict[str, JsonValue] = {"name": name, "message": message or name}
    return {"error": {**error, "done": dict(done)} if done else error}


class NoteKeeper(Protocol):
    """Stores notes of a run's calls: the run's lease, or `RunNotes` without a lease."""

    def will_note(self) -> None:
        """Record that notes exist, which must be dropped when the run has ended."""
        ...

    async def note(self, notes: Mapping[str, JsonObject]) -> bool:
        """Keep notes; False if the run was stopped."""
        ...

    async def land(self, result: AgentResult) -> None:
        """Add a result that comes after the run was stopped."""
        ...


@dataclass(slots=True)
class RunNotes:
    """Notes of the calls of a durable run that has no lease, kept until its results are saved."""

    store: RunStore
    thread_id: str
    owner: str
    """The run's name, with the execution by which it may be stopped."""

    append: Callable[[Sequence[AgentResult]], Awaitable[None]]
    """Adds results to the thread."""

    _noted: bool = field(default=False, init=False)

    def will_note(self) -> None:
        """Record that notes exist, which must be dropped when the results are saved."""
        self._noted = True

    async def note(self, notes: Mapping[str, JsonObject]) -> bool:
        """Keep notes; False if the run was stopped."""
        return await self.store.note_calls(self.thread_id, self.owner, notes)

    async def land(self, result: AgentResult) -> None:
        """Add a result that comes after the run was stopped."""
        await self.append([result])

    async def drop(self) -> None:
        """Drop the notes, since their results are saved; never fails."""
        if not self._noted:
            return
        self._noted = False
        try:
            await self.store.drop_notes(self.thread_id, self.owner)
        except Exception:
            logger.warning("Notes of calls could not be dropped", exc_info=True)


@dataclass(slots=True)
class OpenCall:
    """A call of an open reply, which records its progress."""

    reply: OpenReply
    index: int
    keeper: NoteKeeper | None
    """Keeps notes where the run may be stopped from outside; None: memory is enough."""

    outer: OpenCall | None = None
    """The call that contains this call, in a nested run."""

    def asked(self) -> None:
        """Take that the call is asked for: from now on it may have begun, here or elsewhere."""
        self.reply.begun.add(self.index)
        if self.outer is not None:
            self.outer.asked()

    def seen(self, content: JsonValue) -> None:
        """Record the call's result, also from a replay."""
        self.asked()
        self.reply.contents[self.index] = content
        if self.outer is not None:
            self.outer.step_seen(self._name, self._described("result", content))

    def step_seen(self, name: str, output: JsonValue) -> None:
        """Record the output of a step of the call, also from a replay."""
        self.asked()
        self.reply.steps.setdefault(self.index, {})[name] = output
        if self.outer is not None:
            self.outer.step_seen(f"{self._name} {name}", self._described(name, output))

    def failed(self, error: Exception) -> None:
        """Take the call's own error that ends the run, also where a replay remembers it."""
        self.asked()
        said = without_secrets(str(error))
        if isinstance(error, AgentKitError) and error.acted:
            said = f"{_NOT_KEPT}{said}"
        self.reply.failed[self.index] = type(error).__name__, said

    async def begin(self) -> None:
        """Say that the call begins.

        Raises:
            NonRetriableError: The run was stopped, so that it must not.
        """
        self.asked()
        if (whole := self._whole) is not None:
            await whole.begin()
            return
        if self.keeper is None:
            return
        identity = self._id
        reply = {"kind": "reply", "id": identity, "reply": self.reply.result.to_dict()}
        call = {"kind": "call", "id": identity, "index": self.index}
        notes = {f"reply/{identity}": reply, f"call/{self.index}/{identity}": call}
        if not await self.keeper.note(notes):
            raise NonRetriableError(_NOT_CALLED)

    async def finish(self, content: JsonValue) -> None:
        """Report the call's result; if the run was stopped meanwhile, it is added to the thread."""
        self.seen(content)
        if self._whole is None:
            note = {"kind": "call", "id": self._id, "index": self.index, "content": content}
            await self._note(f"call/{self.index}/{self._id}", note, content)
        if self.outer is not None:
            await self.outer.did(self._name, self._described("result", content))

    async def did(self, name: str, output: JsonValue) -> None:
        """Report the output of a step of the call."""
        self.step_seen(name, output)
        if (whole := self._whole) is not None:
            await whole.did(f"{self._name} {name}", self._described(name, output))
            return
        fields: dict[str, JsonValue] = {"name": name, "output": output}
        note: dict[str, JsonValue] = {"kind": "step", "id": self._id, "index": self.index, **fields}
        late: JsonValue = {"data": {name: output}}
        await self._note(f"step/{self.index}/{name}/{self._id}", note, late)

    @property
    def _whole(self) -> OpenCall | None:
        """The call whose notes cover this call: a nested run is not in its caller's thread."""
        outer = self.outer
        return outer if outer is not None and outer.keeper is self.keeper else None

    @property
    def _id(self) -> str:
        return self.reply.result.id or ""

    @property
    def _name(self) -> str:
        """The call's name among the steps of the call around it."""
        return f"{self.reply.calls()[self.index].name} {self._id} {self.index}"

    def _described(self, name: str, output: JsonValue) -> JsonValue:
        call = self.reply.calls()[self.index]
        return {"tool": call.name, "input": call.arguments, name: output}

    async def _note(self, key: str, note: Mapping[str, Any], content: JsonValue) -> None:
        """Store a note. It never fails: the call would be made again."""
        if self.keeper is None:
            return
        try:
            if not await self.keeper.note({key: note}):
                await self.keeper.land(self._late(key, content))
        except Exception:
            logger.exception(
                "Call %r was made, and the store could not note it (%s). The step keeps "
                "the result; if the run is stopped before its reply is saved, "
                "the thread says it is unknown whether the call took effect",
                *(self.reply.calls()[self.index].name, key),
            )

    def _late(self, key: str, content: JsonValue) -> AgentResult:
        """Return a late result as a separate one: the call again, with its result."""
        call, reply = self.reply.calls()[self.index], self.reply.result
        marked = {**content, "note": _LATE} if isinstance(content, dict) else content
        return AgentResult(
            reply.agent_name,
            [ToolCallMessage([call], agent=reply.agent_name)],
            [ToolResultMessage(call, marked, agent=reply.agent_name)],
            reply.created_at,
            id=f"{self._id}/late/{key.removesuffix(f'/{self._id}')}",
            stop_reason=STOPPED,
        )


def late_reply(result: AgentResult) -> AgentResult:
    """Return a result that is saved after its run was stopped, with a sentence that says so."""
    said = TextMessage("assistant", f"({_LATE})", agent=result.agent_name)
    return replace(result, output=(*result.output, said), stop_reason=STOPPED)


def results_of(notes: Mapping[str, JsonObject]) -> list[AgentResult]:
    """Return the results in the notes of a stopped run, in the order of its replies."""
    replies: dict[str, OpenReply | AgentResult] = {}
    for note in notes.values():
        name, record = str(note.get("id")), note.get("reply")
        if note.get("kind") == "reply":  # also where the text was noted while it was written
            replies[name] = OpenReply(AgentResult.from_dict(record, where="note of a call"))
        elif note.get("kind") == "written" and record is not None and name not in replies:
            written = AgentResult.from_dict(record, where="note of a reply")
            replies[name] = replace(written, stop_reason=STOPPED)
    for note in notes.values():
        reply, index = replies.get(str(note.get("id"))), note.get("index")
        if not isinstance(reply, OpenReply) or not isinstance(index, int):
            continue
        reply.begun.add(index)
        if "content" in note:
            reply.contents[index] = note["content"]
        elif "output" in note:
            reply.steps.setdefault(index, {})[str(note.get("name"))] = note["output"]
    return [reply.so_far() if isinstance(reply, OpenReply) else reply for reply in replies.values()]


NOTE_SECONDS = 1.0
"""Seconds between two notes of a reply that is streamed."""

GRACE_SECONDS = 1.0
"""Seconds for which the text of a stopped run is waited for once its next note is due."""

_CHARACTERS_A_SECOND = 100_000
"""Characters of notes of a reply in a second: each note has all of its text."""


def seconds_between_notes(characters: int) -> float:
    """Return the seconds after a note of so many characters until the next note."""
    return max(NOTE_SECONDS, characters / _CHARACTERS_A_SECOND)


async def _known(store: StoppableStore, thread_id: str) -> set[str | None]:
    """Return the ids of a thread's newest results."""
    _, stored = await store.newest(thread_id, _RECENT)
    return {row.result.id for row in stored}


async def _wait_for_writer(store: StoppableStore, stopped: Unfinished) -> None:
    """Let a process that streams a reply of a stopped run add it as users saw it.

    Its next note finds that the run was stopped. Where the process is dead the last note counts.
    """
    lengths = {
        str(note.get("id")): len(str(note["reply"]))
        for note in stopped.notes.values()
        if note.get("kind") == "written" and note.get("reply") and not note.get("isWhole")
    }
    if not lengths:
        return
    with anyio.move_on_after(seconds_between_notes(max(lengths.values())) + GRACE_SECONDS):
        while not lengths.keys() <= await _known(store, stopped.thread_id):  # noqa: ASYNC110
            await anyio.sleep(NOTE_SECONDS / 10)


async def add_noted(store: StoppableStore, thread_id: str, notes: Mapping[str, JsonObject]) -> None:
    """Add the results in notes to a thread, without those that it has."""
    results = results_of(notes)
    if results:
        known = await _known(store, thread_id)
        await store.append(thread_id, [result for result in results if result.id not in known])


async def stop_run(
    store: StoppableStore, execution: str, signal: Callable[[str], Awaitable[None]]
) -> int:
    """Stop an execution that was cancelled, or has failed without saying so.

    Finished calls of its runs are added to their threads, and then the threads are free; return
    their number. It may be called again. The owner that has a lease now is woken with ``signal``.
    """
    unfinished = await store.stop_execution(execution)
    for one in unfinished:
        await _wait_for_writer(store, one)
        await add_noted(store, one.thread_id, one.notes)
        await store.drop_notes(one.thread_id, one.owner)
        after = await store.unlock_thread(one.thread_id, one.owner)
        if after is not None:
            await signal(after)
    return len(unfinished)


_RECENT = 1000
"""Results among which those of a stopped run are looked for."""
