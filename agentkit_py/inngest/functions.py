"""Agents and networks as Inngest functions, and Inngest functions as tools."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast, get_args

import inngest
from pydantic import BaseModel

from agentkit_py._core.json import as_object
from agentkit_py._core.spellings import explained
from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.validation import slugify
from agentkit_py._engine.agent_run import ENDS_IN_ORDER
from agentkit_py._engine.limits import MAX_STEPS
from agentkit_py._engine.option_checks import expect_items, expect_method, expect_one_of, wrong
from agentkit_py.agent import Agent
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    OutputError,
    ToolDefinitionError,
)
from agentkit_py.events.chunks import for_hook, without_details
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.leases import STEERED
from agentkit_py.history.runs import execution_of
from agentkit_py.inngest.flow import FunctionOptions
from agentkit_py.inngest.middleware import AgentKitMiddleware, refuse_unencrypted
from agentkit_py.inngest.outputs import run_json
from agentkit_py.inngest.realtime import (
    Publish,
    Realtime,
    StoreChannel,
    publisher,
    unless_stopped,
)
from agentkit_py.inngest.runtime import Inference, runtime_of
from agentkit_py.inngest.sending import cancel_by_event, stop_function
from agentkit_py.inngest.steps import from_exact, refuse_rounded, to_exact
from agentkit_py.lifecycle.network_run import output_json
from agentkit_py.messages import UserMessage
from agentkit_py.network import Network, Target, on_history
from agentkit_py.results import USER, AgentResult
from agentkit_py.runs import RunLimits, StreamingConfig
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.state import State
from agentkit_py.stores.base import thread_store
from agentkit_py.stores.wrappers import for_user
from agentkit_py.tools import Tool, ToolContext, create_tool
from agentkit_py.tools.definition import inngest_tool_maker

logger: logging.Logger = get_logger("agentkit_py.inngest")

GOES_ON_WITH = "goesOnWith"
"""The key of an event's data with values that are set over the data of the thread's last run."""

_CONTINUED = re.compile(r"-continued(?:-([0-9]{1,9}))?\Z")

FunctionHandler: TypeAlias = Callable[[inngest.Context], Awaitable[dict[str, Any]]]


@explained
def create_functions(
    client: inngest.Inngest,
    *,
    agents: Sequence[Agent[Any, Any]] = (),
    networks: Sequence[Network[Any, Any]] = (),
    options: Mapping[str, FunctionOptions] | None = None,
    inference: Inference = "local",
    realtime: bool | Realtime = False,
    local: DirectRuntime | None = None,
) -> list[inngest.Function[Any]]:
    """Make Inngest functions of agents and networks, to be served by any of the SDK's frameworks.

    An agent becomes ``agent-{slug}``, a network ``network-{slug}``; each is started by the event
    ``{app_id}/{function id}`` and returns ``{threadId, text, stopReason, state, results}``. The
    event's data:

    - ``input``: a text, or a user message ``{content, id?, state?, clientTimestamp?,
      systemPrompt?}``.
    - ``threadId``: the thread to continue.
    - ``userId``: whose run it is. It opens only this user's threads (see
      `agentkit_py.stores.for_user`); any other is not found, and the run fails. Without it the
      event speaks for the application and opens every thread. Callbacks of a `HistoryConfig` of
      your own check for themselves.
    - ``state``: the state's data, or a whole state ``{data?, messages?, results?}``. Messages and
      results are the client's history, as in ``network.run(state=…)``: the thread is not loaded.
      Without it the run continues with the data of the thread's last run, where the store has a
      ``lease``.
    - ``onBusy``: as in ``network.run(on_busy=…)``; the lease's unless given.

    The server rounds integers beyond 2^53: in ``input`` and ``state`` they are refused, unless they
    are written as ``{"$number": "1150000000000000001"}``, as the output writes them.

    Of a message that came again while the run that has it waits, the output has an empty ``text``,
    the ``stopReason`` ``"steered"``, and in ``answeredBy`` the id of the run that answers it.

    The event `CANCEL_EVENT` with the same thread and user stops the run. Where there is a store,
    another function adds the work of stopped runs to their threads: see `stop_function`.

    Args:
        client: The SDK's client.
        agents: Agents that run by themselves.
        networks: Networks.
        options: Options by the agent's or network's name.
        inference: Who calls the models: see `AgentKitMiddleware.configured`.
        realtime: Stream where the event names a user. True or ``"inngest"``: to the channel
            ``user:{data.userId}`` of Inngest's realtime. ``"store"``: through the store of the
            threads (SQLite or PostgreSQL), for an API with ``create_app(…, realtime="store")``,
            which then serves every front end as if the runs were its own.
        local: The runtime that sends local requests.

    Raises:
        ConfigurationError: ``inference`` or ``realtime`` has an unknown value, options for a name
            that is unknown, two names with the same slug, encryption
            that ``inference="offload"`` would go round, or a store that carries no streams.
    """
    where = "create_functions"
    if cast("object", client) is None:
        raise wrong(where, "client", "an inngest.Inngest(…)", client)
    expect_method(where, "client", client, "create_function", "an inngest.Inngest(…)")
    expect_items(where, "agents", agents, Agent, "Agent")
    expect_items(where, "networks", networks, Network, "Network")
    if local is not None and not isinstance(cast("object", local), DirectRuntime):
        raise wrong(where, "local", "a DirectRuntime(…)", local)
    for name, given in _options_of(options).items():
        if not isinstance(given, FunctionOptions):
            raise wrong(where, f"options[{name!r}]", "FunctionOptions(…)", given)
    expect_one_of("create_functions", "inference", inference, get_args(Inference))
    expect_one_of("create_functions", "realtime", realtime, (False, True, *get_args(Realtime)))
    named = [("agent", agent) for agent in agents] + [("network", net) for net in networks]
    chosen = dict(options or {})
    _check_names([item.name for _, item in named], chosen)
    made: list[inngest.Function[Any]] = []
    if realtime == "store":
        _check_carries([item for _, item in named])
    for kind, item in named:
        own = chosen.get(item.name, FunctionOptions())
        refuse_unencrypted(inference, [*client.middleware, *(own.middleware or ())])
        middleware = AgentKitMiddleware.configured(
            inference=inference,
            local=local,
            version=own.version,
            on_version_mismatch=own.on_version_mismatch,
        )
        made.append(_function(client, kind, item, own, middleware, realtime))
    stores = {id(item.history): item.history for _, item in named}
    kept = [s for s in map(thread_store, stores.values()) if s and s.abilities.runs]
    if not kept:
        return made
    return [*made, stop_function(client, kept, made, streams=realtime == "store")]


def _options_of(options: object) -> Mapping[str, object]:
    """Return options by name.

    Raises:
        ConfigurationError: They are not a mapping.
    """
    if options is not None and not isinstance(options, Mapping):
        raise wrong("create_functions", "options", "a dict of FunctionOptions by name", options)
    return cast("Mapping[str, object]", options or {})


def _check_carries(targets: Sequence[Target]) -> None:
    for item in targets:
        store = thread_store(item.history)
        if store is None or store.broadcast() is None:
            raise ConfigurationError(
                f'realtime="store": the history of {item.name!r} carries no streams from one '
                f"process to another; use SqliteHistory (one machine) or PostgresHistory, not "
                f"{item.history!r:.80}"
            )


def _check_names(names: list[str], options: Mapping[str, FunctionOptions]) -> None:
    unknown = sorted(options.keys() - set(names))
    if unknown:
        raise ConfigurationError(
            f"options has {unknown[0]!r}, which is not an agent or network here: {', '.join(names)}"
        )
    slugs: dict[str, str] = {}
    for name in names:
        slug = slugify(name)
        if not slug or slug in slugs:
            raise ConfigurationError(
                f"{name!r} and {slugs.get(slug, '(nothing)')!r} would have the same function id "
                f"{slug!r}"
            )
        slugs[slug] = name


def _function(
    client: inngest.Inngest,
    kind: str,
    item: Target,
    options: FunctionOptions,
    middleware: Any,
    realtime: bool | Realtime,  # noqa: FBT001 - internal
) -> inngest.Function[Any]:
    function_id = f"{kind}-{slugify(item.name)}"
    kwargs = options.to_kwargs()
    kwargs["middleware"] = [middleware, *kwargs.get("middleware", [])]
    kwargs["cancel"] = [*kwargs.get("cancel", []), cancel_by_event()]
    kwargs.setdefault("name", item.name)
    return client.create_function(
        fn_id=function_id,
        trigger=inngest.TriggerEvent(event=f"{client.app_id}/{function_id}"),
        **kwargs,
    )(_handler(client, item, realtime=realtime, most_steps=options.continue_as_new))


def _handler(
    client: inngest.Inngest,
    item: Target,
    *,
    realtime: bool | Realtime,
    most_steps: int | None,
) -> FunctionHandler:
    async def handler(ctx: inngest.Context) -> dict[str, Any]:
        data = ctx.event.data
        given, state, user = _read(data, item)
        history, begun = item.history, len(state.transcript)
        loads = history is not None and history.get is not None and not state.is_seeded
        opened = item if user is None else _for_user(item, user)
        streaming = None
        if realtime and user is not None:
            through_store = realtime == "store"
            raw = _through_store(item, user, data, ctx.run_id) if through_store else None
            streaming = _streaming(ctx, raw or publisher(client, user), user)
        options: dict[str, Any] = {"ctx": ctx, "state": state, "streaming": streaming}
        options["on_busy"] = data.get("onBusy")
        if most_steps is not None:
            options["limits"] = RunLimits(max_steps=most_steps)
        if isinstance(opened, Network):
            run = await opened.run(given, **options)
            output = run_json(run.to_dict())
        else:
            result = await _result_of(opened.run(given, **options))
            own = _of_this_run(state)
            output = run_json(output_json(state, result.text, result.stop_reason, own))
        if output["stopReason"] == STEERED:
            return {**output, **await _who_answers(ctx, opened.history, state.thread_id, given)}
        if most_steps is None or output["stopReason"] != MAX_STEPS:
            return output
        carried = None
        if not loads:
            carried = _whole(state, item, given, begun)
        elif history is None or history.lease is None:
            carried = {"data": state.dump()}
        return {**output, "continuedAs": await _continue_as_new(client, ctx, item, state, carried)}

    return handler


def _streaming(ctx: inngest.Context, raw: Publish, user: str) -> StreamingConfig:
    """Return how a run is streamed to its user."""
    data = ctx.event.data
    send = unless_stopped(_for_hook(raw), user, cast("Any", data.get("threadId")))
    if "answerableBy" in data:  # sent by the HTTP API, for a browser
        send = _for_strangers(send)
    return StreamingConfig(
        publish=_held_back(ctx, send),
        extended=data.get("extended") is not False,
        error_texts=False,
    )


async def _who_answers(
    ctx: inngest.Context, store: object, thread_id: str | None, given: str | UserMessage
) -> dict[str, str]:
    """Return the run that answers a repeated message, for the output of the second run."""
    runs = abilities_of(store).runs
    if isinstance(given, str) or thread_id is None or runs is None:
        return {}
    message_id = str(given.id)

    async def look() -> str | None:
        known = await runs.load_run(thread_id, message_id)
        execution = None if known is None or known.owner is None else execution_of(known.owner)
        if execution is not None:
            said = "Message %r of thread %r is with run %s, which waits and will answer it"
            logger.info(said, message_id, thread_id, execution)
        return execution

    execution = await runtime_of(ctx).step.run("agentkit.answered-by", look)
    return {} if execution is None else {"answeredBy": execution}


async def _result_of(run: Awaitable[Any]) -> Any:
    """Return an agent's result, also if its run ends normally without the agent's output."""
    try:
        return await run
    except (OutputError, inngest.NonRetriableError) as error:
        cause = error if isinstance(error, OutputError) else error.__cause__
        if not isinstance(cause, OutputError) or cause.reason not in ENDS_IN_ORDER:
            raise
        return cause.result


def _whole(state: State[Any], item: Target, given: str | UserMessage, begun: int) -> dict[str, Any]:
    """Return a state that no thread has; TypeScript's state does not hold the user's message."""
    message = UserMessage(given) if isinstance(given, str) else given
    if item.history_mode == "typescript" and message.content:
        when = message.client_timestamp or datetime.now(UTC)
        said = AgentResult.from_user(message.content, id=message.id, created_at=when)
        entries = state.transcript
        state.set_transcript([*entries[:begun], said, *entries[begun:]])
    return state.to_dict()


async def _continue_as_new(
    client: inngest.Inngest,
    ctx: inngest.Context,
    item: Target,
    state: State[Any],
    carried: Mapping[str, Any] | None,
) -> str:
    """Start the function again where this run ends; return the event's id.

    What is ``carried`` is the state; None: the thread's, which other runs may change first.
    """
    kind = "network" if isinstance(item, Network) else "agent"
    given = as_object(ctx.event.data.get("input")) or {}
    # The user's message is in the thread. The id derives from the message's, so that a message that
    # comes twice continues once.
    message = {"content": "", "id": _next_id(str(given.get("id") or ctx.run_id))}
    if "systemPrompt" in given:
        message["systemPrompt"] = given["systemPrompt"]
    data = {
        **ctx.event.data,
        "input": message,
        "threadId": state.thread_id,
        "state": to_exact(carried, floats=False),
    }
    data.pop(GOES_ON_WITH, None)
    event = inngest.Event(
        name=f"{client.app_id}/{kind}-{slugify(item.name)}", data=data, id=f"{ctx.run_id}-continued"
    )
    (event_id,) = await runtime_of(ctx).step.send_event("continue-as-new", [event])
    return event_id


def _next_id(message_id: str) -> str:
    """Return the id of the message that continues this message's run, as long as the first id."""
    found = _CONTINUED.search(message_id)
    if found is None:
        return f"{message_id}-continued"
    return f"{message_id[: found.start()]}-continued-{int(found[1] or 1) + 1}"


