"""The code of docs/guides/models.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:providers]
import asyncio

from agentkit_py import Agent, anthropic, gemini, openai
from agentkit_py.models import RetryPolicy, azure_openai, grok

models = [
    openai("gpt-4o"),  # OPENAI_API_KEY
    azure_openai("gpt-4o", endpoint="https://my-resource.openai.azure.com"),  # AZURE_OPENAI_API_KEY
    anthropic("claude-sonnet-4-5", max_tokens=2048),  # ANTHROPIC_API_KEY
    gemini("gemini-2.5-flash"),  # GEMINI_API_KEY
    grok("grok-4"),  # XAI_API_KEY
]
# --8<-- [end:providers]

# --8<-- [start:options]
model = openai(
    "gpt-4o",
    api_key="sk-1234",  # instead of the environment
    settings={"temperature": 0.2, "max_completion_tokens": 500},
    default_parameters={"brand_new": "not in the types yet"},
    headers={"OpenAI-Organization": "org-1"},
    timeout=30,  # seconds for one answer
    retry=RetryPolicy(attempts=5, min_wait=1, max_wait=20),
    context_window=128_000,  # tokens; processors may ask for it
)
colder = model.with_parameters(temperature=0)
# --8<-- [end:options]

# --8<-- [start:local]
local = openai("llama3.1", base_url="http://localhost:11434/v1")  # Ollama; no key needed
# --8<-- [end:local]

# --8<-- [start:client]
from dataclasses import replace

import httpx

proxied = replace(
    openai("gpt-4o"), transport=httpx.AsyncHTTPTransport(proxy="http://proxy.example:3128")
)
# --8<-- [end:client]

# --8<-- [start:function_model]
from agentkit_py.messages import text_of
from agentkit_py.models import ModelRequest, function_model


async def shout(request: ModelRequest) -> str:
    """Gets messages and tools as agents have them; a `ModelReply` could call a tool, too."""
    return text_of(request.messages[-1]).upper()


rules = function_model(shout)
# --8<-- [end:function_model]

# --8<-- [start:respond]
from typing import Any


async def respond(body: dict[str, Any]) -> object:
    """Answers in this process: gets the request's JSON, returns the provider's."""
    said = body["messages"][-1]["content"]
    return {"choices": [{"message": {"role": "assistant", "content": said.upper()}}]}


echo = replace(openai("gpt-4o", api_key="none"), answers=respond)
# --8<-- [end:respond]

# --8<-- [start:errors]
from agentkit_py.errors import AuthenticationError, ModelError, RateLimitError
from agentkit_py.testing import FakeProvider, error


async def what_fails(agent: Agent) -> str:
    """One base class, and classes for what one may want to tell apart."""
    try:
        result = await agent.run("Hello")
    except AuthenticationError as failure:
        return f"check {failure.provider}'s key"
    except RateLimitError as failure:
        return f"come back in {failure.retry_after} s"
    except ModelError as failure:
        return f"{failure.provider} failed; worth another try: {failure.retriable}"
    return result.text
    # --8<-- [end:errors]


async def main() -> None:
    """Ask a provider on this machine, which refuses and answers as the real ones do."""
    with FakeProvider([error(401, "no such key"), error(429, "slow down"), "Hello!"]) as provider:
        mine = openai(
            "gpt-4o",
            api_key="sk-test",
            base_url=provider.base_url("openai"),
            retry=RetryPolicy(attempts=1),
        )
        agent = Agent(name="host", system="You are polite.", model=mine)
        assert await what_fails(agent) == "check openai's key"
        assert await what_fails(agent) == "come back in None s"
        assert await what_fails(agent) == "Hello!"
    for model in (rules, echo):
        shouting = Agent(name="echo", system="You repeat.", model=model)
        assert (await shouting.run("hello")).text == "HELLO"
    assert colder.default_parameters["temperature"] == 0


if __name__ == "__main__":
    asyncio.run(main())
