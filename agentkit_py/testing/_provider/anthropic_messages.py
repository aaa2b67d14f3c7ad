"""Rules for the messages of an Anthropic request: roles, blocks, text."""

from __future__ import annotations

import re
from typing import Any, cast

from .anthropic_body import version
from .rules import Inbound, Problem, names, rule

# anthropic-python 2.10, types/*_block_param.py: the fields of each block, and which of them (with
# their types) must be there. Blocks of server-side tools are known, their insides are left alone.
_BLOCK_FIELDS: dict[str, frozenset[str] | None] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "cache_control", "citations", "context", "title"}),
    "search_result": None,
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset(
        {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}
    ),
    "tool_result": frozenset(
        {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}
    ),
}
for _kind in names(
    """server_tool_use web_search_tool_result web_fetch_tool_result container_upload
    code_execution_tool_result bash_code_execution_tool_result mcp_tool_use mcp_tool_result
    text_editor_code_execution_tool_result tool_search_tool_result compaction"""
):
    _BLOCK_FIELDS[_kind] = None

_REQUIRED: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "image": {"source": dict},
    "document": {"source": dict},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_use_id": str},
}
_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use"})
_USER_ONLY = frozenset({"tool_result", "image", "document"})
_WORDS = {str: "a valid string", dict: "a valid dictionary"}

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")

Block = tuple[int, int, dict[str, Any]]


def messages(request: Inbound) -> list[dict[str, Any]]:
    """Return the messages; `message_shape` has seen to it that they are objects with a role."""
    return cast("list[dict[str, Any]]", request.body["messages"])


def blocks(request: Inbound) -> list[Block]:
    """Return all blocks as (message, position, block); a string is one text block, at -1."""
    found: list[Block] | None = request.memo.get("anthropic_blocks")
    if found is None:
        found = []
        for index, message in enumerate(messages(request)):
            content: Any = message["content"]
            if isinstance(content, str):
                found.append((index, -1, {"type": "text", "text": content}))
                continue
            items = cast("list[dict[str, Any]]", content)
            found.extend((index, number, block) for number, block in enumerate(items))
        request.memo["anthropic_blocks"] = found
    return found


@rule("anthropic")
def empty_messages(request: Inbound) -> Problem | None:
    """`messages` is a list with at least one message.

    Source: the API's answer "messages: at least one message is required".
    """
    given: Any = request.body["messages"]
    if not isinstance(given, list):
        return Problem("messages: Input should be a valid list", "messages")
    return None if given else Problem("messages: at least one message is required", "messages")


@rule("anthropic")
def message_shape(request: Inbound) -> Problem | None:
    """A message has `role` and `content` (a string or a list of blocks), and nothing else.

    Source: platform.claude.com/docs/en/api/messages/create; "Extra inputs are not permitted" is the
    API's answer to more.
    """
    for index, message in enumerate(cast("list[Any]", request.body["messages"])):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            return Problem(f"messages.{index}: Input should be a valid dictionary", where)
        given = cast("dict[str, Any]", message)
        for name in ("role", "content"):
            if name not in given:
                return Problem(f"messages.{index}.{name}: Field required", f"{where}.{name}")
        unknown = sorted(given.keys() - {"role", "content"})
        if unknown:
            words = f"messages.{index}.{unknown[0]}: Extra inputs are not permitted"
            return Problem(words, f"{where}.{unknown[0]}")
        if not isinstance(given["content"], str | list):
            words = f"messages.{index}.content: Input should be a valid list"
            return Problem(words, f"{where}.content")
    return None


