"""A playground behind a real server, and a browser to look at it with."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.applications import Starlette

from agentkit_py.playground.app import create_playground
from tests.playground.world import playground


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Starlette], str]]:
    """Serves an application in a thread; gives its address."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def begin(app: Starlette) -> str:
        sock = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"

    yield begin
    for server, _ in servers:
        server.should_exit = True
    for _, thread in servers:
        thread.join()


@pytest.fixture(scope="module")
def address(serve: Callable[[Starlette], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the shop's playground is."""
    folder: Path = tmp_path_factory.mktemp("shop")
    return serve(create_playground(playground(folder), target="tests:shop"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as Debian packages it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The playground's page, wide and light; whatever the page complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(10_000)
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
