"""OpenAI chat completions, also as Azure OpenAI and Grok have them: rules, replies, streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from agentkit_py.models.capabilities import capabilities_of

from .openai import (
    FUNCTION_NAME,
    DeclaredFunctions,
    Ranges,
    duplicate_names,
    empty_array,
    has_known_efforts,
    invalid_parameters,
    missing,
    out_of_range,
    quoted,
    refused_effort,
    schema_trouble,
    strict_trouble,
    takes_defaults,
    too_long,
    tools_over_limit,
    wrong_name,
    wrong_type,
    wrong_value,
)
from .replies import CREATED, Ids, ReplyContent, TokenCounts, pieces
from .rules import (
    DATA_URL,
    IMAGES,
    URL,
    Problem,
    Request,
    ToolRound,
    data_type,
    is_name_list,
    items_of,
    matches,
    names,
    not_known,
    numbered,
    object_of,
    repeated,
    rules_of,
    view,
)
from .types import ProviderName, SseEvent

_rule = rules_of("openai", "azure_openai", "grok")
# Rules of every host that has copied this format; hosts differ in the rest.
_common_rule = rules_of("openai", "azure_openai", "grok", "compatible")
_openai_rule = rules_of("openai", "azure_openai")
_azure_rule = rules_of("azure_openai")
_API = "platform.openai.com/docs/api-reference/chat/create"
_CALLING = "platform.openai.com/docs/guides/function-calling"
_SCHEMAS = "platform.openai.com/docs/guides/structured-outputs#supported-schemas"
_AZURE_REASONING = "learn.microsoft.com/azure/ai-services/openai/how-to/reasoning"

# ------------------------------------------------------------------------------------- parameters

# openai-python 3.51, types/chat/completion_create_params.py, is generated from OpenAI's own
# specification: every field of the request body is listed there.
_ARGUMENTS = names("""messages model audio frequency_penalty function_call functions logit_bias
    logprobs max_completion_tokens max_tokens metadata modalities moderation n parallel_tool_calls
    prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention
    reasoning_effort response_format safety_identifier seed service_tier stop store stream
    stream_options temperature tool_choice tools top_logprobs top_p user verbosity
    web_search_options""")
# learn.microsoft.com/azure/ai-services/openai/reference adds "on your data".
_AZURE_ARGUMENTS = _ARGUMENTS | {"data_sources", "user_security_context"}
_RANGES: Ranges = {
    "temperature": (float, 0, 2),
    "top_p": (float, 0, 1),
    "presence_penalty": (float, -2, 2),
    "frequency_penalty": (float, -2, 2),
    "max_tokens": (int, 1, float("inf")),
    "max_completion_tokens": (int, 1, float("inf")),
    "n": (int, 1, 128),
    "top_logprobs": (int, 0, 20),
}
_MAX_STOPS = 4


def _reasons(model: str) -> bool:
    return re.match(r"o[134](-|$)|gpt-5(-mini|-nano)?(-\d|$)", model) is not None


def _is_o_series(model: str) -> bool:
    return re.match(r"o[134](-|$)", model) is not None


@_common_rule(f"{_API} (model: string, required)")
def missing_model(request: Request) -> Iterator[Problem]:
    """`model` is a non-empty string (with Azure the path's deployment replaces it)."""
    if not request.model:
        yield Problem("you must provide a model parameter", "model")


@_openai_rule("openai-python types/chat/completion_create_params.py", "sdk")
def unknown_argument(request: Request) -> Iterator[Problem]:
    """The body has no fields but the documented ones. docs.x.ai says that Grok ignores some."""
    known = _AZURE_ARGUMENTS if request.provider == "azure_openai" else _ARGUMENTS
    for name in request.body:
        if name not in known:
            yield not_known(f"the argument {name!r} of chat completions", name)


@_common_rule(f"{_API} (messages: array, required, minItems 1)")
def missing_messages(request: Request) -> Iterator[Problem]:
    """`messages` is a list with an element or more."""
    given = request.body.get("messages")
    if given is None:
        yield missing("messages")
    elif not isinstance(given, list):
        yield wrong_type("messages", "an array of objects")
    elif not given:
        yield empty_array("messages")


@_rule(f"{_API}; docs.x.ai/docs/api-reference (between 0 and 2, and so on)")
def parameter_out_of_range(request: Request) -> Iterator[Problem]:
    """Numeric parameters are numbers within their documented range, or null."""
    yield from out_of_range(request.body, _RANGES)


@_rule(f"{_API} (up to 4 sequences); xAI documents the same")
def too_many_stops(request: Request) -> Iterator[Problem]:
    """`stop` is a string or a list of at most four strings."""
    stop: Any = request.body.get("stop")
    if stop is None or isinstance(stop, str):
        return
    if not is_name_list(stop) or len(stop) > _MAX_STOPS:
        yield Problem("Invalid 'stop': expected a string or an array of up to 4 strings.", "stop")


@_openai_rule(
    f"platform.openai.com/docs/guides/reasoning; {_AZURE_REASONING} (not supported)",
    models=_reasons,
)
def reasoning_model_parameter(request: Request) -> Iterator[Problem]:
    """Reasoning models take no `max_tokens`, no `stop`, no temperature or top_p other than 1.

    That is o1, o3, o4, gpt-5, gpt-5-mini, gpt-5-nano. Later models take a temperature with some
    efforts and are left alone. With Azure only a deployment named after its model is recognised.
    """
    if request.body.get("max_tokens") is not None:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
        yield Problem(words, "max_tokens", "unsupported_parameter")
    takes_stop = request.model.startswith("o3-mini")  # one recorded exchange of June 2025
    if request.body.get("stop") and not takes_stop:  # recorded with gpt-5-mini and o1-mini
        words = "Unsupported parameter: 'stop' is not supported with this model."
        yield Problem(words, "stop", "unsupported_parameter")
    for name in ("temperature", "top_p"):
        value = request.body.get(name)
        if value is not None and value != 1:
            words = (
                f"Unsupported value: '{name}' does not support {value} with this model. Only the "
                "default (1) value is supported."
            )
            yield Problem(words, name, "unsupported_value")


@_openai_rule("github.com/anomalyco/opencode/issues/4451 (November 2025)", models=has_known_efforts)
def unsupported_effort(request: Request) -> Iterator[Problem]:
    """A model takes the efforts of its generation only."""
    effort = request.body.get("reasoning_effort")
    yield from refused_effort(request.model, effort, "reasoning_effort")


@_openai_rule(f"{_AZURE_REASONING} (parallel tool calls: not supported)", models=_is_o_series)
def parallel_calls_on_reasoning_model(request: Request) -> Iterator[Problem]:
    """The o-series does not know `parallel_tool_calls`."""
    if "parallel_tool_calls" in request.body:
        words = "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
        yield Problem(words, "parallel_tool_calls", "unsupported_parameter")


@_rule(f"{_API} (only set this when you set stream: true); xAI documents the same")
def stream_options_without_stream(request: Request) -> Iterator[Problem]:
    """`stream_options` goes with `stream: true` only."""
    if request.body.get("stream_options") is not None and request.body.get("stream") is not True:
        words = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Problem(words, "stream_options")


@_openai_rule("platform.openai.com/docs/guides/structured-outputs, JSON mode")
def json_mode_without_the_word(request: Request) -> Iterator[Problem]:
    """`response_format: json_object` needs the word "json" somewhere in the messages."""
    if object_of(request.body.get("response_format")).get("type") != "json_object":
        return
    if "json" not in str(request.body["messages"]).lower():
        words = "'messages' must contain the word 'json' in some form, to use 'response_format' of"
        yield Problem(f"{words} type 'json_object'.", "messages")


# --------------------------------------------------------------------------------------- messages

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_FIELDS = {  # the message types of the API reference
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"},
    "tool": {"role", "content", "tool_call_id", "name"},
    "function": {"role", "content", "name"},
}
# A tool message may name its tool: 43 recorded exchanges with gpt-4.1-nano (2026).
# The SDKs send back the API's own fields of an assistant message.
_FIELDS["assistant"] |= {"annotations"}
_PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
    "assistant": {"text", "refusal"},
    "user": {"text", "image_url", "input_audio", "file"},
    "function": set[str](),
}
_TEXT_PARTS = ("text", "refusal")
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_ID_LENGTH = 40

