"""Placeholder until the real command is here."""

from __future__ import annotations


def replay() -> None:
    """Run recorded conversations."""
