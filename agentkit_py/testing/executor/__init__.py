"""ReplayExecutor: Inngest functions, run as the server runs them, in a test."""

from agentkit_py.testing.executor.executor import ReplayExecutor, replay_programs
from agentkit_py.testing.executor.runs import (
    JournalEntry,
    KillAt,
    Run,
    StepRecord,
    Wait,
    kill_points,
)
from agentkit_py.testing.executor.server_api import Published

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
