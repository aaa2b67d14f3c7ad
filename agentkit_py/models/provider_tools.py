"""Tools that a provider defines and the program runs: definitions, calls and results on the wire.

Claude calls its own ones like any other tool. OpenAI's Responses API has an item of its own for the
calls of each, and another for their results; a call that runs at OpenAI is none of these.

Source: github.com/openai/openai-python 3.57, types/responses/response_input_item_param.py;
github.com/anthropics/anthropic-sdk-python 2.14, types/beta/beta_tool_union_param.py (November 2026)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from agentkit_py._core.json import (
    JsonObject,
    JsonValue,
    as_list,
    as_object,
    copied,
    dumps,
    strict_loads,
)
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import ImageContent, MediaContent
from agentkit_py.models.base import Model, ToolSpec
from agentkit_py.models.encoding import (
    Encoded,
    ToolExchange,
    data_url,
    encodable,
    media_type,
    result_content,
)
from agentkit_py.models.replies import objects, text_or_empty

ANTHROPIC, RESPONSES, CHAT = "anthropic", "openai-responses", "chat"
"""The formats that have such tools."""

_CLAUDE = re.compile(
    r"(?P<kind>bash|text_editor|memory|computer|computer_toolset|browser_toolset)_(?P<date>\d{8})"
)
_OPENAI = frozenset({"custom", "shell", "apply_patch", "computer", "computer_use_preview", "mcp"})
_RETIRED_SHELL = "local_shell"
"""developers.openai.com/api/docs/guides/tools-local-shell (November 2026)"""

_RENAMED_EDITOR = "20250429"
"""The version since which Claude's text editor has another name."""

