"""The target, its threads and its calls, as JSON for the page, with words masked where asked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from agentkit_py.agent import Agent
from agentkit_py.codec import message_to_dict
from agentkit_py.errors import AgentKitError
from agentkit_py.messages import TextMessage, text_of
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.playground.edits import processors_json
from agentkit_py.playground.levels import message_json
from agentkit_py.playground.recorder import Recorded, as_json, finish_json, usage_json
from agentkit_py.playground.runs import Playground, RecordedRun
from agentkit_py.playground.stored import seen_json, stored_runs
from agentkit_py.processors.base import HistoryProcessor
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import USER, AgentResult

MAX_RESULTS = 300
"""Number of newest results of a thread that the page gets."""

_THREADS = 100
_TITLE = 80


def target_json(playground: Playground) -> dict[str, Any]:
    """Describe the target."""
    target = playground.target
    network = target if isinstance(target, Network) else None
    default = None if network is None else network.default_model
    history = target.history
    return {
        "name": target.name,
        "kind": "agent" if network is None else "network",
        "description": target.description,
        "history": None if history is None else repr(history),
        "keeps": playground.store is not None,
        "levels": {
            "history": _chain([] if history is None else history.chain),
            "network": _chain([] if network is None else network.chain),
        },
        "agents": [
            _agent(agent, default)
            for agent in ([target] if isinstance(target, Agent) else target.agents)
        ],
        "currency": playground.prices.currency,
        "priced": sorted(playground.prices.models),
        "examples": playground.examples,
    }


def _agent(agent: Agent[Any, Any], default: object) -> dict[str, Any]:
    model = agent.model or default
    spec = agent.resolve()
    system = spec.system
    return {
        "name": agent.name,
        "description": agent.description,
        "system": system if isinstance(system, str) else None,
        "model": model.model if isinstance(model, Model) else None,
        "provider": model.provider if isinstance(model, Model) else None,
        "tools": [{"name": spec.name, "description": spec.description} for spec in agent.specs],
        "handoffs": {name: handoff.target for name, (handoff, _) in spec.handoffs.items()},
        "servers": len(agent.mcp_servers),
        "processors": _chain(agent.chain),
    }


def _chain(chain: Any) -> list[dict[str, str]]:
    processors: list[HistoryProcessor] = list(chain)
    return [{"name": p.name, "reason": p.reason} for p in processors]


async def threads_json(playground: Playground) -> list[dict[str, Any]]:
    """List the threads of the store, or else of this process's runs; newest first."""
    store = playground.store
    if store is None:
        newest = reversed(playground.runs.values())
        found = {run.thread_id: run for run in newest if run.thread_id is not None}
        return [
            {"id": thread, "title": run.input[:_TITLE], "updatedAt": run.began_at.isoformat()}
            for thread, run in found.items()
        ]
    running = {run.thread_id for run in playground.runs.values() if run.task is not None}
    return [
        {
            "id": thread.id,
            "title": thread.title or thread.id,
            "updatedAt": thread.updated_at.isoformat(),
            "running": thread.id in running,
        }
        for thread in await store.list_threads(_THREADS)
    ]


async def thread_json(
    playground: Playground, thread_id: str, after: int | None = None
) -> dict[str, Any]:
    """Return a thread's stored results, its runs, and the number of the last event.

    Runs that were not recorded here are made from their results. With ``after`` only results from
    this position on, and only recorded runs, without their events.
    """
    # Before anything is awaited, so that no event is lost between runs and stream.
    seq = playground.seq
    own = [run for run in playground.runs.values() if run.thread_id == thread_id]
    runs = [run.to_dict(events=after is None) for run in own]
    results: list[AgentResult] = []
    questions: list[dict[str, Any]] = []
    store, count = playground.store, 0
    if store is not None and await store.thread_exists(thread_id):
        found = await playground.questions(thread_id)
        questions = [question.request.to_dict() for question in found]
        count = await store.count_results(thread_id)
        wanted = MAX_RESULTS if after is None or after > count else min(count - after, MAX_RESULTS)
        page = await store.page(thread_id, count, wanted) if wanted else []
        results = [one.result for one in page]
    offset = count - len(results)
    if after is None:
        runs = _with_earlier(playground, own, runs, results, offset)
    return {
        "id": thread_id,
        "seq": seq,
        "runs": runs,
        "questions": questions,
        "offset": offset,
        "results": [_result(result) for result in results],
    }


