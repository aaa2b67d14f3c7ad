"""Parts of an agent's turn: all concerns but input, model call and tools, a class each.

The agent loop knows `Part` and `Inference` only. To add a concern, write a part in a module of its
own, and make it in `_parts_of_run` or `_parts_of_agent`.
"""

from __future__ import annotations

from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.answers import AnswerReader
from agentkit_py._engine.guarding import AskAgent, Guards
from agentkit_py._engine.limits import NO_LIMITS
from agentkit_py._engine.parts.base import Inference, Part, TakeTurn, empty_result, finished
from agentkit_py._engine.parts.guardrails import Guardrails
from agentkit_py._engine.parts.handoffs import Handoffs
from agentkit_py._engine.parts.hooks import Hooks
from agentkit_py._engine.parts.late_messages import LateMessages
from agentkit_py._engine.parts.limits import Limits
from agentkit_py._engine.parts.output import Output
from agentkit_py._engine.parts.reply_events import ReplyEvents
from agentkit_py._engine.run_context import RunContext

__all__ = ["Inference", "Part", "TakeTurn", "empty_result", "finished", "parts_of"]


def parts_of(run: RunContext, turn: Turn, ask: AskAgent, *, keep: bool) -> list[Part]:
    """Return the parts that an agent's turn needs, in their order.

    Args:
        run: The run.
        turn: The turn.
        ask: Runs an agent that a guardrail asks.
        keep: Results are added to the transcript.
    """
    may_check = run.choices.may_have_guardrails(turn.agent)
    guards = Guards(run, turn, ask) if may_check else None
    parts = _parts_of_run(run, turn, guards, keep=keep)
    parts += _parts_of_agent(run, turn, guards)
    if guards is not None:
        parts.append(Guardrails(run, turn, guards, parts, keep))
        if run.monitor.is_active and guards.has_output:  # a reply is emitted once it has passed
            parts.append(ReplyEvents(run, turn))
    return parts


def _parts_of_run(run: RunContext, turn: Turn, guards: Guards | None, *, keep: bool) -> list[Part]:
    """Return the parts that options and store of the run ask for."""
    parts = list[Part]()
    if run.spending.meter.limits is not NO_LIMITS:
        parts.append(Limits(run, turn))
    if keep and run.thread.config is not None:
        parts.append(LateMessages(run, turn, guards))
    return parts


def _parts_of_agent(run: RunContext, turn: Turn, guards: Guards | None) -> list[Part]:
    """Return the parts that options of the agent ask for, and the events of its replies."""
    agent, parts = turn.agent, list[Part]()
    if agent.lifecycle.on_response is not None or agent.lifecycle.on_finish is not None:
        parts.append(Hooks(run, turn))
    if run.monitor.is_active and not (guards is not None and guards.has_output):
        parts.append(ReplyEvents(run, turn))
    if agent.handoffs:
        parts.append(Handoffs(run, turn))
    if turn.output is not None:
        redactors = () if guards is None else guards.spec.output.redactors
        parts.append(Output(run, turn, AnswerReader(run, turn, turn.output), redactors))
    return parts
