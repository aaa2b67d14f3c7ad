"""An agent of another maker, behind an A2A server, as an agent of a network here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, A2AClientError, Client, ClientConfig, ClientFactory
from a2a.helpers import new_text_part
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict

from agentkit_py._core.json import JsonObject, JsonValue, as_list, as_object, dumps
from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._core.untrusted import clean
from agentkit_py._engine.agent_spec import ModelChoice, System
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError, ModelError
from agentkit_py.messages import Finish, TextMessage
from agentkit_py.models.base import ModelReply, ModelRequest
from agentkit_py.models.function_model import function_model

_PROVIDER = "a2a"
"""The key of what a reply says about its task, in its ``provider_metadata``."""

_ENDED: Mapping[int, str] = {
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_REJECTED: "was rejected",
    TaskState.TASK_STATE_CANCELED: "was cancelled",
}
_WAITING = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
_AT_REST = frozenset({TaskState.TASK_STATE_COMPLETED, *_ENDED, *_WAITING})
_SERVERS_OWN = (
    *("system", "instructions", "assistant", "tools", "mcp_servers", "knowledge", "handoffs"),
    *("hosted_tools", "output_type"),
)
"""Options of agents that would reach nobody."""

_POLL_SECONDS = 1.0
_CANCEL_SECONDS = 5.0
_CONNECT_SECONDS = 15.0
_MOST_BYTES = 64 * 2**20
_MOST_WORDS = 2000
"""Characters of a server's words in an error."""


class A2ATaskError(ModelError):
    """A task of an agent behind A2A failed, was rejected or cancelled, or cannot be reached.

    Attributes:
        task_id: The task; empty where there is none.
    """

    def __init__(
        self, message: str, *, model: str, task_id: str = "", retriable: bool = False
    ) -> None:
        super().__init__(message, provider=_PROVIDER, model=model)
        self.task_id = task_id
        self.retriable = retriable


