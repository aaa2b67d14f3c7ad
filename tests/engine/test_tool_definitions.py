"""From functions, pydantic models and JSON Schemas to tools."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field

from agentkit_py import Agent, State, ToolContext, create_tool, tool
from agentkit_py.errors import MissingDependencyError, ToolDefinitionError
from agentkit_py.routing import get_default_routing_agent
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tools import as_tool, todo_write

from .runner import Runner


class City(BaseModel):
    """A city."""

    name: str = Field(description="Its name")
    country: str = "FR"


def properties(made: Any) -> dict[str, Any]:
    """The properties of a tool's schema."""
    assert made.parameters is not None
    return made.parameters["properties"]


async def answer(runner: Runner, made: Any, arguments: Any) -> Any:
    """Return the tool's answer to a model's call with these arguments."""
    name = as_tool(made).name
    model = ScriptedModel(tool_call(name, arguments), "done")
    state = State[Any]()
    agent = Agent(name="a", system="S", tools=[made], model=model, max_iter=2)
    await runner.run(agent, "q?", state=state)
    model.assert_finished()
    return state.results[0].tool_calls[0].content


def get_weather(city: str, unit: Literal["c", "f"] = "c") -> str:
    """Get the weather for a city.

    It may rain.

    Args:
        city: Where, in
            full.
        unit (str): Celsius or Fahrenheit.

    Returns:
        The weather.
    """
    return f"{city} {unit}"


def test_a_functions_hints_and_docstring_are_the_tool() -> None:
    """Name, first paragraph, types, defaults, descriptions."""
    made = tool(get_weather)
    assert (made.name, made.description) == ("get_weather", "Get the weather for a city.")
    assert made.parameters is not None
    assert properties(made)["city"]["description"] == "Where, in full."
    unit = properties(made)["unit"]
    assert unit["enum"] == ["c", "f"]
    assert (unit["default"], unit["description"]) == ("c", "Celsius or Fahrenheit.")
    assert made.parameters["required"] == ["city"]
    assert made.parameters["additionalProperties"] is False


async def test_a_bare_function_is_a_tool(runner: Runner) -> None:
    """Its defaults are its own."""
    assert await answer(runner, get_weather, {"city": "Paris"}) == {"data": "Paris c"}


def test_a_bare_function_is_made_a_tool_once() -> None:
    """Agents that share a function share its tool."""
    assert as_tool(get_weather) is as_tool(get_weather)


def test_a_callable_without_weak_references_is_a_tool_too() -> None:
    """Objects with slots."""

    class Slotted:
        __slots__ = ()

        def __call__(self, text: str) -> str:
            """Repeat it."""
            return text

    made = as_tool(Slotted())
    assert (made.name, made.description) == ("Slotted", "Repeat it.")


def test_name_and_description_can_be_given() -> None:
    """An empty description is kept."""
    made = tool(name="weather", description="", strict=False)(get_weather)
    assert (made.name, made.description, made.spec.strict) == ("weather", "", False)


def test_annotated_fields_say_more_of_an_argument() -> None:
    """Their description comes before the docstring's; constraints hold."""

    def search(
        query: Annotated[str, Field(description="What for", min_length=2)],
        limit: Annotated[int, Field(description="How many")] = 5,
        page: int = Field(default=1, ge=1, description="Which page"),
    ) -> None:
        """Search.

        Args:
            query: not this
            limit: nor this
            page: nor this
        """

    found = properties(tool(search))
    assert found["query"]["description"] == "What for"
    assert found["query"]["minLength"] == 2
    assert (found["limit"]["description"], found["limit"]["default"]) == ("How many", 5)
    assert (found["page"]["description"], found["page"]["minimum"]) == ("Which page", 1)