def _through_store(item: Target, user: str, data: Mapping[str, Any], run_id: str) -> Publish:
    store = thread_store(item.history)
    assert store is not None
    channel = StoreChannel.of(store)
    assert channel is not None
    given = as_object(data.get("input")) or {}
    answers = given.get("id") if given.get("content") else None
    return channel.publisher(user, answers if isinstance(answers, str) else None, run_id)


def _for_hook(send: Publish) -> Publish:
    async def publish(chunk: dict[str, Any]) -> None:
        await send(for_hook(chunk))

    return publish


def _for_strangers(send: Publish) -> Publish:
    async def publish(chunk: dict[str, Any]) -> None:
        await send(without_details(chunk))

    return publish


def _held_back(ctx: inngest.Context, send: Any) -> Any:
    """Return a publish that goes through the runtime, which recognises repetitions of a replay."""
    runtime = runtime_of(ctx)
    runtime.publish_with(send)
    return runtime.publish


def _for_user(item: Target, user_id: str) -> Target:
    """Return ``item`` on its store restricted to a user, and with nothing else changed."""
    store = thread_store(item.history)
    return item if store is None else on_history(item, for_user(store, user_id))


def _read(
    data: Mapping[str, Any], item: Target
) -> tuple[str | UserMessage, State[Any], str | None]:
    try:
        for key in ("input", "state"):
            refuse_rounded(data.get(key), f"event.data.{key}")
        data = from_exact(data)
        return _input(data), _state(data, item), _user(data)
    except AgentKitError as error:  # another attempt would read the same event
        raise inngest.NonRetriableError(f"{type(error).__name__}: {error}") from error


