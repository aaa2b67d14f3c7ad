"""RunMessages: the user's messages in a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from agentkit_py._engine.prompt import assemble
from agentkit_py._engine.transcript import users_words
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, TextMessage, UserMessage, text_of_parts
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import USER, AgentResult
from agentkit_py.runtime.port import Runtime

CheckedInput: TypeAlias = tuple[int, str | None]
"""An input guardrail (by its id in this process), and the id of the message that it has checked."""


@dataclass(slots=True)
class RunInput:
    """The user's message with its id and time filled in."""

    message: UserMessage
    said: TextMessage | None = field(init=False)
    """The message as the model and the transcript have it; None if it is empty."""

    text: str = field(init=False)
    """The message's text."""

    _prompt: tuple[Message, ...] = field(default=(), init=False)
    _parts: tuple[str, str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Make the message that models see."""
        content = self.message.content
        if not isinstance(content, str):
            content = tuple(content)
        self.said = TextMessage("user", content, from_history=False) if content else None
        self.text = text_of_parts(content)

    @classmethod
    def of(cls, given: str | UserMessage, runtime: Runtime, prefix: str) -> RunInput:
        """Return the input of ``run`` as a message with id and time.

        Raises:
            ConfigurationError: It is neither text nor a `UserMessage`.
        """
        key = f"{prefix}/user-message"
        if isinstance(given, str):
            now, new_id = runtime.now(key), runtime.new_id(key)
            return cls(UserMessage(given, new_id, client_timestamp=now))
        if not isinstance(given, UserMessage):
            raise ConfigurationError(
                "input must be a str or a UserMessage, or its JSON {content, id?, …}, got "
                f"{given!r:.80}"
            )
        message = copy(given)  # it may be of a class with a constructor of its own
        object.__setattr__(message, "id", given.id or runtime.new_id(key))
        when = given.client_timestamp or runtime.now(key)
        object.__setattr__(message, "client_timestamp", when)
        return cls(message)

    def user_turn(self, said: TextMessage) -> AgentResult:
        """Return the message as an entry of the transcript."""
        when = self.message.client_timestamp
        assert when is not None, "`of` has filled it in"
        return AgentResult(USER, (said,), (), when, id=self.message.id)

    def prompt(self, system: str, assistant: str) -> tuple[Message, ...]:
        """Return the prompt of a model call; the same messages while its texts are the same."""
        parts = (system, assistant)
        if parts != self._parts:
            addition = self.message.system_prompt
            said = None if self.said is None else users_words(self.said)
            self._prompt = assemble(system, said, assistant, addition=addition)
            self._parts = parts
        return self._prompt


@dataclass(slots=True)
class RunMessages:
    """The first message of a run, its late messages, and the checks they passed."""

    input: RunInput
    masks: Sequence[Redactor] = ()
    """The redactors that mask each message."""

    late: list[RunInput] = field(default_factory=list[RunInput])
    """Messages of the user that arrived during the run; forks share them."""

    checked: set[CheckedInput] = field(default_factory=set[CheckedInput])

    def add_late(self, message: UserMessage) -> RunInput:
        """Add a message that arrived during the run; return it masked."""
        given = RunInput(cast("UserMessage", masked(message, self.masks)))
        self.late.append(given)
        return given

    def fork(self) -> RunMessages:
        """Return the messages of an agent that runs in parallel to others."""
        return replace(self, checked=set(self.checked))

    def join(self, forks: Iterable[RunMessages]) -> None:
        """Note the guardrails that agents have called which ran in parallel."""
        for fork in forks:
            self.checked |= fork.checked

    def with_content(self, content: str) -> RunMessages:
        """Return the messages with the content of the first replaced."""
        message = replace(self.input.message, content=content)
        return replace(self, input=RunInput(message))


def masked(given: str | UserMessage, masks: Sequence[Redactor]) -> str | UserMessage:
    """Return the user's message masked, before it is stored or sent."""
    for redactor in masks:
        if isinstance(given, str):
            given = redactor.text(given)
        elif isinstance(given, UserMessage):
            given = redactor.user_message(given)
    return given
