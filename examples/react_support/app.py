"""The page and its API, runs in this process.

Build the page once (``npm install && npm run build``), then::

    uvicorn app:app --port 8000

With OPENAI_API_KEY set a real model answers, otherwise a scripted one.
"""

# --8<-- [start:app]
import os
from pathlib import Path

from desk import support_network
from offline import offline_model
from people import SECRET, STAFF, routes, signed_in
from starlette.staticfiles import StaticFiles

from agentkit_py import openai
from agentkit_py.server import create_app

HERE = Path(__file__).parent
model = openai("gpt-4.1") if "OPENAI_API_KEY" in os.environ else offline_model()
network = support_network(model, os.environ.get("DESK_THREADS", "threads.db"))

app = create_app(networks=[network], auth=signed_in, staff=STAFF, approvers=STAFF, secret=SECRET)
app.routes.extend(routes)
page = os.environ.get("DESK_PAGE", str(HERE / "dist"))
app.mount("/", StaticFiles(directory=page, html=True))  # behind the API's own paths
# --8<-- [end:app]
