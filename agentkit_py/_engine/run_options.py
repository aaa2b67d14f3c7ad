"""RunOptions: the options of a run, their checks, and the state that a run begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast, get_origin

from typing_extensions import is_typeddict

from agentkit_py._core.spellings import option_hint
from agentkit_py._engine.agent_spec import ModelChoice
from agentkit_py._engine.given_states import refuse_unknown
from agentkit_py._engine.instrumentation import Instrument, StreamingConfig
from agentkit_py._engine.knowledge import KnowledgeFilters
from agentkit_py._engine.limits import RunBudget, RunLimits
from agentkit_py._engine.option_checks import expect, expect_callback, expect_count, expect_model
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.types import Observer
from agentkit_py.history.leases import OnBusy
from agentkit_py.processors.base import Processors
from agentkit_py.runtime.port import Runtime
from agentkit_py.state import State
from agentkit_py.tools.definition import Approver


class RunOptions(TypedDict, total=False):
    """Options of every run; all may be left out."""

    state: State[Any] | Mapping[str, Any] | None
    """State to continue with, or a plain ``{data, results, messages, threadId}``."""

    thread_id: str | None
    """The stored thread to continue."""

    model: ModelChoice
    """Overrides the agents' models: a model, its name, or a function of the context."""

    budget: RunBudget | None
    """The budget that the run uses: ``Budgets(store).of(user="u1")``."""

    max_iter: int | None
    """Another number of inferences than the agent's, or of agent turns than the network's."""

    router: Any
    """Another router than the network's."""

    limits: RunLimits | None
    """Limits of the run's time, inferences, tokens and cost."""

    runtime: Runtime | None
    """The runtime; the ambient runtime unless given."""

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

    processors: Processors | None
    """Processors for this run, in addition to those that are configured; they run after these, for
    each agent."""

    knowledge_filters: KnowledgeFilters | None
    """Filters of each search of knowledge in this run and nested runs, added to the agents' own."""

    on_busy: OnBusy | None
    """Behaviour when another run has the thread; that of the lease unless given."""

    tracing: Instrument | None
    """Measures the run, e.g. `agentkit_py.tracing.Tracing`; else whatever measures all runs."""


_OPTIONS: dict[str, tuple[type, str]] = {
    "thread_id": (str, "a text"),
    "limits": (RunLimits, "RunLimits(…)"),
    "streaming": (StreamingConfig, "StreamingConfig(…)"),
}
_FUNCTIONS = {"observer": "event", "approver": "request"}
"""What functions among them are called with."""

_WITH_METHODS = {
    "budget": ("begin", "the budget of a user or tenant, Budgets(…).of(user=…)"),
    "runtime": ("infer", "a runtime, DirectRuntime(…)"),
    "tracing": ("of_run", "a Tracing(…)"),
}


def check_options(options: RunOptions) -> None:
    """Refuse unknown options of ``run``, and values of the wrong kind.

    Raises:
        ConfigurationError: A value is of the wrong kind, or an option is not known.
    """
    for name, value in options.items():
        if name == "model":
            expect_model("run()", name, value)
        elif name == "max_iter":
            expect_count("run()", name, value)
        elif name in _OPTIONS:
            expect("run()", name, value, *_OPTIONS[name])
        elif name in _FUNCTIONS:
            expect_callback("run()", name, value, _FUNCTIONS[name])
        elif name in _WITH_METHODS and value is not None:
            method, wanted = _WITH_METHODS[name]
            if not hasattr(value, method):
                raise ConfigurationError(f"run(): {name} must be {wanted}, got {value!r:.80}")
    unknown = sorted(options.keys() - RunOptions.__optional_keys__)
    if unknown:
        known = ", ".join(sorted(RunOptions.__optional_keys__))
        hint = option_hint(unknown[0], RunOptions.__optional_keys__)
        said = f"run() has no option {unknown[0]!r}" + (f": {hint}" if hint else "")
        raise ConfigurationError(f"{said}; it has {known}")


def new_state(name: str, state_type: type[Any]) -> State[Any]:
    """Return the state with which runs of an agent or network begin that are given none.

    Raises:
        ConfigurationError: The type cannot be made without arguments.
    """
    try:
        return State(state_type())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"run() of {name!r} needs state=State({state_type.__name__}(…)), since "
            f"{state_type.__name__}() alone does not work: {error}"
        ) from error


def typed_state(name: str, state: State[Any], state_type: type[Any]) -> None:
    """Validate the state's data as ``state_type`` if it is a dict, as clients send it.

    Raises:
        ConfigurationError: It is of another type, or does not fit.
    """
    data: object = state.data
    wanted = get_origin(state_type) or state_type
    # A TypedDict has no instances but dicts.
    if is_typeddict(wanted) or isinstance(data, wanted):
        return
    if isinstance(data, dict):
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - slow to load

        refuse_unknown(name, wanted, cast("dict[str, Any]", data))
        try:
            state.replace_data(TypeAdapter(wanted).validate_python(data))
        except ValidationError as error:
            raise ConfigurationError(
                f"run() of {name!r}: its state does not fit {wanted.__name__}: {error}"
            ) from error
        return
    raise ConfigurationError(
        f"run() of {name!r}: its state's data must be a {wanted.__name__} (state_type), "
        f"got {data!r:.80}"
    )


def as_state(given: object) -> State[Any]:
    """Return the state that a run was given, as an object or as a dict.

    Raises:
        ConfigurationError: The value is not a state.
    """
    state: object = given
    if isinstance(given, Mapping):
        state = State.from_dict(cast("Mapping[str, Any]", given))
    if not isinstance(state, State):
        raise ConfigurationError(f"state must be a State or a dict, got {state!r:.80}")
    return cast("State[Any]", state)


def enter_thread(state: State[Any], thread_id: str) -> None:
    """Make a run's state that of a thread.

    Raises:
        ConfigurationError: It is of another thread.
    """
    if state.thread_id not in (None, thread_id):
        raise ConfigurationError(
            f"thread_id={thread_id!r} was given with a state of thread {state.thread_id!r}"
        )
    state.enter_thread(thread_id)
