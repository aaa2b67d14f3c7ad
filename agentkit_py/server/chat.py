"""Messages: choosing the answering agent, sending, cancelling, and the token to listen with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from agentkit_py._core.json import dumps, find_non_json
from agentkit_py._engine.transcript import users_words
from agentkit_py.errors import MessageNotFoundError, StateError
from agentkit_py.history.abilities import inbox_of
from agentkit_py.history.leases import OnBusy
from agentkit_py.messages import TextMessage, UserMessage, text_of_parts
from agentkit_py.network import Network
from agentkit_py.server.api import Api, ApiRequest, endpoint
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.errors import invalid
from agentkit_py.server.responses import (
    AgentItem,
    AgentsPage,
    Cancelled,
    ChatResponse,
    TokenResponse,
)
from agentkit_py.server.runs import Job, check_client_state
from agentkit_py.server.schemas import (
    CancelRequest,
    ChatMessage,
    ChatRequest,
    NoParams,
    TokenRequest,
    check_unicode,
)
from agentkit_py.server.threads import rewind
from agentkit_py.stores.rows import title_of

_DEEPEST = 100
"""Levels of a client's state, so that walking it never exhausts Python's stack."""

_LAST = 50
"""Results among which a message that is sent again is looked for."""


@endpoint("POST", "/api/chat", 404, 409, 429, 502, 503)
async def chat(request: ApiRequest[ChatRequest]) -> ChatResponse:
    """Send a message; the reply comes by the stream."""
    job = job_of(request.api.settings, request.params, request.user_id)
    request.params.history.clear()  # it may be long, and the message may wait
    await _edit(request.api, job, request.params)
    await make_thread(request.api, job)
    if job.on_busy in ("steer", "interrupt"):
        await _post(request.api, job)
    await request.api.backend.start(job)
    return {"success": True, "threadId": job.thread_id, "messageId": job.message.id or ""}


@endpoint("GET", "/api/agents")
async def list_agents(request: ApiRequest[NoParams]) -> AgentsPage:
    """List the agents that may answer, with their tools in the words of users."""
    return {"agents": agents_of(request.api.settings)}


def agents_of(settings: ServerSettings) -> list[AgentItem]:
    """Return the agents of a server, those of networks with the network's name."""
    found: list[AgentItem] = []
    for (_, name), target in settings.targets.items():
        is_network = isinstance(target, Network)
        for agent in target.agents if is_network else [target]:
            titles = {tool.name: tool.title for tool in agent.tool_map.values() if tool.title}
            for source in agent.mcp_servers:  # as far as a run has asked it for its tools
                titles.update(getattr(source, "titles", {}))
            item = AgentItem(
                network=name if is_network else None,
                agent=agent.name,
                description=agent.description or "",
                tools=titles,
            )
            found.append(item)
    return found


async def _edit(api: Api, job: Job, body: ChatRequest) -> None:
    """Rewind the thread to before the message that this message replaces, if any."""
    state = body.user_message.state or {}
    edited = body.edits
    if edited is None and state.get("mode") == "conversation_branching":
        named = state.get("editFromMessageId")
        edited = named if isinstance(named, str) and named else None
    if edited is None:
        return
    await api.backend.check_questions(job.user_id)  # before the thread is cut
    api.backend.check_room(job.user_id)
    try:
        await rewind(api, job.user_id, job.thread_id, edited)
    except MessageNotFoundError:
        _, known = await api.threads_of(job.user_id).newest(job.thread_id, _LAST)
        if all(one.result.id != job.message.id for one in known):
            raise  # else it is sent again, and was edited before


async def _post(api: Api, job: Job) -> None:
    """Leave a message to the active run, if its own run may have to wait for capacity."""
    backend = api.backend
    if backend.runs_here and not backend.working(job.user_id, job.thread_id):
        return  # its own run begins here at once, and sees to it
    await backend.check_questions(job.user_id)  # before it reaches anybody
    message = job.message
    for redactor in job.target.input_masks:
        message = redactor.user_message(message)
    store = inbox_of(api.threads_of(job.user_id))
    await store.put_message(job.thread_id, message, interrupts=job.on_busy == "interrupt")