@rule("anthropic")
def unknown_role(request: Inbound) -> Problem | None:
    """Roles are user and assistant; models since Opus 4.8 also take system after a user message.

    Source: platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages; docs.rs/
    gproxy-transform (module claude_mid_conv_system) for which models do not.
    """
    before = ""
    for index, message in enumerate(messages(request)):
        role = message["role"]
        where = f"messages[{index}].role"
        if role == "system":
            if not _takes_system(request.model):
                words = f"messages.{index}: role 'system' is not supported on this model."
                return Problem(f"{words} Use the top-level `system` parameter.", where)
            if before != "user":
                words = f"messages.{index}: a 'system' message must follow a 'user' message"
                return Problem(words, where)
        elif role not in ("user", "assistant"):
            words = f"messages.{index}.role: Input should be 'user' or 'assistant'"
            return Problem(words, where)
        before = role
    return None


def _takes_system(model: str) -> bool:
    if "claude-sonnet-5" in model and "claude-sonnet-5-" not in model:
        return False
    return version(model) >= (4, 8)


@rule("anthropic")
def first_role(request: Inbound) -> Problem | None:
    """The first message is the user's.

    Source: the API's answer 'first message must use the "user" role'; docs.claude.com/en/api/
    messages-examples starts every conversation so.
    """
    if messages(request)[0]["role"] == "user":
        return None
    return Problem('messages: first message must use the "user" role', "messages[0].role")


@rule("anthropic")
def unknown_block(request: Inbound) -> Problem | None:
    """Blocks are of known types, and stand in a message of a role that may have them.

    Source: anthropic-python types/content_block_param.py for the types; tool_use and thinking are
    the assistant's, tool_result, image and document the user's: platform.claude.com/docs/en/
    agents-and-tools/tool-use ("`tool_use` blocks can only be in `assistant` messages").
    """
    given = messages(request)
    for index, number, block in blocks(request):
        where = f"messages[{index}].content[{number}]"
        kind = cast("Any", block).get("type") if isinstance(cast("Any", block), dict) else None
        if not isinstance(kind, str) or kind not in _BLOCK_FIELDS:
            words = f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
            return Problem(f"messages.{index}.content.{number}: {words}", where)
        role = given[index]["role"]
        wrong = _USER_ONLY if role == "assistant" else _ASSISTANT_ONLY
        if kind in wrong:
            right = "user" if role == "assistant" else "assistant"
            words = f"messages.{index}: `{kind}` blocks can only be in `{right}` messages"
            return Problem(words, where)
    return None


@rule("anthropic")
def block_fields(request: Inbound) -> Problem | None:
    """A block has the fields of its type: all required ones, of the right type, and no others.

    Source: anthropic-python types/*_block_param.py; "Field required", "Input should be a valid
    dictionary" (of `input`) and "Extra inputs are not permitted" are the API's answers.
    """
    for index, number, block in blocks(request):
        kind: str = block["type"]
        path = f"messages.{index}.content.{number}.{kind}"
        where = f"messages[{index}].content[{number}]"
        for name, expected in _REQUIRED.get(kind, {}).items():
            if name not in block:
                return Problem(f"{path}.{name}: Field required", f"{where}.{name}")
            if not isinstance(block[name], expected):
                words = f"{path}.{name}: Input should be {_WORDS[expected]}"
                return Problem(words, f"{where}.{name}")
        fields = _BLOCK_FIELDS[kind]
        unknown = sorted(block.keys() - fields) if fields is not None else []
        if unknown:
            words = f"{path}.{unknown[0]}: Extra inputs are not permitted"
            return Problem(words, f"{where}.{unknown[0]}")
    return None


@rule("anthropic")
def unsigned_thinking(request: Inbound) -> Problem | None:
    """A thinking block has its text and its signature.

    Source: platform.claude.com/docs/en/build-with-claude/extended-thinking ("thinking blocks must
    be passed back unmodified"); "thinking.signature: Field required" is the API's answer.
    """
    for index, number, block in blocks(request):
        if block["type"] != "thinking":
            continue
        for name in ("signature", "thinking"):
            value = block.get(name)
            if not isinstance(value, str) or (name == "signature" and not value):
                where = f"messages[{index}].content[{number}].{name}"
                words = f"messages.{index}.content.{number}.thinking.{name}: Field required"
                return Problem(words, where)
    return None


