"""A scenario's hooks, routers, system prompts, histories and processors as Python functions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from agentkit_py import AgentResult, Lifecycle, Message, RouterContext, TextMessage, UserMessage
from agentkit_py.codec import message_from_dict
from agentkit_py.lifecycle import AgentContext, ResultContext, Start, StartContext

from .handlers import error_of
from .journal import Journal, message_record, result_record, short_result, snapshot
from .reference.js import text, truthy
from .small_code import holds, rearrange, routed
from .vectors import Json

_ONLY_OURS = {"system": {"agent", "state"}, "hook": {"state", "processing"}, "router": {"state"}}
"""Members of our contexts that TypeScript's arguments lack, which is no difference."""


def camel(name: str) -> str:
    """``call_count`` as ``callCount``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def argument_names(context: Any, kind: str) -> list[str]:
    """The fields of a context under TypeScript's names."""
    names = {field.name for field in dataclasses.fields(context)} - _ONLY_OURS.get(kind, set())
    return sorted(map(camel, names))


def network_name(context: Any) -> str:
    """The network's name; by itself an agent has TypeScript's throw-away one."""
    return context.network.name if context.network is not None else "default"


def messages_of(records: Json) -> list[Message]:
    """Messages from a scenario."""
    return [read_message(record) for record in records]


def read_message(record: dict[str, Json]) -> Message:
    """One message; an input that is missing is what our codec makes of it."""
    return message_from_dict(record)


def result_of(record: dict[str, Json]) -> AgentResult:
    """A result from a scenario."""
    return AgentResult.from_dict({"createdAt": STORED, **record})


STORED = "2024-01-02T03:04:05.000Z"
"""The time of a scenario's results that have none."""


