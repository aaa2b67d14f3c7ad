"""The shop's API as a part of a larger FastAPI app. Start it with ``uvicorn with_fastapi:app``."""

from __future__ import annotations

# --8<-- [start:mount]
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from app import app as api
from fastapi import FastAPI

from agentkit_py.server import lifespan, realtime_app


@asynccontextmanager
async def whole(_app: FastAPI) -> AsyncGenerator[None]:
    """Open and close the API's parts: a mounted app has no lifespan of its own."""
    async with lifespan(api):
        yield


app = FastAPI(lifespan=whole)
app.mount("/support", api)
app.mount("/v1/realtime", realtime_app(api))  # the hook listens at the root of the host
# --8<-- [end:mount]
