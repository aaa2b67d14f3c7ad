"""The protocols of front ends: their requests, and the format of replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agentkit_py._core.json import as_list, as_object
from agentkit_py.errors import ConfigurationError
from agentkit_py.events import ag_ui, vercel
from agentkit_py.events.approvals import Decision
from agentkit_py.events.replies import OwnWriter, ReplyWriter, part_to_dict, reply_id
from agentkit_py.server.errors import invalid
from agentkit_py.server.schemas import CallAnswer, CallArguments, ChatMessage, Id, Text, parse
from agentkit_py.server.turns import MOST, ShownTurn

FormatName: TypeAlias = Literal["agentkit", "vercel", "ag-ui"]
"""Our own chunks, the UI message stream of the Vercel AI SDK, or AG-UI."""


_FEW = 100
"""Rows that the last turn of a thread nearly always has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndRequest:
    """One request of a front end."""

    thread_id: str | None
    message: tuple[str | None, str] | None = None
    """Id and text of the user's message; None: nothing new."""

    again: bool = False
    """The reply is to be regenerated."""

    decisions: Mapping[str, Decision] = field(default_factory=dict[str, Decision])
    """Answers to questions, by the id of the call in the question."""

    state: Mapping[str, Any] | None = None
    network: str | None = None
    agent: str | None = None
    run_id: str = ""
    """The client's own id of the run."""

    known: Sequence[tuple[str, str]] = ()
    """Ids and roles of the messages that the client has."""


class FrontEnd(Protocol):
    """One front end's protocol."""

    headers: Mapping[str, str]
    """Headers of a streamed answer."""

    last: str
    """The frame after the last event."""

    has_chunks: bool
    """The chunks of the run are among the events, as they are."""

    shows_last: bool
    """Only the reply to the last message is streamed; an earlier reply is read from the thread."""

    rows: int
    """The rows of a thread that a request looks at: all messages, where a client may need them."""

    def read(self, body: object) -> FrontEndRequest:
        """Return the parsed request, or refuse it."""
        ...

    def messages(self, turns: Sequence[ShownTurn]) -> list[dict[str, Any]]:
        """Return turns as the client keeps them."""
        ...

    def writer(
        self,
        asked: FrontEndRequest,
        message_id: str,
        before: Sequence[ShownTurn],
        *,
        continues: bool,
    ) -> ReplyWriter:
        """Return the writer of the reply to a message.

        Args:
            asked: The request.
            message_id: The id of the user's message.
            before: The turns up to this message, without the reply.
            continues: The client may have a part of the reply.
        """
        ...

    def state(self, state: object) -> list[dict[str, Any]]:
        """Return the events that say the state in which the client and the run meet."""
        ...


class _Body(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore"
    )


class _UiPart(_Body):
    type: str
    text: Text = ""
    state: str = ""
    approval: dict[str, Any] | None = None


class _UiMessage(_Body):
    id: Id | None = None
    role: Literal["user", "assistant", "system"]
    parts: list[_UiPart] = Field(default_factory=list[_UiPart])


class _VercelBody(_Body):
    id: Id
    trigger: str = "submit-message"
    messages: list[Any] = Field(default_factory=list[Any])
    message: _UiMessage | None = None
    """The body that the SDK's page on resuming streams sends: the last message alone."""

    state: dict[str, Any] | None = None
    network: str | None = None
    agent: str | None = None


class _Vercel:
    headers: Mapping[str, str] = vercel.HEADERS
    last = vercel.LAST
    has_chunks = False
    shows_last = True
    rows = _FEW

    def read(self, body: object) -> FrontEndRequest:
        found = parse(_VercelBody, body)
        last = found.message
        if last is None and found.messages:
            last = parse(_UiMessage, found.messages[-1])  # the others are in the thread
        message = None
        if last is not None and last.role == "user":
            message = last.id, _text_of(last.parts)
        return FrontEndRequest(
            thread_id=found.id,
            message=message,
            again=found.trigger == "regenerate-message",
            decisions=_decisions(last),
            state=found.state,
            network=found.network,
            agent=found.agent,
        )

    def messages(self, turns: Sequence[ShownTurn]) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        for turn in turns:
            if turn.text is not None:
                shown.append(vercel.user_message(turn.message_id, turn.text))
            if turn.parts:
                shown.append(vercel.reply_message(reply_id(turn.message_id), turn.parts))
        return shown

    def writer(
        self,
        asked: FrontEndRequest,
        message_id: str,
        before: Sequence[ShownTurn],
        *,
        continues: bool,
    ) -> ReplyWriter:
        return vercel.VercelWriter(reply_id(message_id), continues=continues)

    def state(self, state: object) -> list[dict[str, Any]]:
        return []


def _text_of(parts: Sequence[_UiPart]) -> str:
    for part in parts:
        if part.type == "file":
            raise invalid("parts: files are not supported here; send their text, or a link to them")
    return "".join(part.text for part in parts if part.type == "text")


def _decisions(message: _UiMessage | None) -> dict[str, Decision]:
    if message is None or message.role != "assistant":
        return {}
    answered = [part.approval or {} for part in message.parts if part.state == "approval-responded"]
    return {
        str(one.get("id")): Decision(one.get("approved") is True, _reason(one.get("reason")))
        for one in answered
    }


def _reason(given: object) -> str:
    return parse(_ReasonBody, {"reason": given}).reason or ""


class _ReasonBody(_Body):
    reason: Text | None = Field(None, max_length=2000)


