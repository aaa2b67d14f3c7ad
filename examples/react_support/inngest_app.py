"""The page and its API, runs as Inngest functions.

Build the page once (``npm install && npm run build``), then::

    INNGEST_DEV=1 uvicorn inngest_app:app --port 8000
    inngest dev --no-discovery -u http://127.0.0.1:8000/api/inngest
"""

# --8<-- [start:app]
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import inngest
import inngest.fast_api
from desk import support_network
from fastapi import FastAPI
from offline import offline_model
from people import SECRET, STAFF, routes, signed_in
from starlette.staticfiles import StaticFiles

from agentkit_py import openai
from agentkit_py.inngest import create_functions
from agentkit_py.server import create_app, lifespan

HERE = Path(__file__).parent
model = openai("gpt-4.1") if "OPENAI_API_KEY" in os.environ else offline_model()
network = support_network(model, os.environ.get("DESK_THREADS", "threads.db"))

client = inngest.Inngest(app_id="desk")
# "local": this process calls the model inside the step, so that replies are streamed;
# "store": through the threads' store, so that the page is told also of what it has missed.
functions = create_functions(client, networks=[network], inference="local", realtime="store")
api = create_app(
    networks=[network],
    auth=signed_in,
    staff=STAFF,
    approvers=STAFF,
    client=client,
    realtime="store",
    secret=SECRET,
)
api.routes.extend(routes)
page = os.environ.get("DESK_PAGE", str(HERE / "dist"))
api.mount("/", StaticFiles(directory=page, html=True))  # behind the API's own paths


@asynccontextmanager
async def served(_app: FastAPI) -> AsyncGenerator[None]:
    """Open and close the API's parts: a mounted app has no lifespan of its own."""
    async with lifespan(api):
        yield


app = FastAPI(lifespan=served)
inngest.fast_api.serve(app, client, functions)
app.mount("/", api)
# --8<-- [end:app]