def _user(data: Mapping[str, Any]) -> str | None:
    user: object = data.get("userId")
    if user is None:
        return None
    if not isinstance(user, str) or not user:
        raise ConfigurationError(f"event.data.userId must be a text, got {user!r:.80}")
    return user


def _input(data: Mapping[str, Any]) -> str | UserMessage:
    given: object = data.get("input")
    if isinstance(given, str):
        return given
    fields = as_object(given)
    if fields is None:
        raise ConfigurationError(
            f"event.data.input must be a text, or a message {{content, id?, …}}; got {given!r:.80}"
        )
    return UserMessage.from_dict(fields, where="event.data.input")


def _of_this_run(state: State[Any]) -> list[AgentResult]:
    """Return an agent's results since the message of its run: all inferences."""
    results = state.transcript
    spoken = [index for index, result in enumerate(results) if result.agent_name == USER]
    # The user's messages during the run belong to it, too.
    own = [i for i in spoken if any(m.from_history is False for m in results[i].output)]
    begin = [*own, *spoken[-1:]][0] + 1 if spoken else 0
    return [result for result in results[begin:] if result.agent_name != USER]


def _state(data: Mapping[str, Any], item: Target) -> State[Any]:
    given: object = data.get("state")
    plain = as_object(given)
    if given is not None and plain is None:
        raise ConfigurationError(f"event.data.state must be an object, got {given!r:.80}")
    default = item.default_state if isinstance(item, Network) else None
    if plain is not None:
        _thread(plain.get("threadId"))
        state = _given_state(
            State.from_dict(plain if _STATE_KEYS & plain.keys() else {"data": plain}), default
        )
    else:
        state = default.clone() if default is not None else State()
    state.enter_thread(_thread(data.get("threadId")) or _thread(state.thread_id))
    state.goes_on_with = as_object(data.get(GOES_ON_WITH)) or ({} if plain is None else None)
    return state


