"""What clients send, checked: the bodies of the useAgent hook, without what they may not say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic.alias_generators import to_camel

from agentkit_py.messages import TextMessage
from agentkit_py.server.refusals import invalid

M = TypeVar("M", bound=BaseModel)


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode") from None
    return text


Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s/\x00-\x1f\x7f]+$"),
    AfterValidator(_unicode),
]
"""An id that a client made: anything that a path can hold, without white space."""

Text = Annotated[str, AfterValidator(_unicode)]


class _Body(BaseModel):
    """Fields as on the wire; what is not known is left out, since later hooks may send more."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore"
    )


class ChatMessage(_Body):
    """What the user says."""

    id: Id | None = None
    content: Text = Field(min_length=1)
    role: Literal["user"] = "user"
    state: dict[str, Any] | None = None
    """Client state; keys that are not allowed are left out."""

    client_timestamp: datetime | None = None
    system_prompt: None = None
    """Only the server writes system prompts."""

    @field_validator("client_timestamp")
    @classmethod
    def _with_zone(cls, time: datetime | None) -> datetime | None:
        return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


class ChatRequest(_Body):
    """`POST /api/chat`. ``userId`` and ``channelKey`` are known from `auth`, and not read."""

    user_message: ChatMessage
    thread_id: Id | None = None
    history: list[Any] = Field(default_factory=list[Any])
    """The messages that the client shows; only their texts are read, if at all."""

    network: str | None = None
    agent: str | None = None


class CancelRequest(_Body):
    """`POST /api/chat/cancel`."""

    thread_id: Id


class NewThread(_Body):
    """`POST /api/threads`."""

    title: Annotated[Text, StringConstraints(max_length=200, strip_whitespace=True)] | None = None
    thread_id: Id | None = None


class ApprovalRequestBody(_Body):
    """`POST /api/approve-tool`."""

    tool_call_id: Id
    """The question's ``requestId``, or a call's ``partId`` or ``toolCallId``."""

    thread_id: Id
    action: Literal["approve", "deny"]
    reason: Annotated[Text, StringConstraints(max_length=2000)] | None = None


class TokenRequest(_Body):
    """`POST /api/realtime/token`. Whose channel it is, is known from `auth`."""

    thread_id: Id | None = None


def parse(model: type[M], found: object) -> M:
    """A body as its model.

    Raises:
        Refusal: It is not one; the message names the first field that is wrong.
    """
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise invalid(f"{where}: {first['msg']}") from None


def client_texts(history: list[Any], own: ChatMessage, longest: int) -> list[TextMessage]:
    """The texts of user and assistant in a client's history, without the message it sends now.

    Tool calls, results and system messages are left out: a client could make them up.

    Raises:
        Refusal: It has more than ``longest`` characters.
    """
    found = [message for item in history if (message := _text_of(item)) is not None]
    if found and found[-1] == TextMessage("user", own.content):
        found.pop()
    if sum(len(message.text) for message in found) > longest:
        raise invalid(f"history: at most {longest} characters")
    return found


def _text_of(item: object) -> TextMessage | None:
    fields = cast("Mapping[str, object]", item if isinstance(item, Mapping) else {})
    role, content = fields.get("role"), fields.get("content")
    if fields.get("type") != "text" or not isinstance(content, str) or not content.strip():
        return None
    if role not in ("user", "assistant"):
        return None
    try:
        return TextMessage(role, _unicode(content))
    except ValueError:
        return None