WireMessage = tuple[str, dict[str, Any]]


@view
def _messages(request: Request) -> list[WireMessage]:
    """Return the messages with their pointers, once each is known to be an object."""
    return list(numbered("messages", request.body["messages"]))


def _parts(request: Request) -> Iterator[tuple[str, str, Any]]:
    """Yield every part of every message, with its pointer and the message's role."""
    for where, message in _messages(request):
        for place, part in numbered(f"{where}.content", message.get("content")):
            yield place, message["role"], part


@view
def _calls(request: Request) -> list[tuple[str, Any]]:
    """Return every tool call of the request with its pointer."""
    return [
        call
        for where, message in _messages(request)
        if message["role"] == "assistant"
        for call in numbered(f"{where}.tool_calls", message.get("tool_calls"))
    ]


@_common_rule(f"{_API} (messages: array of objects)")
def message_not_object(request: Request) -> Iterator[Problem]:
    """Each message is an object."""
    for where, message in numbered("messages", request.body["messages"]):
        if not isinstance(message, dict):
            yield wrong_type(where, "an object")


@_common_rule(f"{_API}; the words are the API's")
def unknown_role(request: Request) -> Iterator[Problem]:
    """A role is system, developer, user, assistant, tool or function."""
    for where, message in _messages(request):
        role = message.get("role")
        if role is None:
            yield missing(f"{where}.role")
        elif role not in _ROLES:
            yield wrong_value(f"{where}.role", role, quoted(_ROLES))


