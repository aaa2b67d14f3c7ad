"""Checks of a tool's options: a value of a wrong kind is refused where the tool is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from agentkit_py._core.spellings import option_hint
from agentkit_py._core.validation import TOOL_NAME, wrong_bool, wrong_number
from agentkit_py.errors import ToolDefinitionError

_FLAGS = ("steps", "repair_arguments")
_TIMES = ("approval_timeout", "escalate_after")


def check_handler(name: object, handler: object) -> None:
    """Refuse a name that providers do not take, and a handler that cannot be called.

    Raises:
        ToolDefinitionError: The name or the handler is refused.
    """
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        shown = name if isinstance(name, str) else f"{name!r:.80}"
        raise ToolDefinitionError(
            shown, "a name has 1 to 64 letters, digits, _ or -, and begins with a letter or _"
        )
    if not callable(handler):
        raise ToolDefinitionError(name, f"its handler must be a function, got {handler!r:.80}")


def check_traits(
    name: str, description: object, traits: Mapping[str, object], known: Collection[str]
) -> None:
    """Refuse options that a tool does not have, and values of a wrong kind.

    Raises:
        ToolDefinitionError: An option is unknown or of a wrong kind.
    """
    check_handler(name, check_traits)
    unknown = sorted(traits.keys() - set(known))
    if unknown:
        names = ", ".join(["name", "description", *sorted(known)])
        hint = option_hint(unknown[0], known)
        said = f"a tool has no option {unknown[0]!r}" + (f": {hint}" if hint else "")
        raise ToolDefinitionError(name, f"{said}; it has {names}")
    if not isinstance(description, str):
        raise ToolDefinitionError(name, f"description must be a text, got {description!r:.80}")
    for problem in filter(None, (_problem(*item) for item in traits.items())):
        raise ToolDefinitionError(name, problem)


def _problem(option: str, value: object) -> str | None:
    """Return why an option does not take a value."""
    if option in _FLAGS and wrong_bool(value):
        return f"{option} must be True or False, got {value!r:.80}"
    if value is None:
        return None
    if option == "needs_approval" and not isinstance(value, bool) and not _is_function(value):
        return f"needs_approval must be True, False or a function of the context, got {value!r:.80}"
    if option == "check" and not _is_function(value):
        return f"check must be a function of the context, got {value!r:.80}"
    if option in _TIMES and not isinstance(value, timedelta):
        return f"{option} must be a timedelta, e.g. timedelta(hours=4), got {value!r:.80}"
    if option == "max_calls":
        wrong = wrong_number(value, whole=True, above=True)
        return f"max_calls={value!r:.80}: {wrong}, or None" if wrong else None
    return None


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, type)
