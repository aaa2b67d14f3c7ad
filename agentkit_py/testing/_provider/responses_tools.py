"""Rules for the tools of OpenAI's Responses API, whose functions are flat."""

from __future__ import annotations

from typing import Any, cast

from .openai_messages import FUNCTION_NAME
from .rules import Inbound, Problem, names, rule
from .strict_schema import schema_trouble, strict_trouble

_HOSTED = names("""file_search web_search web_search_preview web_search_2025_08_26
    web_search_preview_2025_03_11 computer_use_preview mcp code_interpreter image_generation
    local_shell shell apply_patch custom""")
_FIELDS = names("type name description parameters strict")
_MAX_TOOLS = 128


def _functions(request: Inbound) -> list[tuple[int, dict[str, Any]]]:
    tools = cast("list[dict[str, Any]]", request.body.get("tools") or [])
    return [(number, tool) for number, tool in enumerate(tools) if tool["type"] == "function"]


@rule("openai_responses")
def tools_type(request: Inbound) -> Problem | None:
    """`tools` is a list of at most 128 objects of a documented type.

    Source: openai-python types/responses/tool_param.py; the limit is that of
    platform.openai.com/docs/guides/function-calling.
    """
    tools: Any = request.body.get("tools")
    if tools is None:
        return None
    if not isinstance(tools, list):
        return Problem("Invalid type for 'tools': expected an array.", "tools", "invalid_type")
    found = cast("list[Any]", tools)
    for index, tool in enumerate(found):
        kind = cast("dict[str, Any]", tool).get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str) or (kind != "function" and kind not in _HOSTED):
            words = f"Invalid value: '{kind}'."
            return Problem(words, f"tools[{index}].type", "invalid_value")
    if len(found) <= _MAX_TOOLS:
        return None
    words = f"Invalid 'tools': array too long. Expected at most {_MAX_TOOLS}, got {len(found)}."
    return Problem(words, "tools", "array_above_max_length")


@rule("openai_responses")
def function_shape(request: Inbound) -> Problem | None:
    """A function is flat, `{type, name, description, parameters, strict}`, and has a name.

    Source: openai-python types/responses/function_tool_param.py; "Missing required parameter:
    'tools[0].name'." is the API's answer to the shape of chat completions.
    """
    for index, function in _functions(request):
        name = function.get("name")
        where = f"tools[{index}].name"
        if name is None:
            words = f"Missing required parameter: '{where}'."
            return Problem(words, where, "missing_required_parameter")
        if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
            words = (
                f"Invalid '{where}': string does not match pattern. Expected a string that matches "
                "the pattern '^[a-zA-Z0-9_-]+$'."
            )
            return Problem(words, where, "invalid_value")
        unknown = sorted(function.keys() - _FIELDS)
        if unknown:
            where = f"tools[{index}].{unknown[0]}"
            return Problem(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
    return None


@rule("openai_responses")
def duplicate_function(request: Inbound) -> Problem | None:
    """No two functions have the same name.

    Source: platform.openai.com/docs/guides/function-calling: calls name the function and nothing
    else, so two of one name could not be told apart.
    """
    seen: set[str] = set()
    for index, function in _functions(request):
        if function["name"] in seen:
            where = f"tools[{index}].name"
            return Problem(f"Invalid '{where}': duplicate tool name.", where)
        seen.add(function["name"])
    return None


@rule("openai_responses")
def function_parameters(request: Inbound) -> Problem | None:
    """`parameters`, where given, is a JSON schema of an object, and obeys the subset if strict.

    Source: platform.openai.com/docs/guides/structured-outputs#supported-schemas. A function that
    does not say whether it is strict is made so where its schema can be, and never refused
    (platform.openai.com/docs/guides/function-calling, "strict mode").
    """
    for index, function in _functions(request):
        parameters = function.get("parameters")
        strict = function.get("strict") is True
        if parameters is None and not strict:
            continue
        if strict:
            trouble = strict_trouble(parameters, defaults=request.model.startswith("gpt-5"))
        else:
            trouble = schema_trouble(parameters)
        if trouble is not None:
            words = f"Invalid schema for function '{function['name']}': {trouble}"
            where = f"tools[{index}].parameters"
            return Problem(words, where, "invalid_function_parameters")
    return None


@rule("openai_responses")
def choice_of_tool(request: Inbound) -> Problem | None:
    """`tool_choice` is none, auto, required, or names a tool that is there.

    Source: platform.openai.com/docs/api-reference/responses/create (tool_choice); "Tool choice
    'function' not found in 'tools' parameter." and, without tools, "Tool choice 'required' must be
    specified with 'tools' parameter." are the API's answers.
    """
    choice: Any = request.body.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return None
    if not request.body.get("tools"):
        words = "Tool choices other than 'auto' and 'none' must be specified with 'tools'."
        return Problem(words, "tool_choice")
    if choice == "required":
        return None
    given = cast("dict[str, Any]", choice) if isinstance(choice, dict) else {}
    kind = given.get("type")
    if isinstance(kind, str) and (kind in _HOSTED or kind == "allowed_tools"):
        return None
    declared = [function["name"] for _, function in _functions(request)]
    if kind == "function" and given.get("name") in declared:
        return None
    words = f"Tool choice '{given.get('name', choice)}' not found in 'tools' parameter."
    return Problem(words, "tool_choice", "invalid_value")
