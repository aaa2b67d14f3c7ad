"""A question with a picture."""

import asyncio
import base64

from agentkit_py import Agent, UserMessage
from agentkit_py.messages import ImageContent, TextContent
from agentkit_py.testing import ScriptedModel

model = ScriptedModel("A red dot.")  # or "openai:gpt-4.1", "anthropic:claude-sonnet-4-5", …
agent = Agent(name="inspector", system="You say what is in a picture.", model=model)
picture = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()  # or Path("box.png").read_bytes()


async def main() -> None:
    """The picture goes along in the form that the provider takes."""
    question = UserMessage(
        [TextContent("What is it?"), ImageContent(picture, media_type="image/png")]
    )
    print((await agent.run(question)).text)
    assert "image_url" in str(model.bodies[0]["messages"][-1])


if __name__ == "__main__":
    asyncio.run(main())
