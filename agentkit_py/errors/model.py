"""What goes wrong in one model call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentkit_py.errors.base import AgentKitError

if TYPE_CHECKING:
    from agentkit_py.messages import Message


class ModelError(AgentKitError):
    """Something went wrong in one model call.

    Attributes:
        provider: The provider's name, e.g. ``"openai"``.
        model: The model's name.
        retriable: Whether the same request may succeed later.
    """

    retriable: bool = False

    def __init__(self, message: str, *, provider: str, model: str) -> None:
        super().__init__(f"{provider} model {model!r}: {message}")
        self.provider = provider
        self.model = model


class ModelHTTPError(ModelError):
    """The provider answered with an error status.

    Attributes:
        status: The HTTP status.
        detail: What the provider said (from its error body, at most 2,000 characters).
        retry_after: Seconds after which the provider asks us to try again, if it said so.
        request_id: The provider's id of the request, if it sent one.
    """

    def __init__(
        self,
        detail: str,
        *,
        provider: str,
        model: str,
        status: int,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"HTTP {status}: {detail}", provider=provider, model=model)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        self.request_id = request_id


class AuthenticationError(ModelHTTPError):
    """The provider refused the API key (401) or what it may do (403)."""


class BadRequestError(ModelHTTPError):
    """The provider refused the request itself; sending it again would be refused again."""


class ContextOverflowError(BadRequestError):
    """The request is longer than the model's context window."""


class RateLimitError(ModelHTTPError):
    """The provider asks to slow down (429)."""

    retriable = True


class ProviderUnavailableError(ModelHTTPError):
    """The provider failed (5xx); the same request may succeed later."""

    retriable = True


class ModelTimeoutError(ModelError):
    """No answer came within the time-out.

    Attributes:
        timeout: The time-out in seconds.
    """

    retriable = True

    def __init__(self, *, provider: str, model: str, timeout: float) -> None:
        super().__init__(
            f"no answer within {timeout:g} s (raise it with timeout=…)",
            provider=provider,
            model=model,
        )
        self.timeout = timeout


class ModelConnectionError(ModelError):
    """The provider could not be reached, or the connection broke."""

    retriable = True


class ModelResponseError(ModelError):
    """The provider answered 200 with something its API does not promise.

    Attributes:
        excerpt: The beginning of what came, at most 500 characters.
    """

    def __init__(self, message: str, *, provider: str, model: str, excerpt: str = "") -> None:
        super().__init__(message, provider=provider, model=model)
        self.excerpt: str = excerpt[:500]


class ModelStreamError(ModelResponseError):
    """A streamed answer broke off; ``__cause__`` says why, where that is known.

    Once a piece of the answer was told, the call is not tried again: another answer would begin
    again from the start. Whatever fails after the first piece is this error.

    Attributes:
        partial: The text that had arrived.
        messages: All that had arrived; the arguments of a call that was cut are malformed.
        retriable: Whether nothing had been told yet.
    """

    def __init__(
        self, message: str, *, provider: str, model: str, messages: Sequence[Message] = ()
    ) -> None:
        texts = [message for message in messages if message.type == "text"]
        self.partial: str = "".join(text.text for text in texts)
        super().__init__(message, provider=provider, model=model, excerpt=self.partial)
        self.messages: tuple[Message, ...] = tuple(messages)
        self.retriable: bool = not messages
