"""The API's description in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any


def document() -> dict[str, Any]:
    """The document."""
    return {"openapi": "3.1.0", "info": {"title": "AgentKit", "version": "1"}, "paths": {}}
