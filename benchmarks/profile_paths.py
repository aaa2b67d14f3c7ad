"""Where the time of the three hottest paths goes: ``python benchmarks/profile_paths.py``.

Prints a Markdown table for each path: the functions with the most time of their own, calls per
run, and their share. The profiler itself costs time for each call, most of all for short
functions, so the shares say where to look and the figures of ``benchmarks/run.py`` what it costs.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from problem import SYSTEM, Replies, call_reply, text_reply, track_async
from workloads import model_of, results

from agentkit_py import Agent, State, TokenLimiter, tool

ROOT = Path(__file__).resolve().parent.parent
Run = Callable[[], Awaitable[object]]


def _text_reply() -> Run:
    agent = Agent(name="support", system=SYSTEM, model=model_of(Replies(text_reply())))
    return lambda: agent.run("Where is my parcel 17?")


def _ten_calls() -> Run:
    replies = Replies(*(call_reply(number) for number in range(10)), text_reply())
    track = tool(name="track")(track_async)
    agent = Agent(
        name="support", system=SYSTEM, tools=[track], model=model_of(replies), max_iter=11
    )
    return lambda: agent.run("Where are my parcels?")


def _long_thread() -> Run:
    agent = Agent(
        name="support",
        system=SYSTEM,
        model=model_of(Replies(text_reply())),
        processors=[TokenLimiter(2000)],
    )
    remembered = results(9_996)
    return lambda: agent.run("Where is my parcel 17?", state=State(results=remembered))


PATHS: dict[str, tuple[Callable[[], Run], int]] = {
    "run, text reply": (_text_reply, 300),
    "run, ten async tool calls": (_ten_calls, 30),
    "run, 10,000 messages behind TokenLimiter": (_long_thread, 20),
}
"""Each with how often it is run in one round."""

ROUNDS = 15


async def _repeat(run: Run, count: int) -> None:
    for _ in range(count):
        await run()


@dataclass(slots=True)
class Spent:
    """What one function, or several of one name, cost together."""

    calls: int = 0
    seconds: float = 0.0
    """In the function itself, without what it called."""


def profile(make: Callable[[], Run], count: int) -> dict[str, Spent]:
    """Profile ``count`` runs, after some to warm up; by function.

    Of several rounds the quickest counts: the others were disturbed.
    """
    run = make()
    with asyncio.Runner() as loop:
        loop.run(_repeat(run, 5))
        rounds = [_one_round(loop, run, count) for _ in range(ROUNDS)]
    return min(rounds, key=lambda found: sum(spent.seconds for spent in found.values()))


def _one_round(loop: asyncio.Runner, run: Run, count: int) -> dict[str, Spent]:
    # The time of this process: that of others is none of the run's.
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    loop.run(_repeat(run, count))
    profiler.disable()
    found: dict[str, Spent] = {}
    # Not by pstats, which takes the ``__init__`` of all dataclasses for one and keeps the last.
    for entry in profiler.getstats():
        spent = found.setdefault(_named(entry.code), Spent())
        spent.calls += entry.callcount
        spent.seconds += entry.inlinetime
    return found


def _named(code: str | CodeType) -> str:
    """Which function it is, without what only this machine has."""
    if isinstance(code, str):
        return code.strip("<>").replace("built-in ", "").removeprefix("method builtins.")
    if code.co_filename == "<string>":
        return f"{code.co_name} of dataclasses"
    parts = Path(code.co_filename).parts
    for root in ("agentkit_py", "benchmarks"):
        if root in parts:
            return f"{'/'.join(parts[parts.index(root) + 1 :])}:{code.co_name}"
    return f"{parts[-1]}:{code.co_name}"


def table(found: Mapping[str, Spent], count: int, rows: int) -> str:
    """The functions with the most time of their own, as Markdown."""
    total = sum(spent.seconds for spent in found.values())
    calls = sum(spent.calls for spent in found.values())
    lines = [
        f"{total / count * 1e6:,.0f} µs per run under the profiler, {calls / count:,.0f} calls.",
        "",
        "| function | calls | own µs | share |",
        "|---|---:|---:|---:|",
    ]
    for name, spent in sorted(found.items(), key=lambda item: -item[1].seconds)[:rows]:
        lines.append(
            f"| `{name}` | {spent.calls / count:,.1f} | {spent.seconds / count * 1e6:,.1f} "
            f"| {spent.seconds / total:.1%} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12, help="functions per path")
    options = parser.parse_args()
    cache = ROOT / ".cache" / "tiktoken"
    if cache.is_dir():
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache))
    for name, (make, count) in PATHS.items():
        print(f"### {name}\n\n{table(profile(make, count), count, options.rows)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
