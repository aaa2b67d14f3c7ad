"""Processors of results and images act on what hosted tools gave, as far as its host allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from agentkit_py import HistoryProcessor, Message, TextMessage
from agentkit_py._core.awaiting import resolve
from agentkit_py.models import Model, ModelRequest, anthropic, gemini, openai_responses
from agentkit_py.processors import (
    ApproximateTokenizer,
    ClearToolResults,
    CompressToolResults,
    KeepImages,
    StripImages,
    TruncateToolResults,
)
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.results import AgentResult
from agentkit_py.testing import FakeProvider, Raw
from tests.processors.conversations import CONTEXT

LONG = "word " * 400
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
PAGE = {"type": "web_search_result", "url": "https://x.example", "title": LONG}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [PAGE]}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": LONG}}
FILES = {
    "type": "file_search_call",
    "id": "f",
    "status": "completed",
    "queries": ["x"],
    "results": [{"file_id": "f1", "text": LONG}],
}
PICTURE = "iVBORw0KGgo="
DRAWN = {"type": "image_generation_call", "id": "i", "status": "completed", "result": PICTURE}
INLINE = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}


def reply(kind: str, *blocks: Any) -> dict[str, Any]:
    """An answer with these blocks and a text behind them."""
    match kind:
        case "anthropic":
            said: dict[str, Any] = {"type": "text", "text": "So it is."}
            content = [*blocks, said]
            return {"type": "message", "role": "assistant", "content": content}
        case "gemini":
            parts = [*blocks, {"text": "So it is."}]
            return {"candidates": [{"content": {"role": "model", "parts": parts}}]}
        case _:
            part: dict[str, Any] = {"type": "output_text", "text": "So it is.", "annotations": []}
            said = {"type": "message", "role": "assistant", "id": "m", "content": [part]}
            output = [*blocks, {**said, "status": "completed"}]
            return {"object": "response", "status": "completed", "output": output}


MODELS: dict[str, Model] = {
    "anthropic": anthropic("claude-sonnet-4-5", api_key="k"),
    "gemini": gemini("gemini-2.5-flash", api_key="k"),
    "responses": openai_responses("gpt-4.1", api_key="k"),
}
RESULTS = {"anthropic": [SEARCH, FOUND], "gemini": [CODE, RAN], "responses": [FILES]}
HOSTED: dict[str, Any] = {
    "anthropic": "web_search",
    "gemini": "code_execution",
    "responses": {"type": "file_search", "vector_store_ids": ["vs_1"]},
}
SHORTER = [ClearToolResults(0, 0), CompressToolResults(30, keep_recent=0), TruncateToolResults(50)]


async def sent(kind: str, messages: list[Message]) -> str:
    """The request in which a conversation continues, as the provider took it."""
    fake = FakeProvider([Raw(json=reply(kind))])
    model = replace(MODELS[kind], transport=fake.transport)
    conversation = (*messages, TextMessage("user", "And?"))
    body = model.encode(ModelRequest(messages=conversation, hosted=(HOSTED[kind],)))
    async with httpx.AsyncClient(transport=fake.transport) as client:
        headers = model.adapter.headers(model, "k")
        answer = await client.post(model.adapter.url(model), json=body, headers=headers)
    assert answer.is_success, answer.text
    return str(body)


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("processor", SHORTER, ids=lambda one: type(one).__name__)
async def test_a_long_result_of_a_hosted_tool_becomes_a_short_text(
    kind: str, processor: HistoryProcessor
) -> None:
    """Its host takes it back as it was or not at all, and a call never without its result."""
    read = MODELS[kind].decode(reply(kind, *RESULTS[kind])).messages
    history: list[Message] = [TextMessage("user", "Hi"), *read]
    assert LONG in await sent(kind, history)
    made = list(await resolve(processor.process(history, CONTEXT)))
    assert [message.type for message in made] == ["text", "text", "text"]
    assert made[1].type == "text"
    assert made[1].text.startswith("[Result of ")
    assert len(made[1].text) < 250
    assert LONG not in await sent(kind, made)


@pytest.mark.parametrize(("kind", "block"), [("gemini", INLINE), ("responses", DRAWN)])
async def test_a_picture_that_a_model_made_counts_as_an_image(kind: str, block: Any) -> None:
    """It goes with the others, and a line is in its place."""
    read = MODELS[kind].decode(reply(kind, block)).messages
    history: list[Message] = [TextMessage("user", "Hi"), *read]
    assert list(await KeepImages(1).process(history, CONTEXT)) == history
    assert list(await ClearToolResults(0, 0).process(history, CONTEXT)) == history
    made = list(await StripImages().process(history, CONTEXT))
    assert [message.text for message in made if message.type == "text"][1] == "[image left out]"
    assert PICTURE not in str(made)


async def test_pictures_that_code_has_drawn_are_images_too() -> None:
    """OpenAI gives them as data URLs among the outputs of its code interpreter."""
    big = "iVBORw0K" * 50_000
    outputs = [
        {"type": "logs", "logs": "drawn"},
        {"type": "image", "url": f"data:image/png;base64,{PICTURE}"},
        {"type": "image", "url": f"data:image/png;base64,{big}"},
    ]
    block = {"type": "code_interpreter_call", "id": "c", "status": "completed", "code": "plot()"}
    block = {**block, "container_id": "cn", "outputs": outputs}
    read = MODELS["responses"].decode(reply("responses", block)).messages
    assert [one.data for one in AgentResult("a", read).media] == [PICTURE, big]
    assert 1_500 < count_messages(read, ApproximateTokenizer()) < 3_000
    history: list[Message] = [TextMessage("user", "Hi"), *read]
    assert list(await KeepImages(2).process(history, CONTEXT)) == history
    made = list(await KeepImages(1).process(history, CONTEXT))
    request = await sent("responses", made)
    assert big in request
    assert PICTURE not in request.replace(big, "")
    assert "drawn" in await sent("responses", list(await StripImages().process(made, CONTEXT)))
