"""Chunks of replies that were streamed: each part once, in order, completed with the whole."""

from __future__ import annotations

from typing import Any

from agentkit_py.events.chunks import Chunk
from agentkit_py.events.project import Projector
from agentkit_py.events.types import (
    Event,
    ModelReplied,
    ReplyDelta,
    RunFailed,
    RunStarted,
    ToolStarted,
)
from agentkit_py.messages import (
    Delta,
    Message,
    ReasoningDelta,
    ReasoningMessage,
    TextDelta,
    TextMessage,
    ToolCall,
    ToolCallDelta,
    ToolCallMessage,
)

FACTS: dict[str, Any] = {"run_id": "r1", "name": "support", "message_id": "m1"}


def chunks(*events: Event) -> list[Chunk]:
    """Return the chunks of these events of one agent's run."""
    projector = Projector(extended=False)
    projector.feed(RunStarted(scope="agent", **FACTS))
    return [chunk for event in events for chunk in projector.feed(event)]


def pieces(*deltas: Delta) -> list[ReplyDelta]:
    """The events of these pieces."""
    return [ReplyDelta(delta=delta, **FACTS) for delta in deltas]


def replied(*messages: Message) -> ModelReplied:
    """The event of the whole reply."""
    return ModelReplied(messages=messages, **FACTS)


def parts(found: list[Chunk]) -> list[tuple[str, str, Any]]:
    """Return the event, name and content of each chunk of a part."""
    names: dict[str, str] = {}
    result: list[tuple[str, str, Any]] = []
    for chunk in found:
        part = chunk.data["partId"]
        names.setdefault(part, f"{chunk.data.get('type')} {len(names)}")
        content = chunk.data.get("delta", chunk.data.get("finalContent", chunk.data.get("error")))
        result.append((chunk.event, names[part], content))
    return result


def test_a_streamed_text_is_one_part_that_is_completed_with_the_whole() -> None:
    """The reply's text is not streamed a second time."""
    events = [*pieces(TextDelta(0, "Hel"), TextDelta(0, "lo")), replied(assistant("Hello"))]
    assert parts(chunks(*events)) == [
        ("part.created", "text 0", None),
        ("text.delta", "text 0", "Hel"),
        ("text.delta", "text 0", "lo"),
        ("part.completed", "text 0", "Hello"),
    ]


def assistant(text: str) -> TextMessage:
    """A text of the model's."""
    return TextMessage("assistant", text)


def test_parallel_calls_of_one_tool_are_two_parts() -> None:
    """Completed with their own arguments, and not streamed again when the tools begin."""
    calls = [ToolCall("a", "search", {"q": 1}), ToolCall("b", "search", {"q": 2})]
    events: list[Event] = [
        *pieces(
            ToolCallDelta(0, "a", "search", ""),
            ToolCallDelta(0, "a", "search", '{"q":1}'),
            ToolCallDelta(1, "b", "search", '{"q":2}'),
        ),
        replied(ToolCallMessage(calls)),
        *[ToolStarted(call=call, **FACTS) for call in calls],
    ]
    assert parts(chunks(*events)) == [
        ("part.created", "tool-call 0", None),
        ("tool_call.arguments.delta", "tool-call 0", '{"q":1}'),
        ("part.created", "tool-call 1", None),
        ("tool_call.arguments.delta", "tool-call 1", '{"q":2}'),
        ("part.completed", "tool-call 0", {"q": 1}),
        ("part.completed", "tool-call 1", {"q": 2}),
    ]


def test_a_thought_that_is_kept_secret_completes_no_part() -> None:
    """Its text is empty; the reasoning after it is the one that was streamed."""
    events = [
        *pieces(ReasoningDelta(1, "Hm."), TextDelta(2, "Hi")),
        replied(ReasoningMessage(""), ReasoningMessage("Hm."), assistant("Hi")),
    ]
    completed = [p for p in parts(chunks(*events)) if p[0] == "part.completed"]
    assert completed == [
        ("part.completed", "reasoning 0", "Hm."),
        ("part.completed", "text 1", "Hi"),
    ]


def test_a_hooks_change_of_a_streamed_reply_is_streamed() -> None:
    """A message that `on_response` adds becomes a part of its own."""
    events = [*pieces(TextDelta(0, "Hi")), replied(assistant("Hi"), assistant("More."))]
    assert parts(chunks(*events))[2:] == [
        ("part.completed", "text 0", "Hi"),
        ("part.created", "text 1", None),
        ("text.delta", "text 1", "More."),
        ("part.completed", "text 1", "More."),
    ]


def test_a_part_that_a_hook_removed_from_a_streamed_reply_has_failed() -> None:
    """The front end has shown it, and must know."""
    events = [*pieces(TextDelta(0, "Secret")), replied()]
    assert parts(chunks(*events))[-1] == ("part.failed", "text 0", "removed from the reply")


def test_parts_of_a_stream_that_broke_off_have_failed() -> None:
    """They fail before the run does; no part stays open."""
    failed = RunFailed(scope="agent", error=RuntimeError("broke off"), **FACTS)
    found = chunks(*pieces(TextDelta(0, "Hel")), failed)
    assert [chunk.event for chunk in found[2:]] == ["part.failed", "run.failed", "stream.ended"]
    assert found[2].data["error"] == "broke off"


def test_the_same_piece_after_a_reply_begins_another_part() -> None:
    """Inferences of one turn share the message's id, and count their parts from 0 again."""
    first = [*pieces(TextDelta(0, "one")), replied(assistant("one"))]
    second = [*pieces(TextDelta(0, "two")), replied(assistant("two"))]
    found = chunks(*first, *second)
    assert len({chunk.data["partId"] for chunk in found}) == 2
    assert [p[2] for p in parts(found) if p[0] == "part.completed"] == ["one", "two"]
