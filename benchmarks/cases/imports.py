"""How long ``import agentkit_py`` takes in a new process, byte code compiled."""

from __future__ import annotations

import compileall
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from measuring import Case, Contender, Sample, Session

_SCRIPT = """
import sys, time
start, cpu = time.perf_counter(), time.process_time()
import {module}
print(time.perf_counter() - start, time.process_time() - cpu, {module}.__name__)
"""


@dataclass(frozen=True, slots=True)
class _Import:
    module: str

    @property
    def name(self) -> str:
        return f"import {self.module}"

    def sample(self, count: int) -> Sample:
        found = [self._once() for _ in range(count)]
        return Sample(sum(w for w, _ in found) / count, sum(c for _, c in found) / count)

    def check(self) -> None:
        assert self._once()[0] > 0

    def _once(self) -> tuple[float, float]:
        command = [sys.executable, "-c", _SCRIPT.format(module=self.module)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        wall, cpu, name = done.stdout.split()
        assert name == self.module
        return float(wall), float(cpu)


def _contenders(_: Session) -> list[Contender]:
    for module in ("agentkit_py", "pydantic"):
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        compileall.compile_dir(Path(spec.origin).parent, quiet=2)
    return [_Import("agentkit_py"), _Import("pydantic")]


CASES = [Case("import agentkit_py", "ms", _contenders, fixed_count=1)]
