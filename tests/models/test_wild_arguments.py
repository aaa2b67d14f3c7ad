"""Whatever a model writes as a call's arguments, a run goes on: the model reads what was wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import Agent, anthropic, gemini
from agentkit_py._core.json import MAX_DEPTH, dumps, is_too_deep, strict_loads, tamed
from agentkit_py.messages import text_of
from agentkit_py.models import Model
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider
from agentkit_py.testing.provider import Raw

WILD = {
    "a number too large": '{"q": 1e999}',
    "NaN": '{"q": [NaN]}',
    "an infinity": '{"q": -Infinity}',
    "300 lists": '{"q": %s}' % ("[" * 300 + "]" * 300),
    "600 objects": '{"a": ' * 600 + "1" + "}" * 600,
}

ANTHROPIC = (
    '{"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "tool_use", '
    '"content": [{"type": "tool_use", "id": "t1", "name": "find", "input": %s}]}'
)
GEMINI = (
    '{"candidates": [{"finishReason": "STOP", "avgLogprobs": NaN, "content": {"role": "model", '
    '"parts": [{"functionCall": {"name": "find", "args": %s}}]}}]}'
)


def find(q: Any = None) -> str:
    """Find."""
    return f"found {q}"


def _models() -> dict[str, Model]:
    return {
        "anthropic": anthropic("claude-sonnet-4-5", api_key="k"),
        "gemini": gemini("gemini-2.5-pro", api_key="k"),
    }


@pytest.mark.parametrize("written", WILD.values(), ids=WILD.keys())
@pytest.mark.parametrize(("name", "body"), [("anthropic", ANTHROPIC), ("gemini", GEMINI)])
async def test_arguments_in_a_body_that_no_json_holds_are_an_error_that_the_model_reads(
    name: str, body: str, written: str
) -> None:
    """These formats give arguments as objects, as the model wrote them."""
    provider = FakeProvider([Raw(text=body % written, content_type="application/json"), "Done."])
    agent = Agent(name="a", system="S", tools=[find], model=_models()[name])
    runtime = DirectRuntime(transport=provider.transport)
    result = await agent.run("Find it.", runtime=runtime)
    assert [text_of(message) for message in result.output] == ["Done."]
    assert "The arguments are no JSON" in json.dumps(provider.requests[-1].body)
    assert not provider.rejections


def _levels(number: int) -> Any:
    value: Any = 1
    for _ in range(number):
        value = {"a": value}
    return value


@pytest.mark.parametrize(("levels", "deep"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True)])
def test_depth_is_counted_in_objects_and_arrays(levels: int, *, deep: bool) -> None:
    """A hundred levels are kept, and no further one."""
    assert is_too_deep(_levels(levels)) is deep


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", "[" * 101 + "]" * 101, "[", ""])
def test_strict_reading_refuses_values_that_are_not_json(text: str) -> None:
    """One error for all of it."""
    with pytest.raises(ValueError):  # noqa: PT011 - whichever
        strict_loads(text)


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["input", "args", "q"]), inner),
)


@given(JSONS)
def test_repaired_arguments_can_be_encoded(value: Any) -> None:
    """Whatever a provider sent can be kept, and what could be kept before is the same."""
    found = tamed(value)
    assert strict_loads(dumps(found)) == found
    try:
        dumps(value)
    except ValueError:
        return
    assert found is value


@pytest.mark.parametrize(("name", "body"), [("anthropic", ANTHROPIC), ("gemini", GEMINI)])
async def test_arguments_written_as_a_text_go_back_as_the_object_that_was_read(
    name: str, body: str
) -> None:
    """Both formats want an object there, whatever their model wrote."""
    written = json.dumps(json.dumps({"q": "hat"}))
    provider = FakeProvider([Raw(text=body % written, content_type="application/json"), "Done."])
    agent = Agent(name="a", system="S", tools=[find], model=_models()[name])
    await agent.run("Find it.", runtime=DirectRuntime(transport=provider.transport))
    assert '{"q": "hat"}' in json.dumps(provider.requests[1].body)
