"""The shop's API, runs as Inngest functions. Start it with ``uvicorn with_inngest:app``."""

from __future__ import annotations

# --8<-- [start:inngest]
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import inngest
import inngest.fast_api
from app import signed_in
from fastapi import FastAPI
from shop import shop_network

from agentkit_py.inngest import create_functions
from agentkit_py.server import create_app, lifespan

client = inngest.Inngest(app_id="shop", is_production=False)
network = shop_network()
functions = create_functions(client, networks=[network], inference="local", realtime="store")
api = create_app(
    networks=[network], auth=signed_in, approvers=["mia"], client=client, realtime="store"
)


@asynccontextmanager
async def whole(_app: FastAPI) -> AsyncGenerator[None]:
    """Set the store up first, and close it last."""
    async with lifespan(api):
        yield


app = FastAPI(lifespan=whole)
inngest.fast_api.serve(app, client, functions)
app.mount("/", api)
# --8<-- [end:inngest]
