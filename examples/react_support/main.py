"""The desk without its page: the same network, asked in this process. The page is in ``app.py``."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from desk import support_network
from offline import offline_model

from agentkit_py import State
from agentkit_py.events import ApprovalRequest


def approve(request: ApprovalRequest) -> bool:
    """Approve, as the page's buttons do."""
    print(f"  ({request.agent} asks for {request.calls[0].name}: approved)")
    return True


async def main(folder: Path) -> None:
    """Ask two questions, one of which needs an approval."""
    network = support_network(offline_model(pause=0), str(folder / "threads.db"))
    for question in ("Where is my order B2?", "I want to give order A1 back."):
        run = await network.run(question, state=State({}), approver=approve)
        print(f"{question}\n  {run.text}")
    assert run.text.startswith("Done: **120 €**")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
    print("For the page: npm install && npm run build, then uvicorn app:app")
