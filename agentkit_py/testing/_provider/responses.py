"""OpenAI's Responses API: rules, replies, streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from agentkit_py.models.capabilities import capabilities_of

from .openai import (
    FUNCTION_NAME,
    DeclaredFunctions,
    Ranges,
    duplicate_names,
    has_known_efforts,
    invalid_parameters,
    missing,
    out_of_range,
    quoted,
    refused_effort,
    schema_trouble,
    strict_trouble,
    takes_defaults,
    tools_over_limit,
    unknown_field,
    wrong_name,
    wrong_type,
    wrong_value,
)
from .replies import CREATED, Ids, ReplyContent, ScriptedCall, TokenCounts, interleaved, pieces
from .rules import (
    DATA_URL,
    IMAGES,
    URL,
    Problem,
    Request,
    data_type,
    is_name_list,
    matches,
    names,
    not_known,
    numbered,
    object_of,
    rules_of,
    view,
)
from .types import SseEvent

_rule = rules_of("openai_responses")

_API = "platform.openai.com/docs/api-reference/responses/create"
_REASONING = "platform.openai.com/docs/guides/reasoning"
_ITEMS = "openai-python types/responses/response_input_item_param.py"

# ------------------------------------------------------------------------------------- parameters

# openai-python 2.x, types/responses/response_create_params.py, is generated from OpenAI's own
# specification: every field of the request body is listed there.
_ARGUMENTS = names("""background context_management conversation include input instructions
    max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls
    previous_response_id prompt prompt_cache_key prompt_cache_options
    prompt_cache_retention reasoning safety_identifier service_tier store stream
    stream_options temperature text tool_choice tools top_logprobs top_p
    truncation user""")
_INCLUDES = names("""file_search_call.results web_search_call.results
    web_search_call.action.sources message.input_image.image_url
    computer_call_output.output.image_url code_interpreter_call.outputs
    reasoning.encrypted_content message.output_text.logprobs""")
_RANGES: Ranges = {
    "temperature": (float, 0, 2),
    "top_p": (float, 0, 1),
    "max_output_tokens": (int, 16, float("inf")),
    "max_tool_calls": (int, 1, float("inf")),
    "top_logprobs": (int, 0, 20),
}


def _reasons(model: str) -> bool:
    return capabilities_of(model).reasoning_items or "computer-use-" in model


def _is_plain(model: str) -> bool:
    """Return whether it is an OpenAI model without reasoning; unknown for other models."""
    return re.search(r"(?:^|[/.:])(?:gpt-|chatgpt)", model) is not None and not _reasons(model)


def _is_openai(model: str) -> bool:
    return _is_plain(model) or _reasons(model)


def _takes_no_sampling(model: str) -> bool:
    return not capabilities_of(model).sampling


@_rule(f"{_API} (optional only with a stored prompt)")
def missing_model(request: Request) -> Iterator[Problem]:
    """`model` is a non-empty string."""
    if not request.model and not request.body.get("prompt"):
        yield missing("model")


@_rule("openai-python response_create_params.py", "sdk")
def unknown_parameter(request: Request) -> Iterator[Problem]:
    """The body has no fields but the documented ones."""
    for name in request.body:
        if name not in _ARGUMENTS:
            yield not_known(f"the parameter {name!r} of the Responses API", name)


@_rule("the API's answer", "observed")
def missing_input(request: Request) -> Iterator[Problem]:
    """There is something to answer: a text, a list of items, or a stored prompt."""
    given: Any = request.body.get("input")
    if not isinstance(given, str | list | None):
        yield wrong_type("input", "one of a string or array of input items")
    elif not given and not request.body.get("prompt"):
        words = "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must"
        yield Problem(f"{words} be provided.", "input", "missing_required_parameter")


@_rule(f"{_API}; the API's answer for the least max_output_tokens")
def parameter_range(request: Request) -> Iterator[Problem]:
    """Numeric parameters are numbers within their documented range, or null."""
    yield from out_of_range(request.body, _RANGES)


@_rule(f"{_REASONING}; the API's answer", models=_takes_no_sampling)
def reasoning_model_sampling(request: Request) -> Iterator[Problem]:
    """Models that reason take temperature and top_p with effort none only, GPT-6.2 never."""
    able = capabilities_of(request.model)
    effort = object_of(request.body.get("reasoning")).get("effort") or able.default_effort
    takes = effort == "none" and not able.checks_prefix
    for name in () if takes else ("temperature", "top_p"):
        value = request.body.get(name)
        if value is not None and value != 1:
            words = f"Unsupported parameter: '{name}' is not supported with this model."
            yield Problem(words, name, "unsupported_parameter")


@_rule(
    "github.com/anomalyco/opencode/issues/4451 (November 2025)",
    "observed",
    models=has_known_efforts,
)
def unsupported_effort(request: Request) -> Iterator[Problem]:
    """A model takes the efforts of its generation only."""
    effort = object_of(request.body.get("reasoning")).get("effort")
    yield from refused_effort(request.model, effort, "reasoning.effort")


@_rule(f"{_API} (gpt-5 and o-series models only)", models=_is_plain)
def reasoning_of_plain_model(request: Request) -> Iterator[Problem]:
    """`reasoning` is for models that reason."""
    for name in object_of(request.body.get("reasoning")):
        where = f"reasoning.{name}"
        words = f"Unsupported parameter: '{where}' is not supported with this model."
        yield Problem(words, where, "unsupported_parameter")


@_rule(f"{_API} (include)")
def include_values(request: Request) -> Iterator[Problem]:
    """`include` has only supported values."""
    wanted: Any = request.body.get("include")
    if wanted is not None and not is_name_list(wanted):
        yield wrong_type("include", "an array")
    for where, name in numbered("include", wanted):
        if name not in _INCLUDES:
            yield wrong_value(where, name, quoted(sorted(_INCLUDES)))


@_rule("github.com/OpenHands/software-agent-sdk/pull/1208", "observed", models=_is_plain)
def encrypted_content_of_plain_model(request: Request) -> Iterator[Problem]:
    """Only models that reason have encrypted reasoning."""
    if "reasoning.encrypted_content" in (request.body.get("include") or ()):
        yield Problem("Encrypted content is not supported with this model.", "include")


@_rule(f"{_API} (include_obfuscation is all there is)")
def stream_options_without_stream(request: Request) -> Iterator[Problem]:
    """`stream_options` goes with `stream: true` only, and knows no usage."""
    options: Any = request.body.get("stream_options")
    if options is None:
        return
    if request.body.get("stream") is not True:
        words = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Problem(words, "stream_options")
    for name in sorted(set(object_of(options)) - {"include_obfuscation"}):
        yield unknown_field(f"stream_options.{name}")


# ------------------------------------------------------------------------------------ input items

_ROLES = ("user", "assistant", "system", "developer")
# Items of hosted tools, and items that change a running conversation, are accepted, but
# not inspected.
_FIELDS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status", "namespace"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
_HOSTED = names("""file_search_call web_search_call computer_call computer_call_output
    image_generation_call code_interpreter_call local_shell_call local_shell_call_output
    mcp_list_tools mcp_approval_request mcp_approval_response mcp_call custom_tool_call
    custom_tool_call_output item_reference compaction compaction_trigger tool_search_call
    tool_search_output additional_tools configuration_update program program_output shell_call
    shell_call_output apply_patch_call apply_patch_call_output agent agent_message
    multi_agent_call multi_agent_call_output""")
_PARTS = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file", "input_audio"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
}
_MAX_CALL_ID = 64
_AFTER_REASONING = {"message", "function_call", "reasoning"} | _HOSTED

Item = tuple[str, dict[str, Any]]


@view
def _items(request: Request) -> list[Item]:
    """Return the input's items with their pointers; a text is none."""
    return list(numbered("input", request.body.get("input")))


