"""Anthropic's Messages API: rules, replies, streams, errors."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import dropwhile, pairwise
from typing import Any, cast

from agentkit_py.models.capabilities import capabilities_of, window_of

from .replies import Ids, ReplyContent, TokenCounts, interleaved, pieces
from .rules import (
    BASE64,
    IMAGES,
    URL,
    Problem,
    Request,
    ToolRound,
    is_int,
    is_name_list,
    is_number,
    items_of,
    names,
    not_known,
    numbered,
    object_of,
    referred,
    repeated,
    rules_of,
    types_of,
    view,
)
from .types import SseEvent

_rule = rules_of("anthropic")

_API = "platform.claude.com/docs/en/api/messages/create"
_DOCS = "platform.claude.com/docs/en/build-with-claude"
_THINKING_PAGE = f"{_DOCS}/extended-thinking"
_SDK = "anthropic-python types"
_ANSWER = "the API's answer"


def _path(where: str, kind: str = "") -> str:
    """Return a pointer as the API writes it; it also names the kind of block or tool."""
    return re.sub(r"\[(\d+)\]", r".\1", where) + (f".{kind}" if kind else "")


def _wrong(where: str, words: str, *, kind: str = "", at: str = "") -> Problem:
    """Return the API's error for a field."""
    return Problem(f"{_path(where, kind)}{at}: {words}", f"{where}{at}")


_EXTRA = "Extra inputs are not permitted"
_REQUIRED = "Field required"

# https://platform.claude.com/docs/en/api/errors
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return the JSON of an error."""
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    kind = _ERROR_TYPES.get(status, "api_error" if failed else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


# ------------------------------------------------------------------------------------- parameters

# anthropic-python 2.10, types/message_create_params.py, generated from Anthropic's specification,
# and the beta fields of types/beta/message_create_params.py.
_FIELDS = names("""model messages max_tokens cache_control container diagnostics inference_geo
    metadata output_config service_tier speed stop_sequences stream system temperature thinking
    tool_choice tools top_k top_p user_profile_id context_management mcp_servers output_format
    compaction fallbacks""")
_LEAST_BUDGET = 1024
_THINKING_TYPES = ("enabled", "disabled", "adaptive", "between_tools")
_VERSION = re.compile(r"claude-(?:opus|sonnet|haiku|fable|mythos)-(\d)(?:-(\d{1,2}))?(?![\d])")


def _since_4_5(model: str) -> bool:
    """Return whether the name is of Claude 4.5 or later.

    Names with a date instead of a minor version (`claude-sonnet-4-20250514`) are x.0.
    """
    found = _VERSION.search(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (4, 5)


def _thinking_type(request: Request) -> Any:
    return object_of(request.body.get("thinking")).get("type")


@_rule(_API)
def missing_field(request: Request) -> Iterator[Problem]:
    """`model`, `max_tokens` and `messages` are required."""
    for name in ("model", "max_tokens", "messages"):
        if request.body.get(name) is None:
            yield _wrong(name, _REQUIRED)
    if not isinstance(request.body["model"], str) or not request.body["model"]:
        yield _wrong("model", "Input should be a valid string")


@_rule(f"{_SDK}/message_create_params.py; {_ANSWER}", "sdk")
def unknown_field(request: Request) -> Iterator[Problem]:
    """The body has no fields but the documented ones."""
    for name in request.body:
        if name not in _FIELDS:
            yield not_known(f"the field {name!r} of the Messages API", name)


@_rule(f"{_API} (0 populates the prompt cache); before 2026 the least was 1")
def max_tokens_range(request: Request) -> Iterator[Problem]:
    """`max_tokens` is a whole number that is not negative."""
    value = request.body["max_tokens"]
    if not is_int(value):
        yield _wrong("max_tokens", "Input should be a valid integer")
    elif value < 0:
        yield _wrong("max_tokens", "Input should be greater than or equal to 0")


@_rule(_API)
def sampling_range(request: Request) -> Iterator[Problem]:
    """`temperature` and `top_p` lie between 0 and 1; `top_k` is a whole number of at least 0.

    -1 means "not set" in `top_p` and `top_k` before Claude 4.5 (a single recording of Claude
    3.5, August 2025).
    """
    unset = [] if _since_4_5(request.model) else [-1]
    for name in ("temperature", "top_p"):
        value = request.body.get(name)
        if value is None or (name == "top_p" and value in unset):
            continue
        if not is_number(value):
            yield _wrong(name, "Input should be a valid number")
        elif not 0 <= value <= 1:
            yield _wrong(name, "range: 0..1")
    top_k = request.body.get("top_k")
    if top_k not in (None, *unset) and (not is_int(top_k) or top_k < 0):
        yield _wrong("top_k", "Input should be greater than or equal to 0")


@_rule(
    "platform.claude.com/docs/en/about-claude/models/migration-guide (use only temperature "
    "or top_p, not both)",
    models=_since_4_5,
)
def temperature_and_top_p(request: Request) -> Iterator[Problem]:
    """From Claude 4.5 on, `temperature` and `top_p` exclude each other."""
    if request.body.get("temperature") is not None and request.body.get("top_p") is not None:
        words = "`temperature` and `top_p` cannot both be specified for this model."
        yield Problem(f"{words} Please use only one.", "top_p")


@_rule(f"{_API}; {_ANSWER}")
def stop_sequences(request: Request) -> Iterator[Problem]:
    """`stop_sequences` is a list of strings, each with something else than white space in it."""
    stops: Any = request.body.get("stop_sequences")
    if not isinstance(stops, list | None):
        yield _wrong("stop_sequences", "Input should be a valid list")
    for where, stop in numbered("stop_sequences", stops):
        if not isinstance(stop, str) or not stop.strip():
            words = "stop_sequences: each stop sequence must contain non-whitespace"
            yield Problem(words, where)


@_rule(f"{_API} (string or array of TextBlockParam); {_ANSWER}")
def system_prompt(request: Request) -> Iterator[Problem]:
    """`system` is a string or a list of text blocks, none of them empty."""
    system: Any = request.body.get("system")
    if not isinstance(system, str | list | None):
        yield _wrong("system", "Input should be a valid list")
    for where, block in numbered("system", system):
        given = object_of(block)
        if given.get("type") != "text" or not isinstance(given.get("text"), str):
            yield _wrong(where, "Input should be a valid text block")
        elif not given["text"]:
            yield Problem("system: text content blocks must be non-empty", f"{where}.text")


@_rule(f"{_THINKING_PAGE} (≥ 1024 and less than max_tokens)")
def thinking_config(request: Request) -> Iterator[Problem]:
    """`thinking` has a known type; `enabled` needs 1,024 ≤ `budget_tokens` < `max_tokens`.

    With the interleaved-thinking beta the budget may be larger.
    """
    if request.body.get("thinking") is None:
        return
    kind = _thinking_type(request)
    if kind not in _THINKING_TYPES:
        tags = ", ".join(f"'{name}'" for name in _THINKING_TYPES)
        words = f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
        yield Problem(f"thinking: {words}: {tags}", "thinking.type")
    if kind != "enabled":
        return
    budget: Any = request.body["thinking"].get("budget_tokens")
    if not is_int(budget) or budget < _LEAST_BUDGET:
        words = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        yield Problem(words, "thinking.budget_tokens")
    interleaved = request.has_beta("interleaved-thinking")
    if budget >= request.body["max_tokens"] and not interleaved:
        words = "`max_tokens` must be greater than `thinking.budget_tokens`."
        yield Problem(words, "thinking.budget_tokens")


@_rule(f"{_DOCS}/thinking; about-claude/models, each page (October 2026)")
def thinking_type_of_model(request: Request) -> Iterator[Problem]:
    """A model takes some kinds of thinking only; those since 5.1 mostly `adaptive` alone."""
    kind = _thinking_type(request)
    if kind is not None and kind not in capabilities_of(request.model).thinking_types:
        words = f'"thinking.type.{kind}" is not supported for this model.'
        if kind == "adaptive":
            words = "adaptive thinking is not supported on this model"
        yield Problem(words, "thinking.type")


_EFFORT_NEEDS_THINKING = re.compile(r"claude-(?:opus-5(?!-\d(?!\d))|(?:haiku|sonnet)-5-5)(?!\d)")


def _has_effort_bound(model: str) -> bool:
    return _EFFORT_NEEDS_THINKING.search(model) is not None


@_rule(
    f"{_DOCS}/thinking (Opus 5, Haiku 5.5: disabled; Sonnet 5.5: between_tools)",
    models=_has_effort_bound,
)
def effort_without_thinking(request: Request) -> Iterator[Problem]:
    """Some models take an effort of `high` at most without thinking, or only between tools."""
    kind = _thinking_type(request)
    effort = object_of(request.body.get("output_config")).get("effort")
    if kind in ("disabled", "between_tools") and effort in ("xhigh", "max"):
        words = f"output_config.effort '{effort}' is not supported when thinking is {kind}"
        yield Problem(words, "output_config.effort")


@_rule(f"{_DOCS}/thinking; about-claude/models (no sampling parameters since Opus 4.7)")
def sampling_of_model(request: Request) -> Iterator[Problem]:
    """Models since Opus 4.7 take `temperature`, `top_p` and `top_k` as they are only."""
    if capabilities_of(request.model).sampling:
        return
    for name, usual in (("temperature", 1), ("top_p", None), ("top_k", None)):
        if request.body.get(name) not in (None, usual):
            yield Problem(f"`{name}` is not supported on this model.", name)


@_rule(f"{_THINKING_PAGE}, feature compatibility; {_ANSWER}")
def thinking_with_sampling(request: Request) -> Iterator[Problem]:
    """With thinking enabled, the temperature is 1 and there is no `top_k`."""
    if _thinking_type(request) not in ("enabled", "adaptive"):
        return
    page = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
    link = f"Please consult our documentation at {page}"
    if request.body.get("temperature") not in (None, 1):
        words = "`temperature` may only be set to 1 when thinking is enabled."
        yield Problem(f"{words} {link}", "temperature")
    if request.body.get("top_k") is not None:
        yield Problem(f"`top_k` must be unset when thinking is enabled. {link}", "top_k")


# ---------------------------------------------------------------------------- messages and blocks

# anthropic-python 2.10, types/*_block_param.py: the fields of each block, and which of them (with
# their types) must be there. Blocks of server-side tools are known, their insides are left alone.
_BLOCK_FIELDS: dict[str, frozenset[str] | None] = {
    "text": names("type text cache_control citations"),
    "image": names("type source cache_control"),
    "document": names("type source cache_control citations context title"),
    "search_result": None,
    "thinking": names("type thinking signature"),
    "redacted_thinking": names("type data"),
    "tool_use": names("type id name input cache_control caller toolset_name"),
    "tool_result": names("type tool_use_id content is_error cache_control toolset_name"),
    **dict.fromkeys(
        names("""server_tool_use web_search_tool_result web_fetch_tool_result container_upload
    code_execution_tool_result bash_code_execution_tool_result mcp_tool_use mcp_tool_result
    text_editor_code_execution_tool_result tool_search_tool_result advisor_tool_result compaction
    fallback tool_addition tool_removal""")
    ),
}
_NEEDED: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "image": {"source": dict},
    "document": {"source": dict},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_use_id": str},
}
_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use"})
_USER_ONLY = frozenset({"tool_result", "image", "document"})
_IN_SYSTEM = frozenset({"text", "tool_addition", "tool_removal"})
_SYSTEM_FIELDS = {
    "output_config": "mid-conversation-output-config-2026-07-01",
    "clear_at": "mid-conversation-system-clear-at-2026-08-21",
}
"""Fields of a system message inside a conversation, and the beta of each."""

_IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
_KIND_NAMES = {str: "a valid string", dict: "a valid dictionary"}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NAME_WORDS = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a message, with its pointer; a string as content is a single text block."""

    message: int
    role: str
    where: str
    given: dict[str, Any]
    is_string: bool = False

    @property
    def kind(self) -> str:
        """The type of the block."""
        return self.given["type"]


