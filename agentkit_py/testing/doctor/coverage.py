"""The parts of a network that the doctor's runs did not examine, with reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentkit_py._core.json import as_object
from agentkit_py.agent import Agent, RoutingAgent
from agentkit_py.network import Network
from agentkit_py.testing.doctor.exploring import Exploration, all_agents
from agentkit_py.testing.doctor.report import Unexamined
from agentkit_py.testing.doctor.watching import CallbackWatch
from agentkit_py.testing.executor import Run

_OF_ROUTERS = ("select_agent", "done")
"""The tools of the default routing agent."""

_CALL = re.compile(r"(?P<agent>[^./]+)(?:\.\d+){1,2}\.tool\.\d+\.(?P<tool>[^/]+)$")
"""A call's step; of a call inside an agent that is used as a tool, the part after the last "/"."""

_INFERENCE = re.compile(r"\.(?P<agent>[^.]+)\.\d+\.\d+\.infer")


def unexamined(
    network: Network[Any, Any],
    exploration: Exploration,
    watch: CallbackWatch,
    runs: Sequence[Run],
    *,
    approve: bool,
) -> list[Unexamined]:
    """Return agents without a turn, handoffs that were not made, and tools that did not run.

    This includes tools whose calls all failed: their remaining code was never reached.
    """
    steps = [step for run in runs for step in run.steps]
    acted = {found["agent"] for step in steps if (found := _INFERENCE.search(step.name))}
    answers: dict[tuple[str, str], str | None] = {}
    for step in steps:
        found = _CALL.search(step.name)
        if found is not None:
            key, problem = (found["agent"], found["tool"]), _error_of(step.output)
            answers[key] = None if answers.get(key, "") is None else problem
    list_of = _Listing(exploration, watch, acted, answers, approve=approve)
    agents = all_agents(network)
    return [
        *list_of.agents(agents),
        *list_of.handoffs(),
        *list_of.tools(agents),
        *list_of.other_tools(),
    ]


def _error_of(output: object) -> str | None:
    """Return a call's error, or None."""
    value = as_object((as_object(output) or {}).get("value")) or {}
    error = value.get("error")
    if error is None:
        return None
    facts = as_object(error) or {}
    return f"{facts.get('name', 'error')}: {facts.get('message', error)}"


class _Listing:
    def __init__(
        self,
        exploration: Exploration,
        watch: CallbackWatch,
        acted: set[str],
        answers: dict[tuple[str, str], str | None],
        *,
        approve: bool,
    ) -> None:
        self._known = exploration
        self._watch = watch
        self._acted = acted
        self._answers = answers
        self._approve = approve

    def agents(self, agents: Sequence[Agent[Any, Any]]) -> Iterator[Unexamined]:
        for agent in agents:
            if not self._had_turn(agent):
                yield Unexamined("agent", agent.name, "no run gave it a turn")

    def _had_turn(self, agent: Agent[Any, Any]) -> bool:
        asked = isinstance(agent, RoutingAgent) and "route" in self._acted
        seen = self._known.seen
        return agent.name in self._acted or (asked and (agent.name in seen or not seen))

    def handoffs(self) -> Iterator[Unexamined]:
        for agent, made in self._known.handoffs.items():
            for tool, target in made.items():
                answer = self._answers.get((agent, tool), "")
                if answer is not None or target not in self._acted:
                    yield Unexamined("handoff", tool, f"of {agent}: {self._why(agent, tool)}")

    def tools(self, agents: Sequence[Agent[Any, Any]]) -> Iterator[Unexamined]:
        own = {label: (agent, name) for (agent, name), label in self._known.labels.items()}
        asking = {
            self._known.labels[agent.name, name]
            for agent in agents
            for name, tool in agent.tool_map.items()
            if tool.needs_approval is not False
        }
        for label in [*own, *(name for name in self._watch.listed if name not in own)]:
            if label in self._watch.finished:
                continue
            why = self._watch.failed.get(label)
            if why is not None:
                why = f"it raised {why}"
            elif label in self._watch.refused:
                why = f"its arguments were refused: {self._watch.refused[label]}"
            else:
                why = self._why(*own.get(label, ("", label)))
            if label in asking and not self._approve and label in self._known.called:
                why = "its call was denied; pass approve to approve calls"
            yield Unexamined("tool", label, why)

    def other_tools(self) -> Iterator[Unexamined]:
        """Yield tools of agents that are tools of others, or are chosen when the run is made."""
        known = {name for _, name in self._known.labels} | {*self._watch.listed, *_OF_ROUTERS}
        for made in (*self._known.handoffs.values(), *self._known.outputs.values()):
            known.update(made)
        ran = {tool for (_, tool), problem in self._answers.items() if problem is None}
        for name in sorted({tool for _, tool in self._known.offered} - known - ran):
            problem = next((why for (_, tool), why in self._answers.items() if tool == name), None)
            yield Unexamined("tool", name, problem or "its call was not carried out")

    def _why(self, agent: str, tool: str) -> str:
        if agent and agent not in self._acted:
            return "its agent had no turn"
        problem = self._answers.get((agent, tool))
        if problem is not None:
            return f"its call was answered with {problem}"
        if self._known.label(agent, tool) in self._known.called:
            return "its call was not carried out"
        return "the model did not call it"
