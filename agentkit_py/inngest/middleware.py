"""The middleware by which runs inside a function find their runtime by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inngest

from agentkit_py.errors import AgentKitError
from agentkit_py.inngest.live import Publish
from agentkit_py.inngest.outputs import is_final
from agentkit_py.inngest.runtime import Inference, InngestRuntime, runtime_of
from agentkit_py.runtime.current import set_ambient
from agentkit_py.runtime.direct import DirectRuntime


class AgentKitMiddleware(inngest.Middleware):
    """Give it to the client, and `network.run(…)` inside its functions is durable.

    Example:
        ::

            client = inngest.Inngest(app_id="support", middleware=[AgentKitMiddleware])

    Use `AgentKitMiddleware.configured(…)` for other settings than the defaults.
    """

    inference: Inference = "offload"
    publish: Publish | None = None
    local: DirectRuntime | None = None
    _runtime: InngestRuntime | None = None

    @classmethod
    def configured(
        cls,
        *,
        inference: Inference = "offload",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
    ) -> Callable[[inngest.Inngest, object], AgentKitMiddleware]:
        """The middleware with settings of its own.

        Args:
            inference: ``"offload"``: the Inngest server calls the model; ``"local"``: this process
                does, inside a step (the key stays here, errors keep their body, tokens stream).
            publish: Sends streaming chunks, e.g. `agentkit_py.inngest.realtime.publisher(…)`.
            local: The runtime that sends local requests, with its own keys or transport.
        """

        def make(client: inngest.Inngest, raw_request: object) -> AgentKitMiddleware:
            made = cls(client, raw_request)
            made.inference, made.publish, made.local = inference, publish, local
            return made

        return make

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],  # noqa: ARG002 - the SDK's signature
        steps: inngest.StepMemos,  # noqa: ARG002
    ) -> None:
        """Make this execution's runtime the ambient one."""
        if isinstance(ctx, inngest.ContextSync):
            return  # agents are async; a sync function runs them with run_sync, undurably
        options = {"inference": self.inference, "publish": self.publish, "local": self.local}
        # A function's own middleware comes after the client's and wins.
        self._runtime = runtime_of(ctx, **options)
        set_ambient(self._runtime)

    async def transform_output(self, result: inngest.TransformOutputResult) -> None:
        """Say in the SDK's words what our errors mean, also those that the function raised."""
        error = result.error
        if not isinstance(error, AgentKitError) or self._runtime is None:
            return
        # A step may be tried again for what ends a run, such as a model that is overloaded.
        if result.step is None or is_final(error):
            result.error = self._runtime.outward(error)
