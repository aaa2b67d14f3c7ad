"""What every run may be told, and the scope that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from agentkit_py._engine.approvals import Approver
from agentkit_py._engine.changes import RunChanges
from agentkit_py._engine.checking import check_options
from agentkit_py._engine.emitter import Emitter, StreamingConfig
from agentkit_py._engine.inputs import RunInput, state_of
from agentkit_py._engine.limits import NO_LIMITS, Meter, RunLimits
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.spans import Spans, spans_of_run
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.types import Observer
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.thread import Thread
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model
from agentkit_py.runtime.current import choose_runtime
from agentkit_py.runtime.port import Runtime
from agentkit_py.state import State


class RunOptions(TypedDict, total=False):
    """Options of every run; all may be left out."""

    state: State[Any] | Mapping[str, Any] | None
    """State to go on with, or a plain ``{data, results, messages, threadId}``."""

    thread_id: str | None
    """The stored thread to go on with."""

    model: Model | None
    """Overrides the agents' models."""

    limits: RunLimits | None
    """How long, how often and for how much the run may go on."""

    runtime: Runtime | None
    """Another runtime than the ambient one."""

    ctx: object
    """The context of the Inngest function it runs in; the middleware finds it by itself."""

    require_durable: bool
    """Refuse to run outside of an Inngest function."""

    approver: Approver | None
    """Asks a person in this process where a tool needs approval; else the runtime does."""

    observer: Observer | None
    """Gets each event of the run, in order."""

    streaming: StreamingConfig | None
    """Streams the run to a front end."""

    tracing: Spans | None
    """Measures the run, e.g. `agentkit_py.tracing.Tracing`; else whatever measures all runs."""


def new_scope(
    name: str,
    input: str | UserMessage,  # noqa: A002 - TypeScript's name
    options: RunOptions,
    *,
    history: HistoryConfig | None,
    mode: HistoryMode,
    default_state: State[Any] | None = None,
    tokens: bool = False,
) -> RunScope:
    """The scope of a run of the agent or network ``name``.

    Raises:
        ConfigurationError: An option is not known, or input or state cannot be used.
    """
    _check(options)
    runtime = choose_runtime(
        options.get("runtime"),
        context=options.get("ctx"),
        require_durable=options.get("require_durable", False),
    )
    prefix = runtime.claim(name)
    given = RunInput.of(input, runtime, prefix)
    state = state_of(options.get("state"), default_state, options.get("thread_id"))
    changes = RunChanges(state)
    return RunScope(
        runtime=runtime,
        state=state,
        thread=Thread(history, state, given.text, runtime, prefix, changes),
        changes=changes,
        history=history,
        resumes=options.get("state") is None,
        input=given,
        meter=Meter(options.get("limits") or NO_LIMITS, runtime.now(f"{prefix}/start")),
        mode=mode,
        prefix=prefix,
        approver=options.get("approver"),
        spans=spans_of_run(options.get("tracing"), runtime),
        emitter=Emitter(runtime, options.get("observer"), options.get("streaming"), tokens),
    )


_KNOWN = RunOptions.__optional_keys__ | {"router", "max_iter"}


def _check(options: RunOptions) -> None:
    if not options:
        return
    check_options(dict(options))
    unknown = sorted(options.keys() - _KNOWN)
    if unknown:
        raise ConfigurationError(
            f"run() has no option {unknown[0]!r}; it has {', '.join(sorted(_KNOWN))}"
        )
