"""Shortens the history after a provider reports that a request exceeds the model's window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, ToolResultMessage
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.tokenizers import count_messages, count_text
from agentkit_py.processors.tool_results import head_and_tail
from agentkit_py.processors.windowing import TokenLimiter

NAME = "ContextOverflow"


async def halved(
    history: Sequence[Message], sent: int, prompt: int, context: ProcessorContext
) -> tuple[Sequence[Message], str]:
    """A history with which the request has about half of the tokens that were too many.

    The newest messages stay, calls with their results; the agent's own current calls stay too, with
    shorter results if nothing else helps.

    Args:
        history: The history that was sent.
        sent: Tokens that were sent.
        prompt: Those of them that no history can save.
        context: What says which messages are protected, and how tokens are counted.

    Returns:
        The history, and what was done, for the report.
    """
    tokenizer = context.tokenizer
    assert tokenizer is not None
    limit = max(1, sent // 2 - prompt)
    held = [message for message in history if id(message) in context.held]
    reason = f"the provider refused {sent} tokens as too many; limit of {limit} for the history"
    if count_messages(held, tokenizer) > limit:
        history, context = _with_short_results(history, context, limit, tokenizer)
        reason += ", results of the current calls shortened"
    return await TokenLimiter(limit, tokenizer=tokenizer).process(history, context), reason


def _with_short_results(
    history: Sequence[Message], context: ProcessorContext, limit: int, tokenizer: Tokenizer
) -> tuple[Sequence[Message], ProcessorContext]:
    """The history with shorter results among what is protected, and these protected instead."""
    results = [m for m in history if id(m) in context.held and isinstance(m, ToolResultMessage)]
    each = max(1, limit // max(1, 2 * len(results)))
    short = {id(m): _short(m, each, tokenizer) for m in results if count_text(m, tokenizer) > each}
    protected = {id(short[one]) if one in short else one for one in context.protected}
    return (
        [short.get(id(message), message) for message in history],
        replace(context, protected=frozenset(protected)),
    )


def _short(message: ToolResultMessage, tokens: int, tokenizer: Tokenizer) -> ToolResultMessage:
    text = dumps(message.content)
    most = int(len(text) * tokens / count_text(message, tokenizer))
    content = head_and_tail(text, most)
    return replace(message, content={"error" if message.is_error else "data": content})
