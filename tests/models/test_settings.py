"""Typed settings: what goes out, and what is refused where it is given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import TextMessage
from agentkit_py.models import (
    AnthropicSettings,
    ChatSettings,
    CompatibleSettings,
    GeminiSettings,
    Model,
    ModelRequest,
    ResponsesSettings,
    anthropic,
    azure_openai,
    compatible,
    gemini,
    grok,
    model_named,
    openai,
    openai_responses,
)
from agentkit_py.models.base import copy_model
from agentkit_py.testing import FakeProvider

CHAT: ChatSettings = {
    "temperature": 1,
    "top_p": 0.9,
    "max_completion_tokens": 50,
    "stop": ["END"],
    "seed": 7,
    "presence_penalty": 0.5,
    "logit_bias": {"50256": -100},
    "service_tier": "flex",
    "metadata": {"team": "support"},
    "safety_identifier": "u-1",
    "prompt_cache_key": "desk",
}
RESPONSES: ResponsesSettings = {
    "max_output_tokens": 50,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"verbosity": "low"},
    "truncation": "disabled",
    "service_tier": "priority",
}
ANTHROPIC: AnthropicSettings = {
    "max_tokens": 4000,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u-1"},
    "service_tier": "standard_only",
}
GEMINI: GeminiSettings = {
    "generationConfig": {
        "temperature": 0,
        "topK": 40,
        "maxOutputTokens": 100,
        "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False},
    },
    "safetySettings": [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"},
    ],
    "labels": {"team": "support"},
}
COMPATIBLE: CompatibleSettings = {"top_k": 20, "reasoning": {"effort": "low"}, "max_tokens": 50}

MODELS: list[tuple[Model, dict[str, Any]]] = [
    (openai("gpt-4.1", api_key="k", settings=CHAT), {**CHAT}),
    (
        azure_openai(
            "gpt-4.1", api_key="k", endpoint="https://r.openai.azure.com", settings={"seed": 7}
        ),
        {"seed": 7},
    ),
    (openai_responses("gpt-5", api_key="k", settings=RESPONSES), {**RESPONSES}),
    (anthropic("claude-sonnet-4-5", api_key="k", settings=ANTHROPIC), {**ANTHROPIC}),
    (gemini("gemini-2.5-flash", api_key="k", settings=GEMINI), {**GEMINI}),
    (grok("grok-3", api_key="k", settings={"temperature": 0}), {"temperature": 0}),
    (compatible("openrouter", "x/y", api_key="k", settings=COMPATIBLE), {**COMPATIBLE}),
    (model_named("anthropic:claude-sonnet-4-5", api_key="k", settings={"top_k": 5}), {"top_k": 5}),
]


@pytest.mark.parametrize(
    ("model", "sent"), MODELS, ids=lambda v: v.provider if isinstance(v, Model) else ""
)
async def test_settings_are_in_the_request_unchanged(model: Model, sent: dict[str, Any]) -> None:
    """The stand-in knows the provider's own names, and refuses others."""
    fake = FakeProvider(["Hello."])
    await copy_model(model, transport=fake.transport).respond("Hi")
    assert fake.rejections == []
    assert {name: fake.requests[0].body.get(name) for name in sent} == sent


async def test_chat_settings_are_renamed_where_a_model_is_asked_by_the_other_api() -> None:
    """As default parameters are."""
    model = openai("gpt-6.2-sol", settings={"reasoning_effort": "low", "max_tokens": 50})
    assert model.provider == "openai-responses"
    assert model.default_parameters == {"reasoning": {"effort": "low"}, "max_output_tokens": 50}


def test_raw_parameters_come_before_settings_and_are_not_checked() -> None:
    """Settings that the types do not know yet can be sent nevertheless."""
    model = openai(
        "gpt-4.1",
        settings={"temperature": 1, "seed": 7},
        default_parameters={"temperature": 0, "brand_new": True},
    )
    assert model.default_parameters == {"temperature": 0, "seed": 7, "brand_new": True}
    assert anthropic("m", max_tokens=9, settings={"max_tokens": 8}).default_parameters == {
        "max_tokens": 8
    }
    wrong: Any = [1]
    with pytest.raises(ConfigurationError, match=r"default_parameters=\[1\]"):
        openai("m", settings={"seed": 1}, default_parameters=wrong)


