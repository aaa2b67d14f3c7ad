"""Front ends with a protocol of their own: the AI SDK of Vercel, and AG-UI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from agentkit_py import AgentResult, MemoryHistory, SqliteHistory, TextMessage, tool
from agentkit_py.errors import ToolError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.server import HubLimits
from agentkit_py.testing import Raw, error, tool_call, tool_calls
from agentkit_py.tools import Progress
from tests.server.world import NO_LIMIT, app_of, client_of, served, support, waiting


@tool
def price(hat: str) -> dict[str, int]:
    """Say what a hat costs."""
    if hat == "none":
        raise ToolError("no row of that name", to_user="there is no such hat")
    return {"euros": 30}


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay money back."""
    return f"paid for {order}"


TWO_CALLS = tool_calls(("price", {"hat": "none"}), ("refund", {"order": "A1"}))


def said(text: str, message_id: str = "m1", thread_id: str = "t1") -> dict[str, Any]:
    """Return a message as ``useChat`` sends it."""
    parts = [{"type": "text", "text": text}]
    message = {"id": message_id, "role": "user", "parts": parts}
    return {"id": thread_id, "messages": [message], "trigger": "submit-message"}


def answered(thread: dict[str, Any], *, approved: bool) -> dict[str, Any]:
    """Return the message that ``useChat`` sends once its questions are answered."""
    for part in thread["messages"][-1]["parts"]:
        if part.get("state") == "approval-requested":
            part["state"] = "approval-responded"
            part["approval"] |= {"approved": approved, "reason": "because"}
    return {"id": thread["id"], "messages": thread["messages"], "trigger": "submit-message"}


def run_input(*texts: str, thread_id: str = "t1", **fields: Any) -> dict[str, Any]:
    """Return the input as ``@ag-ui/client`` sends it."""
    messages = [
        {"id": f"m{number}", "role": "user", "content": text}
        for number, text in enumerate(texts, start=1)
    ]
    own = {"threadId": thread_id, "runId": "r1", "messages": messages}
    return {**own, "tools": [], "context": [], **fields}


def events_in(text: str) -> list[dict[str, Any]]:
    """The events of an answer."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def events(client: httpx.AsyncClient, path: str, body: Any = None) -> list[dict[str, Any]]:
    """The events with which a request is answered."""
    answer = await client.request("GET" if body is None else "POST", path, json=body)
    assert answer.status_code == 200, answer.text
    return events_in(answer.text)


@asynccontextmanager
async def opened(
    url: str, path: str, body: Any = None, user: str = "ada"
) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
    """The events of an answer, as they come."""
    async with (
        httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False, headers={"x-user": user}) as client,
        client.stream("POST" if body else "GET", f"{url}{path}", json=body) as response,
    ):
        assert response.status_code == 200

        async def read() -> AsyncIterator[dict[str, Any]]:
            async for line in response.aiter_lines():
                for event in events_in(line):
                    yield event

        yield read()


async def until(source: AsyncIterator[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The next event of a type."""
    async for event in source:
        if event["type"] == kind:
            return event
    raise EOFError(kind)


def brief(found: list[dict[str, Any]]) -> list[str]:
    """Types of events, those that follow each other once."""
    names = [event["type"] for event in found]
    return [name for n, name in enumerate(names) if n == 0 or names[n - 1] != name]


async def test_a_reply_is_under_its_message_whatever_ids_clients_choose() -> None:
    """``None`` is an id as good as any, and not the one of replies that name no message."""
    app = app_of(support("First.", "Second."))
    async with client_of(app) as client:
        for number, message_id in enumerate(("None", "m2")):
            await events(client, "/api/vercel", said(f"Question {number}", message_id))
        thread = (await client.get("/api/vercel/t1")).json()
    texts = [[p["text"] for p in m["parts"] if p["type"] == "text"] for m in thread["messages"]]
    assert texts == [["Question 0"], ["First."], ["Question 1"], ["Second."]]


CALL = ["tool-input-start", "tool-input-delta", "tool-input-available"]


