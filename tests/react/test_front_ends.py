"""The examples of the guides on other front ends, as they are there."""

from __future__ import annotations

import asyncio
import runpy
import shutil
from pathlib import Path

import httpx

from tests.react.conftest import ROOT
from tests.server.world import NO_LIMIT, served

EXAMPLE = ROOT / "examples" / "front_ends"

RENDER = """
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { Chat } from "./Chat.mjs";
const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "Refund A1" }] }];
console.log(renderToString(createElement(Chat, { id: "t1", messages })));
"""


async def run_node(*command: str, cwd: Path) -> str:
    """Return the output of a program of Node."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    return output.decode()


async def test_the_ag_ui_client_asks_and_continues(
    node: str, front_ends: Path, tmp_path: Path
) -> None:
    """A question, its answer, and the reply."""
    (tmp_path / "node_modules").symlink_to(front_ends / "node_modules")
    shutil.copy(EXAMPLE / "ag_ui.mjs", tmp_path)
    app = runpy.run_path(str(EXAMPLE / "lamps.py"))["app"]
    async with served(app) as url:
        output = await run_node(node, "ag_ui.mjs", url, cwd=tmp_path)
    assert output == "May refund be called?\nDone: the money is on its way.\n"


async def test_the_component_is_rendered(
    node: str, packages: Path, front_ends: Path, tmp_path: Path
) -> None:
    """With the SDK's own hook."""
    (tmp_path / "node_modules").symlink_to(front_ends / "node_modules")
    vite = (packages / "node_modules" / "vite" / "dist" / "node" / "index.js").as_uri()
    program = (
        f"import {{ transformWithOxc }} from '{vite}'; import fs from 'node:fs';"
        f"const text = fs.readFileSync('{EXAMPLE / 'Chat.jsx'}', 'utf8');"
        "const made = await transformWithOxc(text, 'Chat.jsx', { jsx: { runtime: 'automatic' } });"
        "fs.writeFileSync('Chat.mjs', made.code);"
    )
    await run_node(node, "--input-type=module", "-e", program, cwd=tmp_path)
    (tmp_path / "render.mjs").write_text(RENDER)
    assert "Refund A1" in await run_node(node, "render.mjs", cwd=tmp_path)


async def test_the_server_of_the_example_answers_use_chat() -> None:
    """With what `curl` would show."""
    app = runpy.run_path(str(EXAMPLE / "lamps.py"))["app"]
    parts = [{"type": "text", "text": "Hi"}]
    body = {"id": "t1", "messages": [{"id": "m1", "role": "user", "parts": parts}]}
    async with served(app) as url, httpx.AsyncClient(trust_env=False, timeout=NO_LIMIT) as client:
        answer = await client.post(f"{url}/api/vercel", json=body)
    assert '"finishReason":"stop"' in answer.text
