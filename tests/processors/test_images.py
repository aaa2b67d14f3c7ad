"""StripImages and KeepImages, and images in messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.messages import (
    FileContent,
    ImageContent,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    result_parts,
    text_of,
)
from agentkit_py.processors import ApproximateTokenizer, KeepImages, StripImages
from agentkit_py.processors.tokenizers import FILE_TOKENS, IMAGE_TOKENS, count_text

from .conversations import CONTEXT, left, processed, turns

PNG = ImageContent("iVBORw0KGgo=", media_type="image/png")
LINK = ImageContent(url="https://example.com/a.png", detail="low")
PDF = FileContent("JVBERi0=", media_type="application/pdf", name="a.pdf")


def showing(*parts: Any) -> TextMessage:
    """A user's message with these parts."""
    return TextMessage("user", parts)


HISTORY = [
    showing(TextContent("first"), PNG),
    showing(LINK, PDF),
    TextMessage("user", "none"),
    showing(PNG, TextContent("two"), LINK),
]


def parts(message: Any) -> list[str]:
    """A message's parts in short."""
    if isinstance(message.content, str):
        return [message.content]
    return [p.text if isinstance(p, TextContent) else p.type for p in message.content]


def test_all_images_are_left_out_and_text_says_so() -> None:
    """Files stay unless they are to go, too."""
    assert [parts(m) for m in left(HISTORY, StripImages())] == [
        ["first", "[image left out]"],
        ["[image left out]", "file"],
        ["none"],
        ["[image left out]", "two", "[image left out]"],
    ]
    kept = left(HISTORY, StripImages(files=True))
    assert parts(kept[1]) == ["[image left out]", "[file a.pdf left out]"]


def test_the_newest_images_stay() -> None:
    """Counted one by one, within a message the last first."""
    assert [parts(m) for m in left(HISTORY, KeepImages(last=1))][1:] == [
        ["[image left out]", "file"],
        ["none"],
        ["[image left out]", "two", "image"],
    ]
    kept = left(HISTORY, KeepImages(last=3))
    assert kept[1:] == HISTORY[1:]
    assert kept[3] is HISTORY[3]
    assert parts(kept[0]) == ["first", "[image left out]"]
    assert parts(left(HISTORY, KeepImages(last=3, files=True))[1]) == ["[image left out]", "file"]


def test_nothing_to_do_gives_the_very_list_and_pinned_messages_keep_theirs() -> None:
    """Replaced messages are the same objects each time."""
    messages = turns(2)
    assert processed(StripImages(), messages) is messages
    assert processed(KeepImages(last=4), HISTORY) is HISTORY
    context = replace(CONTEXT, pinned=frozenset({id(HISTORY[0])}))
    assert processed(StripImages(), HISTORY, context)[0] is HISTORY[0]
    once = left(HISTORY, StripImages())
    assert [id(m) for m in once] == [id(m) for m in left(HISTORY, StripImages())]
    assert left(once, StripImages()) == once


def test_images_and_files_count_as_constants() -> None:
    """Their bytes are no text, and may be megabytes."""
    tokenizer = ApproximateTokenizer()
    plain = count_text(showing(TextContent("x")), tokenizer)
    large = showing(TextContent("x"), replace(PNG, data="A" * 10**6), PDF)
    assert IMAGE_TOKENS + FILE_TOKENS < count_text(large, tokenizer) < plain + 2400
    assert large.text == "x"


@pytest.mark.parametrize("part", [PNG, LINK, PDF, FileContent(url="https://example.com/a")])
def test_images_and_files_are_stored_and_read_again(part: Any) -> None:
    """The JSON has the part's own fields and no empty ones."""
    message = showing(TextContent("see"), part)
    record = message_to_dict(message)
    assert message_from_dict(record) == message
    assert None not in record["content"][1].values()


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "image"}, "either data or url"),
        ({"type": "image", "data": "AA==", "url": "u"}, "either data or url"),
        ({"type": "file", "data": "AA=="}, "mediaType"),
        ({"type": "image", "url": 5}, "url"),
        ({"type": "image", "url": "u", "detail": "huge"}, "detail"),
        ({"type": "video", "url": "u"}, "type: text"),
    ],
)
def test_a_stored_part_that_is_none_is_named(part: Any, said: str) -> None:
    """The error has the path of the part."""
    record = {"type": "text", "role": "user", "content": [part]}
    with pytest.raises(InvalidRecordError, match=r"content\[0\]") as caught:
        message_from_dict(record)
    assert said in str(caught.value)


def test_an_image_needs_bytes_or_a_url() -> None:
    """Bytes also need a media type."""
    for data, url in ((None, None), ("AA==", "u")):
        with pytest.raises(ConfigurationError, match="data=… "):
            ImageContent(data, url)
    with pytest.raises(ConfigurationError, match="media_type"):
        FileContent("AA==")
    assert "iVBOR" not in repr(PNG)


def test_settings_are_checked() -> None:
    """The error names the key."""
    assert KeepImages.from_settings({"last": 2}).reason == "the newest 2 images"
    assert StripImages.from_settings({"files": True}).reason == "no images and files"
    with pytest.raises(ConfigurationError, match="last must be"):
        KeepImages.from_settings({"last": -1})


def _shown(*names: str) -> ToolResultMessage:
    """A result of a tool that gave pictures, as an MCP server writes them."""
    blocks = [{"type": "image", "data": "AAAA", "mimeType": "image/png"} for _ in names]
    return ToolResultMessage(ToolCall("c1", "look", {}), {"data": ["Look:", *blocks]})


def test_images_in_tools_results_are_left_out_like_others() -> None:
    """A model without eyes reads a line of text in place of each."""
    call = ToolCallMessage([ToolCall("c1", "look", {})])
    messages = [TextMessage("user", "Look."), call, _shown("a", "b")]
    found = left(messages, StripImages())
    result = found[-1]
    assert isinstance(result, ToolResultMessage)
    assert result_parts(result.content) is None
    assert "AAAA" not in text_of(result)
    assert json.dumps(result.content).count("left out") == 2


def test_the_newest_images_of_results_are_kept() -> None:
    """They count together with users' images."""
    call = ToolCallMessage([ToolCall("c1", "look", {})])
    messages = [TextMessage("user", "Look."), call, _shown("a", "b")]
    found = left(messages, KeepImages(last=1))
    result = found[-1]
    assert isinstance(result, ToolResultMessage)
    shown = result_parts(result.content) or []
    assert [part.type for part in shown] == ["text", "text", "image"]
