"""Bedrock and Vertex: requests and signatures are those of the clouds' own SDKs."""

from __future__ import annotations

import hashlib
import hmac
import importlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx
import pytest
from google.auth.credentials import Credentials as GoogleCredentials

from agentkit_py import Agent, State, tool
from agentkit_py.errors import (
    BadRequestError,
    ConfigurationError,
    ModelResponseError,
    ModelStreamError,
    ProviderUnavailableError,
    RateLimitError,
)
from agentkit_py.events import ReplyDelta
from agentkit_py.messages import ImageContent, TextDelta, TextMessage
from agentkit_py.models import Model, RetryPolicy
from agentkit_py.models.base import copy_model
from agentkit_py.runtime.cloud import bedrock, vertex
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, tool_call
from agentkit_py.testing._provider.hosts import event_message, framed

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


def of_the_sdk(body: bytes, *, stream: bool) -> Any:
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

    client.meta.events.register("before-send.bedrock-runtime", send)
    call = client.invoke_model_with_response_stream if stream else client.invoke_model
    call(modelId=MODEL, body=body, contentType="application/json", accept="application/json")
    return seen[0]


async def run(agent: Agent, said: str, *, stream: bool, **options: Any) -> tuple[Any, str]:
    """Run an agent; return its result, and the text that was streamed."""
    if not stream:
        return await agent.run(said, **options), ""
    async with agent.stream(said, **options) as streamed:
        deltas = [event.delta async for event in streamed if isinstance(event, ReplyDelta)]
    texts = [delta.delta for delta in deltas if isinstance(delta, TextDelta)]
    return streamed.result, "".join(texts)


async def ours(model: Model, *, stream: bool = False) -> httpx.Request:
    """Return the request that a model sends."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=REPLY)

    asked = copy_model(model, transport=httpx.MockTransport(answer), prompt_cache=False)
    result, _ = await run(Agent(name="a", system="Be brief.", model=asked), "Hi", stream=stream)
    assert result.text == "Hello."
    return seen[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_bedrock_request_is_signed_as_botocore_signs(stream: bool) -> None:
    """URL, signed headers and signature are the SDK's; the body is what InvokeModel takes."""
    model = bedrock(MODEL, region="eu-central-1", credentials=Credentials(*KEYS))
    request = await ours(model, stream=stream)
    sdk = of_the_sdk(request.content, stream=stream)
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


