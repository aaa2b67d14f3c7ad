"""Rules for the tools of a Gemini request."""

from __future__ import annotations

import re
from typing import Any, cast

from .gemini_body import body, camel, camel_keys, unknown_name
from .gemini_schema import parser_trouble, service_trouble
from .rules import Inbound, Problem, is_name_list, names, rule

# google-genai 3.3 gives 128 characters; ai.google.dev/api/caching#FunctionDeclaration still says
# 64.
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_TOOL_FIELDS = names("""functionDeclarations googleSearch googleSearchRetrieval codeExecution
urlContext computerUse
    fileSearch googleMaps mcpServers retrieval""")
_DECLARATION_FIELDS = names("""name description parameters parametersJsonSchema response
responseJsonSchema
    behavior""")
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")

Declaration = tuple[str, dict[str, Any]]


def _tools(request: Inbound) -> list[Any]:
    """Return `tools` as a list; Google's JSON reads a lone object as a list of one."""
    given: Any = body(request).get("tools")
    if isinstance(given, dict):
        return [given]
    return cast("list[Any]", given) if isinstance(given, list) else []


def declarations(request: Inbound) -> list[Declaration]:
    """Return every function declaration with its pointer, keys in camelCase."""
    found: list[Declaration] | None = request.memo.get("gemini_declarations")
    if found is None:
        found = []
        for index, tool in enumerate(_tools(request)):
            inner: Any = camel_keys(tool).get("functionDeclarations") or []
            given = cast("list[dict[str, Any]]", inner if isinstance(inner, list) else [inner])
            found.extend(
                (f"tools[{index}].function_declarations[{number}]", camel_keys(one))
                for number, one in enumerate(given)
            )
        request.memo["gemini_declarations"] = found
    return found


@rule("gemini")
def tool_shape(request: Inbound) -> Problem | None:
    """`tools` is a list of objects with known fields, function declarations being objects too.

    Source: ai.google.dev/api/caching#Tool; "Unknown name … Cannot find field" is the answer of
    Google's JSON parser.
    """
    given: Any = body(request).get("tools")
    if given is not None and not isinstance(given, list | dict):
        return Problem(f"Invalid value at 'tools' (Tool), {given!r}", "tools")
    for index, tool in enumerate(_tools(request)):
        where = f"tools[{index}]"
        if not isinstance(tool, dict):
            return Problem(f"Invalid value at '{where}' (Tool), {tool!r}", where)
        for name in cast("dict[str, Any]", tool):
            if camel(name) not in _TOOL_FIELDS:
                return unknown_name(name, where)
        inner: Any = camel_keys(cast("dict[str, Any]", tool)).get("functionDeclarations") or []
        listed = cast("list[Any]", inner if isinstance(inner, list) else [inner])
        if not all(isinstance(one, dict) for one in listed):
            place = f"{where}.function_declarations"
            return Problem(f"Invalid value at '{place}' (FunctionDeclaration)", place)
    return None


@rule("gemini")
def declaration_fields(request: Inbound) -> Problem | None:
    """A function declaration is an object with known fields.

    Source: ai.google.dev/api/caching#FunctionDeclaration; "Unknown name … Cannot find field" is the
    answer of Google's JSON parser.
    """
    for where, one in declarations(request):
        for name in one:
            if name not in _DECLARATION_FIELDS:
                return unknown_name(name, where)
    return None


@rule("gemini")
def function_name(request: Inbound) -> Problem | None:
    """A function's name starts with a letter or `_`, then letters, digits, `_.:-`, at most 128.

    Source: google-genai 3.3, types.FunctionDeclaration.name; the API's answer is "Invalid function
    name. Must start with a letter or an underscore. …".
    """
    for where, one in declarations(request):
        name = one.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            words = (
                f"* GenerateContentRequest.{where}.name: Invalid function name. Must start with a "
                "letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), "
                "dots (.), colons (:), or dashes (-), with a maximum length of 128.\n"
            )
            return Problem(words, f"{where}.name")
    return None


@rule("gemini")
def duplicate_function_name(request: Inbound) -> Problem | None:
    """No two functions have the same name.

    Source: the API's answer "Duplicate function declaration found: …".
    """
    seen: set[str] = set()
    for where, one in declarations(request):
        if one["name"] in seen:
            words = f"Duplicate function declaration found: {one['name']}"
            return Problem(words, f"{where}.name")
        seen.add(one["name"])
    return None