def _messages(request: Request) -> list[dict[str, Any]]:
    """Return the messages; `message_shape` has seen to it that they are objects with a role."""
    return request.body["messages"]


@view
def _blocks(request: Request) -> list[Block]:
    """Return all blocks of all messages."""
    found: list[Block] = []
    for index, message in enumerate(_messages(request)):
        where, content = f"messages[{index}].content", message["content"]
        if isinstance(content, str):
            text = {"type": "text", "text": content}
            found.append(Block(index, message["role"], where, text, is_string=True))
        for place, block in numbered(where, content):
            found.append(Block(index, message["role"], place, block))
    return found


def blocks_of(request: Request, *kinds: str) -> list[Block]:
    """Return the blocks of these types."""
    return [block for block in _blocks(request) if block.kind in kinds]


@_rule(_ANSWER, "observed")
def empty_messages(request: Request) -> Iterator[Problem]:
    """`messages` is a list with a message or more."""
    given: Any = request.body["messages"]
    if not isinstance(given, list):
        yield _wrong("messages", "Input should be a valid list")
    elif not given:
        yield _wrong("messages", "at least one message is required")


@_rule(f"{_API}; {_ANSWER}")
def message_shape(request: Request) -> Iterator[Problem]:
    """A message has `role` and `content` (a string or a list of blocks), and nothing else."""
    for where, message in numbered("messages", request.body["messages"]):
        if not isinstance(message, dict):
            yield _wrong(where, "Input should be a valid dictionary")
            return
        given = object_of(message)
        for name in ("role", "content"):
            if name not in given:
                yield _wrong(f"{where}.{name}", _REQUIRED)
        known = {"role", "content"}
        if given["role"] == "system":
            known |= _SYSTEM_FIELDS.keys()
        for name in sorted(given.keys() - known):
            yield _wrong(f"{where}.{name}", _EXTRA)
        if not isinstance(given["content"], str | list):
            yield _wrong(f"{where}.content", "Input should be a valid list")


