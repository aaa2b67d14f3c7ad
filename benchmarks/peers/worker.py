"""One framework inside its own environment: does what it is told on stdin, answers on stdout.

``python worker.py ADAPTER`` speaks JSON, one object a line. It knows these commands:

- ``{"do": "hello"}``: versions, notes, and which works it has;
- ``{"do": "open", "work": …, "count": … or null, "effort": {…}}``: set a work up, do it once,
  check it, and say how often to do it in a round;
- ``{"do": "sample", "count": …}``: do it that often, and say the wall and CPU seconds of one;
- ``{"do": "close"}``: check that everything done was what the work says, and forget it.
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
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from adapting import Framework, idle
from measuring import Contender, Effort, NotHere, Session, calibrate


class Worker:
    """Keeps one work open at a time."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self.works = framework.works()
        self.loop = asyncio.Runner()
        self.stack = ExitStack()
        self.contender: Contender | None = None

    def hello(self) -> dict[str, Any]:
        """What this is."""
        return {
            "runtime": f"{platform.python_implementation()} {platform.python_version()}",
            "versions": {name: version(name) for name in self.framework.packages},
            "notes": self.framework.notes,
            "absent": self.framework.absent,
            "works": list(self.works),
        }

    def open(self, work: str, count: int | None, effort: dict[str, Any]) -> dict[str, Any]:
        """Set a work up."""
        settings: dict[str, Any] = {**effort, "sizes": ()}
        chosen = Effort(**settings)
        session = Session(chosen, self.loop, self.stack)
        contender = self.works[work](session)
        found = calibrate(contender, count, chosen)
        self.contender = contender
        return {"count": found}

    def sample(self, count: int) -> dict[str, Any]:
        """Do it."""
        assert self.contender is not None
        found = self.contender.sample(count)
        return {"value": found.value, "cpu": found.cpu}

    def close(self) -> dict[str, Any]:
        """Check it, and tidy up."""
        try:
            if self.contender is not None:
                self.contender.check()
        finally:
            self.contender = None
            self.stack.close()
        return {}


def load(name: str) -> Framework:
    """The adapter of that name."""
    module = importlib.import_module(f"adapters.{name}")
    found: Framework = module.FRAMEWORK
    return found


def answer(worker: Worker, line: str) -> dict[str, Any]:
    """Do one command; what goes wrong is an answer too."""
    command = json.loads(line)
    try:
        return getattr(worker, command.pop("do"))(**command)
    except NotHere as reason:
        return {"missing": str(reason)}
    except Exception as error:  # noqa: BLE001 - the page says so, and stderr says where
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Listen until stdin ends."""
    # What a framework prints must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    framework = load(sys.argv[1])
    if "--idle" in sys.argv:
        print(idle(getattr(framework, "network", None)), file=out, flush=True)
        return
    worker = Worker(framework)
    for line in sys.stdin:
        print(json.dumps(answer(worker, line)), file=out, flush=True)
    out.close()
    # Threads that a framework left behind, its telemetry for one, must not keep the process.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
