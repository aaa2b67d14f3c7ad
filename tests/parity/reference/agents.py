"""An agent's run in the reference model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..small_code import rearrange
from ..vectors import Json
from . import anthropic, chat, gemini, responses
from .core import (
    UNDEFINED,
    USER,
    Failure,
    Result,
    State,
    Switches,
    engine_failure,
    our_failure,
    own_failure,
    public,
    read,
)
from .history import processed
from .http import bare
from .js import stringify, without_halves, written
from .stream import Speaker, Stream
from .tools import Calling, result_message, result_of_call
from .turns import marked, whole

if TYPE_CHECKING:
    from .inputs import Input
    from .networks import NetworkRun
    from .play import Play

_FORMATS = {"anthropic": anthropic, "gemini": gemini}


class Turn:
    """One agent's run: by itself, in a network, or as a router."""

    def __init__(
        self,
        play: Play,
        agent: dict[str, Json],
        *,
        model: dict[str, Json],
        state: State,
        given: Input,
        network: NetworkRun | None = None,
        max_iter: int | None = None,
        stream: Stream | None = None,
        message_id: Any = UNDEFINED,
        run_id: str = "",
        routing: bool = False,
        path: str = "",
        first: int | None = None,
        around: tuple[str, list[str]] = ("default", []),
    ) -> None:
        self.play, self.on = play, play.on
        self.agent, self.model, self.state, self.given = agent, model, state, given
        self.network = network
        self.network_name, self._around = around if network is None else network.facts
        self.max_iter = max_iter if max_iter is not None or routing else play.mode.inferences
        self.stream = stream
        self.message_id = message_id
        self.routing = routing
        self.path = path or agent["name"]
        self.who = Speaker(agent["name"], run_id, message_id if message_id is not UNDEFINED else "")
        self.tools = {tool["name"]: tool for tool in play.offered_to(agent, self.path)}
        self.key = play.turn_key(agent["name"])
        self.lifecycle: dict[str, Json] = agent.get("lifecycle") or {}
        self.first = first
        self.past = state.history(first, self._said_before())
        self.own: list[Result] = []
        self.stopped = False
        self._asked: tuple[Json, Json, str] = ([], [], "")

    # ------------------------------------------------------------------ names

    @property
    def _agents(self) -> list[str]:
        return self._around if self.network is None else list(self.network.agents)

    def _said_before(self) -> Json:
        """Return the id by which a user turn of the past is this run's message; None: none is."""
        named = self.given.stored()["id"]
        again = any(r.agent == USER and r.id == named for r in self.state.results[: self.first])
        return named if again and self.on("a-message-is-said-once") else None

    # ------------------------------------------------------------------ loop

    def play_out(self) -> Result:
        """All inferences; the last one's result."""
        prompt, history, last = self._prompt(), list(self.past), None
        self._asked = (public(prompt), public(history), "")
        history = processed(self.play, history, self._processors())
        limit = max(1, self.max_iter or 0)
        iteration = counted = pauses = 0
        while True:
            if last is not None:
                prompt, history = self._next(prompt, last)
            prompt, history, stop = self._on_start(prompt, history)
            if stop:
                self.stopped = True
                break
            last = self._infer(prompt, history, iteration)
            most = _most_pauses(last)
            iteration, counted, pauses = iteration + 1, counted + (not most), pauses + bool(most)
            ends = pauses >= most if most else counted >= limit or not self._goes_on(last)
            if ends:
                last = self._finished(last)
                self._name_result(last)
            self._keep(last)
            if ends:
                return last
        return last if last is not None else self._blank()

    def _finished(self, last: Result) -> Result:
        """The turn's last result after onFinish; where that fails, one with calls is saved."""
        try:
            return self._hook("onFinish", last)
        except Failure:
            owner = self.agent if self.network is None else self.network.spec
            called = owner.get("history") and last.tool_calls
            if called and self.on("failed-runs-keep-their-results"):
                self._keep(last)
            raise

    def _is_own_call(self, message: dict[str, Json]) -> bool:
        """Whether this agent called in this run, or was answered."""
        mine = message.get("_by") == self.agent["name"]
        return mine and message.get("_past") is False and message["type"] != "text"

    def _next(self, prompt: list[Json], last: Result) -> tuple[list[Json], list[Json]]:
        """Prompt and history of a further inference."""
        ops = (self.lifecycle.get("onStart") or {}).get("ops", [])
        made_again = not isinstance(self.agent["system"], str) or any(
            op["op"].endswith("Prompt") for op in ops
        )
        if made_again and self.on("prompts-at-every-inference"):
            prompt = self._prompt()
        if not self.on("loops-keep-their-history"):
            return prompt, [{**m, "_by": last.agent} for m in last.output]
        own = [{**m, "_past": False} for result in self.own for m in result.messages]
        specs = self._processors()
        again = specs if specs and self.on("processors-at-every-inference") else []
        return prompt, processed(self.play, [*self.past, *own], again)

    def _name_result(self, result: Result) -> None:
        """Give the result of a network's turn its id, whoever made it (network.ts ``execute``)."""
        named = self.network is not None and not self.routing
        if named and result.id is not self.message_id and not self.on("results-have-ids"):
            result.id = self.message_id

    def _goes_on(self, result: Result) -> bool:
        ours = any(m["type"] == "tool_call" and m["tools"] for m in result.output)
        last = result.output[-1] if result.output else {"stop_reason": "stop"}
        theirs = bool(self.tools) and last.get("stop_reason") != "stop"
        if ours == theirs:
            return ours
        return ours if self.on("calls-decide-whether-a-loop-goes-on") else theirs

    def _keep(self, result: Result) -> None:
        self.own.append(result)
        if self.routing:
            return
        if self.network is not None or self.on("agents-keep-their-results"):
            self.state.results.append(result)

    def _blank(self) -> Result:
        """The result of a turn that was stopped before it began."""
        named = self.message_id if self.network is not None else UNDEFINED
        if self.on("results-have-ids"):
            named = self.play.ids.new()
        blank = Result(self.agent["name"], id=named)
        if not self.on("stopped-turns-asked-nothing"):  # agent.ts `run`: made before the loop
            blank.prompt, blank.history, blank.raw = self._asked
        if self.network is not None:
            self._keep(blank)
        return blank

    # ------------------------------------------------------------------ pieces

    def _prompt(self) -> list[Json]:
        system = self.agent["system"]
        text = system if isinstance(system, str) else self._system(system["fn"])
        addition = self.given.system_prompt
        if addition and (self.network is None or self.on("system-prompt-of-the-user-message")):
            text = f"{text}\n\n{addition}"
        found = [{"type": "text", "role": "system", "content": text}]
        if self.given.content:
            found.append({"type": "text", "role": "user", "content": self.given.content})
        if self.agent.get("assistant"):
            found.append({"type": "text", "role": "assistant", "content": self.agent["assistant"]})
        return found

    def _system(self, spec: dict[str, Json]) -> str:
        if spec.get("default-routing"):
            assert self.network is not None
            return self.network.routing_prompt()
        self.play.note(f"system:{self.agent['name']}")
        self.play.callback(
            "system",
            agent=self.agent["name"],
            argKeys=["network"],
            hasNetwork=True,
            network=self.network_name,
        )
        if "throw" in spec:
            raise own_failure(spec["throw"])
        return re.sub(r"\{([\w.]+)\}", self._template_field, spec["template"])

    def _template_field(self, match: re.Match[str]) -> str:
        values: dict[str, Json] = {
            "network.name": self.network_name,
            "agentNames": ",".join(self._agents),
            "resultCount": str(len(self.state.answers(self.on))),
        }
        values |= {f"data.{key}": value for key, value in self.state.data.items()}
        value = values.get(match[1], "undefined")
        return value if isinstance(value, str) else stringify(value)

    def _processors(self) -> list[Json]:
        found: list[Json] = []
        network = self.network.spec if self.network is not None else {}
        shared = self.play.histories_spec(network.get("history")).get("processors", [])
        if shared and self.on("processors-of-the-networks-history"):
            found += shared
        if self.agent.get("history") != network.get("history"):
            found += self.play.histories_spec(self.agent.get("history")).get("processors", [])
        return [*found, *network.get("processors", []), *self.agent.get("processors", [])]

    def _on_start(
        self, prompt: list[Json], history: list[Json]
    ) -> tuple[list[Json], list[Json], bool]:
        hook = self.lifecycle.get("onStart")
        if hook is None:
            return prompt, history, False
        number = self.play.count(id(hook))
        complete = whole(history)
        if public(complete) != public(history) and self.on("histories-are-made-valid"):
            history = complete
        self.play.note(f"onStart:{self.agent['name']}")
        self.play.callback(
            "onStart",
            argKeys=["agent", "history", "input", "network", "prompt"],
            agent=self.agent["name"],
            network=self.network_name,
            input=self.given.text,
            prompt=public(prompt),
            history=public(history),
        )
        if "throw" in hook:
            raise own_failure(hook["throw"])
        prompt, history = list(prompt), list(history)
        for op in hook.get("ops", []):
            target = prompt if op["op"].endswith("Prompt") else history
            rearrange(op["op"], target, read(op["messages"], self.on))
        lost = [m for m in complete if self._is_own_call(m) and not any(m is k for k in history)]
        kept = self.play.mode.chronological  # history_mode="typescript" protects nothing
        if kept and lost and self.on("on-start-keeps-an-agents-calls"):
            history = _put_back(lost, complete, history)
        return prompt, history, bool(hook.get("stop")) or hook.get("stopOnCall") == number

    def _infer(self, prompt: list[Json], history: list[Json], iteration: int) -> Result:
        path = f"{self.path}.{iteration}"
        key = (*self.key, iteration)
        asked = self._body(self.model, prompt, history)
        plain = self._body(bare(self.model), prompt, history) if self.play.durable else {}
        plain.pop("_turn", "")
        mark = asked.pop("_turn", "")
        clean = without_halves(asked)
        if clean != asked and self.on("halves-are-not-sent"):
            asked = clean
        body = self.play.infer(self.model, asked, plain, key, path)
        form = responses if responses.is_asked(self.model, self.on) else chat
        decode = _FORMATS.get(self.model["provider"], form).decode
        read = self._read(decode, body)
        self._note(read, body)
        if iteration and self.model["provider"] == "gemini" and gemini.says_nothing(body, read):
            read = gemini.empty(read) if self.on("empty-replies-are-continued") else read
        result = Result(
            self.agent["name"],
            read,
            [],
            public(prompt),
            public(history),
            body if isinstance(body, str) else written(body, self.on),
        )
        marked(result.output, mark, self.model["options"])
        made = self._result_id(iteration)
        if made is not UNDEFINED and self.on("results-have-ids"):
            result.id = made
        result = self._hook("onResponse", result)
        if result.output is UNDEFINED:
            raise engine_failure("TypeError")
        if self.network is None and made is not UNDEFINED and not self.on("results-have-ids"):
            result.id = made  # agent.ts `run`, after the inference; networks name it at their end
        if self.stream is not None:
            self.stream.reply(self.who, result.output)
        calls = [c for m in result.output if m["type"] == "tool_call" for c in m["tools"]]
        given = [
            self._call(call, f"{path}.tool.{i}.{call['name']}") for i, call in enumerate(calls)
        ]
        if given:
            replaced = bool(result.tool_calls) and self.on("tool-results-of-hooks")
            result.tool_calls = given if replaced else [*result.tool_calls, *given]
        return result

    def _note(self, read: Json, body: Json) -> None:
        """Note whose reasoning a reply has, and whether it was paused."""
        provider = self.model["provider"]
        said = read if isinstance(read, list) else []
        paused = provider == "anthropic" and said and body.get("stop_reason") == "pause_turn"
        paused = paused and self.on("paused-replies-are-continued")
        for message in said:
            facts = {"_host": provider} if message["type"] == "reasoning" else {}
            message.update(facts | ({"_paused": True} if paused else {}))

    def _read(self, decode: Callable[[Json, Switches], list[Json]], body: Json) -> list[Json]:
        """The messages of a reply; one of another shape is a TypeError of JavaScript's."""
        try:
            found = decode(body, self.on)
        except (AttributeError, KeyError, TypeError):
            if self.on("typed-errors"):
                raise our_failure("ModelResponseError") from None
            raise engine_failure("TypeError") from None
        said = [] if found is UNDEFINED else found
        names = [call["name"] for message in said for call in message.get("tools", [])]
        if not all(isinstance(name, str) and name for name in names) and self.on(
            "answers-are-checked"
        ):
            raise our_failure("ModelResponseError")
        return found

    def _result_id(self, iteration: int) -> Json:
        if self.message_id is not UNDEFINED and iteration == 0:
            return self.message_id
        if self.message_id is not UNDEFINED and not self.on("each-inference-has-its-id"):
            return self.message_id
        return self.play.ids.new() if self.on("results-have-ids") else UNDEFINED

    def _body(self, model: dict[str, Json], prompt: list[Json], history: list[Json]) -> Json:
        messages = [*prompt, *history]
        if self.play.mode.chronological:
            messages = _chronological(prompt, history)
        tools, choice = list(self.tools.values()), self.agent.get("toolChoice", "auto")
        if choice != "auto" and self.agent.get("withModel"):
            choice = choice if self.on("with-model-keeps-everything") else "auto"
        if responses.is_asked(model, self.on):
            return responses.encode(model, messages, tools, choice, self.on)
        if self.model["provider"] not in _FORMATS:
            return chat.encode(model, messages, tools, choice, self.on)
        prefill = 0 if history and not self.play.mode.chronological else _trailing(prompt)
        if self.model["provider"] == "gemini":
            return gemini.encode(model, messages, tools, choice, self.on, prefill)
        # history_mode="typescript" marks nothing
        thread = self.state.thread_id if self.play.mode.chronological else UNDEFINED
        me = self.agent["name"]
        return anthropic.encode(model, messages, tools, choice, self.on, prefill, me, thread)

    def _call(self, call: dict[str, Json], path: str) -> dict[str, Json]:
        known = call["name"] in self.tools
        if self.stream is not None and (known or self.on("unknown-tools")):
            self.stream.call(self.who, call)
        content = result_of_call(call, self.tools, self._calling(path))
        if self.stream is not None:
            self.stream.output(self.who, call["name"], content)
        return {**result_message(call, content, self.on), "_by": self.agent["name"]}

    def _calling(self, path: str) -> Calling:
        network = self.network

        def schedule(name: str) -> None:
            if network is not None and self.on("tools-schedule"):
                network.stack.append(name)

        return Calling(
            agent=self.agent["name"],
            network=self.network_name,
            agents=self._agents,
            state=self.state,
            schedule=schedule,
            log=self.play.log,
            note=self.play.note,
            on=self.on,
            path=path,
            wrap=self.play.step if self.play.durable else None,
            step=self._steps(),
        )

    def _steps(self) -> Callable[[str], None] | None:
        """Return what handlers get as ``step``: agent.ts `run`, network.ts ``execute``."""
        if not self.play.durable:
            return None
        given = self.stream is not None or (self.network is not None and not self.routing)
        return self.play.step if given or self.on("every-tool-has-steps") else None

    def _hook(self, name: str, result: Result) -> Result:
        hook = self.lifecycle.get(name)
        if hook is None:
            return result
        self.play.log(f"{name}:{self.agent['name']}", name, **self.result_facts(result))
        if "throw" in hook:
            raise own_failure(hook["throw"])
        for op in hook.get("ops", []):
            if result.output is UNDEFINED and op["op"] != "setOutput":
                raise engine_failure("TypeError")
            result = _changed(result, op, self.on)
        return result

    def result_facts(self, result: Result) -> dict[str, Json]:
        """Return the arguments of hooks that get a result."""
        return {
            "argKeys": ["agent", "network", "result"],
            "agent": self.agent["name"],
            "network": self.network_name,
            "result": result.record(),
        }


