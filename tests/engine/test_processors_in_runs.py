"""Processors inside runs: in which order, what stays protected, and what the report says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    HistoryConfig,
    HistoryProcessor,
    Lifecycle,
    MemoryHistory,
    Message,
    Network,
    State,
    TextMessage,
    TokenLimiter,
    ToolCallFilter,
    ToolContext,
)
from agentkit_py._engine.prompt import join_history
from agentkit_py.errors import NonRetriableError, ProcessorError
from agentkit_py.lifecycle import Start, StartContext
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    ApproximateTokenizer,
    ContextReport,
    MessageWindow,
    ProcessorContext,
    RecentToolCalls,
    Redact,
    TruncateToolResults,
)
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .runner import Runner


def look(what: str = "") -> str:
    """Look something up."""
    return f"found {what}"


def fly(what: str = "") -> str:
    """Fly."""
    return f"flown {what}"


def once(name: str) -> Callable[[Any], str | None]:
    """A router that lets one agent take one turn."""
    return lambda context: None if context.call_count else name


def note(name: str) -> Callable[[Sequence[Message]], Sequence[Message]]:
    """A processor that adds its name at the end of the first text."""

    def process(messages: Sequence[Message]) -> Sequence[Message]:
        first = messages[0]
        assert isinstance(first, TextMessage)
        return [replace(first, content=f"{first.text}>{name}"), *messages[1:]]

    process.__name__ = name
    return process


SEED = [TextMessage("user", "seed")]


# The order.


async def test_levels_follow_each_other_from_history_to_network_to_agent(runner: Runner) -> None:
    """Each gets what the one before left; `on_start` comes after all of them."""
    seen: list[str] = runner.again([])

    def on_start(context: StartContext) -> None:
        seen.extend(m.text for m in context.history if isinstance(m, TextMessage))

    model = ScriptedModel("hi")
    agent = Agent(
        name="a", system="S", model=model, processors=[note("agent1"), note("agent2")],
        history=HistoryConfig(processors=[note("agents-history")]),
        lifecycle=Lifecycle(on_start=on_start),
    )  # fmt: skip
    network = Network(
        name="n", agents=[agent], router=once("a"), processors=[note("network")],
        history=HistoryConfig(processors=[note("history")]),
    )  # fmt: skip
    run = await runner.run(network, "q?", state=State(messages=SEED))
    assert seen == ["seed>history>agents-history>network>agent1>agent2"]
    assert model.bodies[0]["messages"][1]["content"] == seen[0]
    (report,) = run.context
    assert [(e.level, e.name) for e in report.entries] == [
        ("history", "history"), ("history", "agents-history"), ("network", "network"),
        ("agent", "agent1"), ("agent", "agent2"),
    ]  # fmt: skip


async def test_a_processor_asks_once_for_each_model_call_however_often_it_is_replayed(
    runner: Runner,
) -> None:
    """A function given to `once` is a step of the run: a replay remembers its value."""
    asked: list[str] = []  # not emptied by replays

    async def rates() -> str:
        asked.append("rates")
        return f"rates {len(asked)}"

    async def process(messages: Sequence[Message], context: ProcessorContext) -> Sequence[Message]:
        return [*messages, TextMessage("user", str(await context.once("rates", rates)))]

    model = ScriptedModel(tool_call("look", {"what": "x"}), "hi")
    agent = Agent(name="a", system="S", model=model, tools=[look], processors=[process], max_iter=2)
    await runner.run(agent, "q?", state=State(messages=SEED))
    assert len(asked) == 2
    model.assert_saw("rates 2")


async def test_a_processor_outside_of_runs_asks_at_once() -> None:
    """There are no steps, so what is asked is just called."""

    async def rates() -> str:
        return "rates"

    assert await ProcessorContext().once("rates", rates) == "rates"


async def test_an_agent_by_itself_has_its_history_and_its_own_processors(runner: Runner) -> None:
    """The network level is missing."""
    model = ScriptedModel("hi")
    agent = Agent(
        name="a", system="S", model=model, processors=[note("agent")],
        history=HistoryConfig(processors=[note("history")]),
    )  # fmt: skip
    await runner.run(agent, "q?", state=State(messages=SEED))
    model.assert_saw("seed>history>agent")


async def test_one_history_for_network_and_agent_is_applied_once(runner: Runner) -> None:
    """Its processors are no different for being named twice."""
    history = HistoryConfig(processors=[note("history")])
    model = ScriptedModel("hi")
    agent = Agent(name="a", system="S", model=model, history=history)
    network = Network(name="n", agents=[agent], router=once("a"), history=history)
    await runner.run(network, "q?", state=State(messages=SEED))
    assert model.bodies[0]["messages"][1]["content"] == "seed>history"


async def test_processors_run_again_before_each_inference(runner: Runner) -> None:
    """Each pass starts from the full history, not from the last pass's result."""
    lengths: list[int] = runner.again([])

    def count(messages: Sequence[Message]) -> Sequence[Message]:
        lengths.append(len(messages))
        return messages[-1:]

    model = ScriptedModel(tool_call("look"), tool_call("look"), "done")
    agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=3, processors=[count])
    await runner.run(agent, "q?", state=State(messages=SEED))
    assert lengths == [1, 3, 5]
    model.assert_finished()


