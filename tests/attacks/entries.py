"""The places where what strangers wrote comes in, each as a function of a text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from agentkit_py import Agent, MemoryHistory, Network, State, TextMessage, TokenLimiter
from agentkit_py._core.untrusted import clean, escaped
from agentkit_py._engine.transcript import users_words
from agentkit_py.cli.console import shorten, wrap
from agentkit_py.cli.printing import call_line
from agentkit_py.errors import AgentKitError, ModelError, ToolDefinitionError
from agentkit_py.events import assemble
from agentkit_py.knowledge import Knowledge, SqliteKnowledge
from agentkit_py.knowledge.documents import DocumentFormat
from agentkit_py.mcp.tools import ServerArguments, fit_gemini, offered_name, spec_of
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import anthropic, gemini, openai
from agentkit_py.models.http_errors import error_from_response
from agentkit_py.models.replies import parse_call
from agentkit_py.playground.levels import levels_json
from agentkit_py.processors import (
    ApproximateTokenizer,
    Budget,
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    Redact,
    Redactor,
    Summarize,
    TruncateToolResults,
)
from agentkit_py.routing import mentioned
from agentkit_py.server.errors import ApiError
from agentkit_py.server.schemas import ChatRequest, parse
from agentkit_py.stores import redacted
from agentkit_py.stores.interchange import import_threads
from agentkit_py.stores.rows import title_of
from agentkit_py.testing import ScriptedModel, tool_call

Entry = Callable[[str], Awaitable[object]]


class OneVector:
    """An embedder that takes no time."""

    key = "one"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the same vector for each text."""
        return [[1.0, 0.0]] * len(texts)


def sync(work: Callable[[str], object]) -> Entry:
    """Return an entry that only computes."""

    async def entry(text: str) -> object:
        return work(text)

    return entry


def refused(entry: Entry) -> Entry:
    """Return an entry that may refuse its input by one of our errors."""

    async def tried(text: str) -> object:
        try:
            return await entry(text)
        except (AgentKitError, ApiError):
            return None

    return tried


def agent(*replies: Any, **options: Any) -> Agent:
    """Return an agent with a scripted model."""
    return Agent(name="a", system="S", model=ScriptedModel(*replies), **options)


async def message(text: str) -> object:
    """A run with the text as the user's message."""
    return await agent("Hm.").run(text)


async def stored(text: str) -> object:
    """A user's message to an agent with a thread."""
    return await agent("Hm.", history=MemoryHistory()).run(text, thread_id="t")


async def masked(text: str) -> object:
    """A user's message to an agent whose store masks."""
    history = redacted(MemoryHistory(), Redactor())
    return await agent("Hm.", history=history).run(text, thread_id="t")


async def history_of(text: str, *processors: Any) -> object:
    """Run with an old conversation that holds the text as message and result."""
    call = ToolCall("1", "look", {"q": text[:100]})
    old = [
        TextMessage("user", text),
        ToolCallMessage([call]),
        ToolResultMessage(call, {"data": text}),
        TextMessage("assistant", "Fine."),
    ]
    return await agent("Hm.", processors=list(processors)).run("And?", state=State(messages=old))


async def result(text: str) -> object:
    """A tool returns the text."""

    def look() -> str:
        """Look."""
        return text

    return await agent(tool_call("look"), "Hm.", tools=[look]).run("Hi")


async def structured_result(text: str) -> object:
    """A tool returns objects and arrays of pieces of the text."""
    pieces = [text[i : i + 100] for i in range(0, len(text), 100)]

    def look() -> dict[str, Any]:
        """Look."""
        return {"items": pieces, text[:1000]: {str(i): one for i, one in enumerate(pieces)}}

    compress = CompressToolResults(1000, keep_recent=0)
    return await agent(tool_call("look"), "Hm.", tools=[look], processors=[compress]).run("Hi")


async def tool_error(text: str) -> object:
    """A tool fails with the text."""

    def look() -> str:
        """Look."""
        raise ValueError(text)

    return await agent(tool_call("look"), "Hm.", tools=[look]).run("Hi")


async def reply(text: str) -> object:
    """The model says the text."""
    return await agent(text).run("Hi")


async def arguments(text: str) -> object:
    """The model calls a tool with the text."""

    def look(q: str) -> str:
        """Look."""
        return q[:1]

    return await agent(tool_call("look", {"q": text}), "Hm.", tools=[look]).run("Hi")


