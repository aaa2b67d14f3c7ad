"""Steps of an Inngest function: requesting them from the SDK, and the form of their outputs.

The server stores a step's output and sends it with each later request, so it must be plain JSON
within the server's limits. It is an object with our own keys; final errors are recorded in it. The
server reads each number as a double: an integer beyond 2^53 is rounded, and ``1.0`` becomes ``1``.
Our own steps write numbers in a form that survives this.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from datetime import datetime, timedelta
from functools import partial
from math import isfinite
from typing import Any, TypeVar, cast

import inngest

from agentkit_py._core.json import find_non_json
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import (
    AgentKitError,
    BudgetExceededError,
    ConfigurationError,
    GuardrailTripped,
    MessageConflictError,
    MissingDependencyError,
    MissingModelError,
    ModelConnectionError,
    ModelError,
    ModelResponseError,
    ModelTimeoutError,
    NonRetriableError,
    OutputError,
    ReplayError,
    RetryAfterError,
    StateError,
    StepLimitError,
    ThreadNotFoundError,
    ToolDefinitionError,
    is_control_error,
)
from agentkit_py.inngest.memory import KEY, WARN_AT, StepMemory
from agentkit_py.inngest.overlap import inside
from agentkit_py.inngest.realtime import LivePublisher
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import error_from_response
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.recorded import MODEL_HTTP_ERRORS
from agentkit_py.runtime.steps import EventWait, Invocation, ServerRequest

T = TypeVar("T")
logger: logging.Logger = get_logger("agentkit_py.inngest")

MAX_OUTPUT = 4 * 1024 * 1024
"""The maximum size of a step's output in bytes (inngest/pkg/consts)."""

NEVER_RETRIED = (
    BudgetExceededError,
    ConfigurationError,
    GuardrailTripped,
    MessageConflictError,
    OutputError,
    StateError,
    ThreadNotFoundError,
)
"""Errors of steps that another attempt would repeat."""


