"""Arguments that are nearly right are repaired where the tool's schema leaves one reading."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model

from agentkit_py import Agent, AgentResult, State, Tool, create_tool, tool
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


class Address(BaseModel):
    """An address."""

    city: str
    zip: str | None = None
    floor: int = 0


async def called(runner: Runner, made: Tool, arguments: Any, **options: Any) -> AgentResult:
    """Let a model call one tool, and return the result that has the call."""
    model = ScriptedModel(tool_call(made.name, arguments), "done")
    agent = Agent(name="a", system="S", tools=[made], model=model, **options)
    state = State[Any]()
    await runner.run(agent, "q?", state=state)
    return state.results[0]


def keeper(schema: Any) -> Tool:
    """A tool of a JSON Schema that gives back what it got."""

    def back(given: Any) -> Any:
        return given

    return create_tool(name="keep", parameters=schema, handler=back)


def repairs_of(result: AgentResult) -> tuple[str, ...]:
    """What the report says was repaired."""
    assert result.context is not None
    return result.context.repaired


@tool
def keep(
    address: Address | None = None,
    tags: list[str] = [],  # noqa: B006 - never changed
    numbers: list[int] = [],  # noqa: B006 - never changed
    count: int | None = None,
    flag: bool = False,
    either: str | list[str] = "",
    several: int | list[int] | None = None,
) -> dict[str, Any]:
    """Keep what was given."""
    home = None if address is None else address.model_dump()
    given = {"address": home, "tags": tags, "numbers": numbers, "count": count, "flag": flag}
    given |= {"either": either, "several": several}
    return {name: value for name, value in given.items() if value not in (None, [], "", False)}


ADDRESS = {"city": "Graz", "zip": "8010", "floor": 0}


@pytest.mark.parametrize(
    ("given", "read", "repairs"),
    [
        ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}, ["tags: text read as a list"]),
        (
            {"address": '{"city": "Graz", "zip": "8010"}'},
            {"address": ADDRESS},
            ["address: text read as an object"],
        ),
        ({"count": "5"}, {"count": 5}, ["count: text read as a number"]),
        ({"flag": "true"}, {"flag": True}, ["flag: text read as true or false"]),
        ({"tags": "a"}, {"tags": ["a"]}, ["tags: single value put into a list"]),
        ({"numbers": 5}, {"numbers": [5]}, ["numbers: single value put into a list"]),
        ({"numbers": ["1", 2]}, {"numbers": [1, 2]}, ["numbers[0]: text read as a number"]),
        (
            {"address": '{"city": "Graz", "zip": "8010", "floor": null}'},
            {"address": ADDRESS},
            ["address: text read as an object", "address.floor: null left out"],
        ),
        ({"either": '["a"]'}, {"either": '["a"]'}, []),
        ({"tags": ["a"], "count": 5}, {"tags": ["a"], "count": 5}, []),
    ],
)
async def test_one_reading_is_taken_and_reported(
    runner: Runner, given: Any, read: Any, repairs: list[str]
) -> None:
    """What fits is left alone, also a text that looks like a list."""
    result = await called(runner, keep, given)

    assert result.tool_calls[0].content == {"data": read}
    assert repairs_of(result) == tuple([f"keep({repair})" for repair in repairs])


@pytest.mark.parametrize(
    "given",
    [
        {"tags": "a, b"},
        {"tags": '["a", '},
        {"tags": "null"},
        {"tags": ""},
        {"numbers": "[1, [2]]"},
        {"address": '{"city": "Graz", "city": "Wien"}'},
        {"address": {"town": "Graz"}},
        {"address": "Graz"},
        {"count": "five"},
        {"count": "1e999"},
        {"unknown": "1", "tags": "a"},
    ],
)
async def test_an_argument_with_no_reading_or_several_is_refused(
    runner: Runner, given: Any
) -> None:
    """A guess would be done, and nobody would know of it."""
    result = await called(runner, keep, given)

    content: Any = result.tool_calls[0].content
    assert content["error"]["name"] == "InvalidArgumentsError"
    assert repairs_of(result) == ()


async def test_a_union_with_two_readings_is_not_repaired(runner: Runner) -> None:
    """The text may be a number, or a list of one."""
    schema: Any = {
        "type": "object",
        "properties": {"n": {"anyOf": [{"type": "integer"}, {"items": {"type": "integer"}}]}},
    }
    schema["properties"]["n"]["anyOf"][1]["type"] = "array"
    result = await called(runner, keeper(schema), {"n": "5"})

    assert "InvalidArgumentsError" in str(result.tool_calls[0].content)


@pytest.mark.parametrize("where", ["agent", "tool"])
async def test_repairs_are_turned_off_for_an_agent_or_a_tool(runner: Runner, where: str) -> None:
    """Some want the model to read that it wrote nonsense."""

    @tool(repair_arguments=where == "agent")
    def find(tags: list[str]) -> list[str]:
        """Find."""
        return tags

    result = await called(runner, find, {"tags": '["a"]'}, repair_arguments=where == "tool")

    assert "InvalidArgumentsError" in str(result.tool_calls[0].content)


async def test_a_validator_of_the_tools_own_comes_before_a_repair(runner: Runner) -> None:
    """The developer knows how to read the text."""

    @tool
    def find(
        tags: Annotated[list[str], BeforeValidator(lambda given: str(given).split())],
    ) -> list[str]:
        """Find."""
        return tags

    result = await called(runner, find, {"tags": "a b"})

    assert result.tool_calls[0].content == {"data": ["a", "b"]}
    assert repairs_of(result) == ()


async def test_a_schema_that_contains_itself_is_repaired_where_it_ends(runner: Runner) -> None:
    """A list of lists of lists has readings without end, a tree has one."""
    tree: Any = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}, "nest": {"$ref": "#/$defs/Nest"}},
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "child": {"$ref": "#/$defs/Node"}},
            },
            "Nest": {"type": "array", "items": {"$ref": "#/$defs/Nest"}},
        },
    }
    made = keeper(tree)

    grown = await called(runner, made, {"node": {"child": '{"size": "3"}'}})
    nested = await called(runner, made, {"nest": 3})

    assert grown.tool_calls[0].content == {"data": {"node": {"child": {"size": 3}}}}
    assert "InvalidArgumentsError" in str(nested.tool_calls[0].content)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_a_switch_of_another_kind_is_refused(value: Any) -> None:
    """It would be true by accident."""
    with pytest.raises(ToolDefinitionError, match="repair_arguments"):
        create_tool(name="t", handler=print, repair_arguments=value)
    if value is not None:
        with pytest.raises(ConfigurationError, match="repair_arguments"):
            Agent(name="a", system="S", repair_arguments=value)


# An oracle: it changes any part of the arguments in any of the ways that a repair may, whatever the
# schema says there, and keeps what a validator takes.

_NO_ITEM = re.compile(
    r"^\s*(null|none|nil|undefined)?\s*$|^\s*[\"'\[{(*•-]|[,;|\n\t]", re.IGNORECASE
)
Variant = tuple[Any, frozenset[str]]
"""A value that was made of the given one, and the paths at which it was changed."""


def variants(value: Any, path: str) -> Iterator[Variant]:
    """Every value that repairs could make of one."""
    for made, changed in as_json(value, path):
        yield made, changed
        is_text = isinstance(value, str)
        if made is not None and made != {} and not (is_text and _NO_ITEM.search(value)):
            yield [made], changed | {path}


def as_json(value: Any, path: str) -> Iterator[Variant]:
    """The value itself with changes inside it, and the JSON in it, if it is text."""
    yield from inside(value, path)
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            return
        if parsed is not None and not isinstance(parsed, str):
            for made, changed in variants(parsed, path):
                yield made, changed | {path}


def inside(value: Any, path: str) -> Iterator[Variant]:
    """The value with changes inside it only."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        fields = [list(field(name, item, path)) for name, item in given.items()]
        for chosen in itertools.product(*fields):
            made = {name: item for name, item, _ in chosen if name is not None}
            yield made, frozenset[str]().union(*[changed for _, _, changed in chosen])
    elif isinstance(value, list):
        entries = enumerate(cast("list[Any]", value))
        items = [list(variants(item, f"{path}/{n}")) for n, item in entries]
        for chosen in itertools.product(*items):
            changed = frozenset[str]().union(*[where for _, where in chosen])
            yield [item for item, _ in chosen], changed
    else:
        yield value, frozenset()


