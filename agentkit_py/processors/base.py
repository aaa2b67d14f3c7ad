"""History processors: the base class, their context, and the services and stores they may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.digests import fields_of, short_digest
from agentkit_py._core.json import JsonObject, JsonValue, record_of, time_of
from agentkit_py._core.validation import wrong_number
from agentkit_py.messages import Message, Messages, text_of

if TYPE_CHECKING:
    from agentkit_py.models.base import Compaction, Model, ModelReply, ToolSpec
    from agentkit_py.runtime.steps import StepTools
    from agentkit_py.search.vectors import VectorIndex

Level: TypeAlias = Literal["history", "network", "agent", "run", "chain"]
"""Level at which a processor was configured; ``"run"``: given to ``run(processors=…)``;
``"chain"``: given to `apply_processors` by hand."""


class Tokenizer(Protocol):
    """Counts tokens of text. Counts are kept per message under `key`."""

    @property
    def key(self) -> str:
        """Names the way of counting, e.g. ``tiktoken:o200k_base``: same key, same counts."""
        ...

    def count(self, text: str) -> float:
        """Return how many tokens ``text`` has."""
        ...


class ProcessorServices(Protocol):
    """Services of the engine for a processor that needs more than the messages it is given.

    All of them are durable: they happen once, however often a function is replayed.
    """

    def step_id(self, name: str) -> str:
        """Return an id for a step of this inference, unique and the same on each replay."""
        ...

    def new_id(self, key: str) -> str:
        """Return a unique id, the same on each replay."""
        ...

    def now(self, key: str) -> datetime:
        """Return the time (UTC) at which ``key`` happened."""
        ...

    async def ask_model(self, step_id: str, model: Model, messages: Messages) -> ModelReply:
        """Ask a model; it counts for the run's limits.

        Raises:
            ModelError: The call failed for good.
        """
        ...

    async def once(self, step_id: str, handler: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run ``handler`` in a step; its return value is remembered."""
        ...

    async def announce(self, activity: str, stage: Stage, facts: dict[str, Any]) -> None:
        """Emit an event: something begins or ends, e.g. a summary."""
        ...


Stage: TypeAlias = Literal["started", "completed", "failed"]
"""Stage of a processor's activity."""

CATCH_UP_CALLS = 2
"""Calls of a model or embedder that a turn may make for older messages, in each processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A text that replaces the beginning of a conversation."""

    text: str
    covered: int
    """Number of messages it replaces, counted from the beginning."""

    anchor: str
    """A checksum of the last of them, by which the place is found again."""

    tokens: int
    """Tokens of the text as a model is sent it."""

    original_tokens: int
    """Tokens of the messages that it replaces."""

    created_at: datetime
    place: int | None = None
    """Number of messages of the thread before the first that it does not replace; None: not known.
    It is more than ``covered`` where other processors had left messages out."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return record_of(self)

    @property
    def compression_rate(self) -> float:
        """The share of the tokens that the summary saves: 0.875 where 12,000 became 1,500."""
        return 1 - self.tokens / self.original_tokens if self.original_tokens else 0.0

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | JsonObject) -> Summary:
        """Return the summary that `to_dict` gave.

        Raises:
            KeyError: Something is missing.
            ValueError: Something is of another kind.
        """
        fields: Mapping[str, Any] = record
        place = fields.get("place")
        counts = [fields["covered"], 0 if place is None else place]
        wrong = [wrong_number(one, whole=True) for one in counts]
        wrong += [wrong_number(fields[name]) for name in ("tokens", "originalTokens")]
        texts = all(isinstance(fields[name], str) for name in ("text", "anchor", "createdAt"))
        if not texts or any(wrong):
            raise ValueError("expected strings (text, anchor, createdAt) and numbers")
        return cls(
            text=fields["text"],
            covered=fields["covered"],
            anchor=fields["anchor"],
            tokens=fields["tokens"],
            original_tokens=fields["originalTokens"],
            created_at=time_of(fields["createdAt"]),
            place=place,
        )


@runtime_checkable
class SummaryStore(Protocol):
    """Stores summaries with threads, and lets a single writer at a time make the next summary.

    A thread may have several, each under a key, since agents may see different histories of it.
    The lock is by time: a lock that its owner never released ends by itself.
    """

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """Return the summary; None if there is none."""
        ...

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most.

        Args:
            thread_id: The thread.
            key: Which of its summaries.
            owner: The run that asks; asking again is allowed.
            seconds: After which others may take the right.

        Returns:
            True if ``owner`` has it now; False: another run does.
        """
        ...

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Replace the summary with ``summary``, and release the lock.

        Returns:
            False, with nothing saved, if ``owner`` does not have the right any more.
        """
        ...

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back, if ``owner`` has it."""
        ...


