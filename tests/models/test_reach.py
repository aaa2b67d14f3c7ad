"""The table of reach in the guide to models: what each format sends of a user's content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, UserMessage, anthropic, gemini, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import Model, openai_responses
from agentkit_py.models.base import ModelRequest, ToolSpec
from agentkit_py.models.conversations import read_conversation
from agentkit_py.models.encoding import warn_of_stored
from agentkit_py.runtime.cloud import bedrock
from agentkit_py.testing import ScriptedModel, tool_call

DATA = "QUdFTlRLSVQ="
MODELS: dict[str, Model] = {
    "chat completions": openai("gpt-4.1", api_key="x"),
    "Responses": openai_responses("gpt-4.1", api_key="x"),
    "Anthropic": anthropic("claude-sonnet-4-5", api_key="x"),
    "Gemini": gemini("gemini-2.5-flash", api_key="x"),
}
CONTENTS: dict[str, ContentPart] = {
    "image": ImageContent(DATA, None, "image/png"),
    "PDF": FileContent(DATA, None, "application/pdf", "a.pdf"),
    "plain text": FileContent(DATA, None, "text/plain", "a.txt"),
    "sound": FileContent(DATA, None, "audio/wav", "a.wav"),
    "video": FileContent(DATA, None, "video/mp4", "a.mp4"),
    "document to cite": FileContent(DATA, None, "text/plain", "a.txt", citations=True),
}
OWNERS = dict(zip(MODELS, ("openai", "openai", "anthropic", "gemini"), strict=True))
"""The scheme of a format's stored files."""

GUIDE = "docs/guides/models.md"


def reach(model: Model, content: ContentPart) -> str:
    """How a content reaches a model: as itself, as its name, or without what it asks for."""
    message = TextMessage("user", (content,))
    sent = json.dumps(model.encode(ModelRequest(messages=(message,))))
    if DATA not in sent and "AGENTKIT" not in sent:
        return "as its name"
    if getattr(content, "citations", False) and '"citations"' not in sent:
        return "sent, not cited"
    return "sent"


@pytest.mark.parametrize("kind", CONTENTS)
def test_the_guide_lists_the_options_that_reach_each_format(kind: str, root: Path) -> None:
    """Each row of the table is what the encoders do."""
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    cells = [reach(model, CONTENTS[kind]) for model in MODELS.values()]
    assert f"| {kind} | {' | '.join(cells)} |" in guide


def test_the_guide_describes_search_results_in_each_format(root: Path) -> None:
    """Tools return them; elsewhere than at Claude their JSON is text."""
    found = {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [{"type": "text", "text": "AGENTKIT"}],
    }
    call = ToolCall("c1", "look_up", {})
    messages = (
        TextMessage("user", "?"),
        ToolCallMessage([call]),
        ToolResultMessage(call, {"data": found}),
    )
    request = ModelRequest(messages=messages, tools=(ToolSpec("look_up"),))
    bodies = [json.dumps(model.encode(request)) for model in MODELS.values()]
    assert all("AGENTKIT" in body for body in bodies)
    cells = ["sent" if json.dumps(found) in body else "as JSON" for body in bodies]
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    assert f"| search result to cite | {' | '.join(cells)} |" in guide


@pytest.mark.parametrize("format_name", ["chat completions", "Responses", "Anthropic"])
def test_a_stream_as_a_parameter_is_refused_with_the_way_to_get_it(format_name: str) -> None:
    """An answer in pieces is asked for by the run."""
    with pytest.raises(ConfigurationError, match=r"'stream'.*agent\.stream"):
        MODELS[format_name].with_parameters(stream=True)
    assert MODELS[format_name].with_parameters(stream=False)


@pytest.mark.parametrize(
    ("name", "value", "way"),
    [
        ("background", True, "durable run"),
        ("previous_response_id", "resp_1", "thread_id"),
        ("conversation", "conv_1", "thread_id"),
    ],
)
def test_conversations_that_openai_would_store_are_refused_with_advice(
    name: str, value: Any, way: str, root: Path
) -> None:
    """The guide names it, and so does the error."""
    with pytest.raises(ConfigurationError, match=f"'{name}'.*{way}"):
        openai_responses("gpt-4.1", api_key="x", default_parameters={name: value})
    assert f"`{name}`" in (root / "docs/guides/models.md").read_text(encoding="utf-8")


def test_a_stored_prompt_reaches_the_responses_api() -> None:
    """Parameters that only add to a request pass."""
    model = MODELS["Responses"].with_parameters(prompt={"id": "pmpt_1"})
    body = model.encode(ModelRequest(messages=(TextMessage("user", "?"),)))
    assert body["prompt"] == {"id": "pmpt_1"}


def sent(model: Model, content: ContentPart, *further: Any) -> Any:
    """The first part of a user's message, as it is sent."""
    request = ModelRequest(messages=(TextMessage("user", (content,)), *further))
    body = model.encode(request)
    turn = (body.get("messages") or body.get("input") or body["contents"])[0]
    return (turn.get("content") or turn["parts"])[0]


