"""Random replies to an agent with an output_type: the object or an error, as the replies say.

``OUTPUT_SEQUENCES=100000`` tries so many sequences in each mode; the figures are at the end of
pytest's output.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import environ
from typing import Any, Literal, NamedTuple, TypeAlias

import pytest
from pydantic import BaseModel, Field

from agentkit_py import Agent, tool
from agentkit_py.errors import OutputError
from agentkit_py.events import OutputDelta
from agentkit_py.output import NativeOutput, PromptedOutput, ToolOutput
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import EventLog, ScriptedModel

from .runner import Runner

FORMATS: Any = ("openai", "openai_responses", "anthropic", "gemini", "grok")
SEQUENCES = int(environ.get("OUTPUT_SEQUENCES", "50"))


class Ticket(BaseModel):
    """A ticket."""

    title: str
    priority: int = Field(ge=1, le=5)


class Hint(BaseModel):
    """A hint in place of a ticket."""

    hint: str


Meaning: TypeAlias = Literal["answer", "problem", "tools", "cut", "refused", "empty"]
GOOD, BAD = {"title": "Größe 👀", "priority": 2}, {"title": "Broken", "priority": 9}
TICKET, HINT = Ticket(title="Größe 👀", priority=2), Hint(hint="look")


class Way(NamedTuple):
    """A way of asking, with the name of the call or the JSON by which a ticket is given."""

    kind: Any
    calls: dict[str, Any]
    """The outputs by the names of the calls that give them."""

    reads_json: bool = False
    texts: bool = False


WAYS = {
    "native": Way(NativeOutput(Ticket), {}, reads_json=True),
    "prompted": Way(PromptedOutput(Ticket), {}, reads_json=True),
    "tool": Way(ToolOutput(Ticket), {"final_result": TICKET}),
    "one of two tools": Way(
        ToolOutput([Ticket, Hint]), {"final_result_Ticket": TICKET, "final_result_Hint": HINT}
    ),
    "tool or text": Way([Ticket, str], {"final_result": TICKET}, texts=True),
}


@dataclass(frozen=True)
class Drawn:
    """A reply, and what it means to an agent that is asked for a ticket."""

    kind: str
    reply: dict[str, Any]
    meaning: Meaning
    output: Any = None


def _call(name: str, arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def draw(chance: random.Random, way: Way, wire: str) -> Drawn:
    """A reply of any kind, as a model that speaks this format may give it."""
    kind = chance.choice([*_KINDS, *_GO_ON])
    drawn = _KINDS[kind](chance, way, wire)
    beside = drawn.reply
    if chance.random() < 0.2 and drawn.meaning != "empty" and wire != "openai":
        beside = {**beside, "reasoning": "Let me see."}
    if beside.get("tool_calls") and chance.random() < 0.3:
        beside = {"text": "I look into it.", **beside}
    if wire == "gemini" and any(isinstance(c["arguments"], str) for c in _calls(beside)):
        # Gemini itself cannot read such a call, and says nothing else.
        return Drawn("call that Gemini cannot read", beside, "tools")
    return replace(drawn, kind=kind, reply=beside)


def _calls(reply: dict[str, Any]) -> list[dict[str, Any]]:
    return reply.get("tool_calls", [])


def _json(chance: random.Random, way: Way, _: str) -> Drawn:
    text = json.dumps(GOOD, ensure_ascii=chance.random() < 0.5)
    text = chance.choice([text, f"```json\n{text}\n```", f"Here it is: {text}. Done."])
    if way.texts:
        return Drawn("", {"text": text}, "answer", text)
    return Drawn("", {"text": text}, "answer" if way.reads_json else "problem", TICKET)


def _bad_json(chance: random.Random, way: Way, _: str) -> Drawn:
    text = chance.choice(
        ["no JSON", '{"title": ', json.dumps(BAD), "[]", "null", '{"title": "x"}', "{}{", "🙂"]
    )
    return Drawn("", {"text": text}, "answer" if way.texts else "problem", text)


def _says_nothing(_: random.Random, __: Way, ___: str) -> Drawn:
    return Drawn("", {"text": ""}, "problem")


def _answer_call(chance: random.Random, way: Way, _: str) -> Drawn:
    name = chance.choice([*way.calls] or ["final_result"])
    made = _call(name, {"hint": "look"} if name.endswith("Hint") else GOOD)
    meaning: Meaning = "answer" if name in way.calls else "tools"
    return Drawn("", {"tool_calls": [made]}, meaning, way.calls.get(name))


def _bad_answer_call(chance: random.Random, way: Way, _: str) -> Drawn:
    name = chance.choice([*way.calls] or ["final_result"])
    written = [BAD, {}, {"hint": 3}, {"response": GOOD}, '{"title": ', "null", "[1]"]
    reply = {"tool_calls": [_call(name, chance.choice(written))]}
    return Drawn("", reply, "problem" if name in way.calls else "tools")


def _two_answers(chance: random.Random, way: Way, wire: str) -> Drawn:
    both = [_answer_call(chance, way, wire), chance.choice([_answer_call, _bad_answer_call])(
        chance, way, wire
    )]  # fmt: skip
    chance.shuffle(both)
    calls = [call for one in both for call in one.reply["tool_calls"]]
    first = next((one for one in both if one.meaning == "answer"), both[0])
    return Drawn("", {"tool_calls": calls}, first.meaning, first.output)


def _call_beside(chance: random.Random, way: Way, wire: str) -> Drawn:
    answer = chance.choice([_answer_call, _bad_answer_call, _two_answers])(chance, way, wire)
    calls = [*answer.reply["tool_calls"]]
    calls.insert(chance.randrange(len(calls) + 1), _call("ping", {}))
    return replace(answer, reply={"tool_calls": calls})


def _tools(chance: random.Random, _: Way, __: str) -> Drawn:
    names = chance.choices(["ping", "ping", "nobody"], k=chance.randrange(1, 3))
    return Drawn("", {"tool_calls": [_call(name, {}) for name in names]}, "tools")


def _cut(chance: random.Random, way: Way, wire: str) -> Drawn:
    make = chance.choice([_json, _bad_json, _answer_call, _call_beside])
    drawn = make(chance, way, wire)
    return Drawn("", {**drawn.reply, "finish": "length"}, "cut")


def _cut_empty(_: random.Random, __: Way, ___: str) -> Drawn:
    return Drawn("", {"text": "", "finish": "length"}, "empty")


def _filtered(chance: random.Random, way: Way, wire: str) -> Drawn:
    drawn = chance.choice([_json, _bad_json])(chance, way, wire)
    return Drawn("", {**drawn.reply, "finish": "filter"}, "refused")


def _refusal(chance: random.Random, _: Way, __: str) -> Drawn:
    text = chance.choice(["I will not.", json.dumps(GOOD)])
    return Drawn("", {"text": text, "finish": "refusal"}, "refused")


def _refusal_empty(_: random.Random, __: Way, ___: str) -> Drawn:
    return Drawn("", {"text": "", "finish": "filter"}, "refused")


_KINDS: dict[str, Callable[[random.Random, Way, str], Drawn]] = {
    "JSON that fits": _json,
    "JSON that does not": _bad_json,
    "nothing": _says_nothing,
    "answer by call": _answer_call,
    "call that does not fit": _bad_answer_call,
    "two answers": _two_answers,
    "call beside answer": _call_beside,
    "tools only": _tools,
    "cut": _cut,
    "cut, empty": _cut_empty,
    "filtered": _filtered,
    "refusal": _refusal,
    "filtered, empty": _refusal_empty,
}
_GO_ON = ("JSON that does not", "call that does not fit", "two answers", "tools only", "cut") * 2
"""Kinds after which the model is asked again, drawn more often so that sequences grow."""


class Ended(NamedTuple):
    """The end that a run has to have, or has."""

    how: str
    output: Any
    problems: int
    requests: int


def expected(drawn: Sequence[Drawn], retries: int, max_iter: int) -> Ended:
    """The end that the rules of the guide give to a sequence of replies."""
    problems = counted = 0
    for number, one in enumerate(drawn, 1):
        match one.meaning:
            case "answer":
                return Ended("object", one.output, problems, number)
            case "refused" if one.reply["text"]:
                return Ended("refused", None, problems + 1, number)
            case "refused" | "empty":
                how = "refused" if one.meaning == "refused" else "length"
                return Ended(how, None, problems, number)
            case "tools":
                counted += 1
            case "problem" | "cut":
                problems += 1
                if problems > retries:
                    how = "length" if one.meaning == "cut" else "retries"
                    return Ended(how, None, problems, number)
        if counted >= max_iter:
            return Ended("max_iter", None, problems, number)
    raise AssertionError("the script is too short")


@tool
def ping() -> str:
    """Ping."""
    return "pong"


async def ended(
    runner: Runner, agent: Agent[Any, Any], model: ScriptedModel, *, streamed: bool
) -> tuple[Ended, list[OutputDelta]]:
    """Run an agent; return how that ended, and what was streamed of its output."""
    log = EventLog()
    options: dict[str, Any] = {"streaming": StreamingConfig(publish=_nowhere, tokens=True)}
    if not streamed:
        options = {}
    try:
        result: Any = await runner.run(agent, "Hi", model=model, observer=log, **options)
        end = Ended("object", result.output, 0, len(model.requests))
    except OutputError as error:
        how = "refused" if error.reason in ("refusal", "content_filter") else error.reason
        end = Ended(how, None, len(error.problems), len(model.requests))
    return end, log.of(OutputDelta)


async def _nowhere(_: dict[str, Any]) -> None:
    """Take a chunk."""


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", FORMATS)
async def test_random_replies_end_as_the_rules_say(
    runner: Runner, wire: Any, streamed: bool, record_property: Callable[[str, object], None]
) -> None:
    """Never a placeholder, at most so many retries, and no request that the provider refuses."""
    chance = random.Random(f"{wire} {streamed}")  # noqa: S311 - replies of a test
    figures, kinds = Counter[str](), Counter[str]()
    agents = {
        name: Agent[Any, Any](name="desk", system="S", tools=[ping], output_type=way.kind)
        for name, way in WAYS.items()
    }
    for _ in range(max(1, SEQUENCES // 10)):
        name = chance.choice([*WAYS])
        way, retries, max_iter = WAYS[name], chance.randrange(4), chance.randrange(1, 4)
        drawn = [draw(chance, way, wire) for _ in range(retries + max_iter + 1)]
        due = expected(drawn, retries, max_iter)
        model = ScriptedModel(*[one.reply for one in drawn], provider=wire)
        agent = agents[name]
        agent.output_retries, agent.max_iter = retries, max_iter
        agent.end_strategy = chance.choice(["early", "exhaustive"])
        found, grown = await ended(runner, agent, model, streamed=streamed)
        shown = (name, retries, max_iter, drawn[: due.requests])
        assert not model.fake.rejections, (model.fake.rejections, shown)
        if due.how == "object":
            due = due._replace(problems=0)
        assert found == due, shown
        if streamed and found.how == "object":
            assert grown[-1].output == found.output, shown
        figures.update({"sequences": 1, f"{due.how}": 1})
        kinds.update(one.kind for one in drawn[: due.requests])
    record_property(f"figures: random replies ({runner.mode})", dict(sorted(figures.items())))
    record_property(f"figures: replies read ({runner.mode})", dict(sorted(kinds.items())))
