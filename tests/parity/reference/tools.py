"""Tool handlers and their results in the reference model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema

from ..handlers import has_steps, input_schema
from ..vectors import Json
from . import mcp
from .core import UNDEFINED, State, Switches, engine_failure, own_failure, prose_failure
from .js import stringify, text

_BUILT_IN = frozenset(
    {"Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"}
)


@dataclass(slots=True)
class Calling:
    """The context of a handler."""

    agent: str
    network: str
    agents: list[str]
    state: State
    schedule: Callable[[str], None]
    log: Callable[..., None]
    note: Callable[[str], None]
    on: Switches
    path: str
    """Step id of the call, in our words."""

    wrap: Callable[[str], None] | None
    """Notes the step that a call is; None: the run is not inside Inngest."""

    step: Callable[[str], None] | None
    """Notes a step; None: the handler gets no steps."""


class _Thrown(Exception):  # noqa: N818 - a signal
    def __init__(self, error: dict[str, Json], *, at_once: bool) -> None:
        super().__init__(error.get("message"))
        self.error = error
        self.at_once = at_once


def result_of_call(
    call: dict[str, Json], tools: dict[str, dict[str, Json]], calling: Calling
) -> Json:
    """The content of the call's result.

    Raises:
        Failure: In TypeScript the call fails the run.
    """
    on = calling.on
    spec = tools.get(call["name"])
    if "_cut" in call and "malformed" not in call and on("calls-of-cut-replies"):
        return our_error("IncompleteReplyError")
    if spec is None:
        if on("unknown-tools"):
            return our_error("UnknownToolError")
        raise prose_failure("no-tool", text(call["name"]))
    refused = _refused(spec, call, on)
    if refused is not None:
        return refused
    if "mcp" in spec:
        if calling.wrap is not None:  # agent.ts `listMCPTools` gives the step the tool's name
            calling.wrap(calling.path if on("step-ids-say-where") else spec["name"])
        return mcp.outcome(spec, call.get("input", {}), on)
    return _outcome(spec, call, calling)


def _refused(spec: dict[str, Json], call: dict[str, Json], on: Switches) -> Json:
    if "malformed" in call:
        return our_error("InvalidArgumentsError")
    schema = spec.get("ours") or input_schema(spec.get("parameters"))
    given = call.get("input", {})
    if schema is None or jsonschema.Draft202012Validator(schema).is_valid(given):
        return None
    return our_error("InvalidArgumentsError") if on("arguments-are-validated") else None


def our_error(name: str, message: str | None = None) -> dict[str, Json]:
    """Our envelope of an error; words of our own are not compared."""
    return {"error": {"name": name, "message": "<ours>" if message is None else message}}


_REFUSED = ("UnknownToolError", "InvalidArgumentsError", "IncompleteReplyError")


def has_run(content: Json) -> bool:
    """Return whether a result is a tool's own, not our refusal of the call."""
    error = content.get("error") if isinstance(content, dict) else None
    return not (isinstance(error, dict) and error.get("name") in _REFUSED)


def _outcome(spec: dict[str, Json], call: dict[str, Json], calling: Calling) -> Json:
    on = calling.on
    given = call.get("input", UNDEFINED)
    if given is UNDEFINED and on("missing-arguments"):
        given = {}
    if calling.wrap is not None and not has_steps(spec) and on("effects-are-steps"):
        calling.wrap(calling.path)
    seen = {"inputIsUndefined": True} if given is UNDEFINED else {"input": copy.deepcopy(given)}
    if not spec.get("routing"):
        calling.log(
            f"tool:{spec['name']}",
            "tool",
            tool=spec["name"],
            **seen,
            agent=calling.agent,
            network=calling.network,
            hasStep=calling.step is not None,
            stateData=copy.deepcopy(calling.state.data),
        )
    try:
        value = _perform(spec["handler"], given, calling)
    except _Thrown as thrown:
        if thrown.at_once and not on("synchronous-throws"):
            raise own_failure(thrown.error) from None
        return error_content(thrown.error, on)
    if value is None and on("null-is-success"):
        value = UNDEFINED
    if value is UNDEFINED:
        value = f"{spec['name']} successfully executed"
    return {"data": value}


def error_content(error: dict[str, Json], on: Switches) -> Json:
    """The envelope of an error that the scenario's code threw."""
    if on("errors-without-stack"):
        name = error.get("name", "Error")
        return {"error": {"name": name, "message": error.get("message") or name}}
    return {"error": _serialised(error)}


def _serialised(error: dict[str, Json]) -> dict[str, Json]:
    known = error.get("name") in _BUILT_IN
    record: dict[str, Json] = {
        "name": error["name"] if known else "Error",
        "message": error.get("message") or stringify(error.get("props", {})),
        "stack": error.get("stack", ""),
    }
    if known:
        record |= {k: v for k, v in error.get("props", {}).items() if k == "code"}
    if "cause" in error:
        record["cause"] = _serialised(error["cause"])
    return {**record, "__serialized": True}


def _thrown_value(value: Json) -> dict[str, Json]:
    message = value.get("message") if isinstance(value, dict) else None
    if message is not None:
        return {"name": "Error", "message": message}
    text = value if isinstance(value, str) else stringify(value)
    props = value if isinstance(value, dict) else {}
    return {"name": "Error", "message": text, "props": props}


