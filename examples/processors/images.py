"""Images, all or the newest."""

import asyncio

from agentkit_py import TextMessage
from agentkit_py.messages import FileContent, ImageContent, TextContent
from agentkit_py.processors import KeepImages, StripImages, apply_processors


async def main() -> None:
    """Try it by hand."""
    photo = ImageContent("iVBORw0KGgo=", media_type="image/png")
    link = ImageContent(url="https://example.com/damage.jpg")
    invoice = FileContent("JVBERi0=", media_type="application/pdf", name="invoice.pdf")
    messages = [
        TextMessage("user", [TextContent("The box:"), photo]),
        TextMessage("user", [TextContent("The damage:"), link, invoice]),
    ]
    (first, second) = await apply_processors(messages, [KeepImages(last=1)])
    assert isinstance(first, TextMessage)
    assert first.text == "The box:[image left out]"
    assert second is messages[1]

    left = await apply_processors(messages, [StripImages(files=True)])
    assert isinstance(left[1], TextMessage)
    assert left[1].text == "The damage:[image left out][file invoice.pdf left out]"


if __name__ == "__main__":
    asyncio.run(main())
