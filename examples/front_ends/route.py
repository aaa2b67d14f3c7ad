"""A route of one's own whose answer is the reply."""

# --8<-- [start:route]
from fastapi import FastAPI, Request, Response
from lamps import network

from agentkit_py.server import stream_response

service = FastAPI()
SESSIONS = {"5f8e03": "ada"}


@service.post("/ask")
async def ask(request: Request) -> Response:
    """Answer what the user says."""
    user = SESSIONS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
    if user is None:
        return Response(status_code=401)
    return await stream_response(network, request, "agentkit", user_id=user, approvers=("mia",))


# --8<-- [end:route]
