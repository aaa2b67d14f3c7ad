"""How long ``import agentkit_py`` takes in a new process, byte code compiled."""

from __future__ import annotations

import compileall
from importlib.util import find_spec
from pathlib import Path

from measuring import Case, Contender, Imported, Session


def _contenders(_: Session) -> list[Contender]:
    for module in ("agentkit_py", "pydantic"):
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        compileall.compile_dir(Path(spec.origin).parent, quiet=2)
    return [Imported(f"import {name}", f"import {name}") for name in ("agentkit_py", "pydantic")]


CASES = [Case("import agentkit_py", "ms", _contenders, fixed_count=1)]