async def test_each_agent_sees_what_its_own_processors_leave(runner: Runner) -> None:
    """The state keeps everything, and the next agent sees it."""
    model = ScriptedModel(tool_call("look", {"what": "it"}), "blind", "seeing")
    agents = [
        Agent(name="caller", system="S", tools=[look], model=model, max_iter=1),
        Agent(name="blind", system="S", model=model, processors=[ToolCallFilter()]),
        Agent(name="seeing", system="S", model=model),
    ]
    names = ["caller", "blind", "seeing", None]
    network = Network(name="n", agents=agents, router=lambda context: names[context.call_count])
    run = await runner.run(network, "q?")
    model.assert_not_saw("found it", request=1)
    model.assert_saw("found it", request=2)
    assert [m.type for m in run.state.format_history()] == [
        "text", "tool_call", "tool_result", "text", "text",
    ]  # fmt: skip
    model.assert_finished()


async def test_a_processors_context_describes_the_inference_it_prepares(runner: Runner) -> None:
    """Agent, network, thread, model, prompt, tokenizer, steps, and what is protected."""
    seen: list[tuple[ProcessorContext, Sequence[Message]]] = runner.again([])

    async def remember(messages: Sequence[Message], context: ProcessorContext) -> Sequence[Message]:
        seen.append((context, messages))
        return messages

    model = ScriptedModel(tool_call("look"), "done", context_window=1000)
    agent = Agent(
        name="a", system="S", tools=[look], model=model, max_iter=2, processors=[remember],
        token_counter=len,
    )  # fmt: skip
    network = Network(name="n", agents=[agent], router=once("a"))
    await runner.run(network, "q?", state=State(messages=SEED, thread_id="t1"))
    context, messages = seen[1]
    assert (context.agent, context.network, context.thread_id) == ("a", "n", "t1")
    assert (context.model, context.context_window) == ("gpt-4o", 1000)
    assert [m.role for m in context.prompt] == ["system", "user"]
    assert [context.is_protected(m) for m in messages] == [False, True, True]
    assert context.tokenizer is not None
    assert context.tokenizer.count("four") == 4
    assert context.steps is not None
    assert seen[0][0].network == "n"
    await runner.run(agent, "q?", state=State(messages=SEED), model=ScriptedModel("hi"))
    assert seen[2][0].network is None


# Protection.


def nothing(messages: Sequence[Message]) -> Sequence[Message]:
    """Drop everything."""
    return []


def reverse(messages: Sequence[Message]) -> Sequence[Message]:
    """Turn everything round."""
    return messages[::-1]


def twice(messages: Sequence[Message]) -> Sequence[Message]:
    """Repeat everything."""
    return [*messages, *messages]


def no_results(messages: Sequence[Message]) -> Sequence[Message]:
    """Drop results only."""
    return [m for m in messages if m.type != "tool_result"]


CRUEL: list[Any] = [nothing, reverse, twice, no_results, TokenLimiter(1), ToolCallFilter()]


