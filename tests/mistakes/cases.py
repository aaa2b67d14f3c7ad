"""Every parameter of `Agent`, `Network`, `run`, `create_app` and `create_functions`, and mistakes.

A mistake is a value of a kind that the parameter does not take, a misspelt name, a missing piece or
two arguments that were swapped. `TAKES` says which kinds of values each parameter takes; every
other kind of `VALUES` is a mistake. `python scripts/mistakes.py` tries all of them and counts.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import inngest

from agentkit_py import Agent, MemoryHistory, Network, ToolContext
from agentkit_py._core.awaiting import resolve
from agentkit_py.errors import AgentKitError
from agentkit_py.inngest import create_functions
from agentkit_py.routing import Handoff, handoffs, once, sequence
from agentkit_py.runs import RunOptions
from agentkit_py.server import create_app
from agentkit_py.server.config import ServerOptions
from agentkit_py.testing import ScriptedModel, tool_call

Outcome: TypeAlias = Literal["at once", "before a model call", "warned", "late", "silent"]
"""When a mistake is found; a run's options cannot be found before the run."""

ONLY_IN_RUNS = ("Network: a tool schedules nobody",)
"""Mistakes that only a run comes to, after a model call."""

WARNED = ("run: state is a dict",)
"""Mistakes that the log warns of, since TypeScript's programs make them."""


OF_PYTHON = ("unexpected keyword argument", "positional argument but", "positional arguments but")
"""Words of the errors with which Python itself refuses a call."""


class Thing:
    """A value of a type that nothing knows."""

    def __repr__(self) -> str:
        """Return what errors show."""
        return "a thing"


def no_context() -> None:
    """A function without the parameter that callbacks get."""


def signed_in(_request: object) -> str:
    """Say who calls."""
    return "ada"


def to_nobody(_context: object) -> str:
    """Route to an agent that is not there."""
    return "biling"


def first_somebody(_context: object) -> list[str]:
    """Route to an agent, and then to one that is not there."""
    return ["billing", "biling"]


VALUES: dict[str, Any] = {
    "text": "misspelt",
    "number": 3,
    "below": -1,
    "bool": True,
    "list": [Thing()],
    "dict": {"misspelt": Thing()},
    "function": no_context,
    "class": Thing,
    "object": Thing(),
}
"""A value of each kind."""

TAKES: dict[str, dict[str, str]] = {
    "Agent": {
        "name": "text",
        "system": "text function",
        "instructions": "text",
        "markdown": "bool",
        "description": "text",
        "assistant": "text",
        "tools": "",
        "mcp_servers": "",
        "knowledge": "",
        "search_knowledge": "bool",
        "knowledge_filters": "",
        "enable_agentic_knowledge_filters": "",
        "filter_precedence": "",
        "tool_choice": "",
        "lifecycle": "",
        "output_type": "function class",
        "output_retries": "number",
        "output_validators": "",
        "end_strategy": "",
        "handoffs": "",
        "input_guardrails": "",
        "output_guardrails": "",
        "tool_input_guardrails": "",
        "tool_output_guardrails": "",
        "state_type": "",
        "model": "",
        "allowed_tools": "",
        "history": "",
        "processors": "",
        "max_iter": "number",
        "stream_before_response": "bool",
        "hosted_tools": "",
        "parallel_tools": "bool",
        "repair_arguments": "bool",
        "history_mode": "",
        "token_counter": "",
        "keep_cut_replies": "bool",
    },
    "Network": {
        "name": "text",
        "agents": "",
        "description": "text",
        "default_model": "",
        "router": "",
        "max_iter": "number",
        "default_state": "",
        "state_type": "",
        "output": "",
        "history": "",
        "processors": "",
        "isolation": "",
        "history_mode": "",
        "output_type": "",
        "input_guardrails": "",
        "output_guardrails": "",
        "tool_input_guardrails": "",
        "tool_output_guardrails": "",
        "prefix": "",
    },
    "run": {
        "input": "text",
        "state": "",
        "thread_id": "text",
        "model": "",
        "budget": "",
        "max_iter": "number",
        "router": "",
        "limits": "",
        "runtime": "",
        "ctx": "",
        "require_durable": "",
        "approver": "",
        "observer": "",
        "streaming": "",
        "processors": "",
        "knowledge_filters": "",
        "on_busy": "",
        "tracing": "",
    },
    "create_app": {
        "networks": "",
        "agents": "",
        "history": "",
        "client": "",
        "auth": "",
        "approvers": "",
        "may_answer": "",
        "staff": "",
        "may_take_over": "",
        "notify": "",
        "thread_url": "text",
        "client_state": "",
        "client_history": "bool",
        "user_key": "text",
        "new_state": "",
        "tenant_of": "",
        "across_tenants": "",
        "memory": "",
        "origins": "",
        "limits": "",
        "hub_limits": "",
        "run_limits": "",
        "leases": "bool",
        "page": "",
        "extended": "bool",
        "secret": "text",
        "realtime": "",
        "realtime_url": "text",
    },
    "create_functions": {
        "client": "",
        "agents": "",
        "networks": "",
        "options": "",
        "inference": "",
        "realtime": "bool",
        "local": "",
    },
}
"""The kinds of values that each parameter takes."""


