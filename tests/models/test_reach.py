"""The table of reach in the guide to models: what each format sends of a user's content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import anthropic, gemini, openai
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
def test_the_guide_says_what_reaches_each_format(kind: str, root: Path) -> None:
    """Each row of the table is what the encoders do."""
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    cells = [reach(model, CONTENTS[kind]) for model in MODELS.values()]
    assert f"| {kind} | {' | '.join(cells)} |" in guide


def test_the_guide_says_what_search_results_are_for_each_format(root: Path) -> None:
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
def test_what_openai_would_keep_of_a_conversation_is_refused_with_the_way_out(
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


def test_the_guide_names_every_format(root: Path) -> None:
    """The table's head names the formats in the order of the cells."""
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    assert f"| Content | {' | '.join(MODELS)} |" in guide
