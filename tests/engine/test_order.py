"""In which order a model sees prompt, history and the messages of the current run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    Lifecycle,
    MemoryHistory,
    Message,
    Network,
    RouterContext,
    State,
    TextMessage,
    ToolContext,
    tool,
)
from agentkit_py._engine.prompt import assemble, join_history, split_sides
from agentkit_py.lifecycle import ResultContext, Start, StartContext
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner

SYSTEM = TextMessage("system", "S")
QUESTION = TextMessage("user", "Q")
PREFILL = TextMessage("assistant", "P")


def text(content: str, *, old: bool | None = None, role: Any = "user") -> TextMessage:
    """A text message on a side."""
    return TextMessage(role, content, from_history=old)


def contents(messages: Sequence[Message]) -> str:
    """The texts, in order, as one word."""
    return "".join(m.text for m in messages if isinstance(m, TextMessage))


def said(body: Any) -> list[str]:
    """Role and content of each message of an OpenAI request."""
    return [f"{m['role']}: {m['content']}" for m in body["messages"]]


def look() -> str:
    """Look something up."""
    return "found"


def test_a_prompt_is_system_then_user_then_prefill() -> None:
    """Empty parts are left out."""
    assert assemble("S", QUESTION, "P") == (SYSTEM, QUESTION, PREFILL)
    assert assemble("S", None) == (SYSTEM,)


def test_messages_that_a_client_adds_follow_the_system_prompt() -> None:
    """It is in the same message, after a blank line."""
    assert assemble("S", None, addition="Be kind.") == (TextMessage("system", "S\n\nBe kind."),)


def test_old_history_comes_before_the_question_and_new_history_after_it() -> None:
    """The prefill is last: the model continues writing there."""
    history = [text("a", old=True), text("b", old=True), text("c", old=False)]
    joined, prefill = join_history((SYSTEM, QUESTION, PREFILL), history)
    assert (contents(joined), prefill) == ("SabQcP", 1)


def test_all_leading_system_messages_of_a_prompt_stay_in_front() -> None:
    """Hooks add further ones."""
    second = TextMessage("system", "T")
    joined, prefill = join_history((SYSTEM, second, QUESTION), [text("a")])
    assert (contents(joined), prefill) == ("STaQ", 0)


def test_a_prompt_of_system_messages_alone_comes_before_all_history() -> None:
    """An agent that continues without a new question."""
    joined, prefill = join_history((SYSTEM,), [text("a"), text("b", old=False)])
    assert (contents(joined), prefill) == ("Sab", 0)


def test_a_prompt_of_prefill_only_has_it_last() -> None:
    """A hook may take away everything else."""
    joined, prefill = join_history((PREFILL,), [text("a")])
    assert (contents(joined), prefill) == ("aP", 1)


@pytest.mark.parametrize(
    ("sides", "past", "present"),
    [
        ("", "", ""),
        ("abc", "abc", ""),
        ("A", "A", ""),
        ("z", "z", ""),
        ("aXb", "a", "Xb"),
        ("Xab", "", "Xab"),
        ("AXbBc", "ABc", "Xb"),
        ("XA", "A", "X"),
        ("aXbAcYd", "aAc", "XbYd"),
    ],
)
def test_an_unmarked_message_takes_the_side_of_the_one_before(
    sides: str, past: str, present: str
) -> None:
    """A and B are marked old, X and Y new, small letters not at all."""
    marks = {"A": True, "B": True, "X": False, "Y": False}
    history = [text(letter, old=marks.get(letter)) for letter in sides]
    found = split_sides(history)
    assert (contents(found[0]), contents(found[1])) == (past, present)


def test_typescript_order_is_the_prompt_and_then_all_history() -> None:
    """This run's history comes last, too, so a prefill works only without history."""
    history = [text("a", old=True), text("b", old=False)]
    joined, prefill = join_history((SYSTEM, QUESTION, PREFILL), history, "typescript")
    assert (contents(joined), prefill) == ("SQPab", 0)
    joined, prefill = join_history((SYSTEM, QUESTION, PREFILL), [], "typescript")
    assert (contents(joined), prefill) == ("SQP", 1)


async def test_a_second_turn_sees_the_first_before_its_question(runner: Runner) -> None:
    """Chronological, user turns included."""
    model = ScriptedModel("one", "two")
    agent, state = Agent(name="a", system="S", model=model), State[Any]()
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    assert said(model.bodies[1]) == [
        "system: S", "user: first?", "assistant: one", "user: second?",
    ]  # fmt: skip
    assert [r.agent_name for r in state.transcript] == ["user", "a", "user", "a"]
    model.assert_finished()


