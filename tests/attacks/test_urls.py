"""Addresses that strangers write: nobody fetches what is in a private network for them."""

# ruff: noqa: RUF001 - characters that look like others are the subject

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agentkit_py import TextMessage, anthropic, gemini, openai
from agentkit_py._core.urls import ALLOWED_HOSTS, private_address
from agentkit_py.errors import ModelError
from agentkit_py.messages import FileContent, ImageContent, TextContent
from agentkit_py.models import ModelRequest, RetryPolicy, openai_responses
from agentkit_py.runtime.direct import DirectRuntime

PRIVATE = (
    *("http://127.0.0.1/x", "http://localhost/x", "http://LOCALHOST./x", "http://a.localhost"),
    *("http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://10.0.0.8:80/"),
    *(
        "http://192.168.1.1",
        "http://172.16.0.1",
        "http://100.64.0.1",
        "http://0.0.0.0",
        "http://0/",
    ),
    *(
        "http://127.1",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://0x7f000001",
    ),
    *(
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25eth0]/",
    ),
    *("http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[::]/", "http://224.0.0.1/"),
    *("http://metadata.google.internal/", "http://printer.local/", "http://intranet/", "http:///x"),
    *(
        "http://user:pw@127.0.0.1/",
        "http://example.com@127.0.0.1/",
        "http://127.0.0.1#@example.com",
    ),
    *(
        "http:\\\\127.0.0.1\\x",
        "ht\ntp://127.0.0.1",
        " http://127.0.0.1",
        "http://１２７.０.０.１/",
    ),
    *("http://ⓛocalhost/", "http://999.1.1.1/", "file:///etc/passwd"),
    *(
        "gopher://10.0.0.1/",
        "ftp://example.com/x",
        "//example.com/x",
        "x",
        "",
        "javascript:alert(1)",
    ),
    *("http://[bad/", "unix:///var/run/docker.sock", "dict://127.0.0.1:11211/"),
)
PUBLIC = (
    *("https://example.com/cat.png", "http://93.184.216.34/x", "https://[2606:4700::1111]/x"),
    *(
        "https://exämple.com/x",
        "https://example.com:8443/a?b=http://127.0.0.1",
        "gs://bucket/file.pdf",
    ),
    *("data:image/png;base64,aGk=", "https://generativelanguage.googleapis.com/v1beta/files/abc"),
)


@pytest.mark.parametrize("url", PRIVATE)
def test_private_addresses_are_refused_in_every_notation(url: str) -> None:
    """Programs read numbers, names and lookalikes alike."""
    assert private_address(url) is not None


@pytest.mark.parametrize("url", PUBLIC)
def test_public_addresses_are_not_refused(url: str) -> None:
    """Nor bytes, nor files at the provider."""
    assert private_address(url) is None


def test_allowed_hosts_may_be_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the variable names, and no others."""
    monkeypatch.setenv(ALLOWED_HOSTS, "images.internal, 10.0.0.8")
    assert private_address("http://images.internal/a.png") is None
    assert private_address("http://IMAGES.internal.:81/a.png") is None
    assert private_address("http://10.0.0.8/a.png") is None
    assert private_address("http://x.images.internal/a.png") is not None
    assert private_address("http://10.0.0.9/") is not None


@pytest.mark.parametrize("make", [openai, openai_responses, anthropic, gemini])
@pytest.mark.parametrize("kind", [ImageContent, FileContent])
def test_a_private_url_goes_to_no_provider_as_something_to_fetch(
    make: Any, kind: type[ImageContent | FileContent], caplog: pytest.LogCaptureFixture
) -> None:
    """The model reads that there was something, and the log says why it is missing."""
    model = make("m", api_key="k")
    secret, fine = "http://169.254.169.254/latest", "https://example.com/x.pdf"

    def body(url: str) -> str:
        part = kind(url=url, media_type="application/pdf")
        parts = [TextContent("Look"), part]
        request = ModelRequest(messages=(TextMessage("user", parts),))
        return str(model.adapter.encode(model, request))

    assert "169.254.169.254" in body(secret)
    for key in ("url", "image_url", "file_url", "fileUri"):
        assert f"'{key}': '{secret}'" not in body(secret)
    assert "a private address" in caplog.text
    caplog.clear()
    body(fine)
    assert not caplog.records


async def test_a_provider_cannot_redirect_a_request() -> None:
    """The key would go along."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(307, headers={"location": "http://169.254.169.254/"})

    model = openai("gpt-4o", api_key="k", retry=RetryPolicy(attempts=1))
    runtime = DirectRuntime(transport=httpx.MockTransport(answer))
    with pytest.raises(ModelError):
        await runtime.infer("s", model, dict)
    await runtime.aclose()
    assert len(asked) == 1
