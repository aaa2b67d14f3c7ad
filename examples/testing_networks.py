"""The code of docs/guides/testing.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:scripted]
import asyncio

from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return f"Sunny in {city}"


weather = Agent(name="weather", system="You know the weather.", tools=[get_weather], max_iter=3)


async def test_the_agent_calls_its_tool() -> None:
    """Replies in order; what was sent is checked as the real provider would."""
    model = ScriptedModel(tool_call("get_weather", {"city": "Graz"}), "Sunny!")
    result = await weather.run("Weather in Graz?", model=model)

    assert result.text == "Sunny!"
    model.assert_saw("You know the weather.", "Weather in Graz?", "Sunny in Graz")
    model.assert_finished()  # every reply used, no request refused
    # --8<-- [end:scripted]


# --8<-- [start:provider]
async def test_with_every_format() -> None:
    """Play the script in the wire format of each provider."""
    for provider in ("openai", "azure_openai", "anthropic", "gemini", "grok"):
        model = ScriptedModel(
            tool_call("get_weather", {"city": "Graz"}), "Sunny!", provider=provider
        )
        await weather.run("Weather in Graz?", model=model)
        model.assert_finished()
        # --8<-- [end:provider]


# --8<-- [start:fake]
from agentkit_py import openai
from agentkit_py.models import RetryPolicy
from agentkit_py.testing import FakeProvider, error


async def test_over_http() -> None:
    """A provider on 127.0.0.1: real HTTP, with failures where you want them."""
    with FakeProvider([error(429, "slow down"), "Sunny!"]) as provider:
        model = openai(
            "gpt-4o",
            api_key="sk-test",
            base_url=provider.base_url("openai"),
            retry=RetryPolicy(attempts=2, min_wait=0),
        )
        result = await weather.run("Weather?", model=model)
    assert result.text == "Sunny!"
    assert len(provider.requests) == 2
    assert not provider.rejections
    # --8<-- [end:fake]


# --8<-- [start:events]
from agentkit_py.events.types import ToolFinished
from agentkit_py.testing import EventLog


async def test_what_happened() -> None:
    """Every step of a run is an event."""
    log = EventLog()
    model = ScriptedModel(tool_call("get_weather", {"city": "Graz"}), "Sunny!")
    await weather.run("Weather?", model=model, observer=log)
    assert [event.result.content for event in log.of(ToolFinished)] == [{"data": "Sunny in Graz"}]
    assert log.story[0] == "RunStarted agent weather"
    # --8<-- [end:events]


async def main() -> None:
    """All of them, as pytest would."""
    await test_the_agent_calls_its_tool()
    await test_with_every_format()
    await test_over_http()
    await test_what_happened()


if __name__ == "__main__":
    asyncio.run(main())
