"""The fake provider refuses what the real ones refuse, and gives the scripted answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.testing.provider import (
    FakeProvider,
    ProviderName,
    Raw,
    ReceivedRequest,
    Reply,
    Rule,
    error,
    provider_rules,
    text,
    tool_call,
    tool_calls,
)

CORPUS = Path(__file__).parent / "provider_corpus"
KEY = "sk-right"
ALL: tuple[ProviderName, ...] = (
    "openai",
    "openai_responses",
    "azure_openai",
    "anthropic",
    "gemini",
    "grok",
    "compatible",
)
FILES: dict[str, tuple[ProviderName, ...]] = {
    "openai": ("openai", "azure_openai", "grok", "compatible"),
    "openai_responses": ("openai_responses",),
    "anthropic": ("anthropic",),
    "gemini": ("gemini",),
}
MODELS = {
    "openai": "gpt-4.1",
    "openai_responses": "gpt-4.1",
    "azure_openai": "gpt-4.1",
    "grok": "grok-4",
    "gemini": "gemini-2.5-pro",
}
HOSTS = {
    "openai_responses": "https://api.openai.com",
    "openai": "https://api.openai.com",
    "azure_openai": "https://acme.openai.azure.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "grok": "https://api.x.ai",
    "compatible": "https://openrouter.ai",
}


@dataclass(frozen=True)
class Example:
    """A request of the corpus, for one provider."""

    provider: ProviderName
    data: dict[str, Any]
    base: dict[str, Any]

    @property
    def rule_id(self) -> str:
        return f"{self.provider}.{self.data['rule']}"

    @property
    def model(self) -> str:
        return self.data.get("model") or MODELS.get(self.provider) or self.base["model"]

    @property
    def path(self) -> str:
        if self.provider in self.data.get("path", {}):
            return self.data["path"][self.provider]
        return path_of(self.provider, self.model)

    @property
    def content(self) -> str:
        if "raw" in self.data:
            return self.data["raw"]
        body = dict(self.base)
        if "model" in body:
            body["model"] = self.model
        if self.provider == "azure_openai":
            del body["model"]
        body |= self.data.get("with", {})
        for name in self.data.get("without", ()):
            body.pop(name, None)
        return json.dumps(body)

    def build(self) -> httpx.Request:
        key = self.data.get("key", KEY)
        in_query = self.data.get("key_in_query", False)
        query = dict(
            self.data.get("query", {"api-version": "1"} if self.provider == "azure_openai" else {})
        )
        if in_query:
            query["key"] = key
        headers = {} if in_query else key_header(self.provider, key)
        if self.provider == "anthropic":
            headers |= self.data.get("headers", {"anthropic-version": "2023-06-01"})
        url = self.data.get("host", HOSTS[self.provider]) + self.path
        return httpx.Request("POST", url, params=query, headers=headers, content=self.content)


def path_of(provider: ProviderName, model: str) -> str:
    """Return the real path of a provider's endpoint."""
    if provider == "azure_openai":
        return f"/openai/deployments/{model}/chat/completions"
    if provider == "gemini":
        return f"/v1beta/models/{model}:generateContent"
    if provider == "openai_responses":
        return "/v1/responses"
    return "/v1/messages" if provider == "anthropic" else "/v1/chat/completions"


def key_header(provider: ProviderName, key: str) -> dict[str, str]:
    """Return the header in which a provider takes its key."""
    names = {"anthropic": "x-api-key", "gemini": "x-goog-api-key", "azure_openai": "api-key"}
    if provider in names:
        return {names[provider]: key}
    return {"authorization": f"Bearer {key}"}


def corpus(kind: str) -> Iterator[Example]:
    """Yield the good or the bad requests of the corpus, for each provider that they are for."""
    for name, providers in FILES.items():
        document = json.loads((CORPUS / f"{name}.json").read_text())
        for data in document[kind]:
            for provider in data.get("providers", providers):
                applies = kind == "good" or any(
                    rule.name == data["rule"] and provider in rule.providers
                    for rule in provider_rules()
                )
                if applies:
                    yield Example(provider, data, document["base"])


def name_of(example: Example) -> str:
    """Return the test id of an example."""
    title = example.data.get("rule", "good") + "-" + example.data["says"]
    return f"{example.provider}-" + re.sub(r"\W+", "_", title)


