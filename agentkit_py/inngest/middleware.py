"""AgentKitMiddleware: gives each execution of a client's functions its runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, get_args

import inngest

from agentkit_py._engine.option_checks import expect_one_of
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
)
from agentkit_py.inngest import steps
from agentkit_py.inngest.outputs import returned_json
from agentkit_py.inngest.realtime import Publish
from agentkit_py.inngest.runtime import DEFAULT_ATTEMPTS, Inference, InngestRuntime, runtime_of
from agentkit_py.runtime.current import (
    set_ambient,
)
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.replay import OnVersionMismatch, Versioning

_NESTED = "Nested steps are not supported."
"""The SDK's error of a step inside a step."""


_RUN_IN_A_STEP = (
    "A run is inside your ctx.step.run(…), but its model calls and tools are steps "
    "themselves. Write await agent.run(…) without a step around it; or, to run all of it in "
    "your step, agent.run(…, runtime=DirectRuntime()) with DirectRuntime of "
    "agentkit_py.runtime.direct."
)


class AgentKitMiddleware(inngest.Middleware):
    """Middleware for the client, which makes `network.run(…)` inside its functions durable.

    Example:
        ::

            client = inngest.Inngest(app_id="support", middleware=[AgentKitMiddleware])

    Use `AgentKitMiddleware.configured(…)` for other settings than the defaults.
    """

    inference: Inference = "local"
    publish: Publish | None = None
    local: DirectRuntime | None = None
    versioning: Versioning = Versioning()
    _runtime: InngestRuntime | None = None

    @classmethod
    def configured(
        cls,
        *,
        inference: Inference = "local",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
        version: str | None = None,
        on_version_mismatch: OnVersionMismatch = "continue",
    ) -> Callable[[inngest.Inngest, object], AgentKitMiddleware]:
        """Return the middleware with settings of its own.

        Args:
            inference: ``"offload"``: the Inngest server calls the model; prompts, replies and the
                API key pass through it, and a provider that answers something else than JSON leaves
                the run running for ever. ``"local"``: this process
                does, inside a step (the key stays here, errors keep their body, tokens stream).
            publish: Sends streaming chunks, e.g. `agentkit_py.inngest.realtime.publisher(…)`.
            local: The runtime that sends local requests, with its own keys or transport.
            version: The version of your code, as you count it. It is compared in addition to the
                fingerprint of the agents' definitions, which does not cover all code.
            on_version_mismatch: The reaction of a run that began under another version or
                definition: ``"continue"`` where nothing would be done twice or lost, or ``"fail"``.

        Raises:
            ConfigurationError: ``inference`` or ``on_version_mismatch`` is not a known word.
        """
        where = "AgentKitMiddleware.configured"
        expect_one_of(where, "inference", inference, get_args(Inference))
        known = get_args(OnVersionMismatch)
        expect_one_of(where, "on_version_mismatch", on_version_mismatch, known)

        def make(client: inngest.Inngest, raw_request: object) -> AgentKitMiddleware:
            made = cls(client, raw_request)
            made.inference, made.publish, made.local = inference, publish, local
            made.versioning = Versioning(version, on_version_mismatch)
            return made

        return make

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],
        steps: inngest.StepMemos,
    ) -> None:
        """Make this execution's runtime the ambient runtime."""
        if isinstance(ctx, inngest.ContextSync):
            return  # agents are async; a sync function runs them with run_sync, undurably
        refuse_unencrypted(self.inference, self.client.middleware)
        # A function's own middleware comes after the client's and wins.
        self._runtime = runtime_of(
            ctx,
            inference=self.inference,
            publish=self.publish,
            local=self.local,
            remembered=steps,
            attempts=_attempts(function),
            client=self.client,
            versioning=self.versioning,
        )
        set_ambient(self._runtime)

    async def transform_output(self, result: inngest.TransformOutputResult) -> None:
        """Convert our errors to the SDK's, also errors that the function raised.

        An error of the guard ends the request: errors raised here are the function's.
        """
        if self._runtime is None:
            return
        self._runtime.check(result)
        if result.error is None and result.has_output():
            try:
                result.output = returned_json(result.output, is_step=result.step is not None)
            except AgentKitError as error:  # another attempt would return the same
                raise self._runtime.to_caller_error(error) from error
        error = result.error
        if error is not None and str(error) == _NESTED:
            result.error = inngest.NonRetriableError(_RUN_IN_A_STEP)
        if not isinstance(error, AgentKitError):
            return
        # A step may be retried for errors that end a run, such as an overloaded model.
        if result.step is None or steps.is_final(error):
            result.error = self._runtime.to_caller_error(error)


def refuse_unencrypted(inference: Inference, middleware: Sequence[object]) -> None:
    """Refuse encryption where the server calls models, since it must read their requests.

    Raises:
        ConfigurationError: The client has `EncryptionMiddleware`, and ``inference="offload"``.
    """
    names = [getattr(one, "__module__", "") for one in middleware]
    if inference == "offload" and any(name.startswith("inngest_encryption") for name in names):
        raise ConfigurationError(
            "EncryptionMiddleware hides outputs of steps from the server, but with "
            'inference="offload" the server asks the models, and sees prompts, replies and keys. '
            'Use inference="local".'
        )


@lru_cache(maxsize=256)
def _attempts(function: inngest.Function[Any]) -> int:
    """Return the number of attempts that the server makes at a function."""
    retries = function.get_config("http://127.0.0.1").main.steps["step"].retries
    return DEFAULT_ATTEMPTS if retries is None else retries.attempts + 1
