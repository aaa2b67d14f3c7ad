"""A worker: ``python -m tests.devserver.worker WORLD PORT MODEL_URL FOLDER INFERENCE [FILE]``.

It serves the functions of a module beside this one, called WORLD. With a file it connects to the
server, instead of being called, and makes the file once it is.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import anyio
import fastapi
import inngest
import inngest.fast_api
import uvicorn
from inngest.connect import ConnectionState, connect

from agentkit_py.inngest.runtime import Inference

from . import forking
from .support import app_of


def main(
    world: str,
    port: str,
    model_url: str,
    folder: str,
    inference: Inference,
    connected: str | None = None,
) -> None:
    """Serve until somebody ends the process."""
    client = inngest.Inngest(app_id=app_of(world, inference, connects=connected is not None))
    module: Any = importlib.import_module(f"{__package__}.{world}")
    functions = module.functions_of(
        client, model_url=model_url, folder=Path(folder), inference=inference
    )
    if connected is not None:
        asyncio.run(_connect(client, functions, Path(connected)))
        return
    app: Any = fastapi.FastAPI()
    inngest.fast_api.serve(app, client, functions)
    if hasattr(module, "application"):
        app = module.application(
            client, model_url=model_url, folder=Path(folder), inference=inference
        )
    if hasattr(module, "WORKERS"):
        forking.serve(app, int(port), module.WORKERS, Path(folder))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


async def _connect(
    client: inngest.Inngest, functions: list[inngest.Function[Any]], connected: Path
) -> None:
    connection = connect([(client, functions)], instance_id=connected.name)
    running = asyncio.create_task(connection.start())
    await connection.wait_for_state(ConnectionState.ACTIVE)
    await anyio.Path(connected).touch()
    await running


if __name__ == "__main__":
    main(*sys.argv[1:])  # pyright: ignore[reportArgumentType] - the fifth is an Inference
