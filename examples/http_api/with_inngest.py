"""The shop's API, runs as Inngest functions. Start it with ``uvicorn with_inngest:app``."""

from __future__ import annotations

# --8<-- [start:inngest]
import inngest
import inngest.fast_api
from app import signed_in
from fastapi import FastAPI
from shop import shop_network

from agentkit_py.inngest import create_functions
from agentkit_py.server import create_app

client = inngest.Inngest(app_id="shop", is_production=False)
network = shop_network()
functions = create_functions(client, networks=[network], inference="local", realtime=True)

app = FastAPI()
inngest.fast_api.serve(app, client, functions)
app.mount("/", create_app(networks=[network], auth=signed_in, client=client))
# --8<-- [end:inngest]