class GuardedSteps:
    """The SDK's steps, guarded, and with clear errors."""

    def __init__(
        self,
        step: inngest.Step,
        memory: StepMemory,
        live: LivePublisher,
        tries_again: Callable[[Exception], bool],
    ) -> None:
        self._step = step
        self._memory = memory
        self._live = live
        self._tries_again = tries_again
        """Whether an error that is final elsewhere may be none for another worker."""

    async def ask(self, step_id: str, handler: Callable[[], Awaitable[T]]) -> T:
        """Request a step from the SDK, under exactly this name."""

        async def call() -> T:
            try:
                self._memory.guard.check_new(step_id)
            except ReplayError as error:  # the SDK ends the request with it, and not the step
                raise inngest.NonRetriableError(str(error)) from error
            await self._live.begin()
            with inside(step_id):
                return await handler()

        return await self._asked(step_id, lambda: self._step.run(step_id, call), recorded=True)

    async def _asked(
        self, step_id: str, step: Callable[[], Awaitable[T]], *, recorded: bool = False
    ) -> T:
        await self._memory.mark_patches(self.ask)
        await self._memory.begin(step_id)
        try:
            found = await self._live.remembered(step())
        except Exception:
            self._memory.finish(step_id, recorded=False)  # its name is not in the record
            raise
        self._memory.finish(step_id, found, recorded=recorded)
        return found

    async def run(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run ``handler`` once; its result is remembered and must be JSON.

        Raises:
            AgentKitError: The step has recorded an error.
        """

        async def value() -> dict[str, Any]:
            return {"value": await contained(handler)}

        found = restored(await self.ask(step_id, partial(self.outcome, step_id, value)))
        raise_recorded(found)
        return found["value"]

    async def outcome(
        self, step_id: str, handler: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Call a step's handler; return its output, or the error as the step's output.

        A handler that returned is not called again: if its output cannot be stored, that is such an
        error.
        """
        try:
            found = await contained(handler)
            with acting():
                return self.output(step_id, found)
        except Exception as error:
            if not is_final(error) or self._tries_again(error):
                raise self._memory.failed(to_sdk_error(error)) from error
            return self.output(step_id, record_error(error))

    def output(self, step_id: str, output: dict[str, Any]) -> dict[str, Any]:
        """Return a step's output in a form that survives, with the facts for the guard.

        Raises:
            StateError: The output is not JSON.
            StepLimitError: The output, or all outputs of the run together, are too large.
        """
        checked, size = check_output(step_id, output)
        return {**checked, KEY: {**checked.pop(KEY, {}), **self._memory.facts(step_id, size)}}

    async def infer(self, step_id: str, adapter: Any, make_body: Callable[[], Any]) -> Any:
        """Let the Inngest server call a model; a body is made only for a step that may be new."""
        memory = self._memory
        await memory.mark_patches(self.ask)
        body: dict[str, Any] = {}
        if memory.is_grouped or not memory.left:
            body = make_body()
            refuse_rounded(body, f"The request of step {step_id!r}")
            _check_request(step_id, body)
        found = await self._asked(
            step_id, lambda: self._step.ai.infer(step_id, adapter=adapter, body=body)
        )
        if memory.is_grouped or not memory.left:
            refuse_rounded(found, f"The reply of step {step_id!r}")
        return found

    async def wait(self, step_id: str, time: timedelta | datetime) -> None:
        """Wait for a duration, or until a time, without using compute."""
        if isinstance(time, datetime):
            await self._asked(step_id, lambda: self._step.sleep_until(step_id, time))
        else:
            await self._asked(step_id, lambda: self._step.sleep(step_id, time))

    async def server_step(self, step_id: str, request: ServerRequest) -> Any:
        """Let the server wait for an event, call a function or send events.

        Raises:
            ConfigurationError: The data has a number that the server rounds.
            StepLimitError: The data is too large.
        """
        if isinstance(request, EventWait):
            return await self._wait_for_event(step_id, request)
        if isinstance(request, Invocation):
            return await self._invoke(step_id, request)
        events = cast("list[inngest.Event]", list(request.events))
        for event in events:
            refuse_rounded(event.data, f"data of event {event.name!r}")
            _check_request(step_id, event.data)
        return await self._asked(step_id, lambda: self._step.send_event(step_id, events))

    async def _wait_for_event(self, step_id: str, wait: EventWait) -> Any:
        found = await self._asked(
            step_id,
            lambda: self._step.wait_for_event(
                step_id, event=wait.event, if_exp=wait.if_exp, timeout=wait.timeout
            ),
        )
        if found is not None:
            refuse_rounded(found.data, f"event.data of step {step_id!r}")
        return found

    async def _invoke(self, step_id: str, call: Invocation) -> Any:
        refuse_rounded(call.data, f"data of step {step_id!r}")
        _check_request(step_id, call.data)
        found = await self._asked(
            step_id,
            lambda: self._step.invoke_by_id(
                step_id,
                function_id=call.function_id,
                app_id=call.app_id,
                data=call.data,
                timeout=call.timeout,
            ),
        )
        refuse_rounded(found, f"The result of step {step_id!r}")
        return found


def _as_json(output: dict[str, Any]) -> str:
    value = output.get("value")
    kind = type(value).__name__
    if hasattr(value, "model_dump"):
        return f": a {kind}. Return value.model_dump(mode='json'); a replay gets the JSON"
    if is_dataclass(value):
        return f": a {kind}. Return dataclasses.asdict(value); a replay gets the JSON"
    return ""


def check_output(step_id: str, output: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return a step's output as the server can store it unchanged.

    Returns:
        The output and its size in bytes. A lone half of a surrogate pair becomes U+FFFD: the server
        fails a run that holds such a half ("error transforming request with JCS: Missing
        surrogate"). Numbers that the server would change are in a form that `restored` reads.

    Raises:
        StateError: The output is not JSON.
        StepLimitError: The output is too large.
    """
    path = find_non_json(output, "output")
    if path is not None:
        raise StateError(
            f"Step {step_id!r} gave something that is not JSON, at {path!r}{_as_json(output)}"
        )
    text = json.dumps(output)  # as the SDK sends it: spaces, and all in ASCII
    if "\\ud" in text:
        output = _without_surrogates(output, text)
    facts: dict[str, Any] = {}
    exact = to_exact(output) if may_change(text) else output
    if exact != output:
        facts["exact"] = True
    orders = _key_orders(output)
    if orders:
        facts["order"] = orders
    if facts:
        output = {**exact, KEY: facts}
        text = json.dumps(output)
    size = len(text)
    if size > MAX_OUTPUT:
        raise StepLimitError(
            f"Step {step_id!r} gave {size:,} bytes; Inngest keeps at most {MAX_OUTPUT:,}. Store "
            "the data yourself and return a reference.",
            limit="output",
            size=size,
            most=MAX_OUTPUT,
        )
    if size > MAX_OUTPUT * WARN_AT:
        logger.warning("Step %r gave %d of at most %d bytes", step_id, size, MAX_OUTPUT)
    return output, size


def restored(output: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a step's handler from the step's stored output, which is used up."""
    found = {**output}
    facts = found.pop(KEY)
    if facts.get("exact"):
        found = {name: from_exact(value) for name, value in found.items()}
    orders = {frozenset[str](keys): keys for keys in facts.get("order", ())}
    if orders:
        _reorder(found, orders)
    return found


def _key_orders(value: object) -> list[list[str]]:
    """Return the keys of objects whose order is not alphabetical, as the server would sort them.

    Objects with the same keys are taken to have the same order: that of the first such object.
    """
    found: dict[frozenset[str], list[str]] = {}
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            fields = cast("dict[str, object]", one)
            keys = list(fields)
            if len(keys) > 1 and keys != sorted(keys):
                found.setdefault(frozenset(keys), keys)
            waiting += reversed(fields.values())
        elif isinstance(one, list | tuple):
            waiting += reversed(cast("list[object]", one))
    return list(found.values())


def _reorder(value: dict[str, Any], orders: Mapping[frozenset[str], list[str]]) -> None:
    """Restore the order of the keys of objects, in place: each replay does so for each step."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            fields: dict[str, Any] = item  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call
            for key in orders.get(frozenset(fields), ()) if len(fields) > 1 else ():
                fields[key] = fields.pop(key)
            waiting += fields.values()
        elif isinstance(item, list):
            waiting += item


def _check_request(step_id: str, body: object) -> None:
    """Check the size of data that a step sends to the server.

    Raises:
        StepLimitError: It is too large.
    """
    size = len(json.dumps(body, default=str))
    if size > MAX_OUTPUT:
        raise StepLimitError(
            f"Step {step_id!r} would send {size:,} bytes to Inngest, which takes at most "
            f"{MAX_OUTPUT:,}. Let processors shorten the model's input, or ask it from here: "
            'inference="local".',
            limit="request",
            size=size,
            most=MAX_OUTPUT,
        )


def _without_surrogates(output: dict[str, Any], text: str) -> dict[str, Any]:
    joined = json.dumps(json.loads(text), ensure_ascii=False)  # halves that meet are whole now
    mended = _SURROGATE.sub("\ufffd", joined)
    return output if mended == joined else json.loads(mended)


_SURROGATE = re.compile("[\ud800-\udfff]")


def to_sdk_error(error: Exception) -> Exception:
    """Return the SDK's error for a `RetryAfterError`, and any other error unchanged."""
    if isinstance(error, RetryAfterError):
        return inngest.RetryAfterError(str(error), timedelta(seconds=error.retry_after))
    return error


def is_final(error: Exception) -> bool:
    """Return whether the step that raised ``error`` must not be tried again.

    The SDK does not remember a step's `NonRetriableError`: if the run continues, as in a group, the
    step would run again. So such errors are recorded as the step's output.
    """
    if isinstance(error, RetryAfterError | inngest.RetryAfterError):
        return False
    acted = isinstance(error, AgentKitError) and error.acted
    return acted or isinstance(error, NEVER_RETRIED) or is_control_error(error)


@contextmanager
def acting() -> Generator[None]:
    """Mark errors of the block: they come after the step's handler has done its work.

    Raises:
        AgentKitError: The outcome of the handler cannot be stored.
    """
    try:
        yield
    except AgentKitError as error:
        error.acted = True
        raise
    except Exception as error:
        failure = StateError(f"The step was done, and cannot be kept: {error!r:.200}")
        failure.acted = True
        raise failure from error


def record_error(error: Exception) -> dict[str, Any]:
    """Return an error as a step's output."""
    name = type(error).__name__
    # Only our attributes: those of users' own errors may be secrets, and Inngest shows them.
    facts = vars(error) if type(error) is _RECORDED.get(name) else {}
    facts = {key: fact for key, fact in facts.items() if find_non_json(fact) is None}
    return {"raised": {"name": name, "message": str(error)[:_LONGEST_MESSAGE], "facts": facts}}


_LONGEST_MESSAGE = 100_000
"""The maximum length of an error message that a step records."""


def raise_recorded(found: Mapping[str, Any]) -> None:
    """Raise the error that a step has recorded, if any.

    Raises:
        AgentKitError: The recorded error.
    """
    if "raised" in found:
        raised = found["raised"]
        raise restore_error(raised) from step_error(raised)


def restore_error(record: dict[str, Any]) -> AgentKitError:
    """Return the error that `record_error` recorded."""
    kind = _RECORDED.get(record["name"], NonRetriableError)
    error = kind.__new__(kind, record["message"])  # constructors take facts, not the message
    vars(error).update(record.get("facts") or {})
    return error


def step_error(record: dict[str, Any]) -> inngest.StepError:
    """Return the SDK's error for a recorded error: the sign that it is remembered."""
    return inngest.StepError(record["message"], record["name"], None)


_RECORDED: dict[str, type[AgentKitError]] = {
    kind.__name__: kind
    for kind in (
        BudgetExceededError,
        StateError,
        StepLimitError,
        ConfigurationError,
        MissingModelError,
        ToolDefinitionError,
        MissingDependencyError,
        MessageConflictError,
        ThreadNotFoundError,
    )
}


MAX_EXACT = 2**53
"""The largest integer up to which a double represents all integers exactly."""

_NUMBER, _OBJECT = "$number", "$object"
_MAY_CHANGE = re.compile(r"\d{16}|\.0(?!\d)|\d[eE]")


def may_change(text: str) -> bool:
    """Return whether JSON text may hold a number that the server would change; quick."""
    return _MAY_CHANGE.search(text) is not None


def to_exact(value: Any, *, floats: bool = True) -> Any:
    """Return JSON in which numbers that the server would change are texts that say so.

    Args:
        value: JSON.
        floats: Also floats that would come back as integers, such as ``1.0``.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        made = {key: to_exact(one, floats=floats) for key, one in fields.items()}
        return {_OBJECT: made} if _NUMBER in fields or _OBJECT in fields else made
    if isinstance(value, list):
        return [to_exact(one, floats=floats) for one in cast("list[Any]", value)]
    if isinstance(value, float):
        return {_NUMBER: repr(value)} if floats and value.is_integer() else value
    large = isinstance(value, int) and abs(value) > MAX_EXACT
    return {_NUMBER: repr(value)} if large else value


def from_exact(value: Any) -> Any:
    """Return the JSON from which `to_exact` made ``value``.

    Raises:
        ConfigurationError: The value does not come from `to_exact`.
    """
    if isinstance(value, list):
        return [from_exact(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if fields.keys() == {_NUMBER}:
        return _number(fields[_NUMBER])
    if fields.keys() == {_OBJECT} and isinstance(fields[_OBJECT], dict):
        fields = fields[_OBJECT]
    return {key: from_exact(one) for key, one in fields.items()}


_WRITTEN = re.compile(r"-?[0-9]{1,4300}(?P<float>(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?)")


def _number(text: object) -> int | float:
    found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if found is not None:
        number = float(found[0]) if found["float"] else int(found[0])
        if isinstance(number, int) or isfinite(number):
            return number
    raise ConfigurationError(f"{{{_NUMBER!r}: {text!r:.80}}} is not a number")


def find_rounded(value: object, path: str) -> tuple[str, int | float] | None:
    """Return path and value of the first number that a double may have rounded, else None."""
    if isinstance(value, int | float):
        whole = not isinstance(value, bool) and (isinstance(value, int) or value.is_integer())
        return (path, value) if whole and abs(value) >= MAX_EXACT else None
    if isinstance(value, list):
        items = cast("list[object]", value)
        places = [(f"{path}[{index}]", one) for index, one in enumerate(items)]
    elif isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        places = [(f"{path}.{key}", one) for key, one in fields.items()]
    else:
        return None
    found = (find_rounded(one, place) for place, one in places)
    return next((one for one in found if one is not None), None)


def refuse_rounded(value: object, where: str) -> None:
    """Refuse a number that the Inngest server rounds.

    Raises:
        ConfigurationError: The message names the number. The model cannot correct it.
    """
    found = find_rounded(value, where)
    if found is not None:
        raise ConfigurationError(
            f"{found[0]} is the number {found[1]!r}. The Inngest server keeps numbers as doubles, "
            f"which are exact up to {MAX_EXACT:,} only: send it as a text."
        )


_FORMATS = {"anthropic": "anthropic", "gemini": "gemini"}
"""The gateway's formats; it treats all others as OpenAI with a Bearer key."""


@dataclass(frozen=True, slots=True)
class GatewayAdapter:
    """A model in the shape of `inngest.experimental.ai.BaseAdapter`."""

    model: Model
    key: str

    def auth_key(self) -> str:
        """Return the API key: with ``inference="offload"`` it goes through the Inngest server."""
        return self.key

    def format(self) -> str:
        """Return the format by which the gateway authenticates."""
        return _FORMATS.get(self.model.provider, "openai-chat")

    def headers(self) -> dict[str, str]:
        """Return our headers without those that the gateway adds itself."""
        headers = self.model.adapter.headers(self.model, self.key or None)
        added = {"authorization", "x-api-key", "x-goog-api-key", "content-type"}
        return {name: value for name, value in headers.items() if name.lower() not in added}

    def on_call(self, body: dict[str, object]) -> None:
        """Change nothing: the body is complete."""

    def url_infer(self) -> str:
        """Return the address that the gateway sends the request to."""
        return self.model.adapter.url(self.model)


_STATUS = re.compile(r"(?:status code:?|HTTP)\s*(\d{3})")


def error_of_step(model: Model, error: inngest.StepError) -> ModelError:
    """Return our error for a failed inference step.

    The gateway gives the status in its message, and the provider's body only in the stack's text.
    """
    where: dict[str, Any] = {"provider": model.provider, "model": model.model}
    status = _STATUS.search(error.message or "")
    if error.name == "ModelTimeoutError":
        return ModelTimeoutError(**where, timeout=model.timeout)
    if status is not None and error.name in MODEL_HTTP_ERRORS:
        return MODEL_HTTP_ERRORS[error.name](_detail(error), **where, status=int(status[1]))
    if status is not None:
        return error_from_response(model, int(status[1]), {}, error.stack or error.message or "")
    if error.name == "ModelResponseError":
        return ModelResponseError(_detail(error), **where)
    return ModelConnectionError(f"the model call failed: {_detail(error)}", **where)


def _detail(error: inngest.StepError) -> str:
    return (error.message or error.name)[:2000]


def usage_to_show(model: Model, body: object) -> dict[str, Any]:
    """Return the tokens of a reply in the form that the Inngest server shows with a step.

    The server reads only replies in the form of the Vercel AI SDK
    (inngest/pkg/tracing/metadata/extractors/ai.go).
    """
    try:
        usage = model.decode(body).usage
    except ModelError:
        usage = None
    if usage is None:
        return {}
    tokens = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
    return {"totalUsage": tokens, "steps": [{"request": {"body": {"model": model.model}}}]}
