"""What a run begins with, normalised once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from agentkit_py._core.values import changed
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.result import AgentResult
from agentkit_py.history.state import State
from agentkit_py.messages import TextMessage, UserMessage, text_of_parts
from agentkit_py.runtime.port import Runtime

D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class RunInput:
    """The user's message with its id and time filled in."""

    message: UserMessage

    @classmethod
    def of(cls, given: str | UserMessage, runtime: Runtime, prefix: str) -> RunInput:
        """Normalise what was passed to ``run``.

        Raises:
            ConfigurationError: It is neither text nor a `UserMessage`.
        """
        if isinstance(given, str):
            given = UserMessage(given)
        if not isinstance(given, UserMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"input must be a str or a UserMessage, got {given!r:.80}")
        return cls(
            changed(
                given,
                id=given.id or runtime.new_id(f"{prefix}/user-message"),
                client_timestamp=given.client_timestamp or runtime.now(f"{prefix}/user-message"),
            )
        )

    @property
    def text(self) -> str:
        """The message's text."""
        return text_of_parts(self.message.content)

    def as_text_message(self) -> TextMessage | None:
        """The message as the model sees it; None if it is empty."""
        content = self.message.content
        return TextMessage("user", content) if content else None

    def as_result(self) -> AgentResult:
        """The message as it stands in a state."""
        return AgentResult.from_user(
            self.message.content, id=self.message.id, created_at=self.message.client_timestamp
        )


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
