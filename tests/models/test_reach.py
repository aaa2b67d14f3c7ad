"""The table of reach in the guide to models: what each format sends of a user's content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentkit_py import anthropic, gemini, openai
from agentkit_py.messages import ContentPart, FileContent, ImageContent, TextMessage
from agentkit_py.models import Model, openai_responses
from agentkit_py.models.base import ModelRequest

DATA = "QUdFTlRLSVQ="
MODELS: dict[str, Model] = {
    "chat completions": openai("gpt-4.1", api_key="x"),
    "Responses": openai_responses("gpt-4.1", api_key="x"),
    "Anthropic": anthropic("claude-sonnet-4-5", api_key="x"),
    "Gemini": gemini("gemini-2.5-flash", api_key="x"),
}
CONTENTS: dict[str, ContentPart] = {
    "image": ImageContent(DATA, None, "image/png"),
    "PDF": FileContent(DATA, None, "application/pdf", "a.pdf"),
    "plain text": FileContent(DATA, None, "text/plain", "a.txt"),
    "sound": FileContent(DATA, None, "audio/wav", "a.wav"),
    "video": FileContent(DATA, None, "video/mp4", "a.mp4"),
    "document to cite": FileContent(DATA, None, "text/plain", "a.txt", citations=True),
}


def reach(model: Model, content: ContentPart) -> str:
    """How a content reaches a model: as itself, as its name, or without what it asks for."""
    message = TextMessage("user", (content,))
    sent = json.dumps(model.encode(ModelRequest(messages=(message,))))
    if DATA not in sent and "AGENTKIT" not in sent:
        return "as its name"
    if getattr(content, "citations", False) and '"citations"' not in sent:
        return "sent, not cited"
    return "sent"


@pytest.mark.parametrize("kind", CONTENTS)
def test_the_guide_says_what_reaches_each_format(kind: str, root: Path) -> None:
    """Each row of the table is what the encoders do."""
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    cells = [reach(model, CONTENTS[kind]) for model in MODELS.values()]
    assert f"| {kind} | {' | '.join(cells)} |" in guide


def test_the_guide_names_every_format(root: Path) -> None:
    """The table's head names the formats in the order of the cells."""
    guide = (root / "docs/guides/models.md").read_text(encoding="utf-8")
    assert f"| Content | {' | '.join(MODELS)} |" in guide
