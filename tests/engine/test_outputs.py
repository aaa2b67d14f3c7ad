"""An agent with an output_type ends in the object or in an OutputError, in every wire format."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

from agentkit_py import Agent, Network, RouterContext, State, tool
from agentkit_py.errors import ConfigurationError, ModelRetry, OutputError
from agentkit_py.events import OutputDelta
from agentkit_py.lifecycle import AgentContext
from agentkit_py.output import AgentRunResult, NativeOutput, PromptedOutput, ToolOutput
from agentkit_py.testing import Raw, ScriptedModel, tool_call

from .runner import Runner

PROVIDERS: Any = ("openai", "openai_responses", "anthropic", "gemini", "grok")


class Ticket(BaseModel):
    """A ticket of a customer."""

    title: str
    priority: int = Field(ge=1, le=5)
    due: date | None = None


@dataclass
class Refusal:
    """Nothing can be done."""

    reason: str


GOOD = {"title": "Broken", "priority": 2, "due": "2026-01-31"}
TICKET = Ticket(title="Broken", priority=2, due=date(2026, 1, 31))


def agent(model: ScriptedModel, **options: Any) -> Agent[Any, Any]:
    """A desk that ends in a ticket, or in what the test says."""
    options.setdefault("output_type", Ticket)
    return Agent(name="desk", system="S", model=model, **options)


async def run(runner: Runner, one: Agent[Any, Any], **options: Any) -> AgentRunResult[Any]:
    """Run it; the result holds the output."""
    return cast("AgentRunResult[Any]", await runner.run(one, "My phone is broken", **options))


def as_json(given: dict[str, Any]) -> str:
    """The JSON that a model writes."""
    return Ticket(**given).model_dump_json()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("way", [NativeOutput, ToolOutput, PromptedOutput])
async def test_each_way_gives_the_object_in_each_format(
    runner: Runner, provider: Any, way: Any
) -> None:
    """The strict stand-in accepts the request, and the answer comes back as the type."""
    reply = tool_call("final_result", GOOD) if way is ToolOutput else as_json(GOOD)
    model = ScriptedModel(reply, provider=provider)
    found = await run(runner, agent(model, output_type=way(Ticket)))
    assert found.output == TICKET
    assert found.usage == found.result.usage or found.usage.total_tokens >= 0
    model.assert_finished()


@pytest.mark.parametrize(
    ("provider", "member"),
    [
        ("openai", "response_format"),
        ("openai_responses", "text"),
        ("anthropic", "output_config"),
        ("gemini", "generationConfig"),
        ("grok", "response_format"),
    ],
)
async def test_a_model_that_can_is_asked_natively(
    runner: Runner, provider: Any, member: str
) -> None:
    """The capabilities choose, where nobody else does."""
    model = ScriptedModel(as_json(GOOD), provider=provider)
    assert (await run(runner, agent(model))).output == TICKET
    assert member in model.bodies[0]
    assert "tools" not in model.bodies[0]


async def test_an_unknown_model_is_asked_by_a_tool_that_it_must_call(runner: Runner) -> None:
    """Tools are what every model has."""
    model = ScriptedModel(tool_call("final_result", GOOD), model="my-own")
    assert (await run(runner, agent(model))).output == TICKET
    assert model.bodies[0]["tool_choice"] == "required"


async def test_an_invalid_output_goes_back_to_the_model_inside_the_turn(runner: Runner) -> None:
    """The model reads path and message, and its second answer counts; iterations do not."""
    bad = '{"title": "Broken", "priority": 9, "due": null}'
    model = ScriptedModel(bad, as_json(GOOD))
    assert (await run(runner, agent(model, max_iter=1))).output == TICKET
    model.assert_saw(r"priority: Input should be less than or equal to 5", request=1)


@pytest.mark.parametrize("way", [NativeOutput, ToolOutput])
async def test_after_all_retries_the_error_has_the_last_reply(runner: Runner, way: Any) -> None:
    """At most ``output_retries`` further replies are asked for."""
    bad: Any = tool_call("final_result", {"title": "x"}) if way is ToolOutput else "no JSON"
    model = ScriptedModel(bad, bad, bad)
    one = agent(model, output_type=way(Ticket), output_retries=2)
    with pytest.raises(OutputError) as caught:
        await run(runner, one)
    assert caught.value.reason == "retries"
    assert len(caught.value.problems) == 3
    assert caught.value.result.agent_name == "desk"
    model.assert_finished()


async def test_tools_run_before_the_answer_and_a_tool_called_with_it_does_not(
    runner: Runner,
) -> None:
    """The answer ends the turn; the call beside it has a result nevertheless."""
    seen: list[str] = []

    @tool
    def look_up(order: str) -> str:
        """Look an order up."""
        seen.append(order)
        return "lost"

    beside = {
        "tool_calls": [
            {"id": "1", "name": "look_up", "arguments": {"order": "B"}},
            {"id": "2", "name": "final_result", "arguments": GOOD},
        ]
    }
    replies: Any = (tool_call("look_up", {"order": "A"}), beside)
    for strategy, expected in (("early", ["A"]), ("exhaustive", ["A", "B"])):
        seen.clear()
        model = ScriptedModel(*replies)
        one = agent(model, tools=[look_up], output_type=ToolOutput(Ticket), end_strategy=strategy)
        found = await run(runner, one)
        assert (found.output, seen) == (TICKET, expected)
        assert len(found.result.tool_calls) == 2


def cut(word: str, text: str = "") -> Raw:
    """A chat completion that ended otherwise."""
    message = {"role": "assistant", "content": text or None}
    return Raw(json={"choices": [{"index": 0, "message": message, "finish_reason": word}]})


async def test_a_cut_reply_is_asked_for_again_and_a_refusal_is_an_error(runner: Runner) -> None:
    """A cut object is no object, also where it could be parsed."""
    model = ScriptedModel(cut("length", as_json(GOOD)), as_json(GOOD))
    assert (await run(runner, agent(model))).output == TICKET
    for text in ("", "I will not."):
        model = ScriptedModel(cut("content_filter", text))
        with pytest.raises(OutputError) as caught:
            await run(runner, agent(model))
        assert caught.value.reason == "content_filter"


async def test_an_answer_that_gemini_could_not_read_is_asked_for_again(runner: Runner) -> None:
    """The model can mend it, as other calls: it is no end of the run."""
    unread = {
        "finishReason": "MALFORMED_FUNCTION_CALL",
        "finishMessage": "Malformed function call: print(default_api.final_result(title=))",
    }
    model = ScriptedModel(
        Raw(json={"candidates": [unread]}), tool_call("final_result", GOOD), provider="gemini"
    )
    assert (await run(runner, agent(model, output_type=ToolOutput(Ticket)))).output == TICKET
    model.assert_saw("InvalidOutputError", "Malformed function call", request=1)


async def test_a_turn_that_a_limit_ends_has_no_output(runner: Runner) -> None:
    """A limit gives no placeholder."""

    @tool
    def wait() -> str:
        """Wait."""
        return "waited"

    model = ScriptedModel("no JSON", tool_call("wait"))
    with pytest.raises(OutputError) as caught:
        await run(runner, agent(model, tools=[wait], max_iter=1))
    assert caught.value.reason == "max_iter"
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (int, {"response": 3}, 3),
        (list[int], {"response": [1, 2]}, [1, 2]),
        (dict[str, int], {"response": {"a": 1}}, {"a": 1}),
        (Refusal, {"reason": "no"}, Refusal("no")),
        (Ticket | None, {"response": None}, None),
    ],
)
async def test_types_that_are_not_objects_are_wrapped_in_an_object(
    runner: Runner, kind: Any, given: Any, expected: Any
) -> None:
    """Providers take nothing but objects."""
    model = ScriptedModel(tool_call("final_result", given))
    assert (await run(runner, agent(model, output_type=ToolOutput(kind)))).output == expected


@pytest.mark.parametrize("kinds", [[Ticket, Refusal, str], Ticket | Refusal | str])
async def test_one_of_several_types_is_given_by_a_tool_of_its_own_or_as_text(
    runner: Runner, kinds: Any
) -> None:
    """Where text is an output, nothing forces a call."""
    model = ScriptedModel(tool_call("final_result_Refusal", {"reason": "no"}))
    assert (await run(runner, agent(model, output_type=kinds))).output == Refusal("no")
    assert model.bodies[0]["tool_choice"] == "auto"
    model = ScriptedModel("Which phone?")
    assert (await run(runner, agent(model, output_type=kinds))).output == "Which phone?"


async def test_functions_and_validators_are_called_once_for_each_answer(runner: Runner) -> None:
    """A step each: a replay does not file the ticket again."""
    filed: list[str] = []

    async def file(title: str, ctx: AgentContext[Any]) -> Refusal:
        """File a ticket."""
        if not title.strip():
            raise ModelRetry("A ticket needs a title.")
        filed.append(title)
        ctx.state.data["filed"] = title
        return Refusal(title)

    model = ScriptedModel(
        tool_call("final_result", {"title": " "}), tool_call("final_result", {"title": "Screen"})
    )
    one: Agent[Any, Refusal] = agent(model, output_type=ToolOutput(file))

    @one.output_validator
    async def _loud(output: Refusal) -> Refusal:
        filed.append("checked")
        return Refusal(output.reason.upper())

    state = State({"filed": ""})
    assert (await run(runner, one, state=state)).output == Refusal("SCREEN")
    assert filed == ["Screen", "checked"]
    assert state.data["filed"] == "Screen"
    model.assert_saw("A ticket needs a title.", request=1)


@pytest.mark.parametrize("way", [NativeOutput, ToolOutput])
async def test_a_streamed_output_grows_to_the_whole(way: Any) -> None:
    """Objects come as soon as they fit, JSON as soon as there is some."""
    reply: Any = tool_call("final_result", GOOD) if way is ToolOutput else as_json(GOOD)
    one = agent(ScriptedModel(reply), output_type=way(Ticket))
    async with one.stream("Help") as stream:
        grown = [event async for event in stream if isinstance(event, OutputDelta)]
    assert stream.result.output == TICKET
    assert grown[-1].output == TICKET
    assert grown[0].output is None


async def test_networks_give_the_output_of_the_agent_that_ends_them(runner: Runner) -> None:
    """Routers read typed outputs; a network's own output is an agent's or a function's."""
    first = Agent(
        name="triage", system="S", model=ScriptedModel(*[as_json(GOOD)] * 4), output_type=Ticket
    )
    second = Agent(name="writer", system="S", model=ScriptedModel(*["Dear Ada"] * 4))

    def route(context: RouterContext) -> Any:
        ticket = context.output_of(first)
        if ticket is None:
            return first
        assert ticket.priority == 2
        return second if context.output_of(second) is None else None

    plain = Network(name="n", agents=[first, second], router=route)
    done = await runner.run(plain, "Hi")
    assert (done.output, done.output_of(first)) == ("Dear Ada", TICKET)
    typed = Network(
        name="n",
        agents=[first, second],
        router=route,
        output=lambda ctx: (ctx.output_of(first), ctx.call_count),
    )
    assert (await runner.run(typed, "Hi")).output == (TICKET, 2)
    last = Agent(name="end", system="S", model=ScriptedModel('{"reason":"x"}'), output_type=Refusal)
    ended = Network(name="n", agents=[first, second], router=route, output=last)
    assert (await runner.run(ended, "Hi")).output == Refusal("x")
    wrong = Network(name="n", agents=[first, second], router=route, output_type=Ticket)
    with pytest.raises(OutputError, match="output_type is Ticket"):
        await runner.run(wrong, "Hi")


