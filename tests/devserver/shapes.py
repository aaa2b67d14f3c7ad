"""Networks of five shapes, whose effects are counted with their idempotency keys."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import inngest

from agentkit_py import (
    Agent,
    Network,
    PostgresHistory,
    RouterContext,
    SqliteHistory,
    Tool,
    ToolContext,
    openai,
    tool,
)
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import FunctionOptions, create_functions
from agentkit_py.inngest.runtime import Inference
from agentkit_py.stores import HistoryStore
from agentkit_py.testing import tool_call, tool_calls

from .places import Replies
from .support import Books, customer

WORKERS = 2
"""Processes behind the app."""

_CALLS = tool_calls(("charge", {"order": "a"}), ("charge", {"order": "b"}))
REPLIES: dict[str, Replies] = {
    "three": {
        "first": [_CALLS, "First is done."],
        "second": [tool_call("charge", {"order": "c"}), "Second is done."],
        "third": [tool_call("charge", {"order": "d"}), "Third is done."],
    },
    "parallel": {
        "first": [tool_calls(*(("charge", {"order": one}) for one in "abcd")), "First is done."]
    },
    "asking": {
        "asker": [_CALLS, tool_call("refund", {"order": "c"}), "Asker is done."],
    },
    "threads": {"first": [_CALLS, tool_call("charge", {"order": "c"}), "First is done."]},
    "streamed": {"first": [_CALLS, tool_call("charge", {"order": "c"}), "First is done."]},
}
"""Replies of the agents of each shape."""

ORDERS = {"three": "abcd", "parallel": "abcd", "asking": "abc", "threads": "abc", "streamed": "abc"}
"""Charges in a run of each shape."""


def postgres(folder: Path) -> PostgresHistory:
    """Return the store of the threads, which the file ``postgres.json`` names."""
    named = json.loads((folder / "postgres.json").read_text())
    return PostgresHistory(
        named["url"], schema=named["schema"], connections=2, lease=ThreadLease(seconds=30)
    )


def sqlite(folder: Path) -> SqliteHistory:
    """Return the store of the other shapes."""
    return SqliteHistory(folder / "threads.db")


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """The networks, each a function."""
    tools, store = _tools(Books(folder / "books.db")), sqlite(folder)
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)

    def network(name: str, kept: HistoryStore) -> Network:
        names = list(REPLIES[name])
        agents = [
            Agent(name=one, system=one, tools=tools, max_iter=4, parallel_tools=name == "parallel")
            for one in names
        ]

        def route(context: RouterContext) -> str | None:
            return names[context.call_count] if context.call_count < len(names) else None

        return Network(name=name, agents=agents, router=route, default_model=model, history=kept)

    networks = [network(one, postgres(folder) if one == "threads" else store) for one in REPLIES]
    options = {one: FunctionOptions(retries=20) for one in REPLIES}
    return create_functions(
        client, networks=networks, options=options, inference=inference, realtime=True
    )


def _tools(books: Books) -> list[Tool]:
    @tool
    def charge(order: str, ctx: ToolContext) -> str:
        """Charge, which takes a while."""
        books.enter(customer(ctx), f"{order} {ctx.idempotency_key}")
        time.sleep(0.03)
        return f"charged {order}"

    @tool(needs_approval=True)
    def refund(order: str, ctx: ToolContext) -> str:
        """Pay back."""
        books.enter(customer(ctx), f"{order} {ctx.idempotency_key}")
        return f"charged {order}"

    return [charge, refund]
