"""Names that providers accept."""

from __future__ import annotations

import re

TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""Tool names that OpenAI, Anthropic and Gemini all accept (their common subset)."""


def slugify(name: str) -> str:
    """Return ``name`` in lower case, everything but letters and digits as single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
