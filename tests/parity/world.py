"""A scenario's objects, made with the library's public names."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from agentkit_py import (
    Agent,
    HistoryConfig,
    Network,
    RoutingAgent,
    State,
    UserMessage,
    anthropic,
    create_agent,
    create_network,
    create_routing_agent,
    create_state,
    gemini,
    openai,
)
from agentkit_py.messages import TextContent
from agentkit_py.models import Model, RetryPolicy, azure_openai, compatible, grok

from .handlers import build_tool
from .hooks import lifecycle_of, messages_of, result_of, router_of, system_of
from .journal import Journal
from .mcp_servers import server_of
from .modes import TYPESCRIPT, Mode
from .scripted import BASE, ScriptedTransport
from .stores import LoggedProcessor, history_hooks
from .vectors import Json

_ONCE = RetryPolicy(attempts=1)


class World:
    """Makes each object of a scenario when it is first used, and only once."""

    def __init__(
        self,
        spec: dict[str, Json],
        journal: Journal,
        transport: ScriptedTransport,
        mode: Mode = TYPESCRIPT,
    ) -> None:
        self._mode = mode
        self._spec: dict[str, Json] = json.loads(json.dumps(spec).replace("{{BASE}}", BASE))
        self._journal = journal
        self._transport = transport
        self._made: dict[tuple[str, str], Any] = {}

    def _get(self, kind: str, name: str, make: Callable[[dict[str, Json]], Any]) -> Any:
        key = (kind, name)
        if key not in self._made:
            self._made[key] = make(self._spec[kind][name])
        return self._made[key]

    @property
    def runs(self) -> list[dict[str, Json]]:
        """The runs of the scenario."""
        return self._spec["runs"]

    def model(self, name: str) -> Model:
        """The model of this id."""
        return self._get("models", name, self._model)

    def _model(self, spec: dict[str, Json]) -> Model:
        made = _FACTORIES[spec["provider"]](dict(spec["options"]))
        return dataclasses.replace(made, transport=self._transport)

    def agent(self, name: str) -> Agent:
        """The agent of this id."""
        return self._get("agents", name, self._agent)

    def _agent(self, spec: dict[str, Json]) -> Agent:
        name = spec["name"]
        routes = spec["type"] == "routing"
        kind: Callable[..., Agent] = RoutingAgent if routes else Agent
        if self._mode.by_function:
            kind = create_routing_agent if routes else create_agent
        options: dict[str, Any] = {}
        if not self._mode.chronological:
            options = {"history_mode": "typescript", "max_iter": 1}
        if "toolChoice" in spec:
            options["tool_choice"] = spec["toolChoice"]
        if spec.get("history"):
            options["history"] = self.history(spec["history"])
        if spec.get("mcpServers"):
            servers = [self._get("mcpServers", s, server_of) for s in spec["mcpServers"]]
            options["mcp_servers"] = servers
        tools = [self._get("tools", t, self._tool) for t in spec.get("tools", [])]
        made = kind(
            name=name,
            system=system_of(spec["system"], name, self._journal),
            description=spec.get("description", ""),
            assistant=spec.get("assistant", ""),
            tools=tools,
            model=self.model(spec["model"]) if spec.get("model") else None,
            lifecycle=lifecycle_of(spec.get("lifecycle") or {}, name, self._journal),
            processors=self._processors(spec),
            **options,
        )
        return made.with_model(self.model(spec["withModel"])) if spec.get("withModel") else made

    def _tool(self, spec: dict[str, Json]) -> Any:
        return build_tool(spec, self._journal)

    def _processors(self, spec: dict[str, Json]) -> list[LoggedProcessor]:
        return [LoggedProcessor(each, self._journal) for each in spec.get("processors", [])]

    def history(self, name: str) -> HistoryConfig:
        """The history adapter of this id."""

        def make(spec: dict[str, Json]) -> HistoryConfig:
            hooks = history_hooks(name, spec, self._journal)
            return HistoryConfig(**hooks, processors=self._processors(spec))

        return self._get("histories", name, make)

    def network(self, name: str) -> Network:
        """The network of this id."""
        return self._get("networks", name, self._network)

    def _network(self, spec: dict[str, Json]) -> Network:
        options: dict[str, Any] = {}
        if "maxIter" in spec:
            options["max_iter"] = spec["maxIter"]
        if not self._mode.chronological:
            options["history_mode"] = "typescript"
        make: Callable[..., Network] = create_network if self._mode.by_function else Network
        return make(
            name=spec["name"],
            agents=[self.agent(each) for each in spec["agents"]],
            description=spec.get("description", ""),
            default_model=self.model(spec["defaultModel"]) if spec.get("defaultModel") else None,
            default_state=self.state(spec["defaultState"]) if spec.get("defaultState") else None,
            # TypeScript has two names for one thing, and prefers the second here.
            router=self.router(spec.get("defaultRouter") or spec.get("router")),
            history=self.history(spec["history"]) if spec.get("history") else None,
            processors=self._processors(spec),
            **options,
        )

    def router(self, spec: Json) -> Any:
        """A router; None: the default routing agent."""
        return None if spec is None else router_of(spec, self.agent, self._journal)

    def state(self, name: str) -> State[Any]:
        """The state of this id."""
        return self._get("states", name, _state)

    def have_states(self, states: dict[str, State[Any]]) -> None:
        """Use these states instead of making them."""
        self._made |= {("states", name): state for name, state in states.items()}

    def made_states(self) -> dict[str, State[Any]]:
        """The states that were used so far, by id."""
        return {name: made for (kind, name), made in self._made.items() if kind == "states"}


def _state(spec: dict[str, Json]) -> State[Any]:
    return create_state(
        spec.get("data"),
        messages=messages_of(spec.get("messages", [])),
        results=[result_of(record) for record in spec.get("results", [])],
        thread_id=spec.get("threadId"),
    )


def _chat(options: dict[str, Json]) -> Model:
    return openai(options["model"], **_common(options))


def _common(options: dict[str, Json]) -> dict[str, Any]:
    return {
        "api_key": options.get("apiKey"),
        "base_url": options.get("baseUrl"),
        "default_parameters": options.get("defaultParameters"),
        "retry": _ONCE,
    }


def _azure(options: dict[str, Json]) -> Model:
    version = {"api_version": options["apiVersion"]} if "apiVersion" in options else {}
    return azure_openai(
        options["model"],
        endpoint=options["endpoint"],
        deployment=options["deployment"],
        api_key=options.get("apiKey"),
        default_parameters=options.get("defaultParameters"),
        retry=_ONCE,
        **version,
    )


_FACTORIES: dict[str, Callable[[dict[str, Json]], Model]] = {
    "openai": _chat,
    "deepseek": lambda options: compatible("deepseek", options["model"], **_common(options)),
    "azure-openai": _azure,
    "grok": lambda options: grok(options["model"], **_common(options)),
    "gemini": lambda options: gemini(options["model"], **_common(options)),
    "anthropic": lambda options: anthropic(
        options["model"], beta_headers=options.get("betaHeaders"), **_common(options)
    ),
}


def user_input(given: Json) -> str | UserMessage:
    """Return the user's message as a run's input."""
    if isinstance(given, str):
        return given
    content = given["content"]
    time = given.get("clientTimestamp")
    return UserMessage(
        content if isinstance(content, str) else tuple(TextContent(p["text"]) for p in content),
        given.get("id"),
        state=given.get("state"),
        client_timestamp=datetime.fromisoformat(time) if time else None,
        system_prompt=given.get("systemPrompt"),
    )
