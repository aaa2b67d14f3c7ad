"""The chat page for customers, and the script that puts it into a corner of another site."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route

from agentkit_py._engine.option_checks import expect_text, expect_texts, wrong
from agentkit_py.errors import ConfigurationError
from agentkit_py.server.api import HEADERS

_STATIC = Path(__file__).parent / "static"
MARKDOWN: Path = _STATIC / "markdown.js"
"""The script that renders Markdown without HTML; the playground has it as well."""

_FILES = ("chat.js", "chat.css", MARKDOWN.name)
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_PATH = re.compile(r"/[\w./-]*[\w-]")
_TAKEN = frozenset({"api", "staff", "health", "openapi.json", "v1"})
"""The first parts of the app's other paths."""

_LINEAR, _EXPONENT = 0.04045, 2.4
_WEIGHTS = (0.2126, 0.7152, 0.0722)
_LIGHT = 0.179
"""Relative luminance above which black text has more contrast than white (WCAG 2.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPage:
    """The chat page for customers that `create_app` serves, without a build step.

    Raises:
        ConfigurationError: A value cannot be shown, or a site is not an origin.
    """

    name: str = "Support"
    """The title of the page."""

    greeting: str = "Hello! How can we help?"
    """The text in a conversation without messages; Markdown."""

    suggestions: Sequence[str] = ()
    """First messages that a customer can send with a click."""

    color: str = "#1d4ed8"
    """The colour of buttons and of the customer's messages, as ``#rrggbb``."""

    path: str = "/chat"
    """The path of the page. The widget is ``{path}/widget.js``."""

    sites: Sequence[str] = ()
    """Other sites that may show the page in a frame, as ``https://host``: those with the widget."""

    inner_agents: Sequence[str] = ()
    """Names of agents that write for other agents: their texts are not shown."""

    def __post_init__(self) -> None:
        """Validate the values."""
        for name in ("name", "greeting"):
            expect_text("ChatPage", name, getattr(self, name))
        for name in ("suggestions", "sites", "inner_agents"):
            expect_texts("ChatPage", name, getattr(self, name), "a list of texts")
        if not _COLOR.fullmatch(self.color):
            raise wrong("ChatPage", "color", "a colour like '#1d4ed8'", self.color)
        if not _PATH.fullmatch(self.path):
            raise wrong("ChatPage", "path", "a path like '/chat'", self.path)
        if self.path.split("/")[1] in _TAKEN:
            raise wrong("ChatPage", "path", "none of the app's own paths", self.path)
        for site in self.sites:
            parts = urlsplit(site)
            if not parts.netloc or "*" in site or site != f"{parts.scheme}://{parts.netloc}":
                raise ConfigurationError(
                    f"ChatPage: sites: {site!r} is not the origin of a site, such as "
                    "https://shop.example"
                )

    @property
    def text_color(self) -> str:
        """The colour of text on `color`: black or white, whichever has more contrast."""
        channels = [int(self.color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [
            c / 12.92 if c <= _LINEAR else ((c + 0.055) / 1.055) ** _EXPONENT for c in channels
        ]
        luminance = sum(weight * value for weight, value in zip(_WEIGHTS, linear, strict=True))
        return "#000000" if luminance > _LIGHT else "#ffffff"

    def html(self) -> str:
        """Return the page; its scripts and styles are separate files."""
        settings: dict[str, Any] = {
            "greeting": self.greeting,
            "suggestions": list(self.suggestions),
            "color": self.color,
            "textColor": self.text_color,
            "sites": list(self.sites),
            "innerAgents": list(self.inner_agents),
            "api": "../" * len(self.path.strip("/").split("/")) + "api/",
        }
        text = (_STATIC / "chat.html").read_text(encoding="utf-8")
        found = {
            "name": escape(self.name),
            "settings": json.dumps(settings).replace("<", "\\u003c"),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda match: found[match[1]], text)

    def widget(self) -> str:
        """Return the script that puts the page into a corner of another site."""
        text = (_STATIC / "widget.js").read_text(encoding="utf-8")
        colors = {"color": self.color, "textColor": self.text_color}
        return text.replace("__COLORS__", json.dumps(colors))

    def icon(self) -> str:
        """Return the icon of the page's tab: a speech bubble in the page's colour, as SVG."""
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
            f'<path fill="{self.color}" d="M6 4h20a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4H14l-8 6v-6'
            'a4 4 0 0 1-4-4V8a4 4 0 0 1 4-4z"/></svg>'
        )

    def headers(self) -> dict[str, str]:
        """Return the headers of the page: nothing but its own files, in frames of `sites` only."""
        frames = " ".join(["'self'", *self.sites])
        return {
            **HEADERS,
            "Content-Security-Policy": (
                "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                f"object-src 'none'; frame-ancestors {frames}"
            ),
            "Referrer-Policy": "no-referrer",
        }

    def route(self) -> Mount:
        """Return the page with its files; it holds no data; the API checks all rights."""
        page, widget, headers = self.html(), self.widget(), self.headers()

        async def show(_request: Request) -> Response:
            return HTMLResponse(page, headers=headers)

        async def icon(_request: Request) -> Response:
            return Response(self.icon(), media_type="image/svg+xml", headers=headers)

        async def script(_request: Request) -> Response:
            return Response(widget, media_type="text/javascript", headers=headers)

        def file(name: str) -> Any:
            async def serve(_request: Request) -> Response:
                return FileResponse(_STATIC / name, headers=headers)

            return serve

        files = [Route(f"/{name}", file(name)) for name in _FILES]
        own = [Route("/", show), Route("/icon.svg", icon), Route("/widget.js", script)]
        return Mount(self.path, routes=[*own, *files])
