"""Tool handlers and their results in the reference model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import jsonschema

from ..handlers import has_steps, input_schema
from ..small_code import Operations
from ..vectors import Json
from . import mcp
from .core import UNDEFINED, State, Switches, engine_failure, own_failure, prose_failure
from .js import stringify, text
from .schema_parts import meant

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
    schema = spec.get("ours") or input_schema(spec.get("parameters"))
    given = meant(schema, schema, call.get("input"))
    if given != call.get("input") and on("arguments-as-they-were-meant"):
        call = {**call, "input": given}
    refused = _refused(schema, call, on)
    if refused is not None:
        return refused
    if "mcp" in spec:
        if calling.wrap is not None:  # agent.ts `listMCPTools` gives the step the tool's name
            calling.wrap(calling.path if on("step-ids-say-where") else spec["name"])
        return mcp.outcome(spec, call.get("input", {}), on)
    return _outcome(spec, call, calling)


def _refused(schema: Json, call: dict[str, Json], on: Switches) -> Json:
    if "malformed" in call:
        return our_error("InvalidArgumentsError")
    given = call.get("input", {})
    if schema is None or jsonschema.Draft202012Validator(schema).is_valid(given):
        return None
    return our_error("InvalidArgumentsError") if on("arguments-are-validated") else None


def our_error(name: str, message: str | None = None) -> dict[str, Json]:
    """Our envelope of an error; words of our own are not compared."""
    return {"error": {"name": name, "message": "<ours>" if message is None else message}}


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
        handler = spec["handler"]
        sync = bool(handler.get("sync")) or handler["op"] == "throwSync"
        value = _Operations(given, calling, sync=sync).perform(handler)
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


class _Operations(Operations):
    """Those of a call, on the model."""

    def __init__(self, given: Json, calling: Calling, *, sync: bool) -> None:
        super().__init__(
            given, calling.state.data, UNDEFINED, lambda error: _Thrown(error, at_once=sync)
        )
        self._calling = calling

    def perform(self, handler: dict[str, Json]) -> Json:
        return copy.deepcopy(super().perform(handler))

    def op_seq(self, handler: dict[str, Json]) -> Json:
        return [UNDEFINED, *map(self.perform, handler["ops"])][-1]

    def op_delay(self, handler: dict[str, Json]) -> Json:
        self._calling.note(f"delay-done:{handler['ms']}")
        return handler["value"]

    def op_throw_value(self, handler: dict[str, Json]) -> Json:
        raise self.thrown(_thrown_value(handler.get("value")))

    def value(self, handler: dict[str, Json]) -> Json:
        found = super().value(handler)
        return None if found is UNDEFINED and self._calling.on("null-is-success") else found

    def op_append_state(self, handler: dict[str, Json]) -> Json:
        returned = super().op_append_state(handler)
        kept = self.data[handler["key"]]
        kept[-1] = {"$undefined": True} if kept[-1] is UNDEFINED else kept[-1]
        return returned

    @property
    def _kv(self) -> dict[str, Json]:
        return self.data if self._calling.on("no-kv") else self._calling.state.kv

    def op_kv_set(self, handler: dict[str, Json]) -> Json:
        self._kv[handler["key"]] = copy.deepcopy(handler["value"])
        return "kv set"

    def op_kv_get(self, handler: dict[str, Json]) -> Json:
        return self._kv.get(handler["key"], UNDEFINED)

    def op_schedule(self, handler: dict[str, Json]) -> Json:
        self._calling.schedule(handler["agent"])
        return f"scheduled {handler['agent']}"

    def op_network_info(self, handler: dict[str, Json]) -> Json:
        calling = self._calling
        return {
            "name": calling.network,
            "agents": list(calling.agents),
            "resultCount": len(calling.state.answers(calling.on)),
            "messages": len(calling.state.messages),
            "agent": calling.agent,
        }

    def op_has_step(self, handler: dict[str, Json]) -> Json:
        return self._calling.step is not None

    def op_step_run(self, handler: dict[str, Json]) -> Json:
        calling, name = self._calling, handler["id"]
        if calling.step is not None:
            calling.step(f"{calling.path}.{name}" if calling.on("step-ids-say-where") else name)
        return handler.get("value")

    def op_select(self, handler: dict[str, Json]) -> Json:
        given, calling = self.given, self._calling
        name = given.get("name") if isinstance(given, dict) else None
        if name in calling.agents:
            return name
        if calling.on("synchronous-throws"):
            raise _Thrown({"name": "LookupError", "message": "<ours>"}, at_once=False)
        if given is None:  # the handler takes its input apart
            raise engine_failure("TypeError")
        if not isinstance(name, str):
            raise prose_failure("invalid-agent")
        raise prose_failure("no-such-agent", name)

    def op_done(self, handler: dict[str, Json]) -> Json:
        return (self.given.get("summary") if isinstance(self.given, dict) else None) or ""


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