@_openai_rule(f"{_API}; github.com/transitive-bullshit/agentic/issues/531")
def unknown_message_field(request: Request) -> Iterator[Problem]:
    """A message has no fields but those documented for its role."""
    for index, (where, message) in enumerate(_messages(request)):
        for name in sorted(message.keys() - _FIELDS[message["role"]]):
            words = f"Additional properties are not allowed ('{name}' was unexpected)"
            yield Problem(f"{words} - 'messages.{index}'", f"{where}.{name}")


@_rule("the API's answer", "observed")
def message_name(request: Request) -> Iterator[Problem]:
    r"""`name`: 64 characters at most, no blanks, `<`, `|`, `\`, `/`, `>`; functions need it."""
    for where, message in _messages(request):
        name = message.get("name")
        if name is None and message["role"] != "function":
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield wrong_name(f"{where}.name", r"^[^\s<|\\/>]+$")


@_rule(f"{_API} (required unless tool_calls or function_call is specified)")
def missing_content(request: Request) -> Iterator[Problem]:
    """Content is there; only an assistant that calls tools (or refused) may leave it null."""
    for where, message in _messages(request):
        if message.get("content") is not None:
            continue
        if message["role"] == "assistant" and any(map(message.get, _INSTEAD_OF_CONTENT)):
            continue
        if message["role"] == "function" and "content" in message:
            continue  # documented as "string or null"
        words = "Invalid value for 'content': expected a string, got null."
        yield Problem(words, f"{where}.content", "invalid_type")


@_common_rule(f"{_API} (content: string or array)")
def content_type(request: Request) -> Iterator[Problem]:
    """Content is a string or a list of parts."""
    for where, message in _messages(request):
        if not isinstance(message.get("content"), str | list | None):
            yield wrong_type(f"{where}.content", "one of a string or array of objects")


@_rule(f"{_API} (array of content parts, minItems 1)")
def empty_parts(request: Request) -> Iterator[Problem]:
    """A list of parts is not empty.

    That of a message with calls may be: 22 recorded exchanges of October 2025, all of one project,
    with gpt-4, gpt-4o-mini, gpt-4.1 and Grok.
    """
    for where, message in _messages(request):
        if message.get("content") == [] and not message.get("tool_calls"):
            yield empty_array(f"{where}.content")