@pytest.mark.parametrize(
    "name", ["json", "schema", "copy", "model_id", "model_config", "model_dump", "_private", "cls"]
)
async def test_an_argument_may_have_a_name_that_pydantic_uses_itself(
    runner: Runner, name: str
) -> None:
    """There is no warning, and model and function use the same name."""
    source = f"def echo({name}: str) -> str:\n    return {name}\n"
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102 - the same function under eight names
    made = tool(space["echo"])
    assert list(properties(made)) == [name]
    assert await answer(runner, made, {name: "v"}) == {"data": "v"}
    wrong = await answer(runner, made, {name: 5})
    assert wrong["error"]["issues"][0]["path"] == name


def numpy_style(orders: list[str], limit: int, more: int = 0) -> None:
    """Find orders.

    Longer.

    Parameters
    ----------
    orders : list of str
        The orders: their numbers,
        in any form.
    limit, more : int
        How many.

    Returns
    -------
    orders
        Not this.
    """  # noqa: D416 - the style has no colons


def sphinx_style(orders: list[str], limit: int, more: int = 0) -> None:
    """Find orders.

    :param orders: The orders: their numbers,
        in any form.
    :type orders: list[str]
    :param int limit: How many.
    :param more: How many.
    :returns: Not this.
    """


def sphinx_style_at_once(orders: list[str], limit: int, more: int = 0) -> None:
    """Find orders.
    :param orders: The orders: their numbers, in any form.
    :param limit: How many.
    :param more: How many.
    """  # noqa: D205 - some write it so


def sphinx_style_of_one(orders: str, limit: int = 1) -> None:
    """Find orders.

    :param orders: The orders: their numbers, in any form.
    """


def google_style(orders: list[str], limit: int, more: int = 0) -> None:
    """Find orders.

    Example:
        find_orders(orders: not this)

    Args:
        orders (list[str]): The orders: their numbers,
            in any form.
        limit (int): How many.
        more (int, optional): How many.

    Raises:
        orders: Not this.
    """


