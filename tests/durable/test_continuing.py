"""Runs of functions that continue as new ones, and messages that come twice."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import inngest
import pytest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    AgentResult,
    MemoryHistory,
    Network,
    RouterContext,
    State,
    TextMessage,
    ToolContext,
    UserMessage,
    openai,
    tool,
)
from agentkit_py.errors import ConfigurationError, OutputError
from agentkit_py.history import StaffDesk
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import FunctionOptions, create_functions, per_customer, per_thread
from agentkit_py.output import ToolOutput
from agentkit_py.routing import sequence
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, ScriptedModel, tool_call
from agentkit_py.testing.executor import KillAt, ReplayExecutor

ORDERS = 12
SAID: dict[str, Any] = {"content": "Pay all.", "id": "m1", "systemPrompt": "Speak German."}
LEASES = [ThreadLease(), ThreadLease(steering=True)]


class Paid(BaseModel):
    """What a payer gives."""

    orders: int


class Payments:
    """A function whose agent pays one order after another, over several runs."""

    def __init__(self, store: Any, *, kind: str = "network", **options: Any) -> None:
        self.paid: list[int] = []
        self.kind = kind
        mode = options.pop("mode", "chronological")
        output = options.pop("output_type", None)

        @tool
        def pay(ctx: ToolContext) -> str:
            """Pay the next order."""
            number = ctx.state.data["next"] = ctx.state.data.get("next", 0) + 1
            self.paid.append(number)
            return f"paid {number}"

        def reply(request: Any) -> Any:
            done = sum(message["role"] == "tool" for message in request.body["messages"])
            if done < ORDERS:
                return tool_call("pay", {})
            return "All is paid." if output is None else f'{{"orders": {done}}}'

        self.fake = FakeProvider(reply)
        made: dict[str, Any] = {"history": store, "history_mode": mode}
        agent: Any = Agent(
            name="payer",
            system="S",
            tools=[pay],
            max_iter=50,
            output_type=output,
            model=replace(openai("gpt-4o", api_key="k"), transport=self.fake.transport),
            **(made if kind == "agent" else {}),
        )

        def router(context: RouterContext) -> Any:
            return agent if context.state.data.get("next", 0) < ORDERS else None

        client = inngest.Inngest(app_id="app", is_production=False)
        known: dict[str, Any] = {"agents": [agent]}
        if kind == "network":
            known = {"networks": [Network(name="payer", agents=[agent], router=router, **made)]}
        functions = create_functions(
            client,
            **known,
            options={"payer": FunctionOptions(continue_as_new=15)},
            local=DirectRuntime(transport=self.fake.transport),
        )
        self.executor = ReplayExecutor(client, functions, check=not options, **options)

    def send(self, **data: Any) -> None:
        """Send an event, as the server takes it."""
        event = {"name": f"app/{self.kind}-payer", "data": {"input": SAID, "threadId": "t", **data}}
        self.executor.receive(event)

    async def finish(self) -> list[Any]:
        """Let all runs end, and return their outputs."""
        for run in self.executor.runs:  # it grows
            assert len(self.executor.runs) < 20, "there is no end"
            await self.executor.finish(run)
        states = [(run.status, run.differences, run.error) for run in self.executor.runs]
        assert states == [("completed", [], None)] * len(states)
        return [run.output for run in self.executor.runs]

    @property
    def bodies(self) -> list[str]:
        """The requests to the model."""
        return [json.dumps(request.body) for request in self.fake.requests]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("m1", ["m1-continued", "m1-continued-2"]),
        ("m1-continued-8", ["m1-continued-9", "m1-continued-10"]),
        ("m-continued-1999999999", [f"m-continued-1999999999-continued{n}" for n in ("", "-2")]),
    ],
)
async def test_ids_of_messages_do_not_grow_with_each_continued_run(
    first: str, later: list[str]
) -> None:
    """Stores keep runs by them, and an index takes no text of any length."""
    payments = Payments(MemoryHistory(lease=ThreadLease()))
    payments.send(input={**SAID, "id": first})
    await payments.finish()
    assert payments.paid == list(range(1, ORDERS + 1))
    ids = [run.events[0]["data"]["input"]["id"] for run in payments.executor.runs]
    assert ids == [first, *later]


@pytest.mark.parametrize("kind", ["network", "agent"])
@pytest.mark.parametrize("lease", LEASES)
async def test_a_message_that_comes_twice_is_continued_once(lease: ThreadLease, kind: str) -> None:
    """At the same time, and long after it was answered: each order is paid once."""
    store = MemoryHistory(lease=lease)
    payments = Payments(store, kind=kind)
    payments.send()
    payments.send()
    await payments.finish()
    asked = len(payments.bodies)
    payments.send()
    outputs = await payments.finish()
    assert payments.paid == list(range(1, ORDERS + 1))
    assert len(payments.bodies) == asked
    assert outputs[-1]["state"] == {"next": ORDERS}
    rows = await store.load("t")
    assert sum(row.agent_name == "user" for row in rows) == 1
    assert all("Pay all." in body and "Speak German." in body for body in payments.bodies)


async def test_another_message_may_come_before_a_run_continues() -> None:
    """The run continues with what the other has left, not with what there was before it."""
    payments = Payments(MemoryHistory(lease=ThreadLease()))
    payments.send()
    payments.send(input={"content": "And?", "id": "m2"})
    await payments.finish()
    assert payments.paid == list(range(1, ORDERS + 1))


@pytest.mark.parametrize("request_number", [4, 12, 20, 21, 22, 23, 24, 25, 30])
@pytest.mark.parametrize("when", ["before", "inside", "after"])
async def test_a_worker_that_dies_while_a_run_continues_as_new_loses_nothing(
    request_number: int, when: Any
) -> None:
    """A tool that was killed while it paid pays again, and is told so by its key."""
    store = MemoryHistory(lease=ThreadLease())
    kill = KillAt(request=request_number, when=when)
    payments = Payments(store, kind="agent", kill=kill)
    payments.send()
    await payments.finish()
    rows = await store.load("t")
    assert sum(row.agent_name == "user" for row in rows) == 1
    assert [one.content for row in rows for one in row.tool_calls] == [
        {"data": f"paid {number}"} for number in range(1, ORDERS + 1)
    ]
    assert [row.text for row in rows].count("All is paid.") == 1


@pytest.mark.parametrize("kind", ["network", "agent"])
async def test_history_of_the_client_goes_along(kind: str) -> None:
    """The thread does not have it."""
    said = [AgentResult.from_user("I live in Graz.", id="u0"), _reply("Noted.", "r0")]
    payments = Payments(MemoryHistory(), kind=kind)
    payments.send(state=State({}, results=said).to_dict())
    await payments.finish()
    assert payments.paid == list(range(1, ORDERS + 1))
    assert all("Graz" in body for body in payments.bodies)


def _reply(text: str, result_id: str) -> AgentResult:
    return AgentResult("payer", [TextMessage("assistant", text)], id=result_id)


@pytest.mark.parametrize("mode", ["chronological", "typescript"])
@pytest.mark.parametrize("store", ["none", "memory", "hooks"])
async def test_the_users_messages_are_carried_over(store: str, mode: str) -> None:
    """Also where no thread can be loaded, and where TypeScript's history does not hold it."""
    stores: dict[str, Any] = {
        "none": None,
        "memory": MemoryHistory(),
        "hooks": HistoryConfig(append_results=lambda _: None),
    }
    payments = Payments(stores[store], mode=mode)
    payments.send()
    await payments.finish()
    assert payments.paid == list(range(1, ORDERS + 1))
    assert [body.count("Pay all.") for body in payments.bodies] == [1] * len(payments.bodies)