async def test_a_reply_is_a_ui_message_stream() -> None:
    """Each part begins, grows and ends; ids are those that the thread gives."""
    app = app_of(support(tool_call("price", {"hat": "b"}), "It costs 30.", tools=(price,)))
    async with client_of(app) as client:
        answer = await client.post("/api/vercel", json=said("How much?"))
        assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.rstrip().endswith("data: [DONE]")
        found = events_in(answer.text)
        thread = (await client.get("/api/vercel/t1")).json()
    assert brief(found) == [
        *["start", *CALL, "tool-output-available"],
        *["text-start", "text-delta", "text-end", "finish"],
    ]
    assert found[0]["messageId"] == "m1-reply"
    assert found[-1]["finishReason"] == "stop"
    text = "".join(event["delta"] for event in found if event["type"] == "text-delta")
    assert [message["id"] for message in thread["messages"]] == ["m1", "m1-reply"]
    call, words = thread["messages"][1]["parts"]
    assert (call["type"], call["state"], call["output"]) == (
        *("tool-price", "output-available"),
        {"euros": 30},
    )
    assert call["toolCallId"] == "m1-reply-0"
    assert words["text"] == text == "It costs 30."
    assert words["providerMetadata"] == {"agentkit": {"agent": "clerk"}}


async def test_a_reply_is_an_ag_ui_run() -> None:
    """Calls, results and texts are messages; the run has its client's id."""
    app = app_of(support(tool_call("price", {"hat": "none"}), "No such hat.", tools=(price,)))
    async with client_of(app) as client:
        found = await events(client, "/api/ag-ui", run_input("How much?"))
        thread = (await client.get("/api/ag-ui/t1")).json()
    assert brief(found) == [
        *["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"],
        *["TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"],
        "RUN_FINISHED",
    ]
    assert found[0] == {
        "type": "RUN_STARTED",
        "threadId": "t1",
        "runId": "r1",
        "protocolVersion": "1.0",
    }
    assert found[-1]["outcome"] == {"type": "success"}
    roles = [(message["id"], message["role"]) for message in thread["messages"]]
    assert roles == [
        ("m1", "user"),
        ("m1-reply-0", "assistant"),
        ("m1-reply-0-result", "tool"),
        ("m1-reply-1", "assistant"),
    ]
    assert json.loads(thread["messages"][2]["content"])["error"]["name"] == "ToolFailedError"


@pytest.mark.parametrize("approved", [True, False])
async def test_use_chat_answers_questions(*, approved: bool) -> None:
    """The stream ends with the question; calls that wait for it are not shown until then."""
    app = app_of(support(TWO_CALLS, "Done.", tools=(price, refund)))
    async with client_of(app) as client:
        found = await events(client, "/api/vercel", said("Refund it"))
        assert brief(found)[-4:] == [*CALL[1:], "tool-approval-request", "finish"]
        rewritten = found[max(n for n, e in enumerate(found) if e["type"] == "reset-step") :]
        shown = {event["toolName"] for event in rewritten if "toolName" in event}
        assert shown == {"refund"}  # else the client would wait for the other call
        thread = (await client.get("/api/vercel/t1")).json()
        assert [part["state"] for part in thread["messages"][1]["parts"]] == ["approval-requested"]
        found = await events(client, "/api/vercel", answered(thread, approved=approved))
        thread = (await client.get("/api/vercel/t1")).json()
    assert [event["type"] for event in found[:2]] == ["start", "reset-step"]
    assert found[-1]["finishReason"] == "stop"
    failed, call, _ = thread["messages"][1]["parts"]
    assert failed["errorText"] == "there is no such hat"
    assert call["state"] == ("output-available" if approved else "output-denied")
    assert (call["approval"]["approved"], call["approval"]["reason"]) == (approved, "because")


