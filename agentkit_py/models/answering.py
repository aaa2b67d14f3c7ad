"""A model whose replies a function in this process makes, in our own words and no wire format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeAlias

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ReasoningMessage, TextMessage, ToolCall, ToolCallMessage
from agentkit_py.models.base import Model, ModelReply, ModelRequest, Usage
from agentkit_py.models.reply import unexpected

AnswerFunction: TypeAlias = Callable[[ModelRequest], Awaitable[ModelReply | str]]
"""Gets what the model is to see, and gives its reply; a text is a reply that says just that."""


def answering(
    function: AnswerFunction, *, model: str = "function", context_window: int | None = None
) -> Model:
    """A model whose replies come from ``function``: a local model, a rule, a fake for a test.

    The function runs in this process; in an Inngest run in a step, which remembers its reply. What
    it raises ends the run.

    Args:
        function: Gives the reply: a text, or a `ModelReply` of the assistant's texts, tool calls
            and reasoning. Anything else is a `ModelResponseError` in the run. Whose messages they
            were does not matter: the agent that asked signs them.
        model: What the model is called in traces and usage.
        context_window: Tokens that prompt, history and answer may have together.

    Raises:
        ConfigurationError: ``function`` cannot be called; in the run, that it is not async.
    """
    if not callable(function):
        raise _no_async(function)

    async def respond(body: dict[str, Any]) -> object:
        assert isinstance(body, _Asked), "the body is what this model's own encode made"
        given = function(body.request)
        if not isawaitable(given):
            raise _no_async(function)
        said = await given
        if isinstance(said, str):
            said = ModelReply(messages=(TextMessage("assistant", said, stop_reason="stop"),))
        return _Said(made, said)

    made = Model(
        model=model,
        adapter=_InOurWords(),
        base_url="",
        respond=respond,
        key_required=False,
        context_window=context_window,
    )
    return made


def _no_async(function: object) -> ConfigurationError:
    return ConfigurationError(
        f"answering takes an async function that gives a text or a ModelReply, got {function!r:.80}"
    )


class _Asked(dict[str, Any]):
    """The request beside the JSON that stands for it where requests are shown."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        super().__init__(model.default_parameters, model=model.model)
        self.request = request


class _Said(dict[str, Any]):
    """The reply as JSON, which durable runs remember, and beside it as it was given."""

    def __init__(self, model: Model, reply: ModelReply) -> None:
        if not isinstance(reply, ModelReply):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise unexpected(model, repr(reply), "the function gave no ModelReply and no text")
        messages = [_to_json(model, message) for message in reply.messages]
        super().__init__(messages=messages, finish_reason=reply.finish_reason)
        if (used := reply.usage) is not None:
            tokens = (used.input_tokens, used.output_tokens, used.cached_tokens)
            self["usage"] = [*tokens, used.reasoning_tokens]
        self.reply = _unsigned(reply)


class _InOurWords:
    """The adapter: a request and a reply as they are."""

    provider = "function"
    key_variable = ""

    def url(self, model: Model) -> str:  # noqa: ARG002 - the interface's argument
        return ""

    def headers(
        self,
        model: Model,  # noqa: ARG002 - the interface's argument
        api_key: str | None,  # noqa: ARG002 - the interface's argument
    ) -> dict[str, str]:
        return {}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        return _Asked(model, request)

    def decode(self, model: Model, body: object) -> ModelReply:
        if isinstance(body, _Said):
            return body.reply
        found: Any = body
        try:
            messages = tuple([_from_json(message) for message in found["messages"]])
            usage = Usage(*found["usage"]) if "usage" in found else None
            finish_reason = found["finish_reason"]
        except (KeyError, TypeError, ValueError) as error:
            raise unexpected(model, body, "no reply that this model has given") from error
        return ModelReply(messages=messages, usage=usage, finish_reason=finish_reason)


def _unsigned(reply: ModelReply) -> ModelReply:
    """``reply`` without what its JSON here does not keep: each kind of run gets the same."""
    if all(m.agent is None and m.from_history is None for m in reply.messages):
        return reply
    own = [replace(m, agent=None, from_history=None) for m in reply.messages]
    return replace(reply, messages=tuple(own))


def _to_json(model: Model, message: Message) -> dict[str, Any]:
    own: dict[str, Any] = {"stop_reason": message.stop_reason}
    if message.provider_metadata is not None:
        own["provider_metadata"] = message.provider_metadata
    match message:
        case TextMessage(role="assistant", content=str()):
            return {"text": message.content, **own}
        case ToolCallMessage(tools=tools):
            calls = [[c.id, c.name, c.input, c.malformed, c.provider_metadata] for c in tools]
            return {"calls": calls, **own}
        case ReasoningMessage():
            return {"reasoning": message.content, **own}
        case _:
            raise unexpected(model, repr(message), "a model replies with texts, calls, reasoning")


def _from_json(found: dict[str, Any]) -> Message:
    own = dict(found)
    if "text" in own:
        return TextMessage("assistant", own.pop("text"), **own)
    if "reasoning" in own:
        return ReasoningMessage(own.pop("reasoning"), **own)
    return ToolCallMessage(tuple([ToolCall(*call) for call in own.pop("calls")]), **own)