def _kind(item: dict[str, Any]) -> Any:
    """Return an item's type; messages may leave it out."""
    return item.get("type", "message" if "role" in item else None)


def _of_kind(request: Request, kind: str) -> Iterator[Item]:
    return ((where, item) for where, item in _items(request) if _kind(item) == kind)


def _parts(request: Request, kind: str) -> Iterator[Item]:
    """Yield every part of this type in messages and in outputs of functions."""
    for where, item in _items(request):
        name = {"message": "content", "function_call_output": "output"}.get(_kind(item), "")
        for place, part in numbered(f"{where}.{name}", item.get(name)):
            if part["type"] == kind:
                yield place, part


@_rule(f"{_API} (input: array of items)")
def item_not_object(request: Request) -> Iterator[Problem]:
    """Each item of the input is an object."""
    for where, item in numbered("input", request.body.get("input")):
        if not isinstance(item, dict):
            yield wrong_type(where, "an input item")


@_rule(f"{_ITEMS}; the API's answer", "sdk")
def unknown_item(request: Request) -> Iterator[Problem]:
    """An item is of a documented type."""
    for where, item in _items(request):
        kind = _kind(item)
        if not isinstance(kind, str) or (kind not in _FIELDS and kind not in _HOSTED):
            place = f"{where}.type" if kind is not None else where
            yield not_known(f"an input item of type {kind!r}", place)


