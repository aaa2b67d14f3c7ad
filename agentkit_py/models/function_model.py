"""A model whose replies a function in this process makes, in our own types and no wire format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeAlias

from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.messages import Finish, Message, TextDelta, TextMessage, ToolCallMessage, Usage
from agentkit_py.models.base import Adapter, Model, ModelReply, ModelRequest
from agentkit_py.models.capabilities import Host
from agentkit_py.models.http_errors import unexpected

ModelFunction: TypeAlias = Callable[[ModelRequest], Awaitable[ModelReply | str]]
"""Gets the model's request, and returns its reply; a text is a reply of just this text."""


def function_model(
    function: ModelFunction, *, model: str = "function", context_window: int | None = None
) -> Model:
    """Return a model whose replies ``function`` makes: a local model, a rule, a fake for a test.

    The function runs in this process; in an Inngest run in a step, which remembers its reply. What
    it raises is a `ModelError` with the exception as its cause: a `FallbackModel` asks the next
    model, a summary is left out. Raise a `ModelError` yourself to say that trying again is useless.

    Args:
        function: Gives the reply: a text, or a `ModelReply` of the assistant's texts, tool calls
            and reasoning. Anything else is a `ModelResponseError` in the run. Whose messages they
            were does not matter: the agent that asked signs them. ``request.call_id`` is the same
            where a durable run repeats the call; ``await request.show(text)``, where it is not
            None, streams a piece of the reply.
        model: What the model is called in traces and usage.
        context_window: Tokens that prompt, history and answer may have together.

    Raises:
        ConfigurationError: ``function`` cannot be called; in the run, that it is not async.
    """
    if not callable(function):
        raise _not_async(function)

    async def respond(body: dict[str, Any]) -> object:
        assert isinstance(body, RequestJson), "the body is not from this model's own encode"
        awaited = function(body.request)
        if not isawaitable(awaited):
            raise _not_async(function)
        reply = await awaited
        if isinstance(reply, str):
            reply = ModelReply(messages=(TextMessage("assistant", reply, stop_reason="stop"),))
        return _reply_to_json(made, reply)

    made = Model(
        model=model,
        adapter=_FunctionAdapter(Host(provider="function", key_variable="")),
        base_url="",
        answers=respond,
        key_required=False,
        context_window=context_window,
    )
    return made


def _not_async(function: object) -> ConfigurationError:
    return ConfigurationError(
        "function_model takes an async function that gives a text or a ModelReply, got "
        f"{function!r:.80}"
    )


class RequestJson(dict[str, Any]):
    """A request as JSON, for where requests are shown, with the request itself."""

    def __init__(self, fields: Mapping[str, Any], request: ModelRequest) -> None:
        super().__init__(fields)
        self.request = request

    def shown_to(self, on_delta: Callable[[TextDelta], Awaitable[None]] | None) -> RequestJson:
        """Return the request of a call whose reply is passed on while it is written.

        Args:
            on_delta: Gets the pieces of the reply; None: they are not shown.
        """
        if on_delta is None:
            return self

        async def show(piece: str) -> None:
            if piece:
                await on_delta(TextDelta(0, piece))

        return RequestJson(self, replace(self.request, show=show))


class _FunctionAdapter(Adapter):
    """Passes requests on as they are, and replies as JSON, which durable runs remember."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        return RequestJson({**model.default_parameters, "model": model.model}, request)

    def decode(self, model: Model, body: object) -> ModelReply:
        if isinstance(body, _ReplyJson):
            return body.reply
        found: Any = body
        try:
            messages = tuple([message_from_dict(message) for message in found["messages"]])
            usage = Usage(*found["usage"]) if "usage" in found else None
            finish = None if found["finish"] is None else Finish(*found["finish"])
        except (KeyError, TypeError, InvalidRecordError) as error:
            raise unexpected(model, body, "no reply that this model has given") from error
        return ModelReply(messages=messages, usage=usage, finish=finish)


class _ReplyJson(dict[str, Any]):
    """A reply as JSON, which steps keep, with the reply itself, for where no step is between."""

    def __init__(self, found: dict[str, Any], reply: ModelReply) -> None:
        super().__init__(found)
        self.reply = reply


def _is_simple(message: Message) -> bool:
    """Return whether reading the message from its JSON would give the same."""
    if message.provider_metadata is not None or message.stop_reason not in ("stop", "tool", None):
        return False
    if type(message) is not ToolCallMessage:
        return type(message) is TextMessage  # of a text, as was looked at before
    return all(isinstance(c.id, str) and isinstance(c.name, str) for c in message.tools)


def _reply_to_json(model: Model, reply: ModelReply) -> dict[str, Any]:
    if not isinstance(reply, ModelReply):
        raise unexpected(model, repr(reply), "the function gave no ModelReply and no text")
    for message in reply.messages:
        parts = isinstance(message, TextMessage) and not isinstance(message.content, str)
        if message.role != "assistant" or parts:
            raise unexpected(model, repr(message), "a model replies with texts, calls, reasoning")
    # The agent that asked signs them.
    if any(message.agent for message in reply.messages):
        unsigned = [replace(m, agent=None) if m.agent else m for m in reply.messages]
        reply = replace(reply, messages=tuple(unsigned))
    messages = [message_to_dict(message) for message in reply.messages]
    ended = reply.finish
    told = None if ended is None else [ended.reason, ended.word, ended.details]
    found: dict[str, Any] = {"messages": messages, "finish": told}
    if all(map(_is_simple, reply.messages)):
        found = _ReplyJson(found, reply)
    if (used := reply.usage) is not None:
        tokens = (used.input_tokens, used.output_tokens, used.cached_tokens)
        found["usage"] = [*tokens, used.reasoning_tokens, used.cache_write_tokens]
    return found
