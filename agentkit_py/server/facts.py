"""Facts: agents' memory of a user, read, corrected and deleted by that user only."""

from __future__ import annotations

from typing import Any

from agentkit_py.errors import ConfigurationError, ThreadNotFoundError
from agentkit_py.history.users import Fact
from agentkit_py.memory import UserMemory
from agentkit_py.server.api import ApiRequest, endpoint
from agentkit_py.server.errors import not_found
from agentkit_py.server.responses import Done, FactItem, Facts, Forgotten
from agentkit_py.server.schemas import CorrectBody, FactPath, FactsQuery, ForgetQuery


@endpoint("GET", "/api/memory", 404)
async def list_facts(request: ApiRequest[FactsQuery]) -> Facts:
    """List the remembered facts of the user, newest first."""
    found = await (await _mine(request)).facts(replaced=request.params.replaced)
    return {"facts": [_item(one) for one in found]}


@endpoint("POST", "/api/memory/{factId}", 404)
async def correct_fact(request: ApiRequest[CorrectBody]) -> FactItem:
    """Put another text in place of a fact; the answer is the fact that holds now."""
    mine, body = await _mine(request), request.params
    try:
        return _item(await mine.correct(body.fact_id, body.text))
    except (ConfigurationError, ThreadNotFoundError):  # the text is checked: the fact is not there
        raise not_found("fact") from None


@endpoint("DELETE", "/api/memory/{factId}", 404)
async def forget_fact(request: ApiRequest[FactPath]) -> Done:
    """Delete a fact for good, with those that it replaced and that replaced it."""
    if not await (await _mine(request)).forget(request.params.fact_id):
        raise not_found("fact")
    return {"success": True}


@endpoint("DELETE", "/api/memory", 404)
async def forget_facts(request: ApiRequest[ForgetQuery]) -> Forgotten:
    """Delete all that is remembered of the user for good."""
    return {"success": True, "forgotten": await (await _mine(request)).forget_all()}


async def _mine(request: ApiRequest[Any]) -> UserMemory:
    """Return the user's memory; without a memory, or for a user without a tenant: not found."""
    settings = request.api.settings
    memory, tenant = settings.memory, await settings.tenant(request.user_id)
    if memory is None or (settings.tenant_of is not None and tenant is None):
        raise not_found("memory")
    return memory.of(user=request.user_id, tenant=tenant)


def _item(fact: Fact) -> FactItem:
    return {
        "id": fact.id,
        "text": fact.text,
        "createdAt": fact.created_at.isoformat(),
        "agent": fact.agent,
        "threadId": fact.thread_id,
        "messageId": fact.message_id,
        "replaces": fact.replaces,
        "replacedBy": fact.replaced_by,
    }
