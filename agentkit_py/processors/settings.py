"""Checked settings: the same checks for arguments in code and for dicts that applications store.

Applications keep policies per user or tenant as plain JSON. What stands there was typed by
somebody, so each error names the key and what it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, TypeAlias, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.processors.base import HistoryProcessor

Check: TypeAlias = Callable[[str, object], Any]
"""Gets a setting's name and value; returns the value to use, or raises `ConfigurationError`."""


class ConfiguredProcessor(HistoryProcessor):
    """A processor that can be made from a plain dict."""

    settings: ClassVar[Mapping[str, Check]] = {}
    """What each setting may be, by the name of the constructor's argument."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that are accepted in dicts → the constructor's argument."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Make one from a dict, e.g. what an application stores for a user.

        Args:
            settings: The constructor's arguments by name; some have a second name.

        Raises:
            ConfigurationError: A key is not known, is given twice, or has a wrong value.
        """
        return cls._made(settings)

    @classmethod
    def _made(cls, settings: Mapping[str, Any], **others: Any) -> Self:
        """Made from a dict and what no dict can hold."""
        given = checked_object(f"{cls.__name__}.from_settings", settings)
        arguments: dict[str, Any] = dict(others)
        for key, value in given.items():
            name = cls.aliases.get(key, key)
            if name not in cls.settings:
                known = ", ".join(sorted({*cls.settings, *cls.aliases})) or "none"
                raise ConfigurationError(
                    f"{cls.__name__} has no setting {key!r}; known are: {known}."
                )
            if name in arguments:
                raise ConfigurationError(f"{cls.__name__}: {key!r} and {name!r} are the same.")
            arguments[name] = cls.settings[name](f"{cls.__name__}: {key}", value)
        try:
            return cls(**arguments)
        except TypeError as error:
            missing = ", ".join(sorted(set(cls.settings) - set(arguments)))
            raise ConfigurationError(
                f"{cls.__name__}.from_settings needs more than {sorted(given)}; there are also: "
                f"{missing}."
            ) from error

    def _check(self) -> None:
        """Check what the constructor got, and keep it as the checks return it."""
        for name, check in self.settings.items():
            value = check(f"{type(self).__name__}: {name}", getattr(self, name))
            object.__setattr__(self, name, value)


def checked_object(name: str, value: object) -> Mapping[str, Any]:
    """``value`` if it is a dict whose keys are strings."""
    if isinstance(value, Mapping):
        found = cast("Mapping[object, Any]", value)
        if all(isinstance(key, str) for key in found):
            return cast("Mapping[str, Any]", found)
    raise ConfigurationError(f"{name} must be a dict with string keys, not {value!r:.80}.")


def whole(least: int = 0, most: int | None = None) -> Check:
    """A whole number."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def check(name: str, value: object) -> int:
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or value < least
            or (most is not None and value > most)
        ):
            raise ConfigurationError(f"{name} must be a whole number {bounds}, not {value!r:.80}.")
        return value

    return check


def number(least: float, most: float | None = None) -> Check:
    """A number, whole or not."""
    bounds = f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"

    def check(name: str, value: object) -> float:
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not least <= value
            or (most is not None and not value <= most)
        ):
            raise ConfigurationError(f"{name} must be a number {bounds}, not {value!r:.80}.")
        return value

    return check


def optional(check: Check) -> Check:
    """None, or what ``check`` wants."""
    return lambda name, value: None if value is None else check(name, value)


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r:.80}.")
    return value


def text(name: str, value: object) -> str:
    """A string with something in it."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} must be a non-empty string, not {value!r:.80}.")
    return value


def names(name: str, value: object) -> frozenset[str]:
    """A list of strings; a bare string would be read letter by letter."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        found = list(cast("Iterable[object]", value))
        if all(isinstance(item, str) for item in found):
            return frozenset(cast("list[str]", found))
    raise ConfigurationError(f"{name} must be a list of names, not {value!r:.80}.")


def limits(name: str, value: object) -> Mapping[str, int]:
    """Whole numbers by name."""
    check = whole(0)
    found = checked_object(name, value)
    return {key: check(f"{name}[{key!r}]", number) for key, number in found.items()}
