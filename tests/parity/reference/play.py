"""Playing a scenario on the reference model."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

from ..ids import normalised
from ..scripted import BASE
from ..vectors import Json
from .agents import Turn
from .core import (
    UNDEFINED,
    Failure,
    Ids,
    Result,
    State,
    Switches,
    Unsupported,
    cleaned,
    engine_failure,
    our_failure,
    prose_failure,
)
from .history import Adapter, open_thread
from .http import request_record
from .networks import NetworkRun
from .routing import DEFAULT_ROUTING, DONE, SELECT
from .stream import Stream

_TOO_MANY = 400

Binding = dict[tuple[Any, ...], Json]


@dataclass(frozen=True, slots=True)
class Input:
    """What the user says."""

    given: Json
    id: Json

    @property
    def content(self) -> Json:
        return self.given if isinstance(self.given, str) else self.given["content"]

    @property
    def text(self) -> str:
        content = self.content
        return content if isinstance(content, str) else "".join(p["text"] for p in content)

    @property
    def system_prompt(self) -> str | None:
        return None if isinstance(self.given, str) else self.given.get("systemPrompt")

    def stored(self) -> dict[str, Json]:
        """The message as appendUserMessage gets it."""
        given = {"content": self.given} if isinstance(self.given, str) else self.given
        return {
            "id": given.get("id") or self.id,
            "content": given["content"],
            "role": "user",
            "timestamp": given.get("clientTimestamp", "<now>"),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model says happens."""

    document: dict[str, Json]
    asked: frozenset[str]
    """The divergences that the scenario comes across."""

    replies: list[list[Json]]
    """For each run, the replies to its requests."""

    binding: Binding
    """Which reply went to which inference."""

    unused: list[Json]


def model_play(
    spec: dict[str, Json],
    on: frozenset[str],
    *,
    earlier: Outcome | None = None,
    old_branch: bool = False,
) -> Outcome:
    """Play a scenario.

    Args:
        spec: The scenario.
        on: The divergences that are switched on.
        earlier: The same scenario without any: its inferences keep their replies.
        old_branch: Whether the recording is of the branch with processors, which knows no user
            messages.
    """
    return Play(spec, on, earlier, old_branch=old_branch).play()


