"""Rules for the tools of an Anthropic request."""

from __future__ import annotations

import re
from typing import Any, cast

from .anthropic_body import thinking_type
from .rules import Inbound, Problem, is_name_list, names, rule

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_SERVER_TOOL = re.compile(r"[a-z0-9_]+_\d{8}|mcp_toolset")
_TYPES = names("string number integer boolean object array null")
# anthropic-python 2.10, types/tool_param.py.
_FIELDS = names("""name description input_schema type cache_control strict defer_loading
allowed_callers
    eager_input_streaming input_examples""")


def _custom(request: Inbound) -> list[tuple[int, dict[str, Any]]]:
    """Return the tools of our own; Anthropic's have a dated type and rules of their own."""
    tools = cast("list[dict[str, Any]]", request.body.get("tools") or [])
    return [(n, tool) for n, tool in enumerate(tools) if tool.get("type") in (None, "custom")]


@rule("anthropic")
def tool_shape(request: Inbound) -> Problem | None:
    """`tools` is a list of objects: our own (no type, or custom) or Anthropic's, of a dated type.

    Source: anthropic-python types/tool_union_param.py.
    """
    tools: Any = request.body.get("tools")
    if tools is None:
        return None
    if not isinstance(tools, list):
        return Problem("tools: Input should be a valid list", "tools")
    for index, tool in enumerate(cast("list[Any]", tools)):
        if not isinstance(tool, dict):
            return Problem(f"tools.{index}: Input should be a valid dictionary", f"tools[{index}]")
        kind: Any = cast("dict[str, Any]", tool).get("type")
        if kind not in (None, "custom") and not _SERVER_TOOL.fullmatch(str(kind)):
            words = f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
            return Problem(f"tools.{index}: {words}", f"tools[{index}].type")
    return None


@rule("anthropic")
def tool_fields(request: Inbound) -> Problem | None:
    """A tool of our own has a name and an `input_schema`, and no unknown fields.

    Source: anthropic-python types/tool_param.py; "tools.0.custom.…: Field required" and "Extra
    inputs are not permitted" are the API's answers.
    """
    for index, tool in _custom(request):
        for name, expected in (("name", str), ("input_schema", dict)):
            if not isinstance(tool.get(name), expected):
                words = f"tools.{index}.custom.{name}: Field required"
                return Problem(words, f"tools[{index}].{name}")
        unknown = sorted(tool.keys() - _FIELDS)
        if unknown:
            words = f"tools.{index}.custom.{unknown[0]}: Extra inputs are not permitted"
            return Problem(words, f"tools[{index}].{unknown[0]}")
    return None


@rule("anthropic")
def tool_name(request: Inbound) -> Problem | None:
    """A tool's name matches `^[a-zA-Z0-9_-]{1,128}$`.

    Source: the API's answer "tools.0.custom.name: String should match pattern
    '^[a-zA-Z0-9_-]{1,128}$'".
    """
    for index, tool in _custom(request):
        if not _NAME.fullmatch(tool["name"]):
            words = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
            return Problem(f"tools.{index}.custom.name: {words}", f"tools[{index}].name")
    return None


@rule("anthropic")
def duplicate_tool_name(request: Inbound) -> Problem | None:
    """No two tools have the same name.

    Source: the API's answer "tools: Tool names must be unique."
    """
    seen: set[Any] = set()
    for index, tool in enumerate(cast("list[dict[str, Any]]", request.body.get("tools") or [])):
        name = tool.get("name")
        if name is not None and name in seen:
            return Problem("tools: Tool names must be unique.", f"tools[{index}].name")
        seen.add(name)
    return None


@rule("anthropic")
def input_schema(request: Inbound) -> Problem | None:
    """`input_schema` is a JSON schema (draft 2020-12) of `type: object`, not a union.

    Source: the API's answers "tools.0.custom.input_schema.type: Input should be 'object'",
    "input_schema does not support oneOf, allOf, or anyOf at the top level", "Property keys should
    match pattern '^[a-zA-Z0-9_.-]{1,64}$'" and "JSON schema is invalid. It must match JSON Schema
    draft 2020-12".
    """
    for index, tool in _custom(request):
        schema = cast("dict[str, Any]", tool["input_schema"])
        trouble = _trouble(schema)
        if trouble is not None:
            field, words = trouble
            path = f"tools.{index}.custom.input_schema"
            return Problem(f"{path}{field}: {words}", f"tools[{index}].input_schema{field}")
    return None


def _trouble(schema: dict[str, Any]) -> tuple[str, str] | None:
    if "type" not in schema:
        return ".type", "Field required"
    if schema["type"] != "object":
        return ".type", "Input should be 'object'"
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        return "", "input_schema does not support oneOf, allOf, or anyOf at the top level"
    invalid = "JSON schema is invalid. It must match JSON Schema draft 2020-12"
    properties: Any = {} if schema.get("properties") is None else schema["properties"]
    if not isinstance(properties, dict):
        return ".properties", "Input should be a valid dictionary"
    given = cast("dict[str, Any]", properties)
    if not all(_KEY.fullmatch(name) for name in given):
        return ".properties", "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
    required: Any = [] if schema.get("required") is None else schema["required"]
    if is_name_list(required) and all(map(_is_schema, given.values())):
        return None
    return "", invalid


def _is_schema(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    if not isinstance(value, dict):
        return False
    schema = cast("dict[str, Any]", value)
    kind: Any = schema.get("type")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if any(not isinstance(one, str) or one not in _TYPES for one in kinds if one is not None):
        return False
    items: Any = schema.get("items")
    return items is None or _is_schema(items)


@rule("anthropic")
def tool_choice_without_tools(request: Inbound) -> Problem | None:
    """`tool_choice` goes with `tools` only.

    Source: the API's answer "tool_choice may only be specified while providing tools."
    """
    if request.body.get("tool_choice") is None or request.body.get("tools"):
        return None
    return Problem("tool_choice may only be specified while providing tools.", "tool_choice")


@rule("anthropic")
def tool_choice_shape(request: Inbound) -> Problem | None:
    """`tool_choice` is `{type: auto | any | none}` or names a tool that is there.

    Source: anthropic-python types/tool_choice_param.py; "Tool '…' not found in provided tools" is
    the API's answer.
    """
    choice: Any = request.body.get("tool_choice")
    if choice is None:
        return None
    given = cast("dict[str, Any]", choice) if isinstance(choice, dict) else {}
    kind = given.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        words = f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the"
        return Problem(f"{words} expected tags: 'any', 'auto', 'none', 'tool'", "tool_choice.type")
    if kind != "tool":
        return None
    name = given.get("name")
    if any(tool.get("name") == name for tool in request.body["tools"]):
        return None
    return Problem(f"Tool '{name}' not found in provided tools", "tool_choice.name")


@rule("anthropic")
def forced_tool_with_thinking(request: Inbound) -> Problem | None:
    """With `thinking: enabled` no tool can be forced.

    Source: platform.claude.com/docs/en/build-with-claude/extended-thinking ("Tool choice
    limitation"); "Thinking may not be enabled when tool_choice forces tool use." is the answer.
    """
    choice = cast("dict[str, Any]", request.body.get("tool_choice") or {})
    if thinking_type(request) != "enabled" or choice.get("type") not in ("any", "tool"):
        return None
    return Problem("Thinking may not be enabled when tool_choice forces tool use.", "tool_choice")