def simple(provider: ProviderName, **extra: Any) -> Example:
    """Return the plainest request of a provider, with more top-level fields."""
    name = next(name for name, providers in FILES.items() if provider in providers)
    return Example(
        provider, {"with": extra}, json.loads((CORPUS / f"{name}.json").read_text())["base"]
    )


def send(provider: FakeProvider, request: httpx.Request) -> httpx.Response:
    """Send a request through the provider's transport."""
    with httpx.Client(transport=provider.transport) as client:
        return client.send(request)


# ------------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize("example", list(corpus("bad")), ids=name_of)
def test_a_bad_request_is_refused_for_exactly_its_rule(example: Example) -> None:
    """Every known-bad request is refused, by the rule that it is the example of."""
    keys = {example.provider: KEY}
    provider = FakeProvider(
        ["never"], api_keys=keys, extra_rules=example.data.get("extra_rules", ())
    )
    response = send(provider, example.build())
    assert [found.rule for found in provider.rejections] == [example.rule_id]
    rejection = provider.rejections[0]
    assert response.status_code == rejection.status
    assert rejection.message in response.json()["error"] or rejection.message == message_of(
        response
    )
    assert provider.requests[0].rejection == rejection
    assert provider.remaining == 1


def test_an_image_is_of_ten_megabytes_at_most() -> None:
    """As base64; clouds take half of it."""
    for letters, rules in ((10 * 2**20, []), (10 * 2**20 + 4, ["anthropic.too_much_media"])):
        source = {"type": "base64", "media_type": "image/png", "data": "A" * letters}
        said = [{"role": "user", "content": [{"type": "image", "source": source}]}]
        provider = FakeProvider(["Yes."], api_keys={"anthropic": KEY})
        send(provider, simple("anthropic", messages=said).build())
        assert [found.rule for found in provider.rejections] == rules


def test_ten_thousand_tools_are_taken_and_no_more() -> None:
    """Most of them are found by a search."""
    tools = [{"name": f"t{n}", "input_schema": {"type": "object"}} for n in range(10_001)]
    for count, rules in ((10_000, []), (10_001, ["anthropic.deferred_tools"])):
        provider = FakeProvider(["Yes."], api_keys={"anthropic": KEY})
        send(provider, simple("anthropic", tools=tools[:count]).build())
        assert [found.rule for found in provider.rejections] == rules


@pytest.mark.parametrize("example", list(corpus("good")), ids=name_of)
def test_a_good_request_is_answered(example: Example) -> None:
    """Every known-good request passes all rules."""
    provider = FakeProvider(["Yes."], api_keys={example.provider: KEY})
    response = send(provider, example.build())
    assert provider.rejections == []
    assert response.status_code == 200


# tests/testing/test_signing.py breaks them: their examples need an answer of the provider first.
SIGNED = {
    *("anthropic.damaged_signature", "anthropic.changed_prefix", "anthropic.thinking_lost"),
    "anthropic.changed_open_turn",
    *("anthropic.binding_without_beta", "gemini.foreign_thought_signature"),
    *("anthropic.compaction_of_others", "openai_responses.compaction_item_of_others"),
    *("openai_responses.foreign_encrypted_content", "openai_responses.reasoning_lost"),
    # tests/testing/test_compatible_hosts.py: each of another host.
    *("compatible.missing_reasoning_content", "compatible.unknown_reasoning_member"),
    *("compatible.short_call_id", "compatible.strict_turns"),
    *("compatible.text_parts_alone", "compatible.choice_while_thinking"),
    # tests/testing/test_clouds.py
    *("anthropic.version_in_body", "anthropic.key_of_the_url", "anthropic.linked_media"),
    "anthropic.format_in_cloud",
}


def test_every_rule_has_a_bad_example_for_each_of_its_providers() -> None:
    """A rule that nothing in the corpus breaks would be untested."""
    shown = {example.rule_id for example in corpus("bad")} | SIGNED
    untested = {rule_id for rule in provider_rules() for rule_id in rule.ids} - shown
    assert untested == set(), "add bad requests to provider_corpus, or tests and names above"