@pytest.mark.parametrize(
    ("factory", "given", "place", "meant"),
    [
        (openai, {"temprature": 1}, "['temprature']", "temperature"),
        (openai, {"top-p": 1}, "['top-p']", "top_p"),
        (openai_responses, {"reasoning": {"efort": "low"}}, "['reasoning']['efort']", "effort"),
        (anthropic, {"stop_sequence": ["."]}, "['stop_sequence']", "stop_sequences"),
        (gemini, {"generationConfig": {"topp": 1}}, "['generationConfig']['topp']", "topP"),
    ],
)
def test_a_parameter_that_is_nearly_a_known_setting_is_warned_of_once(
    factory: Any, given: Any, place: str, meant: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent nevertheless."""
    models = [factory("gpt-4.1", default_parameters=given) for _ in range(2)]
    assert given.items() <= models[0].default_parameters.items()
    said = [text for text in caplog.messages if place in text]
    assert len(said) == 1
    assert f"default_parameters{place} is sent as it is" in said[0]
    assert f"did you mean {meant!r}?" in said[0]


def test_parameters_of_providers_that_are_unlike_any_setting_pass_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Newer ones, and those of other hosts."""
    given = {"min_tokens": 2, "top_a": 0.5, "repeat_penalty": 1.1, "n": 1, "tool_choice": "auto"}
    openai("gpt-4.1", default_parameters={**given, "brand_new": {"temprature": 1}})
    assert caplog.messages == []


def by_name(name: str, settings: Any) -> Model:
    """Return a model by its provider's name."""
    return model_named(f"gemini:{name}", settings=settings)


@pytest.mark.parametrize(
    ("factory", "settings", "said"),
    [
        (openai, {"temperatures": 1}, r"\['temperatures'\]=1: .* mean temperature\?"),
        (openai, {"temperature": "hot"}, r"\['temperature'\]='hot': .* number"),
        (openai, {"temperature": True}, r"\['temperature'\]=True: .* number"),
        (openai, {"stop": 3}, r"\['stop'\]=3: .* string or .* list"),
        (openai, {"service_tier": "fast"}, r"\['service_tier'\]='fast': .*'flex'"),
        (openai, {"logit_bias": {"a": "b"}}, r"\['logit_bias'\]\['a'\]='b': .* number"),
        (openai, {"max_tokens": -1}, r"\['max_tokens'\]=-1: .* equal to 1"),
        (openai, {"top_p": 1.5}, r"\['top_p'\]=1.5: .* less than or equal to 1"),
        (openai, {"temperature": float("nan")}, r"\['temperature'\]=nan"),
        (openai, {"logit_bias": {"a": 200}}, r"\['logit_bias'\]\['a'\]=200: .* 100"),
        (openai_responses, {"max_output_tokens": 8}, r"\['max_output_tokens'\]=8: .* equal to 16"),
        (anthropic, {"temperature": 1.2}, r"\['temperature'\]=1.2: .* equal to 1"),
        (anthropic, {"thinking": {"budget_tokens": 9}}, r"\['budget_tokens'\]=9: .* 1024"),
        (gemini, {"generationConfig": {"topK": 0}}, r"\['topK'\]=0: .* equal to 1"),
        (partial(compatible, "vllm"), {"top_k": -2}, r"\['top_k'\]=-2: .* equal to -1"),
        (openai, 3, "settings=3: .* dictionary"),
        (openai, {1: 2}, r"settings\[1\]=2"),
        (openai_responses, {"reasoning": {"amount": 1}}, r"\['amount'\]=1"),
        (anthropic, {"thinking": {"budget": 5}}, r"\['budget'\]=5: .*budget_tokens\?"),
        (gemini, {"temperature": 0}, r"mean generationConfig\.temperature\?"),
        (gemini, {"safetySettings": [{}, {"category": 2}]}, r"\[1\]\['category'\]=2"),
        (partial(compatible, "groq"), {"top_k": "x"}, r"\['top_k'\]='x'"),
        (by_name, {"top_k": 1}, r"\['top_k'\]=1"),
    ],
)
def test_wrong_settings_are_named_where_they_are_given(
    factory: Callable[..., Model], settings: Any, said: str
) -> None:
    """A provider would say so with the first call, or ignore it."""
    with pytest.raises(ConfigurationError, match=said):
        factory("m", settings=settings)


def test_type_checkers_know_the_names() -> None:
    """Pyright reports the comment below if it is not needed."""
    with pytest.raises(ConfigurationError, match="temperatures"):
        openai("m", settings={"temperatures": 1})  # pyright: ignore[reportArgumentType] - on purpose: it is refused


def test_pydantic_is_loaded_for_settings_only() -> None:
    """Models are made in programs that start often."""
    script = (
        "import sys; from agentkit_py.models import openai; openai('m');"
        "openai('m', default_parameters={'temperature': 0});"
        "assert 'pydantic' not in sys.modules; openai('m', settings={'seed': 1});"
        "assert 'pydantic' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_models_answer_without_anything_else_of_the_library_imported() -> None:
    """Modules that send requests are loaded when the first one is sent."""
    script = (
        "import asyncio; from dataclasses import replace; from agentkit_py.models import openai\n"
        "async def answer(body): return {'choices': [{'message': {'content': 'Hello.'}}]}\n"
        "model = replace(openai('m', api_key='k'), answers=answer)\n"
        "assert asyncio.run(model.respond('Hi')).text == 'Hello.'"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("make", "name", "sent"),
    [
        (openai_responses, "gpt-5.4-nano", {"temperature": 0, "top_p": 0.5}),
        (openai, "gpt-5.2", {"temperature": 0, "top_p": 0.5}),
        (openai_responses, "gpt-5", {}),
        (openai, "gpt-5-mini", {}),
        (openai_responses, "gpt-5.4-pro", {}),
        (openai, "gpt-4.1", {"temperature": 0, "top_p": 0.5}),
    ],
)
def test_settings_that_a_model_refuses_are_named(
    make: Any, name: str, sent: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Models whose effort is none by default take a temperature."""
    given = {"temperature": 0, "top_p": 0.5}
    model = make(name, api_key="k", settings=given)
    body = model.encode(ModelRequest(messages=(TextMessage("user", "hi"),)))
    assert {key: body[key] for key in given if key in body} == sent
    logged = [r.message for r in caplog.records if "refuses these settings" in r.message]
    assert bool(logged) is (sent != given)
    assert all("temperature=0, top_p=0.5" in message for message in logged)


def test_a_setting_of_chat_completions_alone_is_named_at_the_responses_api(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The model is asked there, since it refuses its tools in chat completions."""
    openai("gpt-6.1", api_key="k", settings={"stop": ["END"], "max_completion_tokens": 5})
    (logged,) = [r.message for r in caplog.records if "Responses API" in r.message]
    assert logged.endswith("left out: stop.")
