"""Rules for the order of an Anthropic conversation: calls, results, thinking, prefill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .anthropic_body import thinking_type, version
from .anthropic_messages import blocks, messages
from .rules import Inbound, Problem, rule

_THINKING = ("thinking", "redacted_thinking")
_NO_PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user "
    "message."
)


@dataclass(slots=True)
class Turn:
    """Neighbouring messages of one role, which the API combines into a single turn.

    Source: platform.claude.com/docs/en/api/messages/create ("Consecutive `user` or `assistant`
    turns in your request will be combined into a single turn").
    """

    role: str
    index: int
    items: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )

    def of(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the blocks of one type, with their pointers."""
        return [(where, block) for where, block in self.items if block["type"] == kind]


def turns(request: Inbound) -> list[Turn]:
    """Return the conversation as turns; system messages stand between, and are left out."""
    found: list[Turn] | None = request.memo.get("anthropic_turns")
    if found is None:
        found = []
        given = messages(request)
        for index, number, block in blocks(request):
            role = given[index]["role"]
            if role == "system":
                continue
            if not found or found[-1].role != role:
                found.append(Turn(role, index))
            where = f"messages[{index}].content" + (f"[{number}]" if number >= 0 else "")
            found[-1].items.append((where, block))
        request.memo["anthropic_turns"] = found
    return found


@rule("anthropic")
def duplicate_tool_use_id(request: Inbound) -> Problem | None:
    """No two tool calls of the whole request have the same id.

    Source: the API's answer "messages: `tool_use` ids must be unique".
    """
    seen: set[str] = set()
    for index, number, block in blocks(request):
        if block["type"] != "tool_use":
            continue
        if block["id"] in seen:
            where = f"messages[{index}].content[{number}].id"
            return Problem("messages: `tool_use` ids must be unique", where)
        seen.add(block["id"])
    return None


@rule("anthropic")
def unknown_tool_use_id(request: Inbound) -> Problem | None:
    """A result answers a call of the turn right before it.

    Source: the API's answer "unexpected `tool_use_id` found in `tool_result` blocks … Each
    `tool_result` block must have a corresponding `tool_use` block in the previous message", e.g.
    github.com/anthropics/claude-code/issues/13460.
    """
    before: Turn | None = None
    for turn in turns(request):
        results = turn.of("tool_result")
        if results:
            known = {block["id"] for _, block in before.of("tool_use")} if before else set[str]()
            for where, block in results:
                call_id = block["tool_use_id"]
                if call_id not in known:
                    words = (
                        f"messages.{turn.index}.content.0: unexpected `tool_use_id` found in "
                        f"`tool_result` blocks: {call_id}. Each `tool_result` block must have a "
                        "corresponding `tool_use` block in the previous message."
                    )
                    return Problem(words, f"{where}.tool_use_id")
        before = turn
    return None


@rule("anthropic")
def duplicate_tool_result(request: Inbound) -> Problem | None:
    """Each call has one result.

    Source: the API's answer "each tool_use must have a single result. Found multiple `tool_result`
    blocks with id: …".
    """
    for turn in turns(request):
        seen: set[str] = set()
        for where, block in turn.of("tool_result"):
            call_id = block["tool_use_id"]
            if call_id in seen:
                words = (
                    f"messages.{turn.index}.content: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {call_id}"
                )
                return Problem(words, f"{where}.tool_use_id")
            seen.add(call_id)
    return None


@rule("anthropic")
def unanswered_tool_use(request: Inbound) -> Problem | None:
    """Every call is answered in the turn right after it.

    Source: the API's answer "`tool_use` ids were found without `tool_result` blocks immediately
    after: …. Each `tool_use` block must have a corresponding `tool_result` block in the next
    message", e.g. github.com/anthropics/claude-code/issues/7929.
    """
    given = turns(request)
    for position, turn in enumerate(given):
        calls = turn.of("tool_use")
        if not calls:
            continue
        after = given[position + 1].of("tool_result") if position + 1 < len(given) else []
        answered = {block["tool_use_id"] for _, block in after}
        missing = [(where, block["id"]) for where, block in calls if block["id"] not in answered]
        if missing:
            ids = ", ".join(call_id for _, call_id in missing)
            return Problem(_unanswered(turn.index, ids), f"{missing[0][0]}.id")
    return None


def _unanswered(index: int, ids: str) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the "
        "next message."
    )