@pytest.mark.parametrize("cruel", CRUEL, ids=lambda p: getattr(p, "__name__", str(p)))
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
async def test_an_agents_own_current_calls_stay_whatever_processors_do(
    runner: Runner, cruel: Any, provider: Any
) -> None:
    """The model asked for them and waits for their results."""
    model = ScriptedModel(
        tool_calls(("look", {"what": "one"}), ("look", {"what": "two"})),
        tool_call("look", {"what": "three"}),
        "done",
        provider=provider,
    )
    agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=3, processors=[cruel])
    await runner.run(agent, "q?", state=State(messages=SEED))
    model.assert_saw("q?", "found one", "found two", "found three")
    model.assert_finished()


async def test_the_report_says_how_many_messages_were_put_back(runner: Runner) -> None:
    """A processor that fights the engine should be seen."""
    model = ScriptedModel(tool_call("look"), "done")
    agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=2, processors=[nothing])
    result = await runner.run(agent, "q?", state=State(messages=SEED))
    assert result.context is not None
    (entry,) = result.context.entries
    assert (entry.kept_back, entry.messages_before, entry.messages_after) == (2, 3, 2)
    assert result.context.to_dict()["processors"][0]["keptBack"] == 2


class DropAll(HistoryProcessor):
    may_drop_protected = True

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return no messages."""
        return []


async def test_a_processor_may_ask_to_drop_protected_calls_too(runner: Runner) -> None:
    """No call is put back then."""
    model = ScriptedModel(tool_call("look"), "done")
    agent = Agent(
        name="a", system="S", tools=[look], model=model, max_iter=2, processors=[DropAll()]
    )
    await runner.run(agent, "q?")
    assert [m["role"] for m in model.bodies[1]["messages"]] == ["system", "user"]
    model.assert_finished()


async def test_another_agents_calls_of_this_run_are_not_protected(runner: Runner) -> None:
    """Filters exist to remove them."""
    model = ScriptedModel(tool_call("look"), tool_call("fly"), "done")
    agents = [
        Agent(name="a", system="S", tools=[look], model=model, max_iter=1),
        Agent(
            name="b", system="S", tools=[fly], model=model, max_iter=2,
            processors=[ToolCallFilter()],
        ),
    ]  # fmt: skip
    names = ["a", "b", None]
    network = Network(name="n", agents=agents, router=lambda context: names[context.call_count])
    await runner.run(network, "q?")
    model.assert_not_saw("found", request=2)
    model.assert_saw("flown", request=2)
    model.assert_finished()


async def test_an_agents_calls_of_an_earlier_run_are_not_protected(runner: Runner) -> None:
    """They are past."""
    model = ScriptedModel(tool_call("look", {"what": "old"}), tool_call("look"), "done")
    agent = Agent(name="a", system="S", tools=[look], model=model, processors=[nothing], max_iter=1)
    state = State[Any]()
    await runner.run(agent, "q?", state=state)
    await runner.run(agent, "again?", state=state, max_iter=2)
    model.assert_not_saw("found old", request=2)
    model.assert_saw("again?", "found ", request=2)
    model.assert_finished()


# The report.


def entries_add_up(report: ContextReport) -> None:
    """Assert that each entry of the report starts with the messages that the one before left."""
    before = report.history
    for entry in report.entries:
        if entry.before is not before and list(entry.before) != list(before):
            joined, _ = join_history(report.prompt, before)
            assert list(entry.before) == list(joined)
        before = entry.after
        assert entry.messages_before - len(entry.removed) + len(entry.added) == entry.messages_after


async def test_the_reports_entries_follow_each_other_without_a_gap(runner: Runner) -> None:
    """Messages and tokens, from the full history to what was sent."""
    model = ScriptedModel(tool_call("look", {"what": "x" * 50}), "done")
    agent = Agent(
        name="a", system="S", tools=[look], model=model, max_iter=2,
        processors=[ToolCallFilter(exclude=["fly"], persist_results=True), TokenLimiter(30)],
        token_counter=ApproximateTokenizer(),
    )  # fmt: skip
    call = ToolCall("old", "fly")
    seed: list[Message] = [
        TextMessage("user", "long ago " * 30),
        ToolCallMessage([call]),
        ToolResultMessage(call, {"data": "gone"}),
        TextMessage("assistant", "newer"),
    ]
    state = State[Any](messages=seed)
    await runner.run(agent, "q?", state=state)
    for result in state.results:
        report = result.context
        assert report is not None
        entries_add_up(report)
        assert [e.name for e in report.entries] == ["ToolCallFilter", "TokenLimiter"]
        filtered, limited = report.entries
        assert filtered.tool_call_ids == ["old"]
        assert filtered.tokens_before == report.tokens_before
        assert filtered.tokens_after == limited.tokens_before
        sent, _ = join_history(report.prompt, limited.after)
        assert tuple(sent) == tuple(report.sent)
        assert report.tokens_after == report.prompt_tokens + limited.tokens_after
        assert limited.reason == "limit of 30 tokens" + (
            "; exceeded, since 44 tokens of protected messages stay"
            if limited.tokens_after > 30
            else ""
        )
    figures = [r.context.to_dict() for r in state.results if r.context is not None]
    assert figures[0]["historyMessages"] == 4
    assert figures[1]["sentTokens"] < figures[1]["historyTokens"]


async def test_the_report_names_the_messages_that_the_provider_got(runner: Runner) -> None:
    """Message for message; text and calls of one reply are one message of chat completions."""
    model = ScriptedModel(tool_calls(("look", {}), text="Let me see."), "done")
    agent = Agent(
        name="a", system="S", tools=[look], model=model, max_iter=2,
        processors=[note("noted")],
    )  # fmt: skip
    result = await runner.run(agent, "q?", state=State(messages=SEED))
    assert result.context is not None
    assert [m.role for m in result.context.sent] == [
        "system", "user", "user", "assistant", "assistant", "tool_result",
    ]  # fmt: skip
    got = model.bodies[1]["messages"]
    assert [m["role"] for m in got] == ["system", "user", "user", "assistant", "tool"]
    assert got[3]["content"] == "Let me see."
    assert got[3]["tool_calls"][0]["function"]["name"] == "look"
    tokens = count_messages(result.context.sent, result.context.tokenizer)
    assert result.context.tokens_after == tokens


async def test_without_processors_the_report_has_no_entries(runner: Runner) -> None:
    """The history was sent unchanged."""
    state = State[Any](messages=SEED)
    result = await runner.run(
        Agent(name="a", system="S", model=ScriptedModel("hi")), "q?", state=state
    )
    assert result.context is not None
    assert (result.context.entries, result.context.history) == ((), tuple(SEED))


async def test_repairs_are_in_the_report_under_validity(runner: Runner) -> None:
    """An entry says what was repaired and why."""
    model = ScriptedModel("hi")
    seed = [ToolResultMessage(ToolCall("c", "look"), {"data": 1}), *SEED]
    result = await runner.run(
        Agent(name="a", system="S", model=model), "q?", state=State(messages=seed)
    )
    assert result.context is not None
    (entry,) = result.context.entries
    assert (entry.level, entry.name) == ("validity", "validity")
    assert "dropped_orphan" in entry.reason
    assert entry.removed == [seed[0]]


async def test_repairs_before_a_hook_that_changes_nothing_are_not_the_hooks(runner: Runner) -> None:
    """The report blames nobody for what validity did."""
    model = ScriptedModel("hi")
    seed = [ToolResultMessage(ToolCall("c", "look"), {"data": 1}), *SEED]
    agent = Agent(
        name="a", system="S", model=model, lifecycle=Lifecycle(on_start=lambda context: None)
    )
    result = await runner.run(agent, "q?", state=State(messages=seed))
    assert result.context is not None
    assert [e.level for e in result.context.entries] == ["validity"]
    entries_add_up(result.context)


async def test_changes_of_on_start_are_in_the_report_after_the_repairs(runner: Runner) -> None:
    """Each entry begins where the one before ended."""

    def drop_first(context: StartContext) -> Start:
        return Start(context.prompt, context.history[1:])

    model = ScriptedModel("hi")
    seed = [ToolCallMessage([ToolCall("c", "look")]), *SEED]
    agent = Agent(name="a", system="S", model=model, lifecycle=Lifecycle(on_start=drop_first))
    result = await runner.run(agent, "q?", state=State(messages=seed))
    assert result.context is not None
    assert [e.level for e in result.context.entries] == ["validity", "on_start", "validity"]
    entries_add_up(result.context)
    model.assert_finished()


# Failures.


async def test_a_processor_that_fails_fails_the_run_and_is_named(runner: Runner) -> None:
    """The error has the level, and the processor's error as its cause."""

    def broken(messages: Sequence[Message]) -> Sequence[Message]:
        raise KeyError("oops")

    agent = Agent(name="a", system="S", model=ScriptedModel(), processors=[broken])
    with pytest.raises(ProcessorError, match=r"'broken' \(agent level\): it failed") as caught:
        await runner.run(agent, "q?")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("returned", [None, "text", 5, [1], {"a": 1}])