class Play:
    """One play of a scenario on the model."""

    def __init__(
        self,
        spec: dict[str, Json],
        on: frozenset[str],
        earlier: Outcome | None,
        *,
        old_branch: bool = False,
    ) -> None:
        self.spec: dict[str, Json] = json.loads(json.dumps(spec).replace("{{BASE}}", BASE))
        self.on = Switches(on)
        self.ids = Ids()
        self.run = 0
        self.order: list[str] = []
        self.events: list[Json] = []
        self.histories: list[Json] = []
        self.callbacks: list[Json] = []
        self.requests: list[Json] = []
        self.warnings: list[Json] = []
        self.has_user_messages = not old_branch
        self._earlier = earlier
        self._script = copy.deepcopy(earlier.unused if earlier else self.spec["llm"])
        self._binding: Binding = {}
        self._replies: list[list[Json]] = [[] for _ in self.spec["runs"]]
        self._turns: dict[tuple[Any, ...], int] = {}
        self._counts: dict[int, int] = {}
        self._states: dict[str, State] = {}
        self._own: dict[str, State] = {}
        self._adapters: dict[str, Adapter] = {}

    # ------------------------------------------------------------------ notes

    def note(self, what: str) -> None:
        """Something happens."""
        self.order.append(what)

    def callback(self, kind: str, **facts: Json) -> None:
        """The scenario's code is called."""
        self.callbacks.append({"run": self.run, "kind": kind, **copy_facts(facts)})

    def log(self, what: str, kind: str, **facts: Json) -> None:
        """Both."""
        self.note(what)
        self.callback(kind, **facts)

    def count(self, key: int) -> int:
        """How often this was called before."""
        self._counts[key] = self._counts.get(key, -1) + 1
        return self._counts[key]

    def turn_key(self, agent: str) -> tuple[Any, ...]:
        """Names one run of an agent."""
        key = (self.run, agent)
        self._turns[key] = self._turns.get(key, -1) + 1
        return (*key, self._turns[key])

    # ------------------------------------------------------------------ things

    def agent(self, name: str) -> dict[str, Json]:
        """The agent of this id."""
        return self.spec["agents"][name]

    def tools_of(self, agent: dict[str, Json]) -> list[Json]:
        """Its tools."""
        if agent is DEFAULT_ROUTING:
            return [SELECT, DONE]
        return [self.spec["tools"][name] for name in agent.get("tools", [])]

    def histories_spec(self, name: Json) -> dict[str, Json]:
        """The history adapter of this id, as described."""
        return self.spec["histories"][name] if name else {}

    def adapter(self, name: Json) -> Adapter | None:
        """The history adapter of this id."""
        if not name:
            return None
        if name not in self._adapters:
            self._adapters[name] = Adapter(self, name, self.spec["histories"][name])
        return self._adapters[name]

    def own_state(self, name: str) -> State:
        """The network object's own state."""
        default = self.spec["networks"][name].get("defaultState")
        if default:
            return self._state(default)
        return self._own.setdefault(name, State())

    def _state(self, name: str) -> State:
        if name not in self._states:
            self._states[name] = State.of(self.spec["states"][name], self.on)
        return self._states[name]

    def model_for(
        self,
        agent: dict[str, Json],
        options: dict[str, Json],
        network: dict[str, Json],
    ) -> dict[str, Json]:
        """The model an agent uses.

        Raises:
            Failure: There is none.
        """
        chosen = options.get("model")
        name = chosen or agent.get("withModel") or agent.get("model") or network.get("defaultModel")
        if not name:
            failure = our_failure("MissingModelError")
            raise failure if self.on("typed-errors") else prose_failure("no-model")
        return self.spec["models"][name]

    def infer(self, model: dict[str, Json], body: Json, key: tuple[Any, ...]) -> Json:
        """One request; the answer's JSON."""
        if len(self.requests) > _TOO_MANY:
            raise Unsupported("a scenario without end")
        self.note(f"llm:{len(self.requests)}")
        self.requests.append(request_record(self.run, model, cleaned(body), self.on))
        reply = self._reply(key, model)
        self._binding[key] = reply
        self._replies[self.run].append(reply)
        return answer_of(reply, self.on)

    def _reply(self, key: tuple[Any, ...], model: dict[str, Json]) -> Json:
        if self._earlier is not None and key in self._earlier.binding:
            return self._earlier.binding[key]
        if self._script:
            return self._script.pop(0)
        if self._earlier is None:
            raise Unsupported("a request without reply")
        return {"json": closing_reply(model["provider"])}

    # ------------------------------------------------------------------ runs

    def play(self) -> Outcome:
        """All runs."""
        runs: list[Json] = []
        for number, run in enumerate(self.spec["runs"]):
            self.run = number
            self.note(f"run:{number}")
            runs.append(self._run(run))
        document = {
            "events": self.events,
            "historyLog": self.histories,
            "runs": runs,
            "requests": self.requests,
            "callbackLog": self.callbacks,
            "order": self.order,
            "warnings": self.warnings,
            "unusedReplies": len(self._script) if self._earlier is None else 0,
            "exhaustedReplies": 0,
        }
        return Outcome(
            normalised(cleaned(document)),
            frozenset(self.on.asked),
            self._replies,
            self._binding,
            self._script,
        )

    def _run(self, run: dict[str, Json]) -> dict[str, Json]:
        record: dict[str, Json] = {"target": run["target"], "error": None}
        given = Input(run["input"], self.ids.new())
        try:
            if "agent" in run["target"]:
                record["result"] = self._run_agent(run, given).record()
            else:
                record["networkRun"] = self._run_network(run, given)
        except Failure as failure:
            record["error"] = failure.facts
        kv = not self.on("no-kv")
        if "network" in run["target"]:
            record["networkOwnState"] = self.own_state(run["target"]["network"]).record(kv=kv)
        if self._states:
            record["statesAfter"] = {n: s.record(kv=kv) for n, s in self._states.items()}
        if not isinstance(run["input"], str):
            record["inputAfter"] = run["input"]
        return record

    def _run_network(self, run: dict[str, Json], given: Input) -> dict[str, Json]:
        name, options = run["target"]["network"], run.get("options", {})
        state = self._state_of(options.get("state"), name)
        spec = self.spec["networks"][name]
        network = NetworkRun(self, spec, state, given, options)
        network.play_out()
        return {
            "name": spec["name"],
            "class": "NetworkRun",
            "counter": network.counter,
            "remainingStack": list(network.stack),
            "state": state.record(kv=not self.on("no-kv")),
            "stateIsPassedState": True if isinstance(options.get("state"), str) else UNDEFINED,
        }

    def _state_of(self, given: Json, network: str) -> State:
        if isinstance(given, str):
            return self._state(given)
        if given is None:
            own = self.own_state(network)
            shared = any(isinstance(value, dict | list) for value in own.data.values())
            return own.clone(deep=shared and self.on("default-state-is-copied"))
        plain = given["plain"]
        thread = plain.get("threadId")
        if thread is not None and not self.on("plain-states-keep-their-thread"):
            thread = None
        found = {
            "data": plain.get("data"),
            "messages": plain.get("messages") or plain.get("_messages") or [],
            "results": plain.get("results") or plain.get("_results") or [],
            "threadId": thread,
        }
        return State.of(found, self.on)

    def _run_agent(self, run: dict[str, Json], given: Input) -> Result:
        agent, options = self.agent(run["target"]["agent"]), run.get("options", {})
        network = self.spec["networks"][options["network"]] if "network" in options else {}
        model = self.model_for(agent, options, network)
        if "state" in options:
            state = self._state_of(options["state"], "")
        else:
            state = self.own_state(options["network"]) if network else State()
        return StandaloneRun(self, agent, model, state, given, options).play_out()


