"""The outputs of functions: a run or a result as JSON, in a common shape, and their reading."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from agentkit_py._core.json import JsonObject, as_list, as_object, find_non_json
from agentkit_py.codec import message_to_dict
from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.inngest.steps import find_rounded, from_exact, to_exact
from agentkit_py.lifecycle.network_run import NetworkRun
from agentkit_py.messages import Message, UserMessage
from agentkit_py.results import AgentResult, AgentRunResult
from agentkit_py.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """What a function that ran an agent or a network returned, read from its JSON.

    Example:
        ::

            output = await ctx.step.invoke_by_id(
                "triage", app_id="support-ts", function_id="network-triage", data={"input": text}
            )
            run = RunOutput.from_dict(output)
            print(run.text, run.state)
    """

    text: str
    """The text of the last result."""

    results: Sequence[AgentResult]
    """The results, in order; of a TypeScript network also those that its state began with."""

    state: JsonObject
    """The state's data."""

    thread_id: str | None = None
    stop_reason: str | None = None
    """Why the run ended, as in `NetworkRun.stop_reason`; None: TypeScript does not say."""

    @classmethod
    def from_dict(cls, output: object, *, where: str = "output") -> RunOutput:
        """Read a function's output.

        It reads the outputs of `create_functions` and `NetworkRun.to_dict`, and those of
        TypeScript's ``createServer`` for a network (a whole ``NetworkRun``) and an agent (its
        result).

        Args:
            output: JSON.
            where: What errors name as its place.

        Raises:
            InvalidRecordError: It is none of these.
        """
        fields = as_object(from_exact(output))
        if fields is None:
            raise InvalidRecordError("expected an object", where=where, field="(whole)")
        if "agentName" in fields:
            result = AgentResult.from_dict(fields, where=where)
            return cls(text=result.text, results=(result,), state={})
        if "results" in fields:
            return cls._of_ours(fields, where)
        state = as_object(fields.get("state"))
        if state is None:
            problem = "expected a run {threadId, text, stopReason, state, results}, or a result"
            raise InvalidRecordError(problem, where=where, field="(whole)")
        results = _results(state.get("_results", state.get("results")), where, "state._results")
        data = as_object(state.get("data", state.get("_data"))) or {}
        text = results[-1].text if results else ""
        return cls(text=text, results=results, state=data, thread_id=_thread_id(state, where))

    @classmethod
    def _of_ours(cls, fields: JsonObject, where: str) -> RunOutput:
        results = _results(fields["results"], where, "results")
        text, reason = fields.get("text"), fields.get("stopReason")
        if not isinstance(text, str):
            raise InvalidRecordError(
                f"expected a text, got {text!r:.80}", where=where, field="text"
            )
        return cls(
            text=text,
            results=results,
            state=as_object(fields.get("state")) or {},
            thread_id=_thread_id(fields, where),
            stop_reason=reason if isinstance(reason, str) else None,
        )


def _results(given: object, where: str, field: str) -> tuple[AgentResult, ...]:
    items = as_list(given)
    if items is None:
        raise InvalidRecordError(f"expected a list, got {given!r:.80}", where=where, field=field)
    place = f"{where}: {field}"
    return tuple([AgentResult.from_dict(r, where=f"{place}[{i}]") for i, r in enumerate(items)])


def _thread_id(fields: JsonObject, where: str) -> str | None:
    found = fields.get("threadId")
    if found is not None and not isinstance(found, str):
        raise InvalidRecordError(
            f"expected a text, got {found!r:.80}", where=where, field="threadId"
        )
    return found


def returned_json(value: object, *, is_step: bool = False) -> object:
    """Return the output of a function or its step as JSON, including runs, results and states.

    Args:
        value: What was returned.
        is_step: A step returned it; then only a value that is not a container is checked, since
            outputs of steps may be large.

    Raises:
        ConfigurationError: Something in it is not JSON; the message names the place.
    """
    if find_non_json(value) is None if not is_step else isinstance(value, _CONTAINERS):
        return value
    found = _plain(value)
    try:
        json.dumps(found)
    except (TypeError, ValueError):
        place = find_non_json(found, "output") or "output"
        what = "A step" if is_step else "The function"
        raise ConfigurationError(
            f"{what} returns something at {place!r} that is not JSON: {value!r:.200}. "
            'Return plain values, e.g. {"response": run.text, "run": run.to_dict()}.'
        ) from None
    return found


_CONTAINERS = (dict, list, tuple, str, int, float, type(None))


def run_json(found: dict[str, Any]) -> dict[str, Any]:
    """Return a run's JSON with the integers that the server would round written as texts."""
    return found if find_rounded(found, "") is None else to_exact(found, floats=False)


_WRITERS: Mapping[type, Callable[[Any], object]] = {
    NetworkRun: lambda run: run_json(run.to_dict()),
    AgentRunResult: lambda run: run_json(run.to_dict()),
    AgentResult: lambda result: run_json(result.to_dict()),
    State: lambda state: run_json(state.to_dict()),
    UserMessage: UserMessage.to_dict,
    **dict.fromkeys(get_args(Message), message_to_dict),
}


def _plain(value: object) -> object:
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in cast("Mapping[Any, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("Sequence[object]", value)]
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        return to_jsonable_python(value)
    return value