_BETAS = {
    "20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}


def is_run_by_program(tool: Mapping[str, Any]) -> bool:
    """Return whether a provider's definition is of a tool that the program has to run."""
    kind = text_or_empty(tool.get("type"))
    if _CLAUDE.fullmatch(kind):
        return True
    if kind == "shell":
        return (as_object(tool.get("environment")) or {}).get("type") == "local"
    if kind == "mcp":
        return tool.get("require_approval") not in (None, "never")
    return kind in _OPENAI or kind == _RETIRED_SHELL


def defined(given: str | Mapping[str, Any]) -> tuple[str, JsonObject]:
    """Return the name of a provider's tool and its definition as its format writes it.

    Raises:
        ConfigurationError: It is none that a program runs.
    """
    tool: dict[str, Any] = {"type": given} if isinstance(given, str) else dict(copied(dict(given)))
    kind = text_or_empty(tool.get("type"))
    if kind == _RETIRED_SHELL:
        raise ConfigurationError(
            f"provider_tool({given!r:.120}): OpenAI has retired local_shell with the model that "
            "had it, codex-mini-latest. Use provider_tool('shell', handler), which today's models "
            "have instead."
        )
    if kind == "shell" and "environment" not in tool:
        tool["environment"] = {"type": "local"}
    if kind == "mcp":
        tool.setdefault("require_approval", "always")
    if not is_run_by_program(tool):
        raise ConfigurationError(
            f"provider_tool({given!r:.120}): this is not a tool that a program runs; those are "
            f"{', '.join(sorted(_OPENAI))} of OpenAI (a shell with the environment local, MCP with "
            "approvals), and bash, text_editor, memory, computer, computer_toolset and "
            "browser_toolset of Claude with a date, e.g. 'bash_20250124'. What the provider runs "
            "itself goes into hosted_tools=[…]."
        )
    found = _CLAUDE.fullmatch(kind)
    if found is not None:
        return _claude(found["kind"], found["date"], tool)
    if kind == "mcp":
        return approval_name(text_or_empty(tool.get("server_label"))), tool
    if kind != "custom":
        return kind.removesuffix("_use_preview"), tool
    name = text_or_empty(tool.get("name"))
    if not name:
        raise ConfigurationError(f"provider_tool({given!r:.120}): a custom tool needs a 'name'.")
    return name, tool


def _claude(kind: str, date: str, tool: JsonObject) -> tuple[str, JsonObject]:
    if kind.endswith("_toolset"):  # it has no name, its members have
        return kind.removesuffix("_toolset"), tool
    usual = kind
    if kind == "text_editor":
        newer = date >= _RENAMED_EDITOR
        usual = "str_replace_based_edit_tool" if newer else "str_replace_editor"
    name = text_or_empty(tool.get("name")) or usual
    return name, {"type": tool["type"], "name": name, **tool}


def approval_name(server: str) -> str:
    """Return the name of the tool that answers an MCP server's requests for approval."""
    return f"mcp_approval_{re.sub(r'[^A-Za-z0-9_-]', '_', server)}"[:64]


def definition(spec: ToolSpec, model: Model, form: str) -> Encoded:
    """Return the definition of a provider's tool in a format.

    Raises:
        ConfigurationError: The format has no such tool.
    """
    tool = spec.provider or {}
    kind = text_or_empty(tool.get("type"))
    forms = {ANTHROPIC} if _CLAUDE.fullmatch(kind) else {RESPONSES}
    if kind == "custom":
        forms.add(CHAT)
    if form not in forms:
        raise ConfigurationError(
            f"tools: {spec.name!r} is a provider's own tool ({kind}), which {model.provider} model "
            f"{model.model!r} does not have. Give the agent a model of "
            f"{' or '.join('Claude' if f == ANTHROPIC else 'OpenAI' for f in sorted(forms))}, or "
            "make a tool with create_tool(…) that every model can call."
        )
    made: Encoded = dict(copied(dict(tool)))
    return _nested(made) if form == CHAT else made


def _nested(tool: Encoded) -> Encoded:
    """Return a custom tool as chat completions write it."""
    custom = {name: value for name, value in tool.items() if name != "type"}
    form = as_object(custom.get("format")) or {}
    if form.get("type") == "grammar" and "grammar" not in form:
        grammar = {name: value for name, value in form.items() if name != "type"}
        custom["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": "custom", "custom": custom}


def betas_of(specs: Iterable[ToolSpec]) -> list[str]:
    """Return the names of the betas that Claude's tools of these versions need."""
    found: list[str] = []
    for spec in specs:
        kind = text_or_empty((spec.provider or {}).get("type"))
        match = _CLAUDE.fullmatch(kind)
        beta = _BETAS.get(kind) or (None if match is None else _BETAS.get(match["date"]))
        found += [] if beta is None or beta in found else [beta]
    return found


# Claude's toolsets: a call is of a member, e.g. "screenshot" of "computer".


def member_call(block: Mapping[str, Any]) -> tuple[str, JsonObject] | None:
    """Return the name and the arguments of a toolset's call; None: it is of no toolset."""
    toolset, given = text_or_empty(block.get("toolset_name")), as_object(block.get("input"))
    if not toolset or given is None:
        return None
    return toolset, {"action": block.get("name"), **given}


# OpenAI's items.


class ProgramCall(NamedTuple):
    """A call of a tool that OpenAI defines and the program runs."""

    name: str
    arguments: JsonObject
    id: str


def program_call(item: Mapping[str, Any]) -> ProgramCall | None:
    """Return the call that an item of a reply is; None: it is none, or runs at OpenAI."""
    kind, call_id = item.get("type"), text_or_empty(item.get("call_id"))
    match kind:
        case "custom_tool_call":
            said: JsonObject = {"input": text_or_empty(item.get("input"))}
            return ProgramCall(text_or_empty(item.get("name")), said, call_id)
        case "shell_call":
            where = (as_object(item.get("environment")) or {}).get("type", "local")
            action = as_object(item.get("action")) or {}
            return ProgramCall("shell", action, call_id) if where == "local" else None
        case "apply_patch_call":
            return ProgramCall("apply_patch", as_object(item.get("operation")) or {}, call_id)
        case "computer_call":
            names = ("action", "actions", "pending_safety_checks")
            kept = {name: item[name] for name in names if item.get(name)}
            return ProgramCall("computer", kept, call_id)
        case "mcp_approval_request":
            names = ("server_label", "name", "arguments")
            asked = {name: text_or_empty(item.get(name)) for name in names}
            name = approval_name(asked["server_label"])
            return ProgramCall(name, {**asked}, text_or_empty(item.get("id")))
        case _:
            return None


def answered_by_provider(items: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the calls of which a reply has the results itself."""
    ends = (item for item in items if text_or_empty(item.get("type")).endswith("_output"))
    return frozenset(text_or_empty(item.get("call_id")) for item in ends)


def program_item(item: Mapping[str, Any]) -> Encoded:
    """Return the item of a call as it goes back."""
    found = {k: v for k, v in item.items() if v is not None and k != "created_by"}
    return dict(copied(found))


def is_program_call(item: Mapping[str, Any], one: ToolExchange) -> bool:
    """Return whether an item matches a call of the history."""
    call = program_call(item)
    return call is not None and (call.name, call.arguments) == (one.call.name, one.call.arguments)


def program_output(
    item: Mapping[str, Any], one: ToolExchange, text: Callable[[str], Encoded], media: MediaEncoder
) -> list[Encoded]:
    """Return the items that answer a call, of which `item` was sent."""
    head = {"call_id": one.id}
    value, error = _value_of(one)
    match item.get("type"):
        case "shell_call":
            runs = [_run(r) for r in _runs(value)] if error is None else [_failed_run(error)]
            limit = (as_object(item.get("action")) or {}).get("max_output_length")
            most = {} if limit is None else {"max_output_length": limit}
            return [{"type": "shell_call_output", **head, "output": runs, **most}]
        case "apply_patch_call":
            found = as_object(value) or {}
            done = error is None and found.get("status", "completed") == "completed"
            words = error or text_or_empty(found.get("output")) or _text(value)
            status = "completed" if done else "failed"
            return [{"type": "apply_patch_call_output", **head, "status": status, "output": words}]
        case "computer_call":
            return _seen(item, one, error, text)
        case "mcp_approval_request":
            return [_approval(item, value, error)]
        case _:
            words = None if error is None else f"Error: {error}"
            output = words or result_content(one, text, media) or ""
            return [{"type": "custom_tool_call_output", **head, "output": output}]


MediaEncoder = Callable[[MediaContent], "Encoded | None"]


def _value_of(one: ToolExchange) -> tuple[JsonValue, str | None]:
    """Return a result's value and error."""
    try:
        found = as_object(strict_loads(one.output))
    except ValueError:
        found = None
    if found is None or len(found) != 1:
        return one.output, None
    failure = as_object(found.get("error"))
    if failure is not None:
        return None, text_or_empty(failure.get("message")) or dumps(failure)
    return found.get("data", one.output), None


def _text(value: JsonValue) -> str:
    return encodable(value if isinstance(value, str) else dumps(value))


def _runs(value: JsonValue) -> list[JsonValue]:
    """Return the shell handler's outputs, for each command."""
    return as_list(value) or [value]


def _run(value: JsonValue) -> Encoded:
    found = as_object(value)
    if found is None or not found.keys() & {"stdout", "stderr", "exit_code", "outcome"}:
        found = {"stdout": _text(value)}
    exit_code = found.get("exit_code")
    ended = {"type": "exit", "exit_code": exit_code if isinstance(exit_code, int) else 0}
    return {
        "stdout": encodable(text_or_empty(found.get("stdout"))),
        "stderr": encodable(text_or_empty(found.get("stderr"))),
        "outcome": as_object(found.get("outcome")) or ended,
    }


def _failed_run(error: str) -> Encoded:
    return {"stdout": "", "stderr": encodable(error), "outcome": {"type": "exit", "exit_code": 1}}


_BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB"
    "0C8AAAAASUVORK5CYII="
)
"""An empty screen where a computer could not be used: the API wants a picture."""


def _seen(
    item: Mapping[str, Any], one: ToolExchange, error: str | None, text: Callable[[str], Encoded]
) -> list[Encoded]:
    """Return the screenshot that answers a computer's call, with the checks that were agreed to."""
    pictures = [p for p in one.parts if isinstance(p, ImageContent)]
    shown = data_url(pictures[-1]) if pictures and _is_shown(pictures[-1]) else _BLANK
    checks = objects(item.get("pending_safety_checks")) if error is None else []
    agreed = {"acknowledged_safety_checks": checks} if checks else {}
    output = {"type": "computer_screenshot", "image_url": shown}
    answer = {"type": "computer_call_output", "call_id": one.id, "output": output, **agreed}
    if shown != _BLANK:
        return [answer]
    words = f"The computer gave no screenshot: {error or _text(one.output)}"
    return [answer, {"type": "message", "role": "user", "content": [text(encodable(words))]}]


def _is_shown(picture: ImageContent) -> bool:
    return picture.url is not None or media_type(picture) in ("image/png", "image/jpeg")


def _approval(item: Mapping[str, Any], value: JsonValue, error: str | None) -> Encoded:
    found = as_object(value) or {"approve": value is True}
    agreed = error is None and found.get("approve") is True
    reason = error or text_or_empty(found.get("reason"))
    said = {"reason": encodable(reason)} if reason and not agreed else {}
    request = text_or_empty(item.get("id"))
    answer = {"type": "mcp_approval_response", "approval_request_id": request}
    return {**answer, "approve": agreed, **said}


def read_output(item: Mapping[str, Any]) -> tuple[str, JsonValue] | None:
    """Return the id and the value of a result that a request holds; None: it is another item."""
    match item.get("type"):
        case "custom_tool_call_output":
            value: JsonValue = item.get("output")
        case "shell_call_output":
            value = {"data": item.get("output")}
        case "apply_patch_call_output":
            names = ("status", "output")
            value = {"data": {name: item[name] for name in names if name in item}}
        case "computer_call_output":
            output = as_object(item.get("output")) or {}
            url = text_or_empty(output.get("image_url"))
            value = {"data": _picture(url)}
        case "mcp_approval_response":
            names = ("approve", "reason")
            given = {name: item[name] for name in names if name in item}
            return text_or_empty(item.get("approval_request_id")), {"data": given}
        case _:
            return None
    return text_or_empty(item.get("call_id")), value


_DATA_URL = re.compile(r"data:(?P<kind>[^;,]+);base64,(?P<data>.*)", re.DOTALL)


def _picture(url: str) -> JsonValue:
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return {"type": "image", "url": url}
    return {"type": "image", "data": found["data"], "mediaType": found["kind"]}
