"""Compatible hosts refuse what single ones of them refuse."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentkit_py.testing.provider import FakeProvider

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def ask(host: str, model: str, **message: Any) -> httpx.Response:
    """Send a call with its result to a host."""
    call_id = message["tool_calls"][0]["id"]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, **message},
        {"role": "tool", "tool_call_id": call_id, "content": "1"},
    ]
    fake = FakeProvider([{"reasoning": "Hm.", "text": "Yes."}])
    with httpx.Client(transport=fake.transport) as client:
        return client.post(
            f"https://{host}/v1/chat/completions",
            json={"model": model, "messages": messages},
            headers={"authorization": "Bearer k"},
        )


@pytest.mark.parametrize(
    ("host", "model", "message", "words"),
    [
        ("api.deepseek.com", "deepseek-v4", {}, "must be passed back"),
        ("api.moonshot.ai", "kimi-k3", {}, "must be passed back"),
        ("api.groq.com", "kimi-k3", {"reasoning_content": ""}, "is unsupported"),
        ("api.mistral.ai", "magistral", {"tool_calls": [CALL]}, "length of 9"),
    ],
)
def test_a_host_refuses_what_it_does_not_take(
    host: str, model: str, message: dict[str, Any], words: str
) -> None:
    """In its own words, where they are known."""
    reply = ask(host, model, **{"tool_calls": [CALL], **message})
    assert reply.status_code == 400
    assert words in reply.text


@pytest.mark.parametrize(
    ("host", "model", "message"),
    [
        ("api.deepseek.com", "deepseek-v4", {"reasoning_content": ""}),
        ("api.groq.com", "kimi-k3", {}),
        ("api.mistral.ai", "magistral", {"tool_calls": [{**CALL, "id": "abcDEF123"}]}),
        ("openrouter.ai/api", "anthropic/claude-opus-5-5", {"reasoning_details": []}),
    ],
)
def test_a_host_takes_what_it_wants(host: str, model: str, message: dict[str, Any]) -> None:
    """And thinks where it shows its reasoning."""
    reply = ask(host, model, **{"tool_calls": [CALL], **message})
    assert reply.status_code == 200, reply.text
    shown = reply.json()["choices"][0]["message"].get("reasoning_content")
    assert shown == ("Hm." if "deepseek" in host else None)


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([("user", "Hi"), ("assistant", "Hello")], "Expected last role User or Tool"),
        ([("user", "Hi"), ("assistant", ""), ("tool", "1"), ("user", "So?")], "Unexpected role"),
    ],
)
def test_mistral_refuses_turns_out_of_order(turns: list[tuple[str, str]], words: str) -> None:
    """No assistant at the end, and no user after results."""
    call = {**CALL, "id": "abcDEF123"}
    own = {"assistant": {"tool_calls": [call]}, "tool": {"tool_call_id": "abcDEF123"}}
    has_calls = any(role == "tool" for role, _ in turns)
    messages = [
        {"role": role, "content": text, **(own.get(role, {}) if has_calls else {})}
        for role, text in turns
    ]
    fake = FakeProvider(["never"])
    with httpx.Client(transport=fake.transport) as client:
        reply = client.post(
            "https://api.mistral.ai/v1/chat/completions",
            json={"model": "mistral-large-latest", "messages": messages},
            headers={"authorization": "Bearer k"},
        )
    assert reply.status_code == 400
    assert words in reply.text