async def test_a_processor_that_returns_nonsense_fails_the_run(
    runner: Runner, returned: Any
) -> None:
    """It names processor and level."""

    def broken(messages: Sequence[Message]) -> Any:
        return returned

    network = Network(
        name="n", agents=[Agent(name="a", system="S", model=ScriptedModel())], router=once("a"),
        processors=[broken],
    )  # fmt: skip
    with pytest.raises(ProcessorError) as caught:
        await runner.run(network, "q?")
    assert (caught.value.processor, caught.value.level) == ("broken", "network")


async def test_a_processors_control_error_is_its_own(runner: Runner) -> None:
    """`NonRetriableError` in a processor ends the run, like in a tool."""

    def stop(messages: Sequence[Message]) -> Sequence[Message]:
        raise NonRetriableError("stop")

    with pytest.raises(NonRetriableError):
        await runner.run(
            Agent(name="a", system="S", model=ScriptedModel(), processors=[stop]), "q?"
        )


async def test_a_tool_sees_the_whole_state_whatever_the_model_saw(runner: Runner) -> None:
    """Canonical history is never rewritten."""
    counts: list[int] = []

    def count(ctx: ToolContext) -> None:
        """Count."""
        counts.append(len(ctx.state.format_history()))

    model = ScriptedModel(tool_call("count"))
    agent = Agent(
        name="a", system="S", tools=[count], model=model, processors=[nothing], max_iter=1
    )
    await runner.run(agent, "q?", state=State(messages=[*SEED, *SEED]))
    assert counts == [3]


