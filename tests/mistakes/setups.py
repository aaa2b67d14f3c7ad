"""Mistakes in what is beside an agent: stores, leases, limits, routers, tools, and answers.

`TAKES` says which kinds of values each parameter takes, as in `cases`; every other kind is a
mistake, and so is a misspelt name. Answers are given to a run that waits for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import agentkit_py
from agentkit_py import Agent, Network, processors, routing, runs, stores
from agentkit_py.events import ApprovalAnswer, Decision
from agentkit_py.testing import tool_call

from .cases import VALUES, Mistake, agent, functions, model, network

# No type checker lets these calls through; here they are made.
create_tool: Any = agentkit_py.create_tool
HistoryConfig: Any = agentkit_py.HistoryConfig
MemoryHistory: Any = agentkit_py.MemoryHistory
SqliteHistory: Any = agentkit_py.SqliteHistory
ThreadLease: Any = stores.ThreadLease
RunLimits: Any = runs.RunLimits
TokenLimiter: Any = processors.TokenLimiter
ToolCallFilter: Any = processors.ToolCallFilter
MessageWindow: Any = processors.MessageWindow
Handoff: Any = routing.Handoff
handoffs: Any = routing.handoffs
mention_router: Any = routing.mention_router
once: Any = routing.once
sequence: Any = routing.sequence


def pay(order: str) -> str:
    """Pay an order back."""
    return f"paid {order}"


def beside(option: str, make: Callable[..., Any], **needed: Any) -> Callable[..., object]:
    """Return a maker of a network with an option, whose value is what a function makes."""

    def made(**given: Any) -> object:
        return network(**{option: make(**{**needed, **given})})

    return made


def processing(make: Callable[..., Any], **needed: Any) -> Callable[..., object]:
    """Return a maker of a network with a processor."""

    def several(**given: Any) -> list[Any]:
        return [make(**given)]

    return beside("processors", several, **needed)


def returning(value: object) -> Callable[[object], object]:
    """Return a router that gives a value."""
    return lambda _context: value


def of_two(_context: object, _other: object) -> None:
    """A router that wants a second argument."""


def with_tool(**options: Any) -> object:
    """Return an agent with a tool."""
    made = create_tool(**{"name": "pay", "handler": pay, **options})
    return agent(tools=[made])


def handing(**options: Any) -> object:
    """Return an agent that hands over."""
    return agent(name="triage", handoffs=[Handoff(**{"agent": agent(), **options})])


MAKERS: dict[str, Callable[..., object]] = {
    "HistoryConfig": beside("history", HistoryConfig),
    "MemoryHistory": beside("history", MemoryHistory),
    "SqliteHistory": beside("history", SqliteHistory, path="threads.db"),
    "ThreadLease": ThreadLease,
    "TokenLimiter": processing(TokenLimiter, limit=900),
    "ToolCallFilter": processing(ToolCallFilter),
    "MessageWindow": processing(MessageWindow, last=3),
    "create_tool": with_tool,
    "Handoff": handing,
    "handoffs": beside("router", handoffs, start="billing"),
    "mention_router": beside("router", mention_router),
    "RunLimits": RunLimits,
}

TAKES: dict[str, dict[str, str]] = {
    "HistoryConfig": {
        "create_thread": "function",
        "get": "function",
        "append_user_message": "function",
        "append_results": "function",
        "processors": "function",
        "save_each": "bool",
        "lease": "",
        "lazy": "bool",
    },
    "MemoryHistory": {"processors": "function", "lease": "", "lazy": "bool"},
    "SqliteHistory": {
        "path": "text",
        "processors": "function",
        "lease": "",
        "lazy": "bool",
        "busy_timeout": "number",
        "full_text": "bool",
    },
    "ThreadLease": {"on_busy": "", "steering": "bool", "seconds": "number"},
    "TokenLimiter": {"limit": "number"},
    "ToolCallFilter": {"include": "", "exclude": "", "persist_results": "bool"},
    "MessageWindow": {"last": "number"},
    "create_tool": {
        "name": "text",
        "handler": "function class",
        "description": "text",
        "needs_approval": "bool function",
        "approval_timeout": "",
        "steps": "bool",
        "check": "function",
    },
    "Handoff": {"agent": "text", "input_type": "class", "history": "", "name": "text"},
    "handoffs": {"start": "", "stay": "bool"},
    "mention_router": {"fallback": "function"},
    "RunLimits": {
        "deadline": "number",
        "tool_timeout": "number",
        "max_inferences": "number",
        "max_tokens": "number",
        "max_cost": "number",
        "max_steps": "number",
        "max_tool_calls": "number",
        "price": "function class",
    },
}
"""The kinds of values that each parameter takes."""


class Waiting:
    """A network whose run waits for a person, and what is called of it next."""

    def __init__(self, method: str, *arguments: Any, **options: Any) -> None:
        """Remember the call; ``"THREAD"`` and ``"ID"`` are replaced by those of the run."""
        self._call = (method, arguments, options)
        self._network = desk(model("Paid."))

    @property
    def agents(self) -> Sequence[Agent[Any, Any]]:
        """Those whose model must not be asked."""
        return self._network.agents

    async def run(self, text: str) -> None:
        """Come to the question, then make the call."""
        first = desk(model(tool_call("pay", {"order": "A1"})), self._network.history)
        waiting = await first.run(text)
        (question,) = waiting.pending
        method, arguments, options = self._call
        known = {"THREAD": waiting.thread_id, "ID": question.id}

        def filled(value: Any) -> Any:
            if isinstance(value, dict):
                items = cast("dict[Any, Any]", value).items()
                return {filled(key): item for key, item in items}
            return known.get(value, value) if isinstance(value, str) else value

        await getattr(self._network, method)(*map(filled, arguments), **options)


def desk(asks: Any, history: Any = None) -> Network[Any, Any]:
    """Return a network whose tool needs a person."""
    tool = create_tool(name="pay", handler=pay, needs_approval=True)
    clerk = agent(tools=[tool], model=asks)
    return network(agents=[clerk], router=once(clerk), history=history or MemoryHistory())


def more() -> Iterator[Mistake]:
    """Yield the mistakes."""
    for of, takes in TAKES.items():
        for parameter, kinds in takes.items():
            for kind, value in VALUES.items():
                if kind not in kinds.split():
                    what = f"{parameter} is a {kind}"
                    yield Mistake(
                        of, what, lambda of=of, p=parameter, v=value: MAKERS[of](**{p: v}), {}
                    )
            wrong = f"{parameter[:-1]}{parameter[-2:]}"
            what = f"{parameter} is written {wrong}"
            yield Mistake(of, what, lambda of=of, wrong=wrong: MAKERS[of](**{wrong: None}), {})
    yield from _answers()
    yield from _routers()
    yield from _swapped()


def _answers() -> Iterator[Mistake]:
    """Yield calls of `resume` and `pending` that cannot be meant."""
    for kind, value in VALUES.items():
        if kind not in ("dict",):
            yield _calling("resume", f"answers are a {kind}", "THREAD", value)
        if kind not in ("bool",):
            yield _calling("resume", f"an answer is a {kind}", "THREAD", {"ID": value})
        if kind not in ("text",):
            yield _calling("resume", f"the thread is a {kind}", value, {"ID": True})
            yield _calling("pending", f"the thread is a {kind}", value)
            yield _calling("resume", f"by is a {kind}", "THREAD", {"ID": True}, by=value)
    yield _calling("resume", "an unknown thread", "no-thread", {"ID": True})
    yield _calling("resume", "an unknown question", "THREAD", {"no-question": True})
    yield _calling("resume", "a question's number", "THREAD", {0: True})
    yield _calling("resume", "a decision for an answer", "THREAD", {"ID": Decision(approved=True)})
    yield _calling("resume", "answers in the thread's place", {"ID": True}, "THREAD")
    yield _calling("resume", "an answer in a list", "THREAD", [ApprovalAnswer(approved=True)])
    yield _calling("resume", "the id alone", "THREAD", "ID")
    yield _calling("resume", "a misspelt option", "THREAD", {"ID": True}, aprover=None)
    yield _calling("resume", "an option of run", "THREAD", {"ID": True}, thread_id="THREAD")
    yield _calling("resume", "a router of nobody", "THREAD", {"ID": True}, router=once("biling"))
    yield _calling("pending", "a misspelt option", "THREAD", user="ada")


def _calling(method: str, what: str, *arguments: Any, **options: Any) -> Mistake:
    return Mistake(method, what, lambda: Waiting(method, *arguments, **options), {})


def _routers() -> Iterator[Mistake]:
    """Yield routers that give no agent, and arguments of ready-made routers that are none."""
    for kind, value in VALUES.items():
        if kind not in ("list",):
            yield _routing(f"a router returns a {kind}", returning(value))
        yield _routing(f"a router returns a {kind} in a list", returning([value]))
        for name, make in {"once": once, "sequence": sequence, "handoffs": handoffs}.items():
            what = f"{name} of a {kind}"
            yield Mistake("Network", what, lambda m=make, v=value: network(router=m(v)), {})
    yield Mistake(
        "Network",
        "sequence of a list",
        lambda: network(router=sequence([agent()])),
        {},
    )
    yield Mistake("Network", "sequence of nobody", lambda: network(router=sequence()), {})
    yield Mistake("Network", "once, not called", lambda: network(router=once), {})
    yield Mistake("Network", "a router without a context", lambda: network(router=lambda: None), {})
    yield Mistake("Network", "a router of two arguments", lambda: network(router=of_two), {})


def _routing(what: str, router: Callable[..., Any]) -> Mistake:
    return Mistake("run", what, network, {"router": router})


def _swapped() -> Iterator[Mistake]:
    """Yield arguments in each other's place."""
    lease, store = ThreadLease(), MemoryHistory()
    yield Mistake("SqliteHistory", "a lease for a path", lambda: SqliteHistory(lease))
    yield Mistake(
        "SqliteHistory",
        "a store for a lease",
        lambda: SqliteHistory("a.db", lease=store),
    )
    yield Mistake("SqliteHistory", "a lease's class", lambda: MemoryHistory(lease=ThreadLease))
    yield Mistake("SqliteHistory", "seconds for a lease", lambda: MemoryHistory(lease=300))
    yield Mistake(
        "SqliteHistory",
        "a time for seconds",
        lambda: SqliteHistory("a.db", busy_timeout=timedelta(seconds=3)),
    )
    yield Mistake(
        "ThreadLease",
        "a time for seconds",
        lambda: ThreadLease(seconds=timedelta(seconds=3)),
    )
    yield Mistake("ThreadLease", "seconds for on_busy", lambda: ThreadLease(300))
    yield Mistake("Network", "a store's class", lambda: network(history=MemoryHistory), {})
    yield Mistake("Network", "a path for a store", lambda: network(history="a.db"), {})
    yield Mistake("Network", "a lease for a store", lambda: network(history=lease), {})
    yield Mistake("Network", "a store among processors", lambda: network(processors=[store]), {})
    yield Mistake(
        "HistoryConfig",
        "a lease without a store",
        lambda: network(history=HistoryConfig(lease=lease)),
        {},
    )
    yield Mistake("run", "a network's thread", network, {"thread_id": network()})
    yield Mistake("run", "a store for a thread", network, {"thread_id": store})
    yield Mistake("run", "limits for max_iter", network, {"max_iter": RunLimits(max_tokens=9)})
    yield Mistake("run", "max_iter for limits", network, {"limits": 3})
    yield Mistake("create_functions", "a network for a client", lambda: functions(client=network()))
    yield Mistake(
        "create_functions", "a client for networks", lambda: functions(networks=functions)
    )
    yield Mistake("create_functions", "names of networks", lambda: functions(networks=["desk"]))
    yield Mistake("create_functions", "a store for local", lambda: functions(local=store))
