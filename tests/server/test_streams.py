"""Server-sent events: a run as it happens, and after a break."""

from __future__ import annotations

from agentkit_py.testing import tool_call
from agentkit_py import tool
from tests.server.world import app_of, listening, message, post, served, support


@tool
def price(hat: str) -> str:
    """What a hat costs."""
    return f"{hat}: 30"


async def test_a_message_is_answered_by_the_stream() -> None:
    """The whole run, in order, to the end."""
    network = support(tool_call("price", {"hat": "bowler"}), "It costs 30.", tools=(price,))
    async with served(app_of(network)) as url, listening(url) as stream:
        answer = await post(url, "/api/chat", message("What does the bowler cost?", "t1"))
        assert answer.status_code == 200, answer.text
        assert answer.json()["threadId"] == "t1"
        await stream.until("stream.ended")
    assert stream.names[0] == "run.started"
    assert stream.text == "It costs 30."
    assert [c["sequenceNumber"] for c in stream.chunks] == list(range(len(stream.chunks)))
    assert {c["data"].get("threadId") for c in stream.chunks} == {"t1"}
