"""Checked settings of processors, given as arguments or as dicts that applications store.

Applications keep settings per user or tenant as plain JSON that a person typed, so each error names
the key and its possible values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Self, TypeAlias, cast, get_type_hints

from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Model
from agentkit_py.processors.base import HistoryProcessor, SummaryStore
from agentkit_py.search.vectors import Embedder, VectorIndex

SettingCheck: TypeAlias = Callable[[str, object], Any]
"""Gets a setting's name and value; returns the value to use, or raises `ConfigurationError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorParts:
    """Objects that processors need in addition to their settings, since no dict can hold them."""

    model: Model | None = None
    """Makes summaries; `Summarize` needs it."""

    store: SummaryStore | None = None
    """Stores summaries; None: the thread's store does."""

    embedder: Embedder | None = None
    """Makes vectors; `Recall` needs it."""

    index: VectorIndex | None = None
    """Stores vectors; None: the thread's store does."""


NO_PARTS = ProcessorParts()


class ConfiguredProcessor(HistoryProcessor):
    """A processor that can be made from a plain dict.

    Its settings are the fields that are annotated with a check: ``n: Annotated[int, whole()]``.
    """

    settings: ClassVar[Mapping[str, SettingCheck]] = {}
    """The check of each setting, by the name of the constructor's argument."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that are accepted in dicts → the constructor's argument."""

    parts: ClassVar[tuple[str, ...]] = ()
    """Constructor arguments that come from `ProcessorParts`, under the same names."""

    def __init_subclass__(cls) -> None:
        """Read the checks from the annotations."""
        super().__init_subclass__()
        try:
            hints = get_type_hints(cls, include_extras=True)
        except NameError:  # of a user's subclass, with a type that is imported for checkers only
            return
        cls.settings = {
            name: hint.__metadata__[0]
            for name, hint in hints.items()
            if hasattr(hint, "__metadata__")
        }

    @property
    def by_agent(self) -> bool:
        """True if it leaves each agent something else."""
        return False

    def __post_init__(self) -> None:
        """Check the constructor's arguments, and keep them as the checks return them."""
        for name, check in self.settings.items():
            value = check(f"{type(self).__name__}: {name}", getattr(self, name))
            object.__setattr__(self, name, value)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], parts: ProcessorParts = NO_PARTS) -> Self:
        """Make a processor from a dict, e.g. the settings that an application stores for a user.

        Args:
            settings: The constructor's arguments by name; some have a second name.
            parts: A model, an embedder and stores, for processors that take them.

        Raises:
            ConfigurationError: A key is missing, not known or given twice, or has a wrong value.
        """
        given = checked_object(f"{cls.__name__}.from_settings", settings)
        arguments: dict[str, Any] = {name: getattr(parts, name) for name in cls.parts}
        for key, value in given.items():
            name = cls.aliases.get(key, key)
            if name not in cls.settings:
                raise unknown_setting(cls.__name__, key, {*cls.settings, *cls.aliases})
            if name in arguments:
                raise ConfigurationError(f"{cls.__name__}: {key!r} and {name!r} are the same.")
            arguments[name] = cls.settings[name](f"{cls.__name__}: {key}", value)
        needed = [
            name
            for name, one in signature(cls).parameters.items()
            if one.default is one.empty and name in cls.settings and name not in arguments
        ]
        if needed:
            raise ConfigurationError(f"{cls.__name__}.from_settings needs {', '.join(needed)}.")
        return cls(**arguments)


def unknown_setting(owner: str, key: str, known: Iterable[str]) -> ConfigurationError:
    """Return the error that names an unknown key, and the known ones."""
    names = ", ".join(sorted(known)) or "none"
    return ConfigurationError(f"{owner} has no setting {key!r}; known are: {names}.")


def checked_object(name: str, value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a dict whose keys are strings."""
    if isinstance(value, Mapping):
        found = cast("Mapping[object, Any]", value)
        if all(isinstance(key, str) for key in found):
            return cast("Mapping[str, Any]", found)
    raise ConfigurationError(f"{name} must be a dict with string keys, not {value!r:.80}.")


def whole(least: int = 0, most: int | None = None) -> SettingCheck:
    """Return a check for a whole number."""
    return _within(int, "a whole number", least, most)


def number(least: float, most: float | None = None) -> SettingCheck:
    """Return a check for a number, whole or not."""
    return _within((int, float), "a number", least, most)


def _within(
    kinds: type | tuple[type, ...], named: str, least: float, most: float | None
) -> SettingCheck:
    bounds = f"of at least {least:.15g}" if most is None else f"from {least:.15g} to {most:.15g}"

    def check(name: str, value: Any) -> Any:
        # True and False are not numbers, nor is NaN.
        fits = isinstance(value, kinds) and not isinstance(value, bool) and value >= least
        if not fits or (most is not None and value > most):
            raise ConfigurationError(f"{name} must be {named} {bounds}, not {value!r:.80}.")
        return value

    return check


def optional(check: SettingCheck) -> SettingCheck:
    """Return a check for None, or for values that ``check`` accepts."""
    return lambda name, value: None if value is None else check(name, value)


def flag(name: str, value: object) -> bool:
    """Check for True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r:.80}.")
    return value


def text(name: str, value: object) -> str:
    """Check for a non-empty string."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a non-empty string, not {value!r:.80}.")
    return value


def names(name: str, value: object) -> frozenset[str]:
    """Check for a list of strings; a bare string would be read letter by letter."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        found = list(cast("Iterable[object]", value))
        if all(isinstance(item, str) for item in found):
            return frozenset(cast("list[str]", found))
    instead = f": write [{value!r:.80}]" if isinstance(value, str) else ""
    raise ConfigurationError(f"{name} must be a list of names, not {value!r:.80}{instead}.")


def limits(name: str, value: object) -> Mapping[str, int]:
    """Check for whole numbers by name."""
    check = whole(0)
    found = checked_object(name, value)
    return {key: check(f"{name}[{key!r}]", number) for key, number in found.items()}
