"""Rules for the tools of an OpenAI chat request."""

from __future__ import annotations

from typing import Any, cast

from .openai_messages import FUNCTION_NAME
from .rules import OPENAI_AND_AZURE, OPENAI_LIKE, Inbound, Problem, rule
from .strict_schema import schema_trouble, strict_trouble

_MAX_TOOLS = 128
_MAX_DESCRIPTION = 1024


def _functions(request: Inbound) -> list[tuple[int, dict[str, Any]]]:
    """Return the declared functions with their positions in `tools`."""
    found: list[tuple[int, dict[str, Any]]] | None = request.memo.get("openai_functions")
    if found is None:
        tools = cast("list[dict[str, Any]]", request.body.get("tools") or [])
        found = [
            (n, tool["function"]) for n, tool in enumerate(tools) if tool["type"] == "function"
        ]
        request.memo["openai_functions"] = found
    return found


@rule(*OPENAI_AND_AZURE)
def empty_tools(request: Inbound) -> Problem | None:
    """`tools`, where it is given, is not empty.

    Source: the API's answer "[] is too short - 'tools'". Whether xAI refuses an empty list is not
    documented, so Grok is left out.
    """
    if request.body.get("tools") != []:
        return None
    words = (
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty "
    )
    return Problem(f"[] is too short - 'tools'. {words}array instead.", "tools", "empty_array")


@rule(*OPENAI_LIKE)
def tool_shape(request: Inbound) -> Problem | None:
    """A tool is `{type: "function", function: {name, …}}`.

    Source: platform.openai.com/docs/api-reference/chat/create (tools), which also has
    `type: "custom"`.
    """
    tools: Any = request.body.get("tools")
    if tools is None:
        return None
    if not isinstance(tools, list):
        return Problem("Invalid type for 'tools': expected an array.", "tools", "invalid_type")
    for index, tool in enumerate(cast("list[Any]", tools)):
        given = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        kind = given.get("type")
        where = f"tools[{index}]"
        if kind not in ("function", "custom"):
            words = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
            return Problem(words, f"{where}.type", "invalid_value")
        inner: Any = given.get(kind)
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):  # pyright: ignore[reportUnknownMemberType]
            words = f"Missing required parameter: '{where}.{kind}.name'."
            return Problem(words, f"{where}.{kind}.name", "missing_required_parameter")
    return None


@rule(*OPENAI_LIKE)
def too_many_tools(request: Inbound) -> Problem | None:
    """There are at most 128 tools.

    Source: platform.openai.com/docs/api-reference/chat/create ("A max of 128 functions are
    supported"); docs.x.ai says the same.
    """
    tools = cast("list[Any]", request.body.get("tools") or [])
    if len(tools) <= _MAX_TOOLS:
        return None
    words = f"Expected an array with maximum length {_MAX_TOOLS}, but got an array with length "
    message = f"Invalid 'tools': array too long. {words}{len(tools)} instead."
    return Problem(message, "tools", "array_above_max_length")


@rule(*OPENAI_LIKE)
def tool_name(request: Inbound) -> Problem | None:
    """A function's name matches `^[a-zA-Z0-9_-]{1,64}$`.

    Source: platform.openai.com/docs/api-reference/chat/create ("Must be a-z, A-Z, 0-9, or contain
    underscores and dashes, with a maximum length of 64").
    """
    for index, function in _functions(request):
        if not FUNCTION_NAME.fullmatch(function["name"]):
            where = f"tools[{index}].function.name"
            words = (
                f"Invalid '{where}': string does not match pattern. Expected a string that matches "
                "the pattern '^[a-zA-Z0-9_-]+$'."
            )
            return Problem(words, where, "invalid_value")
    return None


@rule(*OPENAI_LIKE)
def duplicate_tool_name(request: Inbound) -> Problem | None:
    """No two functions have the same name.

    Source: platform.openai.com/docs/guides/function-calling: calls name the function and nothing
    else, so two of one name could not be told apart.
    """
    seen: set[str] = set()
    for index, function in _functions(request):
        name = function["name"]
        if name in seen:
            where = f"tools[{index}].function.name"
            return Problem(f"Invalid '{where}': duplicate tool name '{name}'.", where)
        seen.add(name)
    return None


@rule("azure_openai")
def description_too_long(request: Inbound) -> Problem | None:
    """With Azure a function's description has at most 1,024 characters.

    Source: learn.microsoft.com/azure/ai-services/openai/how-to/function-calling ("Tool/function
    descriptions are currently limited to 1,024 characters").
    """
    for index, function in _functions(request):
        length = len(str(function.get("description") or ""))
        if length > _MAX_DESCRIPTION:
            where = f"tools[{index}].function.description"
            words = "string too long. Expected a string with maximum length 1024, but got a string"
            message = f"Invalid '{where}': {words} with length {length} instead."
            return Problem(message, where, "string_above_max_length")
    return None


