"""stream_response: the reply of a network or agent as the answer to a plain POST."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Unpack
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import Response

from agentkit_py.errors import ConfigurationError
from agentkit_py.network import Network
from agentkit_py.server.api import Api, guarded
from agentkit_py.server.app import api_of
from agentkit_py.server.config import OWNER, ServerOptions, Target
from agentkit_py.server.formats import Format, FormatName, format_of
from agentkit_py.server.frontends import respond_to


async def stream_response(
    target: Target,
    request: Request,
    format: FormatName = "agentkit",  # noqa: A002 - its name
    *,
    user_id: str | None = None,
    **options: Unpack[ServerOptions],
) -> Response:
    """Answer a POST with the reply of a network or agent, as it comes.

    For routes of one's own, in FastAPI or Starlette. What `create_app` does for the same request
    is done here: the run goes on where the client goes away, and a request that comes again gets
    the reply from its beginning; questions end the answer, and their answers go on with the run.

    Args:
        target: The network or agent that answers, made once: what its runs share is kept as long
            as the process. Its threads are in its ``history``, else in memory.
        request: The request, its body not read.
        format: The protocol of the client: ``"vercel"`` (``useChat`` of the AI SDK), ``"ag-ui"``,
            or ``"agentkit"``, our own chunks between ``reply.started`` and ``reply.ended``, for a
            body ``{userMessage: {content, id?}, threadId?, answers?}``.
        user_id: Whose threads they are. None: those of the one user of this machine, and only
            programs on it are answered.
        options: As for `create_app`; the same in each call for one target.

    Returns:
        The response: server-sent events, or why the request is refused.

    Raises:
        ConfigurationError: The format is not known, or the options could not work or have changed.

    Example:
        ::

            @app.post("/ask")
            async def ask(request: Request) -> Response:
                return await stream_response(network, request, "vercel", user_id=user_of(request))
    """
    serve = guarded(partial(_serve, format_of(format), _api(target, options, user_id), user_id))
    return await serve(request)


async def _serve(format: Format, api: Api, user_id: str | None, request: Request) -> Response:  # noqa: A002 - its name
    if user_id is None:
        user_id = await api.authenticator.user_of(request)
    else:
        api.authenticator.check_page(request)
    return await respond_to(format, api, request, user_id)


_Apis = dict[tuple[int, bool], tuple[Api, ServerOptions]]
_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Apis] = WeakKeyDictionary()
"""The parts of a server for each target, by its id, and whether users are named."""


def _api(target: Target, options: ServerOptions, user_id: str | None) -> Api:
    made = _of_loop.setdefault(asyncio.get_running_loop(), _Apis())
    key = id(target), user_id is not None
    known = made.get(key)
    if known is None:
        given = options.copy()
        if user_id is None and options.get("may_answer") is None:
            options.setdefault("approvers", (OWNER,))  # there is nobody else
        kind = "network" if isinstance(target, Network) else "agent"
        api = api_of({(kind, target.name): target}, "local", options)
        api.backend.open()
        known = made[key] = api, given
    elif known[1] != options:
        names = {*options, *known[1]}
        changed = sorted(name for name in names if options.get(name) != known[1].get(name))
        raise ConfigurationError(
            f"stream_response: {changed[0]} is not what it was in the first call for "
            f"{target.name!r}: runs and readers share it, so make it once, outside of the route"
        )
    return known[0]
