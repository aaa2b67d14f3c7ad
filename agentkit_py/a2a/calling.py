"""An agent of another maker, behind an A2A server, as an agent of a network here."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, A2AClientError, Client, ClientConfig, ClientFactory
from a2a.helpers import new_text_part
from a2a.types import (
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict

from agentkit_py._core.json import JsonObject, JsonValue, as_list, as_object, dumps
from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._core.validation import wrong_number
from agentkit_py._engine.agent_spec import AgentSpec, ModelChoice, System
from agentkit_py._engine.option_checks import expect_texts, wrong
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError, ModelError
from agentkit_py.messages import Finish, TextMessage
from agentkit_py.models.base import ModelReply, ModelRequest
from agentkit_py.models.function_model import function_model
from agentkit_py.runtime.model_requests import ACCEPTED, bound

_PROVIDER = "a2a"
"""The key in ``provider_metadata`` that holds the facts about a reply's task."""

_ENDED: Mapping[int, str] = {
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_REJECTED: "was rejected",
    TaskState.TASK_STATE_CANCELED: "was cancelled",
}
_WAITING = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
_AT_REST = frozenset({TaskState.TASK_STATE_COMPLETED, *_ENDED, *_WAITING})
_NOT_SENT = (
    *("system", "instructions", "assistant", "tools", "mcp_servers", "knowledge", "handoffs"),
    *("hosted_tools", "output_type", "tool_choice", "markdown", "stream_before_response"),
    *("allowed_tools", "parallel_tools", "repair_arguments", "max_iter"),
    *("output_retries", "output_validators", "end_strategy"),
    *("search_knowledge", "knowledge_filters", "enable_agentic_knowledge_filters"),
    *("filter_precedence", "tool_input_guardrails", "tool_output_guardrails"),
)
"""Options of agents that would have no effect, so they are refused."""

_DEFAULTS: Mapping[str, object] = {
    option.name: option.default for option in fields(Agent) if option.name in _NOT_SENT
} | {"system": ""}

_POLL_SECONDS = 1.0
_CANCEL_SECONDS = 5.0
_CONNECT_SECONDS = 15.0
_MOST_CHARACTERS = 2000
"""Characters of a server's text in an error."""

_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which the card may be asked for again."""


class A2ATaskError(ModelError):
    """A task of an agent behind A2A failed, was rejected or cancelled, or got no reply.

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

    Its text is streamed where the server streams it. A call is one step of a durable run. If the
    process dies while it waits, the message is sent again under its id, by which a server that
    keeps ids, such as `create_a2a_app`, knows it.
    """

    system: System[Any] | None = ""
    """Not sent: the server has its own."""

    model: ModelChoice = None
    """The model used in place of the server, e.g. a `ScriptedModel` in a test; None: the server."""

    url: str
    """The server, whose card is at ``/.well-known/agent-card.json``."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Headers of each request, e.g. ``Authorization``."""

    timeout: float = 600.0
    """Seconds that a reply may take; then the task is cancelled."""

    max_reply_bytes: int = 2_000_000
    """Bytes of a reply's text."""

    other_hosts: Sequence[str] = ()
    """Hosts other than that of ``url`` to which its card may send messages, with the headers."""

    transport: httpx.AsyncBaseTransport | None = field(default=None, repr=False)
    """The transport of requests, e.g. ``httpx.ASGITransport(app)`` in a test."""

    def __post_init__(self) -> None:
        """Check the options."""
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
        for name in _NOT_SENT:
            value, default = getattr(self, name), _DEFAULTS[name]
            if value != default and (value or default):
                raise ConfigurationError(
                    f"A2AAgent {self.name!r}: {name} cannot be set: the server has its own"
                )
        where = f"A2AAgent {self.name!r}"
        expect_texts(where, "other_hosts", self.other_hosts, "a list of host names")
        for name in ("timeout", "max_reply_bytes"):
            problem = wrong_number(getattr(self, name), above=True)
            if problem:
                raise ConfigurationError(f"{where}: {name}: {problem}")
        headers: object = self.headers
        if not isinstance(headers, Mapping):
            raise wrong(where, "headers", "a mapping of texts", headers)
        expect_texts(where, "headers", list(headers), "a mapping of texts")
        expect_texts(where, "headers", list(self.headers.values()), "a mapping of texts")
        super().__post_init__()

    def _as_spec(self) -> AgentSpec:
        spec = super()._as_spec()
        if spec.model is None:
            return replace(spec, model=function_model(self._answer, model=self.url))
        return spec

    async def _answer(self, request: ModelRequest) -> ModelReply:
        before, texts = self._unseen(request)
        message = Message(
            message_id=request.call_id or str(uuid4()),
            role=Role.ROLE_USER,
            parts=[new_text_part(text) for text in texts],
            context_id=str(before.get("contextId", "")),
            task_id=str(before.get("taskId", "")),
        )
        async with self._client() as http:
            pieces = None if request.show is None else _Pieces(request.show, self.max_reply_bytes)
            call = _Call(await self._connect(http), pieces)
            try:
                async with asyncio.timeout(self.timeout):
                    try:
                        answer = await call.send(message)
                    except (TaskNotFoundError, UnsupportedOperationError):
                        if not message.task_id:
                            raise
                        message.task_id = ""  # the task is gone: the context continues without it
                        answer = await call.send(message)
            except asyncio.CancelledError:
                await call.cancel()
                raise
            except TimeoutError as error:
                await call.cancel()
                words = f"no reply within {self.timeout:g} s"
                raise self._error(words, call.task_id) from error
            except _TooLongError as error:
                await call.cancel()
                raise self._too_long(call.task_id) from error
            except (A2AError, httpx.HTTPError) as error:
                raise self._error(str(error) or type(error).__name__, call.task_id) from error
        return self._reply(answer, before)

    def _client(self) -> httpx.AsyncClient:
        async def limit(response: httpx.Response) -> None:
            bound(response)  # the server is not trusted

        return httpx.AsyncClient(
            headers={**self.headers, "accept-encoding": ACCEPTED},
            timeout=httpx.Timeout(None, connect=min(self.timeout, _CONNECT_SECONDS)),
            transport=None if self.transport is None else _KeptOpen(self.transport),
            event_hooks={"response": [limit]},
        )

    async def _connect(self, http: httpx.AsyncClient) -> Client:
        try:
            async with asyncio.timeout(min(self.timeout, _CONNECT_SECONDS)):
                card = await A2ACardResolver(http, self.url).get_agent_card()
            client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        except (A2AError, httpx.HTTPError, TimeoutError, ValueError) as error:
            words = f"its card cannot be read: {error or type(error).__name__}"
            raise self._error(words, retriable=_is_temporary(error)) from error
        for interface in card.supported_interfaces:
            self._check_host(interface.url)
        return client

    def _check_host(self, url: str) -> None:
        """Refuse an address that would get our headers, and is not the server's own."""
        given, own = _origin(url), _origin(self.url)
        is_named = given[1] in [host.lower() for host in self.other_hosts]
        is_safe = given[0] == "https" or own[0] == "http"
        if given != own and not (is_named and is_safe):
            raise self._error(
                f"its card sends messages to {url!r}, which is not at {self.url!r}; name the host "
                "in other_hosts=[…] if it is right (https only, where url is)"
            )

    def _unseen(self, request: ModelRequest) -> tuple[JsonObject, list[str]]:
        """Return the facts of the agent's last reply, and the texts since."""
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
            raise self._error("there is no new message since its last reply")
        return before, texts

    def _text_of(self, message: TextMessage) -> str:
        if not isinstance(message.content, str):
            kinds = sorted({part.type for part in message.content} - {"text"})
            if kinds:
                raise self._error(f"it takes only texts; a message has {', '.join(kinds)}")
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
            known = as_list(before.get("artifacts")) if before.get("taskId") == answer.id else None
            shown = {_digest(artifact): _text(artifact.parts) for artifact in answer.artifacts}
            texts = [text for digest, text in shown.items() if digest not in (known or ())]
            if state in _WAITING:
                digests: list[JsonValue] = list(shown)
                facts |= {"taskId": answer.id, "artifacts": digests}
            if _status(answer) not in texts:
                texts.append(_status(answer))
            text = "\n\n".join(filter(None, texts))
        if len(text.encode()) > self.max_reply_bytes:
            raise self._too_long()
        reply = TextMessage(
            "assistant", text, stop_reason="stop", provider_metadata={_PROVIDER: facts}
        )
        return ModelReply(messages=(reply,), finish=Finish("stop"))

    def _too_long(self, task_id: str = "") -> A2ATaskError:
        return self._error(f"its reply has more than {self.max_reply_bytes} bytes", task_id)

    def _error(self, words: str, task_id: str = "", *, retriable: bool = False) -> A2ATaskError:
        shown = words[:_MOST_CHARACTERS]
        return A2ATaskError(shown, model=self.url, task_id=task_id, retriable=retriable)


