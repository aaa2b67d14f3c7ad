"""Bedrock and Vertex: requests are signed as the clouds' own SDKs sign them."""

from __future__ import annotations

import hashlib
import hmac
import importlib
import json
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from google.auth.credentials import Credentials as GoogleCredentials

from agentkit_py.errors import ConfigurationError
from agentkit_py.models import Model
from agentkit_py.models.base import copy_model
from agentkit_py.runtime.cloud import bedrock, vertex
from agentkit_py.testing import FakeProvider

AWSResponse: Any = importlib.import_module("botocore.awsrequest").AWSResponse
Credentials: Any = importlib.import_module("botocore.credentials").Credentials
Session: Any = importlib.import_module("botocore.session").Session

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
KEYS = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session-token")
REPLY = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}


def signature(url: str, headers: dict[str, str], content: bytes) -> str:
    """Return the signature (Version 4) of a request, from its own date and signed headers."""
    lower = {name.lower(): value for name, value in headers.items()}
    scope, names, _ = (p.partition("=")[2] for p in lower["authorization"].split(", "))
    _, day, region, service, _ = scope.split("/")
    lower.setdefault("host", urlsplit(url).netloc)
    canonical = "\n".join(
        [
            "POST",
            quote(urlsplit(url).path, safe="/-_.~"),
            "",
            *(f"{name}:{lower[name].strip()}" for name in names.split(";")),
            "",
            names,
            hashlib.sha256(content).hexdigest(),
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    where = "/".join(scope.split("/")[1:])
    said = "\n".join(["AWS4-HMAC-SHA256", lower["x-amz-date"], where, digest])
    key = f"AWS4{KEYS[1]}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


def of_the_sdk(body: bytes) -> Any:
    """Return the request that botocore's own client would send."""
    session = Session()
    options = dict(
        zip(("aws_access_key_id", "aws_secret_access_key", "aws_session_token"), KEYS, strict=True)
    )
    client = session.create_client("bedrock-runtime", region_name="eu-central-1", **options)
    seen: list[Any] = []

    class Raw:
        """An empty body."""

        def stream(self, *_: object, **__: object) -> list[bytes]:
            """Return no pieces."""
            return []

    def send(request: Any, **_: object) -> Any:
        seen.append(request)
        return AWSResponse(request.url, 200, {}, Raw())

    client.meta.events.register("before-send.bedrock-runtime.InvokeModel", send)
    client.invoke_model(modelId=MODEL, body=body, contentType="application/json")
    return seen[0]


async def ours(model: Model, reply: dict[str, Any]) -> httpx.Request:
    """Return the request that a model sends."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=reply)

    asked = copy_model(model, transport=httpx.MockTransport(answer))
    assert (await asked.respond("Hi", system="Be brief.")).text == "Hello."
    return seen[0]


async def test_bedrock_request_is_signed_as_botocore_signs() -> None:
    """URL, signed headers and signature are the SDK's; the body is what InvokeModel takes."""
    model = bedrock(MODEL, region="eu-central-1", credentials=Credentials(*KEYS))
    request = await ours(model, REPLY)
    sdk = of_the_sdk(request.content)
    theirs = {k: v.decode() if isinstance(v, bytes) else v for k, v in sdk.headers.items()}
    assert str(request.url) == sdk.url
    for url, headers in ((sdk.url, theirs), (str(request.url), dict(request.headers))):
        lower = {name.lower(): value for name, value in headers.items()}
        assert lower["authorization"].endswith(signature(url, headers, request.content)), headers
        assert "x-amz-security-token" in lower
    body = json.loads(request.content)
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert "model" not in body
    assert KEYS[1] not in repr(model)


class _Token(GoogleCredentials):
    """Credentials whose token is renewed once."""

    renewed = 0

    def refresh(self, request: Any) -> None:
        """Get a token."""
        self.renewed += 1
        self.token = f"ya29.{self.renewed}"


async def test_vertex_request_carries_the_sdks_token() -> None:
    """The token is got once and sent as google-auth sends it; the stand-in takes the rest."""
    credentials: Any = _Token()
    provider = FakeProvider(["Hello.", "Again."])
    made = vertex(
        "gemini-2.5-flash", project="acme-1", location="europe-west4", credentials=credentials
    )
    model = copy_model(made, transport=provider.transport)
    assert (await model.respond("Hi")).text == "Hello."
    assert (await model.respond("Hi")).text == "Again."
    theirs: dict[str, str] = {}
    credentials.before_request(None, "POST", "https://x", theirs)
    assert credentials.renewed == 1
    assert [r.headers["authorization"] for r in provider.requests] == [theirs["authorization"]] * 2
    assert "/projects/acme-1/locations/europe-west4/publishers/google/models/" in (
        provider.requests[0].path
    )
    assert provider.rejections == []


def test_wrong_places_are_refused() -> None:
    """They become parts of an address."""
    with pytest.raises(ConfigurationError, match="region"):
        bedrock(MODEL, region="eu/../x")
    with pytest.raises(ConfigurationError, match="project"):
        vertex("gemini-2.5-flash", project="a b")