def _most_pauses(result: Result) -> int:
    """How often a reply is continued that was paused, or says nothing; 0: it is whole."""
    output = [] if result.output is UNDEFINED else result.output
    if any("_empty" in message for message in output):
        return 3
    asks = any(message["type"] == "tool_call" for message in output)
    return 10 if not asks and any("_paused" in message for message in output) else 0


def _chronological(prompt: list[Json], history: list[Json]) -> list[Json]:
    """Join prompt and history in the order in which they were said."""
    systems = 0
    while systems < len(prompt) and prompt[systems]["role"] == "system":
        systems += 1
    end = max(systems, len(prompt) - _trailing(prompt))
    past: list[Json] = []
    present: list[Json] = []
    side = True
    for message in history:
        side = message.get("_past", side)
        (past if side else present).append(message)
    return [*prompt[:systems], *past, *prompt[systems:end], *present, *prompt[end:]]


def _trailing(prompt: list[Json]) -> int:
    count = 0
    for message in reversed(prompt):
        if message["role"] != "assistant" or message["type"] != "text":
            break
        count += 1
    return count


def _put_back(lost: list[Json], before: list[Json], after: list[Json]) -> list[Json]:
    """Each lost message after its nearest predecessor that is still there, else before the next."""
    places = {id(message): index for index, message in enumerate(after)}
    found = [places[id(message)] for message in before if id(message) in places]
    at, gone = found[0] if found else len(after), set(map(id, lost))
    inserted: dict[int, list[Json]] = {}
    for message in before:
        if id(message) in gone:
            inserted.setdefault(at, []).append(message)
        elif id(message) in places:
            at = places[id(message)] + 1
    return [m for i in range(len(after) + 1) for m in (*inserted.get(i, ()), *after[i : i + 1])]


def _changed(result: Result, op: dict[str, Json], on: Switches) -> Result:
    match op["op"]:
        case "setOutput":
            result.output = read(op["messages"], on)
        case "appendOutput":
            result.output = [*result.output, *read(op["messages"], on)]
        case "dropToolCalls":
            result.output = [m for m in result.output if m["type"] != "tool_call"]
        case "replaceLastText":
            texts = [i for i, m in enumerate(result.output) if m["type"] == "text"]
            result.output = list(result.output)
            for last in texts[-1:]:
                result.output[last] = {**result.output[last], "content": op["text"]}
        case _:
            return Result.of(op, on)
    return result
