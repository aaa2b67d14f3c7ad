"""Rules for each message of an OpenAI chat request: roles, content, tool calls."""

from __future__ import annotations

import re
from typing import Any, cast

from .rules import OPENAI_AND_AZURE, OPENAI_LIKE, Inbound, Problem, rule

ROLES = ("system", "developer", "user", "assistant", "tool", "function")

# platform.openai.com/docs/api-reference/chat/create, the message types.
_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"},
    "tool": {"role", "content", "tool_call_id"},
    "function": {"role", "content", "name"},
}
# The SDKs send back what the API itself put into an assistant message.
_FIELDS["assistant"] |= {"annotations"}

_PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
    "assistant": {"text", "refusal"},
    "user": {"text", "image_url", "input_audio", "file"},
    "function": set[str](),
}
_PART_VALUES: dict[str, tuple[str, type]] = {
    "text": ("text", str),
    "refusal": ("refusal", str),
    "image_url": ("image_url", dict),
    "input_audio": ("input_audio", dict),
    "file": ("file", dict),
}

_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID_LENGTH = 40


def messages(request: Inbound) -> list[dict[str, Any]]:
    """Return the messages; `message_not_object` has seen to it that they are objects."""
    return cast("list[dict[str, Any]]", request.body["messages"])


@rule(*OPENAI_LIKE)
def message_not_object(request: Inbound) -> Problem | None:
    """Each message is an object.

    Source: platform.openai.com/docs/api-reference/chat/create (messages: array of objects).
    """
    for index, message in enumerate(cast("list[Any]", request.body["messages"])):
        if not isinstance(message, dict):
            where = f"messages[{index}]"
            return Problem(
                f"Invalid type for '{where}': expected an object.", where, "invalid_type"
            )
    return None


@rule(*OPENAI_LIKE)
def unknown_role(request: Inbound) -> Problem | None:
    """A role is one of system, developer, user, assistant, tool, function.

    Source: platform.openai.com/docs/api-reference/chat/create; the words are those of the API.
    """
    for index, message in enumerate(messages(request)):
        role = message.get("role")
        if role not in ROLES:
            where = f"messages[{index}].role"
            if role is None:
                words = f"Missing required parameter: '{where}'."
                return Problem(words, where, "missing_required_parameter")
            supported = ", ".join(f"'{name}'" for name in ROLES)
            words = f"Invalid value: '{role}'. Supported values are: {supported}."
            return Problem(words, where, "invalid_value")
    return None


@rule(*OPENAI_AND_AZURE)
def unknown_message_field(request: Inbound) -> Problem | None:
    """A message has no fields but those documented for its role.

    Source: platform.openai.com/docs/api-reference/chat/create for the lists; the refusal is shown
    in github.com/transitive-bullshit/agentic/issues/531 ("Additional properties are not allowed
    ('id' was unexpected) - 'messages.0'").
    """
    for index, message in enumerate(messages(request)):
        unknown = message.keys() - _FIELDS[message["role"]]
        if unknown:
            name = min(unknown)
            words = f"Additional properties are not allowed ('{name}' was unexpected)"
            return Problem(f"{words} - 'messages.{index}'", f"messages[{index}].{name}")
    return None


@rule(*OPENAI_LIKE)
def message_name(request: Inbound) -> Problem | None:
    r"""`name` of a message has no blanks, `<`, `|`, `\`, `/`, `>`, and at most 64 characters.

    Source: the API's own words ("string does not match pattern. Expected a string that matches the
    pattern '^[^\s<|\\/>]+$'"). A `function` message must have a name.
    """
    for index, message in enumerate(messages(request)):
        name = message.get("name")
        if name is None and message["role"] != "function":
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            where = f"messages[{index}].name"
            words = (
                f"Invalid '{where}': string does not match pattern. Expected a string that matches "
                r"the pattern '^[^\s<|\\/>]+$'."
            )
            return Problem(words, where, "invalid_value")
    return None