async def test_calls_and_results_of_this_turn_follow_the_question(runner: Runner) -> None:
    """Those of the turn before are where they were made."""
    model = ScriptedModel(tool_call("look"), "one", tool_call("look"), "two")
    agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=3)
    state = State[Any]()
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    roles = [m["role"] for m in model.bodies[3]["messages"]]
    assert roles == [
        "system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool",
    ]  # fmt: skip
    model.assert_finished()


async def test_seed_messages_come_before_everything_else(runner: Runner) -> None:
    """A client's seed messages count as messages from before the run."""
    model = ScriptedModel("one")
    seed = [text("old?"), text("old", role="assistant")]
    await runner.run(Agent(name="a", system="S", model=model), "new?", state=State(messages=seed))
    assert said(model.bodies[0]) == ["system: S", "user: old?", "assistant: old", "user: new?"]


async def test_a_seed_message_marked_as_new_is_old_nevertheless(runner: Runner) -> None:
    """Marks are for what processors and hooks make in a run; what comes before it is past."""
    model = ScriptedModel("one")
    seed = [text("old?", old=False), text("old", role="assistant")]
    await runner.run(Agent(name="a", system="S", model=model), "new?", state=State(messages=seed))
    assert said(model.bodies[0]) == ["system: S", "user: old?", "assistant: old", "user: new?"]


async def test_a_message_that_a_hook_marked_as_new_is_old_in_the_next_run(runner: Runner) -> None:
    """The mark is kept in the state with the message, the run it speaks of is over."""

    def mark(context: ResultContext) -> AgentResult:
        return context.result.with_messages([text("marked", old=False, role="assistant")])

    model = ScriptedModel("one", "two")
    agent = Agent(name="a", system="S", model=model, lifecycle=Lifecycle(on_response=mark))
    state = State[Any]()
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    assert said(model.bodies[1]) == [
        "system: S", "user: first?", "assistant: marked", "user: second?",
    ]  # fmt: skip


async def test_a_hooks_own_message_takes_the_side_where_it_puts_it(runner: Runner) -> None:
    """At the front it counts as old, after this run's messages as new."""

    def add(context: StartContext) -> Start:
        note = TextMessage("user", f"note {len(context.history)}")
        return Start(context.prompt, [note, *context.history, note])

    model = ScriptedModel(tool_call("look"), "done")
    agent = Agent(
        name="a", system="S", tools=[look], model=model, max_iter=2,
        lifecycle=Lifecycle(on_start=add),
    )  # fmt: skip
    await runner.run(agent, "q?", state=State(messages=[text("old")]))
    roles = [m["role"] for m in model.bodies[1]["messages"]]
    assert roles == ["system", "user", "user", "user", "assistant", "tool", "user"]
    assert [m["content"] for m in model.bodies[1]["messages"] if m["role"] == "user"] == [
        "note 3", "old", "q?", "note 3",
    ]  # fmt: skip
    model.assert_finished()


async def test_the_second_agent_of_a_network_sees_the_first_after_the_question(
    runner: Runner,
) -> None:
    """The question is asked once, and answered by both in turn."""
    first, second = ScriptedModel("from one"), ScriptedModel("from two")
    agents = [
        Agent(name="one", system="S1", model=first),
        Agent(name="two", system="S2", model=second),
    ]

    def router(context: RouterContext) -> str | None:
        return ("one", "two", None)[context.call_count]

    network = Network(name="n", agents=agents, router=router)
    await runner.run(network, "q?", state=State(messages=[text("old")]))
    assert said(second.bodies[0]) == [
        "system: S2", "user: old", "user: q?", "assistant: from one",
    ]  # fmt: skip


async def test_typescript_mode_puts_all_history_after_the_question(runner: Runner) -> None:
    """The state has no user turns then."""
    model = ScriptedModel("one", "two")
    agent = Agent(name="a", system="S", model=model, history_mode="typescript")
    state = State[Any]()
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    assert said(model.bodies[1]) == ["system: S", "user: second?", "assistant: one"]
    assert [r.agent_name for r in state.results] == ["a", "a"]


async def test_typescript_mode_of_a_network_is_that_of_all_its_agents(runner: Runner) -> None:
    """The network's mode overrides the agents' own."""
    model = ScriptedModel("one")
    network = Network(
        name="n",
        agents=[Agent(name="a", system="S", model=model)],
        router=lambda context: None if context.call_count else "a",
        history_mode="typescript",
    )
    await runner.run(network, "q?", state=State(messages=[text("old")]))
    assert said(model.bodies[0]) == ["system: S", "user: q?", "user: old"]


async def test_nothing_is_protected_in_typescript_mode(runner: Runner) -> None:
    """Processors may drop any message."""
    model = ScriptedModel(tool_call("look"), "done")

    def nothing(messages: Sequence[Message]) -> Sequence[Message]:
        return []

    agent = Agent(
        name="a", system="S", tools=[look], model=model, max_iter=2, processors=[nothing],
        history_mode="typescript",
    )  # fmt: skip
    await runner.run(agent, "q?")
    assert said(model.bodies[1]) == ["system: S", "user: q?"]


