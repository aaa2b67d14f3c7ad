"""Things of the right name in the wrong place: classes, generators, calls, forgotten awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

import agentkit_py
from agentkit_py import (
    Agent,
    HistoryConfig,
    Lifecycle,
    MemoryHistory,
    Network,
    PostgresHistory,
    RunLimits,
    State,
)
from agentkit_py.errors import AgentKitError
from agentkit_py.inngest import FunctionOptions
from agentkit_py.processors import MessageWindow, ToolCallFilter
from agentkit_py.testing import ScriptedModel, tool_call

from .cases import agent, app, functions, network
from .effects import refund

tool: Any = agentkit_py.tool


@dataclass
class Customer:
    """Data of a state."""

    name: str = "nobody"


class Answer(BaseModel):
    """An output."""

    text: str = ""


@tool
def pay(order: str) -> str:
    """Pay an order back."""
    return f"paid {order}"


def pieces(_given: object) -> Iterator[str]:
    """Yield where something is to be returned."""
    yield "billing"


async def slow_pieces(_given: object) -> AsyncIterator[str]:
    """Yield where something is to be returned."""
    yield "billing"


def nothing(_given: object) -> None:
    """Return nothing."""


def asked(*replies: Any, **options: Any) -> Any:
    """Return what an agent answers."""
    made: Any = agent(model=ScriptedModel(*(replies or ["Hello."])), **options)
    return made.run_sync("Hi")


def read_twice() -> list[Any]:
    """Read a stream that has been read."""

    async def read() -> list[Any]:
        stream: Any = agent().stream("Hi")
        assert [event async for event in stream]
        return [event async for event in stream]

    return asyncio.run(read())


def read_early() -> Any:
    """Ask a stream for its result before it is read."""

    async def read() -> Any:
        return agent().stream("Hi").result

    return asyncio.run(read())


def method_of_a_class() -> Any:
    """Decorate a method before there is an object."""

    class Desk:
        @tool
        def look(self, order: str) -> str:
            """Look an order up."""
            return order

    return Desk


def decorated_twice() -> Any:
    """Decorate a tool."""

    @tool
    @tool
    def look(order: str) -> str:
        """Look an order up."""
        return order

    return look


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a stream that is read twice": (read_twice, r"have all been read.*stream\.result"),
    "a stream's result before its end": (read_early, "iterate to its end first"),
    "a class for an agent": (lambda: network(agents=[agentkit_py.Agent]), "must be an Agent"),
    "agents in a list of lists": (lambda: network(agents=[[agent()]]), "must be an Agent"),
    "a network among agents": (lambda: network(agents=[network()]), "must be an Agent"),
    "a router that yields": (lambda: network(router=pieces).run_sync("Hi"), "its router returned"),
    "a router that yields, async": (
        lambda: network(router=slow_pieces).run_sync("Hi"),
        "its router returned",
    ),
    "a prompt that yields": (lambda: asked(system=pieces), "system must return a text, got <gen"),
    "a prompt of nothing": (lambda: asked(system=nothing), "system must return a text, got None"),
    "a prompt that is a number": (
        lambda: asked(system=lambda _: 3),  # pyright: ignore[reportUnknownLambdaType]
        "system must return a text, got 3",
    ),
    "a hook that returns a text": (
        lambda: asked(lifecycle=Lifecycle[Any](on_finish=lambda _: "done")),  # type: ignore[arg-type,return-value]
        "result of on_finish must be an AgentResult",
    ),
    "a dict for hooks": (lambda: agent(lifecycle={"on_finish": print}), r"must be a Lifecycle\("),
    "a class for hooks": (lambda: agent(lifecycle=Lifecycle), r"must be a Lifecycle\("),
    "a tool that is called": (lambda: agent(tools=[pay.handler("A1")]), "must be a Tool or a func"),
    "a tool that is decorated twice": (decorated_twice, "cannot be passed by name"),
    "a tool of a class": (method_of_a_class, "parameter 'self' needs a type hint"),
    "a lambda for a tool": (
        lambda: agent(tools=[lambda order: order]),  # pyright: ignore[reportUnknownLambdaType]
        "needs a type hint",
    ),
    "as_tool, not called": (lambda: agent(tools=[agent().as_tool]), "cannot be passed by name"),
    "a guardrail of no value": (
        lambda: agent(output_guardrails=[lambda: None]),
        r"is called with \(ctx, value\), or \(value\); it takes \(\)",
    ),
    "a guardrail that returns a bool": (
        lambda: asked(output_guardrails=[lambda _: False]),  # pyright: ignore[reportUnknownLambdaType]
        "must return None, a reason or a Tripwire",
    ),
    "a processor's class": (lambda: agent(processors=[MessageWindow]), "give a processor of it"),
    "a list among processors": (
        lambda: agent(processors=[[MessageWindow(3)]]),
        "unpack the list into the outer list",
    ),
    "a processor of nothing": (lambda: asked(processors=[nothing]), "it returned None"),
    "a processor that yields, async": (
        lambda: agent(processors=[slow_pieces]),
        "let it return a list instead",
    ),
    "a misspelt key of the state": (
        lambda: agent(state_type=Customer).run_sync("Hi", state={"data": {"nme": "Ada"}}),
        "did you mean 'name'",
    ),
    "data for a state": (
        lambda: agent(state_type=Customer).run_sync("Hi", state=Customer()),  # type: ignore[arg-type]
        "state must be a State or a dict",
    ),
    "a provider that is misspelt": (lambda: agent(model="opnai:gpt-5"), "Unknown provider 'opnai'"),
    "a model without a provider": (lambda: agent(model="gpt-5"), "is not PROVIDER:NAME"),
    "an option of a model, misspelt": (
        lambda: agentkit_py.openai("gpt-5", api_ky="x"),  # type: ignore[call-arg]
        "has no option 'api_ky'",
    ),
    "a dict for a function's options": (
        lambda: functions(options={"desk": {"retries": 1}}),
        r"must be FunctionOptions\(",
    ),
    "a function's id for a name": (
        lambda: functions(options={"network-desk": FunctionOptions()}),
        "is not an agent or network here: desk",
    ),
    "a user for auth": (lambda: app(auth="ada"), "a function that gives the user's id"),
    "auth of no request": (lambda: app(auth=lambda: "ada"), r"auth is called with \(request\)"),
    "a run's limits for a server's": (
        lambda: app(limits=RunLimits(max_tokens=1)),
        r"limits must be ServerLimits\(",
    ),
    "a text for a list of keys": (lambda: app(client_state="city"), "must be a list of keys"),
    "another library's messages": (
        lambda: agent().run_sync([{"role": "user", "content": "Hi"}]),  # type: ignore[arg-type]
        "input must be a str or a UserMessage",
    ),
    "a message without content": (
        lambda: agent().run_sync({"role": "user", "text": "Hi"}),
        "field content: missing",
    ),
    "a file for a database": (lambda: PostgresHistory("threads.db"), "postgresql://"),
    "an object for a type": (lambda: agent(output_type=Answer()), "give its type Answer"),
    "a dict for limits": (
        lambda: agent().run_sync("Hi", limits={"max_tokens": 5}),  # type: ignore[arg-type]
        r"limits must be RunLimits\(",
    ),
    "a number for a thread": (
        lambda: agent(history=MemoryHistory()).run_sync("Hi", thread_id=5),  # type: ignore[arg-type]
        "thread_id must be a text",
    ),
    "a default state of another type": (
        lambda: network(state_type=Customer, default_state=State({"nmae": "Ada"})),
        "did you mean 'name'",
    ),
    "retries of no output": (lambda: agent(output_retries=3), "are of an output_type"),
    "an end of no output": (lambda: agent(end_strategy="exhaustive"), "are of an output_type"),
    "no client": (lambda: functions(client=None), "client must be an inngest.Inngest"),
    "a result of another type": (
        lambda: asked(tool_call("odd", {}), "Done.", tools=[odd]),
        "has no JSON form",
    ),
}
"""Each with the words of its error that name the mistake or the way out."""


@tool
def odd() -> int:
    """Return what is no number."""
    return object()  # type: ignore[return-value]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_misuse_is_an_error_that_names_it(mistake: str) -> None:
    """At once where that can be, else in the run; none is silent."""
    make, words = MISTAKES[mistake]
    with pytest.raises(AgentKitError, match=words):
        make()


HIDDEN = {
    "a store's callback": (HistoryConfig, "get", "get=…"),
    "a stores' own callback": (MemoryHistory, "append_results", "append_results=…"),
    "a prompt": (Agent, "system", "system=…"),
    "a network's router": (Network, "router", "router=…"),
    "a hook": (Lifecycle, "on_start", "on_start=…"),
    "a hook of an agent": (Agent, "on_finish", r"Lifecycle\(on_finish=…\)"),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_a_method_that_would_never_be_called_is_refused(case: str) -> None:
    """An option's value would hide it: the class's store would remember nothing, and not say so."""
    base, name, words = HIDDEN[case]

    async def method(self: object, context: object) -> None:
        del self, context

    with pytest.raises(TypeError, match=words):
        type("Own", (base,), {name: method})
    made: Any = type("Own", (base,), {f"own_{name}": method})
    assert issubclass(made, base)


def test_a_filter_of_a_misspelt_tool_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """It would show the results that it was made to hide; a tool of elsewhere may be named."""
    exact, elsewhere = ToolCallFilter(exclude=["refund"]), ToolCallFilter(include=["weather"])
    misspelt = ToolCallFilter(exclude=["refnud"])
    name = uuid4().hex
    for filters in ([exact, elsewhere], [misspelt], [misspelt]):
        clerk = agent(tools=[pay, refund], model=ScriptedModel("Hello.", "Hello."))
        clerk.processors = [*filters]
        network(name=name, agents=[agent(name="triage", processors=filters), clerk]).run_sync("Hi")
    (line,) = [one.getMessage() for one in caplog.records if "did you mean" in one.getMessage()]
    assert line == (
        f"Network {name!r} has no tool 'refnud', which ToolCallFilter(exclude=…) names: "
        "did you mean 'refund'?"
    )
    agent(name=name, tools=[refund], processors=[misspelt]).run_sync("Hi")
    assert f"Agent {name!r} has no tool 'refnud'" in caplog.text
