"""Replies are decoded once in a process, and nobody who gets one can change it for another."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    NonRetriableError,
    ResultContext,
    State,
    ToolCallMessage,
    ToolContext,
    anthropic,
    create_tool,
    openai,
    tool,
)
from agentkit_py.errors import ModelResponseError
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.inngest.replies import KnownReplies, known_replies
from agentkit_py.inngest.sdk import Memos
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor

from .world import EVENT, executor_for

MODEL = openai("gpt-4o", api_key="x")


def body_of(text: str = "Hello.", tokens: object = 3) -> dict[str, Any]:
    """A reply of a few words."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": tokens, "completion_tokens": 1}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


def asking(arguments: object) -> dict[str, Any]:
    """A reply that calls a tool."""
    function = {"name": "look", "arguments": json.dumps(arguments)}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


# ------------------------------------------------------------------ nobody changes it for others


def changing_agent() -> tuple[Agent, ScriptedModel, list[Any]]:
    """An agent whose tool and hook change whatever they can; its model, what the tool got."""
    got: list[Any] = []

    def count(given: Any, ctx: ToolContext) -> str:
        got.append(json.loads(json.dumps([given, ctx.call.input])))
        given["by"] = 99
        given["list"].append(5)
        given.clear()
        return "counted"

    def on_response(context: ResultContext) -> None:
        for message in context.result.output:
            if isinstance(message, ToolCallMessage):
                arguments: Any = message.tools[0].input
                arguments["seen"] = arguments.get("seen", 0) + 1
                arguments["list"].append("hook")

    calls = [tool_call("count", {"by": number, "list": [number]}) for number in (1, 2, 3)]
    model = ScriptedModel(*calls, "Done.")
    agent = Agent(
        name="counter",
        system="S",
        model=model,
        tools=[create_tool(name="count", handler=count)],
        lifecycle=Lifecycle(on_response=on_response),
        max_iter=4,
    )
    return agent, model, got


async def test_tools_and_hooks_that_change_arguments_change_nothing_in_later_replays() -> None:
    """Each replay begins with what the model said, as a direct run does."""
    agent, model, got = changing_agent()
    state = State[dict[str, Any]]()
    await agent.run("Count.", state=state)
    directly = [result.to_dict() for result in state.results]
    requests = model.bodies
    agent, model, durably_got = changing_agent()
    found: list[Any] = []

    async def function(ctx: inngest.Context) -> str:
        state = State[dict[str, Any]]()
        text = (await agent.run("Count.", state=state)).text
        found[:] = [result.to_dict() for result in state.results]
        return text

    run = await executor_for(function, check=False).run(EVENT)
    assert run.output == "Done.", run.error
    assert durably_got == got
    assert [one[0]["list"] for one in got] == [[number, "hook"] for number in (1, 2, 3)]
    assert model.bodies == requests
    assert [one["output"] for one in found[1:]] == [one["output"] for one in directly[1:]]
    assert [one["output"][0]["tools"][0]["input"]["seen"] for one in found[1:4]] == [1, 1, 1]


async def test_a_tool_that_changes_its_arguments_does_not_change_what_the_model_said() -> None:
    """The next request repeats the call as it came, with a schema and without one."""

    @tool
    def sort(names: list[Any]) -> str:
        """Sort."""
        names[0].append("new")
        return "sorted"

    def clear(given: Any) -> str:
        given.clear()
        return "cleared"

    calls = [tool_call("sort", {"names": [["a"]]}), tool_call("clear", {"all": [1]}), "Done."]
    model = ScriptedModel(*calls)
    tools = [sort, create_tool(name="clear", handler=clear)]
    await Agent(name="a", system="S", model=model, tools=tools, max_iter=3).run("Go.")
    asked = [m["tool_calls"][0]["function"] for m in model.bodies[2]["messages"][2::2]]
    assert [json.loads(one["arguments"]) for one in asked] == [{"names": [["a"]]}, {"all": [1]}]


