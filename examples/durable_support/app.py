"""The support desk as a FastAPI app with Inngest functions.

Needs fastapi and uvicorn (``pip install 'pyagentkit[serve]'``). On your machine::

    export INNGEST_DEV=1 OPENAI_API_KEY=…
    uvicorn app:app --port 8000
    inngest dev --no-discovery -u http://127.0.0.1:8000/api/inngest
"""

# --8<-- [start:app]
from datetime import timedelta

import inngest
import inngest.fast_api
from fastapi import FastAPI
from pydantic import BaseModel
from support import support_network

from agentkit_py import openai
from agentkit_py.inngest import FunctionOptions, create_functions, subscription_token

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
class Question(BaseModel):
    """What a customer says."""

    text: str
    thread_id: str


class Answer(BaseModel):
    """What a colleague says to a question."""

    approved: bool
    reason: str = ""


@app.post("/chat/{user_id}")
async def chat(user_id: str, question: Question) -> list[str]:
    """Start a run; the answer is streamed. Check who the user is before, as everywhere."""
    data = {"input": question.text, "userId": user_id, "threadId": question.thread_id}
    return await client.send(inngest.Event(name="desk/network-support", data=data))


@app.get("/token/{user_id}")
async def token(user_id: str) -> dict[str, object]:
    """What a browser needs to listen to its user's channel."""
    return await subscription_token(client, user_id)


@app.post("/approvals/{request_id}")
async def approve(request_id: str, answer: Answer) -> None:
    """A colleague decides; `request_id` is in the chunk ``hitl.requested``."""
    data = {"approvalId": request_id, "approved": answer.approved, "reason": answer.reason}
    await client.send(inngest.Event(name="agentkit/approval.answered", data=data))


# --8<-- [end:api]
