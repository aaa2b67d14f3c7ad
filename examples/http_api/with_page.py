"""A chat page without a build step. Start it with `uvicorn with_page:app --port 8000`."""

from __future__ import annotations

# --8<-- [start:app]
from pathlib import Path

from shop import shop_network
from starlette.staticfiles import StaticFiles

from agentkit_py.server import create_app

app = create_app(networks=[shop_network()], auth="local")  # one user, on this machine alone
app.mount("/", StaticFiles(directory=Path(__file__).parent / "page", html=True))
# --8<-- [end:app]