class _KeptOpen(httpx.AsyncBaseTransport):
    """A transport that belongs to its owner, who closes it."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)


class _TooLongError(Exception):
    """A reply has too many bytes."""


class _Pieces:
    """Shows the text of artifacts while it arrives."""

    def __init__(self, show: Callable[[str], Awaitable[None]], max_bytes: int) -> None:
        self._show = show
        self._left = max_bytes
        self._known: set[str] = set()
        """Ids of artifacts."""

        self._is_shown = False

    async def take(self, update: TaskArtifactUpdateEvent) -> None:
        """Show what is new of an artifact; a text that is sent again, or rewritten, is not.

        Raises:
            _TooLongError: There are too many bytes.
        """
        artifact_id, text = update.artifact.artifact_id, _text(update.artifact.parts)
        if artifact_id not in self._known:
            text = f"\n\n{text}" if self._is_shown and text else text
        elif not update.append:
            return
        self._known.add(artifact_id)
        self._is_shown = self._is_shown or bool(text)
        self._left -= len(text.encode())
        if self._left < 0:
            raise _TooLongError
        await self._show(text)


class _Call:
    """A message to a server, and the task that answers it."""

    def __init__(self, client: Client, pieces: _Pieces | None) -> None:
        self._client = client
        self._pieces = pieces
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
                if self._pieces is not None:
                    await self._pieces.take(event.artifact_update)
        if not self.task_id:
            raise A2AClientError("the server gave neither a message nor a task")
        while task is None or task.status.state not in _AT_REST:
            if task is not None:
                await asyncio.sleep(_POLL_SECONDS)
            task = await self._client.get_task(GetTaskRequest(id=self.task_id))
        return task

    async def cancel(self) -> None:
        """Cancel the task, if it has begun and the server allows it."""
        if self.task_id:
            with suppress(A2AError, httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await self._client.cancel_task(CancelTaskRequest(id=self.task_id))


def _origin(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme)


def _is_temporary(error: Exception) -> bool:
    """Return whether a card may be there a little later."""
    status = getattr(error, "status_code", None)
    return not isinstance(error, ValueError) and (status is None or status in _TEMPORARY)


def _digest(artifact: Artifact) -> str:
    """Return a digest of an artifact, which changes with its text."""
    text = f"{artifact.artifact_id}\0{_text(artifact.parts)}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


def _status(task: Task) -> str:
    """Return the text of a task's status; its data only if it has no text."""
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
