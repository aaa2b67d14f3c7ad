"""What everything inside one run shares."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py.engine.inputs import RunInput
from agentkit_py.engine.limits import Meter
from agentkit_py.engine.prompt import HistoryMode
from agentkit_py.events.types import Event, Observer
from agentkit_py.history.result import AgentResult
from agentkit_py.history.state import State
from agentkit_py.history.thread import Thread
from agentkit_py.messages import Message, as_present
from agentkit_py.runtime.port import Runtime

if TYPE_CHECKING:
    from agentkit_py.engine.network_run import NetworkRun

logger = logging.getLogger("agentkit_py")


@dataclass(slots=True, kw_only=True)
class RunScope:
    """One run of a network, or of an agent by itself."""

    runtime: Runtime
    state: State[Any]
    thread: Thread
    input: RunInput
    meter: Meter
    mode: HistoryMode
    prefix: str
    """Unique prefix of this run's step ids."""

    observer: Observer | None = None
    network: NetworkRun | None = None
    past: Sequence[Message] = ()
    """The messages from before this run, put together once."""

    _present: list[Message] = field(default_factory=list[Message])
    _seen: int = 0

    async def open(self) -> None:
        """Load the thread, remember what is past, and keep and save what the user said."""
        await self.thread.open()
        self.past = tuple(self.state.format_history())
        user = None
        if self.mode == "chronological" and self.input.message.content:
            user = self.input.as_result()
            self.state.append_result(user)
        self._seen = self.state.result_count
        await self.thread.save_user_message(self.input.message, user)

    async def add(self, result: AgentResult) -> None:
        """Append a completed result to the state, and to the thread if its store wants it now."""
        self.state.append_result(result)
        await self.thread.result_done()

    def present(self) -> Sequence[Message]:
        """The messages of this run so far, without what the user said; each is made only once."""
        if self.state.result_count < self._seen:  # somebody replaced the results
            self._seen, self.past = 0, ()
            self._present.clear()
        new = self.state.messages_between(self._seen, self.state.result_count)
        self._present.extend(as_present(message) for message in new)
        self._seen = self.state.result_count
        return self._present

    async def emit(self, event: Event) -> None:
        """Tell the observer; what it raises must not disturb the run."""
        if self.observer is None:
            return
        try:
            await resolve(self.observer(event))
        except Exception:
            logger.exception("An observer failed on %s; the run goes on", type(event).__name__)

    async def settle(self, error: Exception) -> None:
        """Save what was completed before ``error``, once nobody will try the run again."""
        if not self.runtime.is_final(error):
            return
        try:
            await self.thread.save_results()
        except Exception:
            logger.exception("The completed results of a failed run could not be saved")


@dataclass(frozen=True, slots=True)
class RunChanges:
    """What a user's callback may change: the state's data and the network's schedule."""

    state: State[Any]
    network: NetworkRun | None

    def record(self) -> JsonValue:
        """Both as JSON."""
        stack = list(self.network.stack) if self.network is not None else []
        return {"state": self.state.dump(), "stack": stack}

    def replay(self, recorded: JsonValue, /) -> None:
        """Put both to what was recorded."""
        assert isinstance(recorded, dict)
        self.state.load(recorded["state"])
        stack = recorded["stack"]
        if self.network is not None and isinstance(stack, list):
            self.network.stack[:] = [str(name) for name in stack]