class StandaloneRun:
    """An agent that runs by itself."""

    def __init__(
        self,
        play: Play,
        agent: dict[str, Json],
        model: dict[str, Json],
        state: State,
        given: Input,
        options: dict[str, Json],
    ) -> None:
        self.play, self.on = play, play.on
        self.agent, self.model, self.state = agent, model, state
        self.given, self.options = given, options
        lost = agent.get("withModel") and agent.get("history")
        kept = not lost or self.on("with-model-keeps-everything")
        self.adapter = play.adapter(agent.get("history")) if kept else None
        self.stream: Stream | None = None
        self.run_id, self.message_id = play.ids.new("gen"), play.ids.new()

    def play_out(self) -> Result:
        """The whole run."""
        first = self.adapter is not None and self.stream_wanted
        first = first and self.on("threads-open-before-a-run-starts")
        if not first:
            self._begin_stream()
        if self.adapter is not None:
            open_thread(self.adapter, self.state, self.given, ("default", []), whole=False)
        if first:
            self._begin_stream()
        before = len(self.state.results)
        saving = False
        try:
            turn = self._turn()
            result = turn.play_out()
            saving = True
            self._save(before, stopped=turn.stopped)
        except Failure:
            self._failed(before, saving=saving)
            raise
        self._emit("run.completed")
        self._emit("stream.ended")
        return result

    @property
    def stream_wanted(self) -> bool:
        return "streaming" in self.options

    def _failed(self, before: int, *, saving: bool) -> None:
        system = self.agent["system"]
        early = not isinstance(system, str) and "throw" in system["fn"]
        announced = not early or (self.stream_wanted and self.on("every-failure-is-announced"))
        if announced:
            self._emit("run.failed", error="<error>", recoverable=False)
        if announced and (not self.stream_wanted or not self.on("one-end-of-a-run")):
            self._emit("run.completed")
        if announced:
            self._emit("stream.ended")
        lost = self.state.results[before:]
        if saving or not lost or not self._appends:
            return
        if self.on("failed-runs-keep-their-results"):
            try:
                self._append(lost)
            except Failure:
                pass  # the run's own error counts

    def _begin_stream(self) -> None:
        if "streaming" in self.options:
            thread = self.state.thread_id
            self.stream = Stream(self.play, self.options["streaming"], self.state.data, thread)
            self.stream.started(self._who(), None)

    def _who(self) -> Any:
        from .stream import Speaker

        return Speaker(self.agent["name"], self.run_id, self.message_id)

    def _emit(self, event: str, **facts: Json) -> None:
        if self.stream is None:
            return
        if event == "stream.ended":
            self.stream.emit(event, scope="agent", messageId=self.message_id)
        else:
            self.stream.emit(
                event, runId=self.run_id, scope="agent", name=self.agent["name"], **facts
            )

    def _turn(self) -> Turn:
        has_id = self.stream is not None or self.on("results-have-ids")
        return Turn(
            self.play,
            self.agent,
            model=self.model,
            state=self.state,
            given=self.given,
            max_iter=self.options.get("maxIter", 0),
            stream=self.stream,
            message_id=self.message_id if has_id else UNDEFINED,
            run_id=self.run_id,
        )

    @property
    def _appends(self) -> bool:
        return self.adapter is not None and self.adapter.has("appendResults")

    def _save(self, before: int, *, stopped: bool) -> None:
        new = self.state.results[before:]
        if not self._appends:
            return
        if not stopped or (new and self.on("stopped-turns-keep-their-results")):
            self._append(new)

    def _append(self, results: list[Result]) -> None:
        assert self.adapter is not None
        facts = ("default", list[str]())
        self.adapter.call("appendResults", self.state, self.given, facts, results)


