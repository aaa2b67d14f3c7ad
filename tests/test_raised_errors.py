"""What users' own code raises: logged once, on the result and the event, and shown."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from agentkit_py import Agent, AgentResult, Network, State, Tool, tool
from agentkit_py.errors import ModelRetry, ToolError
from agentkit_py.events import ToolFinished
from agentkit_py.events.for_users import reference_of, result_for_user
from agentkit_py.guardrails import Guardrail
from agentkit_py.processors import Redactor
from agentkit_py.routing import once
from agentkit_py.testing import EventLog, ScriptedModel, tool_call

from .engine.runner import MODES, Runner


@pytest.fixture(params=MODES)
def runner(request: pytest.FixtureRequest) -> Runner:
    """Runs agents directly, and as Inngest functions."""
    return Runner(request.param)


def count(item: str) -> str:
    """Say how many are left."""
    rows: list[str] = []
    return rows[0]


stock = tool(name="stock")(count)


def clerk(*tools: Tool, arguments: Any = None, name: str = "stock", **options: Any) -> Agent:
    """An agent that calls one tool and apologises."""
    given = {"item": "hat"} if arguments is None else arguments
    model = ScriptedModel(tool_call(name, given), "Sorry, something went wrong.")
    return Agent(name="clerk", system="S", tools=tools or (stock,), model=model, **options)


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The log's records of tools that failed, those with a reference."""
    return [one for one in caplog.records if "(reference " in one.getMessage()]


def reference_in(record: logging.LogRecord) -> str:
    """The reference that a record has."""
    return record.getMessage().split("(reference ")[1].rstrip(")")