@rule("anthropic")
def tool_use_id_pattern(request: Inbound) -> Problem | None:
    """Ids of tool calls match `^[a-zA-Z0-9_-]+$`, in calls and in results.

    Source: the API's answer "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".
    """
    for index, number, block in blocks(request):
        name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block["type"])
        if name is not None and not _ID.fullmatch(block[name]):
            path = f"messages.{index}.content.{number}.{block['type']}.{name}"
            words = f"{path}: String should match pattern '^[a-zA-Z0-9_-]+$'"
            return Problem(words, f"messages[{index}].content[{number}].{name}")
    return None


@rule("anthropic")
def tool_use_name_pattern(request: Inbound) -> Problem | None:
    """A called tool's name matches `^[a-zA-Z0-9_-]{1,128}$`.

    Source: the API's answer "tool_use.name: String should match pattern
    '^[a-zA-Z0-9_-]{1,128}$'".
    """
    for index, number, block in blocks(request):
        if block["type"] == "tool_use" and not _NAME.fullmatch(block["name"]):
            path = f"messages.{index}.content.{number}.tool_use.name"
            words = f"{path}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            return Problem(words, f"messages[{index}].content[{number}].name")
    return None


@rule("anthropic")
def empty_content(request: Inbound) -> Problem | None:
    """No message is empty, but for a final one of the assistant.

    Source: the API's answer "all messages must have non-empty content except for the optional final
    assistant message".
    """
    given = messages(request)
    for index, message in enumerate(given):
        last = index == len(given) - 1 and message["role"] == "assistant"
        if not message["content"] and not last:
            words = "all messages must have non-empty content except for the optional final"
            return Problem(
                f"messages.{index}: {words} assistant message", f"messages[{index}].content"
            )
    return None


@rule("anthropic")
def empty_text(request: Inbound) -> Problem | None:
    """No text block is empty or white space only, in messages.

    Source: the API's answers "messages: text content blocks must be non-empty" and "messages: text
    content blocks must contain non-whitespace text".
    """
    last = len(messages(request)) - 1
    for index, number, block in blocks(request):
        if block["type"] != "text" or block["text"].strip():
            continue
        if index == last and number == -1 and messages(request)[last]["role"] == "assistant":
            continue  # an empty prefill is allowed; white space at its end is another rule's
        words = "contain non-whitespace text" if block["text"] else "be non-empty"
        where = f"messages[{index}].content" + (f"[{number}].text" if number >= 0 else "")
        return Problem(f"messages: text content blocks must {words}", where)
    return None


@rule("anthropic")
def tool_result_content(request: Inbound) -> Problem | None:
    """A result's content is a string or a list of text, image, document, search_result blocks.

    Source: anthropic-python types/tool_result_block_param.py (`Content`); and "content cannot be
    empty if `is_error` is true", the API's answer to a silent failure.
    """
    allowed = ("text", "image", "document", "search_result", "tool_reference")
    for index, number, block in blocks(request):
        if block["type"] != "tool_result":
            continue
        content: Any = block.get("content")
        path = f"messages.{index}.content.{number}.tool_result"
        where = f"messages[{index}].content[{number}].content"
        if block.get("is_error") is True and not content:
            words = f"{path}: content cannot be empty if `is_error` is true"
            return Problem(words, where)
        if content is not None and not isinstance(content, str | list):
            return Problem(f"{path}.content: Input should be a valid list", where)
        items = cast("list[Any]", content) if isinstance(content, list) else []
        for place, item in enumerate(items):
            kind = cast("dict[str, Any]", item).get("type") if isinstance(item, dict) else None
            if kind not in allowed:
                words = f"{path}.content.{place}: Input tag '{kind}' does not match any of the tags"
                return Problem(words, f"{where}[{place}]")
    return None
