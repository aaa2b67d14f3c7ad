"""Rules for the input items of OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Any, cast

from .responses_body import reasons
from .rules import Inbound, Problem, rule

_ROLES = ("user", "assistant", "system", "developer")
# openai-python types/responses/response_input_item_param.py; items of hosted tools are let
# through, but not looked into.
_FIELDS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status", "namespace"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
_HOSTED = frozenset(
    {
        "file_search_call", "web_search_call", "computer_call", "computer_call_output",
        "image_generation_call", "code_interpreter_call", "local_shell_call",
        "local_shell_call_output", "mcp_list_tools", "mcp_approval_request",
        "mcp_approval_response", "mcp_call", "custom_tool_call", "custom_tool_call_output",
        "item_reference", "compaction",
    }
)  # fmt: skip
_PARTS = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file", "input_audio"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MAX_CALL_ID = 64
_AFTER_REASONING = frozenset({"message", "function_call", "reasoning"}) | _HOSTED


def items(request: Inbound) -> list[dict[str, Any]]:
    """Return the input's items; a text is none."""
    given: Any = request.body["input"]
    return cast("list[dict[str, Any]]", given) if isinstance(given, list) else []


def kind_of(item: dict[str, Any]) -> Any:
    """Return an item's type; messages may leave it out."""
    return item.get("type", "message" if "role" in item else None)


