"""The examination: runs under `ReplayExecutor`, with a model that tries each tool and handoff."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, cast

import httpx

from agentkit_py.agent import Agent, RoutingAgent
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.inngest.functions import create_functions
from agentkit_py.inngest.serving import development_client
from agentkit_py.models import anthropic, openai, openai_responses
from agentkit_py.models.base import Model
from agentkit_py.models.provider_tools import ANTHROPIC, CHAT, RESPONSES, definition
from agentkit_py.network import Network, Target
from agentkit_py.routing import RouterContext
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores.memory import MemoryHistory
from agentkit_py.testing.doctor.coverage import unexamined
from agentkit_py.testing.doctor.exploring import (
    Exploration,
    Explorer,
    GivenArguments,
    Recited,
    all_agents,
    marked,
)
from agentkit_py.testing.doctor.report import (
    Callback,
    DoctorReport,
    Finding,
    deploy_findings,
    distinct,
    figures_of,
    findings_of,
    store_findings,
)
from agentkit_py.testing.doctor.watching import CallbackWatch
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait
from agentkit_py.testing.executor.executor import Functions
from agentkit_py.testing.fakes import ScriptedReply, rendered_reply
from agentkit_py.testing.provider import FakeProvider, ReceivedRequest, Reply

_ROUNDS = 40
"""The maximum number of pairs of runs, so that a network with many handoffs ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conditions:
    """The conditions of all runs of an examination."""

    text: str
    model: Model | None
    approve: bool
    state: Mapping[str, Any] | None


class ExamineOptions(TypedDict, total=False):
    """More options of `examine`; all may be left out."""

    arguments: GivenArguments
    """Arguments by the name of a tool, where made-up ones do not do; of a list, each is a call. An
    output has the name ``final_result``, or that of its type where there are several."""

    script: Sequence[ScriptedReply]
    """The replies of the model, in order, in each run; after them it says "That is all."."""

    state: Mapping[str, Any]
    """The state data that the runs are given."""

    skip: Collection[str]
    """Names of tools, handoffs and agents that need not be examined."""


async def examine(
    target: Target,
    *,
    input: str = "Hello, I need your help.",  # noqa: A002 - as `run` calls it
    model: Model | None = None,
    approve: bool = False,
    before: Target | None = None,
    **options: Unpack[ExamineOptions],
) -> DoctorReport:
    """Run a network or an agent as an Inngest function, and report failures.

    Runs are made in pairs; in the first run each request for the next step is sent twice. Without a
    model and a script, there are enough pairs to call each reachable tool and make each reachable
    handoff; a run then mentions an agent without a turn as ``@name``. Tools are really called, so
    let them work on data for tests. Threads are memory, independent of the network's history.

    Args:
        target: The network, or an agent by itself.
        input: The user's message.
        model: A real model; None: a fake that calls each tool once, with made-up arguments.
        approve: The answer to every question of approval.
        before: The deployed code. Runs begin with it and continue with the target, once
            for each of their requests; tools run as often.
        options: See `ExamineOptions`.

    Raises:
        ConfigurationError: A tool, handoff or agent of the given names does not exist.
    """
    network, watch = _as_network(target), CallbackWatch()
    arguments, skip = options.get("arguments") or {}, options.get("skip", ())
    exploration = Exploration.of(network, arguments)
    _check_names(network, exploration, [*arguments, *skip])
    state, script = options.get("state"), options.get("script")
    conditions = _Conditions(text=input, model=model, approve=approve, state=state)
    lines = None if script is None else [rendered_reply(reply) for reply in script]
    findings: list[Finding] = []
    runs: list[Run] = []
    unmentioned = [name for name in exploration.agents if name not in skip]
    for _ in range(_ROUNDS):
        begun = exploration.progress
        # The first is for comparing: it asks for everything twice. The second is as on the server.
        pair = [
            await _execute([one.network(network)], conditions, _replies(known, lines), check=check)
            for one, known, check in (
                (CallbackWatch(), exploration.copy(), True),
                (watch, exploration, False),
            )
        ]
        findings += findings_of(network, pair, watch)
        runs += pair[1:]
        if pair[1].status != "completed":
            exploration.try_again(watch.tools)
        if model is not None or lines is not None:
            break
        if exploration.has_more() and exploration.progress != begun:
            continue
        unmentioned = [name for name in unmentioned if name not in exploration.seen]
        if not unmentioned:
            break
        conditions = replace(conditions, text=f"@{unmentioned.pop(0)} {input}")
    findings += store_findings(target.name, target.history, runs)
    if before is not None:
        findings += deploy_findings(await _deploys(before, target, conditions, arguments, lines))
    own = dict.fromkeys(exploration.labels.values())
    return DoctorReport(
        target=target.name,
        figures=figures_of(max(runs, key=lambda run: len(run.steps))),
        findings=distinct(findings),
        callbacks=[Callback(name, calls) for name, calls in watch.calls.items()],
        tools={name: watch.tools[name] for name in (*own, *watch.listed)},
        unexamined=[
            one
            for one in unexamined(network, exploration, watch, runs, approve=approve)
            if one.name not in skip
        ],
    )