@pytest.mark.parametrize("kind", [FileContent, ImageContent])
def test_a_stored_file_reaches_its_own_provider_by_its_id(kind: Any, root: Path) -> None:
    """Chat completions take no images so; the guide says it."""
    parts = [sent(model, kind(url=f"{OWNERS[name]}:file-1_a")) for name, model in MODELS.items()]
    id_ = {"file_id": "file-1_a"}
    uri = "https://generativelanguage.googleapis.com/v1beta/files/file-1_a"
    stored = {"type": "file", **id_}
    if kind is FileContent:
        expected: list[Any] = [
            {"type": "file", "file": id_},
            {"type": "input_file", **id_},
            {"type": "document", "source": stored},
            {"fileData": {"mimeType": "application/pdf", "fileUri": uri}},
        ]
    else:
        expected = [
            {"type": "text", "text": "[image at openai:file-1_a]"},
            {"type": "input_image", **id_, "detail": "auto"},
            {"type": "image", "source": stored},
            {"fileData": {"mimeType": "image/jpeg", "fileUri": uri}},
        ]
    assert parts == expected
    cells = ["as its name" if part.get("type") == "text" else "sent" for part in parts]
    name = "file" if kind is FileContent else "image"
    assert f"| {name} by id | {' | '.join(cells)} |" in (root / GUIDE).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODELS)
def test_a_file_that_another_provider_stores_is_named(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No other provider can read it, and the log says so."""
    warn_of_stored.cache_clear()
    owner = "gemini" if OWNERS[name] != "gemini" else "anthropic"
    part = sent(MODELS[name], FileContent(url=f"{owner}:files/f1", name="a.pdf"))
    assert "[file a.pdf at" in json.dumps(part)
    assert f"{owner} stores" in caplog.text


def test_a_stored_file_without_an_id_is_named() -> None:
    """What follows the scheme must be an id, and never a path out of the files."""
    for url in ("openai:", "openai:../models", "gemini:files/a/../b", "gemini:a?key=b"):
        part = sent(MODELS["Gemini"], FileContent(url=url))
        assert "text" in part


async def test_claude_is_asked_for_its_beta_of_files() -> None:
    """Without the beta its API knows no files."""
    model = ScriptedModel("Read.", provider="anthropic")
    agent = Agent(name="a", system="s", model=model)
    await agent.run(UserMessage([FileContent(url="anthropic:file_1")]))
    _assert_asked_for_files(model)


async def test_claude_is_asked_for_its_beta_of_files_in_results() -> None:
    """A tool may return a stored file."""

    def look() -> Any:
        """Look it up."""
        return [FileContent(url="anthropic:file_1")]

    model = ScriptedModel(tool_call("look"), "Read.", provider="anthropic")
    await Agent(name="a", system="s", model=model, tools=[look]).run("?")
    _assert_asked_for_files(model)


def _assert_asked_for_files(model: ScriptedModel) -> None:
    request = model.requests[-1]
    assert '"file_id": "file_1"' in json.dumps(request.body)
    assert "files-api-2025-04-14" in request.headers["anthropic-beta"]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "Gemini"])
def test_a_stored_file_in_a_recorded_request_is_read_and_sent_again(name: str) -> None:
    """Also an image, where the format has images by id."""
    model = MODELS[name]
    kinds = (FileContent,) if name == "chat completions" else (FileContent, ImageContent)
    for kind in kinds:
        message = TextMessage("user", (kind(url=f"{OWNERS[name]}:file-1"),))
        body = model.encode(ModelRequest(messages=(message,)))
        form: Any = {"chat completions": "chat"}.get(name, name.lower())
        again = read_conversation(body, form=form, model=model)
        assert model.encode(ModelRequest(messages=again)) == body


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (openai, "service_tier"),
        (openai_responses, "service_tier"),
        (anthropic, "service_tier"),
    ],
)
def test_a_newer_service_tier_has_a_way_through_that_the_error_names(model: Any, name: str) -> None:
    """The types list those of today."""
    with pytest.raises(ConfigurationError, match=rf"'{name}'.*'turbo'.*default_parameters"):
        model("gpt-4.1", api_key="x", settings={name: "turbo"})
    passed = model("gpt-4.1", api_key="x", default_parameters={name: "turbo"})
    assert passed.encode(ModelRequest(messages=(TextMessage("user", "?"),)))[name] == "turbo"


def test_geminis_service_tier_is_any_text() -> None:
    """Google adds tiers often."""
    model = gemini("gemini-2.5-flash", api_key="x", settings={"serviceTier": "turbo"})
    body = model.encode(ModelRequest(messages=(TextMessage("user", "?"),)))
    assert body["serviceTier"] == "turbo"


@pytest.mark.parametrize(
    "name",
    [
        "amazon.nova-pro-v1:0",
        "us.meta.llama4-maverick-17b-instruct-v1:0",
        "mistral.mistral-large-2407-v1:0",
        "arn:aws:bedrock:us-east-1::foundation-model/cohere.command-r-v1:0",
    ],
)
def test_models_of_bedrocks_converse_are_refused_with_the_ways_to_them(name: str) -> None:
    """Only Claude's bodies are known."""
    with pytest.raises(ConfigurationError, match=rf"{name}.*Converse.*compatible.*function_model"):
        bedrock(name, region="us-east-1", api_key="x")


def test_a_profile_of_ones_own_at_bedrock_may_be_claude() -> None:
    """Its name does not say what it is."""
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    assert bedrock(arn, region="us-east-1", api_key="x").model == arn


def test_the_guide_names_every_format(root: Path) -> None:
    """The table's head names the formats in the order of the cells."""
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    assert f"| Content | {' | '.join(MODELS)} |" in guide