def copy_facts(facts: dict[str, Json]) -> dict[str, Json]:
    """A copy in which undefined stays itself."""
    return {k: v if v is UNDEFINED else _copied(v) for k, v in facts.items()}


def _copied(value: Json) -> Json:
    if value is UNDEFINED:
        return value
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


def answer_of(reply: Json, on: Switches) -> Json:
    """The JSON of an answer.

    Raises:
        Failure: It is none, or an error.
    """
    if reply.get("disconnect"):
        raise (
            our_failure("ModelConnectionError")
            if on("typed-errors")
            else engine_failure("TypeError")
        )
    status = reply.get("status", 200)
    bad = status >= 400  # noqa: PLR2004 - HTTP
    body, is_json = _parsed(reply)
    said = body.get("error") if isinstance(body, dict) else None
    if bad and (is_json and not said):
        if on("http-status-counts"):
            raise our_failure(_kind(status), status=status)
        return body
    if not is_json:
        if not on("typed-errors"):
            raise engine_failure("SyntaxError")
        raise (
            our_failure(_kind(status), status=status) if bad else our_failure("ModelResponseError")
        )
    if said:
        raise _provider_failure(status, said, on, bad=bad)
    if body is None and not on("typed-errors"):
        raise engine_failure("TypeError")
    return body


def _provider_failure(status: int, said: Json, on: Switches, *, bad: bool) -> Failure:
    message = said.get("message") if isinstance(said, dict) else said
    if not on("typed-errors"):
        return Failure(provider=message) if message else prose_failure("request-failed")
    if bad:
        return our_failure(_kind(status), status=status, says=message or UNDEFINED)
    return our_failure("ModelResponseError", says=message or UNDEFINED)


def _kind(status: int) -> str:
    if status in (401, 403):
        return "AuthenticationError"
    if status == 429:  # noqa: PLR2004 - HTTP
        return "RateLimitError"
    return "ProviderUnavailableError" if status >= 500 else "BadRequestError"  # noqa: PLR2004 - HTTP


def _parsed(reply: Json) -> tuple[Json, bool]:
    if "text" not in reply:
        return copy.deepcopy(reply.get("json")), True
    try:
        return json.loads(reply["text"]), True
    except ValueError:
        return None, False


def closing_reply(provider: str) -> Json:
    """A reply that ends a conversation, for a request that TypeScript does not make."""
    text = "(added by the runner)"
    if provider == "anthropic":
        block = {"type": "text", "text": text}
        return {
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": "end_turn",
        }
    if provider == "gemini":
        content = {"role": "model", "parts": [{"text": text}]}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