@dataclass(frozen=True)
class Mistake:
    """A call that cannot be meant."""

    of: str
    """The function or class."""

    what: str
    make: Callable[[], object]
    """Makes it; of `run`, makes the agent or network that runs."""

    run: Mapping[str, Any] | None = None
    """The options with which it runs; the one of them that is wrong, if it is one of `run`."""

    @property
    def name(self) -> str:
        """The mistake in words."""
        return f"{self.of}: {self.what}"


def model(*replies: Any) -> ScriptedModel:
    """A model that notes whether it was asked."""
    return ScriptedModel(*(replies or ("Hello.",)))


def agent(**options: Any) -> Agent[Any, Any]:
    """An agent; one that takes knowledge, outputs and so on where they are tried."""
    given: dict[str, Any] = {"name": "billing", "system": "S", "model": model()}
    return Agent(**{**given, **options})


def network(**options: Any) -> Network[Any, Any]:
    """A network of one agent."""
    clerk = agent()
    given: dict[str, Any] = {"name": "desk", "agents": [clerk], "router": once(clerk)}
    given["history"] = MemoryHistory()
    return Network(**{**given, **options})


def app(**options: Any) -> object:
    """A server."""
    given: dict[str, Any] = {"networks": [network()], "auth": signed_in}
    return create_app(**{**given, **options})


def functions(**options: Any) -> object:
    """Functions of Inngest."""
    given: dict[str, Any] = {
        "client": inngest.Inngest(app_id="app", is_production=False),
        "networks": [network()],
    }
    return create_functions(**{**given, **options})


MAKERS: dict[str, Callable[..., object]] = {
    "Agent": agent,
    "Network": network,
    "create_app": app,
    "create_functions": functions,
}
NEEDED: dict[str, dict[str, Any]] = {
    "Agent.output_retries": {"output_type": int},
    "Agent.end_strategy": {"output_type": int},
    "Agent.output_validators": {"output_type": int},
}
"""What a parameter needs beside it, to have an effect."""


def parameters() -> dict[str, list[str]]:
    """Return the parameters that there are."""
    found = {
        "Agent": [field.name for field in dataclasses.fields(Agent) if field.init],
        "Network": [field.name for field in dataclasses.fields(Network) if field.init],
    }
    found["run"] = ["input", *RunOptions.__annotations__]
    of_app = [name for name in inspect.signature(create_app).parameters if name != "options"]
    found["create_app"] = [*of_app, *ServerOptions.__annotations__]
    found["create_functions"] = list(inspect.signature(create_functions).parameters)
    return found


def mistakes() -> Iterator[Mistake]:
    """Yield all mistakes."""
    for of, takes in TAKES.items():
        for parameter, kinds in takes.items():
            for kind, value in VALUES.items():
                if kind not in kinds.split():
                    yield _wrong_value(of, parameter, kind, value)
            yield _misspelt(of, parameter)
    yield from _missing()
    yield from _swapped()


def _wrong_value(of: str, parameter: str, kind: str, value: Any) -> Mistake:
    what = f"{parameter} is a {kind}"
    if of == "run":
        return Mistake(of, what, network, {parameter: value})
    options = {**NEEDED.get(f"{of}.{parameter}", {}), parameter: value}
    return Mistake(of, what, lambda: MAKERS[of](**options), {})


def _misspelt(of: str, parameter: str) -> Mistake:
    wrong = f"{parameter[:-1]}{parameter[-2:]}"
    what = f"{parameter} is written {wrong}"
    if of == "run":
        return Mistake(of, what, network, {wrong: None})
    return Mistake(of, what, lambda: MAKERS[of](**{wrong: None}), {})