@_rule(f"{_API} (content parts by role)")
def part_type(request: Request) -> Iterator[Problem]:
    """Parts have types that the role allows, and the fields of their type."""
    for where, role, part in _parts(request):
        if not isinstance(part, dict):
            yield wrong_type(where, "an object")
            return
        given = object_of(part)
        kind = given.get("type")
        if not isinstance(kind, str) or kind not in _PARTS[role]:
            yield wrong_value(f"{where}.type", kind, quoted(sorted(_PARTS[role])))
        elif not isinstance(given.get(kind), str if kind in _TEXT_PARTS else dict):
            yield missing(f"{where}.{kind}")


@_rule("the API's answer: [] is too short - 'messages.1.tool_calls'", "observed")
def empty_tool_calls(request: Request) -> Iterator[Problem]:
    """`tool_calls`, if present, is a list with a call or more."""
    for where, message in _messages(request):
        calls = message.get("tool_calls")
        if message["role"] != "assistant" or calls is None:
            continue
        if not isinstance(calls, list):
            yield wrong_type(f"{where}.tool_calls", "an array")
        elif not calls:
            yield empty_array(f"{where}.tool_calls")


@_common_rule(f"{_API} (assistant message, tool_calls; also type custom with name and input)")
def tool_call_shape(request: Request) -> Iterator[Problem]:
    """A tool call is `{id, type: "function", function: {name, arguments}}`, arguments a string."""
    for where, call in _calls(request):
        if not isinstance(call, dict):
            yield wrong_type(where, "an object")
            return
        given = object_of(call)
        kind = given.get("type")
        if not isinstance(given.get("id"), str) or not given["id"]:
            yield missing(f"{where}.id")
        elif kind not in ("function", "custom"):
            yield wrong_value(f"{where}.type", kind, "'function' and 'custom'")
        else:
            inner = object_of(given.get(kind))
            for field in ("name", "arguments" if kind == "function" else "input"):
                if not isinstance(inner.get(field), str):
                    yield wrong_type(f"{where}.{kind}.{field}", "a string")


@_rule(f"{_API} (a-z, A-Z, 0-9, underscores and dashes, maximum length 64)")
def tool_call_name(request: Request) -> Iterator[Problem]:
    """A called function's name matches `^[a-zA-Z0-9_-]{1,64}$`."""
    for where, call in _calls(request):
        if not FUNCTION_NAME.fullmatch(call[call["type"]]["name"]):
            yield wrong_name(f"{where}.{call['type']}.name")


@_rule("github.com/vercel/ai/issues/5171, github.com/agno-agi/agno/issues/5382", "observed")
def tool_call_id_too_long(request: Request) -> Iterator[Problem]:
    """Ids of tool calls have at most 40 characters, in calls and in results."""
    ids = [(f"{where}.id", call["id"]) for where, call in _calls(request)]
    ids += [
        (f"{where}.tool_call_id", message.get("tool_call_id"))
        for where, message in _messages(request)
        if message["role"] == "tool"
    ]
    for where, call_id in ids:
        if isinstance(call_id, str) and len(call_id) > _ID_LENGTH:
            yield too_long(where, _ID_LENGTH, len(call_id))


# ------------------------------------------------------------------------------ calls and results

_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)
_ORPHAN = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)


@view
def _rounds(request: Request) -> list[ToolRound]:
    """Return each message's calls with the tool messages after it.

    A result without an id (see `missing_tool_call_id`) is that of the next call.
    """
    found = [ToolRound()]
    for where, message in _messages(request):
        if message["role"] == "tool":
            last = found[-1]
            unnamed = [call_id for _, call_id in last.calls][len(last.results) :]
            call_id = message.get("tool_call_id") or next(iter(unnamed), "")
            last.results.append((where, call_id))
            continue
        calls = numbered(f"{where}.tool_calls", message.get("tool_calls"))
        assistant = message["role"] == "assistant"
        found.append(ToolRound([(f"{at}.id", c["id"]) for at, c in calls] if assistant else []))
    return found