@rule(*OPENAI_LIKE)
def missing_content(request: Inbound) -> Problem | None:
    """Content is there; only an assistant that calls tools (or refused) may leave it null.

    Source: platform.openai.com/docs/api-reference/chat/create (assistant content: "Required unless
    `tool_calls` or `function_call` is specified"); the API answers "Invalid value for 'content':
    expected a string, got null."
    """
    for index, message in enumerate(messages(request)):
        if message.get("content") is not None:
            continue
        instead = ("tool_calls", "function_call", "refusal", "audio")
        if message["role"] == "assistant" and any(message.get(key) for key in instead):
            continue
        if message["role"] == "function" and "content" in message:
            continue  # documented as "string or null"
        where = f"messages[{index}].content"
        words = "Invalid value for 'content': expected a string, got null."
        return Problem(words, where, "invalid_type")
    return None


@rule(*OPENAI_LIKE)
def content_type(request: Inbound) -> Problem | None:
    """Content is a string or a list of parts.

    Source: platform.openai.com/docs/api-reference/chat/create (content: string or array).
    """
    for index, message in enumerate(messages(request)):
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            where = f"messages[{index}].content"
            words = "expected one of a string or array of objects"
            return Problem(f"Invalid type for '{where}': {words}.", where, "invalid_type")
    return None


@rule(*OPENAI_LIKE)
def empty_parts(request: Inbound) -> Problem | None:
    """A list of parts has at least one part.

    Source: platform.openai.com/docs/api-reference/chat/create (array of content parts, minItems 1);
    the API answers with code `empty_array`.
    """
    for index, message in enumerate(messages(request)):
        if message.get("content") == []:
            where = f"messages[{index}].content"
            words = "empty array. Expected an array with minimum length 1, but got an empty array"
            return Problem(f"Invalid '{where}': {words} instead.", where, "empty_array")
    return None


@rule(*OPENAI_LIKE)
def part_type(request: Inbound) -> Problem | None:
    """Parts are of the types that the role may have, and hold what their type says.

    Source: platform.openai.com/docs/api-reference/chat/create: user text, image_url, input_audio,
    file; assistant text, refusal; all others text only.
    """
    for index, message in enumerate(messages(request)):
        content = message.get("content")
        if not isinstance(content, list):
            continue
        allowed = _PARTS[message["role"]]
        for number, part in enumerate(cast("list[Any]", content)):
            problem = _part_problem(part, allowed, f"messages[{index}].content[{number}]")
            if problem is not None:
                return problem
    return None


def _part_problem(part: Any, allowed: set[str], where: str) -> Problem | None:
    if not isinstance(part, dict):
        return Problem(f"Invalid type for '{where}': expected an object.", where, "invalid_type")
    given = cast("dict[str, Any]", part)
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in allowed:
        values = ", ".join(f"'{name}'" for name in sorted(allowed))
        words = f"Invalid value: '{kind}'. Supported values are: {values}."
        return Problem(words, f"{where}.type", "invalid_value")
    field, expected = _PART_VALUES[kind]
    if not isinstance(given.get(field), expected):
        words = f"Missing required parameter: '{where}.{field}'."
        return Problem(words, f"{where}.{field}", "missing_required_parameter")
    return None


@rule(*OPENAI_LIKE)
def empty_tool_calls(request: Inbound) -> Problem | None:
    """`tool_calls`, where it is given, is a list with at least one call.

    Source: the API's answer "[] is too short - 'messages.1.tool_calls'", now "Invalid
    'messages[1].tool_calls': empty array".
    """
    for index, message in enumerate(messages(request)):
        if message["role"] != "assistant" or message.get("tool_calls") is None:
            continue
        calls = message["tool_calls"]
        where = f"messages[{index}].tool_calls"
        if not isinstance(calls, list):
            return Problem(f"Invalid type for '{where}': expected an array.", where, "invalid_type")
        if not calls:
            words = "empty array. Expected an array with minimum length 1, but got an empty array"
            return Problem(f"Invalid '{where}': {words} instead.", where, "empty_array")
    return None


