"""The examination: two runs under `ReplayExecutor`, with a model that tries each tool once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx

from agentkit_py._core.json import as_list, as_object, dumps
from agentkit_py.agent import Agent
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.inngest.functions import create_functions
from agentkit_py.inngest.serving import development_client
from agentkit_py.models import openai
from agentkit_py.models.base import Model
from agentkit_py.network import Network, Target
from agentkit_py.routing import RouterContext
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores.memory import MemoryHistory
from agentkit_py.testing.doctor.report import (
    Callback,
    DoctorReport,
    deploy_findings,
    figures_of,
    findings_of,
    store_findings,
)
from agentkit_py.testing.doctor.watching import CallbackWatch
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait
from agentkit_py.testing.executor.executor import Functions
from agentkit_py.testing.provider import FakeProvider, ReceivedRequest, Reply, tool_calls

_DEEPEST = 6
_SELECT = "select_agent"


async def examine(
    target: Target,
    *,
    input: str = "Hello, I need your help.",  # noqa: A002 - as `run` calls it
    model: Model | None = None,
    approve: bool = False,
    before: Target | None = None,
) -> DoctorReport:
    """Run a network or an agent as an Inngest function, and say what would not survive that.

    It is run twice, the first time with each request for what is next made twice. Tools are really
    called, so let them work on data for tests. Threads are kept in memory, whatever its history.

    Args:
        target: The network, or an agent by itself.
        input: What the user says.
        model: A real model; None: one that calls each tool once, with made-up arguments.
        approve: What a person says to every question.
        before: The code that is deployed now. Runs begin with it and go on with the target, once
            for each of their requests; tools run as often.
    """
    # The first is for comparing: it asks for everything twice. The second is as on the server.
    network, watch = _as_network(target), CallbackWatch()
    runs = [
        await _execute([one.network(network)], input, model, check=check, approve=approve)
        for one, check in ((CallbackWatch(), True), (watch, False))
    ]
    findings = findings_of(network, runs, watch)
    findings += store_findings(target.name, target.history, runs[-1])
    if before is not None:
        deploys = await _deploys(before, target, input, model, approve=approve)
        findings += deploy_findings(deploys)
    own = dict.fromkeys(name for agent in network.agents for name in agent.tool_map)
    return DoctorReport(
        target=target.name,
        figures=figures_of(runs[-1]),
        findings=findings,
        callbacks=[Callback(name, calls) for name, calls in watch.calls.items()],
        tools={name: watch.tools[name] for name in (*own, *watch.listed)},
    )


async def _deploys(
    before: Target,
    after: Target,
    text: str,
    model: Model | None,
    *,
    approve: bool,
) -> dict[int, Run]:
    """Run the old code and deploy the new one after each request; returns the runs."""
    found: dict[int, Run] = {}
    name = _as_network(before).name  # the function that waits is the same
    number = 1
    while not found or found[number - 1].requests > number:
        versions = [replace(_as_network(one), name=name) for one in (before, after)]
        kill = KillAt(request=number, when="after")
        found[number] = await _execute(versions, text, model, kill=kill, approve=approve)
        number += 1
    return found


class _AnyKey(dict[str, str]):
    """An environment in which every provider's key is set."""

    def get(self, key: str, default: Any = None, /) -> Any:
        return "sk-doctor"


async def _execute(
    versions: Sequence[Network[Any, Any]],
    text: str,
    model: Model | None,
    *,
    approve: bool,
    check: bool = False,
    kill: KillAt | None = None,
) -> Run:
    """Run a network as a function; each worker that dies is followed by the next version."""
    waiting = list(versions)
    names = [agent.name for network in versions for agent in network.agents]
    transport, local = _model_access(model, names)
    client = development_client("doctor")
    history = versions[0].history
    store = MemoryHistory(processors=() if history is None else history.processors)

    def functions() -> Functions:
        given = waiting.pop(0)
        network = replace(
            given,
            history=store,
            default_model=model or given.default_model or openai("gpt-4.1"),
        )
        if model is not None:
            network.agents = [agent.with_model(model) for agent in network.agents]
        # Only with "offload" do requests to the server show what the models are asked.
        return create_functions(client, networks=[network], inference="offload", local=local)

    executor = ReplayExecutor(
        client,
        functions,
        transport=transport,
        seed=int(check),
        check=check,
        kill=() if kill is None else kill,
    )
    started, *_ = executor.configs  # the other one adds to threads what stopped runs had done

    def answer(wait: Wait) -> Mapping[str, Any] | None:
        found = re.search(r"approvalId == '([^']+)'", wait.expression or "")
        if wait.event != APPROVAL_EVENT or found is None:
            return None
        return {"approvalId": found[1], "approved": approve, "reason": "The doctor says so."}

    return await executor.run(
        f"doctor/{started.removeprefix('doctor-')}", {"input": text}, answer=answer
    )