def in_blocks(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with its texts as blocks, which Claude takes for the same."""

    def block(text: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": text}]

    turns = [{**turn, "content": block(turn["content"])} for turn in body["messages"]]
    return {**body, "system": block(body["system"]), "messages": turns}


RECORDED: Any = json.loads((Path(__file__).parent / "data/clouds.json").read_text())
BETAS = ["one-2026-01-01", "two-2026-01-01"]


@pytest.mark.parametrize(
    "recorded",
    RECORDED["requests"],
    ids=lambda one: f"{one['cloud']}-{one['where']}-{'stream' if one['stream'] else 'whole'}",
)
async def test_request_is_the_one_that_anthropics_own_sdk_sent(recorded: dict[str, Any]) -> None:
    """Address, key and body: Claude on Vertex with a token, on Bedrock with an API key."""
    if recorded["cloud"] == "vertex":
        model = vertex(
            "claude-sonnet-4-5@20250929",
            project="acme-1",
            location=recorded["where"],
            credentials=_Token(),
            beta_headers=BETAS,
        )
    else:
        key = "bedrock-api-key-1"
        model = bedrock(MODEL, region=recorded["where"], api_key=key, beta_headers=BETAS)
        assert key not in repr(model)
    request = await ours(model, stream=recorded["stream"])
    assert unquote(str(request.url)) == recorded["url"]
    body = {name: value for name, value in recorded["body"].items() if value is not False}
    assert json.loads(request.content) == in_blocks(body)
    theirs = recorded["headers"]
    if recorded["cloud"] == "bedrock":
        theirs.pop("anthropic-beta")  # which it puts into the body, too
    elif recorded["stream"]:
        theirs["accept"] = "text/event-stream"  # as it asks Anthropic itself
    else:
        theirs.pop("accept")
    assert {name: request.headers[name] for name in theirs} == theirs


async def test_bedrocks_key_of_the_environment_comes_before_signing() -> None:
    """As in botocore; credentials of one's own in the code come before it."""
    provider = FakeProvider(["Hello.", "Hello."])
    key = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key-2"}
    runtime = DirectRuntime(transport=provider.transport, environment=key)
    for credentials in (None, Credentials(*KEYS)):
        model = bedrock("anthropic.claude-opus-5", region="us-east-1", credentials=credentials)
        await Agent(name="a", system="", model=model).run("Hi", runtime=runtime)
    sent = [request.headers["authorization"] for request in provider.requests]
    assert sent[0] == "Bearer bedrock-api-key-2"
    assert sent[1].startswith("AWS4-HMAC-SHA256 ")
    with pytest.raises(ConfigurationError, match="or a profile"):
        bedrock(MODEL, region="eu-central-1", profile="p", api_key="bedrock-api-key-2")
    with pytest.raises(ConfigurationError, match="credentials"):
        vertex("claude-opus-5", project="p", api_key="AIza-no")


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is under way"


def claude(cloud: str, **options: Any) -> Model:
    """Return Claude in a cloud."""
    if cloud == "vertex":
        return vertex("claude-opus-4-6", project="p", credentials=_Token(), **options)
    return bedrock("anthropic.claude-opus-4-6-v1", region="us-east-1", api_key="key-123", **options)


@pytest.mark.parametrize("cloud", ["vertex", "bedrock"])
@pytest.mark.parametrize("stream", [False, True])
async def test_claude_in_a_cloud_calls_tools_and_streams(cloud: str, stream: bool) -> None:
    """Thinking, a call and an image's address in a run whose requests the stand-in takes."""
    provider = FakeProvider(
        [{"reasoning": "Hm.", **tool_call("look_up", {"order": "7"})}, "Bestellung 7: läuft."]
    )
    runtime = DirectRuntime(transport=provider.transport)
    thinks: Any = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    agent = Agent(name="a", system="", tools=[look_up], model=claude(cloud, settings=thinks))
    picture = ImageContent(url="https://example.com/a.png")
    state: Any = State(messages=[TextMessage("user", [picture])])
    result, said = await run(agent, "Wo ist 7?", stream=stream, runtime=runtime, state=state)
    assert result.text == "Bestellung 7: läuft."
    assert provider.rejections == []
    assert "example.com/a.png" in str(provider.requests[0].body)  # in words
    assert said == (result.text if stream else "")


def exception(kind: str, message: str) -> bytes:
    """Return an exception as Bedrock puts it into a stream."""
    headers = {":exception-type": kind, ":message-type": "exception"}
    return framed(headers, {"message": message})


START = event_message({"type": "message_start", "message": REPLY | {"content": []}})
BLOCK = event_message(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hel"}}
)


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (exception("throttlingException", "Slow down."), RateLimitError, "Slow down"),
        (exception("validationException", "No."), BadRequestError, "HTTP 400: No"),
        (exception("modelTimeoutException", "Late."), ProviderUnavailableError, "Late"),
        (exception("modelStreamErrorException", "Eh."), ProviderUnavailableError, "Eh"),
        (exception("newException", "What?"), ModelResponseError, "What"),
        (framed({":error-code": "E7", ":message-type": "error"}, {}), ModelResponseError, "E7"),
        (START + BLOCK, ModelStreamError, "ended before"),
        (START + BLOCK + exception("throttlingException", "Slow."), ModelStreamError, "Slow"),
        (START[:-1] + b"x", ModelResponseError, "not an event stream"),
        (b"data: {}\n\n" * 9, ModelResponseError, "not an event stream"),
        (framed({":message-type": "event"}, {"bytes": "e30"}), ModelResponseError, "no JSON"),
        (framed({":message-type": "event"}, {"bytes": "/w=="}), ModelResponseError, "no JSON"),
    ],
    ids=range(12),
)
async def test_bedrocks_stream_that_fails_is_a_typed_error(
    content: bytes, error: type[Exception], words: str
) -> None:
    """Exceptions have the status that AWS gives them; what is not an event stream is said."""

    def answer(request: httpx.Request) -> httpx.Response:
        kind = {"content-type": "application/vnd.amazon.eventstream"}
        return httpx.Response(200, headers=kind, content=content)

    model = claude("bedrock", retry=RetryPolicy(attempts=1))
    model = copy_model(model, transport=httpx.MockTransport(answer))
    with pytest.raises(error, match=words):
        await run(Agent(name="a", system="", model=model), "Hi", stream=True)


@pytest.mark.parametrize(
    ("status", "error"), [(408, ProviderUnavailableError), (424, ProviderUnavailableError)]
)
async def test_a_request_that_bedrock_did_not_finish_may_be_tried_again(
    status: int, error: type[Exception]
) -> None:
    """ModelTimeoutException and ModelErrorException say nothing against the request."""
    answers = [httpx.Response(status, json={"message": "Late."}), httpx.Response(200, json=REPLY)]
    transport = httpx.MockTransport(lambda _: answers.pop(0))
    model = copy_model(claude("bedrock", retry=RetryPolicy(min_wait=0.001)), transport=transport)
    assert (await model.respond("Hi")).text == "Hello."
    answers = [httpx.Response(status, json={"message": "Late."})]
    with pytest.raises(error, match="Late"):
        await copy_model(model, retry=RetryPolicy(attempts=1)).respond("Hi")


def test_wrong_regions_are_refused() -> None:
    """They become parts of an address."""
    with pytest.raises(ConfigurationError, match="region"):
        bedrock(MODEL, region="eu/../x")
    with pytest.raises(ConfigurationError, match="project"):
        vertex("gemini-2.5-flash", project="a b")
    with pytest.raises(ConfigurationError, match="for Claude"):
        vertex("gemini-2.5-flash", project="p", beta_headers=["b"])
    with pytest.raises(ConfigurationError, match="AnthropicSettings has no such setting"):
        vertex("claude-opus-5", project="p", settings={"generationConfig": {}})
