"""Images and files in each provider's form."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import UserMessage
from agentkit_py.agent import Agent
from agentkit_py.messages import ContentPart, FileContent, ImageContent, TextContent, TextMessage
from agentkit_py.models import (
    Model,
    ModelRequest,
    anthropic,
    azure_openai,
    compatible,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.models.encoding import warn_of_text_alone
from agentkit_py.testing import ScriptedModel

PNG = ImageContent("AA==", media_type="image/png", detail="low")
LINK = ImageContent(url="https://example.com/a.png")
JPG = ImageContent("AA==", media_type="image/JPG")
GIF = ImageContent("AA==", media_type="image/gif")
ZIP = FileContent("AA==", media_type="application/zip", name="a.zip")
SVG = ImageContent("AA==", media_type="image/svg+xml")
PDF = FileContent("AA==", media_type="application/pdf", name="a.pdf")
FILE_LINK = FileContent(url="https://example.com/a.pdf")
WORD = FileContent("AA==", media_type="application/msword")
MODELS: dict[str, Model] = {
    "openai": openai("gpt-4.1", api_key="k"),
    "azure": azure_openai("gpt-4o", endpoint="https://r.openai.azure.com", api_key="k"),
    "responses": openai_responses("gpt-4.1", api_key="k"),
    "grok": grok("grok-4", api_key="k"),
    "anthropic": anthropic("claude-sonnet-4-5", api_key="k"),
    "gemini": gemini("gemini-2.5-flash", api_key="k"),
}
PNG_URL = "data:image/png;base64,AA=="
CHAT_PNG = {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}
CHAT_LINK = {"type": "image_url", "image_url": {"url": LINK.url}}
CHAT_PDF = {
    "type": "file",
    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
}


def block(kind: str, **fields: str | None) -> dict[str, Any]:
    """A block of Anthropic's."""
    return {"type": kind, "source": fields}


def file(media_type: str, uri: str | None) -> dict[str, Any]:
    """A part of Gemini's."""
    return {"fileData": {"mimeType": media_type, "fileUri": uri}}


def words(text: str) -> dict[str, str]:
    """A text part."""
    return {"type": "text", "text": text}


def sent(name: str, *parts: ContentPart) -> list[Any]:
    """The parts of the user's message in a request."""
    message = TextMessage("user", (TextContent("see"), *parts, TextContent(" ")))
    body = MODELS[name].encode(ModelRequest(messages=(message,)))
    if name == "gemini":
        return body["contents"][0]["parts"]
    return (body["input"] if name == "responses" else body["messages"])[0]["content"]


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        ("openai", PNG, CHAT_PNG),
        ("openai", LINK, CHAT_LINK),
        ("openai", PDF, CHAT_PDF),
        ("openai", FILE_LINK, words("[file at https://example.com/a.pdf]")),
        ("openai", SVG, words("[image]")),
        ("openai", JPG, {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AA=="}}),
        ("openai", WORD, words("[file]")),
        ("azure", PNG, CHAT_PNG),
        ("azure", PDF, CHAT_PDF),
        ("grok", PNG, CHAT_PNG),
        ("grok", LINK, CHAT_LINK),
        ("grok", GIF, words("[image]")),
        ("grok", PDF, words("[file a.pdf]")),
        ("anthropic", PNG, block("image", type="base64", media_type="image/png", data="AA==")),
        ("anthropic", LINK, block("image", type="url", url=LINK.url)),
        ("anthropic", SVG, words("[image]")),
        (
            "anthropic",
            PDF,
            block("document", type="base64", media_type="application/pdf", data="AA=="),
        ),
        (
            "anthropic",
            FILE_LINK,
            block("document", type="url", url=FILE_LINK.url),
        ),
        ("anthropic", WORD, words("[file]")),
        ("gemini", PNG, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        ("gemini", SVG, {"text": "[image]"}),
        ("gemini", WORD, {"text": "[file]"}),
        ("gemini", LINK, file("image/jpeg", LINK.url)),
        ("gemini", PDF, {"inlineData": {"mimeType": "application/pdf", "data": "AA=="}}),
        (
            "gemini",
            FILE_LINK,
            file("application/pdf", FILE_LINK.url),
        ),
    ],
)
def test_images_and_files_have_each_providers_form(name: str, part: Any, expected: Any) -> None:
    """A provider without a form gets a text; empty texts are dropped."""
    text, made = sent(name, part)
    assert text["text"] == "see"
    assert made == expected


def test_openais_responses_have_forms_of_their_own() -> None:
    """Files may be links and office documents there."""
    _, image, file, link, word = sent("responses", PNG, PDF, FILE_LINK, WORD)
    assert word["file_data"] == "data:application/msword;base64,AA=="
    assert [part["text"] for part in sent("responses", SVG, ZIP)[1:]] == ["[image]", "[file a.zip]"]
    assert (image["type"], image["image_url"]) == ("input_image", PNG_URL)
    assert (file["type"], file["filename"]) == ("input_file", "a.pdf")
    assert link["file_url"] == FILE_LINK.url


@pytest.mark.parametrize("name", MODELS)
def test_media_of_assistants_are_described_in_words(name: str) -> None:
    """Providers accept images and files of users only."""
    shown = (TextContent("see"), PDF)
    messages = (
        TextMessage("system", shown),
        TextMessage("user", "hi"),
        TextMessage("assistant", shown),
        TextMessage("user", "well?"),
    )
    body = MODELS[name].encode(ModelRequest(messages=messages))
    assert str(body).count("[file a.pdf]") == 2
    assert "AA==" not in str(body)


@pytest.mark.parametrize("provider", ["openai", "azure_openai", "anthropic", "gemini", "grok"])
async def test_an_agent_can_be_asked_about_an_image(provider: Any) -> None:
    """The image reaches the request, and a strict provider accepts it."""
    model = ScriptedModel("A parcel.", provider=provider)
    agent = Agent(name="a", system="Look.", model=model)
    result = await agent.run(UserMessage([TextContent("What is it?"), PNG, PDF]))
    assert result.text == "A parcel."
    model.assert_saw("What is it?", "AA==")


def test_a_host_that_takes_text_alone_is_sent_words(caplog: pytest.LogCaptureFixture) -> None:
    """DeepSeek refused every image, sound and file in recordings; a warning says so once."""
    warn_of_text_alone.cache_clear()
    model = compatible("deepseek", "deepseek-v4-flash", api_key="k")
    message = TextMessage("user", (TextContent("see"), PNG, LINK, PDF))
    body = model.encode(ModelRequest(messages=(message,)))
    kinds = [part["type"] for part in body["messages"][0]["content"]]
    assert kinds == ["text"] * 4
    assert caplog.text.count("deepseek takes text alone") == 1
