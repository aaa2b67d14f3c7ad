"""The support demo as an Inngest function: what the customer, the threads and the database see."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Network, openai
from agentkit_py.cli.demo.network import support_network
from agentkit_py.cli.demo.script import LATER, QUESTIONS, scripted_model
from agentkit_py.cli.demo.travel import TravelData
from agentkit_py.models import RetryPolicy
from agentkit_py.processors import ApproximateTokenizer
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import HistoryStore
from agentkit_py.testing import FakeProvider
from agentkit_py.testing.executor import ReplayExecutor

from .world import INFERENCES, Inference, at, client_with

_VARYING = {"id", "createdAt"}


class Desk:
    """The demo's network on files of its own, with all that can be compared."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.travel = folder / "travel.db"
        self.fake = FakeProvider(scripted_model)
        parallel = {"parallel_tool_calls": True}
        model = openai(
            "gpt-4.1",
            api_key="sk-demo",
            default_parameters=parallel,
            retry=RetryPolicy(attempts=1),
        )
        self.network: Network = support_network(
            TravelData(self.travel),
            at(model, self.fake),
            threads=folder / "threads.db",
            tokenizer=ApproximateTokenizer(),
        )
        self.answers: list[str] = []

    async def thread(self) -> list[dict[str, Any]]:
        """The thread's rows without ids and times."""
        assert isinstance(self.network.history, HistoryStore)
        results = await self.network.history.load("nora")
        rows = [result.to_dict() for result in results]
        return [{k: v for k, v in row.items() if k not in _VARYING} for row in rows]

    @property
    def database(self) -> list[str]:
        """Everything that is in the demo's database, as SQL."""
        with closing(sqlite3.connect(self.travel)) as database:
            return list(database.iterdump())

    async def direct(self) -> None:
        """All questions, in this process."""
        runtime = DirectRuntime(transport=self.fake.transport)
        for question in (*QUESTIONS, LATER):
            run = await self.network.run(question, thread_id="nora", runtime=runtime)
            self.answers.append(run.text)

    async def durable(self, inference: Inference) -> None:
        """All questions, each a run of an Inngest function."""
        client = client_with(inference)

        @client.create_function(fn_id="ask", trigger=inngest.TriggerEvent(event="ask"))
        async def answer(ctx: inngest.Context) -> str:
            run = await self.network.run(str(ctx.event.data["question"]), thread_id="nora")
            return run.text

        executor = ReplayExecutor(client, [answer], transport=self.fake.transport)
        for question in (*QUESTIONS, LATER):
            run = await executor.run("ask", {"question": question})
            assert run.status == "completed", run.error
            self.answers.append(str(run.output))


@pytest.mark.parametrize("inference", INFERENCES)
async def test_the_support_demo_is_the_same_as_a_function(
    tmp_path: Path, inference: Inference
) -> None:
    """Answers, thread, requests and what the tools wrote, but for ids and times."""
    direct, durable = Desk(tmp_path / "direct"), Desk(tmp_path / "durable")
    await direct.direct()
    await durable.durable(inference)
    assert "RF-8802" in direct.answers[0]
    assert durable.answers == direct.answers
    assert await durable.thread() == await direct.thread()
    assert durable.database == direct.database
    assert [r.body for r in durable.fake.requests] == [r.body for r in direct.fake.requests]
    assert not durable.fake.rejections