def field(name: str, item: Any, path: str) -> Iterator[tuple[str | None, Any, frozenset[str]]]:
    """A field with its variants; a null may also be left out."""
    for made, changed in variants(item, f"{path}/{name}"):
        yield name, made, changed
    if item is None:
        yield None, None, frozenset([f"{path}/{name}"])


def readings(schema: Any, given: Any) -> list[Any] | None:
    """The values that fit and leave alone all that may stay as it is; None: too many to look at."""
    validator: Any = Draft202012Validator(schema)
    some = list(itertools.islice(variants(given, ""), 200))
    if len(some) == 200:
        return None
    fitting = [one for one in some if validator.is_valid(one[0])]
    least = [one for one in fitting if not any(other[1] < one[1] for other in fitting)]
    return list({json.dumps(value, sort_keys=True): value for value, _ in least}.values())


SCALARS: list[Any] = [int, str, bool, float, Literal["a", "b"], Literal[1, 2]]
TEXTS = ["a", "b", "5", "true", "[1]", '["a"]', "x y", "1, 2", "", "null", '{"a": 1}']


def some_type(chance: random.Random, depth: int = 2) -> Any:
    """A type of an argument, of lists, models and unions."""
    kind = chance.choice(["scalar", "scalar", "list", "optional", "union", "model"])
    if kind == "scalar" or depth == 0:
        return chance.choice(SCALARS)
    first = some_type(chance, depth - 1)
    if kind == "list":
        return list[first]
    if kind == "optional":
        return union_of(first, None) if isinstance(first, type) else first
    if kind == "model":
        return some_model(chance, depth - 1)
    second = some_type(chance, depth - 1)
    return Annotated[union_of(first, second), ""] if first is not second else first


