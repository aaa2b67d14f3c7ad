"""Rules for images and files in messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from .anthropic_messages import blocks
from .gemini_body import contents
from .openai_messages import messages
from .responses_items import items, kind_of
from .rules import OPENAI_LIKE, Inbound, Problem, rule

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,[A-Za-z0-9+/]+={0,2}")
_URL = re.compile(r"https?://\S+")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


_GROK_IMAGES = ("image/jpeg", "image/png")
# developers.openai.com/api/docs/guides/file-inputs, "accepted file types": PDF, text and code, rich
# documents, presentations, spreadsheets.
_RESPONSES_FILES = (
    "application/pdf", "application/json", "application/xml", "application/rtf", "application/csv",
    "application/msword", "application/javascript", "application/typescript", "application/vnd.",
    "text/",
)  # fmt: skip


def _parts(request: Inbound, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every part of this type with its pointer."""
    for index, message in enumerate(messages(request)):
        content = message.get("content")
        if isinstance(content, list):
            for number, part in enumerate(cast("list[dict[str, Any]]", content)):
                if part["type"] == kind:
                    yield f"messages[{index}].content[{number}].{kind}", part[kind]


@rule(*OPENAI_LIKE)
def image_url(request: Inbound) -> Problem | None:
    """An image is an address or a data URL of a known format; its detail is low, high or auto.

    Source: platform.openai.com/docs/api-reference/chat/create ("Either a URL of the image or the
    base64 encoded image data"; detail); docs.x.ai/docs/guides/image-understanding says the same,
    but "jpg/jpeg or png". The words for other formats are the API's answer, e.g.
    github.com/marketing-factory/ai-filemetadata/issues/18.
    """
    for where, image in _parts(request, "image_url"):
        url = image.get("url")
        if not isinstance(url, str) or not (_DATA_URL.fullmatch(url) or _URL.fullmatch(url)):
            words = "Expected a valid URL, but got a value with an invalid format."
            return Problem(f"Invalid '{where}.url'. {words}", f"{where}.url", "invalid_value")
        if image.get("detail", "auto") not in ("low", "high", "auto"):
            words = f"Invalid value: '{image['detail']}'. Supported values are: 'low', 'high', and"
            return Problem(f"{words} 'auto'.", f"{where}.detail", "invalid_value")
        kind = _data_type(url)
        if kind and kind not in (_GROK_IMAGES if request.provider == "grok" else _IMAGES):
            return Problem(_UNSUPPORTED, f"{where}.url", "invalid_image_format")
    return None


_UNSUPPORTED = (
    "You uploaded an unsupported image. Please make sure your image has of one the following "
    "formats: ['png', 'jpeg', 'gif', 'webp']."
)


def _data_type(url: str) -> str:
    """Return the media type of a data URL; empty for an address."""
    return url[5 : url.index(";")] if url.startswith("data:") else ""


@rule(*OPENAI_LIKE)
def file_part(request: Inbound) -> Problem | None:
    """A file is `file_id`, or `filename` with a PDF as a data URL; xAI's chat takes none.

    Source: platform.openai.com/docs/api-reference/chat/create (file content part) and
    developers.openai.com/api/docs/guides/file-inputs ("Chat Completions accepts only PDF files");
    the words are the API's answer, e.g. github.com/pydantic/pydantic-ai/issues/4445;
    docs.x.ai/docs/api-reference lists text and image_url as the only parts.
    """
    for where, file in _parts(request, "file"):
        if request.provider == "grok":
            words = f"Invalid value: 'file' for '{where}': only text and image_url are supported."
            return Problem(words, where, "invalid_value")
        if isinstance(file.get("file_id"), str):
            continue
        data = file.get("file_data")
        if not isinstance(file.get("filename"), str):
            words = f"Missing required parameter: '{where}.filename'."
            return Problem(words, f"{where}.filename", "missing_required_parameter")
        if not isinstance(data, str) or not _DATA_URL.fullmatch(data):
            words = f"{_WANTS_PDF}, but got an invalid base64-encoded value."
            return Problem(f"Invalid '{where}.file_data'. {words}", f"{where}.file_data")
        if _data_type(data) != "application/pdf":
            words = f"{_WANTS_PDF}, but got unsupported MIME type '{_data_type(data)}'."
            return Problem(f"Invalid '{where}.file_data'. {words}", f"{where}.file_data")
    return None


_WANTS_PDF = "Expected a base64-encoded data URL with an application/pdf MIME type"


