"""The life of a thread in one run: create → load → save the user's message → append results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentkit_py._core.awaiting import resolve
from agentkit_py.history.config import HistoryConfig, HistoryContext, RunView
from agentkit_py.history.result import AgentResult
from agentkit_py.history.state import State
from agentkit_py.messages import UserMessage
from agentkit_py.runtime.port import Runtime


@dataclass(slots=True)
class Thread:
    """One run's dealings with its store. Without a store, every call is a no-op."""

    config: HistoryConfig | None
    state: State[Any]
    input: str
    runtime: Runtime
    prefix: str
    """The run's step id prefix."""

    network: RunView | None = None
    _saved: int = field(default=0, init=False)

    def _context(self) -> HistoryContext:
        return HistoryContext(
            state=self.state,
            input=self.input,
            thread_id=self.state.thread_id,
            network=self.network,
            step=self.runtime.step,
        )

    async def open(self) -> None:
        """Create the thread, or load what the client does not bring along itself."""
        if self.config is None:
            self._saved = self.state.result_count
            return
        client_thread = self.state.thread_id
        await self._create(self.config)
        if client_thread is not None and not self.state.is_seeded:
            await self._load(self.config)
        self._saved = self.state.result_count

    async def _create(self, config: HistoryConfig) -> None:
        if config.create_thread is not None:
            created = await resolve(config.create_thread(self._context()))
            if created is not None:
                self.state.thread_id = created
        if self.state.thread_id is None and config.get is not None:
            self.state.thread_id = self.runtime.new_id(f"{self.prefix}/thread")

    async def _load(self, config: HistoryConfig) -> None:
        if config.get is not None:
            self.state.set_results(await resolve(config.get(self._context())))

    async def save_user_message(self, message: UserMessage, result: AgentResult | None) -> None:
        """Save what the user said.

        Args:
            message: The message, its id and time filled in.
            result: The same as it stands in the state; None where states keep no user turns.
        """
        if result is not None:
            self._saved += 1
        if self.config is not None and self.config.append_user_message is not None:
            stored = result or AgentResult.from_user(
                message.content, id=message.id, created_at=message.client_timestamp
            )
            context = replace(self._context(), user_message=message, user_result=stored)
            await resolve(self.config.append_user_message(context))

    async def result_done(self) -> None:
        """A result was completed: save it now if the store wants each at once."""
        if self.config is not None and self.config.save_each:
            await self.save_results()

    async def save_results(self) -> None:
        """Save all results that are not saved yet."""
        new = self.unsaved()
        if self.config is None or self.config.append_results is None or not new:
            return
        await resolve(self.config.append_results(replace(self._context(), new_results=new)))
        self._saved += len(new)

    def unsaved(self) -> Sequence[AgentResult]:
        """The results of this run that are not saved yet."""
        return self.state.get_results_from(self._saved)