async def test_an_agent_with_an_output_type_continues() -> None:
    """A run that ends by its steps gives none, and has not failed."""
    payments = Payments(MemoryHistory(lease=ThreadLease()), kind="agent", output_type=Paid)
    payments.send()
    payments.send()
    outputs = await payments.finish()
    assert payments.paid == list(range(1, ORDERS + 1))
    assert outputs[-1]["text"] == '{"orders":12}'


async def test_a_function_whose_thread_a_person_has_does_not_fail() -> None:
    """Its agent would give an output, and gives none."""
    store = MemoryHistory(lease=ThreadLease())
    await store.add_thread("t")
    await StaffDesk(store).join("t", by="mia", name="Mia")
    payments = Payments(store, kind="agent", output_type=Paid)
    payments.send()
    (output,) = await payments.finish()
    assert output["stopReason"] == "taken_over"


@pytest.mark.parametrize("steps", [0, 9, 15.5, "900", True])
def test_steps_that_no_run_can_begin_with_are_refused(steps: Any) -> None:
    """Each run would continue as a new one before it has asked a model, for ever."""
    with pytest.raises(ConfigurationError, match="whole number, 10 or more"):
        FunctionOptions(continue_as_new=steps)


_THREAD = "event.data.threadId"
_MESSAGE = f"{_THREAD} + event.data.input.id"