@rule("anthropic")
def tool_result_after_text(request: Inbound) -> Problem | None:
    """Results come first in the user's turn, before any text or image.

    Source: platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls ("the
    tool_result blocks must come FIRST in the content array. Any text must come AFTER all tool
    results", "will cause a 400 error").
    """
    for turn in turns(request):
        other = False
        for where, block in turn.items:
            if block["type"] != "tool_result":
                other = True
            elif other:
                ids = ", ".join(block["tool_use_id"] for _, block in turn.of("tool_result"))
                return Problem(_unanswered(max(turn.index - 1, 0), ids), where)
    return None


@rule("anthropic")
def ends_in_thinking(request: Inbound) -> Problem | None:
    """No assistant turn ends in a thinking block.

    Source: the API's answer "The final block in an assistant message cannot be `thinking`".
    """
    for turn in turns(request):
        where, block = turn.items[-1]
        if turn.role == "assistant" and block["type"] in _THINKING:
            words = "The final block in an assistant message cannot be `thinking`."
            return Problem(f"messages.{turn.index}: {words}", where)
    return None


@rule("anthropic")
def missing_thinking_block(request: Inbound) -> Problem | None:
    """With `thinking: enabled`, an unfinished tool loop's assistant turn starts with thinking.

    Source: platform.claude.com/docs/en/build-with-claude/extended-thinking, "Preserving thinking
    blocks"; the API says "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When
    `thinking` is enabled, a final `assistant` message must start with a thinking block".
    """
    given = turns(request)
    if thinking_type(request) != "enabled" or given[-1].role != "user" or not given[:-1]:
        return None
    last = given[-2]
    if not last.of("tool_use") or last.items[0][1]["type"] in _THINKING:
        return None
    kind = last.items[0][1]["type"]
    words = (
        f"messages.{last.index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
        f"found `{kind}`. When `thinking` is enabled, a final `assistant` message must start with "
        "a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
    )
    return Problem(words, last.items[0][0])


@rule("anthropic")
def prefill_not_supported(request: Inbound) -> Problem | None:
    """A conversation ends with the user, for models since 4.6 and whenever thinking is on.

    Sources: platform.claude.com/docs/en/api/errors#prefill-not-supported and
    about-claude/models/whats-new-claude-4-6#prefill-removal; build-with-claude/extended-thinking
    ("you cannot pre-fill responses" with thinking).
    """
    given = messages(request)
    if given[-1]["role"] != "assistant":
        return None
    where = f"messages[{len(given) - 1}]"
    modern = version(request.model) >= (4, 6) or "claude-mythos" in request.model
    if modern or thinking_type(request) in ("enabled", "adaptive"):
        return Problem(_NO_PREFILL, where)
    return None


@rule("anthropic")
def trailing_whitespace(request: Inbound) -> Problem | None:
    """A prefill does not end in white space.

    Source: platform.claude.com/docs/en/build-with-claude/prompt-engineering ("The prefill content
    cannot end with trailing whitespace"); "final assistant content cannot end with trailing
    whitespace" is the API's answer.
    """
    if messages(request)[-1]["role"] != "assistant":
        return None
    given = turns(request)
    if not given or not given[-1].items:
        return None
    where, block = given[-1].items[-1]
    text: Any = block.get("text") if block["type"] == "text" else ""
    if text == text.rstrip():
        return None
    return Problem("messages: final assistant content cannot end with trailing whitespace", where)


@rule("anthropic", optional=True)
def tool_blocks_without_tools(request: Inbound) -> Problem | None:
    """A conversation that contains tool calls or results defines tools. Off by default.

    Source: github.com/anthropics/anthropic-sdk-python/issues/494 and 849: "Requests which include
    `tool_use` or `tool_result` blocks must define tools" was the API's answer until 27 February
    2025, when Anthropic dropped the rule (an Anthropic developer in issue 849). Bedrock still has
    it ("The toolConfig field must be defined", github.com/elastic/kibana/pull/246943).
    """
    if request.body.get("tools"):
        return None
    for index, number, block in blocks(request):
        if block["type"] in ("tool_use", "tool_result"):
            words = "Requests which include `tool_use` or `tool_result` blocks must define tools."
            return Problem(words, f"messages[{index}].content[{number}]")
    return None