@_rule(
    f"{_DOCS}/mid-conversation-system-messages; docs.rs/gproxy-transform (module "
    "claude_mid_conv_system) for which models do not"
)
def unknown_role(request: Request) -> Iterator[Problem]:
    """Roles are user and assistant; models since Opus 4.8 also take system after a user message.

    Consecutive system messages form a group. It may also follow a server tool's result, and only
    an assistant message may follow it. A message that only sets the effort may be anywhere.
    """
    before, instructed = "", False
    for index, message in enumerate(_messages(request)):
        role, where = message["role"], f"messages[{index}].role"
        if role == "system" and not capabilities_of(request.model).system_inside:
            words = f"messages.{index}: role 'system' is not supported on this model."
            yield Problem(f"{words} Use the top-level `system` parameter.", where)
        elif role == "system" and before != "user" and message["content"]:
            words = f"messages.{index}: a 'system' message must follow a 'user' message"
            yield Problem(words, where)
        elif role not in ("user", "assistant", "system"):
            yield _wrong(where, "Input should be 'user' or 'assistant'")
        elif role == "user" and instructed:
            words = f"messages.{index}: a 'user' message cannot follow a 'system' message"
            yield Problem(words, where)
        instructed = role == "system" and bool(message["content"])
        before = "user" if role == "system" or _ends_in_server_result(message) else role


def _ends_in_server_result(message: dict[str, Any]) -> bool:
    last = object_of(next(reversed(items_of(message["content"])), None))
    kind = last.get("type")
    return message["role"] == "assistant" and str(kind).endswith("_tool_result")


@_rule(
    f"{_ANSWER}; docs.claude.com/en/api/messages-examples. Sonnet 4.5 answers without it",
    optional=True,
)
def first_role(request: Request) -> Iterator[Problem]:
    """The first message is the user's, or begins with a compaction. Off by default."""
    first = _messages(request)[0]
    opening = object_of(next(iter(items_of(first["content"])), None))
    if first["role"] != "user" and opening.get("type") != "compaction":
        yield Problem('messages: first message must use the "user" role', "messages[0].role")


@_rule(
    f"{_SDK}/content_block_param.py; platform.claude.com/docs/en/agents-and-tools/tool-use "
    "(tool_use blocks can only be in assistant messages)",
    "sdk",
)
def unknown_block(request: Request) -> Iterator[Problem]:
    """Blocks are of known types, and their message has a role that allows them."""
    for block in _blocks(request):
        kind = object_of(block.given).get("type")
        if not isinstance(kind, str) or kind not in _BLOCK_FIELDS:
            yield not_known(f"a block of type {kind!r}", block.where)
            return
        of_system = kind in ("tool_addition", "tool_removal")
        if kind not in _IN_SYSTEM if block.role == "system" else of_system:
            words = f"`{kind}` blocks cannot be in `{block.role}` messages"
            yield Problem(f"messages.{block.message}: {words}", block.where)
        if kind in (_USER_ONLY if block.role == "assistant" else _ASSISTANT_ONLY):
            right = "user" if block.role == "assistant" else "assistant"
            words = f"`{kind}` blocks can only be in `{right}` messages"
            yield Problem(f"messages.{block.message}: {words}", block.where)


def _tool_names(request: Request) -> set[str]:
    """Return the names of all tools, Anthropic's own among them."""
    names = (object_of(tool).get("name") for tool in items_of(request.body.get("tools")))
    return {name for name in names if isinstance(name, str)}


def _refers_elsewhere(item: Mapping[str, Any], name: object, names: set[str]) -> bool:
    """Return whether an item is a reference to a tool by a name that no tool of the request has."""
    known = isinstance(name, str) and name in names
    return item.get("type") == "tool_reference" and not known


_TOOL_CHANGES_BETA = "mid-conversation-tool-changes-2026-07-01"


@_rule(f"{_DOCS}/change-tools-or-instructions (tool_addition, tool_removal)")
def tool_changes(request: Request) -> Iterator[Problem]:
    """Tools are added and removed under a beta, and by names that the request declares."""
    allowed = request.has_beta(_TOOL_CHANGES_BETA)
    names = _tool_names(request)
    for block in blocks_of(request, "tool_addition", "tool_removal"):
        tool = object_of(block.given.get("tool"))
        if not allowed:
            words = f"{block.kind}: Extra inputs are not permitted"
            yield _wrong(block.where, words)
        elif _refers_elsewhere(tool, tool.get("name"), names):
            words = f"tool {tool.get('name')!r} is not declared in `tools`"
            yield _wrong(block.where, words, kind=block.kind, at=".tool.name")


_INLINE_TOOLS_BETA = "inline-tools-2026-09-15"


@_rule(f"{_DOCS}/change-tools-or-instructions (tool_definition)")
def inline_tools(request: Request) -> Iterator[Problem]:
    """A tool that a conversation defines itself goes with a beta."""
    for block in blocks_of(request, "tool_addition"):
        inline = object_of(block.given.get("tool")).get("type") == "tool_definition"
        if inline and not request.has_beta(_INLINE_TOOLS_BETA):
            words = "Input tag 'tool_definition' does not match any of the expected tags"
            yield _wrong(block.where, words, kind=block.kind, at=".tool")


@_rule(
    f"{_DOCS}/mid-conversation-system-messages (output_config, clear_at); docs.rs/vtcode-llm "
    "(headers.rs) for the betas"
)
def system_message_fields(request: Request) -> Iterator[Problem]:
    """A system message sets effort, or ends at the next user message, under a beta each.

    One that ends is of texts without cache marks.
    """
    for index, message in enumerate(_messages(request)):
        where = f"messages[{index}]"
        for name, beta in _SYSTEM_FIELDS.items():
            if name in message and not request.has_beta(beta):
                yield _wrong(f"{where}.{name}", _EXTRA)
        if message.get("clear_at") is None:
            continue
        if message["clear_at"] != "next_user_message":
            yield _wrong(f"{where}.clear_at", "Input should be 'next_user_message'")
        for place, block in numbered(f"{where}.content", message["content"]):
            if block.get("type") != "text" or block.get("cache_control") is not None:
                words = "with `clear_at`, content must be text without `cache_control`"
                yield _wrong(place, words)


@_rule("docs.rs/vtcode-llm (headers.rs); github.com/mozex/anthropic-laravel, release 1.8.0", "sdk")
def fallbacks_without_beta(request: Request) -> Iterator[Problem]:
    """`fallbacks` go with a beta; sources differ in which date goes with a list of models."""
    given = request.body.get("fallbacks")
    if given is not None and not request.has_beta("server-side-fallback-"):
        yield _wrong("fallbacks", _EXTRA)


@_rule(f"{_SDK}/*_block_param.py; {_ANSWER}", "sdk")
def block_fields(request: Request) -> Iterator[Problem]:
    """A block has the fields of its type: all required ones, of the right type, and no others."""
    for block in _blocks(request):
        kind, given = block.kind, block.given
        for name, expected in _NEEDED.get(kind, {}).items():
            if name not in given:
                yield _wrong(block.where, _REQUIRED, kind=kind, at=f".{name}")
            elif not isinstance(given[name], expected):
                words = f"Input should be {_KIND_NAMES[expected]}"
                yield _wrong(block.where, words, kind=kind, at=f".{name}")
        known = _BLOCK_FIELDS[kind]
        for name in sorted(given.keys() - known) if known is not None else ():
            yield _wrong(block.where, _EXTRA, kind=kind, at=f".{name}")


@_rule(f"{_THINKING_PAGE} (blocks must be passed back unmodified); {_ANSWER}")
def unsigned_thinking(request: Request) -> Iterator[Problem]:
    """A thinking block has its text and its signature."""
    for block in blocks_of(request, "thinking"):
        if not isinstance(block.given.get("signature"), str) or not block.given["signature"]:
            yield _wrong(block.where, _REQUIRED, kind="thinking", at=".signature")
        if not isinstance(block.given.get("thinking"), str):
            yield _wrong(block.where, _REQUIRED, kind="thinking", at=".thinking")


