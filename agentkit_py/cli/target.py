"""The network, model and store that a command works on, as the command line names them."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from agentkit_py._core.lazy import missing_package
from agentkit_py.agent import Agent
from agentkit_py.cli.stores import check_is_file
from agentkit_py.errors import AgentKitError, ConfigurationError, MissingDependencyError
from agentkit_py.models import azure_openai, model_named
from agentkit_py.models.base import Model
from agentkit_py.network import Network, Target
from agentkit_py.stores import MemoryHistory, SqliteHistory

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:OBJECT", help="A Network or Agent, or a function that makes it."
    ),
]
DbOption = Annotated[
    Path | None, typer.Option(help="SQLite file for threads, if it has no history of its own.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="PROVIDER:NAME", help="A real model, e.g. openai:gpt-4.1, with your key."
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Where the model is, if not at its provider's."),
]

DEV_FOLDER = "AGENTKIT_DEV_FOLDER"
"""The environment variable with a folder that exists while `agentkit dev` runs."""

_EXAMPLE = "e.g. support:network for the object `network` in support.py"
_AZURE_ENDPOINT = "AZURE_OPENAI_ENDPOINT"


def load_target(spec: str) -> Target:
    """Return the network or agent that ``MODULE:OBJECT`` names; a function is called."""
    name, path = split_target(spec)
    found = find_object(spec, import_module(name), path)
    if not isinstance(found, Network | Agent):
        kind = f"of type {type(found).__name__}"
        if isinstance(found, type):
            kind = f"the class {found.__name__}"
        raise ConfigurationError(
            f"{spec!r} is {kind}; give a Network, an Agent, or a function without "
            "arguments that returns it."
        )
    return cast("Target", found)


def split_target(spec: str) -> tuple[str, str]:
    """Return module and object of ``MODULE:OBJECT``."""
    name, colon, path = spec.partition(":")
    if not (colon and name and path):
        raise ConfigurationError(f"{spec!r} is not MODULE:OBJECT, {_EXAMPLE}.")
    return name, path


def find_object(spec: str, module: object, path: str) -> Any:
    """Return the object at ``path`` in a module; call it if it is a function."""
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            name = spec.partition(":")[0]
            raise ConfigurationError(f"{name!r} has no {path!r}.{_suggestion(found)}")
        found = getattr(found, part)
    is_factory = callable(found) and not isinstance(found, type)
    return _call(spec, found) if is_factory else found


def import_module(name: str) -> object:
    """Return the module, from the current folder or installed."""
    if name.endswith(".py") or "/" in name or "\\" in name:
        raise ConfigurationError(f"{name!r} is a file; name the module instead, {_EXAMPLE}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(f"{name!r} cannot be imported: {error}.") from error
        raise ConfigurationError(f"Module {name!r} is neither in {here} nor installed.") from error
    except SystemExit as error:  # a script that calls sys.exit(main()) without looking at __name__
        problem = f"it ends the program (SystemExit: {error})"
        raise ConfigurationError(f"{name!r} cannot be imported: {problem}") from error
    except Exception as error:
        kind = "" if isinstance(error, AgentKitError) else f"{type(error).__name__}: "
        raise ConfigurationError(f"{name!r} cannot be imported: {kind}{error}") from error


def _call(spec: str, factory: Callable[[], object]) -> object:
    if inspect.iscoroutinefunction(factory):
        raise ConfigurationError(f"{spec!r} is an async function; give a sync function.")
    try:
        return factory()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"{spec!r} was called without arguments: {what}") from error


def _suggestion(module: object) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Network | Agent)]
    return f" It has {', '.join(map(repr, names))}." if names else ""


def check_file(db: Path) -> None:
    """Refuse a --db that cannot become a file."""
    if db.is_dir():
        raise ConfigurationError(f"--db {db} is a folder.")
    if not db.absolute().parent.is_dir():
        raise ConfigurationError(f"The folder of --db {db} does not exist.")


def with_history(target: Target, db: Path | None, *, create: bool = True) -> tuple[Target, str]:
    """Return the target with a store for its threads, and a sentence that names it.

    Args:
        target: The target, which may have a store.
        db: The file of a store.
        create: Make the file if there is none.
    """
    if target.history is not None:
        ignored = " (--db is not used)" if db is not None else ""
        own = "in memory" if isinstance(target.history, MemoryHistory) else repr(target.history)
        return target, f"Threads are kept by its own history, {own}{ignored}."
    if db is not None:
        (check_file if create else check_is_file)(db)
        return replace(target, history=SqliteHistory(db)), f"Threads are kept in {db.absolute()}."
    sentence = "It keeps no threads, so this thread ends with the chat; --db FILE would keep it."
    return replace(target, history=MemoryHistory()), sentence


def check_installed(command: str, extra: str, *modules: str) -> None:
    """Refuse a command whose extra is not installed."""
    if package := missing_package(*modules):
        raise MissingDependencyError(package, extra, f"agentkit {command}")


def load_model(spec: str, *, base_url: str | None = None) -> Model:
    """Return the model that ``PROVIDER:NAME`` names, with its key from the environment."""
    model = _make(spec, base_url)
    variable = model.adapter.key_variable
    if model.key_required and not os.environ.get(variable):
        raise ConfigurationError(f"{spec} needs an API key in the environment variable {variable}.")
    return model


def _make(spec: str, base_url: str | None) -> Model:
    provider, _, name = spec.partition(":")
    if provider in ("azure", "azure_openai") and name:
        endpoint = base_url or os.environ.get(_AZURE_ENDPOINT)
        if not endpoint:
            raise ConfigurationError(f"{spec} needs {_AZURE_ENDPOINT} in the environment.")
        return azure_openai(name, endpoint=endpoint)
    return model_named(spec, base_url=base_url)
