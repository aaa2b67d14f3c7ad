"""No API key in any error, log record or repr, whatever fails and whoever echoes it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from agentkit_py import Agent, AgentKitError, anthropic, gemini, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.models import Model, RetryPolicy, azure_openai, grok
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import EventLog, FakeProvider, Raw, error

# Shapes of the five providers; Azure's looks like nothing in particular.
KEYS = {
    "openai": "sk-proj-4f7c2a9e8b1d",
    "azure_openai": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "anthropic": "sk-ant-api03-9d8c7b6a",
    "gemini": "AIzaSyD-1a2b3c4d5e6f",
    "grok": "xai-1q2w3e4r5t6z",
}
VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "azure_openai": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "grok": "XAI_API_KEY",
}


def make(provider: str, root: str, **options: Any) -> Model:
    """A model of a provider at this address, without retries."""
    options = {"retry": RetryPolicy(attempts=1), "timeout": 30, **options}
    match provider:
        case "azure_openai":
            return azure_openai("gpt-4o", endpoint=root, **options)
        case "anthropic":
            return anthropic("claude-sonnet-4-5", base_url=root, **options)
        case "gemini":
            return gemini("gemini-2.5-flash", base_url=root, **options)
        case "grok":
            return grok("grok-4", base_url=root, **options)
        case _:
            return openai("gpt-4o", base_url=root, **options)


def failures(key: str) -> dict[str, Any]:
    """Answers that fail, each with the key in it."""
    said = f"Bad key {key} in 'Authorization: Bearer {key}'"
    return {
        **{f"status {status}": error(status, said) for status in (400, 401, 403, 404, 429, 500)},
        "html": Raw(text=f"<html><b>{said}</b></html>", status=502, content_type="text/html"),
        "no json": Raw(text=said),
        "error in 200": Raw(json={"error": {"message": said}}),
        "error text in 200": Raw(json={"error": said, "code": said}),
        "error list in 200": Raw(json=[{"error": {"message": said}}]),
        "nothing in it": Raw(json={"choices": [], "candidates": []}),
        "array": Raw(json=["said"]),
        "redirect": Raw(text=said, status=302, headers={"location": "/"}),
        "hang up": Raw(disconnect=True),
    }


def seen_of(failure: BaseException | None) -> Iterator[str]:
    """Everything that a log, a debugger or a tracker would show of an error and its causes."""
    while failure is not None:
        yield str(failure)
        yield repr(failure)
        yield repr(failure.args)
        if isinstance(failure, AgentKitError):
            yield repr(vars(failure))
        yield "".join(traceback.format_exception(failure))
        failure = failure.__cause__ or failure.__context__


@pytest.mark.parametrize("provider", list(KEYS))
@pytest.mark.parametrize("where", ["model", "environment"])
async def test_no_failure_shows_the_key(
    provider: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages, attributes, causes, tracebacks, events and logs of every level are searched."""
    key = KEYS[provider]
    caplog.set_level(logging.DEBUG)
    log = EventLog()
    shown: dict[str, str] = {}
    replies = failures(key)
    runtime = DirectRuntime(environment={VARIABLES[provider]: key})
    with FakeProvider(list(replies.values())) as fake:
        options = {"api_key": key} if where == "model" else {}
        model = make(provider, fake.base_url(provider), **options)
        agent = Agent(name="a", system="S", model=model)
        for name in replies:
            with pytest.raises(AgentKitError) as caught:
                await agent.run("q?", runtime=runtime, observer=log)
            shown[name] = "\n".join([*seen_of(caught.value), repr(agent), repr(runtime)])
        await runtime.aclose()
        assert fake.remaining == 0
    shown["logs"] = "\n".join(f"{r.getMessage()} {r.exc_text or ''}" for r in caplog.records)
    shown["events"] = "\n".join(map(repr, log.events))
    assert [name for name, text in shown.items() if key in text] == []
    assert len(caplog.records) > 0


@pytest.mark.parametrize("provider", list(KEYS))
@pytest.mark.parametrize("bad", ["{}\nx", "{}\x00", "{} {}", "“{}”", "{}é"])
async def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(
    provider: str, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Copied with its quotes, or two lines of a file: the error names the variable."""
    key = KEYS[provider]
    caplog.set_level(logging.DEBUG)
    model = make(provider, "http://127.0.0.1:9")
    environment = {VARIABLES[provider]: bad.format(key, key)}
    runtime = DirectRuntime(environment=environment)
    with pytest.raises(ConfigurationError, match=VARIABLES[provider]) as caught:
        await Agent(name="a", system="S", model=model).run("q?", runtime=runtime)
    assert [text for text in seen_of(caught.value) if key in text] == []
    assert key not in caplog.text


async def test_a_header_that_http_cannot_carry_is_named_without_its_value() -> None:
    """It may be a proxy's password."""
    model = make("openai", "http://127.0.0.1:9", api_key="sk-x", headers={"x-proxy": "pässword"})
    with pytest.raises(ConfigurationError, match="'x-proxy'") as caught:
        await Agent(name="a", system="S", model=model).run("q?", runtime=DirectRuntime())
    assert [text for text in seen_of(caught.value) if "pässword" in text] == []


def test_no_repr_shows_a_key_or_a_header() -> None:
    """People print what they debug."""
    for provider, key in KEYS.items():
        model = make(provider, "http://x.example", api_key=key, headers={"x-proxy": "password1"})
        agent = Agent(name="a", system="S", model=model)
        for value in (model, agent, [agent], {"m": model}):
            assert key not in repr(value)
            assert "password1" not in repr(value)


async def test_no_secret_is_in_the_output_of_a_run() -> None:
    """Results and states are stored and sent to clients."""
    for provider, key in KEYS.items():
        with FakeProvider(["hi"]) as fake:
            model = make(provider, fake.base_url(provider), api_key=key)
            runtime = DirectRuntime()
            result = await Agent(name="a", system="S", model=model).run("q?", runtime=runtime)
            await runtime.aclose()
            assert key not in repr(result)
            assert key not in str(result.to_dict(full=True))
