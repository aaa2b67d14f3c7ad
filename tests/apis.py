"""A model of each API."""

from __future__ import annotations

from agentkit_py import anthropic, gemini, openai
from agentkit_py.models import Model, openai_responses

APIS: dict[str, Model] = {
    "chat": openai("gpt-4o", api_key="k"),
    "responses": openai_responses("gpt-5", api_key="k"),
    "anthropic": anthropic("claude-sonnet-4-5", api_key="k", max_tokens=4000),
    "gemini": gemini("gemini-2.5-pro", api_key="k"),
}
