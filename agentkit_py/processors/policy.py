"""ContextPolicy: ready-made chains of processors that explain themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from agentkit_py.messages import Messages
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import apply_processors
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext
from agentkit_py.processors.budget import Budget
from agentkit_py.processors.compose import Threshold
from agentkit_py.processors.settings import whole
from agentkit_py.processors.tables import TableResults
from agentkit_py.processors.tool_results import Deduplicate

Step: TypeAlias = tuple[HistoryProcessor, str]
"""A processor, and when and why it is there."""

_USED = 0.5
_TARGET = 0.8
_NEWEST = 5


class ContextPolicy(HistoryProcessor):
    """Processors as one, with the reason for each; each has its own entry in the report.

    ``processors=[ContextPolicy.balanced(128_000)]``; ``print(policy.explain())``.

    Args:
        name: Name in reports.
        steps: The processors in their order, each with the sentence that `explain` gives.
    """

    def __init__(self, name: str, steps: Sequence[Step]) -> None:
        """Keep the steps."""
        self._name = name
        self._steps = tuple(steps)

    @classmethod
    def balanced(cls, window: int, *, model: Model | None = None) -> ContextPolicy:
        """Return the policy that is right for most.

        On the recorded conversations of docs/policies.md it sends about three quarters of the
        characters, and every later call and answer finds its values.

        Args:
            window: The model's context window in tokens.
            model: Summarises what the window has no room for; None: it is left out.

        Raises:
            ConfigurationError: ``window`` is no whole number of at least 1,000.
        """
        whole(1000)("ContextPolicy.balanced: window", window)
        half = int(window * _USED)
        newest = Budget(window, target=_TARGET, model=model, compress_tool_output=False)
        oldest = "are summarised" if model else "are left out"
        return cls(
            "ContextPolicy.balanced",
            [
                (
                    Threshold(half, then=[TableResults(used_rows=True, keep_recent=_NEWEST)]),
                    f"Beyond {half:,} tokens: rows of older results that nobody mentioned go.",
                ),
                (
                    TableResults(),
                    "Always: results are tables, so keys stand once. No value is lost.",
                ),
                (
                    Deduplicate(),
                    "Always: a result that stands there already is not repeated.",
                ),
                (
                    newest,
                    f"Beyond {int(window * _TARGET):,} tokens: the oldest messages {oldest}.",
                ),
            ],
        )

    @property
    def name(self) -> str:
        """The policy's name."""
        return self._name

    @property
    def reason(self) -> str:
        """The names of its processors."""
        return " → ".join(step.name for step, _ in self._steps)

    @property
    def members(self) -> Sequence[HistoryProcessor]:
        """The processors."""
        return [step for step, _ in self._steps]

    def explain(self) -> str:
        """Return a line for each step: when it does what, and why."""
        return "\n".join(f"{number}. {why}" for number, (_, why) in enumerate(self._steps, 1))

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return what all of them leave."""
        return await apply_processors(messages, self.members, context, level=context.level)
