"""A process whose tools never come to their end: `python -m tests.server.hanging_worker PLACE`."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import replace
from typing import Any

import uvicorn

from agentkit_py import Agent, Network, openai, tool
from agentkit_py.routing import once
from agentkit_py.testing import FakeProvider, ReceivedRequest, tool_call
from tests.server.worker import store_of
from tests.server.world import app_of


@tool
async def hang() -> str:
    """Work for ever."""
    await asyncio.Event().wait()
    return ""


@tool(needs_approval=True)
async def refund() -> str:
    """Pay money back, which takes for ever."""
    await asyncio.Event().wait()
    return ""


def reply(request: ReceivedRequest) -> Any:
    """The model calls the tool that the user names."""
    return tool_call(request.body["messages"][-1]["content"], {})


def main(place: str) -> None:
    """Serve on a free port, and print it."""
    model = replace(openai("m", api_key="k"), transport=FakeProvider(reply, strict=False).transport)
    clerk = Agent(name="clerk", system="S", tools=[hang, refund], model=model)
    network = Network(name="n", agents=[clerk], router=once(clerk), history=store_of(place))
    app = app_of(network)
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
