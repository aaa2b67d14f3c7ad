"""Images and files in messages, and the words for them where a model cannot be shown any.

Only users' messages can carry them; there is no wire format in which the system or an assistant
may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, assert_never

from agentkit_py.messages import FileContent, ImageContent, MediaContent, TextContent, TextMessage

IMAGE_WORDS = "[image{where}]"
"""An image where the format or the role has none."""

FILE_WORDS = "[file{name}{where}]"
"""A file where the format or the role has none."""

DEFAULT_IMAGE_TYPE = "image/jpeg"
"""The media type of an image URL, where a format needs one and nobody said it."""

DEFAULT_FILE_TYPE = "application/pdf"
"""The media type of a file's URL, where a format needs one and nobody said it."""

Encoded: TypeAlias = dict[str, Any]
MediaEncoder: TypeAlias = Callable[[MediaContent], Encoded | None]
"""Gives a provider's form of an image or file; None: it takes none such."""


def words_for(part: MediaContent) -> str:
    """An image or file in words."""
    where = f" at {part.url}" if part.url else ""
    match part:
        case ImageContent():
            return IMAGE_WORDS.format(where=where)
        case FileContent():
            return FILE_WORDS.format(name=f" {part.name}" if part.name else "", where=where)
        case _:
            assert_never(part)


def has_media(message: TextMessage) -> bool:
    """Whether the message holds an image or a file."""
    return not isinstance(message.content, str) and any(
        not isinstance(part, TextContent) for part in message.content
    )


def data_url(part: MediaContent) -> str:
    """The part's URL, or its bytes as one."""
    return part.url or f"data:{part.media_type};base64,{part.data}"


def encoded_parts(
    message: TextMessage, text: Callable[[str], Encoded], media: MediaEncoder
) -> list[Encoded]:
    """The parts of a user's message with something in them, in their order.

    Args:
        message: Its content is a list.
        text: Gives a provider's form of a text.
        media: Gives that of an image or file; what it has no form for is put in words.
    """
    found: list[Encoded] = []
    for part in message.content:
        assert not isinstance(part, str)
        if isinstance(part, TextContent):
            if part.text.strip():
                found.append(text(part.text))
        else:
            found.append(media(part) or text(words_for(part)))
    return found


def openai_part(part: MediaContent) -> Encoded | None:
    """A part of OpenAI's chat completions, also Azure's; files have to be bytes.

    Source: https://platform.openai.com/docs/api-reference/chat/create (content parts).
    """
    if isinstance(part, ImageContent):
        detail = {"detail": part.detail} if part.detail else {}
        return {"type": "image_url", "image_url": {"url": data_url(part), **detail}}
    if part.data is None:
        return None
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}


def grok_part(part: MediaContent) -> Encoded | None:
    """A part of xAI's chat completions, which knows images only.

    Source: https://docs.x.ai/docs/guides/image-understanding
    """
    return openai_part(part) if isinstance(part, ImageContent) else None


ANTHROPIC_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""https://docs.claude.com/en/docs/build-with-claude/vision"""


def anthropic_block(part: MediaContent) -> Encoded | None:
    """An image or document block of Anthropic's; it takes four kinds of images, and PDF.

    Source: https://docs.claude.com/en/api/messages (image, document).
    """
    kind = "image" if isinstance(part, ImageContent) else "document"
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    allowed = ANTHROPIC_IMAGES if kind == "image" else frozenset({"application/pdf"})
    if part.media_type not in allowed:
        return None
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": kind, "source": source}


def gemini_part(part: MediaContent) -> Encoded:
    """An inlineData or fileData part of Gemini's.

    Source: https://ai.google.dev/api/caching#Part
    """
    if part.data is not None:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    default = DEFAULT_IMAGE_TYPE if isinstance(part, ImageContent) else DEFAULT_FILE_TYPE
    return {"fileData": {"mimeType": part.media_type or default, "fileUri": part.url}}


def text_pieces(content: str | Sequence[TextContent | MediaContent]) -> list[str]:
    """The pieces of a content, images and files in words."""
    if isinstance(content, str):
        return [content]
    return [p.text if isinstance(p, TextContent) else words_for(p) for p in content]