def _input_parts(request: Inbound, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every part of this type in the input's messages, with its pointer."""
    for index, item in enumerate(items(request)):
        content = item.get("content") if kind_of(item) == "message" else None
        if isinstance(content, list):
            for number, part in enumerate(cast("list[dict[str, Any]]", content)):
                if part["type"] == kind:
                    yield f"input[{index}].content[{number}]", part


@rule("openai_responses")
def input_image(request: Inbound) -> Problem | None:
    """An image is a file's id, an address, or a data URL of a known format, with a known detail.

    Source: openai-python types/responses/response_input_image_param.py;
    platform.openai.com/docs/guides/images-vision (png, jpeg, webp, gif); the words are the API's
    answers, e.g. github.com/mkht/PSOpenAI/issues/43.
    """
    for where, part in _input_parts(request, "input_image"):
        url = part.get("image_url")
        if part.get("detail", "auto") not in ("low", "high", "auto", "original"):
            words = f"Invalid value: '{part['detail']}'. Supported values are: 'low', 'high', and"
            return Problem(f"{words} 'auto'.", f"{where}.detail", "invalid_value")
        if url is None and isinstance(part.get("file_id"), str):
            continue
        if not isinstance(url, str) or not (_DATA_URL.fullmatch(url) or _URL.fullmatch(url)):
            words = f"Invalid '{where}.image_url'. Expected a valid URL, but got a value with an"
            return Problem(f"{words} invalid format.", f"{where}.image_url", "invalid_value")
        kind = _data_type(url)
        if kind and kind not in _IMAGES:
            words = "Expected a base64-encoded data URL with an image MIME type, but got"
            words = f"Invalid '{where}.image_url'. {words} unsupported MIME type '{kind}'."
            return Problem(words, f"{where}.image_url", "invalid_value")
    return None


@rule("openai_responses")
def input_file(request: Inbound) -> Problem | None:
    """A file is an id, an address, or a name with a data URL of a type that is read.

    Source: openai-python types/responses/response_input_file_param.py;
    developers.openai.com/api/docs/guides/file-inputs (accepted file types).
    """
    for where, part in _input_parts(request, "input_file"):
        data, url = part.get("file_data"), part.get("file_url")
        if data is None and (isinstance(part.get("file_id"), str) or _is_address(url)):
            continue
        if not isinstance(data, str) or not _DATA_URL.fullmatch(data):
            words = "Expected a base64-encoded data URL with a MIME type."
            return Problem(f"Invalid '{where}.file_data'. {words}", f"{where}.file_data")
        if not isinstance(part.get("filename"), str):
            words = f"Missing required parameter: '{where}.filename'."
            return Problem(words, f"{where}.filename", "missing_required_parameter")
        if not _data_type(data).startswith(_RESPONSES_FILES):
            words = f"Invalid '{where}.file_data'. Got unsupported MIME type '{_data_type(data)}'."
            return Problem(words, f"{where}.file_data", "invalid_value")
    return None


def _is_address(url: Any) -> bool:
    return isinstance(url, str) and _URL.fullmatch(url) is not None


@rule("anthropic")
def media_source(request: Inbound) -> Problem | None:
    """An image or document has a source: a URL, or base64 of one of the media types it may have.

    Source: anthropic-python types/base64_image_source_param.py (jpeg, png, gif, webp),
    types/base64_pdf_source_param.py and types/url_*_source_param.py; documents may be text, content
    or files of the Files API, too.
    """
    for index, number, block in blocks(request):
        kind = block["type"]
        if kind not in ("image", "document"):
            continue
        problem = _source_problem(block["source"], kind)
        if problem is not None:
            path = f"messages.{index}.content.{number}.{kind}.source"
            return Problem(f"{path}{problem}", f"messages[{index}].content[{number}].source")
    return None


def _source_problem(source: dict[str, Any], kind: str) -> str | None:
    allowed = _IMAGES if kind == "image" else ("application/pdf",)
    match source:
        case {"type": "url", "url": str(url)}:
            return None if _URL.fullmatch(url) else ".url.url: Only HTTP and HTTPS URLs are valid"
        case {"type": "base64", "media_type": media_type, "data": str(data)}:
            if media_type not in allowed:
                expected = " or ".join(f"'{name}'" for name in allowed)
                return f".base64.media_type: Input should be {expected}"
            return None if _BASE64.fullmatch(data) else ".base64.data: Invalid base64 data"
        case {"type": "file", "file_id": str()}:
            return None
        case {"type": "text" | "content"} if kind == "document":
            return None
        case _:
            return ": Input tag does not match any of the expected tags: 'base64', 'url', 'file'"


@rule("gemini")
def media_part(request: Inbound) -> Problem | None:
    """Bytes have a known media type and base64 data, files a URI.

    Source: ai.google.dev/api/caching (Blob: mimeType, data; FileData: mimeType, fileUri required);
    "Unsupported MIME type: …" is the API's answer to SVG, archives and office documents, e.g.
    github.com/google-gemini/gemini-cli/issues/3054 and github.com/google/adk-python/pull/5694.
    """
    for index, (_, parts) in enumerate(contents(request)):
        for number, part in enumerate(parts):
            where = f"contents[{index}].parts[{number}]"
            if "inlineData" in part and not _is_blob(part["inlineData"]):
                words = f"Invalid value at '{where}.inline_data' (TYPE_BYTES), Base64 decoding"
                return Problem(f"{words} failed", where)
            if "inlineData" in part and not _is_known(part["inlineData"]):
                kind = _text_in(part["inlineData"], "mimeType", "mime_type")
                return Problem(f"Unsupported MIME type: {kind}", where)
            if "fileData" in part and not _text_in(part["fileData"], "fileUri", "file_uri"):
                return Problem(f"{where}.file_data.file_uri: required field is missing", where)
    return None


def _is_blob(value: Any) -> bool:
    data = _text_in(value, "data", "data")
    return bool(_text_in(value, "mimeType", "mime_type") and _BASE64.fullmatch(data))


def _is_known(value: Any) -> bool:
    kind = _text_in(value, "mimeType", "mime_type")
    if kind.startswith("image/"):
        return kind not in ("image/svg+xml", "image/svg", "image/xml", "image/jpg")
    return kind.startswith(("audio/", "video/", "text/")) or kind in _GEMINI_DOCUMENTS


_GEMINI_DOCUMENTS = ("application/pdf", "application/json")


def _text_in(value: Any, *names: str) -> str:
    """Return a field's text, under one of its names; empty if there is none."""
    if not isinstance(value, dict):
        return ""
    fields = cast("dict[str, Any]", value)
    found = next((fields[name] for name in names if name in fields), "")
    return found if isinstance(found, str) else ""
