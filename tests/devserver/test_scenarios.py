"""The support network as an Inngest function, on the Dev Server and on the replay executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentkit_py.testing import tool_call, tool_calls
from agentkit_py.testing.executor import KillAt

from .places import Place, ReplayPlace, Replies, ServerPlace
from .server import ServerClient, eventually
from .support import CANCEL, FREED, SUPPORT

HAND_OVER = {
    desk: [tool_call("hand_over", {"desk": desk}), f"{desk} will help."]
    for desk in ("billing", "bookings", "both")
}


def asks(customer: str, **data: Any) -> dict[str, Any]:
    """An event's data."""
    state = {"customer": customer}
    return {"input": f"I am {customer}.", "threadId": customer, "state": state, **data}


async def begin(place: Place, customer: str, replies: Replies, **data: Any) -> Any:
    """Start the network for a customer."""
    place.model.says(customer, replies)
    return await place.start(SUPPORT, asks(customer, **data))


def contents(output: Any) -> list[Any]:
    """Return the contents of the tool results that the models got."""
    return [call["content"] for record in output["results"] for call in record["toolCalls"]]


async def test_a_run_goes_from_desk_to_desk(place: Place, customer: str) -> None:
    """Model calls through the server, each tool once, state and text in the output."""
    billing = [tool_call("refund", {"amount": 50}), "You get 50 back."]
    run = await begin(place, customer, {"triage": HAND_OVER["billing"], "billing": billing})
    end = await place.end(run)
    assert (end.status, end.output["text"]) == ("completed", "You get 50 back.")
    assert end.output["state"] == {"customer": customer, "desk": "billing"}
    assert end.output["threadId"] == customer
    assert place.books.of(customer) == {"hand over to billing": 1, "refund 50": 1}
    steps = await place.steps(run)
    assert [name for name in steps if name.endswith(".infer")] == [
        "support.triage.0.0.infer",
        "support.triage.0.1.infer",
        "support.billing.0.0.infer",
        "support.billing.0.1.infer",
    ]


async def test_a_second_run_continues_the_thread(place: Place, customer: str) -> None:
    """Another run of the function loads it from the store."""
    turn = {"triage": ["How can I help?"]}
    await place.end(await begin(place, customer, turn))
    run = await begin(place, customer, {"triage": ["As I said."]})
    end = await place.end(run)
    texts = [m["content"] for record in end.output["results"] for m in record["output"]]
    assert texts == ["As I said."]
    assert "How can I help?" in place.model.read("As I said.")
    assert "support.history.count" in await place.steps(run)  # which brings the newest page along


@pytest.mark.parametrize("whose", ["another", "nobody's"])
async def test_a_thread_of_another_user_is_not_opened(
    place: Place, customer: str, whose: str
) -> None:
    """Bob's event with Ada's thread sent her words to the model."""
    words = f"The secret of {customer}."
    first = {} if whose == "nobody's" else {"userId": f"{customer}ada"}
    place.model.says(customer, {"triage": [words]})
    data = {"input": f"I am {customer}.", "threadId": customer, "state": {"customer": customer}}
    await place.end(await place.start(SUPPORT, {**data, **first}))
    end = await place.end(await place.start(SUPPORT, {**data, "userId": f"{customer}bob"}))
    assert end.status == "failed"
    assert "ThreadNotFoundError" in json.dumps(end.output)


async def test_a_tool_that_fails_for_now_is_tried_again(place: Place, customer: str) -> None:
    """The step is retried until it succeeds, and the steps after it run once."""
    bookings = [tool_call("reserve", {"seat": "12A"}), "You sit in 12A."]
    run = await begin(place, customer, {"triage": HAND_OVER["bookings"], "bookings": bookings})
    end = await place.end(run)
    assert (end.status, end.output["text"]) == ("completed", "You sit in 12A.")
    assert place.books.of(customer) == {"hand over to bookings": 1, "reserve 12A": 2}


@pytest.mark.parametrize("approved", [True, False])
async def test_a_person_decides(place: Place, customer: str, approved: bool) -> None:
    """The run waits for the event and continues with the answer."""
    billing = [
        tool_calls(("refund", {"amount": 20}), ("refund", {"amount": 500})),
        "That is what we can do.",
    ]
    run = await begin(place, customer, {"triage": HAND_OVER["billing"], "billing": billing})
    await place.waits(run, ".approve")
    assert place.books.of(customer) == {"hand over to billing": 1}
    await place.answer(run, {"approved": approved, "reason": "Says the boss."})
    end = await place.end(run)
    assert end.output["text"] == "That is what we can do."
    small, large = contents(end.output)[1:]
    assert small == {"data": "paid 20"}
    expected = {"refund 20": 1, "refund 500": 1} if approved else {"refund 20": 1}
    assert place.books.of(customer) == {"hand over to billing": 1, **expected}
    if not approved:
        assert large["error"]["message"].endswith("Reason: Says the boss.")


async def test_a_tool_waits_for_an_event(place: Place, customer: str) -> None:
    """Its own, and nobody else's."""
    bookings = [tool_call("wait_for_seat"), "12B is yours."]
    run = await begin(place, customer, {"triage": HAND_OVER["bookings"], "bookings": bookings})
    await place.waits(run, "freed.1")
    await place.send(FREED, {"customer": "customer-other", "seat": "1A"})
    await place.send(FREED, {"customer": customer, "seat": "12B"})
    assert contents((await place.end(run)).output)[-1] == {"data": "12B"}