@rule(*OPENAI_LIKE)
def parameters_schema(request: Inbound) -> Problem | None:
    """`parameters`, where given, is a JSON schema of an object that a parser would accept.

    Source: the API's answers "schema must be a JSON Schema of 'type: "object"', got 'type:
    "None"'", "object schema missing properties"
    (github.com/langchain-ai/langchain-mcp-adapters/pull/343) and "array schema missing items". For
    Grok only the first is known.
    """
    for index, function in _functions(request):
        if "parameters" not in function:
            continue
        trouble = schema_trouble(function["parameters"], lenient=request.provider == "grok")
        if trouble is not None:
            words = f"Invalid schema for function '{function['name']}': {trouble}"
            where = f"tools[{index}].function.parameters"
            return Problem(words, where, "invalid_function_parameters")
    return None


@rule(*OPENAI_AND_AZURE)
def strict_parameters(request: Inbound) -> Problem | None:
    """With `strict: true` a schema keeps to the subset of Structured Outputs.

    Source: platform.openai.com/docs/guides/structured-outputs#supported-schemas: all properties
    required, `additionalProperties: false`, supported keywords only. xAI does not enforce it.
    """
    for index, function in _functions(request):
        if function.get("strict") is not True:
            continue
        where = f"tools[{index}].function.parameters"
        trouble = strict_trouble(function.get("parameters"), defaults=_defaults(request))
        if trouble is not None:
            words = f"Invalid schema for function '{function['name']}': {trouble}"
            return Problem(words, where, "invalid_function_parameters")
    return None


@rule(*OPENAI_AND_AZURE)
def strict_response_format(request: Inbound) -> Problem | None:
    """A `json_schema` response format has a name and a schema, and obeys the subset if strict.

    Source: platform.openai.com/docs/guides/structured-outputs#supported-schemas.
    """
    wanted: Any = request.body.get("response_format")
    if not isinstance(wanted, dict):
        return None
    if cast("dict[str, Any]", wanted).get("type") != "json_schema":
        return None
    given = cast("dict[str, Any]", wanted).get("json_schema")
    inner = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    name = inner.get("name")
    if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
        where = "response_format.json_schema.name"
        words = f"Missing required parameter: '{where}'."
        return Problem(words, where, "missing_required_parameter")
    if inner.get("strict") is not True:
        return None
    trouble = strict_trouble(inner.get("schema"), defaults=_defaults(request))
    if trouble is None:
        return None
    return Problem(f"Invalid schema for response_format '{name}': {trouble}", "response_format")


def _defaults(request: Inbound) -> bool:
    """Whether `default` may stand in a strict schema.

    The documentation leaves it out and gpt-4o refuses it; OpenAI's own gpt-5 models take it, Azure
    does not: github.com/openai/openai-agents-python/issues/4390.
    """
    return request.provider == "openai" and request.model.startswith("gpt-5")


@rule(*OPENAI_LIKE)
def tool_choice_without_tools(request: Inbound) -> Problem | None:
    """`tool_choice` goes with `tools` only.

    Sources: the APIs' answers "'tool_choice' is only allowed when 'tools' are specified"
    (github.com/writer/writer-framework/pull/1013) and, from xAI, "A tool_choice was set on the
    request but no tools were specified" (github.com/livekit/agents/issues/3114).
    """
    if request.body.get("tool_choice") is None or request.body.get("tools"):
        return None
    words = (
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    )
    if request.provider == "grok":
        words = "A tool_choice was set on the request but no tools were specified."
    return Problem(words, "tool_choice")


@rule(*OPENAI_LIKE)
def tool_choice_shape(request: Inbound) -> Problem | None:
    """`tool_choice` is none, auto, required, or names a tool that is there.

    Source: platform.openai.com/docs/api-reference/chat/create (tool_choice, which also has
    `allowed_tools`); "Tool choice '…' not found in 'tools' parameter" is the API's answer.
    """
    choice: Any = request.body.get("tool_choice")
    if choice is None or choice in ("none", "auto", "required"):
        return None
    given = cast("dict[str, Any]", choice) if isinstance(choice, dict) else {}
    kind = given.get("type")
    if kind == "allowed_tools":
        return None
    if kind not in ("function", "custom"):
        words = "Supported values are: 'none', 'auto', and 'required'."
        return Problem(f"Invalid value: '{choice}'. {words}", "tool_choice", "invalid_value")
    inner: Any = given.get(kind)
    name: Any = cast("dict[str, Any]", inner).get("name") if isinstance(inner, dict) else None
    declared = [tool[kind]["name"] for tool in request.body["tools"] if tool["type"] == kind]
    if name in declared:
        return None
    words = f"Tool choice '{name}' not found in 'tools' parameter."
    return Problem(f"Invalid value for 'tool_choice': {words}", f"tool_choice.{kind}.name")


@rule(*OPENAI_LIKE)
def parallel_calls_without_tools(request: Inbound) -> Problem | None:
    """`parallel_tool_calls` goes with `tools` only.

    Source: the API's answer "'parallel_tool_calls' is only allowed when 'tools' are specified"; for
    xAI github.com/NousResearch/hermes-agent/pull/20606.
    """
    if request.body.get("parallel_tool_calls") is None or request.body.get("tools"):
        return None
    words = "'parallel_tool_calls' is only allowed when 'tools' are specified."
    message = f"Invalid value for 'parallel_tool_calls': {words}"
    return Problem(message, "parallel_tool_calls")