@_rule(_ANSWER, "observed")
def tool_use_id_pattern(request: Request) -> Iterator[Problem]:
    """Ids of tool calls match `^[a-zA-Z0-9_-]+$`, in calls and in results."""
    for block in blocks_of(request, "tool_use", "tool_result"):
        name = "id" if block.kind == "tool_use" else "tool_use_id"
        if not _ID.fullmatch(block.given[name]):
            words = "String should match pattern '^[a-zA-Z0-9_-]+$'"
            yield _wrong(block.where, words, kind=block.kind, at=f".{name}")


@_rule(_ANSWER, "observed")
def tool_use_name_pattern(request: Request) -> Iterator[Problem]:
    """A called tool's name matches `^[a-zA-Z0-9_-]{1,128}$`."""
    for block in blocks_of(request, "tool_use"):
        if not _NAME.fullmatch(block.given["name"]):
            yield _wrong(block.where, _NAME_WORDS, kind="tool_use", at=".name")


@_rule(_ANSWER, "observed")
def empty_content(request: Request) -> Iterator[Problem]:
    """Only the final assistant message may be empty."""
    given = _messages(request)
    for index, message in enumerate(given):
        last = index == len(given) - 1 and message["role"] == "assistant"
        sets_effort = message["role"] == "system" and message.get("output_config")
        if not message["content"] and not last and not sets_effort:
            words = "all messages must have non-empty content except for the optional final"
            words = f"messages.{index}: {words} assistant message"
            yield Problem(words, f"messages[{index}].content")


@_rule(_ANSWER, "observed")
def empty_text(request: Request) -> Iterator[Problem]:
    """No text block in a message is empty or white space, unless the message has a call.

    White space between results of a server's tool is as the model wrote it (recorded).
    """
    last = len(_messages(request)) - 1
    calling = {block.message for block in blocks_of(request, "tool_use", "server_tool_use")}
    for block in blocks_of(request, "text"):
        if block.given["text"].strip():
            continue
        if block.message == last and block.is_string and block.role == "assistant":
            continue  # an empty prefill is allowed; white space at its end is another rule's
        if block.given["text"] and block.message in calling:
            continue  # so it came, and was accepted
        words = "contain non-whitespace text" if block.given["text"] else "be non-empty"
        where = block.where if block.is_string else f"{block.where}.text"
        yield Problem(f"messages: text content blocks must {words}", where)


@_rule(f"{_SDK}/tool_result_block_param.py; {_ANSWER}", "sdk")
def tool_result_content(request: Request) -> Iterator[Problem]:
    """A result's content is a string or a list of text, image, document, search_result blocks."""
    for block in blocks_of(request, "tool_result"):
        content: Any = block.given.get("content")
        path = _path(block.where, "tool_result")
        where = f"{block.where}.content"
        if block.given.get("is_error") is True and not content:
            words = f"{path}: content cannot be empty if `is_error` is true"
            yield Problem(words, where)
        if not isinstance(content, str | list | None):
            yield Problem(f"{path}.content: Input should be a valid list", where)
        for index, item in enumerate(items_of(content)):
            kind = object_of(item).get("type")
            if kind not in _IN_RESULTS:
                words = f"Input tag '{kind}' does not match any of the tags"
                yield Problem(f"{path}.content.{index}: {words}", f"{where}[{index}]")
            for name in _IN_OWN_RESULTS.get(str(kind), ()):
                if name not in object_of(item):
                    words = f"{path}.content.{index}.{kind}.{name}: Field required"
                    yield Problem(words, f"{where}[{index}]")


_IN_OWN_RESULTS = {
    "search_result": ("source", "title", "content"),
    "browser_state": ("tabs",),
}
"""The fields that Claude's own blocks need in a result: anthropic-python 2.14."""


# ------------------------------------------------------------------- turns, calls, results, prefill

_THINKING = ("thinking", "redacted_thinking")
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


@_rule(f"{_DOCS.removesuffix('/build-with-claude')}/agents-and-tools/tool-use/server-tools")
def unanswered_server_tool(request: Request) -> Iterator[Problem]:
    """A call of a server's tool comes back with its result, unless the turn continues.

    A paused turn continues, and so does a turn that waits for the caller's tool results (recorded).
    """
    answered = {
        str(block.given.get("tool_use_id"))
        for block in _blocks(request)
        if block.kind.endswith("_tool_result")
    }
    goes_on = {len(_messages(request)) - 1, *(b.message for b in blocks_of(request, "tool_use"))}
    for block in blocks_of(request, *_SERVER_CALLS):
        if str(block.given.get("id")) not in answered and block.message not in goes_on:
            kind = f"{block.given.get('name')}_tool_result"
            words = (
                f"`{block.given.get('name')}` tool use with id `{block.given.get('id')}` was found "
                f"without a corresponding `{kind}` block"
            )
            yield Problem(f"messages.{block.message}: {words}", block.where)


_DECLARED = ("web_search", "web_fetch")
"""Server tools whose calls need the tool itself; code also runs for other tools."""


@_rule(f"{_DOCS.removesuffix('/build-with-claude')}/agents-and-tools/tool-use/server-tools")
def server_call_without_tool(request: Request) -> Iterator[Problem]:
    """A call of a server's tool is in the conversation of requests alone that have the tool.

    claude-opus-4-8 took it in a request without any tool (one recorded exchange of 2026).
    """
    names = _tool_names(request)
    if not names and request.model.startswith("claude-opus-4-8"):
        return
    for block in blocks_of(request, "server_tool_use"):
        name = str(block.given.get("name"))
        if name in _DECLARED and name not in names:
            words = f"`server_tool_use` block for `{name}` found, but no `{name}` tool was provided"
            yield Problem(f"messages.{block.message}: {words}", block.where)


@dataclass(slots=True)
class CombinedTurn:
    """Neighbouring messages of the same role, which the API combines into a turn.

    Source: platform.claude.com/docs/en/api/messages/create ("Consecutive `user` or `assistant`
    turns in your request will be combined into a single turn").
    """

    role: str
    index: int
    blocks: list[Block] = field(default_factory=list[Block])

    def of(self, kind: str) -> list[Block]:
        """Return the blocks of a type."""
        return [block for block in self.blocks if block.kind == kind]


@view
def _turns(request: Request) -> list[CombinedTurn]:
    """Return the conversation as turns; without system messages."""
    found: list[CombinedTurn] = []
    for block in _blocks(request):
        if block.role == "system":
            continue
        if not found or found[-1].role != block.role:
            found.append(CombinedTurn(block.role, block.message))
        found[-1].blocks.append(block)
    return found


@view
def _rounds(request: Request) -> list[ToolRound]:
    """Return each turn's calls with the results in the turn right after it."""
    given = [CombinedTurn("", 0), *_turns(request), CombinedTurn("", 0)]
    return [
        ToolRound(
            _pairs(before.of("tool_use"), "id"),
            _pairs(after.of("tool_result"), "tool_use_id"),
            before.index,
            after.index,
        )
        for before, after in pairwise(given)
    ]


def _pairs(given: list[Block], name: str) -> list[tuple[str, Any]]:
    return [(f"{block.where}.{name}", block.given[name]) for block in given]


