"""The cheapest policy that keeps the values that recorded conversations needed, cross-validated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit_py.errors import ConfigurationError
from agentkit_py.network import Target
from agentkit_py.processors import (
    ClearToolResults,
    CompressToolResults,
    ContextPolicy,
    Deduplicate,
    MessageWindow,
    RecentToolCalls,
    TableResults,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.processors.base import Processor
from agentkit_py.processors.tokenizers import Tokenizer, default_tokenizer
from agentkit_py.testing.replay.recording import Conversation
from agentkit_py.testing.replay.survival import Survival, survival

KEEP, FOLDS = 0.99, 5
"""The share of calls and of values that a policy keeps at least; and the number of folds."""

NONE = "[]"
"""The line of no policy."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A processor that can be made, and written as a line of Python."""

    make: Callable[..., Processor]
    values: tuple[object, ...]
    options: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        given = [*map(repr, self.values), *(f"{k}={v!r}" for k, v in self.options)]
        return f"{self.make.__qualname__}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that `fit` tries."""

    parts: tuple[_Part, ...]

    @property
    def line(self) -> str:
        """Its value for ``processors=``, as Python."""
        return f"[{', '.join(map(str, self.parts))}]"

    @property
    def imports(self) -> str:
        """The line that imports its processors; empty for no policy."""
        names = sorted({part.make.__qualname__.partition(".")[0] for part in self.parts})
        return f"from agentkit_py.processors import {', '.join(names)}" if names else ""

    def __call__(self) -> Sequence[Processor]:
        """Return new processors."""
        return [part.make(*part.values, **dict(part.options)) for part in self.parts]


def _part(make: Callable[..., Processor], *values: object, **options: object) -> _Part:
    return _Part(make, values, tuple(options.items()))


def candidate(make: Callable[..., Processor], *values: object, **options: object) -> Candidate:
    """Return the policy of a single processor."""
    return Candidate((_part(make, *values, **options),))


def _candidates() -> Iterator[Candidate]:
    tables = [
        (_part(TableResults),),
        (_part(Deduplicate, records=True), _part(TableResults)),
        *((_part(TableResults, used_rows=True, keep_recent=n),) for n in (1, 3, 5, 10)),
    ]
    windows = [
        *(_part(MessageWindow, n) for n in (10, 20, 40, 80)),
        *(_part(TokenLimiter, n) for n in (1000, 2000, 4000, 8000, 16_000)),
        *(_part(RecentToolCalls, n) for n in (3, 5, 10)),
        *(_part(ClearToolResults, n) for n in (1000, 2000, 4000, 8000)),
    ]
    results = [
        _part(CompressToolResults),
        *(_part(CompressToolResults, 100, keep_recent=n) for n in (1, 3)),
        *(_part(TruncateToolResults, n) for n in (500, 1000, 2000, 4000)),
        _part(Deduplicate),
        _part(ToolCallFilter, include="own"),
        _part(ToolCallFilter),
    ]
    whole = [
        _part(policy, window)
        for policy in (ContextPolicy.balanced, ContextPolicy.lean)
        for window in (4000, 8000, 16_000, 32_000, 128_000)
    ]
    yield Candidate(())
    yield from map(Candidate, tables)
    yield from (Candidate((part,)) for part in (*whole, *results, *windows))
    yield from (Candidate((_part(TableResults), part)) for part in windows)


CANDIDATES: tuple[Candidate, ...] = tuple(_candidates())
"""The policies that `fit` tries, none among them. None of them calls a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The figures of all candidates on recorded conversations, and the choice."""

    keep: float
    """The share of calls and of values that the choice keeps at least."""

    conversations: int
    figures: Mapping[Candidate, Survival]
    """By candidate: its figures on all conversations."""

    chosen: Candidate
    """The cheapest candidate that keeps enough; no policy keeps everything."""

    held_out: Survival | None
    """Figures on conversations that had no part in the choice: it is made on the other folds, and
    measured on each fold in turn. None: there is a single conversation."""

    choices: tuple[Candidate, ...]
    """The choice without each fold."""

    @property
    def found(self) -> bool:
        """True if a policy sends less than none and keeps enough."""
        return bool(self.chosen.parts)

    @property
    def kept_elsewhere(self) -> float:
        """The share that choices keep in conversations that had no part in them; 1: unknown."""
        return 1.0 if self.held_out is None else kept(self.held_out)

    @property
    def frontier(self) -> list[Candidate]:
        """Candidates that keep more than all cheaper ones, the cheapest first."""
        ordered = sorted(self.figures, key=lambda one: (self._sent(one), -kept(self.figures[one])))
        frontier: list[Candidate] = []
        for candidate in ordered:
            if not frontier or kept(self.figures[candidate]) > kept(self.figures[frontier[-1]]):
                frontier.append(candidate)
        return frontier

    def _sent(self, candidate: Candidate) -> float:
        return self.figures[candidate].share_sent

    def to_dict(self) -> dict[str, Any]:
        """Return the choice and all figures as JSON."""
        frontier = self.frontier
        return {
            "conversations": self.conversations,
            "keep": self.keep,
            "found": self.found,
            "chosen": self.chosen.line,
            "imports": self.chosen.imports,
            "heldOut": None if self.held_out is None else _shares(self.held_out),
            "choices": [candidate.line for candidate in self.choices],
            "candidates": [
                {"policy": c.line, "onFrontier": c in frontier, **_shares(figures)}
                for c, figures in self.figures.items()
            ],
            "losses": self.figures[self.chosen].to_dict()["losses"],
        }