async def test_an_ag_ui_run_ends_with_interrupts_and_resumes_with_their_answers() -> None:
    """Two calls of one question have an id each; what a person changed is what is called."""
    both = tool_calls(("refund", {"order": "A1"}), ("refund", {"order": "B2"}))
    app = app_of(support(both, "Done.", tools=(refund,)))
    async with client_of(app) as client:
        found = await events(client, "/api/ag-ui", run_input("Refund both"))
        asked = found[-1]["outcome"]["interrupts"]
        thread = (await client.get("/api/ag-ui/t1")).json()
        assert thread["interrupts"] == asked
        assert [one["toolCallId"] for one in asked] == ["m1-reply-0", "m1-reply-1"]
        assert asked[0]["id"].removesuffix(".0") == asked[1]["id"].removesuffix(".1")
        changed = {"approved": True, "arguments": {"order": "C3"}}
        resume = [
            {"interruptId": asked[0]["id"], "status": "resolved", "payload": changed},
            {"interruptId": asked[1]["id"], "status": "cancelled"},
        ]
        body = run_input("Refund both", resume=resume)
        body["messages"] = thread["messages"]
        found = await events(client, "/api/ag-ui", body)
        thread = (await client.get("/api/ag-ui/t1")).json()
    assert found[-1]["outcome"] == {"type": "success"}
    results = [one["content"] for one in thread["messages"] if one["role"] == "tool"]
    assert "paid for C3" in results[0]
    assert "ApprovalDeniedError" in results[1]
    assert thread["interrupts"] == []


async def test_a_user_who_may_not_answer_waits_and_sees_the_answer() -> None:
    """The customer's stream stays open while staff decide, and then continues."""
    app = app_of(
        support(tool_call("refund", {"order": "A1"}), "Paid.", tools=(refund,)), approvers=["staff"]
    )
    async with served(app) as url, opened(url, "/api/vercel", said("Refund it")) as stream:
        told = await until(stream, "data-waiting")
        assert told["transient"] is True
        question = told["data"]["requestId"]
        async with httpx.AsyncClient(trust_env=False, base_url=url) as client:
            mine = said("Refund it") | {
                "messages": [
                    {
                        "role": "assistant",
                        "parts": [
                            {
                                "type": "tool-refund",
                                "state": "approval-responded",
                                "approval": {"id": question, "approved": True},
                            }
                        ],
                    }
                ]
            }
            refused = await client.post("/api/vercel", json=mine, headers={"x-user": "ada"})
            assert refused.status_code == 403
            path, decision = f"/api/approvals/{question}", {"action": "approve"}
            answer = await client.post(path, json=decision, headers={"x-user": "staff"})
            assert answer.status_code == 200
        assert (await until(stream, "tool-output-available"))["output"] == "paid for A1"
        assert (await until(stream, "finish"))["finishReason"] == "stop"


async def test_a_question_outlives_the_server(tmp_path: Any) -> None:
    """Another process shows it, and continues with the answer."""
    replies = (tool_call("refund", {"order": "A1"}), "Paid.")
    store = SqliteHistory(tmp_path / "threads.db")
    async with client_of(app_of(support(*replies, tools=(refund,)), history=store)) as client:
        await events(client, "/api/vercel", said("Refund it"))
    later = app_of(support(replies[1], tools=(refund,)), history=store)
    async with client_of(later) as client:
        thread = (await client.get("/api/vercel/t1")).json()
        found = await events(client, "/api/vercel", answered(thread, approved=True))
        thread = (await client.get("/api/vercel/t1")).json()
    assert found[-1]["finishReason"] == "stop"
    assert [part["type"] for part in thread["messages"][1]["parts"]] == ["tool-refund", "text"]
    await store.close()


async def test_the_customer_sees_decisions_of_staff_in_another_process(tmp_path: Any) -> None:
    """The stream stays open, and ends with what the thread holds then; it is paid once."""
    paid: list[str] = []

    @tool(needs_approval=True)
    def pay(order: str) -> str:
        """Pay."""
        paid.append(order)
        return f"paid for {order}"

    call = tool_call("pay", {"order": "A1"})
    store = SqliteHistory(tmp_path / "threads.db")
    options: dict[str, Any] = {"history": store, "approvers": ["staff"]}
    # An answer that comes while the run still pauses is read there, and it goes on there.
    here = app_of(support(call, "Paid.", tools=(pay,)), **options)
    elsewhere = app_of(support("Paid.", tools=(pay,)), **options)
    async with served(here) as url, opened(url, "/api/vercel", said("Refund it")) as stream:
        question = (await until(stream, "data-waiting"))["data"]["requestId"]
        async with client_of(elsewhere, "staff") as client:
            decision = {"action": "approve"}
            answer = await client.post(f"/api/approvals/{question}", json=decision)
            assert answer.status_code == 200
        assert (await until(stream, "tool-output-available"))["output"] == "paid for A1"
        assert (await until(stream, "finish"))["finishReason"] == "stop"
    assert paid == ["A1"]
    await store.close()