def balances(account: str) -> str:
    """Return the balance of an account."""
    return f"balance of {account}: {len(account) * 100}, card 4111 1111 1111 1111"


def upper(messages: Sequence[Message]) -> Sequence[Message]:
    """A processor of one's own that rewrites all results."""
    return [
        replace(m, content=f"{m.content} REWRITTEN") if isinstance(m, ToolResultMessage) else m
        for m in messages
    ]


@pytest.mark.parametrize(
    "rewrite", [Redact(["card"]), TruncateToolResults(60), upper], ids=["redact", "cut", "function"]
)
@pytest.mark.parametrize(
    "limit",
    [None, TokenLimiter(250), MessageWindow(2), RecentToolCalls(0), ToolCallFilter()],
    ids=["none", "tokens", "window", "calls", "filter"],
)
@pytest.mark.parametrize("earlier", [1, 3])
async def test_a_call_keeps_its_result_where_the_provider_repeats_its_id(
    runner: Runner, rewrite: Any, limit: Any, earlier: int
) -> None:
    """Each run's call has the id of the last run's, and a processor rewrites all results."""
    store = MemoryHistory(processors=[rewrite])
    model = ScriptedModel()
    for account in (*["anna"] * earlier, "bob"):
        asked = tool_call("balances", {"account": account}, id="call_1")
        model = ScriptedModel(asked, "word " * 300)
        clerk = Agent(name="clerk", system="S", tools=[balances], model=model)
        network = Network(
            name="n",
            agents=[clerk],
            router=once("clerk"),
            history=store,
            processors=[] if limit is None else [limit],
        )
        await runner.run(network, f"balance of {account}?", thread_id="t")
    *_, asked, answer = model.bodies[1]["messages"]
    assert "bob" in str(asked["tool_calls"])
    assert "balance of bob" in answer["content"]
