"""Making models: where they send what, and what is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.models import (
    Model,
    RetryPolicy,
    anthropic,
    azure_openai,
    gemini,
    grok,
    openai,
)


def azure(model: Any = "gpt-4o", **options: Any) -> Model:
    """An Azure model with an endpoint."""
    endpoint: Any = options.pop("endpoint", "https://r.openai.azure.com")
    return azure_openai(model, endpoint=endpoint, **options)


VERSION = "api-version=2024-08-01-preview"
FACTORIES: list[Callable[..., Model]] = [openai, azure, anthropic, gemini, grok]


@pytest.mark.parametrize(
    ("model", "url", "key"),
    [
        (openai("gpt-4.1"), "https://api.openai.com/v1/chat/completions", "authorization"),
        (
            azure(deployment="dep1", api_version="2024-08-01-preview"),
            f"https://r.openai.azure.com/openai/deployments/dep1/chat/completions?{VERSION}",
            "api-key",
        ),
        (anthropic("claude-sonnet-4-5"), "https://api.anthropic.com/v1/messages", "x-api-key"),
        (
            gemini("gemini-2.5-flash"),
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
            "x-goog-api-key",
        ),
        (grok("grok-4"), "https://api.x.ai/v1/chat/completions", "authorization"),
    ],
    ids=lambda value: value.provider if isinstance(value, Model) else None,
)
def test_each_provider_has_its_address_and_its_header_for_the_key(
    model: Model, url: str, key: str
) -> None:
    """The key is in one header and nowhere else; without a key the header is not sent."""
    assert model.adapter.url(model) == url
    headers = model.adapter.headers(model, "k-123")
    assert [name for name, value in headers.items() if "k-123" in value] == [key]
    assert key not in model.adapter.headers(model, None)
    assert model.key_required


@pytest.mark.parametrize("base", ["http://localhost:8080/v1", "http://localhost:8080/v1/"])
def test_a_base_url_may_end_in_a_slash(base: str) -> None:
    """Both forms are in use; a server of one's own needs no key."""
    urls = {m.adapter.url(m) for m in (openai("m", base_url=base), grok("m", base_url=base))}
    assert urls == {"http://localhost:8080/v1/chat/completions"}
    claude = anthropic("m", base_url=base)
    assert claude.adapter.url(claude) == "http://localhost:8080/v1/messages"
    google = gemini("tunedModels/m", base_url=base)
    assert google.adapter.url(google) == "http://localhost:8080/v1/tunedModels/m:generateContent"
    assert not openai("m", base_url=base).key_required


def test_headers_of_ones_own_and_betas_are_sent() -> None:
    """Own headers win; TypeScript forgets the betas."""
    model = anthropic("m", beta_headers=["a-1", "b-2"], headers={"x-team": "t"})
    headers = model.adapter.headers(model, "k")
    assert headers["anthropic-beta"] == "a-1,b-2"
    assert headers["x-team"] == "t"
    own = openai("m", headers={"authorization": "Bearer mine"})
    assert own.adapter.headers(own, "k")["authorization"] == "Bearer mine"


def test_an_azure_deployment_has_the_name_of_its_model_by_default() -> None:
    """The usual case."""
    model = azure()
    assert "/deployments/gpt-4o/" in model.adapter.url(model)


@pytest.mark.parametrize(
    ("variable", "factory"),
    [
        ("OPENAI_API_KEY", openai),
        ("AZURE_OPENAI_API_KEY", azure),
        ("ANTHROPIC_API_KEY", anthropic),
        ("GEMINI_API_KEY", gemini),
        ("XAI_API_KEY", grok),
    ],
)
def test_the_runtime_reads_the_variable_that_holds_the_key(
    variable: str, factory: Callable[..., Model]
) -> None:
    """The adapter itself reads no environment."""
    assert factory("m").adapter.key_variable == variable


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": "1"}, "timeout='1'"),
        ({"retry": 3}, "retry=3"),
        ({"retry": RetryPolicy(attempts=0)}, "attempts=0"),
        ({"retry": RetryPolicy(min_wait=-1)}, "min_wait=-1: pass a number, 0 or more"),
        ({"retry": RetryPolicy(max_wait=float("nan"))}, "max_wait=nan"),
        ({"guards": ["x"]}, r"guards=\['x'\]"),
        ({"context_window": 0}, "context_window=0"),
        ({"default_parameters": {"stop": {"a"}}}, "default_parameters.stop"),
        ({"default_parameters": [1]}, r"default_parameters=\[1\]"),
        ({"headers": {"x": 1}}, r"headers\['x'\]"),
        ({"headers": {"x": "a\nb"}}, r"headers\['x'\]"),
    ],
)
def test_values_that_cannot_work_are_named(
    factory: Callable[..., Model], options: dict[str, Any], named: str
) -> None:
    """The error comes at once and not in the first call."""
    with pytest.raises(ConfigurationError, match=named):
        factory("m", **options)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("name", ["", " m", None, 3])
