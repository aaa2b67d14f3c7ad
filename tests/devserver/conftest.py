"""The places, and the Dev Server that one of them needs."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import TypeAlias

import pytest

from agentkit_py.inngest.runtime import Inference
from agentkit_py.testing import FakeProvider

from .places import Cast, Place, ReplayPlace, ServerPlace
from .server import ServerClient, WorkerProcess, program, start_server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The server's address; it is started if nobody named one."""
    named = os.environ.get("INNGEST_DEV_URL")
    if named:
        yield named
        return
    binary = program()
    if binary is None:
        pytest.skip("no `inngest` program on PATH, and no INNGEST_DEV_URL")
    process, url = start_server(binary, tmp_path_factory.mktemp("inngest"))
    yield url
    process.terminate()
    process.wait()


Working: TypeAlias = tuple[WorkerProcess, Cast, Path]
"""A worker, the model that it asks, and its folder."""


def _working(
    inference: Inference, server_url: str, factory: pytest.TempPathFactory
) -> Generator[Working]:
    folder, model = factory.mktemp(inference), Cast()
    with FakeProvider(model) as provider:
        process = WorkerProcess(server_url, provider.base_url("openai"), folder, inference)
        process.start()
        yield process, model, folder
        process.kill()
        assert provider.rejections == []


@pytest.fixture(scope="session")
def worker(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Working]:
    """A worker that asks models itself, as by default."""
    yield from _working("local", server_url, tmp_path_factory)


@pytest.fixture(scope="session")
def offloading(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Working]:
    """A worker whose models the server asks."""
    yield from _working("offload", server_url, tmp_path_factory)


_ON_SERVER = [
    pytest.param(name, marks=pytest.mark.devserver, id=f"server-{name}")
    for name in ("worker", "offloading")
]


@pytest.fixture(params=["replay", *_ON_SERVER])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Place]:
    """The place where a scenario runs."""
    if request.param == "replay":
        yield ReplayPlace(tmp_path)
        return
    client = ServerClient(request.getfixturevalue("server_url"))
    process, model, folder = request.getfixturevalue(request.param)
    yield ServerPlace(client, process, model, folder)
    await client.close()


@pytest.fixture
def customer() -> str:
    """The name of a new customer."""
    return f"customer-{os.getpid()}x{next(_numbers)}"
