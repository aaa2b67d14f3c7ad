"""The person at the terminal decides what tools may do."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

import anyio
from rich.console import Console
from rich.text import Text

from agentkit_py.cli.console import clean
from agentkit_py.cli.transcript import call_line
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest, Decision

_PROMPT = "    [y/n, or why not] "
_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


class TerminalApprover:
    """Pass it as ``approver=``: asks for each call, again where the answer is empty.

    The end of the input refuses what is left.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    async def __call__(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask. Nothing else happens meanwhile: the run has nothing to do until it is answered."""
        try:
            with _interruptible():
                return self._ask(request)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)  # to whoever stops runs, which are cancelled then
            await anyio.sleep_forever()
            raise

    def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        if not request.calls:
            self._line(f"{request.agent} asks: {request.message}")
            decision = self._decision()
            # What a tool asks in its own words may be answered in words, too.
            data = {"answer": decision.reason} if decision.reason else {}
            return ApprovalAnswer(approved=decision.approved, reason=decision.reason, data=data)
        found: dict[int, Decision] = {}
        for index, call in enumerate(request.calls):
            self._line(f"{request.agent} wants {call_line(call)}")
            found[index] = self._decision()
        return ApprovalAnswer(approved=False, calls=found)

    def _decision(self) -> Decision:
        line = self._read()
        while line == "":  # a key pressed too often is no answer
            line = self._read()
        if line is None:
            return Decision(approved=False, reason="Nobody was there to answer.")
        if line.lower() in _YES:
            return Decision(approved=True)
        return Decision(approved=False, reason="" if line.lower() in _NO else line)

    def _read(self) -> str | None:
        """The next line; None at the end of the input."""
        if sys.stdin.isatty():
            try:
                return input(_PROMPT).strip()
            except EOFError:
                self._console.print()
                return None
        line = sys.stdin.readline()
        self._console.print(Text(f"{_PROMPT}{line.strip()}"), soft_wrap=True)
        return line.strip() if line else None

    def _line(self, text: str) -> None:
        self._console.print(Text(f"  ? {clean(text)}", "yellow"), soft_wrap=True)


@contextmanager
def _interruptible() -> Generator[None]:
    """Ctrl-C ends the prompt, instead of being noted for when there is a line."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