async def test_an_error_of_a_tool_is_logged_once_with_its_traceback(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in a durable run, which comes to the call in each replay."""
    await runner.run(clerk(), "How many?")
    (record,) = failures(caplog)
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], IndexError)


async def test_a_tool_with_steps_that_fails_is_logged_once(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """Its code runs again in each replay."""

    @tool(steps=True)
    async def stock(item: str) -> str:
        """Say how many are left."""
        raise LookupError(item)

    await runner.run(clerk(stock), "How many?")
    assert len(failures(caplog)) == 1


async def test_the_result_and_the_event_hold_the_exception() -> None:
    """With its traceback, for a debugger."""
    log = EventLog()
    result = await clerk().run("How many?", observer=log)
    (error,) = result.errors
    assert isinstance(error, IndexError)
    assert error.__traceback__ is not None
    assert [event.error for event in log.of(ToolFinished)] == [error]
    assert [call.tool.name for call in result.failed_calls] == ["stock"]


async def test_print_of_a_result_shows_the_error_under_the_reference_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The apology of the model is not all that a developer sees."""
    result = await clerk().run("How many?")
    (record,) = failures(caplog)
    assert str(result) == (
        "clerk: Sorry, something went wrong.\n"
        "  stock raised IndexError: list index out of range "
        f"(reference {reference_in(record)} in the log)"
    )


async def test_print_of_a_network_run_shows_the_error_once() -> None:
    """The call's line says it."""
    run = await Network(name="shop", agents=[clerk()], router=once("clerk")).run("How many?")
    assert str(run).count("stock raised IndexError") == 1
    assert [type(error) for error in run.errors] == [IndexError]


async def test_a_typed_result_shows_the_error_too() -> None:
    """It prints its output, and what tools raised on the way."""
    model = ScriptedModel(tool_call("stock", {"item": "hat"}), '{"response": 3}')
    agent = Agent(name="clerk", system="S", tools=[stock], model=model, output_type=int)
    result = await agent.run("How many?")
    assert result.output == 3
    assert [type(error) for error in result.errors] == [IndexError]
    assert "stock raised IndexError" in str(result)


@pytest.mark.parametrize("meant", [ToolError("We are closed."), ModelRetry("Say which hat.")])
async def test_errors_meant_for_the_model_are_noted_without_a_traceback(
    meant: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no failure of the program."""

    @tool
    def stock(item: str) -> str:
        """Say how many are left."""
        raise meant

    caplog.set_level(logging.INFO)
    result = await clerk(stock).run("How many?")
    (record,) = failures(caplog)
    assert (record.levelno, record.exc_info) == (logging.INFO, None)
    assert result.errors == ()


async def test_the_reference_of_a_masked_result_is_that_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The users' reference is computed from what is stored, which is masked."""

    @tool
    def stock(item: str) -> str:
        """Say how many are left."""
        raise LookupError("no ann@example.com here")

    state: State[Any] = State()
    agent = clerk(stock, tool_output_guardrails=[Redactor(["email"])])
    await agent.run("How many?", state=state)
    (record,) = failures(caplog)
    content = state.results[0].tool_calls[0].content
    assert "ann@example.com" not in str(content)
    assert reference_in(record) == reference_of(content)
    assert reference_of(content) in str(result_for_user(content))


def refuse(context: Any, arguments: Any) -> str:
    """A guardrail that refuses every call."""
    return "not today"


REFUSED: dict[str, Agent] = {
    "arguments that do not fit": clerk(arguments={"thing": 1}),
    "a tool that is unknown": clerk(name="stocks"),
    "a guardrail": clerk(tool_input_guardrails=[Guardrail(refuse)]),
    "a precondition": clerk(tool(name="stock", check=lambda ctx: "It is Sunday.")(count)),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_call_gives_users_no_reference(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was raised, so no log would have it."""
    state: State[Any] = State()
    result = await REFUSED[case].run("How many?", state=state)
    content = state.results[0].tool_calls[0].content
    assert content["error"]  # type: ignore[index,call-overload]
    assert "reference" not in str(result_for_user(content))
    assert (failures(caplog), result.errors) == ([], ())


def broken(context: Any) -> Any:
    """A rule of a tool that raises."""
    raise ZeroDivisionError("the rule is broken")


@pytest.mark.parametrize("rule", ["check", "needs_approval"])
async def test_a_rule_of_a_tool_that_raises_is_logged_and_kept(
    rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The call is not made, and the developer learns why."""
    options: dict[str, Any] = {rule: broken}
    result = await clerk(tool(name="stock", **options)(count)).run("How many?")
    (record,) = failures(caplog)
    assert record.exc_info is not None
    assert [type(error) for error in result.errors] == [ZeroDivisionError]


async def test_an_agent_as_a_tool_that_fails_is_logged_with_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its caller reads that it failed; the log says where."""

    def system(_: Any) -> str:
        raise KeyError("user")

    inner = Agent(name="inner", system=system, model=ScriptedModel("x"))
    outer = clerk(inner.as_tool(), name="inner", arguments={"task": "count"})
    result = await outer.run("How many?")
    assert [type(error) for error in result.errors] == [KeyError]
    assert "KeyError" in caplog.text


async def test_a_call_that_takes_too_long_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """There is no traceback that would say more."""

    @tool(timeout=0.001)
    async def stock(item: str) -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return item

    result = await clerk(stock).run("How many?")
    (record,) = failures(caplog)
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert "took more than" in record.getMessage()
    assert [type(error).__mro__[1] for error in result.errors] == [TimeoutError]


async def test_attempts_that_are_tried_again_are_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The last one is the error, if it fails, too."""

    @tool(retries=1, backoff=0)
    def stock(item: str) -> str:
        """Fail twice."""
        raise LookupError(item)

    await clerk(stock).run("How many?")
    assert [one.levelno for one in failures(caplog)] == [logging.WARNING, logging.ERROR]


async def test_a_later_run_does_not_hold_the_exceptions_of_an_earlier_one() -> None:
    """A traceback holds all that the run held."""
    state: State[Any] = State()
    await clerk().run("How many?", state=state)
    again = await Agent(name="clerk", system="S", model=ScriptedModel("x")).run("?", state=state)
    calls = [call for entry in state.results for call in entry.tool_calls]
    assert isinstance(again, AgentResult)
    assert [call.error for call in calls] == [None]