@_common_rule(f"{_API} (tool_call_id: string, required)")
def missing_tool_call_id(request: Request) -> Iterator[Problem]:
    """A tool message says which call it answers.

    Z.ai does not want it: ten recorded exchanges of October 2025, with GLM 4.5 and 4.6.
    """
    if request.host.endswith("z.ai"):
        return
    for where, message in _messages(request):
        call_id = message.get("tool_call_id")
        if message["role"] == "tool" and (not isinstance(call_id, str) or not call_id):
            yield missing(f"{where}.tool_call_id")


@_common_rule(f"{_CALLING}: a result is matched to its call by id", "inferred")
def duplicate_tool_call_id(request: Request) -> Iterator[Problem]:
    """The calls of an assistant message have distinct ids; other messages may repeat them."""
    for tool_round in _rounds(request):
        for where, call_id in repeated(tool_round.calls):
            words = f"Invalid '{where}': duplicate tool call id '{call_id}'."
            yield Problem(words, where, "invalid_value")


@_common_rule("github.com/langchain-ai/langchain/issues/33245", "observed")
def orphan_tool_message(request: Request) -> Iterator[Problem]:
    """A tool message follows an assistant message with `tool_calls`, or another tool message."""
    for tool_round in _rounds(request):
        if tool_round.results and not tool_round.calls:
            yield Problem(_ORPHAN, f"{tool_round.results[0][0]}.role")


@_common_rule("the API's answer: not found in 'tool_calls'", "observed")
def unknown_tool_call_id(request: Request) -> Iterator[Problem]:
    """A tool message names a call of the assistant message that it follows."""
    for tool_round in _rounds(request):
        for where, call_id in tool_round.unknown():
            words = f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of"
            yield Problem(f"{words} previous message.", f"{where}.tool_call_id")


@_common_rule(f"{_CALLING} (one tool message per call)", "inferred")
def duplicate_tool_message(request: Request) -> Iterator[Problem]:
    """Each call is answered once; a second answer is refused as an orphan is."""
    for tool_round in _rounds(request):
        for where, _ in repeated(tool_round.results):
            yield Problem(_ORPHAN, f"{where}.tool_call_id")


@_common_rule(f"{_CALLING}; the API's answer")
def unanswered_tool_call(request: Request) -> Iterator[Problem]:
    """All calls of an assistant message are answered by the tool messages right after it."""
    for tool_round in _rounds(request):
        waiting = tool_round.unanswered()
        if waiting:
            yield Problem(_UNANSWERED + ", ".join(one for _, one in waiting), waiting[0][0])


# ------------------------------------------------------------------------------------------ tools

_MAX_DESCRIPTION = 1024


@view
def _functions(request: Request) -> DeclaredFunctions:
    """Return the declared functions with their pointers."""
    return [
        (f"{where}.function", tool["function"])
        for where, tool in numbered("tools", request.body.get("tools"))
        if tool.get("type") == "function"
    ]


@_openai_rule("the API's answer: [] is too short - 'tools'", "observed")
def empty_tools(request: Request) -> Iterator[Problem]:
    """`tools`, where it is given, is not empty. What xAI does is not documented."""
    if request.body.get("tools") == []:
        yield empty_array("tools", "[] is too short - 'tools'. ")


@_common_rule(f"{_API} (tools, also of type custom)")
def tool_shape(request: Request) -> Iterator[Problem]:
    """A tool is `{type: "function", function: {name, …}}`; compatible hosts have others, too."""
    tools: Any = request.body.get("tools")
    if not isinstance(tools, list | None):
        yield wrong_type("tools", "an array")
    for where, tool in numbered("tools", tools):
        kind = object_of(tool).get("type")
        if request.provider == "compatible" and kind is None and "function" in object_of(tool):
            kind = "function"
        if request.provider == "compatible" and isinstance(kind, str) and kind != "function":
            continue  # a tool of the host's own
        if kind not in ("function", "custom"):
            yield wrong_value(f"{where}.type", kind, "'function' and 'custom'")
        elif not isinstance(object_of(tool.get(kind)).get("name"), str):
            yield missing(f"{where}.{kind}.name")


