"""Evaluations: cases that a network must pass, run many times, and compared with earlier runs."""

from agentkit_py.evals.cases import (
    CallMade,
    Case,
    Evaluator,
    Outcome,
    Saw,
    Verdict,
    case_from_thread,
    read_cases,
)
from agentkit_py.evals.evaluators import (
    answered_by,
    called,
    contains,
    equals,
    evaluator,
    judge,
    matches_schema,
    no_contamination,
    not_called,
    not_saw,
    saw,
    within,
)
from agentkit_py.evals.report import Change, Diff, Report, Row
from agentkit_py.evals.running import Suite

__all__ = [
    "CallMade",
    "Case",
    "Change",
    "Diff",
    "Evaluator",
    "Outcome",
    "Report",
    "Row",
    "Saw",
    "Suite",
    "Verdict",
    "answered_by",
    "called",
    "case_from_thread",
    "contains",
    "equals",
    "evaluator",
    "judge",
    "matches_schema",
    "no_contamination",
    "not_called",
    "not_saw",
    "read_cases",
    "saw",
    "within",
]
