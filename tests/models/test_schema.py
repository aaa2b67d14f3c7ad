"""Tool schemas for each provider, and undoing what they changed."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, Optional

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from agentkit_py.errors import ToolDefinitionError
from agentkit_py.messages import TextMessage
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    azure_openai,
    gemini,
    grok,
    openai,
)
from agentkit_py.models.schema import (
    anthropic_output_schema,
    anthropic_schema,
    gemini_schema,
    grok_schema,
    openai_schema,
    restore_arguments,
)
from agentkit_py.testing.provider import FakeProvider, Rejection

MODELS: list[Model] = [
    openai("gpt-4.1", api_key="sk-test"),
    azure_openai("gpt-4o", endpoint="https://r.openai.azure.com", api_key="az-test"),
    grok("grok-4", api_key="xai-test"),
    anthropic("claude-3-5-haiku-latest", api_key="sk-ant-test"),
    gemini("gemini-2.5-flash", api_key="gem-test"),
]


def object_of(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    """The schema of an object."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema if required is None else {**schema, "required": required}


def rejections(model: Model, *tools: ToolSpec) -> list[Rejection]:
    """Return the strict provider's rejections of a request with these tools."""
    provider = FakeProvider(lambda _: "ok")
    asked = ModelRequest(messages=(TextMessage("user", "hi"),), tools=tools)
    with httpx.Client(transport=provider.transport) as client:
        headers = model.adapter.headers(model, "sk-test")
        client.post(model.adapter.url(model), headers=headers, json=model.encode(asked))
    return provider.rejections


# ------------------------------------------------------------------------------- strict schemas


def test_optional_properties_become_required_and_nullable() -> None:
    """Strict mode knows no optional properties."""
    strict, is_strict = openai_schema(
        object_of(["a"], a={"type": "string"}, b={"type": "integer"}, e={"enum": ["x", "y"]})
    )
    assert is_strict
    assert strict["required"] == ["a", "b", "e"]
    assert strict["additionalProperties"] is False
    assert strict["properties"] == {
        "a": {"type": "string"},
        "b": {"type": ["integer", "null"]},
        "e": {"type": ["string", "null"], "enum": ["x", "y", None]},
    }


