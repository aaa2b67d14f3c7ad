"""What the engine does for processors: model calls, steps, announcements; durable like its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentkit_py._core.json import JsonValue
from agentkit_py.events.types import ContextActivity
from agentkit_py.messages import Message
from agentkit_py.models.base import Model, ModelReply, ModelRequest
from agentkit_py.processors.base import Stage

if TYPE_CHECKING:
    from agentkit_py._engine.scope import RunScope


class _NoChanges:
    """What a processor's step may change beside its result: nothing."""

    def begin(self) -> None:
        """Nothing to remember."""

    def record(self, before: Any, /) -> JsonValue:  # noqa: ARG002 - the port's shape
        """Nothing changed."""
        return None

    def replay(self, recorded: JsonValue, /) -> None:
        """Nothing to apply."""


@dataclass(slots=True, kw_only=True)
class TurnHost:
    """Serves the processors of one inference."""

    scope: RunScope
    run_id: str
    name: str
    """The agent's name."""

    message_id: str
    path: str
    """Step id prefix of the inference."""

    _counts: dict[str, int] = field(default_factory=dict[str, int], init=False)

    def step_id(self, name: str) -> str:
        """``name`` behind the inference's prefix, counted where it comes again."""
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return f"{self.path}.{name}" if count == 1 else f"{self.path}.{name}:{count}"

    def new_id(self, key: str) -> str:
        """An id of the runtime's."""
        return self.scope.runtime.new_id(key)

    def now(self, key: str) -> datetime:
        """The runtime's time."""
        return self.scope.runtime.now(f"{self.path}.{key}")

    async def ask_model(
        self, step_id: str, model: Model, messages: Sequence[Message]
    ) -> ModelReply:
        """Ask a model; the run's meter counts it."""
        request = ModelRequest(messages=tuple(messages), agent=self.name)
        with self.scope.watching(step_id, model, request, self.run_id):
            body = await self.scope.runtime.infer(step_id, model, lambda: model.encode(request))
        reply = model.decode(body)
        self.scope.meter.add(model.model, reply.usage)
        return reply

    async def once(self, step_id: str, handler: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run ``handler`` in a step."""
        return await self.scope.runtime.effect(step_id, handler, _NoChanges())

    async def announce(self, activity: str, stage: Stage, facts: dict[str, Any]) -> None:
        """Tell observers and streams."""
        await self.scope.emitter.emit(
            ContextActivity(
                run_id=self.run_id,
                name=self.name,
                message_id=self.message_id,
                activity=activity,
                stage=stage,
                facts=facts,
            )
        )
