"""Personal data masked in what a model sees, in what is stored, and in what is logged."""

import asyncio
import io
import logging

from agentkit_py import Agent, MemoryHistory, TextMessage
from agentkit_py.processors import Redact, RedactingFilter, Redactor, apply_processors
from agentkit_py.stores import redacted
from agentkit_py.testing import ScriptedModel

# --8<-- [start:model]
redactor = Redactor({"booking": r"BK\d+", "email": r"[\w.]+@[\w.]+\w"})


async def what_a_model_sees() -> None:
    """As a processor; tried by hand."""
    question = TextMessage("user", "Is BK17 for ada@example.com paid?")
    (masked,) = await apply_processors([question], [Redact(redactor)])
    assert isinstance(masked, TextMessage)
    assert masked.text == "Is [booking] for [email] paid?"

    built_in = Redactor(["email", "card", "phone"])
    assert built_in.text("card 4111 1111 1111 1111") == "card [card]"
    assert built_in.value({"to": ["ada@example.com"]}) == {"to": ["[email]"]}


# --8<-- [end:model]


# --8<-- [start:store]
async def what_is_stored() -> None:
    """Any store, told nothing personal."""
    store = redacted(MemoryHistory(), redactor)
    model = ScriptedModel("BK17 is paid.")
    agent = Agent(name="desk", system="You help.", model=model, history=store)
    result = await agent.run("Is BK17 for ada@example.com paid?", thread_id="t")

    assert result.text == "BK17 is paid."
    said = [m.text for m in await store.messages("t") if isinstance(m, TextMessage)]
    assert said == ["Is [booking] for [email] paid?", "[booking] is paid."]


# --8<-- [end:store]


# --8<-- [start:logs]
def what_is_logged() -> None:
    """A filter for handlers: message, arguments, extra fields, exceptions."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.addFilter(RedactingFilter(redactor))
    log = logging.getLogger("shop")
    log.addHandler(handler)
    log.warning("%s asked for %s", "ada@example.com", "BK17")
    assert lines.getvalue() == "[email] asked for [booking]\n"


# --8<-- [end:logs]


async def main() -> None:
    """All three."""
    await what_a_model_sees()
    await what_is_stored()
    what_is_logged()


if __name__ == "__main__":
    asyncio.run(main())
