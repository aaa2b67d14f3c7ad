"""Errors of tools and reasoning: who reads which words of them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, Tool, tool
from agentkit_py.errors import ToolError
from agentkit_py.messages import Finish, ReasoningMessage, TextMessage
from agentkit_py.models import ModelReply, function_model
from agentkit_py.routing import once
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.test_front_ends import events, run_input
from tests.server.test_front_ends import said as vercel_message
from tests.server.world import app_of, client_of, listening, message, post, served, support

PATHS = ("/api/threads/t1", "/api/ag-ui/t1", "/api/vercel/t1")
ADDRESS = "postgres://admin:hunter2@db.internal/prod"


@tool
def stock(item: str) -> int:
    """Say how many are left."""
    raise ConnectionError(f"{ADDRESS} failed, password=hunter2")


@tool(name="stock")
def meant(item: str) -> int:
    """Say how many are left."""
    raise ToolError("the warehouse is closed on Sundays", to_user="Please ask on Monday.")


def shop(broken: Tool) -> tuple[Network[Any], ScriptedModel]:
    """A network whose tool fails."""
    network = support(
        tool_call("stock", {"item": "hat"}),
        "I cannot say.",
        tools=(broken,),
        history=MemoryHistory(),
    )
    model = network.default_model
    assert isinstance(model, ScriptedModel)
    return network, model


async def test_a_customer_reads_no_text_of_an_error_in_any_front_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has the error under the reference that the customer gets, without passwords."""
    network, model = shop(stock)
    app = app_of(network)
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("How many?", "t1", id="m1"))
        await stream.until("stream.ended")
        async with client_of(app) as ada:
            texts = [str(stream.chunks)]
            texts += [(await ada.get(path)).text for path in PATHS]
            texts.append(str(await events(ada, "/api/ag-ui", run_input("How many?"))))
            texts.append(str(await events(ada, "/api/vercel", vercel_message("How many?"))))
    for text in texts:
        assert not [word for word in ("db.internal", "hunter2", "ConnectionError") if word in text]
    (record,) = [one for one in caplog.records if one.exc_info and "stock" in one.getMessage()]
    reference = record.getMessage().split("reference ")[1].rstrip(")")
    assert f"(reference {reference})" in texts[0]
    assert f"(reference {reference})" in texts[1]
    assert "ConnectionError" in caplog.text
    assert "hunter2" not in caplog.text
    read = str(model.bodies[1])
    assert "ConnectionError" in read
    assert "hunter2" not in read
    assert "db.internal" not in read


async def test_a_tools_own_words_reach_the_model_and_the_customer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each gets those that are meant for it, and the log none."""
    caplog.set_level(logging.INFO)
    network, model = shop(meant)
    app = app_of(network)
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("How many?", "t1", id="m1"))
        await stream.until("stream.ended")
    assert "Please ask on Monday." in str(stream.chunks)
    assert "Sundays" not in str(stream.chunks)
    assert "closed on Sundays" in str(model.bodies[1])
    assert not [one for one in caplog.records if one.exc_info]


async def test_staff_read_the_text_of_an_error_without_secrets() -> None:
    """The staff page shows the name of the error, and what it says."""
    network, _ = shop(stock)
    app = app_of(network, staff=["mia"])
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("How many?", "t1", id="m1"))
        await stream.until("stream.ended")
    async with client_of(app, "mia") as mia:
        text = (await mia.get("/api/takeovers/t1")).text
    assert "ConnectionError" in text
    assert "hunter2" not in text


async def test_a_publisher_of_ones_own_gets_the_texts_of_errors() -> None:
    """As TypeScript sends them."""
    network, _ = shop(meant)
    chunks: list[dict[str, Any]] = []
    await network.run("?", streaming=StreamingConfig(publish=chunks.append))
    assert "closed on Sundays" in str(chunks)


def polite(context: Any, output: str) -> None:
    """A guardrail that passes everything."""


@pytest.mark.parametrize("guarded", [True, False])
async def test_reasoning_of_an_agent_with_output_guardrails_is_not_shown(*, guarded: bool) -> None:
    """No guardrail has read it; the model gets it back nevertheless."""

    async def think(_request: Any) -> ModelReply:
        thought = ReasoningMessage("The SECRET margin is 40 %.")
        return ModelReply(
            messages=(thought, TextMessage("assistant", "It costs 5.")),
            finish=Finish("stop", "stop"),
        )

    clerk = Agent(
        name="clerk",
        system="S",
        model=function_model(think),
        output_guardrails=[polite] if guarded else [],
    )
    network = Network(name="n", agents=[clerk], router=once("clerk"), history=MemoryHistory())
    app = app_of(network)
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("How much?", "t1", id="m1"))
        await stream.until("stream.ended")
        async with client_of(app) as ada:
            texts = [str(stream.chunks)]
            texts += [(await ada.get(path)).text for path in PATHS]
    assert [("SECRET" in text) for text in texts] == [not guarded] * 4
    assert all("It costs 5." in text for text in texts)


async def test_pieces_of_hidden_reasoning_are_not_streamed_either() -> None:
    """An agent that streams before its guardrails have read shows its text only."""
    said = {"text": "It costs 5.", "reasoning": "The SECRET margin is 40 %."}
    model = ScriptedModel(said, provider="anthropic")
    clerk = Agent(
        name="clerk",
        system="S",
        model=model,
        output_guardrails=[polite],
        stream_before_response=True,
    )
    seen: list[str] = []
    await clerk.run("How much?", streaming=StreamingConfig(publish=lambda c: seen.append(str(c))))
    assert "5." in "".join(seen)
    assert "SECRET" not in "".join(seen)