def _missing() -> Iterator[Mistake]:
    """Yield set-ups that lack something."""

    def with_tool(name: str) -> Agent[Any, Any]:
        def pay(ctx: ToolContext) -> None:
            """Pay."""
            assert ctx.network is not None
            ctx.network.schedule(name)

        return agent(model=model(tool_call("pay", {}), "Done."), tools=[pay])

    yield Mistake("Agent", "no prompt", lambda: agent(system=None), {})
    yield Mistake("Agent", "no name", lambda: agent(name=""), {})
    yield Mistake("Agent", "no model", lambda: agent(model=None), {})
    yield Mistake("Agent", "filters without knowledge", lambda: agent(knowledge_filters={}), {})
    yield Mistake("Agent", "a tool that is not there", lambda: agent(allowed_tools=["pay"]), {})
    yield Mistake("Network", "no router, no model", lambda: network(router=None), {})
    yield Mistake("Network", "no agents", lambda: network(agents=[], router=None), {})
    routers: dict[str, Any] = {
        "once": once("biling"),
        "sequence": sequence("billing", "biling"),
        "handoffs": handoffs("biling"),
        "a function": to_nobody,
        "a function's list": first_somebody,
    }
    for name, router in routers.items():
        what = f"{name} names an agent that is not there"
        yield Mistake("Network", what, lambda router=router: network(router=router), {})
        yield Mistake("run", what, network, {"router": router})
    handing = agent(name="triage", handoffs=[Handoff("biling")])
    yield Mistake(
        "Network", "a handoff to nobody", lambda: network(agents=[handing], router=once(handing))
    )
    scheduling = with_tool("biling")
    yield Mistake(
        "Network",
        "a tool schedules nobody",
        lambda: network(agents=[scheduling], router=once(scheduling)),
        {},
    )
    yield Mistake("Network", "an output that no agent gives", lambda: network(output_type=int), {})
    yield Mistake("run", "on_busy without a lease", network, {"on_busy": "steer"})
    yield Mistake("run", "filters without knowledge", network, {"knowledge_filters": {"a": 1}})
    yield Mistake("run", "durable outside of a function", network, {"require_durable": True})
    yield Mistake("create_app", "nothing to serve", lambda: app(networks=[]))
    yield Mistake("create_app", "no auth", lambda: app(auth=None))
    yield Mistake("create_app", "across_tenants alone", lambda: app(across_tenants=["mia"]))
    yield Mistake("create_app", "clients set the user", lambda: app(client_state=["user_id"]))
    for option in ("options", "networks"):
        given = {"options": {"dsk": None}, "networks": [network(), network()]}
        yield Mistake("create_functions", f"{option} of a name that is none or two",
            lambda option=option, given=given: functions(**{option: given[option]}))  # fmt: skip


def _swapped() -> Iterator[Mistake]:
    """Yield arguments in each other's place."""
    yield Mistake("Agent", "a model for a name", lambda: agent(name=model(), model="billing"), {})
    yield Mistake("Agent", "tools for handoffs", lambda: agent(handoffs=[print]), {})
    yield Mistake("Agent", "agents for tools", lambda: agent(tools=[agent()]), {})
    yield Mistake("Agent", "a store for a model", lambda: agent(model=MemoryHistory()), {})
    yield Mistake("Network", "an agent for agents", lambda: network(agents=agent()), {})
    yield Mistake("Network", "names for agents", lambda: network(agents=["billing"]), {})
    yield Mistake("Network", "an agent for a router", lambda: network(router=agent()), {})
    yield Mistake("Network", "a name for a router", lambda: network(router="billing"), {})
    yield Mistake("Network", "tools for agents", lambda: network(agents=[print]), {})
    yield Mistake("create_app", "agents for networks", lambda: app(networks=[agent()]))
    yield Mistake("create_app", "networks for agents", lambda: app(networks=[], agents=[network()]))
    yield Mistake("create_functions", "agents for networks", lambda: functions(networks=[agent()]))
    yield Mistake("create_functions", "a network for agents", lambda: functions(agents=network()))
    yield Mistake("run", "a list for a text", network, {"input": ["Hi"]})


def asked(target: Any) -> bool:
    """Return whether a model was asked."""
    agents: list[Any] = target.agents if hasattr(target, "agents") else [target]
    models: list[Any] = [one.model for one in agents]
    return any(isinstance(one, ScriptedModel) and bool(one.bodies) for one in models)


async def outcome(mistake: Mistake) -> tuple[Outcome, str]:
    """Make a mistake; return when it is found, and the error."""
    try:
        target: Any = mistake.make()
    except AgentKitError as error:
        return "at once", str(error)
    except Exception as error:  # noqa: BLE001 - an error that names nothing of the mistake
        is_python = any(words in str(error) for words in OF_PYTHON)
        return "at once" if is_python else "late", f"{type(error).__name__}: {error}"
    if mistake.run is None or not hasattr(target, "run"):
        return "silent", ""
    options: dict[str, Any] = {"input": "Hi", **mistake.run}
    try:
        await resolve(target.run(options.pop("input"), **options))
    except AgentKitError as error:
        is_late = asked(target) and mistake.name not in ONLY_IN_RUNS
        return "late" if is_late else "before a model call", str(error)
    except Exception as error:  # noqa: BLE001 - an error that names nothing of the mistake
        is_python = any(words in str(error) for words in OF_PYTHON)
        return "at once" if is_python else "late", f"{type(error).__name__}: {error}"
    return ("warned" if mistake.name in WARNED else "silent"), ""


async def found(made: Iterable[Mistake]) -> dict[str, tuple[Outcome, str]]:
    """Make mistakes; return when each is found, by its name."""
    return {mistake.name: await outcome(mistake) for mistake in made}
