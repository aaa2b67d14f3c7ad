"""Suites: cases run over a network, each in a thread and state of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import anyio

from agentkit_py._core.validation import wrong_number
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.evals.cases import CallMade, Case, Evaluator, Outcome, Saw
from agentkit_py.evals.report import Report, Row
from agentkit_py.events.types import ContextBuilt, Event, ModelReplied, ToolFinished
from agentkit_py.messages import Usage
from agentkit_py.network import Network, Target
from agentkit_py.runtime.current import choose_runtime
from agentkit_py.state import State, fields_of
from agentkit_py.stores.memory import MemoryHistory


@dataclass(kw_only=True)
class Suite:
    """Cases that a network must pass.

    Each run of a case is on a copy of the network whose threads are kept in memory, so that cases
    are independent and a store of yours gets nothing of them. Tools have their usual effects.
    """

    target: Target | Callable[[], Target]
    """The network, or a function that makes a network for each run: with its own data and model."""

    cases: Sequence[Case]
    evaluators: Sequence[Evaluator] = ()
    """For all cases, in addition to their own."""

    name: str = "suite"
    concurrency: int = 4
    """Runs at a time."""

    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Refuse cases that a report could not distinguish."""
        names = [case.name for case in self.cases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"Suite {self.name!r} has two cases called {twice[0]!r}.")
        if self.concurrency < 1:
            raise ConfigurationError(f"Suite(concurrency={self.concurrency}): pass 1 or more.")

    async def run(
        self,
        *,
        repeat: int = 1,
        only: Sequence[str] = (),
        on_done: Callable[[Row], None] | None = None,
    ) -> Report:
        """Run the cases and return the report, its rows in the order of the cases.

        Args:
            repeat: How often each case is run: models differ from run to run.
            only: Names of cases, or parts of names; empty: all.
            on_done: Called with each row, e.g. for a progress bar.

        Raises:
            ConfigurationError: No case has such a name, or ``repeat`` is less than 1.
        """
        chosen = [c for c in self.cases if not only or any(part in c.name for part in only)]
        if wrong := wrong_number(repeat, whole=True, least=1):
            raise ConfigurationError(f"repeat={repeat!r}: {wrong}.")
        if not chosen:
            names = ", ".join(case.name for case in self.cases) or "none"
            raise ConfigurationError(f"only={list(only)!r}: the suite's cases are {names}.")
        limiter = anyio.CapacityLimiter(self.concurrency)

        async def row(case: Case, number: int) -> Row:
            async with limiter:
                found = await self.judged(case, number)
            if on_done is not None:
                on_done(found)
            return found

        calls = [
            lambda case=case, number=number: row(case, number)
            for case in chosen
            for number in range(repeat)
        ]
        rows = await choose_runtime().parallel(calls)
        errors = [one for one in rows if isinstance(one, Exception)]
        if errors:
            raise errors[0]
        return Report(self.name, [one for one in rows if isinstance(one, Row)])

    async def judged(self, case: Case, number: int = 0) -> Row:
        """Run a case and have it judged."""
        outcome = await self.outcome(case)
        checks = [*self.evaluators, *case.evaluators]
        verdicts = {check.name: await check(outcome) for check in checks}
        return Row.of(outcome, number, verdicts)

    async def check(self, case: Case) -> None:
        """Run a case in a test.

        Raises:
            AssertionError: It fails; the message names each evaluator with its reason.
        """
        row = await self.judged(case)
        if not row.passed:
            raise AssertionError(f"{case.name}: {'; '.join(row.reasons)}")

    async def outcome(self, case: Case) -> Outcome:
        """Run a case and return its outcome; an error that ends the run is a part of it."""
        given: Any = self.target
        made = cast("Any", given if isinstance(given, Network | Agent) else given())
        processors = () if made.history is None else made.history.processors
        target: Any = replace(made, history=MemoryHistory(processors=processors))
        watched = _Watched()
        state = _state(target, case)
        thread = f"eval-{case.name}"
        began, text, error = self.clock(), "", ""
        try:
            for said in case.before:
                await target.run(said, thread_id=thread)
            began = self.clock()
            options = {"state": state} if state is not None else {"thread_id": thread}
            done = await target.run(case.input, observer=watched, **options)
            text = done.text
            state = getattr(done, "state", state)
        except Exception as failure:  # noqa: BLE001 - an evaluation looks for cases that fail
            error = f"{type(failure).__name__}: {failure}"
        agents: Sequence[Any] = getattr(target, "agents", [target])
        return Outcome(
            case=case,
            text=text,
            error=error,
            seconds=self.clock() - began,
            usage=watched.usage,
            calls=tuple(watched.calls),
            saw=tuple(watched.saw),
            agents=tuple(watched.agents),
            state={} if state is None else dict(fields_of(state.data)),
            tools={a.name: frozenset(spec.name for spec in a.specs) for a in agents},
        )


def _state(target: Target, case: Case) -> State[Any] | None:
    """Return the state to begin with; None: that of the thread."""
    if case.state is None and not case.thread:
        return None
    data = case.state
    default = getattr(target, "default_state", None)
    if data is None and default is not None:
        data = default.clone().data
    return State(data, messages=case.thread)


class _Watched:
    """Records the events of a run."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.calls: list[CallMade] = []
        self.saw: list[Saw] = []
        self.agents: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, ContextBuilt):
            report: Any = event.report
            self.saw.append(Saw(event.name, tuple(report.sent)))
        elif isinstance(event, ModelReplied):
            self.agents.append(event.name)
            self.usage += event.usage or Usage()
        elif isinstance(event, ToolFinished):
            call, result = event.result.tool, event.result
            arguments: Any = call.arguments if isinstance(call.arguments, dict) else {}
            made = CallMade(event.name, call.name, arguments, result.content, result.is_error)
            self.calls.append(made)