def test_every_bad_example_names_a_rule_that_exists() -> None:
    """An example of a rule that is gone would silently not run."""
    known = {rule_id for rule in provider_rules() for rule_id in rule.ids}
    for name, providers in FILES.items():
        for data in json.loads((CORPUS / f"{name}.json").read_text())["bad"]:
            assert any(
                f"{one}.{data['rule']}" in known for one in data.get("providers", providers)
            ), data


@pytest.mark.parametrize("rule", provider_rules(), ids=lambda rule: rule.ids[0])
def test_every_rule_has_a_text_and_a_source(rule: Rule) -> None:
    """A rule without a source is an opinion."""
    assert rule.says
    assert rule.source


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("openai", {"from_2027": True}),
        ("openai_responses", {"from_2027": True}),
        ("openai_responses", {"input": [{"type": "item_of_2027"}]}),
        ("openai_responses", {"tools": [{"type": "tool_of_2027"}]}),
        ("anthropic", {"from_2027": True}),
        ("anthropic", {"messages": [{"role": "user", "content": [{"type": "block_of_2027"}]}]}),
        ("gemini", {"from2027": True}),
    ],
)
def test_requests_that_the_fake_does_not_know_are_refused_in_its_own_words(
    name: ProviderName, extra: dict[str, Any]
) -> None:
    """A feature that came after the stand-in must not look like a provider's refusal of it."""
    provider = FakeProvider(["never"])
    response = send(provider, simple(name, **extra).build())
    assert response.status_code == 400
    assert message_of(response).startswith("FakeProvider does not know")
    assert provider.rejections[0].unknown


def test_rule_ids_are_unique() -> None:
    """An id names one rule."""
    ids = [rule_id for rule in provider_rules() for rule_id in rule.ids]
    assert len(ids) == len(set(ids))


def message_of(response: httpx.Response) -> str:
    """Return the error message of a response, wherever its provider puts it."""
    value: Any = response.json()["error"]
    return value if isinstance(value, str) else value["message"]


ERRORS: dict[str, dict[str, Any]] = {
    "openai_responses": {
        "error": {"message": "M", "type": "invalid_request_error", "param": None, "code": None}
    },
    "openai": {
        "error": {"message": "M", "type": "invalid_request_error", "param": None, "code": None}
    },
    "azure_openai": {
        "error": {"message": "M", "type": "invalid_request_error", "param": None, "code": None}
    },
    "compatible": {
        "error": {"message": "M", "type": "invalid_request_error", "param": None, "code": None}
    },
    "grok": {
        "code": "Client specified an invalid argument",
        "error": "Invalid request content: M",
    },
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "M"}},
    "gemini": {"error": {"code": 400, "message": "M", "status": "INVALID_ARGUMENT"}},
}


@pytest.mark.parametrize("name", ALL)
def test_errors_have_the_shape_of_their_provider(name: ProviderName) -> None:
    """The body of a 400 is what the provider's clients expect to parse."""
    provider = FakeProvider([error(400, "M")])
    assert send(provider, simple(name).build()).json() == ERRORS[name]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("status", [401, 404, 429, 418, 500, 503, 529, 599])
def test_any_status_can_be_scripted(name: ProviderName, status: int) -> None:
    """Failures keep their status, headers and message over the wire."""
    provider = FakeProvider([error(status, "M", headers={"retry-after": "2"})])
    response = send(provider, simple(name).build())
    assert (response.status_code, response.headers["retry-after"]) == (status, "2")
    assert message_of(response) == "M"


def test_without_strict_only_the_key_is_checked() -> None:
    """`strict=False` lets anything through that carries a key."""
    provider = FakeProvider(["Yes."], strict=False)
    assert send(provider, simple("openai", messages=[]).build()).status_code == 200
    assert provider.rejections == []
    keyless = Example("openai", {"key": ""}, {"model": "m"})
    assert send(provider, keyless.build()).status_code == 401


def test_an_unknown_optional_rule_is_an_error() -> None:
    """A typo in `extra_rules` must not silently switch nothing on."""
    with pytest.raises(ValueError, match="tool_blocks_without_tools"):
        FakeProvider(extra_rules=["anthropic.nope"])


JUNK: list[Any] = [
    *(None, True, -1, 1.5, "", "x"),
    *(
        [],
        {},
        [None],
        [[]],
        [{}],
        {"a": 1},
        {"type": []},
        {"type": {}},
        {"name": [], "type": "text"},
    ),
]


