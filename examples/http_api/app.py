"""The shop's API. Start it with ``uvicorn app:app``."""

from __future__ import annotations

# --8<-- [start:app]
from shop import shop_network
from starlette.requests import Request

from agentkit_py.server import ServerLimits, create_app

SESSIONS = {"5f8e03": "ada", "c3a17b": "bob", "9d2e11": "mia"}
"""Users by session, Mia of the staff among them; yours are in a database, or in a signed token."""


def signed_in(request: Request) -> str | None:
    """Return the user's id; None refuses the request."""
    return SESSIONS.get(request.headers.get("authorization", "").removeprefix("Bearer "))


app = create_app(
    networks=[shop_network()],
    auth=signed_in,
    approvers=["mia"],
    client_state=["language"],
    limits=ServerLimits(runs_per_user=2),
)
# --8<-- [end:app]