def union_of(*types: Any) -> Any:
    """The union in an order of its own: a process that has made an equal one gives that again."""
    several = [get_args(one) if is_union(one) else (one,) for one in types]
    members = dict.fromkeys(itertools.chain(*several))
    return Union[tuple(sorted(members, key=repr))]  # noqa: UP007 - of a tuple


def is_union(given: Any) -> bool:
    """Whether it is a union, written in either way."""
    return get_origin(given) in (Union, UnionType)


def some_model(chance: random.Random, depth: int = 2) -> type[BaseModel]:
    """A model of up to three fields, some of them optional."""
    fields: dict[str, Any] = {}
    for name in "abc"[: chance.randint(1, 3)]:
        kind = some_type(chance, depth)
        fields[name] = (kind, ...) if chance.random() < 0.6 else (kind, 0)
    return create_model("Some", __config__=ConfigDict(extra="forbid"), **fields)


def some_value(chance: random.Random, schema: Any, root: Any) -> Any:
    """A value that nearly fits a schema: parts of it are written as models write them."""
    made = fitting_value(chance, schema, root)
    slip = chance.random()
    if slip < 0.3 and not isinstance(made, str):
        return json.dumps(made)
    if slip < 0.45 and isinstance(made, list):
        return cast("list[Any]", made)[0]
    if slip < 0.5:
        return None
    return chance.choice(TEXTS) if slip < 0.55 else made


def fitting_value(chance: random.Random, schema: Any, root: Any) -> Any:
    """A value whose outermost kind is the schema's."""
    if "$ref" in schema:
        return fitting_value(chance, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "anyOf" in schema:
        return fitting_value(chance, chance.choice(schema["anyOf"]), root)
    if "enum" in schema or "const" in schema:
        return chance.choice(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object":
            names = [
                name
                for name in schema["properties"]
                if name in schema.get("required", []) or chance.random() < 0.7
            ]
            return {n: some_value(chance, schema["properties"][n], root) for n in names}
        case "array":
            return [some_value(chance, schema["items"], root) for _ in range(chance.randint(1, 2))]
        case "integer":
            return chance.choice([1, 2, 5])
        case "number":
            return chance.choice([1.5, 2])
        case "boolean":
            return chance.choice([True, False])
        case "null":
            return None
        case _:
            return chance.choice(TEXTS)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.direct_only("which reading is taken has nothing to do with steps")
async def test_no_generated_arguments_are_repaired_wrongly(runner: Runner, seed: int) -> None:
    """Forty for each seed or more, until some are repaired; the oracle knows no repairs."""
    chance = random.Random(seed)  # noqa: S311 - the same cases in each run
    cases = repaired = 0
    while cases < 40 or repaired < 4:
        schema = some_model(chance).model_json_schema()
        given = {
            name: some_value(chance, part, schema) for name, part in schema["properties"].items()
        }
        found = readings(schema, given)
        if found is None:
            continue
        cases += 1
        result = await called(runner, keeper(schema), given)
        content: Any = result.tool_calls[0].content
        if "data" in content:
            assert [json.dumps(content["data"])] == [json.dumps(one) for one in found]
            repaired += bool(repairs_of(result))
        else:
            assert repairs_of(result) == ()
            assert given not in found
        assert cases < 400, "the arguments that are generated are not nearly right"