def in_style(spec: dict[str, Json], function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function as sync or async code, as the scenario has it."""
    if spec.get("sync"):
        return function

    async def asynchronous(context: Any) -> Any:
        return function(context)

    return asynchronous


def system_of(spec: Json, agent: str, journal: Journal) -> Any:
    """A system prompt: text, or a function that fills a template."""
    if isinstance(spec, str):
        return spec
    described = spec["fn"]

    def system(context: AgentContext) -> str:
        journal.note(f"system:{agent}")
        journal.callback(
            "system",
            agent=agent,
            argKeys=argument_names(context, "system"),
            hasNetwork=True,
            network=network_name(context),
        )
        if "throw" in described:
            raise error_of(described["throw"])
        return _filled(described["template"], context)

    return in_style({"sync": not described.get("async")}, system)


def _filled(template: str, context: AgentContext) -> str:
    agents = list(context.network.agents) if context.network else []
    fields = {
        "network.name": network_name(context),
        "agentNames": ",".join(agents),
        "resultCount": str(context.state.result_count),
    }

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("data."):
            value = context.state.data.get(name.removeprefix("data."))
            return "undefined" if value is None else text(value)
        return fields[name]

    return re.sub(r"\{([\w.]+)\}", fill, template)


class Calls:
    """A counter of a hook's calls."""

    def __init__(self) -> None:
        self.count = -1

    def next(self) -> int:
        self.count += 1
        return self.count


def lifecycle_of(spec: dict[str, Json], agent: str, journal: Journal) -> Lifecycle:
    """The lifecycle that ``spec`` describes."""
    made: dict[str, Any] = {}
    if "enabled" in spec:
        made["enabled"] = in_style(spec["enabled"], _enabled(spec["enabled"], agent, journal))
    if "onStart" in spec:
        made["on_start"] = in_style(spec["onStart"], _on_start(spec["onStart"], agent, journal))
    for name, field in (("onResponse", "on_response"), ("onFinish", "on_finish")):
        if name in spec:
            made[field] = in_style(spec[name], _on_result(name, spec[name], agent, journal))
    if "onRoute" in spec:
        made["on_route"] = in_style(spec["onRoute"], _on_route(spec["onRoute"], agent, journal))
    return Lifecycle(**made)


def _enabled(spec: dict[str, Json], agent: str, journal: Journal) -> Callable[[AgentContext], bool]:
    def enabled(context: AgentContext) -> bool:
        journal.note(f"enabled:{agent}")
        journal.callback(
            "enabled",
            agent=agent,
            network=network_name(context),
            stateData=snapshot(context.state.data),
        )
        if "throw" in spec:
            raise error_of(spec["throw"])
        if "stateKey" in spec:
            return truthy(context.state.data.get(spec["stateKey"]))
        return spec["const"]

    return enabled


def _on_start(spec: dict[str, Json], agent: str, journal: Journal) -> Callable[[StartContext], Any]:
    calls = Calls()

    def on_start(context: StartContext) -> Start:
        number = calls.next()
        journal.note(f"onStart:{agent}")
        journal.callback(
            "onStart",
            argKeys=argument_names(context, "hook"),
            agent=agent,
            network=network_name(context),
            input=context.input,
            prompt=[message_record(m) for m in context.prompt],
            history=[message_record(m) for m in context.history],
        )
        if "throw" in spec:
            raise error_of(spec["throw"])
        prompt, history = list(context.prompt), list(context.history)
        for op in spec.get("ops", []):
            target = prompt if op["op"].endswith("Prompt") else history
            rearrange(op["op"], target, messages_of(op["messages"]))
        stop = bool(spec.get("stop")) or spec.get("stopOnCall") == number
        return Start(prompt, history, stop=stop)

    return on_start


def _on_result(
    name: str, spec: dict[str, Json], agent: str, journal: Journal
) -> Callable[[ResultContext], AgentResult]:
    def hook(context: ResultContext) -> AgentResult:
        journal.note(f"{name}:{agent}")
        journal.callback(name, **_result_facts(context, agent))
        if "throw" in spec:
            raise error_of(spec["throw"])
        result = context.result
        for op in spec.get("ops", []):
            result = _changed(result, op)
        return result

    return hook


def _result_facts(context: ResultContext, agent: str) -> dict[str, Json]:
    return {
        "argKeys": argument_names(context, "hook"),
        "agent": agent,
        "network": network_name(context),
        "result": result_record(context.result),
    }


def _changed(result: AgentResult, op: dict[str, Json]) -> AgentResult:
    output = list(result.output)
    match op["op"]:
        case "setOutput":
            return result.with_messages(messages_of(op["messages"]))
        case "appendOutput":
            return result.with_messages([*output, *messages_of(op["messages"])])
        case "dropToolCalls":
            return result.with_messages([m for m in output if m.type != "tool_call"])
        case "replaceLastText":
            texts = [i for i, message in enumerate(output) if message.type == "text"]
            if not texts:
                return result
            last = texts[-1]
            text = output[last]
            assert isinstance(text, TextMessage)
            output[last] = dataclasses.replace(text, content=op["text"])
            return result.with_messages(output)
        case _:
            return result_of({k: v for k, v in op.items() if k != "op"})


def _on_route(
    spec: dict[str, Json], agent: str, journal: Journal
) -> Callable[[ResultContext], list[str] | None]:
    def on_route(context: ResultContext) -> list[str] | None:
        journal.note(f"onRoute:{agent}")
        journal.callback("onRoute", **_result_facts(context, agent))
        if "throw" in spec:
            raise error_of(spec["throw"])
        result = context.result
        call = result.tool_calls[0] if result.tool_calls else None
        asked = (call.tool.arguments, call.content) if call is not None else (None, None)
        texts = (m.text for m in result.output if isinstance(m, TextMessage))
        return routed(spec, texts, asked) or spec.get("agents")

    return on_route


def user_record(message: UserMessage) -> dict[str, Json]:
    """A user's message in TypeScript's fields."""
    time = message.client_timestamp
    content = message.content
    found: dict[str, Json] = {
        "id": message.id,
        "role": message.role,
        "content": content if isinstance(content, str) else snapshot_parts(content),
        "state": message.state,
        "systemPrompt": message.system_prompt,
        "clientTimestamp": None if time is None else {"$date": iso(time)},
    }
    return {key: snapshot(value) for key, value in found.items() if value is not None}


def snapshot_parts(parts: Iterable[Any]) -> list[Json]:
    """The parts of a message's content as JSON."""
    return [{"type": part.type, "text": part.text} for part in parts]


def iso(time: datetime) -> str:
    """A time as JavaScript writes it."""
    time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def router_of(spec: dict[str, Json], agent_of: Callable[[str], Any], journal: Journal) -> Any:
    """A router: a routing agent, or a function that follows the scenario's rules."""
    if spec["kind"] == "agent":
        return agent_of(spec["ref"])

    def router(context: RouterContext) -> Any:
        journal.note("router:fn")
        journal.callback("router", **_router_facts(context))
        rule = next((r for r in spec["rules"] if _holds(r.get("when", {}), context)), None)
        if rule is None:
            return None
        for step in rule.get("do", []):
            _do(step, context, agent_of)
        return _agents(rule.get("return"), agent_of)

    return in_style(spec, router)


def _router_facts(context: RouterContext) -> dict[str, Json]:
    facts: dict[str, Json] = {
        "argKeys": argument_names(context, "router"),
        "input": context.input,
        "userMessage": user_record(context.user_message),
        "network": context.network.name,
        "stack": list(context.stack),
        "callCount": context.call_count,
    }
    if context.last_result is not None:
        facts["lastResult"] = short_result(context.last_result)
    facts["stateData"] = snapshot(context.network.state.data)
    facts["resultCount"] = context.network.state.result_count
    return facts


def _holds(when: dict[str, Json], context: RouterContext) -> bool:
    last, data = context.last_result, context.network.state.data
    called = [m.tool.name for m in last.tool_calls] if last is not None else []
    author = None if last is None else last.agent_name
    return holds(when, count=context.call_count, data=data, last=author, called=called)


def _do(step: dict[str, Json], context: RouterContext, agent_of: Callable[[str], Any]) -> None:
    match step["op"]:
        case "setState":
            context.network.state.data[step["key"]] = step["value"]
        case "addAgent":
            context.network.add_agent(agent_of(step["agent"]))
        case "schedule":
            context.network.schedule(step["agent"])
        case _:
            raise error_of(step["error"])


def _agents(returned: Json, agent_of: Callable[[str], Any]) -> Any:
    if isinstance(returned, list):
        return [agent_of(item) for item in returned]
    return None if returned is None else agent_of(returned)
