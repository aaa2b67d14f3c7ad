"""The examination: two runs under `ReplayExecutor`, and what they show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

from agentkit_py.agent import Agent
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.inngest.functions import create_functions
from agentkit_py.inngest.outputs import MAX_OUTPUT
from agentkit_py.inngest.serving import development_client
from agentkit_py.inngest.steps import MAX_STEPS
from agentkit_py.models import openai
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.routing import RouterContext
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores.memory import MemoryHistory
from agentkit_py.testing.doctor.callbacks import Observations, Observed
from agentkit_py.testing.doctor.explorer import Explorer
from agentkit_py.testing.doctor.report import (
    Callback,
    Figures,
    Finding,
    FindingName,
    Report,
    Severity,
)
from agentkit_py.testing.executor import ReplayExecutor, Run, Wait
from agentkit_py.testing.provider import FakeProvider

MAX_STATE = 32 * 1024 * 1024
"""Bytes of all outputs of a run at the most (inngest/pkg/consts)."""

_NEAR = 0.5
"""The part of a limit from which on it is worth a warning: real threads are longer."""

_BEFORE, _WINDOW = 60, 120
"""Characters that are shown before the first difference, and in all."""

_STEP = re.compile(r'"op": "(\w+)", "step": "([^"]*)"')
_FIRST_INFERENCE = re.compile(r".*\.0\.infer")


async def examine(
    target: Network | Agent,
    *,
    input: str = "Hello, I need your help.",  # noqa: A002 - as `run` calls it
    model: Model | None = None,
    approve: bool = False,
) -> Report:
    """Run a network or an agent as an Inngest function, and say what would not survive that.

    It is run twice, the first time with each request for what is next made twice. Tools are really
    called, so let them work on data for tests. Threads are kept in memory, whatever its history.

    Args:
        target: The network, or an agent by itself.
        input: What the user says.
        model: A real model; None: one that calls each tool once, with made-up arguments.
        approve: What a person says to every question.
    """
    # The first is for comparing: it asks for everything twice. The second is as on the server.
    compared = await _run(target, Observations(), input, model, check=True, approve=approve)
    seen = Observations()
    runs = [compared, await _run(target, seen, input, model, check=False, approve=approve)]
    return Report(
        target=target.name,
        figures=_figures(runs[-1]),
        findings=list(_unique(_findings(_as_network(target), runs, seen))),
        callbacks=[Callback(name, calls) for name, calls in seen.calls.items()],
        tools={name: seen.tools[name] for name in (*_tool_names(target), *seen.listed)},
    )


class _AnyKey(dict[str, str]):
    """An environment in which every provider's key is set."""

    def get(self, key: str, default: Any = None, /) -> Any:  # noqa: ARG002 - a dict's signature
        return "sk-doctor"


async def _run(
    target: Network | Agent,
    seen: Observations,
    text: str,
    model: Model | None,
    *,
    check: bool,
    approve: bool,
) -> Run:
    given = _as_network(target)
    processors = given.history.processors if given.history is not None else ()
    network = Observed(seen).network(
        given,
        history=MemoryHistory(processors=processors),
        default_model=model or given.default_model or openai("gpt-4.1"),
    )
    if model is not None:
        network.agents = [agent.with_model(model) for agent in network.agents]
    transport, local = _model_access(model, [agent.name for agent in given.agents])
    client = development_client("doctor")
    functions = create_functions(client, networks=[network], local=local)
    executor = ReplayExecutor(client, functions, transport=transport, seed=int(check), check=check)

    def answer(wait: Wait) -> Mapping[str, Any] | None:
        found = re.search(r"approvalId == '([^']+)'", wait.expression or "")
        if wait.event != APPROVAL_EVENT or found is None:
            return None
        return {"approvalId": found[1], "approved": approve, "reason": "The doctor says so."}

    return await executor.run(functions[0], {"input": text}, answer=answer)


def _model_access(
    model: Model | None, agents: Sequence[str]
) -> tuple[httpx.AsyncBaseTransport, DirectRuntime | None]:
    if model is not None:
        return model.transport or httpx.AsyncHTTPTransport(), None
    fake = FakeProvider(Explorer(agents))
    return fake.transport, DirectRuntime(transport=fake.transport, environment=_AnyKey())


def _as_network(target: Network | Agent) -> Network:
    if isinstance(target, Network):
        return target

    def once(context: RouterContext) -> Agent | None:
        return target if context.call_count == 0 else None

    return Network(name=target.name, agents=[target], router=once)