def _done(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    summary: Json = given.get("summary") if isinstance(given, dict) else None
    return summary or ""


def _perform(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    if handler["op"] == "seq":
        outcome: Any = UNDEFINED
        for step in handler["ops"]:
            outcome = _perform(step, given, calling)
        return outcome
    operation = _OPERATIONS.get(handler["op"])
    return UNDEFINED if operation is None else operation(handler, given, calling)


def _return(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    return copy.deepcopy(handler.get("value"))


def _delay(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    calling.note(f"delay-done:{handler['ms']}")
    return copy.deepcopy(handler["value"])


def _echo(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    return {} if given is UNDEFINED else {"received": copy.deepcopy(given)}


def _throw(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    at_once = handler["op"] == "throwSync" or bool(handler.get("sync"))
    raise _Thrown(handler["error"], at_once=at_once)


def _throw_value(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    raise _Thrown(_thrown_value(handler.get("value")), at_once=False)


def _set_state(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    calling.state.data[handler["key"]] = _value(handler, given)
    return handler.get("returns", UNDEFINED)


def _get_state(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    return copy.deepcopy(calling.state.data.get(handler["key"], UNDEFINED))


def _value(handler: dict[str, Json], given: Json) -> Json:
    name = handler.get("fromInput")
    if name is None:
        return handler.get("value")
    return given if name is True else member(given, name)


def member(given: Json, name: str) -> Json:
    """Return JavaScript's ``given[name]``.

    Raises:
        _Thrown: There is nothing to look into.
    """
    if given is None:
        said = f"Cannot read properties of null (reading '{name}')"
        raise _Thrown({"name": "TypeError", "message": said}, at_once=False)
    return given.get(name, UNDEFINED) if isinstance(given, dict) else UNDEFINED


def _append_state(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    value = _value(handler, given)
    if value is UNDEFINED:
        value = None if calling.on("null-is-success") else {"$undefined": True}
    calling.state.data.setdefault(handler["key"], []).append(value)
    return handler.get("returns", UNDEFINED)


def _increment(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    data = calling.state.data
    data[handler["key"]] = data.get(handler["key"], 0) + handler.get("by", 1)
    return data[handler["key"]]


def _store(calling: Calling) -> dict[str, Json]:
    return calling.state.data if calling.on("no-kv") else calling.state.kv


def _kv_set(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    _store(calling)[handler["key"]] = copy.deepcopy(handler["value"])
    return "kv set"


def _kv_get(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    return copy.deepcopy(_store(calling).get(handler["key"], UNDEFINED))


def _schedule(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    calling.schedule(handler["agent"])
    return f"scheduled {handler['agent']}"


def _network_info(handler: dict[str, Json], given: Json, calling: Calling) -> Json:
    return {
        "name": calling.network,
        "agents": list(calling.agents),
        "resultCount": len(calling.state.answers(calling.on)),
        "messages": len(calling.state.messages),
        "agent": calling.agent,
    }


_OPERATIONS: dict[str, Callable[[dict[str, Json], Json, Calling], Json]] = {
    "return": _return,
    "delay": _delay,
    "echo": _echo,
    "throw": _throw,
    "throwSync": _throw,
    "throwValue": _throw_value,
    "setState": _set_state,
    "getState": _get_state,
    "kvGet": _kv_get,
    "kvSet": _kv_set,
    "appendState": _append_state,
    "incState": _increment,
    "schedule": _schedule,
    "networkInfo": _network_info,
    "hasStep": lambda handler, given, calling: calling.step is not None,
    "stepRun": lambda handler, given, calling: _step_run(handler, calling),
    "select": lambda handler, given, calling: _selected(given, calling),
    "done": _done,
}


def _step_run(handler: dict[str, Json], calling: Calling) -> Json:
    if calling.step is not None:
        name: str = handler["id"]
        calling.step(f"{calling.path}.{name}" if calling.on("step-ids-say-where") else name)
    return copy.deepcopy(handler.get("value"))


def _selected(given: Json, calling: Calling) -> Json:
    name = given.get("name") if isinstance(given, dict) else None
    if name in calling.agents:
        return name
    if calling.on("synchronous-throws"):
        raise _Thrown({"name": "LookupError", "message": "<ours>"}, at_once=False)
    if not isinstance(name, str):
        raise prose_failure("invalid-agent")
    raise prose_failure("no-such-agent", name)


def result_message(call: dict[str, Json], content: Json, on: Switches) -> dict[str, Json]:
    """The message with a call's result.

    Raises:
        Failure: In TypeScript, arguments that are null or missing fail here, after the tool ran.
    """
    given = call.get("input", UNDEFINED)
    if on("tool-results-keep-arguments"):
        kept = {} if given is UNDEFINED else copy.deepcopy(given)
    elif given is UNDEFINED or given is None:
        raise engine_failure("TypeError")
    else:
        kept = given.get("arguments", UNDEFINED) if isinstance(given, dict) else UNDEFINED
    tool = {"type": "tool", "id": call["id"], "name": call["name"], "input": kept}
    return {
        "role": "tool_result",
        "type": "tool_result",
        "tool": tool,
        "content": content,
        "stop_reason": "tool",
    }