def _check_names(
    network: Network[Any, Any], exploration: Exploration, names: Sequence[str]
) -> None:
    tools = [*exploration.labels.values(), *(name for _, name in exploration.labels)]
    handoffs = [name for made in exploration.handoffs.values() for name in made]
    outputs = [name for made in exploration.outputs.values() for name in made]
    known = {*tools, *handoffs, *outputs, *exploration.agents}
    if any(agent.mcp_servers for agent in all_agents(network)):
        return  # their tools are listed in a run only
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"Unknown tool, handoff or agent {name!r}; there are {', '.join(sorted(known))}"
            )


def _replies(
    exploration: Exploration, lines: Sequence[Reply] | None
) -> Callable[[ReceivedRequest], Reply]:
    return Explorer(exploration) if lines is None else Recited(lines)


async def _deploys(
    before: Target,
    after: Target,
    conditions: _Conditions,
    arguments: GivenArguments,
    lines: Sequence[Reply] | None,
) -> dict[int, Run]:
    """Run the old code and deploy the new code after each request; returns the runs."""
    found: dict[int, Run] = {}
    old, new = _as_network(before), _as_network(after)
    number = 1
    while not found or found[number - 1].requests > number:
        # The function that waits is the same.
        versions = [replace(one, name=old.name) for one in (old, new)]
        kill = KillAt(request=number, when="after")
        replies = _replies(Exploration.of(old, arguments), lines)
        found[number] = await _execute(versions, conditions, replies, kill=kill)
        number += 1
    return found


class _AnyKey(dict[str, str]):
    """An environment in which every provider's key is set."""

    def get(self, key: str, default: Any = None, /) -> Any:
        return "sk-doctor"


async def _execute(
    versions: Sequence[Network[Any, Any]],
    conditions: _Conditions,
    replies: Callable[[ReceivedRequest], Reply],
    *,
    check: bool = False,
    kill: KillAt | None = None,
) -> Run:
    """Run a network as a function; each worker that dies is followed by the next version."""
    waiting, model = list(versions), conditions.model
    transport, local = _model_access(model, replies)
    client = development_client("doctor")
    history = versions[0].history
    store = MemoryHistory(processors=() if history is None else history.processors)

    def functions() -> Functions:
        given = waiting.pop(0)
        default = model or given.default_model
        network = replace(given, history=store, default_model=default or openai("gpt-4.1"))

        def with_fake(agent: Agent[Any, Any]) -> Agent[Any, Any]:
            choice = agent.model or default or _model_for(agent)
            return agent.with_model(model or marked(choice, agent.name))

        network.agents = [with_fake(agent) for agent in all_agents(given)]
        router: Any = given.router
        if isinstance(router, Agent):
            network.router = cast("Any", with_fake(cast("Agent[Any, Any]", router)))
        # Only with "offload" do requests to the server contain the model requests.
        return create_functions(client, networks=[network], inference="offload", local=local)

    executor = ReplayExecutor(
        client,
        functions,
        transport=transport,
        seed=int(check),
        check=check,
        kill=() if kill is None else kill,
    )
    started, *_ = executor.configs  # the other function appends the work of stopped runs to threads

    def answer(wait: Wait) -> Mapping[str, Any] | None:
        found = re.search(r"approvalId == '([^']+)'", wait.expression or "")
        if wait.event != APPROVAL_EVENT or found is None:
            return None
        return {
            "approvalId": found[1],
            "approved": conditions.approve,
            "reason": "The doctor says so.",
        }

    data: dict[str, Any] = {"input": conditions.text}
    if conditions.state is not None:
        data["state"] = dict(conditions.state)
    return await executor.run(f"doctor/{started.removeprefix('doctor-')}", data, answer=answer)


def _model_access(
    model: Model | None, replies: Callable[[ReceivedRequest], Reply]
) -> tuple[httpx.AsyncBaseTransport, DirectRuntime | None]:
    if model is not None:
        return model.transport or httpx.AsyncHTTPTransport(), None
    fake = FakeProvider(replies)
    return fake.transport, DirectRuntime(transport=fake.transport, environment=_AnyKey())


def _model_for(agent: Agent[Any, Any]) -> Model:
    """Return the model to imitate: a model whose provider has the agent's provider tools."""
    specs = [tool.spec for tool in agent.tool_map.values() if tool.spec.provider is not None]
    for form, model in (
        (CHAT, openai("gpt-4.1")),
        (RESPONSES, openai_responses("gpt-4.1")),
        (ANTHROPIC, anthropic("claude-sonnet-4-5")),
    ):
        with suppress(ConfigurationError):
            for spec in specs:
                definition(spec, model, form)
            return model
    return openai("gpt-4.1")  # no provider has them all, which the run's error says


def _as_network(target: Target) -> Network[Any, Any]:
    if isinstance(target, Network):
        return target
    if isinstance(target, RoutingAgent):
        return Network(name=target.name, agents=[target], router=target)

    def once(context: RouterContext) -> Agent[Any, Any] | None:
        return target if context.call_count == 0 else None

    return Network(name=target.name, agents=[target], router=once, state_type=target.state_type)
