"""Handoffs of an agent: tools that end its turn, so that the network continues with another."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.handoffs import handed_over
from agentkit_py._engine.parts.base import Inference, Part
from agentkit_py.tools.definition import Tool
from agentkit_py.tools.values import error_content


class Handoffs(Part):
    """Offers the handoffs that are possible now; the first that is called ends the turn."""

    async def offered(self) -> Mapping[str, Tool]:
        """Return the tools of handoffs to enabled agents of the network; alone, none."""
        run, network, tools = self.run, self.run.network, dict[str, Tool]()
        for name, (handoff, tool) in self.turn.agent.handoffs.items():
            target = None if network is None else network.agents.get(handoff.target)
            if target is None:
                continue
            spec, context = run.choices.spec_of(target), run.context_of(self.turn.agent)
            is_possible = handoff.when is None or await resolve(handoff.when(context))
            if is_possible and await spec.is_enabled(run.context_of(spec)):
                tools[name] = tool
        return tools

    async def replied(self, inference: Inference) -> None:
        """Refuse all handoffs of a reply but the first."""
        handoffs, tools = self.turn.agent.handoffs, inference.tools
        calls = [i for i, c in enumerate(inference.calls) if c.name in handoffs and c.name in tools]
        for index in calls[1:]:
            text = "Only one agent can continue: the first of the handoffs."
            inference.settle(index, error_content("HandoffError", text))

    async def after_tools(self, inference: Inference) -> None:
        """End the turn of an agent that has handed over."""
        if handed_over(inference.result, dict(self.turn.agent.handoffs)) is not None:
            inference.end()
