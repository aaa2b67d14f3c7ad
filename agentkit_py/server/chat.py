"""Messages, cancelling, approvals and tokens."""

from __future__ import annotations

from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from agentkit_py.events import Decision
from agentkit_py.messages import UserMessage
from agentkit_py.server.answers import Cancelled, ChatAnswer, Done
from agentkit_py.server.api import Api, answer
from agentkit_py.server.bodies import (
    ApprovalRequestBody,
    CancelRequest,
    ChatRequest,
    TokenRequest,
    client_texts,
    parse,
)
from agentkit_py.server.jobs import Job
from agentkit_py.server.refusals import invalid, not_found
from agentkit_py.server.states import allowed_state, check_state
from agentkit_py.stores.records import title_of


async def chat(api: Api, request: Request, user_id: str) -> Response:
    """`POST /api/chat`: begin to answer a message; the answer comes by the stream."""
    # No name for the body: what the client shows may be long, and is not needed any more.
    job = _job_of(api, parse(ChatRequest, await api.body(request)), user_id)
    content = job.message.content
    assert isinstance(content, str)
    api.backend.check_room(user_id)  # before a thread is made for nothing
    threads = api.threads_of(user_id)
    await threads.add_thread(job.thread_id, title=title_of(content))
    await api.backend.start(job)
    return answer(ChatAnswer(success=True, threadId=job.thread_id, messageId=job.message.id or ""))


def _job_of(api: Api, body: ChatRequest, user_id: str) -> Job:
    settings, message = api.settings, body.user_message
    longest = settings.limits.message_characters
    if len(message.content) > longest:
        raise invalid(f"userMessage.content: at most {longest} characters")
    target = settings.target(body.network, body.agent)
    state = allowed_state(message.state, settings.rules, settings.limits.state_bytes)
    check_state(target, user_id, state, settings.rules)
    texts = None
    if settings.rules.history:
        texts = client_texts(body.history, message, settings.limits.history_characters) or None
    return Job(
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
    )


async def cancel(api: Api, request: Request, user_id: str) -> Response:
    """`POST /api/chat/cancel`: stop what answers in a thread."""
    body = parse(CancelRequest, await api.body(request))
    await api.threads_of(user_id).get_thread(body.thread_id)
    count = await api.backend.cancel(user_id, body.thread_id)
    return answer(Cancelled(success=True, cancelled=count))


async def approve_tool(api: Api, request: Request, user_id: str) -> Response:
    """`POST /api/approve-tool`: a person's word on a call that waits for it."""
    body = parse(ApprovalRequestBody, await api.body(request))
    await api.threads_of(user_id).get_thread(body.thread_id)
    decision = Decision(body.action == "approve", body.reason or "")
    known = await api.backend.answer(user_id, body.thread_id, body.tool_call_id, decision)
    if not known:
        raise not_found("question")
    return answer(Done(success=True))


async def realtime_token(api: Api, request: Request, user_id: str) -> Response:
    """`POST /api/realtime/token`: the right to listen to the user's own channel."""
    parse(TokenRequest, await api.body(request))
    return answer(await api.backend.token(request, user_id))