@_rule(f"{_API} (a max of 128 functions are supported); docs.x.ai says the same")
def too_many_tools(request: Request) -> Iterator[Problem]:
    """There are at most 128 tools."""
    yield from tools_over_limit(request.body.get("tools"))


@_rule(f"{_API} (a-z, A-Z, 0-9, underscores and dashes, maximum length 64)")
def tool_name(request: Request) -> Iterator[Problem]:
    """A function's name matches `^[a-zA-Z0-9_-]{1,64}$`."""
    for where, function in _functions(request):
        if not FUNCTION_NAME.fullmatch(function["name"]):
            yield wrong_name(f"{where}.name")


@_common_rule(f"{_CALLING}: calls name the function and nothing else", "inferred")
def duplicate_tool_name(request: Request) -> Iterator[Problem]:
    """No two functions have the same name."""
    yield from duplicate_names(_functions(request))


@_azure_rule(
    "learn.microsoft.com/azure/ai-services/openai/how-to/function-calling (descriptions "
    "are currently limited to 1,024 characters)"
)
def description_too_long(request: Request) -> Iterator[Problem]:
    """With Azure a function's description has at most 1,024 characters."""
    for where, function in _functions(request):
        length = len(str(function.get("description") or ""))
        if length > _MAX_DESCRIPTION:
            yield too_long(f"{where}.description", _MAX_DESCRIPTION, length)


@_rule(
    "the API's answers; github.com/langchain-ai/langchain-mcp-adapters/pull/343; for Grok "
    "only the first check is known",
    "observed",
)
def parameters_schema(request: Request) -> Iterator[Problem]:
    """`parameters`, where given, is a JSON schema of an object that a parser would accept."""
    for where, function in _functions(request):
        if "parameters" in function:
            trouble = schema_trouble(function["parameters"], lenient=request.provider == "grok")
            yield from invalid_parameters(function, where, trouble)


@_openai_rule("developers.openai.com, guide latest-model (November 2026)")
def tools_of_newer_models(request: Request) -> Iterator[Problem]:
    """Newer models take tools here with the effort `none` only, and the newest not at all."""
    if not request.body.get("tools"):
        return
    effort = request.body.get("reasoning_effort")
    refused = {
        "taken": False,
        "without_effort": effort not in (None, "none"),
        "not_reasoning": effort != "none",
        "refused": True,
    }
    if refused[capabilities_of(request.model).chat_tools]:
        words = f"Function tools with reasoning_effort are not supported for {request.model} in"
        yield Problem(f"{words} /v1/chat/completions. Please use /v1/responses instead.", "tools")


@_openai_rule(f"{_SCHEMAS}; xAI does not enforce it")
def strict_parameters(request: Request) -> Iterator[Problem]:
    """With `strict: true` a schema keeps to the subset of Structured Outputs."""
    for where, function in _functions(request):
        if function.get("strict") is True:
            parameters = function.get("parameters")
            trouble = strict_trouble(parameters, defaults=takes_defaults(request))
            yield from invalid_parameters(function, where, trouble)


@_openai_rule(_SCHEMAS)
def strict_response_format(request: Request) -> Iterator[Problem]:
    """A `json_schema` response format has a name and a schema, and obeys the subset if strict."""
    wanted = object_of(request.body.get("response_format"))
    if wanted.get("type") != "json_schema":
        return
    inner = object_of(wanted.get("json_schema"))
    name = inner.get("name")
    if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
        yield missing("response_format.json_schema.name")
    if inner.get("strict") is True:
        trouble = strict_trouble(inner.get("schema"), defaults=takes_defaults(request))
        if trouble is not None:
            words = f"Invalid schema for response_format '{name}': {trouble}"
            yield Problem(words, "response_format")


@_rule(
    "github.com/writer/writer-framework/pull/1013, github.com/livekit/agents/issues/3114",
    "observed",
)
def tool_choice_without_tools(request: Request) -> Iterator[Problem]:
    """`tool_choice` goes with `tools` only."""
    if request.body.get("tool_choice") is None or request.body.get("tools"):
        return
    words = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are"
    words = f"{words} specified."
    if request.provider == "grok":
        words = "A tool_choice was set on the request but no tools were specified."
    yield Problem(words, "tool_choice")


