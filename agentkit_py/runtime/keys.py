"""Keys that functions give: bound to the run that asks, and called for each request."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from agentkit_py._core.awaiting import resolve
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Model, copy_model
from agentkit_py.models.fallback import FallbackModel


def bind_keys(model: Model, context: object) -> Model:
    """Return the model with a key that needs nothing any more but to be called."""
    if isinstance(model, FallbackModel):
        bound = [bind_keys(one, context) for one in model.models]
        same = all(a is b for a, b in zip(bound, model.models, strict=True))
        return model if same else model.map(lambda one: bind_keys(one, context))
    given = model.api_key
    if not callable(given) or not takes_argument(given):
        return model
    return copy_model(model, api_key=partial(given, context))


async def key_of(model: Model) -> str:
    """Return the key that the model's function gives.

    Raises:
        ConfigurationError: It needs a run's context and has none, or gives no key.
    """
    given = model.api_key
    assert callable(given)
    where = f"api_key=… of {model.provider} model {model.model!r}"
    if takes_argument(given):
        raise ConfigurationError(
            f"{where} is a function of a run's context, and this call belongs to no run. Make it a "
            "function without arguments, or call the model in a run."
        )
    key: Any = await resolve(given())
    if not isinstance(key, str) or not key.strip():
        raise ConfigurationError(f"{where} gave no text, but {type(key).__name__}.")
    return key.strip()


def takes_argument(function: Callable[..., Any]) -> bool:
    """Return whether a function wants to be called with something."""
    if isinstance(function, partial):  # bound by `bind_keys`, or by the user
        return False
    free = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return any(p.default is p.empty and p.kind not in free for p in parameters)
