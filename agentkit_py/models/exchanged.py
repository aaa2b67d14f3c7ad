"""Replies from before a deploy that replaced the model by a model of another API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentkit_py._core.json import as_object
from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.base import Model
from agentkit_py.models.compatible import openai, openai_responses
from agentkit_py.models.gemini import gemini
from agentkit_py.models.replies import text_or_empty

_APIS: dict[str, Callable[[str], Model]] = {
    "choices": openai,
    "output": openai_responses,
    "candidates": gemini,
    "content": anthropic,
}
"""A model of each API, by the member that its replies have and those of the others lack."""


def reader_of_other_api(model: Model, body: object) -> Model | None:
    """Return a model that reads a reply which is not of this model's API.

    Returns:
        A model at the API's own host, under the name that the reply says. None: the reply is of
        no API known here, or of the model's own.
    """
    found: dict[str, Any] = as_object(body) or {}
    name = text_or_empty(found.get("model")) or text_or_empty(found.get("modelVersion"))
    for member, api in _APIS.items():
        if found.get(member):
            reader = api(name or "unknown")
            return None if isinstance(model.adapter, type(reader.adapter)) else reader
    return None
