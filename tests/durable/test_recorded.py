"""Recorded conversations as Inngest functions: the same threads, results and requests."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Network, RouterContext
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import MemoryHistory
from agentkit_py.testing import FakeProvider, ReceivedRequest
from agentkit_py.testing.executor import ReplayExecutor
from agentkit_py.testing.fakes import Provider, model_of
from agentkit_py.testing.provider import Reply
from agentkit_py.testing.replay import PROVIDERS, Conversation, RecordedNetwork, read_conversations
from agentkit_py.testing.replay.networks import FRONT_DESK, Script, deal_out

from .world import at

RECORDINGS = Path(__file__).parent.parent / "cli" / "data"
FILE = os.environ.get("AGENTKIT_RECORDINGS", "")
"""A file of recordings; those of the repository's tests unless given."""


def conversations() -> list[Conversation]:
    """Some recorded conversations."""
    files = [Path(FILE)] if FILE else sorted(RECORDINGS.glob("*.jsonl"))
    found = (item for file in files for item in read_conversations(file))
    usable = (item for item in found if isinstance(item, Conversation))
    return list(islice(usable, int(os.environ.get("AGENTKIT_RECORDED", "6"))))


def plain(results: Any) -> list[Any]:
    """Results without ids, times and the provider's raw JSON, which holds both."""
    return [
        {k: v for k, v in result.to_dict().items() if k not in ("id", "createdAt", "raw")}
        for result in results
    ]


class Played:
    """One conversation, played turn by turn."""

    def __init__(self, conversation: Conversation, provider: Provider) -> None:
        self.conversation = conversation
        self.script = Script()
        self.fake = FakeProvider(self._reply)
        self.model = at(model_of(provider, url=self.fake.base_url(provider)), self.fake)
        self.store = MemoryHistory()
        self.results: list[Any] = []
        self.last: list[Any] = []

    def _reply(self, _request: ReceivedRequest) -> Reply:
        return self.script.reply()

    async def network(self) -> Network:
        """The network of four agents, with its filters and its limit."""
        maker = RecordedNetwork.with_default_processors()
        return await maker.network(self.conversation, self.script, self.store)

    async def direct(self) -> None:
        """Play it in this process."""
        network = await self.network()
        for turn in self.conversation.turns:
            self.script.begin(turn)
            run = await network.run(
                turn.text,
                thread_id="t",
                model=self.model,
                runtime=DirectRuntime(transport=self.fake.transport),
            )
            self.results += plain(run.results)

    async def durable(self) -> int:
        """Play it as functions; gives the number of requests to the worker."""
        network = await self.network()
        owners = deal_out(self.conversation)
        client = inngest.Inngest(app_id="r", is_production=False, middleware=[AgentKitMiddleware])

        @client.create_function(fn_id="turn", trigger=inngest.TriggerEvent(event="turn"))
        async def play(ctx: inngest.Context) -> None:
            index = ctx.event.data["turn"]
            assert isinstance(index, int)
            turn = self.conversation.turns[index]

            def router(context: RouterContext) -> str | None:
                # By position, as a replay asks for the same turns again.
                if context.call_count >= len(turn.replies):
                    return None
                reply = turn.replies[context.call_count]
                return owners[reply.calls[0].name] if reply.calls else FRONT_DESK

            run = await network.run(turn.text, thread_id="t", model=self.model, router=router)
            self.last = plain(run.results)

        executor = ReplayExecutor(client, [play], transport=self.fake.transport)
        for index, turn in enumerate(self.conversation.turns):
            self.script.begin(turn)
            run = await executor.run("turn", {"turn": index})
            assert run.status == "completed", run.error
            self.results += self.last
        return len(executor.journal)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_recorded_conversations_are_the_same_as_functions(
    provider: Provider, record_property: Callable[[str, object], None]
) -> None:
    """Threads, results and requests, but for ids and times."""
    found = conversations()
    assert found
    requests = model_calls = 0
    for conversation in found:
        direct, durable = Played(conversation, provider), Played(conversation, provider)
        await direct.direct()
        requests += await durable.durable()
        assert durable.results == direct.results
        assert plain(await durable.store.load("t")) == plain(await direct.store.load("t"))
        assert [r.body for r in durable.fake.requests] == [r.body for r in direct.fake.requests]
        assert not durable.fake.rejections
        model_calls += len(durable.fake.requests)
    assert requests
    figures = {
        "conversations": len(found),
        "turns": sum(len(conversation.turns) for conversation in found),
        "model calls": model_calls,
        "requests to the worker": requests,
    }
    record_property(f"figures: recorded conversations as functions ({provider})", figures)
