"""The rows, in the order of the table."""

from __future__ import annotations

from measuring import Case, Effort

from cases import creation, imports, listening, processing, runs, searching, storing, tracing


def all_cases(effort: Effort) -> list[Case]:
    """Every row."""
    return [
        *imports.CASES,
        *creation.CASES,
        *runs.CASES,
        *listening.CASES,
        *tracing.CASES,
        *processing.cases(effort.sizes),
        *storing.CASES,
        *searching.cases(effort),
    ]
