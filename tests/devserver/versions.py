"""A function whose versions are deployed under its runs: an event says which, and when."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastapi
import inngest
import inngest.fast_api
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentkit_py import SqliteHistory, State, ToolContext, openai
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.inngest.runtime import Inference
from agentkit_py.models import Model
from agentkit_py.network import Network
from tests.durable.shops import VERSIONS

from .support import Books, customer


class ServedShop:
    """A shop whose charges are counted in a file, by customer."""

    def __init__(self, model_url: str, folder: Path) -> None:
        self.store = SqliteHistory(folder / "threads.db")
        self._books = Books(folder / "books.db")
        self._model_url = model_url

    def charge(self, key: str, ctx: ToolContext) -> str:
        """Charge once more."""
        self._books.enter(customer(ctx), key)
        return f"charged {key}"

    def model(self, name: str) -> Model:
        """Return a model of the provider."""
        return openai(name, api_key="sk-test", base_url=self._model_url)


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """The function as it is first."""
    network = VERSIONS["the same"](ServedShop(model_url, folder))
    return [_function(client, network, inference)]


def _function(
    client: inngest.Inngest, network: Network, inference: Inference
) -> inngest.Function[Any]:
    middleware: Any = AgentKitMiddleware.configured(inference=inference)

    @client.create_function(
        fn_id="shop",
        trigger=inngest.TriggerEvent(event=f"{client.app_id}/shop"),
        retries=2,
        middleware=[middleware],
    )
    async def shop(ctx: inngest.Context) -> dict[str, Any]:
        name = str(ctx.event.data["customer"])
        state = State({"customer": name}, thread_id=name)
        run = await network.run(f"I am {name}.", state=state)
        return {"charged": sorted(key for key in run.state.data if key.startswith("charged "))}

    return shop


def application(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> ASGIApp:
    """All versions of the app; each request gets the one that is deployed then."""
    shop = ServedShop(model_url, folder)
    apps: dict[str, ASGIApp] = {}
    for name, version in VERSIONS.items():
        apps[name] = app = fastapi.FastAPI()
        inngest.fast_api.serve(app, client, [_function(client, version(shop), inference)])

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await apps["the same"](scope, receive, send)
            return
        body = await _body(receive)

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await apps[deployed(json.loads(body))](scope, again, send)

    return dispatch


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def deployed(request: Mapping[str, Any]) -> str:
    """Return the version that answers a request of a run.

    The event's ``after`` is deployed when ``at`` steps are done, or answers by turns from then on.
    """
    plan, done = request["event"]["data"], len(request["steps"])
    if done < plan["at"]:
        return "the same"
    if not plan["turns"]:
        return plan["after"]
    chance = random.Random(f"{plan['seed']} {done} {request['ctx']['attempt']}")  # noqa: S311 - no secret
    return chance.choice(["the same", plan["after"]])
