"""Compaction: when a provider sums up a conversation, and how it takes the summary back.

A summary is a token like that of a signature, so that a `FakeProvider` recognises the summary of
another instance. Claude's states in plain text how many words it replaces.

Source: platform.claude.com/docs/en/build-with-claude, pages compaction, compaction-threshold and
compaction-thinking-blocks; anthropic-sdk (beta_compaction_block_param, beta_compact_20260112_edit);
developers.openai.com, guide compaction (read in November 2026). Nowhere could be read: which of
OpenAI's models do it, how either API answers to a summary that another account, host or model made,
and whether tools that system messages added or removed stay so behind a summary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentkit_py.models.capabilities import capabilities_of

from .anthropic import blocks_of
from .replies import Ids
from .rules import Problem, Request, is_int, items_of, not_known, numbered, object_of, rules_of
from .signing import account_of, read_token, summary_token, words_since_summary

BETAS = ("compact-2026-01-12", "compact-2026-09-04")
EDIT = "compact_20260112"
LEAST = {"anthropic": 50_000, "openai_responses": 1000}
USUALLY = 150_000
_MOST_ENCRYPTED = 10_485_760

_claude_rule = rules_of("anthropic")
_items_rule = rules_of("openai_responses")
_PAGE = "platform.claude.com/docs/en/build-with-claude/compaction-threshold"
_GUIDE = "developers.openai.com guide compaction"


def _claude_edits(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    wanted = object_of(request.body.get("context_management"))
    for where, edit in numbered("context_management.edits", wanted.get("edits")):
        if object_of(edit).get("type") == EDIT:
            yield where, object_of(edit)


@_claude_rule(f"{_PAGE}; github.com/anthropics/claude-code/issues (context_management)")
def compaction_without_beta(request: Request) -> Iterator[Problem]:
    """A request for a summary, and a summary, come with the beta header."""
    if any(map(request.has_beta, BETAS)):
        return
    for where, _ in _claude_edits(request):
        yield Problem("context_management: Extra inputs are not permitted", where)
    for block in blocks_of(request, "compaction"):
        words = "Input tag 'compaction' does not match any of the expected tags"
        yield Problem(f"{block.where}: {words}", block.where)


@_claude_rule(f"{_PAGE} (trigger: at least 50,000 tokens)")
def compaction_trigger(request: Request) -> Iterator[Problem]:
    """A summary is wished for from 50,000 input tokens on, or more."""
    for where, edit in _claude_edits(request):
        trigger = object_of(edit.get("trigger"))
        value = trigger.get("value")
        if not trigger:
            continue
        if trigger.get("type") != "input_tokens" or not (isinstance(value, int) and is_int(value)):
            yield Problem(f"{where}.trigger: Input should be a valid trigger", where)
        elif value < LEAST["anthropic"]:
            yield Problem(f"{where}.trigger.value: must be at least 50000", where)


@_claude_rule(f"{_PAGE} (supported models)", "inferred")
def compaction_unsupported(request: Request) -> Iterator[Problem]:
    """Claude sums up conversations from Opus 4.6 and Sonnet 4.6 on."""
    if not capabilities_of(request.model).compaction:
        for where, _ in _claude_edits(request):
            yield Problem(f"{EDIT} is not supported on this model", where)


@_claude_rule("anthropic-sdk beta_compaction_block_param (content, encrypted_content)", "sdk")
def compaction_content(request: Request) -> Iterator[Problem]:
    """A summary's text is not empty."""
    for block in blocks_of(request, "compaction"):
        if block.given.get("content") == "":
            yield Problem(f"{block.where}.compaction.content: must not be empty", block.where)


@_claude_rule("no source documents the API's behaviour", "inferred")
def compaction_of_others(request: Request) -> Iterator[Problem]:
    """A summary goes back to the host, the account and the model that made it."""
    for block in blocks_of(request, "compaction"):
        yield from _of_others(request, block.given, block.where)


