"""Making models: the checks that all factories share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentkit_py._core.json import find_non_json
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Adapter, Model, RetryPolicy

_URL = re.compile(r"https?://[^\s/?#]+[^\s?#]*")
_ADDRESS = re.compile(r"https?://(\[[^\]\s@]+\]|[^\s/@:\[\]]+)(:\d{1,5})?(/|$)")
"""Nothing but a host (RFC 3986: a name, an IPv4 address, or what is in brackets) and a port
stands before the path."""

_UNSAFE_IN_HEADER = re.compile(r"[^\x21-\x7e]")


def build(  # noqa: PLR0913 - what the factories share, all but two by name
    adapter: Adapter,
    model: str,
    *,
    base_url: str,
    api_key: str | None,
    default_parameters: Mapping[str, Any] | None,
    headers: Mapping[str, str] | None,
    timeout: float,
    retry: RetryPolicy,
    context_window: int | None,
    key_required: bool = True,
) -> Model:
    """A checked `Model`.

    Raises:
        ConfigurationError: A value cannot work; the message names it, but never a key.
    """
    _check_key(adapter.provider, api_key)
    _check_numbers(timeout, retry, context_window)
    return Model(
        model=checked_name("model", model),
        adapter=adapter,
        base_url=checked_url("base_url", base_url),
        api_key=api_key,
        default_parameters=_checked_parameters(default_parameters),
        extra_headers=_checked_headers(headers),
        timeout=timeout,
        retry=retry,
        context_window=context_window,
        key_required=key_required,
    )


def checked_name(argument: str, value: object) -> str:
    """``value`` if it is a non-empty string without surrounding space.

    Raises:
        ConfigurationError: It is not.
    """
    if not isinstance(value, str) or not value or value != value.strip():
        raise ConfigurationError(f"{argument}={value!r}: pass the name as a non-empty string.")
    return value


def checked_url(argument: str, value: object) -> str:
    """``value`` without trailing slashes if it is an HTTP URL without query, user and password.

    Raises:
        ConfigurationError: It is not; what may be a secret in it is not shown.
    """
    if not isinstance(value, str) or _URL.fullmatch(value) is None:
        raise ConfigurationError(
            f"{argument}={_shown(value)}: pass an http:// or https:// URL without query and "
            "fragment."
        )
    if _ADDRESS.match(value) is None:
        raise ConfigurationError(
            f"{argument}: this URL (it is not shown here) has a user, a password or a port that is "
            "no number before its path. Addresses stand in logs and errors: pass a key as "
            "api_key=…, and a password as headers={'Authorization': 'Basic …'}."
        )
    return value.rstrip("/")


def _shown(value: object) -> str:
    """What an error may show of an address."""
    if not isinstance(value, str):
        return repr(value)
    address = re.split("[?#]", value)[0]
    return "(not shown here)" if "@" in address else repr(address)


def _check_key(provider: str, api_key: object) -> None:
    if api_key is None:
        return
    if not isinstance(api_key, str) or not api_key or _UNSAFE_IN_HEADER.search(api_key):
        raise ConfigurationError(
            f"api_key of the {provider} model is empty or holds whitespace or characters that "
            "no HTTP header can carry (it is not shown here). Pass None to read it from the "
            "environment when the call is made."
        )


def _check_numbers(timeout: object, retry: object, context_window: object) -> None:
    if not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise ConfigurationError(f"timeout={timeout!r}: pass seconds, more than 0.")
    if not isinstance(retry, RetryPolicy):
        raise ConfigurationError(f"retry={retry!r}: pass a RetryPolicy.")
    if retry.attempts < 1:
        raise ConfigurationError(f"retry.attempts={retry.attempts!r}: 1 means no retry.")
    if context_window is None:
        return
    if not isinstance(context_window, int) or context_window < 1:
        raise ConfigurationError(f"context_window={context_window!r}: pass tokens, 1 or more.")


def _checked_parameters(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"default_parameters={parameters!r}: pass a mapping.")
    copied = dict(parameters)
    where = find_non_json(copied, "default_parameters")
    if where is not None:
        raise ConfigurationError(f"{where}: JSON cannot carry this value.")
    return copied


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    if headers is None:
        return {}
    for name, value in headers.items():
        # Values may be secrets, so only the name is shown.
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"headers[{name!r}]: names and values are strings.")
        if "\n" in value or "\r" in value or not name or _UNSAFE_IN_HEADER.search(name):
            raise ConfigurationError(f"headers[{name!r}]: HTTP cannot carry this header.")
    return dict(headers)
