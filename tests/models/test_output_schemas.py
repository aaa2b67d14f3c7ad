"""Any output type: each provider takes its schema, and what it writes comes back as it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from os import environ
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from agentkit_py import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.output import NativeOutput, ToolOutput
from agentkit_py.testing import ScriptedModel, tool_call

PROVIDERS: Any = ("openai", "openai_responses", "anthropic", "gemini", "grok")
MODELS = int(environ.get("OUTPUT_MODELS", "25"))


class Colour(Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    """A type that refers to itself."""

    name: str
    children: list[Node] = []


class Kind(NamedTuple):
    """A type, and its values."""

    type: Any
    values: st.SearchStrategy[Any]


WORDS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
NODES = st.builds(Node, name=WORDS, children=st.lists(st.builds(Node, name=WORDS), max_size=2))
PLAIN = [
    Kind(str, WORDS),
    Kind(Annotated[str, Field(min_length=1, max_length=8)], WORDS.filter(bool)),
    Kind(Annotated[str, Field(pattern="^[a-z]+$")], st.from_regex("[a-z]{1,5}", fullmatch=True)),
    Kind(int, st.integers(-(2**53), 2**53)),
    Kind(Annotated[int, Field(ge=1, lt=10)], st.integers(1, 9)),
    Kind(Annotated[int, Field(multiple_of=5)], st.integers(-9, 9).map(lambda n: n * 5)),
    Kind(float, FLOATS),
    Kind(bool, st.booleans()),
    Kind(date, st.dates()),
    Kind(datetime, st.datetimes()),
    Kind(timedelta, st.timedeltas(timedelta(0), timedelta(days=9))),
    Kind(Decimal, st.integers(0, 999).map(lambda n: Decimal(n) / 100)),
    Kind(Colour, st.sampled_from(Colour)),
    Kind(Literal["a", "b"], st.sampled_from(["a", "b"])),
    Kind(Literal[1, 2], st.sampled_from([1, 2])),
    Kind(Literal["on", 1, None], st.sampled_from(["on", 1, None])),
    Kind(Node, NODES),
    Kind(Any, st.none() | st.booleans() | WORDS),
]
NAMES = st.from_regex("[a-z][a-z0-9]{0,6}", fullmatch=True).map(lambda name: f"f{name}")


def _around(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Types made of others."""
    return st.one_of(
        inner.map(lambda k: Kind(list[k.type], st.lists(k.values, max_size=2))),
        inner.map(lambda k: Kind(dict[str, k.type], st.dictionaries(WORDS, k.values, max_size=2))),
        inner.map(lambda k: Kind(Optional[k.type], st.none() | k.values)),  # noqa: UP045 - made here
        st.tuples(inner, inner).map(
            lambda two: Kind(tuple[two[0].type, two[1].type], st.tuples(*(k.values for k in two)))
        ),
        st.sampled_from([(str, WORDS), (bool, st.booleans())]).flatmap(
            lambda one: models(inner).map(
                lambda k: Kind(Union[k.type, one[0]], k.values | one[1])  # noqa: UP007 - made here
            )
        ),
        models(inner),
    )


def models(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    """Pydantic models with fields of these types, some of them optional or described."""
    field = st.tuples(kinds, st.booleans(), st.booleans())
    return st.dictionaries(NAMES, field, max_size=4).map(_model)


def _model(fields: dict[str, tuple[Kind, bool, bool]]) -> Kind:
    made: dict[str, Any] = {}
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name, (kind, optional, described) in fields.items():
        about: Any = {"description": "It is so."} if described else {}
        made[name] = (
            (kind.type | None if kind.type is not Any else Any, Field(default=None, **about))
            if optional
            else (kind.type, Field(**about))
        )
        values[name] = st.none() | kind.values if optional else kind.values
    model: Any = create_model("Made", **made)
    return Kind(model, st.fixed_dictionaries(values).map(lambda given: model(**given)))


TYPES = models(st.recursive(st.sampled_from(PLAIN), _around, max_leaves=5))


@settings(
    max_examples=MODELS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(kind=TYPES, data=st.data())
def test_every_output_type_is_taken_and_comes_back_as_it_was(kind: Kind, data: Any) -> None:
    """The strict stand-ins refuse no schema; the best way of each, and a tool."""
    value = data.draw(kind.values)
    way = data.draw(st.sampled_from([None, NativeOutput, ToolOutput]))
    asyncio.run(_round_trips(kind.type, value, way))


async def _round_trips(model: Any, value: Any, way: Any) -> None:
    make: Callable[[Any], Any] | None = way
    for provider in PROVIDERS:
        script = ScriptedModel(provider=provider)
        wanted: Any = model if make is None else make(model)
        agent: Agent[Any, Any] = Agent(
            name="maker", system="Make it.", model=script, output_type=wanted, output_retries=0
        )
        try:
            await _round_trip(agent, script, value)
        except ConfigurationError as error:  # it would not choose this way by itself
            recursive = provider in ("gemini", "grok") and "refers to itself" in str(error)
            if not recursive and (way is not NativeOutput or "by its schema" not in str(error)):
                raise


async def _round_trip(agent: Agent[Any, Any], script: ScriptedModel, value: BaseModel) -> None:
    plan = agent.resolve().plan_output(script)
    assert plan is not None
    (member,) = plan.spec.members
    plain = value.model_dump(mode="json")
    answer = {"response": plain} if member.wrapped else plain
    script.reply(tool_call("final_result", answer) if plan.way == "tool" else json.dumps(answer))
    ended, model = await agent.run("Now"), type(value)
    assert ended.output == model.model_validate_json(value.model_dump_json())
    script.assert_finished()
