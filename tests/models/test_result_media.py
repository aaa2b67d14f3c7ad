"""Images, sounds and files in tools' results go out as what they are, or are named in words."""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py import AgentResult, anthropic, gemini, openai
from agentkit_py.messages import (
    FileContent,
    ImageContent,
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    medium_in,
    result_parts,
    text_of,
)
from agentkit_py.models import Model, openai_responses
from agentkit_py.models.base import ModelRequest, ToolSpec
from agentkit_py.models.encoding import warn_of_words
from agentkit_py.processors.redaction import Redactor
from agentkit_py.processors.tokenizers import IMAGE_TOKENS, ApproximateTokenizer, count_text
from agentkit_py.tools.values import data_content

BYTES = base64.b64encode(b"picture" * 100).decode()
IMAGE = ImageContent(BYTES, None, "image/png")
PDF = FileContent(BYTES, None, "application/pdf", "a.pdf")
CALL = ToolCall("c1", "look", {})

SHAPES: dict[str, Any] = {
    "an image alone": {"data": {"type": "image", "data": BYTES, "mediaType": "image/png"}},
    "an image as a handler returns it": data_content("look", IMAGE),
    "an image of an MCP server": {
        "data": [{"type": "image", "data": BYTES, "mimeType": "image/png"}]
    },
    "a resource of an MCP server": {
        "data": [
            {
                "type": "resource",
                "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": BYTES},
            }
        ]
    },
    "beside a structured result": {
        "data": {
            "content": [{"type": "image", "data": BYTES, "mimeType": "image/png"}],
            "structuredContent": {"size": 3},
        }
    },
    "deep inside": {
        "data": {"pages": [{"it": {"type": "image", "data": BYTES, "mediaType": "image/png"}}]}
    },
}


def conversation(content: Any) -> tuple[Message, ...]:
    """A call with its result."""
    return (
        TextMessage("user", "Look."),
        ToolCallMessage([CALL]),
        ToolResultMessage(CALL, content),
        TextMessage("user", "And?"),
    )