@dataclass(frozen=True, slots=True)
class Extent:
    """Size of a part of a thread."""

    messages: int = 0
    """Number of messages."""

    size: int = 0
    """Characters of the counted text."""

    system: int = 0
    """Number of system messages among them."""

    def __add__(self, other: Extent) -> Extent:
        return Extent(
            self.messages + other.messages, self.size + other.size, self.system + other.system
        )


def extent_of(messages: Iterable[Message]) -> Extent:
    """Return the extent of ``messages``."""
    count = size = system = 0
    for message in messages:
        count += 1
        size += len(text_of(message))
        system += message.role == "system"
    return Extent(count, size, system)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorContext:
    """Facts about the inference that a processor prepares, and the services it may use."""

    agent: str = ""
    network: str | None = None
    thread_id: str | None = None
    state: Any = None
    """The run's `agentkit_py.State`; None outside of runs."""

    user_id: str | None = None
    """The user for whom the run is: ``user_id`` of the state's data."""

    tenant: str | None = None
    """The tenant for whom the run is: ``tenant`` or ``tenant_id`` of the state's data."""

    own_tools: frozenset[str] | None = None
    """Names of the agent's own tools, its servers' and hosted ones included, whether it may call
    them now or not; None: not known."""

    model: str | None = None
    context_window: int | None = None
    """The model's window in tokens, where known."""

    tokenizer: Tokenizer | None = None
    """The run's way of counting; None: the library's default."""

    prompt: Messages = ()
    """The messages around the history: system prompt, user input, prefill."""

    protected: frozenset[int] = field(default_factory=frozenset[int], repr=False)
    """`id()` of the messages that this agent's own current calls consist of."""

    pinned: frozenset[int] = field(default_factory=frozenset[int], repr=False)
    """`id()` of the messages that a `Pin` of any level holds."""

    history: Messages = field(default=(), repr=False)
    """Messages that the first processor was given: the loaded part of the thread, and this run."""

    unloaded: Extent = field(default_factory=Extent)
    """Extent of the thread before `history`, which is not loaded."""

    steps: StepTools | None = None
    """Steps, so that a processor that calls a model is durable."""

    level: Level = "chain"
    """Level of the processor that gets this context."""

    input: str = ""
    """The text of the user's message."""

    now: datetime | None = None
    """The time of the user's message; None outside of runs."""

    times: Callable[[], Mapping[int, datetime]] | None = field(default=None, repr=False)
    """Returns the times of the thread's messages, by `id()` of the messages that the first
    processor was given."""

    tools: Sequence[ToolSpec] = ()
    """The tools that the model is offered."""

    own_view: bool = False
    """True: earlier processors may have left other agents another part of the history, so that
    no text made of it may be shown to them."""

    hiding: tuple[HistoryProcessor, ...] = ()
    """Processors that ran before and may have hidden something: all but those `same_for_all`."""

    shares_prefix: bool = False
    """The request begins as those of other agents: cut rarely, and where a user's turn begins."""

    services: ProcessorServices | None = field(default=None, repr=False)
    """For processors that call a model or keep something; None outside of runs."""

    summaries: SummaryStore | None = field(default=None, repr=False)
    """Store of the thread's summaries."""

    vectors: VectorIndex | None = field(default=None, repr=False)
    """Store of embeddings of the thread's messages."""

    may_drop: bool = False
    """True if the processor that gets this context has ``may_drop_protected``."""

    memory: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """Values that processors keep until the run ends; nothing of it is recorded."""

    dry: bool = False
    """True: a dry run, in which a processor only notes its actions beyond the messages."""

    catching_up: bool = False
    """The thread is being indexed, for no run that waits: a processor makes all that it keeps with
    the thread now. Else it asks a model or an embedder `CATCH_UP_CALLS` times for it at the most,
    and leaves the rest to later turns."""

    wishes: list[Compaction] = field(default_factory=list["Compaction"], repr=False)
    """Requests for the provider's own compaction; the last counts."""

    notes: list[str] = field(default_factory=list[str], repr=False)
    """Notes of the processor about this call, for the report; see `note`."""

    parts: list[Any] = field(default_factory=list[Any], repr=False)
    """Report entries of processors that the processor has run with `apply_processors`."""

    def note(self, text: str) -> None:
        """Write the action and its reason into the report, in place of the processor's `reason`."""
        self.notes.append(text)

    async def once(self, name: str, handler: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run ``handler`` in a step, and remember its return value; outside of runs just run it."""
        if self.services is None:
            return await handler()
        return await self.services.once(self.services.step_id(name), handler)

    def is_protected(self, message: Message) -> bool:
        """Return whether ``message`` belongs to a tool exchange of this agent in this run."""
        return id(message) in self.protected

    @property
    def view(self) -> str:
        """A digest of the processors that hide messages before this processor; empty if none."""
        if not self.hiding:
            return ""
        by_agent = any(one.by_agent for one in self.hiding)
        own = [self.agent, *sorted(self.own_tools or ())] if by_agent else []
        return short_digest([[one.fingerprint for one in self.hiding], own])

    @property
    def held(self) -> frozenset[int]:
        """`id()` of the messages that the processor has to keep: protected and pinned ones."""
        return self.pinned if self.may_drop else self.protected | self.pinned


class HistoryProcessor(ABC):
    """Changes the part of the history that a model sees; stored messages stay as they are.

    A processor returns a new list (or the same list) and changes no message in place. It need not
    care for validity: calls and results are made whole after the whole chain.
    """

    @property
    def name(self) -> str:
        """Name in reports; the class's name unless overridden."""
        return type(self).__name__

    @property
    def reason(self) -> str:
        """The reason for its changes in reports, e.g. ``limit of 2000 tokens``."""
        return self._reason.format_map(vars(self))

    _reason: ClassVar[str] = ""
    """The text of `reason`; ``{limit}`` is replaced by the field of this name."""

    def __repr__(self) -> str:
        return f"<{self.name}: {self.reason}>" if self.reason else f"<{self.name}>"

    may_drop_protected: bool = False
    """True: it may also drop calls that this agent made in the current run."""

    same_for_all: ClassVar[bool] = False
    """True: its output does not depend on the agent, and it limits size instead of hiding
    anything. Only agents whose processors all say so share a prefix; see `Network.prefix`."""

    @property
    def hides(self) -> bool:
        """True if the messages it removes must not appear in any form, not even as part of a text.

        So it runs before the first processor that `makes_text` of messages, whatever the levels of
        the two. It has to decide by each message with its calls and results, not by its place. A
        plain function has it as an attribute. A warning names a processor that has not set it and
        runs after a processor that makes text.
        """
        return False

    @property
    def makes_text(self) -> bool:
        """True: it puts the words of several messages into a new message, as a summary does."""
        return False

    @property
    def by_agent(self) -> bool:
        """True unless it leaves all agents the same of messages from before the run."""
        return True

    @property
    def fingerprint(self) -> JsonValue:
        """Its class and settings; another value where it hides other messages.

        A summary is only used behind the same processors as when it was made, so not behind a
        filter that a deploy added. A class that is not a dataclass returns its own identity here.
        """
        return [fields_of(self), self.reason]

    masks: ClassVar[bool] = False
    """True: it changes words of messages so that they are not read, and removes no message."""

    looks_back: ClassVar[bool] = True
    """False: its output for newer messages does not depend on older ones; see `enough`."""

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return whether no message older than ``newest`` could change its output.

        Then older messages need not be loaded. A processor without this method gets everything; so
        do all that come after it, unless its class says that it does not look back
        (``looks_back = False``).

        Args:
            newest: The newest messages of the history, calls and results whole.
            context: What it may know.
        """
        return False

    @property
    def members(self) -> Sequence[Processor]:
        """Processors that run in its place, each with its report entry; none: it runs itself."""
        return ()

    def pinned(self, messages: Messages) -> Iterable[Message]:
        """Return messages of the full history that no processor of any level may drop."""
        return ()

    @abstractmethod
    def process(
        self, messages: Messages, context: ProcessorContext
    ) -> Messages | Awaitable[Messages]:
        """Return the messages that are left; it may be sync or async."""


ProcessorFunction: TypeAlias = (
    Callable[[Messages], Messages | Awaitable[Messages]]
    | Callable[[Messages, ProcessorContext], Messages | Awaitable[Messages]]
)
"""A plain function of ``(messages)`` or ``(messages, context)``, sync or async."""

Processor: TypeAlias = HistoryProcessor | ProcessorFunction
"""Every value that is accepted as a processor."""

Processors: TypeAlias = (
    Sequence[Processor] | Callable[[Any], Sequence[Processor] | Awaitable[Sequence[Processor]]]
)
"""Processors, or a function of the run's `agentkit_py.lifecycle.AgentContext` that gives them.

The function is asked once in a run for each agent, sync or async, when its first turn begins."""
