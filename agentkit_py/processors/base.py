"""What a history processor is, and what it may know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from agentkit_py._core.json import JsonValue
from agentkit_py.messages import Message
from agentkit_py.models.base import Model, ModelReply, ToolSpec
from agentkit_py.processors.places import Extent
from agentkit_py.processors.summaries import SummaryStore
from agentkit_py.processors.vectors import VectorIndex
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


class Host(Protocol):
    """What the engine does for a processor that needs more than the messages it is given.

    All of it is durable: it happens once, however often a function is replayed.
    """

    def step_id(self, name: str) -> str:
        """An id for a step of this inference that no other step has; the same on each replay."""
        ...

    def new_id(self, key: str) -> str:
        """An id that nobody else has; the same on each replay."""
        ...

    def now(self, key: str) -> datetime:
        """The time (UTC) at which ``key`` happened."""
        ...

    async def ask_model(
        self, step_id: str, model: Model, messages: Sequence[Message]
    ) -> ModelReply:
        """Ask a model; it counts for the run's limits.

        Raises:
            ModelError: The call failed for good.
        """
        ...

    async def once(self, step_id: str, handler: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run ``handler`` in a step; what it returns is remembered."""
        ...

    async def announce(self, activity: str, stage: Stage, facts: dict[str, Any]) -> None:
        """Tell whoever watches the run that something begins or ends, e.g. a summary."""
        ...


Stage: TypeAlias = Literal["started", "completed", "failed"]
"""Where an activity of a processor is."""


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

    pinned: frozenset[int] = field(default_factory=frozenset[int], repr=False)
    """`id()` of the messages that a `Pin` of any level holds."""

    history: Sequence[Message] = field(default=(), repr=False)
    """What the first processor was given: the part of the thread that is loaded, and this run."""

    before: Extent = field(default_factory=Extent)
    """How much of the thread stands before that and is not loaded."""

    steps: StepTools | None = None
    """Steps, so that a processor that calls a model is durable."""

    level: Level = "chain"
    """Where the processor that gets it was configured."""

    input: str = ""
    """The text of the user's message."""

    tools: Sequence[ToolSpec] = ()
    """The tools that the model is offered."""

    host: Host | None = field(default=None, repr=False)
    """For processors that call a model or keep something; None outside of runs."""

    summaries: SummaryStore | None = field(default=None, repr=False)
    """Where summaries of the thread are kept."""

    vectors: VectorIndex | None = field(default=None, repr=False)
    """Where embeddings of the thread's messages are kept."""

    memory: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """What processors remember until the run ends; nothing of it is recorded."""

    dry: bool = False
    """Nothing may happen: a processor only notes what it would do beyond its messages."""

    notes: list[str] = field(default_factory=list[str], repr=False)
    """What the processor says of this call, for the report; see `note`."""

    def note(self, text: str) -> None:
        """Say in the report what was done and why, in place of the processor's `reason`."""
        self.notes.append(text)

    def is_protected(self, message: Message) -> bool:
        """Whether ``message`` belongs to a call group this agent made in this run."""
        return id(message) in self.protected

    @property
    def held(self) -> frozenset[int]:
        """`id()` of the messages that stay whatever a processor does: protected and pinned ones."""
        return self.protected | self.pinned if self.pinned else self.protected


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

    def __repr__(self) -> str:
        """Its name, and why it does what it does."""
        return f"<{self.name}: {self.reason}>" if self.reason else f"<{self.name}>"

    may_drop_protected: bool = False
    """Whether it may also drop calls that this agent made in the current run."""

    looks_back: ClassVar[bool] = True
    """Whether what it leaves of newer messages depends on older ones; see `enough`."""

    async def enough(self, newest: Sequence[Message], context: ProcessorContext) -> bool:
        """Whether nothing older than ``newest`` could change what it leaves.

        Then older messages need not be loaded. A processor that does not say gets everything; so
        do all where this one comes first, unless it says that it does not look back
        (``looks_back = False``).

        Args:
            newest: The newest messages of the history, calls and results whole.
            context: What it may know.
        """
        del newest, context
        return False

    @property
    def members(self) -> Sequence[Processor]:
        """Processors that run in its place, each with its report entry; none: it runs itself."""
        return ()

    def pinned(self, messages: Sequence[Message]) -> Iterable[Message]:
        """Messages of the full history that no processor of any level may drop."""
        del messages
        return ()

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