async def test_a_run_is_cancelled_by_an_event(place: Place, customer: str) -> None:
    """The person's answer comes too late and changes nothing."""
    billing = [tool_call("refund", {"amount": 500}), "Paid."]
    run = await begin(place, customer, {"triage": HAND_OVER["billing"], "billing": billing})
    await place.waits(run, ".approve")
    await place.send(CANCEL, {"threadId": customer})
    assert (await place.end(run)).status == "cancelled"
    assert place.books.of(customer) == {"hand over to billing": 1}


async def test_another_function_is_a_tool(place: Place, customer: str) -> None:
    """It is invoked, does its own steps, and its output is the result."""
    billing = [tool_call("lookup", {"order": customer}), "It is on its way."]
    replies = {"triage": HAND_OVER["billing"], "billing": billing}
    end = await place.end(await begin(place, customer, replies))
    assert contents(end.output)[-1] == {"data": {"order": customer, "status": "shipped"}}
    assert place.books.of(customer)["look up"] == 1


async def test_calls_of_one_reply_and_agents_run_together(place: Place, customer: str) -> None:
    """Each once, and their results in the order given."""
    billing = [tool_calls(*(("refund", {"amount": n}) for n in (1, 2, 3))), "Three refunds."]
    bookings = [tool_calls(("reserve", {"seat": "1A"}), ("reserve", {"seat": "1B"})), "Two seats."]
    replies = {"triage": HAND_OVER["both"], "billing": billing, "bookings": bookings}
    end = await place.end(await begin(place, customer, replies))
    assert end.status == "completed"
    authors = [record["agentName"] for record in end.output["results"]]
    assert authors == ["triage"] * 2 + ["billing"] * 2 + ["bookings"] * 2
    assert contents(end.output)[1:4] == [{"data": f"paid {n}"} for n in (1, 2, 3)]
    assert place.books.of(customer) == {
        "hand over to both": 1,
        **{f"refund {n}": 1 for n in (1, 2, 3)},
        "reserve 1A": 2,
        "reserve 1B": 2,
    }


async def test_the_run_is_streamed(place: Place, customer: str) -> None:
    """The user's channel has each chunk once, by id, without a gap."""
    billing = [tool_call("refund", {"amount": 50}), "You get 50 back."]
    replies = {"triage": HAND_OVER["billing"], "billing": billing}
    async with place.listening(customer) as received:
        await place.end(await begin(place, customer, replies, userId=customer))

        async def ended() -> bool | None:
            return any(chunk["event"] == "stream.ended" for chunk in received()) or None

        await eventually(ended, "the end of the stream")
        chunks = {chunk["id"]: chunk for chunk in received()}
    ordered = sorted(chunks.values(), key=lambda chunk: chunk["sequenceNumber"])
    assert [chunk["sequenceNumber"] for chunk in ordered] == list(range(len(ordered)))
    events = [chunk["event"] for chunk in ordered]
    assert (events[0], events[-2:]) == ("run.started", ["run.completed", "stream.ended"])
    assert "".join(c["data"]["delta"] for c in ordered if c["event"] == "text.delta") == (
        "billing will help.You get 50 back."
    )


async def test_a_worker_that_dies_while_a_person_thinks_is_not_missed(
    place: Place, customer: str
) -> None:
    """The new one continues where the run is."""
    billing = [tool_call("refund", {"amount": 500}), "Paid."]
    run = await begin(place, customer, {"triage": HAND_OVER["billing"], "billing": billing})
    await place.waits(run, ".approve")
    place.restart()
    await place.answer(run, {"approved": True})
    end = await place.end(run)
    assert (end.status, end.output["text"]) == ("completed", "Paid.")
    assert place.books.of(customer) == {"hand over to billing": 1, "refund 500": 1}


SLOW = [tool_call("refund", {"amount": 7}), tool_call("slow"), "Everything is done."]


async def test_a_worker_that_dies_inside_a_step_has_it_done_again(
    tmp_path: Path, customer: str
) -> None:
    """That one step, and nothing else."""
    kill = KillAt(step="support.billing.0.1.tool.0.slow", when="inside")
    place = ReplayPlace(tmp_path, kill=kill)
    run = await begin(place, customer, {"triage": HAND_OVER["billing"], "billing": SLOW})
    assert (await place.end(run)).output["text"] == "Everything is done."
    assert place.books.of(customer) == {"hand over to billing": 1, "refund 7": 1, "slow": 2}


@pytest.mark.devserver
async def test_a_worker_process_that_is_killed_inside_a_step_has_it_done_again(
    request: pytest.FixtureRequest, customer: str
) -> None:
    """A step that was killed midway runs again, here in a real process in the middle of a tool."""
    client_url = request.getfixturevalue("server_url")
    process, model, folder = request.getfixturevalue("worker")
    client = ServerClient(client_url)
    place = ServerPlace(client, process, model, folder)
    (folder / "hang").touch()
    run = await begin(place, customer, {"triage": HAND_OVER["billing"], "billing": SLOW})

    async def hangs() -> bool | None:
        return place.books.of(customer)["slow"] == 1 or None

    await eventually(hangs, "the tool to be called")
    place.restart()
    end = await place.end(run)
    (folder / "hang").unlink()
    await client.close()
    assert end.status == "completed", end.output
    assert end.output["text"] == "Everything is done."
    counted = place.books.of(customer)
    assert (counted["refund 7"], counted["hand over to billing"]) == (1, 1)
    assert counted["slow"] == 2
