"""One question to a model or its alternatives, and `Model.respond`, which has no agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py.errors import (
    ModelError,
    ModelNotAskedError,
    ModelResponseError,
    ModelStreamError,
    RejectedReplyError,
)
from agentkit_py.models.base import Model, ModelReply, ModelRequest, responder
from agentkit_py.models.fallback import FallbackModel, ReplyCheck
from agentkit_py.runtime.current import choose_runtime
from agentkit_py.runtime.guards import shared_breaker
from agentkit_py.runtime.port import Runtime


class _HasReply(Protocol):
    @property
    def reply(self) -> ModelReply: ...


T = TypeVar("T", bound=_HasReply)
logger: logging.Logger = logging.getLogger("agentkit_py")


def alternatives_of(model: Model) -> Sequence[Model]:
    """Return the models that a call asks, in order."""
    if not isinstance(model, FallbackModel):
        return (model,)
    if model.breaker != "shared":
        return model.alternatives(model.breaker)
    return model.alternatives(shared_breaker)


async def first_answer(
    model: Model,
    ask: Callable[[Model, str], Awaitable[T]],
    runtime: Runtime,
    step_id: str,
    failed: Callable[[Model, ModelError], Awaitable[None]] | None = None,
) -> T:
    """Return the result of ``ask`` for the first alternative that answers.

    Args:
        model: The model, with or without alternatives.
        ask: Asks an alternative; it also gets the suffix of the step's id.
        runtime: Records the verdict of the models' check.
        step_id: The step of the first alternative.
        failed: Called with the next alternative and the error before that is asked.

    Raises:
        ModelError: The last alternative failed, or any in a way that all would.
        RejectedReplyError: The check of the models rejects the last reply.
    """
    if not isinstance(model, FallbackModel):
        return await ask(model, _step(0))
    alternatives = alternatives_of(model)

    async def checked(one: Model, number: int) -> T:
        answer = await ask(one, _step(number))
        if model.check is not None:
            key = f"{step_id}{_step(number)}.check"
            await _check(model.check, one, answer.reply, runtime, key)
        return answer

    for number, one in enumerate(alternatives[:-1]):
        try:
            return await checked(one, number)
        except ModelError as error:
            failure = error
        streamed = isinstance(failure, ModelStreamError) and bool(failure.messages)
        if not model.fails_over(failure) or (streamed and not model.mid_stream):
            raise failure
        if failed is not None:
            await failed(alternatives[number + 1], failure)
    return await checked(alternatives[-1], len(alternatives) - 1)


async def _check(
    check: ReplyCheck, model: Model, reply: ModelReply, runtime: Runtime, key: str
) -> None:
    """Let a check judge a reply, once: its verdict is recorded with the next step.

    Raises:
        RejectedReplyError: The check rejects the reply.
    """
    known, before = runtime.recorded(key), runtime.steps_taken
    if isinstance(known, dict):
        reason = cast("str | None", known["rejected"])
    else:
        reason = await _judged(check, reply)
    if runtime.steps_taken == before:  # steps of the check make its verdict the same in a replay
        said = f"The check of a reply of {model.model!r} said"
        runtime.decide(key, lambda: {"rejected": reason}, said)
    if reason is not None:
        where = {"provider": model.provider, "model": model.model}
        raise RejectedReplyError(reason, **where, excerpt=reply.text)


async def _judged(check: ReplyCheck, reply: ModelReply) -> str | None:
    """Return the reason why a reply is rejected; None: it is accepted."""
    try:
        verdict = await resolve(check(reply))
    except ValueError as error:
        verdict = str(error) or type(error).__name__
    if verdict is False:
        return "its check returned False"
    return verdict if isinstance(verdict, str) else None


def _step(number: int) -> str:
    return f".fallback.{number}" if number else ""


def say_failover(said: str, other: Model, error: ModelError, *facts: object) -> None:
    """Log that another model is called; at debug level if a breaker was open already."""
    level = logging.DEBUG if isinstance(error, ModelNotAskedError) else logging.WARNING
    logger.log(level, said, *facts, error, other.provider, other.model)


class Replied(NamedTuple):
    """A model's reply."""

    reply: ModelReply


def read_reply(
    model: Model,
    body: object,
    runtime: Runtime,
    step_id: str,
    read: Callable[[Model, object], ModelReply],
) -> tuple[Model, ModelReply]:
    """Return a model's reply, and as whose it was read.

    Args:
        model: The model that was asked, or that a deploy has put in its place since.
        body: Its answer, which may be remembered from before the deploy.
        runtime: Where it was asked.
        step_id: The step that asked.
        read: Reads an answer as that of a model.

    Raises:
        ModelResponseError: The answer violates the model's API; a remembered answer: and
            every other API.
    """
    try:
        return model, read(model, body)
    except ModelResponseError:
        if not (runtime.durable or runtime.remembers(step_id)):
            raise
        from agentkit_py.models.exchanged import reader_of_other_api  # noqa: PLC0415 - loads all APIs

        if (other := reader_of_other_api(model, body)) is None:
            raise
        said = "A recorded reply is in the format of %s, not of %s: the model was exchanged since"
        logger.warning(said, other.provider, model.provider)
        return other, read(other, body)


@responder.register
async def respond(model: Model, request: ModelRequest, step_id: str) -> ModelReply:
    """Ask a model without an agent, in the runtime that is here."""
    runtime = choose_runtime()
    name = runtime.claim(step_id)

    async def ask(one: Model, step: str) -> Replied:
        asked = one.for_request(request)
        step = f"{name}{step}"
        body = await runtime.infer(step, asked, lambda: one.encode(request))
        by, reply = read_reply(one, body, runtime, step, Model.decode)
        if by is not one:
            return Replied(reply)
        return Replied(replace(reply, messages=one.bind(request, reply.messages)))

    async def failed(other: Model, error: ModelError) -> None:
        say_failover("%s; %s model %r is asked instead", other, error)

    return (await first_answer(model, ask, runtime, name, failed)).reply