async def test_a_stream_that_waits_for_staff_ends_with_the_server() -> None:
    """The question stays open, and nothing holds the process up."""
    store = MemoryHistory()
    network = support(tool_call("refund", {"order": "A1"}), tools=(refund,))
    app = app_of(network, approvers=["staff"], history=store)
    lines: list[str] = []
    begun = asyncio.Event()

    async def read(url: str) -> None:
        async with (
            httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False) as client,
            client.stream(
                "POST", f"{url}/api/vercel", json=said("Refund"), headers={"x-user": "ada"}
            ) as response,
        ):
            async for line in response.aiter_lines():
                lines.append(line)
                if "data-waiting" in line:
                    begun.set()

    async with served(app) as url:
        reading = asyncio.create_task(read(url))
        await begun.wait()
    await reading
    assert "data: [DONE]" in lines
    assert [one.status for one in await store.list_questions()] == ["open"]


async def test_the_last_turn_is_known_however_long_it_is() -> None:
    """A message is not answered again since its reply fills more than a page."""
    store = MemoryHistory()
    await store.add_thread("t1", user_id="ada")
    rows = [AgentResult("clerk", [TextMessage("assistant", f"{n}")]) for n in range(150)]
    await store.append("t1", [AgentResult.from_user("Hi", id="m1"), *rows])
    async with client_of(app_of(support(), history=store)) as client:
        found = await events(client, "/api/vercel", said("Hi"))
    texts = [event["delta"] for event in found if event["type"] == "text-delta"]
    assert texts == [str(n) for n in range(150)]


async def test_a_reader_that_comes_back_gets_the_reply_from_its_beginning() -> None:
    """It is being written or was just finished; later there is nothing to come back to."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "Here.", tools=(wait,)))
    async with served(app) as url:
        async with opened(url, "/api/vercel", said("Hi")) as stream:
            await until(stream, "tool-input-available")
            await begun.wait()
        async with httpx.AsyncClient(
            trust_env=False, base_url=url, headers={"x-user": "ada"}, timeout=NO_LIMIT
        ) as client:
            again = asyncio.create_task(events(client, "/api/vercel/t1/stream"))
            same = asyncio.create_task(events(client, "/api/vercel", said("Hi")))
            go.set()
            for found in (await again, await same, await events(client, "/api/vercel/t1/stream")):
                assert [event["type"] for event in found[:2]] == ["start", "reset-step"]
                assert [e["output"] for e in found if e["type"] == "tool-output-available"] == [
                    "waited"
                ]
            assert (await client.get("/api/vercel/t2/stream")).status_code == 204
            thread = (await client.get("/api/vercel/t1")).json()
    assert len(thread["messages"]) == 2  # answered once


async def test_a_stopped_reply_shows_the_messages_of_the_thread() -> None:
    """The parts that nobody stored are taken back."""
    wait, begun, _ = waiting()
    app = app_of(support(tool_call("wait", {}), tools=(wait,)))
    async with served(app) as url, opened(url, "/api/ag-ui", run_input("Hi")) as stream:
        await begun.wait()
        async with httpx.AsyncClient(trust_env=False, base_url=url) as client:
            headers = {"x-user": "ada"}
            await client.post("/api/chat/cancel", json={"threadId": "t1"}, headers=headers)
            found = [event async for event in stream]
            thread = (await client.get("/api/ag-ui/t1", headers=headers)).json()
    snapshots = [event for event in found if event["type"] == "MESSAGES_SNAPSHOT"]
    assert snapshots[-1]["messages"] == thread["messages"]
    assert found[-1]["outcome"] == {"type": "cancelled"}


async def test_a_message_that_was_stopped_before_its_run_is_kept() -> None:
    """The client shows it, and so does the thread."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "Here.", tools=(wait,)))
    async with served(app) as url, opened(url, "/api/vercel", said("one")) as first:
        await begun.wait()
        async with (
            opened(url, "/api/vercel", said("two", "m2")) as second,
            httpx.AsyncClient(trust_env=False, base_url=url) as client,
        ):
            headers = {"x-user": "ada"}
            await client.post("/api/chat/cancel", json={"threadId": "t1"}, headers=headers)
            await until(second, "finish")
            await until(first, "finish")
            thread = (await client.get("/api/vercel/t1", headers=headers)).json()
    assert not go.is_set()
    texts = [m["parts"][0]["text"] for m in thread["messages"] if m["role"] == "user"]
    assert texts == ["one", "two"]


