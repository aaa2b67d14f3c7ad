"""An agent's run in the reference model."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..vectors import Json
from . import anthropic, chat, gemini
from .core import UNDEFINED, Result, State, own_failure, public
from .history import processed
from .js import stringify
from .stream import Speaker, Stream
from .tools import Calling, result_message, result_of_call
from .turns import whole

if TYPE_CHECKING:
    from .networks import NetworkRun
    from .play import Input, Play

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
        max_iter: int = 0,
        stream: Stream | None = None,
        message_id: Any = UNDEFINED,
        run_id: str = "",
        routing: bool = False,
    ) -> None:
        self.play, self.on = play, play.on
        self.agent, self.model, self.state, self.given = agent, model, state, given
        self.network = network
        self.max_iter = max_iter
        self.stream = stream
        self.message_id = message_id
        self.routing = routing
        self.who = Speaker(agent["name"], run_id, message_id if message_id is not UNDEFINED else "")
        self.tools = {tool["name"]: tool for tool in play.tools_of(agent)}
        self.key = play.turn_key(agent["name"])
        self.lifecycle: dict[str, Json] = agent.get("lifecycle") or {}
        self.past = state.history()
        self.own: list[Result] = []

    # ------------------------------------------------------------------ names

    @property
    def network_name(self) -> str:
        return self.network.spec["name"] if self.network is not None else "default"

    # ------------------------------------------------------------------ loop

    def play_out(self) -> Result:
        """All inferences; the last one's result."""
        return self._as_we_do() if self._differs() else self._as_typescript()

    def _differs(self) -> bool:
        return self.on("loop")

    def _as_typescript(self) -> Result:
        prompt = self._prompt()
        history = processed(self.play, list(self.past), self._processors())
        result = Result(self.agent["name"])
        iteration = 0
        while True:
            prompt, history, stop = self._on_start(prompt, history)
            if stop:
                return result
            result = self._infer(prompt, history, iteration)
            more = self.tools and result.output
            more = more and result.output[-1].get("stop_reason") != "stop"
            history = [{**m, "_by": result.agent} for m in result.output]
            iteration += 1
            if not more or iteration >= self.max_iter:
                break
        return self._hook("onFinish", result)

    def _as_we_do(self) -> Result:
        last: Result | None = None
        for iteration in range(max(1, self.max_iter)):
            prompt = self._prompt()
            own = [m for result in self.own for m in result.messages]
            history = processed(self.play, [*self.past, *own], self._processors())
            prompt, history, stop = self._on_start(prompt, history)
            if stop:
                break
            last = self._infer(prompt, history, iteration)
            calls = [m for m in last.output if m["type"] == "tool_call" and m["tools"]]
            ends = not calls or iteration + 1 >= max(1, self.max_iter)
            if ends:
                last = self._hook("onFinish", last)
            self._keep(last)
            if ends:
                return last
        if last is None:
            last = Result(self.agent["name"], id=self.play.ids.new())
            if self.network is not None:
                self._keep(last)
        return last

    def _keep(self, result: Result) -> None:
        self.own.append(result)
        if not self.routing:
            self.state.results.append(result)

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
        text = spec["template"]
        names = list(self.network.agents) if self.network is not None else []
        values = {
            "network.name": self.network_name,
            "agentNames": ",".join(names),
            "resultCount": str(len(self.state.results)),
        }
        for key, value in self.state.data.items():
            values[f"data.{key}"] = value if isinstance(value, str) else stringify(value)
        for key, value in values.items():
            text = text.replace("{" + key + "}", value)
        return text

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
            _rearrange(op["op"], target, copy.deepcopy(op["messages"]))
        return prompt, history, bool(hook.get("stop")) or hook.get("stopOnCall") == number

    def _infer(self, prompt: list[Json], history: list[Json], iteration: int) -> Result:
        body = self.play.infer(self.model, self._body(prompt, history), (*self.key, iteration))
        decode = _FORMATS.get(self.model["provider"], chat).decode
        result = Result(
            self.agent["name"],
            decode(body, self.on),
            [],
            public(prompt),
            public(history),
            stringify(body),
            self._result_id(iteration),
        )
        result = self._hook("onResponse", result)
        if self.stream is not None:
            self.stream.reply(self.who, result.output)
        calls = [c for m in result.output if m["type"] == "tool_call" for c in m["tools"]]
        given = [self._call(call) for call in calls]
        if given:
            replaced = bool(result.tool_calls) and self.on("tool-results-of-hooks")
            result.tool_calls = given if replaced else [*result.tool_calls, *given]
        return result

    def _result_id(self, iteration: int) -> Json:
        if self.message_id is not UNDEFINED and (iteration == 0 or not self.on("loop")):
            return self.message_id
        return self.play.ids.new() if self.on("results-have-ids") else UNDEFINED

    def _body(self, prompt: list[Json], history: list[Json]) -> Json:
        messages = [*prompt, *history]
        tools, choice = list(self.tools.values()), self.agent.get("toolChoice", "auto")
        if self.model["provider"] not in _FORMATS:
            return chat.encode(self.model, messages, tools, choice, self.on)
        prefill = 0 if history else _trailing(prompt)
        encode = _FORMATS[self.model["provider"]].encode
        return encode(
            self.model,
            messages,
            tools,
            choice,
            self.on,
            agent=self.agent["name"],
            prefill=prefill,
        )

    def _call(self, call: dict[str, Json]) -> dict[str, Json]:
        known = call["name"] in self.tools
        if self.stream is not None and (known or self.on("unknown-tools")):
            self.stream.call(self.who, call)
        content = result_of_call(call, self.tools, self._calling())
        if self.stream is not None:
            self.stream.output(self.who, call["name"], content)
        return result_message(call, content, self.on)

    def _calling(self) -> Calling:
        network = self.network

        def schedule(name: str) -> None:
            if network is not None and self.on("tools-schedule"):
                network.stack.append(name)

        return Calling(
            agent=self.agent["name"],
            network=self.network_name,
            agents=list(network.agents) if network is not None else [],
            state=self.state,
            schedule=schedule,
            log=self.play.log,
            on=self.on,
        )

    def _hook(self, name: str, result: Result) -> Result:
        hook = self.lifecycle.get(name)
        if hook is None:
            return result
        self.play.log(f"{name}:{self.agent['name']}", name, **self.result_facts(result))
        if "throw" in hook:
            raise own_failure(hook["throw"])
        for op in hook.get("ops", []):
            result = _changed(result, copy.deepcopy(op))
        if result.id is UNDEFINED and self.on("results-have-ids"):
            pass  # a hook's own result has the id that the hook gave it
        return result

    def result_facts(self, result: Result) -> dict[str, Json]:
        """What hooks with a result are told."""
        return {
            "argKeys": ["agent", "network", "result"],
            "agent": self.agent["name"],
            "network": self.network_name,
            "result": result.record(),
        }


def _trailing(prompt: list[Json]) -> int:
    count = 0
    for message in reversed(prompt):
        if message["role"] != "assistant" or message["type"] != "text":
            break
        count += 1
    return count


def _rearrange(op: str, target: list[Json], messages: list[Json]) -> None:
    if op.startswith("append"):
        target.extend(messages)
    elif op.startswith("prepend"):
        target[:0] = messages
    else:
        target[:] = messages


def _changed(result: Result, op: dict[str, Json]) -> Result:
    match op["op"]:
        case "setOutput":
            result.output = op["messages"]
        case "appendOutput":
            result.output = [*result.output, *op["messages"]]
        case "dropToolCalls":
            result.output = [m for m in result.output if m["type"] != "tool_call"]
        case "replaceLastText":
            last = max(i for i, m in enumerate(result.output) if m["type"] == "text")
            result.output = list(result.output)
            result.output[last] = {**result.output[last], "content": op["text"]}
        case _:
            return Result(op["agentName"], op["output"], op["toolCalls"])
    return result