async def test_a_prefill_is_last_in_every_inference(runner: Runner) -> None:
    """Anthropic continues writing from it."""
    model = ScriptedModel(tool_call("look"), "done", provider="anthropic", model="claude-3-5-haiku")
    agent = Agent(
        name="a", system="S", assistant="Well,", tools=[look], model=model, max_iter=2
    )  # fmt: skip
    await runner.run(agent, "q?")
    for body in model.bodies:
        assert body["messages"][-1] == {"role": "assistant", "content": "Well,"}
    model.assert_finished()


async def test_an_empty_question_adds_nothing_to_prompt_or_state(runner: Runner) -> None:
    """An agent that continues with what it has."""
    model = ScriptedModel("one")
    state = State[Any](messages=[text("old")])
    await runner.run(Agent(name="a", system="S", model=model), "", state=state)
    assert said(model.bodies[0]) == ["system: S", "user: old"]
    assert [r.agent_name for r in state.results] == ["a"]


def forget_all(ctx: ToolContext) -> str:
    """Forget the whole conversation."""
    ctx.state.set_results([])
    return "forgotten"


def keep_the_question(ctx: ToolContext) -> str:
    """Forget all but the newest entry, which is the question."""
    ctx.state.set_transcript(ctx.state.transcript[-1:])
    return "forgotten"


@pytest.mark.parametrize("forget", [forget_all, keep_the_question])
async def test_a_tool_may_replace_the_results_and_the_question_stays_single(
    runner: Runner,
    forget: Callable[..., str],
) -> None:
    """The remaining history is sent once, followed by the call's own result."""
    model = ScriptedModel("one", tool_call(forget.__name__), "done")
    agent = Agent(name="a", system="S", tools=[forget], model=model, max_iter=2)
    state = State[Any]()
    await runner.run(agent, "old?", state=state)
    await runner.run(agent, "new?", state=state)
    roles = [m["role"] for m in model.bodies[2]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    model.assert_finished()


async def test_a_run_of_a_tool_on_the_same_state_leaves_the_outer_runs_messages_where_they_are(
    runner: Runner,
) -> None:
    """They follow the question; what the inner run added follows them, and is saved with them."""
    run_inner = Agent(name="inner", system="I", model=ScriptedModel("sub!")).run

    @tool(steps=True)
    async def ask(ctx: ToolContext) -> str:
        """Ask another agent, with all that was said."""
        return (await run_inner("sub?", state=ctx.state)).text

    model = ScriptedModel(tool_call("look"), tool_call("ask"), "done")
    store = MemoryHistory()
    agent = Agent(name="a", system="S", tools=[look, ask], model=model, history=store)
    result = await runner.run(agent, "q?", thread_id="t")
    assert said(model.bodies[2]) == [
        "system: S",
        "user: q?",
        "assistant: None",
        'tool: {"data":"found"}',
        "user: sub?",
        "assistant: sub!",
        "assistant: None",
        'tool: {"data":"sub!"}',
    ]
    assert result.text == "done"
    stored = await store.load("t")
    assert [entry.agent_name for entry in stored] == ["user", "a", "user", "inner", "a", "a"]


async def test_a_result_that_a_tool_adds_without_a_side_follows_the_question(
    runner: Runner,
) -> None:
    """It takes the side of what is before it."""

    def note(ctx: ToolContext) -> None:
        """Add one."""
        ctx.state.append_result(AgentResult("note", [text("Noted.", role="assistant")]))

    model = ScriptedModel("old", tool_call("note"), "done")
    agent = Agent(name="a", system="S", tools=[note], model=model)
    state = State[Any]()
    await runner.run(agent, "old?", state=state)
    await runner.run(agent, "q?", state=state)
    assert said(model.bodies[2])[:5] == [
        *["system: S", "user: old?", "assistant: old", "user: q?"],
        "assistant: Noted.",
    ]


async def test_unanswered_calls_are_answered_before_the_new_question(
    runner: Runner,
) -> None:
    """A run that was killed leaves such a history."""
    model = ScriptedModel("one")
    call = ToolCall("c1", "look")
    state = State[Any](messages=[text("old"), ToolCallMessage([call])])
    await runner.run(Agent(name="a", system="S", tools=[look], model=model), "q?", state=state)
    roles = [m["role"] for m in model.bodies[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    model.assert_finished()


async def test_a_result_that_answers_nothing_is_not_sent(runner: Runner) -> None:
    """Providers refuse it."""
    model = ScriptedModel("one")
    orphan = ToolResultMessage(ToolCall("c1", "look"), {"data": 1})
    await runner.run(Agent(name="a", system="S", model=model), "q?", state=State(messages=[orphan]))
    assert said(model.bodies[0]) == ["system: S", "user: q?"]
    model.assert_finished()