@options_spelled_here
@spelled_here
@dataclass(eq=False, kw_only=True)
class A2AAgent(Agent[Any, None]):
    """An agent that an A2A server runs: part of a network, handed over to, or ``as_tool()``.

    It gets the texts of the conversation that it has not seen yet, and no calls of tools. The
    server's context continues as long as the thread has its replies. A task that needs input ends
    the turn with its question; the next message of the user answers it.

    A call is one step of a durable run. It is sent again if the process dies while it waits.
    """

    system: System[Any] | None = ""
    """Not sent: the server has its own."""

    model: ModelChoice = None
    """What answers in place of the server, e.g. a `ScriptedModel` in a test; None: the server."""

    url: str
    """The server, whose card is at ``/.well-known/agent-card.json``."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Headers of each request, e.g. ``Authorization``."""

    timeout: float = 600.0
    """Seconds that a reply may take; then the task is cancelled."""

    max_reply_bytes: int = 2_000_000
    """Bytes of a reply's text."""

    other_hosts: Sequence[str] = ()
    """Hosts beside that of ``url`` to which its card may send messages, and so the headers."""

    transport: httpx.AsyncBaseTransport | None = field(default=None, repr=False)
    """The transport of requests, e.g. ``httpx.ASGITransport(app)`` in a test."""

    def __post_init__(self) -> None:
        """Check what was given."""
        parts = urlsplit(self.url) if isinstance(self.url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                f"A2AAgent {self.name!r}: url={self.url!r} is not an http:// or https:// address"
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigurationError(
                f"A2AAgent {self.name!r}: url has a user, a query or a fragment, which logs would "
                "show; put credentials into headers={…}"
            )
        for name in _SERVERS_OWN:
            if getattr(self, name):
                raise ConfigurationError(
                    f"A2AAgent {self.name!r}: {name} is the server's to say; its agent gets texts"
                )
        if self.model is None:
            self.model = function_model(self._answer, model=self.url)
        super().__post_init__()

    async def _answer(self, request: ModelRequest) -> ModelReply:
        before, texts = self._unseen(request)
        message = Message(
            message_id=str(uuid4()),
            role=Role.ROLE_USER,
            parts=[new_text_part(text) for text in texts],
            context_id=str(before.get("contextId", "")),
            task_id=str(before.get("taskId", "")),
        )
        limits = httpx.Timeout(None, connect=min(self.timeout, _CONNECT_SECONDS))
        async with httpx.AsyncClient(
            headers=dict(self.headers),
            timeout=limits,
            transport=_Bounded(self.transport or httpx.AsyncHTTPTransport()),
        ) as http:
            call = _Call(await self._connect(http))
            try:
                async with asyncio.timeout(self.timeout):
                    answer = await call.send(message)
            except asyncio.CancelledError:
                await call.cancel()
                raise
            except TimeoutError as error:
                await call.cancel()
                words = f"no reply within {self.timeout:g} s"
                raise self._error(words, call.task_id) from error
            except (A2AError, httpx.HTTPError) as error:
                raise self._error(str(error) or type(error).__name__, call.task_id) from error
        return self._reply(answer, before)

    async def _connect(self, http: httpx.AsyncClient) -> Client:
        try:
            async with asyncio.timeout(min(self.timeout, _CONNECT_SECONDS)):
                card = await A2ACardResolver(http, self.url).get_agent_card()
            for interface in card.supported_interfaces:
                self._check_host(interface.url)
            return ClientFactory(ClientConfig(httpx_client=http)).create(card)
        except (A2AError, httpx.HTTPError, TimeoutError, ValueError) as error:
            words = f"its card cannot be read: {error or type(error).__name__}"
            raise self._error(words, retriable=not isinstance(error, ValueError)) from error

    def _check_host(self, url: str) -> None:
        """Refuse an address that would get our headers, and is not the server's own."""
        given, own = urlsplit(url), urlsplit(self.url)
        is_own = (given.scheme, given.netloc) == (own.scheme, own.netloc)
        if not is_own and given.hostname not in self.other_hosts:
            raise ValueError(f"it sends messages to {given.hostname!r}, which is another host")

    def _unseen(self, request: ModelRequest) -> tuple[JsonObject, list[str]]:
        """Return what the last own reply says about its context, and the texts after it."""
        before: JsonObject = {}
        texts: list[str] = []
        for message in request.messages:
            if not isinstance(message, TextMessage) or message.role == "system":
                continue
            own = as_object((message.provider_metadata or {}).get(_PROVIDER))
            if own is not None and own.get("url") == self.url:
                before, texts = own, []
            else:
                texts.append(self._text_of(message))
        if not texts:
            raise self._error("the conversation has nothing that it has not seen")
        return before, texts

    def _text_of(self, message: TextMessage) -> str:
        if not isinstance(message.content, str):
            kinds = sorted({part.type for part in message.content} - {"text"})
            if kinds:
                raise self._error(f"it takes texts, and a message has {', '.join(kinds)}")
        if message.role == "assistant" and message.agent:
            return f"{message.agent}: {message.text}"
        return message.text

    def _reply(self, answer: Message | Task, before: JsonObject) -> ModelReply:
        facts: JsonObject = {"url": self.url, "contextId": answer.context_id}
        if isinstance(answer, Message):
            text = _text(answer.parts)
        else:
            state = answer.status.state
            if state in _ENDED:
                words = _status(answer) or "no reason is given"
                raise self._error(f"its task {_ENDED[state]}: {words}", answer.id)
            seen: list[str] = []
            if before.get("taskId") == answer.id:
                seen = [str(each) for each in as_list(before.get("artifacts")) or ()]
            texts = [_text(one.parts) for one in answer.artifacts if one.artifact_id not in seen]
            if state in _WAITING:
                shown: list[JsonValue] = [one.artifact_id for one in answer.artifacts]
                facts |= {"taskId": answer.id, "artifacts": shown}
            if state in _WAITING or not any(texts):
                texts.append(_status(answer))
            text = "\n\n".join(one for one in texts if one)
        if len(text.encode()) > self.max_reply_bytes:
            raise self._error(f"its reply has more than {self.max_reply_bytes} bytes")
        said = TextMessage(
            "assistant", text, stop_reason="stop", provider_metadata={_PROVIDER: facts}
        )
        return ModelReply(messages=(said,), finish=Finish("stop"))

    def _error(self, words: str, task_id: str = "", *, retriable: bool = False) -> A2ATaskError:
        shown = clean(words)[:_MOST_WORDS]
        return A2ATaskError(shown, model=self.url, task_id=task_id, retriable=retriable)


class _Bounded(httpx.AsyncBaseTransport):
    """Refuses replies that are compressed or too long: the server is a stranger's."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return the response with its body counted."""
        request.headers["accept-encoding"] = "identity"
        response = await self._transport.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx.DecodingError("its reply is compressed", request=request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


class _Counted(httpx.AsyncByteStream):
    """A body of at most `_MOST_BYTES`."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for piece in self._body:
            count += len(piece)
            if count > _MOST_BYTES:
                raise httpx.DecodingError(f"its reply has more than {_MOST_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class _Call:
    """One message to a server, and the task that answers it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.task_id = ""

    async def send(self, message: Message) -> Message | Task:
        """Send a message, and return the reply or the task, once that has ended or waits."""
        modes = SendMessageConfiguration(accepted_output_modes=["text/plain"])
        request = SendMessageRequest(message=message, configuration=modes)
        task: Task | None = None
        async for event in self._client.send_message(request):
            if event.HasField("message"):
                return event.message
            task = event.task if event.HasField("task") else None  # else it has changed since
            if task is not None:
                self.task_id = task.id
            elif event.HasField("status_update"):
                self.task_id = event.status_update.task_id
            else:
                self.task_id = event.artifact_update.task_id
        if not self.task_id:
            raise A2AClientError("the server gave neither a message nor a task")
        while task is None or task.status.state not in _AT_REST:
            if task is not None:
                await asyncio.sleep(_POLL_SECONDS)
            task = await self._client.get_task(GetTaskRequest(id=self.task_id))
        return task

    async def cancel(self) -> None:
        """Cancel the task, if one has begun and the server lets it."""
        if self.task_id:
            with suppress(A2AError, httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await self._client.cancel_task(CancelTaskRequest(id=self.task_id))


def _status(task: Task) -> str:
    """Return what a task's status says; its data are for programs, where it has texts, too."""
    parts = task.status.message.parts
    return "\n".join(part.text for part in parts if part.HasField("text")) or _text(parts)


def _text(parts: Iterable[Part]) -> str:
    """Return parts as a text: data as JSON, files by their address or size."""
    return "".join(map(_text_of_part, parts))


def _text_of_part(part: Part) -> str:
    if part.HasField("text"):
        return part.text
    if part.HasField("data"):
        return dumps(MessageToDict(part.data))
    if part.HasField("url"):
        return part.url
    return f"[{part.filename or part.media_type or 'file'}, {len(part.raw)} bytes]"
