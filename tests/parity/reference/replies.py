"""Reading a provider's answers in the reference model: status, errors, JSON."""

from __future__ import annotations

import copy
import json

from ..vectors import Json
from .core import UNDEFINED, Failure, Switches, engine_failure, our_failure, prose_failure
from .js import text, truthy


def answer_of(reply: Json, provider: str, on: Switches) -> Json:
    """The JSON of an answer.

    Raises:
        Failure: It is none, or an error.
    """
    if reply.get("disconnect"):
        raise (
            our_failure("ModelConnectionError")
            if on("typed-errors")
            else engine_failure("TypeError")
        )
    status = reply.get("status", 200)
    bad = not 200 <= status < 300
    body, is_json = _parsed(reply)
    said = body.get("error") if isinstance(body, dict) else None
    failed = truthy(said)
    if provider == "anthropic" and is_json and isinstance(body, dict):
        typed = body.get("type") == "error"  # anthropic.ts `responseParser` asks for the type
        failed = typed or (failed and on("errors-without-type"))
    if bad and is_json and not failed and on("http-status-counts"):
        raise our_failure(_kind(status), status=status)
    if not is_json:
        if not on("typed-errors"):
            raise engine_failure("SyntaxError")
        raise (
            our_failure(_kind(status), status=status) if bad else our_failure("ModelResponseError")
        )
    if failed:
        raise _provider_failure(status, said, on, bad=bad)
    if body is None and not on("typed-errors"):  # the parsers look for ``error`` in it
        raise engine_failure("TypeError")
    return body


def _provider_failure(status: int, said: Json, on: Switches, *, bad: bool) -> Failure:
    if not on("typed-errors"):
        message = said.get("message") if isinstance(said, dict) else None
        return Failure(provider=text(message)) if message else prose_failure("request-failed")
    message = said.get("message") if isinstance(said, dict) else said
    message = message if isinstance(message, str) else None
    if bad:
        return our_failure(_kind(status), status=status, says=message or UNDEFINED)
    return our_failure("ModelResponseError", says=message or UNDEFINED)


def _kind(status: int) -> str:
    if status in (401, 403):
        return "AuthenticationError"
    if status == 429:
        return "RateLimitError"
    return "ProviderUnavailableError" if status >= 500 else "BadRequestError"


def _parsed(reply: Json) -> tuple[Json, bool]:
    if "text" not in reply:
        return copy.deepcopy(reply.get("json")), True
    try:
        return json.loads(reply["text"].removeprefix("\ufeff")), True
    except ValueError:
        return None, False


CUT = {
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length",
    "content_filter": "content_filter", "SAFETY": "content_filter", "RECITATION": "content_filter",
    "refusal": "refusal", "model_context_window_exceeded": "context_window",
    "MALFORMED_FUNCTION_CALL": "error", "error": "error", "insufficient_system_resource": "error",
}  # fmt: skip
"""Why a reply ended too early, by the providers' words."""

WHOLE = {"stop", "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use", "STOP"}
"""The providers' words for a reply that is complete."""


def cut(found: list[Json], reasons: list[Json], on: Switches) -> list[Json]:
    """The messages of a reply that ended too early; no ``responseParser`` of TypeScript's asks.

    Raises:
        Failure: It says nothing at all.
    """
    why = next((CUT[each] for each in reasons if each in CUT), None)
    if why is None:
        words = [each for each in reasons if isinstance(each, str) and each]
        unknown = on("replies-say-why-they-ended") and not WHOLE.issuperset(words)
        for message in found if unknown else []:
            if message["type"] in ("text", "opaque"):
                message["stop_reason"] = "pause" if "pause_turn" in words else "other"
        return found
    texts = [m for m in found if m["type"] in ("text", "opaque")]
    says = any(m["type"] != "text" or m["content"].strip() for m in texts)
    calls = [call for m in found for call in m.get("tools", [])]
    if not (says or calls) and on("answers-are-checked"):
        raise our_failure("EmptyReplyError")
    if texts and on("replies-say-why-they-ended"):
        for message in texts:
            message["stop_reason"] = why
    for call in calls:
        call["_cut"] = True
    return found


def closing_reply(provider: str) -> Json:
    """A reply that ends a conversation, for a request that TypeScript does not make."""
    text = "(added by the runner)"
    if provider == "anthropic":
        block = {"type": "text", "text": text}
        return {
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": "end_turn",
        }
    if provider == "gemini":
        content = {"role": "model", "parts": [{"text": text}]}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