@_rule(f"{_API} (tool_choice, which also has allowed_tools); the API's answer")
def tool_choice_shape(request: Request) -> Iterator[Problem]:
    """`tool_choice` is none, auto, required, or names a tool that is there.

    xAI took Claude's shape in 19 recorded exchanges of October 2025, all of one project.
    """
    choice: Any = request.body.get("tool_choice")
    kind = object_of(choice).get("type")
    if choice is None or choice in ("none", "auto", "required") or kind == "allowed_tools":
        return
    if kind == "tool" and request.provider == "grok":
        return
    if kind not in ("function", "custom"):
        yield wrong_value("tool_choice", choice, "'none', 'auto', and 'required'")
        return
    name = object_of(choice.get(kind)).get("name")
    if name not in [tool[kind]["name"] for tool in request.body["tools"] if tool["type"] == kind]:
        words = f"Tool choice '{name}' not found in 'tools' parameter."
        yield Problem(f"Invalid value for 'tool_choice': {words}", f"tool_choice.{kind}.name")


@_openai_rule("the API's answer", "observed")
def parallel_calls_without_tools(request: Request) -> Iterator[Problem]:
    """`parallel_tool_calls` goes with `tools` only.

    xAI takes it alone: 36 recorded exchanges of October 2025, with Grok 2 to 4.
    """
    if request.body.get("parallel_tool_calls") is not None and not request.body.get("tools"):
        words = "'parallel_tool_calls' is only allowed when 'tools' are specified."
        message = f"Invalid value for 'parallel_tool_calls': {words}"
        yield Problem(message, "parallel_tool_calls")


@_openai_rule("the API's answer in one recorded exchange of October 2025", "observed")
def two_output_limits(request: Request) -> Iterator[Problem]:
    """`max_tokens` and `max_completion_tokens` exclude each other."""
    both = ("max_tokens", "max_completion_tokens")
    if all(request.body.get(name) is not None for name in both):
        words = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported"
        yield Problem(f"{words}.", "max_tokens", "invalid_parameter_combination")


# ------------------------------------------------------------------------------------------ media

_GROK_IMAGES = ("image/jpeg", "image/png")
_FILE_INPUTS = "developers.openai.com/api/docs/guides/file-inputs"
_UNSUPPORTED = (
    "You uploaded an unsupported image. Please make sure your image has of one the following "
    "formats: ['png', 'jpeg', 'gif', 'webp']."
)
_WANTS_PDF = "Expected a base64-encoded data URL with an application/pdf MIME type"


def _of_type(request: Request, kind: str) -> Iterator[WireMessage]:
    """Yield the contents of parts of this type, with their pointers."""
    for where, _, part in _parts(request):
        if part["type"] == kind:
            yield f"{where}.{kind}", part[kind]


@_rule(
    f"{_API} (URL or base64; detail); docs.x.ai/docs/guides/image-understanding (only "
    "jpg/jpeg or png); github.com/marketing-factory/ai-filemetadata/issues/18",
)
def image_url(request: Request) -> Iterator[Problem]:
    """An image is an address or a data URL of a known format; its detail is low, high or auto."""
    known = _GROK_IMAGES if request.provider == "grok" else IMAGES
    for where, image in _of_type(request, "image_url"):
        url = image.get("url")
        if not matches(url, DATA_URL, URL):
            words = "Expected a valid URL, but got a value with an invalid format."
            yield Problem(f"Invalid '{where}.url'. {words}", f"{where}.url", "invalid_value")
        if image.get("detail", "auto") not in ("low", "high", "auto"):
            yield wrong_value(f"{where}.detail", image["detail"], "'low', 'high', and 'auto'")
        if data_type(url) not in ("", *known):
            yield Problem(_UNSUPPORTED, f"{where}.url", "invalid_image_format")


def _hears_nothing(model: str) -> bool:
    return re.match(r"(?:gpt-|chatgpt|o[1-9])(?!.*(?:audio|realtime))", model) is not None


