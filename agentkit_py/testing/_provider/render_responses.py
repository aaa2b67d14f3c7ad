"""Replies in the JSON of OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

from .neutral import CREATED, FINISH, Call, Ids, Neutral, Usage


def render_responses(reply: Neutral, usage: Usage, model: str, ids: Ids) -> dict[str, Any]:
    """Return the JSON with which the Responses API would give that reply."""
    output: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        summary = [{"type": "summary_text", "text": reply.reasoning}] if reply.reasoning else []
        item = {"id": ids.next("rs_"), "type": "reasoning", "summary": summary}
        output.append({**item, "encrypted_content": f"gAAAAA{ids.next('')}"})
    if reply.text:
        output.append(_message(reply.text, ids))
    output += [_call(call, ids) for call in reply.calls]
    reason = FINISH["openai_responses"][reply.finish]
    complete = reason == "completed"
    return {
        "id": ids.next("resp_"),
        "object": "response",
        "created_at": CREATED,
        "status": "completed" if complete else "incomplete",
        "error": None,
        "incomplete_details": None if complete else {"reason": reason},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "usage": {
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.completion,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.prompt + usage.completion,
        },
    }


def _message(text: str, ids: Ids) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    head = {"id": ids.next("msg_"), "type": "message", "status": "completed"}
    return {**head, "role": "assistant", "content": [part]}


def _call(call: Call, ids: Ids) -> dict[str, Any]:
    head = {"id": ids.next("fc_"), "type": "function_call", "status": "completed"}
    call_id = call.id or ids.next("call_")
    return {**head, "call_id": call_id, "name": call.name, "arguments": call.arguments}
