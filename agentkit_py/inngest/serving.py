"""The Inngest functions of a module, and the app or connection that serves them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import inngest

from agentkit_py._core.validation import slugify
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest.functions import create_functions
from agentkit_py.inngest.runtime import Inference
from agentkit_py.network import Network
from agentkit_py.runtime.current import close_shared_runtime

SERVE_PATH = "/api/inngest"

_WANTED = (
    "an Inngest function, network or agent, a list of them, or a function without arguments "
    "that returns them"
)

Servable: TypeAlias = Network | Agent[Any, Any] | inngest.Function[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Functions and the client that serves them."""

    client: inngest.Inngest
    functions: Sequence[inngest.Function[Any]]
    events: dict[str, str] = field(default_factory=dict[str, str])
    """The event that starts each function, by the function's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of functions that are made of networks and agents."""

    app_id: str | None = None
    inference: Inference = "local"
    realtime: bool = False


def development_client(app_id: str) -> inngest.Inngest:
    """Return a client for a server on this machine: nothing is signed."""
    return inngest.Inngest(app_id=app_id, is_production=False)


def find_functions(
    name: str, module: object, chosen: object = None, *, options: ServeOptions
) -> Served:
    """Find the functions of a module, and make those that it does not make itself.

    Args:
        name: The module's name, from which the app's id is made without a client.
        module: The module; its ``client`` is used, if any.
        chosen: The parts to serve; None: its ``functions``, else all its networks, else
            all its agents.
        options: How functions are made.

    Raises:
        ConfigurationError: There is nothing to serve, or it cannot be served so.
    """
    items = _items(name, chosen if chosen is not None else _default(module))
    client = client_of(module)
    if client is not None and options.app_id not in (None, client.app_id):
        raise ConfigurationError(
            f"{name!r} has a client of its own, whose app id is {client.app_id!r}; leave --app-id "
            "out."
        )
    own = [item for item in items if isinstance(item, inngest.Function)]
    if own:
        return _own_functions(name, items, own, client, options)
    if client is None:
        client = client_named(name, options.app_id)
    functions = create_functions(
        client,
        agents=[item for item in items if isinstance(item, Agent)],
        networks=[item for item in items if isinstance(item, Network)],
        inference=options.inference,
        realtime=options.realtime,
    )
    return Served(client=client, functions=functions, events=_events(functions))


def _own_functions(
    name: str,
    items: Sequence[Servable],
    own: Sequence[inngest.Function[Any]],
    client: inngest.Inngest | None,
    options: ServeOptions,
) -> Served:
    if len(own) != len(items):
        raise ConfigurationError(
            f"{name!r}: serve either Inngest functions, or networks and agents; use "
            "create_functions(client, …) for a mix."
        )
    if client is None:
        raise ConfigurationError(
            f"{name!r} has Inngest functions and no client; keep it in a variable `client`."
        )
    if options != ServeOptions(app_id=options.app_id):
        raise ConfigurationError(
            f"{name!r} makes its functions itself, so --inference and --realtime do nothing here; "
            "pass them to create_functions(…)."
        )
    return Served(client=client, functions=own, events=_events(own))


def _default(module: object) -> object:
    found = getattr(module, "functions", None)
    if found is not None:
        return found
    values = {id(value): value for value in vars(module).values()}.values()
    for kind in (Network, Agent):
        if any(isinstance(value, kind) for value in values):
            return [value for value in values if isinstance(cast("object", value), kind)]
    return []


def _items(name: str, found: object) -> list[Servable]:
    kinds = (Network, Agent, inngest.Function)
    if callable(found) and not isinstance(found, (*kinds, type)):
        found = cast("Callable[[], object]", found)()
    listed = cast("Sequence[object]", found if isinstance(found, list | tuple) else [found])
    items = [cast("Servable", item) for item in listed if isinstance(item, kinds)]
    strangers = [item for item in listed if not isinstance(item, kinds)]
    if strangers or not items:
        got = f"; got {strangers[0]!r:.80}" if strangers else "; there are none"
        raise ConfigurationError(f"{name!r} has nothing to serve: it takes {_WANTED}{got}.")
    return items


def client_of(module: object) -> inngest.Inngest | None:
    """Return the Inngest client of a module: its ``client``, else its only client.

    Raises:
        ConfigurationError: It has several.
    """
    named = getattr(module, "client", None)
    if isinstance(named, inngest.Inngest):
        return named
    clients = {id(v): v for v in vars(module).values() if isinstance(v, inngest.Inngest)}
    if len(clients) > 1:
        raise ConfigurationError(
            "The module has several Inngest clients; name the client to use `client`."
        )
    return next(iter(clients.values()), None)


def client_named(module: str, app_id: str | None = None) -> inngest.Inngest:
    """Return the client of a module that has none; the app's id is made from the module's name."""
    return inngest.Inngest(app_id=app_id or slugify(module.rpartition(".")[2]))


def default_to_development() -> None:
    """Take the server for one on this machine, unless the environment says otherwise.

    The SDK's default is production, which needs a key.
    """
    if not os.environ.keys() & {"INNGEST_DEV", "INNGEST_SIGNING_KEY"}:
        os.environ["INNGEST_DEV"] = "1"


def _events(functions: Sequence[inngest.Function[Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for function in functions:
        triggers = function.get_config("http://127.0.0.1").main.triggers
        names = [one.event for one in triggers if isinstance(one, inngest.TriggerEvent)]
        found[function.local_id] = ", ".join(names) or "a schedule"
    return found


def make_app(served: Served) -> Any:
    """Return a FastAPI app with the functions on `SERVE_PATH`.

    Raises:
        ConfigurationError: The client is in production mode without a signing key.
    """
    import inngest.fast_api  # noqa: PLC0415 - needs the extra inngest
    from fastapi import FastAPI  # noqa: PLC0415 - an extra

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        yield
        await close_shared_runtime()

    _check_signed(served.client)
    app = FastAPI(lifespan=lifespan)
    inngest.fast_api.serve(app, served.client, list(served.functions))
    return app


async def run_connected(served: Served, connected: Callable[[], None]) -> None:
    """Run functions through a connection that this process opens, so that it needs no address.

    Several processes share the runs of an app. It ends with SIGINT or SIGTERM, once the requests
    in progress are answered.

    Args:
        served: The functions.
        connected: Called once the server has accepted them.

    Raises:
        ConfigurationError: The client is in production mode without a signing key.
    """
    from inngest.connect import ConnectionState, connect  # noqa: PLC0415 - needs the extra

    _check_signed(served.client)
    connection = connect(
        [(served.client, list(served.functions))],
        # The SDK's default, the machine's name, is the same for all processes of a machine.
        instance_id=f"{socket.gethostname()}-{os.getpid()}",
    )
    running = asyncio.ensure_future(connection.start())
    accepted = asyncio.ensure_future(connection.wait_for_state(ConnectionState.ACTIVE))
    try:
        await asyncio.wait([running, accepted], return_when=asyncio.FIRST_COMPLETED)
        if accepted.done():
            connected()
        await running
    finally:
        accepted.cancel()
        await close_shared_runtime()


def _check_signed(client: inngest.Inngest) -> None:
    if client.is_production and not (client.signing_key or os.environ.get("INNGEST_SIGNING_KEY")):
        raise ConfigurationError(
            "In production the requests of Inngest are signed: set INNGEST_SIGNING_KEY, or "
            "INNGEST_DEV=1 for a development server."
        )