def kept(figures: Survival) -> float:
    """Return the smaller of the shares of calls and of values that a policy keeps."""
    return min(
        figures.share_of_calls if figures.calls else 1.0,
        figures.share_of_values if figures.values else 1.0,
    )


def _shares(figures: Survival) -> dict[str, Any]:
    return {
        "charactersSent": round(figures.share_sent, 4),
        "tokens": figures.tokens,
        "tokensSent": figures.tokens_sent,
        "callsWhole": round(figures.share_of_calls, 4),
        "answerValuesKept": round(figures.share_of_values, 4),
    }


async def fit(
    conversations: Sequence[Conversation],
    *,
    keep: float = KEEP,
    network: bool | Target = False,
    candidates: Sequence[Candidate] = CANDIDATES,
    tokenizer: Tokenizer | None = None,
    on_measured: Callable[[], None] = lambda: None,
) -> Fit:
    """Try policies on recorded conversations; choose the cheapest that keeps enough.

    Nothing is sent to a model. A recorded call counts as kept if all values of its arguments that
    the full request had are in the request that the policy makes; see `survival`.

    Args:
        conversations: The recorded conversations.
        keep: The share of calls, and of the values in answers, to keep at least.
        network: A network or agent, whose own processors stay in front; True: the tools are
            distributed over several agents; False: a single agent has all.
        candidates: The policies to try; none is always among them.
        tokenizer: Counts the tokens; None: the default tokenizer.
        on_measured: Called after each conversation with each candidate.

    Raises:
        ConfigurationError: There is no conversation, or ``keep`` is not between 0 and 1.
        ProcessorError: A processor failed.
    """
    if not conversations:
        raise ConfigurationError("fit: there is no conversation to try policies on.")
    if not 0 <= keep <= 1:
        raise ConfigurationError(f"fit: keep must be a share between 0 and 1, got {keep!r}")
    counter = default_tokenizer() if tokenizer is None else tokenizer
    measured: dict[Candidate, list[Survival]] = {}
    for policy in dict.fromkeys((Candidate(()), *candidates)):
        measured[policy] = []
        for conversation in conversations:
            figures = await survival([conversation], policy, network=network, tokenizer=counter)
            measured[policy].append(figures)
            on_measured()
    choices, held_out = _cross_validated(measured, keep)
    figures_of = {candidate: total(figures) for candidate, figures in measured.items()}
    return Fit(
        keep=keep,
        conversations=len(conversations),
        figures=figures_of,
        chosen=_cheapest(figures_of, keep),
        held_out=held_out,
        choices=choices,
    )


def total(figures: Sequence[Survival]) -> Survival:
    """Return the sum of measurements."""
    return Survival(
        characters=sum(one.characters for one in figures),
        characters_sent=sum(one.characters_sent for one in figures),
        tokens=sum(one.tokens for one in figures),
        tokens_sent=sum(one.tokens_sent for one in figures),
        calls=sum(one.calls for one in figures),
        calls_whole=sum(one.calls_whole for one in figures),
        values=sum(one.values for one in figures),
        values_kept=sum(one.values_kept for one in figures),
        losses=[loss for one in figures for loss in one.losses],
        unknown_tools={tool for one in figures for tool in one.unknown_tools},
    )


def _cheapest(figures: Mapping[Candidate, Survival], keep: float) -> Candidate:
    """Return the candidate that sends least of those that keep enough; no policy always does."""
    enough = [candidate for candidate, one in figures.items() if kept(one) >= keep]
    return min(enough, key=lambda candidate: (figures[candidate].share_sent, len(candidate.parts)))


def _cross_validated(
    measured: Mapping[Candidate, Sequence[Survival]], keep: float
) -> tuple[tuple[Candidate, ...], Survival | None]:
    """Choose without each fold in turn, and measure the choice on that fold."""
    count = len(next(iter(measured.values())))
    if count == 1:
        return (), None
    folds = min(FOLDS, count)
    choices: list[Candidate] = []
    left_out: list[Survival] = []
    for fold in range(folds):
        others = {
            candidate: total([one for n, one in enumerate(figures) if n % folds != fold])
            for candidate, figures in measured.items()
        }
        choice = _cheapest(others, keep)
        choices.append(choice)
        left_out += measured[choice][fold::folds]
    return tuple(choices), total(left_out)
