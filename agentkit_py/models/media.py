"""Images and files in messages, and the words for them where a model cannot be shown any.

Only users' messages can carry them; there is no wire format in which the system or an assistant
may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
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


IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The images that OpenAI and Anthropic look at.

https://platform.openai.com/docs/guides/images-vision and
https://docs.claude.com/en/docs/build-with-claude/vision
"""

_JPEG_OR_PNG = frozenset({"image/jpeg", "image/png"})
_PDF = frozenset({"application/pdf"})


def media_type(part: MediaContent) -> str:
    """The type of a part's bytes as providers write it: ``image/jpg`` is ``image/jpeg``."""
    kind = (part.media_type or "").partition(";")[0].strip().lower()
    return "image/jpeg" if kind == "image/jpg" else kind


def data_url(part: MediaContent) -> str:
    """The part's URL, or its bytes as one."""
    return part.url or f"data:{media_type(part)};base64,{part.data}"


def takes(part: MediaContent, allowed: Container[str]) -> bool:
    """Whether the part is a link, or bytes of one of these types."""
    return part.data is None or media_type(part) in allowed


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
    """A part of OpenAI's chat completions, also Azure's; files have to be the bytes of a PDF.

    Source: https://platform.openai.com/docs/api-reference/chat/create (content parts) and
    https://platform.openai.com/docs/guides/file-inputs ("Chat Completions accepts only PDF files").
    """
    if isinstance(part, ImageContent):
        return _image_url(part) if takes(part, IMAGE_TYPES) else None
    if part.data is None or not takes(part, _PDF):
        return None
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}


def _image_url(part: ImageContent) -> Encoded:
    detail = {"detail": part.detail} if part.detail else {}
    return {"type": "image_url", "image_url": {"url": data_url(part), **detail}}


def grok_part(part: MediaContent) -> Encoded | None:
    """A part of xAI's chat completions, which knows two kinds of images only.

    Source: https://docs.x.ai/docs/guides/image-understanding ("jpg/jpeg or png").
    """
    fits = isinstance(part, ImageContent) and takes(part, _JPEG_OR_PNG)
    return _image_url(part) if isinstance(part, ImageContent) and fits else None


_RESPONSES_FILES = re.compile(
    r"text/[\w.+-]+|application/(?:pdf|json|xml|rtf|msword|csv|javascript|typescript"
    r"|vnd\.(?:openxmlformats-officedocument|ms-|oasis\.opendocument)[\w.+-]+)"
)


def responses_part(part: MediaContent) -> Encoded | None:
    """A part of OpenAI's Responses API, whose files may be links, texts and office documents, too.

    Source: https://platform.openai.com/docs/guides/images-vision and
    https://platform.openai.com/docs/guides/file-inputs
    """
    if isinstance(part, ImageContent):
        image = {
            "type": "input_image",
            "image_url": data_url(part),
            "detail": part.detail or "auto",
        }
        return image if takes(part, IMAGE_TYPES) else None
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    if _RESPONSES_FILES.fullmatch(media_type(part)) is None:
        return None
    return {"type": "input_file", "filename": part.name or "file", "file_data": data_url(part)}


def anthropic_block(part: MediaContent) -> Encoded | None:
    """An image or document block of Anthropic's; it takes four kinds of images, and PDF.

    Source: https://docs.claude.com/en/api/messages (image, document).
    """
    kind = "image" if isinstance(part, ImageContent) else "document"
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    if not takes(part, IMAGE_TYPES if kind == "image" else _PDF):
        return None
    source = {"type": "base64", "media_type": media_type(part), "data": part.data}
    return {"type": kind, "source": source}


_GEMINI = re.compile(r"(?:image/(?!svg)|audio/|video/|text/)[\w.+-]+|application/(?:pdf|json)")


def gemini_part(part: MediaContent) -> Encoded | None:
    """An inlineData or fileData part of Gemini's; "Unsupported MIME type" is what else it says.

    Source: https://ai.google.dev/api/caching#Part and
    https://ai.google.dev/gemini-api/docs/file-input-methods
    """
    if part.data is not None:
        kind = media_type(part)
        fits = _GEMINI.fullmatch(kind)
        return {"inlineData": {"mimeType": kind, "data": part.data}} if fits else None
    default = DEFAULT_IMAGE_TYPE if isinstance(part, ImageContent) else DEFAULT_FILE_TYPE
    return {"fileData": {"mimeType": part.media_type or default, "fileUri": part.url}}


def text_pieces(content: str | Sequence[TextContent | MediaContent]) -> list[str]:
    """The pieces of a content, images and files in words."""
    if isinstance(content, str):
        return [content]
    return [p.text if isinstance(p, TextContent) else words_for(p) for p in content]
