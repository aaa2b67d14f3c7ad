"""The code of docs/guides/errors.md."""

# --8<-- [start:catch]
import asyncio

from agentkit_py import Agent, AgentKitError
from agentkit_py.errors import ConfigurationError, ModelError
from agentkit_py.testing import ScriptedModel, error

agent = Agent(name="host", system="You help.")


async def answer(question: str, model: ScriptedModel | None = None) -> str:
    """Facts are attributes; nobody has to read messages."""
    try:
        return (await agent.run(question, model=model)).text
    except ConfigurationError as problem:  # what was passed cannot work: a bug in the program
        return f"configuration: {problem}"
    except ModelError as problem:  # one model call failed for good
        return f"{problem.provider} {problem.model} retriable={problem.retriable}"
    except AgentKitError as problem:  # everything else of this library
        return f"{type(problem).__name__}"
    # --8<-- [end:catch]


async def main() -> None:
    """Show the error of each."""
    assert await answer("Hello", ScriptedModel("Hello.")) == "Hello."
    assert (await answer("Hello")).startswith("configuration: Agent 'host' has no model")
    failing = ScriptedModel(error(503, "overloaded"))
    assert await answer("Hello", failing) == "openai gpt-4o retriable=True"


if __name__ == "__main__":
    asyncio.run(main())
