"""Mistakes in programs that the library refuses: the program is then written as the refusal says.

Where a refusal is taken away, the exploration finds what the mistake costs.
"""

from __future__ import annotations

from typing import Any, cast

import inngest

from agentkit_py import ToolContext, tool
from agentkit_py.errors import ConfigurationError, StateError
from agentkit_py.inngest import FunctionOptions
from agentkit_py.tools.values import data_content
from tests.durable.small_states import EVENT, Executor, Fault, World

_MESSAGE, _THREAD = "event.data.input.id", "event.data.threadId"


class Server(Executor):
    """A server that begins one run of a function for each key of its events."""

    idempotency: str | None = None

    def begin(self, function: str, event: dict[str, Any], invoked_by: Any = None) -> Any:
        """Begin a run of a function, unless there was one with the same key."""
        key = self._key(event)
        known = [run for run in self.runs if run.function == function]
        if key is None or all(self._key(run.events[0]) != key for run in known):
            return super().begin(function, event, invoked_by)
        return known[0]

    def _key(self, event: dict[str, Any]) -> object:
        if self.idempotency is None or event["name"] != EVENT:
            return None
        if self.idempotency == _THREAD:
            return event["data"]["threadId"]
        return event["data"]["input"]["id"]


class Continued(World):
    """A run that continues in a new run, beside an option that drops events."""

    executor_type = Server

    def options(self, version: str) -> FunctionOptions:
        """Return the options, with a key of each message where that of a thread is refused."""
        del version
        for key in (_THREAD, _MESSAGE):
            try:
                made = FunctionOptions(continue_as_new=10, idempotency=key)
            except ConfigurationError:
                continue
            self.idempotency = key
            return made
        raise AssertionError("no key is taken")

    def __init__(self, program: str, *, leased: bool) -> None:
        super().__init__(program, leased=leased)
        cast("Server", self.executor).idempotency = self.idempotency


class Strict(World):
    """Functions whose waiting runs end where other code was deployed."""

    def options(self, version: str) -> FunctionOptions:
        """Return the options, spelled right where the wrong word is refused."""
        word: Any = "fial"
        try:
            return FunctionOptions(version=version, on_version_mismatch=word)
        except ConfigurationError:
            return FunctionOptions(version=version, on_version_mismatch="fail")

    async def check_end(self) -> None:
        """Check that no run has gone on with code of another version."""
        first = self.executor.runs[0]
        if self.marks.crossed:
            assert first.status == "failed", "a run went on, though its functions say to fail"
        else:
            await super().check_end()


class OwnFunction(World):
    """A function of the user's own that runs the network, and has steps after it."""

    def functions(self, version: str) -> list[inngest.Function[Any]]:
        """Make the functions of a version."""
        network = self.network(version)

        async def nothing() -> int:
            return 1

        @self.client.create_function(fn_id="own", trigger=inngest.TriggerEvent(event=EVENT))
        async def own(ctx: inngest.Context) -> None:
            try:
                await network.run("Pay.")
            except ConfigurationError:  # it says how
                await network.run("Pay.", ctx=ctx)
            for number in range(2):
                await ctx.step.run(f"after {number}", nothing)

        return [own]

    async def check_end(self) -> None:
        """Check that the run has ended well, and nothing is lost."""
        (run,) = self.executor.runs
        assert run.status == "completed", run.error
        self.check_made()


class Bytes(World):
    """A tool that gives bytes, which are no text."""

    def tool(self, name: str) -> Any:
        """Make a tool with an effect."""

        async def act(ctx: ToolContext) -> bytes:
            self.marks.effects[f"{name} {ctx.step.idempotency_key}"] += 1
            return b"\xff\xfe"

        return tool(name=name, description=name)(act)


def _nothing(*_: Any) -> None:
    """Refuse nothing."""


def _refused_bytes(name: str, value: object) -> Any:
    """Let a run end by what a tool returned, once it has acted."""
    if isinstance(value, bytes):
        raise StateError("The result holds bytes that are no text")
    return data_content(name, value)


FAULTS: dict[str, Fault] = {
    "a server drops the event by which a run continues": Fault(
        "long", 0, (), {"agentkit_py.inngest.flow.FunctionOptions._check_continues": _nothing},
        Continued,
    ),
    "a run ends by the bytes that a tool returned": Fault(
        "call", 0, (), {"agentkit_py._engine.tool_calls.data_content": _refused_bytes}, Bytes,
    ),
    "a word of a closed set is taken as it is": Fault(
        "call", 1, ("deploy new",), {
            "agentkit_py.inngest.flow.expect_one_of": _nothing,
            "agentkit_py.inngest.middleware.expect_one_of": _nothing,
            "agentkit_py.runtime.replay.Versioning.__post_init__": _nothing,
        }, Strict,
    ),
    "a function without the middleware repeats its network": Fault(
        "call", 0, (), {"agentkit_py.runtime.current._refuse_undurable": _nothing}, OwnFunction,
    ),
}  # fmt: skip
"""By name; each is found, and without it nothing is."""
