"""Tables of the reference that the code gives: names, commands, endpoints, errors, chunks."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import griffe
import httpx
import typer

from agentkit_py import Agent, Network, anthropic, errors, events, tool
from agentkit_py.cli.app import app as command_line
from agentkit_py.routing import once
from agentkit_py.runs import StreamingConfig
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.server import create_app
from agentkit_py.testing import FakeProvider, Raw, ScriptedModel


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


def _sentence(thing: Any) -> str:
    return _cell((inspect.getdoc(thing) or "").partition("\n\n")[0])


def commands() -> str:
    """Return a section for each command, with its arguments and options."""
    lines: list[str] = []
    for path, command in _commands(typer.main.get_command(command_line), "agentkit"):
        lines += [f"## `{path}`", "", _cell(command.help or ""), ""]
        rows = [
            _parameter(found) for found in command.params if not getattr(found, "hidden", False)
        ]
        lines += ["| | |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    context = typer.Context(command)
    for name in inner:  # the module of a command is loaded where somebody asks for it
        found = command.resolve_command(context, [name])[1]
        yield from _commands(found, f"{path} {name}")


def _parameter(found: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*found.opts, *found.secondary_opts])
    is_option = found.param_type_name == "option"
    shown = names if is_option else f"`{found.name.upper()}`"
    default = found.default if isinstance(found.default, str | int | float) else None
    known = "" if default is None or isinstance(default, bool) else f" Unless given: `{default}`."
    needed = " Required." if found.required and is_option else ""
    text = f"{_cell(getattr(found, 'help', None) or '')}{needed}{known}".strip()
    return f"| {shown} | {text} |"


def endpoints() -> str:
    """Return a section for each endpoint, as ``/openapi.json`` describes it."""
    described = asyncio.run(_described())
    statuses = {
        status: facts["description"]
        for methods in described["paths"].values()
        for one in methods.values()
        for status, facts in one["responses"].items()
        if status[0] in "45"
    }
    lines = ["| Status | |", "| --- | --- |"]
    lines += [f"| `{status}` | {_cell(statuses[status])} |" for status in sorted(statuses)]
    lines.append("")
    for path, methods in described["paths"].items():
        for method, facts in methods.items():
            lines += [f"## `{method.upper()} {path}`", "", f"{_cell(facts['summary'])}.", ""]
            if facts.get("description"):
                lines += [_cell(facts["description"]), ""]
            lines += _fields(facts, described)
            lines += [*_answer(facts, described)]
    return "\n".join(lines)


def _answer(facts: Any, described: Any) -> list[str]:
    """Return the statuses, and the JSON of the good answer: its types in place of values."""
    statuses = ", ".join(f"`{status}`" for status in sorted(facts["responses"]))
    good: dict[str, Any] = facts["responses"]["200"]
    content: Any = good.get("content", {}).get("application/json")
    if content is None:
        return [f"Answers {statuses}.", ""]
    shown = json.dumps(_shape(content["schema"], described), indent=1, ensure_ascii=False)
    return [f"Answers {statuses}; `200` with", "", "```json", shown, "```", ""]


def _shape(schema: Any, described: Any) -> Any:
    """Return what a schema describes: objects and lists as they are, types as words."""
    schema = _resolved(schema, described)
    if "properties" in schema:
        needed = schema.get("required", ())
        return {
            name if name in needed else f"{name}?": _shape(inner, described)
            for name, inner in schema["properties"].items()
        }
    if "items" in schema:
        return [_shape(schema["items"], described)]
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    choices = [_shape(one, described) for one in schema.get("anyOf", ())]
    if choices:
        whole = [one for one in choices if not isinstance(one, str)]
        return whole[0] if whole else " | ".join(choices)
    return schema.get("type", "any JSON")


async def _described() -> Any:
    agent = Agent(name="a", system="s", model=ScriptedModel())
    app = create_app(agents=[agent], auth=lambda _: "user")
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shown") as client:
        return (await client.get("/openapi.json")).json()


def _fields(facts: Any, described: Any) -> list[str]:
    bodies: list[str] = []
    rows = [
        f"| `{one['name']}` | {one['in']} | {_cell(one.get('description') or '')} |"
        for one in facts.get("parameters", ())
    ]
    wanted: dict[str, Any] = facts.get("requestBody") or {}
    for content in wanted.get("content", {}).values():
        schema = _resolved(content["schema"], described)
        for name, field in schema.get("properties", {}).items():
            needed = "" if name in schema.get("required", ()) else ", optional"
            rows.append(f"| `{name}` | body{needed} | {_cell(field.get('description') or '')} |")
        body = json.dumps(_shape(schema, described), indent=1, ensure_ascii=False)
        bodies += ["```json", body, "```", ""]
    return ["| Field | Where | |", "| --- | --- | --- |", *rows, "", *bodies] if rows else []


def _resolved(schema: Any, described: Any) -> Any:
    for name in (schema.get("$ref") or "").split("/")[1:]:
        described = described[name]
    return described if "$ref" in schema else schema


def errors_of_the_library() -> str:
    """Return one row for each error: what it says, what to do, and its facts.

    Raises:
        KeyError: `REMEDIES` does not say what to do about an error.
    """
    rows: list[str] = []

    def walk(kind: type[BaseException], depth: int) -> None:
        base = set[str]().union(*(_facts(one) for one in kind.__mro__[1:]))
        facts = ", ".join(f"`{name}`" for name in _facts(kind) if name not in base)
        name = f"{'&emsp;' * depth}`{kind.__name__}`"
        rows.append(f"| {name} | {_sentence(kind)} | {REMEDIES[kind.__name__]} | {facts} |")
        for inner in sorted(kind.__subclasses__(), key=lambda one: one.__name__):
            if inner.__module__ == errors.__name__:
                walk(inner, depth + 1)

    walk(errors.AgentKitError, 0)
    return "\n".join(
        ["| Error | When | What to do | Facts of its own |", "| --- | --- | --- | --- |", *rows, ""]
    )


REMEDIES = {
    "AgentKitError": "Catch the kinds below; this one as the last.",
    "BudgetExceededError": "Tell the user when it `resets_at`, or raise the limit.",
    "ConfigurationError": "Mend the program as the message says; trying again changes nothing.",
    "MissingDependencyError": "Install the extra that the message names.",
    "MissingModelError": "Pass `model=` to agent or run, or `default_model=` to the network.",
    "ReplayError": "Make the code decide as before, or start the run again.",
    "OverlapError": "Await one step before the next, or use `ctx.group.parallel`.",
    "VersionMismatchError": "Deploy the old code beside the new one, or end the run: see Deploys.",
    "StepLimitError": "Return less from the step: store the value, and return its id.",
    "ToolDefinitionError": "Change the tool's name or signature as `reason` says.",
    "GuardrailTripped": "Tell the user `reason`, or give the guardrail a `reply`.",
    "HistoryError": "Look at its cause; the store refused or failed.",
    "InvalidRecordError": "Mend or remove the record at `where`.",
    "MessageConflictError": "Send the message under an id of its own.",
    "MessageNotFoundError": "Read the thread again; the message is gone or was never there.",
    "NotOnThreadError": "Join the thread first.",
    "NotPendingError": "Show `status`: somebody answered, or the time is over.",
    "StoreVersionError": "Update the library on this machine.",
    "ThreadBusyError": "Try again when the run is done, or send with `on_busy`.",
    "ThreadNotFoundError": "Check the id, and the user that the store is restricted to.",
    "KnowledgeError": "Look at its cause, and at the document that it names.",
    "FilterError": "Use a key, an operator and a value that the message lists.",
    "ModelError": "Look at the kind below; `retriable` says whether trying again may help.",
    "ModelConnectionError": "Try again later; check address, proxy and certificates.",
    "ModelHTTPError": "Read `status` and `detail`.",
    "AuthenticationError": "Check the API key and what its account may use.",
    "BadRequestError": "Change what `detail` complains of: a setting, a schema, the model's name.",
    "ContextOverflowError": "Shorten the history with a processor, e.g. `TokenLimiter`.",
    "ProviderUnavailableError": "Try again later, or name a fallback model.",
    "QuotaExceededError": "Add credit, or fall back to another provider with `FallbackModel`.",
    "RateLimitError": "Wait `retry_after` seconds, or set `RateLimit`.",
    "ModelNotAskedError": "Wait `retry_after` seconds; `reason` names the guard.",
    "ModelResponseError": "Read `excerpt`; a proxy or a wrong address is the usual cause.",
    "EmptyReplyError": "Read `finish_reason`: raise the token limit, or change what was refused.",
    "ModelStreamError": "Show `partial` as broken off, and ask again.",
    "RejectedReplyError": "Nothing, where another model is left; else look at `reason`.",
    "ModelTimeoutError": "Raise `timeout=` of the model, or try again.",
    "ModelRetry": "You raise it.",
    "ToolError": "You raise it.",
    "NestingError": "Look for agents that call each other in a circle.",
    "NonRetriableError": "You raise it.",
    "OutputError": "Read `reason` and `problems`; allow more `output_retries` or a wider type.",
    "ProcessorError": "Mend the processor that it names; `__cause__` has the error.",
    "RetryAfterError": "You raise it.",
    "AbruptExitError": "Mend what was cancelled, or ended, inside that code; `__cause__` has it.",
    "RoutingError": "Return an agent of the network, its name, or None from the router.",
    "ScriptError": "Give the script one reply for each model call, or mend the program.",
    "StateError": "Keep only JSON in the state.",
    "StateConflictError": "Let one tool write the key, or run the tools one after another.",
    "ToolSourceError": "Check the server that `source` names; `reason` says what failed.",
}
"""Advice for each error."""


def _facts(kind: type) -> list[str]:
    try:
        parameters = inspect.signature(kind.__init__).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in parameters if name not in ("self", "args", "kwargs", "message")]


def events_of_a_run() -> str:
    """Return a section for each event, with its fields."""
    lines: list[str] = []
    for name in sorted(events.__all__):
        kind = getattr(events, name)
        is_event = dataclasses.is_dataclass(kind) and {"run_id", "name"} <= {
            field.name for field in dataclasses.fields(kind)
        }
        if is_event:
            fields = dataclasses.fields(kind)
            shown = {field.name: str(field.type).replace("'", "") for field in fields}
            lines += [f"### {name}", "", _sentence(kind), ""]
            lines += ["```json", json.dumps(shown, indent=1, ensure_ascii=False), "```", ""]
    return "\n".join(lines)


CHUNKS: dict[str, str] = {
    "run.started": "A network or an agent begins. An agent's has `parentRunId`.",
    "run.completed": "It ended as it should.",
    "run.failed": "It failed. Over HTTP `error` is one public sentence.",
    "run.interrupted": "It was cancelled; `reason` is `cancelled`, over HTTP also `timeout`, "
    "`shutdown` or `interrupted`.",
    "part.created": "A part of a message begins; `type` is `text`, `reasoning`, `data`, "
    "`tool-call` or `tool-output`.",
    "text.delta": "A piece of a text.",
    "reasoning.delta": "A piece of reasoning, where the provider shows it.",
    "data.delta": "Another block of a reply as JSON, e.g. a search that the provider made.",
    "tool_call.arguments.delta": "A piece of the JSON that a tool is called with.",
    "tool_call.output.delta": "The result of a tool, or a piece of it.",
    "part.completed": "The part is whole; `finalContent` holds.",
    "part.failed": "The part broke off, or was taken back. A text with `cut` stands as far as it "
    "came: its thread has it.",
    "hitl.requested": "Calls wait for a person.",
    "hitl.resolved": "A person answered, or the time is over; `resolution` is `approved`, "
    "`denied`, `partial` or `expired`.",
    "usage.updated": "Tokens of a model call; only where `extended` is on.",
    "metadata.updated": "What processors did (`context_update`), or why a reply ended "
    "(`finish_update`); only where `extended` is on.",
    "stream.ended": "Nothing more comes of this run.",
}
"""Descriptions of the chunks that a run publishes, in the order of a run."""

_SHOWN = {
    "timestamp": 1767225600000,
    "expiresAt": "2026-01-01T04:00:00+00:00",
    "tokenizer": "o200k_base",
}
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=_)[0-9a-f]{8}(?=_)")


def chunks_of_a_run() -> str:
    """Return a section for each chunk, as a run has published it."""
    found = asyncio.run(_published())
    lines: list[str] = []
    for name, text in CHUNKS.items():
        lines += [f"## `{name}`", "", text, "", "```json"]
        lines += [json.dumps(_settled(found[name]), indent=1, ensure_ascii=False), "```", ""]
    return "\n".join(lines)


def _settled(value: Any, key: str = "") -> Any:
    """Return a chunk with ids, times and counts that are the same each time."""
    if key in _SHOWN:
        return _SHOWN[key]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _settled(inner, name) for name, inner in fields.items()}
    if isinstance(value, list):
        return [_settled(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, str):
        return _ID.sub("…", value)
    if isinstance(value, int) and "token" in key.lower():
        return 100
    return value


async def _published() -> dict[str, Any]:
    """Return the first chunk of each event: of a refund, a reply that breaks off, and a stop."""
    found: dict[str, Any] = {}
    stopped: list[asyncio.Task[Any]] = []

    async def publish(chunk: dict[str, Any]) -> None:
        found.setdefault(chunk["event"], chunk)
        if chunk["event"] == "text.delta" and stopped:
            stopped[0].cancel()

    @tool(needs_approval=True)
    def refund(order: str) -> str:
        """Pay money back."""
        return f"paid for {order}"

    asks = {
        "reasoning": "Is it theirs?",
        "text": "Let me see.",
        "tool_calls": [{"name": "refund", "arguments": {"order": "A1"}}],
    }
    broken = Raw(reply="Your refund is on its way.", cut_after=900)
    slow = Raw(reply="One moment. " * 50, pause=0.01)
    searched = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "A1"}}
    none: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    searching: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [searched, none, {"type": "text", "text": "It is on its way."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    provider = FakeProvider([asks, Raw(json=searching), broken, slow])
    model = anthropic("claude-sonnet-4-5", api_key="none")
    clerk = Agent(name="clerk", system="You sell hats.", tools=[refund], model=model)
    shop = Network(name="shop", agents=[clerk], router=once(clerk))
    options: Any = {
        "streaming": StreamingConfig(publish=publish),
        "state": {"threadId": "t1"},
        "runtime": DirectRuntime(transport=provider.transport),
    }
    await shop.run("Money back!", approver=lambda _: True, **options)
    with suppress(errors.ModelStreamError):
        await shop.run("And now?", **options)
    stopped.append(asyncio.create_task(shop.run("Bye.", **options)))
    with suppress(asyncio.CancelledError):
        await stopped[0]
    return found


def public_names() -> str:
    """Return a row for each exported name: what it is, and the module that it is imported from."""
    package: Any = griffe.load("agentkit_py", search_paths=["."], resolve_aliases=True)
    modules = [one for name, one in package.modules.items() if not name.startswith("_")]
    rows: dict[str, str] = {}
    for module in [package, *(one for one in modules if one.exports)]:
        for name in module.exports or ():
            member = module[str(name)]
            thing = member.final_target if member.is_alias else member
            text = "" if thing.docstring is None else thing.docstring.value
            sentence = _cell(text.partition("\n\n")[0])
            row = f"| `{name}` | `{module.path}` | {sentence} |"
            rows.setdefault(str(thing.path), row)
    found = sorted(rows.values(), key=str.casefold)
    head = ["| Name | From | |", "| --- | --- | --- |"]
    return "\n".join([f"{len(found)} names.", "", *head, *found, ""])


TABLES: dict[str, Callable[[], str]] = {
    "names": public_names,
    "commands": commands,
    "endpoints": endpoints,
    "errors": errors_of_the_library,
    "events": events_of_a_run,
    "chunks": chunks_of_a_run,
}
