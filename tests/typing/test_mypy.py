"""What mypy in strict mode says of a user's program."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER_CODE = Path("tests/typing/user_code.py")
WHOLE = ("examples/tutorial.py", "examples/support_network.py", "examples/typed_agents.py")
"""Programs of the pages without a mistake: the tutorial's desk among them."""

_IN_LAMBDAS = ("ctx.state.data.custmer", "said.safe")
"""What mypy does not find: it does not check lambdas where types are still to be inferred."""


def test_mypy_finds_the_mistakes_that_pyright_finds_and_no_others() -> None:
    """Each is marked in the program with the comment for pyright."""
    command = [sys.executable, "-m", "mypy", "--strict", str(USER_CODE), *WHOLE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE)
    assert {name for name, _ in found} <= {str(USER_CODE)}, done.stdout
    text = (ROOT / USER_CODE).read_text(encoding="utf-8")
    lines = text.splitlines()
    marked = {n for n, line in enumerate(lines, 1) if "# pyright: ignore" in line}
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    simple = [node for node in statements if not hasattr(node, "body")]
    spans = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in simple]
    mistakes = [[n for n in marked if n in span] for span in spans]
    expected = {n for span, own in zip(spans, mistakes, strict=True) if own for n in span} | marked
    named = {int(number) for _, number in found}
    assert named <= expected, done.stdout
    missed = {
        tuple(own)
        for span, own in zip(spans, mistakes, strict=True)
        if own and not named & set(span)
    }
    left = [lines[own[0] - 1] for own in missed]
    assert [line for line in left if not any(word in line for word in _IN_LAMBDAS)] == []