async def streamed(text: str) -> object:
    """A 32nd of the text, since each event of some letters has its price."""
    said = text[: len(text) // 32].encode("utf-8", "replace").decode()  # as UTF-8 holds it
    stream = agent(said).stream("Hi")
    return [event async for event in stream]


async def provider_error(text: str) -> object:
    """A provider refuses with the text."""
    return [
        error_from_response(make("m", api_key="k"), status, {"retry-after": text[:4000]}, text)
        for make in (openai, anthropic, gemini)
        for status in (400, 500)
    ]


async def provider_body(text: str) -> object:
    """A provider answers with the text in all places."""
    found: list[object] = []
    for make in (openai, anthropic, gemini):
        model = make("m", api_key="k")
        for body in (
            {"choices": [{"message": {"content": text}}]},
            {"content": [{"type": "text", "text": text}], "stop_reason": text},
            {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": text}]},
            {"error": {"message": text, "code": text}},
            {text: text},
        ):
            try:
                found.append(model.adapter.decode(model, body))
            except ModelError as error:
                found.append(str(error))
    return found


async def schema(text: str) -> object:
    """An MCP server's tool has the text as name, description, patterns."""
    pieces = [text[i : i + 100] for i in range(0, len(text), 100)][:2000]
    properties = {
        f"p{i}": {"type": "string", "pattern": p, "description": p} for i, p in enumerate(pieces)
    }
    given = {"type": "object", "properties": properties, "description": text}
    name = offered_name(text[:1000], text, ())
    try:
        checked = ServerArguments(name, given)
        checked.validate({f"p{i}": p for i, p in enumerate(pieces)})
        return fit_gemini(spec_of(name, {"name": name, "description": text, "inputSchema": given}))
    except ToolDefinitionError as error:
        return error


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def imported(text: str) -> object:
    """A file with the text as message, thread id and line."""
    pieces = [text[i : i + 1000] for i in range(0, len(text), 1000)]
    lines = [
        json.dumps(
            {"id": text[:100], "messages": [{"role": "user", "content": p} for p in pieces]}
        ),
        json.dumps({"messages": [_user(text)]}),
        text,
    ]
    return await import_threads(MemoryHistory(), lines)


def document(kind: DocumentFormat) -> Entry:
    """Return an entry that adds the text as a document of a format."""

    async def add(text: str) -> object:
        knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=OneVector())
        try:
            return await knowledge.add(text, format=kind)
        finally:
            await knowledge.close()

    return add


async def query(text: str) -> object:
    """A search of documents for the text."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=OneVector())
    await knowledge.add("something to find")
    try:
        return await knowledge.search(text, mode="hybrid")
    finally:
        await knowledge.close()


async def search_threads(text: str) -> object:
    """A search of threads, one of which holds the text."""
    history = MemoryHistory()
    await agent("Hm.", history=history).run(text, thread_id="t")
    return await history.search(text[len(text) // 2 :]), await history.search("nowhere")


async def chunks(text: str) -> object:
    """Chunks of a stream with pieces of the text."""
    pieces = [text[i : i + 100] for i in range(0, len(text), 100)]
    part = {"messageId": "m", "partId": "p"}
    made: list[dict[str, Any]] = [
        {"event": "part.created", "data": {**part, "type": "text"}},
        *(
            {"event": "text.delta", "data": {"messageId": "m", "partId": "p", "delta": p}}
            for p in pieces
        ),
    ]
    for number, chunk in enumerate(made):
        chunk.update(sequenceNumber=number, timestamp=number, id=f"c{number}")
    try:
        return assemble(made)
    except (KeyError, TypeError, ValueError) as error:
        return error


async def report(text: str) -> object:
    """A report of processors on a conversation with the text, as the page gets it."""
    run = await history_of(text, Redact(["email"]), TokenLimiter(1000), TruncateToolResults(100))
    return levels_json(run.context)  # type: ignore[attr-defined] - an AgentResult


async def mentions(text: str) -> object:
    """A router looks for mentions in the text."""
    network = Network(
        name="n", agents=[agent("Hm.")], router=lambda c: None if c.call_count else "a"
    )
    await network.run(text)
    return mentioned(text, ["a", "b c", "x" * 100])


async def request(text: str) -> object:
    """A request of the HTTP API with the text."""
    nested: Any = {"text": text}
    body = {"userMessage": {"content": text, "id": text, "state": nested}, "history": [text]}
    return parse(ChatRequest, json.loads(json.dumps(body)))


CONSOLE = Console(width=80)

ENTRIES: Mapping[str, Entry] = {
    "a user's message": message,
    "a stored message": stored,
    "a message in a redacted store": masked,
    "old messages": history_of,
    "old messages, TokenLimiter": lambda t: history_of(t, TokenLimiter(1000)),
    "old messages, Redact": lambda t: history_of(t, Redact()),
    "old messages, CompressToolResults": lambda t: history_of(
        t, CompressToolResults(100, keep_recent=0)
    ),
    "old messages, TruncateToolResults": lambda t: history_of(t, TruncateToolResults(100)),
    "old messages, ClearToolResults": lambda t: history_of(t, ClearToolResults()),
    "old messages, Deduplicate": lambda t: history_of(t, Deduplicate()),
    "old messages, Budget": lambda t: history_of(t, Budget(10_000)),
    "old messages, Summarize": lambda t: history_of(
        t, Summarize(ScriptedModel("Short."), 60, 40, min_messages=1)
    ),
    "old messages, an own expression": lambda t: history_of(t, Redact({"own": r"(\w+[-. ]?)+@\d"})),
    "a tool's result": result,
    "a tool's structured result": structured_result,
    "a tool's error": tool_error,
    "a model's reply": reply,
    "a model's streamed reply": streamed,
    "a model's arguments": arguments,
    "arguments that are no JSON": sync(lambda t: parse_call("1", "f", "{" + t)),
    "a provider's error": provider_error,
    "a provider's body": provider_body,
    "an MCP server's schema": schema,
    "an imported file": refused(imported),
    "a text document": refused(document("text")),
    "a Markdown document": refused(document("markdown")),
    "a CSV document": refused(document("csv")),
    "a JSON document": refused(lambda t: document("json")(json.dumps([t, {t[:200]: t}]))),
    "a query of knowledge": query,
    "a search in threads": search_threads,
    "a request of the API": refused(request),
    "chunks of a stream": chunks,
    "a report on a page": report,
    "mentions of agents": mentions,
    "tokens": sync(ApproximateTokenizer().count),
    "text for a terminal": sync(lambda t: (clean(t), escaped(t), title_of(t), shorten(t, 80))),
    "lines for a terminal": sync(lambda t: wrap(CONSOLE, t, 2)),
    "a message that begins an element": sync(lambda t: users_words(TextMessage("user", f"<{t}"))),
    "an approval's prompt": sync(lambda t: call_line(ToolCall("1", "f", {"q": t, t: 1}))),
}