@_openai_rule("the answer of gpt-5-mini; gpt-4o-audio-preview takes it", models=_hears_nothing)
def audio_to_deaf_model(request: Request) -> Iterator[Problem]:
    """Sound goes to audio models, recognised by name."""
    for where, _ in _of_type(request, "input_audio"):
        message = where.partition(".")[0]
        words = "Content blocks are expected to be either text or image_url type."
        yield Problem(f"Invalid '{message}'. {words}", message, "invalid_value")


@_rule(
    f"{_API} (file content part); {_FILE_INPUTS} (chat completions accepts only PDF "
    "files); github.com/pydantic/pydantic-ai/issues/4445; docs.x.ai/docs/api-reference",
)
def file_part(request: Request) -> Iterator[Problem]:
    """A file is `file_id`, or `filename` with a PDF as a data URL; xAI's chat takes none."""
    for where, file in _of_type(request, "file"):
        if request.provider == "grok":
            words = f"Invalid value: 'file' for '{where}': only text and image_url are supported."
            yield Problem(words, where, "invalid_value")
        if isinstance(file.get("file_id"), str):
            continue
        data = file.get("file_data")
        if not isinstance(file.get("filename"), str):
            yield missing(f"{where}.filename")
        got = ""
        if not matches(data, DATA_URL):
            got = "an invalid base64-encoded value"
        elif data_type(data) != "application/pdf":
            got = f"unsupported MIME type '{data_type(data)}'"
        if got:
            words = f"Invalid '{where}.file_data'. {_WANTS_PDF}, but got {got}."
            yield Problem(words, f"{where}.file_data")


# ---------------------------------------------------------------------------------------- replies

_FINISH = {
    "stop": "stop",
    "tool": "tool_calls",
    "length": "length",
    "filter": "content_filter",
    "refusal": "stop",
}
_AZURE_FIRST: dict[str, Any] = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [
        {
            "prompt_index": 0,
            "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}},
        }
    ],
}


def rendered(
    reply: ReplyContent, usage: TokenCounts, model: str, ids: Ids, *, shows_reasoning: bool
) -> dict[str, Any]:
    """Return the JSON with which chat completions would give that reply."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.finish == "refusal":
        message |= {"content": None, "refusal": reply.text}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id or ids.next("call_"),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    if (
        shows_reasoning and reply.reasoning is not None
    ):  # OpenAI's chat completions keep it to themselves
        message["reasoning_content"] = reply.reasoning
    reason = _FINISH[reply.finish]
    return {
        "id": ids.next("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": usage.cache,
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
    }


def streamed(
    provider: ProviderName, plain: Mapping[str, Any], body: Mapping[str, Any]
) -> Iterator[SseEvent]:
    """Yield the chunks of a reply."""
    # xAI sends the usage in any case.
    usage = provider == "grok" or body.get("stream_options") == {"include_usage": True}
    head = {name: plain[name] for name in ("id", "created", "model")}
    head |= {"object": "chat.completion.chunk"} | ({"usage": None} if usage else {})
    if provider == "azure_openai":
        yield _AZURE_FIRST
    choice = plain["choices"][0]
    for delta in _deltas(choice["message"], whole_calls=provider == "grok"):
        made = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield {**head, "choices": [made]}
    end: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None}
    yield {**head, "choices": [{**end, "finish_reason": choice["finish_reason"]}]}
    if usage:
        yield {**head, "choices": [], "usage": plain["usage"]}
    yield "[DONE]"


def _deltas(message: dict[str, Any], *, whole_calls: bool) -> Iterator[dict[str, Any]]:
    content = message["content"]
    yield {"role": "assistant", "content": None if content is None else "", "refusal": None}
    for piece in pieces(message.get("reasoning_content") or ""):
        yield {"reasoning_content": piece}
    for name in ("content", "refusal"):
        for piece in pieces(message[name] or ""):
            yield {name: piece}
    for index, call in enumerate(cast("list[dict[str, Any]]", items_of(message.get("tool_calls")))):
        if whole_calls:
            yield {"tool_calls": [{"index": index, **call}]}
            continue
        function = call["function"]
        begun = {**call, "function": {"name": function["name"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
