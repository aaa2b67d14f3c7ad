"""Reasoning that a server leaves in the text, between tags, is reasoning and no text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import Agent, MemoryHistory
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Delta, ReasoningDelta, ReasoningMessage, TextDelta, TextMessage
from agentkit_py.models import Model, compatible, openai
from agentkit_py.testing import FakeProvider, Raw

LOCAL = "http://localhost:1234/v1"


def answer(text: object, **more: Any) -> dict[str, Any]:
    """A whole reply."""
    message = {"role": "assistant", "content": text, **more}
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def streamed(model: Model, pieces: list[str]) -> tuple[object, list[Delta]]:
    """Return the whole of a stream, and its deltas."""
    assembler = model.adapter.assembler(model)
    assert assembler is not None
    deltas: list[Delta] = []
    for piece in pieces:
        chunk = {"choices": [{"index": 0, "delta": {"content": piece}}]}
        deltas += assembler.feed(None, json.dumps(chunk))
    end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    deltas += assembler.feed(None, json.dumps(end))
    return assembler.finish(), deltas


def told(deltas: list[Delta], kind: type) -> str:
    """The text of the deltas of one kind."""
    return "".join(delta.delta for delta in deltas if isinstance(delta, kind))


def parts(model: Model, body: object) -> tuple[str, str]:
    """The reasoning and the text of a reply."""
    messages = model.decode(body).messages
    thoughts = [m.content for m in messages if isinstance(m, ReasoningMessage)]
    texts = [m.text for m in messages if isinstance(m, TextMessage)]
    return "".join(thoughts), "".join(texts)


CASES = [
    ("<think>\nA liar.\n</think>\n\nHello!", "A liar.\n", "Hello!"),
    ("  \n<think>a</think>b", "a", "b"),
    ("<think></think>\nHello!", "", "Hello!"),
    ("<think>cut off", "cut off", ""),
    ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
    ("<think>a < b, </thin and </thinking</think>yes", "a < b, </thin and </thinking", "yes"),
    ("Tags: <think>x</think>", "", "Tags: <think>x</think>"),
    ("<thinking>x</thinking>", "", "<thinking>x</thinking>"),
    ("<thi", "", "<thi"),
]


@pytest.mark.parametrize(("text", "thought", "said"), CASES)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_tags_split_a_whole_and_a_streamed_text_alike(
    text: str, thought: str, said: str, size: int
) -> None:
    """A tag may be cut anywhere."""
    model = compatible("ollama", "qwen3")
    assert parts(model, answer(text)) == (thought, said)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    whole, deltas = streamed(model, pieces)
    assert parts(model, whole) == (thought, said)
    assert (told(deltas, ReasoningDelta), told(deltas, TextDelta)) == (thought, said)


TOKENS = st.lists(st.sampled_from(["<think>", "</think>", "<", "/think>", "\n", " ", "a", "é"]))


@given(tokens=TOKENS, size=st.integers(1, 5))
def test_any_text_is_streamed_as_it_is_read(tokens: list[str], size: int) -> None:
    """Pieces of any size give the reasoning and the text of the whole."""
    text = "".join(tokens)
    model = compatible("vllm", "deepseek-r1")
    expected = parts(model, answer(text)) if text.strip() else ("", "")
    whole, deltas = streamed(model, [text[i : i + size] for i in range(0, len(text), size)])
    seen = told(deltas, ReasoningDelta), told(deltas, TextDelta)
    assert tuple(map(str.strip, seen)) == tuple(map(str.strip, expected))
    if text.strip():
        assert parts(model, whole) == expected


@pytest.mark.parametrize("host", ["ollama", "vllm"])
@pytest.mark.parametrize("streams", [False, True])
async def test_reasoning_in_tags_is_neither_shown_nor_sent_back(host: str, streams: bool) -> None:
    """The thread keeps it as reasoning."""
    fake = FakeProvider([Raw(json=answer("<think>A liar.</think>\n\nHello!")), "Bye!"])
    model = replace(compatible(host, "qwen3", api_key="k"), transport=fake.transport)
    agent = Agent(name="a", system="S", model=model, history=MemoryHistory())
    if streams:
        async with agent.stream("q", thread_id="t") as events:
            async for _ in events:
                pass
        result = events.result
    else:
        result = await agent.run("q", thread_id="t")
    await agent.run("q2", thread_id="t")
    assert result.text == "Hello!"
    assert [m.content for m in result.output if isinstance(m, ReasoningMessage)] == ["A liar."]
    assert fake.requests[1].body["messages"][2] == {"role": "assistant", "content": "Hello!"}


def test_tags_can_be_others_or_none() -> None:
    """OpenAI's own models get none: their reasoning is never in the text."""
    text = "<think>a</think>b"
    assert parts(compatible("ollama", "q", think_tags=None), answer(text)) == ("", text)
    assert parts(openai("q", base_url=LOCAL), answer(text)) == ("a", "b")
    assert parts(openai("q", base_url=LOCAL, think_tags=None), answer(text)) == ("", text)
    assert parts(openai("gpt-4.1", api_key="k"), answer(text)) == ("", text)
    other = compatible("ollama", "q", think_tags=("[THINK]", "[/THINK]"))
    assert parts(other, answer("[THINK]a[/THINK]b")) == ("a", "b")


@pytest.mark.parametrize("tags", ["<think>", ("<think>",), ("", "</think>"), ("<a>", 1)])
def test_tags_that_cannot_be_found_are_refused(tags: Any) -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match="think_tags="):
        compatible("ollama", "q", think_tags=tags)


def test_an_answer_that_is_an_object_is_its_json() -> None:
    """Cloudflare's Workers AI sends it so where JSON was asked for."""
    assert parts(compatible("litellm", "q"), answer({"title": "Apples"})) == (
        "",
        '{"title":"Apples"}',
    )


def test_the_text_of_a_spoken_answer_is_its_transcript() -> None:
    """An audio without text would look like silence."""
    audio = {"id": "audio_1", "data": "AAAA", "transcript": "Hello there"}
    body = answer(None, audio=audio)
    assert parts(openai("gpt-audio", api_key="k"), body) == ("", "Hello there")
