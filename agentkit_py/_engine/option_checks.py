"""Checks of options: values of a wrong kind are refused with their name, before a run begins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import MethodType
from typing import Any, Protocol, cast, get_origin

from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import Answered, ApprovalAnswer
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.questions import Question
from agentkit_py.models.base import Model
from agentkit_py.models.compatible import model_named

MODEL = 'a model, e.g. openai("gpt-4o") or "openai:gpt-4o", or a function that chooses a model'
START = "agentkit_py.lifecycle.Start(prompt, history, stop=…), or None"
RESULT = "an AgentResult, e.g. ctx.result.with_messages([…]), or None"
HISTORY = 'a store or HistoryConfig, e.g. SqliteHistory("support.db")'


def wrong(where: str, name: str, wanted: str, value: object) -> ConfigurationError:
    """Return the error of a value that an option does not take."""
    return ConfigurationError(f"{where}: {name} must be {wanted}, got {value!r:.80}")


def expect(
    where: str, name: str, value: object, kinds: type | tuple[type, ...], wanted: str
) -> None:
    """Refuse a value of another kind; None is always allowed.

    Raises:
        ConfigurationError: It is of another kind.
    """
    if value is not None and not isinstance(value, kinds):
        raise wrong(where, name, wanted, value)


def expect_list(where: str, name: str, value: object) -> None:
    """Refuse anything but a list, e.g. an item that was not put into a list.

    Raises:
        ConfigurationError: It is something else.
    """
    if isinstance(value, list | tuple):  # nearly always, and much quicker to check
        return
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError(
            f"{where}: {name} must be a list, got {value!r:.80}; put it into [ ]"
        )


def expect_function(where: str, name: str, value: object) -> None:
    """Refuse anything but a function.

    Raises:
        ConfigurationError: It cannot be called.
    """
    if not callable(value):
        raise wrong(where, name, "a function", value)


def expect_one_of(where: str, name: str, value: object, known: tuple[object, ...]) -> None:
    """Refuse a value that is not among the known ones.

    Raises:
        ConfigurationError: It is not among them.
    """
    problem = wrong_word(name, value, known)
    if problem:
        raise ConfigurationError(f"{where}: {problem}")


def expect_count(where: str, name: str, value: object) -> None:
    """Refuse anything but a whole number of 0 or more.

    Raises:
        ConfigurationError: It is something else.
    """
    expect(where, name, value, int, "a whole number")
    if isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise ConfigurationError(f"{where}: {name} must be 0 or more, got {value}")


def expect_bool(where: str, name: str, value: object) -> None:
    """Refuse anything but True and False.

    Raises:
        ConfigurationError: It is something else.
    """
    if value is not True and value is not False:
        raise wrong(where, name, "True or False", value)


def expect_text(where: str, name: str, value: object, *, empty: bool = True) -> None:
    """Refuse anything but a text; None is allowed.

    Raises:
        ConfigurationError: It is something else, or is empty where it must not be.
    """
    if value is not None and (not isinstance(value, str) or not (value or empty)):
        raise wrong(where, name, "a text" if empty else "a text that is not empty", value)


def expect_texts(where: str, name: str, value: object, wanted: str = "a list of texts") -> None:
    """Refuse anything but a list or another collection of texts.

    Raises:
        ConfigurationError: It is something else; a text alone is, too.
    """
    given: object = value
    is_many = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if not is_many or not all(isinstance(item, str) for item in cast("Collection[object]", value)):
        raise wrong(where, name, wanted, given)


def expect_type(where: str, name: str, value: object) -> None:
    """Refuse anything but a class; None is allowed.

    Raises:
        ConfigurationError: It is something else.
    """
    if value is not None and not isinstance(get_origin(value) or value, type):
        raise wrong(where, name, "a class, e.g. a dataclass", value)


def expect_type_form(where: str, name: str, value: object) -> None:
    """Refuse anything but a type or a form of types such as ``list[str]``; None is allowed.

    Raises:
        ConfigurationError: It is something else.
    """
    is_form = isinstance(value, type) or get_origin(value) is not None
    if value is not None and not is_form and not hasattr(value, "__supertype__"):
        raise wrong(where, name, "a type, e.g. str or a pydantic model", value)


def expect_callback(where: str, name: str, value: object, *parameters: str) -> None:
    """Refuse anything but a function that takes these parameters; None is allowed.

    Raises:
        ConfigurationError: It is something else, or takes others.
    """
    if value is None:
        return
    words = ", ".join(parameters)
    if not callable(value) or isinstance(value, type):
        raise wrong(where, name, f"a function of ({words})", value)
    taken = _other_parameters(value, parameters)
    if taken is not None:
        raise ConfigurationError(f"{where}: {name} is called with ({words}); it takes ({taken})")


def _other_parameters(function: Callable[..., object], given: tuple[str, ...]) -> str | None:
    """Return the parameters of a function that cannot be called with the given ones, else None."""
    if isinstance(function, MethodType):
        # Each chat of a server has a method of its own object; the signature is the class's.
        taken = _unfit_method(function.__func__, ("self", *given))
        return None if taken is None else taken.partition(", ")[2]
    return _unfit(function, given)


def _unfit(function: Callable[..., object], given: tuple[str, ...]) -> str | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in
        return None
    try:
        signature.bind(*given)
    except TypeError:
        return ", ".join(signature.parameters)
    return None


_unfit_method = lru_cache(maxsize=256)(_unfit)


def expect_method(where: str, name: str, value: object, method: str, wanted: str) -> None:
    """Refuse anything but an object with a method; None is allowed.

    Raises:
        ConfigurationError: It has no such method, or is a class.
    """
    if value is not None and (isinstance(value, type) or not hasattr(value, method)):
        raise wrong(where, name, wanted, value)


def expect_items(where: str, name: str, value: object, kind: type[Any], wanted: str) -> None:
    """Refuse anything but a list of objects of a class.

    Raises:
        ConfigurationError: It is something else, or holds something else.
    """
    if not isinstance(value, list | tuple):
        raise wrong(where, name, f"a list of {wanted}s", value)
    for item in cast("list[object]", value):
        if not isinstance(item, kind):
            raise ConfigurationError(f"{where}: {name} holds {item!r:.80}, which is no {wanted}")


def expect_context(where: str, name: str, function: object, *, or_none: bool = False) -> None:
    """Refuse a function that cannot be called with a context alone.

    Args:
        where: The agent, network or call that has the option.
        name: The option.
        function: The function; anything that is not callable passes.
        or_none: The function may also take no argument.

    Raises:
        ConfigurationError: The function has other parameters.
    """
    if not callable(function):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in
        return
    for given in [(None,), ()] if or_none else [(None,)]:
        with suppress(TypeError):
            signature.bind(*given)
            return
    names = list(signature.parameters)
    use = f", and use {', '.join(f'ctx.{one}' for one in names)}" if len(names) > 1 else ""
    raise ConfigurationError(
        f"{where}: {name} gets a single argument: write (ctx){use}; it takes ({', '.join(names)})"
    )


def expect_history(where: str, history: object) -> None:
    """Refuse anything but a store, and callbacks that do not take a context alone.

    Raises:
        ConfigurationError: It is none.
    """
    if history is None:
        return
    expect(where, "history", history, HistoryConfig, HISTORY)
    for name in ("create_thread", "get", "append_user_message", "append_results"):
        given = getattr(history, name, None)
        if getattr(given, "__self__", None) is not history:  # a store's own methods are not given
            expect_context(where, f"history's {name}", given)


def expect_model(where: str, name: str, value: object) -> None:
    """Refuse anything but a model, a model's name, or a function that chooses a model.

    Raises:
        ConfigurationError: It is something else, or the model's name is unknown.
    """
    if isinstance(value, str):
        try:
            model_named(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {name} must be {MODEL}: {error}") from error
    elif isinstance(value, type):
        raise ConfigurationError(
            f"{where}: {name} is the class {value.__name__}; write {value.__name__}(…)"
        )
    elif not callable(value):
        expect(where, name, value, Model, MODEL)
    elif not isinstance(value, Model):
        expect_context(where, name, value)


class OnThread(Protocol):
    """Anything that knows its thread, e.g. a `NetworkRun`, a `State` or a `Question`."""

    @property
    def thread_id(self) -> str | None:
        """The id of the thread."""
        ...


def id_of_thread(method: str, thread: object) -> str:
    """Return the id of a thread that a method was given.

    Raises:
        ConfigurationError: It is neither a text nor something of a thread.
    """
    found = thread if isinstance(thread, str) else getattr(thread, "thread_id", None)
    if not isinstance(found, str) or not found:
        raise ConfigurationError(
            f"{method}() needs a thread's id, such as run.thread_id, or the run itself; got "
            f"{thread!r:.80}"
        )
    return found


def checked_answers(answers: object) -> dict[str, Answered] | None:
    """Return answers by the ids of their questions.

    Raises:
        ConfigurationError: They are not a mapping of ids, or of questions, to True, False or an
            `ApprovalAnswer`, or a question has two.
    """
    if answers is None:
        return None
    if not isinstance(answers, Mapping):
        raise ConfigurationError(
            "resume() takes answers by the questions' ids, e.g. {run.pending[0].id: True}; got "
            f"{answers!r:.80}"
        )
    found: dict[str, Answered] = {}
    for key, answer in cast("Mapping[object, object]", answers).items():
        question = key.id if isinstance(key, Question) else key
        if not isinstance(question, str):
            raise ConfigurationError(
                f"resume() takes answers by the questions' ids; {question!r:.80} is not an id"
            )
        if not isinstance(answer, bool | ApprovalAnswer):
            raise ConfigurationError(
                f"The answer to question {question!r} must be True, False or an "
                f"ApprovalAnswer(…), got {answer!r:.80}"
            )
        if question in found:
            raise ConfigurationError(f"resume() was given two answers to question {question!r}")
        found[question] = answer
    return found
