"""The state that a run is given: what would be lost of it, or is missing, is said at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from agentkit_py import Agent, MemoryHistory, Network, State, ToolContext, create_state, tool
from agentkit_py.errors import ConfigurationError, StateError
from agentkit_py.routing import once
from agentkit_py.server import create_app
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.world import client_of, listening, message, post, served


@dataclass
class Desk:
    """A state whose fields have defaults."""

    customer: str = "nobody"
    refunded: int = 0


@dataclass
class Case:
    """A state with a field that has none."""

    customer: str
    user_id: str = ""


class Open(BaseModel):
    """A state that takes other keys, too."""

    model_config = ConfigDict(extra="allow")

    customer: str = "nobody"


def desk(*replies: Any, **options: Any) -> Network[Any]:
    """A network of one agent."""
    tools = options.pop("tools", ())
    agent = Agent(name="a", system="S", model=ScriptedModel(*(replies or ("x",))), tools=tools)
    return Network(name="desk", agents=[agent], router=once(agent), **options)


WRONG: dict[str, Any] = {
    "a misspelt key": {"data": {"custommer": "Ada"}},
    "a value that is not wrapped": {"customer": "Ada"},
    "a value beside the data": {"data": {}, "customer": "Ada"},
}


@pytest.mark.parametrize("given", WRONG)
@pytest.mark.parametrize("option", ["state_type", "default_state"])
async def test_keys_that_a_typed_state_would_lose_are_refused(given: str, option: str) -> None:
    """The run would continue as Desk("nobody")."""
    options: dict[str, Any] = {option: Desk if option == "state_type" else State(Desk())}
    with pytest.raises(ConfigurationError, match="customer"):
        await desk(**options).run("Hi", state=WRONG[given])


async def test_a_plain_state_becomes_one_of_the_networks_type() -> None:
    """Whichever option says what that is."""
    for network in (desk(state_type=Desk), desk(default_state=State(Desk()))):
        run = await network.run("Hi", state={"data": {"customer": "Ada"}})
        assert run.state.data == Desk("Ada")


async def test_a_type_that_takes_other_keys_gets_them() -> None:
    """Pydantic's ``extra`` says so."""
    run = await desk(state_type=Open).run("Hi", state={"data": {"colour": "red"}})
    assert run.state.data.model_extra == {"colour": "red"}


async def test_a_thread_without_a_store_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is remembered."""
    await desk().run("My name is Ada.", thread_id="t1")
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "without a store" in record.getMessage()


async def test_a_thread_whose_state_the_caller_keeps_is_no_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The caller's state holds the conversation."""
    await desk().run("My name is Ada.", state=State(), thread_id="t1")
    assert [one for one in caplog.records if one.levelno == logging.WARNING] == []


def test_an_app_without_a_history_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Its threads are lost with its process."""
    create_app(networks=[desk()], auth="local")
    assert "are lost when it ends" in caplog.text
    caplog.clear()
    create_app(networks=[desk()], auth="local", history=MemoryHistory())
    assert caplog.text == ""


def test_an_app_whose_runs_could_not_begin_is_refused() -> None:
    """Each run would fail."""
    with pytest.raises(ConfigurationError, match=r"'customer'.*new_state=lambda user_id: Case"):
        create_app(networks=[desk(state_type=Case)], auth="local", history=MemoryHistory())


def test_an_app_whose_clients_give_the_required_data_is_not_refused() -> None:
    """It says which keys they may set."""
    network = desk(state_type=Case)
    assert create_app(
        networks=[network], auth="local", history=MemoryHistory(), client_state=["customer"]
    )


@pytest.mark.parametrize("kind", [Case, State])
async def test_new_state_makes_the_state_of_a_users_runs(kind: Any) -> None:
    """It gets the user's id, and gives a state or its data."""

    @tool
    def who(ctx: ToolContext[Case]) -> str:
        """Say who it is."""
        return f"{ctx.state.data.customer}, {ctx.state.data.user_id}"

    async def new_state(user_id: str) -> Any:
        data = Case(f"customer {user_id}")
        return data if kind is Case else State(data)

    network = desk(tool_call("who", {}), "bye", tools=[who], state_type=Case)
    model = network.agents[0].model
    app = create_app(
        networks=[network], auth=lambda _: "ada", history=MemoryHistory(), new_state=new_state
    )
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1", id="m1"))
        await stream.until("stream.ended")
    assert isinstance(model, ScriptedModel)
    assert "customer ada, ada" in str(model.bodies[-1])


async def test_a_client_whose_state_does_not_fit_is_refused() -> None:
    """Before a run begins."""

    @dataclass
    class Counted:
        count: int = 0

    app = create_app(
        networks=[desk(state_type=Counted)],
        auth="local",
        history=MemoryHistory(),
        client_state=["count"],
    )
    async with client_of(app) as api:
        said = message("Hi", "t1", id="m1")
        said["userMessage"]["state"] = {"count": "many"}
        answer = await api.post("/api/chat", json=said)
    assert (answer.status_code, "does not fit" in answer.text) == (400, True)


@pytest.mark.parametrize("given", [5, b"t", ["t"]])
async def test_a_thread_id_that_is_no_text_is_refused_where_the_state_is_made(given: Any) -> None:
    """JSON of a front end may hold a number; a store would fail on it in the middle of a run."""
    with pytest.raises(StateError, match=r"State thread_id must be a text, got"):
        create_state({}, thread_id=given)
    agent = Agent(name="a", system="s", model=ScriptedModel("x"))
    with pytest.raises(StateError, match=r"State thread_id must be a text, got"):
        await agent.run("Hi", state={"data": {}, "threadId": given})


async def test_a_state_may_be_a_typed_dict_of_typing_extensions() -> None:
    """Pydantic wants that one before Python 3.12; it takes no `isinstance`."""

    class Order(TypedDict):
        number: int

    agent = Agent(name="a", system="S", model=ScriptedModel("Hello."), state_type=Order)
    result = await agent.run("Hi", state=State({"number": 7}))
    assert result.text == "Hello."