async def test_a_dict_that_a_networks_function_gives_becomes_the_object(runner: Runner) -> None:
    """State data often are dicts; what does not fit is named."""
    clerk = Agent(name="clerk", system="S", model=ScriptedModel(*["It is done."] * 3))
    given: dict[str, Any] = {"title": "Broken", "priority": "2", "due": "2026-01-31"}

    def network(output: dict[str, Any], kind: Any) -> Network[Any, Any]:
        return Network(
            name="n",
            agents=[clerk],
            router=lambda ctx: None if ctx.call_count else clerk,
            output=lambda _: output,
            output_type=kind,
        )

    run = await runner.run(network(given, [Refusal, Ticket]), "Hi")
    assert (run.output, run.text) == (TICKET, "It is done.")
    with pytest.raises(OutputError, match="does not fit Ticket, priority"):
        await runner.run(network({**given, "priority": "high"}, Ticket), "Hi")


async def test_an_agent_as_a_tool_gives_its_output_as_json(runner: Runner) -> None:
    """The caller's model reads the object."""
    inner = agent(ScriptedModel(as_json(GOOD)))
    model = ScriptedModel(tool_call("desk", {"task": "x"}), "Done")
    outer = Agent(name="boss", system="S", model=model, tools=[inner.as_tool()])
    await runner.run(outer, "Go")
    model.assert_saw("Broken", "2026-01-31", request=1)