async def make_thread(api: Api, job: Job) -> None:
    """Create the thread of a message if it does not exist, or refuse it."""
    api.backend.check_room(job.user_id)  # before a thread is made for nothing
    title = title_of(text_of_parts(job.message.content))
    await api.threads_of(job.user_id).add_thread(job.thread_id, title=title)


def job_of(settings: ServerSettings, body: ChatRequest, user_id: str) -> Job:
    """Return the client's requested target, or refuse it."""
    message, limits = body.user_message, settings.limits
    if len(message.content) > limits.message_characters:
        raise invalid(f"userMessage.content: at most {limits.message_characters} characters")
    target = settings.target(body.network, body.agent)
    state = _allowed_state(message.state, settings)
    texts = None
    if settings.client_history:
        texts = _client_texts(body.history, message, limits.history_characters) or None
    job = Job(
        user_id=user_id,
        thread_id=body.thread_id or str(uuid4()),
        target=target,
        message=UserMessage(
            message.content,
            message.id or str(uuid4()),
            state=state or None,
            client_timestamp=message.client_timestamp,
        ),
        client_state=state,
        client_history=texts,
        on_busy=_on_busy(body, settings),
    )
    try:
        check_client_state(job, settings)  # now, while the client can be answered
    except StateError:
        raise invalid("userMessage.state: does not fit the state of this network") from None
    return job


def _on_busy(body: ChatRequest, settings: ServerSettings) -> OnBusy | None:
    """Return how a message is sent; refuse modes that the store's lease does not allow."""
    lease = settings.store.lease
    if body.on_busy in ("steer", "interrupt") and not (lease and lease.steering):
        raise invalid(f"onBusy: this server does not {body.on_busy} answers")
    if lease is None:
        return None
    return body.on_busy or (lease.on_busy if lease.steering else None)


def _allowed_state(given: Mapping[str, Any] | None, settings: ServerSettings) -> dict[str, Any]:
    """Return the sent fields that a client may set; refuse values that cannot be stored."""
    found = {key: value for key, value in (given or {}).items() if key in settings.client_state}
    if _is_deeper(found, _DEEPEST + 1):
        raise invalid(f"userMessage.state: at most {_DEEPEST} levels")
    where = find_non_json(found, "userMessage.state")
    if where is not None:
        raise invalid(f"{where}: not plain JSON")
    try:
        check_unicode(json.dumps(found, ensure_ascii=False))
    except ValueError:
        raise invalid("userMessage.state: is not valid Unicode") from None
    if len(dumps(found).encode()) > settings.limits.state_bytes:
        raise invalid(f"userMessage.state: at most {settings.limits.state_bytes} bytes")
    return found


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        items = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        items = cast("list[object]", value)
    else:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def _client_texts(history: Sequence[object], own: ChatMessage, longest: int) -> list[TextMessage]:
    """Return the texts of user and assistant in a client's history, without the new message.

    Tool calls, results and system messages are left out: a client could make them up.
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
        return users_words(TextMessage(role, check_unicode(content)))
    except ValueError:
        return None


@endpoint("POST", "/api/chat/cancel", 404, 502)
async def cancel(request: ApiRequest[CancelRequest]) -> Cancelled:
    """Stop the runs of a thread."""
    thread_id = request.params.thread_id
    await request.threads.get_thread(thread_id)
    count = await request.api.backend.cancel(request.user_id, thread_id)
    return {"success": True, "cancelled": count}


@endpoint("POST", "/api/realtime/token", 502)
async def realtime_token(request: ApiRequest[TokenRequest]) -> TokenResponse:
    """Get a token to listen to the user's channel."""
    return await request.api.backend.token(request.http, request.user_id)