def _thread(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise ConfigurationError(f"event.data.threadId must be a text, got {given!r:.80}")
    return given or None


_STATE_KEYS = {"data", "messages", "_messages", "results", "_results"}
"""Keys of a whole state; an object without any of them is the state's data."""


def _given_state(given: State[Any], default: State[Any] | None) -> State[Any]:
    """Return the event's state, its data of the kind that the network's default state has."""
    if default is None or isinstance(default.data, dict):
        return given
    typed: State[Any] = State(
        default.data,
        messages=given.messages,
        results=given.transcript,
        thread_id=given.thread_id,
    )
    typed.load(given.data)
    typed.leave_out(given.not_loaded)
    return typed


def inngest_tool(
    function: inngest.Function[Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Any = None,
    timeout: timedelta | None = None,
) -> Tool:
    """Make a tool that invokes an Inngest function and waits for its result.

    Args:
        function: The function; it must be served by an app that the server knows.
        name: What the model calls it; made of the function's id unless given.
        description: Describes its use to the model; the function's name unless given.
        parameters: A pydantic model or JSON Schema of ``event.data``. The SDK's functions have no
            schema of their own, so it must be given.
        timeout: How long to wait for the function.

    Raises:
        ToolDefinitionError: The schema is missing, or the name cannot be used.
    """
    label = name or slugify(function.local_id).replace("-", "_")
    if parameters is None:
        raise ToolDefinitionError(
            label,
            "an Inngest function has no input schema of its own; use inngest_tool(function, "
            "parameters=MyModel)",
        )

    async def invoke(given: Any, ctx: ToolContext) -> Any:
        data = given.model_dump(mode="json") if isinstance(given, BaseModel) else given
        return await ctx.step.invoke_by_id(
            "invoke", function_id=function.local_id, data=data, timeout=timeout
        )

    return create_tool(
        name=label,
        description=description if description is not None else function.name,
        parameters=parameters,
        handler=invoke,
        steps=True,
    )


inngest_tool_maker.register(inngest_tool)
