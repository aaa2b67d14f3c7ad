"""The support desk, offline: Inngest's part is played by `ReplayExecutor`, the model's by a script.

The function runs again from the top for every step, and a worker is killed in the middle of a
refund's approval; the refund is paid once. For the real thing see ``app.py``.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import inngest
from deploys import desk, functions_of
from support import PAID, support_network

from agentkit_py.inngest import create_functions
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Wait

SCRIPT = [
    tool_call("hand_over", {"desk": "billing"}),
    "Billing will help you.",
    tool_call("wait_for_parcel", {"order": "A1"}),
    tool_call("refund", {"order": "A1", "amount": 120}),
    "Your parcel is back, and 120 are on their way to you.",
]


# --8<-- [start:answers]
def outside_world(wait: Wait) -> Mapping[str, Any] | None:
    """Return what other people and systems send while the run waits."""
    if wait.event == "parcel/arrived":
        return {"order": "A1"}
    question = re.search(r"approvalId == '(.+?)'", wait.expression or "")
    return question and {"approvalId": question[1], "approved": True, "reason": "Long a customer."}


# --8<-- [end:answers]


# --8<-- [start:test]
async def main(folder: Path) -> None:
    """Run a conversation to its end."""
    model = ScriptedModel(*SCRIPT)
    client = inngest.Inngest(app_id="desk", is_production=False)

    def functions() -> Sequence[inngest.Function[Any]]:  # anew for each new worker
        network = support_network(model, str(folder / "threads.db"))
        return create_functions(client, networks=[network])

    executor = ReplayExecutor(client, functions, transport=model.fake.transport, check=True)
    data = {"input": "I return A1, and want my money back.", "userId": "ada", "threadId": "t1"}
    run = await executor.start("desk/network-support", data)
    executor.restart()  # a deploy while the run waits for the parcel
    await executor.finish(run, answer=outside_world)

    assert (run.status, run.differences) == ("completed", [])
    assert PAID == ["A1"]  # once, however often the function was called
    print(run.output["text"])
    print(f"{len(run.steps)} steps, {run.requests} calls of the function:")
    for name in run.names:
        print(f"  {name}")


# --8<-- [end:test]


async def deploy() -> None:
    """Begin one run before a deploy and one after it; both end, each in its own way."""
    model = ScriptedModel("Billing will help.", "Paid.", "Billing will help.", "No fraud.", "Paid.")
    client = inngest.Inngest(app_id="desk", is_production=False)
    ways = iter([False, True])

    def functions() -> Sequence[inngest.Function[Any]]:
        network = desk(model, checks_fraud=next(ways))
        return create_functions(client, networks=[network], inference="local")

    kill = KillAt(request=1, when="after")  # what comes after has the new code
    executor = ReplayExecutor(client, functions, kill=kill)
    runs = [await executor.run("desk/network-desk", {"input": "Hello."}) for _ in range(2)]
    assert [run.status for run in runs] == ["completed", "completed"]
    assert ["agentkit.patched.fraud-check" in run.names for run in runs] == [False, True]
    assert len(functions_of(client, desk(model, checks_fraud=True))) == 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
    asyncio.run(deploy())
    print("To serve it for real, see app.py beside this file, or:")
    print("  agentkit serve app && inngest dev --no-discovery -u http://127.0.0.1:8000/api/inngest")