@rule("gemini")
def unknown_schema_field(request: Inbound) -> Problem | None:
    """A schema has only the fields of Gemini's OpenAPI subset, with one type each.

    Source: ai.google.dev/api/caching#Schema; no `$schema`, `additionalProperties`, `$ref`, `$defs`,
    `const`, `exclusiveMinimum`, …: github.com/BerriAI/litellm/issues/14330 and
    github.com/zed-industries/zed/issues/44875; no list of types: zed-industries/zed/issues/53919.
    """
    for where, one in declarations(request):
        for name in ("parameters", "response"):
            if one.get(name) is not None:
                trouble = parser_trouble(one[name], f"{where}.{name}")
                if trouble is not None:
                    return trouble
    config: Any = camel_keys(body(request).get("generationConfig") or {})
    if config.get("responseSchema") is not None:
        return parser_trouble(config["responseSchema"], "generation_config.response_schema")
    return None


@rule("gemini")
def invalid_schema(request: Inbound) -> Problem | None:
    """A schema makes sense: objects with properties, arrays with items, known required names.

    Source: the API's answers "should be non-empty for OBJECT type" (github.com/agno-agi/agno/
    issues/2112), "items: missing field.", "required[0]: property is not defined", "enum: only
    allowed for STRING type", "only 'enum' and 'date-time' are supported for STRING type". A
    function without parameters leaves `parameters` out.
    """
    for where, one in declarations(request):
        if one.get("parameters") is None:
            continue
        trouble = service_trouble(one["parameters"], f"{where}.parameters", top=True)
        if trouble is not None:
            return trouble
    return None


@rule("gemini")
def two_parameter_schemas(request: Inbound) -> Problem | None:
    """`parameters` and `parametersJsonSchema` exclude each other.

    Source: google-genai 3.3, types.FunctionDeclaration.parameters_json_schema ("This field is
    mutually exclusive with `parameters`").
    """
    for where, one in declarations(request):
        if one.get("parameters") is not None and one.get("parametersJsonSchema") is not None:
            words = "parameters and parameters_json_schema cannot both be set."
            return Problem(f"* GenerateContentRequest.{where}: {words}\n", where)
    return None


def _calling_config(request: Inbound) -> dict[str, Any] | None:
    given: Any = body(request).get("toolConfig")
    if not isinstance(given, dict):
        return None
    inner: Any = camel_keys(cast("dict[str, Any]", given)).get("functionCallingConfig")
    return camel_keys(cast("dict[str, Any]", inner)) if isinstance(inner, dict) else None


@rule("gemini")
def calling_mode(request: Inbound) -> Problem | None:
    """The function calling mode is AUTO, ANY, NONE or VALIDATED.

    Source: ai.google.dev/api/caching#FunctionCallingConfig (enum Mode).
    """
    config = _calling_config(request)
    mode = (config or {}).get("mode")
    if mode is None or mode in _MODES:
        return None
    where = "tool_config.function_calling_config.mode"
    return Problem(f"Invalid value at '{where}' (Mode), \"{mode}\"", where)


@rule("gemini")
def calling_config_without_functions(request: Inbound) -> Problem | None:
    """A function calling config (but for mode NONE) needs function declarations.

    Source: the API's answer "Function calling config is set without function_declarations.", e.g.
    github.com/AstrBotDevs/AstrBot/pull/7407.
    """
    config = _calling_config(request)
    if config is None or config.get("mode") in (None, "NONE", "MODE_UNSPECIFIED"):
        return None
    if declarations(request):
        return None
    words = "Function calling config is set without function_declarations."
    return Problem(words, "tool_config.function_calling_config")


@rule("gemini")
def allowed_function_names(request: Inbound) -> Problem | None:
    """`allowedFunctionNames` goes with mode ANY or VALIDATED and names declared functions.

    Source: ai.google.dev/api/caching#FunctionCallingConfig ("This should only be set when the Mode
    is ANY or VALIDATED. Function names should match [FunctionDeclaration.name]").
    """
    config = _calling_config(request)
    listed: Any = (config or {}).get("allowedFunctionNames") or []
    if config is None or not listed:
        return None
    where = "tool_config.function_calling_config.allowed_function_names"
    if config.get("mode") not in ("ANY", "VALIDATED"):
        words = "allowed_function_names should be set only when function calling mode is ANY."
        return Problem(words, where)
    if not is_name_list(listed):
        return Problem(f"Invalid value at '{where}' (TYPE_STRING), {listed!r}", where)
    declared = {one["name"] for _, one in declarations(request)}
    unknown = [name for name in cast("list[str]", listed) if name not in declared]
    if unknown:
        words = f"allowed_function_names: {unknown[0]} is not among the function_declarations."
        return Problem(words, where)
    return None