def _dropping(key: str | None) -> dict[str, Any]:
    minute = timedelta(minutes=1)
    return {
        "singleton": inngest.Singleton(mode="skip", key=key),
        "idempotency": key or "event.name",
        "rate_limit": inngest.RateLimit(limit=3, period=minute, key=key),
        "debounce": inngest.Debounce(period=minute, key=key),
    }


@pytest.mark.parametrize("name", [*_dropping(None)])
def test_flow_control_that_drops_events_is_refused_with_continue_as_new(name: str) -> None:
    """The event of a run's continuation would be dropped, and the rest of its work be lost."""
    long = FunctionOptions(continue_as_new=900)
    for key in (None, _THREAD):
        options = FunctionOptions(**{name: _dropping(key)[name]})
        with pytest.raises(ConfigurationError, match=f"continue_as_new=900, {name}=.*input.id"):
            assert long | options
    assert (long | FunctionOptions(**{name: _dropping(_MESSAGE)[name]})).continue_as_new == 900


def test_flow_control_that_only_delays_goes_with_continue_as_new() -> None:
    """It begins each run sooner or later."""
    options = per_thread(throttle=3) | per_customer() | FunctionOptions(continue_as_new=900)
    assert options.throttle is not None


@pytest.mark.parametrize("kind", ["network", "agent"])
async def test_an_event_without_a_state_continues_with_the_threads_data(kind: str) -> None:
    """As a direct run does; a state that is given counts."""
    payments = Payments(MemoryHistory(lease=ThreadLease()), kind=kind)
    payments.send()
    await payments.finish()
    payments.send(input={"content": "And?", "id": "m2"})
    outputs = await payments.finish()
    assert outputs[-1]["state"] == {"next": ORDERS}
    payments.send(input={"content": "And?", "id": "m3"}, state={"next": 40})
    outputs = await payments.finish()
    assert outputs[-1]["state"] == {"next": 40}


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        (Paid, '{"orders": 1}'),
        (ToolOutput(Paid), tool_call("final_result", {"orders": 1})),
        ([Paid, str], tool_call("final_result", {"orders": 1})),
    ],
)
@pytest.mark.parametrize("in_network", [False, True])
async def test_a_message_that_was_answered_before_gets_the_output(
    in_network: bool, kind: Any, reply: Any
) -> None:
    """It is read from the stored reply."""
    store = MemoryHistory(lease=ThreadLease())
    agent: Any = Agent(name="payer", system="S", output_type=kind, model=ScriptedModel(reply))
    item: Any = replace(agent, history=store)
    if in_network:
        item = Network(name="n", agents=[agent], router=sequence(agent), history=store)
    for _ in range(2):
        run = await item.run(UserMessage("Pay.", id="m1"), thread_id="t")
        assert run.output == Paid(orders=1)


async def test_a_functions_output_is_not_made_twice() -> None:
    """It may have effects; the error says that the message was answered."""
    made: list[int] = []

    def book(orders: int) -> int:
        """Book the orders."""
        made.append(orders)
        return orders

    store = MemoryHistory(lease=ThreadLease())
    model = ScriptedModel('{"orders": 1}')
    agent: Any = Agent(name="payer", system="S", output_type=book, model=model, history=store)
    assert (await agent.run(UserMessage("Pay.", id="m1"), thread_id="t")).output == 1
    with pytest.raises(OutputError, match="answered before"):
        await agent.run(UserMessage("Pay.", id="m1"), thread_id="t")
    assert made == [1]


async def test_a_message_with_a_clients_history_gets_its_earlier_answer() -> None:
    """The thread, which is not loaded then, has it."""
    store = MemoryHistory(lease=ThreadLease())
    agent = Agent(name="payer", system="S", history=store, model=ScriptedModel("One."))
    for _ in range(2):
        state = State({}, results=[AgentResult.from_user("Before.", id="u0")])
        run = await agent.run(UserMessage("Pay.", id="m1"), state=state, thread_id="t")
        assert run.text == "One."