def test_whoever_gets_a_reply_has_it_for_himself() -> None:
    """No object or list of it is another's, but what cannot be changed may be."""
    run = KnownReplies().of("run")
    body = asking({"deep": {"list": [1]}})
    replies = [run.decode("step", MODEL, body, "support") for _ in range(3)]
    assert replies[1] == replies[2]
    for number, reply in enumerate(replies):
        message = reply.messages[0]
        assert isinstance(message, ToolCallMessage)
        arguments: Any = message.tools[0].input
        assert arguments == {"deep": {"list": [1]}}
        arguments["deep"]["list"].append(number)
        assert isinstance(message.tools, list)
        message.tools.clear()
    assert [message.agent for message in replies[2].messages] == ["support"]


def test_metadata_of_providers_is_everybodys_own_too() -> None:
    """Reasoning comes with a signature, which goes back to the provider."""
    model = anthropic("claude-sonnet-4-5", api_key="x")
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s1"}
    use = {"type": "tool_use", "id": "1", "name": "look", "input": {"at": [1]}}
    body = {"content": [thinking, use], "usage": {"input_tokens": 1, "output_tokens": 2}}
    run = KnownReplies().of("run")
    plain = model.decode(body)
    first, second = (run.decode("step", model, body, "") for _ in range(2))
    assert first == second == plain
    changed: Any = first.messages[0].provider_metadata
    changed.clear()
    assert run.decode("step", model, body, "") == plain


# ------------------------------------------------------------------ what is not the same


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (body_of("Hello."), body_of("Hello!")),
        (body_of(tokens=1), body_of(tokens=True)),
        (body_of(tokens=1), body_of(tokens=1.0)),
        (asking({"at": 1}), asking({"at": 1.0})),
    ],
)
def test_a_changed_memo_is_read_again(before: Any, after: Any) -> None:
    """Also where Python takes the two for equal."""
    run = KnownReplies().of("run")
    for body in (before, after, before, after):
        reply = run.decode("step", MODEL, body, "")
        assert repr(reply) == repr(MODEL.decode(body))


def test_another_model_or_author_reads_it_again() -> None:
    """A new version of the code may have another one."""
    run = KnownReplies().of("run")
    run.decode("step", MODEL, body_of(), "first")
    assert run.decode("step", MODEL, body_of(), "second").messages[0].agent != "first"
    other = openai("gpt-4o", api_key="x", base_url="http://other.invalid")
    assert run.decode("step", other, body_of(), "second") is not None
    wrong: Any = {"content": "none of OpenAI's"}
    for _ in range(2):
        with pytest.raises(ModelResponseError):
            run.decode("step", MODEL, wrong, "")


# ------------------------------------------------------------------ bounds, and the end


def test_runs_and_bytes_are_bounded() -> None:
    """The run that was idle for longest goes first; one that is too long alone keeps a part."""
    known = KnownReplies(runs=2, size=10_000)
    for name in ("one", "two", "one", "three"):
        known.of(name).decode("step", MODEL, body_of(name), "")
    assert known.runs == 2
    before = known.size
    known.of("one").decode("step", MODEL, body_of("one again"), "")
    assert 0 < known.size - before < 100
    long = known.of("one")
    for number in range(20):
        long.decode(f"step.{number}", MODEL, body_of(str(number)), "")
        assert known.size <= 10_000
    assert known.runs == 1
    assert known.size > 5_000
    known.of("two").decode("step", MODEL, body_of(), "")
    assert known.size <= 10_000
    known.drop("one")
    known.drop("two")
    known.drop("never")
    assert (known.runs, known.size) == (0, 0)
    # An execution that was still going on decodes as ever, and keeps nothing.
    assert long.decode("step.0", MODEL, body_of(), "").messages[0].type == "text"
    assert known.size == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_nothing_is_kept_of_a_run_that_has_ended(fails: bool) -> None:
    """While it goes on its replies are known, also between two attempts."""
    model = ScriptedModel(tool_call("look", {}), tool_call("look", {}), "Done.")
    kept: list[tuple[int, int]] = []

    @tool
    async def look() -> str:
        """Look."""
        kept.append((known_replies.runs, known_replies.size))
        return "nothing"

    agent = Agent(name="a", system="S", model=model, tools=[look], max_iter=3)

    async def function(ctx: inngest.Context) -> str:
        text = (await agent.run("Go.")).text
        if fails and not ctx.attempt:
            kept.append((known_replies.runs, known_replies.size))
            raise ValueError("once more")
        if fails:
            raise NonRetriableError("not again")
        return text

    before = (known_replies.runs, known_replies.size)
    run = await executor_for(function, check=False).run(EVENT)
    assert run.status == ("failed" if fails else "completed"), run.error
    assert [runs for runs, _ in kept] == [before[0] + 1] * len(kept)
    sizes = [size for _, size in kept]
    assert sizes == sorted(set(sizes))
    assert (known_replies.runs, known_replies.size) == before


