"""Tables of the reference that the code gives: names, commands, endpoints, errors, events."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import griffe
import httpx
import typer

from agentkit_py import Agent, errors, events
from agentkit_py.cli.app import app as command_line
from agentkit_py.server import create_app
from agentkit_py.testing import ScriptedModel


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


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
    else:
        for name in inner:
            yield from _commands(inner[name], f"{path} {name}")


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
    lines: list[str] = []
    described = asyncio.run(_described())
    for path, methods in described["paths"].items():
        for method, facts in methods.items():
            lines += [f"## `{method.upper()} {path}`", "", f"{_cell(facts['summary'])}.", ""]
            if facts.get("description"):
                lines += [_cell(facts["description"]), ""]
            lines += _fields(facts, described)
            answers = ", ".join(f"`{status}`" for status in facts["responses"])
            lines += [f"Answers {answers}.", ""]
    return "\n".join(lines)


async def _described() -> Any:
    agent = Agent(name="a", system="s", model=ScriptedModel())
    app = create_app(agents=[agent], auth=lambda _: "user")
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shown") as client:
        return (await client.get("/openapi.json")).json()


def _fields(facts: Any, described: Any) -> list[str]:
    rows = [
        f"| `{one['name']}` | {one['in']} | {_cell(one.get('description') or '')} |"
        for one in facts.get("parameters", ())
    ]
    for content in (facts.get("requestBody") or {}).get("content", {}).values():
        schema = _resolved(content["schema"], described)
        for name, field in schema.get("properties", {}).items():
            needed = "" if name in schema.get("required", ()) else ", optional"
            rows.append(f"| `{name}` | body{needed} | {_cell(field.get('description') or '')} |")
    return ["| Field | Where | |", "| --- | --- | --- |", *rows, ""] if rows else []


def _resolved(schema: Any, described: Any) -> Any:
    for name in (schema.get("$ref") or "").split("/")[1:]:
        described = described[name]
    return described if "$ref" in schema else schema


def errors_of_the_library() -> str:
    """Return one row for each error: what it says, and its facts."""
    rows: list[str] = []

    def walk(kind: type[BaseException], depth: int) -> None:
        base = set[str]().union(*(_facts(one) for one in kind.__mro__[1:]))
        facts = ", ".join(f"`{name}`" for name in _facts(kind) if name not in base)
        rows.append(f"| {'&emsp;' * depth}`{kind.__name__}` | {_sentence(kind)} | {facts} |")
        for inner in sorted(kind.__subclasses__(), key=lambda one: one.__name__):
            if inner.__module__ == errors.__name__:
                walk(inner, depth + 1)

    walk(errors.AgentKitError, 0)
    return "\n".join(["| Error | When | Facts of its own |", "| --- | --- | --- |", *rows, ""])


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
}
