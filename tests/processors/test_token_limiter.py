"""TokenLimiter: the newest messages that fit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import (
    ApproximateTokenizer,
    ProcessorContext,
    TokenLimiter,
    apply_processors,
)


def one(text: str) -> int:
    """Every message is one token, so that limits count messages."""
    return 1


async def limited(
    messages: Sequence[Message], limit: int, context: ProcessorContext | None = None
) -> list[int]:
    """Indices of the messages that are left."""
    left = await apply_processors(messages, [TokenLimiter(limit, tokenizer=one)], context)
    return [next(i for i, m in enumerate(messages) if m is x) for x in left]


def say(text: str) -> TextMessage:
    """A user's text."""
    return TextMessage("user", text)


def answered(name: str, *others: str) -> list[Message]:
    """One call message with its results."""
    calls = [ToolCall(f"id-{tool}", tool) for tool in (name, *others)]
    return [ToolCallMessage(calls), *(ToolResultMessage(call, {"data": 1}) for call in calls)]


async def test_the_newest_messages_that_fit_are_kept() -> None:
    """Oldest go first."""
    assert await limited([say("a"), say("b"), say("c")], 2) == [1, 2]


async def test_a_history_that_fits_is_returned_itself() -> None:
    """No copy is made of what needs no change."""
    messages = (say("a"), say("b"))
    limiter = TokenLimiter(2, tokenizer=one)
    assert await limiter.process(messages, ProcessorContext()) is messages


async def test_calls_are_kept_or_dropped_together_with_all_their_results() -> None:
    """Parallel calls have several results."""
    messages = [say("a"), *answered("x", "y"), say("b")]
    assert await limited(messages, 3) == [4]
    assert await limited(messages, 4) == [1, 2, 3, 4]


async def test_calls_of_one_reply_in_several_messages_belong_together() -> None:
    """Replies of Anthropic and Gemini are stored so, with the reasoning before the calls."""
    calls = [ToolCall("a", "x"), ToolCall("b", "x")]
    messages: list[Message] = [
        say("a"),
        ReasoningMessage("because"),
        *(ToolCallMessage([call]) for call in calls),
        *(ToolResultMessage(call, {"data": 1}) for call in calls),
    ]
    assert await limited(messages, 4) == []
    assert await limited(messages, 5) == [1, 2, 3, 4, 5]


async def test_a_message_that_does_not_fit_ends_it() -> None:
    """Smaller and older ones are not pulled over the gap."""
    messages = [say("a"), say("bbbbbbbbb"), say("c")]
    left = await apply_processors(messages, [TokenLimiter(5, tokenizer=len)])
    assert list(left) == [messages[2]]


async def test_nothing_is_left_if_the_newest_alone_is_too_long() -> None:
    """The limit is kept; the user's input is in the prompt, which no processor sees."""
    assert list(await apply_processors([say("abc")], [TokenLimiter(2, tokenizer=len)])) == []


async def test_a_call_without_result_holds_on_to_nothing_but_itself() -> None:
    """In the upstream proposal such a call removed everything after it."""
    messages: list[Message] = [
        say("a"),
        ToolCallMessage([ToolCall("lost", "x")]),
        say("b"),
        *answered("y"),
    ]
    assert await limited(messages, 3) == [2, 3, 4]
    assert await limited(messages, 4) == [1, 2, 3, 4]


async def test_a_late_result_is_not_parted_from_its_call() -> None:
    """The messages between call and result stay or go with them."""
    call = ToolCall("a", "x")
    messages = [say("a"), ToolCallMessage([call]), say("b"), ToolResultMessage(call, 1), say("c")]
    assert await limited(messages, 3) == [4]
    assert await limited(messages, 4) == [1, 2, 3, 4]


async def test_equal_ids_of_different_turns_are_different_calls() -> None:
    """Providers number calls again in each reply."""
    messages = [*answered("x"), say("a"), *answered("x"), say("b")]
    assert await limited(messages, 3) == [3, 4, 5]
    assert await limited(messages, 4) == [2, 3, 4, 5]


async def test_protected_messages_stay_and_are_counted_first() -> None:
    """They are this agent's calls of the current run; the rest shares what they leave."""
    own = answered("x")
    messages = [say("a"), *own, say("b"), say("c")]
    context = ProcessorContext(protected=frozenset(map(id, own)))
    assert await limited(messages, 3, context) == [1, 2, 4]
    assert await limited(messages, 1, context) == [1, 2]
    assert await limited(messages, 5, context) == [0, 1, 2, 3, 4]


async def test_only_messages_that_may_be_kept_are_counted() -> None:
    """A turn does not cost more because its thread is long."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 1

    messages = [say(str(n)) for n in range(1000)]
    await apply_processors(messages, [TokenLimiter(3, tokenizer=count)])
    assert counted == ["999", "998", "997", "996"]


async def test_the_runs_tokenizer_is_used_unless_another_is_given() -> None:
    """Reports and limits then count alike."""
    context = ProcessorContext(tokenizer=ApproximateTokenizer(chars_per_token=1))
    messages = [say("abcd"), say("efgh")]

    async def left(limiter: TokenLimiter) -> int:
        return len(await apply_processors(messages, [limiter], context))

    assert await left(TokenLimiter(4)) == 1
    assert await left(TokenLimiter(4, use_tiktoken=False)) == 2
    assert await left(TokenLimiter(4, encoding="cl100k_base", use_tiktoken=False)) == 2
    assert await left(TokenLimiter(4, tokenizer=lambda _: 5)) == 0


@pytest.mark.parametrize("limit", [0, -1, True, False, 1.5, "10", None])
def test_a_limit_that_is_no_positive_whole_number_is_refused(limit: object) -> None:
    """The error comes at configuration and not in a run."""
    with pytest.raises(
        ConfigurationError, match="TokenLimiter: limit must be a whole number of at least 1"
    ):
        TokenLimiter(limit)  # type: ignore[arg-type] - on purpose: it is refused


def test_a_tokenizer_and_an_encoding_together_are_refused() -> None:
    """One of them would be ignored."""
    with pytest.raises(ConfigurationError, match="not both"):
        TokenLimiter(1, encoding="gpt2", tokenizer=len)


def test_reason_names_the_limit() -> None:
    """A reader of the report learns why a message was removed."""
    assert TokenLimiter(limit=2000).reason == "limit of 2000 tokens"
    assert TokenLimiter(2000).name == "TokenLimiter"
