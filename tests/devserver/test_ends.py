"""However a run ends, what it did is known and done once: further ways to end, on the real server.

The worker serves `functions_of`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from datetime import date
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    Network,
    RouterContext,
    SqliteHistory,
    Tool,
    ToolContext,
    openai,
    tool,
)
from agentkit_py.errors import NonRetriableError, RetryAfterError
from agentkit_py.inngest import FunctionOptions, create_functions
from agentkit_py.inngest.runtime import Inference
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import tool_call, tool_calls

from .conftest import Working
from .server import eventually
from .shop import Shop, opened, serving
from .support import Books, customer

pytestmark = pytest.mark.devserver

WORLD = __name__.rpartition(".")[2]

HOLD = "hold"
"""Name of a file: while it is there, the tool that holds does not end."""

SETTING = "setting"
"""Name of a file: while it is there, a router decides otherwise."""

DECIDED = "decided"
"""Name of a file: it is there once the router has decided otherwise."""

ERRORS: dict[str, Callable[[], BaseException]] = {
    "final": lambda: NonRetriableError("the account is frozen"),
    "later": lambda: RetryAfterError("the bank is closed", retry_after=1),
    "cancelled": lambda: asyncio.CancelledError("its own"),
    "generator": lambda: GeneratorExit("its own"),
    "exit": lambda: SystemExit("its own"),
    "group": lambda: BaseExceptionGroup("its own", [asyncio.CancelledError("its own")]),
}
"""What tools and hooks raise, by name."""


def store_of(folder: Path) -> SqliteHistory:
    """The store of the threads."""
    return SqliteHistory(folder / "threads.db", lease=ThreadLease(seconds=100_000))


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """A clerk whose calls run in turn, a desk whose calls run together, and odd networks."""
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)
    tools, store = _tools(Books(folder / "books.db"), folder / HOLD), store_of(folder)
    hooks: Any = Lifecycle(on_response=_leave)

    def agent(name: str, **options: Any) -> Agent:
        return Agent(name=name, system=name, tools=tools, model=model, max_iter=4, **options)

    def network(name: str, route: Callable[[RouterContext], str | None]) -> Network:
        return Network(name=name, agents=[agent(name)], router=route, history=store)

    def leaves(context: RouterContext) -> str | None:
        if context.call_count:
            raise asyncio.CancelledError("its own")
        return "leaving"

    def sets(context: RouterContext) -> str | None:
        if is_set := (folder / SETTING).exists():
            (folder / DECIDED).touch()
        return None if context.call_count or is_set else "setting"

    hooked = agent("hooked", history=store, lifecycle=hooks)
    agents = [agent("clerk", history=store), agent("desk", history=store, parallel_tools=True)]
    names = ("clerk", "desk", "hooked", "leaving")
    options = {name: FunctionOptions(retries=2) for name in names}
    return create_functions(
        client,
        agents=[*agents, hooked],
        networks=[network("leaving", leaves), network("setting", sets)],
        options={**options, "setting": FunctionOptions(retries=20)},
        inference=inference,
    )


async def _leave(*_: Any) -> Any:
    raise asyncio.CancelledError("its own")


def _tools(books: Books, hold: Path) -> list[Tool]:
    def enter(ctx: ToolContext, name: str) -> str:
        books.enter(customer(ctx), name)
        return f"done: {name}"

    @tool
    def charge(order: str, ctx: ToolContext) -> str:
        """Charge."""
        return enter(ctx, f"charge {order}")

    @tool
    def charge_slowly(order: str, ctx: ToolContext) -> str:
        """Charge, and end once it is not held any more."""
        done = enter(ctx, f"charge {order}")
        while hold.exists():
            time.sleep(0.02)
        return done

    @tool
    async def leave(order: str, error: str, ctx: ToolContext) -> str:
        """Charge, and be left by an error."""
        enter(ctx, f"charge {order}")
        raise ERRORS[error]()

    @tool
    def fail(error: str) -> str:
        """Fail before anything is charged."""
        raise ERRORS[error]()

    @tool
    def charge_at_length(order: str, ctx: ToolContext) -> str:
        """Charge, and tell more than the server takes."""
        return enter(ctx, f"charge {order}") + "." * (5 * 1024 * 1024)

    @tool
    def charge_and_date(order: str, ctx: ToolContext) -> str:
        """Charge, and leave what is no JSON in the state."""
        ctx.state.data["day"] = date(2027, 1, 1)
        return enter(ctx, f"charge {order}")

    @tool(needs_approval=True)
    def refund(order: str, ctx: ToolContext) -> str:
        """Pay back."""
        return enter(ctx, f"refund {order}")

    return [charge, charge_slowly, leave, fail, charge_at_length, charge_and_date, refund]


@pytest.fixture(scope="module")
def working(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Working]:
    """A worker with `functions_of`."""
    with serving(WORLD, server_url, tmp_path_factory.mktemp("ends")) as worker:
        yield worker


@pytest.fixture
async def shop(working: Working) -> AsyncGenerator[Shop]:
    """Where the functions run."""
    async with opened(working, store_of(working[2])) as shop:
        yield shop


CHARGE = ("charge", {"order": "a"})

ENDS: dict[str, tuple[Any, str, list[str]]] = {
    "for good": (("fail", {"error": "final"}), "the account is frozen", ["a"]),
    "its attempts used up": (("fail", {"error": "later"}), "the bank is closed", ["a"]),
    "too long a result": (("charge_at_length", {"order": "b"}), "cannot be stored", ["a", "b"]),
    "a state that is no JSON": (("charge_and_date", {"order": "b"}), "data.day", ["a", "b"]),
}
"""The call by which a run ends, what the next message's model reads of it, and what is charged."""