def _model_access(
    model: Model | None, agents: Sequence[str]
) -> tuple[httpx.AsyncBaseTransport, DirectRuntime | None]:
    if model is not None:
        return model.transport or httpx.AsyncHTTPTransport(), None
    fake = FakeProvider(Explorer(agents))
    return fake.transport, DirectRuntime(transport=fake.transport, environment=_AnyKey())


def _as_network(target: Target) -> Network[Any, Any]:
    if isinstance(target, Network):
        return target

    def once(context: RouterContext) -> Agent[Any, Any] | None:
        return target if context.call_count == 0 else None

    return Network(name=target.name, agents=[target], router=once)


class Explorer:
    """Replies for `FakeProvider`: first all tools of an agent in one reply, then what it is to say.

    Args:
        agents: Names that the default routing agent may choose.
    """

    def __init__(self, agents: Sequence[str] = ()) -> None:
        self._agents = agents
        self._called: set[str] = set()

    def __call__(self, request: ReceivedRequest) -> Reply:
        """Call what was not called yet; where a tool must be called, one at a time."""
        tools = dict(_tools_of(request.body))
        new = [name for name in tools if name not in self._called]
        if _is_forced(request.body) and tools:
            new = new[:1] or list(tools)[-1:]
        self._called.update(new)
        if not new:
            schema = _answer_schema(request.body)
            return "That is all." if schema is None else dumps(_value(schema, schema, 0))
        return tool_calls(*((name, self._arguments(name, tools[name])) for name in new))

    def _arguments(self, tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        found = sample(schema)
        return {**found, "name": self._agents[0]} if tool == _SELECT and self._agents else found


def _tools_of(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and schemas, whichever provider's request it is."""
    for given in as_list((as_object(body) or {}).get("tools")) or []:
        entry = as_object(given) or {}
        for tool in as_list(entry.get("functionDeclarations")) or [entry.get("function", entry)]:
            found: dict[str, Any] = {}
            for key in ("parameters", "input_schema", "parametersJsonSchema"):
                found = tool.get(key) or found
            yield tool["name"], found


_ANSWER_SCHEMAS = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("generationConfig", "responseSchema"),
)
"""Places of an answer's schema in requests."""


def _answer_schema(body: Any) -> dict[str, Any] | None:
    for path in _ANSWER_SCHEMAS:
        found: Any = body
        for key in path:
            found = (as_object(found) or {}).get(key)
        if found is not None:
            return as_object(found)
    return None


def _is_forced(body: Any) -> bool:
    text = str((as_object(body) or {}).get("tool_choice") or body.get("toolConfig") or "auto")
    return not any(word in text.lower() for word in ("auto", "none"))


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that fit a tool's schema, as far as a schema says what fits."""
    return as_object(_value(schema, schema, 0)) or {}


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        return _value(_resolved(schema["$ref"], root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        choices = [one for one in schema.get(key) or () if one.get("type") != "null"]
        if choices:
            return _value(choices[0], root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kinds = as_list(schema.get("type", "object")) or [schema.get("type", "object")]
    name = next((str(kind).lower() for kind in kinds if kind != "null"), "null")
    if name == "object":
        fields: dict[str, Any] = schema.get("properties") or {}
        return {key: _value(value, root, depth + 1) for key, value in fields.items()}
    if name == "array":
        one: dict[str, Any] = schema.get("items") or {}
        return [_value(one, root, depth + 1) for _ in range(schema.get("minItems", 1))]
    if name in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    if name == "string":
        return "doctor".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
    return {"boolean": False}.get(name)


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {})
    return found
