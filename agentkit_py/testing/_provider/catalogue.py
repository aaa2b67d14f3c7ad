"""All rules, in the order in which they are applied."""

from __future__ import annotations

from importlib import import_module

from .rules import registered, rules_for

# Importing a module registers its rules, so this order is the order of judgement.
MODULES = (
    "access",
    "openai_body",
    "openai_messages",
    "openai_pairing",
    "openai_tools",
    "responses_body",
    "responses_items",
    "responses_tools",
    "anthropic_body",
    "anthropic_messages",
    "anthropic_turns",
    "anthropic_tools",
    "gemini_body",
    "gemini_turns",
    "gemini_tools",
    "media",
)
for _name in MODULES:
    import_module(f"{__package__}.{_name}")

__all__ = ["MODULES", "registered", "rules_for"]
