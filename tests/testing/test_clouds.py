"""Claude in clouds: the stand-in refuses what Bedrock and Vertex refuse."""

from __future__ import annotations

import importlib
from typing import Any

import httpx
import pytest

from agentkit_py.testing import FakeProvider

EventStreamBuffer: Any = importlib.import_module("botocore.eventstream").EventStreamBuffer

VERTEX = (
    "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/"
    "models/claude-sonnet-4-5@20250929:"
)
BEDROCK = "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-opus-5-v1%3A0/"
WHERE = {
    "vertex": (f"{VERTEX}rawPredict", "vertex-2023-10-16"),
    "bedrock": (f"{BEDROCK}invoke", "bedrock-2023-05-31"),
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
BIG = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "A" * (5 * 2**20 + 4)},
}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


def ask(fake: FakeProvider, url: str, **body: Any) -> httpx.Response:
    """Send a request to a cloud."""
    hi = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    with httpx.Client(transport=fake.transport) as client:
        return client.post(url, json=hi | body, headers={"authorization": "Bearer token"})


@pytest.mark.parametrize("cloud", WHERE)
def test_a_cloud_takes_its_own_form(cloud: str) -> None:
    """Model in the URL, version in the body; a new version of the API, too."""
    url, version = WHERE[cloud]
    fake = FakeProvider(["One.", "Two."])
    for given in (version, "2026-10-21"):
        assert ask(fake, url, anthropic_version=given).status_code == 200, fake.rejections
    assert "claude-" in fake.requests[0].model
    assert "anthropic_version" in fake.requests[0].body


@pytest.mark.parametrize("cloud", WHERE)
@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"anthropic_version": "2023-06-01"}, "version_in_body"),
        ({"model": "claude"}, "key_of_the_url"),
        ({"messages": [{"role": "user", "content": [LINK]}]}, "linked_media"),
        ({"messages": [{"role": "user", "content": [BIG]}]}, "too_much_media"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": NOTHING}}},
            "format_in_cloud",
        ),
        ({"temperature": 3}, "sampling_range"),
    ],
)
def test_a_cloud_refuses_unsupported_requests(cloud: str, wrong: dict[str, Any], rule: str) -> None:
    """Fields that the URL has, addresses, schemas; and all that Anthropic's own API refuses."""
    url, version = WHERE[cloud]
    if rule == "sampling_range" and cloud == "bedrock":
        url = url.replace("claude-opus-5", "claude-opus-4-6")
    fake = FakeProvider(["never"])
    assert ask(fake, url, **{"anthropic_version": version, **wrong}).status_code == 400
    assert [found.rule for found in fake.rejections] == [f"anthropic.{rule}"]


def test_streams_are_those_of_each_cloud() -> None:
    """Vertex sends events as Anthropic does, Bedrock messages that botocore can read."""
    fake = FakeProvider(["Grüße.", "Grüße."])
    url, version = WHERE["vertex"]
    sent = ask(fake, url.replace(":raw", ":streamRaw"), anthropic_version=version, stream=True)
    assert sent.headers["content-type"] == "text/event-stream"
    url, version = WHERE["bedrock"]
    sent = ask(fake, f"{url}-with-response-stream", anthropic_version=version)
    assert sent.headers["content-type"] == "application/vnd.amazon.eventstream"
    buffer = EventStreamBuffer()
    buffer.add_data(sent.content)
    kinds = [message.headers[":event-type"] for message in buffer]
    assert len(kinds) > 5
    assert set(kinds) == {"chunk"}


def test_a_request_without_a_token_is_refused() -> None:
    """An Anthropic key is none here."""
    fake = FakeProvider(["never"])
    with httpx.Client(transport=fake.transport) as client:
        answer = client.post(WHERE["vertex"][0], json={}, headers={"x-api-key": "k"})
    assert answer.status_code == 401