def spoilt(value: Any, junk: Iterator[Any]) -> Iterator[Any]:
    """Yield a JSON value in many versions: in each, one place in it holds something else."""
    yield next(junk)
    if isinstance(value, list | dict):
        items = cast("dict[Any, Any] | list[Any]", value)
        for key in list(items) if isinstance(items, dict) else range(len(items)):
            for inner in spoilt(items[key], junk):
                copy: Any = items.copy()
                copy[key] = inner
                yield copy


@pytest.mark.parametrize("name", ALL)
def test_no_request_however_odd_breaks_the_provider(name: ProviderName) -> None:
    """Every place of every good request filled with junk gives an answer, not an exception."""
    provider = FakeProvider(lambda _: "ok", extra_rules=["anthropic.tool_blocks_without_tools"])
    junk = itertools.cycle(JUNK)
    statuses: set[int] = set()
    for example in corpus("good"):
        if example.provider != name:
            continue
        request = example.build()
        del request.headers["content-length"]
        for body in spoilt(json.loads(example.content), junk):
            content = json.dumps(body)
            odd = httpx.Request("POST", request.url, headers=request.headers, content=content)
            statuses.add(provider.transport.handle_request(odd).status_code)
    assert {200, 400} <= statuses <= {200, 400, 404}


def test_validation_is_fast_enough_for_a_large_replay() -> None:
    """Requests of a hundred messages take a few milliseconds at most."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "Hello"},
    ]
    provider = FakeProvider(lambda _: "ok")
    request = simple("openai", messages=turn * 25)
    start = time.process_time()
    for _ in range(50):
        assert send(provider, request.build()).status_code == 200
    assert (time.process_time() - start) / 50 < 0.05


# ----------------------------------------------------------------------------------------- replies


def answer(reply: Reply, name: ProviderName, **extra: Any) -> dict[str, Any]:
    """Return the JSON with which a provider gives this reply."""
    return send(FakeProvider([reply]), simple(name, **extra).build()).json()


def test_openai_replies_look_like_the_real_ones() -> None:
    """Text, calls, finish reason and usage are where OpenAI puts them."""
    body = answer(tool_calls(("f", {"a": 1}), ("g", "{bad"), text="Well."), "openai")
    choice = body["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "Well."
    assert choice["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{bad"}},
    ]
    assert (
        body["usage"]["total_tokens"]
        == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]
    )
    assert body["model"] == "gpt-4.1"


def test_grok_replies_carry_their_reasoning() -> None:
    """Grok shows its reasoning, OpenAI's chat completions do not."""
    reply = {"text": "Yes.", "reasoning": "Because."}
    assert answer(reply, "grok")["choices"][0]["message"]["reasoning_content"] == "Because."
    assert "Because." not in json.dumps(answer(reply, "openai"))


def test_anthropic_replies_look_like_the_real_ones() -> None:
    """Thinking, text and calls are blocks, in this order."""
    reply: dict[str, Any] = {
        "text": "Well.",
        "reasoning": "Hm.",
        "tool_calls": [
            {"name": "f", "arguments": {"a": 1}, "id": "t9"},
            {"name": "g", "arguments": "{bad"},
        ],
        "usage": {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2},
    }
    body = answer(reply, "anthropic")
    assert [block["type"] for block in body["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert body["content"][2] == {"type": "tool_use", "id": "t9", "name": "f", "input": {"a": 1}}
    assert body["content"][3]["input"] == "{bad"
    assert body["stop_reason"] == "tool_use"
    assert (body["usage"]["input_tokens"], body["usage"]["output_tokens"]) == (7, 3)
    assert body["usage"]["cache_read_input_tokens"] == 2


def test_gemini_replies_look_like_the_real_ones() -> None:
    """Parts hold text and calls; malformed arguments have a finish reason of their own."""
    body = answer({"text": "Well.", "reasoning": "Hm.", "tool_calls": [{"name": "f"}]}, "gemini")
    assert body["candidates"][0]["content"] == {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"text": "Well."},
            {"functionCall": {"name": "f", "args": {}}},
        ],
    }
    assert body["candidates"][0]["finishReason"] == "STOP"
    broken = answer(tool_call("f", "[1]"), "gemini")["candidates"][0]
    assert broken == {"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL"}


