"""Compaction by the provider: the model sums up its own conversation when that grows too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from agentkit_py.messages import Messages
from agentkit_py.models.base import Compaction
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.settings import ConfiguredProcessor, optional, text, whole


@dataclass(frozen=True)
class ProviderCompaction(ConfiguredProcessor):
    """Asks the provider to sum up the conversation when the request grows beyond ``tokens``.

    The reply then holds the model's own summary as a block, and later requests of this agent begin
    with it: all before it is left out, but for system messages. Reasoning that comes after it
    holds. The thread keeps all messages.

    A summary stands only for exactly what this agent would be sent otherwise, at the host, account
    and model that made it. Where a processor, a hook, another model or system prompt changes any
    of that, and for all other agents, the messages themselves are sent. So put nothing beside it
    that cuts or rewrites; an agent that has it does not share its prefix.

    Claude from 4.6 on does it, and OpenAI's models from GPT-5 on, each at its own API. For others
    nothing happens, and the report says so.

    Args:
        tokens: Claude takes 50,000 at least, OpenAI 1,000; fewer count as that.
        instructions: What the summary has to hold, in place of Claude's own prompt for it; OpenAI
            takes none.

    Raises:
        ConfigurationError: ``tokens`` is no positive whole number, or the instructions are empty.
    """

    tokens: Annotated[int, whole(1)] = 150_000
    instructions: Annotated[str | None, optional(text)] = None

    @property
    def reason(self) -> str:
        """The length, for reports."""
        return f"summary by the model from {self.tokens} tokens on"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as they are, and note the wish."""
        context.wishes.append(Compaction(tokens=self.tokens, instructions=self.instructions))
        return messages