async def test_a_reader_that_missed_the_beginning_gets_the_whole_at_the_end() -> None:
    """The ring of chunks was too small."""
    app = app_of(
        support(tool_call("price", {"hat": "b"}), "word " * 50, tools=(price,)),
        hub_limits=HubLimits(channel_chunks=2),
    )
    async with client_of(app) as client:
        found = await events(client, "/api/vercel", said("Hi"))
        thread = (await client.get("/api/vercel/t1")).json()
    texts = [event["delta"] for event in found if event["type"] == "text-delta"]
    assert "".join(texts) == thread["messages"][1]["parts"][1]["text"] == "word " * 50


async def test_a_failed_run_says_so_in_words_for_users() -> None:
    """The provider is not named."""
    async with client_of(app_of(support(error(400, "secret"), error(400, "secret")))) as client:
        found = await events(client, "/api/vercel", said("Hi"))
        assert found == [{"type": "error", "errorText": "The model could not answer."}]
        found = await events(client, "/api/ag-ui", run_input("Hi", thread_id="t2"))
    assert [event["type"] for event in found] == ["RUN_STARTED", "RUN_ERROR"]
    assert found[1]["code"] == "failed"


async def test_an_answered_question_is_not_changed() -> None:
    """Neither another text under the same id nor another reply."""
    async with client_of(app_of(support("Hello."))) as client:
        await events(client, "/api/vercel", said("Hi"))
        other = await client.post("/api/vercel", json=said("Bye"))
        again = said("Hi") | {"trigger": "regenerate-message"}
        anew = await client.post("/api/vercel", json=again)
    assert [one.status_code for one in (other, anew)] == [409, 409]
    assert other.json()["error"]["code"] == "already_answered"


async def test_an_ag_ui_client_without_messages_gets_those_of_the_thread() -> None:
    """So it reads a thread again; one that is up to date gets no snapshot."""
    app = app_of(support("Hello."), history=MemoryHistory())
    async with client_of(app) as client:
        first = await events(client, "/api/ag-ui", run_input("Hi"))
        assert "MESSAGES_SNAPSHOT" not in brief(first)
        found = await events(client, "/api/ag-ui", run_input())
        thread = (await client.get("/api/ag-ui/t1")).json()
    snapshots = [event for event in found if event["type"] == "MESSAGES_SNAPSHOT"]
    assert snapshots[-1]["messages"] == thread["messages"]
    assert found[-1]["type"] == "RUN_FINISHED"


async def test_the_state_holds_the_keys_that_clients_may_set() -> None:
    """Nothing else of a run's state leaves the server."""
    store = MemoryHistory(lease=ThreadLease())
    app = app_of(support("Hello."), history=store, client_state=["mood"])
    async with client_of(app) as client:
        given = run_input("Hi", state={"mood": "good", "user_id": "eve"})
        found = await events(client, "/api/ag-ui", given)
        thread = (await client.get("/api/ag-ui/t1")).json()
    states = [event["snapshot"] for event in found if event["type"] == "STATE_SNAPSHOT"]
    assert states == [{"mood": "good"}] == [thread["state"]]