@_rule(f"{_ITEMS}; the API's answer", "sdk")
def unknown_item_field(request: Request) -> Iterator[Problem]:
    """An item has no fields but those of its type."""
    for where, item in _items(request):
        known = _FIELDS.get(_kind(item))
        for name in sorted(item.keys() - known) if known is not None else ():
            yield unknown_field(f"{where}.{name}")


@_rule(f"{_API} (role: user, assistant, system, or developer)")
def message_role(request: Request) -> Iterator[Problem]:
    """A message is of the user, the assistant, the system or the developer."""
    for where, item in _of_kind(request, "message"):
        if item.get("role") not in _ROLES:
            yield wrong_value(f"{where}.role", item.get("role"), quoted(_ROLES))


@_rule("the API's answer", "observed")
def message_content(request: Request) -> Iterator[Problem]:
    """A message's content is a text or a list of the parts that its role may have."""
    for where, item in _of_kind(request, "message"):
        content: Any = item.get("content")
        if not isinstance(content, str | list):
            yield wrong_type(f"{where}.content", "one of a string or array of parts")
        allowed = _PARTS[item["role"]]
        for place, given in numbered(f"{where}.content", content):
            part = object_of(given)
            kind = part.get("type")
            key = "refusal" if kind == "refusal" else "text"
            if kind not in allowed:
                yield wrong_value(f"{place}.type", kind, quoted(allowed, " and "))
            elif kind in ("input_text", "output_text", "refusal") and not _is_text(part.get(key)):
                yield missing(f"{place}.{key}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_call_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_CALL_ID


@_rule(
    "openai-python types/responses/response_function_tool_call_param.py; the API's answers", "sdk"
)
def call_fields(request: Request) -> Iterator[Problem]:
    """A function call has a call_id, a name as tools have them, and its arguments as text."""
    for where, item in _of_kind(request, "function_call"):
        name = item.get("name")
        for key, fine in (
            ("call_id", _is_call_id(item.get("call_id"))),
            ("name", isinstance(name, str) and FUNCTION_NAME.fullmatch(name)),
            ("arguments", _is_text(item.get("arguments"))),
        ):
            if not fine:
                yield Problem(f"Invalid '{where}.{key}'.", f"{where}.{key}", "invalid_value")


@_rule(f"{_ITEMS} (FunctionCallOutput)", "sdk")
def output_fields(request: Request) -> Iterator[Problem]:
    """A function's output has its call's id, and is a text or a list of parts."""
    for where, item in _of_kind(request, "function_call_output"):
        if not _is_call_id(item.get("call_id")):
            yield missing(f"{where}.call_id")
        if not isinstance(item.get("output"), str | list):
            yield missing(f"{where}.output")
        for place, given in numbered(f"{where}.output", item.get("output")):
            part = object_of(given)
            if part.get("type") not in _PARTS["system"]:
                yield wrong_value(f"{place}.type", part.get("type"), quoted(_PARTS["system"]))
            elif part["type"] == "input_text" and not _is_text(part.get("text")):
                yield missing(f"{place}.text")


@_rule("openai-python types/responses/response_reasoning_item_param.py", "sdk")
def reasoning_fields(request: Request) -> Iterator[Problem]:
    """A reasoning item has a summary, which may be empty; it may go without its id.

    51 recorded exchanges with gpt-5-nano (2026) send encrypted reasoning without a summary.
    """
    for where, item in _of_kind(request, "reasoning"):
        if not isinstance(item.get("summary"), list):
            yield missing(f"{where}.summary")
        if not isinstance(item.get("id", ""), str):
            yield wrong_type(f"{where}.id", "a string")


@_rule(f"{_REASONING}; the API's answer", models=_is_plain)
def reasoning_to_plain_model(request: Request) -> Iterator[Problem]:
    """Reasoning goes to models that reason only."""
    for where, _ in _of_kind(request, "reasoning"):
        words = (
            "Reasoning input items can only be provided to a reasoning or computer use model. "
            f"Remove reasoning items from your input to use '{request.model}'."
        )
        yield Problem(words, where)


@_rule("github.com/vercel/ai/issues/7543", "observed")
def reasoning_not_stored(request: Request) -> Iterator[Problem]:
    """With `store: false` a reasoning item comes with its encrypted content."""
    if request.body.get("store") is not False:
        return
    for where, item in _of_kind(request, "reasoning"):
        if not item.get("encrypted_content"):
            words = (
                f"Item with id '{item.get('id', '')}' not found. Items are not persisted when "
                "`store` is set to false. Try again with `store` set to true, or remove this item "
                "from your input."
            )
            yield Problem(words, where, status=404)


@_rule("github.com/openai/openai-node/issues/1567", "observed")
def reasoning_without_following(request: Request) -> Iterator[Problem]:
    """A reasoning item is followed by its outcome: an answer, a call, or more reasoning."""
    found = [item for _, item in _items(request)]
    for item, after in pairwise([*found, {}]):
        kind = _kind(after)
        led_to = kind in _AFTER_REASONING and (kind != "message" or after["role"] == "assistant")
        if _kind(item) == "reasoning" and not led_to:
            words = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required"
            yield Problem(f"{words} following item.", "input")


@_rule("the answer of gpt-5; gpt-5.5 takes calls without an id", "observed", models=_is_openai)
def reasoning_before_message_without_id(request: Request) -> Iterator[Problem]:
    """A message right after a reasoning item with an id has its own id.

    Reasoning without an id goes without (23 recorded exchanges of 2026, gpt-5-nano and grok-4.3).
    """
    for (_, item), (_, after) in pairwise(_items(request)):
        reasoned = _kind(item) == "reasoning" and item.get("id")
        if reasoned and _kind(after) == "message" and not after.get("id"):
            words = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required"
            yield Problem(f"{words} following item.", "input")


_LED_TO = "_led_to_"
"""Part of the ids that this fake assigns to the outcomes of reasoning."""

_OWN_HOSTS = ("api.openai.com", "openai.azure.com")
_OWN_MODELS = re.compile(r"(?:ft:)?(?:gpt|o\d|chatgpt|codex|computer)")
_ID_BEGINNINGS = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_ITEM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@_rule("github.com/openai/codex/issues/33176", "observed")
def item_id(request: Request) -> Iterator[Problem]:
    """An item's id begins with the letters of its type; those of other hosts are refused.

    Models of others are not OpenAI's to answer for: their hosts write ids as they like (recorded).
    """
    if not _OWN_MODELS.match(str(request.body.get("model"))):
        return
    for where, item in _items(request):
        given, beginning = item.get("id"), _ID_BEGINNINGS.get(str(_kind(item)))
        if given is None or beginning is None or not request.host.endswith(_OWN_HOSTS):
            continue
        if not str(given).startswith(beginning) or not _ITEM_ID.fullmatch(str(given)):
            words = f"Invalid '{where}.id': '{given}'. Expected an ID that begins with"
            yield Problem(f"{words} '{beginning}'.", f"{where}.id", "invalid_value")


@_rule("github.com/openai/openai-python/issues/2517", "observed")
def following_without_reasoning(request: Request) -> Iterator[Problem]:
    """An item that reasoning led to comes with it, or without its id."""
    before = ""
    for _, item in _items(request):
        kind, given = _kind(item), str(item.get("id") or "")
        if kind == "reasoning":
            before = given
        elif given.endswith(f"{_LED_TO}{before}") and before:
            before = ""
        elif _LED_TO in given:
            needed = given.partition(_LED_TO)[2]
            words = f"Item '{given}' of type '{kind}' was provided without its required"
            yield Problem(f"{words} 'reasoning' item: '{needed}'.", "input")


@_rule("github.com/tjardoo/openai-client/pull/124", "observed")
def unanswered_call(request: Request) -> Iterator[Problem]:
    """Each call that the caller runs has its output in the input.

    Those of OpenAI's own tools, too: "No tool output found for custom tool call" (OmniRoute#8946).
    """
    answered = {
        (_kind(item), str(item.get("call_id") or item.get("approval_request_id")))
        for _, item in _items(request)
    }
    for _, item in _items(request):
        kind = str(_kind(item))
        output = _ANSWERS.get(kind)
        call_id = item.get("id" if kind == "mcp_approval_request" else "call_id")
        answer = (output, str(call_id))
        if output is not None and not _runs_at_openai(item) and answer not in answered:
            words = kind.removesuffix("_call").replace("_", " ")
            yield Problem(f"No tool output found for {words} call {call_id}.", "input")


_ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "mcp_approval_request": "mcp_approval_response",
}
"""The items that answer calls of the caller's tools."""