@pytest.mark.parametrize("agent", ["clerk", "desk"])
@pytest.mark.parametrize("end", ENDS)
async def test_the_next_message_reads_the_calls_of_a_run_however_it_ended(
    shop: Shop, customer: str, end: str, agent: str
) -> None:
    """The calls in one reply, in turn and together; each is in the thread as what it was."""
    call, read, charged = ENDS[end]
    shop.place.model.says(customer, {agent: [tool_calls(CHARGE, call)]})
    error = await shop.fails(await shop.start(agent, customer))
    assert "NonRetriableError: NonRetriableError" not in error
    assert shop.place.books.of(customer) == {f"charge {order}": 1 for order in charged}
    told = await shop.say_more(agent, customer)
    assert "done: charge a" in told
    assert read in told
    assert "before this call was made" not in told
    assert shop.place.books.of(customer) == {f"charge {order}": 1 for order in charged}


async def test_a_run_that_is_cancelled_in_its_first_call_keeps_the_reply(
    shop: Shop, customer: str
) -> None:
    """The next message reads that it is not known; once the tool comes back, what it did."""
    folder = shop.place.folder
    (folder / HOLD).touch()
    shop.place.model.says(customer, {"clerk": [tool_call("charge_slowly", {"order": "a"})]})
    run = await shop.start("clerk", customer)
    await shop.happens(customer, "charge a")
    await shop.cancel(run)
    assert "Whether it took effect is not known" in await shop.say_more("clerk", customer)
    (folder / HOLD).unlink()

    async def look() -> bool | None:
        return "done: charge a" in str(await shop.store.load(customer)) or None

    await eventually(look, "the late result in the thread")
    assert "done: charge a" in await shop.say_more("clerk", customer, "later")
    assert shop.place.books.of(customer) == {"charge a": 1}


@pytest.mark.parametrize("error", ["cancelled", "generator", "exit", "group"])
async def test_a_tool_that_a_base_exception_leaves_acts_once_and_so_does_the_call_beside_it(
    shop: Shop, customer: str, error: str
) -> None:
    """The model reads it as any other error, also where the calls run together."""
    calls = tool_calls(("leave", {"order": "a", "error": error}), ("charge", {"order": "b"}))
    for agent in ("clerk", "desk"):
        name = f"{customer}{agent}"
        shop.place.model.says(name, {agent: [calls, f"Well, {name}."]})
        assert await shop.text(await shop.start(agent, name)) == f"Well, {name}."
        assert shop.place.books.of(name) == {"charge a": 1, "charge b": 1}
        read = str(shop.place.model.read(f"Well, {name}."))
        assert type(ERRORS[error]()).__name__ in read
        assert "done: charge b" in read


async def test_a_router_that_a_cancellation_of_its_own_leaves_fails_the_run_once(
    shop: Shop, customer: str
) -> None:
    """What was charged before it is in the thread, and is not charged again."""
    shop.place.model.says(customer, {"leaving": [tool_call(*CHARGE), "Charged."]})
    run = await shop.start("leaving", customer, kind="network")
    assert "CancelledError" in await shop.fails(run)
    assert shop.place.books.of(customer) == {"charge a": 1}
    assert "done: charge a" in str(await shop.store.load(customer))


async def test_a_hook_that_a_cancellation_of_its_own_leaves_fails_the_run(
    shop: Shop, customer: str
) -> None:
    """The server hears an error of the run, not of a worker that did not answer."""
    shop.place.model.says(customer, {"hooked": [tool_call(*CHARGE), "Charged."]})
    error = await shop.fails(await shop.start("hooked", customer))
    assert "CancelledError" in error
    assert "HTTP 500" not in error
    assert shop.place.books.of(customer) == {}


async def test_another_text_under_an_answered_messages_id_is_a_conflict(
    shop: Shop, customer: str
) -> None:
    """It is not answered with the old answer, and the thread stays as it was."""
    shop.place.model.says(customer, {"clerk": ["Hello."]})
    assert await shop.text(await shop.start("clerk", customer)) == "Hello."
    rows = await shop.store.load(customer)
    assert "MessageConflictError" in await shop.fails(
        await shop.start("clerk", customer, text=" Pay me.")
    )
    assert await shop.store.load(customer) == rows


async def test_a_thread_that_is_deleted_while_its_run_waits_is_named_with_its_store(
    shop: Shop, customer: str
) -> None:
    """Nothing is paid back for it."""
    shop.place.model.says(customer, {"clerk": [tool_call("refund", {"order": "a"}), "Paid."]})
    run = await shop.start("clerk", customer)
    await shop.place.waits(run, ".approve")
    await shop.store.delete_thread(customer)
    await shop.place.answer(run, {"approved": True})
    error = await shop.fails(run)
    assert f"no thread '{customer}' in SqliteHistory(" in error
    assert shop.place.books.of(customer) == {}


async def test_a_router_that_reads_a_setting_is_asked_again_until_it_decides_as_before(
    shop: Shop, customer: str
) -> None:
    """As while workers of two versions are there; the charge before it is not repeated."""
    setting, decided = shop.place.folder / SETTING, shop.place.folder / DECIDED
    calls = [tool_calls(CHARGE, ("refund", {"order": "b"})), "Paid."]
    shop.place.model.says(customer, {"setting": calls})
    run = await shop.start("setting", customer, kind="network")
    await shop.place.waits(run, ".approve")
    setting.touch()
    await shop.place.answer(run, {"approved": True})

    async def look() -> bool | None:
        return decided.exists() or None

    await eventually(look, "another decision")
    setting.unlink()
    assert await shop.text(run) == "Paid."
    assert shop.place.books.of(customer) == {"charge a": 1, "refund b": 1}