def _with_earlier(
    playground: Playground,
    own: Sequence[RecordedRun],
    recorded: list[dict[str, Any]],
    results: Sequence[AgentResult],
    offset: int,
) -> list[dict[str, Any]]:
    """Return recorded runs with those before and between them, in the order of the thread."""
    found, place = list[dict[str, Any]](), 0
    for run, shown in zip(own, recorded, strict=True):
        end = max(place, (run.first or 0) - offset)
        found += stored_runs(playground.target, results[place:end], offset + place)
        found.append(shown)
        place = len(results) if run.last is None else max(end, run.last - offset)
    return [*found, *stored_runs(playground.target, results[place:], offset + place)]


def _result(result: AgentResult) -> dict[str, Any]:
    return {
        "agent": result.agent_name,
        "user": result.agent_name == USER,
        "createdAt": result.created_at.isoformat(),
        "usage": usage_json(result.usage),
        "messages": [message_json(message) for message in result.messages],
    }


def call_json(recorded: Recorded) -> dict[str, Any]:
    """Describe a model call."""
    found: dict[str, Any] = {
        "call": recorded.number,
        "step": recorded.step_id,
        "model": recorded.model.model,
        "provider": recorded.model.provider,
        "streamed": recorded.streamed,
        "request": as_json(recorded.request),
        "reply": as_json(recorded.reply),
        "error": recorded.error,
        "usage": usage_json(recorded.usage),
        "cost": recorded.cost,
        **finish_json(recorded.finish),
        "state": recorded.state,
    }
    call = recorded.call
    if call is None or call.report is None:
        return found
    return {
        **found,
        **seen_json(call.report),
        "agent": call.request.agent,
        "tools": [
            {"name": spec.name, "description": spec.description} for spec in call.request.tools
        ],
        "processors": processors_json(call),
        "editable": not call.problem,
        "problem": call.problem,
    }


def case_json(recorded: Recorded) -> dict[str, Any] | None:
    """Return a model call as a case of an evaluation: a line that `read_cases` reads.

    The last question that the call saw is the input, the messages before it are the thread, and the
    model's reply is the expected answer; None if it saw no question, or has not ended.
    """
    call = recorded.call
    if call is None or call.report is None or recorded.reply is None or recorded.error:
        return None
    sent = [message for message in call.report.sent if message.role != "system"]
    asked = max((n for n, message in enumerate(sent) if message.role == "user"), default=None)
    if asked is None:
        return None
    try:
        decoded = recorded.model.decode(json.loads(recorded.reply))
    except (AgentKitError, ValueError):  # it ended the run, or made it ask again
        return None
    said = [m.text for m in decoded.messages if isinstance(m, TextMessage)]
    return {
        "name": f"{call.report.agent}, call {recorded.number}",
        "input": text_of(sent[asked]),
        "before": [],
        "thread": [message_to_dict(message) for message in sent[:asked]],
        "state": None,
        "expected": "".join(said) or None,
    }


_WORDS = frozenset(
    {
        *("text", "input", "content", "system", "title", "answer"),
        *("error", "reason", "facts", "finishDetails", "metadata", "toolInput"),
        *("data", "before", "after", "state"),
    }
)
"""Fields with words of people, models and tools; all others are names, ids and figures."""

CALL_FIELDS = frozenset({"request", "reply", "expected"})
"""Further fields with words in the description of a model call."""


def masked(value: Any, redactor: Redactor | None, also: Collection[str] = ()) -> Any:
    """Mask words in JSON for the page, in the fields ``also``, too; without a redactor none."""
    if redactor is None:
        return value
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return {
            key: redactor.value(item)
            if (key in _WORDS or key in also) and not isinstance(item, int | float)
            else masked(item, redactor, also)
            for key, item in found.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item, redactor, also) for item in cast("list[Any]", value)]
    return value