def _runs_at_openai(item: dict[str, Any]) -> bool:
    return object_of(item.get("environment")).get("type", "local") != "local"


@_rule(f"{_ITEMS} (the outputs of OpenAI's own tools)", "sdk")
def program_output_fields(request: Request) -> Iterator[Problem]:
    """The output of a tool of OpenAI's own has the fields of its type."""
    for where, item in _items(request):
        match _kind(item):
            case "custom_tool_call_output" if not isinstance(item.get("output"), str | list):
                yield missing(f"{where}.output")
            case "shell_call_output" if not isinstance(item.get("output"), list):
                yield missing(f"{where}.output")
            case "apply_patch_call_output" if item.get("status") not in ("completed", "failed"):
                yield wrong_value(f"{where}.status", item.get("status"), "'completed', 'failed'")
            case "mcp_approval_response" if not isinstance(item.get("approve"), bool):
                yield missing(f"{where}.approve")
            case "computer_call_output":
                shown = object_of(item.get("output"))
                if not (matches(shown.get("image_url"), DATA_URL, URL) or shown.get("file_id")):
                    yield missing(f"{where}.output.image_url")
            case _:
                pass


@_rule("github.com/continuedev/continue/issues/10092", "observed")
def orphan_output(request: Request) -> Iterator[Problem]:
    """An output follows the call that it answers."""
    if request.body.get("previous_response_id") or request.body.get("conversation"):
        return
    asked: set[str] = set()
    for _, item in _items(request):
        kind = _kind(item)
        if str(kind).endswith("_call"):
            asked.add(str(item.get("call_id")))
        elif kind == "function_call_output" and item["call_id"] not in asked:
            words = "No tool call found for function call output with call_id"
            yield Problem(f"{words} {item['call_id']}.", "input")


