"""ReplayExecutor: Inngest functions, run as the server runs them, in a test."""

from agentkit_py.testing.executor.api import Published
from agentkit_py.testing.executor.executor import ReplayExecutor
from agentkit_py.testing.executor.programs import replay_programs
from agentkit_py.testing.executor.records import (
    JournalEntry,
    KillAt,
    Run,
    StepRecord,
    Wait,
    kill_points,
)

__all__ = [
    "JournalEntry",
    "KillAt",
    "Published",
    "ReplayExecutor",
    "Run",
    "StepRecord",
    "Wait",
    "kill_points",
    "replay_programs",
]
