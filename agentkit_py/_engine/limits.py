"""Limits of a run, and the meter that compares a run's use with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, cast

from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import ConfigurationError, EmptyReplyError
from agentkit_py.messages import Usage
from agentkit_py.models.base import CallGuard, Model, ModelReply, copy_model
from agentkit_py.models.fallback import FallbackModel

MAX_ITER = "max_iter"
"""The stop reason of a turn, or of a network, that used up its iterations."""

MAX_STEPS = "max_steps"
"""The stop reason of a run that its function's steps have ended."""

LIMITS = frozenset({"max_inferences", "max_tokens", "max_cost", MAX_STEPS, "deadline"})
"""Names of the limits that end a run."""

_WHOLE = frozenset({"max_inferences", "max_tokens", "max_steps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of a run's time, inferences, tokens and cost; None: no limit.

    Limits are checked before each model call, so that a run ends with whole results: the call or
    tool that passes a limit is finished first. The run's ``stop_reason`` names the limit.
    """

    deadline: float | timedelta | None = None
    """Seconds from the run's start after which no further model call is made."""

    tool_timeout: float | None = None
    """Seconds that a tool call may take; then it is cancelled and the model reads an error."""

    max_inferences: int | None = None
    """Model calls, those of routing agents included."""

    max_tokens: int | None = None
    """Input and output tokens of all model calls, as the providers count them."""

    max_cost: float | None = None
    """Cost of all model calls, in the currency of `price`."""

    max_steps: int | None = None
    """Durable steps of the function that the run is in; only those before parallel calls count
    while such are under way. A direct run has none."""

    max_tool_calls: int | Mapping[str, int] | None = None
    """Calls of all tools together, or of single tools by name. A call beyond it is not
    made, and the model reads why; the run continues. See ``@tool(max_calls=…)``, too."""

    price: Callable[[str, Usage], float] | None = None
    """Returns the cost of a model call from the model's name and the usage; `max_cost` needs it."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot be meant."""
        for name in ("tool_timeout", "max_inferences", "max_tokens", "max_cost", "max_steps"):
            value = getattr(self, name)
            wrong = wrong_number(value, whole=name in _WHOLE, above=True)
            if value is not None and wrong:
                raise ConfigurationError(f"RunLimits({name}={value!r}): {wrong}, or None.")
        given = self.deadline
        wrong = wrong_number(given.total_seconds() if isinstance(given, timedelta) else given)
        if given is not None and wrong:
            raise ConfigurationError(f"RunLimits(deadline={given!r}): {wrong}, or None.")
        self._check_tool_calls()
        if self.price is not None and not callable(self.price):
            raise ConfigurationError(
                f"RunLimits(price={self.price!r:.80}): pass a function of (model, usage), e.g. "
                'agentkit_py.budgets.Prices({"gpt-4o": …}), or None.'
            )
        if self.max_cost is not None and self.price is None:
            raise ConfigurationError(
                "RunLimits(max_cost=…) needs price=…, a function of (model, usage)"
            )

    def _check_tool_calls(self) -> None:
        given: object = self.max_tool_calls
        if given is None:
            return
        counts = (
            cast("Mapping[object, object]", given) if isinstance(given, Mapping) else {"": given}
        )
        for name, value in counts.items():
            wrong = wrong_number(value, whole=True, above=True)
            if wrong or not isinstance(name, str):
                raise ConfigurationError(
                    f"RunLimits(max_tool_calls={given!r:.80}): {wrong or 'names must be texts'}; "
                    'give a number for all tools, {"search": 3} for some, or None.'
                )


class RunBudget(Protocol):
    """The budget that a run's calls count for, e.g. of `agentkit_py.budgets`."""

    @property
    def guard(self) -> CallGuard:
        """Counts each model call."""
        ...

    async def begin(self) -> None:
        """Count the run, once.

        Raises:
            BudgetExceededError: The budget allows no further run now.
        """
        ...


NO_LIMITS = RunLimits()
_NOTHING = Usage()


@dataclass(slots=True)
class Meter:
    """Counts a run's inferences, tokens and cost."""

    limits: RunLimits
    started: datetime
    steps: Callable[[], int] = int
    """Returns the number of durable steps so far."""

    inferences: int = 0
    usage: Usage = _NOTHING
    cost: float = 0.0
    tool_calls: Mapping[str, int] = field(default_factory=dict[str, int])
    """Calls that were made, by the tool's name; replaced with each, never changed."""

    def count_tool_call(self, name: str, by: int = 1) -> None:
        """Count a call of a tool, or take back a call that was not made after all."""
        self.tool_calls = {**self.tool_calls, name: self.tool_calls.get(name, 0) + by}

    def tool_limit(self, name: str, most: int | None) -> str | None:
        """Return why a tool may not be called again, as the model reads it; None: it may.

        Args:
            name: The tool's name.
            most: The tool's own limit.
        """
        limit = self.limits.max_tool_calls
        if isinstance(limit, int) and sum(self.tool_calls.values()) >= limit:
            return f"This run may call tools {_times(limit)}, and has done so"
        limits = [most, limit.get(name) if isinstance(limit, Mapping) else None]
        least = min([one for one in limits if one is not None], default=None)
        if least is not None and self.tool_calls.get(name, 0) >= least:
            return f"{name!r} may be called {_times(least)} in a run, and has been"
        return None

    def add(self, model: str, usage: Usage | None) -> None:
        """Count a model call."""
        self.inferences += 1
        if usage is None:
            return
        self.usage = usage if self.usage is _NOTHING else self.usage + usage
        if self.limits.price is not None:
            self.cost += self.limits.price(model, usage)

    def read(self, model: Model, body: object) -> ModelReply:
        """Return a model's answer as messages, and count it; an empty answer costs tokens, too.

        Raises:
            ModelResponseError: The answer violates the API's contract.
        """
        try:
            reply = model.decode(body)
        except EmptyReplyError as error:
            self.add(model.model, error.usage)
            raise
        self.add(model.model, reply.usage)
        return reply

    def add_forks(self, forks: Sequence[Meter]) -> None:
        """Add the counts of this meter's copies, each of an agent that ran in parallel."""
        inferences, usage, cost = self.inferences, self.usage, self.cost
        tool_calls = self.tool_calls
        for fork in forks:
            self.inferences += fork.inferences - inferences
            self.usage += fork.usage - usage
            self.cost += fork.cost - cost
            for name, count in fork.tool_calls.items():
                self.count_tool_call(name, count - tool_calls.get(name, 0))

    def reached(self, now: Callable[[], datetime]) -> str | None:
        """Return the name of the limit that is reached; None: the run may continue."""
        limits = self.limits
        if limits.max_inferences is not None and self.inferences >= limits.max_inferences:
            return "max_inferences"
        if limits.max_tokens is not None and self.usage.total_tokens >= limits.max_tokens:
            return "max_tokens"
        if limits.max_cost is not None and self.cost >= limits.max_cost:
            return "max_cost"
        if limits.max_steps is not None and self.steps() >= limits.max_steps:
            return MAX_STEPS
        if limits.deadline is not None and now() - self.started >= _span(limits.deadline):
            return "deadline"
        return None


@dataclass(frozen=True, slots=True)
class Spending:
    """The spending of a run: its meter, and the budget that its calls count for."""

    meter: Meter
    budget: RunBudget | None = None

    def guarded(self, model: Model) -> Model:
        """Return the model, each call of which counts for the run's budget."""
        if self.budget is None:
            return model
        guard = self.budget.guard
        if isinstance(model, FallbackModel):
            return model.map(lambda one: copy_model(one, guards=(*one.guards, guard)))
        return copy_model(model, guards=(*model.guards, guard))

    def fork(self) -> Spending:
        """Return the spending of an agent that runs in parallel to others."""
        return replace(self, meter=replace(self.meter))


def _span(deadline: float | timedelta) -> timedelta:
    return deadline if isinstance(deadline, timedelta) else timedelta(seconds=deadline)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
