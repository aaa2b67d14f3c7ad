"""Wrong kinds of values, found where they are given and named as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit_py._engine.instrumentation import StreamingConfig
from agentkit_py._engine.limits import RunLimits
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Model
from agentkit_py.models.named import model_named

MODEL = 'a model, e.g. openai("gpt-4o") or "openai:gpt-4o", or a function that chooses one'
START = "agentkit_py.lifecycle.Start(prompt, history, stop=…), or None"
RESULT = "an AgentResult, e.g. ctx.result.with_messages([…]), or None"
HISTORY = 'a store or HistoryConfig, e.g. SqliteHistory("support.db")'


def expect(
    where: str, name: str, value: object, kinds: type | tuple[type, ...], wanted: str
) -> None:
    """Refuse a value of another kind; None is always allowed.

    Raises:
        ConfigurationError: It is of another kind.
    """
    if value is not None and not isinstance(value, kinds):
        raise ConfigurationError(f"{where}: {name} must be {wanted}, got {value!r:.80}")


def expect_model(where: str, name: str, value: object) -> None:
    """Refuse what is no model, no name of one and no function that chooses one.

    Raises:
        ConfigurationError: It is none of them, or the name names nothing.
    """
    if isinstance(value, str):
        try:
            model_named(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {name} must be {MODEL}: {error}") from error
    elif not callable(value):
        expect(where, name, value, Model, MODEL)


def expect_list(where: str, name: str, value: object) -> None:
    """Refuse what is no list of things: one thing that was not put into a list, mostly.

    Raises:
        ConfigurationError: It is no list.
    """
    if isinstance(value, list | tuple):  # nearly always, and much quicker to tell
        return
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError(
            f"{where}: {name} must be a list, got {value!r:.80}; put it into [ ]"
        )


def expect_function(where: str, name: str, value: object) -> None:
    """Refuse what cannot be called.

    Raises:
        ConfigurationError: It cannot.
    """
    if not callable(value):
        raise ConfigurationError(f"{where}: {name} must be a function, got {value!r:.80}")


def expect_count(where: str, name: str, value: object) -> None:
    """Refuse what is no whole number, 0 or more.

    Raises:
        ConfigurationError: It is none.
    """
    expect(where, name, value, int, "a whole number")
    if isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise ConfigurationError(f"{where}: {name} must be 0 or more, got {value}")


_OPTIONS: dict[str, tuple[type, str]] = {
    "thread_id": (str, "a text"),
    "limits": (RunLimits, "RunLimits(…)"),
    "streaming": (StreamingConfig, "StreamingConfig(…)"),
    "max_iter": (int, "a whole number"),
}
_FUNCTIONS = ("observer", "approver")


def check_options(options: dict[str, Any]) -> None:
    """Refuse options of ``run`` of the wrong kind.

    Raises:
        ConfigurationError: A value is of the wrong kind.
    """
    for name, value in options.items():
        if name == "model":
            expect_model("run()", name, value)
        elif name in _OPTIONS:
            expect("run()", name, value, *_OPTIONS[name])
        elif name in _FUNCTIONS and value is not None and not callable(value):
            raise ConfigurationError(f"run(): {name} must be a function, got {value!r:.80}")