@_rule(f"{_ANSWER}: tool_use ids must be unique. Later turns may repeat an id", "observed")
def duplicate_tool_use_id(request: Request) -> Iterator[Problem]:
    """No two tool calls of a turn have the same id."""
    for turn in _turns(request):
        for where, _ in repeated(_pairs(turn.of("tool_use"), "id")):
            yield Problem("messages: `tool_use` ids must be unique", where)


@_rule("github.com/anthropics/claude-code/issues/13460", "observed")
def unknown_tool_use_id(request: Request) -> Iterator[Problem]:
    """A result answers a call of the turn right before it."""
    for tool_round in _rounds(request):
        for where, call_id in tool_round.unknown():
            words = (
                f"messages.{tool_round.answerer}.content.0: unexpected `tool_use_id` found in "
                f"`tool_result` blocks: {call_id}. Each `tool_result` block must have a "
                "corresponding `tool_use` block in the previous message."
            )
            yield Problem(words, where)


@_rule(f"{_ANSWER}: found multiple tool_result blocks", "observed")
def duplicate_tool_result(request: Request) -> Iterator[Problem]:
    """Each call has exactly 1 result."""
    for tool_round in _rounds(request):
        for where, call_id in repeated(tool_round.results):
            words = (
                f"messages.{tool_round.answerer}.content: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {call_id}"
            )
            yield Problem(words, where)