# ------------------------------------------------------------------ steps that the SDK is not asked


class Hooks(inngest.Middleware):
    """Says in each request since when the SDK takes the code for new."""

    new = False
    memos = 0

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],
        steps: inngest.StepMemos,
    ) -> None:
        """A request begins."""
        Hooks.new, Hooks.memos = False, steps.size

    async def before_execution(self) -> None:
        """New code begins."""
        Hooks.new = True


async def test_middleware_learns_at_the_same_place_as_ever_that_code_is_new() -> None:
    """With the last remembered step, whoever takes its output."""
    seen: list[tuple[int, int, bool]] = []
    asked = [0]

    def on_response(_: ResultContext) -> None:
        asked[0] += 1
        seen.append((Hooks.memos, 2 * asked[0] - 1, Hooks.new))

    @tool
    async def look() -> str:
        """Look."""
        assert Hooks.new
        return "nothing"

    calls = [tool_call("look", {}) for _ in range(4)]
    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel(*calls, "Done."),
        tools=[look],
        lifecycle=Lifecycle(on_response=on_response),
        max_iter=5,
    )

    async def function(ctx: inngest.Context) -> str:
        asked[0] = 0
        text = (await agent.run("Go.")).text
        assert Hooks.new == (Hooks.memos <= 9)
        await ctx.step.run("own", own)
        return text

    async def own() -> str:
        assert Hooks.new
        return "done"

    inference: Any = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="test", is_production=False, middleware=[inference, Hooks])
    make = client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event=EVENT), retries=0)
    executor = ReplayExecutor(client, [make(function)], check=True)
    run = await executor.run(EVENT)
    assert run.output == "Done.", run.error
    assert run.differences == []
    assert len(seen) > 2 * 5
    assert [new for _, _, new in seen] == [taken >= memos for memos, taken, _ in seen]


async def test_own_steps_with_the_names_of_the_agents_are_counted_as_the_sdk_counts() -> None:
    """It numbers names that come twice, and must come to the same numbers on each replay."""
    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel(tool_call("look", {}), "Done."),
        tools=[create_tool(name="look", handler=lambda: "nothing")],
        max_iter=2,
    )
    happened: list[str] = []

    async def function(ctx: inngest.Context) -> list[Any]:
        async def own(name: str) -> str:
            happened.append(name)
            return name

        first = await ctx.step.run("a.0.infer", own, "before")
        text = (await agent.run("Go.")).text
        second = await ctx.step.run("a.0.infer", own, "again")
        third = await ctx.step.run("a.1.infer", own, "after")
        return [first, text, second, third]

    run = await executor_for(function).run(EVENT)
    assert run.output == ["before", "Done.", "again", "after"], run.error
    assert happened == ["before", "again", "after"]
    assert run.differences == []


def test_of_another_sdk_nothing_is_taken() -> None:
    """Its own steps give what they remember."""
    memos = Memos(SimpleNamespace(step=SimpleNamespace()))  # pyright: ignore[reportArgumentType] - no context of the SDK
    assert not memos.knows("a.0.infer")
    assert memos.take("a.0.infer") is None
    assert memos.left == 0