@pytest.mark.parametrize(
    "function",
    [numpy_style, sphinx_style, sphinx_style_at_once, sphinx_style_of_one, google_style],
)
def test_a_docstring_of_any_usual_style_describes_the_arguments(
    function: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """Users of each style wrote their descriptions for the model, and read nothing of warnings."""
    made = tool(function)

    found = properties(made)
    assert made.description == "Find orders."
    assert found["orders"]["description"] == "The orders: their numbers, in any form."
    if "more" in found:
        assert (found["limit"]["description"], found["more"]["description"]) == ("How many.",) * 2
    assert not caplog.records


def test_a_docstring_without_an_args_section_describes_nothing_more() -> None:
    """Though it may have words that look like it."""

    def work(text: str) -> None:
        """Work with text: is not described here."""

    assert "description" not in properties(tool(work))["text"]


def test_an_args_section_ends_where_the_indentation_does() -> None:
    """Lines that describe no argument are skipped."""

    def work(text: str, other: str) -> None:  # noqa: D417 - that is the point
        """Work.

        Args:
            - a list of sorts
            text: The text.
            *rest

        other: not an argument's line
        """

    found = properties(tool(work))
    assert found["text"]["description"] == "The text."
    assert "description" not in found["other"]


def test_methods_are_tools() -> None:
    """The schema has no ``self``."""

    class Desk:
        def greet(self, name: str) -> str:
            """Greet."""
            return name

    made = tool(Desk().greet)
    assert list(properties(made)) == ["name"]


def _star(*names: str) -> None: ...
def _stars(**names: str) -> None: ...
def _positional(name: str, /) -> None: ...
def _unhinted(name: str) -> None: ...
def _unknown(name: str) -> None: ...
def _no_schema(name: Callable[[], None]) -> None: ...
def _foreign(name: Foreign) -> None: ...


class Foreign:
    pass


del _unhinted.__annotations__["name"]
_unknown.__annotations__["name"] = "Missing"

BAD_FUNCTIONS: list[tuple[Callable[..., Any], str]] = [
    (_star, "cannot be passed by name"),
    (_stars, "cannot be passed by name"),
    (_positional, "cannot be passed by name"),
    (_unhinted, "'name' needs a type hint"),
    (_unknown, "cannot be resolved"),
    (_no_schema, "no JSON Schema"),
    (_foreign, "cannot use its signature"),
    (lambda: None, "a name has 1 to 64"),
]


@pytest.mark.parametrize("option", ["approval_timeout", "escalate_after"])
def test_seconds_in_place_of_a_timedelta_are_refused_where_the_tool_is_made(option: str) -> None:
    """The first question would fail otherwise, in the middle of a run."""
    given: Any = {option: 30, "needs_approval": True}
    with pytest.raises(ToolDefinitionError, match=rf"{option} must be a timedelta.*got 30"):
        create_tool(name="refund", handler=lambda: None, **given)


@pytest.mark.parametrize(("function", "reason"), BAD_FUNCTIONS)
def test_a_function_that_cannot_be_a_tool_says_why(
    function: Callable[..., Any], reason: str
) -> None:
    """The error comes when the agent is made."""
    with pytest.raises(ToolDefinitionError, match=reason):
        Agent(name="a", system="S", tools=[function])


@pytest.mark.parametrize("name", ["", "two words", "1st", "é", "a" * 65, "a.b"])
def test_a_name_that_some_provider_refuses_is_refused(name: str) -> None:
    """The error states the rule."""
    with pytest.raises(ToolDefinitionError, match="a name has 1 to 64") as caught:
        create_tool(name=name, handler=print)
    assert caught.value.tool == name


@pytest.mark.parametrize("name", ["a", "_a", "get-weather_2", "A" * 64])
def test_a_name_that_all_providers_take_is_taken(name: str) -> None:
    """Letters, digits, dash and underscore."""
    assert create_tool(name=name, handler=print).name == name


async def test_a_pydantic_model_gives_the_handler_an_instance(runner: Runner) -> None:
    """The instance has its defaults."""

    def describe(city: City, ctx: ToolContext) -> str:
        return f"{city.name} {city.country} {ctx.agent.name}"

    made = create_tool(name="describe", handler=describe, parameters=City, description="D")
    assert properties(made)["name"]["description"] == "Its name"
    assert await answer(runner, made, {"name": "Lyon"}) == {"data": "Lyon FR a"}
    wrong = await answer(runner, made, {})
    assert wrong["error"]["message"] == "name: Field required"


class Numbered(BaseModel):
    """A parcel whose number models like to write with a sign before it."""

    number: int

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Take the sign away."""
        return super().model_validate({"number": obj["number"].strip("#")}, **options)


def _number(given: Numbered) -> int:
    return given.number


async def test_a_pydantic_model_may_validate_in_its_own_way(runner: Runner) -> None:
    """`model_validate` is pydantic's documented way in, so it is what is called."""
    made = create_tool(name="track", description="d", parameters=Numbered, handler=_number)
    assert await answer(runner, made, {"number": "#17"}) == {"data": 17}


def _same(given: Any) -> Any:
    return given


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["city"],
}


async def test_a_json_schema_gives_the_handler_a_checked_dict(runner: Runner) -> None:
    """The dict is not converted: it has the model's values."""
    made = create_tool(name="plan", handler=_same, parameters=SCHEMA)
    assert await answer(runner, made, {"city": "Rome", "days": [1]}) == {
        "data": {"city": "Rome", "days": [1]}
    }


async def test_arguments_that_do_not_fit_a_json_schema_are_named(runner: Runner) -> None:
    """Each problem with its path, in order."""
    made = create_tool(name="plan", handler=_same, parameters=SCHEMA)
    content = await answer(runner, made, {"days": [1, "two"]})
    paths = [issue["path"] for issue in content["error"]["issues"]]
    assert paths == ["(arguments)", "days.1"]
    assert "'city' is a required property" in content["error"]["message"]


def test_a_value_that_is_not_a_json_schema_is_refused() -> None:
    """The error comes when the tool is made."""
    with pytest.raises(ToolDefinitionError, match="no JSON Schema"):
        create_tool(name="x", handler=print, parameters={"type": "objekt"})


