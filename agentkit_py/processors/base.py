"""What a history processor is, and what it may know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from agentkit_py.messages import Message
from agentkit_py.runtime.port import StepTools

Level: TypeAlias = Literal["history", "network", "agent", "chain"]
"""Where a processor was configured; ``"chain"``: given to `apply_processors` by hand."""


class Tokenizer(Protocol):
    """Counts tokens of text. Counts are kept per message under `key`."""

    @property
    def key(self) -> str:
        """Names the way of counting, e.g. ``tiktoken:o200k_base``: same key, same counts."""
        ...

    def count(self, text: str) -> float:
        """How many tokens ``text`` has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorContext:
    """What a processor may know of the inference it prepares."""

    agent: str = ""
    network: str | None = None
    thread_id: str | None = None
    model: str | None = None
    context_window: int | None = None
    """The model's window in tokens, where known."""

    tokenizer: Tokenizer | None = None
    """The run's way of counting; None: the library's default."""

    prompt: Sequence[Message] = ()
    """The messages around the history: system prompt, user input, prefill."""

    protected: frozenset[int] = field(default_factory=frozenset[int], repr=False)
    """`id()` of the messages that this agent's own current calls consist of."""

    steps: StepTools | None = None
    """Steps, so that a processor that calls a model is durable."""

    def is_protected(self, message: Message) -> bool:
        """Whether ``message`` belongs to a call group this agent made in this run."""
        return id(message) in self.protected


class HistoryProcessor(ABC):
    """Changes what a model sees of the history; what is stored stays as it is.

    A processor returns a new list (or the one it got) and changes no message in place. It need not
    care for validity: calls and results are made whole after the whole chain.
    """

    @property
    def name(self) -> str:
        """Name in reports; the class's name unless overridden."""
        return type(self).__name__

    @property
    def reason(self) -> str:
        """Why it changes what it changes, in words, for reports; e.g. ``limit of 2000 tokens``."""
        return ""

    may_drop_protected: bool = False
    """Whether it may also drop calls that this agent made in the current run."""

    @abstractmethod
    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages that are left."""


ProcessorFunction: TypeAlias = (
    Callable[[Sequence[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]
    | Callable[
        [Sequence[Message], ProcessorContext], Sequence[Message] | Awaitable[Sequence[Message]]
    ]
)
"""A plain function of ``(messages)`` or ``(messages, context)``, sync or async."""

Processor: TypeAlias = HistoryProcessor | ProcessorFunction
"""What is accepted wherever a processor is."""