# ------------------------------------------------------------------------------------------ tools

_HOSTED_TOOLS = names("""file_search web_search web_search_preview web_search_2025_08_26
    web_search_preview_2025_03_11 computer_use_preview mcp code_interpreter image_generation
    local_shell shell apply_patch custom tool_search namespace computer""")
_TOOL_FIELDS = names("type name description parameters strict defer_loading allowed_callers")
_CALLING = "platform.openai.com/docs/guides/function-calling"


@view
def _functions(request: Request) -> DeclaredFunctions:
    tools = numbered("tools", request.body.get("tools"))
    return [(where, tool) for where, tool in tools if tool["type"] == "function"]


@_rule(f"openai-python types/responses/tool_param.py; {_CALLING}")
def tools_type(request: Request) -> Iterator[Problem]:
    """`tools` is a list of at most 128 objects of a documented type."""
    tools: Any = request.body.get("tools")
    if not isinstance(tools, list | None):
        yield wrong_type("tools", "an array")
    for where, tool in numbered("tools", tools):
        kind = object_of(tool).get("type")
        if not isinstance(kind, str) or (kind != "function" and kind not in _HOSTED_TOOLS):
            yield not_known(f"a tool of type {kind!r}", f"{where}.type")
    yield from tools_over_limit(tools)