@pytest.mark.parametrize("parameters", [5, "object", City(name="x"), int])
def test_parameters_are_a_model_a_schema_or_none(parameters: Any) -> None:
    """Other values are refused."""
    with pytest.raises(ToolDefinitionError, match="parameters must be a pydantic model"):
        create_tool(name="x", handler=print, parameters=parameters)


def test_a_json_schema_without_jsonschema_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The package is an extra."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "pyagentkit\[jsonschema\]"'):
        create_tool(name="x", handler=print, parameters=SCHEMA)


def _all(*given: Any) -> Any:
    return len(given)


def _two(given: Any, ctx: Any) -> Any:
    return 2


def _one(given: Any) -> Any:
    return 1


def _none() -> Any:
    return 0


def _optional(*, verbose: bool = False) -> Any:
    return 0


@pytest.mark.parametrize(
    ("handler", "count"), [(_all, 2), (_two, 2), (_one, 1), (_none, 0), (_optional, 0)]
)
async def test_a_handler_takes_input_and_context_as_far_as_it_wants(
    runner: Runner, handler: Callable[..., Any], count: int
) -> None:
    """``(input, ctx)``, ``(input)`` or nothing."""
    assert await answer(runner, create_tool(name="count", handler=handler), {}) == {"data": count}


def test_a_handler_that_needs_something_else_is_refused() -> None:
    """Arguments are passed by name only."""

    def handler(*, database: object) -> None: ...

    with pytest.raises(ToolDefinitionError, match="must take"):
        create_tool(name="x", handler=handler)


def test_a_tool_without_described_arguments_has_no_schema() -> None:
    """Providers get a tool without arguments."""
    assert create_tool(name="x", handler=print).parameters is None


class Colour(Enum):
    """A colour that a model may name."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    """Where it is."""

    title: str
    floor: int


class Part(BaseModel):
    """A part with a title that somebody wrote."""

    model_config = ConfigDict(title="Part")

    enum: int = Field(title="An enum")
    parts: list[Part] = []


def test_schemas_have_the_titles_that_developers_wrote_and_no_others() -> None:
    """Pydantic makes titles of all names; zod, and so TypeScript's tools, makes none."""

    @tool
    def build(
        colour: Colour, place: Place, part: Part, title: str, count: int | None = None
    ) -> None:
        """Build."""

    schema: Any = build.parameters
    titles = sorted(re.findall(r'"title": "([^"]*)"', json.dumps(schema)))
    assert titles == ["An enum", "Part"]
    assert list(schema["properties"]) == ["colour", "place", "part", "title", "count"]
    assert schema["$defs"]["Colour"] == {
        "description": "A colour that a model may name.",
        "enum": ["red", "blue"],
        "type": "string",
    }


def test_the_librarys_own_tools_have_no_titles() -> None:
    """Their classes are private, and their names were sent to models."""
    for found in (todo_write, *get_default_routing_agent().tools):
        assert '"title"' not in json.dumps(as_tool(found).parameters)


def test_a_tools_title_names_its_own_arguments_and_stays_from_the_model() -> None:
    """Front ends fill it in; models get the description."""

    @tool(title="Refund {amount} EUR for {{order}} {order}")
    def refund(order: str, amount: int) -> None:
        """Pay back."""

    assert refund.title == "Refund {amount} EUR for {{order}} {order}"
    assert refund.spec.description == "Pay back."
    assert "EUR" not in json.dumps(refund.parameters)


@pytest.mark.parametrize(
    "title", ["Refund {sum}", "Refund {amount", "{}", "{0}", "{amount!r}", "{amount:>3}", 3, None]
)
def test_a_title_that_cannot_be_filled_in_is_refused(title: Any) -> None:
    """By name, where the tool is made."""
    with pytest.raises(ToolDefinitionError, match=r"refund.*title="):

        @tool(title=title)
        def refund(order: str, amount: int) -> None:
            """Pay back."""
