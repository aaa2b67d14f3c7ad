"""The support desk as a FastAPI app with Inngest functions.

Needs fastapi and uvicorn (``pip install "pyagentkit[inngest]"``). On your machine::

    export INNGEST_DEV=1 OPENAI_API_KEY=…
    uvicorn app:app --port 8000
    inngest dev --no-discovery -u http://127.0.0.1:8000/api/inngest
"""

# --8<-- [start:app]
from datetime import timedelta
from typing import Annotated

import inngest
import inngest.fast_api
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from support import support_network

from agentkit_py import openai
from agentkit_py.errors import NotPendingError
from agentkit_py.events import ApprovalAnswer
from agentkit_py.inngest import (
    FunctionOptions,
    answer_question,
    create_functions,
    subscription_token,
)

client = inngest.Inngest(app_id="desk")
network = support_network(openai("gpt-4.1"), "threads.db")
functions = create_functions(
    client,
    networks=[network],
    options={
        "support": FunctionOptions(
            retries=5,
            # One run of a customer at a time: the second waits, and nobody else waits with it.
            concurrency=[inngest.Concurrency(limit=1, key="event.data.userId")],
            cancel=[
                inngest.Cancel(
                    event="desk/customer.left", if_exp="async.data.userId == event.data.userId"
                )
            ],
            timeouts=inngest.Timeouts(finish=timedelta(days=30)),
        )
    },
    realtime=True,  # to the channel user:{userId}
)

app = FastAPI()
inngest.fast_api.serve(app, client, functions)
# --8<-- [end:app]


# --8<-- [start:api]
SESSIONS = {"5f8e03": "ada", "c3a17b": "bob", "77d0e1": "colleague"}
"""Users by session; yours are in a database, or in a signed token."""


def signed_in(bearer: Annotated[object, Depends(HTTPBearer())]) -> str:
    """Return the user's id, from the request's session and nothing else."""
    user = SESSIONS.get(getattr(bearer, "credentials", ""))
    if user is None:
        raise HTTPException(401)
    return user


User = Annotated[str, Depends(signed_in)]


class Question(BaseModel):
    """A customer's message."""

    text: str
    thread_id: str


class Answer(BaseModel):
    """A colleague's decision."""

    approved: bool
    reason: str = ""


@app.post("/chat")
async def chat(user: User, question: Question) -> list[str]:
    """Start a run; the answer is streamed.

    The thread's id comes from the browser. Because the event names the user, the run opens the
    thread only if it is this user's; a new one becomes theirs.
    """
    data = {"input": question.text, "userId": user, "threadId": question.thread_id}
    return await client.send(inngest.Event(name="desk/network-support", data=data))


@app.get("/token")
async def token(user: User) -> dict[str, object]:
    """Return the token with which a browser listens to its user's channel."""
    return await subscription_token(client, user)


# --8<-- [start:answer]
@app.post("/approvals/{request_id}")
async def approve(user: User, request_id: str, answer: Answer) -> None:
    """Pass a colleague's decision on; `request_id` is in the chunk ``hitl.requested``."""
    if user != "colleague":
        raise HTTPException(403)
    decision = ApprovalAnswer(approved=answer.approved, reason=answer.reason)
    try:
        await answer_question(client, network.history, request_id, decision, by=user)
    except NotPendingError as error:  # somebody else was faster, or its time is over
        raise HTTPException(409, str(error)) from error


# --8<-- [end:answer]
# --8<-- [end:api]
