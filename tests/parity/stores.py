"""A scenario's history adapters and processors as Python objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentkit_py import (
    HistoryProcessor,
    Message,
    TextMessage,
    TokenLimiter,
    ToolCallFilter,
    UserMessage,
)
from agentkit_py.history import HistoryContext
from agentkit_py.processors import ProcessorContext

from .handlers import error_of
from .hooks import in_style, iso, result_of
from .journal import Journal, result_record, snapshot
from .vectors import Json


class LoggedProcessor(HistoryProcessor):
    """One of a scenario's processors, which says when it runs."""

    def __init__(self, spec: dict[str, Json], journal: Journal) -> None:
        self._spec = spec
        self._journal = journal
        self._inner = processor_of(spec) if spec["type"] in PROCESSORS else None

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Do what the scenario says."""
        spec = self._spec
        label = {"label": spec["label"]} if "label" in spec else {}
        self._journal.note(f"processor:{spec.get('label', spec['type'])}")
        self._journal.callback("processor", **label, type=spec["type"], count=len(messages))
        if self._inner is not None:
            found = self._inner.process(messages, context)
            return await found if isinstance(found, Awaitable) else found
        if spec["type"] == "throw":
            raise error_of(spec["error"])
        text = f"tag:{spec['label']} saw {len(messages)}"
        return [*messages, TextMessage("user", text)]


TOKENIZERS: dict[str, Callable[[str], float]] = {
    "chars": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "words": lambda text: len(text.split()),
    "const42": lambda text: 42,
    "zero": lambda text: 0,
    "float": lambda text: len(text.encode("utf-16-le", "surrogatepass")) / 2 / 3,
}
"""Tokenizers that scenarios name, by their names."""


def _filter(options: dict[str, Json]) -> HistoryProcessor:
    names = {"persistResults": "persist_results"}
    return ToolCallFilter(**{names.get(key, key): value for key, value in options.items()})


def _limiter(options: dict[str, Json]) -> HistoryProcessor:
    names = {"useTiktoken": "use_tiktoken"}
    return TokenLimiter(**{names.get(key, key): value for key, value in options.items()})


PROCESSORS: dict[str, Callable[[dict[str, Json]], HistoryProcessor]] = {
    "ToolCallFilter": _filter,
    "TokenLimiter": _limiter,
}


def processor_of(spec: dict[str, Json]) -> HistoryProcessor:
    """One of the library's processors with the scenario's options."""
    options = spec.get("options", {})
    options = options if isinstance(options, dict) else {"limit": options}
    if "customTokenizer" in spec:
        options = {**options, "tokenizer": TOKENIZERS[spec["customTokenizer"]]}
    return PROCESSORS[spec["type"]](options)


def history_hooks(name: str, spec: dict[str, Json], journal: Journal) -> dict[str, Any]:
    """The callbacks of a history adapter, under our names."""
    fields = {
        "createThread": "create_thread",
        "get": "get",
        "appendUserMessage": "append_user_message",
        "appendResults": "append_results",
    }
    return {
        field: in_style(spec[hook], _history_hook(name, hook, spec[hook], journal))
        for hook, field in fields.items()
        if hook in spec
    }


def _history_hook(
    name: str, hook: str, spec: dict[str, Json], journal: Journal
) -> Callable[[HistoryContext], Any]:
    def call(context: HistoryContext) -> Any:
        number = journal.called_before(name, hook)
        journal.history(name, hook, _history_facts(hook, context, journal))
        context.state.data.update(spec.get("setState", {}))
        if "throw" in spec:
            raise error_of(spec["throw"])
        sequence = spec.get("sequence")
        value = spec.get("return", {"threadId": "thread-created"} if hook == "createThread" else [])
        if sequence:
            value = sequence[min(number, len(sequence) - 1)]
        if hook == "createThread":
            return None if value is None else value["threadId"]
        return [result_of(record) for record in value or []] if hook == "get" else None

    return call


def _history_facts(hook: str, context: HistoryContext, journal: Journal) -> dict[str, Json]:
    state, network = context.state, context.network
    facts: dict[str, Json] = {"input": context.input}
    if hook != "createThread" and context.thread_id is not None:
        facts["threadId"] = context.thread_id
    if state.thread_id is not None:
        facts["stateThreadId"] = state.thread_id
    facts |= {
        "stateData": snapshot(state.data),
        "stateResultCount": state.result_count,
        "stateMessageCount": len(state.messages),
        "networkName": network.name if network is not None else "default",
        "networkAgents": list(getattr(network, "agents", {})),
        "hasStep": journal.durable,
    }
    if hook == "appendUserMessage" and context.user_message is not None:
        facts["userMessage"] = _user_record(context.user_message)
    if hook == "appendResults":
        facts["newResults"] = [result_record(result) for result in context.new_results]
    extra = {"userMessage", "newResults"} & facts.keys()
    keys = {"input", "network", "state", "step"} | extra
    if hook != "createThread":
        keys.add("threadId")
    return {"keys": sorted(keys), **facts}


def _user_record(message: UserMessage) -> dict[str, Json]:
    record: dict[str, Json] = {"id": message.id, "content": message.content, "role": message.role}
    time = message.client_timestamp
    assert time is not None
    return {**record, "timestamp": iso(time)}
