"""The runtime of the playground's runs: it sees what is really sent, and what callbacks change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

from agentkit_py._core.json import dumps
from agentkit_py.models.base import Model, StreamingAdapter
from agentkit_py.models.http_errors import redact
from agentkit_py.playground.recorder import Recorder, data_of
from agentkit_py.runtime.direct import DirectRuntime, DirectSteps
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable
from agentkit_py.state import State

T = TypeVar("T")


class _Steps(DirectSteps):
    """Steps that tell of waits."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait."""
        self._recorder.tell("wait.began", step=step_id)
        await super().sleep(step_id, duration)
        self._recorder.tell("wait.ended", step=step_id)


class RecordingRuntime(DirectRuntime):
    """The direct runtime, with a witness of what is sent and what callbacks change."""

    def __init__(self, recorder: Recorder) -> None:
        """Tell ``recorder``."""
        super().__init__()
        self._recorder = recorder
        self._witnessed = _Steps(recorder)
        self._claimed: dict[str, int] = {}

    @property
    def step(self) -> DirectSteps:
        """Steps that simply happen, waits among them told."""
        return self._witnessed

    def claim(self, name: str) -> str:
        """A prefix that no other run inside this one has, so that steps name calls."""
        count = self._claimed[name] = self._claimed.get(name, 0) + 1
        return name if count == 1 else f"{name}:{count}"

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Send the request, and keep what was sent and what came back."""
        call = self._recorder.asked(step_id, model)
        call.streamed = on_delta is not None and can_stream(model)
        key = self.key_of(model)

        def made() -> dict[str, Any]:
            body = make_body()
            call.request = request_text(model, body, key, streamed=call.streamed)
            return body

        try:
            reply = await super().infer(step_id, model, made, on_delta)
        except Exception as error:
            self._recorder.failed(call, error)
            raise
        self._recorder.answered(call, reply, key)
        return reply

    def key_of(self, model: Model) -> str | None:
        """The key that is sent with requests, so that it can be left out of what is shown."""
        if model.respond is not None or not model.key_required:
            return model.api_key
        return self.api_key(model)

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Call ``handler``, and tell what it changed of the state."""
        key = self._recorder.effect_began(step_id)
        state: object = getattr(changes, "state", None)
        watched = cast("State[Any]", state) if isinstance(state, State) else None
        before = None if watched is None else data_of(watched)
        try:
            return await super().effect(step_id, handler, changes, codec)
        finally:  # nothing durable runs here
            after = None if watched is None else data_of(watched)
            self._recorder.effect_ended(key, step_id, before, after)


def can_stream(model: Model) -> bool:
    """Whether replies of the model are streamed to who listens."""
    return model.respond is None and isinstance(model.adapter, StreamingAdapter)


def request_text(
    model: Model, body: dict[str, Any], key: str | None, *, streamed: bool = False
) -> str:
    """The JSON of a request as it is sent, without the key and what looks like one."""
    adapter = model.adapter
    sent = adapter.stream_body(body) if streamed and isinstance(adapter, StreamingAdapter) else body
    return redact(dumps(sent), model, key)
