"""What a user is told of a run that failed: nothing of the machine, the provider or the keys."""

from __future__ import annotations

from agentkit_py.errors import (
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
    ThreadBusyError,
)
from agentkit_py.events.public import FAILED

_WORDS: tuple[tuple[type[Exception], str, bool], ...] = (
    (ContextOverflowError, "The conversation has become too long for the model.", False),
    (RateLimitError, "The model is busy. Please try again in a moment.", True),
    (ModelTimeoutError, "The model did not answer in time. Please try again.", True),
    (ModelConnectionError, "The model could not be reached. Please try again.", True),
    (ProviderUnavailableError, "The model is not available. Please try again.", True),
    (ModelError, "The model could not answer.", False),
    (ThreadBusyError, "This conversation is busy. Please try again in a moment.", True),
    (TimeoutError, "The answer took too long, and was stopped.", True),
)


def public_words(error: BaseException | None) -> tuple[str, bool]:
    """What to say of an error, and whether trying again may help."""
    for kind, words, recoverable in _WORDS:
        if isinstance(error, kind):
            return words, recoverable
    return FAILED, False