@rule(*OPENAI_LIKE)
def tool_call_shape(request: Inbound) -> Problem | None:
    """A tool call is `{id, type: "function", function: {name, arguments}}`, arguments a string.

    Source: platform.openai.com/docs/api-reference/chat/create (assistant message, tool_calls; also
    `type: "custom"` with name and input); the id is a non-empty string.
    """
    for where, call in _calls(request):
        if not isinstance(call, dict):
            return Problem(
                f"Invalid type for '{where}': expected an object.", where, "invalid_type"
            )
        given = cast("dict[str, Any]", call)
        call_id = given.get("id")
        if not isinstance(call_id, str) or not call_id:
            words = f"Missing required parameter: '{where}.id'."
            return Problem(words, f"{where}.id", "missing_required_parameter")
        kind = given.get("type")
        if kind not in ("function", "custom"):
            words = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
            return Problem(words, f"{where}.type", "invalid_value")
        payload = "arguments" if kind == "function" else "input"
        inner = given.get(kind)
        for field in ("name", payload):
            if not isinstance(inner, dict) or not isinstance(inner.get(field), str):  # pyright: ignore[reportUnknownMemberType]
                place = f"{where}.{kind}.{field}"
                words = f"Invalid type for '{place}': expected a string."
                return Problem(words, place, "invalid_type")
    return None


@rule(*OPENAI_LIKE)
def tool_call_name(request: Inbound) -> Problem | None:
    """A called function's name matches `^[a-zA-Z0-9_-]{1,64}$`.

    Source: platform.openai.com/docs/api-reference/chat/create ("Must be a-z, A-Z, 0-9, or contain
    underscores and dashes, with a maximum length of 64").
    """
    for where, call in _calls(request):
        name: str = call[call["type"]]["name"]
        if not FUNCTION_NAME.fullmatch(name):
            place = f"{where}.{call['type']}.name"
            return Problem(_name_words(place), place, "invalid_value")
    return None


def _name_words(place: str) -> str:
    return (
        f"Invalid '{place}': string does not match pattern. Expected a string that matches the "
        "pattern '^[a-zA-Z0-9_-]+$'."
    )


@rule(*OPENAI_LIKE)
def tool_call_id_too_long(request: Inbound) -> Problem | None:
    """Ids of tool calls have at most 40 characters, in calls and in results.

    Source: the API's answer "string too long. Expected a string with maximum length 40", e.g.
    github.com/vercel/ai/issues/5171 and github.com/agno-agi/agno/issues/5382.
    """
    for where, call in _calls(request):
        if len(call["id"]) > _ID_LENGTH:
            return _too_long(f"{where}.id", len(call["id"]))
    for index, message in enumerate(messages(request)):
        call_id = message.get("tool_call_id")
        if message["role"] == "tool" and isinstance(call_id, str) and len(call_id) > _ID_LENGTH:
            return _too_long(f"messages[{index}].tool_call_id", len(call_id))
    return None


def _too_long(place: str, length: int) -> Problem:
    words = (
        f"Invalid '{place}': string too long. Expected a string with maximum length {_ID_LENGTH}, "
        f"but got a string with length {length} instead."
    )
    return Problem(words, place, "string_above_max_length")


def _calls(request: Inbound) -> list[tuple[str, Any]]:
    """Return every tool call of the request with its pointer, found once per request."""
    found: list[tuple[str, Any]] | None = request.memo.get("openai_calls")
    if found is None:
        found = [
            (f"messages[{index}].tool_calls[{number}]", call)
            for index, message in enumerate(messages(request))
            if message["role"] == "assistant" and message.get("tool_calls")
            for number, call in enumerate(cast("list[Any]", message["tool_calls"]))
        ]
        request.memo["openai_calls"] = found
    return found
