"""A network's run in the reference model."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..small_code import holds, routed
from ..vectors import Json
from .agents import Turn
from .core import (
    UNDEFINED,
    Failure,
    Result,
    State,
    engine_failure,
    our_failure,
    own_failure,
    prose_failure,
)
from .history import heard, open_thread
from .js import date, truthy
from .routing import DEFAULT_ROUTING, default_route
from .runs import Run
from .stream import Speaker

if TYPE_CHECKING:
    from .inputs import Input
    from .play import Play


_OUR_LIMIT = 50


class NetworkRun(Run):
    """One run of a network."""

    def __init__(
        self,
        play: Play,
        spec: dict[str, Json],
        state: State,
        given: Input,
        options: dict[str, Json],
    ) -> None:
        run_id = play.ids.new()
        names = ("network", spec["name"], run_id, run_id)
        super().__init__(play, state, given, options, play.adapter(spec.get("history")), names)
        self.spec = spec
        self.agents: dict[str, dict[str, Json]] = {}
        for name in spec["agents"]:
            self.agents[play.agent(name)["name"]] = play.agent(name)
        self.private = dict(self.agents)
        self.from_models: set[str] = set()
        self.stack: list[str] = []
        self.counter = 0
        self.turns: Counter[str] = Counter()
        self.routings = 0
        self.last: Result | None = None

    def add(self, agent: dict[str, Json]) -> None:
        """An agent joins."""
        self.play.check_agent(agent)
        self.agents.setdefault(agent["name"], agent)

    @property
    def facts(self) -> tuple[str, list[str]]:
        return self.spec["name"], list(self.agents)

    # ------------------------------------------------------------------ the run

    def play_out(self) -> None:
        """The whole run."""
        self.play.step_for_ids("generate-network-id")
        if self.adapter is not None:
            self.first = open_thread(self.adapter, self.state, self.given, self.facts, whole=True)
        else:
            self.first = heard(self.play, self.state, self.given)
        if "streaming" in self.options:
            self.begin_stream()
            self.emit("run.started")
        self._offer()
        saved = False
        try:
            ended = self._loop()
            saved = True
            self._save(ended=ended)
        except Failure:
            if not saved:
                self.keep_lost()
            self.failed()
            raise
        self.ended()

    def _offer(self) -> None:
        """Fail unless an agent is enabled."""
        try:
            if self.enabled_agents():
                return
            if self.on("typed-errors"):
                raise our_failure("RoutingError")
            raise prose_failure("no-agents")
        except Failure:
            if self.stream is not None and self.on("every-failure-is-announced"):
                self.failed()
            raise

    def _loop(self) -> str:
        """Run agents; why the run ended."""
        found = self.next_names()
        self.stack += found
        if not found and not (self.stack and self.on("scheduled-agents-run")):
            return "at once"  # network.ts looks at what the router returned, not at the stack
        limit = self.spec.get("maxIter", 0)
        while self.stack and (limit >= 0):
            agent = self._startable(self.stack.pop(0))
            if agent is None:
                return "unknown"
            self.run_agent(agent)
            reached = bool(limit) and self.counter >= limit
            if "maxIter" not in self.spec and self.counter >= _OUR_LIMIT:
                reached = self.on("networks-stop-at-fifty")
            if reached and self.on("routers-are-not-asked-after-the-limit"):
                return "limit"
            self.stack += self.next_names()
            if reached:
                return "limit"
        return "done"

    def _startable(self, name: str) -> dict[str, Json] | None:
        agent = self.private.get(name) if name else None  # network.ts: `agentName &&`
        if agent is None and name in self.agents and self.on("added-agents-can-run"):
            agent = self.agents[name]
        is_slip = agent is None and name not in self.agents and name not in self.from_models
        if is_slip and self.play.mode.chronological:
            raise our_failure("RoutingError")  # history_mode="typescript" warns
        rule = ((agent or {}).get("lifecycle") or {}).get("enabled")
        if agent is None or rule is None or not self.on("disabled-agents-do-not-run"):
            return agent
        return agent if self.is_enabled(agent) else None

    def _save(self, *, ended: str) -> None:
        """Save the run's results, where TypeScript or we do."""
        if ended == "unknown" and self.stream is not None and not self.on("one-end-of-a-run"):
            self.ended()
        new = self.new()
        plain = ended not in ("at once", "unknown")
        if self.appends and (plain or (new and self.on("results-are-saved-however-a-run-ends"))):
            self.append(new)

    def run_agent(self, agent: dict[str, Json]) -> None:
        """One agent's turn."""
        self.play.step_for_ids(f"generate-agent-ids-{self.counter}")
        message_id, run_id = self.play.ids.new(), self.play.ids.new("gen")
        who = Speaker(agent["name"], run_id, message_id)
        try:
            model = self.play.model_for(agent, self.options, self.spec)
        except Failure:
            # network.ts announces the agent; agent.ts `run` then misses the model.
            if self.stream is not None and not self.on("agents-without-model-do-not-start"):
                self.stream.started(who, self.run_id)
            raise
        if not self.play.has_user_messages and not self.on("results-have-ids"):
            message_id = UNDEFINED  # the older branch has no streaming, and no ids
        turn_of_agent = self.turns[agent["name"]]
        self.turns[agent["name"]] += 1
        if self.stream is not None:
            self.stream.started(who, self.run_id)
        try:
            turn = Turn(
                self.play,
                agent,
                model=model,
                state=self.state,
                given=self.given,
                network=self,
                stream=self.stream,
                message_id=message_id,
                run_id=run_id,
                path=f"{self.spec['name']}.{agent['name']}.{turn_of_agent}",
                first=self.first,
            )
            self.last = self._turned(turn, agent)
        except Failure:
            if self.stream is not None and self.on("failing-agents-say-so"):
                self.agent_event("run.failed", who, error="<error>", recoverable=False)
            raise
        self.counter += 1
        self.agent_event("run.completed", who)

    def agent_event(self, event: str, who: Speaker, **facts: Json) -> None:
        """The end of an agent's run."""
        if self.stream is not None:
            names = {"runId": who.run_id, "scope": "agent", "name": who.name}
            self.stream.emit(event, **names, messageId=who.message_id, **facts)

    def _turned(self, turn: Turn, agent: dict[str, Json]) -> Result:
        adapter = self.play.adapter(agent.get("history"))
        hooks: set[str] = set(adapter.spec) - {"processors"} if adapter is not None else set()
        if adapter is None or not hooks or self.on("agents-threads-are-the-networks"):
            return turn.play_out()
        if agent.get("withModel") and not self.on("with-model-keeps-everything"):
            return turn.play_out()
        open_thread(adapter, self.state, self.given, self.facts, whole=False)
        turn.past = self.state.history()
        before = len(self.state.results)
        result = turn.play_out()
        if adapter.has("appendResults") and not turn.stopped:
            # TypeScript adds the result to the state only after this, and that of a router never.
            last = [] if turn.routing else [self.state.results.pop()]
            new = self.state.results[before:]
            adapter.call("appendResults", self.state, self.given, self.facts, new)
            self.state.results += last
        return result

    # ------------------------------------------------------------------ who is next

    def is_enabled(self, agent: dict[str, Json]) -> bool:
        """Return whether the agent's lifecycle enables it."""
        rule = (agent.get("lifecycle") or {}).get("enabled")
        if rule is None:
            return True
        name = agent["name"]
        facts = {"network": self.spec["name"], "stateData": dict(self.state.data)}
        self.play.log(f"enabled:{name}", "enabled", agent=name, **facts)
        if "throw" in rule:
            raise own_failure(rule["throw"])
        return (
            truthy(self.state.data.get(rule["stateKey"])) if "stateKey" in rule else rule["const"]
        )

    def enabled_agents(self) -> list[dict[str, Json]]:
        """Those that may run now."""
        return [agent for agent in self.agents.values() if self.is_enabled(agent)]

    def routing_prompt(self) -> str:
        """The default routing agent's system prompt, as it is compared: who is offered."""
        enabled = self.enabled_agents()
        for tool in (tool for agent in enabled for tool in self.play.tools_of(agent)):
            # getDefaultRoutingAgent writes tools as JSON; a getter of zod's makes a circle
            circle = "get " in (tool.get("parameters") or {}).get("zod", "")
            if circle and not self.on("routing-tools"):
                raise engine_failure("TypeError")
        offered = [f"{a['name']}|{a.get('description', '')}" for a in enabled]
        return f"<routing:{';'.join(offered)}>"

    def next_names(self) -> list[str]:
        """The names a router chose."""
        chosen = self._asked()
        if isinstance(chosen, Routed):
            known = [name for name in chosen.names if name in self.agents]
            self.from_models.update(chosen.names)
            if known != chosen.names and self.on("unknown-agents-end-the-run"):
                return chosen.names
            return known
        for agent in chosen:
            # network.ts `getNextAgents` keeps a new one in `_agents`, which nobody else sees.
            new = agent["name"] not in self.agents
            if new and self.on("agents-of-routers-join"):
                self.add(agent)
            self.private.setdefault(agent["name"], agent)
        return [agent["name"] for agent in chosen]

    def _asked(self) -> Any:
        router = self.options.get("router") or self.options.get("defaultRouter")
        router = router or self.spec.get("defaultRouter") or self.spec.get("router")
        if router is None:
            return self._by_agent(DEFAULT_ROUTING)
        if router["kind"] == "agent":
            return self._by_agent(self.play.agent(router["ref"]))
        return self._by_function(router)

    def _by_function(self, router: dict[str, Json]) -> Any:
        stack = self._stack_shown()
        answers = self.state.answers(self.on)
        last = answers[-1] if answers else None
        self.play.log("router:fn", "router", **self._router_facts(stack, last))
        rule = next((r for r in router["rules"] if self._holds(r.get("when", {}), last)), None)
        if rule is None:
            return []
        for step in rule.get("do", []):
            self._do(step)
        returned = rule.get("return")
        items = returned if isinstance(returned, list) else [] if returned is None else [returned]
        found = [self.play.agent(item) for item in items]
        routing = [agent for agent in found if agent["type"] == "routing"]
        if len(found) == 1 and routing:
            return self._by_agent(found[0])
        if routing and self.on("routing-agents-stand-alone"):
            raise our_failure("RoutingError")
        return found

    def _stack_shown(self) -> list[str]:
        unknown = [name for name in self.stack if name not in self.private]
        if unknown and not self.on("unknown-agents-end-the-run"):
            raise prose_failure("unknown-on-stack", unknown[0])
        return list(self.stack)

    def _router_facts(self, stack: list[str], last: Result | None) -> dict[str, Json]:
        keys = ["callCount", "input", "lastResult", "network", "stack", "userMessage"]
        return {
            "argKeys": keys if self._knows_user_messages() else keys[:-1],
            "input": self.given.text,
            "userMessage": self._user_message(),
            "network": self.spec["name"],
            "stack": stack,
            "callCount": self.counter,
            "lastResult": UNDEFINED if last is None else last.short(),
            "stateData": dict(self.state.data),
            "resultCount": len(self.state.answers(self.on)),
        }

    def _user_message(self) -> Json:
        rich = not isinstance(self.given.given, str)
        said = self.given.given if rich else {"content": self.given.given}
        said = {key: value for key, value in said.items() if value is not None}
        told = {"id", "role", "content", "state", "clientTimestamp", "systemPrompt"}
        ours = {k: "user" if k == "role" else v for k, v in said.items() if k in told}
        if ours != said and self.on("unknown-keys-are-dropped"):
            said = ours
        if "clientTimestamp" in said:
            said["clientTimestamp"] = {"$date": date(said["clientTimestamp"])}
        if rich and "id" not in said and self.on("routers-get-the-user-message"):
            said["id"] = self.given.id
        if rich and "clientTimestamp" in said:
            return said if self._knows_user_messages() else UNDEFINED
        if self.on("routers-get-the-user-message"):
            now = {"clientTimestamp": {"$date": "<now>"}}
            return {"id": self.given.id, "role": "user", **now, **said}
        return said if rich and self.play.has_user_messages else UNDEFINED

    def _knows_user_messages(self) -> bool:
        return self.play.has_user_messages or self.on("routers-get-the-user-message")

    def _holds(self, when: dict[str, Json], last: Result | None) -> bool:
        called = [m["tool"]["name"] for m in last.tool_calls] if last is not None else []
        author = None if last is None else last.agent
        return holds(when, count=self.counter, data=self.state.data, last=author, called=called)

    def _do(self, step: dict[str, Json]) -> None:
        match step["op"]:
            case "setState":
                self.state.data[step["key"]] = step["value"]
            case "addAgent":
                self.add(self.play.agent(step["agent"]))
            case "schedule":
                self.stack.append(step["agent"])
            case _:
                raise own_failure(step["error"])

    def _by_agent(self, agent: dict[str, Json]) -> Routed:
        if agent is DEFAULT_ROUTING and not self.spec.get("defaultModel"):
            failure = our_failure("MissingModelError")
            raise failure if self.on("typed-errors") else prose_failure("no-router")
        model = self.play.model_for(agent, self.options, self.spec)
        turn = Turn(
            self.play,
            agent,
            model=model,
            state=self.state,
            given=self.given,
            network=self,
            routing=True,
            path=f"{self.spec['name']}.route.{self.routings}",
            first=self.first,
        )
        self.routings += 1
        result = self._turned(turn, agent)
        if agent is DEFAULT_ROUTING:
            return Routed(default_route(result, self))
        return Routed(self._on_route(agent, result, turn))

    def _on_route(self, agent: dict[str, Json], result: Result, turn: Turn) -> list[str]:
        hook = agent.get("lifecycle", {}).get("onRoute")
        if hook is None:
            raise engine_failure("TypeError")
        self.play.log(f"onRoute:{agent['name']}", "onRoute", **turn.result_facts(result))
        if "throw" in hook:
            raise own_failure(hook["throw"])
        first = result.tool_calls[0] if result.tool_calls else None
        call = (first["tool"].get("input"), first["content"]) if first else (None, None)
        return routed(hook, [m["content"] for m in result.output if m["type"] == "text"], call)


class Routed:
    """Names that a routing agent chose."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
