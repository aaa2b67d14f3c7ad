"""A playground behind a real server, and a browser to look at it with."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.applications import Starlette

from agentkit_py.playground.app import Server, create_playground
from tests.browser import PATIENCE, chromium
from tests.playground.world import playground


class Served:
    """An application behind a real server, in a thread that ends with the tests at the latest."""

    def __init__(self, app: Starlette, port: int = 0) -> None:
        sock = socket.create_server(("127.0.0.1", port))
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        self._server = Server(config)
        # A daemon: a test that fails before `stop` must not keep the whole test run from ending.
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [sock]}, daemon=True
        )
        self.port: int = sock.getsockname()[1]
        self.address: str = f"http://127.0.0.1:{self.port}"
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the shop's playground."""
    folder: Path = tmp_path_factory.mktemp("shop")
    with Served(create_playground(playground(folder), target="tests:shop")) as served:
        yield served.address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as Debian packages it."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(**chromium())
        yield found
        found.close()


def new_page(browser: Browser) -> Page:
    """A page that is patient on a loaded machine."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    return page


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The playground's page, wide and light; whatever the page complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(address)] == []