def _tool_names(target: Network | Agent) -> list[str]:
    agents = target.agents if isinstance(target, Network) else [target]
    return list(dict.fromkeys(name for agent in agents for name in agent.tool_map))


def _figures(run: Run) -> Figures:
    sizes = {step.name: len(json.dumps(step.output)) for step in run.steps}
    largest = max(sizes, key=lambda name: sizes[name], default="")
    return Figures(
        requests=run.requests,
        turns=sum(_FIRST_INFERENCE.fullmatch(name) is not None for name in run.names),
        steps=len(run.steps),
        largest_step=largest,
        largest_output=sizes.get(largest, 0),
        state=run.size,
    )


def _findings(network: Network, runs: list[Run], seen: Observations) -> Iterator[Finding]:
    for (callback, deed), count in seen.deeds.items():
        text = f"{deed} outside of steps, {count} times in one run"
        yield Finding("side-effect-on-replay", "error", callback, f"{text}; {_advice(callback)}")
    for run in runs:
        if run.status != "completed":
            yield _failure(run)
        for difference in run.differences:
            yield _difference(run, difference)
        yield from _collisions(run)
    if runs[0].status == runs[1].status and sorted(runs[0].names) != sorted(runs[1].names):
        other = sorted(set(runs[0].names) ^ set(runs[1].names))[:5]
        text = f"two runs had different steps ({', '.join(other)}); do tools remember the first?"
        yield Finding("differs-between-replays", "warning", runs[0].function, text)
    yield from _limits(network, runs[-1])


def _advice(callback: str) -> str:
    if callback.startswith("tool "):
        return "do it in ctx.step.run(…), or leave out steps=True."
    return "do it in a tool, which runs in a step of its own."


def _difference(run: Run, text: str) -> Finding:
    found = re.fullmatch(r"(?s).*?: first it asked for (.*), then for (.*)", text)
    if found is not None:
        first, second = found.groups()
        at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
        start = max(0, (at or 0) - _BEFORE)
        shown = [one if at is None else one[start : start + _WINDOW] for one in (first, second)]
        text = f"the same request asked for …{shown[0]}… and then for …{shown[1]}…"
    # The same steps with other contents: the first that was asked for counts, the rest is dropped.
    steps = [_STEP.findall(one) for one in (found.groups() if found is not None else ())]
    severity: Severity = "warning" if steps and steps[0] == steps[1] else "error"
    advice = "times, chance and what others may change belong in tools."
    return Finding("differs-between-replays", severity, run.function, f"{text}; {advice}")


def _failure(run: Run) -> Finding:
    error = run.error or {}
    message = str(error.get("message", "no error was given"))
    kinds: Sequence[tuple[str, FindingName]] = [
        (r"Two steps of this function are called", "colliding-ids"),
        (r"more than [\d,]+ steps|step limit", "too-many-steps"),
        (r"keeps at most|size (limit|is greater)", "too-large"),
        (r"StateError|JSON", "not-json"),
    ]
    name: FindingName = "run-failed"
    for pattern, kind in reversed(kinds):
        name = kind if re.search(pattern, message) else name
    return Finding(name, "error", run.function, message)


def _collisions(run: Run) -> Iterator[Finding]:
    for name, count in Counter(run.names).items():
        if count > 1:
            text = f"{count} steps have this name; a replay may mix them up."
            yield Finding("colliding-ids", "error", name, text)


def _limits(network: Network, run: Run) -> Iterator[Finding]:
    figures = _figures(run)
    measured: list[tuple[FindingName, str, int, int, str]] = [
        ("too-large", figures.largest_step, figures.largest_output, MAX_OUTPUT, "bytes of output"),
        ("too-large", run.function, figures.state, MAX_STATE, "bytes of outputs in all"),
        ("too-many-steps", run.function, figures.steps, MAX_STEPS, "steps"),
    ]
    for name, where, value, limit, what in measured:
        if value > limit * _NEAR:
            severity: Severity = "error" if value > limit else "warning"
            yield Finding(name, severity, where, f"{value:,} {what}; Inngest's limit is {limit:,}.")
    per_turn = figures.steps_per_turn
    if per_turn and not (network.max_iter and network.max_iter * per_turn <= MAX_STEPS):
        turns = int(MAX_STEPS / per_turn)
        text = (
            f"at {per_turn:.1f} steps a turn, {MAX_STEPS} steps are reached after {turns} turns, "
            f"and max_iter={network.max_iter} allows more."
        )
        yield Finding("too-many-steps", "warning", network.name, text)


def _unique(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Each once: both runs find the same."""
    yield from dict.fromkeys(findings)
