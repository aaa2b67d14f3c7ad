"""What a text message's content may consist of: texts, images and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agentkit_py.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class TextContent:
    """One piece of a text message whose content is a list."""

    text: str

    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """A picture in a user's message: its bytes in base64, or a URL that the provider can read.

    Raises:
        ConfigurationError: There are both or neither, or bytes without a media type.
    """

    data: str | None = field(default=None, repr=False)
    """The bytes in base64, without a ``data:`` prefix."""

    url: str | None = None
    media_type: str | None = None
    """E.g. ``image/png``; needed with bytes, and by Gemini (``image/jpeg`` where missing)."""

    detail: Literal["low", "high", "auto"] | None = None
    """How closely the model is to look; only OpenAI, Azure and Grok know it."""

    type: Literal["image"] = field(default="image", kw_only=True)

    def __post_init__(self) -> None:
        _check_medium(self)


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file in a user's message: its bytes in base64, or a URL that the provider can read.

    Raises:
        ConfigurationError: There are both or neither, or bytes without a media type.
    """

    data: str | None = field(default=None, repr=False)
    """The bytes in base64, without a ``data:`` prefix."""

    url: str | None = None
    media_type: str | None = None
    """E.g. ``application/pdf``; needed with bytes."""

    name: str | None = None
    """The file's name, which some providers show the model."""

    type: Literal["file"] = field(default="file", kw_only=True)

    def __post_init__(self) -> None:
        _check_medium(self)


MediaContent: TypeAlias = ImageContent | FileContent
"""What is no text: only users' messages can show it to a model."""

ContentPart: TypeAlias = TextContent | ImageContent | FileContent
"""What a message's content list may hold."""


def _check_medium(part: MediaContent) -> None:
    kind = type(part).__name__
    if (part.data is None) == (part.url is None):
        raise ConfigurationError(f"{kind} needs data=… (base64) or url=…, and not both.")
    if part.data is not None and not part.media_type:
        raise ConfigurationError(f"{kind}(data=…) needs media_type=…, e.g. 'image/png'.")


def text_of_parts(content: str | Sequence[ContentPart]) -> str:
    """The text of a message's content; images and files have none."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextContent))
