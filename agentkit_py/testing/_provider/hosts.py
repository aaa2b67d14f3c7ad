"""Compatible hosts: what single ones of them refuse in chat completions.

Source: api-docs.deepseek.com (thinking mode); platform.moonshot.ai and huggingface/responses.js#54;
groq's and mistral's answers in vercel/ai#17930 and #17991 (read October and November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentkit_py.models.capabilities import Capabilities, capabilities_of

from .rules import Problem, Request, fields_of, items_of, numbered, rules_of

_rule = rules_of("compatible")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_MEMBERS = ("reasoning_content", "reasoning", "reasoning_details")


def takes(request: Request) -> Capabilities:
    """Return what the asked host takes."""
    return capabilities_of(request.model, f"https://{request.host}")


@_rule("api-docs.deepseek.com, thinking mode; huggingface/responses.js#54")
def missing_reasoning_content(request: Request) -> Iterator[Problem]:
    """DeepSeek and Kimi want `reasoning_content` beside tool calls; it may be empty."""
    if not takes(request).reasoning_required:
        return
    for where, message in numbered("messages", request.body["messages"]):
        given = fields_of(message)
        if given.get("tool_calls") and not isinstance(given.get("reasoning_content"), str):
            words = "The `reasoning_content` in the thinking mode must be passed back to the API."
            yield Problem(words, where)


@_rule("answers of Groq (400) and Mistral (422)", "observed")
def unknown_reasoning_member(request: Request) -> Iterator[Problem]:
    """Groq and Mistral take no member of a message for reasoning."""
    if not request.host.endswith(("groq.com", "mistral.ai")):
        return
    for where, message in numbered("messages", request.body["messages"]):
        for name in _MEMBERS:
            if name in fields_of(message):
                yield Problem(f"'{where}': property '{name}' is unsupported", where)


@_rule("github.com/vercel/ai/issues/17930", "observed")
def short_call_id(request: Request) -> Iterator[Problem]:
    """Mistral's ids of calls are nine letters and digits."""
    if takes(request).call_id_length is None:
        return
    for where, message in numbered("messages", request.body["messages"]):
        given = fields_of(message)
        ids = [fields_of(call).get("id") for call in items_of(given.get("tool_calls"))]
        ids += [given["tool_call_id"]] if "tool_call_id" in given else []
        for one in ids:
            if not isinstance(one, str) or not _MISTRAL_ID.fullmatch(one):
                words = f"Tool call id was {one} but must be a-z, A-Z, 0-9, with a length of 9."
                yield Problem(words, where, "3280")