@_rule(
    "openai-python types/responses/function_tool_param.py; the API's answer to the shape "
    "of chat completions",
    "sdk",
)
def function_shape(request: Request) -> Iterator[Problem]:
    """A function is flat, `{type, name, description, parameters, strict}`, and has a name.

    A `function` beside the name is not read: 54 recorded exchanges of October 2025, all of one
    project, with gpt-4.1, gpt-4o, o3, o4-mini and codex-mini-latest.
    """
    for where, function in _functions(request):
        name = function.get("name")
        if name is None:
            yield missing(f"{where}.name")
        elif not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
            yield wrong_name(f"{where}.name")
        for unknown in sorted(function.keys() - _TOOL_FIELDS - {"function"}):
            yield unknown_field(f"{where}.{unknown}")


def _researches(model: str) -> bool:
    return "deep-research" in model


@_rule("the API's answer in eight recorded exchanges of 2025", "observed", models=_researches)
def functions_of_research(request: Request) -> Iterator[Problem]:
    """Models of deep research take no functions."""
    if _functions(request):
        words = "'web_search_preview', 'code_interpreter', 'mcp', and 'file_search' tools."
        yield Problem(f"Deep research models only support the {words}", "tools")


@_rule(f"{_CALLING}: calls name the function and nothing else", "inferred")
def duplicate_function(request: Request) -> Iterator[Problem]:
    """No two functions have the same name."""
    yield from duplicate_names(_functions(request))


@_rule("platform.openai.com/docs/guides/structured-outputs#supported-schemas")
def function_parameters(request: Request) -> Iterator[Problem]:
    """`parameters`, where given, is a JSON schema of an object, and obeys the subset if strict.

    A function that does not say whether it is strict is made so where its schema can be, and never
    refused (platform.openai.com/docs/guides/function-calling, "strict mode").
    """
    for where, function in _functions(request):
        parameters = function.get("parameters")
        if function.get("strict") is True:
            trouble = strict_trouble(parameters, defaults=takes_defaults(request))
        else:
            trouble = None if parameters is None else schema_trouble(parameters)
        yield from invalid_parameters(function, where, trouble)


@_rule("platform.openai.com/docs/guides/structured-outputs#supported-schemas")
def text_format(request: Request) -> Iterator[Problem]:
    """A `json_schema` in `text.format` has a name, and obeys the subset if strict."""
    wanted = object_of(object_of(request.body.get("text")).get("format"))
    if wanted.get("type") != "json_schema":
        return
    name = wanted.get("name")
    if not isinstance(name, str) or not FUNCTION_NAME.fullmatch(name):
        yield missing("text.format.name")
    elif wanted.get("strict") is True:
        trouble = strict_trouble(wanted.get("schema"), defaults=takes_defaults(request))
        if trouble is not None:
            words = f"Invalid schema for response_format '{name}': {trouble}"
            yield Problem(words, "text.format.schema")


@_rule(f"{_API} (tool_choice); the API's answers")
def choice_of_tool(request: Request) -> Iterator[Problem]:
    """`tool_choice` is none, auto, required, or names a tool that is there."""
    choice: Any = request.body.get("tool_choice")
    if choice is None or choice in ("none", "auto"):
        return
    if not request.body.get("tools"):
        words = "Tool choices other than 'auto' and 'none' must be specified with 'tools'."
        yield Problem(words, "tool_choice")
    given = object_of(choice)
    kind = given.get("type")
    hosted = isinstance(kind, str) and (kind in _HOSTED_TOOLS or kind == "allowed_tools")
    declared = [function["name"] for _, function in _functions(request)]
    named = kind == "function" and given.get("name") in declared
    if choice != "required" and not hosted and not named:
        words = f"Tool choice '{given.get('name', choice)}' not found in 'tools' parameter."
        yield Problem(words, "tool_choice", "invalid_value")


# ------------------------------------------------------------------------------------------ media

_FILE_INPUTS = "developers.openai.com/api/docs/guides/file-inputs"
# The accepted file types: PDF, text and code, rich documents, presentations, spreadsheets.
_FILE_TYPES = (
    "application/pdf",
    "application/json",
    "application/xml",
    "application/rtf",
    "application/csv",
    "application/msword",
    "application/javascript",
    "application/typescript",
    "application/vnd.",
    "text/",
)