def test_gemini_3_signs_the_first_call_and_wants_the_signature_back() -> None:
    """The fake Gemini 3's content can be sent back unchanged, signature included."""
    request: dict[str, Any] = {"model": "gemini-3-pro-preview"}
    provider = FakeProvider([tool_calls(("f", {}), ("g", {})), "Done."])
    base: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    content = send(provider, Example("gemini", request, base).build()).json()["candidates"][0][
        "content"
    ]
    assert [("thoughtSignature" in part) for part in content["parts"]] == [True, False]
    responses: list[dict[str, Any]] = [
        {"functionResponse": {"name": name, "response": {}}} for name in ("f", "g")
    ]
    base["contents"] += [content, {"role": "user", "parts": responses}]
    assert send(provider, Example("gemini", request, base).build()).status_code == 200


@pytest.mark.parametrize("name", ALL)
def test_usage_can_be_given_and_is_plausible_otherwise(name: ProviderName) -> None:
    """Token numbers are there for every provider."""
    where = {
        "anthropic": ("usage", "output_tokens"),
        "gemini": ("usageMetadata", "candidatesTokenCount"),
        "openai_responses": ("usage", "output_tokens"),
    }
    block, field = where.get(name, ("usage", "completion_tokens"))
    assert answer("three words here", name)[block][field] == 3
    assert answer(text("x", usage={"output_tokens": 40}), name)[block][field] == 40


@pytest.mark.parametrize("name", ALL)
def test_a_reply_can_end_at_the_token_limit(name: ProviderName) -> None:
    """`finish` says why the model stopped, in each provider's own word."""
    words = {
        "anthropic": "max_tokens",
        "gemini": "MAX_TOKENS",
        "openai_responses": "max_output_tokens",
    }
    assert words.get(name, '"length"') in json.dumps(
        answer({"text": "x", "finish": "length"}, name)
    )


@pytest.mark.parametrize("name", ALL)
def test_a_reply_can_be_a_refusal(name: ProviderName) -> None:
    """Formats with a place for refusals have it there; the others say so by how the reply ends."""
    words = {
        "anthropic": '"stop_reason": "refusal"',
        "gemini": "PROHIBITED_CONTENT",
        "openai_responses": '{"type": "refusal", "refusal": "No."}',
    }
    assert words.get(name, '"content": null, "refusal": "No."') in json.dumps(
        answer({"text": "No.", "finish": "refusal"}, name)
    )


def test_ids_are_the_same_in_every_run() -> None:
    """Two providers with one script answer byte for byte the same."""
    script: list[Reply] = [tool_call("f", {"a": 1}), "Done."]
    first, second = FakeProvider(script), FakeProvider(script)
    for _ in script:
        one, two = (send(provider, simple("openai").build()).text for provider in (first, second))
        assert one == two


def test_raw_replies_are_sent_as_they_are() -> None:
    """Raw JSON, raw text, status, headers and media type reach the client unchanged."""
    provider = FakeProvider([Raw(json={"choices": []}), Raw(json=None)])
    assert send(provider, simple("openai").build()).json() == {"choices": []}
    assert send(provider, simple("openai").build()).json() is None
    page = Raw(text="<html>", status=502, headers={"x-a": "b"}, content_type="text/html")
    provider.reply(page)
    response = send(provider, simple("openai").build())
    assert (response.status_code, response.text, response.headers["x-a"]) == (502, "<html>", "b")
    assert response.headers["content-type"] == "text/html"


@pytest.mark.parametrize(
    ("reply", "said"),
    [({"content": "x"}, "unknown keys"), ({"text": "x", "finish": "done"}, "finish")],
)
def test_a_mistake_in_the_script_is_an_error(reply: Reply, said: str) -> None:
    """A misspelt reply does not turn into an empty one."""
    with pytest.raises(ValueError, match=said):
        answer(reply, "openai")


def test_a_single_reply_needs_a_list() -> None:
    """A text is iterable, and would be a script of letters."""
    with pytest.raises(TypeError, match="list"):
        FakeProvider("Hello")


def test_an_exhausted_script_is_a_clear_500() -> None:
    """A request too many is answered and recorded, and differs from a refusal."""
    provider = FakeProvider()
    response = send(provider, simple("anthropic").build())
    assert response.status_code == 500
    assert "script is exhausted" in response.json()["error"]["message"]
    assert provider.exhausted
    assert provider.requests[0].exhausted
    assert provider.rejections == []