async def test_pages_begin_with_a_message_of_the_user() -> None:
    """A reply is never cut in two."""
    app = app_of(support(*["Hello."] * 3))
    async with client_of(app) as client:
        for number in range(3):
            await events(client, "/api/vercel", said(f"Hi {number}", f"m{number}"))
        last = (await client.get("/api/vercel/t1?limit=3")).json()
        before = (await client.get(f"/api/vercel/t1?before={last['position']}")).json()
    assert [message["id"] for message in last["messages"]] == ["m2", "m2-reply"]
    assert last["hasMore"]
    assert [message["id"] for message in before["messages"]] == [
        *("m0", "m0-reply"),
        *("m1", "m1-reply"),
    ]
    assert not before["hasMore"]


@pytest.mark.parametrize("path", ["/api/vercel/t1", "/api/ag-ui/t1", "/api/vercel/t1/stream"])
async def test_users_cannot_read_threads_of_others(path: str) -> None:
    """They are not found; a stream of one is none."""
    app = app_of(support("Hello."))
    async with client_of(app) as client:
        await events(client, "/api/vercel", said("Hi"))
    async with client_of(app, "eve") as client:
        answer = await client.get(path)
        said_there = await client.post("/api/vercel", json=said("Hi", "m2"))
    assert answer.status_code == (204 if path.endswith("stream") else 404)
    assert said_there.status_code == 404


CHANGED_TO_NAN: dict[str, Any] = {
    "interruptId": "q",
    "status": "resolved",
    "payload": {"approved": True, "arguments": {"amount": float("nan")}},
}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/vercel", {"messages": []}),
        ("/api/vercel", {"id": "a b", "messages": []}),
        ("/api/vercel", {"id": "t", "message": {"role": "user", "parts": [{"type": "file"}]}}),
        ("/api/vercel", {"id": "t", "message": {"role": "user", "parts": []}}),
        ("/api/vercel", {"id": "t", "messages": ["Hi"]}),
        ("/api/ag-ui", {"threadId": "t", "messages": []}),
        (
            "/api/ag-ui",
            run_input()
            | {"messages": [{"id": "m", "role": "user", "content": [{"type": "image"}]}]},
        ),
        ("/api/ag-ui", run_input() | {"resume": [{"interruptId": "q", "status": "maybe"}]}),
        ("/api/ag-ui", run_input() | {"resume": [CHANGED_TO_NAN]}),
    ],
)
async def test_malformed_requests_are_refused(path: str, body: Any) -> None:
    """Files, too, rather than left out."""
    async with client_of(app_of(support())) as client:
        answer = await client.post(path, content=json.dumps(body))
    assert answer.status_code == 400, answer.text


async def test_a_reply_that_resumes_after_a_later_message_stays_in_its_place() -> None:
    """It is whole there; its end is not streamed to a client that has the later message."""
    wait, begun, go = waiting()
    network = support(
        tool_call("refund", {"order": "A1"}),
        "At nine.",
        tool_call("wait", {}),
        "It is paid.",
        tools=(refund, wait),
    )
    app = app_of(network)
    async with client_of(app) as client:
        await events(client, "/api/vercel", said("Money back!"))
        await events(client, "/api/vercel", said("When do you open?", "m2"))
        seen = {path: (await client.get(f"{path}/t1")).json() for path in PATHS}
        (asked,) = (await client.get("/api/approvals")).json()["approvals"]
        answer = await client.post(f"/api/approvals/{asked['id']}", json={"action": "approve"})
        assert answer.status_code == 200
        await begun.wait()
        last = await events(client, "/api/vercel/t1/stream")
        go.set()
        await app.state.api.backend.idle()
        shown = {path: (await client.get(f"{path}/t1")).json()["messages"] for path in PATHS}
        body = run_input(messages=seen["/api/ag-ui"]["messages"])
        snapshots = await events(client, "/api/ag-ui", body)
    assert (last[0]["messageId"], last[-1]["finishReason"]) == ("m2-reply", "stop")
    first, reply, second, other = shown["/api/vercel"]
    assert [one["id"] for one in (first, reply, second, other)] == [
        "m1",
        "m1-reply",
        "m2",
        "m2-reply",
    ]
    assert [part.get("state") for part in reply["parts"]] == ["output-available"] * 2 + ["done"]
    assert reply["parts"][-1]["text"] == "It is paid."
    assert [part["text"] for part in other["parts"]] == ["At nine."]
    assert [one["messages"] for one in snapshots if one["type"] == "MESSAGES_SNAPSHOT"][-1] == (
        shown["/api/ag-ui"]
    )