@rule("openai_responses")
def item_not_object(request: Inbound) -> Problem | None:
    """Each item of the input is an object.

    Source: platform.openai.com/docs/api-reference/responses/create (input: array of items).
    """
    for index, item in enumerate(items(request)):
        if not isinstance(item, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            where = f"input[{index}]"
            words = f"Invalid type for '{where}': expected an input item."
            return Problem(words, where, "invalid_type")
    return None


@rule("openai_responses")
def unknown_item(request: Inbound) -> Problem | None:
    """An item is of a documented type.

    Source: openai-python types/responses/response_input_item_param.py; "Invalid value: '…'.
    Supported values are: …" is the API's answer.
    """
    for index, item in enumerate(items(request)):
        kind = kind_of(item)
        if not isinstance(kind, str) or (kind not in _FIELDS and kind not in _HOSTED):
            where = f"input[{index}].type" if kind is not None else f"input[{index}]"
            supported = ", ".join(f"'{name}'" for name in (*_FIELDS, *sorted(_HOSTED)))
            words = f"Invalid value: '{kind}'. Supported values are: {supported}."
            return Problem(words, where, "invalid_value")
    return None


@rule("openai_responses")
def unknown_item_field(request: Inbound) -> Problem | None:
    """An item has no fields but those of its type.

    Source: openai-python types/responses/response_input_item_param.py for the lists; "Unknown
    parameter: 'input[0].…'" is the API's answer.
    """
    for index, item in enumerate(items(request)):
        known = _FIELDS.get(kind_of(item))
        unknown = sorted(item.keys() - known) if known is not None else []
        if unknown:
            name = f"input[{index}].{unknown[0]}"
            return Problem(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    return None


@rule("openai_responses")
def message_role(request: Inbound) -> Problem | None:
    """A message is of the user, the assistant, the system or the developer.

    Source: platform.openai.com/docs/api-reference/responses/create (role: one of user, assistant,
    system, or developer).
    """
    for index, item in enumerate(items(request)):
        if kind_of(item) == "message" and item.get("role") not in _ROLES:
            where = f"input[{index}].role"
            supported = ", ".join(f"'{name}'" for name in _ROLES)
            words = f"Invalid value: '{item.get('role')}'. Supported values are: {supported}."
            return Problem(words, where, "invalid_value")
    return None


@rule("openai_responses")
def message_content(request: Inbound) -> Problem | None:
    """A message's content is a text or a list of the parts that its role may have.

    Source: the API's answer "Invalid value: 'input_text'. Supported values are: 'output_text' and
    'refusal'." for an assistant, and the like for others.
    """
    for index, item in enumerate(items(request)):
        if kind_of(item) != "message":
            continue
        content: Any = item.get("content")
        where = f"input[{index}].content"
        if isinstance(content, str):
            continue
        if not isinstance(content, list):
            words = f"Invalid type for '{where}': expected one of a string or array of parts."
            return Problem(words, where, "invalid_type")
        problem = _part_problem(where, cast("list[Any]", content), item["role"])
        if problem is not None:
            return problem
    return None


def _part_problem(where: str, parts: list[Any], role: str) -> Problem | None:
    for number, given in enumerate(parts):
        part = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        kind = part.get("type")
        here = f"{where}[{number}]"
        if kind not in _PARTS[role]:
            supported = " and ".join(f"'{name}'" for name in _PARTS[role])
            words = f"Invalid value: '{kind}'. Supported values are: {supported}."
            return Problem(words, f"{here}.type", "invalid_value")
        key = "refusal" if kind == "refusal" else "text"
        if kind in ("input_text", "output_text", "refusal") and not isinstance(part.get(key), str):
            words = f"Missing required parameter: '{here}.{key}'."
            return Problem(words, f"{here}.{key}", "missing_required_parameter")
    return None


@rule("openai_responses")
def call_fields(request: Inbound) -> Problem | None:
    """A function call has a call_id, a name as tools have them, and its arguments as text.

    Source: openai-python types/responses/response_function_tool_call_param.py; "Expected a string
    with maximum length 64" and "string does not match pattern. Expected a string that matches the
    pattern '^[a-zA-Z0-9_-]+$'" are the API's answers.
    """
    for index, item in enumerate(items(request)):
        if kind_of(item) != "function_call":
            continue
        name, arguments = item.get("name"), item.get("arguments")
        for key, fine in (
            ("call_id", _is_call_id(item.get("call_id"))),
            ("name", isinstance(name, str) and _NAME.fullmatch(name) is not None),
            ("arguments", isinstance(arguments, str)),
        ):
            if not fine:
                where = f"input[{index}].{key}"
                return Problem(f"Invalid '{where}'.", where, "invalid_value")
    return None


@rule("openai_responses")
def output_fields(request: Inbound) -> Problem | None:
    """A function's output says of which call it is, and is a text or a list of parts.

    Source: openai-python types/responses/response_input_item_param.py (FunctionCallOutput).
    """
    for index, item in enumerate(items(request)):
        if kind_of(item) != "function_call_output":
            continue
        fine = isinstance(item.get("output"), str | list)
        for key, good in (("call_id", _is_call_id(item.get("call_id"))), ("output", fine)):
            if not good:
                where = f"input[{index}].{key}"
                words = f"Missing required parameter: '{where}'."
                return Problem(words, where, "missing_required_parameter")
    return None


def _is_call_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_CALL_ID


@rule("openai_responses")
def reasoning_fields(request: Inbound) -> Problem | None:
    """A reasoning item has an id and a summary, which may be empty.

    Source: openai-python types/responses/response_reasoning_item_param.py (id and summary:
    required).
    """
    for index, item in enumerate(items(request)):
        if kind_of(item) != "reasoning":
            continue
        for key, kind in (("id", str), ("summary", list)):
            if not isinstance(item.get(key), kind):
                where = f"input[{index}].{key}"
                words = f"Missing required parameter: '{where}'."
                return Problem(words, where, "missing_required_parameter")
    return None


@rule("openai_responses")
def reasoning_to_plain_model(request: Inbound) -> Problem | None:
    """Reasoning goes to models that reason only.

    Source: the API's answer "Reasoning input items can only be provided to a reasoning or computer
    use model.", see
    platform.openai.com/docs/guides/reasoning.
    """
    if reasons(request.model):
        return None
    for index, item in enumerate(items(request)):
        if kind_of(item) == "reasoning":
            words = (
                "Reasoning input items can only be provided to a reasoning or computer use model. "
                f"Remove reasoning items from your input to use '{request.model}'."
            )
            return Problem(words, f"input[{index}]")
    return None


@rule("openai_responses")
def reasoning_not_stored(request: Inbound) -> Problem | None:
    """With `store: false` a reasoning item comes with its encrypted content.

    Source: the API's answer "Item with id '…' not found. Items are not persisted when `store` is
    set to false.", e.g. github.com/vercel/ai/issues/7543.
    """
    if request.body.get("store") is not False:
        return None
    for index, item in enumerate(items(request)):
        if kind_of(item) == "reasoning" and not item.get("encrypted_content"):
            words = (
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is "
                "set to false. Try again with `store` set to true, or remove this item from your "
                "input."
            )
            return Problem(words, f"input[{index}]", status=404)
    return None


@rule("openai_responses")
def reasoning_without_following(request: Inbound) -> Problem | None:
    """After a reasoning item comes what it led to: an answer, a call, or more reasoning.

    Source: the API's answer "Item '…' of type 'reasoning' was provided without its required
    following item.", e.g. github.com/openai/openai-node/issues/1567.
    """
    found = items(request)
    for index, item in enumerate(found):
        if kind_of(item) != "reasoning":
            continue
        after = found[index + 1] if index + 1 < len(found) else {}
        kind = kind_of(after)
        if kind in _AFTER_REASONING and (kind != "message" or after["role"] == "assistant"):
            continue
        words = (
            f"Item '{item['id']}' of type 'reasoning' was provided without its required following "
            "item."
        )
        return Problem(words, "input")
    return None


@rule("openai_responses")
def unanswered_call(request: Inbound) -> Problem | None:
    """Each function call has its output in the input.

    Source: the API's answer "No tool output found for function call …", e.g.
    github.com/tjardoo/openai-client/pull/124.
    """
    answered = {
        item["call_id"] for item in items(request) if kind_of(item) == "function_call_output"
    }
    for item in items(request):
        if kind_of(item) == "function_call" and item["call_id"] not in answered:
            words = f"No tool output found for function call {item['call_id']}."
            return Problem(words, "input")
    return None


@rule("openai_responses")
def orphan_output(request: Inbound) -> Problem | None:
    """An output follows the call that it answers.

    Source: the API's answer "No tool call found for function call output with call_id …", e.g.
    github.com/continuedev/continue/issues/10092.
    """
    if request.body.get("previous_response_id"):
        return None
    asked: set[str] = set()
    for item in items(request):
        kind = kind_of(item)
        if kind == "function_call":
            asked.add(item["call_id"])
        elif kind == "function_call_output" and item["call_id"] not in asked:
            words = f"No tool call found for function call output with call_id {item['call_id']}."
            return Problem(words, "input")
    return None
