"""One conversation in three ways: on the page, in `agentkit chat`, and in plain Python."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from agentkit_py import SqliteHistory
from agentkit_py.codec import message_to_dict
from agentkit_py.playground.app import create_playground
from agentkit_py.playground.runs import Playground
from tests.playground.conftest import Served, new_page
from tests.playground.world import shop

SAID = ["Hello, I am ann@example.com", "Where is my order?", "Thank you"]

MODULE = """
from pathlib import Path
from tests.playground.world import shop

def network():
    return shop(Path({folder!r}))
"""


def on_the_page(browser: Browser, folder: Path) -> None:
    """Type it into the box."""
    with Served(create_playground(Playground(shop(folder)))) as served, new_page(browser) as page:
        page.goto(served.address)
        for number, text in enumerate(SAID, 1):
            page.get_by_label("Message", exact=True).fill(text)
            page.keyboard.press("Enter")
            expect(page.locator(".turn .foot .link")).to_have_count(number)


def in_the_terminal(folder: Path, root: Path) -> None:
    """Pipe it into the command."""
    (folder / "desk.py").write_text(MODULE.format(folder=str(folder)))
    subprocess.run(
        [sys.executable, "-m", "agentkit_py.cli", "chat", "desk:network"],
        cwd=folder,
        input="\n".join(SAID) + "\n",
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


async def in_python(folder: Path) -> None:
    """Call it."""
    network, thread = shop(folder), None
    for text in SAID:
        thread = (await network.run(text, thread_id=thread)).thread_id
    assert isinstance(network.history, SqliteHistory)
    await network.history.close()


async def stored(folder: Path) -> list[dict[str, Any]]:
    """The messages of the only thread."""
    async with SqliteHistory(folder / "shop.db") as store:
        (thread,) = await store.list_threads()
        return [message_to_dict(message) for message in await store.messages(thread.id)]


def test_playground_chat_and_python_share_one_thread(
    browser: Browser, tmp_path: Path, root: Path
) -> None:
    """Message by message, tool calls and their ids included."""
    folders = [tmp_path / name for name in ("page", "chat", "python")]
    for folder in folders:
        folder.mkdir()
    on_the_page(browser, folders[0])
    in_the_terminal(folders[1], root)

    async def rest() -> list[list[dict[str, Any]]]:
        await in_python(folders[2])
        return [await stored(folder) for folder in folders]

    # Not here: the browser's own event loop stands in this thread.
    with ThreadPoolExecutor(1) as pool:
        page, chat, python = pool.submit(lambda: asyncio.run(rest())).result()
    assert len(page) > len(SAID) * 2
    assert page == chat == python
