"""Tracing that fails itself."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from agentkit_py import Agent, tool
from agentkit_py.processors import Redactor
from agentkit_py.testing import ScriptedModel, tool_call

from .collected import Collected, said


def half() -> str:
    """Cut a character in two."""
    return "half \ud83d"


def clerk(*replies: Any) -> Agent:
    """An agent with one tool."""
    model = ScriptedModel(*replies)
    return Agent(name="clerk", system="S", tools=[tool(half)], model=model, max_iter=3)


async def test_content_with_half_a_surrogate_pair_is_exported(collected: Collected) -> None:
    """Exporters write UTF-8, and would drop what cannot be written."""
    agent = clerk(tool_call("half", {}), "by \ud83d")
    await agent.run("Hi", tracing=collected.tracing(content=True))
    for span in collected.spans:
        for name, value in said(span).items():
            for text in [value] if isinstance(value, str) else []:
                assert text.encode(), name
    found = said(collected.named("execute_tool half"))["gen_ai.tool.call.result"]
    assert json.loads(found) == {"data": "half \ud83d"}


class Broken(Redactor):
    """It cannot mask anything."""

    def text(self, text: str) -> str:
        """Fail."""
        raise RuntimeError(f"cannot mask {text}")


async def test_a_failing_redactor_ends_no_run_and_content_is_left_out(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    """The content is left out, and the log says so once."""
    agent = clerk(tool_call("half", {}), "my secret")
    with caplog.at_level(logging.ERROR):
        result = await agent.run(
            "my secret", tracing=collected.tracing(content=True, redactor=Broken())
        )
    assert [getattr(one, "text", "") for one in result.output] == ["my secret"]
    names = [span.name for span in collected.spans]
    assert names == ["invoke_agent clerk", "chat gpt-4o", "execute_tool half", "chat gpt-4o"]
    assert "my secret" not in json.dumps([dict(said(s)) for s in collected.spans], default=str)
    assert [r.name for r in caplog.records].count("agentkit_py.tracing") == 1


def lost(order: str) -> str:
    """Lose an order."""
    raise LookupError(order)


@pytest.mark.parametrize("content", [False, True])
async def test_a_tools_exception_is_in_its_span(collected: Collected, *, content: bool) -> None:
    """Its text, which may quote what a person wrote, only where content is exported."""
    model = ScriptedModel(tool_call("lost", {"order": "of ann@example.com"}), "Sorry.")
    agent = Agent(name="clerk", system="S", tools=[tool(lost)], model=model)
    await agent.run("Hi", tracing=collected.tracing(content=content))
    (event,) = collected.named("execute_tool lost").events
    facts = dict(event.attributes or {})
    assert (event.name, facts["exception.type"]) == ("exception", "LookupError")
    assert "raise LookupError" in str(facts["exception.stacktrace"])
    assert ("ann@example.com" in str(facts)) is content
