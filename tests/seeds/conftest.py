"""Tests that run an agent do so directly, and in an Inngest function."""

from __future__ import annotations

from tests.engine.conftest import pytest_generate_tests, runner

__all__ = ["pytest_generate_tests", "runner"]
