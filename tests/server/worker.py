"""A process that serves a shop whose refunds need staff: `python -m tests.server.worker`."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvicorn

from agentkit_py import SqliteHistory, tool
from agentkit_py.server import create_app
from agentkit_py.stores import HistoryStore
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.world import by_header, support


def store_of(place: str) -> HistoryStore:
    """The store that all workers share."""
    if "://" not in place:
        return SqliteHistory(place)
    from agentkit_py.stores.postgres import PostgresHistory  # noqa: PLC0415 - needs its extra

    url, _, schema = place.partition(" ")
    return PostgresHistory(url, schema=schema, connections=2)


def main(place: str, paid: Path, *script: str) -> None:
    """Serve on a free port, and print it; without a script, the model asks for a refund."""

    @tool(needs_approval=True, approvers=["mia"])
    def refund(amount: int) -> str:
        """Pay money back."""
        with paid.open("a") as file:
            file.write(f"{amount}\n")
        return f"paid {amount}"

    network = support(tools=(refund,), history=store_of(place))
    replies = script or (tool_call("refund", {"amount": 249}),)
    network.default_model = ScriptedModel(*replies)
    app = create_app(networks=[network], auth=by_header, staff=["mia"])
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
