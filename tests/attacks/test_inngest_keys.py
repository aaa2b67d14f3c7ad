"""Requests to an Inngest app in production: signed by the key, by the one before it, or refused."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

import httpx
import inngest
import pytest

from agentkit_py import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest.serving import SERVE_PATH, ServeOptions, find_functions, make_app
from agentkit_py.testing import ScriptedModel
from tests.cli.terminal import agentkit

pytestmark = pytest.mark.filterwarnings("ignore:Support for class-based")  # of the SDK

KEY, OLD, WRONG = (f"signkey-prod-{digit * 64}" for digit in "abc")


def served(monkeypatch: pytest.MonkeyPatch, model: ScriptedModel, **client: Any) -> Any:
    """Return an app in production with one agent."""
    for name in ("INNGEST_DEV", "INNGEST_SIGNING_KEY"):
        monkeypatch.delenv(name, raising=False)

    class Module:
        """Attributes that a module would have."""

    Module.client = inngest.Inngest(app_id="shop", is_production=True, **client)  # type: ignore[attr-defined] - as a module has it
    agent = Agent(name="a", system="S", model=model)
    found = find_functions("shop", Module, agent, options=ServeOptions())
    return make_app(found), found.functions[0].id


def signed(body: bytes, key: str) -> str:
    """Sign a request as Inngest does."""
    stamp = str(round(time.time()))
    secret = key.removeprefix("signkey-prod-").encode()
    return f"t={stamp}&s={hmac.new(secret, body + stamp.encode(), hashlib.sha256).hexdigest()}"


BODY: dict[str, Any] = {
    "ctx": {
        "attempt": 0,
        "disable_immediate_execution": True,
        "run_id": "r",
        "stack": {"stack": []},
    },
    "event": {"name": "shop/a", "data": {"input": "Hi"}, "id": "e", "ts": 1},
    "events": [],
    "steps": {},
    "use_api": False,
}


async def call(app: Any, function: str, signature: str | None, body: bytes) -> int:
    """Call the function; return the status."""
    headers = {"content-type": "application/json"}
    if signature is not None:
        headers["x-inngest-signature"] = signature
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
        url = f"{SERVE_PATH}?fnId={function}&stepId=step"
        return (await client.post(url, content=body, headers=headers)).status_code


async def test_only_requests_signed_by_a_key_of_ours_run_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without, by another, for another body; the key before a rotated one counts."""
    model = ScriptedModel("Hm.")
    monkeypatch.setenv("INNGEST_SIGNING_KEY_FALLBACK", OLD)
    app, function = served(monkeypatch, model, signing_key=KEY)
    body = json.dumps(BODY, separators=(",", ":"), sort_keys=True).encode()
    other = body.replace(b"Hi", b"Ho")
    forged = [None, "", "t=1&s=", "x", signed(body, WRONG), signed(other, KEY)]
    for signature in forged:
        assert await call(app, function, signature, body) == 401, signature
    assert model.requests == []
    for key in (KEY, OLD):
        assert await call(app, function, signed(body, key), body) in (200, 206)


def test_production_without_a_key_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor with an empty one."""
    for key in (None, ""):
        with pytest.raises(ConfigurationError, match="INNGEST_SIGNING_KEY"):
            served(monkeypatch, ScriptedModel(), signing_key=key)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - it is refused
def test_development_mode_is_not_served_to_other_machines_unasked(host: str, tmp_path: Any) -> None:
    """It takes requests that nobody signed."""
    (tmp_path / "shop.py").write_text(
        "from agentkit_py import Agent\nfrom agentkit_py.testing import ScriptedModel\n"
        "clerk = Agent(name='a', system='S', model=ScriptedModel())\n"
    )
    done = agentkit("serve", "shop", "--host", host, "--port", "0", folder=tmp_path)
    assert done.exit_code == 2
    assert "INNGEST_SIGNING_KEY" in done.output
