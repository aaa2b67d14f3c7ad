"""A request that continues with what the run's last one wrote is the one written from nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py import anthropic, gemini, openai
from agentkit_py._core.json import dumps, to_bytes
from agentkit_py.messages import (
    ImageContent,
    Message,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    azure_openai,
    grok,
    model_named,
    openai_responses,
)
from agentkit_py.models.base import Compaction
from agentkit_py.models.binding import digests_of, mark_refused
from agentkit_py.models.blocks import host_of
from agentkit_py.models.encoding import role_message
from agentkit_py.runtime.cloud import bedrock

MODELS: dict[str, Model] = {
    "chat": openai("gpt-4o", api_key="k"),
    "azure": azure_openai("d", endpoint="https://a.openai.azure.com", api_key="k"),
    "grok": grok("grok-4", api_key="k"),
    "deepseek": replace(model_named("deepseek:deepseek-v4"), api_key="k"),
    "mistral": replace(model_named("mistral:magistral-medium-latest"), api_key="k"),
    "responses": openai_responses("gpt-5", api_key="k"),
    "responses that sign": openai_responses("gpt-6.2-astra", api_key="k"),
    "old claude": anthropic("claude-3-5-haiku-latest", api_key="k"),
    "claude": anthropic("claude-sonnet-4-5", api_key="k"),
    "claude that signs": anthropic("claude-opus-5-5", api_key="k"),
    "claude at bedrock": bedrock(
        "us.anthropic.claude-sonnet-4-5-v1:0", region="us-east-1", api_key="k"
    ),
    "gemini 2": gemini("gemini-2.5-flash", api_key="k"),
    "gemini 3": gemini("gemini-3-pro", api_key="k"),
}
TOOLS = tuple(ToolSpec(name, "Looks.", {"type": "object", "properties": {}}) for name in "ab")


def _chat(chance: random.Random, n: int) -> dict[str, Any]:
    said: dict[str, Any] = {"content": chance.choice([None, "", "Ok.", f"In Linz, {n}."])}
    if chance.random() < 0.5:
        said["reasoning_content"] = f"Hm {n}."
    if chance.random() < 0.7:
        function = {"name": "a", "arguments": chance.choice([f'{{"n":{n}}}', '{ "n": 1 }', "no"])}
        said["tool_calls"] = [{"id": chance.choice([f"c{n}", "c"]), "function": function}]
    elif not said["content"]:
        said["content"] = "Yes."
    return {"choices": [{"message": said}]}


def _responses(chance: random.Random, n: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if chance.random() < 0.6:
        summary = [{"type": "summary_text", "text": f"Hm {n}."}]
        thought = {"type": "reasoning", "id": f"rs_{n}", "summary": summary}
        output.append({**thought, "encrypted_content": f"e{n}"})
    if chance.random() < 0.3:
        search = {"type": "web_search_call", "id": f"ws_{n}", "status": "completed"}
        output.append({**search, "action": {"type": "search", "query": "x"}})
    if chance.random() < 0.7:
        call = {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "a"}
        output.append({**call, "arguments": f'{{"n":{n}}}'})
    else:
        text: Any = {"type": "output_text", "text": f"In Linz, {n}.", "annotations": []}
        output.append({"type": "message", "id": f"msg_{n}", "role": "assistant", "content": [text]})
    return {"status": "completed", "output": output}


def _claude(chance: random.Random, n: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if chance.random() < 0.6:
        content.append({"type": "thinking", "thinking": f"Hm {n}.", "signature": f"s{n}"})
    if chance.random() < 0.3:
        use: Any = {"type": "server_tool_use", "id": f"st_{n}", "name": "web_search", "input": {}}
        result: Any = {"type": "web_search_tool_result", "tool_use_id": f"st_{n}", "content": []}
        content += [use, result][: chance.choice([1, 2])]
    content += [{"type": "text", "text": chance.choice([f"In Linz, {n}.", "  "])}]
    if chance.random() < 0.1:
        content.insert(0, {"type": "compaction", "content": f"They spoke, {n}."})
    if chance.random() < 0.7:
        content.append({"type": "tool_use", "id": f"c{n}", "name": "a", "input": {"n": n}})
    return {"content": content, "stop_reason": chance.choice(["end_turn", "pause_turn"])}


def _gemini(chance: random.Random, n: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if chance.random() < 0.4:
        parts.append({"text": f"Hm {n}.", "thought": True, "thoughtSignature": "c2ln"})
    parts += [{"text": f"In Linz, {n}."}]
    if chance.random() < 0.7:
        parts.append({"functionCall": {"name": "a", "args": {"n": n}}})
    if chance.random() < 0.5:
        parts[-1]["thoughtSignature"] = "c2lnbg=="
    return {"candidates": [{"content": {"role": "model", "parts": parts}}]}


def _replies(model: Model) -> Callable[[random.Random, int], dict[str, Any]]:
    kinds = {"ChatAdapter": _chat, "ResponsesAdapter": _responses, "GeminiAdapter": _gemini}
    return kinds.get(type(model.adapter).__name__, _claude)


class Run:
    """A run whose conversation grows and is changed by chance."""

    def __init__(self, model: Model, chance: random.Random) -> None:
        self.model, self.chance = model, chance
        self.messages: list[Message] = []
        self.writers: dict[str, Any] = {}
        self.system, self.agent, self.tools = "Be brief.", "clerk", TOOLS
        self.prefill: list[Message] = []
        self.refused: frozenset[str] = frozenset()
        self.sent: list[tuple[Any, str]] = []
        """Bodies of earlier requests, and how each read when it was made."""

        self.count = 0

    def request(self) -> ModelRequest:
        """Return what is asked now."""
        head: list[Message] = [TextMessage("system", self.system)] if self.system else []
        return ModelRequest(
            messages=(*head, *self.messages, *self.prefill),
            tools=self.tools,
            agent=self.agent,
            prefill=len(self.prefill),
            cache_key="thread",
            refused=self.refused,
            hosted=("web_search",) if self.tools and "gpt-5" in self.model.model else (),
            compaction=Compaction(tokens=50_000),
            writers=self.writers,
        )

    def step(self, what: str) -> None:
        """Let something happen."""
        self.count += 1
        if what == "reply":
            self._reply()
        elif what in ("user", "picture", "other", "handoff"):
            self._say(what)
        elif what in ("system", "agent", "tools", "prefill", "refused"):
            self._set(what)
        elif self.messages:
            self._edit(what)

    def _say(self, what: str) -> None:
        picture = [TextContent("See."), ImageContent(data="aGk=", media_type="image/png")]
        said: dict[str, Message] = {
            "user": TextMessage("user", f"Where is it? {self.count}"),
            "picture": TextMessage("user", picture),
            "other": TextMessage("assistant", f"I am {self.count}.", agent="other"),
            "handoff": role_message("From here on you are b.", ["b"], ["a"]),
        }
        self.messages.append(said[what])

    def _edit(self, what: str) -> None:
        said = self.messages
        index = self.chance.randrange(len(said))
        match what:
            case "drop":
                del said[index]
            case "cut":
                del said[:index]
            case "end":
                said.pop()
            case "change":
                said[index] = TextMessage("user", f"(left out {self.count})")
            case "double":
                said.insert(index, self.chance.choice(said))
            case _:
                pass

    def _set(self, what: str) -> None:
        chance, count = self.chance, str(self.count)
        match what:
            case "system":
                self.system = chance.choice(["", "Be brief.", f"It is {count}."])
            case "agent":
                self.agent = chance.choice(["clerk", "other"])
            case "tools":
                self.tools = chance.choice([(), TOOLS, TOOLS[:1]])
            case "prefill":
                words: list[Message] = [TextMessage("assistant", "Well,")]
                self.prefill = chance.choice([[], words])
            case _:
                self.refused = chance.choice([frozenset(), digests_of(self.messages)])
                if chance.random() < 0.5:
                    host = host_of(self.model)
                    self.messages[:] = mark_refused(self.messages, host, frozenset({count}))

    def _reply(self) -> None:
        request = self.request()
        reply = self.model.decode(_replies(self.model)(self.chance, self.count)).messages
        said = [replace(message, agent=self.agent) for message in reply]
        bound = self.model.bind(request, said)
        assert bound == self.model.bind(replace(request, writers=None), said)
        if self.chance.random() < 0.1:
            bound = mark_refused(bound, host_of(self.model), frozenset({str(self.count)}))
        self.messages += bound
        for message in bound:
            if isinstance(message, ToolCallMessage):
                self.messages += [self._result(call) for call in message.tools]

    def _result(self, call: ToolCall) -> Message:
        picture = {"type": "image", "data": "aGk=", "mediaType": "image/png"}
        content = self.chance.choice(["Linz", {"data": {"stops": ["Graz"]}}, [picture]])
        return ToolResultMessage(call, content)

    def check(self) -> None:
        """Compare the request with the same one, written from nothing."""
        request, model = self.request(), self.model
        fresh = replace(request, writers=None)
        left = [(id(m), why) for m, why in model.adapter.left_out(model, request)]
        assert left == [(id(m), why) for m, why in model.adapter.left_out(model, fresh)]
        assert list(map(id, model.adapter.sent(model, request))) == list(
            map(id, model.adapter.sent(model, fresh))
        )
        found, wanted = (model.adapter.encode(model, one) for one in (request, fresh))
        assert json.dumps(found) == json.dumps(wanted)
        assert to_bytes(found) == dumps(wanted).encode()
        assert [json.dumps(body) for body, _ in self.sent] == [text for _, text in self.sent]
        self.sent.append((found, json.dumps(found)))


GROWING = ("reply", "reply", "reply", "reply", "user", "picture")
STEPS = (
    *GROWING,
    *("other", "handoff", "drop", "cut", "end", "change", "double"),
    *("system", "agent", "tools", "tools", "prefill", "refused", "nothing"),
)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS) | st.sampled_from(GROWING), max_size=25),
    chance=st.randoms(use_true_random=False),
)
def test_a_continued_request_equals_a_new_request(
    name: str, steps: Sequence[str], chance: random.Random
) -> None:
    """Byte for byte, whatever was added, cut, changed or doubled between two requests.

    What was sent before stays as it was.
    """
    run = Run(MODELS[name], chance)
    for step in steps:
        run.step(step)
        run.check()
