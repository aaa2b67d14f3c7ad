"""How rules are written down, registered and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from .types import PROVIDERS, ProviderName, Rejection


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found: the provider's words and where the trouble is."""

    message: str
    pointer: str = ""
    code: str | None = None
    status: int = 400


class Unparsed(str):
    """A request body that is not JSON."""

    __slots__ = ()


@dataclass(slots=True)
class Inbound:
    """A request as rules see it.

    Attributes:
        expected_key: The only accepted API key, or `None` to accept any.
        memo: Views of the body that several rules share, computed once per request.
    """

    provider: ProviderName
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    model: str = ""
    expected_key: str | None = None
    memo: dict[str, Any] = field(default_factory=dict[str, Any])


Check: TypeAlias = Callable[[Inbound], Problem | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one or more providers; its source is in the docstring of `check`.

    Attributes:
        optional: Off unless asked for by id (rules that only some deployments have).
    """

    name: str
    providers: tuple[ProviderName, ...]
    check: Check
    optional: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """One id per provider, such as `grok.unanswered_tool_call`."""
        return tuple(f"{provider}.{self.name}" for provider in self.providers)

    @property
    def doc(self) -> str:
        """What the rule says, and where that is published."""
        return self.check.__doc__ or ""


_BOOK: list[Rule] = []

OPENAI_LIKE: tuple[ProviderName, ...] = ("openai", "azure_openai", "grok")
OPENAI_AND_AZURE: tuple[ProviderName, ...] = ("openai", "azure_openai")


def rule(*providers: ProviderName, optional: bool = False) -> Callable[[Check], Check]:
    """Register the decorated check for these providers, under the function's own name."""

    def register(check: Check) -> Check:
        _BOOK.append(Rule(check.__name__, providers or PROVIDERS, check, optional))
        return check

    return register


def registered() -> tuple[Rule, ...]:
    """Return every rule, in the order in which they are applied."""
    return tuple(_BOOK)


def rules_for(provider: ProviderName, extra: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules of one provider, with the optional ones named in `extra`."""
    wanted = frozenset(extra)
    return tuple(
        found
        for found in _BOOK
        if provider in found.providers
        and (not found.optional or f"{provider}.{found.name}" in wanted)
    )


def first_rejection(request: Inbound, rules: Iterable[Rule]) -> Rejection | None:
    """Apply rules in order; the first that objects decides, as in the real services.

    Later rules may therefore rely on the shapes that earlier ones have established.
    """
    for found in rules:
        problem = found.check(request)
        if problem is not None:
            return Rejection(
                f"{request.provider}.{found.name}",
                problem.message,
                problem.pointer,
                problem.status,
                problem.code,
            )
    return None


def names(text: str) -> frozenset[str]:
    """Return the set of the names in a text, which is easier to compare with a reference."""
    return frozenset(text.split())


def is_name_list(value: Any) -> bool:
    """Return whether a JSON value is a list of strings."""
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def is_int(value: Any) -> bool:
    """Return whether a JSON value is an integer; `true` is not one, though Python says so."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
