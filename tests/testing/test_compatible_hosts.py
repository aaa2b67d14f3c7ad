"""Compatible hosts refuse what single ones of them refuse."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentkit_py.testing.provider import FakeProvider

IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://e.com/a.png"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def ask(
    host: str, model: str, message: dict[str, Any], body: dict[str, Any] | None = None
) -> httpx.Response:
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
            json={"model": model, "messages": messages, **(body or {})},
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
def test_a_host_refuses_unsupported_messages(
    host: str, model: str, message: dict[str, Any], words: str
) -> None:
    """In its own words, where they are known."""
    reply = ask(host, model, {"tool_calls": [CALL], **message})
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
def test_a_host_takes_supported_messages(host: str, model: str, message: dict[str, Any]) -> None:
    """And thinks where it shows its reasoning."""
    reply = ask(host, model, {"tool_calls": [CALL], **message})
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
    reply = _at_mistral("mistral-large-latest", turns)
    assert reply.status_code == 400
    assert words in reply.text


@pytest.mark.parametrize("model", ["mistral-small-latest", "ministral-3b-latest"])
def test_small_models_of_mistral_take_a_user_after_results(model: str) -> None:
    """As recorded in August 2026."""
    turns = [("user", "Hi"), ("assistant", ""), ("tool", "1"), ("user", "So?")]
    assert _at_mistral(model, turns).status_code == 200


def test_deepseek_takes_calls_without_reasoning_where_thinking_is_off() -> None:
    """As recorded with deepseek-v4-flash."""
    body = {"thinking": {"type": "disabled"}}
    assert ask("api.deepseek.com", "deepseek-v4", {"tool_calls": [CALL]}, body).status_code == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "expected `text`"),
        ({"thinking": {"type": "enabled"}, "tool_choice": "required"}, "this tool_choice"),
    ],
)
def test_deepseek_refuses_media_and_choices_while_it_thinks(
    body: dict[str, Any], words: str
) -> None:
    """As recorded with deepseek-v4-flash."""
    call = {"tool_calls": [CALL], "reasoning_content": ""}
    reply = ask("api.deepseek.com", "deepseek-v4", call, body)
    assert reply.status_code == 400
    assert words in reply.text


def test_zai_takes_a_result_without_the_id_of_its_call() -> None:
    """As recorded with GLM 4.5; a result goes with the next call."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "1"},
    ]
    fake = FakeProvider(["Yes."])
    with httpx.Client(transport=fake.transport) as client:
        reply = client.post(
            "https://api.z.ai/api/paas/v4/chat/completions",
            json={"model": "glm-4.5", "messages": messages},
            headers={"authorization": "Bearer k"},
        )
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(
    ("host", "model"),
    [
        ("api.deepseek.com", "deepseek-chat"),
        ("hyper.charm.land", "deepseek-v4-pro-0813"),
        ("router.huggingface.co", "moonshotai/Kimi-K2-Instruct-0905:groq"),
    ],
)
def test_calls_of_a_model_that_does_not_think_go_without_reasoning(host: str, model: str) -> None:
    """Though others of its host or family want it."""
    assert ask(host, model, {"tool_calls": [CALL]}).status_code == 200


def _at_mistral(model: str, turns: list[tuple[str, str]]) -> httpx.Response:
    """Send turns to Mistral."""
    call = {**CALL, "id": "abcDEF123"}
    own = {"assistant": {"tool_calls": [call]}, "tool": {"tool_call_id": "abcDEF123"}}
    has_calls = any(role == "tool" for role, _ in turns)
    messages = [
        {"role": role, "content": text, **(own.get(role, {}) if has_calls else {})}
        for role, text in turns
    ]
    fake = FakeProvider(["Well."])
    with httpx.Client(transport=fake.transport) as client:
        return client.post(
            "https://api.mistral.ai/v1/chat/completions",
            json={"model": model, "messages": messages},
            headers={"authorization": "Bearer k"},
        )
