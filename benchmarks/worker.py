"""Run one framework inside its own environment: commands on stdin, answers on stdout.

``python worker.py ADAPTER`` speaks JSON, one object a line:

- ``{"do": "hello"}``: versions, notes, works;
- ``{"do": "open", "work": …, "count": … or null, "effort": {…}}``: set a work up, do it once, check
  it, and return how often to do it in a round;
- ``{"do": "sample", "count": …}``: do it, and return wall and CPU seconds of one operation;
- ``{"do": "close"}``: check everything that was done.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import platform
import sys
import traceback
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any

from harness import Contender, Effort, Framework, NotHere, Session, calibrate


class Worker:
    """Keeps one work open at a time."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self.works = framework.works()
        self.loop = asyncio.Runner()
        self.stack = ExitStack()
        self.contender: Contender | None = None

    def hello(self) -> dict[str, Any]:
        """Describe the framework."""
        return {
            "runtime": f"{platform.python_implementation()} {platform.python_version()}",
            "versions": {name: version(name) for name in self.framework.packages},
            "notes": self.framework.notes,
            "absent": self.framework.absent,
            "works": list(self.works),
        }

    def open(self, work: str, count: int | None, effort: dict[str, Any]) -> dict[str, Any]:
        """Set a work up."""
        self.contender = self.works[work](Session(self.loop, self.stack))
        return {"count": calibrate(self.contender, count, Effort(**effort))}

    def sample(self, count: int) -> dict[str, Any]:
        """Measure it once."""
        assert self.contender is not None
        found = self.contender.sample(count)
        return {"value": found.value, "cpu": found.cpu}

    def close(self) -> dict[str, Any]:
        """Check it and release its resources."""
        try:
            if self.contender is not None:
                self.contender.check()
        finally:
            self.contender = None
            self.stack.close()
        return {}


def answer(worker: Worker, line: str) -> dict[str, Any]:
    """Carry out one command; failures are answers too."""
    command = json.loads(line)
    try:
        return getattr(worker, command.pop("do"))(**command)
    except NotHere as reason:
        return {"missing": str(reason)}
    except Exception as error:  # noqa: BLE001 - the page shows it, and the log has the traceback
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Serve until stdin ends."""
    # Output of a framework must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    framework: Framework = importlib.import_module(f"adapters.{sys.argv[1]}").FRAMEWORK
    worker = Worker(framework)
    for line in sys.stdin:
        print(json.dumps(answer(worker, line)), file=out, flush=True)
    out.close()
    # Threads that a framework leaves behind (telemetry) must not keep the process alive.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
