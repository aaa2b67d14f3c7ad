"""Personal data masked in what a model sees."""

import asyncio

from agentkit_py import Redact, Redactor, TextMessage, apply_processors


async def main() -> None:
    """Try it by hand."""
    redactor = Redactor({"booking": r"BK\d+", "email": r"[\w.]+@[\w.]+\w"})
    question = TextMessage("user", "Is BK17 for ada@example.com paid?")
    (masked,) = await apply_processors([question], [Redact(redactor)])
    assert isinstance(masked, TextMessage)
    assert masked.text == "Is [booking] for [email] paid?"

    # The same object for stores, logs and traces.
    assert redactor.text("BK17") == "[booking]"
    assert redactor.value({"of": ["BK17"]}) == {"of": ["[booking]"]}

    built_in = Redactor(["email", "card", "phone"])
    assert built_in.text("card 4111 1111 1111 1111") == "card [card]"


if __name__ == "__main__":
    asyncio.run(main())