def test_a_model_needs_a_name(factory: Callable[..., Model], name: Any) -> None:
    """An empty one would be the provider's 404."""
    with pytest.raises(ConfigurationError, match=f"={name!r}"):
        factory(name)


@pytest.mark.parametrize("factory", [openai, anthropic, gemini, grok])
@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://x", "https://x?y=1", "http://[x", 3])
def test_a_base_url_is_an_http_url(factory: Callable[..., Model], url: Any) -> None:
    """A URL with a query cannot take the path."""
    with pytest.raises(ConfigurationError, match="base_url"):
        factory("m", base_url=url)


@pytest.mark.parametrize("factory", [openai, anthropic, gemini, grok])
@pytest.mark.parametrize(
    "url",
    [
        "https://ann:secret@gateway.example/v1",
        "https://secret@gateway.example",
        "http://ann:sec%72et-secret@127.0.0.1:8080/v1/",
        "https://ann:se/secret@gateway.example/v1",
        "ann:secret@gateway.example/v1",
        "https://gateway.example/v1?key=secret",
        "https://gateway.example/v1#secret",
    ],
)
def test_a_secret_in_an_address_is_refused_without_showing_it(
    factory: Callable[..., Model], url: str
) -> None:
    """Addresses appear in logs, traces and errors."""
    with pytest.raises(ConfigurationError, match="base_url") as caught:
        factory("m", base_url=url)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="endpoint") as caught:
        azure(endpoint=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["https://a.b:8080/@me/v1", "http://[::1]:8080", "http://[fe80::1]/v1", "http://grüße.de"],
)
def test_other_addresses_are_taken(url: str) -> None:
    """An at sign in a path is no user name."""
    assert openai("m", base_url=url).base_url == url


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: azure(endpoint="r.openai.azure.com"), "endpoint="),
        (lambda: azure(deployment="a/b"), "deployment='a/b'"),
        (lambda: azure(api_version=""), "api_version=''"),
        (lambda: anthropic("m", max_tokens=0), "max_tokens=0"),
        (lambda: anthropic("m", beta_headers="a"), "beta_headers='a'"),
        (lambda: anthropic("m", beta_headers=["a,b"]), "beta_headers="),
        (lambda: gemini("a b?"), r"model='a b\?'"),
    ],
)
def test_a_providers_own_options_are_checked(make: Callable[[], Model], named: str) -> None:
    """The message says which value it was."""
    with pytest.raises(ConfigurationError, match=named):
        make()


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("key", ["", "sk-secret\n", "sk secret", "schlüssel-secret", 3])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(
    factory: Callable[..., Model], key: Any
) -> None:
    """The HTTP library's own error would show it."""
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        factory("m", api_key=key)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("factory", FACTORIES)
def test_an_option_that_no_model_has_is_named_with_those_there_are(
    factory: Callable[..., Model],
) -> None:
    """It says, too, where a provider's own parameters go."""
    with pytest.raises(ConfigurationError, match=r"'temprature'; it has .*timeout.*settings="):
        factory("m", temprature=0.5)


@pytest.mark.parametrize("factory", FACTORIES)
def test_no_secret_is_in_a_models_repr(factory: Callable[..., Model]) -> None:
    """Models end up in logs."""
    model = factory("m", api_key="sk-secret", headers={"x-secret": "sk-secret"})
    assert "secret" not in repr(model)


def test_max_tokens_is_a_default_parameter_like_others() -> None:
    """An explicit default parameter takes precedence."""
    assert anthropic("m", max_tokens=9).default_parameters == {"max_tokens": 9}
    model = anthropic("m", max_tokens=9, default_parameters={"max_tokens": 5, "top_k": 1})
    assert model.default_parameters == {"max_tokens": 5, "top_k": 1}
