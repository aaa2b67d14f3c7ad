"""What an agent with one tool costs: time to create it, and memory as long as it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from measuring import Case, Contender, Retained, Session, Timed
from problem import SYSTEM, Replies, text_reply
from pydantic import ConfigDict, Field, create_model
from workloads import model_of

from agentkit_py import Agent, Network, Tool, tool
from agentkit_py.engine.tool import ToolLike

MODEL = model_of(Replies(text_reply()))


def _new_function() -> Callable[..., Any]:
    def track(
        parcel: Annotated[int, Field(description="The parcel's number")],
        detailed: bool = False,  # noqa: FBT001, FBT002 - an argument as models pass it
    ) -> dict[str, Any]:
        """Look up where a parcel is."""
        return {"parcel": parcel, "detailed": detailed}

    return track


FUNCTION = _new_function()
TOOL = tool(_new_function())


@dataclass(slots=True)
class _Plain:
    """What an agent comes down to: a name, a prompt, tools by name, a model."""

    name: str
    system: str
    tools: dict[str, Tool]
    model: object


def _agent(given: ToolLike) -> Agent:
    return Agent(name="support", system=SYSTEM, tools=[given], model=MODEL)


def _plain(_: object = None) -> _Plain:
    return _Plain("support", SYSTEM, {TOOL.name: TOOL}, MODEL)


def _has_one_tool(agent: Agent, _: int) -> None:
    assert list(agent.tool_map) == ["track"]
    schema = agent.tool_map["track"].parameters
    assert schema is not None
    assert schema["required"] == ["parcel"]


def _pydantic_alone(_: object) -> dict[str, Any]:
    """What pydantic itself needs for the schema of the same function."""
    parcel: Any = (int, Field(description="The parcel's number"))
    detailed: Any = (bool, False)
    config = ConfigDict(extra="forbid")
    model = create_model("track", __config__=config, parcel=parcel, detailed=detailed)
    return model.model_json_schema()


def _prebuilt(session: Session) -> list[Contender]:
    return [
        Timed("ours", lambda _: _agent(TOOL), session.loop, verify=_has_one_tool),
        Timed("a plain object", _plain, session.loop),
    ]


def _known_function(session: Session) -> list[Contender]:
    return [
        Timed("ours", lambda _: _agent(FUNCTION), session.loop, verify=_has_one_tool),
        Timed("a plain object", _plain, session.loop),
    ]


def _unknown_function(session: Session) -> list[Contender]:
    return [
        Timed("ours", _agent, session.loop, prepare=_new_function, verify=_has_one_tool),
        Timed("pydantic's schema", _pydantic_alone, session.loop),
    ]


def _memory(_: Session) -> list[Contender]:
    return [Retained("ours", lambda: _agent(TOOL)), Retained("a plain object", _plain)]


def _network_memory(_: Session) -> list[Contender]:
    """An idle network: ten thousand of them are in one process of a service, say."""

    def network() -> Network:
        agents = [
            Agent(name=f"agent {number}", system=SYSTEM, tools=[TOOL], model=MODEL)
            for number in range(5)
        ]
        return Network(name="desk", agents=agents)

    def plain() -> list[_Plain]:
        return [_plain() for _ in range(5)]

    return [Retained("ours", network), Retained("five plain objects", plain)]


CASES = [
    Case("create an agent, prebuilt tool", "µs", _prebuilt),
    Case("create an agent, bare function it knows", "µs", _known_function),
    Case("create an agent, new bare function", "µs", _unknown_function),
    Case("memory of an agent, prebuilt tool", "KiB", _memory, fixed_count=1000),
    Case("memory of a network with five agents", "KiB", _network_memory, fixed_count=1000),
]