def test_replies_can_be_computed() -> None:
    """A callable sees each accepted request; queued replies go first."""
    seen: list[ReceivedRequest] = []

    def reply(request: ReceivedRequest) -> str:
        seen.append(request)
        return f"You are {request.provider}."

    provider = FakeProvider(reply)
    provider.reply("first")
    answers = [send(provider, simple(name).build()).text for name in ("openai", "openai", "gemini")]
    assert ["first" in answers[0], "You are openai." in answers[1], "You are gemini." in answers[2]]
    assert [request.provider for request in seen] == ["openai", "gemini"]
    assert [request.provider for request in provider.requests] == ["openai", "openai", "gemini"]


# -------------------------------------------------------------------------------- ways to reach it


@pytest.mark.parametrize("name", ALL)
async def test_base_urls_work_over_loopback(name: ProviderName) -> None:
    """Each provider has its own base URL on one server, with connections kept alive."""
    example = simple(name)
    tail = {
        "azure_openai": "/openai/deployments/gpt-4.1/chat/completions?api-version=1",
        "anthropic": "/messages",
        "gemini": "/models/gemini-2.5-pro:generateContent",
        "openai_responses": "/responses",
    }.get(name, "/chat/completions")
    async with FakeProvider(["one", "two"]) as provider, httpx.AsyncClient() as client:
        for word in ("one", "two"):
            response = await client.post(
                provider.base_url(name) + tail,
                headers={**key_header(name, KEY), "anthropic-version": "1"},
                content=example.content,
            )
            assert word in response.text
        assert [request.provider for request in provider.requests] == [name, name]


@pytest.mark.parametrize("name", [name for name in ALL if name != "grok"])
def test_unprefixed_paths_work_too(name: ProviderName) -> None:
    """On an unknown host, paths lead to their provider, chat completions to OpenAI."""
    provider = FakeProvider(["Yes."])
    request = simple(name).build()
    with provider, httpx.Client() as client:
        url = httpx.URL(provider.url).copy_with(raw_path=request.url.raw_path)
        response = client.post(url, headers=request.headers, content=request.content)
    assert response.status_code == 200, response.text
    assert provider.requests[0].provider == name


@pytest.mark.parametrize(
    ("url", "owner"),
    [
        ("https://api.x.ai/v2/nope", "grok"),
        ("http://h/grok/v1/nope", "grok"),
        ("http://h/azure/nope", "azure_openai"),
        ("http://h/v1beta/nope", "gemini"),
        ("http://h/nope", "openai"),
        ("https://api.openai.com/v1/messages", "openai"),
    ],
)
def test_unknown_paths_are_not_found(url: str, owner: str) -> None:
    """A wrong URL gets a 404 in the shape of whoever it seems meant for."""
    provider = FakeProvider()
    with httpx.Client(transport=provider.transport) as client:
        assert client.post(url, json={}).status_code == 404
    assert provider.rejections[0].rule == f"{owner}.not_found"


def test_other_methods_are_refused() -> None:
    """The endpoints take POST only."""
    provider = FakeProvider()
    with httpx.Client(transport=provider.transport) as client:
        assert client.get("https://api.openai.com/v1/chat/completions").status_code == 405


def test_requests_are_recorded_with_lower_case_headers() -> None:
    """The record shows what was sent, and keeps the key out of its repr."""
    provider = FakeProvider(["x"])
    with httpx.Client(transport=provider.transport) as client:
        client.post(
            "https://api.openai.com/v1/chat/completions?a=b",
            headers={"Authorization": "Bearer sk-secret"},
            json={"model": "gpt-4.1", "messages": [{"role": "user", "content": "Hi"}]},
        )
    seen = provider.requests[0]
    assert (seen.method, seen.path, seen.query) == ("POST", "/v1/chat/completions", {"a": "b"})
    assert seen.headers["authorization"] == "Bearer sk-secret"
    assert seen.body["messages"][0]["content"] == "Hi"
    assert seen.model == "gpt-4.1"
    assert "sk-secret" not in repr(seen)