def _unanswered(index: int, ids: Iterator[Any]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` "
        "block in the next message."
    )


@_rule("github.com/anthropics/claude-code/issues/7929", "observed")
def unanswered_tool_use(request: Request) -> Iterator[Problem]:
    """Every call is answered in the turn right after it."""
    for tool_round in _rounds(request):
        waiting = tool_round.unanswered()
        if waiting:
            yield Problem(
                _unanswered(tool_round.caller, (one for _, one in waiting)), waiting[0][0]
            )


@_rule(
    "platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls (tool_result "
    "blocks must come FIRST in the content array; will cause a 400 error)"
)
def tool_result_after_text(request: Request) -> Iterator[Problem]:
    """Results come first in the user's turn, before any text or image."""
    for turn in _turns(request):
        results = turn.of("tool_result")
        for block in dropwhile(lambda one: one.kind == "tool_result", turn.blocks):
            if block.kind == "tool_result":
                ids = (one.given["tool_use_id"] for one in results)
                yield Problem(_unanswered(max(turn.index - 1, 0), ids), block.where)


@_rule(_ANSWER, "observed")
def ends_in_thinking(request: Request) -> Iterator[Problem]:
    """No assistant turn ends in a thinking block."""
    for turn in _turns(request):
        last = turn.blocks[-1]
        if turn.role == "assistant" and last.kind in _THINKING:
            words = "The final block in an assistant message cannot be `thinking`."
            yield Problem(f"messages.{turn.index}: {words}", last.where)


@_rule(f"{_THINKING_PAGE}, preserving thinking blocks; {_ANSWER}")
def missing_thinking_block(request: Request) -> Iterator[Problem]:
    """With `thinking: enabled`, an unfinished tool loop's assistant turn starts with thinking."""
    given = _turns(request)
    if _thinking_type(request) != "enabled" or given[-1].role != "user" or not given[:-1]:
        return
    turn = given[-2]
    first = turn.blocks[0]
    if turn.of("tool_use") and first.kind not in _THINKING:
        words = (
            f"messages.{turn.index}.content.0.type: Expected `thinking` or `redacted_thinking`, "
            f"but found `{first.kind}`. When `thinking` is enabled, a final `assistant` message "
            "must start with a thinking block (preceeding the lastmost set of `tool_use` and "
            "`tool_result` blocks)."
        )
        yield Problem(words, first.where)


@_rule(
    "platform.claude.com/docs/en/api/errors#prefill-not-supported, about-claude/models/"
    "whats-new-claude-4-6#prefill-removal; build-with-claude/extended-thinking"
)
def prefill_not_supported(request: Request) -> Iterator[Problem]:
    """A conversation ends with the user, for models since 4.6 and whenever thinking is on."""
    given = _messages(request)
    modern = not capabilities_of(request.model).prefill
    refused = modern or _thinking_type(request) in ("enabled", "adaptive")
    if given[-1]["role"] != "assistant" or not refused:
        return
    # A turn that was paused in the middle of a server's tools is continued.
    if not any(block.kind == "server_tool_use" for block in _turns(request)[-1].blocks):
        words = "This model does not support assistant message prefill. The conversation must end"
        yield Problem(f"{words} with a user message.", f"messages[{len(given) - 1}]")


@_rule(f"{_DOCS}/prompt-engineering (prefill content); {_ANSWER}")
def trailing_whitespace(request: Request) -> Iterator[Problem]:
    """A prefill does not end in white space."""
    given = _turns(request)
    if _messages(request)[-1]["role"] != "assistant" or not given or not given[-1].blocks:
        return
    last = given[-1].blocks[-1]
    text = last.given["text"] if last.kind == "text" else ""
    if text != text.rstrip():
        words = "messages: final assistant content cannot end with trailing whitespace"
        yield Problem(words, last.where)


@_rule(
    "github.com/anthropics/anthropic-sdk-python/issues/494 and 849: the API's answer until "
    "27 February 2025. Bedrock still has it (github.com/elastic/kibana/pull/246943)",
    "observed",
    optional=True,
)
def tool_blocks_without_tools(request: Request) -> Iterator[Problem]:
    """A conversation that contains tool calls or results defines tools. Off by default."""
    if request.body.get("tools"):
        return
    for block in blocks_of(request, "tool_use", "tool_result"):
        words = "Requests which include `tool_use` or `tool_result` blocks must define tools."
        yield Problem(words, block.where)


# ------------------------------------------------------------------------------------------ tools

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_SERVER_TOOL = re.compile(r"[a-z0-9_]+_\d{8}|mcp_toolset")
_SCHEMA_TYPES = names("string number integer boolean object array null")
# anthropic-python 2.10, types/tool_param.py.
_TOOL_FIELDS = names("""name description input_schema type cache_control strict defer_loading
    allowed_callers eager_input_streaming input_examples""")


def _own_tools(request: Request) -> list[tuple[str, dict[str, Any]]]:
    """Return the tools of our own; Anthropic's have a dated type and rules of their own."""
    tools = numbered("tools", request.body.get("tools"))
    return [(where, tool) for where, tool in tools if tool.get("type") in (None, "custom")]


@_rule(f"{_SDK}/tool_union_param.py", "sdk")
def tool_shape(request: Request) -> Iterator[Problem]:
    """`tools` is a list of objects: our own (no type, or custom) or Anthropic's of a dated type."""
    tools: Any = request.body.get("tools")
    if not isinstance(tools, list | None):
        yield _wrong("tools", "Input should be a valid list")
    for where, tool in numbered("tools", tools):
        if not isinstance(tool, dict):
            yield _wrong(where, "Input should be a valid dictionary")
            return
        kind = object_of(tool).get("type")
        if kind not in (None, "custom") and not _SERVER_TOOL.fullmatch(str(kind)):
            words = f"Input tag '{kind}' found using 'type' does not match any of the expected tags"
            yield Problem(_wrong(where, words).message, f"{where}.type")


@_rule(f"{_SDK}/tool_param.py; {_ANSWER}", "sdk")
def tool_fields(request: Request) -> Iterator[Problem]:
    """A tool of our own has a name and an `input_schema`, and no unknown fields."""
    for where, tool in _own_tools(request):
        for name, expected in (("name", str), ("input_schema", dict)):
            if not isinstance(tool.get(name), expected):
                yield _wrong(where, _REQUIRED, kind="custom", at=f".{name}")
        for name in sorted(tool.keys() - _TOOL_FIELDS):
            yield _wrong(where, _EXTRA, kind="custom", at=f".{name}")


@_rule(_ANSWER, "observed")
def tool_name(request: Request) -> Iterator[Problem]:
    """A tool's name matches `^[a-zA-Z0-9_-]{1,128}$`."""
    for where, tool in _own_tools(request):
        if not _NAME.fullmatch(tool["name"]):
            yield _wrong(where, _NAME_WORDS, kind="custom", at=".name")


@_rule(f"{_ANSWER}: tool names must be unique", "observed")
def duplicate_tool_name(request: Request) -> Iterator[Problem]:
    """No two tools have the same name."""
    tools = numbered("tools", request.body.get("tools"))
    named = [(f"{where}.name", tool["name"]) for where, tool in tools if tool.get("name")]
    for where, _ in repeated(named):
        yield Problem("tools: Tool names must be unique.", where)


@_rule(_ANSWER, "observed")
def input_schema(request: Request) -> Iterator[Problem]:
    """`input_schema` is a JSON schema (draft 2020-12) of `type: object`, not a union."""
    for where, tool in _own_tools(request):
        trouble = _schema_trouble(tool["input_schema"])
        if trouble is not None:
            at, words = trouble
            yield _wrong(where, words, kind="custom", at=f".input_schema{at}")


def _schema_trouble(schema: dict[str, Any]) -> tuple[str, str] | None:
    if "type" not in schema:
        return ".type", _REQUIRED
    if schema["type"] != "object":
        return ".type", "Input should be 'object'"
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        return "", "input_schema does not support oneOf, allOf, or anyOf at the top level"
    if not isinstance(schema.get("properties"), dict | None):
        return ".properties", "Input should be a valid dictionary"
    properties = object_of(schema.get("properties"))
    if not all(_KEY.fullmatch(name) for name in properties):
        return ".properties", "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
    required: Any = schema.get("required")
    if (required is None or is_name_list(required)) and all(map(_is_schema, properties.values())):
        return None
    return "", "JSON schema is invalid. It must match JSON Schema draft 2020-12"


_OUTPUT_KEYWORDS = names("""$defs $ref $schema additionalProperties allOf anyOf const default
    definitions description enum format items minItems pattern properties required title type""")
_OUTPUT_FORMATS = names("date-time time date duration email hostname uri ipv4 ipv6 uuid")


def _answer_format(request: Request) -> dict[str, Any]:
    return object_of(object_of(request.body.get("output_config")).get("format"))


@_rule(
    "platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations; "
    "the words are ours"
)
def output_format(request: Request) -> Iterator[Problem]:
    """`output_config.format` is a JSON schema of the subset of structured outputs.

    No recursion, limits of numbers and lengths, or open objects. Not with a prefill.
    """
    former = request.body.get("output_format")
    if isinstance(former, dict) and "schema" not in former:  # recorded with claude-sonnet-4-5
        yield Problem("output_format.schema: Field required", "output_format.schema")
    wanted = _answer_format(request)
    if not wanted:
        return
    where, schema = "output_config.format", wanted.get("schema")
    if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
        yield Problem(f"{where}: type 'json_schema' with a schema is required", where)
        return
    for words in _OutputSchema(object_of(schema)).problems():
        yield Problem(f"{where}.schema: {words}", where)
        return
    messages: Any = request.body.get("messages")
    if isinstance(messages, list) and messages and object_of(messages[-1])["role"] == "assistant":
        yield Problem(f"{where}: not supported with a prefilled answer", where)


class _OutputSchema:
    """The walk through a schema of structured outputs."""

    optional = unions = 0

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def problems(self) -> Iterator[str]:
        self.optional = self.unions = 0
        yield from self._of(self._root, ())

    def _of(self, given: Any, inside: tuple[str, ...]) -> Iterator[str]:
        if not isinstance(given, dict):
            yield "each part must be an object"
            return
        schema = object_of(given)
        unknown = sorted(schema.keys() - _OUTPUT_KEYWORDS)
        if unknown:
            yield f"'{unknown[0]}' is not supported"
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield from self._target(ref, inside)
        yield from self._limits(schema)
        for inner in object_of(schema.get("properties")).values():
            yield from self._of(inner, inside)
        parts = [*items_of(schema.get("anyOf")), *items_of(schema.get("allOf"))]
        for inner in [*parts, *([schema["items"]] if "items" in schema else [])]:
            yield from self._of(inner, inside)

    def _target(self, ref: str, inside: tuple[str, ...]) -> Iterator[str]:
        if ref in inside:
            yield "Recursive schemas are not supported"
            return
        if not ref.startswith("#"):
            yield "References outside of the schema are not supported"
            return
        yield from self._of(referred(self._root, ref), (*inside, ref))

    def _limits(self, schema: dict[str, Any]) -> Iterator[str]:
        kinds = types_of(schema)
        if "object" in kinds:
            if schema.get("additionalProperties") is not False:
                yield "For 'object' type, 'additionalProperties' must be false"
            required = items_of(schema.get("required"))
            self.optional += len(
                [n for n in object_of(schema.get("properties")) if n not in required]
            )
        self.unions += "anyOf" in schema or len(list(kinds)) > 1
        if schema.get("minItems", 0) not in (0, 1):
            yield "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if "format" in schema and str(schema["format"]) not in _OUTPUT_FORMATS:
            yield f"format '{schema['format']}' is not supported"
        if any("$ref" in object_of(part) for part in items_of(schema.get("allOf"))):
            yield "'allOf' with '$ref' is not supported"
        if "enum" in schema:
            yield from _enum_trouble(items_of(schema["enum"]), schema.get("type"))


_TYPES_OF = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _enum_trouble(values: Sequence[Any], declared: Any) -> Iterator[str]:
    """Yield the problems; words seen in home-assistant/core#173771 and BerriAI/litellm#37881."""
    if not values:
        yield "Invalid schema: Enum must be a non-empty array"
    for value in values:
        kind = _TYPES_OF.get(cast("type[Any]", type(value)))
        if kind is None:
            yield "enum values must be strings, numbers, booleans or null"
        elif declared is not None and declared != kind and (kind, declared) != _WHOLE:
            words = f"Enum value '{value}' does not match declared type '{declared}'"
            yield f"Invalid schema: {words}"


_WHOLE = ("integer", "number")


def _is_schema(value: Any) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, bool)
    schema = object_of(value)
    for kind in types_of(schema):
        if kind is not None and (not isinstance(kind, str) or kind not in _SCHEMA_TYPES):
            return False
    return schema.get("items") is None or _is_schema(schema["items"])


_MOST_STRICT, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16


@_rule(
    f"{_DOCS}/structured-outputs, schema complexity limits (read on 24 November 2026); the words: "
    "datarobot-oss/datarobot-genai#547, elie222/inbox-zero#2323, vercel/ai#17268"
)
def strict_limits(request: Request) -> Iterator[Problem]:
    """At most 20 strict tools; in them and the answer 24 optional and 16 union parameters."""
    strict = [tool["input_schema"] for _, tool in _own_tools(request) if tool.get("strict")]
    if len(strict) > _MOST_STRICT:
        words = f"The maximum number of strict tools supported is {_MOST_STRICT}."
        yield Problem(f"Too many strict tools ({len(strict)}). {words}", "tools")
    answer = _answer_format(request).get("schema")
    walks = [_OutputSchema(object_of(schema)) for schema in (*strict, answer)]
    for walk in walks:
        deque(walk.problems(), maxlen=0)
    optional, unions = sum(w.optional for w in walks), sum(w.unions for w in walks)
    if optional > _MOST_OPTIONAL:
        yield Problem(
            f"Schemas contains too many optional parameters ({optional}), which would make grammar "
            "compilation inefficient. Reduce the number of optional parameters in your tool "
            f"schemas (limit: {_MOST_OPTIONAL})."
        )
    if unions > _MOST_UNIONS:
        yield Problem(
            f"Schemas contains too many parameters with union types ({unions} parameters with type "
            "arrays or anyOf). This causes exponential compilation cost. Reduce the number of "
            f"nullable or union-typed parameters (limit: {_MOST_UNIONS} parameters with unions)."
        )


@_rule(f"{_DOCS.removesuffix('/build-with-claude')}/agents-and-tools/tool-use/strict-tool-use")
def strict_schema(request: Request) -> Iterator[Problem]:
    """A strict tool has a schema of the subset of structured outputs."""
    for where, tool in _own_tools(request):
        for words in _OutputSchema(tool["input_schema"]).problems() if tool.get("strict") else ():
            yield Problem(f"{where}.custom.input_schema: {words}", where)
            return


_MOST_TOOLS = 10_000


@_rule("platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool (errors, limits)")
def deferred_tools(request: Request) -> Iterator[Problem]:
    """Not all tools are loaded later; there are 10,000 at most; references name a tool."""
    tools = [object_of(tool) for tool in items_of(request.body.get("tools"))]
    if tools and all(tool.get("defer_loading") is True for tool in tools):
        words = "All tools have defer_loading set. At least one tool must be non-deferred."
        yield Problem(words, "tools")
    if len(tools) > _MOST_TOOLS:
        yield Problem(
            f"tools: at most {_MOST_TOOLS} tools are allowed, found {len(tools)}", "tools"
        )
    names = _tool_names(request)
    for block in blocks_of(request, "tool_result"):
        for where, item in numbered(f"{block.where}.content", block.given.get("content")):
            name = object_of(item).get("tool_name")
            if _refers_elsewhere(object_of(item), name, names):
                words = f"Tool reference '{name}' has no corresponding tool definition"
                yield Problem(words, where)


@_rule(_ANSWER, "observed")
def tool_choice_without_tools(request: Request) -> Iterator[Problem]:
    """`tool_choice` goes with `tools` only."""
    if request.body.get("tool_choice") is not None and not request.body.get("tools"):
        yield Problem("tool_choice may only be specified while providing tools.", "tool_choice")


@_rule(f"{_SDK}/tool_choice_param.py; {_ANSWER}", "sdk")
def tool_choice_shape(request: Request) -> Iterator[Problem]:
    """`tool_choice` is `{type: auto | any | none}` or names a tool that is there."""
    if request.body.get("tool_choice") is None:
        return
    given = object_of(request.body["tool_choice"])
    kind, name = given.get("type"), given.get("name")
    if kind not in ("auto", "any", "tool", "none"):
        words = f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the"
        yield Problem(f"{words} expected tags: 'any', 'auto', 'none', 'tool'", "tool_choice.type")
    elif kind == "tool" and all(tool.get("name") != name for tool in request.body["tools"]):
        yield Problem(f"Tool '{name}' not found in provided tools", "tool_choice.name")


def _forces_tool(request: Request) -> bool:
    return object_of(request.body.get("tool_choice")).get("type") in ("any", "tool")


@_rule("platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools (10 October 2026)")
def forced_tool_of_model(request: Request) -> Iterator[Problem]:
    """Claude since Fable 5.1, Opus 5.5 and Sonnet 5.5 cannot be made to call a tool."""
    if _forces_tool(request) and not capabilities_of(request.model).forced_choice:
        words = 'tool_choice: type "tool" and "any" are not supported for this model.'
        yield Problem(words, "tool_choice")


@_rule(f"{_THINKING_PAGE}, tool choice limitation; {_ANSWER}")
def forced_tool_with_thinking(request: Request) -> Iterator[Problem]:
    """With `thinking: enabled` no tool can be forced."""
    if _forces_tool(request) and _thinking_type(request) == "enabled":
        words = "Thinking may not be enabled when tool_choice forces tool use."
        yield Problem(words, "tool_choice")


# ------------------------------------------------------------------------------------------ cache

_CACHING_PAGE = f"{_DOCS}/prompt-caching (November 2026)"
_MOST_MARKS = 4
_LIFETIMES = ("5m", "1h")


@view
def cache_marks(request: Request) -> list[tuple[str, dict[str, Any], Any]]:
    """Return the cache marks with their places and marked blocks, in the API's order."""
    found: list[tuple[str, Any]] = [*numbered("tools", request.body.get("tools"))]
    found += numbered("system", request.body.get("system"))
    for block in _blocks(request):
        inner = block.given.get("content") if block.kind == "tool_result" else None
        found += [*numbered(f"{block.where}.content", inner), (block.where, block.given)]
    found.append(("", request.body))  # the end of the request
    given = [(where, object_of(value)) for where, value in found]
    return [
        (f"{where}.cache_control".lstrip("."), value, value["cache_control"])
        for where, value in given
        if value.get("cache_control") is not None
    ]


@_rule(_CACHING_PAGE)
def cache_mark_shape(request: Request) -> Iterator[Problem]:
    """A cache mark is ephemeral, for `5m` or `1h`."""
    for where, _, mark in cache_marks(request):
        given = object_of(mark)
        if given.get("type") != "ephemeral":
            yield _wrong(where, "Input tag does not match any of the expected tags: 'ephemeral'")
        if given.get("ttl", "5m") not in _LIFETIMES:
            yield _wrong(where, "Input should be '5m' or '1h'", at=".ttl")
        for name in sorted(given.keys() - {"type", "ttl"}):
            yield _wrong(where, _EXTRA, at=f".{name}")


@_rule("github.com/Wei-Shaw/sub2api/issues/176", "observed")
def too_many_cache_marks(request: Request) -> Iterator[Problem]:
    """At most four places are marked; automatic caching counts."""
    marks = cache_marks(request)
    if len(marks) > _MOST_MARKS:
        words = f"A maximum of {_MOST_MARKS} blocks with cache_control may be provided."
        yield Problem(f"{words} Found {len(marks)}.", marks[_MOST_MARKS][0])


@_rule("github.com/headroomlabs-ai/headroom/issues/2939", "observed")
def cache_mark_order(request: Request) -> Iterator[Problem]:
    """Marks for an hour come before those for five minutes: tools, system, messages."""
    short = False
    for where, _, mark in cache_marks(request):
        if mark.get("ttl") != "1h":
            short = True
        elif short:
            words = (
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
                "block. Note that blocks are processed in the following order: `tools`, `system`, "
                "`messages`."
            )
            yield _wrong(where, words, at=".ttl")


@_rule(f"{_CACHING_PAGE}; {_DOCS}/tool-search-tool")
def cache_mark_place(request: Request) -> Iterator[Problem]:
    """Neither empty texts nor tools that are loaded later take a mark; thinking has no field."""
    for where, value, _ in cache_marks(request):
        if value.get("type") == "text" and not str(value.get("text", "")).strip():
            yield _wrong(where, "cache_control cannot be set for empty text blocks")
        if value.get("defer_loading"):
            yield _wrong(where, "cache_control cannot be set for tools with `defer_loading`")


# ------------------------------------------------------------------------------------------ media


@_rule(
    "anthropic-python types/base64_image_source_param.py (jpeg, png, gif, webp), "
    "types/base64_pdf_source_param.py, types/url_*_source_param.py",
    "sdk",
)
def media_source(request: Request) -> Iterator[Problem]:
    """An image or document has a source: a URL, or base64 of an allowed media type.

    Documents may be text, content or files of the Files API, too.
    """
    for block in blocks_of(request, "image", "document"):
        trouble = _source_trouble(block.given["source"], block.kind)
        if trouble is not None:
            path = _path(block.where, block.kind)
            yield Problem(f"{path}.source{trouble}", f"{block.where}.source")


_SMALL_WINDOW, _MOST_MEDIA, _MOST_MEDIA_SMALL = 200_000, 600, 100
_MEGABYTES, _MEGABYTES_ON_CLOUDS = 10, 5


@_rule(f"{_DOCS}/vision (limits); github.com/anthropics/claude-code/issues/23392", "observed")
def too_much_media(request: Request) -> Iterator[Problem]:
    """At most 600 images and documents, 100 with a window of 200,000 tokens.

    An image as base64 takes 10 MB at most, 5 on clouds.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for block in _blocks(request):
        inner = block.given.get("content") if block.kind == "tool_result" else None
        found += [(block.where, block.given), *numbered(f"{block.where}.content", inner)]
    media = [(at, object_of(one)) for at, one in found]
    media = [(at, one) for at, one in media if one.get("type") in ("image", "document")]
    small = (window_of(request.model) or _SMALL_WINDOW) <= _SMALL_WINDOW
    most = _MOST_MEDIA_SMALL if small else _MOST_MEDIA
    if len(media) > most:
        images = sum(one["type"] == "image" for _, one in media)
        words = f"too many images and documents: {images} + {len(media) - images} > {most}"
        yield Problem(words, media[most][0])
    megabytes = _MEGABYTES_ON_CLOUDS if request.cloud else _MEGABYTES
    for where, one in media:
        data = object_of(one.get("source")).get("data")
        if one["type"] == "image" and isinstance(data, str) and len(data) > megabytes * 2**20:
            words = (
                f"image exceeds {megabytes} MB maximum: {len(data)} bytes > "
                f"{megabytes * 2**20} bytes"
            )
            yield _wrong(where, words, kind="image", at=".source.base64")


def _source_trouble(source: dict[str, Any], kind: str) -> str | None:
    allowed = IMAGES if kind == "image" else ("application/pdf",)
    match source:
        case {"type": "url", "url": str(url)}:
            return None if URL.fullmatch(url) else ".url.url: Only HTTP and HTTPS URLs are valid"
        case {"type": "base64", "media_type": media_type, "data": str(data)}:
            if media_type not in allowed:
                expected = " or ".join(f"'{name}'" for name in allowed)
                return f".base64.media_type: Input should be {expected}"
            return None if BASE64.fullmatch(data) else ".base64.data: Invalid base64 data"
        case {"type": "file", "file_id": str()}:
            return None
        case {"type": "text" | "content"} if kind == "document":
            return None
        case _:
            return ": Input tag does not match any of the expected tags: 'base64', 'url', 'file'"


# ---------------------------------------------------------------------------------------- replies

_FINISH = {
    "stop": "end_turn",
    "tool": "tool_use",
    "length": "max_tokens",
    "filter": "refusal",
    "refusal": "refusal",
}


def _called(name: str, value: Any, tools: Any) -> dict[str, Any]:
    """Return a call's name and input; a toolset's call names its member, the script's action."""
    kinds = [str(object_of(tool).get("type")) for tool in items_of(tools)]
    given = object_of(value)
    if not any(kind.startswith(f"{name}_toolset_") for kind in kinds) or "action" not in given:
        return {"name": name, "input": value}
    rest = {key: item for key, item in given.items() if key != "action"}
    return {"name": given["action"], "toolset_name": name, "input": rest}


@_rule(f"{_SDK}/tool_result_block_param.py (toolset_name)", "sdk")
def toolset_of_result(request: Request) -> Iterator[Problem]:
    """The result of a toolset's call names the toolset, as the call does."""
    toolsets: dict[str, Any] = {}
    for block in blocks_of(request, "tool_use", "tool_result"):
        said = block.given
        if block.kind == "tool_use":
            toolsets[str(said.get("id"))] = said.get("toolset_name")
        elif said.get("toolset_name") != (wanted := toolsets.get(str(said.get("tool_use_id")))):
            words = f"{block.where}.toolset_name: expected {wanted!r}, as in the `tool_use` block"
            yield Problem(words, block.where)


def rendered(
    reply: ReplyContent, usage: TokenCounts, model: str, ids: Ids, tools: Any = None
) -> dict[str, Any]:
    """Return the JSON with which Anthropic would give that reply."""
    content: list[dict[str, Any]] = []
    thoughts = [
        {"type": "thinking", "thinking": thought, "signature": ids.next("sig")}
        for thought in reply.thoughts
    ]
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        # Anthropic sends objects; other text is sent unchanged, as malformed input.
        value: Any = call.arguments if call.parsed is None else call.parsed
        call_id = call.id or ids.next("toolu_")
        content.append({"type": "tool_use", "id": call_id, **_called(call.name, value, tools)})
    return {
        "id": ids.next("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": interleaved(thoughts, content),
        "stop_reason": _FINISH[reply.finish],
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.prompt,
            "cache_creation_input_tokens": usage.written,
            "cache_read_input_tokens": usage.cached,
            "output_tokens": usage.completion,
        },
    }


def streamed(plain: Mapping[str, Any]) -> Iterator[SseEvent]:
    """Yield a message's events, named by their types."""
    for data in _events(plain):
        yield data["type"], data


def _events(plain: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    usage = plain["usage"]
    ending = ("stop_reason", "stop_sequence")
    begun: dict[str, Any] = {**plain, "content": [], **dict.fromkeys(ending)}
    begun["usage"] = {**usage, "output_tokens": min(1, usage["output_tokens"])}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(plain["content"]):
        start, deltas = _block_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {name: plain[name] for name in ending}
    tokens = {"output_tokens": usage["output_tokens"]}
    yield {"type": "message_delta", "delta": end, "usage": tokens}
    yield {"type": "message_stop"}


def _block_deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the initial block and its deltas."""
    if block["type"] == "text":
        found = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        return {**block, "text": ""}, found
    if block["type"] == "compaction":
        return {**block, "content": ""}, [{"type": "compaction_delta", "content": block["content"]}]
    if block["type"] == "thinking":
        thought = pieces(block["thinking"])
        found = [{"type": "thinking_delta", "thinking": piece} for piece in thought]
        found.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, found
    given = block["input"]
    written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    found = [
        {"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(written))
    ]
    return {**block, "input": {}}, found
