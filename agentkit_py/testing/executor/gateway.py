"""The server's AI gateway: sends a model's request as ``step.ai.infer`` described it."""

from __future__ import annotations

import json
from typing import Any

import httpx

_OK = 299


async def ask(transport: httpx.AsyncBaseTransport | None, opts: dict[str, Any]) -> dict[str, Any]:
    """Send one request; gives ``{"data": …}`` or ``{"error": …}``, as the server keeps it."""
    key = opts["auth_key"]
    url = httpx.URL(opts["url"])
    headers = [("content-type", "application/json")]
    match opts["format"]:
        case "gemini":
            url = url.copy_add_param("key", key)
        case "anthropic":
            headers.append(("x-api-key", key))
        case _:
            headers.append(("authorization", f"Bearer {key}"))
    headers += opts["headers"].items()  # added, even where a header is there already
    if transport is None:
        return _error("no transport was given to ReplayExecutor", b"")
    async with httpx.AsyncClient(transport=_Kept(transport), trust_env=False) as client:
        try:
            response = await client.post(
                url, content=json.dumps(opts["body"]).encode(), headers=headers, timeout=7200
            )
        except httpx.TransportError as error:
            return _error(f"Unable to reach SDK URL: {error}", b"")
    if response.status_code > _OK:
        return _error(f"unsuccessful status code: {response.status_code}", response.content)
    try:
        return {"data": json.loads(response.content)}
    except ValueError as error:
        return _error(f"error wrapping ai result in map: {error}", response.content)


def _error(reason: str, body: bytes) -> dict[str, Any]:
    text = body.decode("utf-8", "replace") or '{"error":"Error making AI request"}'
    message = f"Error making AI request: {reason}"
    return {"error": {"name": "AIGatewayError", "message": message, "stack": text}}


class _Kept(httpx.AsyncBaseTransport):
    """The transport belongs to the test: closing a client must not close it."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)