def body_of(model: Model, content: Any) -> dict[str, Any]:
    """The request with that result."""
    tools = (ToolSpec("look"),)
    return model.encode(ModelRequest(messages=conversation(content), tools=tools))


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES.keys())
def test_an_image_is_found_at_any_depth_of_a_result(content: Any) -> None:
    """Handlers, MCP servers and stored threads write it in their own ways."""
    parts = result_parts(content)
    assert parts is not None
    assert [part for part in parts if isinstance(part, ImageContent)] == [IMAGE]


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(
    "model",
    [
        anthropic("claude-sonnet-4-5", api_key="k"),
        openai_responses("gpt-5-mini", api_key="k"),
        gemini("gemini-3-pro", api_key="k"),
    ],
    ids=lambda model: model.model,
)
def test_formats_that_take_images_in_results_get_them(model: Model, content: Any) -> None:
    """As blocks, once; nothing of the bytes is text."""
    sent = json.dumps(body_of(model, content))
    assert sent.count(BYTES) == 1
    kinds = ('"type": "image"', '"type": "input_image"', '"inlineData": {"mimeType": "image/png"')
    assert any(kind in sent for kind in kinds)


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(
    "model",
    [openai("gpt-4.1", api_key="k"), gemini("gemini-2.5-pro", api_key="k")],
    ids=lambda model: model.model,
)
def test_formats_that_take_text_only_get_words_and_one_warning(
    model: Model, content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """91,000 tokens of base64 help no model."""
    warn_of_words.cache_clear()
    with caplog.at_level(logging.WARNING, "agentkit_py"):
        sent = [json.dumps(body_of(model, content)) for _ in range(2)]
    assert BYTES not in sent[0]
    assert "[image]" in sent[0]
    assert len([one for one in caplog.records if "tool's result" in one.getMessage()]) == 1


def test_the_order_of_texts_and_images_stays() -> None:
    """A text about the picture is before it."""
    content = data_content("look", ["Before:", IMAGE, {"size": 3}, PDF])
    blocks = body_of(anthropic("claude-sonnet-4-5", api_key="k"), content)["messages"][2]["content"]
    inner = blocks[0]["content"]
    assert [block["type"] for block in inner] == ["text", "image", "text", "document"]
    assert [block.get("text") for block in inner] == ["Before:", None, '{"size":3}', None]


def test_a_failed_call_says_so_to_claude() -> None:
    """Its results have a field for it."""
    model = anthropic("claude-sonnet-4-5", api_key="k")
    failed = body_of(model, {"error": {"name": "E", "message": "no"}})["messages"][2]["content"][0]
    assert failed["is_error"] is True
    assert "is_error" not in body_of(model, {"data": 1})["messages"][2]["content"][0]


def test_a_text_file_is_a_text_document_for_claude() -> None:
    """It takes PDF and plain text."""
    note = FileContent(base64.b64encode("Größe".encode()).decode(), None, "text/markdown", "n.md")
    model = anthropic("claude-sonnet-4-5", api_key="k")
    request = ModelRequest(messages=(TextMessage("user", [note]),))
    (block,) = model.encode(request)["messages"][0]["content"]
    source = {"type": "text", "media_type": "text/plain", "data": "Größe"}
    assert block == {"type": "document", "source": source, "title": "n.md"}


@pytest.mark.parametrize(("name", "hears"), [("gpt-4o-audio-preview", True), ("gpt-5-mini", False)])
def test_sound_goes_to_chat_models_that_hear(name: str, *, hears: bool) -> None:
    """The others refuse it, so they get words."""
    sound = FileContent("AAAA", None, "audio/mpeg", "a.mp3")
    request = ModelRequest(messages=(TextMessage("user", [sound]),))
    (part,) = openai(name, api_key="k").encode(request)["messages"][0]["content"]
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    assert part == (audio if hears else {"type": "text", "text": "[file a.mp3]"})


NO_MEDIA: list[Any] = [
    {"type": "image", "title": "A picture", "data": "x"},
    {"type": "image", "data": "not base64!", "mediaType": "image/png"},
    {"type": "image", "data": BYTES},
    {"type": "image", "data": BYTES, "mediaType": "image/png", "price": 3},
    {"type": "file"},
    {"data": BYTES, "mediaType": "image/png"},
    "image",
    None,
]


@pytest.mark.parametrize("value", NO_MEDIA, ids=str)
def test_data_that_only_looks_like_an_image_stays_data(value: Any) -> None:
    """A shop's articles are no media."""
    assert medium_in(value) is None


def test_an_image_in_a_result_counts_as_an_image() -> None:
    """Not as the text of its bytes."""
    tokenizer = ApproximateTokenizer()
    message = ToolResultMessage(CALL, data_content("look", ["Look:", IMAGE]))
    assert BYTES not in text_of(message)
    assert IMAGE_TOKENS < count_text(message, tokenizer) < IMAGE_TOKENS + 40


def test_a_redactor_masks_a_files_name_and_leaves_its_bytes() -> None:
    """A mask in the middle of bytes would break them."""
    redactor = Redactor(["email"])
    file = replace(PDF, name="ann@example.com.pdf")
    content = data_content("look", ["Of ann@example.com", file])
    masked: Any = redactor.message(ToolResultMessage(CALL, content))
    parts = result_parts(masked.content)
    assert parts is not None
    assert "ann@" not in json.dumps(masked.content)
    assert isinstance(parts[1], FileContent)
    assert parts[1].data == BYTES


PICTURES: dict[str, tuple[Model, dict[str, Any]]] = {
    "gemini": (
        gemini("gemini-3-pro-image-preview", api_key="k"),
        {
            "candidates": [
                {
                    "finishReason": "STOP",
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "Here:"},
                            {"inlineData": {"mimeType": "image/png", "data": BYTES}},
                        ],
                    },
                }
            ]
        },
    ),
    "responses": (
        openai_responses("gpt-5", api_key="k"),
        {
            "status": "completed",
            "output": [
                {
                    "type": "image_generation_call",
                    "id": "ig_1",
                    "status": "completed",
                    "result": BYTES,
                    "output_format": "png",
                }
            ],
        },
    ),
}


@pytest.mark.parametrize(("model", "body"), PICTURES.values(), ids=PICTURES.keys())
def test_a_picture_that_a_model_made_is_media_of_the_result(
    model: Model, body: dict[str, Any]
) -> None:
    """It survives stores, too."""
    result = AgentResult("a", model.decode(body).messages)
    assert result.media == (IMAGE,)
    assert AgentResult.from_dict(json.loads(json.dumps(result.to_dict()))).media == (IMAGE,)
