"""The handlers of a scenario's tools: small programs in JSON, as Python functions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from agentkit_py import Tool, ToolContext, create_tool

from .journal import Journal, snapshot
from .small_code import Operations
from .vectors import Json


class ScenarioError(Exception):
    """Base of the errors that a scenario's own code raises."""


def error_of(description: dict[str, Json]) -> Exception:
    """An error of the class name and message that the scenario asks for."""
    kind = type(description.get("name", "Error"), (ScenarioError,), {})
    return kind(description.get("message", ""))


def thrown_value(value: Json) -> Exception:
    """TypeScript throws anything; Python raises an error that says the same."""
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        text = value["message"]
    else:
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return error_of({"name": "Error", "message": text})


def build_tool(spec: dict[str, Json], journal: Journal) -> Tool:
    """The tool that ``spec`` describes."""
    handler = spec["handler"]
    return create_tool(
        name=spec["name"],
        description=spec.get("description", ""),
        parameters=input_schema(spec.get("parameters")),
        strict=spec.get("strict"),
        steps=has_steps(spec),
        handler=_sync(spec, journal) if _is_sync(handler) else _async(spec, journal),
    )


def has_steps(spec: dict[str, Json]) -> bool:
    """Return whether a tool's handler runs steps of its own."""
    return _steps_in(spec["handler"])


def _steps_in(handler: dict[str, Json]) -> bool:
    return handler["op"] == "stepRun" or any(map(_steps_in, handler.get("ops", [])))


def input_schema(parameters: Json) -> Json:
    """Return the JSON Schema of zod's input; None: the tool has no parameters.

    The recording holds zod's *output*: what has a default is required there, and optional on the
    way in.
    """
    if parameters is None:
        return None
    forms = parameters["jsonSchema"]
    named = ("draft-2020-12", "openapi-3.0(io=input)")
    return without_defaulted(next(forms[name] for name in named if "$error" not in forms[name]))


def without_defaulted(schema: Json) -> Json:
    """The schema with properties that have a default taken out of ``required``."""
    if isinstance(schema, list):
        return [without_defaulted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: without_defaulted(value) for key, value in schema.items()}
    properties = result.get("properties")
    required = result.get("required")
    if isinstance(properties, dict) and isinstance(required, list):
        kept = [name for name in required if "default" not in _object(properties.get(name))]
        result = {k: v for k, v in result.items() if k != "required" or kept}
        if kept:
            result["required"] = kept
    return result


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _is_sync(handler: dict[str, Json]) -> bool:
    return bool(handler.get("sync")) or handler["op"] == "throwSync"


def _async(spec: dict[str, Json], journal: Journal) -> Callable[..., Any]:
    async def handler(given: Any, context: ToolContext) -> Any:
        _log(spec, journal, given, context)
        outcome = await _perform(spec["handler"], given, context, journal)
        journal.tool_returned(context.call, outcome)
        return outcome

    return handler


def _sync(spec: dict[str, Json], journal: Journal) -> Callable[..., Any]:
    def handler(given: Any, context: ToolContext) -> Any:
        _log(spec, journal, given, context)
        handler = spec["handler"]
        steps = handler["op"] == "hasStep"
        outcome = journal.durable if steps else _at_once(handler, given, context)
        journal.tool_returned(context.call, outcome)
        return outcome

    return handler


def _log(spec: dict[str, Json], journal: Journal, given: Any, context: ToolContext) -> None:
    journal.note(f"tool:{spec['name']}")
    journal.callback(
        "tool",
        tool=spec["name"],
        input=snapshot(given),
        agent=context.agent.name,
        network=context.network.name if context.network else "default",
        hasStep=journal.durable,
        stateData=snapshot(context.state.data),
    )


async def _perform(
    handler: dict[str, Json], given: Any, context: ToolContext, journal: Journal
) -> Any:
    match handler["op"]:
        case "delay":
            await asyncio.sleep(handler["ms"] / 1000)
            journal.note(f"delay-done:{handler['ms']}")
            return handler["value"]
        case "seq":
            outcome = None
            for step in handler["ops"]:
                outcome = await _perform(step, given, context, journal)
            return outcome
        case "hasStep":
            return journal.durable
        case "stepRun":
            return await context.step.run(handler["id"], _returning(handler.get("value")))
        case _:
            return _at_once(handler, given, context)


def _returning(value: Json) -> Callable[[], Awaitable[Json]]:
    async def handler() -> Json:
        return snapshot(value)

    return handler


def _at_once(handler: dict[str, Json], given: Any, context: ToolContext) -> Any:
    return _Operations(given, context).perform(handler)


class _Operations(Operations):
    """Those of a call, on ours."""

    def __init__(self, given: Any, context: ToolContext) -> None:
        super().__init__(given, context.state.data, None, error_of)
        self._context = context

    def op_throw_value(self, handler: dict[str, Json]) -> Any:
        raise thrown_value(handler.get("value"))

    def op_kv_set(self, handler: dict[str, Json]) -> Any:
        self.data[handler["key"]] = handler["value"]
        return "kv set"

    op_kv_get = Operations.op_get_state

    def op_schedule(self, handler: dict[str, Json]) -> Any:
        if self._context.network is not None:
            self._context.network.schedule(handler["agent"])
        return f"scheduled {handler['agent']}"

    def op_network_info(self, handler: dict[str, Json]) -> Any:
        network, state = self._context.network, self._context.state
        return {
            "name": network.name if network else "default",
            "agents": list(network.agents) if network else [],
            "resultCount": state.result_count,
            "messages": len(state.messages),
            "agent": self._context.agent.name,
        }