@_rule(
    "openai-python types/responses/response_input_image_param.py; platform.openai.com/docs/"
    "guides/images-vision (png, jpeg, webp, gif); github.com/mkht/PSOpenAI/issues/43",
)
def input_image(request: Request) -> Iterator[Problem]:
    """An image is a file's id, an address, or a data URL of a known format, with a known detail."""
    for where, part in _parts(request, "input_image"):
        url = part.get("image_url")
        if part.get("detail", "auto") not in ("low", "high", "auto", "original"):
            yield wrong_value(f"{where}.detail", part["detail"], "'low', 'high', and 'auto'")
        if url is None and isinstance(part.get("file_id"), str):
            continue
        if not matches(url, DATA_URL, URL):
            words = f"Invalid '{where}.image_url'. Expected a valid URL, but got a value with an"
            yield Problem(f"{words} invalid format.", f"{where}.image_url", "invalid_value")
        kind = data_type(url)
        if kind not in ("", *IMAGES):
            words = "Expected a base64-encoded data URL with an image MIME type, but got"
            words = f"Invalid '{where}.image_url'. {words} unsupported MIME type '{kind}'."
            yield Problem(words, f"{where}.image_url", "invalid_value")


@_rule(
    f"openai-python types/responses/response_input_file_param.py; {_FILE_INPUTS}",
)
def input_file(request: Request) -> Iterator[Problem]:
    """A file is an id, an address, or a name with a data URL of a type that is read."""
    for where, part in _parts(request, "input_file"):
        data, url = part.get("file_data"), part.get("file_url")
        if data is None and (isinstance(part.get("file_id"), str) or matches(url, URL)):
            continue
        if not matches(data, DATA_URL):
            words = "Expected a base64-encoded data URL with a MIME type."
            yield Problem(f"Invalid '{where}.file_data'. {words}", f"{where}.file_data")
        if not isinstance(part.get("filename"), str):
            yield missing(f"{where}.filename")
        kind = data_type(data)
        if not kind.startswith(_FILE_TYPES):
            words = "Expected a base64-encoded data URL with a valid file MIME type, but got"
            words = f"Invalid file data: '{where}.file_data'. {words} unsupported MIME type"
            yield Problem(f"{words} '{kind}'.", f"{where}.file_data", "invalid_value")


# ---------------------------------------------------------------------------------------- replies

_FINISH = {
    "stop": "completed",
    "tool": "completed",
    "length": "max_output_tokens",
    "filter": "content_filter",
    "refusal": "completed",
}
_ENDS = {"completed": "response.completed", "incomplete": "response.incomplete"}

NamedEvent = tuple[str, dict[str, Any]]


def rendered(
    reply: ReplyContent, usage: TokenCounts, model: str, ids: Ids, tools: Any = None
) -> dict[str, Any]:
    """Return the JSON with which the Responses API would give that reply.

    Calls of tools that are OpenAI's own are items of their own.
    """
    said = [_message(reply, ids)] if reply.text else []
    own = {_name_of_tool(tool): tool for _, tool in numbered("tools", tools)}
    said += [_call_of(call, object_of(own.get(call.name)), ids) for call in reply.calls]
    output = interleaved([_thought(text, ids) for text in reply.thoughts], said)
    for before, item in pairwise(output):
        if before["type"] == "reasoning" != item["type"]:
            item["id"] += f"{_LED_TO}{before['id']}"
    reason = _FINISH[reply.finish]
    complete = reason == "completed"
    return {
        "id": ids.next("resp_"),
        "object": "response",
        "created_at": CREATED,
        "status": "completed" if complete else "incomplete",
        "error": None,
        "incomplete_details": None if complete else {"reason": reason},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "usage": {
            "input_tokens": usage.prompt,
            "input_tokens_details": usage.cache,
            "output_tokens": usage.completion,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.prompt + usage.completion,
        },
    }


def _thought(text: str, ids: Ids) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    item = {"id": ids.next("rs_"), "type": "reasoning", "summary": summary}
    return {**item, "encrypted_content": f"gAAAAA{ids.next('')}"}


def _message(reply: ReplyContent, ids: Ids) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "output_text", "text": reply.text}
    part |= {"annotations": [], "logprobs": []}
    if reply.finish == "refusal":
        part = {"type": "refusal", "refusal": reply.text}
    head = {"id": ids.next("msg_"), "type": "message", "status": "completed"}
    return {**head, "role": "assistant", "content": [part]}


