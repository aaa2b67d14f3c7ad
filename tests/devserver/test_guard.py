"""Code that no crash needs to go wrong, on the Dev Server and on the replay executor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit_py.testing import tool_call, tool_calls

from .faulty import BAN, FOUND, GO
from .places import Place, ReplayPlace, Replies
from .support import APP


async def end_of(place: Place, name: str, customer: str, replies: Replies) -> tuple[str, str]:
    """Run a function; gives its status, and its output or error as text."""
    place.model.says(customer, replies)
    end = await place.end(await place.start(f"{APP}/{name}", {"customer": customer}))
    return end.status, json.dumps(end.output)


async def test_gathered_steps_are_refused(place: Place, customer: str) -> None:
    """They ran one, two and three times."""
    replies = {"payer": [tool_call("pay_all", {}), "Paid."]}
    status, said = await end_of(place, "gathered-steps", customer, replies)
    assert (status, place.books.of(customer)) == ("failed", {})
    assert "payer.0.tool.0.pay_all.one" in said
    assert "payer.0.tool.0.pay_all.two" in said


async def test_gathered_runs_are_refused(place: Place, customer: str) -> None:
    """Five payments instead of two."""
    replies = {name: [tool_call("pay", {"order": name}), "Paid."] for name in ("left", "right")}
    status, said = await end_of(place, "gathered-runs", customer, replies)
    assert (status, place.books.of(customer)) == ("failed", {})
    assert "left.0.infer" in said
    assert "right.0.infer" in said


async def test_a_router_by_chance_ends_the_run(place: Place, customer: str) -> None:
    """Unless chance is the same each time, which it is once in many runs."""
    if isinstance(place, ReplayPlace):
        place.executor.check = False  # it would ask for everything twice, and see it by that
    replies = {
        name: [tool_call("pay", {"order": name}), "Paid."] * 3 for name in ("one", "two", "three")
    }
    status, said = await end_of(place, "random-router", customer, replies)
    assert max(place.books.of(customer).values(), default=0) <= 3
    assert status == "completed" or "The router of 'chance'" in said


async def test_a_clock_in_the_state_ends_the_run(place: Place, customer: str) -> None:
    """What the tools saw of the state was not what the run said at its end."""
    if isinstance(place, ReplayPlace):
        place.executor.check = False
    replies = {"one": [tool_call("pay", {"order": "one"}), "Paid."]}
    status, said = await end_of(place, "clock-router", customer, replies)
    assert status == "failed"
    assert "the run's state" in said
    assert max(place.books.of(customer).values(), default=0) <= 1


async def test_numbers_and_the_order_of_keys_survive(place: Place, customer: str) -> None:
    """A tool stored 1150000000000000001, and the next one banned …000."""
    calls = [tool_call("find", {}), tool_call("ban", {"user": BAN}), "Banned."]
    status, said = await end_of(place, "numbers", customer, {"banner": calls})
    assert status == "completed", said
    assert place.books.of(customer) == {f"ban {BAN} {json.dumps(FOUND)}": 1}
    if place.inference == "local":  # the model reads it as it does in a direct run
        assert json.dumps({"data": FOUND}, separators=(",", ":")) in str(
            place.model.read("Banned.")
        )


async def test_a_prompt_that_is_too_large_is_a_clear_error(place: Place, customer: str) -> None:
    """It never reaches the server, which has no part in it where models are asked from here."""
    status, said = await end_of(place, "large", customer, {"large": ["Done."]})
    if place.inference == "local":
        assert status == "completed", said
        return
    assert status == "failed"
    assert "large.0.infer" in said
    assert "4,194,304" in said


CALLS = [
    tool_calls(("charge", {"order": "a"}), ("wait", {}), ("charge", {"order": "b"})),
    "Charged.",
]


@pytest.mark.parametrize("version", ["first", "approval", "renamed"])
async def test_a_deploy_while_a_run_waits(place: Place, customer: str, version: str) -> None:
    """Work that is done stays done; where that cannot be, the run says so."""
    folder = place.folder
    place.model.says(customer, {"teller": CALLS})
    run: Any = await place.start(f"{APP}/deployed", {"customer": customer})
    await place.waits(run, "wait.go")
    (folder / "version").write_text(version)
    try:
        place.restart()
        await place.send(GO, {"customer": customer})
        if version == "approval":
            await place.waits(run, ".approve")
            await place.answer(run, {"approved": False})
        end = await place.end(run)
    finally:
        (folder / "version").unlink()
        place.restart()
    charged = place.books.of(customer)
    if version == "first":
        assert (end.status, charged) == ("completed", {"charge a": 1, "charge b": 1})
    elif version == "approval":
        assert (end.status, charged) == ("completed", {"charge a": 1})
    else:
        assert (end.status, charged) == ("failed", {"charge a": 1})
        assert "run teller is gone" in json.dumps(end.output)