class _Resume(_Body):
    interrupt_id: Id
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class _AgArguments(_Body):
    arguments: CallArguments | None


class _AgMessage(_Body):
    id: Id
    role: str
    content: Any = None


class _AgUiBody(_Body):
    thread_id: Id
    run_id: Id
    messages: list[_AgMessage] = Field(default_factory=list[_AgMessage])
    state: Any = None
    resume: list[_Resume] = Field(default_factory=list[_Resume])
    forwarded_props: dict[str, Any] | None = None


class _AgUi:
    headers: Mapping[str, str] = {"x-accel-buffering": "no"}
    last = ""
    has_chunks = False
    shows_last = True
    rows = MOST

    def read(self, body: object) -> FrontEndRequest:
        found = parse(_AgUiBody, body)
        last = found.messages[-1] if found.messages else None
        message = None
        if last is not None and last.role == "user" and not found.resume:
            message = last.id, _ag_text(last.content)
        props = found.forwarded_props or {}
        network, agent = props.get("network"), props.get("agent")
        return FrontEndRequest(
            thread_id=found.thread_id,
            message=message,
            decisions={one.interrupt_id: _resumed(one) for one in found.resume},
            state=as_object(found.state),
            network=network if isinstance(network, str) else None,
            agent=agent if isinstance(agent, str) else None,
            run_id=found.run_id,
            known=[(one.id, one.role) for one in found.messages],
        )

    def messages(self, turns: Sequence[ShownTurn]) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        for turn in turns:
            if turn.text is not None:
                shown.append(ag_ui.user_message(turn.message_id, turn.text))
            shown += ag_ui.reply_messages(reply_id(turn.message_id), turn.parts)
        return shown

    def writer(
        self,
        asked: FrontEndRequest,
        message_id: str,
        before: Sequence[ShownTurn],
        *,
        continues: bool,
    ) -> ReplyWriter:
        return ag_ui.AgUiWriter(
            reply_id(message_id),
            asked.thread_id or "",
            asked.run_id,
            self.messages(before),
            asked.known,
        )

    def state(self, state: object) -> list[dict[str, Any]]:
        return [{"type": "STATE_SNAPSHOT", "snapshot": state}]


def _ag_text(content: object) -> str:
    if isinstance(content, str):
        return parse(_AgText, {"text": content}).text
    pieces: list[str] = []
    for one in as_list(content) or ():
        part = as_object(one) or {}
        if part.get("type") != "text":
            raise invalid("content: files are not supported here; send their text, or a link")
        pieces.append(parse(_AgText, part).text)
    return "".join(pieces)


class _AgText(_Body):
    text: Text


def _resumed(entry: _Resume) -> Decision:
    """Return an answer: yes or no, or an object with ``approved``; anything else refuses."""
    given = as_object(entry.payload)
    if entry.status == "cancelled" or given is None:
        return Decision(entry.status == "resolved" and entry.payload is True)
    changed = parse(_AgArguments, {"arguments": as_object(given.get("arguments"))})
    reason = _reason(given.get("reason"))
    return Decision(given.get("approved") is True, reason, arguments=changed.arguments)


def _whole_answer(given: object) -> object:
    return {"approved": given} if isinstance(given, bool) else given


class _OwnBody(_Body):
    thread_id: Id | None = None
    user_message: ChatMessage | None = None
    answers: dict[str, Annotated[CallAnswer, BeforeValidator(_whole_answer)]] = Field(
        default_factory=dict[str, CallAnswer]
    )
    network: str | None = None
    agent: str | None = None


class _OwnFormat:
    headers: Mapping[str, str] = {"x-accel-buffering": "no"}
    last = ""
    has_chunks = True
    shows_last = False
    rows = _FEW

    def read(self, body: object) -> FrontEndRequest:
        found = parse(_OwnBody, body)
        message = found.user_message
        if found.answers and found.thread_id is None:
            raise invalid("threadId: answers are for a thread")
        return FrontEndRequest(
            thread_id=found.thread_id,
            message=None if message is None else (message.id, message.content),
            decisions={name: _own_decision(one) for name, one in found.answers.items()},
            state=None if message is None else message.state,
            network=found.network,
            agent=found.agent,
        )

    def messages(self, turns: Sequence[ShownTurn]) -> list[dict[str, Any]]:
        return [
            {"id": one.message_id, "text": one.text, "reply": [part_to_dict(p) for p in one.parts]}
            for one in turns
        ]

    def writer(
        self,
        asked: FrontEndRequest,
        message_id: str,
        before: Sequence[ShownTurn],  # the protocol's
        *,
        continues: bool,
    ) -> ReplyWriter:
        del before, continues
        return OwnWriter(asked.thread_id or "", message_id)

    def state(self, state: object) -> list[dict[str, Any]]:
        return [{"event": "state.updated", "data": {"state": state}}]


def _own_decision(given: CallAnswer) -> Decision:
    words = given.to_user or ""
    return Decision(given.approved, given.reason or "", arguments=given.arguments, to_user=words)


VERCEL: FrontEnd = _Vercel()
AG_UI: FrontEnd = _AgUi()

FORMATS: Mapping[str, FrontEnd] = {"agentkit": _OwnFormat(), "vercel": VERCEL, "ag-ui": AG_UI}


def format_of(name: str) -> FrontEnd:
    """Return the protocol of this name.

    Raises:
        ConfigurationError: There is none.
    """
    found = FORMATS.get(name)
    if found is None:
        known = ", ".join(map(repr, FORMATS))
        raise ConfigurationError(f"Unknown format {name!r}; known are {known}")
    return found
