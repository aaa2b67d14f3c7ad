"""Options of functions: the SDK's own, and flow control per thread and per customer by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, get_args

import inngest

from agentkit_py._core.validation import wrong_number
from agentkit_py._engine.option_checks import expect_one_of
from agentkit_py.errors import ConfigurationError
from agentkit_py.runtime.replay import OnVersionMismatch

_LEAST_STEPS = 10
"""With fewer, a run could use them up before it has asked a model, and so could all after it."""

_DROPPING = ("singleton", "idempotency", "rate_limit", "debounce")
"""Options by which the server drops events that come too soon after another of their key."""

_MESSAGE_KEYS = ("event.data.input.id", "event.id")
"""Parts of a key in which a run and its continuation differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """Options of a function, in the SDK's own types; None: Inngest's default."""

    version: str | None = None
    """The version of your code, as you count it; see `AgentKitMiddleware.configured`."""

    on_version_mismatch: OnVersionMismatch = "continue"
    """The reaction of a run that began under another version or definition."""

    continue_as_new: int | None = None
    """Steps after which the run continues in a new run, of the 1000 that Inngest allows; None: it
    does not. The new run has the thread and the state's data, no new message of the user, and a
    router whose ``call_count`` restarts: let it decide by the state. The first run's output names
    the event of the new run as ``continuedAs``. Refused with `singleton`, `idempotency`,
    `rate_limit` and `debounce`, which would drop the new run, unless their key has
    ``event.data.input.id``."""

    batch_events: inngest.Batch | None = None
    cancel: list[inngest.Cancel] | None = None
    concurrency: list[inngest.Concurrency] | None = None
    debounce: inngest.Debounce | None = None
    idempotency: str | None = None
    middleware: list[Any] | None = None
    name: str | None = None
    on_failure: Callable[[inngest.Context], Awaitable[Any]] | None = None
    priority: inngest.Priority | None = None
    rate_limit: inngest.RateLimit | None = None
    retries: int | None = None
    singleton: inngest.Singleton | None = None
    throttle: inngest.Throttle | None = None
    timeouts: inngest.Timeouts | None = None

    def __post_init__(self) -> None:
        """Refuse options that would drop messages, or never end."""
        words = get_args(OnVersionMismatch)
        expect_one_of("FunctionOptions", "on_version_mismatch", self.on_version_mismatch, words)
        given = self.continue_as_new
        wrong = None if given is None else wrong_number(given, whole=True, least=_LEAST_STEPS)
        if wrong is not None:
            raise ConfigurationError(f"FunctionOptions(continue_as_new={given!r:.80}): {wrong}.")
        if self.batch_events is not None:
            raise ConfigurationError(
                "FunctionOptions(batch_events=…): a run answers a single message, so all other "
                "events of a batch would be lost. Omit it, or write a function of your own that "
                "reads ctx.events."
            )
        for name in _DROPPING if self.continue_as_new is not None else ():
            self._check_continues(name)

    def _check_continues(self, name: str) -> None:
        """Refuse an option by which the server would drop the run's own continuation."""
        given: Any = getattr(self, name)
        key: object = given if given is None or isinstance(given, str) else given.key
        if given is None or any(part in str(key) for part in _MESSAGE_KEYS):
            return
        raise ConfigurationError(
            f"FunctionOptions(continue_as_new={self.continue_as_new}, {name}=…): the event that "
            f"begins the next part of a run has the key {key!r:.80} of the run itself, so {name} "
            "may drop it, and the rest of the work is lost. Use a key with event.data.input.id, "
            "which each part has its own of; or concurrency and throttle, which drop nothing; or "
            "leave continue_as_new out."
        )

    def __or__(self, other: FunctionOptions) -> FunctionOptions:
        """Return both: options set in ``other`` win, lists are joined."""
        made: dict[str, Any] = {}
        for item in fields(self):
            own, its = getattr(self, item.name), getattr(other, item.name)
            if isinstance(own, list) and isinstance(its, list):
                made[item.name] = [*own, *its]
            else:
                made[item.name] = own if its is None or its == item.default else its
        return FunctionOptions(**made)

    def to_kwargs(self) -> dict[str, Any]:
        """Return the given options, for ``client.create_function``."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        for own in ("version", "on_version_mismatch", "continue_as_new"):
            del given[own]
        return {name: value for name, value in given.items() if value is not None}


def per_thread(
    *,
    concurrency: int | None = 1,
    throttle: int | None = None,
    period: timedelta = timedelta(minutes=1),
    debounce: timedelta | None = None,
    priority: str | None = None,
) -> FunctionOptions:
    """Return flow control for each thread by itself; join it with other options by ``|``.

    Events without a ``threadId`` count as a single thread.

    Args:
        concurrency: Steps of a thread's runs that run at the same time; a run that waits counts for
            none. For whole runs give the store a ``lease``.
        throttle: Runs that begin in one ``period``, spread over it, and another at once; further
            runs begin later, none is dropped.
        period: The time of `throttle`, from 1 second to 7 days.
        debounce: Begin only when no event has come for so long. **Only the last event is run**:
            the client must send the earlier messages along.
        priority: A CEL expression of seconds, e.g. ``"event.data.plan == 'gold' ? 120 : 0"``: as if
            a run had come so much earlier.

    Raises:
        ConfigurationError: A number is less than 1.
    """
    return _flow("event.data.threadId", concurrency, throttle, period, debounce, priority)


def per_customer(
    *,
    concurrency: int | None = 1,
    throttle: int | None = None,
    period: timedelta = timedelta(minutes=1),
    debounce: timedelta | None = None,
    priority: str | None = None,
) -> FunctionOptions:
    """Return flow control for each customer (``userId``) by itself; else as `per_thread`.

    Args:
        concurrency: Steps of a customer's runs that run at the same time.
        throttle: Runs that begin in a ``period``.
        period: The time of `throttle`.
        debounce: Begin only when no event has come for so long; only the last is run.
        priority: A CEL expression of seconds.

    Raises:
        ConfigurationError: A number is less than 1.
    """
    return _flow("event.data.userId", concurrency, throttle, period, debounce, priority)


def _flow(
    key: str,
    concurrency: int | None,
    throttle: int | None,
    period: timedelta,
    debounce: timedelta | None,
    priority: str | None,
) -> FunctionOptions:
    for name, value in (("concurrency", concurrency), ("throttle", throttle)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name}={value}: must be 1 or more, or None")
    limit = None if concurrency is None else [inngest.Concurrency(limit=concurrency, key=key)]
    return FunctionOptions(
        concurrency=limit,
        throttle=None
        if throttle is None
        else inngest.Throttle(key=key, limit=throttle, period=period),
        debounce=None if debounce is None else inngest.Debounce(key=key, period=debounce),
        priority=None if priority is None else inngest.Priority(run=priority),
    )