class NoSchema:
    """A class of which no model can be told."""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (NoSchema, r"NoSchema.*write a pydantic model, a dataclass or a TypedDict$"),
        (TICKET, "it is an object; give its type Ticket"),
        (Refusal("x"), "it is an object; give its type Refusal"),
        ("Ticket", "it is the name of a type; give the type itself"),
        ([[Ticket]], "a flat list of them"),
        ({"type": "object"}, "give a type, a function, or a flat list of them"),
        ([NativeOutput(Ticket), str], r"NativeOutput goes around the whole list"),
        ([], "the list is empty"),
    ],
)
def test_values_often_written_for_a_type_are_refused_with_advice(kind: Any, said: str) -> None:
    """One line, without pydantic's advice to writers of pydantic types."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        agent(ScriptedModel(), output_type=kind)
    assert "\n" not in str(caught.value)


class Folder(BaseModel):
    """A type that refers to itself."""

    folders: list[Folder] = []


@pytest.mark.parametrize("provider", ["gemini", "grok"])
@pytest.mark.parametrize("way", [NativeOutput, ToolOutput])
async def test_a_way_that_a_host_cannot_go_is_refused_with_the_one_that_it_can(
    runner: Runner, way: Any, provider: Any
) -> None:
    """Tools and schemas of Gemini and Grok take no recursion."""
    one = agent(ScriptedModel("{}", provider=provider), output_type=way(Folder))
    with pytest.raises(ConfigurationError, match=r"refers to itself.*use PromptedOutput\(…\)"):
        await run(runner, one)
    one.output_type = PromptedOutput(Folder)
    assert (await run(runner, one)).output == Folder()


def test_a_type_that_cannot_be_an_output_is_refused_at_once() -> None:
    """The message names the agent and the type."""
    with pytest.raises(ConfigurationError, match=r"'desk'.*output_type"):
        agent(ScriptedModel(), output_type=object())
    with pytest.raises(ConfigurationError, match="final_result"):
        agent(ScriptedModel(), output_type=Ticket, tools=[tool(name="final_result")(as_json)])
    with pytest.raises(ConfigurationError, match="end_strategy"):
        agent(ScriptedModel(), end_strategy="late")


async def test_an_output_type_that_is_changed_counts_from_the_next_run_on(runner: Runner) -> None:
    """Also one more type in the same list, and another name of who is handed over to."""
    kinds: list[Any] = [Ticket]
    one = agent(ScriptedModel(as_json(GOOD), "Which phone?", '{"reason":"x"}'), output_type=kinds)
    assert (await run(runner, one)).output == TICKET
    kinds.append(str)
    assert (await run(runner, one)).output == "Which phone?"
    one.output_type = NativeOutput(Refusal)
    assert (await run(runner, one)).output == Refusal("x")
    other = agent(ScriptedModel())
    one.handoffs = [other]
    assert [*one.resolve().handoffs] == ["transfer_to_desk"]
    other.name = "till"
    assert [*one.resolve().handoffs] == ["transfer_to_till"]


def test_state_type_makes_and_checks_the_state() -> None:
    """A client's dict becomes the type; another type is an error that names both."""
    made: list[Any] = []
    one = Agent(
        name="desk",
        state_type=Refusal,
        system=lambda ctx: made.append(ctx.state.data) or "S",
        model=ScriptedModel("a"),
    )
    one.run_sync("Hi", state={"data": {"reason": "why"}})
    assert made == [Refusal("why")]
    with pytest.raises(ConfigurationError, match="must be a Refusal"):
        one.run_sync("Hi", state=State(TICKET))
    with pytest.raises(ConfigurationError, match=r"state=State\(Refusal"):
        one.run_sync("Hi")