def _call(call: ScriptedCall, ids: Ids) -> dict[str, Any]:
    head = {"id": ids.next("fc_"), "type": "function_call", "status": "completed"}
    call_id = call.id or ids.next("call_")
    return {**head, "call_id": call_id, "name": call.name, "arguments": call.arguments}


def _name_of_tool(tool: dict[str, Any]) -> str:
    """Return the name by which a script calls a tool: its own, or its type."""
    kind = str(tool.get("type"))
    label = re.sub(r"[^A-Za-z0-9_-]", "_", str(tool.get("server_label")))
    special = {"mcp": f"mcp_approval_{label}", "computer_use_preview": "computer"}
    return str(tool.get("name") or special.get(kind, kind))


def _call_of(call: ScriptedCall, tool: dict[str, Any], ids: Ids) -> dict[str, Any]:
    """Return the item of a call: of a function, or of a tool that OpenAI defines."""
    said: dict[str, Any] = {"call_id": call.id or ids.next("call_")}
    given = call.parsed or {}
    done = {"status": "completed"}
    match tool.get("type"):
        case "custom":
            text = given.get("input", call.arguments)
            head = {"id": ids.next("ctc_"), "type": "custom_tool_call", "name": call.name}
            return {**head, **said, "input": text, **done}
        case "shell":
            head = {"id": ids.next("sh_"), "type": "shell_call"}
            where = {"environment": tool.get("environment")}
            return {**head, **said, "action": given, **where, **done}
        case "apply_patch":
            head = {"id": ids.next("apc_"), "type": "apply_patch_call"}
            return {**head, **said, "operation": given, **done}
        case "computer" | "computer_use_preview":
            checks: list[Any] = []
            head = {"id": ids.next("cu_"), "type": "computer_call"}
            return {**head, **said, "pending_safety_checks": checks, **given, **done}
        case "mcp":
            return {"id": ids.next("mcpr_"), "type": "mcp_approval_request", **given}
        case _:
            return _call(call, ids)


def streamed(plain: Mapping[str, Any]) -> Iterator[SseEvent]:
    """Yield the events of a response, numbered and named.

    Source: platform.openai.com/docs/api-reference/responses-streaming.
    """
    for number, (kind, rest) in enumerate(_events(plain)):
        yield kind, {"type": kind, "sequence_number": number, **rest}


def _events(plain: Mapping[str, Any]) -> Iterator[NamedEvent]:
    begun: dict[str, Any] = {**plain, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(plain["output"]):
        yield from _item_events(index, item)
    yield _ENDS.get(plain["status"], "response.failed"), {"response": dict(plain)}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[NamedEvent]:
    where = {"output_index": index}
    listed = {"message": "content", "reasoning": "summary"}.get(item["type"])
    begun = dict(item)
    if listed is not None:
        begun[listed] = []
    elif "arguments" in item:
        begun["arguments"] = ""
    if "status" in item:
        begun["status"] = "in_progress"
    if item["type"] == "reasoning":
        begun.pop("encrypted_content", None)
    yield "response.output_item.added", {**where, "item": begun}
    where["item_id"] = item["id"]
    if item["type"] == "function_call":
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**where, "delta": piece}
        done = {**where, "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    elif listed is not None:
        for number, part in enumerate(item[listed]):
            yield from _part_events(where, number, part)
    yield "response.output_item.done", {"output_index": index, "item": item}


def _part_events(where: dict[str, Any], number: int, part: dict[str, Any]) -> Iterator[NamedEvent]:
    kind = part["type"]
    key = "refusal" if kind == "refusal" else "text"
    summary = kind == "summary_text"
    here = {**where, "summary_index" if summary else "content_index": number}
    frame = "reasoning_summary_part" if summary else "content_part"
    event = {"summary_text": "reasoning_summary_text"}.get(kind, kind)
    yield f"response.{frame}.added", {**here, "part": {**part, key: ""}}
    for piece in pieces(part[key]):
        yield f"response.{event}.delta", {**here, "delta": piece}
    yield f"response.{event}.done", {**here, key: part[key]}
    yield f"response.{frame}.done", {**here, "part": part}