def test_base_urls_need_no_server_for_a_transport() -> None:
    """The transport accepts any host, even one that does not exist."""
    provider = FakeProvider(["x"])
    assert provider.base_url("azure") == provider.base_url("azure_openai")
    with httpx.Client(transport=provider.transport, headers=key_header("grok", KEY)) as client:
        url = provider.base_url("grok") + "/chat/completions"
        client.post(url, json={"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    assert provider.requests[0].provider == "grok"
    with pytest.raises(ValueError, match="mistral"):
        provider.base_url("mistral")


async def test_the_transport_works_for_async_clients() -> None:
    """Async replies-callables are awaited."""

    async def reply(request: ReceivedRequest) -> Reply:
        await asyncio.sleep(0)
        return request.model

    provider = FakeProvider(reply)
    async with httpx.AsyncClient(transport=provider.transport) as client:
        assert "gpt-4.1" in (await client.send(simple("openai").build())).text


def test_a_waiting_callable_needs_an_async_client() -> None:
    """A sync client cannot wait for a coroutine without a loop, and says so."""

    async def reply(_: ReceivedRequest) -> Reply:
        await asyncio.sleep(0)
        return "never"

    with pytest.raises(RuntimeError, match="AsyncClient"):
        send(FakeProvider(reply), simple("openai").build())


async def test_a_delay_is_waited_for_and_can_time_out() -> None:
    """The transport keeps the client's read time-out, as httpx leaves that to transports."""
    provider = FakeProvider([Raw(delay=0.001, reply="slow"), Raw(delay=60)])
    async with httpx.AsyncClient(transport=provider.transport, timeout=0.01) as client:
        assert "slow" in (await client.send(simple("openai").build())).text
        with pytest.raises(httpx.ReadTimeout):
            await client.send(client.build_request("POST", **parts_of("openai")))


def test_a_delay_times_out_for_sync_clients_too() -> None:
    """`httpx.Client` times out, too."""
    provider = FakeProvider([Raw(delay=0.001, reply="slow"), Raw(delay=60)])
    with httpx.Client(transport=provider.transport, timeout=0.01) as client:
        assert "slow" in client.send(client.build_request("POST", **parts_of("openai"))).text
        with pytest.raises(httpx.ReadTimeout):
            client.send(client.build_request("POST", **parts_of("openai")))


def parts_of(name: ProviderName) -> dict[str, Any]:
    """Return a plain request as arguments of httpx, which adds the client's time-outs."""
    request = simple(name).build()
    return {"url": request.url, "headers": request.headers, "content": request.content}


async def test_a_delay_can_be_cancelled() -> None:
    """A cancelled request does not wait for its answer."""
    asked = asyncio.Event()

    def reply(_: ReceivedRequest) -> Reply:
        asked.set()
        return Raw(delay=60)

    provider = FakeProvider(reply)
    async with httpx.AsyncClient(transport=provider.transport) as client:
        task = asyncio.create_task(client.send(simple("openai").build()))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_disconnect_is_a_transport_error() -> None:
    """The connection breaks with either transport, and the server continues."""
    provider = FakeProvider([Raw(disconnect=True), Raw(disconnect=True), "Still here."])
    with pytest.raises(httpx.RemoteProtocolError):
        send(provider, simple("openai").build())
    with provider, httpx.Client() as client:
        url = provider.base_url("openai") + "/chat/completions"
        arguments: dict[str, Any] = {**parts_of("openai"), "url": url}
        arguments["headers"] = key_header("openai", KEY)
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(**arguments)
        assert "Still here." in client.post(**arguments).text


def test_the_server_times_out_and_stops_while_a_reply_waits() -> None:
    """Stopping does not wait for a reply that takes a minute."""
    before = set(threading.enumerate())  # another test's provider may live as long as the session
    asked = threading.Event()

    def reply(_: ReceivedRequest) -> Reply:
        asked.set()
        return Raw(delay=60)

    limits = httpx.Timeout(None, read=0.05)  # a connection takes its time on a loaded machine
    with FakeProvider(reply) as provider, httpx.Client(timeout=limits) as client:
        arguments: dict[str, Any] = {
            **parts_of("openai"),
            "url": provider.base_url("openai") + "/chat/completions",
        }
        arguments["headers"] = key_header("openai", KEY)
        with pytest.raises(httpx.ReadTimeout):
            client.post(**arguments)
        asked.wait()
    assert len(provider.requests) == 1
    begun = set(threading.enumerate()) - before
    assert not [thread for thread in begun if thread.name == "fake-provider"]


def test_a_failing_script_is_a_500_that_says_so() -> None:
    """An exception in a replies-callable does not look like a lost connection."""

    def reply(_: ReceivedRequest) -> Reply:
        raise KeyError("turn 3")

    with FakeProvider(reply) as provider, httpx.Client() as client:
        url = provider.base_url("openai") + "/chat/completions"
        content = simple("openai").content
        response = client.post(url, headers=key_header("openai", KEY), content=content)
    assert response.status_code == 500
    assert "KeyError: 'turn 3'" in response.text


def test_chunked_bodies_are_accepted() -> None:
    """A body of unknown length is read to its end."""
    content = simple("openai").content.encode()
    with FakeProvider(["Yes."]) as provider, httpx.Client() as client:
        response = client.post(
            provider.base_url("openai") + "/chat/completions",
            headers=key_header("openai", KEY),
            content=iter([content[:5], content[5:]]),
        )
    assert response.status_code == 200


def test_starting_and_stopping_twice_is_harmless() -> None:
    """`with` around a started provider, and stop after stop, do nothing more."""
    provider = FakeProvider().start()
    assert provider.start() is provider
    port = provider.url
    provider.stop()
    provider.stop()
    assert provider.url != port


def talk(provider: FakeProvider, *pieces: bytes) -> bytes:
    """Send raw bytes to the server and return what comes back until it hangs up."""
    port = int(provider.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while data := connection.recv(65536):
            received += data
    return received


@pytest.mark.parametrize(
    "junk",
    [b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nbroken\r\n\r\n", b"half a reque"],
    ids=["no-request-line", "no-header", "cut-off"],
)
def test_bytes_that_are_no_http_get_a_400(junk: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """Junk is answered and forgotten, without noise on stderr."""
    with FakeProvider() as provider:
        assert talk(provider, junk).startswith(b"HTTP/1.1 400 ")
        assert talk(provider, b"") == b""
    assert provider.requests == []
    assert capfd.readouterr().err == ""


def test_a_client_that_hangs_up_in_the_body_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    """A truncated body is no request."""
    with FakeProvider() as provider:
        head = b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
        assert talk(provider, head, b"{") == b""
    assert provider.requests == []
    assert capfd.readouterr().err == ""


def test_the_server_speaks_the_finer_points_of_http() -> None:
    """`Expect: 100-continue`, chunk extensions, trailers and `Connection: close` work."""
    content = simple("openai").content.encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
        b"Connection: close\r\nAuthorization: Bearer k\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = f"{len(content):x};ext=1\r\n".encode() + content + b"\r\n"
    with FakeProvider([error(529, "Overloaded")]) as provider:
        received = talk(provider, head, chunk, b"0\r\nX-Trailer: 1\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 529 Overloaded\r\n")
    assert b"connection: close" in received.lower()


def test_many_clients_can_ask_at_once() -> None:
    """Every request of several threads is answered and recorded."""
    with FakeProvider(lambda request: request.body["messages"][0]["content"]) as provider:
        failures: list[str] = []

        def ask(number: int) -> None:
            words = f"I am {number}."
            body = simple("openai", messages=[{"role": "user", "content": words}]).content
            with httpx.Client(headers=key_header("openai", KEY)) as client:
                for _ in range(5):
                    url = provider.base_url("openai") + "/chat/completions"
                    reply = cast("dict[str, Any]", client.post(url, content=body).json())
                    if reply["choices"][0]["message"]["content"] != words:
                        failures.append(words)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(provider.requests) == 40


def test_tool_calls_takes_replies_of_tool_call() -> None:
    """Both have the same calls."""
    pairs = tool_calls(("a", {"x": 1}), ("b", "{}"), text="Look:")
    assert tool_calls(tool_call("a", {"x": 1}), ("b", "{}"), text="Look:") == pairs
    assert tool_calls(tool_call("a", id="c1"))["tool_calls"][0]["id"] == "c1"


@pytest.mark.parametrize("given", ["a", ("a",), ("a", {}, 1), {"text": "x"}, None])
def test_tool_calls_refuses_wrong_arguments_with_advice(given: Any) -> None:
    """An unpacking error says nothing of calls."""
    with pytest.raises(ConfigurationError, match=r"tool_calls\(…\) takes"):
        tool_calls(given)
