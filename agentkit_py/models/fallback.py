"""FallbackModel: several models in order; if a model fails, the next is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import (
    BadRequestError,
    ConfigurationError,
    ContextOverflowError,
    ModelError,
    RejectedReplyError,
)
from agentkit_py.models.base import CallGuard, Model, ModelReply, copy_model
from agentkit_py.models.capabilities import window_of

FailsOver: TypeAlias = "Sequence[type[ModelError]] | Callable[[ModelError], bool]"
"""The errors after which the next model is asked: classes, or a function that says."""

ReplyCheck: TypeAlias = "Callable[[ModelReply], object | Awaitable[object]]"
"""Says that a reply will not do by False, by a text that says why, or by a ValueError."""


def _by_default(error: ModelError) -> bool:
    """Return whether another model may do better: not with a request that is wrong in itself."""
    if isinstance(error, BadRequestError) and error.status in (400, 422):
        return isinstance(error, ContextOverflowError)
    return True


def _check(on: object, attempts: object, breaker: object, check: object) -> None:
    if wrong := wrong_number(attempts, whole=True, least=1):
        raise ConfigurationError(f"FallbackModel(attempts={attempts!r}): {wrong}.")
    kinds = cast("Sequence[object]", on if isinstance(on, list | tuple) else ())
    classes = kinds and all(isinstance(one, type) and issubclass(one, ModelError) for one in kinds)
    decides = callable(cast("object", on)) and not isinstance(on, type)
    if on is not None and not classes and not decides:
        raise ConfigurationError(
            f"FallbackModel(on={on!r:.200}): pass a list of classes of ModelError, or a function "
            "of a model."
        )
    guards = all(callable(getattr(breaker, name, None)) for name in ("enter", "leave"))
    if breaker not in (None, "shared") and not guards:
        raise ConfigurationError(
            f"FallbackModel(breaker={breaker!r:.80}): pass a Breaker, 'shared' or None."
        )
    if check is not None and not callable(check):
        raise ConfigurationError(f"FallbackModel(check={check!r:.80}): pass a function.")


class FallbackModel(Model):
    """Models that replace each other on failure: ``FallbackModel([openai(…), anthropic(…)])``.

    Each call asks the first model. If that fails, the next gets the same conversation in its
    own format, in a step of its own in durable runs. A model that failed several times in a row is
    skipped for a while by all runs of the process; the last model is always asked.

    Attributes:
        models: The models, in order.
        breaker: The guard that leaves failing models alone; ``"shared"``: that of the process.
        mid_stream: Whether a reply that broke off after a part of it was streamed is taken back,
            and the next model asked.
        check: The check that each reply goes through.
    """

    models: tuple[Model, ...]
    breaker: CallGuard | Literal["shared"] | None
    mid_stream: bool
    check: ReplyCheck | None

    def __init__(
        self,
        models: Sequence[Model],
        *,
        on: FailsOver | None = None,
        attempts: int = 1,
        breaker: CallGuard | Literal["shared"] | None = "shared",
        mid_stream: bool = True,
        check: ReplyCheck | None = None,
    ) -> None:
        """Put models in order.

        Args:
            models: At least two; the last has the retries of its own policy.
            on: The errors that count; None: all but requests that are wrong in themselves (400 and
                422, where they are not too long).
            attempts: Requests to each model but the last.
            breaker: A `agentkit_py.runtime.guards.Breaker`; None: each call tries all.
            mid_stream: False: a reply that broke off while it was streamed is an error.
            check: Called with each reply; where it returns False or a text (why), or raises a
                ValueError, the next model is asked. A durable run stores its verdict with its next
                step; only a check that takes steps itself is called again, and must return the
                same.

        Raises:
            ConfigurationError: There are fewer than two models, or an item is not a model.
        """
        found = tuple(models)
        if len(found) < 2 or not all(isinstance(one, Model) for one in found):  # noqa: PLR2004 - a single model has no fallback
            raise ConfigurationError(
                f"FallbackModel({list(found)!r:.200}): pass at least two models, e.g. "
                "[openai(…), anthropic(…)]."
            )
        if any(isinstance(one, FallbackModel) for one in found):
            raise ConfigurationError(
                "FallbackModel: its models cannot be FallbackModels; join them."
            )
        _check(on, attempts, breaker, check)
        for item in fields(Model):
            object.__setattr__(self, item.name, getattr(found[0], item.name))
        windows = [one.context_window or window_of(one.model) for one in found]
        known = [window for window in windows if window is not None]
        values: dict[str, Any] = {
            "context_window": min(known) if known else None,
            "models": found,
            "breaker": breaker,
            "mid_stream": mid_stream,
            "check": check,
            "_on": on,
            "_attempts": attempts,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"FallbackModel([{', '.join(f'{m.provider}:{m.model}' for m in self.models)}])"

    def with_parameters(self, **parameters: Any) -> FallbackModel:
        """Return the same with further default parameters for each model."""
        return self.map(lambda one: one.with_parameters(**parameters))

    def map(self, change: Callable[[Model], Model]) -> FallbackModel:
        """Return the same with each model as ``change`` makes it."""
        state: dict[str, Any] = vars(self)
        return FallbackModel(
            [change(one) for one in self.models],
            on=state["_on"],
            attempts=state["_attempts"],
            breaker=self.breaker,
            mid_stream=self.mid_stream,
            check=self.check,
        )

    def alternatives(self, guard: CallGuard | None) -> list[Model]:
        """Return the models as they are asked: all but the last fail at once."""
        attempts = vars(self)["_attempts"]
        guards = () if guard is None else (guard,)
        return [
            *(
                copy_model(
                    one,
                    retry=replace(one.retry, attempts=attempts, durable=False),
                    guards=(*one.guards, *guards),
                )
                for one in self.models[:-1]
            ),
            self.models[-1],
        ]

    def fails_over(self, error: ModelError) -> bool:
        """Return whether the next model is asked after ``error``."""
        if isinstance(error, RejectedReplyError):
            return True
        on: Any = vars(self)["_on"]
        if on is None:
            return _by_default(error)
        return bool(on(error)) if callable(on) else isinstance(error, tuple(on))
