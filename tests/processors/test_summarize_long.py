"""A thread of 400 turns, half of them in another process: few summaries, and a bounded request.

Between two summaries what is sent grows from ``lower`` to ``upper`` and never beyond: that is what
keeps the beginning of the request the same. Right after a summary it is below ``lower``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

UPPER, LOWER, TURNS, SUMMARY = 4000, 2500, 400, 400

SCRIPT = """
import asyncio, json, sys
from dataclasses import replace
from agentkit_py import Agent, AgentResult, SqliteHistory, State, TextMessage, openai
from agentkit_py.models import RetryPolicy
from agentkit_py.processors import ApproximateTokenizer, Summarize
from agentkit_py.errors import ProviderUnavailableError

path, how, lengths, first, last, upper, lower, most = sys.argv[1:]
first, last, upper, lower, most = map(int, (first, last, upper, lower, most))
count = ApproximateTokenizer(chars_per_token=1)
asked = {"talk": 0, "summary": 0}

def size(turn):
    if lengths == "empty":
        return 0 if turn % 3 else 100
    if lengths == "huge":
        return upper * 4 if turn % 100 == 50 else 60
    if lengths == "threshold":
        return upper if turn % 2 else lower
    return 60 + (turn * 37) % 80

def reply(text):
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}

async def talk(body):
    asked["talk"] += 1
    return reply("a" * size(asked["talk"] + first))

async def summarise(body):
    asked["summary"] += 1
    if how == "error" or (how == "sometimes" and asked["summary"] % 3 == 0):
        raise ProviderUnavailableError("down", provider="openai", model="gpt-4o", status=503)
    if how == "nothing":
        return reply("")
    if how == "much":
        return reply("m" * (most + 1))
    return reply(f"Summary {asked['summary']}".ljust(most // 2, "s"))

base = openai("gpt-4o", api_key="k", retry=RetryPolicy(attempts=1))
store = SqliteHistory(path)

def user(turn):
    return "u" * size(turn)

async def main():
    policy = Summarize(
        replace(base, answers=summarise), upper, lower, summary_tokens=most, store=store, lock=0
    )
    agent = Agent(
        name="clerk", system="", model=replace(base, answers=talk), processors=[policy],
        token_counter=count,
    )
    state = State(thread_id="t")
    for turn in range(first):
        state.append_result(AgentResult.from_user(user(turn) or " "))
        state.append_result(AgentResult("clerk", [TextMessage("assistant", "a" * size(turn + 1))]))
    before, most_sent, made, below = 0, 0, 0, 0
    for turn in range(first, last):
        result = await agent.run(user(turn) or " ", state=state)
        entry = result.context.entries[0]
        most_sent = max(most_sent, entry.tokens_after)
        if asked["summary"] > before:
            made += 1
            below += entry.tokens_after <= lower
        before = asked["summary"]
    await store.close()
    figures = {"most": most_sent, "made": made, "below": below, "reason": entry.reason}
    print(json.dumps({**asked, **figures}))

asyncio.run(main())
"""


def talk(path: Path, how: str, lengths: str, first: int, last: int) -> dict[str, Any]:
    """Turns ``first`` to ``last`` of the conversation, in a process of their own."""
    numbers = map(str, (first, last, UPPER, LOWER, SUMMARY))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), how, lengths, *numbers],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("lengths", ["mixed", "empty", "huge", "threshold"])
def test_four_hundred_turns_stay_bounded_with_few_summaries(tmp_path: Path, lengths: str) -> None:
    """Each summary takes in at least what lies between the thresholds; the next process goes on."""
    path = tmp_path / "t.db"
    first = talk(path, "well", lengths, 0, TURNS // 2)
    second = talk(path, "well", lengths, TURNS // 2, TURNS)
    assert first["talk"] + second["talk"] == TURNS
    assert max(first["most"], second["most"]) <= UPPER
    tokens = {"mixed": 200, "empty": 67, "huge": 360 + 320, "threshold": UPPER + LOWER}[lengths]
    per_summary = UPPER - LOWER
    calls = first["summary"] + second["summary"]
    assert calls <= max(TURNS * tokens / per_summary * 1.2, 1)
    assert (first["below"], second["below"]) == (first["made"], second["made"])


def test_the_next_process_begins_with_the_summary_of_the_last(tmp_path: Path) -> None:
    """It asks for none where the thread is not longer than it was."""
    path = tmp_path / "t.db"
    talk(path, "well", "mixed", 0, TURNS // 2)
    later = talk(path, "well", "mixed", TURNS // 2, TURNS // 2 + 1)
    assert later["summary"] <= 1
    assert "summary of" in later["reason"]


@pytest.mark.parametrize("how", ["error", "nothing", "much", "sometimes"])
def test_a_bad_summary_model_costs_the_summary_and_nothing_else(tmp_path: Path, how: str) -> None:
    """Every turn is answered and bounded; a model that works now and then is used when it does."""
    path = tmp_path / "t.db"
    first = talk(path, how, "mixed", 0, TURNS // 8)
    second = talk(path, how, "mixed", TURNS // 8, TURNS // 5)
    assert first["talk"] + second["talk"] == TURNS // 5
    assert max(first["most"], second["most"]) <= UPPER
    assert ("summary of" in second["reason"]) == (how == "sometimes")