PATHS = ("/api/vercel", "/api/ag-ui")


@tool
async def ship(order: str) -> AsyncGenerator[Any, None]:
    """Ship an order."""
    yield Progress("Packing", 0.5)
    yield Progress(data={"box": 1})
    yield f"shipped {order}"


SHIPPING = tool_call("ship", {"order": "A1"})
REPORTS = [
    {"toolName": "ship", "text": "Packing", "fraction": 0.5},
    {"toolName": "ship", "data": {"box": 1}},
]


async def test_use_chat_gets_the_progress_of_a_tool_as_passing_parts() -> None:
    """Beside its call and before its output; the thread has nothing of it."""
    app = app_of(support(SHIPPING, "Done.", tools=(ship,)))
    async with client_of(app) as client:
        found = await events(client, "/api/vercel", said("Ship it"))

    kinds = [event["type"] for event in found]
    reports = [event for event in found if event["type"] == "data-progress"]
    call = next(event for event in found if event["type"] == "tool-input-available")
    assert [one["data"] for one in reports] == [
        {"toolCallId": call["toolCallId"], **one} for one in REPORTS
    ]
    assert all(one["transient"] for one in reports)
    assert found.index(call) < kinds.index("data-progress")
    assert kinds.index("data-progress") < kinds.index("tool-output-available")


async def test_ag_ui_gets_the_progress_of_a_tool_as_custom_events() -> None:
    """Its clients hand them to whoever subscribes."""
    app = app_of(support(SHIPPING, "Done.", tools=(ship,)))
    async with client_of(app) as client:
        found = await events(client, "/api/ag-ui", run_input("Ship it"))

    start = next(event for event in found if event["type"] == "TOOL_CALL_START")
    reports = [event["value"] for event in found if event["type"] == "CUSTOM"]
    assert [one for one in reports if "toolName" in one] == [
        {"toolCallId": start["toolCallId"], **one} for one in REPORTS
    ]


LONG = "Your refund of 120 EUR was approved and will arrive on Monday. " * 3


async def test_a_text_that_broke_off_is_marked_as_cut_in_stream_and_thread() -> None:
    """The client shows what the thread holds, and can say that it is not whole."""
    for path, body in (("vercel", said("Hi")), ("ag-ui", run_input("Hi"))):
        async with client_of(app_of(support(Raw(reply=LONG, cut_after=2500)))) as client:
            streamed = await events(client, f"/api/{path}", body)
            shown = (await client.get(f"/api/{path}/t1")).json()["messages"][-1]
        if path == "vercel":
            (stored,) = shown["parts"]
            marks, text = stored["providerMetadata"]["agentkit"], stored["text"]
            last = [one for one in streamed if one["type"] == "text-start"][-1]["providerMetadata"]
            assert last == stored["providerMetadata"]
        else:
            marks, text = shown["metadata"], shown["content"]
            snapshots = [one for one in streamed if one["type"] == "MESSAGES_SNAPSHOT"]
            assert snapshots[-1]["messages"][-1] == shown
        assert marks["cut"] == "error"
        assert text
        assert LONG.startswith(text)


async def test_a_text_that_reached_its_limit_is_marked_and_a_whole_one_is_not() -> None:
    """The mark is the reason."""
    cut = {"text": "Your refund of", "finish": "length"}
    async with client_of(app_of(support(cut, "Whole."))) as client:
        await events(client, "/api/vercel", said("Hi"))
        await events(client, "/api/vercel", said("And?", "m2"))
        messages = (await client.get("/api/vercel/t1")).json()["messages"]
    marks = [p["providerMetadata"]["agentkit"] for m in messages[1::2] for p in m["parts"]]
    assert marks == [{"agent": "clerk", "cut": "length"}, {"agent": "clerk"}]