def test_a_schema_that_is_strict_already_stays_as_it_is() -> None:
    """Parity: TypeScript sends zod's schema unchanged."""
    schema = {
        **object_of(["a"], a={"type": "string", "description": "A"}),
        "additionalProperties": False,
    }
    strict, is_strict = openai_schema(schema)
    assert is_strict
    assert strict == {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


INEXPRESSIBLE: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
    {"type": "array", "items": {}},
    {"type": "array", "prefixItems": [{"type": "string"}]},
    {},
    {"not": {"type": "null"}},
    {"type": "string", "enum": []},
    {"allOf": [{"type": "object", "properties": {}}, {"type": "object", "properties": {}}]},
    {"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]},
]


@pytest.mark.parametrize("inner", INEXPRESSIBLE)
def test_schemas_that_strict_mode_cannot_express_are_sent_unchanged_and_not_strict(
    inner: dict[str, Any],
) -> None:
    """Better a loose schema than another meaning."""
    schema, is_strict = openai_schema(object_of(["p"], p=inner))
    assert not is_strict
    assert schema["required"] == ["p"]
    sent = {key: value for key, value in schema["properties"]["p"].items() if key != "items"}
    assert sent == {key: value for key, value in inner.items() if key != "items"}


def test_too_deep_too_wide_and_too_many_values_are_not_strict() -> None:
    """Strict mode has limits; beyond them the API refuses."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(12):
        deep = object_of(["p"], p=deep)
    wide = object_of([], **{f"p{n}": {"type": "string"} for n in range(5001)})
    many = object_of(["e"], e={"type": "integer", "enum": list(range(1001))})
    assert [openai_schema(schema)[1] for schema in (deep, wide, many)] == [False, False, False]


def test_keywords_that_only_restrict_further_are_left_out() -> None:
    """Arguments are validated again, so a length limit may go; a look-ahead would be refused."""
    strict, is_strict = openai_schema(
        object_of(
            ["s", "p"],
            s={
                "type": "string",
                "minLength": 2,
                "format": "uri",
                "default": "x",
                "examples": ["x"],
            },
            p={"type": "string", "pattern": "^(?=a)", "format": "date"},
        )
    )
    assert is_strict
    assert strict["properties"] == {
        "s": {"type": "string"},
        "p": {"type": "string", "format": "date"},
    }


class Node(BaseModel):
    """A tree."""

    name: str
    children: list[Node] = Field(default_factory=list["Node"])


class Color(Enum):
    """Two colours."""

    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    """One animal."""

    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    """Another animal."""

    kind: Literal["dog"]
    color: Color | None = None


class Order(BaseModel):
    """A model with most of what pydantic can say."""

    pet: Cat | Dog = Field(discriminator="kind")
    color: Color = Field(default=Color.RED, description="Which one")
    amount: int = Field(gt=0, lt=10)
    ratio: float = Field(default=0.5, ge=0)
    tags: list[str] = Field(default_factory=list[str], max_length=3)
    note: Optional[str] = None  # noqa: UP045 - as users write it
    both: str | int = "x"
    fixed: Literal[1, 2] = 1
    anything: Any = None


class Free(BaseModel):
    """A model with what strict mode cannot say."""

    data: dict[str, Any]
    pair: tuple[int, str] = (1, "a")
    maybe: dict[str, int] | None = None


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.provider)
@pytest.mark.parametrize("kind", [Order, Free, Cat])
def test_pydantic_models_are_accepted_as_parameters(model: Model, kind: type[BaseModel]) -> None:
    """Discriminated unions, enums, recursion, tuples, dicts: whatever people write."""
    spec = ToolSpec("tool", "A tool.", kind.model_json_schema())
    assert rejections(model, spec) == []


@pytest.mark.parametrize("model", MODELS[:-1], ids=lambda m: m.provider)
def test_recursive_models_are_accepted_as_parameters(model: Model) -> None:
    """All but Gemini (see below) take references."""
    assert rejections(model, ToolSpec("tool", "A tree.", Node.model_json_schema())) == []


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_grok_gets_nothing_that_xai_refuses(api: Any) -> None:
    """A circle ends in an open object; what its schemas may not have is written otherwise."""
    model = grok("grok-4.6", api=api, api_key="k")
    odd = object_of(
        [],
        any=True,
        never=False,
        none={"enum": []},
        pair={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        some={"type": "array", "contains": {}, "minContains": 2, "maxContains": 3},
        both={"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/x/y"}]},
        loop={"$ref": "#"},
    )
    odd["$defs"] = {"a": {"$ref": "#/$defs/x/y"}, "x": {"y": {"items": {"$ref": "#/$defs/a"}}}}
    specs = ToolSpec("odd", "", odd), ToolSpec("tree", "", Node.model_json_schema())
    assert rejections(model, *specs) == []
    made, tree = grok_schema(odd), grok_schema(Node.model_json_schema())
    assert (made["properties"]["any"], made["properties"]["never"]) == ({}, {"not": {}})
    assert made["properties"]["pair"]["prefixItems"] == [{"type": "string"}, {"type": "integer"}]
    again = {"type": "object", "additionalProperties": True, "description": "Node, once more."}
    assert tree["properties"]["children"]["items"] == {"$ref": "#/definitions/Node"}
    assert tree["definitions"]["Node"]["properties"]["children"]["items"] == again
    with pytest.raises(ToolDefinitionError, match="refers to itself; grok"):
        model.adapter.output_format(model, specs[1])


def test_a_recursive_model_is_strict_for_openai() -> None:
    """Strict mode takes references, also to themselves."""
    schema, is_strict = openai_schema(Node.model_json_schema())
    assert is_strict
    assert schema["definitions"]["Node"]["required"] == ["name", "children"]
    assert "$defs" not in schema


def test_a_recursive_model_is_a_clear_error_for_gemini() -> None:
    """Gemini has no references; the error names tool and reference."""
    model = gemini("gemini-2.5-flash")
    asked = ModelRequest(messages=(), tools=(ToolSpec("tree", "", Node.model_json_schema()),))
    with pytest.raises(ToolDefinitionError, match=r"'tree'.*refers to itself.*Node") as caught:
        model.encode(asked)
    assert caught.value.tool == "tree"


_leaves = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "format": "email", "minLength": 1},
        {"type": "integer", "minimum": 0},
        {"type": ["string", "null"]},
        {"type": ["string", "number"]},
        {"enum": ["a", "b", None]},
        {"const": 3},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"$ref": "#/$defs/Point", "description": "Where"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
        {},
    ]
)
_POINT = {"Point": object_of(["x"], x={"type": "number"}, y={"type": "number"})}


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    names = st.sampled_from(["a", "b", "title", "additionalProperties", "items", "default"])
    properties = draw(st.dictionaries(names, inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    return object_of(required, **properties)


_inner = st.recursive(
    _leaves,
    lambda inner: (
        _objects(inner)
        | inner.map(lambda item: {"type": "array", "items": item})
        | st.lists(inner, min_size=1, max_size=2).map(lambda items: {"oneOf": items})
    ),
    max_leaves=6,
)
schemas = _objects(_inner).map(lambda schema: {**schema, "$defs": _POINT})


@given(schema=schemas)
def test_every_schema_of_an_object_is_accepted_by_every_provider(schema: dict[str, Any]) -> None:
    """The forms are the providers' own dialects, whatever the source says."""
    for model in MODELS:
        assert rejections(model, ToolSpec("tool", "", schema)) == []


@given(schema=schemas)
def test_converting_changes_nothing_of_the_source(schema: dict[str, Any]) -> None:
    """A tool's schema is shared by all models; and a strict form is its own strict form."""
    before = repr(schema)
    strict, is_strict = openai_schema(schema)
    gemini_schema(schema)
    anthropic_schema(schema)
    assert repr(schema) == before
    if is_strict:
        assert openai_schema(strict) == (strict, True)


# ---------------------------------------------------------------------------- Claude's strict tools

OPUS = anthropic("claude-opus-5-5", api_key="sk-ant-test")
CITY = object_of(["city"], city={"type": "string", "minLength": 1}, days={"type": "integer"})
OPEN = object_of(rest={"type": "object", "additionalProperties": True})


def stricts(model: Model, *tools: ToolSpec, choice: str = "auto") -> list[bool]:
    """Return which tools of a request are strict; the request is accepted."""
    asked = ModelRequest(messages=(TextMessage("user", "hi"),), tools=tools, tool_choice=choice)
    provider = FakeProvider(lambda _: "ok")
    with httpx.Client(transport=provider.transport) as client:
        headers = model.adapter.headers(model, "sk-test")
        client.post(model.adapter.url(model), headers=headers, json=model.encode(asked))
    assert provider.rejections == []
    return [tool.get("strict", False) for tool in provider.requests[0].body["tools"]]


def test_claude_gets_strict_tools_on_request() -> None:
    """Others are as they were, since strict ones are few and cost a compilation."""
    tools = [ToolSpec("a", "", CITY, strict=True), ToolSpec("b", "", CITY), ToolSpec("c", "")]
    assert stricts(OPUS, *tools) == [True, False, False]
    (first, second, _) = OPUS.encode(
        ModelRequest(messages=(TextMessage("user", "hi"),), tools=tuple(tools))
    )["tools"]
    assert first["input_schema"]["additionalProperties"] is False
    assert "minLength" not in str(first["input_schema"])
    assert "minLength" in str(second["input_schema"])


def test_tools_of_a_choice_that_cannot_be_forced_are_strict() -> None:
    """So a router's answer is at least of the right form; False says no."""
    tools = [ToolSpec("a", "", CITY), ToolSpec("b", "", CITY, strict=False), ToolSpec("c", "")]
    assert stricts(OPUS, *tools, choice="any") == [True, False, True]
    forced = anthropic("claude-haiku-5-5", api_key="sk-ant-test")
    assert stricts(forced, *tools, choice="any") == [False, False, False]


@pytest.mark.parametrize("model", ["claude-3-5-haiku-latest", "claude-opus-4-1"])
def test_a_model_without_strict_tools_gets_none_and_the_log_says_so(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asked for it finds out."""
    old = anthropic(model, api_key="sk-ant-test")
    assert stricts(old, ToolSpec(f"of {model}".replace(" ", "_"), "", CITY, strict=True)) == [False]
    assert "without strict=True" in caplog.text


def test_schemas_that_a_strict_tool_cannot_express_are_sent_unchanged() -> None:
    """Open objects, recursion, and more than a request may have."""
    assert stricts(OPUS, ToolSpec("open", "", OPEN, strict=True)) == [False]
    many = [ToolSpec(f"t{number}", "", CITY, strict=True) for number in range(25)]
    assert stricts(OPUS, *many) == [True] * 20 + [False] * 5
    wide = object_of([], **{f"p{number}": {"type": "string"} for number in range(10)})
    wider = [ToolSpec(f"w{number}", "", wide, strict=True) for number in range(3)]
    assert stricts(OPUS, *wider) == [True, True, False]


def test_claude_gets_no_type_with_values_of_other_types() -> None:
    """Claude answers 400 to a nullable enum with its types, and takes it without them."""
    props: dict[str, Any] = {
        "maybe": {"type": ["string", "null"], "enum": ["low", None]},
        "plain": {"type": "string", "enum": ["low"]},
        "const": {"type": ["integer", "null"], "const": None},
    }
    schema = {**object_of(list(props), **props), "additionalProperties": False}
    assert stricts(OPUS, ToolSpec("t", "", schema, strict=True)) == [True]
    made = anthropic_output_schema(schema)
    assert made is not None
    assert made["properties"] == {
        "maybe": {"enum": ["low", None]},
        "plain": {"type": "string", "enum": ["low"]},
        "const": {"const": None},
    }
    nothing: list[list[Any]] = [[], [{"a": 1}]]
    for values in nothing:
        odd = {**object_of([], a={"enum": values}), "additionalProperties": False}
        assert anthropic_output_schema(odd) is None


@pytest.mark.parametrize(("number", "strict"), [(11, True), (12, False)])
def test_strict_tools_and_the_answer_count_together_on_every_level(
    number: int, strict: bool
) -> None:
    """Claude's limits are for all schemas of a request: 24 optional properties."""

    def closed(number: int) -> dict[str, Any]:
        texts = {f"p{n}": {"type": "string"} for n in range(number)}
        return {**object_of([], **texts), "additionalProperties": False}

    nested = {**object_of(["o"], o=closed(13)), "additionalProperties": False}
    made = OPUS.encode(
        ModelRequest(
            messages=(TextMessage("user", "hi"),),
            tools=(ToolSpec("t", "", nested, strict=True),),
            output=ToolSpec("answer", "", closed(number)),
        )
    )
    assert made["tools"][0].get("strict", False) is strict


@given(tools=st.lists(schemas, min_size=1, max_size=4))
def test_strict_tools_of_any_schemas_are_accepted(tools: list[dict[str, Any]]) -> None:
    """A schema that is not for them is sent as it is."""
    stricts(OPUS, *(ToolSpec(f"t{n}", "", one, strict=True) for n, one in enumerate(tools)))


def test_a_tool_is_converted_once() -> None:
    """The form is kept with the spec: encoding costs a look-up per tool and call."""
    spec = ToolSpec("tool", "", object_of(["a"], a={"type": "string"}))
    asked = ModelRequest(messages=(), tools=(spec,))
    for model in MODELS:
        first, second = (model.encode(asked)["tools"][0] for _ in range(2))
        inner = next(
            key for key in ("function", "input_schema", "functionDeclarations") if key in first
        )
        assert first == second
        assert inner == "functionDeclarations" or _schema(first) is _schema(second)


def _schema(tool: dict[str, Any]) -> object:
    return tool["input_schema"] if "input_schema" in tool else tool["function"]["parameters"]


# -------------------------------------------------------------------------------------- the roots


def test_a_root_reference_is_followed() -> None:
    """Pydantic writes the root of a recursive model as a reference."""
    schema = {"$ref": "#/$defs/Point", "$defs": _POINT}
    assert anthropic_schema(schema)["type"] == "object"
    assert set(anthropic_schema(schema)["properties"]) == {"x", "y"}


def test_a_root_union_becomes_an_object_with_the_properties_of_all() -> None:
    """No provider takes a union at the root; what all branches require stays required."""
    branches = [
        object_of(["k", "a"], k={"const": "a"}, a={"type": "string"}),
        object_of(["k"], k={"const": "b"}),
    ]
    schema = anthropic_schema({"oneOf": branches})
    assert schema["required"] == ["k"]
    assert schema["properties"]["k"] == {"anyOf": [{"const": "a"}, {"const": "b"}]}
    assert openai_schema({"anyOf": branches})[1] is False
    for model in MODELS:
        assert rejections(model, ToolSpec("tool", "", {"anyOf": branches})) == []


def test_parts_at_the_root_are_all_required() -> None:
    """``allOf`` means every part at once."""
    parts = [object_of(["a"], a={"type": "string"}), object_of(["b"], b={"type": "string"})]
    assert anthropic_schema({"allOf": parts})["required"] == ["a", "b"]


@pytest.mark.parametrize(
    "schema", [{"type": "array", "items": {}}, {"anyOf": [{"type": "string"}]}]
)
def test_arguments_that_are_no_object_are_refused(schema: dict[str, Any]) -> None:
    """Every provider would answer 400; the error names the tool."""
    asked = ModelRequest(messages=(), tools=(ToolSpec("listing", "", schema),))
    for model in MODELS:
        with pytest.raises(ToolDefinitionError, match=r"'listing'.*objects"):
            model.encode(asked)


@pytest.mark.parametrize("ref", ["#/$defs/Gone", "other.json#/A", "#/$defs/Loop", 3])
def test_a_broken_reference_is_refused(ref: Any) -> None:
    """A schema that nobody can read is the developer's error, found before the call."""
    schema = {**object_of(p={"$ref": ref}), "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}
    with pytest.raises(ToolDefinitionError, match=r"\$ref"):
        openai_schema(schema)


def test_tools_without_parameters_say_so_in_each_dialect() -> None:
    """OpenAI and Gemini leave the schema out, Anthropic wants an empty object."""
    asked = ModelRequest(messages=(), tools=(ToolSpec("ping", "Ping"),))
    chat, _, _, claude, google = (model.encode(asked)["tools"][0] for model in MODELS)
    assert chat["function"] == {"name": "ping", "description": "Ping", "strict": False}
    assert claude["input_schema"]["properties"] == {}
    assert google["functionDeclarations"] == [{"name": "ping", "description": "Ping"}]


# ------------------------------------------------------------------------------------------ Gemini


def test_gemini_gets_references_inlined_and_constants_as_enums() -> None:
    """Gemini knows neither ``$ref`` nor ``const``; null is a flag; a property may be called so."""
    schema = gemini_schema(
        {
            "$schema": "x",
            "title": "T",
            "type": "object",
            "properties": {
                "additionalProperties": {"type": "string"},
                "where": {"$ref": "#/$defs/Point"},
                "only": {"const": "x"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "D"},
                "both": {"type": ["string", "integer", "null"]},
                "few": {"type": "integer", "enum": [1, 2], "description": "Few."},
                "none": {"type": "null"},
                "nothing": {"anyOf": [{"type": "null"}]},
                "size": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
            },
            "required": ["where", "gone"],
            "additionalProperties": False,
            "$defs": _POINT,
        }
    )
    assert schema is not None
    assert schema["required"] == ["where"]
    assert set(schema) == {"type", "properties", "required"}
    assert schema["properties"] == {
        "additionalProperties": {"type": "string"},
        "where": object_of(["x"], x={"type": "number"}, y={"type": "number"}),
        "only": {"type": "string", "enum": ["x"]},
        "maybe": {"type": "string", "description": "D", "nullable": True},
        "both": {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
        "few": {"type": "integer", "description": "Few. One of: 1, 2."},
        "none": {"type": "string", "nullable": True},
        "nothing": {"type": "string", "nullable": True},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
    }


def test_gemini_is_asked_for_free_form_objects_as_text_which_is_read_again() -> None:
    """Gemini refuses objects without properties; the handler still gets its dict."""
    schema = Free.model_json_schema()
    form = gemini_schema(schema)
    assert form is not None
    assert form["properties"]["data"]["type"] == "string"
    read = restore_arguments(schema, {"data": '{"a": 1}', "maybe": '{"b": 2}'})
    assert read == {"data": {"a": 1}, "maybe": {"b": 2}}
    unread = {"data": "no json", "maybe": "[1]"}
    assert restore_arguments(schema, unread) is unread


def test_gemini_gets_the_parts_of_an_all_of_merged() -> None:
    """Gemini has no word for it."""
    parts = [object_of(["a"], a={"type": "string"}), object_of(["b"], b={"type": "string"}), True]
    form = gemini_schema(object_of(p={"allOf": parts}))
    assert form is not None
    assert form["properties"]["p"]["required"] == ["a", "b"]
    assert gemini_schema({"type": "object", "properties": {}}) is None


# ---------------------------------------------------------------------------------- the way back


def test_nulls_that_only_strictness_brought_are_dropped() -> None:
    """The model says null for "not given"; the tool's own nulls stay."""
    schema = object_of(
        ["needed"],
        needed={"type": "string"},
        optional={"type": "integer"},
        nullable={"type": ["integer", "null"]},
        union={"anyOf": [{"type": "string"}, {"type": "null"}]},
        any={},
        list={"type": "array", "items": object_of(a={"type": "string"})},
    )
    given_ = {
        "needed": None, "optional": None, "nullable": None, "union": None, "any": None,
        "unknown": None, "list": [{"a": None}, {"a": "x"}],
    }  # fmt: skip
    assert restore_arguments(schema, given_) == {
        "needed": None, "nullable": None, "union": None, "any": None, "unknown": None,
        "list": [{}, {"a": "x"}],
    }  # fmt: skip


def test_nulls_are_dropped_inside_references_and_unions() -> None:
    """The branch that fits the value says which nulls are its own."""
    schema = Order.model_json_schema()
    value = {"pet": {"kind": "dog", "color": None}, "amount": 1, "ratio": None, "note": None}
    assert restore_arguments(schema, value) == {
        "pet": {"kind": "dog", "color": None},
        "amount": 1,
        "note": None,
    }
    cat = {"pet": {"kind": "cat", "lives": None}, "amount": 1}
    assert restore_arguments(schema, cat) == {"pet": {"kind": "cat"}, "amount": 1}


_json = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=5,
)


@given(schema=schemas, value=_json)
def test_any_arguments_survive(schema: dict[str, Any], value: Any) -> None:
    """Models send anything; what fits no schema is left to validation."""
    assert restore_arguments(None, value) is value
    restore_arguments(schema, value)


_fields: dict[str, tuple[Any, ...]] = {
    "s": (str, "x"), "i": (int | None, None), "l": (list[int], []), "d": (Literal["a"], "a"),
}  # fmt: skip


@given(
    names=st.sets(st.sampled_from(sorted(_fields))),
    absent=st.sets(st.sampled_from(sorted(_fields))),
)
def test_arguments_that_fit_the_strict_schema_are_valid(names: set[str], absent: set[str]) -> None:
    """Null for each absent optional property comes out as pydantic's own default."""
    fields: dict[str, Any] = {name: _fields[name] for name in sorted(names)}
    kind = create_model("Args", **fields)
    said = {name: None if name in absent else default for name, (_, default) in fields.items()}
    restored: Any = restore_arguments(kind.model_json_schema(), said)
    assert kind.model_validate(restored) == kind()
