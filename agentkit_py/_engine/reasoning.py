"""Reasoning of earlier replies in a run: its entries in reports, and the way after a refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agentkit_py._engine.run_context import RunContext
from agentkit_py.errors import BadRequestError, ContextOverflowError
from agentkit_py.messages import Message, OpaqueMessage
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.models.binding import WORDS, digests_of, mark_refused, refuses_reasoning
from agentkit_py.models.blocks import host_of
from agentkit_py.models.compaction import is_compaction
from agentkit_py.processors.report import ContextReport, ReportEntry

LEVEL = NAME = "reasoning"
COMPACTION = "compaction"
LEVELS = (LEVEL, COMPACTION)
"""Levels of the entries that describe how an adapter changes a request."""

_CHANGES = ("messages", "gap", "head")
_NONE: frozenset[str] = frozenset()


def refused_reasoning(run: RunContext, model: Model) -> frozenset[str]:
    """Return the digests of the reasoning that the model's host has refused in this run."""
    values = run.memory.values
    return values.get(_refused_by(model), _NONE) if values else _NONE


def _refused_by(model: Model) -> str:
    return f"reasoning refused by {host_of(model)}"


def with_adapters_word(model: Model, request: ModelRequest, report: ContextReport) -> ContextReport:
    """Return a report with the adapter's entries: summaries used, reasoning left out."""
    summed_up = None
    if request.compaction is not None or OpaqueMessage in {*map(type, request.messages)}:
        summed_up = _summed_up(model, request, report)
    left_out = reasoning_left_out(model, request, report)
    if summed_up is None and left_out is None:
        return report
    entries = [entry for entry in (summed_up, left_out) if entry is not None]
    return replace(report, entries=(*report.entries, *entries))


def _summed_up(model: Model, request: ModelRequest, report: ContextReport) -> ReportEntry | None:
    """Return the entry on the model's own summary; None: there is none, and none was requested."""
    opaque = [m for m in request.messages if isinstance(m, OpaqueMessage)]
    there = [m for m in opaque if is_compaction(m) and m.agent == request.agent]
    if not there and (request.compaction is None or model.takes.compaction):
        return None
    sent = {id(message) for message in model.adapter.sent(model, request)}
    if any(id(message) in sent for message in there):
        count = sum(id(message) not in sent for message in request.messages)
        reason = f"the model's own summary replaces {count} messages"
    elif there:
        reason = "the model's own summary is not used: it was made of other messages or elsewhere"
    else:
        reason = f"{model.model} does not sum up conversations here, so all messages are sent"
    gone = {id(message) for message in request.messages if id(message) not in sent}
    return replace(_entry(report, reason, gone), level=COMPACTION, name=COMPACTION)


def reasoning_left_out(
    model: Model, request: ModelRequest, report: ContextReport
) -> ReportEntry | None:
    """Return the entry on reasoning that is not sent; None: all is sent."""
    left_out = model.adapter.left_out(model, request)
    if not left_out:
        return None
    reasons = Counter(why for _, why in left_out)
    words = [f"{count} because {WORDS[why]}{_cause(why, report)}" for why, count in reasons.items()]
    gone = {id(message) for message, _ in left_out}
    return _entry(report, "not sent: " + "; ".join(words), gone)


def _cause(why: str, report: ContextReport) -> str:
    if why not in _CHANGES:
        return ""
    changed = dict.fromkeys(
        f"{entry.name} ({entry.level})" for entry in report.entries if entry.changed
    )
    return f" ({', '.join(changed)})" if changed else ""


def _entry(report: ContextReport, reason: str, gone: set[int]) -> ReportEntry:
    return ReportEntry(
        level=LEVEL,
        name=NAME,
        reason=reason,
        before=report.sent,
        after=[message for message in report.sent if id(message) not in gone],
        tokenizer=report.tokenizer,
    )


def fallback_entry(report: ContextReport, other: Model, error: Exception) -> ReportEntry:
    """Return the entry on a model that failed, so that another model was called."""
    return ReportEntry(
        level="model",
        name="fallback",
        reason=f"{error}; {other.provider} model {other.model!r} was asked instead",
        before=report.sent,
        after=report.sent,
        tokenizer=report.tokenizer,
    )


def bound_reply(
    model: Model, request: ModelRequest, messages: Sequence[Message], *, healed: bool
) -> tuple[Message, ...]:
    """Return a reply's messages, their reasoning bound to the request.

    Args:
        model: The model that replied.
        request: The request.
        messages: The reply.
        healed: The provider had refused the request because of its reasoning.
    """
    bound = model.bind(request, messages)
    return mark_refused(bound, host_of(model), request.refused) if healed else bound


def can_heal(error: BadRequestError, request: ModelRequest) -> bool:
    """Return whether the request can be sent again without the reasoning that was refused."""
    if isinstance(error, ContextOverflowError) or not refuses_reasoning(error.detail):
        return False
    return not digests_of(request.messages) <= request.refused


def without_reasoning(
    run: RunContext, model: Model, request: ModelRequest, report: ContextReport
) -> tuple[ModelRequest, ContextReport]:
    """Return a request without reasoning, and remember for this run that the host refused it."""
    refused = request.refused | digests_of(request.messages)
    run.memory.values[_refused_by(model)] = refused
    request = replace(request, refused=refused)
    gone = {id(m) for m, _ in model.adapter.left_out(model, request)}
    entry = _entry(report, "the provider refused it, so the request was sent without", gone)
    return request, replace(report, entries=(*report.entries, entry))