def _of_others(request: Request, given: dict[str, Any], where: str) -> Iterator[Problem]:
    token = read_token(given.get("encrypted_content"))
    here = (request.provider, request.host, account_of(request), request.model)
    if token is None:
        wrong = request.signing.fail_on_unknown
    else:
        wrong = (token.format, token.host, token.account, token.model) != here
    if wrong:
        yield not_known("how a summary is taken that another account, host or model made", where)


# ------------------------------------------------------------------------------------- Responses


@_items_rule(
    f"{_GUIDE}; openai-openapi f85dbe2 (August 2026), ContextManagementParam: at least 1000; "
    "the words are those for other numbers",
)
def compaction_wish(request: Request) -> Iterator[Problem]:
    """`context_management` is a list of `{"type": "compaction", "compact_threshold": …}`."""
    given: Any = request.body.get("context_management")
    if given is not None and not isinstance(given, list):
        yield Problem("Invalid type for 'context_management': expected an array.")
    for where, wish in numbered("context_management", given):
        limit = object_of(wish).get("compact_threshold")
        if object_of(wish).get("type") != "compaction":
            yield Problem(f"Invalid value: '{object_of(wish).get('type')}'.", where)
        elif limit is not None and not is_int(limit):
            yield Problem(f"Invalid type for '{where}.compact_threshold'.", where)
        elif limit is not None and limit < (least := LEAST["openai_responses"]):
            words = f"Expected a value >= {least}, but got {limit} instead."
            at = f"{where}.compact_threshold"
            yield Problem(f"Invalid '{at}': integer below minimum value. {words}", where)


@_items_rule("openai-sdk response_compaction_item_param", "sdk")
def compaction_item(request: Request) -> Iterator[Problem]:
    """A summary has its encrypted content, of 10 MB at the most."""
    for where, item in _summaries(request):
        content = item.get("encrypted_content")
        if not isinstance(content, str) or not content:
            words = f"Missing required parameter: '{where}.encrypted_content'."
            yield Problem(words, f"{where}.encrypted_content", "missing_required_parameter")
        elif len(content) > _MOST_ENCRYPTED:
            words = f"Invalid '{where}.encrypted_content': string too long."
            yield Problem(words, f"{where}.encrypted_content", "string_above_max_length")


@_items_rule("no source documents the API's behaviour", "inferred")
def compaction_item_of_others(request: Request) -> Iterator[Problem]:
    """A summary goes back to the host, the account and the model that made it."""
    for where, item in _summaries(request):
        yield from _of_others(request, item, where)


def _summaries(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, item in numbered("input", request.body.get("input")):
        if object_of(item).get("type") == "compaction":
            yield where, object_of(item)


# ------------------------------------------------------------------------------------- replies


def added(request: Request, plain: dict[str, Any], ids: Ids) -> dict[str, Any]:
    """Return a reply with the summary that the request wished for, if it is long enough.

    A word is a token.
    """
    limit, words = _limit(request), words_since_summary(request)
    if limit is None or words < limit:
        return plain
    token = summary_token(request)
    if request.provider == "anthropic":
        said = f"{words} words were said."
        block = {"type": "compaction", "content": said, "encrypted_content": token}
        usage = plain["usage"]
        steps = [
            {"type": "compaction", "input_tokens": words, "output_tokens": len(said.split())},
            {"type": "message", **usage},
        ]
        content = [block, *plain["content"]]
        return {**plain, "content": content, "usage": {**usage, "iterations": steps}}
    item = {"type": "compaction", "id": ids.next("cmp_"), "encrypted_content": token}
    return {**plain, "output": [item, *plain["output"]]}


def _limit(request: Request) -> int | None:
    """Return the number of tokens at which the request asks for a summary; None: never."""
    if request.provider == "anthropic":
        for _, edit in _claude_edits(request):
            given = object_of(edit.get("trigger")).get("value")
            return given if is_int(given) else USUALLY
    elif request.provider == "openai_responses":
        for wish in items_of(request.body.get("context_management")):
            given = object_of(wish).get("compact_threshold")
            return given if is_int(given) else USUALLY
    return None
