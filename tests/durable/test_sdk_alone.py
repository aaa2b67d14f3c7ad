"""Programs that import the Inngest SDK and `agentkit_py`, and never `agentkit_py.inngest`.

Layers below `agentkit_py.inngest` find it when a program needs it, without its being imported.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from dataclasses import replace

import inngest
from inngest.experimental import mocked

from agentkit_py import Agent, openai

async def reply(body):
    message = {{"role": "assistant", "content": "Hi."}}
    return {{"choices": [{{"message": message, "finish_reason": "stop"}}]}}

model = replace(openai("gpt-4o", api_key="k"), answers=reply)
client = mocked.Inngest(app_id="a")

@client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event="go"), retries=0)
async def function(ctx: inngest.Context) -> str:
    return ({expression}).text

assert not any(name.startswith("agentkit_py.inngest") for name in sys.modules)
found = mocked.trigger(function, inngest.Event(name="go"), client)
print(found.output, found.error)
"""


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("await Agent(name='a', system='S', model=model).run('Hi?')", "no AgentKitMiddleware"),
        ("await Agent(name='a', system='S', model=model).run('Hi?', ctx=ctx)", "Hi. None"),
        ("Agent(name='a', system='S', tools=[function])", "has no input schema of its own"),
        ("await model.respond('Hi?')", "no AgentKitMiddleware"),
    ],
)
def test_a_function_is_recognised_where_only_the_sdk_is_imported(
    expression: str, wanted: str
) -> None:
    """Else a run without middleware would be repeated with each step of its function."""
    script = PROGRAM.format(expression=expression)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert wanted in done.stdout, done.stdout + done.stderr


def test_a_model_answers_without_an_agent_in_a_program_that_imports_models_only() -> None:
    """The models know no runtime; the one that asks them is loaded with the first question."""
    script = """
import asyncio
from dataclasses import replace
from agentkit_py.models import openai

async def reply(body):
    message = {"role": "assistant", "content": "Hi."}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}

model = replace(openai("gpt-4o", api_key="k"), answers=reply)
print(asyncio.run(model.respond("Hi?")).text)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == "Hi.\n", done.stderr
