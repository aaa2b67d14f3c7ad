"""What a run begins with, normalised once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from agentkit_py._engine.prompt import assemble
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, TextMessage, UserMessage, text_of_parts
from agentkit_py.results import USER, AgentResult
from agentkit_py.runtime.port import Runtime
from agentkit_py.state import State

D = TypeVar("D")


@dataclass(slots=True)
class RunInput:
    """The user's message with its id and time filled in, and what runs make of it once."""

    message: UserMessage
    said: TextMessage | None = field(init=False)
    """The message as the model sees it and as it stands in a state; None if it is empty."""

    _prompt: tuple[Message, ...] = field(default=(), init=False)
    _parts: tuple[str, str] | None = field(default=None, init=False)
    """System prompt and prefill of `_prompt`."""

    def __post_init__(self) -> None:
        """Make what is always wanted."""
        content = self.message.content
        if not isinstance(content, str):
            content = tuple(content)
        self.said = TextMessage("user", content) if content else None

    @classmethod
    def of(cls, given: str | UserMessage, runtime: Runtime, prefix: str) -> RunInput:
        """Normalise what was passed to ``run``.

        Raises:
            ConfigurationError: It is neither text nor a `UserMessage`.
        """
        key = f"{prefix}/user-message"
        if isinstance(given, str):
            now, new_id = runtime.now(key), runtime.new_id(key)
            return cls(UserMessage(given, new_id, client_timestamp=now))
        if not isinstance(given, UserMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"input must be a str or a UserMessage, got {given!r:.80}")
        return cls(
            replace(
                given,
                id=given.id or runtime.new_id(key),
                client_timestamp=given.client_timestamp or runtime.now(key),
            )
        )

    @property
    def text(self) -> str:
        """The message's text."""
        return text_of_parts(self.message.content)

    def as_result(self, said: TextMessage) -> AgentResult:
        """The message as it stands in a state."""
        when = self.message.client_timestamp
        assert when is not None, "`of` has filled it in"
        return AgentResult(USER, (said,), (), when, id=self.message.id)

    def prompt(self, system: str, assistant: str) -> tuple[Message, ...]:
        """The prompt of a model call.

        The same objects while its texts are the same: what was counted and found valid at one
        call of a turn is known at the next.
        """
        parts = (system, assistant)
        if parts != self._parts:
            addition = self.message.system_prompt
            self._prompt = assemble(system, self.said, assistant, addition=addition)
            self._parts = parts
        return self._prompt


def state_of(
    given: State[D] | Mapping[str, Any] | None, default: State[D] | None, thread_id: str | None
) -> State[D]:
    """The state of a run: the one given, else a copy of the default, else a new one.

    Raises:
        ConfigurationError: ``given`` is no state, or has another thread than ``thread_id``.
    """
    if given is None:
        state = default.clone() if default is not None else cast("State[D]", State())
    elif isinstance(given, Mapping):
        state = cast("State[D]", State.from_dict(given))
    else:
        state = given
    if not isinstance(state, State):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"state must be a State or a dict, got {given!r:.80}")
    if thread_id is not None:
        if state.thread_id not in (None, thread_id):
            raise ConfigurationError(
                f"thread_id={thread_id!r} was given with a state of thread {state.thread_id!r}"
            )
        state.thread_id = thread_id
    return state
